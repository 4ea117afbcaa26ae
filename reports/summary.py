"""The end of a run in the terminal: its first line is the verdict, then what blocks, then the requirements."""

import shlex
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports import signoff, wording
from reports.record import Record, Requirement, RunVerdict, Verdict

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


def summary(record: Record, directory: Path | None = None) -> RenderableType:
    """Return the summary; `directory` is where the page was written."""
    verdict = Text(record.verdict.replace("-", " ").upper(), STYLES[record.verdict])
    parts: list[RenderableType] = [Text.assemble(verdict, "  ", wording.headline(record), overflow="fold")]
    blockers = record.blockers()
    if record.errors or blockers:
        parts += [Text(), Text("Blockers", "bold")]
        parts += [_block("error", STYLES[Verdict.ERROR], text) for text in record.errors]
        parts += [_blocker(record, row) for row in blockers]
    if record.requirements:
        parts += [Text(), _table(record)]
    parts += [Text(f"note: {note}", "dim") for note in record.notes]
    if record.selection == "filtered":
        parts.append(Text("A filtered run cannot be signed off.", "dim"))
    if directory is not None:
        parts.append(Text(f"Report: {directory / signoff.PAGE}"))
    return Group(*parts)


def text(record: Record, directory: Path | None = None, *, width: int = 100, color: bool = False) -> str:
    """Return the summary as text, with ANSI colours if asked for."""
    console = Console(
        file=StringIO(), width=width, force_terminal=color, no_color=not color, highlight=False, markup=False
    )
    console.print(summary(record, directory))
    assert isinstance(console.file, StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _word(verdict: Verdict) -> Text:
    return Text(f"{wording.GLYPHS[verdict]} {wording.WORDS[verdict]}", STYLES[verdict])


def _blocker(record: Record, row: Requirement) -> RenderableType:
    scenario, why = wording.cause(row)
    command = record.reproduce(scenario.found_in if scenario and scenario.found_in else row.id)
    lines = [Text.assemble(_word(row.verdict), "  ", (row.id, "bold"), f"  {row.title}")]
    place = f"{scenario.name}{f' (found in {scenario.found_in})' if scenario.found_in else ''}: " if scenario else ""
    lines.append(Text(f"{place}{why}"))
    if command:
        lines.append(Text(shlex.join(command), "dim"))
    return Group(Padding(lines[0], (0, 0, 0, 2)), *(Padding(line, (0, 0, 0, 4)) for line in lines[1:]))


def _block(word: str, style: str, message: str) -> RenderableType:
    return Padding(Text.assemble((f"! {word}", style), f"  {message}"), (0, 0, 0, 2))


def _table(record: Record) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for options in (
        {"no_wrap": True},
        {"no_wrap": True},
        {"justify": "right", "no_wrap": True},
        {"overflow": "ellipsis", "no_wrap": True},
    ):
        table.add_column(**options)  # type: ignore[arg-type]
    for row in record.requirements:
        closest = max(
            (one for one in row.scenarios if one.measured_seconds is not None and one.bound_seconds),
            key=lambda one: (one.measured_seconds or 0.0) / (one.bound_seconds or 1.0),
            default=None,
        )
        measured = wording.measured(closest) if closest else ""
        table.add_row(_word(row.verdict), Text(row.id, "bold"), Text(measured, "dim"), Text(row.title))
    return table
