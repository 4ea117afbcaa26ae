"""A control plane as processes on loopback: etcd, kube-apiserver, kube-controller-manager, and kwok as the kubelet."""

import contextlib
import http.client
import signal
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters import equipment
from clusters.identity import encoded, make_identity, write_kubeconfig
from clusters.kube import ApiError, ApiUnreachable, Json, Kube
from clusters.local import build
from clusters.local.pki import Authority, Pair, signing_key
from clusters.processes import ExitedEarly, Process, Supervisor, address_in_use, ending, free_port, tail
from clusters.progress import Progress, Silent
from clusters.provider import Capability, ControlPlane, Identity, ProviderError

LOOPBACK = "127.0.0.1"

# Seconds for one process to answer. Eight control planes at once on two cores took 27.
START_TIMEOUT = 120.0
# Seconds for one look at a port.
PROBE_TIMEOUT = 2.0
# Times that all ports are chosen anew when somebody else took one of them.
ATTEMPTS = 4
# Of an API server that is started again: every watch can go on from where it was.
WITHOUT_CACHE = "--watch-cache=false"

# Of the controllers that are on by default, those that would only make noise here: no fake node has endpoints,
# certificates or attached volumes, and writes that nobody asked for wake schedulers. All minors know these names.
UNUSED_CONTROLLERS = (
    "certificatesigningrequest-approving-controller", "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller", "endpoints-controller", "endpointslice-controller",
    "endpointslice-mirroring-controller", "horizontal-pod-autoscaler-controller",
    "legacy-serviceaccount-token-cleaner-controller", "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller", "root-ca-certificate-publisher-controller",
    "serviceaccount-token-controller", "ttl-controller", "validatingadmissionpolicy-status-controller",
)  # fmt: skip


class LocalCluster:
    """A running control plane of our own; an `OwnedCluster`. Made by `create`."""

    provider = "local"
    capabilities = frozenset(
        {Capability.FAKE_NODES, Capability.AUDIT_LOG, Capability.RESTART_APISERVER, Capability.PAUSE_ETCD}
    )

    def __init__(self, plane: "_Plane", kubernetes: str) -> None:
        self._plane = plane
        self.kubernetes = kubernetes
        self.kubeconfig = plane.runner
        self.audit_log: Path | None = plane.audit_log

    def identity(self, name: str, *, roles: Sequence[Json] = ()) -> Identity:
        """Make (or renew) a ServiceAccount in SYSTEM_NAMESPACE and bind it to `roles`, see `Cluster.identity`."""
        return make_identity(
            self._plane.kube, name, roles, server=self._plane.server, authority=self._plane.ca.cert.read_bytes(),
            folder=self._plane.supervisor.state,
        )  # fmt: skip

    def binary(self, component: str) -> Path:
        """Path of a component of this cluster's minor.

        Raises:
            ProviderError: there is no such component.
        """
        if component not in self._plane.binaries:
            known = ", ".join(sorted(self._plane.binaries))
            raise ProviderError(f"the local provider has no component {component!r}; it has {known}")
        return self._plane.binaries[component]

    def problems(self) -> list[str]:
        """Name each process that has ended, with its exit code and last log line."""
        return [
            f"{process.name} {ending(process.poll())}: {''.join(tail(process.log, 1)) or 'its log is empty'}"
            for process in self._plane.processes
            if process.poll() is not None
        ]

    def stop_apiserver(self) -> None:
        """Kill the API server, and see it gone."""
        self._plane.stop_apiserver()

    def start_apiserver(self) -> None:
        """Start it again and return once it answers. What was watched can be watched on from where it was.

        Raises:
            ProviderError: it does not answer.
        """
        self._plane.start_apiserver()

    def restore_apiserver(self) -> None:
        """Run the API server with its cache of watches again; nothing where it does.

        Raises:
            ProviderError: it does not answer.
        """
        self._plane.restore_apiserver()

    def pause_etcd(self) -> None:
        """Freeze the store: what the API server asks of it hangs."""
        self._plane.etcd.signal(signal.SIGSTOP)

    def resume_etcd(self) -> None:
        """Let it go on, and return once the API server answers.

        Raises:
            ProviderError: it does not answer.
        """
        self._plane.etcd.signal(signal.SIGCONT)
        self._plane.until_it_answers()

    def destroy(self) -> None:
        """Kill every process at once and remove state and credentials; the logs stay. Idempotent."""
        # Nothing needs an orderly end: the data goes too, and each audit entry was written before its answer.
        self._plane.supervisor.stop_all(grace=0)
        self._plane.kube.close()


