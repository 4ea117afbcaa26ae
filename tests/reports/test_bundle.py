"""The sign-off bundle: what is in it, and what stands in its way."""

import hashlib
import json
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from reports import attestation, bundle
from reports.record import Verdict
from reports.render import render
from tests.reports import sample

ROOT = Path(__file__).parents[2]


def test_the_bundle_holds_what_somebody_answers_for(tmp_path: Path) -> None:
    directory = tmp_path / "20261130-091402-7f3a"
    sample.write(directory, good=True)
    record = render(directory)
    assert bundle.in_the_way(record) == []

    path = bundle.write(directory, record)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in directory.glob("signoff-*")) == [path.name]
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    unpacked = tmp_path / "unpacked" / f"signoff-{record.run_id}"
    files = {each.relative_to(unpacked).as_posix() for each in unpacked.rglob("*") if each.is_file()}
    histories = {path.relative_to(directory).as_posix() for path in (directory / "history").iterdir()}
    assert histories
    assert files == {"record.json", "signoff.html", "junit.xml", "attestation.json", "SHA256SUMS", *histories}
    checked = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"],
        cwd=unpacked, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    assert checked.stdout.count(": OK") == len(files) - 1


def test_the_same_run_gives_the_same_bundle(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    sample.write(directory, good=True)
    digests = {hashlib.sha256(bundle.write(directory, render(directory)).read_bytes()).hexdigest() for _ in range(2)}
    assert len(digests) == 1


def test_every_blocker_stands_in_the_way(tmp_path: Path) -> None:
    sample.write(tmp_path / "run")
    record = render(tmp_path / "run")
    assert record.blockers()

    said = bundle.in_the_way(record)

    assert f"The verdict is {record.verdict}." in said
    assert len(said) == len(record.obstacles()) + len(record.blockers())
    assert all("\n" not in each for each in said)


def test_deviations_are_a_warning(tmp_path: Path) -> None:
    sample.write(tmp_path / "run", good=True)
    record = render(tmp_path / "run")
    rows = [row.model_copy(update={"verdict": Verdict.WAIVED}) for row in record.requirements[:1]]
    waived = record.model_copy(update={"requirements": rows})

    predicate = attestation.statement(waived)["predicate"]

    assert (predicate["result"], predicate["warnedTests"]) == ("WARNED", [rows[0].id])


@pytest.mark.parametrize(("good", "result"), [(True, "PASSED"), (False, "FAILED")])
def test_the_attestation_says_what_a_machine_may_believe(tmp_path: Path, good: bool, result: str) -> None:
    sample.write(tmp_path / "run", good=good)
    record = render(tmp_path / "run")
    said = json.loads((tmp_path / "run" / "attestation.json").read_text())

    assert said == attestation.statement(record)
    assert said["subject"][0]["digest"] == {"sha256": record.candidate.digest.removeprefix("sha256:")}
    predicate = said["predicate"]
    assert predicate["result"] == result
    waived = [row.id for row in record.requirements if row.verdict is Verdict.WAIVED]
    assert predicate["warnedTests"] == sorted(waived)
    assert (predicate["failedTests"] == []) is good


def test_without_a_digest_there_is_no_attestation(tmp_path: Path) -> None:
    sample.begin(tmp_path / "run", candidate={}).finish()
    render(tmp_path / "run")
    assert not (tmp_path / "run" / "attestation.json").exists()


def test_a_selection_is_refused_before_anything_starts(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "suites", "-p", "fixtures.plugin", "-p", "reports.plugin", "--signoff",
            "--select", "RES-4", "--candidate", "candidates/stock.yaml", "--results", str(tmp_path / "results"),
        ],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 4, done.stdout
    assert "this run could not be signed off:\nOnly a selection was run: RES-4." in done.stderr + done.stdout
    assert not (tmp_path / "results").exists()
