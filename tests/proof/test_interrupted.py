"""Whatever ends the runner in the middle of a run: a readable record, a report where there was time, and no orphan."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from reports import record
from reports.record import Record, RunVerdict, Verdict
from tests.programs import ended

ROOT = Path(__file__).resolve().parents[2]
# Seconds until nothing of ours may be left, and until the first scenario has surely ended.
GONE, FIRST_RESULT = 2.0, 120.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_in_the_middle_of_a_run(tmp_path: Path, number: signal.Signals) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "pytest", "suites", "--select", "WAKE,HARD", "--results", str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with ended(started) as runner:
        latest = tmp_path / "latest"
        _until(lambda: latest.exists() and _answered(record.read(latest)), FIRST_RESULT)
        # Between two scenarios there is no candidate.
        _until(lambda: {"etcd", "kube-apiserver", "kube-scheduler"} <= _components(runner.pid), FIRST_RESULT)

        runner.send_signal(number)
        printed, _ = runner.communicate(timeout=60)

    run = record.read(latest)
    _until(lambda: not _left(run.run_id), GONE)
    assert run.verdict is RunVerdict.INTERRUPTED
    assert _answered(run)
    if number is not signal.SIGKILL:
        assert runner.returncode == RunVerdict.INTERRUPTED.exit_code
        assert (latest / "signoff.html").exists()
        assert "INTERRUPTED" in printed


def _answered(run: Record) -> bool:
    return any(row.verdict is Verdict.PASS for row in run.requirements)


def _components(pid: int) -> set[str]:
    found = set()
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(process.name())
    return found


def _left(run_id: str) -> list[str]:
    """Return processes whose private folder belongs to the run."""
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if any(f"unreserve-{run_id}" in word for word in process.info["cmdline"] or [])
    ]


def _until(true: Callable[[], object], within: float) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.05)
