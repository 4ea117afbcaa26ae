"""Runs the cells of a night, each as a pytest of its own, and goes on whatever becomes of one."""

import functools
import importlib
import importlib.util
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
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
from reports.record import Record, RecordError, RunVerdict, write_private

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


class Nightly:
    """One night in `results/nightly-<id>`: its record and its page are on disk from the beginning."""

    def __init__(
        self, cells: Sequence[Cell], results: Path, *, matrix: str, parallel: int, progress: Progress,
        runner: Sequence[str] = RUNNER,
    ) -> None:  # fmt: skip
        now = datetime.now(UTC)
        self.night = Night(
            id=f"nightly-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}", started=now, matrix=matrix, parallel=parallel,
            cells=[
                Ran(
                    name=cell.name, candidate=cell.candidate.stem, kubernetes=cell.kubernetes, provider=cell.provider,
                    command=["python", "-m", "pytest", *cell.arguments()],
                )
                for cell in cells
            ],
        )  # fmt: skip
        self.directory = results.absolute() / self.night.id
        self._cells, self._parallel, self._runner, self._progress = list(cells), parallel, list(runner), progress
        self._rows = {row.name: row for row in self.night.cells}
        self._running: dict[str, _Running] = {}
        self._signals = 0

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
        self.night.verdict = night.worst(self.night.cells)
        self.night.ended = datetime.now(UTC)
        self._write()
        return self.night

    def _asked(self, number: int, frame: object) -> None:  # noqa: ARG002 - the shape of a signal handler
        self._signals += 1

    def _loop(self, supervisor: Supervisor) -> None:
        waiting = deque(self._cells)
        while self._running or (waiting and not self._signals):
            while waiting and len(self._running) < self._parallel and not self._signals:
                self._begin(waiting.popleft(), supervisor)
            for name, cell in list(self._running.items()):
                self._look_at(name, cell)
            if self._running:
                text = ", ".join(f"{name} {self._lasted(name):.0f} s" for name in self._running)
                self._progress.tick(f"{len(waiting)} waiting; {'stopping' if self._signals else 'running'}: {text}")
                time.sleep(TICK)

    def _begin(self, cell: Cell, supervisor: Supervisor) -> None:
        row, folder = self._rows[cell.name], self.directory / cell.name
        row.started = datetime.now(UTC)
        if reason := unavailable(cell.provider):
            self._end(cell.name, verdict=RunVerdict.NOTHING_RAN, reason=f"not available on this machine: {reason}")
            return
        folder.mkdir(mode=0o700)
        row.log = f"{cell.name}/output.log"
        # The command in the reports is one that a person can type again: without where this night keeps its results.
        environment = {**os.environ, "UNRESERVE_COMMAND": " ".join(_quoted(row.command)), "COLUMNS": "120"}
        process = supervisor.start(
            cell.name, [*self._runner, *cell.arguments(), "--results", folder],
            env=environment, cwd=ROOT, log=self.directory / row.log,
        )  # fmt: skip
        self._running[cell.name] = _Running(process, time.monotonic() + 60.0 * cell.minutes)

    def _look_at(self, name: str, cell: _Running) -> None:
        now = time.monotonic()
        if (code := cell.process.poll()) is not None:
            del self._running[name]
            self._end(name, **_judged(self.directory / name, cell.process, code, cell.stopped, bool(self._signals)))
        elif not cell.stopped and (self._signals or now > cell.deadline):
            minutes = (now - cell.process.started) / 60
            cell.stopped = "the night was stopped" if self._signals else f"stopped after {minutes:.0f} minutes"
            cell.deadline = now + GRACE
            cell.process.signal(signal.SIGTERM)
        elif cell.stopped and (self._signals > 1 or now > cell.deadline):
            cell.process.kill()

    def _end(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - the fields of Ran
        row = self._rows[name]
        row.seconds = round(self._lasted(name), 1)
        for field, value in facts.items():
            setattr(row, field, value)
        self._write()
        done = sum(each.verdict is not None for each in self.night.cells)
        said = row.reason.partition("\n")[0] or index.counted(record.read(self.directory / row.record))
        width = max(map(len, self._rows))
        self._progress.step(
            f"[{done}/{len(self._rows)}] {wording.GLYPHS[row.verdict or RunVerdict.ERROR]} {row.verdict:<12}"
            f" {name:<{width}} {index.lasted(row.seconds):>12}  {said}"
        )

    def _lasted(self, name: str) -> float:
        started = self._rows[name].started
        return (datetime.now(UTC) - started).total_seconds() if started else 0.0

    def _write(self) -> None:
        checked = Night.model_validate(self.night.model_dump(by_alias=True))
        write_private(self.directory / night.FILE, checked.model_dump_json(indent=1) + "\n")
        index.write(self.directory)


def _judged(folder: Path, process: Process, code: int, stopped: str, interrupted: bool) -> dict[str, Any]:  # noqa: FBT001
    """Return what is known about a cell that has ended: by its record, if the exit code agrees."""
    latest = (folder / "latest").resolve()
    facts: dict[str, Any] = {"exit_code": code, "verdict": RunVerdict.ERROR}
    try:
        run: Record = record.read(latest)
    except RecordError as problem:
        missing = not (latest / record.RECORD).exists()
        facts["reason"] = "wrote no run record" if missing else str(problem)
    else:
        facts |= {"record": f"{folder.name}/{latest.name}", "patience": run.patience, "verdict": run.verdict}
        if run.verdict.exit_code == code and run.verdict is not RunVerdict.INTERRUPTED:
            return facts
        facts["reason"] = f"the run record says {run.verdict}"
    with suppress(ValueError):
        facts["verdict"] = RunVerdict.INTERRUPTED if interrupted else RunVerdict.ERROR
    last = "" if stopped else "".join(f"\n{line}" for line in tail(process.log))
    facts["reason"] = f"{stopped or 'pytest ' + ending(code)}; {facts['reason']}{last}"
    return facts


def _quoted(words: Sequence[str]) -> list[str]:
    import shlex

    return [shlex.quote(word) for word in words]


def _point(link: Path, target: str) -> None:
    unfinished = link.with_name(f".{link.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target, target_is_directory=True)
    unfinished.replace(link)
