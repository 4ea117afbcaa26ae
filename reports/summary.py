"""The end of a run in the terminal: its first line is the verdict, then what blocks, then the requirements."""

import shlex
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from reports import signoff, wording
from reports.record import Record, RunVerdict, Verdict

STYLES: Final[dict[Verdict | RunVerdict, str]] = {
    Verdict.PASS: "green",
    Verdict.NOT_SUPPORTED: "dim",
    Verdict.SKIPPED: "dim",
    Verdict.WAIVED: "cyan",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.FAIL: "bold red",
    Verdict.ERROR: "bold magenta",
    RunVerdict.SUCCESS: "bold green",
    RunVerdict.NOTHING_RAN: "bold yellow",
    RunVerdict.PARTIAL: "bold yellow",
    RunVerdict.FAILURE: "bold red",
    RunVerdict.INTERRUPTED: "bold yellow",
}

GAP: Final = 2
# Columns that a verdict takes: its glyph, the longest word, and a gap.
WORD: Final = 2 + max(map(len, wording.WORDS.values())) + GAP


def text(record: Record, directory: Path | None = None, *, width: int = 100, color: bool = False) -> str:
    """Return the summary, its first line and its commands unbroken, with ANSI colours if asked for.

    `directory` is where the page was written.
    """
    file = StringIO()
    console = Console(
        file=file, width=width, force_terminal=color, no_color=not color, highlight=False, markup=False, emoji=False
    )
    for part in _parts(record, directory, width):
        console.print(part, soft_wrap=isinstance(part, Text))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _parts(record: Record, directory: Path | None, width: int) -> Iterator[RenderableType]:
    verdict = Text(record.verdict.replace("-", " ").upper(), STYLES[record.verdict])
    yield Text.assemble(verdict, "  ", wording.headline(record))
    blockers = record.blockers()
    if record.errors or blockers:
        yield Text()
        yield Text("Blockers", "bold")
    for error in record.errors:
        yield _indented(_word(Verdict.ERROR), Text(error))
    for row in blockers:
        scenario, why = wording.cause(row)
        found = f" (found in {scenario.found_in})" if scenario and scenario.found_in else ""
        place = f"{scenario.name}{found}: " if scenario else ""
        yield _indented(_word(row.verdict), Text.assemble((row.id, "bold"), f" {row.title}\n{place}{why}"))
        if command := record.reproduce(scenario.found_in if scenario and scenario.found_in else row.id):
            yield Text(f"{' ' * WORD}{shlex.join(command)}", "dim")
    if record.requirements:
        yield Text()
        yield from _rows(record, width)
    for note in record.notes:
        yield Text(f"note: {note}", "dim")
    if record.selection == "filtered":
        yield Text("A filtered run cannot be signed off.", "dim")
    if directory is not None:
        yield Text(f"Report: {directory / signoff.PAGE}")


def _word(verdict: Verdict) -> Text:
    return Text(f"{wording.GLYPHS[verdict]} {wording.WORDS[verdict]}", STYLES[verdict])


def _indented(word: Text, body: Text) -> Table:
    grid = Table.grid()
    grid.add_column(min_width=WORD, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(word, body)
    return grid


def _rows(record: Record, width: int) -> Iterator[Text]:
    """Yield one line for each requirement. Not a rich Table: that starves the narrow columns for the wide one."""
    rows = []
    for row in record.requirements:
        timed = [one for one in row.scenarios if one.measured_seconds is not None and one.bound_seconds]
        closest = max(timed, key=lambda one: (one.measured_seconds or 0.0) / (one.bound_seconds or 1.0), default=None)
        rows.append((_word(row.verdict), row.id, wording.measured(closest) if closest else "", row.title))
    ids, times = (max((len(row[column]) for row in rows), default=0) for column in (1, 2))
    for word, id_, measured, title in rows:
        word.pad_right(WORD - len(word))
        line = Text.assemble(word, (f"{id_:{ids + GAP}}", "bold"), (f"{measured:>{times}}", "dim"), " " * GAP, title)
        line.truncate(width, overflow="ellipsis")
        yield line
