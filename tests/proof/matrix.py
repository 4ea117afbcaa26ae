"""The page over a proof: which requirement catches which variant, and what it says."""

from collections.abc import Iterator
from pathlib import Path

from reports.record import Verdict
from tests.proof.proof import Caught, Proof
from tests.proof.runs import ROOT
from tests.proof.wording import held

PAGE = ROOT / "docs" / "proof.md"

HEAD = """\
# Proof

<!-- Made by `python -m tests.proof matrix` from results/proof.json, which `make prove` writes. Do not edit. -->

The suite is run against schedulers that are wrong in one known way. Each must fail the requirement that forbids its
fault, and nothing else but what is listed as collateral. Healthy schedulers must pass everything they claim, and a
scenario whose fault is switched off must be inconclusive.
"""
LEGEND = """\
Columns are families, numbers the requirements that were run. **Bold**: it must catch this variant, and did. In
brackets: it failed too, as listed. Plain: it passed. Struck through: it must catch this variant and did not, or it
failed and nobody listed that. Each variant is run with the requirements that must catch it and a few others, always the
same; `make prove VARIANTS=polls` does so with one.
"""


def page(proof: Proof) -> str:
    """Return the page."""
    suite = f"version {proof.suite.version}, commit `{proof.suite.commit[:12]}`" + (
        " with changes" if proof.suite.dirty else ""
    )
    when = f"{proof.ended or proof.started:%Y-%m-%d}"
    lines = [HEAD, f"**{proof.verdict.capitalize()}** on Kubernetes {proof.kubernetes}, {when}, suite {suite}.", ""]
    lines += [*_whole(proof), "", "## Variants", "", LEGEND, *_table(proof), "", "## What the failures say", ""]
    lines += [line for variant in proof.variants for line in _said(variant)]
    return "\n".join(lines).rstrip() + "\n"


def write(proof: Proof, file: Path = PAGE) -> None:
    """Write the page."""
    file.write_text(page(proof), encoding="utf-8")


def _whole(proof: Proof) -> Iterator[str]:
    yield from ("| run | what it must show | shown |", "|---|---|---|")
    for each in filter(None, (proof.reference, *proof.healthy)):
        unclaimed = sum(verdict is Verdict.NOT_SUPPORTED for verdict in each.requirements.values())
        shown = f"{each.verdict}: {held(each)}" + (f", {unclaimed} are not claimed" if unclaimed else "")
        yield f"| {each.name} | a healthy scheduler passes | {shown} |"
    if off := proof.faults_off:
        inconclusive = sum(each.verdict is Verdict.INCONCLUSIVE for each in off.scenarios)
        shown = f"{inconclusive} of {len(off.scenarios)} scenarios inconclusive"
        yield f"| faults switched off | no scenario that carries a fault passes | {shown} |"
    caught = sum(each.caught for each in proof.variants)
    yield f"| variants | each is caught by its requirement | {caught} of {len(proof.variants)} |"


def _table(proof: Proof) -> Iterator[str]:
    families = list(dict.fromkeys(_family(name) for each in proof.variants for name in each.requirements))
    order = ["HARD", "CAP", "WAKE", "RES", "GANG", "DEP", "CONF", "ISO", "ROLL", "OBS", "ROB"]
    families.sort(key=lambda family: order.index(family) if family in order else len(order) + (family == "INV"))
    yield f"| variant | of | {' | '.join(families)} |"
    yield f"|---|---|{'---|' * len(families)}"
    for variant in proof.variants:
        cells = [" ".join(_cells(variant, family)) for family in families]
        yield f"| [{variant.name}](#{variant.name}) | {variant.scheduler} | {' | '.join(cells)} |"


def _cells(variant: Caught, family: str) -> Iterator[str]:
    ran = [name for name in variant.requirements if _family(name) == family]
    for name in sorted(ran, key=lambda name: int(name.partition("-")[2])):
        number = name.partition("-")[2]
        if name in variant.expected:
            yield f"**{number}**" if name in variant.failed else f"~~{number}~~"
        elif name in variant.unlisted:
            yield f"~~{number}~~"
        else:
            yield f"({number})" if name in variant.collateral else number


def _said(variant: Caught) -> Iterator[str]:
    yield from (f"### {variant.name}", "", f"A scheduler ({variant.scheduler}) that {variant.wrong}.", "")
    for name in [*variant.expected, *variant.collateral, *variant.unlisted]:
        reason = variant.collateral.get(name)
        kind = "" if name in variant.expected else f", collateral: {reason}" if reason else ", not listed"
        yield from (f"{name}{kind}", "")
        if name in variant.expected or name in variant.unlisted:
            message = variant.messages.get(name, "It passed.")
            yield from (*(f"    {line}".rstrip() for line in message.splitlines()), "")


def _family(requirement: str) -> str:
    return requirement.partition("-")[0]
