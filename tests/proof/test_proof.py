"""A part of what `make prove` proves: every kind of variant, healthy schedulers, faults switched off."""

import re
from pathlib import Path

import pytest

from clusters import local
from clusters.progress import Silent
from fixtures import catalogue
from tests.proof import prove
from tests.proof.descriptors import CANDIDATES, TOY, Json, faults, toy_without_conditions
from tests.proof.proof import Part, Proof
from tests.proof.runs import ROOT, side_by_side
from tests.proof.variants import VARIANTS

# Stock schedulers configured wrongly, one more profile, a rival, the reference and the toy with faults of each family.
FEW = (
    "ignore-taint", "merged-durations", "overwrites-profiles", "steals-pods",
    "hard-as-score", "leak-on-prebind", "partial-gang", "crash-on-node",
    "count-first-container", "no-wake-taint", "ignore-gates", "gauge-leak", "crash",
)  # fmt: skip
WHOLE = {
    "reference": ("HARD-1", "WAKE-10", "RES-4", "OBS-2"),
    "toy": ("CAP-4", "WAKE-11", "RES-5", "OBS-1"),
    "toy-without-conditions": ("HARD-1", "CAP-6", "WAKE-9", "WAKE-10", "OBS-6"),
}
FAULTLESS = ("RES-4", "RES-5")


@pytest.fixture(scope="module")
def proved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Proof:
    """Return the proof of what the chosen tests ask for."""
    specs = [item.callspec for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    chosen = [spec.params["part"] for spec in specs if "part" in spec.params]
    carrying = prove.carrying() if prove.FAULTS_OFF in chosen else set()
    proving = prove.Proving(
        tmp_path_factory.mktemp("proof"), kubernetes=local.NEWEST,
        variants=[variant for variant in VARIANTS if variant.name in chosen],
        whole={name: select for name, select in WHOLE.items() if name in chosen},
        broken={(name, scenario) for name, scenario in carrying if name in FAULTLESS}, full=False, progress=Silent(),
    )  # fmt: skip
    given = request.config.getoption("--binaries")
    ended = proving.run(parallel=side_by_side(), binaries=Path(given) if given else None)
    if ended.waiting:
        raise KeyboardInterrupt
    return ended


@pytest.fixture
def part(request: pytest.FixtureRequest, proved: Proof) -> Part:
    """Return what one run has shown."""
    return next(each for each in proved.parts() if each.name == request.param)


@pytest.mark.parametrize("part", WHOLE, indirect=True)
def test_a_healthy_scheduler_passes(part: Part) -> None:
    assert not part.problems, "\n".join(part.problems)


@pytest.mark.parametrize("part", FEW, indirect=True)
def test_a_broken_scheduler_is_caught(part: Part) -> None:
    assert not part.problems, "\n".join(part.problems)


@pytest.mark.parametrize("part", [prove.FAULTS_OFF], indirect=True)
def test_without_faults_nothing_is_proved(part: Part) -> None:
    assert not part.problems, "\n".join(part.problems)


def test_every_requirement_names_the_variants_that_it_catches() -> None:
    named = {
        (rule.id, variant)
        for rule in catalogue.load([ROOT / "suites"]).values()
        for variant in rule.variant.split(", ")
        if not re.fullmatch(r"none\b.* \(.+\)", rule.variant)
    }
    assert named == {(name, variant.name) for variant in VARIANTS for name in variant.caught_by}


def test_without_its_fault_a_scenario_runs_where_it_is_claimed() -> None:
    known = prove.healthy()
    runs = prove.without_faults({("RES-4", "one"), ("RES-20", "two"), ("RES-21", "three")}, known)
    assert [(case.name, case.select, case.options) for case, _ in runs] == [
        ("faults-off", ("RES-21", "RES-4"), ("--faults-off",)),
        ("faults-off of dra", ("RES-20",), ("--faults-off",)),
    ]
    assert [meant for _, meant in runs] == [{("RES-4", "one"), ("RES-21", "three")}, {("RES-20", "two")}]


def test_names_are_unique() -> None:
    names = [*prove.healthy(), prove.FAULTS_OFF, *(variant.name for variant in VARIANTS)]
    assert sorted(names) == sorted(set(names))


def test_every_fault_of_the_toy_has_a_variant() -> None:
    written = set(re.findall(r'broken\("([a-z-]+)"\)', TOY.read_text()))
    # Written as f"no-wake-{check}".
    written |= {"no-wake-taint", "no-wake-allocatable"}
    assert written == _made(TOY.name, toy_without_conditions())


def test_every_fault_of_the_reference_has_a_variant() -> None:
    listed = re.findall(r'named\("([a-z-]+)"\)', (CANDIDATES / "reference" / "fault" / "fault.go").read_text())
    assert set(listed) == _made("$(built:scheduler)")
    catchers = {
        fault: {name for name in variant.caught_by if not name.startswith("INV-")}
        for variant in VARIANTS
        for fault in faults(variant.descriptor, "$(built:scheduler)")
    }
    assert _told((CANDIDATES / "reference" / "README.md").read_text()) == catchers


def _made(program: str, *more: Json) -> set[str]:
    made = [*more, *(variant.descriptor for variant in VARIANTS)]
    return {fault for descriptor in made for fault in faults(descriptor, program)}


def _told(page: str) -> dict[str, set[str]]:
    """Return each fault of a table of the README with the requirements in its row."""
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| `[a-z-]+` \|", line)]
    return {row[1].strip(" `"): set(re.findall(r"\b[A-Z]+-\d+\b", "".join(row[2:]))) for row in rows}
