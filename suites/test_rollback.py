"""ROLL: a rollback to the original scheduler, or to the previous version, leaves nobody behind and moves nobody."""

from fixtures import (
    Controllers,
    DefaultScheduler,
    Expect,
    Pool,
    Replicas,
    Runbook,
    Versions,
    Workload,
    requirement,
)


@requirement("ROLL-1")
def test_new_pods_of_a_switched_template_go_to_the_original_scheduler(
    pool: Pool,
    workload: Workload,
    controllers: Controllers,
    default_scheduler: DefaultScheduler,
    runbook: Runbook,
    expect: Expect,
) -> None:
    """With its template switched back a Deployment's new Pods go to the original scheduler; Pending ones are listed."""
    pool.add_gpu_node(gpus=8)
    served, waiting = controllers.deployment(1, gpus=2).create(), controllers.deployment(1, gpus=16).create()
    bound, pending = served.pods(), waiting.pods()
    expect(*bound).bound()
    expect(*pending).waiting_for("gpu")

    served.switch_to(default_scheduler.name)
    waiting.switch_to(default_scheduler.name)
    served.scale(2)

    added = served.pods(but=bound)
    expect(*added).naming(default_scheduler.name)
    expect(*added).bound()
    expect(*added).bound_by(default_scheduler.name, default_scheduler.usernames)
    expect(*bound).unmoved()
    expect(*pending).never_bound()
    runbook.lists_unbound(workload.scheduler, *pending)


@requirement("ROLL-2")
def test_pending_pods_of_a_stopped_candidate_are_not_taken_over(
    pool: Pool, workload: Workload, default_scheduler: DefaultScheduler, runbook: Runbook, expect: Expect
) -> None:
    """Pods that wait for a stopped candidate are left alone by the default scheduler, and served when it is back."""
    pool.add_gpu_node(gpus=8)
    pending = workload.pod(gpus=16).create()
    expect(pending).waiting_for("gpu")

    with default_scheduler.alone():
        room = pool.new_gpu_node(gpus=16)
        own = default_scheduler.pod()
        with default_scheduler.tries_nobody_but(own):
            expect(own.create()).bound()
        expect(pending).untouched_by(default_scheduler.name, default_scheduler.usernames)
        expect(pending).never_bound()
        runbook.lists_unbound(workload.scheduler, pending)
        own.delete()

    expect(pending).bound_to(room)


@requirement("ROLL-3")
def test_what_is_recreated_through_its_controller_is_bound_by_the_original_scheduler(
    pool: Pool,
    workload: Workload,
    controllers: Controllers,
    default_scheduler: DefaultScheduler,
    runbook: Runbook,
    expect: Expect,
) -> None:
    """Unbound Pods that their Deployment or Job makes anew are bound by the original scheduler alone."""
    pool.add_gpu_node(gpus=8)
    deployment, job = controllers.deployment(2, gpus=16).create(), controllers.job(1, gpus=16).create()
    expect(*deployment.pods(), *job.pods()).waiting_for("gpu")

    deployment.switch_to(default_scheduler.name)
    job.switch_to(default_scheduler.name)
    with default_scheduler.alone():
        for _ in range(3):
            pool.new_gpu_node(gpus=16)
        anew = [*deployment.recreate(), *job.recreate()]

        expect(*anew).naming(default_scheduler.name)
        expect(*anew).bound()
        expect(*anew).bound_by(default_scheduler.name, default_scheduler.usernames)
        runbook.lists_unbound(workload.scheduler)

    expect(*anew).unmoved()


@requirement("ROLL-4")
def test_bound_pods_do_not_move(
    pool: Pool,
    workload: Workload,
    controllers: Controllers,
    default_scheduler: DefaultScheduler,
    versions: Versions,
    expect: Expect,
) -> None:
    """Through a switched template, a stop, the previous version and back, who is bound stays where it is, and Ready."""
    pool.add_gpu_nodes(2, gpus=8)
    deployment, job = controllers.deployment(2, gpus=2).create(), controllers.job(1, gpus=2).create()
    bound = [*deployment.pods(), *job.pods(), workload.pod(gpus=2).create()]
    expect(*bound).bound()
    expect(*bound).ready()

    deployment.switch_to(default_scheduler.name)
    expect(*bound).unmoved()
    with versions.nobody_serves():
        expect(*bound).unmoved()
        with versions.previous_serves():
            expect(workload.pod(gpus=1, scheduler=versions.served_by_both).create()).bound()
            expect(*bound).unmoved()
    expect(workload.pod(gpus=1).create()).bound()

    expect(*bound).unmoved()


@requirement("ROLL-5")
def test_the_previous_version_serves_what_waits(
    pool: Pool, workload: Workload, versions: Versions, expect: Expect
) -> None:
    """The previous version binds what waits and counts what is bound, and so does today's version after it."""
    served = versions.served_by_both
    node = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=4, scheduler=served).create()).bound_to(node)

    with versions.nobody_serves():
        waiting = workload.pod(gpus=2, scheduler=served).create()
        with versions.previous_serves():
            expect(waiting).bound_to(node)
            expect(workload.pod(gpus=4, scheduler=served).create()).waiting_for("gpu")
        later = workload.pod(gpus=2, scheduler=served).create()

    expect(later).bound_to(node)
    expect(workload.pod(gpus=1, scheduler=served).create()).waiting_for("gpu")
    expect(waiting, later).bindings(exactly=1)


