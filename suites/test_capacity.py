"""CAP: GPUs are counted right under churn, and none is sold twice."""

import random

from fixtures import Attempts, Churn, Expect, Faults, Fences, Pool, Workload, requirement


@requirement("CAP-4")
def test_churn_never_overcommits_a_node(
    pool: Pool, workload: Workload, faults: Faults, churn: Churn, seed: int, expect: Expect
) -> None:
    """Under arrivals, departures, ends and refused bindings no node is ever bound beyond its allocatable."""
    pool.add_gpu_nodes(3, gpus=8)
    dice = random.Random(seed)  # noqa: S311 - replayed, not secret
    unlucky = workload.pod(gpus=4)

    with faults.bind.denied(unlucky):
        unlucky.create()
        for _ in range(40):
            workload.pod(gpus=dice.choice([1, 1, 1, 4, 8])).create()
            churn.one_departure(dice, most=24)
        expect(unlucky).bind_refused(at_least=1)

    churn.happened(bound=20, deleted=3, finished=3)
    churn.no_overcommit()


@requirement("CAP-5")
def test_gpus_lost_while_in_use(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """Allocatable below use takes no further GPU Pod, still takes CPU-only Pods, and recovers without a restart."""
    node = pool.add_gpu_node(gpus=8)
    running = workload.pod(gpus=4).create()
    expect(running).bound_to(node)

    node.set_allocatable(gpus=2)
    fences.nodes()
    waiting = workload.pod(gpus=1).create()
    expect(waiting).waiting_for("gpu")
    cpu_only = workload.pod(on=node).create()
    expect(cpu_only).bound_to(node)
    expect(waiting).never_bound()

    node.set_allocatable(gpus=8)
    expect(waiting).bound_to(node)
    expect.node(node).fully_usable()
    expect(running).still_bound_to(node)


@requirement("CAP-6")
def test_single_gpu_pods_fill_nodes_exactly(pool: Pool, workload: Workload, expect: Expect) -> None:
    """As many single-GPU Pods as there are GPUs are bound, and one more stays unscheduled."""
    nodes = pool.add_gpu_nodes(3, gpus=8)

    fitting = workload.pods(24, gpus=1)
    for pod in fitting:
        pod.create()
    expect(*fitting).bound_to(*nodes)
    one_more = workload.pod(gpus=1).create()

    expect(one_more).unscheduled("gpu")
    expect(one_more).never_bound()


@requirement("CAP-3")
def test_devices_of_one_claim_share_their_domain(
    pool: Pool, workload: Workload, attempts: Attempts, expect: Expect
) -> None:
    """Two and two free GPUs of two domains do not satisfy a Pod that wants four of one; four of one do."""
    node = pool.add_gpu_node(gpus=8)
    in_both_domains = [workload.pod(gpus=2, together=True) for _ in range(4)]
    for pod in in_both_domains:
        expect(pod.create()).bound_to(node)
    expect(*in_both_domains).owning_devices(together=True)
    one_domain, other_domain = expect(*in_both_domains).by_domain()
    one_domain[0].delete()
    other_domain[0].delete()

    waiting = workload.pod(gpus=4, together=True).create()
    expect(waiting).waiting_for("gpu")
    attempts.provoke(waiting)
    expect(waiting).never_bound()

    one_domain[1].delete()
    expect(waiting).bound_to(node)
    expect(waiting).owning_devices(together=True)
