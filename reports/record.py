"""The run record: the one machine-readable result of a run, from which every report is drawn.

`RecordWriter` writes it as the run goes. Whatever ends the runner, `record.json` is a complete and valid file, and says
`interrupted` unless the run ended properly. Text is cleaned and redacted where it enters a model (see `Text`).
"""

import json
import os
import re
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

SCHEMA: Final = "unreserve.dev/run-record/v1"
RECORD: Final = "record.json"


class RecordError(Exception):
    """A run record cannot be read. The text names the file and what is wrong with it."""


# --- verdicts ---------------------------------------------------------------------------------------------------------


class Verdict(StrEnum):
    """What is known about one scenario or requirement, written in the order from best to worst.

    A requirement takes the worst of its scenarios, so `pass` means that all of it was shown: one scenario that passed
    beside one that the provider cannot run makes `not-supported`. Among the verdicts without an answer, a choice of the
    user (`skipped`) is worse than a limit of the place (`not-supported`). `waived` is worse than both, because it is a
    broken rule and must be counted, and better than `inconclusive`, because somebody answers for it.
    """

    PASS = "pass"  # noqa: S105
    NOT_SUPPORTED = "not-supported"
    SKIPPED = "skipped"
    WAIVED = "waived"
    INCONCLUSIVE = "inconclusive"
    FAIL = "fail"
    ERROR = "error"

    @property
    def severity(self) -> int:
        """Place in the order, 0 for `pass`. The operators of `str` compare letters: do not use them."""
        return list(Verdict).index(self)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst of `verdicts`.

    Raises:
        ValueError: there is none; no scenario is not a pass.
    """
    return max(verdicts, key=lambda verdict: verdict.severity)


class RunVerdict(StrEnum):
    """What is known about a whole run, written in the order from weakest to strongest."""

    SUCCESS = "success"
    NOTHING_RAN = "nothing-ran"
    INCONCLUSIVE = "inconclusive"
    PARTIAL = "partial"
    FAILURE = "failure"
    ERROR = "error"
    INTERRUPTED = "interrupted"

    @property
    def precedence(self) -> int:
        """Place in the order: the highest that applies is the verdict of the run."""
        return list(RunVerdict).index(self)

    @property
    def exit_code(self) -> int:
        """Exit code of the runner. 2 and 5 are pytest's own."""
        return EXIT_CODES[self]


EXIT_CODES: Final = {
    RunVerdict.SUCCESS: 0,
    RunVerdict.FAILURE: 1,
    RunVerdict.INTERRUPTED: 2,
    RunVerdict.ERROR: 3,
    RunVerdict.NOTHING_RAN: 5,
    RunVerdict.INCONCLUSIVE: 10,
    RunVerdict.PARTIAL: 11,
}

# --- text -------------------------------------------------------------------------------------------------------------

