"""HARD: hard conditions are never softened."""

from fixtures import Attempts, Expect, Fences, Pod, Pool, Tenant, Workload, requirement


@requirement("HARD-1")
def test_only_ineligible_nodes_are_idle(pool: Pool, workload: Workload, attempts: Attempts, expect: Expect) -> None:
    """While only nodes without the required label are idle, the Pod stays unscheduled and says why."""
    eligible = pool.add_gpu_node(gpus=8)
    pool.add_gpu_node(gpus=8, network=False)
    expect(workload.pod(gpus=8).create()).bound_to(eligible)

    waiting = workload.pod(gpus=8).create()
    expect(waiting).unscheduled("network", "gpu")
    attempts.provoke(waiting, times=2)

    expect(waiting).unscheduled("network", "gpu")
    expect(waiting).never_bound()


@requirement("HARD-2")
def test_the_strongest_preference_does_not_win(
    pool: Pool, workload: Workload, attempts: Attempts, expect: Expect
) -> None:
    """A soft preference of weight 100 for an ineligible node does not win over the hard condition."""
    eligible = pool.add_gpu_node(gpus=8)
    ineligible = pool.add_gpu_node(gpus=8, network=False)
    expect(workload.pod(gpus=8).create()).bound_to(eligible)

    waiting = workload.pod(gpus=8, prefers=ineligible).create()
    expect(waiting).waiting_for("network")
    attempts.provoke(waiting, times=2)

    expect(waiting).never_bound()


@requirement("HARD-3")
def test_repeated_failure_relaxes_nothing(pool: Pool, workload: Workload, attempts: Attempts, expect: Expect) -> None:
    """After six further attempts the hard condition is as hard as at first."""
    eligible = pool.add_gpu_node(gpus=8)
    pool.add_gpu_node(gpus=8, network=False)
    expect(workload.pod(gpus=8).create()).bound_to(eligible)

    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("network")
    attempts.provoke(waiting, times=6)

    expect(waiting).waiting_for("network")
    expect(waiting).never_bound()


@requirement("HARD-4")
def test_look_alike_labels_are_not_eligible(pool: Pool, workload: Workload, attempts: Attempts, expect: Expect) -> None:
    """Another case, an empty value, a number, a longer key or value: none makes a node eligible."""
    key, value = pool.hard_label
    pool.add_gpu_node(network=False, labels={key: value.swapcase()})
    pool.add_gpu_node(network=False, labels={key: value.capitalize()})
    pool.add_gpu_node(network=False, labels={key: ""})
    pool.add_gpu_node(network=False, labels={key: "1"})
    pool.add_gpu_node(network=False, labels={key: f"{value}-2"})
    pool.add_gpu_node(network=False, labels={f"{key}-2": value})
    pool.add_gpu_node(network=False, labels={pool.other_case(key): value})

    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("network")
    attempts.provoke(waiting, times=2)

    expect(waiting).never_bound()


@requirement("HARD-5")
def test_the_first_eligible_node_is_taken(pool: Pool, workload: Workload, expect: Expect) -> None:
    """When an eligible node appears the Pod is bound there, and nowhere else before."""
    pool.add_gpu_node(gpus=8, network=False)
    waiting = workload.pod(gpus=8).create()
    expect(waiting).waiting_for("network")

    eligible = pool.add_gpu_node(gpus=8)

    expect(waiting).bound_to(eligible)


@requirement("HARD-6")
def test_a_label_removed_after_binding(
    pool: Pool, workload: Workload, fences: Fences, attempts: Attempts, expect: Expect
) -> None:
    """A label removed after binding evicts nobody, and no later Pod is placed there."""
    node = pool.add_gpu_node(gpus=8)
    running = workload.pod(gpus=4).create()
    expect(running).bound_to(node)
    expect(running).running()

    node.leave_network()
    fences.nodes()

    later = workload.pod(gpus=4).create()
    expect(later).waiting_for("network")
    attempts.provoke(later, times=2)
    expect(later).never_bound()
    expect(running).still_bound_to(node)


