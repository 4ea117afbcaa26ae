"""What is made of the runs: caught by its requirement, collateral that was expected, and what nobody had listed."""

from datetime import UTC, datetime
from tempfile import gettempdir
from typing import Any

import pytest

from fixtures.run import ALWAYS
from reports.record import Record, Requirement, RunVerdict, Scenario, Verdict, run_verdict
from tests.proof import matrix, proof, wording
from tests.proof.proof import Proof, ProofVerdict
from tests.proof.runs import ROOT, Case, Ended
from tests.proof.variants import Variant

WHEN = datetime(2026, 11, 30, 6, 0, tzinfo=UTC)
VARIANT = Variant(
    "leaks",
    "keeps what it had reserved",
    {"identity": {"name": "toy-leaks"}},
    {"RES-4": "GPUs are held", "INV-4": "is 1"},
    {"HARD-1": "it is full"},
)
CAUGHT = {"RES-4": "fail: 8 GPUs are held", "INV-4": "fail: the gauge is 1", "CAP-6": "pass"}


def ended(verdicts: dict[str, str], name: str = "leaks", **facts: Any) -> Ended:
    """One run, by what it says about each requirement: `fail: because`."""
    rows = [_row(requirement, *said.split(": ", 1)) for requirement, said in verdicts.items()]
    run = Record(run_id="20261130-060000-0000", started=WHEN, requirements=rows, **facts)
    run.verdict = run_verdict(run)
    return Ended(Case(name, {}), run.verdict.exit_code, 12.3, run)


def _row(requirement: str, verdict: str, message: str = "") -> Requirement:
    return Requirement(id=requirement, scenarios=[Scenario(name="scenario", verdict=Verdict(verdict), message=message)])


def first_lines(part: proof.Part) -> list[str]:
    return [problem.partition("\n")[0] for problem in part.problems]


def test_a_variant_that_fails_its_requirements_is_caught() -> None:
    part = proof.caught(ended(CAUGHT), VARIANT)
    assert (part.caught, part.problems, part.failed) == (True, [], ["RES-4", "INV-4"])
    assert (part.collateral, part.unlisted) == ({}, [])
    assert part.messages == {"RES-4": "8 GPUs are held", "INV-4": "the gauge is 1"}
    assert wording.outcome(part) == "✓ caught by RES-4, INV-4"


def test_one_that_passes_a_requirement_meant_for_it_survives() -> None:
    part = proof.caught(ended({**CAUGHT, "INV-4": "pass"}), VARIANT)
    assert (part.caught, part.failed) == (False, ["RES-4"])
    assert first_lines(part) == ["survives INV-4"]
    assert wording.outcome(part) == "✕ survives INV-4"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("fail: something else", "INV-4 fails, but says nothing that matches 'is 1'"),
        ("inconclusive: no gauge is 1", "INV-4 is inconclusive, and must fail"),
        ("skipped: not run", "INV-4 did not run, and must fail"),
        ("not-supported: not claimed", "INV-4 is not supported, and must fail"),
    ],
)
def test_it_must_fail_and_say_why(said: str, why: str) -> None:
    part = proof.caught(ended({**CAUGHT, "INV-4": said}), VARIANT)
    assert not part.caught
    assert first_lines(part) == [why]
    assert said.partition(": ")[2] in part.problems[0]


def test_a_requirement_that_did_not_even_run_catches_nothing() -> None:
    part = proof.caught(ended({"RES-4": "fail: 8 GPUs are held"}), VARIANT)
    assert not part.caught
    assert first_lines(part) == ["INV-4 did not run, and must fail"]


@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
def test_collateral_that_is_listed_is_told_and_does_no_harm(verdict: str) -> None:
    part = proof.caught(ended({**CAUGHT, "HARD-1": f"{verdict}: no room"}), VARIANT)
    assert part.caught
    assert not part.problems
    assert part.collateral == {"HARD-1": "it is full"}
    assert "as listed also HARD-1" in wording.outcome(part)


@pytest.mark.parametrize("verdict", ["fail", "inconclusive", "not-supported", "skipped", "waived"])
def test_what_nobody_listed_is_a_problem_though_the_variant_is_caught(verdict: str) -> None:
    part = proof.caught(ended({**CAUGHT, "CAP-6": f"{verdict}: because"}), VARIANT)
    assert part.caught
    assert part.unlisted == ["CAP-6"]
    assert "CAP-6" in part.problems[0]
    assert "not listed as collateral" in part.problems[0]
    assert "because" in part.problems[0]