@requirement("ROLL-6")
def test_a_broken_new_version_is_refused_and_the_old_one_serves_on(
    pool: Pool, workload: Workload, versions: Versions, expect: Expect
) -> None:
    """A broken new version ends loudly at its start; the old one serves on, and binds what waited when it returns."""
    node = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=1).create()).bound_to(node)

    versions.broken_ones_are_refused()
    expect(workload.pod(gpus=1).create()).bound_to(node)

    with versions.nobody_serves():
        waiting = workload.pod(gpus=1).create()
        versions.broken_ones_are_refused()
        expect(waiting).never_bound()
    expect(waiting).bound_to(node)
    expect(waiting).bindings(exactly=1)


@requirement("ROLL-7")
def test_old_and_new_version_side_by_side_have_one_leader(
    pool: Pool, workload: Workload, old_and_new: Replicas, expect: Expect
) -> None:
    """A new version beside the previous one, which leads, waits; when that is stopped it binds, and no Pod twice."""
    node = pool.add_gpu_node(gpus=8)
    by_the_old, by_the_new = workload.pods(3, gpus=1), workload.pods(3, gpus=1)

    for pod in by_the_old:
        pod.create()
    expect(*by_the_old).bound_to(node)
    old_and_new.standby_has_written_nothing()
    old_and_new.leader_is_stopped()
    old_and_new.standby_takes_over(because="the previous version was stopped")
    for pod in by_the_new:
        pod.create()
    expect(*by_the_new).bound_to(node)

    expect(*by_the_old).bound_by("the previous version", old_and_new.leader.usernames)
    expect(*by_the_new).bound_by("the new version", old_and_new.standby.usernames)
    expect(*by_the_old, *by_the_new).bindings(exactly=1)


@requirement("ROLL-8")
def test_the_whole_runbook(
    pool: Pool,
    workload: Workload,
    controllers: Controllers,
    default_scheduler: DefaultScheduler,
    versions: Versions,
    runbook: Runbook,
    expect: Expect,
) -> None:
    """The whole runbook in its order: nobody is left behind, nobody moves, and every step is seen to be done."""
    default_scheduler.require_own_process()
    pool.add_gpu_node(gpus=8)
    served, running = controllers.deployment(2, gpus=1).create(), controllers.job(1, gpus=1).create()
    waiting, queued = controllers.deployment(1, gpus=16).create(), controllers.job(1, gpus=16).create()
    straggler = workload.pod(gpus=16, scheduler=versions.served_by_both).create()
    bound, pending = [*served.pods(), *running.pods()], [*waiting.pods(), *queued.pods()]
    expect(*bound).bound()
    expect(*pending, straggler).waiting_for("gpu")

    with runbook.step("See that there is something to go back to"):
        expect(default_scheduler.pod().create()).bound()
        versions.broken_ones_are_refused()
    with runbook.step("Write down what is bound"):
        expect(*bound).unmoved()
    with runbook.step("Stop new Pods"):
        for each in (served, running, waiting, queued):
            each.switch_to(default_scheduler.name)
        served.scale(3)
        expect(*served.pods(but=bound)).naming(default_scheduler.name)
        expect(*served.pods(but=bound)).bound()
    with runbook.step("List the Pods that are not bound"):
        runbook.lists_unbound(workload.scheduler, *pending, straggler)

    with versions.nobody_serves():
        with runbook.step("Stop the candidate"):
            for _ in range(4):
                pool.new_gpu_node(gpus=16)
            expect(default_scheduler.pod().create()).bound()
            expect(*pending, straggler).never_bound()
        with runbook.step("Recreate what is not bound through its controller"):
            anew = [*waiting.recreate(), *queued.recreate()]
            expect(*anew).bound()
            expect(*anew).bound_by(default_scheduler.name, default_scheduler.usernames)
        with runbook.step("Name the stragglers"):
            runbook.names_stragglers(workload.scheduler, straggler)
        with runbook.step("Bring back the previous version for the stragglers"), versions.previous_serves():
            expect(straggler).bound()
        with runbook.step("See that nothing waits for the candidate"):
            runbook.lists_unbound(workload.scheduler)
        with runbook.step("See that what was bound has not moved"):
            expect(*bound, *anew).unmoved()


@requirement("ROLL-9")
def test_a_build_for_a_neighbouring_minor_works_or_refuses_loudly(
    pool: Pool, workload: Workload, versions: Versions, expect: Expect
) -> None:
    """Built for the minor below or above it serves this API server, or says why it does not and binds nothing."""
    node = pool.add_gpu_node(gpus=8)
    expect(workload.pod(gpus=1).create()).bound_to(node)

    def it_schedules() -> None:
        fits, too_large = workload.pod(gpus=2).create(), workload.pod(gpus=9).create()
        expect(fits).bound_to(node)
        expect(fits).bindings(exactly=1)
        expect(too_large).unscheduled("gpu")
        too_large.delete()

    with versions.nobody_serves():
        waiting = workload.pod(gpus=1).create()
        versions.built_for_a_neighbouring_minor(it_schedules)

    expect(waiting).bound_to(node)
    expect(waiting).bindings(exactly=1)
