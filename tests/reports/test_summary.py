"""What the terminal says."""

from pathlib import Path

import pytest

from reports import summary
from reports.record import Record, Requirement, RunVerdict, Scenario, Verdict
from tests.reports import sample

EXTENDED = "1 of 2 claimed extended requirements holds, 1 inconclusive"
PLACE = "gpu-packing v1.37.2 on Kubernetes v1.37.2 (local): "


def rows(*verdicts: Verdict, level: str = "core") -> list[Requirement]:
    return [
        Requirement(
            id=f"{level[0].upper()}-{number}",
            title=f"rule {number}",
            level=level,  # type: ignore[arg-type]
            scenarios=[Scenario(name="test_it", verdict=verdict, message="" if verdict is Verdict.PASS else "because")],
        )
        for number, verdict in enumerate(verdicts, 1)
    ]


def first(record: Record) -> str:
    return summary.text(record, width=60).splitlines()[0]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            sample.blank(verdict="success", requirements=rows(*[Verdict.PASS] * 28)),
            f"SUCCESS  {PLACE}28 of 28 core requirements hold",
        ),
        (
            sample.blank(verdict="success", requirements=rows(Verdict.PASS, Verdict.WAIVED)),
            f"SUCCESS  {PLACE}1 of 2 core requirements holds, 1 waived",
        ),
        (
            sample.blank(
                verdict="failure", requirements=rows(Verdict.PASS, Verdict.FAIL, Verdict.FAIL, Verdict.SKIPPED)
            ),
            f"FAILURE  {PLACE}1 of 4 core requirements holds, 2 fail, 1 not run",
        ),
        (
            sample.blank(
                verdict="inconclusive",
                requirements=rows(Verdict.PASS) + rows(Verdict.PASS, Verdict.INCONCLUSIVE, level="extended"),
            ),
            f"INCONCLUSIVE  {PLACE}1 of 1 core requirement holds; {EXTENDED}",
        ),
        (
            sample.blank(verdict="success", selection="filtered", select="RES,CAP", requirements=rows(Verdict.PASS)),
            f"SUCCESS  {PLACE}1 of 1 core requirement holds (only RES,CAP)",
        ),
        (
            sample.blank(verdict="interrupted", requirements=rows(Verdict.PASS, Verdict.SKIPPED)),
            f"INTERRUPTED  {PLACE}so far 1 of 2 core requirements holds, 1 not run",
        ),
        (
            sample.blank(verdict="nothing-ran", requirements=[]),
            f"NOTHING RAN  {PLACE}no requirement was selected",
        ),
        (
            Record(run_id="x", verdict=RunVerdict.ERROR, started=sample.START, errors=["no cluster"]),
            "ERROR  no candidate: no requirement was selected",
        ),
    ],
)
def test_the_first_line_is_the_verdict(record: Record, line: str) -> None:
    assert first(record) == line


def test_no_percentages(tmp_path: Path) -> None:
    assert "%" not in summary.text(sample.write(tmp_path / "run"))


def test_blockers_have_their_cause_and_their_command(tmp_path: Path) -> None:
    said = summary.text(sample.write(tmp_path / "run"), tmp_path / "run", width=80)
    assert "SELECT=RES-5" in said  # the finding at CAP-4 was made there
    for command in (line for line in said.splitlines() if "make conformance" in line):
        assert command.rstrip().endswith(
            tuple(f"SELECT={name}" for name in ("CAP-5", "RES-5", "RES-4", "WAKE-2", "WAKE-11"))
        )
    assert "found in RES-5" in " ".join(said.split())
    assert "healing of `bind denied` could not be verified" in " ".join(said.split())
    assert said.rstrip().endswith(str(tmp_path / "run" / "signoff.html"))
    assert "Blockers" not in summary.text(sample.blank(verdict="success", requirements=rows(Verdict.PASS)))


def test_expected_and_seen_are_both_told() -> None:
    scenario = Scenario(
        name="a", verdict=Verdict.FAIL, message="expected: bound within 12.0 s\nseen:     unbound\nmore"
    )
    record = sample.blank(verdict="failure", requirements=[Requirement(id="X-1", scenarios=[scenario])])
    said = " ".join(summary.text(record).split())
    assert "expected: bound within 12.0 s seen: unbound" in said
    assert "more" not in said


def test_each_requirement_has_a_line_that_fits(tmp_path: Path) -> None:
    record = sample.write(tmp_path / "run", good=True)
    table = summary.text(record, width=70).split("\n\n")[-1].splitlines()
    assert len(table) == len(record.requirements)
    for row, line in zip(record.requirements, table, strict=True):
        assert f" {row.id} " in line
        assert len(line) <= 70
    assert "0.11 s of 15.0 s" in next(line for line in table if "HARD-5" in line)


def test_colour_only_on_demand() -> None:
    record = sample.blank(verdict="success", requirements=rows(Verdict.PASS))
    assert "\x1b[" not in summary.text(record)
    assert summary.text(record, color=True).startswith("\x1b[1;32mSUCCESS\x1b[0m")


def test_a_candidate_cannot_forge_the_first_line() -> None:
    record = sample.blank(
        verdict="failure", candidate={"name": "x\nSUCCESS  y\x1b[2J[bold]"}, requirements=rows(Verdict.FAIL)
    )
    lines = summary.text(record).splitlines()
    assert lines[0].startswith("FAILURE  x SUCCESS y")
    assert not any(line.startswith("SUCCESS") for line in lines)
    assert "[bold]" in lines[0]
    assert "\x1b" not in "".join(lines)
