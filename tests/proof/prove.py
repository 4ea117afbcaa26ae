"""The proof: which runs it takes, in which order, and what is written as they end."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from clusters.progress import Progress
from fixtures import catalogue
from reports.record import write_private
from tests.proof import collected, proof, wording
from tests.proof.descriptors import Json, reference, shipped, toy, toy_without_conditions
from tests.proof.proof import Part, Proof, Scenario
from tests.proof.runs import ROOT, Case, Ended, Runs
from tests.proof.variants import Variant

FAULTS_OFF = "faults-off"


def healthy() -> dict[str, Json]:
    """Return schedulers that are right, the one with the most claims first."""
    return {
        "reference": reference(), "toy": toy(), "dra": shipped("dra.yaml"), "extender": shipped("extender.yaml"),
        "toy-without-conditions": toy_without_conditions(),
    }  # fmt: skip


# Of those that are right in another way only what they are right in: a whole run of each would double the time.
PARTLY: Mapping[str, tuple[str, ...]] = {
    "dra": ("HARD-1", "CAP", "WAKE-6", "RES-4", "RES-20"),
    "extender": ("HARD-1", "CAP-6", "RES-4", "DEP-1", "DEP-2", "DEP-3", "DEP-6", "DEP-7"),
    "toy-without-conditions": ("HARD", "CAP-6", "WAKE-9", "WAKE-10", "OBS-6", "OBS-9", "ROB-1"),
}


def carrying() -> set[Scenario]:
    """Return every scenario that carries a fault: one that asks for `faults`, itself or through what it asks for."""
    command = [sys.executable, "-m", "pytest", "suites", "--collect-only", "-qq", "-p", collected.__name__]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.removeprefix(collected.MARK) for line in asked.stdout.splitlines() if line.startswith(collected.MARK)]
    if asked.returncode or not lines:
        raise proof.ProofError(f"the scenarios cannot be collected:\n{asked.stdout}{asked.stderr}")
    return {(requirement, name) for requirement, name, fixtures in json.loads(lines[0]) if "faults" in fixtures}


def without_faults(broken: set[Scenario], known: Mapping[str, Json]) -> list[tuple[Case, set[Scenario]]]:
    """Return runs of such scenarios without their faults, each with the first scheduler that claims what it needs."""
    rules, first = catalogue.load([ROOT / "suites"]), next(iter(known))
    meant: dict[str, set[Scenario]] = {}
    for scenario in broken:
        features = rules[scenario[0]].features
        claiming = (name for name, descriptor in known.items() if features <= descriptor.get("claims", {}).keys())
        meant.setdefault(next(claiming, first), set()).add(scenario)
    return [
        (
            Case(
                FAULTS_OFF if name == first else f"{FAULTS_OFF} of {name}", known[name],
                tuple(sorted({requirement for requirement, _ in scenarios})), ("--faults-off",),
            ),
            scenarios,
        )
        for name, scenarios in sorted(meant.items(), key=lambda item: item[0] != first)
    ]  # fmt: skip


class Proving:
    """One proof below `results`: `proof.json` there from the beginning, and the runs in the folder `proof`.

    Args:
        results: folder of all results; the runs of an earlier proof there are removed.
        kubernetes: the minor.
        variants: which to run.
        whole: schedulers that are right, each with the requirements to run, all if none is named.
        broken: scenarios to run without their faults, with the first of these schedulers.
        full: whether this is all that there is to prove.
        progress: is told of each run that has ended.
    """

    def __init__(
        self, results: Path, *, kubernetes: str, variants: Sequence[Variant], whole: Mapping[str, Sequence[str]],
        broken: set[Scenario], full: bool, progress: Progress,
    ) -> None:  # fmt: skip
        self.file, self.folder = results.absolute() / proof.FILE, results.absolute() / "proof"
        self._variants = {each.name: each for each in variants}
        self._known, self._progress = healthy(), progress
        # The longest first.
        self._cases = [Case(name, self._known[name], tuple(select)) for name, select in whole.items()]
        self._carrying = {case.name: (case, meant) for case, meant in without_faults(broken, self._known)}
        self._cases += [case for case, _ in self._carrying.values()]
        self._cases += [Case(each.name, each.descriptor, each.selected()) for each in variants]
        self.proof = Proof(
            selection="full" if full else "filtered", kubernetes=kubernetes, started=datetime.now(UTC),
            waiting=[case.name for case in self._cases],
        )  # fmt: skip

    def run(self, *, parallel: int, binaries: Path | None = None) -> Proof:
        """Run everything, and return the proof as it stands on disk."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(mode=0o700, parents=True)
        self._write()
        runs = Runs(self.folder, parallel, self.proof.kubernetes, self._progress, binaries)
        if runs.run(self._cases, self._ended):
            self.proof = self.proof.model_copy(update={"ended": datetime.now(UTC)})
            self.proof.verdict = self.proof.judged()
        self._write()
        return self.proof

    def _ended(self, ended: Ended) -> None:
        this, name = self.proof, ended.case.name
        if ended.why == "stopped":
            return
        part: Part
        if name in self._variants:
            part = proof.caught(ended, self._variants[name])
            places = list(self._variants)
            this.variants = sorted([*this.variants, part], key=lambda each: places.index(each.name))
        elif name in self._carrying:
            part = proof.faults_off(ended, self._carrying[name][1])
            this.faults_off = part.beside(this.faults_off)
        else:
            part = proof.healthy(ended)
            if name == "reference":
                this.reference = part
            else:
                this.healthy = [*this.healthy, part]
        if ended.record:
            this.note(ended.record)
        this.waiting = [each for each in this.waiting if each != name]
        self._write()
        self._say(part)

    def _say(self, part: Part) -> None:
        every, width = len(self._cases), max(len(case.name) for case in self._cases)
        done = f"{every - len(self.proof.waiting):{len(str(every))}}/{every}"
        self._progress.step(f"[{done}] {part.name:<{width}} {part.seconds:5.0f} s  {wording.outcome(part)}")

    def _write(self) -> None:
        write_private(self.file, self.proof.model_dump_json(indent=1) + "\n")