REDACTED: Final = "[redacted]"
_NAME: Final = (
    r"token|passw(?:or)?d|passphrase|client[-_]?secret|secret[-_]?key|api[-_]?key|(?:client|private)[-_]?key(?:-data)?"
)
_SECRET_NAME: Final = re.compile(rf"[\w.-]*(?:{_NAME})", re.IGNORECASE)
_SECRETS: Final[list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]] = [
    (re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.DOTALL), REDACTED),
    (re.compile(r"(authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)[^\\\"'\r\n]+", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(r"\b(bearer[ \t]+)[\w.~+/=-]{12,}", re.IGNORECASE), rf"\1{REDACTED}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"), REDACTED),  # a JSON Web Token starts with {"
    (re.compile(r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)"), REDACTED),  # user:password@ of a URL
    # A YAML block scalar: everything indented deeper than its key.
    (
        re.compile(
            rf"^([ \t]*)([\w.\"' \t-]*(?:{_NAME})[\"']?:[ \t]*)[|>].*(?:\n(?:\1[ \t]+.*|[ \t]*$))+",
            re.IGNORECASE | re.MULTILINE,
        ),
        rf"\1\2{REDACTED}",
    ),
    # token: x, "password": "x y", API_KEY=x, --token=x, also inside a JSON text that is itself quoted.
    (
        re.compile(
            rf"((?:{_NAME})\\*[\"']?[ \t]*[:=][ \t]*)"
            r"(?:(\\*[\"'])(?:(?!\2)(?:\\.|.))*|[^\s,;&{}\[\]()\"'\\][^\s,;&{}\"'\\]*)",
            re.IGNORECASE | re.DOTALL,
        ),
        lambda match: f"{match[1]}{match[2] or ''}{REDACTED}",
    ),
]
# Control characters, half surrogates, and the direction overrides that make text read as what it is not.
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def clean(text: str) -> str:
    """Return `text` fit for any report: no secrets, and only characters that JSON, XML, HTML and a terminal can take.

    Removed: private keys, bearer tokens, JSON Web Tokens, passwords in URLs, and the values of `token:`, `password=`
    and their kin. Idempotent.
    """
    text = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def clean_all(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Apply `clean` to every text in a JSON value, and hide whatever stands under a secret's name."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {
            clean(str(key)): REDACTED if isinstance(item, str) and _SECRET_NAME.fullmatch(str(key)) else clean_all(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        # A command line: --token VALUE
        before = [None, *value]
        return [
            REDACTED
            if isinstance(item, str) and isinstance(flag, str) and flag.startswith("-") and _SECRET_NAME.fullmatch(flag)
            else clean_all(item)
            for flag, item in zip(before, value, strict=False)
        ]
    return value


Text = Annotated[str, BeforeValidator(clean_all)]
"""Text of any origin, cleaned as it enters."""
Texts = Annotated[list[str], BeforeValidator(clean_all)]
Data = Annotated[dict[str, JsonValue], BeforeValidator(clean_all)]
Figures = Annotated[dict[str, float], BeforeValidator(clean_all)]

# --- the record -------------------------------------------------------------------------------------------------------


class Model(BaseModel):
    """Unknown fields are refused, on reading too: a report must not leave out what it does not understand."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True)


class Candidate(Model):
    """What was tested."""

    name: Text = ""
    version: Text = ""
    digest: Text = ""
    """`sha256:...` over binaries and rendered configuration."""
    organisation: Text = ""
    contact: Text = ""
    source: Text = ""
    scheduler_names: Texts = []


class Suite(Model):
    """What tested it."""

    version: Text = ""
    commit: Text = ""
    dirty: bool = False
    """The checkout had changes that no commit holds."""


class Machine(Model):
    """Where it ran: bounds are stretched by `Record.patience` for it."""

    system: Text = ""
    python: Text = ""
    cores: int = 0
    memory_bytes: int = 0


class DeviationState(StrEnum):
    """What a deviation did in this run."""

    APPLIED = "applied"
    UNUSED = "unused"
    """Its requirement is in the catalogue, and nothing had to be waived."""
    EXPIRED = "expired"
    UNMATCHED = "unmatched"
    """It names no requirement: an error of the descriptor."""


class Deviation(Model):
    """A broken rule that somebody answers for until a day."""

    id: Text
    """Id of the requirement."""
    reason: Text
    owner: Text = ""
    expires: date | None = None
    link: Text = ""
    state: DeviationState = DeviationState.UNUSED


class Witness(Model):
    """Evidence that a fault (or the event a rule is about) took effect."""

    fault: Text
    """What it is evidence of, such as `bind denied`."""
    detail: Text = ""
    at: float | None = None
    """Seconds on the scenario's timeline."""
    entries: list[int] = []
    """`seq` of the history lines that show it."""


class Step(Model):
    """One step of a scenario."""

    phase: Literal["arrange", "break", "check", "conclude"]
    text: Text
    at: float | None = None
    """Seconds on the scenario's timeline."""


class Check(Model):
    """One step of a checklist that a scenario walks through for an operator."""

    step: Text
    done: bool = False
    """Whether it was seen to be done; the steps after one that failed were not tried."""
    seen: Text = ""
    """What showed it."""
    at: float | None = None
    """Seconds on the scenario's timeline."""


class Measurement(Model):
    """How long the candidate took for something it had a bound for, patience included."""

    what: Text
    measured_seconds: float
    bound_seconds: float


class Finding(Model):
    """What an invariant found. It is booked at the requirement that forbids it, whatever scenario it was found in."""

    requirement: Text
    message: Text
    verdict: Verdict = Verdict.FAIL
    at: float | None = None
    entries: list[int] = []


class Scenario(Model):
    """One scenario as far as one requirement is concerned.

    As planned it is `skipped` with the message `not run`; `RecordWriter.add` puts the result in its place.
    """

    name: Text
    iteration: int = 1
    verdict: Verdict = Verdict.SKIPPED
    message: Text = "not run"
    """Why the verdict is not `pass`; the first line stands alone."""
    seconds: float = 0.0
    waited_seconds: float = 0.0
    """Of these, for how long the candidate was waited for: its backoff, its timeouts, its Lease."""
    bound_seconds: float | None = None
    """The time within which the candidate had to react, patience included."""
    measured_seconds: float | None = None
    """Both are taken from the measurement that came closest to its bound, unless set."""
    measurements: list[Measurement] = []
    figures: Figures = {}
    """What is recorded and not judged; the name ends in the unit, as in `created_to_bound_p95_seconds`."""
    witnesses: list[Witness] = []
    steps: list[Step] = []
    checklist: list[Check] = []
    """The runbook of a rollback, in its order, where the scenario walks through it."""
    findings: list[Finding] = []
    history: Text = ""
    """Path of the timeline, relative to the record: `history/<scenario>.jsonl`."""
    notes: Texts = []
    started: AwareDatetime | None = None
    found_in: Text = ""
    """Set when this entry only books findings made in a scenario of that requirement."""

    @model_validator(mode="after")
    def _closest_measurement(self) -> Self:
        if self.measurements and self.bound_seconds is None and self.measured_seconds is None:
            closest = max(self.measurements, key=lambda one: one.measured_seconds / max(one.bound_seconds, 1e-9))
            self.bound_seconds, self.measured_seconds = closest.bound_seconds, closest.measured_seconds
        return self


class Requirement(Model):
    """One rule with what is known about it. `verdict` is the worst of its scenarios, and never `pass` without one."""

    id: Text
    title: Text = ""
    """The rule in one sentence."""
    level: Literal["core", "extended"] = "core"
    features: Texts = []
    """Claims a candidate must make for an extended rule to apply."""
    lacking: Texts = []
    """What the rule needs of the provider and this one has not: an extended rule does not apply there."""
    origin: Text = ""
    verdict: Verdict = Verdict.SKIPPED
    reason: Text = ""
    """Why it is skipped, not supported or waived."""
    scenarios: list[Scenario] = []

    @model_validator(mode="after")
    def _judged_by_its_scenarios(self) -> Self:
        if not self.scenarios and self.verdict is Verdict.PASS:
            raise ValueError(f"{self.id}: no scenario, so it cannot have passed")
        if self.scenarios:
            judged = worst(scenario.verdict for scenario in self.scenarios)
            if "verdict" in self.model_fields_set and self.verdict is not judged:
                raise ValueError(f"{self.id}: says {self.verdict}, its scenarios say {judged}")
            self.verdict = judged
        return self


class Record(Model):
    """One run. It says `interrupted` until it has ended properly, and then what its requirements say."""

    schema_: Literal["unreserve.dev/run-record/v1"] = Field(default=SCHEMA, alias="schema")
    run_id: Text
    verdict: RunVerdict = RunVerdict.INTERRUPTED
    selection: Literal["full", "filtered"] = "full"
    """Only a full selection can be signed off."""
    select: Text = ""
    """What the user selected: requirement ids and families."""
    candidate: Candidate = Candidate()
    kubernetes: Text = ""
    """Version the API server reported, such as `v1.37.2`."""
    provider: Text = ""
    suite: Suite = Suite()
    machine: Machine = Machine()
    seed: int | None = None
    patience: float = 1.0
    """How much slower than the bounds this machine was allowed to be."""
    iterations: int = 1
    started: AwareDatetime
    ended: AwareDatetime | None = None
    command: Texts = []
    """Arguments of the command that does this run again."""
    configuration: Text = ""
    """The candidate's effective configuration."""
    claims: Data = {}
    """Features the candidate says it supports, with their parameters."""
    deviations: list[Deviation] = []
    requirements: list[Requirement] = []
    """The selected ones, and those at which a finding was booked."""
    errors: Texts = []
    """What broke outside of any scenario. Any makes the run an error."""
    notes: Texts = []

    @model_validator(mode="after")
    def _judged_by_its_requirements(self) -> Self:
        if self.verdict not in (RunVerdict.INTERRUPTED, judged := run_verdict(self)):
            raise ValueError(f"the run says {self.verdict}, its requirements say {judged}")
        return self

    def obstacles(self) -> list[str]:
        """Return what keeps this run from being signed off, one sentence each; `blockers` are behind its verdict."""
        found = self.obstacles_at_begin()
        if self.verdict is RunVerdict.INTERRUPTED:
            found.append("The run was interrupted: it shows what had been recorded by then.")
        elif self.verdict is not RunVerdict.SUCCESS:
            found.append(f"The verdict is {self.verdict}.")
        if not self.candidate.digest:
            found.append("The digest of the candidate is not known: nobody could tell what was tested.")
        return found

    def obstacles_at_begin(self) -> list[str]:
        """Return those of the obstacles that stand before the first scenario has run."""
        found = []
        if self.selection == "filtered":
            found.append(f"Only a selection was run: {self.select or 'see the command'}.")
        if not self.suite.commit:
            found.append("The suite was not run from a git checkout: nobody could tell which scenarios these were.")
        if self.suite.dirty:
            found.append("The checkout of the suite had changes that no commit holds: commit or remove them.")
        found += [
            f"The deviation {each.id} of {each.owner or 'nobody'} "
            + (f"expired on {each.expires}." if each.state is DeviationState.EXPIRED else "names no requirement.")
            for each in self.deviations
            if each.state in (DeviationState.EXPIRED, DeviationState.UNMATCHED)
        ]
        return found

    def claimed(self, requirement: Requirement) -> bool:
        """Whether the rule applies: a core rule always does, an extended one if it is claimed and can be run here."""
        extended = not requirement.lacking and self.claims.keys() >= set(requirement.features)
        return requirement.level == "core" or extended

    def consequence(self, requirement: Requirement) -> RunVerdict:
        """Return what this requirement alone makes of the run; all but `success` blocks the sign-off."""
        if requirement.verdict is Verdict.ERROR:
            return RunVerdict.ERROR
        if requirement.verdict is Verdict.FAIL:
            return RunVerdict.FAILURE
        if requirement.verdict in (Verdict.PASS, Verdict.WAIVED):
            return RunVerdict.SUCCESS
        if requirement.level == "core":
            return RunVerdict.PARTIAL
        if self.claimed(requirement) or requirement.verdict is Verdict.INCONCLUSIVE:
            return RunVerdict.INCONCLUSIVE
        return RunVerdict.SUCCESS

    def blockers(self) -> list[Requirement]:
        """Return the requirements that keep the run from success, the gravest first."""
        blocking = [row for row in self.requirements if self.consequence(row) is not RunVerdict.SUCCESS]
        return sorted(blocking, key=lambda row: -self.consequence(row).precedence)

    def reproduce(self, requirement: str) -> list[str]:
        """Return the command that runs one requirement of this run again, empty if the record has none."""
        if "make" in self.command[:1]:
            kept = [word for word in self.command if not word.startswith("SELECT=")]
            return [*kept, f"SELECT={requirement}"]
        flags = [None, *self.command]
        kept = [
            word
            for flag, word in zip(flags, self.command, strict=False)
            if "--select" not in (flag, word) and not word.startswith("--select=")
        ]
        return [*kept, "--select", requirement] if kept else []


def run_verdict(record: Record) -> RunVerdict:
    """Judge a run that ended properly.

    | verdict | when |
    |---|---|
    | error | any error, in a scenario or outside, or a deviation that names no requirement |
    | failure | any fail |
    | partial | a core requirement without an answer: skipped, inconclusive or not supported |
    | inconclusive | an extended one without an answer: inconclusive, or claimed and skipped or not supported |
    | nothing-ran | none of these, and nothing passed or was waived |
    | success | else |

    A deviation covers its requirement as a whole: a waived one is an answer, whatever else was left out of it.
    """
    if record.errors or any(deviation.state is DeviationState.UNMATCHED for deviation in record.deviations):
        return RunVerdict.ERROR
    answered = any(row.verdict in (Verdict.PASS, Verdict.WAIVED) for row in record.requirements)
    consequences = [record.consequence(row) for row in record.requirements]
    return max(
        [RunVerdict.SUCCESS if answered else RunVerdict.NOTHING_RAN, *consequences],
        key=lambda verdict: verdict.precedence,
    )


# --- files ------------------------------------------------------------------------------------------------------------


def write_private(path: Path, text: str) -> None:
    """Put `text` at `path` in one step, mode 0600: whoever reads sees the old file or the new one, never a part."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a descriptor
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of `record.json`; `reports/record.schema.json` holds it."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA}
    return head | Record.model_json_schema(mode="serialization")


def read(directory: Path) -> Record:
    """Read the record of a run from its results directory.

    Raises:
        RecordError: there is none, or it is not a record of this schema, or it contradicts itself.
    """
    path = directory / RECORD
    try:
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text).get("schema")
    except OSError as problem:
        raise RecordError(f"{path}: {problem.strerror}; name a directory results/<run id>") from problem
    except (ValueError, AttributeError) as problem:
        raise RecordError(f"{path}: not a run record: {problem}") from problem
    if schema != SCHEMA:
        raise RecordError(f"{path}: field schema is {schema!r}, this version reads {SCHEMA!r}")
    try:
        return Record.model_validate_json(text)
    except ValidationError as problem:
        lines = [
            f"{path}: {'.'.join(map(str, error['loc'])) or 'record'}: {error['msg']}" for error in problem.errors()
        ]
        raise RecordError("\n".join(lines)) from problem


class RecordWriter:
    """Writes `<directory>/record.json` as the run goes, and points `latest` beside the directory at it.

    Each call leaves a complete record on disk, which says `interrupted` until `finish`. Not thread-safe.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._record: Record | None = None
        self._catalogue: dict[str, Requirement] = {}
        self._ran: set[tuple[str, str, int]] = set()

    @property
    def record(self) -> Record:
        """The record as last written.

        Raises:
            RuntimeError: before `begin`.
        """
        if self._record is None:
            raise RuntimeError("begin() comes first")
        return self._record

    def begin(self, record: Record, catalogue: Iterable[Requirement] = ()) -> None:
        """Write the first state of the run: its selected requirements with their planned scenarios.

        `catalogue` describes the requirements at which a finding may be booked though they were not selected.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._catalogue = {row.id: row for row in catalogue}
        self._write(record)
        link = self.directory.parent / f".latest.{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.directory.name, target_is_directory=True)
        link.replace(self.directory.parent / "latest")

    def update(self, **fields: Any) -> None:  # noqa: ANN401 - the fields of Record
        """Set fields that became known after `begin`, such as `kubernetes=` or `candidate=`."""
        self._write(self.record, **fields)

    def error(self, message: str) -> None:
        """Note what broke outside of any scenario: the run becomes an error."""
        self._write(self.record, errors=[*self.record.errors, message])

    def add(self, requirement: str, scenario: Scenario) -> None:
        """Write the result of one scenario of `requirement`.

        Its findings are booked at the requirements they name: at its own they make its verdict worse, at another they
        become an entry of their own there. Added again (its teardown broke, say) the fields that are set replace the
        earlier ones, but the verdict is only ever made worse.
        """
        record = self.record
        own = [finding for finding in scenario.findings if finding.requirement == requirement]
        for finding in own:
            scenario = _worse(scenario, finding.verdict, finding.message)
        record = self._book(record, requirement, scenario)
        for other in dict.fromkeys(finding.requirement for finding in scenario.findings if finding not in own):
            findings = [finding for finding in scenario.findings if finding.requirement == other]
            booked = scenario.model_copy(
                update={
                    "verdict": worst(finding.verdict for finding in findings),
                    "message": "\n".join(finding.message for finding in findings),
                    "findings": findings,
                    "found_in": requirement,
                    "seconds": 0.0,
                    "waited_seconds": 0.0,
                    "bound_seconds": None,
                    "measured_seconds": None,
                    "measurements": [],
                    "figures": {},
                    "notes": [],
                    "witnesses": [],
                    "steps": [],
                    "checklist": [],
                }
            )
            record = self._book(record, other, booked)
        self._write(record)

    def finish(self, *, interrupted: bool = False, ended: datetime | None = None) -> Record:
        """End the run (now, if not told when) and return its record, judged unless it was interrupted."""
        verdict = RunVerdict.INTERRUPTED if interrupted else run_verdict(self.record)
        self._write(self.record, verdict=verdict, ended=ended or datetime.now(UTC))
        return self.record

    def _book(self, record: Record, requirement: str, scenario: Scenario) -> Record:
        rows = {row.id: row for row in record.requirements}
        row = rows.get(requirement) or self._catalogue.get(requirement) or Requirement(id=requirement)
        key = (requirement, scenario.name, scenario.iteration)
        scenarios = {(other.name, other.iteration): other for other in row.scenarios}
        if key in self._ran:
            before = scenarios[key[1:]]
            later = {name: getattr(scenario, name) for name in scenario.model_fields_set}
            scenario = _worse(before.model_copy(update=later), before.verdict, before.message)
        self._ran.add(key)
        scenarios[key[1:]] = scenario
        rows[requirement] = Requirement.model_validate(
            {**_fields(row), "scenarios": list(scenarios.values())},
        )
        return record.model_copy(update={"requirements": list(rows.values())})

    def _write(self, record: Record, **fields: Any) -> None:  # noqa: ANN401 - the fields of Record
        record = Record.model_validate({**dict(record), "verdict": RunVerdict.INTERRUPTED, "ended": None, **fields})
        waived = {row.id for row in record.requirements for item in row.scenarios if item.verdict is Verdict.WAIVED}
        for deviation in record.deviations:
            if deviation.id in waived:
                deviation.state = DeviationState.APPLIED
        write_private(self.directory / RECORD, record.model_dump_json(indent=1) + "\n")
        self._record = record


def _fields(row: Requirement) -> dict[str, Any]:
    """Return the fields of a row but for the verdict, which its scenarios decide."""
    return {name: value for name, value in row if name != "verdict"}


def _worse(scenario: Scenario, verdict: Verdict, message: str) -> Scenario:
    """Make a verdict worse, and let the message of the worse one stand first."""
    texts = (
        [scenario.message, message] if scenario.verdict.severity >= verdict.severity else [message, scenario.message]
    )
    return scenario.model_copy(
        update={"verdict": worst([scenario.verdict, verdict]), "message": "\n".join(filter(None, dict.fromkeys(texts)))}
    )
