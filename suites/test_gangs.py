"""GANG: members run together or not at all."""

from fixtures import Expect, Pool, Workload, requirement


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


@requirement("GANG-7")
def test_a_fragmented_pool_does_not_stop_small_pods(pool: Pool, workload: Workload, expect: Expect) -> None:
    """A gang that fits nowhere, though there are GPUs enough in all, does not block Pods that fit."""
    large, small = pool.add_gpu_node(gpus=5), pool.add_gpu_node(gpus=3)
    gang = workload.gang(2, gpus=4).create()
    expect.gang(gang).held_back(members=1)

    others = [pod.create() for pod in workload.pods(4, gpus=1)]

    expect(*others).bound_to(large, small)
    expect.gang(gang).none_bound()
