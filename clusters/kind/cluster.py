"""A kind cluster of our own: made, awaited until all of it is Ready, furnished, and removed again."""

import base64
import contextlib
import http.client
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from clusters import cache, equipment, golang, identity, reaper
from clusters.kind import adapter, config, machine, node_image
from clusters.kind.config import LOOPBACK, NODES
from clusters.kind.machine import MachineError, docker
from clusters.kube import ApiError, ApiUnreachable, Json, Kube
from clusters.local import build
from clusters.processes import ExitedEarly, Process, Supervisor, address_in_use, ending, free_port, tail
from clusters.progress import Progress, Silent
from clusters.provider import Capability, ControlPlane, Identity, ProviderError

# Seconds until every node and system Pod is Ready after kind has returned. Measured: 4 to 12, more on a busy machine.
READY_TIMEOUT = 300.0
KWOK_TIMEOUT = 60.0
PROBE_TIMEOUT = 2.0
# Seconds for what kind does to a cluster that stands.
KIND_TIMEOUT = 600.0
# Seconds between two looks at anything.
LOOK = 0.25
# Times that a port is chosen anew when somebody else took it.
ATTEMPTS = 3

SYSTEM = "kube-system"
# etcd, API server, controller manager and scheduler are Pods of the kubelet.
STATIC_PODS = 4
CONTROL_PLANE_LABEL = "node-role.kubernetes.io/control-plane"
FAKE = "kwok.x-k8s.io/node"
KWOK_ROLE = {"kind": "ClusterRole", "name": "unreserve:kwok"}

# Stands for kind: marks it as this run's for the guard, and keeps what it says in a log.
WRAPPER = """#!/bin/sh
export {mark}
[ "$1" = get ] && exec {kind} "$@" 2>>{log}
exec {kind} "$@" >>{log} 2>&1
"""


