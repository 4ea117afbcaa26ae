"""The programs that a candidate is built from: Go source in the descriptor's folder."""

import shlex
from pathlib import Path

from candidates import placeholders
from candidates.deployed import DeployError
from candidates.descriptor import Descriptor
from candidates.sections.deployment import BuildSection
from clusters import golang
from clusters.golang import Program
from clusters.progress import Progress
from clusters.provider import ProviderError

# What this process has built. It stays what it is: source that is edited in mid-run counts from the next run on.
_built: dict[Program, Path] = {}


def build(descriptor: Descriptor, kubernetes: str, progress: Progress) -> dict[str, Path]:
    """Return the path of each program in `build` for a Kubernetes version, by name, building what is not in the cache.

    Raises:
        DescriptorError: the candidate is not made for this version.
        DeployError: there is no Go, or a build failed; the text has the last lines of its log.
    """
    minor = placeholders.minor(kubernetes)
    descriptor = descriptor.require_kubernetes(minor)
    return {name: _ensure(descriptor, name, minor, progress) for name in descriptor.build}


def unbuilt(descriptor: Descriptor, kubernetes: str) -> list[str]:
    """Return the names of the programs in `build` that the cache does not have for a Kubernetes version.

    Raises:
        DescriptorError: the candidate is not made for this version.
    """
    minor = placeholders.minor(kubernetes)
    descriptor = descriptor.require_kubernetes(minor)
    found = []
    for name in descriptor.build:
        program = _program(descriptor, name, minor)
        toolchain = golang.find_toolchain(program.go)
        if toolchain is None or not golang.cached(program, toolchain).exists():
            found.append(name)
    return found


def expanded(section: BuildSection, minor: str) -> BuildSection:
    """Return a section as it is for one minor, placeholders expanded."""

    def filled(template: str) -> str:
        return placeholders.expand(template, {"kubernetes.minor": minor}.__getitem__)

    return section.model_copy(
        update={
            "folder": filled(section.folder),
            "package": filled(section.package),
            "modfile": section.modfile and filled(section.modfile),
            "tags": tuple(map(filled, section.tags)),
        }
    )


def _program(descriptor: Descriptor, name: str, minor: str) -> Program:
    section = expanded(descriptor.build[name], minor)
    folder, modfile = (descriptor.folder / section.folder).resolve(), section.modfile or "go.mod"
    go = golang.language((folder / modfile).read_text(encoding="utf-8"))
    return Program(name, section.package, folder, "", go, modfile, section.tags)


def _ensure(descriptor: Descriptor, name: str, minor: str, progress: Progress) -> Path:
    program = _program(descriptor, name, minor)
    if program not in _built:
        try:
            _built[program] = golang.ensure(program, progress)
        except ProviderError as error:
            by_hand = shlex.join(["go", "build", *golang.options(program), "-o", "/dev/null", program.package])
            hint = f"mend it in {program.folder}, and try it there: {by_hand}"
            raise DeployError(f"{descriptor.path}: build.{name}: {error}\n    {hint}") from error
    return _built[program]
