"""GANG: members run together or not at all."""

import pytest

from fixtures import ConnectionFaults, Expect, Faults, Fences, Pool, Workload, requirement

INTERNAL_ERROR = 500


@requirement("GANG-1")
def test_the_last_member_comes_late(pool: Pool, workload: Workload, expect: Expect) -> None:
    """While one member is missing none is bound; once it is there all are, within the bind window."""
    pool.add_gpu_nodes(2, gpus=8)
    gang = workload.gang(4, gpus=4)
    *early, late = gang
    gang.declare()
    for member in early:
        member.create()
    expect.gang(gang).held_back(members=3)
    expect.gang(gang).none_bound()

    late.create()

    expect.gang(gang).bound()


@requirement("GANG-1")
def test_room_for_the_last_member_comes_late(pool: Pool, workload: Workload, expect: Expect) -> None:
    """While there is no room for one member none is bound; once there is all are, within the bind window."""
    pool.add_gpu_nodes(2, gpus=8)
    gang = workload.gang(3, gpus=8).create()
    expect.gang(gang).held_back(members=2)
    expect.gang(gang).none_bound()

    pool.add_gpu_node(gpus=8)

    expect.gang(gang).bound()


@requirement("GANG-2")
@pytest.mark.nightly
def test_a_gang_without_room_gives_everything_back(pool: Pool, workload: Workload, expect: Expect) -> None:
    """With room for two of three members all are given up in time, others use the room, and retries back off."""
    node = pool.add_gpu_node(gpus=8)
    gang = workload.gang(3, gpus=4, waits="briefly").create()
    expect.gang(gang).held_back(members=2)

    expect.gang(gang).given_up()
    expect.gang(gang).nominated_nowhere()

    for _ in range(3):
        others = [pod.create() for pod in workload.pods(2, gpus=4)]
        expect(*others).bound_to(node)
        for pod in others:
            pod.delete()
    expect.gang(gang).given_up()
    expect.gang(gang).none_bound()
    expect.gang(gang).retried_within_backoff_law()


@requirement("GANG-3")
def test_two_gangs_arrive_interleaved_and_one_fits(pool: Pool, workload: Workload, expect: Expect) -> None:
    """Of two gangs whose members arrive in turn, where there is room for one, one runs, and the other after it."""
    pool.add_gpu_node(gpus=8)
    one, other = gangs = [workload.gang(4, gpus=2).declare() for _ in range(2)]

    for members in zip(one, other, strict=True):
        for member in members:
            member.create()

    first = expect.one_gang_bound(*gangs)
    second = other if first is one else one
    expect.gang(second).none_bound()
    first.delete()
    expect.gang(second).bound()


@requirement("GANG-3")
def test_two_gangs_wait_for_the_same_room(pool: Pool, workload: Workload, expect: Expect) -> None:
    """Two gangs that have waited while half of the room for one was free: when there is room for one, one runs."""
    pool.add_gpu_node(gpus=4)
    one, other = gangs = [workload.gang(4, gpus=2).declare() for _ in range(2)]
    for members in zip(one, other, strict=True):
        for member in members:
            member.create()
    for gang in gangs:
        expect.gang(gang).held_back(members=1)
        expect.gang(gang).none_bound()

    pool.add_gpu_node(gpus=4)

    first = expect.one_gang_bound(*gangs)
    expect.gang(other if first is one else one).none_bound()


@requirement("GANG-4")
def test_one_bind_fails_once(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect
) -> None:
    """When the bind of one member fails once the gang is whole again, and nobody is bound twice."""
    node = pool.add_gpu_node(gpus=12)
    gang = workload.gang(3, gpus=4)
    unlucky = gang.members[-1]

    with connection.binding(unlucky).answered(INTERNAL_ERROR, first=1) as failed:
        gang.create()
        failed.met()
        fences.backoff()
    gang.make_up()

    expect.gang(gang).bound()
    expect(*gang).bindings(exactly=1)
    expect.node(node).fully_usable()


@requirement("GANG-4")
def test_one_bind_fails_for_a_while(pool: Pool, workload: Workload, faults: Faults, expect: Expect) -> None:
    """While the bind of one member fails the others are as declared; once it does no longer the gang is whole."""
    node = pool.add_gpu_node(gpus=12)
    gang = workload.gang(3, gpus=4)
    unlucky = gang.members[-1]

    with faults.bind.denied(unlucky):
        gang.create()
        expect(unlucky).bind_refused(at_least=1)
        expect.gang(gang).follows_its_bind_policy(unlucky)
    gang.make_up()

    expect.gang(gang).bound()
    expect.node(node).fully_usable()


@requirement("GANG-5")
@pytest.mark.usefixtures("connection")
def test_a_waiting_member_is_deleted_and_created_again(
    pool: Pool, workload: Workload, fences: Fences, expect: Expect
) -> None:
    """Who was deleted while it waited counts no more: the gang is bound with the one in its place, and not before."""
    node = pool.add_gpu_node(gpus=12)
    gang = workload.gang(3, gpus=4)
    *early, late = gang
    gang.declare()
    for member in early:
        member.create()
    expect.gang(gang).held_back(members=2)

    replaced = early[0]
    replaced.delete()
    replaced.create()
    fences.backoff()
    expect.gang(gang).none_bound()

    late.create()
    expect.gang(gang).bound()
    expect.node(node).fully_usable()