class KindCluster:
    """A kind cluster of our own; an `OwnedCluster`. Made by `create`.

    Attributes:
        name: kind's name of it.
        image: node image it runs.
    """

    provider = "kind"
    capabilities = frozenset(
        {
            Capability.FAKE_NODES,
            Capability.REAL_KUBELET,
            Capability.AUDIT_LOG,
            Capability.IMAGE_LOAD,
            Capability.IN_CLUSTER_DEPLOY,
        }
    )
    kubernetes: str
    kubeconfig: Path
    audit_log: Path | None

    def __init__(
        self, name: str, minor: str, logs: Path, wanted: ControlPlane, binaries: Path | None, progress: Progress, *,
        image: str | None, keep: bool,
    ) -> None:  # fmt: skip
        self.name, self._minor, self._logs, self._wanted = name, minor, logs.absolute(), wanted
        self._binaries, self._progress, self._keep = binaries, progress, keep
        self._routes = machine.Routes()
        self._stands = self._ended = False
        self._kwok: Process | None = None
        # All that can be wrong before anything was changed.
        adapter.require()
        equipment.check(wanted)
        docker("version")
        if machine.containers(name):
            raise ProviderError(f"a kind cluster {name} is there already; it is not ours and stays as it is")
        self.image = image or node_image.choose(minor, progress)
        self._programs = {program: self.binary(program) for program in ("kind", "kubectl", "kwok")}
        self._supervisor = Supervisor(Path(tempfile.mkdtemp(prefix=f"{name}-")))

    def identity(self, name: str, *, roles: Sequence[Json] = ()) -> Identity:
        """Make (or renew) a ServiceAccount in SYSTEM_NAMESPACE and bind it to `roles`, see `Cluster.identity`."""
        return identity.make_identity(
            self._kube, name, roles, server=self._server, authority=self._authority, folder=self._supervisor.state
        )

    def binary(self, component: str) -> Path:
        """Path of a component of this cluster's minor that runs on the host, built on the first use.

        Raises:
            ProviderError: there is no such component, or its build failed.
        """
        if self._binaries and (self._binaries / component).is_file():
            return (self._binaries / component).absolute()
        known = node_image.components(self._minor)
        if component not in known:
            raise ProviderError(f"the kind provider has no component {component!r}; it has {', '.join(sorted(known))}")
        return golang.ensure(known[component], self._progress)

    def workers(self) -> list[str]:
        """Return the names of the real nodes that run workloads."""
        real = [node["metadata"] for node in self._real_nodes()]
        return sorted(metadata["name"] for metadata in real if CONTROL_PLANE_LABEL not in metadata["labels"])

    def extend(self, node: str, amounts: dict[str, int]) -> None:
        """Give a real node extended resources such as {"nvidia.com/gpu": 8}, as a device plugin would.

        Its kubelet keeps the numbers and refuses Pods beyond them; no device is mounted.

        Raises:
            ApiError: the API server refuses.
        """
        quantities = {name: str(amount) for name, amount in amounts.items()}
        status = {"capacity": quantities, "allocatable": quantities}
        self._kube.patch("nodes", node, {"status": status}, subresource="status")

    def image_load(self, image: str | Path) -> None:
        """Load an image into every node: the name of one that the Docker engine has, or a tar as of `docker save`.

        Raises:
            ProviderError: there is no such image, or a node refuses it.
        """
        with self._explained(f"{image} cannot be loaded"):
            if isinstance(image, Path):
                self._run_kind("load", "image-archive", str(image), f"--name={self.name}")
            else:
                self._pytest_kind.load_docker_image(image)

    def problems(self) -> list[str]:
        """Name each container, real node and process that is not what it should be."""
        found = []
        if self._kwok and self._kwok.poll() is not None:
            last = "".join(tail(self._kwok.log, 1)) or "its log is empty"
            found.append(f"kwok {ending(self._kwok.poll())}: {last}")
        try:
            running = docker("ps", "--quiet", "--filter", f"label={machine.LABEL}={self.name}").split()
            if len(running) != NODES:
                found.append(f"{len(running)} of {NODES} node containers run")
            found += [
                f"node {node['metadata']['name']} is not Ready" for node in self._real_nodes() if not _ready(node)
            ]
        except (MachineError, ApiError, ApiUnreachable) as error:
            found.append(str(error))
        return found

    def destroy(self) -> None:
        """Export the logs, then remove everything unless the cluster is to be kept. Idempotent."""
        if self._ended:
            return
        self._ended = True
        try:
            if self._stands:
                with contextlib.suppress(ProviderError), self._explained("logs"):  # of a broken cluster: what there is
                    self._run_kind("export", "logs", str(self._logs / "kind"), f"--name={self.name}")
            if self._keep:
                self._say_kept()
            else:
                self._remove()
        finally:
            with contextlib.suppress(OSError):
                self._routes.release()
            self._supervisor.stop_all(grace=0)

    def _remove(self) -> None:
        # kind may still be at it: Ctrl-C ends its caller, and not always kind itself.
        reaper.kill_carriers(self._supervisor.mark[reaper.VARIABLE])
        if self._stands:
            self._kube.close()
            with contextlib.suppress(subprocess.SubprocessError):
                self._pytest_kind.delete()
        with self._explained(f"cluster {self.name} cannot be removed"):
            machine.remove(self.name)

    def _say_kept(self) -> None:
        # Not into the results: they are made to be handed on.
        kept = cache.folder() / "kept" / f"{self.name}.kubeconfig"
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        identity.write_private(kept, self.kubeconfig.read_bytes())
        self._progress.step(
            f"cluster {self.name} was kept, without kwok: kubectl --kubeconfig {kept} get nodes\n"
            f"  to remove it: docker rm -f -v $(docker ps -aq --filter label={machine.LABEL}={self.name})"
        )

    # Making it

    def _start(self) -> None:
        started = time.monotonic()
        self.kubeconfig = self._supervisor.state / "runner.kubeconfig"
        self._supervisor.at_death(*machine.undo_command(self.name))
        self._routes.hold()
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.audit_log = self._logs / config.AUDIT_LOG
        # Made by us: what the API server makes in its container is root's alone.
        self.audit_log.touch(0o600)
        self._progress.step(f"creating kind cluster {self.name}, {NODES} nodes of {self.image}")
        self._create(started)
        self._stands = True
        self._kube = Kube(self.kubeconfig)
        self._await(self._unready, started)
        equipment.set_up(self._kube)
        if not self._wanted.default_scheduler:
            self._remove_scheduler(started)
        self._start_kwok()
        self.kubernetes = self._kube.request("GET", "/version").json()["gitVersion"]
        self._progress.step(f"kind cluster {self.name} is ready after {time.monotonic() - started:.0f} s")

    def _create(self, started: float) -> None:
        wrapper, settings = self._supervisor.state / "kind", self._supervisor.state / "kind.yaml"
        words = {"kind": shlex.quote(str(self._programs["kind"])), "log": shlex.quote(str(self._kind_log))}
        mark = " ".join(f"{key}={value}" for key, value in self._supervisor.mark.items())
        wrapper.write_text(WRAPPER.format(mark=mark, **words), encoding="utf-8")
        wrapper.chmod(0o700)
        self._pytest_kind: Any = adapter.kind_cluster(
            self.name, kubeconfig=self.kubeconfig, image=self.image, kind=wrapper, kubectl=self._programs["kubectl"],
            folder=self._supervisor.state,
        )  # fmt: skip
        for attempt in range(1, ATTEMPTS + 1):
            wanted = config.render(self._minor, self._wanted, port=free_port(LOOPBACK), logs=self._logs)
            settings.write_text(yaml.safe_dump(wanted, sort_keys=False), encoding="utf-8")
            try:
                with self._shown(started):
                    self._pytest_kind.create(config_file=settings)
            except subprocess.CalledProcessError:
                said = "\n".join(tail(self._kind_log, 60))
                lost = "address already in use" in said or "port is already allocated" in said
                if attempt == ATTEMPTS or not lost:
                    raise
                machine.remove(self.name)
            else:
                break
        cluster = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        self._server, self._authority = cluster["server"], base64.b64decode(cluster["certificate-authority-data"])

    def _unready(self) -> list[str]:
        """Return what of the nodes and of kube-system is not Ready yet."""
        nodes, pods = self._real_nodes(), self._kube.list("pods", SYSTEM).items
        lacking = [f"node {node['metadata']['name']}" for node in nodes if not _ready(node)]
        lacking += [f"Pod {pod['metadata']['name']}" for pod in pods if not _ready(pod)]
        if len(nodes) < NODES:
            lacking.append(f"{NODES - len(nodes)} nodes")
        static = [pod for pod in pods if pod["metadata"].get("ownerReferences", [{}])[0].get("kind") == "Node"]
        if len(static) < STATIC_PODS:
            lacking.append(f"{STATIC_PODS - len(static)} Pods of the control plane")
        for each in self._kube.list("apps/v1/daemonsets", SYSTEM).items:
            if each["status"].get("numberReady", 0) < NODES:
                lacking.append(f"DaemonSet {each['metadata']['name']}")
        for each in self._kube.list("apps/v1/deployments", SYSTEM).items:
            if each["status"].get("readyReplicas", 0) < each["spec"]["replicas"]:
                lacking.append(f"Deployment {each['metadata']['name']}")
        return lacking

    def _remove_scheduler(self, started: float) -> None:
        """Take the cluster's own scheduler away: its kubelet stops it when the manifest is gone."""
        manifest = "/etc/kubernetes/manifests/kube-scheduler.yaml"
        docker("exec", f"{self.name}-control-plane", "mv", manifest, "/etc/kubernetes/")

        def left() -> list[str]:
            pods = self._kube.list("pods", SYSTEM, labels="component=kube-scheduler").items
            return [f"Pod {pod['metadata']['name']} to be gone" for pod in pods]

        self._await(left, started)

    def _start_kwok(self) -> None:
        kubeconfig = self.identity("kwok", roles=[KWOK_ROLE]).kubeconfig
        for attempt in range(1, ATTEMPTS + 1):
            port = free_port(LOOPBACK)
            flags = equipment.kwok_flags(kubeconfig, f"{LOOPBACK}:{port}")
            environment = {"HOME": str(self._supervisor.state), "PATH": ""}
            self._kwok = self._supervisor.start(
                "kwok", [self._programs["kwok"], *flags], env=environment, log=self._logs / "kwok.log"
            )
            try:
                self._kwok.wait_until(lambda port=port: _answers(port), KWOK_TIMEOUT)  # type: ignore[misc]
            except ExitedEarly:
                if attempt == ATTEMPTS or not address_in_use(self._kwok):
                    raise
            else:
                return

    def _await(self, lacking: Callable[[], list[str]], started: float) -> None:
        """Look until nothing is lacking.

        Raises:
            ProviderError: something still is after READY_TIMEOUT seconds.
        """
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            try:
                still = lacking()
            except (ApiError, ApiUnreachable) as error:
                still = [str(error)]
            if not still:
                return
            if time.monotonic() > deadline:
                raise ProviderError(f"after {READY_TIMEOUT:.0f} s cluster {self.name} still lacks {', '.join(still)}")
            self._progress.tick(f"{time.monotonic() - started:.0f} s, waiting for {still[0]} and {len(still) - 1} more")
            time.sleep(LOOK)

    @contextlib.contextmanager
    def _shown(self, started: float) -> Iterator[None]:
        """Report kind's last line meanwhile: its caller is deaf until it ends."""
        over = threading.Event()

        def report() -> None:
            while not over.wait(LOOK):
                self._progress.tick(f"{time.monotonic() - started:.0f} s, kind: {''.join(tail(self._kind_log, 1))}")

        thread = threading.Thread(target=report, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _real_nodes(self) -> list[Json]:
        nodes = self._kube.list("nodes").items
        return [node for node in nodes if (node["metadata"].get("annotations") or {}).get(FAKE) != "fake"]

    @property
    def _kind_log(self) -> Path:
        return self._logs / "kind.log"

    def _run_kind(self, *words: str) -> None:
        subprocess.run(
            [self._supervisor.state / "kind", *words], check=True, timeout=KIND_TIMEOUT, stdin=subprocess.DEVNULL
        )

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn what the machine, Docker, kind or kwok says into a ProviderError."""
        try:
            yield
        except subprocess.SubprocessError as error:
            last = "".join(f"\n    {line}" for line in tail(self._kind_log))
            remedy = "\n  `make kind-image` makes a node image without a registry" if "pull image" in last else ""
            raise ProviderError(f"{what}; the last lines of {self._kind_log}:{last}{remedy}") from error
        except (MachineError, ApiError, ApiUnreachable, ExitedEarly, TimeoutError) as error:
            raise ProviderError(f"{what}: {error}") from error


def create(
    run_id: str,
    *,
    kubernetes: str = build.NEWEST,
    results: Path,
    control_plane: ControlPlane | None = None,
    binaries: Path | None = None,
    progress: Progress | None = None,
    image: str | None = None,
    keep: bool = False,
) -> KindCluster:
    """Make a kind cluster and return it when every node and every system Pod is Ready.

    Args:
        run_id: the cluster is named after it, `unreserve-<run id>`.
        kubernetes: minor version.
        results: folder of the run; logs go to its subfolder `logs`.
        control_plane: what to switch on beyond the defaults of that minor.
        binaries: folder of ready-made programs for the host, as far as it goes; the rest is built.
        progress: where to report.
        image: node image; without it the one that `node_image.choose` names.
        keep: leave the cluster standing when it is destroyed.

    Raises:
        ProviderError: something is missing or did not come up; nothing is left.
    """
    try:
        made = KindCluster(
            f"unreserve-{run_id}", kubernetes, results / "logs", control_plane or ControlPlane(), binaries,
            progress or Silent(), image=image, keep=keep,
        )  # fmt: skip
    except MachineError as error:
        raise ProviderError(f"no kind cluster can be made: {error}; `python -m clusters doctor` says more") from error
    try:
        with made._explained("the kind cluster did not come up"):  # noqa: SLF001 - its other half
            made._start()  # noqa: SLF001
    except BaseException:
        made._keep = False  # noqa: SLF001
        made.destroy()
        raise
    return made


def _ready(item: Json) -> bool:
    conditions = item["status"].get("conditions") or []
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=PROBE_TIMEOUT)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    return False