def create(
    run_id: str,
    *,
    kubernetes: str = build.NEWEST,
    results: Path,
    control_plane: ControlPlane | None = None,
    binaries: Path | None = None,
    progress: Progress | None = None,
) -> LocalCluster:
    """Start a control plane and return it when the API server and all else answers.

    Args:
        run_id: names the private folder, for people.
        kubernetes: minor version, one of `build.minors()`.
        results: folder of the run; logs go to its subfolder `logs`.
        control_plane: what to switch on beyond the defaults of that minor.
        binaries: folder of ready-made binaries instead of building them.
        progress: where to report.

    Raises:
        ProviderError: something is missing or did not start; nothing is left running.
    """
    progress = progress or Silent()
    switches = _switches(control_plane or ControlPlane())
    found = build.binaries(kubernetes, folder=binaries, progress=progress)
    supervisor = Supervisor(Path(tempfile.mkdtemp(prefix=f"unreserve-{run_id}-")))
    try:
        plane = _Plane(supervisor, found, results / "logs", switches)
        return LocalCluster(plane, plane.start())
    except BaseException:
        supervisor.stop_all(grace=0)
        raise


@dataclass(frozen=True)
class _Ports:
    etcd: int
    peer: int
    apiserver: int
    manager: int
    kwok: int

    @classmethod
    def choose(cls) -> "_Ports":
        return cls(*(free_port(LOOPBACK) for _ in range(5)))


