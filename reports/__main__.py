"""`python -m reports`: draw the reports of a run again."""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from reports import record, summary
from reports.render import render as render_all

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Reports of a run, drawn from its record.")


@app.command()
def render(
    directory: Annotated[Path, typer.Argument(help="The results of a run, such as results/latest.", metavar="DIR")],
) -> None:
    """Draw junit.xml, signoff.html, SHA256SUMS and the files for Allure again, and print the summary."""
    try:
        judged = render_all(directory)
    except record.RecordError as problem:
        typer.echo(str(problem), err=True)
        raise typer.Exit(4) from None
    size = shutil.get_terminal_size((100, 24))
    typer.echo(summary.text(judged, directory, width=size.columns, color=sys.stdout.isatty()), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of record.json."""
    typer.echo(json.dumps(record.json_schema(), indent=1))


if __name__ == "__main__":
    app(prog_name="python -m reports")
