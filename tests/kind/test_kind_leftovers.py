"""Whatever ends the runner, nothing of its kind cluster is left: no container, volume, route, process or folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from clusters.kind import machine
from clusters.kind.machine import docker
from tests.kind.conftest import of_run, volumes
from tests.programs import ended

ROOT = Path(__file__).parents[2]
RUNNER = """
import signal, sys
from pathlib import Path
from clusters import kind
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
made = kind.create(sys.argv[1], results=Path(sys.argv[2]))
print("ready", flush=True)
signal.pause()
"""
GONE = 60.0
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda each: each.name)

pytestmark = pytest.mark.usefixtures("usable")


def start(run_id: str, results: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", RUNNER, run_id, str(results)]
    return ended(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))


def eventually(true: Callable[[], object], seconds: float = GONE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


@SIGNALS
def test_a_runner_that_ends_while_kind_is_at_work(tmp_path: Path, number: signal.Signals) -> None:
    run_id = f"making-{os.getpid()}-{number.name.lower()}"
    with start(run_id, tmp_path) as runner:
        eventually(lambda: machine.containers(f"unreserve-{run_id}"))
        runner.send_signal(number)

    eventually(lambda: not machine.containers(f"unreserve-{run_id}"))
    time.sleep(2 * machine.CALM * machine.RESCAN)  # Docker may still be at a request of the client that was killed
    assert machine.containers(f"unreserve-{run_id}") == []
    eventually(lambda: not of_run(run_id))


def test_a_runner_that_is_killed_while_its_cluster_stands(tmp_path: Path) -> None:
    run_id = f"standing-{os.getpid()}"
    with start(run_id, tmp_path) as runner:
        assert runner.stdout
        assert runner.stdout.readline() == b"ready\n"
        assert any("kwok" in each for each in of_run(run_id))
        known = volumes(f"unreserve-{run_id}")
        assert len(known) >= 3
        runner.kill()

    eventually(lambda: not of_run(run_id))
    assert not set(known) & set(docker("volume", "ls", "--quiet").split())
