"""The page of a night: every cell with its verdict, what is wrong and where, and every requirement in every cell."""

import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nightly import night
from nightly.night import Cell, Night
from reports import record, signoff, wording
from reports.record import Record, RecordError, RunVerdict, Verdict, write_private

PAGE: Final = "index.html"
# Earlier nights that a cell shows.
PAST: Final = 14
TEMPLATES: Final = [Path(__file__).parent / "templates", Path(signoff.__file__).parent / "templates"]


@dataclass
class Trouble:
    """One requirement, or something outside of any, that keeps cells from success, with what they say about it."""

    verdict: Verdict | RunVerdict
    id: str = ""
    title: str = ""
    command: list[str] = field(default_factory=list)
    said: dict[str, list[Cell]] = field(default_factory=dict)


def page(this: Night, runs: dict[str, Record], past: list[Night]) -> str:
    """Return the page. `runs` are the records that could be read, by cell; `past` earlier nights, oldest first."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"moment": wording.moment, "lasted": lasted, "counted": counted, "shell": shlex.join}
    troubles = list(_troubles(this, runs))
    return environment.get_template(PAGE).render(
        night=this,
        headline=headline(this),
        runs=runs,
        grids=grids(this),
        troubles=troubles,
        blocking={one.id: one.verdict for one in troubles},
        titles={row.id: row.title for run in runs.values() for row in run.requirements},
        tables={name: {row.id: row for row in run.requirements} for name, run in runs.items()},
        before={
            cell.name: [(old, one) for old in past for one in old.cells if one.name == cell.name and one.verdict]
            for cell in this.cells
        },
        signoff=signoff.PAGE,
        word=word,
        GLYPHS=wording.GLYPHS,
        WORDS=wording.WORDS,
    )


def write(directory: Path) -> None:
    """Draw the page of the night in `directory` from its record and those of its runs.

    Raises:
        RecordError: the record of the night cannot be read.
    """
    this, runs = night.read(directory), {}
    for cell in this.cells:
        with suppress(RecordError):  # its cell says so
            if cell.record:
                runs[cell.name] = record.read(directory / cell.record)
    write_private(directory / PAGE, page(this, runs, _past(directory, this)))


def headline(this: Night) -> str:
    """Return the night in one sentence, without its verdict."""
    counts = Counter(cell.verdict for cell in this.cells)
    ordered = (verdict for verdict in (*reversed(RunVerdict), None) if counts[verdict])
    return f"{len(this.cells)} cells: {', '.join(f'{counts[verdict]} {_plain(verdict)}' for verdict in ordered)}"


def counted(run: Record) -> str:
    """Return how many of the requirements that apply were shown to hold."""
    rows = [row for row in run.requirements if run.claimed(row)]
    return f"{sum(row.verdict is Verdict.PASS for row in rows)} of {len(rows)} hold"


def lasted(seconds: float) -> str:
    """Write how long it took: `1 min 21 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def word(verdict: RunVerdict | None) -> str:
    """Write the verdict of a cell with its glyph."""
    return f"{wording.GLYPHS[verdict] if verdict else '·'} {_plain(verdict)}"


def _plain(verdict: RunVerdict | None) -> str:
    return verdict.replace("-", " ") if verdict else "not run"


def grids(this: Night) -> dict[str, dict[str, dict[str, Cell]]]:
    """Return the cells by provider, candidate and minor."""
    found: dict[str, dict[str, dict[str, Cell]]] = {}
    for cell in this.cells:
        found.setdefault(cell.provider, {}).setdefault(cell.title, {})[cell.kubernetes] = cell
    return found


def _past(directory: Path, this: Night) -> list[Night]:
    found = []
    for file in directory.parent.glob(f"nightly-[0-9]*/{night.FILE}"):
        with suppress(RecordError):
            found.append(night.read(file.parent))
    return sorted((old for old in found if old.started < this.started), key=lambda old: old.started)[-PAST:]


def _troubles(this: Night, runs: dict[str, Record]) -> Iterator[Trouble]:
    """Yield first what befell whole cells, then requirements, the gravest first."""
    whole: dict[str, Trouble] = {}
    rules: dict[str, Trouble] = {}
    for cell in this.cells:
        run = runs.get(cell.name)
        for text in [cell.reason] if cell.reason else run.errors if run else []:
            whole.setdefault(text, Trouble(cell.verdict or RunVerdict.ERROR)).said.setdefault(text, []).append(cell)
        if run is None or cell.reason:
            continue
        for row in run.blockers():
            one = rules.setdefault(row.id, Trouble(row.verdict, row.id, row.title, run.reproduce(row.id)))
            one.verdict = record.worst([Verdict(one.verdict), row.verdict])
            one.said.setdefault(wording.cause(row)[1], []).append(cell)
    yield from sorted(whole.values(), key=lambda one: -RunVerdict(one.verdict).precedence)
    yield from sorted(rules.values(), key=lambda one: -Verdict(one.verdict).severity)
