"""A candidate as processes of this machine."""

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from candidates import document, placeholders
from candidates.building import build
from candidates.deployed import POLL, Deployed, DeployError, apply, sha256, value_of, wait_until_served
from candidates.descriptor import Descriptor
from candidates.loopback import Loopback, Unreachable, is_free, listens
from candidates.patch import Json
from candidates.sections.deployment import ProcessSection, RenderedFile
from candidates.sections.observe import Endpoint
from clusters.identity import write_private
from clusters.kube import Kube
from clusters.processes import ExitedEarly, Process, Supervisor, free_port
from clusters.progress import Silent
from clusters.provider import Cluster, Identity

# Starts with new ports before giving up: each loses its port only to somebody who took it in between.
ATTEMPTS = 5
# Seconds that a process without a readiness probe must stay alive: time enough to refuse its arguments.
SETTLE = 0.5
# Seconds for a port to become free.
PORT_RELEASE = 5.0
# Seconds for SIGSTOP to reach every thread.
STOPS = 5.0
# Seconds for `--version`.
VERSION_TIMEOUT = 15.0

READER_ROLE: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "unreserve-configz-reader"},
    "rules": [{"nonResourceURLs": ["/configz"], "verbs": ["get"]}],
}
READER_ROLES = (
    {"kind": "ClusterRole", "name": "system:monitoring"},  # the API server makes it: get /metrics and health
    {"kind": "ClusterRole", "name": "unreserve-configz-reader"},
)


# Name and address of a dependency to the address that processes are told.
Through = Callable[[str, str], str]


def directly(name: str, address: str) -> str:  # noqa: ARG001 - a `Through`
    """Let nothing stand in front of any dependency."""
    return address


class PortTaken(Exception):
    """A process lost its port to somebody between the choice and the start."""


