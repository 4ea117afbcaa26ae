"""The page of a night: every cell with its verdict, what is wrong and where, and every requirement in every cell."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nightly import night
from nightly.night import Night, Ran
from reports import record, signoff, wording
from reports.record import Record, RecordError, Requirement, RunVerdict, Verdict, write_private

PAGE: Final = "index.html"
# Earlier nights that a cell shows.
PAST: Final = 14
TEMPLATES: Final = [Path(__file__).parent / "templates", Path(signoff.__file__).parent / "templates"]


@dataclass
class Trouble:
    """One thing that keeps cells from success, with what each of them says about it."""

    verdict: Verdict | RunVerdict
    id: str
    title: str = ""
    said: dict[str, list[Ran]] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One requirement in every cell; None where a cell did not select it."""

    id: str
    title: str
    cells: list[Requirement | None]
    worst: Verdict
    blocks: bool


def page(this: Night, runs: dict[str, Record], past: list[Night]) -> str:
    """Return the page. `runs` are the records that could be read, by cell; `past` earlier nights, oldest first."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"moment": wording.moment, "lasted": lasted, "counted": counted, "shell": shlex.join}
    environment.globals |= {"GLYPHS": wording.GLYPHS, "WORDS": wording.WORDS}
    before = {
        cell.name: [(old, one) for old in past for one in old.cells if one.name == cell.name and one.verdict]
        for cell in this.cells
    }
    return environment.get_template(PAGE).render(
        night=this,
        headline=headline(this),
        runs=runs,
        grids=grids(this),
        columns=_columns(this),
        before=before,
        troubles=list(_troubles(this, runs)),
        rows=list(_rows(this, runs)),
        longest=max((cell.seconds or 0.0 for cell in this.cells), default=0.0),
        signoff=signoff.PAGE,
    )


def write(directory: Path) -> None:
    """Draw the page of the night in `directory` from its record and those of its runs.

    Raises:
        RecordError: the record of the night cannot be read.
    """
    this = night.read(directory)
    runs = {}
    for cell in this.cells:
        with suppress(RecordError):  # its cell says so
            if cell.record:
                runs[cell.name] = record.read(directory / cell.record)
    write_private(directory / PAGE, page(this, runs, list(_past(directory, this))))


def headline(this: Night) -> str:
    """Return the night in one sentence, without its verdict."""
    verdicts = [cell.verdict for cell in this.cells]
    counts = [(verdict, verdicts.count(verdict)) for verdict in (*reversed(RunVerdict), None)]
    good = verdicts.count(RunVerdict.SUCCESS)
    others = [
        f"{count} {(verdict or 'not run').replace('-', ' ')}"
        for verdict, count in counts
        if count and verdict is not RunVerdict.SUCCESS
    ]
    return ", ".join([f"{good} of {len(verdicts)} cell{'s' * (len(verdicts) != 1)} succeeded", *others])


def counted(run: Record) -> str:
    """Return how many of the requirements that apply were shown to hold."""
    rows = [row for row in run.requirements if run.claimed(row)]
    return f"{sum(row.verdict is Verdict.PASS for row in rows)} of {len(rows)} hold"


def lasted(seconds: float) -> str:
    """Write how long a cell took: `1 min 21 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _past(directory: Path, this: Night) -> Iterator[Night]:
    found = []
    for file in directory.parent.glob(f"nightly-*/{night.FILE}"):
        with suppress(RecordError):
            if not file.parent.is_symlink():
                found.append(night.read(file.parent))
    yield from sorted((old for old in found if old.started < this.started), key=lambda old: old.started)[-PAST:]


def grids(this: Night) -> list[tuple[str, list[str], list[tuple[str, list[Ran | None]]]]]:
    """Return for each provider its minors, and for each candidate its cells in their order."""
    cells = {(cell.provider, cell.candidate, cell.kubernetes): cell for cell in this.cells}
    grids = []
    for provider in dict.fromkeys(cell.provider for cell in this.cells):
        here = [cell for cell in this.cells if cell.provider == provider]
        minors = sorted({cell.kubernetes for cell in here}, key=lambda minor: [int(part) for part in minor.split(".")])
        names = dict.fromkeys(cell.candidate for cell in here)
        grids.append((provider, minors, [(name, [cells.get((provider, name, m)) for m in minors]) for name in names]))
    return grids


def _columns(this: Night) -> dict[tuple[str, str], list[Ran]]:
    """Return the cells as the requirements' table groups them."""
    columns: dict[tuple[str, str], list[Ran]] = {}
    for cell in this.cells:
        columns.setdefault((cell.candidate, cell.provider), []).append(cell)
    return columns


def _rows(this: Night, runs: dict[str, Record]) -> Iterator[Row]:
    shown = [cell.name for cells in _columns(this).values() for cell in cells]
    tables = {name: {row.id: row for row in run.requirements} for name, run in runs.items()}
    titles = {row.id: row.title for run in runs.values() for row in run.requirements}
    for id_, title in titles.items():
        cells = [tables.get(name, {}).get(id_) for name in shown]
        blocks = any(row.id == id_ for run in runs.values() for row in run.blockers())
        yield Row(id_, title, cells, record.worst(cell.verdict for cell in cells if cell), blocks)


def _troubles(this: Night, runs: dict[str, Record]) -> Iterator[Trouble]:
    """Yield what keeps cells from success: first what befell whole cells, then requirements, the gravest first."""
    found: dict[str, Trouble] = {}
    for cell in this.cells:
        run = runs.get(cell.name)
        said = [cell.reason] if cell.reason else run.errors if run else []
        if not said and cell.verdict is RunVerdict.NOTHING_RAN:
            said = ["no requirement of the selection passed"]
        for text in said if cell.verdict else ():
            assert cell.verdict
            trouble = Trouble(cell.verdict, cell.name, command=cell.command)
            trouble.said[text] = [cell]
            yield trouble
        for row in run.blockers() if run and not cell.reason else ():
            trouble = found.setdefault(row.id, Trouble(row.verdict, row.id, row.title, command=run.reproduce(row.id)))
            trouble.verdict = record.worst([Verdict(trouble.verdict), row.verdict])
            trouble.said.setdefault(wording.cause(row)[1], []).append(cell)
    yield from sorted(found.values(), key=lambda trouble: -Verdict(trouble.verdict).severity)
