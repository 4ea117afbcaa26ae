"""`python -m candidates`: check a descriptor, build what it describes, export the schema."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from candidates import building
from candidates.deployed import DeployError
from candidates.descriptor import schema
from candidates.document import DescriptorError
from candidates.reading import load
from clusters.golang import numbers
from clusters.progress import Shown

SCHEMA = Path(__file__).with_name("schema.json")

app = typer.Typer(no_args_is_help=True, add_completion=False)
console = Console(highlight=False, soft_wrap=True)


@app.command()
def validate(files: list[Path]) -> None:
    """Check candidate descriptors, every problem with its line and what to write instead."""
    refused = False
    for file in files:
        try:
            found = load(file)
        except DescriptorError as error:
            refused = True
            for problem in error.problems:
                field = f" [bold]{escape(problem.field)}[/]" if problem.field else ""
                console.print(f"[red]✗[/] {escape(str(problem.file))}:{problem.line}{field}")
                console.print(f"    {escape(problem.wrong)}\n    [dim]→[/] {escape(problem.remedy)}")
        else:
            claims = ", ".join(sorted(found.features)) or "nothing beyond the core"
            versions = ", ".join(found.kubernetes_versions)
            console.print(f"[green]✓[/] {escape(str(file))}: {escape(found.identity.name)}, Kubernetes {versions}")
            console.print(f"    serves {escape(', '.join(found.scheduler_names))}; claims {escape(claims)}")
    raise typer.Exit(int(refused))


@app.command()
def build(
    file: Annotated[Path, typer.Argument(metavar="DESCRIPTOR")],
    kubernetes: Annotated[
        list[str] | None,
        typer.Option(help="Minor version; may be given more than once. Without it, the newest of the candidate's."),
    ] = None,
) -> None:
    """Build a candidate's programs ahead of a run, unless they are in the cache, and print where they are."""
    try:
        found = load(file)
        newest = max(found.kubernetes_versions, key=numbers)
        with Shown() as progress:
            for minor in kubernetes or [newest]:
                for path in building.build(found, minor, progress).values():
                    console.print(str(path), markup=False)
    except (DescriptorError, DeployError) as error:
        raise SystemExit(f"error: {error}") from None


@app.command("schema")
def export(
    check: Annotated[bool, typer.Option(help="Only say whether the committed schema is current.")] = False,
) -> None:
    """Write the JSON schema of the descriptor format."""
    current = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    if not check:
        SCHEMA.write_text(current, encoding="utf-8")
    elif not SCHEMA.exists() or SCHEMA.read_text(encoding="utf-8") != current:
        console.print(f"[red]✗[/] {SCHEMA.name} is not current: run `python -m candidates schema`")
        raise typer.Exit(1)
    console.print(f"[green]✓[/] {SCHEMA.name} is current")


if __name__ == "__main__":
    app()
