"""A night goes on after whatever becomes of a cell, has the verdict of the worst, and leaves nothing running."""

import functools
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import unquote

import psutil
import pytest
from typer.testing import CliRunner

from clusters.kind import doctor as kind_doctor
from clusters.local import doctor
from clusters.progress import Silent
from nightly import __main__ as command
from nightly import index, night, run
from nightly.night import Cell, Night
from reports.record import RecordError, RunVerdict
from tests import programs
from tests.reports.test_signoff_page import HOSTILE, Parsed

FAKE = [sys.executable, str(Path(__file__).with_name("fake_pytest.py"))]
# Seconds within which a process of ours is up, and within which nothing may be left.
UP, GONE = 30.0, 2.0


class Said(Silent):
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def _any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "unavailable", lambda provider, _: "no docker here" if provider == "kind" else "")


def cells(folder: Path, *behaviours: str, provider: str = "local", minutes: int = 5) -> list[Cell]:
    """Cells of candidates that behave so; the same twice makes two minors of it."""
    made: list[Cell] = []
    for behaviour in behaviours:
        name = behaviour.partition(" ")[0]
        descriptor = folder / f"{name}.yaml"
        descriptor.write_text(behaviour)
        minor = f"1.{37 - sum(cell.title == name for cell in made)}"
        made.append(
            Cell(
                name=f"{name}-{provider}-{minor}", candidate=str(descriptor), kubernetes=minor, provider=provider,
                suites=["suites"], minutes=minutes,
            )
        )  # fmt: skip
    return made


def spent(folder: Path, made: list[Cell], *, parallel: int = 8) -> tuple[Night, Path, list[str]]:
    """Run a night and return its record as it stands on disk, its folder, and what it printed."""
    said = Said()
    nightly = run.Nightly(made, folder / "results", parallel=parallel, progress=said, pytest=FAKE)
    nightly.run()
    return night.read(nightly.directory), nightly.directory, said.lines


def test_a_night_goes_on_after_failing_cells_and_has_the_verdict_of_the_worst(tmp_path: Path) -> None:
    ended, directory, said = spent(tmp_path, cells(tmp_path, "failure", "success", "partial", "success"), parallel=1)
    assert [cell.verdict for cell in ended.cells] == ["failure", "success", "partial", "success"]
    assert [cell.exit_code for cell in ended.cells] == [1, 0, 11, 0]
    assert ended.verdict is RunVerdict.FAILURE
    assert ended.ended
    first = ended.cells[0]
    assert (first.record, first.log, first.patience) == (
        "failure-local-1.37/run-1",
        "failure-local-1.37/output.log",
        1.5,
    )
    assert "said by the fake failure" in (directory / first.log).read_text()
    assert [re.sub(r" +", " ", line) for line in said[:2]] == [
        f"[1/4] ✕ failure failure-local-1.37 {index.lasted(ended.cells[0].seconds or 0)} 0 of 1 hold",
        f"[2/4] ✓ success success-local-1.37 {index.lasted(ended.cells[1].seconds or 0)} 1 of 1 hold",
    ]
    assert (tmp_path / "results" / "nightly-latest").resolve() == directory
    for folder in (directory, directory / "success-local-1.37"):
        assert folder.stat().st_mode & 0o777 == 0o700
    for name in ("nightly.json", "index.html", first.log):
        assert (directory / name).stat().st_mode & 0o777 == 0o600


def test_a_cell_without_a_record_that_can_be_believed_is_an_error(tmp_path: Path) -> None:
    reasons = {
        "unborn": r"pytest exited with code 3; there is no run record",
        "crash": r"pytest was killed by SIGKILL; the run record says interrupted",
        "lie": r"pytest exited with code 0; the run record says failure",
        "interrupted": r"pytest exited with code 2; the run record says interrupted",
        "garbled": r"pytest exited with code 0; .*/record\.json: not a run record: .*",
    }
    ended, directory, _ = spent(tmp_path, cells(tmp_path, *reasons, "success"))
    assert ended.verdict is RunVerdict.ERROR
    assert ended.cells[-1].verdict is RunVerdict.SUCCESS
    text = "".join(Parsed((directory / index.PAGE).read_text()).text)
    for cell in ended.cells[:-1]:
        assert cell.verdict is RunVerdict.ERROR
        assert re.fullmatch(rf"{reasons[cell.title]}\nsaid by the fake {cell.title}", cell.reason)
        assert cell.reason in text


