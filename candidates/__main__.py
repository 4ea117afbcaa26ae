"""`python -m candidates`: check a descriptor, export the schema."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from candidates.descriptor import schema
from candidates.document import DescriptorError
from candidates.reading import load

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
