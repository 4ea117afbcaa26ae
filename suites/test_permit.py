"""RES: a wait at Permit ends in time, and gives everything back."""

import pytest

from fixtures import Expect, Pool, Workload, requirement


@requirement("RES-1")
@pytest.mark.parametrize("comes", [False, True], ids=["never-whole", "whole-later"])
def test_a_wait_at_permit_that_runs_out_of_time_gives_everything_back(
    pool: Pool, workload: Workload, expect: Expect, *, comes: bool
) -> None:
    """Members that wait for one that does not come are refused in time, and another Pod takes what they had."""
    node = pool.add_gpu_node(gpus=12)
    gang = workload.gang(3, gpus=4, waits="briefly")
    *early, late = gang
    gang.declare()
    for member in early:
        member.create()
    expect.gang(gang).held_back(members=2)

    expect.gang(gang).given_up()
    expect.gang(gang).nominated_nowhere()

    other = workload.pod(gpus=12).create()
    expect(other).bound_to(node)
    other.delete()
    expect.gang(gang).none_bound()
    if comes:
        late.create()
        expect.gang(gang).bound()
    else:
        gang.delete()
    expect.node(node).fully_usable()


@requirement("RES-2")
def test_a_pod_deleted_while_it_waits_at_permit_frees_its_room_at_once(
    pool: Pool, workload: Workload, expect: Expect
) -> None:
    """The room of a Pod that is deleted while it waits at Permit goes to another at once, not when its time ends."""
    node = pool.add_gpu_node(gpus=8)
    gang = workload.gang(2, gpus=8, waits="long")
    holder, _ = gang
    gang.declare()
    holder.create()
    expect(holder).waiting_at_permit()
    next_one = workload.pod(gpus=8).create()
    expect(next_one).waiting_for("gpu")

    holder.delete()

    expect(next_one).bound_to(node)
    expect(holder).never_bound()
    next_one.delete()
    expect.node(node).fully_usable()
