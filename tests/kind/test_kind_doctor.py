"""The doctor names what kind lacks and how to mend it, and stops nobody who runs elsewhere."""

import io
import os
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import clusters.__main__ as command
from clusters import golang
from clusters.golang import Toolchain
from clusters.kind import adapter, doctor, node_image
from clusters.kind.machine import PODS, SERVICES
from clusters.local import build
from clusters.local.doctor import Finding
from tests.kind.conftest import DEFAULT, FakeMachine

INFO = """
case "$*" in
version*) echo 27.1.0 ;;
*DefaultRuntime*) echo {runtime} ;;
*DockerRootDir*) echo {root} ;;
*inspect*) {image} ;;
esac
"""
MISSING = 'echo "No such image" >&2; exit 1'


@pytest.fixture(autouse=True)
def healthy(fake: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is there: each test takes one thing away."""
    facts = {"GOVERSION": "go1.99.0", "GOHOSTOS": "linux", "GOHOSTARCH": "amd64"}
    monkeypatch.setattr(golang, "find_toolchain", lambda _: Toolchain(Path("go"), "a test", facts))
    monkeypatch.setattr(adapter, "installed", lambda: True)
    monkeypatch.setattr(doctor, "DISK", 1)
    fake.set_routes(DEFAULT, *({"type": "unreachable", "dst": str(network)} for network in (SERVICES, PODS)))
    fake.program("docker", INFO.format(runtime="fit", root=fake.folder, image="echo sha256:1"))


def findings(minor: str = build.NEWEST) -> dict[str, Finding]:
    return {finding.what: finding for finding in doctor.examine(minor)}


def test_a_machine_that_has_everything() -> None:
    found = findings()

    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["kind node image"].text.startswith("unreserve/node:v")


def test_the_extra_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "installed", lambda: False)

    assert findings()["kind extra"].state == "missing"
    assert "requirements-kind.lock" in findings()["kind extra"].text


@pytest.mark.parametrize(
    ("said", "remedy"),
    [("Cannot connect to the Docker daemon", ".ci/docker"), ("permission denied while trying", "group docker")],
)
def test_the_engine_does_not_answer(fake: FakeMachine, said: str, remedy: str) -> None:
    fake.program("docker", f'echo "{said}" >&2; exit 1')

    found = findings()

    assert found["Docker"].state == "missing"
    assert said in found["Docker"].text
    assert remedy in found["Docker"].text
    assert "kind node image" not in found


def test_there_is_no_docker_at_all(monkeypatch: pytest.MonkeyPatch, fake: FakeMachine) -> None:
    (fake.folder / "bin" / "docker").unlink()
    monkeypatch.setenv("PATH", f"{fake.folder}/bin")

    assert "no `docker` on PATH" in findings()["Docker"].text


def test_the_engine_is_on_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2376")

    assert findings()["Docker"].state == "missing"


@pytest.mark.parametrize(
    ("bounding", "runtime", "state"),
    [("000001ffffffffff", "runc", "ok"), ("000001fffeffffff", "runc", "missing"), ("000001fffeffffff", "fit", "ok")],
)
def test_the_capability_that_privileged_containers_ask_for(
    fake: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounding: str, runtime: str, state: str
) -> None:
    (tmp_path / "status").write_text(f"Name:\tpython\nCapBnd:\t{bounding}\n")
    monkeypatch.setattr(doctor, "STATUS", tmp_path / "status")
    fake.program("docker", INFO.format(runtime=runtime, root=fake.folder, image="echo sha256:1"))

    assert findings()["kind privileges"].state == state


def test_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "DISK", 1 << 60)

    assert findings()["kind disk"].state == "missing"


@pytest.mark.parametrize(("user", "state"), [(0, "later"), (1000, "missing")])
def test_routes_that_only_root_may_add(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch, user: int, state: str
) -> None:
    fake.set_routes(DEFAULT)
    monkeypatch.setattr(os, "geteuid", lambda: user)

    found = findings()["kind routes"]

    assert found.state == state
    assert (f"ip route add unreachable {PODS}" in found.text) is (state == "missing")
    assert fake.routes == []


def test_ranges_that_this_machine_uses_itself(fake: FakeMachine) -> None:
    fake.set_routes(DEFAULT, {"dst": "10.244.0.0/15", "dev": "eth1"})

    assert findings()["kind routes"].state == "missing"


def test_no_node_image_yet(fake: FakeMachine) -> None:
    fake.program("docker", INFO.format(runtime="fit", root=fake.folder, image=MISSING))

    official, none = findings(), findings("1.36")

    assert official["kind node image"].state == "later"
    assert node_image.OFFICIAL[build.NEWEST] in official["kind node image"].text
    assert f"make kind-image KUBERNETES={build.NEWEST}" in official["kind node image"].text
    assert none["kind node image"].state == "missing"


def test_what_kind_lacks_stops_only_who_asks_for_kind(
    fake: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = io.StringIO()
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(command, "console", Console(file=shown, width=300))
    monkeypatch.setattr(command, "examine", lambda: iter([Finding("system", "ok", "fine")]))
    fake.program("docker", "exit 1")

    assert CliRunner().invoke(command.app, ["doctor"]).exit_code == 0
    assert CliRunner().invoke(command.app, ["doctor", "--provider", "kind"]).exit_code == 1
    assert "the engine does not answer" in shown.getvalue()
