"""Fake `ip` and `docker` for what can be tested anywhere, and one real cluster where there is what it needs."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from clusters import golang
from clusters.kind import adapter, machine, node_image
from clusters.kind.machine import MachineError, docker
from clusters.local import build
from clusters.progress import Silent
from clusters.provider import ProviderError

EXERCISED: list[str] = []


def why_not() -> str:
    """Say why no real cluster can be made here, without building or pulling anything; empty where one can."""
    if not adapter.installed():
        return "pytest-kind is not installed (make .venv/kind)"
    try:
        docker("version")
        oldest = max(component.go for component in node_image.components(build.NEWEST).values())
        if not golang.find_toolchain(oldest):
            return "Go is not installed yet"
        image = node_image.choose(build.NEWEST, Silent())
        if not node_image.present(image):
            return f"there is no node image (make kind-image KUBERNETES={build.NEWEST})"
    except (MachineError, ProviderError) as error:
        return " ".join(str(error).split())
    return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if EXERCISED:
        terminalreporter.write_line(f"kind: {EXERCISED[-1]}")


@pytest.fixture(scope="session")
def usable() -> None:
    """Skip where no real cluster can be made."""
    if reason := why_not():
        EXERCISED.append(f"not exercised: {reason}")
        pytest.skip(f"kind is not exercised: {reason}")
    EXERCISED.append("exercised")


@dataclass
class FakeMachine:
    """Programs that come first on PATH. Each call of theirs is a line of `calls`."""

    folder: Path

    @property
    def calls(self) -> list[str]:
        file = self.folder / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def routes(self) -> list[str]:
        """Destinations of the unreachable routes."""
        listed = json.loads((self.folder / "routes.json").read_text())
        return [each["dst"] for each in listed if each.get("type") == "unreachable"]

    def set_routes(self, *routes: dict[str, str]) -> None:
        (self.folder / "routes.json").write_text(json.dumps(routes))

    def program(self, name: str, body: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.folder}/calls\n{textwrap.dedent(body)}\n')
        file.chmod(0o755)


IP = """
import json, sys
file, words = sys.argv[1], sys.argv[2:]
routes = json.load(open(file))
if words == ["-json", "-4", "route", "show"]:
    print(json.dumps(routes))
elif words[:3] == ["route", "add", "unreachable"]:
    routes.append({"type": "unreachable", "dst": words[3]})
elif words[:3] == ["route", "del", "unreachable"]:
    routes.remove({"type": "unreachable", "dst": words[3]})
else:
    sys.exit(f"no such thing: {words}")
json.dump(routes, open(file, "w"))
"""
DEFAULT = {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    """A machine with one default route, a Docker engine without containers, and nothing else of ours."""
    made = FakeMachine(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "ip.py").write_text(IP)
    made.set_routes(DEFAULT)
    made.program("ip", f'exec {sys.executable} -S {tmp_path}/ip.py {tmp_path}/routes.json "$@"')
    made.program("docker", 'case "$2" in inspect) echo "Error: No such image" >&2; exit 1 ;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(machine, "STATE", tmp_path / "state")
    return made


def guarded_routes() -> list[str]:
    """Return the routes of this machine for cluster addresses."""
    ip = shutil.which("ip") or "/usr/sbin/ip"
    routes = subprocess.run([ip, "route"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [route.strip() for route in routes if str(machine.SERVICES) in route or str(machine.PODS) in route]


def of_run(run_id: str) -> list[str]:
    """Return what is there of a run: containers, processes, folders; routes too, where no other cluster needs them."""
    containers = machine.containers(f"unreserve-{run_id}")
    routes = guarded_routes() if machine.containers() == containers else []
    words = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    folders = [str(each) for each in Path(tempfile.gettempdir()).glob(f"unreserve-{run_id}-*")]
    return [each for each in words if f"unreserve-{run_id}" in each] + folders + containers + routes


def volumes(cluster: str) -> list[str]:
    """Return the anonymous volumes of a cluster's containers."""
    listed = docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", *machine.containers(cluster))
    return listed.split()
