"""The record of a night: which cells it has and how each ended. The runs' own records say the rest."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from reports.record import Model, RecordError, RunVerdict, Text

FILE: Final = "nightly.json"
ROOT: Final = Path(__file__).resolve().parent.parent


class Strict(Model):
    """Values of another type are refused."""

    model_config = ConfigDict(strict=True)


class Options(Strict):
    """How a cell is run."""

    select: Text = ""
    """Requirement ids and families, such as `RES,HARD-1`."""
    iterations: int = Field(default=1, ge=1)
    seed: int | None = None
    minutes: float = Field(default=120, gt=0)
    """A cell that takes longer is stopped, and is an error."""


class Cell(Options):
    """One run. Without a verdict it has not ended yet, or the night ended before it began."""

    name: Text
    """Unique in its night; the name of its folder, too."""
    candidate: Text
    """The descriptor, relative to the checkout where it lies in it."""
    kubernetes: Text
    """The minor."""
    provider: Text
    suites: list[Text]
    verdict: RunVerdict | None = None
    reason: Text = ""
    """Why the verdict is not that of a run record; the first line stands alone."""
    exit_code: int | None = None
    """Of pytest, negative for a signal."""
    started: AwareDatetime | None = None
    seconds: float | None = None
    patience: float | None = None
    record: Text = ""
    """Folder of the run's record, relative to the night; empty where there is none."""
    log: Text = ""
    """What pytest printed, relative to the night."""

    @property
    def title(self) -> str:
        """Name of the descriptor."""
        return Path(self.candidate).stem

    def arguments(self) -> list[str]:
        """Return the arguments of pytest, but for where the results go."""
        words = [*self.suites, "--candidate", self.candidate]
        words += ["--provider", self.provider, "--kubernetes", self.kubernetes, "--nightly"]
        words += ["--select", self.select] if self.select else []
        words += ["--iterations", str(self.iterations)] if self.iterations > 1 else []
        return words + (["--seed", str(self.seed)] if self.seed is not None else [])


class Night(Strict):
    """One night. It says `interrupted` until all of its cells have ended."""

    schema_: Literal["unreserve.dev/nightly/v1"] = Field(default="unreserve.dev/nightly/v1", alias="schema")
    id: Text
    verdict: RunVerdict = RunVerdict.INTERRUPTED
    parallel: int
    started: AwareDatetime
    ended: AwareDatetime | None = None
    cells: list[Cell]


def worst(cells: Iterable[Cell]) -> RunVerdict:
    """Return the verdict of a night: that of its worst cell.

    `nothing-ran` beside cells that did run counts as `partial`, as a requirement that is not supported does in a run.
    """
    verdicts = {cell.verdict or RunVerdict.INTERRUPTED for cell in cells}
    if RunVerdict.NOTHING_RAN in verdicts and len(verdicts) > 1:
        verdicts.add(RunVerdict.PARTIAL)
    return max(verdicts, key=lambda verdict: verdict.precedence)


def read(directory: Path) -> Night:
    """Read the record of a night.

    Raises:
        RecordError: there is none, or it is not of this schema.
    """
    file = directory / FILE
    try:
        return Night.model_validate_json(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise RecordError(f"{file}: {problem.strerror}; name a folder results/nightly-<id>") from problem
    except ValueError as problem:
        raise RecordError(f"{file}: not the record of a night: {problem}") from problem
