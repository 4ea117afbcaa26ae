"""The suite is proved on schedulers that are wrong in one known way: each fails the requirement meant for it."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import catalogue
from reports import record
from reports.record import Record, RunVerdict, Verdict
from tests.broken.variants import TOY, VARIANTS, Json, Variant, toy, toy_without_conditions, write

ROOT = Path(__file__).resolve().parents[2]
# Runs side by side; seconds between looks at a run that starts, and for one run: far beyond what any needs.
AT_ONCE, LOOK, MOST = 3, 0.1, 600.0


@dataclass(frozen=True)
class Case:
    """One run of the suite."""

    name: str
    descriptor: Json
    select: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """What became of a run."""

    code: int
    record: Record
    printed: str

    def verdicts(self) -> dict[str, Verdict]:
        return {row.id: row.verdict for row in self.record.requirements}

    def failures(self, requirement: str) -> list[str]:
        """Return what the failed scenarios of a requirement say."""
        scenarios = [one for row in self.record.requirements if row.id == requirement for one in row.scenarios]
        return [one.message for one in scenarios if one.verdict is Verdict.FAIL]


@pytest.fixture(scope="module")
def started(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Ended]]]:
    """Start the runs of all chosen tests, a few at once."""
    folder = tmp_path_factory.mktemp("proof")
    given = request.config.getoption("--binaries")
    binaries = [f"--binaries={Path(given).absolute()}"] if given else []
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "UNRESERVE_CO"))}
    running: list[subprocess.Popen[bytes]] = []
    # One cluster starts at a time: another start beside it would make this machine look slow, and every wait long.
    starting = threading.Lock()

    def run(case: Case) -> Ended:
        home = folder / case.name
        home.mkdir()
        descriptor, results, log = write(case.descriptor, home), home / "results", home / "log"
        command = [
            sys.executable, "-m", "pytest", "suites", f"--candidate={descriptor}", f"--select={','.join(case.select)}",
            f"--results={results}", *binaries, *case.options,
        ]  # fmt: skip
        with log.open("w") as printed, starting:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=printed, stderr=subprocess.STDOUT)
            running.append(process)
            while process.poll() is None and not _measured(results / "latest"):
                time.sleep(LOOK)
        process.wait(MOST)
        return Ended(process.returncode, record.read(results / "latest"), log.read_text())

    specs = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [spec.params.get("ended") for spec in specs if spec]
    cases = [one for one in chosen if isinstance(one, Case)]  # other modules of the session have an `ended` too
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            yield {case.name: pool.submit(run, case) for case in cases}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.terminate()  # nothing where it has ended


def _measured(directory: Path) -> bool:
    """Whether the cluster of a run is up and its patience known."""
    return directory.exists() and record.read(directory).kubernetes.startswith("v")


@pytest.fixture
def ended(request: pytest.FixtureRequest, started: dict[str, Future[Ended]]) -> Ended:
    """Return how the run of a case ended."""
    return started[request.param.name].result()


@pytest.mark.parametrize(
    ("ended", "selection"),
    [
        pytest.param(Case("healthy", toy()), "full", id="healthy"),
        pytest.param(
            Case("without-conditions", toy_without_conditions(), ("HARD-1", "CAP-6", "WAKE-9", "WAKE-10", "OBS-6")),
            "filtered",
            id="without-conditions",
        ),
    ],
    indirect=["ended"],
)
def test_a_healthy_scheduler_passes(ended: Ended, selection: str) -> None:
    assert ended.code == 0, ended.printed
    assert ended.record.selection == selection
    assert set(ended.verdicts().values()) <= {Verdict.PASS, Verdict.NOT_SUPPORTED}


@pytest.mark.parametrize(
    ("ended", "variant"),
    [pytest.param(Case(v.name, v.descriptor, v.selected(n)), v, id=v.name) for n, v in enumerate(VARIANTS)],
    indirect=["ended"],
)
def test_a_broken_scheduler_is_caught(ended: Ended, variant: Variant) -> None:
    verdicts = ended.verdicts()
    wrong = {name: str(verdicts[name]) for name in variant.caught_by if verdicts[name] is not Verdict.FAIL}
    assert not wrong, ended.printed
    for name, says in variant.caught_by.items():
        assert any(re.search(says, message) for message in ended.failures(name)), (name, ended.failures(name))

    others = {name: verdict for name, verdict in verdicts.items() if name not in variant.caught_by}
    may_fail = {name for name in others if name in variant.collateral and others[name] is Verdict.FAIL}
    wrong = {name: str(verdict) for name, verdict in others.items() if verdict is not Verdict.PASS}
    assert wrong.keys() <= may_fail, ended.printed
    assert ended.code == RunVerdict.FAILURE.exit_code


@pytest.mark.parametrize(
    "ended", [pytest.param(Case("faults-off", toy(), ("RES-4", "RES-5"), ("--faults-off",)), id="faults-off")],
    indirect=True,
)  # fmt: skip
def test_without_faults_nothing_is_proved(ended: Ended) -> None:
    verdicts = ended.verdicts()
    assert (verdicts["RES-4"], verdicts["RES-5"]) == (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE), ended.printed
    assert ended.code == RunVerdict.PARTIAL.exit_code


def test_every_requirement_names_the_variants_that_it_catches() -> None:
    named = {
        (rule.id, variant)
        for rule in catalogue.load([ROOT / "suites"]).values()
        for variant in rule.variant.split(", ")
        if not rule.variant.startswith("none")
    }
    assert named == {(name, variant.name) for variant in VARIANTS for name in variant.caught_by}


def test_every_fault_is_made_somewhere() -> None:
    written = set(re.findall(r'broken\("([a-z-]+)"\)', TOY.read_text()))
    made = [toy_without_conditions(), *(variant.descriptor for variant in VARIANTS)]
    named = {fault for descriptor in made for fault in _faults(descriptor)}
    # Written as f"no-wake-{check}".
    assert named - written == {"no-wake-label", "no-wake-taint", "no-wake-allocatable"}
    assert written <= named


def _faults(descriptor: Json) -> Iterator[str]:
    for process in descriptor["deployment"]["processes"]:
        yield from (word.partition("=")[2] for word in process["args"] if word.startswith("--fault="))
