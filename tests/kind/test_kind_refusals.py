"""What cannot work is refused before anything is changed, in words that help."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusters import golang, kind
from clusters.kind import adapter, node_image
from clusters.progress import Silent
from clusters.provider import ControlPlane, ProviderError
from tests.kind.conftest import DEFAULT, FakeMachine

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_real(fake: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs and node image are there; Docker is not the real one."""
    monkeypatch.setattr(adapter, "require", lambda: None)
    monkeypatch.setattr(node_image, "choose", lambda *_: "unreserve/node:test")
    monkeypatch.setattr(golang, "ensure", lambda component, _: fake.folder / "bin" / component.name)


def refused(tmp_path: Path, **options: object) -> str:
    with pytest.raises(ProviderError) as error:
        kind.create("run", results=tmp_path / "results", **options)  # type: ignore[arg-type]
    return str(error.value)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake: FakeMachine) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    said = refused(tmp_path)

    assert "pytest-kind is not installed" in said
    assert "requirements-kind.lock" in said
    assert fake.calls == []


def test_without_docker(tmp_path: Path, fake: FakeMachine) -> None:
    fake.program("docker", 'echo "Cannot connect to the Docker daemon" >&2; exit 1')

    said = refused(tmp_path)

    assert "Cannot connect to the Docker daemon" in said
    assert "python -m clusters doctor" in said


def test_a_cluster_of_that_name_is_left_as_it_is(tmp_path: Path, fake: FakeMachine) -> None:
    fake.program("docker", 'case "$1" in ps) echo 0123456789ab ;; esac')

    said = refused(tmp_path)

    assert "unreserve-run is there already" in said
    assert {call.split()[1] for call in fake.calls} == {"version", "ps"}
    assert fake.routes == []


def test_addresses_that_are_in_use(tmp_path: Path, fake: FakeMachine) -> None:
    fake.set_routes(DEFAULT, {"dst": "10.96.0.0/12", "dev": "tun0"})

    said = refused(tmp_path)

    assert "this machine routes 10.96.0.0/12 to dev tun0" in said
    assert not any("create" in call for call in fake.calls)


def test_a_switch_that_is_none(tmp_path: Path, fake: FakeMachine) -> None:
    assert "no feature gate" in refused(tmp_path, control_plane=ControlPlane({"x y": True}))
    assert fake.calls == []


def test_an_image_made_of_other_parts_is_not_replaced_by_a_pull(
    monkeypatch: pytest.MonkeyPatch, fake: FakeMachine
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{fake.folder}/bin:/usr/bin:/bin")
    monkeypatch.setattr(node_image, "own", lambda *_: "unreserve/node:v1.37.2-new")
    fake.program(
        "docker",
        'case "$2" in inspect) echo "No such image" >&2; exit 1 ;; ls) echo unreserve/node:v1.37.2-old ;; esac',
    )

    with pytest.raises(ProviderError, match=r"v1.37.2-old is made of other parts .* `make kind-image KUBERNETES=1.37`"):
        node_image.choose("1.37", Silent())


def test_a_minor_without_any_image(monkeypatch: pytest.MonkeyPatch, fake: FakeMachine) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{fake.folder}/bin:/usr/bin:/bin")
    monkeypatch.setattr(node_image, "own", lambda *_: "unreserve/node:v1.36.3-new")

    with pytest.raises(ProviderError, match=r"no node image for Kubernetes 1.36.*--node-image kindest/node:v1.36"):
        node_image.choose("1.36", Silent())
    assert "@sha256:" in node_image.choose("1.37", Silent())


def test_the_guard_runs_what_is_left_to_do_only_after_a_death(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from clusters.processes import Supervisor\n"
        "made = Supervisor(Path(sys.argv[1]) / 'state')\n"
        "made.at_death(['/bin/sh', '-c', 'echo $GIVEN >\"$0\"', sys.argv[1] + '/undone'], {'GIVEN': 'environment'})\n"
        "made.stop_all() if sys.argv[2] == 'clean' else os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for how in ("clean", "killed"):
        (tmp_path / how).mkdir()
        subprocess.run([sys.executable, "-c", program, tmp_path / how, how], cwd=ROOT, check=False)

    deadline = time.monotonic() + 20
    while (tmp_path / "killed" / "state").exists():  # removed last
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (tmp_path / "killed" / "undone").read_text() == "environment\n"
    assert not (tmp_path / "clean" / "undone").exists()
