"""Runs the cells of a night, each as a pytest of its own, and goes on whatever becomes of one."""

import functools
import os
import secrets
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from clusters.kind import doctor as kind_doctor
from clusters.local import doctor as local_doctor
from clusters.processes import Process, Supervisor, ending, tail
from clusters.progress import Progress
from nightly import index, night
from nightly.night import ROOT, Cell, Night
from reports import record
from reports.record import RecordError, RunVerdict, write_private

PYTEST = (sys.executable, "-m", "pytest", "-v", "-p", "fixtures.plugin", "-p", "reports.plugin")
# Seconds between two looks at the running cells.
TICK = 0.1
# Seconds a cell gets to take down its cluster and draw its reports, once it is asked to stop.
GRACE = 90.0
# What one run needs at its start; measured: one core, later a third of one, and 600 MB.
CORES, MEMORY = 2, 1024**3


def side_by_side() -> int:
    """Return how many cells this machine can run at the same time."""
    return max(1, min(len(os.sched_getaffinity(0)) // CORES, psutil.virtual_memory().available // MEMORY))


@functools.cache
def unavailable(provider: str, kubernetes: str) -> str:
    """Return why a provider cannot be used on this machine, as its doctor says; empty where it can."""
    findings = [*local_doctor.examine(), *(kind_doctor.examine(kubernetes) if provider == "kind" else ())]
    return "; ".join(f"{each.what}: {each.text}" for each in findings if each.state == "missing")


@dataclass
class Running:
    """A cell whose pytest runs."""

    process: Process
    deadline: float
    stopped: str = ""
    """Why it was asked to stop."""

    @property
    def seconds(self) -> float:
        """How long it runs."""
        return time.monotonic() - self.process.started


class Nightly:
    """One night in `results/nightly-<id>`: its record and its page are on disk from the beginning."""

    def __init__(
        self, cells: Sequence[Cell], results: Path, *, parallel: int, progress: Progress,
        pytest: Sequence[str] = PYTEST,
    ) -> None:  # fmt: skip
        now = datetime.now(UTC)
        identity = f"nightly-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self.night = Night(id=identity, parallel=parallel, started=now, cells=list(cells))
        self.directory = results.absolute() / identity
        self._pytest, self._progress, self._signals = pytest, progress, 0

    def run(self) -> Night:
        """Run all cells. The first Ctrl-C, SIGTERM or SIGHUP stops those that run, a second one kills them."""
        self.directory.mkdir(mode=0o700, parents=True)
        self._write()
        link = self.directory.with_name(f".{self.night.id}")
        link.symlink_to(self.directory.name, target_is_directory=True)
        link.replace(self.directory.with_name("nightly-latest"))
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        for number, handler in before.items():
            if (number, handler) != (signal.SIGHUP, signal.SIG_IGN):  # nohup
                signal.signal(number, self._asked)
        try:
            with Supervisor(Path(tempfile.mkdtemp(prefix=f"unreserve-{self.night.id}-"))) as supervisor:
                self._loop(supervisor)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self.night.verdict, self.night.ended = night.worst(self.night.cells), datetime.now(UTC)
        self._write()
        return self.night

    def _asked(self, number: int, frame: object) -> None:  # noqa: ARG002 - the shape of a signal handler
        self._signals += 1

    def _loop(self, supervisor: Supervisor) -> None:
        waiting, running = list(range(len(self.night.cells))), dict[int, Running]()
        while running or (waiting and not self._signals):
            while waiting and len(running) < self.night.parallel and not self._signals:
                at = waiting.pop(0)
                if started := self._begin(at, supervisor):
                    running[at] = started
            for at, each in list(running.items()):
                if self._ended(at, each):
                    del running[at]
            if running:
                names = ", ".join(f"{self.night.cells[at].name} {each.seconds:.0f} s" for at, each in running.items())
                self._progress.tick(f"{'stopping' if self._signals else 'running'} {names}; {len(waiting)} waiting")
                time.sleep(TICK)

    def _begin(self, at: int, supervisor: Supervisor) -> Running | None:
        cell = self.night.cells[at]
        if reason := unavailable(cell.provider, cell.kubernetes):
            self._end(at, verdict=RunVerdict.NOTHING_RAN, reason=f"not available on this machine: {reason}")
            return None
        folder = self.directory / cell.name
        folder.mkdir(mode=0o700)
        cell = self._note(at, started=datetime.now(UTC), log=f"{cell.name}/output.log")
        self._write()
        # What the reports give as the command that does it again: without where this night keeps its results.
        again = shlex.join(["python", "-m", "pytest", *cell.arguments()])
        process = supervisor.start(
            cell.name, [*self._pytest, *cell.arguments(), "--results", folder],
            env={**os.environ, "UNRESERVE_COMMAND": again, "COLUMNS": "120"}, cwd=ROOT, log=self.directory / cell.log,
        )  # fmt: skip
        return Running(process, time.monotonic() + 60.0 * cell.minutes)

    def _ended(self, at: int, cell: Running) -> bool:
        """Whether a cell has ended, which is written down; one that must end is told."""
        now = time.monotonic()
        if (code := cell.process.poll()) is not None:
            seconds = round(cell.seconds, 1)
            facts = _judged(self.directory / self.night.cells[at].name, code, cell, night_stopped=bool(self._signals))
            self._end(at, exit_code=code, seconds=seconds, **facts)
            return True
        if not cell.stopped and (self._signals or now > cell.deadline):
            cell.stopped = "the night was stopped" if self._signals else f"stopped after {index.lasted(cell.seconds)}"
            cell.deadline = now + GRACE
            cell.process.signal(signal.SIGTERM)
        elif cell.stopped and (self._signals > 1 or now > cell.deadline):
            cell.process.kill()
        return False

    def _end(self, at: int, **facts: Any) -> None:  # noqa: ANN401 - the fields of Cell
        cell, every = self._note(at, **facts), self.night.cells
        self._write()
        done, width = sum(each.verdict is not None for each in every), max(len(each.name) for each in every)
        said = cell.reason.partition("\n")[0] or index.counted(record.read(self.directory / cell.record))
        took = "" if cell.seconds is None else index.lasted(cell.seconds)
        self._progress.step(
            f"[{done}/{len(every)}] {index.word(cell.verdict):<14} {cell.name:<{width}} {took:>12}  {said}"
        )

    def _note(self, at: int, **facts: Any) -> Cell:  # noqa: ANN401 - the fields of Cell
        self.night.cells[at] = Cell.model_validate({**dict(self.night.cells[at]), **facts})
        return self.night.cells[at]

    def _write(self) -> None:
        write_private(self.directory / night.FILE, self.night.model_dump_json(indent=1) + "\n")
        index.write(self.directory)


def _judged(folder: Path, code: int, cell: Running, *, night_stopped: bool) -> dict[str, Any]:
    """Return what is known about a cell that has ended: what its record says, if its exit code agrees."""
    run, facts = (folder / "latest").resolve(), dict[str, Any]()
    try:
        found = record.read(run)
    except RecordError as problem:
        said = str(problem) if (run / record.RECORD).exists() else "there is no run record"
    else:
        facts = {"record": f"{folder.name}/{run.name}", "patience": found.patience, "verdict": found.verdict}
        if found.verdict.exit_code == code and found.verdict is not RunVerdict.INTERRUPTED:
            return facts
        said = f"the run record says {found.verdict}"
    last = "" if cell.stopped else "".join(f"\n{line}" for line in tail(cell.process.log))
    verdict = RunVerdict.INTERRUPTED if night_stopped else RunVerdict.ERROR
    return {**facts, "verdict": verdict, "reason": f"{cell.stopped or 'pytest ' + ending(code)}; {said}{last}"}
