"""Without a rule every byte passes unchanged, whatever the framing and however it is cut into pieces."""

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proxy.conftest import Bench
from tests.proxy.wire import answer, ask, bind, chunk, chunked, watch

HEADER = st.from_regex(r"X-[A-Za-z]{1,8}: [ -~]{0,20}", fullmatch=True)
TOKENS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
PARTS = st.lists(st.binary(min_size=1, max_size=200), max_size=4)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """Return headers and bytes of a body: by length, in chunks with extensions and trailers, or none."""
    match draw(st.sampled_from(["length", "chunks", "none"])):
        case "length":
            body = b"".join(draw(PARTS))
            return [f"{draw(st.sampled_from(['Content-Length', 'content-length']))}: {len(body)}"], body
        case "chunks":
            parts = [part.replace(b"0\r\n\r\n", b"") or b"x" for part in draw(PARTS)]
            extension = draw(st.sampled_from([b"", b";a=b"]))
            framed = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part in parts)
            return ["Transfer-Encoding: chunked"], framed + b"0\r\n\r\n"
        case _:
            return [], b""


@st.composite
def messages(draw: st.DrawFn, first: st.SearchStrategy[str], *, delimited: bool = False) -> bytes:
    headers = [*draw(st.lists(HEADER, max_size=4))]
    framing, body = draw(bodies())
    if delimited and not framing:
        framing = ["Content-Length: 0"]
    return "\r\n".join([draw(first), *headers, *framing, "", ""]).encode() + body


