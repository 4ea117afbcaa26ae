"""The binaries of the control plane: built once from pinned Go modules into a cache outside the checkout.

Each folder of `components` holds a go.mod and go.sum whose `tool` lines say what is built from it. A folder
`kubernetes-X.Y` is all it takes to support another minor.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clusters import golang
from clusters.golang import Program, numbers
from clusters.progress import Progress
from clusters.provider import ProviderError

COMPONENTS = Path(__file__).parent / "components"

# The tools of the modules that a cluster needs; kwokctl is built only to measure against it.
NEEDED = ("etcd", "kwok", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Oldest ready-made versions that will do; Kubernetes must be of the minor asked for.
OLDEST = {"etcd": (3, 5), "kwok": (0, 8)}

VERSION_TIMEOUT = 20.0


def minors() -> list[str]:
    """Return the Kubernetes minors that can be built, oldest first."""
    found = [folder.name.removeprefix("kubernetes-") for folder in COMPONENTS.glob("kubernetes-*")]
    return sorted(found, key=numbers)


NEWEST = minors()[-1]


def components(kubernetes: str) -> dict[str, Program]:
    """Return every program that belongs to a minor, kwokctl included.

    Raises:
        ProviderError: the minor is not supported.
    """
    if kubernetes not in minors():
        raise ProviderError(f"Kubernetes {kubernetes!r} is not supported; choose one of {', '.join(minors())}")
    found: dict[str, Program] = {}
    for folder in ("etcd", "kwok", f"kubernetes-{kubernetes}"):
        found |= {component.name: component for component in read_module(COMPONENTS / folder)}
    return found


def ensure(name: str, kubernetes: str, progress: Progress) -> Path:
    """Return one component of a minor, built where the cache has it not.

    Raises:
        ProviderError: it cannot be built.
    """
    return golang.ensure(components(kubernetes)[name], progress)


def read_module(folder: Path) -> Iterator[Program]:
    """Yield the components that the `tool` lines of a folder's go.mod name."""
    text = (folder / "go.mod").read_text(encoding="utf-8")
    single = re.findall(r"^tool ([^(\s]\S*)$", text, re.MULTILINE)
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    for package in [*single, *(block[1].split() if block else [])]:
        versions = golang.required(text)
        version = next(version for module, version in versions.items() if f"{package}/".startswith(f"{module}/"))
        name = "etcd" if package.startswith("go.etcd.io/etcd/server/") else package.rpartition("/")[2]
        yield Program(name, package, folder, version, golang.language(text))


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
    return {name: found.get(name) or golang.ensure(wanted[name], progress) for name in NEEDED}


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


@dataclass(frozen=True)
class Kept:
    """A component and its finished build, where the cache has one for the present toolchain."""

    component: Program
    path: Path | None


def inventory(kubernetes: str) -> list[Kept]:
    """List the components of a minor with their finished builds.

    Raises:
        ProviderError: the minor is not supported.
    """
    kept = []
    for component in components(kubernetes).values():
        toolchain = golang.find_toolchain(component.go)
        path = golang.cached(component, toolchain) if toolchain else None
        kept.append(Kept(component, path if path and path.exists() else None))
    return kept
