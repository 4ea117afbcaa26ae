"""The record is complete at every moment, whatever ends the runner."""

import json
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reports.record import (
    RECORD,
    Deviation,
    DeviationState,
    Finding,
    Measurement,
    RecordError,
    RecordWriter,
    Requirement,
    RunVerdict,
    Scenario,
    Verdict,
    read,
    write_private,
)
from tests.reports import sample

ROOT = Path(__file__).parents[2]
BUSY = """
import sys
from pathlib import Path
from reports.record import RecordWriter, Scenario, Verdict
from tests.reports import sample
writer = RecordWriter(Path(sys.argv[1]))
writer.begin(sample.blank("busy"))
for number in range(100_000):
    writer.add("RES-4", Scenario(name=f"scenario_{number % 50}", verdict=Verdict.PASS, message="x" * 2000))
"""


@pytest.fixture
def writer(tmp_path: Path) -> RecordWriter:
    made = RecordWriter(tmp_path / "run-1")
    rows = [
        Requirement(id="RES-4", title="one binding", scenarios=[Scenario(name="a"), Scenario(name="b")]),
        Requirement(id="RES-5", scenarios=[Scenario(name="c")]),
    ]
    catalogue = [Requirement(id="CAP-4", title="never more than allocatable", level="core")]
    made.begin(sample.blank("run-1", requirements=rows), catalogue)
    return made


def good(name: str, **fields: object) -> Scenario:
    return Scenario.model_validate({"name": name, "verdict": "pass", "message": "", **fields})


def row(writer: RecordWriter, name: str) -> Requirement:
    return next(one for one in read(writer.directory).requirements if one.id == name)