REQUESTS = messages(
    st.builds("{} /{}?x={} HTTP/1.1".format, st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]), TOKENS, TOKENS)
)
ANSWERS = messages(
    st.sampled_from(["HTTP/1.1 200 OK", "HTTP/1.1 201 Created", "HTTP/1.1 404 Not Found"]), delimited=True
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(exchanges=st.lists(st.tuples(REQUESTS, ANSWERS), min_size=1, max_size=3), size=st.integers(1, 300))
def test_bytes_pass_unchanged(bench: Bench, exchanges: list[tuple[bytes, bytes]], size: int) -> None:
    with bench.client() as client:
        for request, answered in exchanges:
            for at in range(0, len(request), size):
                client.send(request[at : at + size])
            arrived = bench.upstream.next()
            assert arrived.raw == request
            for at in range(0, len(answered), size):
                arrived.send(answered[at : at + size])
            assert client.read(len(answered)) == answered


def test_a_connection_carries_one_request_after_another_and_upstream_too(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer()
    before = bench.upstream.connections
    with bench.client() as client:
        for _ in range(20):
            client.send(bind())
            assert client.status() == 200
    assert bench.upstream.connections - before <= 1


def test_a_burst_beside_many_watches_is_served(bench: Bench) -> None:
    bench.upstream.answers = lambda raw: chunked() if b"watch=true" in raw else answer()
    for _ in range(3):
        watches, others = [bench.client() for _ in range(10)], [bench.client() for _ in range(20)]
        for client in watches:
            client.send(watch())
        for client in others:
            client.send(bind())
        for client in watches:
            assert client.read(len(chunked())) == chunked()
        assert [client.status() for client in others] == [200] * 20


def test_a_watch_is_passed_on_event_by_event(bench: Bench) -> None:
    client = bench.client()
    client.send(watch())
    arrived = bench.upstream.next()
    head = chunked()
    arrived.send(head)
    assert client.read(len(head)) == head
    for number in range(3):
        event = chunk(b'{"type":"ADDED","n":%d}\n' % number)
        arrived.send(event)
        assert client.read(len(event)) == event
    arrived.send(b"0\r\n\r\n")
    assert client.read(5) == b"0\r\n\r\n"
    assert bench.entry()["end"] == "answered"
    client.send(ask())  # the connection goes on
    bench.upstream.next().send(answer())
    assert client.status() == 200


def test_a_large_answer_is_streamed(bench: Bench) -> None:
    big = b"0123456789abcdef" * 65536
    bench.upstream.answers = lambda _: answer(big)
    client = bench.client()
    client.send(ask())
    assert client.read_answer()[1] == big
    bench.upstream.answers = lambda _: chunked(big) + b"0\r\n\r\n"
    client.send(ask())
    whole = chunked(big) + b"0\r\n\r\n"
    assert client.read(len(whole)) == whole


def test_an_answer_that_nothing_delimits_ends_with_its_connection(bench: Bench) -> None:
    client = bench.client()
    client.send(ask())
    arrived = bench.upstream.next()
    arrived.send(b"HTTP/1.1 200 OK\r\n\r\nsome text")
    assert client.read(28) == b"HTTP/1.1 200 OK\r\n\r\nsome text"
    arrived.close()
    assert client.ends() == "closed"


@pytest.mark.parametrize("said", ["Connection: close", "connection: Close"])
def test_a_side_that_wants_to_close_is_obeyed(bench: Bench, said: str) -> None:
    bench.upstream.answers = lambda _: answer()
    client = bench.client()
    client.send(ask("GET", "/api/v1/nodes", b"", said))
    assert client.status() == 200
    assert client.ends() == "closed"

    bench.upstream.answers = lambda _: answer(b"{}", "200 OK", said)
    client = bench.client()
    client.send(ask())
    assert client.status() == 200
    assert client.ends() == "closed"


def test_the_head_of_an_answer_to_head_has_no_body(bench: Bench) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    bench.upstream.answers = lambda _: head
    client = bench.client()
    for _ in range(2):
        client.send(ask("HEAD"))
        assert client.read(len(head)) == head


def test_an_api_server_that_breaks_off_is_a_broken_connection(bench: Bench) -> None:
    client = bench.client()
    client.send(bind())
    arrived = bench.upstream.next()
    arrived.send(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nhalf")
    arrived.close()
    client.ends()
    assert bench.entry()["end"] == "upstream lost"


def test_a_kept_connection_that_was_closed_meanwhile_costs_no_read(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer()
    client = bench.client()
    client.send(ask())
    assert client.status() == 200
    bench.upstream.next().close()
    client.send(ask())
    assert client.status() == 200


def test_a_candidate_that_goes_takes_its_request_with_it(bench: Bench) -> None:
    client = bench.client()
    client.send(watch())
    arrived = bench.upstream.next()
    arrived.send(chunked())
    client.close()
    assert arrived.over.wait(5.0)
    assert bench.entry()["end"] == "given up"

    client = bench.client()
    client.send(bind())
    arrived = bench.upstream.next()
    client.die()
    assert arrived.over.wait(5.0)
    assert bench.entry(verb="create")["end"] == "given up"


def test_what_passes_is_logged(bench: Bench) -> None:
    bench.upstream.answers = lambda _: answer(b"{}", "201 Created", "Audit-Id: the-id")
    client = bench.client("candidate/scheduler")
    started = time.monotonic()
    headers = ["User-Agent: me", "Authorization: secret"]
    client.send(ask("POST", "/api/v1/namespaces/ns/pods/p/binding?x=y", b"{}", *headers))
    assert client.status() == 201
    entry = bench.entry()
    times = [started, *(entry.pop(name) for name in ("received", "forwarded", "answered", "at")), time.monotonic()]
    assert times == sorted(times)
    assert entry.pop("number") > 0
    assert entry == {
        "stage": "ended", "instance": "candidate/scheduler", "verb": "create", "resource": "pods/binding",
        "namespace": "ns", "name": "p", "target": "/api/v1/namespaces/ns/pods/p/binding?x=y", "agent": "me",
        "sent": True, "upstream": 201, "audit": "the-id", "status": 201, "end": "answered",
    }  # fmt: skip
    assert "secret" not in str(bench.entries)


@pytest.mark.parametrize(("header", "status"), [("Expect: 100-continue", 417), ("Upgrade: websocket", 501)])
def test_what_cannot_pass_is_refused(bench: Bench, header: str, status: int) -> None:
    client = bench.client()
    client.send(ask("GET", "/", b"", header))
    assert client.status() == status
    assert client.ends() == "closed"


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", b"GET /"])
def test_nonsense_ends_the_connection_and_nothing_else(bench: Bench, raw: bytes) -> None:
    client = bench.client()
    client.send(raw)
    if not raw.endswith(b"\r\n\r\n"):
        client.close()
    else:
        client.ends()
    bench.upstream.answers = lambda _: answer()
    other = bench.client()
    other.send(ask())
    assert other.status() == 200
