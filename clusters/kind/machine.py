"""What a kind cluster changes on the machine outside its own folder: containers, and the routes of its addresses.

Standard library only: when the runner died, the guard runs this file as a script to undo both.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO, Any

# What Services and Pods of every cluster of ours live on; the second and third also kind's own choice.
SERVICES = IPv4Network("10.96.0.0/16")
PODS = IPv4Network("10.244.0.0/16")
# Answers of the kernel that keep a packet here.
KEPT = ("unreachable", "blackhole", "prohibit")
# kind labels its containers so.
LABEL = "io.x-k8s.kind.cluster"
# Gone after a reboot, as routes are.
STATE = Path("/run/unreserve")

TIMEOUT = 120.0
# Seconds between two looks for containers, and how many in a row must find none: the engine may still be at a request
# of a client that is gone.
RESCAN = 0.5
CALM = 3


class MachineError(Exception):
    """The machine refuses or lacks something. The text says what and how to mend it."""


def run(program: str, *words: str, timeout: float = TIMEOUT) -> str:
    """Run a program and return what it prints.

    Raises:
        MachineError: it is not installed, fails, or takes longer than `timeout` seconds.
    """
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise MachineError(f"there is no program `{program}` on PATH")
    shown = " ".join((program, *words))
    try:
        done = subprocess.run(
            [path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
            timeout=timeout,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise MachineError(f"`{shown}` takes longer than {timeout:g} s") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise MachineError(f"`{shown}`: {said}")
    return done.stdout


def docker(*words: str, timeout: float = TIMEOUT) -> str:
    """Run docker and return what it prints.

    Raises:
        MachineError: as from `run`.
    """
    return run("docker", *words, timeout=timeout)


def containers(cluster: str = "") -> list[str]:
    """Return the ids of a kind cluster's containers, stopped ones included; of every kind cluster without a name.

    Raises:
        MachineError: docker does not answer.
    """
    label = f"{LABEL}={cluster}" if cluster else LABEL
    return docker("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}").split()


def remove(cluster: str) -> None:
    """Remove a cluster's containers with their volumes, and look again until none appears any more.

    Raises:
        MachineError: some cannot be removed.
    """
    deadline, calm, refused = time.monotonic() + TIMEOUT, 0, ""
    while calm < CALM:
        if found := containers(cluster):
            if time.monotonic() > deadline:
                raise MachineError(f"containers of cluster {cluster} cannot be removed: {refused}")
            try:
                docker("rm", "--force", "--volumes", *found)
            except MachineError as error:
                refused = str(error)  # `removal in progress` and the like: the next look tells
        calm = 0 if found else calm + 1
        if calm < CALM:
            time.sleep(RESCAN)


class Routes:
    """Unreachable routes for cluster addresses, so that none leaves the machine by its default route.

    Where kube-proxy does not (yet) translate a Service address, the packet would go out. Any number of runs may hold
    them at once; the last one takes away what was added, unless a cluster is left.
    """

    def __init__(self) -> None:
        self._use: IO[str] | None = None

    def hold(self) -> None:
        """Add what is missing.

        Raises:
            MachineError: they cannot stand here; no cluster may be created.
        """
        missing = [network for network in (SERVICES, PODS) if not standing(network)]
        try:
            with _mutex():
                self._use = (STATE / "routes.use").open("a")
                fcntl.flock(self._use, fcntl.LOCK_SH)
                # Looked at again: another run may have added or removed them meanwhile.
                for network in [each for each in (SERVICES, PODS) if not standing(each)]:
                    run("ip", "route", "add", "unreachable", str(network))
                    _write_added([*_added(), str(network)])
        except (OSError, MachineError) as error:
            if not missing and isinstance(error, PermissionError):
                return  # somebody else's care
            self.release()
            by_hand = "; ".join(f"ip route add unreachable {network}" for network in missing)
            raise MachineError(
                f"cluster addresses could leave this machine, and the routes against that cannot be added ({error}). "
                f"No cluster is created. As root: {by_hand}"
            ) from error

    def release(self) -> None:
        """Hold them no longer; the last one removes what was added. Idempotent."""
        if self._use is None:
            return
        with _mutex():
            self._use.close()
            self._use = None
            remove_unused_routes()


def standing(network: IPv4Network) -> bool:
    """Whether nothing for these addresses can leave the machine.

    Raises:
        MachineError: they are routed somewhere, so that a cluster cannot use them.
    """
    found = json.loads(run("ip", "-json", "-4", "route", "show") or "[]")
    routes = [(IPv4Network(each["dst"]), each) for each in found if each["dst"] != "default"]
    # The longest prefix decides, so what lies inside is asked before what lies around.
    around = max((each for each in routes if each[0].supernet_of(network)), key=_length, default=None)
    elsewhere = [each for each in routes if each[0].subnet_of(network) and each[1].get("type") not in KEPT]
    if around and around[1].get("type") not in KEPT:
        elsewhere.append(around)
    if elsewhere:
        where, route = elsewhere[0]
        target = " ".join(f"{key} {route[key]}" for key in ("gateway", "dev") if key in route)
        raise MachineError(
            f"this machine routes {where} to {target}, and kind clusters use {network}: no cluster can be created here "
            "while that route stands"
        )
    return around is not None


def _length(route: tuple[IPv4Network, Any]) -> int:
    return route[0].prefixlen


def remove_unused_routes() -> None:
    """Remove the routes that a run added, unless another run holds them or a kind cluster is left."""
    with contextlib.suppress(OSError, MachineError), (STATE / "routes.use").open("a") as use:
        fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if containers():
            return
        for network in _added():
            with contextlib.suppress(MachineError):  # gone already
                run("ip", "route", "del", "unreachable", network)
        _write_added([])


@contextlib.contextmanager
def _mutex() -> Iterator[None]:
    """Hold the lock over the routes and the list of what was added."""
    STATE.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (STATE / "routes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _added() -> list[str]:
    try:
        return (STATE / "routes.added").read_text().split()
    except FileNotFoundError:
        return []


def _write_added(networks: list[str]) -> None:
    (STATE / "routes.added").write_text("\n".join(networks))


def undo_command(cluster: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line, and its environment, that undoes everything about a cluster."""
    kept = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME") or key.startswith("DOCKER_")}
    return [sys.executable, "-I", "-S", __file__, cluster], kept


def main(cluster: str) -> None:
    """Undo everything about a cluster whose runner died."""
    remove(cluster)
    with _mutex():
        remove_unused_routes()


if __name__ == "__main__":
    main(*sys.argv[1:])
