"""In front of a dependency: plain HTTP, a port that refuses, bodies of its own, and clients that give up."""

import http.client
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clusters.processes import Supervisor
from fixtures.proxy.dependencies import Dependencies, instance
from fixtures.proxy.rules import Match, Rule
from tests.proxy.wire import PATIENCE

Entries = queue.SimpleQueue[dict[str, Any]]
ITS = Match(instances=(instance("inventory"),))


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))[::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def entries() -> Entries:
    return queue.SimpleQueue()


@pytest.fixture
def dependencies(tmp_path: Path, entries: Entries) -> Iterator[Dependencies]:
    with Supervisor(tmp_path / "state") as supervisor:
        made = Dependencies(
            supervisor, tmp_path / "state" / "dependencies", tmp_path, record=entries.put, broke=print, zero=0.0
        )
        yield made
        made.stop()


def ask(address: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        return send(connection)
    finally:
        connection.close()


def send(connection: http.client.HTTPConnection) -> tuple[int, str]:
    connection.request("POST", "/filter", "abc")
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def entry(entries: Entries, stage: str) -> dict[str, Any]:
    while True:
        found = entries.get(timeout=PATIENCE)
        if found["stage"] == stage:
            return found


def test_it_stands_in_between_and_keeps_its_address(service: str, dependencies: Dependencies, entries: Entries) -> None:
    address = dependencies.through("inventory", service)
    assert address != service
    assert dependencies.through("inventory", f"http://{service}") == address
    assert ask(address) == (200, "cba")
    logged = entry(entries, "ended")
    assert (logged["instance"], logged["target"], logged["upstream"]) == ("dependency/inventory", "/filter", 200)


def test_a_closed_port_refuses_and_is_kept(service: str, dependencies: Dependencies) -> None:
    address = dependencies.through("inventory", service)
    proxy = dependencies.proxy("inventory")
    assert proxy
    proxy.close(instance("inventory"))
    with pytest.raises(ConnectionRefusedError):
        ask(address)
    proxy.open(instance("inventory"))
    proxy.open(instance("inventory"))
    assert ask(address) == (200, "cba")


def test_an_open_connection_ends_with_the_port(service: str, dependencies: Dependencies) -> None:
    connection = http.client.HTTPConnection(dependencies.through("inventory", service), timeout=PATIENCE)
    send(connection)
    proxy = dependencies.proxy("inventory")
    assert proxy
    proxy.close(instance("inventory"))
    with pytest.raises((ConnectionError, http.client.RemoteDisconnected)):
        send(connection)
    connection.close()


def test_it_answers_in_its_own_words(service: str, dependencies: Dependencies) -> None:
    address = dependencies.through("inventory", service)
    proxy = dependencies.proxy("inventory")
    assert proxy
    proxy.add(Rule("garbage", ITS, "answer", status=200, body="<html>ä</html>", first=1))
    assert ask(address) == (200, "<html>ä</html>")
    assert ask(address) == (200, "cba")


def test_who_gives_up_on_a_kept_answer_is_noted(service: str, dependencies: Dependencies, entries: Entries) -> None:
    address = dependencies.through("inventory", service)
    proxy = dependencies.proxy("inventory")
    assert proxy
    proxy.add(Rule("late", ITS, "hold", applied=True))
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    connection.request("POST", "/filter", "abc")
    assert not entry(entries, "met")["sent"]
    connection.close()
    left = entry(entries, "left")
    assert left["rule"] == "late"
    proxy.remove("late", then="let")
    ended = entry(entries, "ended")
    assert (ended["end"], ended["upstream"]) == ("given up", 200)


def test_what_no_process_was_told_has_no_proxy(dependencies: Dependencies) -> None:
    assert dependencies.proxy("inventory") is None
