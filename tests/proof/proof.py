"""What is proved: that healthy schedulers pass, that nothing passes without its fault, and that each variant is caught.

`proof.json` holds it, written as it goes. Nothing in it says on which machine that was.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from fixtures.run import ALWAYS
from reports.record import Model, Record, Requirement, RunVerdict, Suite, Text, Verdict
from reports.wording import WORDS
from tests.proof.runs import ROOT, Ended
from tests.proof.variants import Variant

FILE: Final = "proof.json"
# A scenario, by its requirement and its name in the run record.
Scenario = tuple[str, str]


class ProofError(Exception):
    """There is no proof to be read. The text names the file."""


class ProofVerdict(StrEnum):
    """What is known about the suite."""

    PROVED = "proved"
    NOT_PROVED = "not proved"
    INTERRUPTED = "interrupted"


class Part(Model):
    """What one run has shown. It holds where there is no problem."""

    name: Text
    seconds: float
    problems: list[Text] = Field(default=[])
    """Why it does not show what it should; the first line of each stands alone."""


class Healthy(Part):
    """A scheduler that is right: every requirement that it claims must hold."""

    verdict: RunVerdict | None
    """That of its run; none where the run left no record."""
    requirements: dict[str, Verdict]


class Faultless(Model):
    """A scenario that breaks something, run with the faults switched off."""

    requirement: Text
    scenario: Text
    verdict: Verdict


class FaultsOff(Part):
    """A healthy scheduler without the faults: no scenario that carries one may pass."""

    scenarios: list[Faultless]

    def beside(self, other: "FaultsOff | None") -> "FaultsOff":
        """Return both as one: schedulers of different claims share the scenarios."""
        if other is None:
            return self
        return FaultsOff(
            name=min(self.name, other.name, key=len), seconds=self.seconds + other.seconds,
            problems=[*other.problems, *self.problems], scenarios=[*other.scenarios, *self.scenarios],
        )  # fmt: skip


class Caught(Part):
    """A variant."""

    scheduler: Text
    """Name of the scheduler that was made wrong."""
    wrong: Text
    """What it does."""
    expected: list[str]
    """Requirements that must catch it."""
    failed: list[str]
    """All that failed."""
    caught: bool
    """Whether each of the expected failed, and said why."""
    collateral: dict[str, Text]
    """What else failed and may, with the reason."""
    unlisted: list[str]
    """What else failed, or was left without an answer, and nobody had said so."""
    requirements: dict[str, Verdict]
    """Everything that ran."""
    messages: dict[str, Text]
    """What the failures say."""


class Proof(Model):
    """One proof. It says `interrupted` until everything has ended."""

    schema_: Literal["unreserve.dev/proof/v1"] = Field(default="unreserve.dev/proof/v1", alias="schema")
    verdict: ProofVerdict = ProofVerdict.INTERRUPTED
    selection: Literal["full", "filtered"]
    """Whether every variant and every healthy scheduler was asked for."""
    kubernetes: Text
    suite: Suite = Suite()
    started: AwareDatetime
    ended: AwareDatetime | None = None
    reference: Healthy | None = None
    healthy: list[Healthy] = Field(default=[])
    """Other schedulers that are right."""
    faults_off: FaultsOff | None = None
    variants: list[Caught] = Field(default=[])
    waiting: list[Text] = Field(default=[])
    """Runs that have not ended."""

    def parts(self) -> Iterator[Part]:
        """Yield everything that has ended."""
        yield from filter(None, [self.reference, *self.healthy, self.faults_off, *self.variants])

    def note(self, run: Record) -> None:
        """Note where it was, from the record of a run."""
        if run.kubernetes.startswith("v"):
            self.kubernetes = run.kubernetes
        changed = bool(self.suite.commit) and run.suite.commit != self.suite.commit
        self.suite = (self.suite if changed else run.suite).model_copy(
            update={"dirty": self.suite.dirty or run.suite.dirty or changed}
        )

    def judged(self) -> ProofVerdict:
        """Judge what is there."""
        if self.waiting:
            return ProofVerdict.INTERRUPTED
        return ProofVerdict.NOT_PROVED if any(part.problems for part in self.parts()) else ProofVerdict.PROVED


def read(file: Path) -> Proof:
    """Read a proof.

    Raises:
        ProofError: there is none, or it is not of this schema.
    """
    try:
        return Proof.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise ProofError(f"{file}: {problem.strerror}; `make prove` makes one") from problem
    except ValidationError as problem:
        raise ProofError(f"{file}: not a proof of this version; `make prove` makes one: {problem}") from problem


def healthy(ended: Ended) -> Healthy:
    """Judge the run of a scheduler that is right."""
    rows = ended.record.requirements if ended.record else []
    problems = [*_broke(ended)]
    if ended.record and not problems:
        # An extended requirement that is not claimed is no blemish; one without an answer is.
        allowed = (Verdict.PASS, Verdict.NOT_SUPPORTED, Verdict.WAIVED)
        wrong = [row for row in rows if row.verdict not in allowed]
        problems += [f"{row.id} {_is(row.verdict)}\n{_said(row)}" for row in wrong]
        if not problems and ended.record.verdict is not RunVerdict.SUCCESS:
            problems.append(f"the run is {ended.record.verdict}")
    return Healthy(
        name=ended.case.name, seconds=ended.seconds, problems=[neutral(each) for each in problems],
        verdict=ended.record.verdict if ended.record else None,
        requirements={row.id: row.verdict for row in rows},
    )  # fmt: skip


def faults_off(ended: Ended, carrying: Iterable[Scenario]) -> FaultsOff:
    """Judge the run without faults of the scenarios that carry one."""
    found = {
        (row.id, one.name): (one.verdict, one.message, bool(row.lacking))
        for row in (ended.record.requirements if ended.record else [])
        for one in row.scenarios
    }
    problems, scenarios, broke = [], [], [*_broke(ended)]
    for requirement, name in sorted(carrying):
        verdict, message, lacking = found.get((requirement, name), (Verdict.SKIPPED, "", False))
        scenarios.append(Faultless(requirement=requirement, scenario=name, verdict=verdict))
        if verdict is Verdict.INCONCLUSIVE or (verdict is Verdict.NOT_SUPPORTED and lacking):
            continue
        why = f"{_is(verdict)} without its fault"
        if verdict is Verdict.NOT_SUPPORTED:
            why = "is not claimed: nothing shows that it needs its fault"
        problems.append(f"{requirement} {name} {why}" + (f"\n{message}" if message else ""))
    return FaultsOff(
        name=ended.case.name, seconds=ended.seconds, problems=[neutral(each) for each in broke or problems],
        scenarios=scenarios,
    )  # fmt: skip


def caught(ended: Ended, variant: Variant) -> Caught:
    """Judge the run of a variant."""
    rows = {row.id: row for row in (ended.record.requirements if ended.record else []) if not _unjudged(row)}
    wrong = {name: row for name, row in rows.items() if row.verdict is not Verdict.PASS}
    missed, broke = [*_missed(variant, rows)], [*_broke(ended)]
    others = [row for name, row in wrong.items() if name not in variant.caught_by]
    beside = (Verdict.FAIL, Verdict.INCONCLUSIVE)
    unlisted = [row for row in others if row.id not in variant.collateral or row.verdict not in beside]
    problems = [f"{row.id} {_is(row.verdict)}, which is not listed as collateral\n{_said(row)}" for row in unlisted]
    return Caught(
        name=variant.name, seconds=ended.seconds, problems=[neutral(each) for each in broke or missed + problems],
        scheduler=variant.descriptor["identity"]["name"].removesuffix(f"-{variant.name}"), wrong=variant.wrong,
        expected=list(variant.caught_by),
        failed=[name for name, row in wrong.items() if row.verdict is Verdict.FAIL], caught=not missed and not broke,
        collateral={row.id: variant.collateral[row.id] for row in others if row not in unlisted},
        unlisted=[row.id for row in unlisted],
        requirements={name: row.verdict for name, row in rows.items()},
        messages={name: neutral(_said(row)) for name, row in wrong.items()},
    )  # fmt: skip


def _missed(variant: Variant, rows: Mapping[str, Requirement]) -> Iterator[str]:
    for name, says in variant.caught_by.items():
        row = rows.get(name)
        if row is None:
            yield f"{name} did not run, and must fail"
        elif row.verdict is Verdict.PASS:
            yield f"survives {name}"
        elif row.verdict is not Verdict.FAIL:
            yield f"{name} {_is(row.verdict)}, and must fail\n{_said(row)}"
        elif not re.search(says, _said(row)):
            yield f"{name} fails, but says nothing that matches {says!r}\n{_said(row)}"


def _broke(ended: Ended) -> Iterator[str]:
    """Say why a run shows nothing at all."""
    run = ended.record
    if run is None or ended.why:
        yield ended.why
    elif run.verdict in (RunVerdict.ERROR, RunVerdict.INTERRUPTED):
        # One cause, such as a build that failed, mostly stands at every scenario.
        said = {
            one.message: row.id for row in run.requirements for one in row.scenarios if one.verdict is Verdict.ERROR
        }
        yield "\n".join([f"the run is {run.verdict}", *run.errors, *(f"{name}: {text}" for text, name in said.items())])
    elif ended.code != run.verdict.exit_code:
        yield f"pytest ended with code {ended.code}, its record says {run.verdict}"


def _is(verdict: Verdict) -> str:
    said = {Verdict.PASS: "passes", Verdict.FAIL: "fails", Verdict.ERROR: "is an error", Verdict.SKIPPED: "did not run"}
    return said.get(verdict, f"is {WORDS[verdict]}")


def _unjudged(row: Requirement) -> bool:
    """Whether it is an invariant that this scheduler does not claim, or that no scenario came far enough for."""
    idle = (Verdict.SKIPPED, Verdict.NOT_SUPPORTED)
    return row.verdict in idle and all(one.name == ALWAYS for one in row.scenarios)


def _said(row: Requirement) -> str:
    """Return what the worst scenarios of a requirement say."""
    return "\n".join(dict.fromkeys(one.message for one in row.scenarios if one.verdict is row.verdict))


# Text that is another one on every machine, or in every run, and what stands for it.
_OWN: Final = (
    (re.compile(re.escape(f"{ROOT}/")), ""),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/(?:[\w.@+-]+/)*"), "$TMPDIR/"),
    (re.compile(r"unreserve-\d{8}-\d{6}-[0-9a-f]{4}"), "unreserve-RUN"),
    (re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}"), "RUN"),
    (re.compile(re.escape(str(Path.home()))), "~"),
)


def neutral(text: str) -> str:
    """Return a text without paths of this machine and without the id of the run."""
    for pattern, word in _OWN:
        text = pattern.sub(word, text)
    return text
