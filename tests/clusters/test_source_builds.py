"""Programs from source: a real Go builds a tiny module, once for each state of its source."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clusters import cache, golang
from clusters.golang import Program
from clusters.progress import Silent
from clusters.provider import ProviderError

ROOT = Path(__file__).parents[2]
MAIN = """\
package main

import _ "embed"

//go:embed texts/*.txt
var text string

func main() { print(text, word) }
"""

# A `go` that notes each build in `builds` and does what the file `behaviour` beside it says before it builds.
GO = """\
    #!/bin/sh
    if [ "$1" = build ]; then
        echo "$@" >> {here}/builds
        . {here}/behaviour
    fi
    exec {go} "$@"
"""


class Recorder:
    """Keeps what was reported."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def step(self, text: str) -> None:
        self.steps.append(text)

    def tick(self, text: str) -> None:
        pass


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the first `go` on PATH, which is watched; the cache is empty."""
    toolchain = golang.find_toolchain((1, 22)) or golang.install_toolchain((1, 22), Silent())
    folder = tmp_path / "go"
    folder.mkdir()
    (folder / "go").write_text(textwrap.dedent(GO).format(here=folder, go=toolchain.go))
    (folder / "go").chmod(0o755)
    (folder / "behaviour").touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("UNRESERVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "TICK", 0.01)
    monkeypatch.setattr(golang, "_held", {})
    return folder


@pytest.fixture
def hello(tmp_path: Path) -> Program:
    """A program that prints a text it embeds and a word of its source."""
    folder = tmp_path / "module"
    (folder / "hello" / "texts").mkdir(parents=True)
    (folder / "go.mod").write_text("module example.com/hello\n\ngo 1.22\n")
    (folder / "hello" / "main.go").write_text(MAIN)
    (folder / "hello" / "texts" / "a.txt").write_text("hello ")
    say(folder, "world")
    return Program("hello", "./hello", folder, "", (1, 22))


def say(folder: Path, word: str) -> None:
    (folder / "hello" / "word.go").write_text(f'package main\n\nconst word = "{word}"\n')


def said(binary: Path) -> str:
    return subprocess.run([binary], capture_output=True, text=True, check=True).stderr


def builds(go: Path) -> int:
    return len((go / "builds").read_text().splitlines()) if (go / "builds").exists() else 0


def kept() -> list[Path]:
    """What is in the cache beside locks."""
    (series,) = (cache.folder() / "source").iterdir()
    return [path for path in series.iterdir() if path.suffix != ".lock"]


def wait_for(true: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def test_source_is_built_once_and_again_when_it_changes(go: Path, hello: Program) -> None:
    first, again = Recorder(), Recorder()

    binary = golang.ensure(hello, first)
    assert golang.ensure(hello, again) == binary
    assert said(binary) == "hello world"
    assert builds(go) == 1
    assert first.steps[0].startswith(f"building hello (./hello in {hello.folder}) with go1.")
    assert first.steps[1].startswith(f"built hello (./hello in {hello.folder}) in ")
    assert again.steps == []

    say(hello.folder, "moon")
    assert said(golang.ensure(hello, Silent())) == "hello moon"
    say(hello.folder, "world")
    assert golang.ensure(hello, Silent()) == binary
    assert builds(go) == 2


def test_all_that_goes_into_a_program_goes_into_its_key(go: Path, hello: Program) -> None:
    toolchain = golang.find_toolchain((1, 22))
    assert toolchain
    folder, keys = hello.folder, [golang.cached(hello, toolchain)]

    def changed(file: str, text: str) -> None:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
        keys.append(golang.cached(hello, toolchain))

    changed("hello/texts/a.txt", "good bye ")
    changed("other/other.go", "package other\n")
    changed("hello/add_amd64.s", "// assembly\n")
    changed("go.sum", "example.com/x v1.0.0 h1:x\n")
    changed("go.mod", "module example.com/hello\n\ngo 1.22\n\nreplace example.com/near => ../near\n")
    changed("../near/near.go", "package near\n")
    changed("new.mod", "module example.com/hello\n\ngo 1.22\n")
    different = [replace(hello, tags=("a",)), replace(hello, package="./other"), replace(hello, modfile="new.mod")]
    keys += [golang.cached(each, toolchain) for each in different]

    assert go == toolchain.go.parent
    assert len(keys) == 11
    assert len(set(keys)) == 10  # a file of pins that is not used makes no difference


def test_what_does_not_go_into_a_program_does_not_go_into_its_key(go: Path, hello: Program) -> None:
    toolchain = golang.find_toolchain((1, 22))
    assert toolchain
    before = golang.cached(hello, toolchain)

    for file in ("README.md", "hello/main_test.go", ".git/hook.go", "hello/.#main.go", "hello/texts/b.md",
                 "kubernetes-1.36.mod", "nested/go.mod", "nested/nested.go", "vendor/x/x.go"):  # fmt: skip
        (hello.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (hello.folder / file).write_text("package x\n")
    moved = hello.folder.rename(hello.folder.with_name("moved"))

    assert golang.cached(replace(hello, folder=moved), toolchain) == before
    assert go.is_dir()


@pytest.mark.parametrize(
    ("pattern", "embedded"),
    [
        ("all:static", "static/.hidden/a"), ("static", "static/deep/a"), ('"sta tic"/x `b`', "b"), ("[a-c]?", "bx"),
        ("a b", "b"), (r"a\*", "a*"),
    ],
)  # fmt: skip
def test_embedded_files_are_found_as_go_finds_them(pattern: str, embedded: str, tmp_path: Path) -> None:
    file = tmp_path / embedded
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    (tmp_path / "main.go").write_text(f"package main\n//go:embed {pattern}\nvar x string\n")

    assert file in set(golang._sources(tmp_path))


@pytest.mark.parametrize("pattern", ["../secret", "/etc/passwd", ".", '""', "x/../../secret"])
def test_patterns_that_go_refuses_lead_nowhere(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.go").write_text(f"package main\n//go:embed {pattern}\nvar x string\n")

    assert set(golang._sources(tmp_path / "m")) == {tmp_path / "m" / "main.go"}


def test_pins_tags_and_flags_reach_the_build(go: Path, hello: Program) -> None:
    (hello.folder / "kubernetes-1.37.mod").write_text("module example.com/hello\n\ngo 1.22\n")
    (hello.folder / "hello" / "word.go").write_text('//go:build loud\n\npackage main\n\nconst word = "WORLD"\n')

    binary = golang.ensure(replace(hello, modfile="kubernetes-1.37.mod", tags=("loud", "x")), Silent())

    assert said(binary) == "hello WORLD"
    command = (go / "builds").read_text()
    assert "build -v -modfile=kubernetes-1.37.mod -tags loud,x -ldflags -s -w -o " in command
    assert command.endswith(" ./hello\n")


def test_a_build_against_kubernetes_says_its_version(hello: Program) -> None:
    pins = "module x\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.36.3\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n"
    (hello.folder / "go.mod").write_text(pins)

    assert hello.kubernetes == "v1.36.3"
    assert str(hello) == f"hello (./hello in {hello.folder}, Kubernetes v1.36.3)"
    for fact in ("gitVersion=v1.36.3", "gitMajor=1", "gitMinor=36"):
        assert f"-X k8s.io/component-base/version.{fact}" in hello.ldflags
    assert golang.language(pins) == (1, 26, 0)


def test_a_failing_build_says_what_go_said_and_leaves_nothing_half_done(go: Path, hello: Program) -> None:
    say(hello.folder, 'world" + nothing + "')

    with pytest.raises(ProviderError, match=r"(?s)`go build hello` exited with code 1.*hello/word\.go:3:.*undefined"):
        golang.ensure(hello, Silent())
    assert [path.suffix for path in kept()] == [".log"]

    say(hello.folder, "world")
    assert said(golang.ensure(hello, Silent())) == "hello world"
    assert [path.is_dir() for path in kept()] == [True]  # the log of the failed one is gone
    assert builds(go) == 2


BUILDER = """
    import sys
    from pathlib import Path
    from clusters.golang import Program, ensure
    from clusters.progress import Silent

    ensure(Program("hello", "./hello", Path(sys.argv[1]), "", (1, 22)), Silent())
    print("built", flush=True)
    sys.stdin.read()