class HostDeployed(Deployed):
    """A candidate whose processes run on this machine.

    Attributes:
        identities: ServiceAccount of each process, by the process's name.
        processes: running program of each process, by name, in the order of their start.
        ports: number of each port, by name.
        absent: optional processes that did not come up, with the reason.
    """

    processes: dict[str, Process]
    _hint = "; is `auth: token` missing, or --authorization-kubeconfig?"

    def __init__(
        self, descriptor: Descriptor, cluster: Cluster, supervisor: Supervisor, workdir: Path, logs: Path,
        through: Through,
    ) -> None:  # fmt: skip
        super().__init__(descriptor, cluster)
        self._supervisor, self._through = supervisor, through
        self._workdir, self._logs = _private(workdir), logs
        self._sections = {section.name: section for section in descriptor.deployment.processes}
        self._built = build(descriptor, cluster.kubernetes, Silent())
        self._programs = {name: self._program(section) for name, section in self._sections.items()}
        self.digest = self._digest()
        self.identities: dict[str, Identity] = {}
        self.processes = {}
        self.ports: dict[str, int] = {}
        self.absent: dict[str, str] = {}
        self._reader: Identity | None = None
        self._web: dict[tuple[str, str], Loopback] = {}
        self._ended: list[tuple[str, int]] = []

    @property
    def usernames(self) -> tuple[str, ...]:
        """API usernames of its processes, in the order of their start."""
        return tuple(identity.username for identity in self.identities.values())

    @property
    def username(self) -> str:
        """API username of the process that binds Pods."""
        return self.identities[self.binder].username

    @functools.cached_property
    def reported_version(self) -> str | None:
        """First line that the binding process's program prints for `versionArgs`; None where it declares none."""
        section = self._sections[self.binder]
        if not section.version_args:
            return None
        command = [str(self._programs[section.name]), *self._expanded(section, section.command[1:])]
        try:
            printed = subprocess.run(
                [*command, *section.version_args], check=False, timeout=VERSION_TIMEOUT, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self._workdir, env=_environment(self._workdir),
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return next(iter(printed.stdout.decode(errors="replace").splitlines()), None)

    @property
    def notes(self) -> list[str]:
        """What did not come up and may be absent."""
        return [f"the optional process {name} did not come up: {reason}" for name, reason in self.absent.items()]

    def exits(self) -> list[tuple[str, int]]:
        """Return name and exit code (negative for a signal) of every process that ended without being stopped."""
        now = [(name, process.poll()) for name, process in list(self.processes.items())]
        return [*self._ended, *((name, code) for name, code in now if code is not None)]

    @property
    def probed(self) -> bool:
        """Whether the process that binds Pods has a readiness probe."""
        return self._sections[self.binder].readiness is not None

    def logs(self) -> dict[str, str]:
        """Return what each process has written so far, by its name."""
        files = {name: self._log(name) for name in self._sections}
        return {name: file.read_text(errors="replace") for name, file in files.items() if file.exists()}

    def answer_to(self, who: Identity | None, endpoint: Endpoint) -> int:
        """Return the HTTP status that an endpoint answers somebody else with, None for nobody: without a token.

        Raises:
            Unreachable: there was no usable answer.
        """
        return self._ask(endpoint, _token(who) if who else None)[0]

    def start(self) -> None:
        """Start every process that does not run, in order, and wait until each is ready.

        Raises:
            DeployError: a required process did not come up; all others are stopped.
        """
        missing = [section for name, section in self._sections.items() if name not in self.processes]
        self.absent = {}
        self.starts += bool(missing)
        for _ in range(ATTEMPTS):
            try:
                if not self.ports:
                    self._choose_ports()
                    self._set_up()
                for section in missing:
                    self._start(section)
            except PortTaken as taken:
                self._end()
                self.ports, lost, missing = {}, taken, list(self._sections.values())
            except BaseException:
                self._end()
                raise
            else:
                return
        raise DeployError(f"{ATTEMPTS} starts lost their port to other programs: {lost}")

    def stop(self) -> dict[str, int]:
        """Stop every process, the last one first, and see its ports freed. Idempotent.

        Returns:
            The exit code of each process; -9 where it had to be killed.

        Raises:
            DeployError: a port is still taken.
        """
        self._ended = self.exits()
        codes = self._end()
        deadline = time.monotonic() + PORT_RELEASE
        for name in codes:
            for port in self._sections[name].ports:
                while not is_free(self.ports[port]):
                    if time.monotonic() > deadline:
                        raise DeployError(f"{name} has ended, but its port {self.ports[port]} ({port}) is still taken")
                    time.sleep(POLL)
        return codes

    def signal(self, process: str, number: int) -> None:
        """Send a signal to a process, and see SIGKILL and SIGSTOP take effect; `start` starts again what was killed."""
        running = self.processes[process]
        running.signal(number)
        if number == signal.SIGSTOP:
            stopped = psutil.STATUS_STOPPED
            running.wait_until(lambda: psutil.Process(running.pid).status() == stopped, STOPS, "stopped")
        if number == signal.SIGKILL:
            running.stop(0)
            del self.processes[process]
            self._web = {}

    @property
    def binder(self) -> str:
        """Name of the process that binds Pods."""
        return self.descriptor.deployment.binding.name

    def _end(self) -> dict[str, int]:
        running, self.processes, self._web = self.processes, {}, {}
        return {name: _stopped(process, self._sections[name]) for name, process in reversed(running.items())}

    def _choose_ports(self) -> None:
        for section in self._sections.values():
            for name, fixed in section.ports.items():
                if fixed and not is_free(fixed):
                    raise DeployError(
                        f"{section.name}: port {fixed} ({name}) is taken; stop what listens there, "
                        f"or give the program another one ({self.descriptor.path})"
                    )
                self.ports[name] = fixed or free_port()

    def _set_up(self) -> None:
        """Apply the setup and make the identities."""
        if objects := list(self._objects()):
            with contextlib.closing(Kube(self._cluster.kubeconfig)) as kube:
                wait_until_served(kube, [(apply(kube, manifest, where), where) for manifest, where in objects])
        if self._authorised:
            self._reader = self._cluster.identity("metrics-reader", roles=READER_ROLES)
        for name, section in self._sections.items():
            roles = [role.model_dump(exclude_none=True) for role in section.roles]
            self.identities[name] = self._cluster.identity(f"{self.descriptor.identity.name}-{name}", roles=roles)

    @property
    def _authorised(self) -> bool:
        observe = self.descriptor.observe
        return any(each and each.auth == "token" for each in (observe.metrics, observe.config, *observe.health))

    def _objects(self) -> Iterator[tuple[Json, str]]:
        """Yield every object to apply, and where it is written."""
        if self._authorised:
            yield READER_ROLE, "for reading /configz"
        yield from self._setup()

    def _start(self, section: ProcessSection) -> None:
        try:
            folder = _private(self._workdir / section.name)
            for name, file in section.files.items():
                text = placeholders.expand(self._template(file), self._lookup(section))
                write_private(folder / name, text.encode())
            argv = [str(self._programs[section.name]), *self._expanded(section, (*section.command[1:], *section.args))]
            env = dict(zip(section.env, self._expanded(section, tuple(section.env.values())), strict=True))
            cwd = Path(self._expanded(section, (section.working_dir,))[0])
            log = self._log(section.name)
            written = log.stat().st_size if log.exists() else 0
            process = self._supervisor.start(section.name, argv, env=_environment(folder) | env, cwd=cwd, log=log)
        except (OSError, placeholders.UnknownPlaceholder) as error:
            raise DeployError(f"{section.name} cannot be started: {error} ({self.descriptor.path})") from error
        self.processes[section.name] = process
        try:
            self._wait_until_ready(section, process)
        except (ExitedEarly, TimeoutError) as error:
            if _lost_port(log, written) and None in section.ports.values():
                raise PortTaken(section.name) from error
            if section.required:
                raise DeployError(f"{error}\n    described in {self.descriptor.path}") from error
            self.absent[section.name] = str(error)
            _stopped(self.processes.pop(section.name), section)

    def _wait_until_ready(self, section: ProcessSection, process: Process) -> None:
        if probe := section.readiness:
            at, web = self.ports[probe.port], Loopback(probe.scheme, self.ports[probe.port])

            def ready() -> bool:
                try:
                    answers = probe.scheme == "tcp" or web.get(probe.path)[0] == 200  # noqa: PLR2004
                except Unreachable:
                    return False
                return answers and listens(process.pid, at)

            process.wait_until(ready, probe.timeout, f"ready ({probe.scheme} {probe.path} on port {at})")
        settled = time.monotonic() + max(section.warm_up, 0.0 if probe else SETTLE)
        process.wait_until(lambda: time.monotonic() >= settled, float("inf"))

    def _get(self, endpoint: Endpoint) -> tuple[int, bytes]:
        return self._ask(endpoint, _token(self._reader) if endpoint.auth == "token" else None)

    def _ask(self, endpoint: Endpoint, token: str | None) -> tuple[int, bytes]:
        port = str(endpoint.port)  # the name of one, as reading.py has seen to
        key = endpoint.scheme, port
        if key not in self._web:
            owner = next(name for name, section in self._sections.items() if port in section.ports)
            if owner not in self.processes or not listens(self.processes[owner].pid, self.ports[port]):
                raise Unreachable(f"{owner} does not listen on its port {port}")
            self._web[key] = Loopback(endpoint.scheme, self.ports[port])
        return self._web[key].get(endpoint.path, token)

    def _log(self, process: str) -> Path:
        return self._logs / f"{process}.log"

    def _program(self, section: ProcessSection) -> Path:
        """Find a process's program: a component, a build, a path (from the descriptor's folder), or a name on PATH."""
        written = self._expanded(section, section.command[:1])[0]
        found = str(self.descriptor.folder / written) if "/" in written else shutil.which(written)
        if not found or not os.access(found, os.X_OK) or not Path(found).is_file():
            what = f"{found} is no program" if found else f"there is no program {written!r} on PATH"
            raise DeployError(f"{section.name}: {what}; build it, or correct `command` in {self.descriptor.path}")
        return Path(found)

    def _expanded(self, section: ProcessSection, templates: tuple[str, ...]) -> list[str]:
        return [placeholders.expand(each, self._lookup(section)) for each in templates]

    def _lookup(self, section: ProcessSection) -> placeholders.Lookup:
        """Return what placeholders stand for inside a process."""
        process = section.name
        gates = self.descriptor.control_plane.feature_gates
        inside: dict[str, Callable[[str], str]] = {
            "kubeconfig": lambda _: str(self.identities[process].kubeconfig),
            "server": lambda _: str(_kubeconfig(self.identities[process])["clusters"][0]["cluster"]["server"]),
            "feature-gates": lambda _: ",".join(f"{gate}={json.dumps(on)}" for gate, on in gates.items()),
            "workdir": lambda _: str(self._workdir / process),
            "folder": lambda _: str(self.descriptor.folder),
            "file": lambda name: str(self._workdir / process / name),
            "component": lambda name: str(self._cluster.binary(name)),
            "built": lambda name: str(self._built[name]),
            "dependency": self._dependency,
        }
        return value_of(self._known() | inside)

    def _dependency(self, name: str) -> str:
        address = self.descriptor.policies.dependencies[name].address
        return self._through(name, placeholders.expand(str(address), value_of(self._known())))

    def _known(self) -> dict[str, Callable[[str], str]]:
        return super()._known() | {"port": lambda name: str(self.ports[name])}

    def _template(self, file: RenderedFile) -> str:
        return (
            file.content if file.content is not None else document.read_text(self.descriptor.folder / str(file.source))
        )

    def _digest(self) -> str:
        """Digest programs and configuration as written: ports, paths and tokens are placeholders there."""
        described = []
        for section in self._sections.values():
            files = {name: self._template(file) for name, file in section.files.items()}
            texts = [*section.command, *section.args, *section.env.values(), *files.values()]
            described.append({
                "name": section.name,
                "command": section.command,
                "args": section.args,
                "env": section.env,
                "files": files,
                "programs": [sha256(path) for path in self._files_behind(section, texts)],
            })  # fmt: skip
        return self._digest_with(processes=described)

    def _files_behind(self, section: ProcessSection, texts: list[str]) -> Iterator[Path]:
        """Yield the program and every further program or file that the configuration hands to it."""
        yield self._programs[section.name]
        for text in texts[1:]:
            for name in placeholders.names(text):
                if name and name.startswith("component:"):
                    yield self._cluster.binary(name.removeprefix("component:"))
                if name and name.startswith("built:"):
                    yield self._built[name.removeprefix("built:")]
            own = self.descriptor.folder / text.removeprefix("$(folder)/")
            if text.startswith("$(folder)/") and own.is_file():
                yield own


def _stopped(process: Process, section: ProcessSection) -> int:
    """Stop one process as its descriptor says."""
    if section.stop.signal == "SIGTERM":
        return process.stop(section.stop.grace)
    process.signal(signal.Signals[section.stop.signal])
    with contextlib.suppress(TimeoutError):
        process.wait(section.stop.grace)
    return process.stop(0)


def _environment(home: Path) -> dict[str, str]:
    """Return what a process gets unasked: nothing of the runner's but PATH."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)}


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def _lost_port(log: Path, since: int) -> bool:
    """Whether the log, from a byte on, says so, in the spelling of Go or of Python."""
    with log.open("rb") as file:
        file.seek(since)
        return b"address already in use" in file.read().lower()


def _kubeconfig(identity: Identity) -> Json:
    parsed: Json = json.loads(identity.kubeconfig.read_text(encoding="utf-8"))  # as we write it
    return parsed


def _token(identity: Identity | None) -> str:
    assert identity  # made before any endpoint that wants it
    return str(_kubeconfig(identity)["users"][0]["user"]["token"])
