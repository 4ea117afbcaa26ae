"""Watches that are cut, expire, stall or lag: those that are open, and those to come."""

import json

import pytest

from fixtures.proxy.rules import Match, Rule
from tests.proxy.conftest import Bench
from tests.proxy.wire import Arrived, Client, answer, ask, chunk, chunked, watch

PODS = Match(("watch",), ("pods",))
HEAD, EVENT = chunked(), chunk(b'{"type":"ADDED"}\n')


def opened(bench: Bench, resource: str = "pods") -> tuple[Client, Arrived]:
    client = bench.client()
    client.send(watch(resource))
    arrived = bench.upstream.next()
    arrived.send(HEAD)
    assert client.read(len(HEAD)) == HEAD
    return client, arrived


def passes(client: Client, arrived: Arrived) -> None:
    arrived.send(EVENT)
    assert client.read(len(EVENT)) == EVENT


def test_a_cut_by_its_proper_end(bench: Bench) -> None:
    client, arrived = opened(bench)
    passes(client, arrived)
    nodes, other = opened(bench, "nodes")
    cut = bench.proxy.cut(PODS, how="end")
    assert client.read(5) == b"0\r\n\r\n"
    assert arrived.over.wait(5.0)
    assert [bench.entry(end="cut")["number"]] == cut
    client.send(ask())
    bench.upstream.next().send(answer())
    assert client.status() == 200
    passes(nodes, other)
    again, upstream = opened(bench)
    passes(again, upstream)


def test_a_cut_by_a_reset(bench: Bench) -> None:
    client, arrived = opened(bench)
    passes(client, arrived)
    bench.proxy.cut(PODS, how="reset")
    assert client.ends() == "reset"
    assert arrived.over.wait(5.0)


def test_a_cut_within_an_event_is_a_reset(bench: Bench) -> None:
    client, arrived = opened(bench)
    big = chunk(b"x" * 200_000)
    arrived.send(big[:100_000])
    client.read(50_000)
    bench.proxy.cut(PODS, how="end")
    assert client.ends() == "reset"


def test_a_watch_that_has_expired_must_list_again(bench: Bench) -> None:
    clients = [opened(bench)[0] for _ in range(2)]
    rule = Rule("gone", Match(("watch",), ("pods",), resuming=True), "answer", status=410, message="too old", first=0)
    bench.rules.append("gone")
    assert len(bench.proxy.cut(PODS, how="end", rule=rule)) == 2
    for client in clients:
        assert client.read(5) == b"0\r\n\r\n"
        client.send(watch("pods", "&resourceVersion=7"))
        _, body = client.read_answer()
        assert (json.loads(body)["reason"], json.loads(body)["code"]) == ("Expired", 410)
    client.send(watch("pods", "&resourceVersion=9"))  # each but once
    bench.upstream.next().send(HEAD)
    assert client.read(len(HEAD)) == HEAD


def test_a_list_by_watch_does_not_expire(bench: Bench) -> None:
    bench.rule(Match(("watch",), ("pods",), resuming=True), do="answer", status=410)
    for query in ("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7", "&resourceVersion="):
        client = bench.client()
        client.send(watch("pods", query))
        bench.upstream.next().send(HEAD)
        assert client.read(len(HEAD)) == HEAD


@pytest.mark.parametrize("early", [True, False], ids=["open", "to come"])
def test_a_stalled_watch_is_silent_and_then_complete(bench: Bench, *, early: bool) -> None:
    if early:
        client, arrived = opened(bench)
        passes(client, arrived)
    name = bench.rule(PODS, do="stall")
    if not early:
        client, arrived = opened(bench)
    nodes, other = opened(bench, "nodes")
    assert not any(entry["stage"] == "met" for entry in bench.entries)  # there was nothing to keep back
    arrived.send(EVENT)
    arrived.send(EVENT)
    assert client.silent()
    assert bench.entry("met")["rule"] == name
    passes(nodes, other)
    bench.proxy.remove(name, then="let")
    assert client.read(2 * len(EVENT)) == 2 * EVENT
    passes(client, arrived)


def test_a_stalled_watch_is_dropped(bench: Bench) -> None:
    client, arrived = opened(bench)
    name = bench.rule(PODS, do="stall")
    arrived.send(EVENT)
    bench.entry("met")
    bench.proxy.remove(name, then="drop")
    assert client.ends() == "reset"


@pytest.mark.parametrize("early", [True, False], ids=["open", "to come"])
def test_a_lagging_watch_keeps_its_order(bench: Bench, *, early: bool) -> None:
    if early:
        client, arrived = opened(bench)
    name = bench.rule(PODS, do="pass", delay=0.3)
    if not early:
        client, arrived = opened(bench)
    events = b"".join(chunk(b"%d\n" % number) for number in range(50))
    arrived.send(events)
    assert client.silent(0.15)
    assert client.read(len(events)) == events
    assert bench.entry("met")["rule"] == name
    arrived.send(EVENT)
    bench.proxy.remove(name)
    arrived.send(EVENT)
    assert client.read(2 * len(EVENT)) == 2 * EVENT
    arrived.send(b"0\r\n\r\n")
    assert client.read(5) == b"0\r\n\r\n"
    client.send(ask())
    bench.upstream.next().send(answer())
    assert client.status() == 200


def test_the_end_of_a_lag_brings_all_that_was_late(bench: Bench) -> None:
    client, arrived = opened(bench)
    name = bench.rule(PODS, do="pass", delay=60.0)
    events = b"".join(chunk(b"%d\n" % number) for number in range(50))
    arrived.send(events + b"0\r\n\r\n")
    assert client.silent()
    bench.proxy.remove(name)
    assert client.read(len(events) + 5) == events + b"0\r\n\r\n"
    assert bench.entry()["end"] == "answered"


def test_one_fault_after_another_on_the_same_watch(bench: Bench) -> None:
    client, arrived = opened(bench)
    for _ in range(2):
        name = bench.rule(PODS, do="stall")
        arrived.send(EVENT)
        assert client.silent(0.1)
        assert bench.entry("met", rule=name)
        bench.proxy.remove(name, then="let")
        assert client.read(len(EVENT)) == EVENT
