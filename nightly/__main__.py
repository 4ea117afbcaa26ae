"""`python -m nightly`: run a matrix of candidates, Kubernetes minors and providers, or draw its page again."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clusters.progress import Shown, Silent
from nightly import index, matrix, run
from nightly.night import Cell
from reports.record import RecordError
from reports.summary import STYLES

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
console = Console(highlight=False, emoji=False)
WRONG_USAGE = 4


class Lines(Silent):
    """Prints only what stays."""

    def step(self, text: str) -> None:
        """Print a line."""
        console.print(text, markup=False, soft_wrap=True)


@app.command(name="run")
def run_(
    file: Annotated[Path, typer.Option("--matrix", help="What to run.")] = Path("nightly.yaml"),
    results: Annotated[Path, typer.Option(help="Folder that gets one folder for each night.")] = Path("results"),
    parallel: Annotated[int, typer.Option(min=0, help="Cells at the same time; 0: as the machine allows.")] = 0,
) -> None:
    """Run every cell, whatever becomes of the others. The exit code is that of the worst."""
    try:
        cells = matrix.load(file)
    except matrix.MatrixError as problem:
        raise _wrong(problem) from None
    parallel = min(parallel or run.side_by_side(), len(cells))
    console.print(f"{len(cells)} cells, {parallel} at a time")
    with Shown(console) as live:
        shown = live if console.is_terminal else Lines()
        nightly = run.Nightly(cells, results, parallel=parallel, progress=shown)
        ended = nightly.run()
    for provider, lines in index.grids(ended).items():
        minors = list(dict.fromkeys(minor for cells in lines.values() for minor in cells))
        table = Table(provider, *minors, box=None, pad_edge=False, padding=(0, 3, 1, 0), header_style="dim")
        for name, row in lines.items():
            table.add_row(Text(name, "bold"), *(_cell(row.get(minor)) for minor in minors))
        console.print()
        console.print(table)
    verdict = Text(ended.verdict.replace("-", " ").upper(), STYLES[ended.verdict])
    console.print()
    console.print(Text.assemble(verdict, f"  {index.headline(ended)}"), soft_wrap=True)
    console.print(f"Index: {nightly.directory / index.PAGE}", markup=False, soft_wrap=True)
    raise typer.Exit(ended.verdict.exit_code)


@app.command()
def render(
    directory: Annotated[Path, typer.Argument(help="A night, such as results/nightly-latest.", metavar="DIR")],
) -> None:
    """Draw index.html again from the records."""
    try:
        index.write(directory.resolve())
    except RecordError as problem:
        raise _wrong(problem) from None


def _wrong(problem: Exception) -> typer.Exit:
    sys.stderr.write(f"{problem}\n")
    return typer.Exit(WRONG_USAGE)


def _cell(cell: Cell | None) -> Text:
    if cell is None or cell.verdict is None:
        return Text("not run" if cell else "excluded", "dim")
    took = "" if cell.seconds is None else f"\n{index.lasted(cell.seconds)}"
    return Text.assemble((index.word(cell.verdict), STYLES[cell.verdict]), (took, "dim"))


if __name__ == "__main__":
    app(prog_name="python -m nightly")
