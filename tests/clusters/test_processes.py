"""Nothing that a run starts survives it, and ports do not collide."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from clusters import processes, reaper
from clusters.processes import ExitedEarly, Supervisor, address_in_use, free_port, port_range, tail
from tests.programs import ended


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "state") as started:
        yield started


def alive(pid: int) -> bool:
    """Whether it runs; an ended one that nobody has reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def eventually(true: Callable[[], object], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def said(log: Path, word: str) -> bool:
    return any(word in line for line in tail(log))


def test_a_process_has_a_private_log_and_only_the_environment_it_is_given(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_RUNNER", "x")
    log = tmp_path / "logs" / "env.log"
    old = os.umask(0)
    try:
        supervisor.start("env", ["/usr/bin/env"], env={"A": "1"}, log=log).wait(5)
        supervisor.start("env", ["/usr/bin/env"], log=tmp_path / "default.log").wait(5)
    finally:
        os.umask(old)

    names = {line.partition("=")[0] for line in tail(log)}
    assert names == {"A", reaper.VARIABLE}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(supervisor.state.stat().st_mode) == 0o700
    assert "SECRET_OF_THE_RUNNER" not in (tmp_path / "default.log").read_text()
    assert "PATH=" in (tmp_path / "default.log").read_text()


def test_no_file_of_the_runner_leaks_into_a_process(supervisor: Supervisor, tmp_path: Path) -> None:
    process = supervisor.start("ls", ["/bin/sh", "-c", "ls /proc/$$/fd"], log=tmp_path / "log")
    process.wait(5)

    # dash opens nothing else; a leaked end of the guard's pipe would hide the runner's death from it.
    assert set(tail(tmp_path / "log")) <= {"0", "1", "2"}


def test_stopping_reaches_children_in_other_sessions_and_those_that_ignore_it(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    script = "setsid sleep 100 & (trap '' TERM; sleep 100) & trap '' TERM; echo ready; wait; sleep 100"
    process = supervisor.start("stubborn", ["/bin/bash", "-c", script], log=tmp_path / "log")
    assert eventually(lambda: said(process.log, "ready"))
    assert eventually(lambda: len(reaper.carriers(supervisor._token)) >= 3)

    supervisor.stop_all(grace=0.2)

    assert process.poll() == -signal.SIGKILL
    assert reaper.carriers(supervisor._token) == []
    assert not supervisor.state.exists()
    assert supervisor._guard.returncode == 0


def test_stop_ends_the_whole_session_of_one_process_only(supervisor: Supervisor, tmp_path: Path) -> None:
    other = supervisor.start("other", ["sleep", "100"], log=tmp_path / "other.log")
    process = supervisor.start("sh", ["/bin/sh", "-c", "sleep 100 & echo $!; exec sleep 100"], log=tmp_path / "log")
    assert eventually(lambda: tail(process.log))
    child = int(tail(process.log)[0])

    assert process.stop(grace=1) == -signal.SIGTERM

    assert eventually(lambda: not alive(child))
    assert other.poll() is None


def test_a_frozen_process_can_be_stopped_in_order(supervisor: Supervisor, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    process = supervisor.start("sh", ["/bin/sh", "-c", script], log=tmp_path / "log")
    assert eventually(lambda: said(process.log, "ready"))
    process.signal(signal.SIGSTOP)

    assert process.stop(grace=5) == 7
    assert said(process.log, "bye")


def test_a_process_outlives_the_thread_that_started_it(supervisor: Supervisor, tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: supervisor.start("sleep", ["sleep", "100"], log=tmp_path / "log"))
    thread.start()
    thread.join()
    (process,) = supervisor.processes

    with pytest.raises(TimeoutError, match="sleep still runs after"):
        process.wait(0.1)


def test_nothing_can_be_started_after_the_end(tmp_path: Path) -> None:
    supervisor = Supervisor(tmp_path / "state")
    supervisor.stop_all()
    supervisor.stop_all()

    with pytest.raises(RuntimeError, match="late cannot be started"):
        supervisor.start("late", ["sleep", "1"], log=tmp_path / "log")


RUNNER = """
    import sys, time
    from pathlib import Path
    from clusters.processes import Supervisor

    supervisor = Supervisor(Path(sys.argv[1]) / "state")
    log = Path(sys.argv[1]) / "log"
    supervisor.start("tree", ["bash", "-c", "setsid setsid sleep 100 & sleep 100 & echo ready; wait"], log=log)
    while not log.read_text():
        time.sleep(0.01)
    print(supervisor._token, supervisor._guard.pid, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_survives_the_runner(number: signal.Signals, tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(RUNNER), str(tmp_path)], cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    with ended(started) as runner:
        assert runner.stdout
        token, guard = runner.stdout.readline().split()
        assert len(reaper.carriers(token)) >= 2
        for ignored in (signal.SIGTERM, signal.SIGINT):
            os.kill(int(guard), ignored)

        runner.send_signal(number)
        runner.wait(5)

    assert eventually(lambda: not reaper.carriers(token), 2)
    assert eventually(lambda: not alive(int(guard)), 2)
    assert not (tmp_path / "state").exists()


def test_an_early_end_is_told_with_code_and_last_lines(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = supervisor.start("broken", ["/bin/sh", "-c", "echo no such flag; exit 3"], log=log)

    with pytest.raises(ExitedEarly) as caught:
        process.wait_until(lambda: False, timeout=5)

    assert "broken exited with code 3" in str(caught.value)
    assert "no such flag" in str(caught.value)
    assert str(log) in str(caught.value)


def test_waiting_ends_in_time(supervisor: Supervisor, tmp_path: Path) -> None:
    process = supervisor.start("idle", ["sleep", "100"], log=tmp_path / "log")

    with pytest.raises(TimeoutError, match=r"idle is not listening after 0\.1 s"):
        process.wait_until(lambda: False, timeout=0.1, what="listening")
    process.wait_until(lambda: True, timeout=0.1)


@pytest.mark.parametrize(
    ("code", "words"),
    [(None, "is running"), (0, "exited with code 0"), (-9, "was killed by SIGKILL"), (-99, "was killed by signal 99")],
)
def test_an_ending_is_put_in_words(code: int | None, words: str) -> None:
    assert processes.ending(code) == words


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * processes.TAIL_BYTES + b"\n" + b"caf\xe9\nlast")

    assert tail(log, 2) == ["caf\ufffd", "last"]
    assert tail(tmp_path / "none") == []


def test_ports_are_free_below_the_ephemeral_range_and_never_given_twice() -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(50)]

    assert len(set(ports)) == 50
    assert low - len(port_range()) >= 1024
    assert all(port < low for port in ports)


def test_a_taken_port_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(processes, "port_range", lambda: range(port, port + 1))
        with pytest.raises(OSError, match="no free port"):
            free_port()


def test_a_widened_ephemeral_range_leaves_some_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "1024\t65535\n")

    assert port_range() == processes.FALLBACK


def test_a_lost_port_is_recognised_at_the_end_of_the_log(supervisor: Supervisor, tmp_path: Path) -> None:
    message = "listen tcp 127.0.0.1:20000: bind: address already in use"
    lost = supervisor.start("lost", ["/bin/sh", "-c", f"echo '{message}'; exit 1"], log=tmp_path / "lost.log")
    other = supervisor.start("other", ["/bin/sh", "-c", f"echo '{message}'; seq 100; exit 1"], log=tmp_path / "o.log")
    lost.wait(5)
    other.wait(5)

    assert address_in_use(lost)
    assert not address_in_use(other)