@requirement("HARD-7")
def test_a_label_removed_while_the_pod_waits(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A Pod that waits at Permit while its node loses the label is not bound there, but is once the label is back."""
    leaving, staying = pool.add_gpu_nodes(2, gpus=8)
    gang = workload.gang(2, gpus=8, on=[leaving, staying])
    first, second = gang
    gang.declare()
    first.create()
    expect(first).waiting_at_permit()

    leaving.leave_network()
    fences.nodes()
    second.create()
    expect(first).waiting_for("network")
    expect(first).never_bound()

    leaving.join_network()
    expect.gang(gang).bound()


@requirement("HARD-8")
def test_a_label_on_the_pod_is_no_label_on_the_node(
    pool: Pool, workload: Workload, attempts: Attempts, tenant: Tenant, expect: Expect
) -> None:
    """The required key on the Pod itself makes no node eligible, and a tenant cannot label nodes."""
    key, value = pool.hard_label
    pool.add_gpu_node(gpus=8, network=False)

    waiting = workload.pod(gpus=8, labels={key: value}, annotations={key: value}).create()
    expect(waiting).waiting_for("network")
    attempts.provoke(waiting, times=2)

    expect(waiting).never_bound()
    tenant.may_not("patch", "nodes")
    tenant.may_not("update", "nodes")
    tenant.may_not("patch", "nodes/status")


@requirement("HARD-9")
def test_only_a_tainted_node_has_room(pool: Pool, workload: Workload, attempts: Attempts, expect: Expect) -> None:
    """Without the toleration the Pod stays unscheduled; the reason names taint and capacity."""
    free = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=8).create()).bound_to(free)
    pool.new_gpu_node(gpus=8, taint="example.com/maintenance").until_usable()

    waiting = workload.pod(gpus=8).create()
    expect(waiting).unscheduled("taint", "gpu")
    attempts.provoke(waiting, times=2)

    expect(waiting).never_bound()


@requirement("HARD-10")
def test_gpus_of_every_container_count(pool: Pool, workload: Workload, expect: Expect) -> None:
    """GPUs are counted over containers, init containers and sidecars as Kubernetes defines it."""

    def pod_on_a_node_of_four(containers: list[int], init: list[int] | None = None, sidecar: int = 0) -> Pod:
        return workload.pod(
            on=pool.add_gpu_node(gpus=4),
            containers=[workload.container(gpus, name=f"main-{n}") for n, gpus in enumerate(containers)],
            init=[workload.container(sidecar, name="sidecar", sidecar=True)] * (sidecar > 0)
            + [workload.container(gpus, name=f"init-{n}") for n, gpus in enumerate(init or [])],
        )

    exactly_full = [
        pod_on_a_node_of_four([2, 2]),
        pod_on_a_node_of_four([2], init=[4]),
        pod_on_a_node_of_four([3], sidecar=1),
        pod_on_a_node_of_four([1], init=[2], sidecar=2),
    ]
    one_gpu_too_large = [
        pod_on_a_node_of_four([2, 3]),
        pod_on_a_node_of_four([2], init=[5]),
        pod_on_a_node_of_four([3], sidecar=2),
        pod_on_a_node_of_four([1], init=[3], sidecar=2),
    ]
    for pod in exactly_full + one_gpu_too_large:
        pod.create()

    expect(*exactly_full).bound()
    expect(*one_gpu_too_large).unscheduled("gpu")
    expect(*one_gpu_too_large).never_bound()


@requirement("HARD-11")
def test_a_gpu_pod_that_does_not_mention_the_network(
    pool: Pool, workload: Workload, attempts: Attempts, expect: Expect
) -> None:
    """While only nodes outside the network are idle, a GPU Pod that says nothing of the network waits all the same."""
    pool.add_gpu_node(gpus=8, network=False)

    silent = workload.pod(gpus=8, network=False).create()
    expect(silent).waiting_for("network")
    attempts.provoke(silent, times=2)
    expect(silent).never_bound()

    eligible = pool.add_gpu_node(gpus=8)
    expect(silent).bound_to(eligible)
