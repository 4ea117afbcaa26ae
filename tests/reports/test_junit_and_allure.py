"""What CI servers and Allure are told."""

import json
import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from reports import allure, junit
from reports.record import Record, Requirement, RunVerdict, Scenario, Verdict, read
from tests.reports import sample

OUTCOMES = {
    Verdict.PASS: (None, ""),
    Verdict.FAIL: ("failure", "why"),
    Verdict.INCONCLUSIVE: ("failure", "INCONCLUSIVE: why"),
    Verdict.ERROR: ("error", "why"),
    Verdict.WAIVED: ("skipped", "waived: why"),
    Verdict.SKIPPED: ("skipped", "not run: why"),
    Verdict.NOT_SUPPORTED: ("skipped", "not supported: why"),
}


def parsed(record: Record) -> ET.Element:
    return ET.fromstring(junit.document(record))


def one(verdict: Verdict, message: str = "why", **fields: object) -> Record:
    scenario = Scenario.model_validate(
        {"name": "test_a", "verdict": verdict, "message": message, "seconds": 1.25, **fields}
    )
    return sample.blank(requirements=[Requirement(id="RES-4", scenarios=[scenario])])


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_has_its_outcome(verdict: Verdict) -> None:
    case = parsed(one(verdict)).find("testsuite/testcase[@classname='RES-4']")
    assert case is not None
    assert (case.get("name"), case.get("time")) == ("test_a", "1.250")
    tag, message = OUTCOMES[verdict]
    outcomes = [child for child in case if child.tag != "properties"]
    assert [child.tag for child in outcomes] == ([tag] if tag else [])
    assert [child.get("message") for child in outcomes] == ([message] if tag else [])
    properties = {item.get("name"): item.get("value") for item in case.iter("property")}
    assert properties == {
        "requirement": "RES-4",
        "level": "core",
        "verdict": verdict.value,
        "digest": sample.blank().candidate.digest,
    }


def test_long_messages_keep_their_lines() -> None:
    failure = parsed(one(Verdict.FAIL, "expected: x\nseen: y")).find(".//failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("expected: x", "expected: x\nseen: y")


def test_the_counts_are_those_of_the_record(tmp_path: Path) -> None:
    record = sample.write(tmp_path / "run")
    root = parsed(record)
    entries = [scenario.verdict for row in record.requirements for scenario in row.scenarios]
    empty = [row for row in record.requirements if not row.scenarios]
    suite = root.find("testsuite")
    assert suite is not None
    for element in (root, suite):
        assert element.get("tests") == str(len(entries) + len(empty)) == str(len(root.findall(".//testcase")))
        failures = sum(verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE) for verdict in entries)
        assert element.get("failures") == str(failures)
        assert element.get("errors") == str(entries.count(Verdict.ERROR)) == "1"
        assert element.get("skipped") == str(entries.count(Verdict.WAIVED) + len(empty))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    found = [(classname, name) for classname, name in names if classname == "CAP-4"]
    assert len(found) == 2  # its own scenario, and the one in which a finding was made
    properties = {item.get("name"): item.get("value") for item in suite.findall("properties/property")}
    assert properties["digest"] == record.candidate.digest
    assert properties["verdict"] == "error"


def test_a_requirement_without_a_scenario_is_a_skipped_testcase_with_its_reason() -> None:
    row = Requirement(id="GANG-1", level="extended", verdict=Verdict.NOT_SUPPORTED, reason="not claimed: gang")
    skipped = parsed(sample.blank(requirements=[row])).find("testsuite/testcase[@classname='GANG-1']/skipped")
    assert skipped is not None
    assert skipped.get("message") == "not supported: not claimed: gang"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"verdict": RunVerdict.INTERRUPTED}, "interrupted"),
        ({"verdict": RunVerdict.ERROR, "errors": ["the cluster did not start"]}, "the cluster did not start"),
        ({"verdict": RunVerdict.NOTHING_RAN, "requirements": []}, "nothing ran"),
    ],
)
def test_a_run_that_did_not_judge_is_not_green(fields: dict[str, Any], said: str) -> None:
    passed = [Requirement(id="RES-4", scenarios=[Scenario(name="a", verdict=Verdict.PASS, message="")])]
    root = parsed(sample.blank(**{"requirements": passed, **fields}))
    error = root.find("testsuite/testcase[@classname='run']/error")
    assert error is not None
    assert said in (error.get("message") or "")
    assert root.get("errors") == "1"


def test_iterations_are_told_apart() -> None:
    scenarios = [Scenario(name="a", iteration=number, verdict=Verdict.PASS, message="") for number in (1, 2)]
    record = sample.blank(iterations=2, requirements=[Requirement(id="RES-4", scenarios=scenarios)])
    names = [case.get("name") for case in parsed(record).iter("testcase") if case.get("classname") == "RES-4"]
    assert names == ["a[1]", "a[2]"]


def test_hostile_text_stays_text() -> None:
    hostile = "]]></failure><testcase name='x'/>\x00\x1b[31m\ufffe &amp; <!-- \ud800"
    root = parsed(one(Verdict.FAIL, hostile))
    assert len(root.findall(".//failure")) == 1
    assert "</failure><testcase name='x'/>" in (root.findall(".//failure")[0].get("message") or "")


def test_allure_gets_the_environment(tmp_path: Path) -> None:
    record = sample.write(tmp_path / "run")
    hostile = sample.blank(candidate={"name": "a=b:c\nVerdict=success\\", "version": "né 😀"})
    for given, directory in ((record, tmp_path / "run"), (hostile, tmp_path)):
        allure.write(directory, given)
    results = tmp_path / "run" / "allure-results"
    environment = dict(line.split("=", 1) for line in (results / "environment.properties").read_text().splitlines())
    assert environment["Verdict"] == "error"
    assert environment["Candidate.digest"] == record.candidate.digest
    assert environment["Kubernetes"] == "v1.37.2"
    executor = json.loads((results / "executor.json").read_text())
    assert executor["buildName"] == record.run_id
    categories = json.loads((results / "categories.json").read_text())
    assert {"Inconclusive", "Rule broken"} <= {category["name"] for category in categories}
    assert stat.S_IMODE((results / "executor.json").stat().st_mode) == 0o600
    lines = (tmp_path / "allure-results" / "environment.properties").read_bytes().splitlines()
    assert b"Candidate=a=b:c\\nVerdict=success\\\\ n\\u00e9 \\ud83d\\ude00" in lines
    assert sum(line.startswith(b"Verdict=") for line in lines) == 1


def test_a_killed_run_can_be_told_too(tmp_path: Path) -> None:
    sample.begin(tmp_path / "run")
    junit.write(tmp_path / "run", read(tmp_path / "run"))
    assert 'name="verdict" value="interrupted"' in (tmp_path / "run" / junit.FILE).read_text()
