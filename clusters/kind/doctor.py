"""What this machine has and lacks for kind clusters. Without them the embedded cluster still runs."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from clusters import golang
from clusters.kind import adapter, machine, node_image
from clusters.kind.machine import PODS, SERVICES, MachineError, docker
from clusters.local.doctor import GIB, Finding
from clusters.progress import Silent
from clusters.provider import ProviderError

STATUS = Path("/proc/self/status")
CAP_SYS_RESOURCE = 24
CGROUP2 = Path("/sys/fs/cgroup/cgroup.controllers")
# Node image 1 GB, what an assembly takes beside it, and what three nodes write.
DISK = 6 * GIB
START = "`.ci/docker` installs and starts it on a Debian machine (as root)"


def examine(kubernetes: str) -> Iterator[Finding]:
    """Look at everything a kind cluster of a minor needs. Changes nothing."""
    yield _extra()
    engine = _client() or _engine()
    yield engine
    if engine.state == "ok":
        yield _asked("kind privileges", _privileges)
        yield _asked("kind disk", _disk)
    yield _cgroups()
    yield _asked("kind routes", _routes)
    if engine.state == "ok":
        yield _asked("kind node image", lambda: _image(kubernetes))


def _extra() -> Finding:
    if adapter.installed():
        return Finding("kind extra", "ok", "pytest-kind is installed")
    return Finding("kind extra", "missing", f"pytest-kind is not installed; {adapter.REMEDY}")


def _client() -> Finding | None:
    if shutil.which("docker"):
        return None
    return Finding("Docker", "missing", f"there is no `docker` on PATH; {START}")


def _engine() -> Finding:
    try:
        version = docker("version", "--format", "{{.Server.Version}}").strip()
    except MachineError as error:
        remedy = "add yourself to the group docker" if "permission denied" in str(error) else START
        return Finding("Docker", "missing", f"the engine does not answer ({error}); {remedy}")
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        return Finding("Docker", "missing", f"DOCKER_HOST={host} is another machine; nodes mount folders of this one")
    return Finding("Docker", "ok", f"engine {version}")


def _privileges() -> Finding:
    what, found = "kind privileges", re.search(r"^CapBnd:\s*(\w+)", STATUS.read_text(encoding="ascii"), re.MULTILINE)
    if found and int(found[1], 16) >> CAP_SYS_RESOURCE & 1:
        return Finding(what, "ok", "processes may have CAP_SYS_RESOURCE")
    runtime = docker("info", "--format", "{{.DefaultRuntime}}").strip()
    if runtime != "runc":
        return Finding(what, "ok", f"no CAP_SYS_RESOURCE here; Docker's runtime {runtime!r} does not ask for it")
    return Finding(
        what, "missing", "no CAP_SYS_RESOURCE here, so no privileged container starts: stop dockerd and start it by "
        "`.ci/docker`, with a runtime that does not ask for it"
    )  # fmt: skip


def _disk() -> Finding:
    root = Path(docker("info", "--format", "{{.DockerRootDir}}").strip())
    existing = next(parent for parent in (root, *root.parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    text = f"{root}, {free / GIB:.0f} GiB free"
    if free >= DISK:
        return Finding("kind disk", "ok", text)
    return Finding(
        "kind disk", "missing", f"{text}; {DISK // GIB} GiB are needed: make room, or move Docker's data-root"
    )


def _cgroups() -> Finding:
    if CGROUP2.exists():
        return Finding("kind cgroups", "ok", "version 2")
    return Finding("kind cgroups", "ok", "version 1, which kind and containerd will stop supporting")


def _routes() -> Finding:
    what, ranges = "kind routes", f"{SERVICES} and {PODS}"
    by_hand = "; ".join(f"ip route add unreachable {network}" for network in (SERVICES, PODS))
    if all([machine.standing(network) for network in (SERVICES, PODS)]):  # noqa: C419 - both may be in use
        return Finding(what, "ok", f"{ranges} stay on this machine")
    if os.geteuid() == 0:
        return Finding(what, "later", f"{ranges} become unreachable from here while a cluster stands")
    return Finding(what, "missing", f"{ranges} could leave this machine. As root: {by_hand}")


def _image(kubernetes: str) -> Finding:
    what, command = "kind node image", f"make kind-image KUBERNETES={kubernetes}"
    oldest = max(component.go for component in node_image.components(kubernetes).values())
    if not golang.find_toolchain(oldest):
        return Finding(what, "later", f"cannot be told before Go is there; `{command}` makes one")
    image = node_image.choose(kubernetes, Silent())
    if node_image.present(image):
        return Finding(what, "ok", image)
    return Finding(what, "later", f"{image} is pulled on first use; where no registry is reachable: `{command}`")


def _asked(what: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except (ProviderError, MachineError) as error:
        return Finding(what, "missing", str(error))
