"""What a scenario says of the connection becomes a rule, is seen to bite, and is seen to be gone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from candidates.sections.workload import SlotOwners
from clusters.kube import Json, Kube
from fixtures.arrange.pool import Node
from fixtures.arrange.workloads import Pod
from fixtures.bounds import Bounds
from fixtures.faults.base import Fault
from fixtures.faults.connection import ConnectionFaults
from fixtures.observe.history import History
from fixtures.observe.timeline import NotYet, Timeline
from fixtures.proxy.client import Proxy
from fixtures.proxy.rules import Rule
from fixtures.scenario import Scenario, broken, told
from fixtures.verdicts import Inconclusive, SuiteError
from tests.proxy.conftest import Bench
from tests.proxy.test_process import Somewhere
from tests.proxy.wire import Client, answer, ask, bind, chunked, watch

FORBIDDEN = answer(b'{"kind":"Status","reason":"Forbidden","message":"no","code":403}', "403 Forbidden")


class Played:
    """A scenario as far as faults of the connection ask it, with the real timeline and proxy."""

    namespace, faults_off, last_change = "ns", False, 0.0
    bounds = Bounds(max_backoff=0.1)
    descriptor: Any = None

    def __init__(self, timeline: Timeline, proxy: Proxy | None, cluster: Somewhere) -> None:
        self.timeline, self.proxy, self.cluster = timeline, proxy, cluster
        self.faults: list[Fault] = []
        self.names = 0

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}-{self.names}"

    def step(self, phase: str, text: str) -> None:
        self.timeline.record("step", phase=phase, text=text)

    def within(self, bound: float, expected: str, probe: Callable[[History], Any]) -> Any:
        try:
            return self.timeline.eventually(probe, bound / 10)
        except NotYet as seen:
            raise broken(expected, str(seen), []) from None


@pytest.fixture
def played(bench: Bench, tmp_path: Path) -> Iterator[Played]:
    timeline = Timeline(cast("Kube", None), tmp_path / "history", watched=())
    before = bench.proxy._record, bench.proxy._zero
    bench.proxy._record = lambda entry: timeline.record("request", **entry)
    bench.proxy._zero = timeline.start_monotonic
    bench.upstream.answers = lambda raw: FORBIDDEN if b"proxy-probe" in raw else answer(b"{}", "201 Created")
    yield Played(timeline, bench.proxy, Somewhere(tmp_path, bench.upstream.url, bench.upstream.authority))
    bench.proxy._record, bench.proxy._zero = before
    timeline.stop()


@pytest.fixture
def connection(played: Played) -> ConnectionFaults:
    return ConnectionFaults(cast("Scenario", played))


@pytest.fixture
def pod(played: Played) -> Pod:
    manifest: Json = {"metadata": {"name": "pod"}}
    return Pod(manifest, cast("Scenario", played))


@pytest.fixture
def client(bench: Bench) -> Client:
    return bench.client("candidate/scheduler")


def test_a_held_binding(played: Played, connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).held() as held:
        client.send(bind("another"))
        assert client.status() == 201
        client.send(bind("pod"))
        (entry,) = held.met()
        assert told(entry.data) == "create pods/binding pod of candidate/scheduler: hold, not sent on"
        assert client.silent()
    assert client.status() == 201
    witness = held.witness(played.timeline.history())
    assert witness is not None
    assert (witness.entries, witness.detail) == ((entry,), "1 requests met it")
    assert played.faults == [held]
    phases = [entry.data["phase"] for entry in played.timeline.history().of("fault")]
    assert phases == ["injected", "healed"]


def test_healing_is_seen_by_a_request_that_arrives(
    bench: Bench, played: Played, connection: ConnectionFaults, pod: Pod
) -> None:
    with connection.binding(pod).answered(500):
        pass
    arrived = bench.upstream.next()
    assert arrived.raw.startswith(b"POST /api/v1/namespaces/ns/pods/pod/binding HTTP/1.1\r\n")
    assert b"Bearer token of proxy-probe" in arrived.raw
    (entry,) = played.timeline.history().of("request")
    assert (entry.data["instance"], entry.data["upstream"]) == ("suite/proxy-probe", 403)


@pytest.mark.parametrize(
    ("meant", "line"),
    [
        (lambda c: c.writes(), b"POST /api/v1/pods "),
        (lambda c: c.lease_renewals(), b"PUT /api/v1/leases/proxy-probe "),
        (lambda c: c.requests(), b"GET /api/v1/pods/proxy-probe "),
        (lambda c: c.requests("list", to=["nodes"]), b"GET /api/v1/nodes "),
        (lambda c: c.requests("patch", to=["pods/status"], names=["p"]), b"PATCH /api/v1/pods/p/status "),
    ],
)
def test_the_request_that_must_arrive_is_one_of_those_meant(
    bench: Bench, connection: ConnectionFaults, meant: Callable[[ConnectionFaults], Any], line: bytes
) -> None:
    with meant(connection).reset():
        pass
    assert bench.upstream.next().raw.startswith(line)


def test_what_does_not_arrive_after_healing_is_our_fault(
    bench: Bench, played: Played, connection: ConnectionFaults, pod: Pod
) -> None:
    bench.rule(do="answer", status=503)
    with pytest.raises(SuiteError, match="does not arrive: 503"), connection.binding(pod).answered(500):
        pass
    assert played.faults


def test_a_request_that_came_before_the_rule_stood_has_not_passed_by_it(
    played: Played, connection: ConnectionFaults, pod: Pod, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert played.proxy
    add = played.proxy.add

    def add_late(rule: Rule) -> None:
        client.send(bind("pod"))
        assert client.status() == 201
        add(rule)

    monkeypatch.setattr(played.proxy, "add", add_late)
    with connection.binding(pod).answered(500) as fault, pytest.raises(Inconclusive, match="0 requests"):
        fault.met()


def test_a_request_that_passed_by_is_no_bite(connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).answered(500, first=0) as fault:
        client.send(bind("pod"))
        assert client.status() == 201
        with pytest.raises(Inconclusive, match="1 such requests passed by it"):
            fault.met()


def test_a_request_that_never_comes_is_no_bite(played: Played, connection: ConnectionFaults, pod: Pod) -> None:
    with connection.binding(pod).answered(500) as fault, pytest.raises(Inconclusive, match="0 requests"):
        fault.met()
    assert fault.witness(played.timeline.history()) is None


def test_after_the_first_so_many_others_may_pass(connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).answered(500, first=1) as fault:
        for status in (500, 201):
            client.send(bind("pod"))
            assert client.status() == status
        assert len(fault.met()) == 1
        with pytest.raises(Inconclusive, match="1 requests of the candidate have met"):
            fault.met(at_least=2)


def test_as_many_backoff_steps_are_waited_for_as_lie_between_so_many_requests(
    played: Played, connection: ConnectionFaults, pod: Pod, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.bounds = Bounds(initial_backoff=3.0, max_backoff=12.0)  # its fourth request comes after 3 + 6 + 12 s
    waited: list[float] = []

    def too_long(bound: float, expected: str, probe: Callable[[History], Any]) -> Any:  # noqa: ARG001
        waited.append(bound)
        raise broken(expected, "nothing", [])

    monkeypatch.setattr(played, "within", too_long)
    with connection.binding(pod).answered(429, retry_after=1) as throttled:
        for at_least in (1, 4):
            with pytest.raises(Inconclusive):
                throttled.met(at_least)
    assert waited[0] == played.bounds.wake
    assert waited[1] > 3 + 6 + 12


@pytest.mark.parametrize(
    ("method", "written"), [("PUT", "networkslots"), ("PUT", "networkslots/status"), ("DELETE", "networkslots")]
)
def test_owners_of_slots_may_be_written_into_the_status_or_deleted(
    played: Played, connection: ConnectionFaults, client: Client, method: str, written: str
) -> None:
    owners = SlotOwners(resource="example.com/v1/networkslots", list="status.owners", uid="uid", amount="slots")
    played.descriptor = SimpleNamespace(workload=SimpleNamespace(slots=SimpleNamespace(owners=owners)))
    path = "/apis/example.com/v1/networkslots/node-1" + "/status" * written.endswith("status")
    with connection.slot_writes(Node("node-1", 8, cast("Scenario", played))).answered(409) as refused:
        client.send(ask(method, path, b"{}"))
        assert client.status() == 409
        (entry,) = refused.met()
    assert entry.data["resource"] == written


def test_where_a_share_is_met_the_others_may_pass(connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).delayed(0.0, rate=0.5, seed=0) as delayed:  # draws 0.84, 0.76, 0.42
        for _ in range(2):
            client.send(bind("pod"))
            assert client.status() == 201
        with pytest.raises(Inconclusive, match="0 requests of the candidate have met"):  # it has waited for one
            delayed.met()
        client.send(bind("pod"))
        assert len(delayed.met()) == 1
        assert client.status() == 201


def test_a_lost_answer(bench: Bench, connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).answer_lost(504, first=1) as fault:
        client.send(bind("pod"))
        assert client.status() == 504
        fault.met()
        assert bench.upstream.next().raw == bind("pod")
    with connection.binding(pod).answer_lost():
        client.send(bind("pod"))
        assert client.ends() == "reset"
        assert bench.upstream.next()


def test_with_faults_off_nothing_is_met(played: Played, connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    played.faults_off = True
    with connection.binding(pod).held() as held:
        client.send(bind("pod"))
        assert client.status() == 201
        with pytest.raises(Inconclusive, match="passed by"):
            held.met()


def test_an_expired_watch(bench: Bench, played: Played, connection: ConnectionFaults, client: Client) -> None:
    bench.upstream.answers = lambda raw: FORBIDDEN if b"proxy-probe" in raw else chunked()
    client.send(watch("pods"))
    client.read(len(chunked()))
    with connection.watch("pods").expired() as fault:
        assert client.read(5) == b"0\r\n\r\n"
        client.send(watch("pods", "&resourceVersion=9"))
        assert client.status() == 410
        assert len(fault.met(at_least=2)) == 2
        client.send(watch("pods", "&resourceVersion=10"))
        client.read(len(chunked()))
    witness = fault.witness(played.timeline.history())
    assert witness is not None
    assert [entry.data.get("end") or entry.data["do"] for entry in witness.entries] == ["cut", "answer"]


def test_a_dropped_watch(bench: Bench, connection: ConnectionFaults, client: Client) -> None:
    bench.upstream.answers = lambda raw: FORBIDDEN if b"proxy-probe" in raw else chunked()
    client.send(watch("nodes"))
    client.read(len(chunked()))
    with connection.watch("nodes").dropped():
        assert client.read(5) == b"0\r\n\r\n"
        for _ in range(2):
            client.send(watch("nodes"))
            assert client.status() == 503
    client.send(watch("nodes"))
    assert client.read(len(chunked())) == chunked()


def test_a_scenario_without_a_proxy_is_told_how_to_get_one(played: Played) -> None:
    played.proxy = None
    with pytest.raises(SuiteError, match="fixture `connection`"):
        ConnectionFaults(cast("Scenario", played))


def test_other_requests_are_no_business_of_a_fault(connection: ConnectionFaults, pod: Pod, client: Client) -> None:
    with connection.binding(pod).hung():
        client.send(ask())
        assert client.status() == 201
