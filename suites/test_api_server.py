"""DEP-8 to DEP-11, DEP-13: an API server that is slow, away or throttling, or whose watches break."""

from typing import Literal

import pytest

from fixtures import Candidate, ConnectionFaults, Expect, Faults, Fences, Pool, Rival, Workload, requirement


@requirement("DEP-8")
@pytest.mark.parametrize("seconds", [0.5, 2.0])
def test_slow_writes_cost_time_and_nothing_else(
    pool: Pool, workload: Workload, connection: ConnectionFaults, fences: Fences, expect: Expect, seconds: float
) -> None:
    """With every write answered late, each Pod that fits is bound once, no GPU is given away twice, no Pod is lost."""
    pool.add_gpu_nodes(2, gpus=4)
    fences.nodes()  # or else the first Pods may be refused, and the last be tried first
    fitting, beyond = workload.pods(8, gpus=1), workload.pods(2, gpus=1)

    with connection.writes().delayed(seconds) as slow:
        for pod in [*fitting, *beyond]:
            pod.create()
        slow.met()
        expect(*beyond).waiting_for("gpu")
        expect(*fitting).bound_one_by_one()

    expect(*beyond).never_bound()
    pool.add_gpu_node(gpus=2)
    expect(*beyond).bound()
    expect(*fitting, *beyond).bindings(exactly=1)


@requirement("DEP-9")
@pytest.mark.parametrize("longer", [False, True], ids=["shorter", "longer"])
def test_an_outage_loses_nothing(
    pool: Pool,
    workload: Workload,
    connection: ConnectionFaults,
    candidate: Candidate,
    expect: Expect,
    *,
    longer: bool,
) -> None:
    """An outage shorter than its renew deadline it survives; in a longer one it ends as declared, and then goes on."""
    node = pool.add_gpu_node(gpus=8)
    with candidate.electing(where_it_can=True):
        before, during = workload.pod(gpus=4), workload.pod(gpus=4)
        expect(before.create()).bound_to(node)

        with candidate.may_stand_down(if_so=longer), connection.outage() as outage:
            during.create()
            candidate.is_cut_off(outage, beyond_its_lease=longer)

        candidate.works_again()
        expect(during).bound_to(node)
        expect(workload.pod(gpus=1).create()).unscheduled("gpu")
        expect(before).still_bound_to(node)
        expect(before, during).bindings(exactly=1)


@requirement("DEP-13")
@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize("what", ["stopped", "without-store"])
def test_a_control_plane_that_is_away_loses_nothing(
    pool: Pool,
    workload: Workload,
    faults: Faults,
    candidate: Candidate,
    expect: Expect,
    what: str,
) -> None:
    """With the API server or its store gone for everybody it survives or ends as declared, and then goes on."""
    node = pool.add_gpu_node(gpus=8)
    with candidate.electing(where_it_can=True):
        before, waiting = workload.pod(gpus=4), workload.pod(gpus=8, kind="waiting")
        expect(before.create()).bound_to(node)
        expect(waiting.create()).waiting_for("gpu")

        away = faults.server.stopped() if what == "stopped" else faults.server.without_store()
        with candidate.may_stand_down(if_so=True), away:
            candidate.is_cut_off(away, beyond_its_lease=True)

        candidate.works_again()
        beside = workload.pod(gpus=5).create()
        expect(beside).unscheduled("gpu")
        beside.delete()
        expect(waiting).never_bound()
        expect(before).still_bound_to(node)
        before.finish("Succeeded")
        expect(waiting).bound_to(node)
        expect(before, waiting).bindings(exactly=1)


@requirement("DEP-10")
@pytest.mark.parametrize("how", ["cut", "refused", "relisted", "stalled"])
def test_broken_watches_lose_and_invent_nothing(
    pool: Pool,
    workload: Workload,
    connection: ConnectionFaults,
    rival: Rival,
    fences: Fences,
    expect: Expect,
    how: Literal["cut", "refused", "relisted", "stalled"],
) -> None:
    """What changed while its watches were broken it knows afterwards: no Pod lost, no ghost, nothing over-committed."""
    freed, left, taken = pool.add_gpu_nodes(3, gpus=8)
    old, ghost = workload.pod(gpus=8, on=freed), workload.pod(gpus=16, kind="ghost")
    expect(old.create()).bound_to(freed)
    expect(ghost.create()).waiting_for("gpu")

    with connection.watch().broken(how) as broken:
        left.leave_network()
        old.delete()
        ghost.delete()
        rival.fills(taken)
        new = workload.pod(gpus=8, on=freed).create()
        broken.met()

    expect(new).bound_to(freed)
    fences.nodes()
    with expect(ghost).not_asked_to_be_bound():
        later = workload.pod(gpus=8).create()
        expect(later).unscheduled("network", "gpu")
        wide = pool.add_gpu_node(gpus=16 + 8)  # for both, whoever is tried first
        expect(later).bound_to(wide)
        fences.backoff()


@requirement("DEP-11")
def test_a_throttled_bind_is_not_hurried(
    pool: Pool, workload: Workload, connection: ConnectionFaults, expect: Expect
) -> None:
    """A bind answered 429 is sent again no more often than Retry-After or the backoff law says, and then succeeds."""
    node = pool.add_gpu_node(gpus=8)
    pod = workload.pod(gpus=8)

    with connection.binding(pod).answered(429, retry_after=1) as throttled:
        pod.create()
        throttled.met(at_least=4)
        throttled.not_hurried(retry_after=1)

    expect(pod).bound_to(node)
    expect(pod).bindings(exactly=1)


@requirement("DEP-11")
def test_a_throttling_api_server_loses_no_pod(
    pool: Pool, workload: Workload, connection: ConnectionFaults, expect: Expect
) -> None:
    """Throttled in whatever it asks for, the candidate goes on as soon as it is let: each Pod is bound, once."""
    nodes = pool.add_gpu_nodes(2, gpus=4)
    pods = workload.pods(8, gpus=1)

    with connection.requests().answered(429, retry_after=1) as throttled:
        for pod in pods:
            pod.create()
        throttled.met(at_least=4)

    expect(*pods).bound_to(*nodes)
    expect(*pods).bindings(exactly=1)