def test_a_killed_writer_leaves_a_readable_record(tmp_path: Path) -> None:
    luck = random.Random(7)
    directories = [tmp_path / str(number) / "run" for number in range(4)]
    processes = [subprocess.Popen([sys.executable, "-c", BUSY, directory], cwd=ROOT) for directory in directories]
    try:
        for process, directory in zip(processes, directories, strict=True):
            deadline = time.monotonic() + 30
            while not (directory / RECORD).exists():
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            for _ in range(20):  # readers beside the writer never see a part
                assert read(directory).verdict is RunVerdict.INTERRUPTED
            time.sleep(luck.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            assert process.wait(10) == -signal.SIGKILL
            assert read(directory).verdict is RunVerdict.INTERRUPTED
            assert read(directory).run_id == "busy"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_reader_keeps_the_file_it_opened(writer: RecordWriter) -> None:
    with (writer.directory / RECORD).open() as opened:
        writer.add("RES-4", good("a"))
        writer.add("RES-4", good("b"))
        assert json.loads(opened.read())["requirements"][0]["verdict"] == "skipped"
    assert row(writer, "RES-4").verdict is Verdict.PASS


def test_what_a_crash_left_half_written_does_not_matter(writer: RecordWriter) -> None:
    (writer.directory / f".{RECORD}.unfinished").write_text('{"schema": "unre')
    assert read(writer.directory).verdict is RunVerdict.INTERRUPTED
    writer.add("RES-4", good("a"))
    assert read(writer.directory) == writer.record


def test_it_says_interrupted_until_it_has_ended(writer: RecordWriter) -> None:
    for requirement, name in (("RES-4", "a"), ("RES-4", "b"), ("RES-5", "c")):
        assert read(writer.directory).verdict is RunVerdict.INTERRUPTED
        assert read(writer.directory).ended is None
        writer.add(requirement, good(name))
    assert writer.finish().verdict is RunVerdict.SUCCESS
    assert read(writer.directory) == writer.record
    writer.error("the cluster could not be destroyed")
    assert read(writer.directory).verdict is RunVerdict.INTERRUPTED
    assert writer.finish().verdict is RunVerdict.ERROR


def test_an_interrupted_run_that_went_well_so_far_is_no_success(writer: RecordWriter) -> None:
    writer.add("RES-4", good("a"))
    ended = writer.finish(interrupted=True)
    assert (ended.verdict, ended.verdict.exit_code) == (RunVerdict.INTERRUPTED, 2)
    assert ended.ended is not None


def test_a_planned_scenario_that_never_ran_keeps_its_requirement_open(writer: RecordWriter) -> None:
    writer.add("RES-4", good("a"))
    writer.add("RES-5", good("c"))
    assert row(writer, "RES-4").verdict is Verdict.SKIPPED
    assert writer.finish().verdict is RunVerdict.PARTIAL


def test_a_finding_is_booked_where_it_belongs(writer: RecordWriter) -> None:
    found = [Finding(requirement="CAP-4", message="10 of 8 GPUs", at=1.5, entries=[7])]
    shown = {"seconds": 3, "waited_seconds": 2, "figures": {"x_seconds": 1}}
    writer.add("RES-4", good("a", findings=found, history="history/s1.jsonl", **shown))
    writer.add("RES-4", good("b"))
    assert row(writer, "RES-4").verdict is Verdict.PASS
    booked = row(writer, "CAP-4")
    assert (booked.title, booked.verdict) == ("never more than allocatable", Verdict.FAIL)
    (entry,) = booked.scenarios
    assert (entry.name, entry.found_in, entry.message) == ("a", "RES-4", "10 of 8 GPUs")
    assert (entry.findings, entry.history) == (found, "history/s1.jsonl")
    assert (entry.seconds, entry.waited_seconds, entry.figures) == (0, 0, {})
    writer.add("RES-5", good("c"))
    assert writer.finish().verdict is RunVerdict.FAILURE


def test_findings_of_one_scenario_at_one_requirement_are_one_entry(writer: RecordWriter) -> None:
    found = [
        Finding(requirement="CAP-4", message="first", verdict=Verdict.WAIVED),
        Finding(requirement="NEW-1", message="elsewhere"),
        Finding(requirement="CAP-4", message="second"),
    ]
    writer.add("RES-4", good("a", findings=found))
    (entry,) = row(writer, "CAP-4").scenarios
    assert (entry.verdict, entry.message) == (Verdict.FAIL, "first\nsecond")
    assert [finding.message for finding in entry.findings] == ["first", "second"]
    assert row(writer, "NEW-1").scenarios[0].message == "elsewhere"


def test_a_finding_at_its_own_requirement_makes_the_scenario_worse(writer: RecordWriter) -> None:
    writer.add("RES-4", good("a", findings=[Finding(requirement="RES-4", message="two bindings")]))
    scenario = row(writer, "RES-4").scenarios[0]
    assert (scenario.verdict, scenario.message) == (Verdict.FAIL, "two bindings")


def test_added_again_a_verdict_only_gets_worse(writer: RecordWriter) -> None:
    writer.add("RES-4", good("a", history="history/s1.jsonl", seconds=1))
    writer.add("RES-4", Scenario(name="a", verdict=Verdict.ERROR, message="teardown broke", seconds=2))
    scenario = row(writer, "RES-4").scenarios[0]
    assert (scenario.verdict, scenario.message) == (Verdict.ERROR, "teardown broke")
    assert (scenario.history, scenario.seconds) == ("history/s1.jsonl", 2)
    writer.add("RES-4", good("a"))
    scenario = row(writer, "RES-4").scenarios[0]
    assert (scenario.verdict, scenario.message) == (Verdict.ERROR, "teardown broke")
    assert len(row(writer, "RES-4").scenarios) == 2


def test_all_iterations_must_pass(writer: RecordWriter) -> None:
    writer.add("RES-5", good("c", iteration=1))
    writer.add("RES-5", good("c", iteration=2, verdict="fail", message="once in two"))
    assert row(writer, "RES-5").verdict is Verdict.FAIL
    assert [scenario.iteration for scenario in row(writer, "RES-5").scenarios] == [1, 2]


def test_a_deviation_that_covers_something_says_so(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "run")
    deviations = [Deviation(id="RES-4", reason="x"), Deviation(id="RES-5", reason="y")]
    writer.begin(sample.blank("run", requirements=[], deviations=deviations))
    writer.add("RES-4", Scenario(name="a", verdict=Verdict.WAIVED, message="x"))
    assert [one.state for one in writer.finish().deviations] == [DeviationState.APPLIED, DeviationState.UNUSED]


def test_the_measurement_closest_to_its_bound_stands_for_the_scenario(writer: RecordWriter) -> None:
    measurements = [
        Measurement(what="quick", measured_seconds=1, bound_seconds=10),
        Measurement(what="slow", measured_seconds=4, bound_seconds=5),
    ]
    writer.add("RES-4", good("a", measurements=measurements))
    scenario = row(writer, "RES-4").scenarios[0]
    assert (scenario.measured_seconds, scenario.bound_seconds) == (4, 5)


def test_files_are_private_and_latest_points_at_the_newest(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        writer = RecordWriter(tmp_path / "results" / name)
        writer.begin(sample.blank(name))
        assert stat.S_IMODE(writer.directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((writer.directory / RECORD).stat().st_mode) == 0o600
        assert (tmp_path / "results" / "latest").readlink() == Path(name)
    assert read(tmp_path / "results" / "latest").run_id == "run-2"
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["latest", "run-1", "run-2"]


def test_a_private_file_does_not_follow_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".report.unfinished").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        write_private(tmp_path / "report", "theirs")
    assert victim.read_text() == "mine"


def test_nothing_is_written_before_begin(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="begin"):
        RecordWriter(tmp_path / "run").finish()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "not a run record"),
        ("[]", "not a run record"),
        ('{"schema": "unreserve.dev/run-record/v9"}', "field schema is 'unreserve.dev/run-record/v9'"),
        ('{"schema": "unreserve.dev/run-record/v1", "run_id": "x"}', "started: Field required"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / RECORD).write_text(text)
    with pytest.raises(RecordError, match=r"record\.json") as problem:
        read(tmp_path)
    assert said in str(problem.value)


def test_a_record_made_better_by_hand_is_refused(writer: RecordWriter) -> None:
    writer.add("RES-4", good("a", verdict="fail", message="leak"))
    writer.finish()
    data = json.loads((writer.directory / RECORD).read_text())
    data["verdict"] = "success"
    (writer.directory / RECORD).write_text(json.dumps(data))
    with pytest.raises(RecordError, match="the run says success, its requirements say failure"):
        read(writer.directory)
