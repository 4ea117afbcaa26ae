"""Runs the cells of a night, each as a pytest of its own, and goes on whatever becomes of one."""

import functools
import importlib
import importlib.util
import os
import secrets
import shlex
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from clusters.processes import Process, Supervisor, ending, tail
from clusters.progress import Progress
from nightly import index, night
from nightly.matrix import ROOT, Cell
from nightly.night import Night, Ran
from reports import record, wording
from reports.record import RecordError, RunVerdict, write_private

RUNNER = (sys.executable, "-m", "pytest", "-v", "-p", "fixtures.plugin", "-p", "reports.plugin")
# Seconds between two looks at the running cells.
TICK = 0.1
# Seconds a cell gets to take down its cluster and draw its reports, once it is asked to stop.
GRACE = 90.0
# What one run needs; measured: one core while it starts, a third of one afterwards, 600 MB.
CORES, MEMORY = 2, 1024**3
LATEST = "nightly-latest"


def side_by_side() -> int:
    """Return how many cells this machine can run at the same time."""
    return max(1, min(len(os.sched_getaffinity(0)) // CORES, psutil.virtual_memory().available // MEMORY))


@functools.cache
def unavailable(provider: str) -> str:
    """Return why a provider cannot be used on this machine, as its doctor says; empty where it can."""
    module = f"clusters.{provider}.doctor"
    try:
        known = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        known = None
    if known is None:
        return f"this version has no provider {provider}"
    missing = [each for each in importlib.import_module(module).examine() if each.state == "missing"]
    return "\n".join(f"{each.what}: {each.text}" for each in missing)


@dataclass
class _Running:
    process: Process
    deadline: float
    stopped: str = ""
    """Why it was asked to stop."""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.process.started


class Nightly:
    """One night in `results/nightly-<id>`: its record and its page are on disk from the beginning."""

    def __init__(
        self, cells: Sequence[Cell], results: Path, *, matrix: str, parallel: int, progress: Progress,
        runner: Sequence[str] = RUNNER,
    ) -> None:  # fmt: skip
        now = datetime.now(UTC)
        self._cells, self._runner, self._progress = list(cells), list(runner), progress
        self._rows = {cell.name: _planned(cell) for cell in cells}
        self._running: dict[str, _Running] = {}
        self._signals = 0
        identity = f"nightly-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self.night = Night(id=identity, started=now, matrix=matrix, parallel=parallel, cells=[])
        self.directory = results.absolute() / identity

    def run(self) -> Night:
        """Run all cells. The first Ctrl-C, SIGTERM or SIGHUP stops those that run, a second one kills them."""
        self.directory.mkdir(mode=0o700, parents=True)
        _point(self.directory.parent / LATEST, self.directory.name)
        self._write()
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
        self._write(verdict=night.worst(self._rows.values()), ended=datetime.now(UTC))
        return self.night

    def _asked(self, number: int, frame: object) -> None:  # noqa: ARG002 - the shape of a signal handler
        self._signals += 1

    def _loop(self, supervisor: Supervisor) -> None:
        waiting = deque(self._cells)
        while self._running or (waiting and not self._signals):
            while waiting and len(self._running) < self.night.parallel and not self._signals:
                self._begin(waiting.popleft(), supervisor)
            for name, cell in list(self._running.items()):
                self._look_at(name, cell)
            if self._running:
                text = ", ".join(f"{name} {cell.seconds:.0f} s" for name, cell in self._running.items())
                self._progress.tick(f"{'stopping' if self._signals else 'running'} {text}; {len(waiting)} waiting")
                time.sleep(TICK)

    def _begin(self, cell: Cell, supervisor: Supervisor) -> None:
        if reason := unavailable(cell.provider):
            self._end(cell.name, verdict=RunVerdict.NOTHING_RAN, reason=f"not available on this machine: {reason}")
            return
        folder = self.directory / cell.name
        folder.mkdir(mode=0o700)
        row = self._note(cell.name, started=datetime.now(UTC), log=f"{cell.name}/output.log")
        # What the reports give as the command that does it again: without where this night keeps its results.
        environment = {**os.environ, "UNRESERVE_COMMAND": shlex.join(row.command), "COLUMNS": "120"}
        process = supervisor.start(
            cell.name, [*self._runner, *cell.arguments(), "--results", folder],
            env=environment, cwd=ROOT, log=self.directory / row.log,
        )  # fmt: skip
        self._running[cell.name] = _Running(process, time.monotonic() + 60.0 * cell.minutes)

    def _look_at(self, name: str, cell: _Running) -> None:
        now = time.monotonic()
        if (code := cell.process.poll()) is not None:
            del self._running[name]
            facts = _judged(self.directory / name, code, cell, RunVerdict.INTERRUPTED if self._signals else None)
            self._end(name, seconds=round(cell.seconds, 1), exit_code=code, **facts)
        elif not cell.stopped and (self._signals or now > cell.deadline):
            cell.stopped = "the night was stopped" if self._signals else f"stopped after {cell.seconds / 60:.0f} min"
            cell.deadline = now + GRACE
            cell.process.signal(signal.SIGTERM)
        elif cell.stopped and (self._signals > 1 or now > cell.deadline):
            cell.process.kill()

    def _end(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - the fields of Ran
        row = self._note(name, **facts)
        self._write()
        assert row.verdict
        done = sum(each.verdict is not None for each in self._rows.values())
        said = row.reason.partition("\n")[0] or index.counted(record.read(self.directory / row.record))
        took = "" if row.seconds is None else index.lasted(row.seconds)
        self._progress.step(
            f"[{done}/{len(self._rows)}] {wording.GLYPHS[row.verdict]} {row.verdict:<12} "
            f"{name:<{max(map(len, self._rows))}}  {took:>11}  {said}"
        )

    def _note(self, name: str, **facts: Any) -> Ran:  # noqa: ANN401 - the fields of Ran
        self._rows[name] = Ran.model_validate({**dict(self._rows[name]), **facts})
        return self._rows[name]

    def _write(self, **facts: Any) -> None:  # noqa: ANN401 - the fields of Night
        self.night = Night.model_validate({**dict(self.night), "cells": list(self._rows.values()), **facts})
        write_private(self.directory / night.FILE, self.night.model_dump_json(indent=1) + "\n")
        index.write(self.directory)


def _planned(cell: Cell) -> Ran:
    return Ran(
        name=cell.name, candidate=cell.candidate.stem, kubernetes=cell.kubernetes, provider=cell.provider,
        command=["python", "-m", "pytest", *cell.arguments()],
    )  # fmt: skip


def _judged(folder: Path, code: int, cell: _Running, night_says: RunVerdict | None) -> dict[str, Any]:
    """Return what is known about a cell that has ended: what its record says, if its exit code agrees."""
    latest = (folder / "latest").resolve()
    facts: dict[str, Any] = {}
    try:
        run = record.read(latest)
    except RecordError as problem:
        said = str(problem) if (latest / record.RECORD).exists() else "there is no run record"
    else:
        facts = {"record": f"{folder.name}/{latest.name}", "patience": run.patience}
        if run.verdict.exit_code == code and run.verdict is not RunVerdict.INTERRUPTED:
            return {**facts, "verdict": run.verdict}
        said = f"the run record says {run.verdict}"
    last = "" if cell.stopped else "".join(f"\n{line}" for line in tail(cell.process.log))
    reason = f"{cell.stopped or 'pytest ' + ending(code)}; {said}{last}"
    return {**facts, "verdict": night_says or RunVerdict.ERROR, "reason": reason}


def _point(link: Path, target: str) -> None:
    unfinished = link.with_name(f".{link.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target, target_is_directory=True)
    unfinished.replace(link)