def test_a_run_that_broke_proves_nothing() -> None:
    broke = ended(CAUGHT, errors=["etcd ended"])
    assert broke.record
    assert broke.record.verdict is RunVerdict.ERROR
    part = proof.caught(broke, VARIANT)
    assert part.problems == ["the run is error\netcd ended"]

    lost = Ended(Case("leaks", {}), -9, 1.0, None, "pytest was killed by SIGKILL and left no record")
    part = proof.caught(lost, VARIANT)
    assert not part.caught
    assert part.problems == [lost.why]

    lied = Ended(Case("leaks", {}), 0, 1.0, ended(CAUGHT).record)
    assert proof.caught(lied, VARIANT).problems == ["pytest ended with code 0, its record says failure"]


@pytest.mark.parametrize("verdict", [Verdict.SKIPPED, Verdict.NOT_SUPPORTED])
def test_an_invariant_that_was_not_judged_is_no_collateral(verdict: Verdict) -> None:
    run = ended(CAUGHT)
    assert run.record
    run.record.requirements.append(Requirement(id="INV-5", scenarios=[Scenario(name=ALWAYS, verdict=verdict)]))
    assert not proof.caught(run, VARIANT).problems
    run.record.requirements.append(Requirement(id="HARD-2", scenarios=[Scenario(name="other", verdict=verdict)]))
    assert proof.caught(run, VARIANT).unlisted == ["HARD-2"]


def test_collateral_that_is_an_error_is_no_collateral() -> None:
    part = proof.caught(ended({**CAUGHT, "HARD-1": "error: the cluster broke"}), VARIANT)
    assert part.unlisted == ["HARD-1"]


def test_a_healthy_scheduler_must_hold_all_that_it_claims() -> None:
    part = proof.healthy(ended({"RES-4": "pass"}, "toy"))
    assert (part.verdict, part.problems) == (RunVerdict.SUCCESS, [])
    assert wording.outcome(part) == "✓ 1 requirements hold"
    part = proof.healthy(ended({"RES-4": "pass", "OBS-9": "waived: known"}, "toy"))
    assert not part.problems
    assert wording.outcome(part) == "✓ 1 requirements hold, 1 covered by a deviation"
    part = proof.healthy(ended({"RES-4": "pass", "CAP-6": "inconclusive: no witness"}, "toy"))
    assert part.problems == ["CAP-6 is inconclusive\nno witness"]
    extended = Requirement(
        id="GANG-1", level="extended", features=["gang"],
        scenarios=[Scenario(name="x", verdict=Verdict.NOT_SUPPORTED, message="not claimed")],
    )  # fmt: skip
    run = ended({"RES-4": "pass"}, "toy")
    assert run.record
    run.record.requirements.append(extended)
    assert not proof.healthy(run).problems
    assert proof.healthy(Ended(Case("toy", {}), 3, 1.0, None, "no record")).problems == ["no record"]


CARRYING = {("RES-4", "scenario"), ("RES-5", "scenario")}


def test_without_faults_everything_is_inconclusive() -> None:
    part = proof.faults_off(ended({"RES-4": "inconclusive: x", "RES-5": "inconclusive: x"}, "faults-off"), CARRYING)
    assert not part.problems
    assert wording.outcome(part) == "✓ 2 of 2 scenarios inconclusive without their faults"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("pass", "RES-5 scenario passes without its fault"),
        ("fail: x", "RES-5 scenario fails without its fault"),
        ("error: x", "the run is error"),
        ("not-supported: x", "RES-5 scenario is not claimed: nothing shows that it needs its fault"),
    ],
)
def test_a_scenario_that_needs_no_fault_is_found(said: str, why: str) -> None:
    part = proof.faults_off(ended({"RES-4": "inconclusive: x", "RES-5": said}, "faults-off"), CARRYING)
    assert first_lines(part) == [why]


def test_one_that_did_not_run_and_one_that_this_provider_cannot_run() -> None:
    run = ended({"RES-4": "inconclusive: x"}, "faults-off")
    assert run.record
    assert first_lines(proof.faults_off(run, CARRYING)) == ["RES-5 scenario did not run without its fault"]
    lacking = Requirement(
        id="RES-5", lacking=["pause-etcd"], scenarios=[Scenario(name="scenario", verdict=Verdict.NOT_SUPPORTED)]
    )
    run.record.requirements.append(lacking)
    assert not proof.faults_off(run, CARRYING).problems


def proved(*variants: dict[str, str], **facts: Any) -> Proof:
    """A proof of everything that has ended, of variants and a healthy scheduler."""
    found = Proof(
        selection="full", kubernetes="v1.37.2", started=WHEN, ended=WHEN,
        healthy=[proof.healthy(ended({"RES-4": "pass"}, "toy"))],
        faults_off=proof.faults_off(ended({"RES-4": "inconclusive: x"}, "faults-off"), {("RES-4", "scenario")}),
        variants=[proof.caught(ended(each), VARIANT) for each in variants], **facts,
    )  # fmt: skip
    found.verdict = found.judged()
    return found