@requirement("GANG-6")
def test_killed_while_members_wait(
    pool: Pool, workload: Workload, faults: Faults, fences: Fences, expect: Expect
) -> None:
    """Killed while members wait for the last one, and started again: none is bound before it comes, then all are."""
    pool.add_gpu_nodes(3, gpus=8)
    gang = workload.gang(3, gpus=8)
    *early, late = gang
    gang.declare()
    for member in early:
        member.create()
    expect.gang(gang).held_back(members=2)

    with faults.process.killed():
        pass
    fences.on_pods().close()
    expect.gang(gang).none_bound()

    late.create()
    expect.gang(gang).bound()


@requirement("GANG-6")
def test_killed_while_members_are_bound(
    pool: Pool, workload: Workload, faults: Faults, connection: ConnectionFaults, expect: Expect
) -> None:
    """Killed when all but one member are bound, and started again: the last one follows, and none is bound twice."""
    node = pool.add_gpu_node(gpus=12)
    gang = workload.gang(3, gpus=4)
    last = gang.members[-1]

    with connection.binding(last).held(then="drop", first=1) as held:
        gang.create()
        held.met()
        expect.gang(gang).bound_but_for(last)
        with faults.process.killed():
            pass

    expect.gang(gang).bound()
    expect(*gang).bindings(exactly=1)
    expect.node(node).fully_usable()


@requirement("GANG-6")
@pytest.mark.nightly
def test_a_restart_does_not_make_the_wait_endless(
    pool: Pool, workload: Workload, faults: Faults, expect: Expect
) -> None:
    """Killed in mid-wait, and started again: the members are given up after the gang's timeout at the latest."""
    node = pool.add_gpu_node(gpus=8)
    gang = workload.gang(2, gpus=4, minimum=3, waits="a while").create()
    expect.gang(gang).held_back(members=2)

    with faults.process.killed():
        expect.gang(gang).still_waits()

    expect.gang(gang).given_up()
    expect(workload.pod(gpus=8).create()).bound_to(node)


@requirement("GANG-7")
def test_a_fragmented_pool_does_not_stop_small_pods(pool: Pool, workload: Workload, expect: Expect) -> None:
    """A gang that fits nowhere, though there are GPUs enough in all, does not block Pods that fit."""
    large, small = pool.add_gpu_node(gpus=5), pool.add_gpu_node(gpus=3)
    gang = workload.gang(2, gpus=4).create()
    expect.gang(gang).held_back(members=1)

    others = [pod.create() for pod in workload.pods(4, gpus=1)]

    expect(*others).bound_to(large, small)
    expect.gang(gang).none_bound()


@requirement("GANG-8")
def test_members_finish_one_by_one(pool: Pool, workload: Workload, fences: Fences, expect: Expect) -> None:
    """When members have finished one by one the others stay, and others use the room that became free."""
    nodes = pool.add_gpu_nodes(3, gpus=8)
    gang = workload.gang(3, gpus=8).create()
    expect.gang(gang).bound()
    expect(*gang).running()

    first, second, _ = gang
    for ended in ((first,), (first, second)):
        ended[-1].finish("Succeeded")
        fences.on_pods().close()
        expect.gang(gang).survives(*ended)

    expect(*[pod.create() for pod in workload.pods(2, gpus=8)]).bound_to(*nodes)
    expect.gang(gang).survives(first, second)


@requirement("GANG-8")
@pytest.mark.nightly
def test_the_rest_of_a_gang_outlives_its_timeout(
    pool: Pool, workload: Workload, fences: Fences, expect: Expect
) -> None:
    """When the gang's timeout has passed since a member finished, the others are still there."""
    pool.add_gpu_nodes(2, gpus=8)
    gang = workload.gang(2, gpus=8, waits="briefly").create()
    expect.gang(gang).bound()
    expect(*gang).running()

    ended, _ = gang
    ended.finish("Succeeded")
    fences.on_pods().close()
    clock = workload.gang(2, gpus=4, minimum=3, waits="briefly").create()
    expect.gang(clock).given_up()

    expect.gang(gang).survives(ended)


@requirement("GANG-9")
def test_the_status_of_a_gang_is_true_at_every_step(
    pool: Pool, workload: Workload, faults: Faults, fences: Fences, expect: Expect
) -> None:
    """What is said of a gang is so in every recorded state: members wait, fail to be bound, run, leave, come again."""
    pool.add_gpu_nodes(3, gpus=8)
    gang = workload.gang(3, gpus=8, unready=True)
    *early, last = gang
    gang.declare()
    for member in early:
        member.create()
    expect.gang(gang).held_back(members=2)

    with faults.bind.denied(last):
        last.create()
        expect(last).bind_refused(at_least=2)
    gang.make_up()
    expect.gang(gang).bound()
    expect.gang(gang).says_scheduled()

    expect(*gang).running()
    for member in gang:
        member.become_ready()
    expect(*gang).ready()
    fences.on_pods().close()
    last.delete()
    expect.gang(gang).says_scheduled_no_longer()
    gang.make_up()
    expect.gang(gang).bound()
    expect.gang(gang).says_scheduled()
    expect.gang(gang).reported_as_it_is()
