"""OBS: what the candidate says about itself is true."""

from fixtures import Expect, Faults, Metrics, Pool, Workload, requirement


@requirement("OBS-1")
def test_the_gauge_of_pending_pods_equals_the_facts(
    pool: Pool, workload: Workload, metrics: Metrics, expect: Expect
) -> None:
    """Pending Pods are counted in their queue while they wait, and no longer than that, also after gates."""
    node = pool.add_gpu_node(gpus=8)
    metrics.pending_is(0)

    gated = workload.pod(gpus=1, gated=True).create()
    deleted = workload.pod(gpus=1, gated=True).create()
    too_large = workload.pod(gpus=9).create()
    expect(gated, deleted).gated()
    expect(too_large).waiting_for("gpu")
    metrics.pending_is(2, queue="gated")
    metrics.pending_is(3)

    gated.lift_gates()
    deleted.delete()
    expect(gated).bound_to(node)
    metrics.pending_is(0, queue="gated")
    metrics.pending_is(1)

    too_large.delete()
    metrics.pending_is(0)


@requirement("OBS-2")
def test_attempts_are_counted_by_their_result(
    pool: Pool, workload: Workload, faults: Faults, metrics: Metrics, expect: Expect
) -> None:
    """Each forced outcome moves the counter of its result, and no node at all is unschedulable, not an error."""
    with metrics.attempts_counted(unschedulable=1, error=0, scheduled=0):
        pool.say_if_not_empty()
        first = workload.pod(gpus=8).create()
        expect(first).waiting_for()

    with metrics.attempts_counted(scheduled=1, error=0):
        node = pool.add_gpu_node(gpus=8)
        expect(first).bound_to(node)

    with metrics.attempts_counted(unschedulable=1, error=0, scheduled=0):
        expect(workload.pod(gpus=8).create()).waiting_for("gpu")

    denied = workload.pod()
    with faults.bind.denied(denied), metrics.attempts_counted(error=1, scheduled=0):
        denied.create()
        expect(denied).bind_refused(at_least=1)


@requirement("OBS-4")
def test_metrics_are_those_of_the_version(
    pool: Pool, workload: Workload, faults: Faults, metrics: Metrics, expect: Expect
) -> None:
    """Once Pods were bound, refused and denied, every family of the version is there with its labels."""
    node = pool.add_gpu_node(gpus=8)
    denied = workload.pod(gpus=8)

    with faults.bind.denied(denied):
        denied.create()
        expect(denied).bind_refused(at_least=1)
    expect(denied).bound_to(node)
    expect(workload.pod(gpus=8).create()).waiting_for("gpu")

    metrics.match_the_table()


@requirement("OBS-5")
def test_bound_and_ready_are_measured_apart(
    pool: Pool, workload: Workload, faults: Faults, metrics: Metrics, expect: Expect
) -> None:
    """Created to bound and bound to Ready are recorded for every Pod, and the candidate's own figure agrees."""
    node = pool.add_gpu_node(gpus=8)

    small = workload.pods(8, gpus=1)
    for pod in small:
        pod.create()
    expect(*small).bound_to(node)
    expect(*small).running()
    metrics.latency_recorded(*small)

    large = workload.pod(gpus=8)
    with faults.bind.denied(large):
        large.create()
        expect(large).waiting_for("gpu")
        for pod in small:
            pod.delete()
        expect(large).bind_refused(at_least=3)
    expect(large).bound_to(node)
    expect(large).running()
    metrics.latency_recorded(large)


@requirement("OBS-6")
def test_events_tell_the_truth(pool: Pool, workload: Workload, faults: Faults, expect: Expect) -> None:
    """Success is announced only after the binding, and a waiting Pod has a reason."""
    node = pool.add_gpu_node(gpus=8)
    denied = workload.pod(gpus=4)

    with faults.bind.denied(denied):
        denied.create()
        expect(denied).bind_refused(at_least=1)
        expect(denied).told_why_it_waits()
        expect(denied).not_told_success()

    expect(denied).bound_to(node)
    expect(denied).told_success()
    too_large = workload.pod(gpus=9).create()
    expect(too_large).waiting_for("gpu")
    expect(too_large).told_why_it_waits()


@requirement("OBS-10")
def test_ready_on_a_real_node_is_the_workloads_own_word(
    pool: Pool, workload: Workload, metrics: Metrics, expect: Expect
) -> None:
    """The time until the workload answers its own probe counts as bound to Ready, not as scheduling."""
    worker = pool.real_worker(gpus=8)

    pod = workload.probed_pod(gpus=8, on=worker, ready_after=3).create()
    expect(pod).bound_to(worker)
    expect(pod).ready()

    metrics.ready_came_from_the_probe(pod, ready_after=3)
    metrics.latency_recorded(pod)
