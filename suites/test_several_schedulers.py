"""CONF, DEP-5: replicas of one scheduler, and several schedulers on the same nodes and slots."""

from typing import Literal

import pytest

from fixtures import (
    ConnectionFaults,
    Expect,
    Faults,
    Fences,
    Pool,
    Profiles,
    Replicas,
    Rival,
    Twin,
    Workload,
    requirement,
)


@requirement("CONF-1")
def test_the_standby_writes_nothing(
    pool: Pool, workload: Workload, replicas: Replicas, fences: Fences, expect: Expect
) -> None:
    """While the leader lives, refusing and binding Pods, the standby writes nothing; once it has ended, it binds."""
    node = pool.add_gpu_node(gpus=8)
    fences.nodes()  # or else all may be refused, and a large one be tried first
    bound, refused = workload.pods(4, gpus=2), workload.pods(2, gpus=8)

    for pod in [*bound, *refused]:
        pod.create()
    expect(*bound).bound_to(node)
    expect(*refused).waiting_for("gpu")
    replicas.standby_has_written_nothing()

    replicas.leader_is_stopped()
    replicas.standby_takes_over(because="the leader was stopped")
    bound[0].finish("Succeeded")
    expect(workload.pod(gpus=2).create()).bound_to(node)


@requirement("CONF-2")
@pytest.mark.parametrize("then", ["let", "drop"], ids=["delivered", "dropped"])
def test_a_killed_leader_is_followed(
    pool: Pool,
    workload: Workload,
    faults: Faults,
    connection: ConnectionFaults,
    replicas: Replicas,
    expect: Expect,
    then: Literal["let", "drop"],
) -> None:
    """The standby takes over within the lease's bound, counts the last binding of the dead leader, and repeats none."""
    node = pool.add_gpu_node(gpus=8)
    first, last = workload.pod(gpus=2), workload.pod(gpus=2)
    expect(first.create()).bound_to(node)

    with connection.binding(last).held(then=then, first=1) as held:
        last.create()
        held.met()
        with faults.process.killed():
            held.settled()
            replicas.standby_takes_over(because="the leader was killed")

            expect(last).bound_to(node)
            beside = workload.pod(gpus=4).create()
            expect(beside).bound_to(node)
            expect(workload.pod(gpus=1).create()).unscheduled("gpu")
            expect(first, last, beside).bindings(exactly=1)


@requirement("CONF-3")
def test_a_thawed_leader_stands_down(
    pool: Pool, workload: Workload, faults: Faults, connection: ConnectionFaults, replicas: Replicas, expect: Expect
) -> None:
    """A leader frozen past its lease stands down once thawed; nothing is bound twice, no node runs more than it can."""
    node = pool.add_gpu_node(gpus=8)
    late = workload.pod(gpus=4)

    with connection.binding(late).held(first=1) as held:
        late.create()
        held.met()
        with faults.process.frozen():
            replicas.standby_takes_over(because="the leader was frozen")
            expect(late).bound_to(node)
            beside, beyond = workload.pod(gpus=4), workload.pod(gpus=4, kind="beyond")
            expect(beside.create()).bound_to(node)
            expect(beyond.create()).waiting_for("gpu")
        replicas.deposed_leader_stands_down()

    expect(beyond).waiting_or_refused_by_its_node()
    expect(late, beside).running()
    replicas.late_writes_are_counted(late, beside, beyond)


@requirement("CONF-4")
def test_room_that_a_rival_has_taken_is_taken(
    pool: Pool, workload: Workload, rival: Rival, fences: Fences, expect: Expect
) -> None:
    """Beside another scheduler the candidate counts what that has bound: its Pod waits, with the reason."""
    node = pool.add_gpu_node(gpus=8)
    seen = fences.on_pods()

    theirs = rival.fills(node)
    seen.close()
    ours = workload.pod(gpus=8).create()

    expect(ours).unscheduled("gpu")
    theirs.finish("Succeeded")
    expect(ours).bound_to(node)


