"""RES: a slot has one owner, and whatever fails after Reserve it comes back."""

from collections.abc import Callable
from typing import Literal

import pytest

from fixtures import (
    Attempts,
    ConnectionFault,
    ConnectionFaults,
    Cycles,
    Expect,
    Faults,
    Fences,
    Metrics,
    Pool,
    Requests,
    Workload,
    requirement,
)

Fails = Callable[[Requests], ConnectionFault]
ONCE: dict[str, Fails] = {
    "once": lambda writes: writes.answered(500, first=1),
    "reset": lambda writes: writes.reset(first=1),
    "answer-lost": lambda writes: writes.answer_lost(first=1),
}
LASTING: dict[str, Fails] = {"lasting": lambda writes: writes.answered(403)}


@requirement("RES-3")
def test_a_prebind_that_fails_for_a_while_leaves_nothing_behind(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """While its slots cannot be claimed a Pod holds nothing; once they can it is bound, once."""
    node = pool.add_gpu_node(gpus=8, slots=4)
    pod = workload.pod(gpus=8, slots=1)

    with faults.slots.denied(node):
        pod.create()
        expect.node(node).slot_writes_refused(at_least=3)
        without_slots = workload.pod(gpus=8, network=False, on=node).create()
        expect(without_slots).bound_to(node)
        expect(pod).never_bound()
        without_slots.delete()

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)
    expect.node(node).slots_owned_by(pod)
    pod.delete()
    expect.node(node).fully_usable()


@requirement("RES-3")
@pytest.mark.parametrize("fails", ONCE.values(), ids=ONCE)
def test_a_prebind_that_fails_once_leaves_nothing_behind(
    pool: Pool, workload: Workload, connection: ConnectionFaults, expect: Expect, fails: Fails
) -> None:
    """A Pod whose claim of slots failed once, or was written without an answer, is bound once and owns them once."""
    node = pool.add_gpu_node(gpus=8, slots=4)
    pod = workload.pod(gpus=4, slots=1)

    with fails(connection.slot_writes(node)) as failed:
        pod.create()
        failed.met()
        expect(pod).bound_to(node)

    expect(pod).bindings(exactly=1)
    expect.node(node).slots_owned_by(pod)
    expect.node(node).fully_usable()


@requirement("RES-10")
def test_failures_in_every_phase_leak_nothing(
    pool: Pool,
    workload: Workload,
    faults: Faults,
    connection: ConnectionFaults,
    fences: Fences,
    cycles: Cycles,
    metrics: Metrics,
    expect: Expect,
) -> None:
    """After more than three times as many failed cycles as there are slots, every slot and GPU can be used at once."""
    node = pool.add_gpu_node(gpus=4, slots=4)

    with expect.node(node).holding_nothing_afterwards(), cycles.undone(at_least=4, by="the end of the wait at Permit"):
        timed_out = workload.gang(4, gpus=1, slots=1, minimum=6, waits="briefly").create()
        expect.gang(timed_out).held_back(members=4)
        expect.gang(timed_out).given_up()
        timed_out.delete()

    with expect.node(node).holding_nothing_afterwards(), cycles.undone(at_least=4, by="deletion in the wait at Permit"):
        gangs = [workload.gang(1, gpus=1, slots=1, minimum=2).create() for _ in range(4)]
        deleted = [pod for gang in gangs for pod in gang]
        expect(*deleted).waiting_at_permit()
        for pod in deleted:
            pod.delete()

    with (
        expect.node(node).holding_nothing_afterwards(),
        cycles.undone(at_least=4, by="a failed PreBind"),
        faults.slots.denied(node),
    ):
        unlucky = [pod.create() for pod in workload.pods(4, gpus=1, slots=1)]
        expect.node(node).slot_writes_refused(at_least=4)
        for pod in unlucky:
            pod.delete()

    with (
        expect.node(node).holding_nothing_afterwards(),
        cycles.undone(at_least=4, by="a failed Bind"),
        faults.bind.denied(),
    ):
        unlucky = [pod.create() for pod in workload.pods(4, gpus=1, slots=1)]
        expect(*unlucky).bind_refused(at_least=1)
        for pod in unlucky:
            pod.delete()

    with expect.node(node).holding_nothing_afterwards(), cycles.undone(at_least=4, by="the deletion of the node"):
        unlucky = workload.pods(4, gpus=1, slots=1)
        with connection.binding(*unlucky).held(then="drop") as held:
            for pod in unlucky:
                pod.create()
            held.met(at_least=4)
            node.delete()
            fences.nodes()
        for pod in unlucky:
            pod.delete()
        pool.add_again(node, slots=4)

    with expect.node(node).holding_nothing_afterwards():
        unlucky = workload.pods(4, gpus=1, slots=1)
        with connection.binding(*unlucky).held(then="drop") as held:
            for pod in unlucky:
                pod.create()
            held.met(at_least=4)
            with faults.process.killed():
                for pod in unlucky:
                    pod.delete()
        cycles.cut_short(4, by="SIGKILL between reservation and bind")

    cycles.failed_in_all(at_least=3 * 4)
    lucky = [pod.create() for pod in workload.pods(4, gpus=1, slots=1)]
    expect(*lucky).bound_to(node)
    expect.node(node).slots_owned_by(*lucky)
    metrics.ledger_is(0)


