"""Runs of the suite, side by side, each as a pytest of its own on a cluster of its own."""

import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from clusters.processes import Process, Supervisor, ending, tail
from clusters.progress import Progress
from reports import record
from reports.record import Record, RecordError
from tests.proof.descriptors import Folder, Json

ROOT = Path(__file__).resolve().parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-v", "suites")
# Seconds between two looks at the runs.
TICK = 0.1
# Seconds for one run once its cluster is up, so that none hangs for ever: far beyond what any needs (a whole one took
# 1220 beside five others). Nothing is asked of what is built before.
MOST = 3600.0
# Seconds a run gets to take down its cluster and draw its reports, once it is asked to stop.
GRACE = 60.0
# Most runs at once for each core, and what one takes: a broken scheduler is mostly waited for in vain (measured: a run
# computes for 6 to 10 s and lasts 10 to 80 s).
EACH_CORE, MEMORY = 2.0, 1024**3


def side_by_side() -> int:
    """Return how many runs this machine can take at the same time."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(int(cores * EACH_CORE), psutil.virtual_memory().available // MEMORY))


@dataclass(frozen=True)
class Case:
    """One run of the suite, of everything where `select` is empty."""

    name: str
    descriptor: Json
    select: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """What became of a run. Without a record, `why` says so in lines of which the first stands alone."""

    case: Case
    code: int
    seconds: float
    record: Record | None
    why: str = ""


@dataclass
class _Running:
    case: Case
    process: Process
    deadline: float = float("inf")
    up: bool = False
    stopped: str = ""


@dataclass
class Runs:
    """Runs cases, each in a folder of its own below `folder`, and reports each as it ends.

    Args:
        folder: is made; it also gets the descriptors and what the runs print.
        parallel: most runs at once.
        kubernetes: the minor.
        progress: is told what runs.
        binaries: folder of ready-made components.
        pytest: command line of pytest, without options.
    """

    folder: Path
    parallel: int
    kubernetes: str
    progress: Progress
    binaries: Path | None = None
    pytest: Sequence[str] = PYTEST
    _signals: int = field(default=0, init=False)

    def run(self, cases: Sequence[Case], ended: Callable[[Ended], None]) -> bool:
        """Run the cases in their order; whether all have ended.

        The first Ctrl-C, SIGTERM or SIGHUP stops those that run, which is reported too; a second one kills them.
        """
        descriptors = Folder(self.folder / "candidates")
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        for number, handler in before.items():
            if (number, handler) != (signal.SIGHUP, signal.SIG_IGN):  # nohup
                signal.signal(number, self._asked)
        try:
            with Supervisor(Path(tempfile.mkdtemp(prefix="unreserve-proof-"))) as supervisor:
                return self._loop(list(cases), ended, lambda case: self._start(case, descriptors, supervisor))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _asked(self, number: int, frame: object) -> None:  # noqa: ARG002 - the shape of a signal handler
        self._signals += 1

    def _loop(
        self, waiting: list[Case], ended: Callable[[Ended], None], start: Callable[[Case], _Running]
    ) -> bool:  # fmt: skip
        running: list[_Running] = []
        while running or (waiting and not self._signals):
            # One cluster starts at a time: another start beside it would make this machine look slow, and every wait
            # long.
            up = [self._up(one) for one in running]
            if waiting and len(running) < self.parallel and not self._signals and all(up):
                running.append(start(waiting.pop(0)))
            for one in [each for each in running if self._over(each)]:
                running.remove(one)
                ended(self._ended(one))
            if running:
                names = ", ".join(f"{one.case.name} {_age(one):.0f} s" for one in running)
                self.progress.tick(f"{'stopping' if self._signals else 'running'} {names}; {len(waiting)} waiting")
                time.sleep(TICK)
        return not waiting and not self._signals

    def _start(self, case: Case, descriptors: Folder, supervisor: Supervisor) -> _Running:
        descriptor, home = descriptors.write(case.name, case.descriptor), self.folder / case.name
        words = [f"--candidate={descriptor}", f"--kubernetes={self.kubernetes}", *case.options]
        words += [f"--select={','.join(case.select)}"] if case.select else []
        words += [f"--binaries={self.binaries.absolute()}"] if self.binaries else []
        # Not what another pytest, or make, has put there for itself.
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "UNRESERVE_CO"))}
        again = shlex.join(["python", "-m", "pytest", "suites", *words])
        process = supervisor.start(
            case.name, [*self.pytest, *words, f"--results={home}"], env={**kept, "UNRESERVE_COMMAND": again}, cwd=ROOT,
            log=self.folder / f"{case.name}.log",
        )  # fmt: skip
        return _Running(case, process)

    def _up(self, one: _Running) -> bool:
        """Whether the cluster of a run is up and its patience known; its time counts from there."""
        if not one.up and _kubernetes(self.folder / one.case.name).startswith("v"):
            one.up, one.deadline = True, time.monotonic() + MOST
        return one.up

    def _over(self, one: _Running) -> bool:
        """Whether a run has ended; one that must end is told."""
        now = time.monotonic()
        if one.process.poll() is not None:
            return True
        if not one.stopped and (self._signals or now > one.deadline):
            one.stopped = "stopped" if self._signals else f"stopped after {_age(one):.0f} s"
            one.deadline = now + GRACE
            one.process.signal(signal.SIGTERM)
        elif one.stopped and (self._signals > 1 or now > one.deadline):
            one.process.kill()
        return False

    def _ended(self, one: _Running) -> Ended:
        code, seconds = one.process.wait(), round(_age(one), 1)
        try:
            found = record.read(self.folder / one.case.name / "latest")
        except RecordError as problem:
            lines = "".join(f"\n    {line}" for line in tail(one.process.log))
            why = f"pytest {ending(code)} and left no record: {problem}{lines}"
            return Ended(one.case, code, seconds, None, one.stopped or why)
        return Ended(one.case, code, seconds, found, one.stopped)


def _age(one: _Running) -> float:
    return time.monotonic() - one.process.started


def _kubernetes(home: Path) -> str:
    """Return the version of the API server of a run, empty before there is a run."""
    try:
        return record.read(home / "latest").kubernetes
    except RecordError:
        return ""
