"""RES: whatever fails after Reserve, nothing is left behind."""

from fixtures import Expect, Faults, Pool, Workload, requirement


@requirement("RES-4")
def test_a_bind_denied_for_a_while_leaves_nothing_behind(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """After refused bindings and a heal the Pod is bound once and every GPU can be used again."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=4)

    with faults.bind.denied(pod):
        pod.create()
        expect(pod).bind_refused(at_least=3)
        expect(pod).not_told_success()

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)
    expect.node(node).fully_usable()


@requirement("RES-5")
def test_a_doomed_pod_does_not_starve_others(pool: Pool, workload: Workload, faults: Faults, expect: Expect) -> None:
    """A Pod whose bind is always denied gives its space to one that can be bound."""
    node = pool.add_gpu_node(gpus=8)
    doomed = workload.pod(gpus=8, kind="doomed")

    with faults.bind.denied(doomed):
        doomed.create()
        expect(doomed).bind_refused(at_least=1)

        other = workload.pod(gpus=8).create()
        expect(other).bound_to(node)
        expect(doomed).never_bound()
