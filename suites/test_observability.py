"""OBS: what the candidate says about itself is true."""

from fixtures import Candidate, Expect, Faults, Fences, Health, Metrics, Pool, Workload, requirement


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


@requirement("OBS-3")
def test_every_phase_has_durations_of_its_own(
    pool: Pool, workload: Workload, faults: Faults, metrics: Metrics, expect: Expect
) -> None:
    """Once Pods were bound, refused and denied, each extension point they went through has exposed how long it took."""
    nodes = pool.add_gpu_nodes(2, gpus=8)
    denied = workload.pod(gpus=8)

    with faults.bind.denied(denied):
        denied.create()
        expect(denied).bind_refused(at_least=1)
    expect(denied).bound_to(*nodes)
    expect(workload.pod(gpus=9).create()).waiting_for("gpu")

    metrics.durations_of("PreFilter", "Filter", "PostFilter", "PreScore", "Score")
    metrics.durations_of("Reserve", "Permit", "PreBind", "Bind", "PostBind", "Unreserve")


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
    expect(too_large).unscheduled("gpu")
    expect(too_large).told_why_it_waits()


@requirement("OBS-7")
def test_a_bound_member_is_not_a_started_job(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """A gang whose members are bound but not Ready is not reported as started; it is once they are."""
    pool.add_gpu_nodes(2, gpus=8)
    gang = workload.gang(2, gpus=8, unready=True)
    first, second = gang

    gang.create()
    expect.gang(gang).bound()
    expect.gang(gang).says_scheduled()
    expect(first, second).running()
    first.become_ready()
    expect(first).ready()
    fences.on_pods().close()
    expect.gang(gang).not_said_started()

    second.become_ready()
    expect.gang(gang).says_started()
    expect.gang(gang).not_said_started()


@requirement("OBS-8")
def test_metrics_are_refused_without_authorisation(
    pool: Pool, workload: Workload, health: Health, expect: Expect
) -> None:
    """Who shows no token, or one without rights, reads neither metrics nor configuration, unless declared open."""
    node = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=8).create()).bound_to(node)

    health.metrics_refuse_strangers()


@requirement("OBS-8")
def test_health_is_recorded_in_each_fault(
    pool: Pool, workload: Workload, faults: Faults, candidate: Candidate, health: Health, expect: Expect
) -> None:
    """What the health endpoints answer is good while nothing is broken, and recorded while something is."""
    node = pool.add_gpu_node(gpus=8)
    health.good("while idle")
    denied, forbidden, silenced = (workload.pod(gpus=1) for _ in range(3))

    with faults.bind.denied(denied):
        denied.create()
        expect(denied).bind_refused(at_least=1)
        health.recorded("while its bindings are denied")
    with candidate.may_end_loudly(), faults.rights.missing("bind"):
        forbidden.create()
        expect(forbidden).bind_refused(at_least=1)
        health.recorded("without the right to bind")
    with candidate.may_end_loudly(), faults.rights.missing("events") as missing:
        expect(silenced.create()).bound_to(node)
        candidate.is_refused(missing)
        health.recorded("without the right to write events")

    expect(denied, forbidden).bound_to(node)
    health.good("after all was healed")


@requirement("OBS-8")
def test_it_is_not_ready_before_it_can_serve(
    pool: Pool, workload: Workload, faults: Faults, candidate: Candidate, health: Health, expect: Expect
) -> None:
    """While it may not read nodes a candidate that starts is not ready; once it may, it is, and it binds."""
    node = pool.add_gpu_node(gpus=8)

    with faults.rights.missing("nodes") as missing:
        starting = candidate.started_without(missing)
        health.recorded("at a start without the right to read nodes")
        starting.is_not_ready()

    starting.becomes_ready()
    expect(workload.pod(gpus=8).create()).bound_to(node)


@requirement("OBS-9")
def test_conditions_and_events_agree_with_the_facts(
    pool: Pool, workload: Workload, faults: Faults, fences: Fences, expect: Expect
) -> None:
    """Once all has settled, a bound Pod is not said to be unscheduled, nor is an unbound one said to be bound."""
    first = pool.add_gpu_node(gpus=8)
    denied = workload.pod(gpus=4)
    with faults.bind.denied(denied):
        denied.create()
        expect(denied).bind_refused(at_least=2)
    expect(denied).bound_to(first)

    helped = workload.pod(gpus=8).create()
    expect(helped).waiting_for("gpu")
    second = pool.add_gpu_node(gpus=8)
    expect(helped).bound_to(second)
    never_helped = workload.pod(gpus=9).create()
    expect(never_helped).waiting_for("gpu")
    fences.nodes()

    expect(denied, helped, never_helped).reported_as_it_is()


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
