"""How a proof is told in a terminal."""

from collections import Counter
from collections.abc import Iterator

from reports.record import Verdict
from tests.proof.proof import Caught, FaultsOff, Healthy, Part, Proof, ProofVerdict

STYLES = {
    ProofVerdict.PROVED: "bold green",
    ProofVerdict.NOT_PROVED: "bold red",
    ProofVerdict.INTERRUPTED: "bold yellow",
}


def outcome(part: Part) -> str:
    """Return in one line what a part has shown."""
    if part.problems:
        first = [problem.partition("\n")[0] for problem in part.problems]
        return f"✕ {'; '.join(first)}"
    match part:
        case Caught():
            beside = f"; as listed also {', '.join(part.collateral)}" if part.collateral else ""
            return f"✓ caught by {', '.join(part.expected)}{beside}"
        case FaultsOff():
            return f"✓ {_of(part)} inconclusive without their faults"
        case Healthy():
            return f"✓ {held(part)}"
    raise TypeError(part)


def headline(proof: Proof) -> str:
    """Return a proof in one sentence, without its verdict."""
    variants, whole = proof.variants, [each for each in (proof.reference, *proof.healthy) if each]
    parts = []
    if variants:
        caught = sum(each.caught for each in variants)
        parts.append(f"{caught} of {len(variants)} variants caught by their requirement")
    if unlisted := sum(bool(each.unlisted) for each in variants):
        parts.append(f"{unlisted} with failures that nobody listed")
    if whole:
        parts.append(f"{sum(not each.problems for each in whole)} of {len(whole)} healthy schedulers pass")
    if proof.faults_off:
        parts.append(f"{_of(proof.faults_off)} inconclusive without their faults")
    if proof.waiting:
        parts.append(f"{len(proof.waiting)} runs missing")
    only = "" if proof.selection == "full" else " (only a part of it was asked for)"
    return f"{'; '.join(parts)} on Kubernetes {proof.kubernetes}{only}"


def summary(proof: Proof) -> Iterator[str]:
    """Yield the lines that follow the headline: what is wrong, with what the runs say about it."""
    for part in proof.parts():
        for problem in part.problems:
            first, *more = problem.splitlines()
            yield f"✕ {part.name}: {first}"
            yield from (f"    {line}" for line in more)
    if proof.waiting:
        yield f"not run: {', '.join(proof.waiting)}"


def held(part: Healthy) -> str:
    """Return how many requirements a healthy scheduler holds; one that it does not claim is not counted."""
    counts = Counter(part.requirements.values())
    covered = f", {counts[Verdict.WAIVED]} covered by a deviation" if counts[Verdict.WAIVED] else ""
    return f"{counts[Verdict.PASS]} requirements hold{covered}"


def _of(part: FaultsOff) -> str:
    inconclusive = sum(each.verdict is Verdict.INCONCLUSIVE for each in part.scenarios)
    return f"{inconclusive} of {len(part.scenarios)} scenarios"
