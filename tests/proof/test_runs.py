"""Runs go side by side, their clusters start one at a time, and a signal ends them all and leaves what is known."""

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from clusters.progress import Silent
from reports.record import RunVerdict
from tests.proof import proof, prove, runs
from tests.proof.proof import Proof, ProofVerdict
from tests.proof.runs import Case, Ended, Runs
from tests.proof.variants import Variant

FAKE = (sys.executable, str(Path(__file__).with_name("fake_pytest.py")))
# Seconds within which a process of ours is up, and within which nothing may be left.
UP, GONE = 30.0, 2.0
# Seconds that a run would last which is ended before.
LONG = 60.0


def case(folder: Path, name: str, **does: Any) -> Case:
    """One whose candidate makes the fake behave so."""
    return Case(name, {"identity": {"name": "fake"}, "log": str(folder / "log"), **does})


def ran(folder: Path, cases: list[Case], parallel: int = 2) -> dict[str, Ended]:
    ended: list[Ended] = []
    assert Runs(folder / "runs", parallel, "1.37", Silent(), pytest=FAKE).run(cases, ended.append)
    return {each.case.name: each for each in ended}


def told(folder: Path) -> list[tuple[str, str]]:
    """What the fakes wrote, in order: what happened, and to which process."""
    lines = sorted(line.split() for line in (folder / "log").read_text().splitlines())
    return [(what, pid) for _, what, pid in lines]


def test_runs_go_side_by_side_and_their_clusters_start_one_at_a_time(tmp_path: Path) -> None:
    ended = ran(tmp_path, [case(tmp_path, name, start=0.3, beside=2) for name in ("a", "b", "c")])
    assert ended.keys() == {"a", "b", "c"}
    starting, alive, most = set[str](), set[str](), 0
    for what, pid in told(tmp_path):
        if what == "starting":
            assert not starting, "two clusters start at once"
            starting.add(pid)
            alive.add(pid)
        starting.discard(pid) if what == "up" else None
        alive.discard(pid) if what == "ended" else None
        most = max(most, len(alive))
    assert most == 2


def test_a_run_that_leaves_no_record_says_what_it_printed(tmp_path: Path) -> None:
    ended = ran(tmp_path, [case(tmp_path, "a", unborn=True), case(tmp_path, "b")])
    assert ended["a"].record is None
    assert ended["a"].why.startswith("pytest exited with code 4 and left no record: ")
    assert "said by the fake" in ended["a"].why
    assert ended["b"].record
    assert ended["b"].record.verdict is RunVerdict.FAILURE


def test_a_run_that_lasts_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST", 0.2)
    ended = ran(tmp_path, [case(tmp_path, "a", last=LONG)])
    assert ended["a"].why.startswith("stopped after ")


VARIANTS = [Variant(name, "is wrong", {}, {"A-1": "A-1 is fail"}) for name in ("a", "b", "c")]


@pytest.mark.parametrize("signals", [1, 2])
def test_a_signal_ends_all_runs_and_leaves_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signals: int
) -> None:
    does: dict[str, dict[str, Any]] = {"a": {}, "b": {"last": LONG} if signals == 1 else {"stubborn": LONG}, "c": {}}
    cases = [Variant(v.name, v.wrong, case(tmp_path, v.name, **does[v.name]).descriptor, v.caught_by) for v in VARIANTS]
    monkeypatch.setattr(prove, "Runs", functools.partial(Runs, pytest=FAKE))
    proving = prove.Proving(
        tmp_path, kubernetes="1.37", variants=cases, whole={}, broken=set(), full=False, progress=Silent()
    )

    def interrupt() -> None:
        log = tmp_path / "proof" / "b.log"
        _until(lambda: log.exists() and log.read_text())
        for _ in range(signals):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # two at once would count as one

    thread = threading.Thread(target=interrupt)
    thread.start()
    ended = proving.run(parallel=1)
    thread.join()

    assert ended == _read(tmp_path)
    assert ended.verdict is ProofVerdict.INTERRUPTED
    assert [(each.name, each.caught) for each in ended.variants] == [("a", True)]
    assert ended.waiting == ["b", "c"]
    _until(lambda: not _left(tmp_path), GONE)


def _read(folder: Path) -> Proof:
    return proof.read(folder / proof.FILE)


def _left(folder: Path) -> list[str]:
    """Return what still runs there."""
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if any(f"--results={folder}" in word for word in process.info["cmdline"] or [])
    ]


def _until(true: Callable[[], object], within: float = UP) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.05)
