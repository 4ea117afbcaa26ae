"""All reports of a run, drawn at once and again."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reports.__main__ import app
from reports.record import RecordError, RunVerdict
from reports.render import SUMS, render, write_sums
from tests.reports import sample

ROOT = Path(__file__).parents[2]
DRAWN = {"junit.xml", "signoff.html", SUMS}


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("good", [True, False])
def test_rendering_is_a_pure_function_of_the_results(tmp_path: Path, good: bool) -> None:
    sample.write(tmp_path / "one" / "run", good=good)
    shutil.copytree(tmp_path / "one" / "run", tmp_path / "two" / "run")
    record = render(tmp_path / "one" / "run")
    first = contents(tmp_path / "one" / "run")
    assert first.keys() >= DRAWN
    assert render(tmp_path / "one" / "run") == record
    assert contents(tmp_path / "one" / "run") == first
    render(tmp_path / "two" / "run")
    assert contents(tmp_path / "two" / "run") == first


def test_the_record_and_the_histories_are_left_alone(tmp_path: Path) -> None:
    sample.write(tmp_path / "run")
    before = contents(tmp_path / "run")
    render(tmp_path / "run")
    after = contents(tmp_path / "run")
    assert {name: after[name] for name in before} == before


def test_reports_are_private(tmp_path: Path) -> None:
    sample.write(tmp_path / "run")
    render(tmp_path / "run")
    for name in DRAWN:
        assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o600


def test_the_digests_are_those_of_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    sample.write(directory)
    (directory / "logs").mkdir()
    (directory / "logs" / "odd\nname\\.log").write_text("x")
    (directory / "elsewhere").symlink_to("/etc/hostname")
    (directory / ".record.json.unfinished").write_text("half")
    render(directory)
    listed = (directory / SUMS).read_text()
    assert "record.json\n" in listed
    assert "signoff.html\n" in listed
    assert "elsewhere" not in listed
    assert "unfinished" not in listed
    assert SUMS not in listed
    sums = ["sha256sum", "-c", "--strict", SUMS]
    checked = subprocess.run(sums, cwd=directory, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    with (directory / "record.json").open("a") as record:
        record.write(" ")
    assert subprocess.run(sums, cwd=directory, capture_output=True, check=False).returncode == 1
    write_sums(directory)
    assert subprocess.run(sums, cwd=directory, capture_output=True, check=False).returncode == 0


def test_an_interrupted_run_still_reports(tmp_path: Path) -> None:
    sample.begin(tmp_path / "run")
    assert render(tmp_path / "run").verdict is RunVerdict.INTERRUPTED
    assert contents(tmp_path / "run").keys() >= DRAWN


def test_no_record_no_report(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="results/<run id>"):
        render(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_draws_and_says_the_verdict(tmp_path: Path) -> None:
    sample.write(tmp_path / "run")
    told = CliRunner().invoke(app, ["render", str(tmp_path / "run")])
    assert told.exit_code == 0
    assert told.output.startswith("ERROR  gpu-packing v1.37.2")
    assert (tmp_path / "run" / "signoff.html").exists()
    missing = CliRunner().invoke(app, ["render", str(tmp_path)])
    assert missing.exit_code == 4
    assert "record.json: No such file" in missing.output
    assert "Traceback" not in missing.output


SESSION = """
import pytest
from pathlib import Path

class Runner:
    def pytest_addhooks(self, pluginmanager):
        from fixtures import hooks
        pluginmanager.add_hookspecs(hooks)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        session.config.hook.pytest_unreserve_run_ended(directory=Path("run"))

raise SystemExit(pytest.main(["-q", "-p", "reports.plugin", "-c", "/dev/null", "test_x.py"], plugins=[Runner()]))
"""


def test_pytest_draws_them_when_the_run_has_ended(tmp_path: Path) -> None:
    sample.write(tmp_path / "run", good=True)
    (tmp_path / "test_x.py").write_text("def test_x():\n    pass\n")
    ran = subprocess.run(
        [sys.executable, "-c", SESSION],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (
        "\nSUCCESS  gpu-packing v1.37.2 on Kubernetes v1.37.2 (local): 29 of 29 core requirements hold\n" in ran.stdout
    )
    assert (tmp_path / "run" / "signoff.html").exists()
