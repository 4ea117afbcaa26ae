"""Verdicts of scenarios, requirements and runs, as properties."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reports.record import (
    EXIT_CODES,
    Deviation,
    DeviationState,
    Record,
    Requirement,
    RunVerdict,
    Scenario,
    Verdict,
    run_verdict,
    worst,
)
from tests.reports import sample

verdicts = st.sampled_from(Verdict)
several = st.lists(verdicts, min_size=1)
OPEN = (Verdict.SKIPPED, Verdict.INCONCLUSIVE, Verdict.NOT_SUPPORTED)


def row(verdict: Verdict, level: str = "core", features: tuple[str, ...] = (), name: str = "X-1") -> Requirement:
    return Requirement(
        id=name,
        level=level,  # type: ignore[arg-type]
        features=list(features),
        scenarios=[Scenario(name="a", verdict=verdict)],
    )


def judged(*rows: Requirement, claims: tuple[str, ...] = (), **fields: Any) -> RunVerdict:
    return run_verdict(sample.blank(requirements=list(rows), claims={claim: {} for claim in claims}, **fields))


rows = st.builds(
    row, verdicts, st.sampled_from(["core", "extended"]), st.sampled_from([(), ("claimed",), ("unclaimed",)])
)


@given(verdicts, verdicts)
def test_worst_is_commutative_and_selects(one: Verdict, other: Verdict) -> None:
    assert worst([one, other]) is worst([other, one])
    assert worst([one, other]) in (one, other)


@given(verdicts, verdicts, verdicts)
def test_worst_is_associative(one: Verdict, two: Verdict, three: Verdict) -> None:
    assert worst([worst([one, two]), three]) is worst([one, worst([two, three])]) is worst([one, two, three])


@given(several)
def test_worst_is_idempotent(some: list[Verdict]) -> None:
    assert worst(some + some) is worst([worst(some)]) is worst(some)


@given(several, verdicts)
def test_one_more_verdict_never_makes_it_better(some: list[Verdict], more: Verdict) -> None:
    assert worst([*some, more]).severity >= worst(some).severity


def test_the_order_is_the_documented_one() -> None:
    ordered = ["pass", "not-supported", "skipped", "waived", "inconclusive", "fail", "error"]
    assert [str(verdict) for verdict in sorted(Verdict, key=lambda verdict: verdict.severity)] == ordered


def test_no_verdict_is_not_a_pass() -> None:
    with pytest.raises(ValueError, match="empty"):
        worst([])
    with pytest.raises(ValidationError, match="cannot have passed"):
        Requirement(id="X-1", verdict=Verdict.PASS)


@given(several)
def test_a_requirement_is_its_worst_scenario(some: list[Verdict]) -> None:
    scenarios = [Scenario(name=str(number), verdict=verdict) for number, verdict in enumerate(some)]
    assert Requirement(id="X-1", scenarios=scenarios).verdict is worst(some)


def test_a_requirement_that_contradicts_its_scenarios_is_refused() -> None:
    with pytest.raises(ValidationError, match="says pass, its scenarios say fail"):
        Requirement(id="X-1", verdict=Verdict.PASS, scenarios=[Scenario(name="a", verdict=Verdict.FAIL)])


def test_a_run_that_contradicts_its_requirements_is_refused() -> None:
    with pytest.raises(ValidationError, match="says success, its requirements say failure"):
        sample.blank(verdict=RunVerdict.SUCCESS, requirements=[row(Verdict.FAIL)])


@pytest.mark.parametrize(
    ("verdict", "core", "extended", "unclaimed"),
    [
        (Verdict.PASS, "success", "success", "success"),
        (Verdict.WAIVED, "success", "success", "success"),
        (Verdict.NOT_SUPPORTED, "partial", "inconclusive", "nothing-ran"),
        (Verdict.SKIPPED, "partial", "inconclusive", "nothing-ran"),
        (Verdict.INCONCLUSIVE, "partial", "inconclusive", "inconclusive"),
        (Verdict.FAIL, "failure", "failure", "failure"),
        (Verdict.ERROR, "error", "error", "error"),
    ],
)
def test_what_one_requirement_makes_of_a_run(verdict: Verdict, core: str, extended: str, unclaimed: str) -> None:
    assert judged(row(verdict)) == core
    assert judged(row(verdict, "extended", ("gang",)), claims=("gang",)) == extended
    assert judged(row(verdict, "extended", ("gang",))) == unclaimed


@given(st.lists(rows), st.randoms(use_true_random=False))
def test_the_order_of_requirements_does_not_matter(some: list[Requirement], random: object) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert judged(*some, claims=("claimed",)) is judged(*shuffled, claims=("claimed",))


@given(st.lists(rows))
def test_the_table_of_run_verdicts(some: list[Requirement]) -> None:
    has = {(one.level, one.verdict) for one in some}
    core_open = any(("core", verdict) in has for verdict in OPEN)
    extended_open = any(
        one.level == "extended"
        and one.verdict in OPEN
        and (one.verdict is Verdict.INCONCLUSIVE or one.features != ["unclaimed"])
        for one in some
    )
    answered = any(verdict in (Verdict.PASS, Verdict.WAIVED) for _, verdict in has)
    expected = (
        "error"
        if any(verdict is Verdict.ERROR for _, verdict in has)
        else "failure"
        if any(verdict is Verdict.FAIL for _, verdict in has)
        else "partial"
        if core_open
        else "inconclusive"
        if extended_open
        else "success"
        if answered
        else "nothing-ran"
    )
    assert judged(*some, claims=("claimed",)) == expected


@given(st.lists(rows, min_size=1), rows)
def test_one_more_requirement_never_makes_a_run_better(some: list[Requirement], more: Requirement) -> None:
    before, after = judged(*some, claims=("claimed",)), judged(*some, more, claims=("claimed",))
    assert after.precedence >= before.precedence or before is RunVerdict.NOTHING_RAN


@given(st.lists(rows))
def test_blockers_are_what_keeps_a_run_from_success(some: list[Requirement]) -> None:
    record = sample.blank(requirements=some, claims={"claimed": {}})
    blocked = run_verdict(record) not in (RunVerdict.SUCCESS, RunVerdict.NOTHING_RAN)
    assert bool(record.blockers()) is blocked
    gravity = [record.consequence(one).precedence for one in record.blockers()]
    assert gravity == sorted(gravity, reverse=True)


def test_an_empty_run_is_not_a_success() -> None:
    assert judged() is RunVerdict.NOTHING_RAN
    assert RunVerdict.NOTHING_RAN.exit_code == 5


def test_what_broke_outside_of_a_scenario_is_an_error() -> None:
    assert judged(row(Verdict.PASS), errors=["the cluster did not start"]) is RunVerdict.ERROR
    unmatched = Deviation(id="NOPE-1", reason="x", state=DeviationState.UNMATCHED)
    assert judged(row(Verdict.PASS), deviations=[unmatched]) is RunVerdict.ERROR
    expired = Deviation(id="X-1", reason="x", state=DeviationState.EXPIRED)
    assert judged(row(Verdict.PASS), deviations=[expired]) is RunVerdict.SUCCESS


def test_exit_codes() -> None:
    codes = {
        "success": 0,
        "failure": 1,
        "interrupted": 2,
        "error": 3,
        "nothing-ran": 5,
        "inconclusive": 10,
        "partial": 11,
    }
    assert {str(verdict): code for verdict, code in EXIT_CODES.items()} == codes
    assert all(verdict.exit_code == codes[verdict] for verdict in RunVerdict)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"selection": "filtered", "select": "RES-4"}, ["Only a selection was run: RES-4."]),
        ({"verdict": "interrupted"}, ["The run was interrupted: it shows what had been recorded by then."]),
        ({"requirements": [row(Verdict.FAIL)], "verdict": "failure"}, ["The verdict is failure."]),
        ({"candidate": {}}, ["The digest of the candidate is not known: nobody could tell what was tested."]),
        (
            {"suite": {"commit": "0" * 40, "dirty": True}},
            ["The checkout of the suite had changes that no commit holds: commit or remove them."],
        ),
        (
            {"suite": {}},
            ["The suite was not run from a git checkout: nobody could tell which scenarios these were."],
        ),
        (
            {"deviations": [{"id": "A-1", "reason": "r", "owner": "o", "expires": "2026-01-01", "state": "expired"}]},
            ["The deviation A-1 of o expired on 2026-01-01."],
        ),
    ],
)
def test_what_keeps_a_run_from_being_signed_off(changes: dict[str, Any], said: list[str]) -> None:
    signable = {
        "verdict": "success",
        "requirements": [row(Verdict.PASS)],
        "candidate": {"digest": "sha256:0"},
        "suite": {"commit": "0" * 40},
    }
    assert sample.blank(**signable | changes).obstacles() == said


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (
            ["make", "conformance", "SELECT=RES,CAP", "CANDIDATE=x"],
            ["make", "conformance", "CANDIDATE=x", "SELECT=X-1"],
        ),
        (["pytest", "suites", "--select", "RES", "-q"], ["pytest", "suites", "-q", "--select", "X-1"]),
        (["pytest", "suites", "--select=RES"], ["pytest", "suites", "--select", "X-1"]),
        ([], []),
    ],
)
def test_the_command_for_one_requirement(command: list[str], again: list[str]) -> None:
    assert sample.blank(command=command).reproduce("X-1") == again


def test_a_record_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Record.model_validate(sample.blank().model_dump() | {"mood": "good"})
