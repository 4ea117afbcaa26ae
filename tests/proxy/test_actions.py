"""Every action on requests: in the request's half, which then does not arrive, and in the answer's, which is lost."""

import json
import time
from typing import Any

import pytest

from fixtures.proxy.rules import Match
from tests.proxy.conftest import Bench
from tests.proxy.wire import PATIENCE, answer, ask, bind

BINDINGS = Match(("create",), ("pods/binding",))
ONE = Match(("create",), ("pods/binding",), names=("one",))


def test_a_status_in_the_api_servers_place(bench: Bench) -> None:
    name = bench.rule(BINDINGS, do="answer", status=429, message="slow down", retry_after=3)
    client = bench.client()
    client.send(bind())
    head, body = client.read_answer()
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"Retry-After: 3\r\n" in head
    assert b"Content-Type: application/json\r\n" in head
    status = json.loads(body)
    assert (status["kind"], status["status"], status["code"]) == ("Status", "Failure", 429)
    assert (status["reason"], status["message"]) == ("TooManyRequests", "slow down")
    assert status["details"] == {"retryAfterSeconds": 3}
    assert bench.upstream.nothing_came()
    entry = bench.entry()
    assert (entry["rule"], entry["do"], entry["sent"], entry["upstream"], entry["status"]) == (
        name, "answer", False, 0, 429,
    )  # fmt: skip
    assert bench.entry("met")["number"] == entry["number"]

    client.send(ask())  # the same connection carries what is not meant
    bench.upstream.next().send(answer())
    assert client.status() == 200


def test_applied_and_answered_otherwise(bench: Bench) -> None:
    bench.rule(BINDINGS, do="answer", status=504, applied=True)
    client = bench.client()
    client.send(bind())
    arrived = bench.upstream.next()
    assert arrived.raw == bind()
    assert client.silent()
    arrived.send(answer(b"{}", "201 Created", "Audit-Id: true"))
    assert client.status() == 504
    entry = bench.entry()
    assert (entry["sent"], entry["upstream"], entry["audit"], entry["status"]) == (True, 201, "true", 504)
    assert entry["received"] <= entry["forwarded"] <= entry["answered"]


@pytest.mark.parametrize("applied", [False, True])
def test_a_reset(bench: Bench, *, applied: bool) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    bench.rule(BINDINGS, do="reset", applied=applied)
    client = bench.client()
    client.send(bind())
    assert client.ends() == "reset"
    entry = bench.entry()
    assert (entry["end"], entry["sent"], entry["upstream"]) == ("reset", applied, 201 if applied else 0)
    assert bench.upstream.nothing_came() is not applied
    assert "answered" not in entry


@pytest.mark.parametrize("applied", [False, True])
def test_a_half_closed_connection(bench: Bench, *, applied: bool) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    name = bench.rule(BINDINGS, do="half-close", applied=applied)
    client = bench.client()
    client.send(bind())
    more = client.sealed(bind())
    assert client.ends() == "half-closed"
    for at in range(0, len(more), 100):  # its own half is open: a closed one would refuse the second piece
        client.send_raw(more[at : at + 100])
        bench.proxy.sync()
    assert not any(entry["stage"] == "ended" for entry in bench.entries)
    bench.proxy.remove(name, then="drop")
    entry = bench.entry()
    assert (entry["end"], entry["sent"]) == ("half-closed", applied)


@pytest.mark.parametrize("applied", [False, True])
def test_no_answer_until_the_end(bench: Bench, *, applied: bool) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    name = bench.rule(BINDINGS, do="hang", applied=applied)
    client = bench.client()
    client.send(bind())
    assert client.silent()
    assert bench.entry("met")["sent"] is False  # met when it came
    bench.proxy.remove(name, then="drop")
    assert client.ends() == "reset"
    entry = bench.entry()
    assert (entry["end"], entry["sent"]) == ("dropped", applied)


def test_who_gives_up_a_request_that_is_never_answered(bench: Bench) -> None:
    bench.rule(BINDINGS, do="hang")
    client = bench.client()
    client.send(bind())
    bench.entry("met")
    client.close()
    assert bench.entry()["end"] == "given up"