@pytest.mark.parametrize("behaviour", ["hang", "mute"])
def test_a_cell_that_takes_too_long_is_stopped_and_an_error(tmp_path: Path, behaviour: str) -> None:
    (slow,) = cells(tmp_path, behaviour)
    ended, _, _ = spent(tmp_path, [slow.model_copy(update={"minutes": 0.02}), *cells(tmp_path, "success")])
    assert [cell.verdict for cell in ended.cells] == ["error", "success"]
    assert ended.cells[0].reason.startswith("stopped after 1 s; ")
    assert ended.verdict is RunVerdict.ERROR


def test_a_cell_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE", 0.2)
    (slow,) = cells(tmp_path, "stubborn")
    ended, _, _ = spent(tmp_path, [slow.model_copy(update={"minutes": 0.02})])
    assert ended.cells[0].exit_code == -signal.SIGKILL
    assert ended.cells[0].verdict is RunVerdict.ERROR


def test_cells_run_side_by_side_but_never_more_than_asked(tmp_path: Path) -> None:
    ended, _, _ = spent(tmp_path, cells(tmp_path, "slow", "slow", "slow", "slow"), parallel=2)
    starts = sorted((cell.started.timestamp(), cell.seconds or 0) for cell in ended.cells if cell.started)
    together = [sum(begin <= at < begin + lasted for begin, lasted in starts) for at, _ in starts]
    assert max(together) == 2
    assert {cell.verdict for cell in ended.cells} == {RunVerdict.SUCCESS}


def test_a_provider_that_the_machine_lacks_is_said_and_is_no_success(tmp_path: Path) -> None:
    made = [*cells(tmp_path, "success", provider="kind"), *cells(tmp_path, "success")]
    ended, _, said = spent(tmp_path, made, parallel=1)
    assert [cell.verdict for cell in ended.cells] == ["nothing-ran", "success"]
    assert ended.cells[0].reason == "not available on this machine: no docker here"
    assert ended.cells[0].exit_code is None
    assert "no docker here" in said[0]
    assert ended.verdict is RunVerdict.PARTIAL

    alone, _, _ = spent(tmp_path, made[:1])
    assert alone.verdict is RunVerdict.NOTHING_RAN


def test_what_a_doctor_finds_missing_makes_a_provider_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    run.unavailable.cache_clear()
    late, gone = doctor.Finding("x", "later", "a"), doctor.Finding("docker", "missing", "install it")
    monkeypatch.setattr(doctor, "examine", lambda: iter([late]))
    monkeypatch.setattr(kind_doctor, "examine", lambda minor: iter([gone] if minor == "1.37" else []))
    assert [run.unavailable(*cell) for cell in (("local", "1.37"), ("kind", "1.37"), ("kind", "1.36"))] == [
        "", "docker: install it", "",
    ]  # fmt: skip
    run.unavailable.cache_clear()


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["success", "inconclusive"], "inconclusive"),
        (["partial", "inconclusive", "success"], "partial"),
        (["failure", "partial"], "failure"),
        (["success", "error", "failure"], "error"),
        (["error", "interrupted"], "interrupted"),
        (["success", None], "interrupted"),
        (["nothing-ran", "inconclusive"], "partial"),
        (["nothing-ran", "failure"], "failure"),
        (["nothing-ran", "nothing-ran"], "nothing-ran"),
    ],
)
def test_the_worst_cell_decides(tmp_path: Path, verdicts: list[str | None], expected: str) -> None:
    (cell,) = cells(tmp_path, "success")
    made = [cell.model_copy(update={"verdict": verdict and RunVerdict(verdict)}) for verdict in verdicts]
    assert night.worst(made) is RunVerdict(expected)


