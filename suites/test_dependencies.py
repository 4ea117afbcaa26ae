"""DEP: what the candidate depends on fails."""

from fixtures import ConnectionFaults, DependencyClaims, Expect, Fences, Pool, Workload, requirement


@requirement("DEP-1")
def test_a_failing_dependency_is_no_permission(
    pool: Pool, workload: Workload, dependency: DependencyClaims, expect: Expect
) -> None:
    """Whatever way the dependency fails, a Pod that needs it is not bound, and one that does not need it is."""
    needed = dependency.failing_closed()
    for way in needed.ways:
        with needed.fails(way) as outage:
            node = pool.new_gpu_node(gpus=8)
            node.until_ready()
            waiting = workload.pod(gpus=1, on=node, needs=needed.needs).create()
            outage.met_by(waiting, again=True)

            beside = workload.pod(network=False, on=node).create()
            expect(beside).bound_to(node)
            needed.keeps_waiting(waiting)
            waiting.delete()


@requirement("DEP-2")
def test_a_pod_is_tried_again_after_an_error(
    pool: Pool, workload: Workload, dependency: DependencyClaims, expect: Expect
) -> None:
    """Once the dependency answers again, or now and then, the Pod that met its error is bound without further help."""
    needed = dependency.failing_closed()
    for way in needed.ways_that_are_errors:
        with needed.fails(way) as outage:
            node = pool.new_gpu_node(gpus=8)
            node.until_ready()
            waiting = workload.pod(gpus=1, on=node, needs=needed.needs).create()
            outage.met_by(waiting)

        expect(waiting).bound_to(node)
        expect(waiting).bindings(exactly=1)


@requirement("DEP-3")
def test_a_degradable_pod_goes_on(pool: Pool, workload: Workload, dependency: DependencyClaims, expect: Expect) -> None:
    """A Pod that may go on without the dependency does so while it hangs, and it is said."""
    wished_for = dependency.degradable()
    node = pool.add_gpu_node(gpus=8)

    with wished_for.fails("hang") as outage:
        pod = workload.pod(gpus=1, needs=wished_for.needs).create()
        outage.met_by(pod)

        expect(pod).bound_to(node)
        wished_for.said_to_be_missing(pod)


@requirement("DEP-4")
def test_an_old_snapshot_is_not_trusted(
    pool: Pool, workload: Workload, dependency: DependencyClaims, expect: Expect
) -> None:
    """What the dependency has said is not trusted when it is older than declared; Pods that do not need it go on."""
    source = dependency.snapshot()
    node = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=1, needs=source.needs).create()).bound_to(node)

    with source.frozen():
        source.expired(node)
        waiting = workload.pod(gpus=1, needs=source.needs).create()
        expect(waiting).waiting_for()

        beside = workload.pod(network=False, on=node).create()
        expect(beside).bound_to(node)
        expect(waiting).never_bound()

    expect(waiting).bound_to(node)


@requirement("DEP-6")
def test_a_hard_condition_does_not_end_with_its_extender(
    pool: Pool, workload: Workload, dependency: DependencyClaims, expect: Expect
) -> None:
    """While the extender is down, no Pod runs on a node that the extender would have refused."""
    extender = dependency.failing_closed()
    pool.add_gpu_node(gpus=8, network=False)

    with extender.fails("refused") as outage:
        pod = workload.pod(gpus=8, needs=extender.needs).create()
        outage.met_by(pod)

        extender.holds(pod)

    eligible = pool.add_gpu_node(gpus=8)
    expect(pod).bound_to(eligible)


@requirement("DEP-7")
def test_a_bind_whose_answer_comes_too_late_is_one_bind(
    pool: Pool,
    workload: Workload,
    dependency: DependencyClaims,
    connection: ConnectionFaults,  # noqa: ARG001 - the fence needs it
    fences: Fences,
    expect: Expect,
) -> None:
    """A Pod that its extender has bound, and says so too late, is bound once and not asked to be bound again."""
    binder = dependency.binder()
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with binder.answers_late() as late:
        pod.create()
        expect(pod).bound_to(node)
        with expect(pod).not_asked_to_be_bound():
            late.outwaited(pod, binder.patience)
            fences.backoff()

    expect(pod).bindings(exactly=1)
    expect(workload.pod(gpus=1).create()).unscheduled("gpu")


@requirement("DEP-12")
def test_what_a_slow_dependency_costs(pool: Pool, workload: Workload, dependency: DependencyClaims) -> None:
    """How long Pods wait is recorded against the delay of the dependency and the number of nodes."""
    remote = dependency.remote()
    pool.add_gpu_node(gpus=64)
    for more in (9, 90):
        pool.add_gpu_nodes(more, network=False)
        for milliseconds in (0, 20, 100):
            with remote.slow(milliseconds / 1000) as slowed:
                pods = workload.pods(5, gpus=1)
                remote.latency_recorded(pods, milliseconds=milliseconds)
                slowed.met_by(pods[-1])
