"""A candidate that is built from Go source: described, built before the run, and found by its processes."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import candidates
from candidates import DeployError, DescriptorError, building
from candidates import __main__ as command
from clusters import cache, golang
from clusters.processes import Supervisor
from clusters.progress import Silent
from tests.candidates.test_deployment import FakeCluster

Write = Callable[..., Path]

CHECKOUT = Path(__file__).parents[2]

MAIN = """\
package main

import (
	"os"
	"time"
)

func main() {
	println(word, len(os.Args))
	time.Sleep(time.Hour)
}
"""
PROGRAM = ("[python3, $(folder)/program.py]", "[$(built:hello)]")
BUILD = "build: {hello: {folder: source, package: ./cmd/hello}}\n"
TWO = """\
build:
  hello: {folder: source, package: ./cmd/hello}
  other: {folder: source, package: ./cmd/hello, tags: [loud]}
"""


@pytest.fixture
def source(written: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module beside the descriptor; the cache is empty, and nothing is built yet."""
    folder = written().parent / "source"
    toolchain = golang.find_toolchain((1, 22)) or golang.install_toolchain((1, 22), Silent())
    monkeypatch.setenv("PATH", str(toolchain.go.parent), prepend=":")
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "TICK", 0.01)
    monkeypatch.setattr(building, "_built", {})
    (folder / "cmd" / "hello").mkdir(parents=True)
    (folder / "go.mod").write_text("module example.com/hello\n\ngo 1.22\n")
    (folder / "cmd" / "hello" / "main.go").write_text(MAIN)
    say(folder, "soft")
    (folder / "cmd" / "hello" / "loud.go").write_text('//go:build loud\n\npackage main\n\nconst word = "loud"\n')
    return folder


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Callable[[Path], candidates.Deployed]]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    with Supervisor(tmp_path / "state") as supervisor:

        def bring_up(path: Path) -> candidates.Deployed:
            found, cluster = candidates.load(path), FakeCluster(folder)
            return candidates.deploy(found, cluster, supervisor, tmp_path / "work", tmp_path / "logs")

        yield bring_up


def say(source: Path, word: str) -> None:
    text = f'//go:build !loud\n\npackage main\n\nconst word = "{word}"\n'
    (source / "cmd" / "hello" / "word.go").write_text(text)


def log(tmp_path: Path) -> list[str]:
    return (tmp_path / "logs" / "scheduler.log").read_text().splitlines()


