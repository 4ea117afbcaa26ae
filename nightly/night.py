"""The record of a night: which cells it had and how each ended. The runs' own records say the rest."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from reports.record import Model, RecordError, RunVerdict, Text, Texts

SCHEMA: Final = "unreserve.dev/nightly/v1"
FILE: Final = "nightly.json"


class Ran(Model):
    """One cell. Without a verdict it has not ended yet, or the night ended before it began."""

    name: Text
    candidate: Text
    """Name of the descriptor."""
    kubernetes: Text
    """The minor."""
    provider: Text
    command: Texts = []
    """What does this run again."""
    verdict: RunVerdict | None = None
    reason: Text = ""
    """Why the verdict is not that of a run record, or why there is none; the first line stands alone."""
    exit_code: int | None = None
    """That of pytest, negative for a signal."""
    started: AwareDatetime | None = None
    seconds: float | None = None
    patience: float | None = None
    record: Text = ""
    """Folder of the run's record, relative to the night; empty where there is none."""
    log: Text = ""
    """What pytest printed, relative to the night."""


class Night(Model):
    """One night. It says `interrupted` until all of its cells have ended."""

    schema_: Literal["unreserve.dev/nightly/v1"] = Field(default=SCHEMA, alias="schema")
    id: Text
    verdict: RunVerdict = RunVerdict.INTERRUPTED
    matrix: Text = ""
    """The file."""
    parallel: int = 1
    started: AwareDatetime
    ended: AwareDatetime | None = None
    cells: list[Ran]


def worst(cells: Iterable[Ran]) -> RunVerdict:
    """Return the verdict of a night.

    It is that of its worst cell; `nothing-ran` beside cells that did run makes it `partial`, as a requirement that is
    not supported does with a run.
    """
    verdicts = [cell.verdict or RunVerdict.INTERRUPTED for cell in cells]
    found = max(verdicts, key=lambda verdict: verdict.precedence)
    missing = RunVerdict.NOTHING_RAN in verdicts and set(verdicts) != {RunVerdict.NOTHING_RAN}
    return max([found, RunVerdict.PARTIAL], key=lambda verdict: verdict.precedence) if missing else found


def read(directory: Path) -> Night:
    """Read the record of a night.

    Raises:
        RecordError: there is none, or it is not of this schema.
    """
    file = directory / FILE
    try:
        text = file.read_text(encoding="utf-8")
        if (schema := json.loads(text).get("schema")) != SCHEMA:
            raise RecordError(f"{file}: field schema is {schema!r}, this version reads {SCHEMA!r}")
        return Night.model_validate_json(text)
    except OSError as problem:
        raise RecordError(f"{file}: {problem.strerror}; name a directory results/nightly-<id>") from problem
    except ValidationError as problem:
        lines = [f"{file}: {'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problem.errors()]
        raise RecordError("\n".join(lines)) from problem
    except (ValueError, AttributeError) as problem:
        raise RecordError(f"{file}: not the record of a night: {problem}") from problem
