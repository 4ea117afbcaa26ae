"""Processes that cannot outlive the run, their logs, and ports to listen on.

Nothing that a `Supervisor` starts survives the runner, whatever ends it: each process carries the run's random token
in its environment (and hands it to its own children), and a small guard process kills every carrier when the runner
is gone.
"""

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from clusters import reaper

# What a process gets from the runner's environment unless told otherwise: no credentials, no proxies, no GOFLAGS.
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")

# Seconds between two looks at a process or a port.
POLL = 0.02
# Seconds a process gets between SIGTERM and SIGKILL.
GRACE = 10.0
TAIL_LINES = 8
TAIL_BYTES = 16384


class ExitedEarly(Exception):
    """A process ended although it was needed. The text has its name, exit code, last log lines and log path."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.code = process.poll()
        lines = "".join(f"\n    {line}" for line in tail(process.log)) or "\n    (its log is empty)"
        super().__init__(f"{process.name} {ending(self.code)}; the last lines of {process.log}:{lines}")


class Process:
    """One running program, leader of its own session. Made by `Supervisor.start`.

    Attributes:
        name: what people call it.
        pid: process id, also the id of its group and session.
        argv: command line.
        log: file that gets its standard output and error (mode 0600, appended to).
        started: `time.monotonic()` of the start.
    """

    def __init__(self, name: str, argv: Sequence[str], log: Path, popen: subprocess.Popen[bytes], token: str) -> None:
        self.name, self.argv, self.log, self.pid = name, list(argv), log, popen.pid
        self.started = time.monotonic()
        self._popen, self._token = popen, token

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal, or None while it runs."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group; nothing where it has ended."""
        # While it is not reaped, its pid cannot be anybody else's.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            TimeoutError: it still runs after `timeout` seconds.
        """
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {timeout} s") from None

    def wait_until(self, ready: Callable[[], bool], timeout: float, what: str = "ready") -> None:
        """Look until `ready()` is true.

        Raises:
            ExitedEarly: the process ended first.
            TimeoutError: not within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self.poll() is not None:
                raise ExitedEarly(self)
            if ready():
                return
            if time.monotonic() > deadline:
                lines = "".join(f"\n    {line}" for line in tail(self.log))
                raise TimeoutError(f"{self.name} is not {what} after {timeout:g} s; the end of {self.log}:{lines}")
            time.sleep(POLL)

    def stop(self, grace: float = GRACE) -> int:
        """End the process and its session: SIGTERM, after `grace` seconds SIGKILL. Returns the exit code."""
        self._terminate()
        with contextlib.suppress(TimeoutError):
            self.wait(grace)
        self.kill()
        return self.wait()

    def kill(self) -> None:
        """Kill the process and what is left of its session at once."""
        self.signal(signal.SIGKILL)
        self.wait()
        reaper.kill_carriers(self._token, self.pid)

    def _terminate(self) -> None:
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)  # a stopped process could not hear it


class Supervisor:
    """Starts processes and sees to it that none is left: on `stop_all`, and by the guard when the runner dies.

    `state` is a private folder (created with mode 0700) that belongs to the processes; it is removed with them.
    Thread-safe.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        state.chmod(0o700)
        self._token = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._processes: list[Process] = []
        self._stopped = False
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd="/", env={}, start_new_session=True,
        )  # fmt: skip
        assert self._guard.stdin  # for the type checker: both are pipes
        assert self._guard.stdout
        self._guard.stdin.write(f"{self._token}\n{state.resolve()}\n".encode())
        self._guard.stdin.flush()
        with self._guard.stdout as answer:
            if answer.readline() != b"ready\n":
                raise RuntimeError("the guard process did not start: nothing would clean up after a crash")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_all()

    @property
    def mark(self) -> dict[str, str]:
        """Environment variable by which the guard knows a process of this run, for one that others start."""
        return {reaper.VARIABLE: self._token}

    def at_death(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Have the guard run a command, after it has killed everything, should the runner die before `stop_all`."""
        assert self._guard.stdin  # for the type checker: it is a pipe
        self._guard.stdin.write(json.dumps({"args": list(argv), "env": dict(env)}).encode() + b"\n")
        self._guard.stdin.flush()

    @property
    def processes(self) -> list[Process]:
        """All processes started so far, ended ones included, in order."""
        with self._lock:
            return list(self._processes)

    def start(
        self, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None,
        log: Path,
    ) -> Process:  # fmt: skip
        """Start a program in its own session.

        `env` is its whole environment; without it, the few variables of `INHERITED`. The run's token is added.

        Raises:
            OSError: the program cannot be executed.
            RuntimeError: `stop_all` was called before.
        """
        chosen = minimal_environment() if env is None else dict(env)
        command = [str(part) for part in argv]
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock:  # so that stop_all never misses a process that is just being started
            if self._stopped:
                raise RuntimeError(f"{name} cannot be started: the supervisor was stopped")
            with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
                popen = subprocess.Popen(
                    command, env=chosen | {reaper.VARIABLE: self._token}, cwd=cwd or self.state,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
            process = Process(name, command, log, popen, self._token)
            self._processes.append(process)
        return process

    def stop_all(self, grace: float = GRACE) -> None:
        """End every process and whatever they started, end the guard, remove `state`. Idempotent.

        All get SIGTERM at once and `grace` seconds together; 0 kills at once.
        """
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        alive = [process for process in self._processes if process.poll() is None]
        if grace > 0:
            for process in reversed(alive):
                process._terminate()  # noqa: SLF001 - the two halves of one mechanism
            deadline = time.monotonic() + grace
            for process in alive:
                with contextlib.suppress(TimeoutError):
                    process.wait(max(0.0, deadline - time.monotonic()))
        for process in alive:
            process.signal(signal.SIGKILL)
        for process in alive:
            process.wait()
        reaper.kill_carriers(self._token)
        shutil.rmtree(self.state, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._guard.communicate(b"done\n")


def minimal_environment() -> dict[str, str]:
    """Return the harmless part of the runner's environment."""
    return {key: os.environ[key] for key in INHERITED if key in os.environ}


def tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def ending(code: int | None) -> str:
    """Say in words how a process ended."""
    if code is None:
        return "is running"
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


_handed_out: set[int] = set()
_ports_lock = threading.Lock()

# Ports to choose from: as many below the ephemeral range, and where that leaves too few (someone widened it), these.
PORTS = 16384
FALLBACK = range(20000, 28000)
FEWEST = 1000
FIRST_UNPRIVILEGED = 1024


def port_range() -> range:
    """Return the ports to choose from: below the range from which outgoing connections take theirs at any moment."""
    try:
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return FALLBACK
    found = range(max(FIRST_UNPRIVILEGED, low - PORTS), low)
    return found if len(found) >= FEWEST else FALLBACK


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free now and was not handed out before in this process.

    Somebody else may still take it before it is used: callers retry where `address_in_use`.

    Raises:
        OSError: no port of the range is free.
    """
    choice = port_range()
    with _ports_lock:
        start = random.randrange(len(choice))  # noqa: S311 - so that two runs rarely meet, not a secret
        for offset in range(len(choice)):
            port = choice[(start + offset) % len(choice)]
            if port in _handed_out:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind((host, port))
                except OSError:
                    continue
            _handed_out.add(port)
            return port
    raise OSError(f"no free port between {choice.start} and {choice.stop - 1} on {host}")


def address_in_use(process: Process) -> bool:
    """Whether the end of the log says that the process lost its port to somebody else."""
    return any("address already in use" in line for line in tail(process.log))
