"""The process itself: known by a word, gone with its runner, and missed when it ends by itself."""

import contextlib
import json
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from clusters.identity import write_kubeconfig
from clusters.kube import Json
from clusters.processes import Process, Supervisor
from clusters.provider import Identity
from fixtures.proxy.behind import Behind, before
from fixtures.proxy.client import Proxy
from fixtures.proxy.rules import Rule
from fixtures.verdicts import SuiteError
from tests.proxy.wire import PATIENCE, Client, Upstream, answer, ask


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "proxy"


def started(supervisor: Supervisor, upstream: Upstream, folder: Path, broke: queue.SimpleQueue[str]) -> Proxy:
    return Proxy(
        supervisor, folder, folder.parents[1] / "log", server=upstream.url, authority=upstream.authority,
        record=lambda _: None, broke=broke.put,
    )  # fmt: skip


def test_it_ends_when_told_and_nobody_is_told_that_it_broke(tmp_path: Path, folder: Path) -> None:
    broke: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, broke)
        url = proxy.listen("a")
        assert proxy.listen("a") == url
        assert proxy.listen("b") != url
        proxy.stop()
        proxy.stop()
        assert proxy.process.poll() is not None
        with pytest.raises(ConnectionRefusedError):
            Client(url, proxy.authority)
    assert broke.empty()


def test_what_it_knows_is_private(tmp_path: Path, folder: Path) -> None:
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, queue.SimpleQueue())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
        credential = json.loads((folder / "proxy.json").read_text())["credential"]
        assert credential not in " ".join(proxy.process.argv)
        proxy.stop()


def test_its_end_is_noticed(tmp_path: Path, folder: Path) -> None:
    broke: queue.SimpleQueue[str] = queue.SimpleQueue()
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, broke)
        proxy.process.signal(signal.SIGKILL)
        assert "fault proxy" in broke.get(timeout=PATIENCE)
        with pytest.raises(SuiteError, match="fault proxy"):
            proxy.add(Rule("a"))
        proxy.stop()


def test_it_ends_with_its_control_connection(tmp_path: Path, folder: Path) -> None:
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, queue.SimpleQueue())
        proxy._socket.shutdown(socket.SHUT_RDWR)
        assert proxy.process.wait(PATIENCE) == 0
        proxy.stop()


def test_nothing_is_left_of_a_runner_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import sys, time
from pathlib import Path
from clusters.processes import Supervisor
from fixtures.proxy.client import Proxy
folder = Path({str(tmp_path)!r})
supervisor = Supervisor(folder / "state")
ca = Path(sys.argv[1]).read_bytes()
proxy = Proxy(supervisor, folder / "state" / "proxy", folder / "log", server="https://127.0.0.1:1", authority=ca,
              record=print, broke=print)
print(proxy.process.pid, flush=True)
time.sleep(60)
"""
    authority = tmp_path / "ca"
    with Upstream(tmp_path) as upstream:
        authority.write_bytes(upstream.authority)
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(authority)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout
        pid = int(runner.stdout.readline())
        process = psutil.Process(pid)
        runner.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        process.wait(PATIENCE)
    assert not psutil.pid_exists(pid)


def test_somebody_without_the_word_is_turned_away(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intruders: list[socket.socket] = []
    create = socket.create_server

    def watched(*where: object, **options: object) -> socket.socket:
        door = create(*where, **options)  # type: ignore[arg-type]
        intruder = socket.create_connection(door.getsockname())
        intruder.sendall(b"let me in\n")
        intruders.append(intruder)
        return door

    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        monkeypatch.setattr("fixtures.proxy.client.socket.create_server", watched)
        proxy = started(supervisor, upstream, folder, queue.SimpleQueue())
        assert intruders[0].recv(100) == b""
        intruders[0].close()
        assert proxy.listen("a")
        proxy.stop()


def test_a_start_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        start = supervisor.start

        def broken(name: str, argv: list[str], **rest: Path) -> Process:
            return start(name, [argv[0], "-c", "raise SystemExit('no luck today')"], log=rest["log"])

        monkeypatch.setattr(supervisor, "start", broken)
        with pytest.raises(SuiteError, match="no luck today"):
            started(supervisor, upstream, folder, queue.SimpleQueue())
        assert all(process.poll() is not None for process in supervisor.processes)


def test_an_order_that_it_does_not_understand_is_our_fault(tmp_path: Path, folder: Path) -> None:
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, queue.SimpleQueue())
        with pytest.raises(SuiteError, match="does not understand"):
            proxy._do("dance")
        assert proxy.listen("a")
        proxy.stop()


class Somewhere:
    """A cluster as far as `Behind` asks it."""

    provider, kubernetes, capabilities, audit_log = "local", "v1.37.2", frozenset[str](), None

    def __init__(self, folder: Path, server: str, authority: bytes) -> None:
        self._folder, self._server, self._authority = folder, server, authority
        self.kubeconfig = write_kubeconfig(
            folder / "admin", server=server, authority=authority, user={"token": "admin"}
        )

    def identity(self, name: str, *, roles: tuple[Json, ...] = ()) -> Identity:  # noqa: ARG002
        user = {"token": f"token of {name}"}
        file = write_kubeconfig(self._folder / name, server=self._server, authority=self._authority, user=user)
        return Identity(name, f"user:{name}", file)


def test_a_candidate_behind_it_has_the_same_token_and_another_server(tmp_path: Path, folder: Path) -> None:
    entries: queue.SimpleQueue[Json] = queue.SimpleQueue()
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        upstream.answers = lambda _: answer(b'{"items":[],"metadata":{"resourceVersion":"1"}}')
        cluster = Somewhere(tmp_path, upstream.url, upstream.authority)
        proxy = before(cluster, supervisor, folder, tmp_path / "log", record=entries.put, broke=print)  # type: ignore[arg-type]
        identity = Behind(cluster, proxy, "candidate").identity("scheduler")  # type: ignore[arg-type]
        assert identity.username == "user:scheduler"
        kube = identity.connect()
        assert kube.list("nodes").items == []
        kube.close()
        assert b"Bearer token of scheduler" in upstream.next().raw
        assert entries.get(timeout=PATIENCE)["instance"] == "candidate/scheduler"
        proxy.stop()


def test_its_times_count_from_the_given_zero(tmp_path: Path, folder: Path) -> None:
    entries: queue.SimpleQueue[Json] = queue.SimpleQueue()
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        upstream.answers = lambda _: answer()
        proxy = Proxy(
            supervisor, folder, tmp_path / "log", server=upstream.url, authority=upstream.authority,
            record=entries.put, broke=print, zero=time.monotonic(),
        )  # fmt: skip
        with Client(proxy.listen("a"), proxy.authority) as candidate:
            candidate.send(ask())
            assert candidate.status() == 200
        entry = entries.get(timeout=PATIENCE)
        assert 0 < entry["received"] <= entry["forwarded"] <= entry["answered"] <= entry["at"] < PATIENCE
        proxy.stop()


def test_many_threads_may_give_orders(tmp_path: Path, folder: Path) -> None:
    with Supervisor(tmp_path / "state") as supervisor, Upstream(tmp_path) as upstream:
        proxy = started(supervisor, upstream, folder, queue.SimpleQueue())
        ports: dict[int, str] = {}
        threads = [
            threading.Thread(target=lambda n=n: ports.__setitem__(n, proxy.listen(f"i{n % 4}"))) for n in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(ports.values())) == 4
        assert all(ports[n] == ports[n % 4] for n in ports)
        proxy.stop()
