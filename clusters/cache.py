"""The cache outside the checkout: what is made there is made by one process at a time, and whole or not at all."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.processes import Process, Supervisor, ending, tail
from clusters.progress import Progress
from clusters.provider import ProviderError

# Seconds between two looks at how far something is.
TICK = 0.5


def folder() -> Path:
    """Return the cache folder: $UNRESERVE_CACHE, $XDG_CACHE_HOME/unreserve or ~/.cache/unreserve."""
    if chosen := os.environ.get("UNRESERVE_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".cache") / "unreserve"


@contextmanager
def locked(target: Path, what: str, progress: Progress) -> Iterator[None]:
    """Hold the lock beside `target`: one process at a time, released by the kernel whatever happens."""
    for needed in (folder(), target.parent):
        needed.mkdir(mode=0o700, parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"waiting for {what}, which another process has begun")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
