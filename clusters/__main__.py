"""`python -m clusters`: build, list and examine what the embedded cluster is made of."""

from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from clusters import cache, golang
from clusters.kind import node_image
from clusters.kind.doctor import examine as examine_kind
from clusters.kind.machine import MachineError
from clusters.local import build as builds
from clusters.local.doctor import examine
from clusters.progress import Shown
from clusters.provider import ProviderError

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
console = Console(highlight=False)

MIB = 1024**2
Provider = Literal["local", "kind"]
Minors = Annotated[list[str] | None, typer.Option("--kubernetes", help="Minor version; may be given more than once.")]


@app.command()
def build(
    kubernetes: Minors = None,
    every: Annotated[bool, typer.Option("--all", help="All supported minors.")] = False,
) -> None:
    """Build the components of a minor into the cache, unless they are there."""
    minors = builds.minors() if every else kubernetes or [builds.NEWEST]
    try:
        with Shown() as progress:
            for minor in minors:
                for component in builds.components(minor).values():
                    if component.name in builds.NEEDED:
                        console.print(f"{golang.ensure(component, progress)}", soft_wrap=True, markup=False)
    except ProviderError as error:
        raise SystemExit(f"error: {error}") from None


@app.command()
def kind_image(
    kubernetes: Annotated[str, typer.Option(help="Minor version.")] = builds.NEWEST,
    mirror: Annotated[str, typer.Option(help="Debian archive, if not the one that apt uses here.")] = "",
) -> None:
    """Make a node image for kind where no registry is reachable, unless it is there, and print its name."""
    try:
        with Shown() as progress:
            console.print(node_image.make(kubernetes, progress, mirror=mirror), soft_wrap=True, markup=False)
    except (ProviderError, MachineError) as error:
        raise SystemExit(f"error: {error}") from None


@app.command("list")
def list_components(kubernetes: Minors = None) -> None:
    """List the components of the supported minors and where their builds are."""
    table = Table(
        "component",
        "version",
        "minor",
        "size",
        Column("in the cache", overflow="fold"),
        title=escape(f"cache: {cache.folder()}"),
        title_style="",
    )
    try:
        for minor in kubernetes or builds.minors():
            for kept in builds.inventory(minor):
                size = f"{kept.path.stat().st_size / MIB:.0f} MiB" if kept.path else "-"
                where = str(kept.path.relative_to(cache.folder())) if kept.path else "not built"
                table.add_row(kept.component.name, kept.component.version, minor, size, escape(where))
    except ProviderError as error:
        raise SystemExit(f"error: {error}") from None
    console.print(table)


@app.command()
def doctor(
    provider: Annotated[Provider, typer.Option(help="Where the run is to take place.")] = "local",
    kubernetes: Annotated[str, typer.Option(help="Minor version that the node image is for.")] = builds.NEWEST,
) -> None:
    """Say what this machine has and lacks, and how to mend it. Exit code 1 where something stops a run on PROVIDER."""
    marks = {"ok": "[green]ok[/]", "later": "[yellow]later[/]", "missing": "[red]missing[/]"}
    table = Table("", "what", "finding")
    everywhere, for_kind = list(examine()), list(examine_kind(kubernetes))
    for finding in everywhere:
        table.add_row(marks[finding.state], finding.what, escape(finding.text))
    table.add_section()
    for finding in for_kind:
        table.add_row(marks[finding.state], finding.what, escape(finding.text))
    console.print(table)
    stops = everywhere + (for_kind if provider == "kind" else [])
    raise SystemExit(any(finding.state == "missing" for finding in stops))


if __name__ == "__main__":
    app()
