"""The node image: which one, and under which name the one made here is known."""

import hashlib
import os
import time
from pathlib import Path

from clusters import cache, golang
from clusters.golang import Program
from clusters.kind import assembly
from clusters.kind.machine import MachineError, docker
from clusters.local import build
from clusters.progress import Progress
from clusters.provider import ProviderError

HERE = Path(__file__).parent
COMPONENTS = HERE / "components"

# What kind's own source names as its default (pkg/apis/config/defaults of sigs.k8s.io/kind at the version pinned in
# components/kind). kind publishes others for other minors; give those by name.
OFFICIAL = {
    "1.37": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
}
OWN = "unreserve/node"


def components(kubernetes: str) -> dict[str, Program]:
    """Return every program of a minor, those for nodes and kind itself included.

    Raises:
        ProviderError: the minor is not supported.
    """
    found = build.components(kubernetes)
    for folder in sorted(COMPONENTS.iterdir()):
        found |= {component.name: component for component in build.read_module(folder)}
    return found


def own(kubernetes: str, progress: Progress) -> str:
    """Return the name of the image made here: its tag holds a digest over everything that goes in.

    Debian packages count by name; which versions of them were installed stands in /kind/packages of the image.

    Raises:
        ProviderError: there is no Go toolchain to tell it with, or the minor lacks a program.
    """
    known = components(kubernetes)
    if absent := [name for name in assembly.NEEDED if name not in known]:
        raise ProviderError(f"clusters/local/components/kubernetes-{kubernetes} does not list {', '.join(absent)}")
    digest = hashlib.sha256()
    for component in (known[name] for name in assembly.NEEDED):
        toolchain = golang.find_toolchain(component.go) or golang.install_toolchain(component.go, progress)
        digest.update(f"{golang.cached(component, toolchain).parent.name}\n".encode())
    for file in (Path(assembly.__file__), *sorted(path for path in assembly.FILES.rglob("*") if path.is_file())):
        digest.update(f"{file.relative_to(HERE)} {file.stat().st_mode & 0o777:o}\n".encode() + file.read_bytes())
    return f"{OWN}:{known['kubelet'].version}-{digest.hexdigest()[:12]}"


def present(image: str) -> bool:
    """Whether the Docker engine has an image.

    Raises:
        MachineError: it does not answer.
    """
    try:
        docker("image", "inspect", "--format", "{{.Id}}", image)
    except MachineError as error:
        if "No such image" in str(error):
            return False
        raise
    return True


def choose(kubernetes: str, progress: Progress) -> str:
    """Return the image to use unless the user names one: our own where one was made, else the official one.

    Raises:
        ProviderError: there is neither.
        MachineError: the Docker engine does not answer.
    """
    image = own(kubernetes, progress)
    if present(image):
        return image
    remedy = f"`make kind-image KUBERNETES={kubernetes}` makes one"
    if older := docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", f"{OWN}:v{kubernetes}.*").split():
        raise ProviderError(f"the node image {older[0]} is made of other parts than this checkout has now; {remedy}")
    if kubernetes in OFFICIAL:
        return OFFICIAL[kubernetes]
    raise ProviderError(
        f"there is no node image for Kubernetes {kubernetes}: {remedy}, or, where a registry is reachable, name an "
        f"official one: --node-image kindest/node:v{kubernetes}.x@sha256:..."
    )


def make(kubernetes: str, progress: Progress, *, mirror: str = "") -> str:
    """Make our own image, unless it is there already, and return its name.

    `mirror` is the Debian archive to take packages from; without it, the one that apt uses here.

    Raises:
        ProviderError: something is missing, or a step failed.
        MachineError: Docker or another program refuses.
    """
    image = own(kubernetes, progress)
    if present(image):
        return image
    if os.geteuid() != 0:
        raise ProviderError("a node image can only be made as root: debootstrap unpacks a whole Debian")
    known, started = components(kubernetes), time.monotonic()
    programs = {name: golang.ensure(known[name], progress) for name in assembly.NEEDED}
    versions = {name: known[name].version for name in assembly.NEEDED}
    with cache.locked(cache.folder() / "node" / image.replace("/", "-"), f"the node image {image}", progress):
        if not present(image):
            assembly.assemble(image, programs, versions, mirror, progress)
    progress.step(f"made {image} in {time.monotonic() - started:.0f} s")
    return image
