"""`python -m nightly`: run a matrix of candidates, Kubernetes minors and providers, or draw its page again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clusters.progress import Shown, Silent
from nightly import index, matrix, run
from nightly.night import Night, Ran
from reports import wording
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
        typer.echo(str(problem), err=True)
        raise typer.Exit(WRONG_USAGE) from None
    parallel = min(parallel or run.side_by_side(), len(cells))
    lines = Lines()
    lines.step(f"{len(cells)} cells, {parallel} at a time")
    with Shown(console) as live:
        nightly = run.Nightly(
            cells, results, matrix=str(file), parallel=parallel, progress=live if console.is_terminal else lines
        )
        ended = nightly.run()
    _summary(ended)
    lines.step(f"Index: {nightly.directory / index.PAGE}")
    raise typer.Exit(ended.verdict.exit_code)


@app.command()
def render(
    directory: Annotated[Path, typer.Argument(help="A night, such as results/nightly-latest.", metavar="DIR")],
) -> None:
    """Draw index.html again from the records."""
    try:
        index.write(directory.resolve())
    except RecordError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(WRONG_USAGE) from None
    console.print(str(directory / index.PAGE), markup=False, soft_wrap=True)


def _summary(night: Night) -> None:
    """Print the verdicts as the page shows them."""
    console.print()
    for provider, minors, lines in index.grids(night):
        table = Table(provider, *minors, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
        for name, cells in lines:
            table.add_row(Text(name, "bold"), *map(_cell, cells))
        console.print(table)
        console.print()
    said = Text.assemble((night.verdict.replace("-", " ").upper(), STYLES[night.verdict]), f"  {index.headline(night)}")
    console.print(said, soft_wrap=True)


def _cell(cell: Ran | None) -> Text:
    if cell is None or cell.verdict is None:
        return Text("excluded" if cell is None else "not run", "dim")
    word = f"{wording.GLYPHS[cell.verdict]} {cell.verdict.replace('-', ' ')}"
    took = "" if cell.seconds is None else f"  {index.lasted(cell.seconds)}"
    return Text.assemble((word, STYLES[cell.verdict]), (took, "dim"))


if __name__ == "__main__":
    app(prog_name="python -m nightly")