@requirement("RES-12")
def test_a_reserved_slot_is_taken(
    pool: Pool, workload: Workload, faults: Faults, attempts: Attempts, expect: Expect
) -> None:
    """A slot reserved by a Pod that waits at Permit goes to nobody else, whoever reserves and gives back beside it."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    gang = workload.gang(2, slots=1)
    holder, late = gang
    doomed, competitor = workload.pod(slots=1, kind="doomed"), workload.pod(slots=2, kind="competitor")
    gang.declare()
    holder.create()
    expect(holder).waiting_at_permit()
    competitor.create()

    with expect(competitor).kept_out_by(holder):
        with faults.bind.denied(doomed):
            doomed.create()
            expect(doomed).bind_refused(at_least=3)
            doomed.delete()
        attempts.provoke(competitor, times=2)

    late.create()
    expect.gang(gang).bound()
    expect.node(node).slots_owned_by(holder, late)
    expect(competitor).never_bound()
    gang.delete()
    expect(competitor).bound_to(node)


@requirement("RES-15")
@pytest.mark.parametrize("then", ["let", "drop"], ids=["delivered", "dropped"])
def test_the_slots_of_a_pod_deleted_while_the_scheduler_is_down_come_back(
    pool: Pool,
    workload: Workload,
    faults: Faults,
    connection: ConnectionFaults,
    expect: Expect,
    then: Literal["let", "drop"],
) -> None:
    """Slots claimed for a Pod that was deleted before the killed scheduler came back can be used by another."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    pod = workload.pod(slots=2)

    with connection.binding(pod).held(then=then, first=1) as held:
        pod.create()
        held.met()
        expect.node(node).slots_claimed_by(pod)
        with faults.process.killed():
            pod.delete()

    after = workload.pod(slots=2).create()
    expect(after).bound_to(node)
    expect.node(node).slots_owned_by(after)
    expect(pod).never_bound()


@requirement("RES-16")
@pytest.mark.parametrize("instead", [504, None], ids=["504", "reset"])
def test_the_slots_of_a_bind_whose_answer_is_lost_stay_owned(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect, instead: int | None
) -> None:
    """A Pod that was bound without an answer keeps its slots until it ends, and nobody else gets them."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    pod = workload.pod(slots=2)

    with connection.binding(pod).answer_lost(instead, first=1) as lost:
        pod.create()
        lost.met()
        expect(pod).bound_to(node)
        fences.backoff()

    next_one = workload.pod(slots=1).create()
    expect(next_one).unscheduled("slots")
    expect(pod).bindings(exactly=1)
    expect.node(node).slots_kept_by(pod)
    pod.delete()
    expect(next_one).bound_to(node)


@requirement("RES-17")
@pytest.mark.parametrize("fails", (LASTING | ONCE).values(), ids=LASTING | ONCE)
def test_slots_that_could_not_be_given_back_are_given_back_later(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect, fails: Fails
) -> None:
    """Where the write fails that gives slots back after a failed bind, it is done later, and another Pod gets them."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    pod = workload.pod(slots=2)
    with connection.binding(pod).held(then="drop", first=1) as held:
        pod.create()
        held.met()
        expect.node(node).slots_claimed_by(pod)
        seen = fences.on_pods()
        pod.delete()
        seen.close()  # or the end of the Pod, seen late, would be a second occasion to give back

        with fails(connection.slot_writes(node)) as failed:
            held.over()
            failed.met()
            next_one = workload.pod(slots=2).create()
            expect(next_one).tried()

    expect(next_one).bound_to(node)
    expect.node(node).slots_owned_by(next_one)


@requirement("RES-17")
def test_the_slots_of_a_pod_that_ended_while_they_could_not_be_given_back_are_given_back_later(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """Where the slots of a Pod that has ended cannot be given back, that is done later, and another Pod gets them."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    pod, next_one = workload.pod(slots=2).create(), workload.pod(slots=2)
    expect(pod).bound_to(node)

    with faults.slots.denied(node):
        pod.delete()
        expect.node(node).slot_writes_refused(at_least=1)
        next_one.create()
        expect(next_one).waiting_for("slots")

    expect(next_one).bound_to(node)
    expect.node(node).slots_owned_by(next_one)
