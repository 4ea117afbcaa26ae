"""`python -m tests.proof`: prove the suite on broken schedulers, or draw the page of the last proof."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from clusters import local
from clusters.progress import Shown, Silent
from tests.proof import matrix, proof, prove, wording
from tests.proof.proof import ProofError, ProofVerdict
from tests.proof.runs import side_by_side
from tests.proof.variants import VARIANTS

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
console = Console(highlight=False, emoji=False)
EXIT = {ProofVerdict.PROVED: 0, ProofVerdict.NOT_PROVED: 1, ProofVerdict.INTERRUPTED: 2}
WRONG_USAGE = 4
Results = Annotated[Path, typer.Option(help="Folder of the results: proof.json, and the runs in its folder proof.")]


class Lines(Silent):
    """Prints only what stays."""

    def step(self, text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)


@app.command()
def run(
    only: Annotated[
        str, typer.Option("--variants", help="Names of runs, such as polls,reference,faults-off; all if left out.")
    ] = "",
    kubernetes: Annotated[str, typer.Option(help="The minor.")] = local.NEWEST,
    parallel: Annotated[int, typer.Option(min=0, help="Runs at the same time; 0: as the machine allows.")] = 0,
    results: Results = Path("results"),
    binaries: Annotated[Path | None, typer.Option(help="Ready-made components instead of building them.")] = None,
) -> None:
    """Run healthy schedulers, every scenario without its fault, and every variant. Exit code 1: not proved."""
    if kubernetes not in local.minors():
        raise _wrong(f"--kubernetes {kubernetes}: choose one of {', '.join(local.minors())}")
    whole, known = prove.healthy(), {variant.name: variant for variant in VARIANTS}
    every = [*whole, prove.FAULTS_OFF, *known]
    chosen = [name.strip() for name in only.split(",") if name.strip()] or every
    if unknown := sorted(set(chosen) - set(every)):
        raise _wrong(f"--variants: there is no {', '.join(unknown)}; there are {', '.join(every)}")
    try:
        broken = prove.carrying() if prove.FAULTS_OFF in chosen else set()
    except ProofError as problem:
        raise _wrong(problem) from None
    with Shown(console) as live:
        proving = prove.Proving(
            results, kubernetes=kubernetes, variants=[known[name] for name in known if name in chosen],
            whole={name: prove.PARTLY.get(name, ()) for name in whole if name in chosen}, broken=broken,
            full=set(chosen) == set(every),
            progress=live if console.is_terminal else Lines(),
        )  # fmt: skip
        ended = proving.run(parallel=parallel or side_by_side(), binaries=binaries)
    console.print()
    verdict = Text(ended.verdict.upper(), wording.STYLES[ended.verdict])
    console.print(Text.assemble(verdict, f"  {wording.headline(ended)}"), soft_wrap=True)
    for line in wording.summary(ended):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"Proof: {proving.file}", markup=False, soft_wrap=True)
    raise typer.Exit(EXIT[ended.verdict])


@app.command(name="matrix")
def matrix_(results: Results = Path("results")) -> None:
    """Draw docs/proof.md from the last proof, which must be of everything."""
    file = results / proof.FILE
    try:
        found = proof.read(file)
    except ProofError as problem:
        raise _wrong(problem) from None
    if found.selection != "full" or found.verdict is ProofVerdict.INTERRUPTED:
        raise _wrong(f"{file} is not of everything: run `make prove` to its end")
    matrix.write(found)


def _wrong(problem: object) -> typer.Exit:
    sys.stderr.write(f"{problem}\n")
    return typer.Exit(WRONG_USAGE)


if __name__ == "__main__":
    app(prog_name="python -m tests.proof")