def test_a_delay_of_the_request(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    bench.rule(BINDINGS, do="pass", delay=0.3)
    client = bench.client()
    client.send(bind())
    assert client.silent(0.15)
    assert bench.upstream.nothing_came()
    assert client.status() == 201
    entry = bench.entry()
    assert entry["forwarded"] - entry["received"] >= 0.3
    assert (entry["rule"], entry["end"]) == ("rule-0", "answered")


def test_a_delay_of_the_answer(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    bench.rule(BINDINGS, do="pass", delay=0.3, applied=True)
    client = bench.client()
    client.send(bind())
    bench.upstream.next()
    assert client.silent(0.15)
    assert client.status() == 201
    entry = bench.entry()
    assert entry["forwarded"] - entry["received"] < 0.3 <= entry["answered"] - entry["forwarded"]


@pytest.mark.parametrize("applied", [False, True])
def test_the_end_of_a_rule_ends_its_delays(bench: Bench, *, applied: bool) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    name = bench.rule(BINDINGS, do="pass", delay=60.0, applied=applied)
    client = bench.client()
    client.send(bind())
    bench.entry("met")
    bench.proxy.remove(name)
    assert client.status() == 201


def test_a_candidate_that_gives_up_a_delayed_request_has_not_sent_it(bench: Bench) -> None:
    bench.rule(BINDINGS, do="pass", delay=60.0)
    client = bench.client()
    client.send(bind())
    bench.entry("met")
    client.close()
    entry = bench.entry()
    assert (entry["end"], entry["sent"]) == ("given up", False)


def test_a_held_request_is_let_go(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    bench.rule(BINDINGS, do="hold")
    client = bench.client()
    client.send(bind())
    number = bench.entry("met")["number"]
    assert client.silent()
    assert bench.upstream.nothing_came()
    assert bench.proxy.settle(number, then="let")
    assert client.status() == 201
    assert bench.upstream.next().raw == bind()
    assert not bench.proxy.settle(number, then="drop")


def test_a_held_request_is_dropped(bench: Bench) -> None:
    bench.rule(BINDINGS, do="hold")
    client = bench.client()
    client.send(bind())
    assert bench.proxy.settle(bench.entry("met")["number"], then="drop")
    assert client.ends() == "reset"
    entry = bench.entry()
    assert (entry["end"], entry["sent"]) == ("dropped", False)
    assert bench.upstream.nothing_came()


def test_a_held_answer(bench: Bench) -> None:
    name = bench.rule(BINDINGS, do="hold", applied=True)
    client = bench.client()
    client.send(bind())
    bench.upstream.next().send(answer(b"{}", "201 Created"))
    assert client.silent()
    bench.proxy.remove(name, then="let")
    assert client.status() == 201


@pytest.mark.parametrize("then", ["let", "drop"])
def test_the_end_of_a_rule_settles_all_that_it_holds(bench: Bench, then: str) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    name = bench.rule(BINDINGS, do="hold")
    clients = [bench.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send(bind(f"pod-{number}"))
        bench.entry("met", name=f"pod-{number}")
    bench.proxy.remove(name, then=then)
    if then == "let":
        assert [client.status() for client in clients] == [201] * 3
    else:
        assert [client.ends() for client in clients] == ["reset"] * 3


def test_a_held_request_outlives_the_candidate(bench: Bench) -> None:
    name = bench.rule(BINDINGS, do="hold")
    client = bench.client()
    client.send(bind())
    bench.entry("met")
    client.die()
    other = bench.client()  # by the time this is served the proxy has noticed
    other.send(ask())
    bench.upstream.next().send(answer())
    assert other.status() == 200
    assert bench.upstream.nothing_came()
    bench.proxy.remove(name, then="let")
    arrived = bench.upstream.next()
    assert arrived.raw == bind()
    arrived.send(answer(b"{}", "201 Created"))
    entry = bench.entry(resource="pods/binding")
    assert (entry["sent"], entry["upstream"]) == (True, 201)


def test_an_applied_request_is_applied_though_the_candidate_gives_up(bench: Bench) -> None:
    bench.rule(BINDINGS, do="answer", status=504, applied=True)
    client = bench.client()
    client.send(bind())
    arrived = bench.upstream.next()
    client.die()
    assert not arrived.over.wait(0.2)
    arrived.send(answer(b"{}", "201 Created"))
    entry = bench.entry()
    assert (entry["upstream"], entry["end"]) == (201, "given up")


def test_the_first_so_many(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    bench.rule(BINDINGS, do="answer", status=500, first=2)
    client = bench.client()
    said = []
    for _ in range(4):
        client.send(bind())
        said.append(client.status())
    assert said == [500, 500, 201, 201]


def test_a_share_by_a_seed_is_the_same_each_time(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created")
    runs = []
    for _ in range(2):
        name = bench.rule(BINDINGS, do="answer", status=500, rate=0.5, seed=7)
        client = bench.client()
        said = []
        for _ in range(40):
            client.send(bind())
            said.append(client.status())
        runs.append(said)
        bench.proxy.remove(name)
    assert runs[0] == runs[1]
    assert 10 < runs[0].count(500) < 30


@pytest.mark.parametrize(
    ("match", "meant"),
    [
        (Match(names=("one",)), [True, False, False, True]),
        (Match(namespaces=("ns",)), [True, True, False, True]),
        (Match(instances=("other",)), [False, False, False, False]),
        (Match(verbs=("get",)), [False, False, True, False]),
        (Match(resources=("bindings",)), [False, False, False, True]),
        (Match(), [True, True, True, True]),
    ],
)
def test_only_what_is_meant_is_met(bench: Bench, match: Match, meant: list[bool]) -> None:
    bench.upstream.answers = lambda _: answer()
    bench.rule(match, do="answer", status=418)
    client = bench.client()
    said = []
    for request in (
        bind("one"),
        bind("two"),
        ask("GET", "/api/v1/nodes/three"),
        ask("POST", "/api/v1/namespaces/ns/bindings", b'{"metadata":{"name":"one"}}'),
    ):
        client.send(request)
        said.append(client.status() == 418)
    assert said == meant


def test_the_rule_that_came_first_is_the_one_that_acts(bench: Bench) -> None:
    bench.rule(ONE, do="answer", status=409)
    bench.rule(BINDINGS, do="answer", status=500)
    client = bench.client()
    client.send(bind("one"))
    assert client.status() == 409
    client.send(bind("two"))
    assert client.status() == 500


def test_a_removed_rule_acts_no_more(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer()
    name = bench.rule(BINDINGS, do="answer", status=500)
    client = bench.client()
    client.send(bind())
    assert client.status() == 500
    bench.proxy.remove(name)
    bench.proxy.remove(name)
    client.send(bind())
    assert client.status() == 200


def test_a_held_request_delays_no_other(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer()
    bench.rule(ONE, do="hold")
    held = [bench.client() for _ in range(20)]
    for client in held:
        client.send(bind("one"))
    other = bench.client()
    started = time.monotonic()
    other.send(bind("two"))
    assert other.status() == 200
    assert time.monotonic() - started < PATIENCE / 2


def test_sync_hands_over_everything_that_has_ended(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer()
    client = bench.client()
    for _ in range(5):
        client.send(bind())
        assert client.status() == 200
    bench.proxy.sync()
    ended: list[dict[str, Any]] = [entry for entry in bench.entries if entry["stage"] == "ended"]
    assert len(ended) == 5
    assert [entry["number"] for entry in ended] == sorted(entry["number"] for entry in ended)


@pytest.mark.parametrize("then", ["let", "drop"])
def test_answered_early(bench: Bench, then: str) -> None:
    name = bench.rule(BINDINGS, do="hold", early=True, status=504)
    client = bench.client()
    client.send(bind())
    assert client.status() == 504
    client.send(ask())  # the same connection carries what comes next
    bench.upstream.next().send(answer())
    assert client.status() == 200
    assert bench.upstream.nothing_came()
    assert not any(entry["stage"] == "ended" and entry.get("rule") == name for entry in bench.entries)

    bench.proxy.remove(name, then=then)
    if then == "let":
        arrived = bench.upstream.next()
        assert arrived.raw == bind()
        arrived.send(answer(b"{}", "201 Created", "Audit-Id: true"))
    entry = bench.entry(rule=name)
    assert (entry["end"], entry["sent"], entry["status"]) == (
        ("answered", True, 504) if then == "let" else ("dropped", False, 504)
    )
    assert entry["upstream"] == (201 if then == "let" else 0)