# --- signals ----------------------------------------------------------------------------------------------------------

DRIVER = """
import functools, sys
from nightly import run
from nightly.__main__ import app
run.Nightly = functools.partial(run.Nightly, pytest=sys.argv[1].split("|"))
run.unavailable = lambda *_: ""
app(sys.argv[2:])
"""


def started(folder: Path, *behaviours: str, parallel: int) -> AbstractContextManager[subprocess.Popen[str]]:
    names = [Path(cell.candidate).name for cell in cells(folder, *behaviours)]
    matrix = folder / "matrix.yaml"
    matrix.write_text(f'candidates: {json.dumps(names)}\nkubernetes: ["1.37"]\nproviders: [local]\nsuites: [.]\n')
    words = ["run", "--matrix", str(matrix), "--results", str(folder / "results"), "--parallel", str(parallel)]
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "|".join(FAKE), *words], cwd=Path(__file__).parents[2], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return programs.ended(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_stops_the_running_cells_and_leaves_the_page(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, "success", "hang", "mute", "failure", parallel=2) as process:
        latest = tmp_path / "results" / "nightly-latest"
        until(lambda: latest.exists() and night.read(latest).cells[0].verdict, UP)
        until(lambda: len(left(tmp_path)) == 3, UP)  # both cells, and what one of them has started
        process.send_signal(number)
        printed, _ = process.communicate(timeout=UP)

    assert process.returncode == RunVerdict.INTERRUPTED.exit_code
    assert not left(tmp_path)
    ended = night.read(latest)
    assert ended.verdict is RunVerdict.INTERRUPTED
    assert [cell.verdict for cell in ended.cells] == ["success", "interrupted", "interrupted", None]
    assert ended.cells[1].reason == "the night was stopped; the run record says interrupted"
    assert ended.cells[2].reason == "the night was stopped; there is no run record"
    page = "".join(Parsed((latest / index.PAGE).read_text()).text)
    assert "4 cells: 2 interrupted, 1 success, 1 not run" in page
    assert "INTERRUPTED" in printed
    assert str(latest.resolve() / index.PAGE) in printed


def test_a_second_signal_kills_what_does_not_stop(tmp_path: Path) -> None:
    with started(tmp_path, "stubborn", parallel=1) as process:
        log = tmp_path / "results" / "nightly-latest" / "stubborn-local-1.37" / "output.log"
        until(lambda: log.exists() and "said by the fake" in log.read_text(), UP)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=UP)
    assert process.returncode == RunVerdict.INTERRUPTED.exit_code
    assert not left(tmp_path)


def test_nothing_is_left_when_the_night_itself_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, "hang", "mute", parallel=2) as process:
        until(lambda: len(left(tmp_path)) == 3, UP)
        process.kill()
    until(lambda: not left(tmp_path), GONE)
    latest = tmp_path / "results" / "nightly-latest"
    assert night.read(latest).verdict is RunVerdict.INTERRUPTED
    text = "".join(Parsed((latest / index.PAGE).read_text()).text)
    assert "It has not ended" in text
    assert text.count("running") == 4  # in the table of cells and in that of runs