@requirement("CONF-4")
def test_of_two_pods_on_one_place_one_runs(
    pool: Pool, workload: Workload, connection: ConnectionFaults, rival: Rival, fences: Fences, expect: Expect
) -> None:
    """Where a rival binds to the same place first, the node refuses the candidate's Pod; room is counted rightly."""
    node = pool.add_gpu_node(gpus=8)
    ours = workload.pod(gpus=8)

    with connection.binding(ours).held(first=1) as held:
        ours.create()
        held.met()
        theirs = rival.fills(node)

    expect(theirs).running()
    expect(ours).waiting_or_refused_by_its_node()
    fences.backoff()
    expect(workload.pod(gpus=1).create()).unscheduled("gpu")
    theirs.finish("Succeeded")
    expect.node(node).fully_usable()


@requirement("DEP-5")
def test_slots_taken_since_filter_are_refused(
    pool: Pool, workload: Workload, connection: ConnectionFaults, twin: Twin, expect: Expect
) -> None:
    """Slots that somebody else has taken between Filter and bind are refused by the claim; the Pod is tried again."""
    node = pool.add_gpu_node(gpus=8, slots=2)
    ours = workload.pod(gpus=1, slots=2)
    theirs = workload.pod(gpus=1, slots=2, scheduler=twin.scheduler_name, kind="theirs")

    with connection.slot_writes(node).held(first=1) as held:
        ours.create()
        held.met()
        expect(theirs.create()).bound_to(node)

    expect(ours).unscheduled("slots")
    expect.node(node).slots_owned_by(theirs)
    theirs.finish("Succeeded")
    expect(ours).bound_to(node)
    expect.node(node).slots_owned_by(ours)


@requirement("CONF-5")
def test_two_schedulers_never_own_one_slot(
    pool: Pool, workload: Workload, connection: ConnectionFaults, twin: Twin, expect: Expect
) -> None:
    """Two schedulers that claim the last slot at once: one of them owns it, and the Pod of the other waits."""
    node = pool.add_gpu_node(gpus=8, slots=1)
    ours = workload.pod(gpus=1, slots=1)
    theirs = workload.pod(gpus=1, slots=1, scheduler=twin.scheduler_name, kind="theirs")

    with connection.slot_writes(node).held(first=2) as held:
        ours.create()
        theirs.create()
        held.met(at_least=2)

    expect(ours, theirs).bound_as_far_as(1)
    expect.node(node).slots_never_oversold()


@requirement("CONF-5")
def test_two_schedulers_share_what_there_is(
    pool: Pool, workload: Workload, connection: ConnectionFaults, twin: Twin, expect: Expect, seed: int
) -> None:
    """However their claims overtake each other, all slots come to be owned, and none by two."""
    nodes = [pool.add_gpu_node(gpus=8, slots=4) for _ in range(2)]
    ours = [workload.pod(gpus=1, slots=1) for _ in range(6)]
    theirs = [workload.pod(gpus=1, slots=1, scheduler=twin.scheduler_name, kind="theirs") for _ in range(6)]

    with connection.slot_writes(*nodes).delayed(0.2, rate=0.5, seed=seed) as overtaken:
        for pods in zip(ours, theirs, strict=True):
            for pod in pods:
                pod.create()
        overtaken.met()
        expect(*ours, *theirs).bound_as_far_as(8)

    for node in nodes:
        expect.node(node).slots_never_oversold()


@requirement("CONF-6")
def test_two_profiles_of_one_process_are_served(
    pool: Pool, workload: Workload, profiles: Profiles, expect: Expect
) -> None:
    """Pods of both profiles are bound, and count for each other; different queue orders are refused at the start."""
    node = pool.add_gpu_node(gpus=8)
    first, second = workload.pod(gpus=4), workload.pod(gpus=4, scheduler=profiles.second)

    expect(first.create()).bound_to(node)
    expect(second.create()).bound_to(node)
    beyond = workload.pod(gpus=1).create(), workload.pod(gpus=1, scheduler=profiles.second).create()
    expect(*beyond).unscheduled("gpu")

    profiles.another_queue_sort_is_refused()
    first.finish("Succeeded")
    expect(*beyond).bound_to(node)