def test_the_verdict_is_that_of_all_parts() -> None:
    assert proved(CAUGHT).verdict is ProofVerdict.PROVED
    assert proved(CAUGHT, {**CAUGHT, "INV-4": "pass"}).verdict is ProofVerdict.NOT_PROVED
    assert proved({**CAUGHT, "CAP-6": "fail: x"}).verdict is ProofVerdict.NOT_PROVED
    assert proved({**CAUGHT, "HARD-1": "fail: x"}).verdict is ProofVerdict.PROVED
    assert proved(CAUGHT, waiting=["polls"]).verdict is ProofVerdict.INTERRUPTED


def test_the_headline_counts_and_the_summary_says_what_is_wrong() -> None:
    assert wording.headline(proved(CAUGHT)) == (
        "1 of 1 variants caught by their requirement; 1 of 1 healthy schedulers pass; "
        "1 of 1 scenarios inconclusive without their faults on Kubernetes v1.37.2"
    )
    wrong = proved(CAUGHT, {**CAUGHT, "INV-4": "pass", "CAP-6": "fail: no room"}, waiting=["polls"])
    said = wording.headline(wrong)
    assert said.startswith("1 of 2 variants caught by their requirement; 1 with failures that nobody listed; ")
    assert "; 1 runs missing" in said
    lines = list(wording.summary(wrong))
    assert lines == [
        "✕ leaks: survives INV-4", "✕ leaks: CAP-6 fails, which is not listed as collateral", "    no room",
        "not run: polls",
    ]  # fmt: skip


def test_a_proof_is_read_as_it_was_written(tmp_path: Any) -> None:
    found = proved(CAUGHT)
    (tmp_path / proof.FILE).write_text(found.model_dump_json())
    assert proof.read(tmp_path / proof.FILE) == found
    with pytest.raises(proof.ProofError, match="make prove"):
        proof.read(tmp_path / "none.json")
    (tmp_path / "other.json").write_text('{"schema": "other"}')
    with pytest.raises(proof.ProofError, match="not a proof of this version"):
        proof.read(tmp_path / "other.json")


def test_the_matrix_marks_what_caught_what_fell_with_it_and_what_held() -> None:
    page = matrix.page(proved({**CAUGHT, "HARD-1": "fail: no room", "CAP-5": "pass", "CAP-10": "pass"}))
    assert "**Proved** on Kubernetes v1.37.2, 2026-11-30, suite version" in page
    assert "| variant | of | HARD | CAP | RES | INV |\n|---|---|---|---|---|---|\n" in page
    assert "| [leaks](#leaks) | toy | (1) | 5 6 10 | **4** | **4** |" in page
    assert "### leaks\n\nA scheduler (toy) that keeps what it had reserved.\n\nRES-4\n\n    8 GPUs are held\n" in page
    assert "HARD-1, collateral: it is full\n" in page
    assert "| toy | a healthy scheduler passes | success: 1 requirements hold |" in page


def test_the_matrix_shows_what_is_wrong_too() -> None:
    page = matrix.page(proved({**CAUGHT, "INV-4": "pass", "CAP-6": "fail: no room"}))
    assert "**Not proved** on" in page
    assert "| ~~6~~ | **4** | ~~4~~ |" in page
    assert "CAP-6, not listed\n\n    no room\n" in page


def test_nothing_of_this_machine_is_written() -> None:
    run = "20261130-083504-722b"
    said = f"log {ROOT}/results/proof/a/{run}/logs; {gettempdir()}/x/unreserve-{run} is there"
    assert proof.neutral(said) == "log results/proof/a/RUN/logs; $TMPDIR/unreserve-RUN is there"
    said = f"create /api/v1/namespaces/unreserve-{run}-s3/pods/s3-pod-1/binding"
    assert proof.neutral(said) == "create /api/v1/namespaces/unreserve-RUN-s3/pods/s3-pod-1/binding"


def test_each_variant_runs_what_must_catch_it_and_always_the_same_others() -> None:
    variant = Variant("a", "", {}, {"RES-4": ""}, {"ISO-1": ""})
    assert variant.selected() == variant.selected()
    assert variant.selected()[0] == "RES-4"
    assert "ISO-1" not in variant.selected()
    assert Variant("a", "", {}, {"INV-3": ""}, run=("HARD-1",)).selected()[0] == "HARD-1"
    of_gangs = [Variant(name, "", {"claims": {"gang": {}}}, {"RES-4": ""}) for name in "abcdefgh"]
    assert {name for each in of_gangs for name in each.selected()} & {"WAKE-8", "GANG-7", "HARD-11", "OBS-7"}
