"""`python -m clusters` tells what is there, what is missing and how to mend it."""

import io
import resource
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import clusters.__main__ as command
from clusters import golang
from clusters.golang import Program
from clusters.local import build, doctor
from clusters.local.doctor import Finding, examine
from clusters.progress import Shown, Silent
from clusters.provider import ProviderError

GO = '#!/bin/sh\necho \'{"GOVERSION": "go1.99.0", "GOHOSTOS": "linux", "GOHOSTARCH": "amd64"}\'\n'


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Go, an empty cache, and room."""
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    shown = io.StringIO()
    monkeypatch.setattr(command, "console", Console(file=shown, width=400, highlight=False))
    return shown


def finding(what: str) -> Finding:
    return next(found for found in examine() if found.what == what)


def test_a_machine_that_has_all_but_the_builds_can_run(terminal: io.StringIO) -> None:
    result = CliRunner().invoke(command.app, ["doctor"])

    assert result.exit_code == 0
    assert "go1.99.0 from PATH" in terminal.getvalue()
    assert finding(f"Kubernetes {build.NEWEST}").state == "later"
    assert f"python -m clusters build --kubernetes {build.NEWEST}" in terminal.getvalue()


def test_a_cache_that_cannot_be_written_stops_a_run(
    terminal: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "file" / "[bold]cache"))

    result = CliRunner().invoke(command.app, ["doctor"])

    assert result.exit_code == 1
    assert "[bold]cache cannot be written" in terminal.getvalue()
    assert "set UNRESERVE_CACHE to a folder you may write" in terminal.getvalue()


def test_too_little_room_to_build_stops_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "BUILD_DISK", 1 << 60)

    assert finding("cache").state == "missing"
    assert "make room there" in finding("cache").text


def test_too_few_open_files_stop_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))

    assert finding("open files") == Finding(
        "open files", "missing", "only 256 allowed (ulimit -Hn); 4096 are needed: raise nofile"
    )


def test_go_may_come_later_with_pip_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert finding("Go").state == "later"
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    assert finding("Go").state == "missing"


def test_assets_without_anything_of_use_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    assert finding("KUBEBUILDER_ASSETS").state == "missing"


def test_the_list_shows_what_is_built_and_where(terminal: io.StringIO) -> None:
    component = build.components(build.NEWEST)["kwok"]
    toolchain = golang.find_toolchain(component.go)
    assert toolchain
    binary = golang.cached(component, toolchain)
    binary.parent.mkdir(parents=True)
    binary.write_bytes(b"x" * (3 << 20))

    assert CliRunner().invoke(command.app, ["list"]).exit_code == 0

    lines = terminal.getvalue().splitlines()
    assert any("kwok " in line and "3 MiB" in line and f"bin/{binary.parent.name}/kwok" in line for line in lines)
    assert any("kube-apiserver" in line and "not built" in line for line in lines)


def test_building_names_each_binary_and_refuses_an_unknown_minor(
    terminal: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(component: Program, _: object) -> Path:
        return Path("/cache") / component.name

    monkeypatch.setattr(golang, "ensure", ensure)

    assert CliRunner().invoke(command.app, ["build"]).exit_code == 0
    assert terminal.getvalue().split() == [f"/cache/{name}" for name in build.components(build.NEWEST)
                                           if name in build.NEEDED]  # fmt: skip
    refused = CliRunner().invoke(command.app, ["build", "--kubernetes", "1.2"])
    assert refused.exit_code == 1
    assert "error: Kubernetes '1.2' is not supported" in refused.output


def test_a_failed_build_is_one_message_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(_: Program, __: object) -> Path:
        raise ProviderError("no such thing")

    monkeypatch.setattr(golang, "ensure", ensure)
    failed = CliRunner().invoke(command.app, ["build"])

    assert failed.exit_code == 1
    assert failed.output.strip() == "error: no such thing"


def test_without_a_terminal_progress_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, now = io.StringIO(), [0.0]
    monkeypatch.setattr("clusters.progress.time.monotonic", lambda: now[0])
    with Shown(Console(file=shown, width=80)) as reporter:
        reporter.step("building [red]etcd")
        for second in range(40):
            now[0] = float(second)
            reporter.tick(f"building etcd: {second} s")

    assert shown.getvalue().splitlines() == ["building [red]etcd", "building etcd: 15 s", "building etcd: 30 s"]


def test_on_a_terminal_ticks_replace_each_other() -> None:
    shown = io.StringIO()
    with Shown(Console(file=shown, force_terminal=True, width=80)) as reporter:
        reporter.tick("one")
        reporter.tick("two")
        reporter.step("done")

    assert "two" in shown.getvalue()
    assert shown.getvalue().rstrip().endswith("done")
    Silent().step("nothing")
    Silent().tick("nothing")
