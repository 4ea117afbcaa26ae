"""RES: whatever fails after Reserve, nothing is left behind."""

from typing import Literal

import pytest

from fixtures import (
    Attempts,
    ConnectionFaults,
    Expect,
    Faults,
    Fences,
    Pool,
    Rival,
    Workload,
    requirement,
)


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


@requirement("RES-6")
@pytest.mark.parametrize("instead", [504, None], ids=["504", "reset"])
def test_a_bind_whose_answer_is_lost_counts_once(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect, instead: int | None
) -> None:
    """A bind that was applied and whose answer was lost is one binding, and its capacity is counted once."""
    node = pool.add_gpu_node(gpus=8)
    lost = workload.pod(gpus=4)

    with connection.binding(lost).answer_lost(instead, first=1) as fault:
        lost.create()
        fault.met()
        expect(lost).bound_to(node)
        fences.backoff()

    beside = workload.pod(gpus=4).create()
    expect(beside).bound_to(node)
    expect(workload.pod(gpus=1).create()).unscheduled("gpu")
    expect(lost).bindings(exactly=1)


@requirement("RES-7")
def test_a_pod_that_a_rival_bound_first_counts_where_it_is(
    pool: Pool, workload: Workload, connection: ConnectionFaults, rival: Rival, fences: Fences, expect: Expect
) -> None:
    """A Pod that somebody else has bound is left alone, and its capacity is counted there and nowhere else."""
    chosen = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with connection.binding(pod).held(first=1) as held:
        pod.create()
        held.met()
        taken = pool.add_gpu_node(gpus=8)
        rival.binds(pod, taken)
        expect(pod).bound_to(taken)
    fences.backoff()
    rival.was_first(pod)

    next_one = workload.pod(gpus=8).create()
    expect(next_one).bound_to(chosen)
    expect(workload.pod(gpus=1).create()).unscheduled("gpu")
    expect(pod).still_bound_to(taken)


@requirement("RES-8")
@pytest.mark.parametrize("applied", [False, True], ids=["late", "answered-late"])
def test_the_space_of_a_slow_bind_is_not_given_away(
    pool: Pool, workload: Workload, connection: ConnectionFaults, expect: Expect, *, applied: bool
) -> None:
    """While a bind is under way for several scheduling cycles, its space is counted, and counted once."""
    node = pool.add_gpu_node(gpus=8)
    slow = workload.pod(gpus=4)

    with connection.binding(slow).held(applied=applied) as held:
        slow.create()
        held.met()
        beside = workload.pod(gpus=4).create()
        expect(beside).tried()
        expect(beside).bound_to(node)
        others = [pod.create() for pod in workload.pods(3, gpus=1)]
        expect(*others).waiting_for("gpu")

    expect(slow).bound_to(node)
    expect(slow).bindings(exactly=1)
    expect(*others).never_bound()


@requirement("RES-9")
@pytest.mark.parametrize("then", ["let", "drop"], ids=["delivered", "dropped"])
def test_a_node_deleted_before_the_bind_holds_nothing(
    pool: Pool,
    workload: Workload,
    connection: ConnectionFaults,
    fences: Fences,
    expect: Expect,
    then: Literal["let", "drop"],
) -> None:
    """A bind under way to a node that is deleted may end there; its replacement lands elsewhere, nothing stays held."""
    deleted = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with connection.binding(pod).held(then=then, first=1) as held:
        pod.create()
        held.met()
        deleted.delete()
        other = pool.add_gpu_node(gpus=8)
        fences.nodes()

    if then == "let":
        expect(pod).bound_to(deleted)
        pod.delete()  # as whoever collects Pods of missing nodes would, and its controller makes another
        pod = workload.pod(gpus=8).create()
    expect(pod).bound_to(other)
    pool.add_again(deleted)
    expect.node(deleted).fully_usable()


@requirement("RES-14")
def test_a_waiting_pod_that_is_being_deleted_is_not_bound(
    pool: Pool, workload: Workload, fences: Fences, expect: Expect
) -> None:
    """A Pod that waits and is being deleted gets no binding request, although there is room for it."""
    leaving, later = workload.pod(gpus=8), workload.pod(gpus=8)
    with leaving.kept_by_finalizer():
        leaving.create()
        expect(leaving).waiting_for()
        seen = fences.on_pods()
        leaving.delete()
        seen.close()

        with expect(leaving).not_asked_to_be_bound():
            later.create()
            expect(later).waiting_for()
            node = pool.add_gpu_node(gpus=16)
            expect(later).bound_to(node)
    expect(leaving).never_bound()