@pytest.mark.usefixtures("source")
def test_a_process_runs_what_was_built_from_any_folder(
    written: Write, deploy: Callable[[Path], candidates.Deployed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(PROGRAM, ("ports: {web: auto}", "args: [$(built:other)]"), more=TWO)
    monkeypatch.chdir(tmp_path)

    deployed = deploy(path.relative_to(tmp_path))
    monkeypatch.chdir("/")
    deployed.restart()

    assert log(tmp_path) == ["soft 2", "soft 2"]
    assert isinstance(deployed, candidates.HostDeployed)
    argv = deployed.processes["scheduler"].argv
    assert [Path(word).name for word in argv] == ["hello", "other"]
    assert all(Path(word).is_relative_to(tmp_path / "cache") for word in argv)


def test_the_digest_is_that_of_the_build(
    written: Write, deploy: Callable[[Path], candidates.Deployed], source: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def digest(path: Path) -> str:
        monkeypatch.setattr(building, "_built", {})  # as in another run
        deployed = deploy(path)
        deployed.stop()
        return deployed.digest

    path = written(PROGRAM, ("ports: {web: auto}", "args: [$(built:other)]"), more=TWO)
    first = digest(path)
    shutil.copytree(path.parent, tmp_path / "elsewhere")
    moved = digest(tmp_path / "elsewhere" / path.name)
    say(source, "else")
    program = digest(path)
    say(source, "soft")
    back = digest(path)
    loud = source / "cmd" / "hello" / "loud.go"
    loud.write_text(loud.read_text().replace('loud"', 'LOUD"'))
    argument = digest(path)

    assert first == moved == back
    assert len({first, program, argument}) == 3


def test_source_that_is_edited_during_a_run_counts_from_the_next(
    written: Write, deploy: Callable[[Path], candidates.Deployed], source: Path, tmp_path: Path
) -> None:
    path = written(PROGRAM, more=BUILD)
    candidates.build(candidates.load(path), "1.37", Silent())

    say(source, "else")
    deploy(path).restart()

    assert log(tmp_path) == ["soft 1", "soft 1"]


def test_a_build_that_fails_is_told_before_anything_starts(
    written: Write, deploy: Callable[[Path], candidates.Deployed], source: Path, tmp_path: Path
) -> None:
    path = written(PROGRAM, more=BUILD.replace("hello}", "hello, tags: [a, b]}"))
    say(source, '" + nothing + "')

    with pytest.raises(DeployError) as refused:
        deploy(path)

    told = str(refused.value)
    assert told.startswith(f"{path}: build.hello: `go build hello` exited with code 1; the last lines of ")
    assert "cmd/hello/word.go:5:19: undefined: nothing" in told
    assert told.endswith(f"    mend it in {source}, and try it there: go build -tags a,b -o /dev/null ./cmd/hello")
    assert not (tmp_path / "logs").exists()


def test_a_run_builds_before_it_makes_a_cluster(written: Write, source: Path, tmp_path: Path) -> None:
    path = written(PROGRAM, more=BUILD)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "suites",
        "--candidate",
        str(path),
        "--results",
        str(tmp_path / "results"),
    ]
    # Without any binary the cluster would be refused.
    command += ["--select", "WAKE-1", "--binaries", str(tmp_path)]

    def said() -> str:
        return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout

    built = said()
    say(source, '" + nothing + "')
    failed = said()

    assert f"{tmp_path} has no executable etcd" in built
    assert "undefined: nothing" in failed
    assert "has no executable" not in failed


@pytest.mark.usefixtures("source")
def test_each_minor_is_built_with_its_own_pins_and_tags(written: Write, source: Path) -> None:
    for minor in ("1.36", "1.37"):
        (source / f"k-{minor}.mod").write_text(f"// {minor}\nmodule example.com/hello\n\ngo 1.22\n")
        (source / f"word{minor}.go").write_text("package main\n")
    of_minor = 'modfile: "k-$(kubernetes.minor).mod", tags: ["v$(kubernetes.minor)"]}}\n'
    path = written(PROGRAM, ('["1.37"]', '["1.36", "1.37"]'), more=BUILD.replace("}}\n", f", {of_minor}"))
    found = candidates.load(path)

    older = candidates.build(found, "v1.36.3", Silent())["hello"]
    newer = candidates.build(found, "v1.37.2", Silent())["hello"]

    assert older.parent.parent != newer.parent.parent  # each with builds of its own that stay
    shown = subprocess.run(["go", "version", "-m", newer], capture_output=True, text=True, check=True).stdout
    assert "-tags=v1.37" in shown
    with pytest.raises(DescriptorError, match=r"made for 1\.36, 1\.37, not for 1\.35"):
        candidates.build(found, "1.35", Silent())


# What is replaced by what in the build; field, part of what is wrong, part of the remedy.
REFUSED = {
    "folder outside": (("folder: source", "folder: ../x"), "build.hello.folder", "lies outside", "move the file"),
    "folder without a module": (
        ("folder: source", "folder: source/cmd"), "build.hello.folder", "there is no file 'source/cmd/go.mod'",
        "correct the path",
    ),
    "pins of one minor": (
        ("hello}", 'hello, modfile: "k-$(kubernetes.minor).mod"}'), "build.hello.modfile",
        "there is no file 'k-1.36.mod'", "make it",
    ),
    "pins elsewhere": (
        ("hello}", "hello, modfile: ../x.mod}"), "build.hello.modfile", "has the wrong form", "beside go.mod",
    ),
    "package that is not there": (
        ("cmd/hello", "cmd/helo"), "build.hello.package", "there is no Go package './cmd/helo'", "correct the path",
    ),
    "package of another module": (
        ("./cmd/hello", "example.com/cmd"), "build.hello.package", "has the wrong form", "./cmd/scheduler",
    ),
    "placeholder": (
        ("hello}", "hello, tags: [$(kubernetes.version)]}"), "build.hello.tags[0]",
        "`$(kubernetes.version)` is not a placeholder", "did you mean `$(kubernetes.minor)`?",
    ),
    "unknown key": (("hello}", "hello, ldflags: -w}"), "build.hello.ldflags", "unknown key", "known here: folder,"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_build_that_cannot_be_is_refused(written: Write, source: Path, name: str) -> None:
    change, field, wrong, remedy = REFUSED[name]
    (source / "k-1.37.mod").write_text("module x\n")
    path = written(PROGRAM, ('["1.37"]', '["1.36", "1.37"]'), more=BUILD.replace(*change))

    with pytest.raises(DescriptorError) as refused:
        candidates.load(path)

    (problem,) = refused.value.problems
    assert (problem.file, problem.line, problem.field) == (path, 16, field)
    assert wrong in problem.wrong
    assert remedy in problem.remedy


@pytest.mark.usefixtures("source")
def test_a_minor_of_its_own_is_checked_with_its_own_pins(written: Write, source: Path) -> None:
    (source / "k-1.37.mod").write_text("module x\n")
    (source / "old.mod").write_text("module x\n")
    build = BUILD.replace("hello}", 'hello, modfile: "k-$(kubernetes.minor).mod"}')
    own = 'perVersion: {"1.36": {build: {hello: {modfile: old.mod}}}}\n'

    found = candidates.load(written(PROGRAM, ('["1.37"]', '["1.36", "1.37"]'), more=build + own))

    assert found.require_kubernetes("1.36").build["hello"].modfile == "old.mod"


@pytest.mark.parametrize(("build", "there"), [("", "there are no builds yet"), (BUILD, "it knows hello")])
@pytest.mark.usefixtures("source")
def test_a_build_that_is_not_described(written: Write, build: str, there: str) -> None:
    path = written(("program.py]", "program.py, $(built:helo)]"), more=build)

    with pytest.raises(DescriptorError) as refused:
        candidates.load(path)

    (problem,) = refused.value.problems
    assert (problem.line, problem.field) == (14, "deployment.processes[0].command[2]")
    assert problem.wrong == "`$(built:helo)` names no build"
    assert problem.remedy == f"add 'helo' to `build`; {there}"


@pytest.mark.usefixtures("source")
def test_no_image_is_built(written: Write) -> None:
    path = written(more=BUILD)
    text = path.read_text()
    path.write_text(text[: text.index("  processes")] + "  manifests: {files: [pod.yaml]}\n" + BUILD)
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: x, containers: [{name: c}]}}"
    (path.parent / "pod.yaml").write_text(pod)

    with pytest.raises(DescriptorError) as refused:
        candidates.load(path)

    (problem,) = refused.value.problems
    assert (problem.field, problem.wrong) == ("build", "no image is built of it")


def test_the_command_builds_ahead_for_the_newest_minor_or_those_asked_for(
    written: Write, source: Path, tmp_path: Path
) -> None:
    run = CliRunner().invoke
    path = str(
        written(
            PROGRAM, ('["1.37"]', '["1.9", "1.10"]'), more=BUILD.replace("}}", ', tags: ["v$(kubernetes.minor)"]}}')
        )
    )

    newest, again = run(command.app, ["build", path]), run(command.app, ["build", path, "--kubernetes", "1.10"])
    both = run(command.app, ["build", path, "--kubernetes", "1.9", "--kubernetes", "1.10"])

    assert newest.exit_code == again.exit_code == both.exit_code == 0
    assert newest.stdout == again.stdout
    assert Path(newest.stdout.strip()).is_relative_to(tmp_path / "cache")
    assert "building hello (./cmd/hello in " in newest.stderr
    assert len(both.stdout.split()) == 2
    other = run(command.app, ["build", path, "--kubernetes", "1.37"])
    assert other.exit_code == 1
    assert "error: " in other.output
    assert "not for 1.37" in other.output
    say(source, '" + nothing + "')
    building._built.clear()
    failed = run(command.app, ["build", path])
    assert failed.exit_code == 1
    assert "undefined: nothing" in failed.output