def left(folder: Path) -> list[int]:
    """Return the cells' processes, and their children, of the night in a folder."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if FAKE[1] in words and any(word.startswith(str(folder / "results")) for word in words):
            found += [process.pid, *(child.pid for child in process.children())]
    return found


def until(true: Callable[[], object], within: float) -> None:
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.05)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_the_table_and_ends_with_the_code_of_the_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Nightly", functools.partial(run.Nightly, pytest=FAKE))
    names = [Path(cell.candidate).name for cell in cells(tmp_path, "partial", "success")]
    matrix = tmp_path / "m.yaml"
    matrix.write_text(
        f'candidates: {json.dumps(names)}\nkubernetes: ["1.36", "1.37"]\nproviders: [local]\nsuites: [.]\n'
    )
    result = CliRunner().invoke(command.app, ["run", "--matrix", str(matrix), "--results", str(tmp_path / "results")])
    assert result.exit_code == 11, result.output
    assert re.search(r"^local +1\.36 +1\.37", result.output, re.MULTILINE)
    assert re.search(r"^partial +\S partial +\S partial", result.output, re.MULTILINE)
    assert "PARTIAL  4 cells: 2 partial, 2 success" in result.output


def test_a_bad_matrix_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("candidates: []\n")
    result = CliRunner().invoke(command.app, ["run", "--matrix", str(file), "--results", str(tmp_path / "results")])
    assert result.exit_code == 4
    assert f"{file}:1: candidates: " in result.output
    assert not (tmp_path / "results").exists()


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_has_every_cell_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    made = [
        *cells(tmp_path, "success", "success", "failure", "unborn"),
        *cells(tmp_path, "success", provider="kind"),
    ]
    spent(tmp_path, made)
    _, directory, _ = spent(tmp_path, made)
    page = Parsed((directory / index.PAGE).read_text())
    assert page.open == []
    links = page.values("href")
    assert "success-local-1.36/run-1/signoff.html" in links
    assert "failure-local-1.37/run-1/signoff.html#RES-4" in links
    assert "unborn-local-1.37/output.log" in links
    for link in links:
        path, _, fragment = unquote(link).partition("#")
        target = (directory / path).resolve()
        assert target.is_file(), link
        assert target.is_relative_to(tmp_path / "results")
        assert not fragment or f'id="{fragment}"' in target.read_text()
    text = re.sub(r"\s+", " ", " ".join(page.text))
    for said in (
        "5 cells: 1 error, 1 failure, 1 nothing ran, 2 success",
        "no docker here",
        "it is a failure",
        "there is no run record",
        "v1.37.9",
    ):
        assert said in text
    earlier = [link for link in links if link.startswith("../nightly-")]
    assert len(earlier) == 5


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    _, directory, _ = spent(tmp_path, cells(tmp_path, "success", "failure"))
    text = (directory / index.PAGE).read_text()
    page = Parsed(text)
    names = {name for name, _ in page.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "input", "base"}
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=|\bon\w+=", text)


def test_whatever_a_candidate_says_stays_text(tmp_path: Path) -> None:
    _, directory, _ = spent(tmp_path, cells(tmp_path, f"failure {HOSTILE}"))
    this, clean = night.read(directory), Parsed((directory / index.PAGE).read_text())
    this.cells[0].reason = this.cells[0].provider = this.cells[0].kubernetes = HOSTILE
    this.cells[0].candidate = f"/{HOSTILE.replace('/', '')}.yaml"
    (directory / night.FILE).write_text(this.model_dump_json())
    index.write(directory)
    page = Parsed((directory / index.PAGE).read_text())
    assert page.open == []
    for each in (clean, page):
        assert not {name for name, _ in each.elements} & {"script", "img"}
        assert not any(name.startswith("on") for _, attributes in each.elements for name in attributes)
        assert not any(link.startswith("javascript:") for link in each.values("href"))
        text = "".join(each.text)
        assert "<script>alert(1)</script>" in text
        assert "{{ 7 * 7 }}" in text
        assert not re.search("[\x1b\u202e]", text)


def test_a_page_can_be_drawn_again_and_earlier_nights_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    _, directory, _ = spent(tmp_path, cells(tmp_path, "success"))
    before = (directory / index.PAGE).read_text()
    broken = directory.with_name("nightly-20200101-000000-dead")
    broken.mkdir()
    (broken / night.FILE).write_text('{"schema": "another"}')
    (directory / index.PAGE).unlink()
    result = CliRunner().invoke(command.app, ["render", str(directory)])
    assert result.exit_code == 0
    assert (directory / index.PAGE).read_text() == before

    result = CliRunner().invoke(command.app, ["render", str(broken)])
    assert result.exit_code == 4
    assert "not the record of a night" in result.output


def test_a_night_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nightly\.json: No such file or directory; name a folder"):
        night.read(tmp_path)