class _Plane:
    """The processes of one control plane, their credentials and their start."""

    def __init__(
        self, supervisor: Supervisor, binaries: Mapping[str, Path], logs: Path, switches: Sequence[str]
    ) -> None:
        self.supervisor, self.binaries, self._logs, self._switches = supervisor, binaries, logs, switches
        self._state = supervisor.state
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        # etcd trusts an authority of its own: no certificate for the API server opens the store.
        etcd_ca = Authority(self._state, "etcd-ca")
        self._etcd_ca, self._etcd = etcd_ca.cert, etcd_ca.issue("etcd", "etcd", serves=True)
        self._etcd_client = etcd_ca.issue("etcd-client", "kube-apiserver")
        self.ca = Authority(self._state, "ca")
        self._apiserver = self.ca.issue("apiserver", "kube-apiserver", serves=True)
        self._loopback = self.ca.issue("loopback", "unreserve:loopback", serves=True)
        self._admin = self.ca.issue("runner", "unreserve:runner", groups=["system:masters"])
        self._manager = self.ca.issue("controller-manager", "system:kube-controller-manager")
        self._kwok = self.ca.issue("kwok", "unreserve:kwok")
        self._account_key = signing_key(self._state / "service-account.key")
        self.audit_log = logs / "audit.jsonl"
        self.processes: list[Process] = []

    def start(self) -> str:
        """Start everything and return the version that the API server reports.

        Raises:
            ProviderError: a process ended early, or does not answer in time.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._start(_Ports.choose())
            except ExitedEarly as error:
                if attempt == ATTEMPTS or not address_in_use(error.process):
                    raise ProviderError(f"the control plane did not start: {error}") from error
            except (TimeoutError, ApiError, ApiUnreachable) as error:
                raise ProviderError(f"the control plane did not start: {error}") from error
            except OSError as error:
                raise ProviderError(f"a component cannot be run: {error}") from error
            for process in self.processes:
                process.kill()
            self.kube.close()
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _start(self, ports: _Ports) -> str:
        self.processes = []
        self.server = f"https://{LOOPBACK}:{ports.apiserver}"
        self.runner = self._kubeconfig("runner", self._admin)
        manager, kwok = self._kubeconfig("controller-manager", self._manager), self._kubeconfig("kwok", self._kwok)

        self._ports = ports
        self.etcd = self._run("etcd", self._etcd_flags(ports))
        self._apiserver_process = self._run("kube-apiserver", self._apiserver_flags(ports))
        self.kube = Kube(self.runner)
        self._await(self.etcd, _probe(ports.etcd, "/health", self._etcd_ca, self._etcd_client))
        self._await(self._apiserver_process, _probe(ports.apiserver, "/readyz", self.ca.cert, self._admin))
        self._controllers = self._run("kube-controller-manager", self._manager_flags(ports, manager))
        equipment.set_up(self.kube)
        self._kubelet = self._run("kwok", self._kwok_flags(ports, kwok))
        self._await_followers()
        version: str = self.kube.request("GET", "/version").json()["gitVersion"]
        return version

    def stop_apiserver(self) -> None:
        """Kill the API server: an orderly end would wait for everybody who watches."""
        if self._apiserver_process in self.processes:
            self.processes.remove(self._apiserver_process)
            self._apiserver_process.kill()

    def start_apiserver(self) -> None:
        """Start it again, without its cache of watches: a new cache holds nothing of what was before it.

        Raises:
            ProviderError: it does not answer.
        """
        if self._apiserver_process not in self.processes:
            self._apiserver_process = self._run("kube-apiserver", [*self._apiserver_flags(self._ports), WITHOUT_CACHE])
        self.until_it_answers()

    def restore_apiserver(self) -> None:
        """Start it with its cache, where it was started again without, and anew who follows it.

        The controllers and the fake kubelet would try again after up to half a minute, and nobody make ServiceAccounts.

        Raises:
            ProviderError: something does not answer.
        """
        if WITHOUT_CACHE not in self._apiserver_process.argv:
            return
        self.stop_apiserver()
        for follower in (self._controllers, self._kubelet):
            self.processes.remove(follower)
            follower.kill()
        self._apiserver_process = self._run("kube-apiserver", self._apiserver_flags(self._ports))
        self.until_it_answers()
        self._controllers = self._run("kube-controller-manager", self._controllers.argv[1:])
        self._kubelet = self._run("kwok", self._kubelet.argv[1:])
        try:
            self._await_followers()
        except (ExitedEarly, TimeoutError) as error:
            raise ProviderError(f"the control plane does not come back: {error}") from error

    def _await_followers(self) -> None:
        self._await(self._kubelet, _probe(self._ports.kwok, "/healthz", self.ca.cert))
        self._await(self._controllers, _probe(self._ports.manager, "/healthz", self.ca.cert))

    def until_it_answers(self) -> None:
        """Return once the API server is ready.

        Raises:
            ProviderError: it is not.
        """
        try:
            answers = _probe(self._ports.apiserver, "/readyz", self.ca.cert, self._admin)
            self._await(self._apiserver_process, answers)
        except (ExitedEarly, TimeoutError) as error:
            raise ProviderError(f"the API server does not come back: {error}") from error

    def _run(self, component: str, flags: Sequence[str]) -> Process:
        environment = {"HOME": str(self._state), "PATH": ""}
        process = self.supervisor.start(
            component, [self.binaries[component], *flags], env=environment, log=self._logs / f"{component}.log"
        )
        self.processes.append(process)
        return process

    def _await(self, process: Process, answers: Callable[[], bool]) -> None:
        def ready() -> bool:
            for other in self.processes:
                if other.poll() is not None:
                    raise ExitedEarly(other)
            return answers()

        process.wait_until(ready, START_TIMEOUT)

    def _kubeconfig(self, name: str, pair: Pair) -> Path:
        user = {
            "client-certificate-data": encoded(pair.cert.read_bytes()),
            "client-key-data": encoded(pair.key.read_bytes()),
        }
        path = self._state / f"{name}.kubeconfig"
        return write_kubeconfig(path, server=self.server, authority=self.ca.cert.read_bytes(), user=user)

    def _etcd_flags(self, ports: _Ports) -> list[str]:
        client, peer = f"https://{LOOPBACK}:{ports.etcd}", f"https://{LOOPBACK}:{ports.peer}"
        return [
            "--name=unreserve", f"--data-dir={tempfile.mkdtemp(prefix='etcd-', dir=self._state)}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=unreserve={peer}",
            f"--cert-file={self._etcd.cert}", f"--key-file={self._etcd.key}",
            f"--trusted-ca-file={self._etcd_ca}", "--client-cert-auth",
            f"--peer-cert-file={self._etcd.cert}", f"--peer-key-file={self._etcd.key}",
            f"--peer-trusted-ca-file={self._etcd_ca}", "--peer-client-cert-auth",
            "--unsafe-no-fsync",  # the data does not outlive the run
            # Milliseconds. A single member need not be patient with itself: with the defaults its election takes up to
            # a second, and the API server then another to look again.
            "--heartbeat-interval=20", "--election-timeout=200",
        ]  # fmt: skip

    def _apiserver_flags(self, ports: _Ports) -> list[str]:
        return [
            f"--bind-address={LOOPBACK}", f"--secure-port={ports.apiserver}", f"--advertise-address={LOOPBACK}",
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=192.0.2.0/24",
            f"--etcd-servers=https://{LOOPBACK}:{ports.etcd}", f"--etcd-cafile={self._etcd_ca}",
            f"--etcd-certfile={self._etcd_client.cert}", f"--etcd-keyfile={self._etcd_client.key}",
            f"--tls-cert-file={self._apiserver.cert}", f"--tls-private-key-file={self._apiserver.key}",
            f"--client-ca-file={self.ca.cert}", "--anonymous-auth=false", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._account_key}",
            f"--service-account-signing-key-file={self._account_key}",
            # Written before the answer is sent: what a client knows, the log has.
            "--audit-log-mode=blocking", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=0",
            f"--audit-policy-file={equipment.AUDIT_POLICY}",
            "--allow-privileged", "--profiling=false", "--enable-logs-handler=false",
            *self._switches,
        ]  # fmt: skip

    def _manager_flags(self, ports: _Ports, kubeconfig: Path) -> list[str]:
        gates = [switch for switch in self._switches if switch.startswith("--feature-gates")]
        return [
            f"--kubeconfig={kubeconfig}", f"--bind-address={LOOPBACK}", f"--secure-port={ports.manager}",
            f"--tls-cert-file={self._loopback.cert}", f"--tls-private-key-file={self._loopback.key}",
            "--leader-elect=false", "--use-service-account-credentials", "--profiling=false",
            "--controllers=" + ",".join(["*", *(f"-{name}" for name in UNUSED_CONTROLLERS)]),
            *(f"--{flag}={value}" for flag, value in equipment.CONTROLLER_FLAGS.items()), *gates,
        ]  # fmt: skip

    def _kwok_flags(self, ports: _Ports, kubeconfig: Path) -> list[str]:
        return [
            *equipment.kwok_flags(kubeconfig, f"{LOOPBACK}:{ports.kwok}"),
            f"--tls-cert-file={self._loopback.cert}", f"--tls-private-key-file={self._loopback.key}",
        ]  # fmt: skip


def _switches(wanted: ControlPlane) -> list[str]:
    """Return the flags for what a candidate needs switched on; its descriptor is untrusted text.

    Raises:
        ProviderError: a name is not shaped like one.
    """
    equipment.check(wanted)
    flags = {"--feature-gates": wanted.feature_gates, "--runtime-config": wanted.runtime_config}
    return [
        f"{flag}=" + ",".join(f"{name}={str(on).lower()}" for name, on in sorted(values.items()))
        for flag, values in flags.items()
        if values
    ]


def _probe(port: int, path: str, authority: Path, client: Pair | None = None) -> Callable[[], bool]:
    """Return a function that tells whether our own process answers there, known by this run's authority."""
    context = ssl.create_default_context(cafile=str(authority))
    if client:
        context.load_cert_chain(client.cert, client.key)

    def answers() -> bool:
        connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=PROBE_TIMEOUT, context=context)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status == http.client.OK
        return False

    return answers