@requirement("RES-14")
def test_a_pod_deleted_during_its_bind_gives_its_space_back(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect
) -> None:
    """A Pod whose bind is refused because it is being deleted is not tried again, and holds nothing."""
    node = pool.add_gpu_node(gpus=8)
    leaving = workload.pod(gpus=8)
    with leaving.kept_by_finalizer():
        with connection.binding(leaving).held(first=1) as held:
            leaving.create()
            held.met()
            seen = fences.on_pods()
            leaving.delete()
            seen.close()

        with expect(leaving).not_asked_to_be_bound():
            fences.backoff()
        expect.node(node).fully_usable()
    expect(leaving).never_bound()


@requirement("RES-11")
@pytest.mark.parametrize("arrives", ["never", "while it is down", "later"], ids=["dropped", "in-between", "delivered"])
def test_a_scheduler_killed_before_the_bind_holds_nothing(
    pool: Pool, workload: Workload, faults: Faults, connection: ConnectionFaults, expect: Expect, arrives: str
) -> None:
    """Killed between reservation and bind, and started again: the Pod is bound once, and nothing else is held."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=4)

    with connection.binding(pod).held(then="drop" if arrives == "never" else "let", first=1) as held:
        pod.create()
        held.met()
        with faults.process.killed():
            if arrives == "while it is down":
                held.over()
                expect(pod).running()

    expect(pod).bound_to(node)
    expect(workload.pod(gpus=5).create()).unscheduled("gpu")
    expect.node(node).fully_usable()
    expect(pod).bindings(exactly=1)


@requirement("RES-13")
def test_one_component_binds(
    pool: Pool, workload: Workload, faults: Faults, attempts: Attempts, expect: Expect
) -> None:
    """Each attempt sends one binding request, declared retries apart, also when the custom binder fails."""
    node = pool.add_gpu_node(gpus=8)
    lucky, unlucky = workload.pod(gpus=1), workload.pod(gpus=1)
    expect(lucky.create()).bound_to(node)

    with faults.bind.denied(unlucky):
        unlucky.create()
        expect(unlucky).bind_refused(at_least=2)

    expect(unlucky).bound_to(node)
    expect(lucky, unlucky).bindings(exactly=1)
    attempts.sent_one_binding_each(lucky, unlucky)


@requirement("RES-18")
@pytest.mark.parametrize("said", [409, None], ids=["done-by-another", "nothing"])
def test_a_bind_that_nobody_did_is_noticed(
    pool: Pool, workload: Workload, connection: ConnectionFaults, expect: Expect, said: int | None
) -> None:
    """A binder that is told that another was first, or nothing, while nobody has bound the Pod, tries again."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)
    binding = connection.binding(pod)

    with binding.answered(said) if said else binding.reset() as fault:
        pod.create()
        fault.met()
        expect(pod).told_why_it_waits()
        expect(pod).not_told_success()
        expect(pod).never_bound()

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)
    expect(pod).told_success()


@requirement("RES-19")
@pytest.mark.parametrize("ending", ["applied", "overtaken", "dropped"])
def test_a_bind_that_was_given_up_settles_on_the_truth(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect, ending: str
) -> None:
    """A bind that was given up while it was under way is one binding, whatever becomes of it, and counts once."""
    node = pool.add_gpu_node(gpus=8)
    slow = workload.pod(gpus=4)

    late = connection.binding(slow).answered_early(then="drop" if ending == "dropped" else "let", first=1)
    with late as given_up:
        slow.create()
        given_up.met()
        if ending == "overtaken":
            expect(slow).bound_to(node)

    expect(slow).bound_to(node)
    fences.backoff()
    beside = workload.pod(gpus=4).create()
    expect(beside).bound_to(node)
    expect(workload.pod(gpus=1).create()).unscheduled("gpu")
    expect(slow).bindings(exactly=1)


@requirement("RES-20")
def test_a_claim_of_devices_that_cannot_be_written_holds_nothing(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """A Pod whose devices cannot be written down is not bound and holds none; after a heal it is bound once."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with faults.claims.denied(pod) as denied:
        pod.create()
        denied.met()
        other = workload.pod(gpus=8).create()
        expect(other).bound_to(node)
        other.delete()
        denied.met(at_least=3)
        expect(pod).not_told_success()
        expect(pod).never_bound()

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)
    expect(pod).owning_devices()


@requirement("RES-21")
def test_a_volume_that_is_never_provisioned_holds_nothing(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """A Pod that has waited in vain for its volume gives its space back, and is bound once when the volume is there."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=4)

    with faults.volumes.never_provisioned(pod) as volume:
        pod.create()
        volume.given_up()
        other = workload.pod(gpus=8).create()
        expect(other).bound_to(node)
        expect(pod).not_told_success()
        expect(pod).never_bound()
        other.delete()

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)
    expect.node(node).fully_usable()