"""


def in_another_process(hello: Program) -> subprocess.Popen[str]:
    """Start a process that builds the program and holds it until its input ends."""
    command = [sys.executable, "-c", textwrap.dedent(BUILDER), str(hello.folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            cwd=ROOT, text=True)  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_build_leaves_no_compiler_and_is_begun_anew(
    number: signal.Signals, go: Path, hello: Program
) -> None:
    (go / "behaviour").write_text(f"sleep 100 & echo $! > {go}/compiler; wait")
    with in_another_process(hello) as runner:
        wait_for((go / "compiler").exists)
        runner.send_signal(number)
        runner.wait(20)
    compiler = Path("/proc") / (go / "compiler").read_text().strip() / "cmdline"
    wait_for(lambda: not compiler.exists() or compiler.read_bytes() == b"")
    wait_for(lambda: not any(path.is_dir() for path in kept()))

    (go / "behaviour").write_text("")
    assert said(golang.ensure(hello, Silent())) == "hello world"
    assert builds(go) == 2


def test_of_two_builds_at_once_one_waits_and_uses_the_result(go: Path, hello: Program) -> None:
    (go / "behaviour").write_text("sleep 0.5")
    recorders = [Recorder(), Recorder()]
    found: list[Path] = []
    threads = [threading.Thread(target=lambda r=r: found.append(golang.ensure(hello, r))) for r in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert builds(go) == 1
    assert found[0] == found[1]
    steps = recorders[0].steps + recorders[1].steps
    assert "waiting for the build of hello, which another process has begun" in steps


def test_source_that_changes_during_the_build_is_built_again(go: Path, hello: Program) -> None:
    word = hello.folder / "hello" / "word.go"
    (go / "behaviour").write_text(f"sed -i s/world/moon/ {word}")
    recorder = Recorder()

    assert said(golang.ensure(hello, recorder)) == "hello moon"

    assert "the source of hello was changed meanwhile" in recorder.steps
    assert [path.is_dir() for path in kept()] == [True]


def test_a_failure_counts_only_where_the_source_is_still_what_failed(go: Path, hello: Program) -> None:
    word = hello.folder / "hello" / "word.go"
    say(hello.folder, 'world" + nothing + "')
    (go / "behaviour").write_text(f"grep -q nothing {word} && {{ sed -i s/nothing/word2/ {word}; exit 1; }}")
    (hello.folder / "hello" / "word2.go").write_text('package main\n\nconst word2 = " and moon"\n')

    assert said(golang.ensure(hello, Silent())) == "hello world and moon"
    assert [path.is_dir() for path in kept()] == [True]


def test_source_that_never_rests_is_refused(go: Path, hello: Program) -> None:
    (go / "behaviour").write_text(f"echo // >> {hello.folder}/hello/word.go")

    with pytest.raises(ProviderError, match="changes faster than it can be built"):
        golang.ensure(hello, Silent())
    assert kept() == []


def test_the_last_used_builds_stay_and_those_in_use(go: Path, hello: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    words = iter(f"word {number}" for number in range(20))

    def build() -> Path:
        say(hello.folder, next(words))
        return golang.ensure(hello, Silent())

    with in_another_process(hello) as other:
        assert other.stdout
        assert other.stdout.readline() == "built\n"
        (theirs,) = [path / "hello" for path in kept()]
        mine = build()
        monkeypatch.setattr(golang, "_held", {})  # as if another process had built the next ones
        others = [build() for _ in range(golang.KEPT)]
        newest = others[-golang.KEPT :]
        for descriptor in golang._held.values():
            os.close(descriptor)
        golang._held.clear()
        os.utime(newest[0].parent)  # used again
        last = build()

        assert theirs.exists()
        assert mine.exists()  # the lock of what this process built first is still held
        assert last.exists()
        assert [path.exists() for path in newest] == [True, False, True, True]
        assert other.stdin
        other.stdin.close()

    for _ in range(golang.KEPT):
        build()
    assert not theirs.exists()
    assert builds(go) == 2 + golang.KEPT + 1 + golang.KEPT


def test_a_build_that_somebody_removed_is_made_again(go: Path, hello: Program) -> None:
    binary = golang.ensure(hello, Silent())
    binary.unlink()
    binary.parent.rmdir()

    assert said(golang.ensure(hello, Silent())) == "hello world"
    assert builds(go) == 2
