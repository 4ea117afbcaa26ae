"""The embedded control plane, for real: what scenarios rely on, what it refuses, and that nothing of it is left."""

import contextlib
import json
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clusters import local
from clusters.kube import ApiError, ApiUnreachable, Kube
from clusters.local import build
from clusters.local.cluster import LocalCluster, _Ports, _switches
from clusters.progress import Silent
from clusters.provider import SYSTEM_NAMESPACE, ControlPlane, OwnedCluster, ProviderError
from tests.programs import ended

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = local.create("test", results=tmp_path_factory.mktemp("results"))
    try:
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def kube(plane: LocalCluster) -> Iterator[Kube]:
    with contextlib.closing(Kube(plane.kubeconfig)) as connection:
        yield connection


def eventually(true: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def status_of(obj: Json, condition: str) -> str | None:
    conditions = obj["status"].get("conditions") or []
    return next((c["status"] for c in conditions if c["type"] == condition), None)


def add_node(kube: Kube, name: str, *, ready: bool = True) -> None:
    resources = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    kube.create("nodes", {"metadata": metadata, "status": {"capacity": resources}})
    if ready:
        eventually(lambda: status_of(kube.get("nodes", name), "Ready") == "True")


def add_pod(kube: Kube, name: str, node: str, **metadata: Any) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]}
    kube.create("pods", {"metadata": {"name": name, **metadata}, "spec": spec}, "default")
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    kube.create("pods", binding, "default", name=name, subresource="binding")


def set_pod(kube: Kube, name: str, status: Json) -> None:
    kube.patch("pods", name, {"status": status}, "default", subresource="status", kind="strategic")


def admit(kube: Kube, name: str) -> None:
    set_pod(kube, name, {"conditions": [{"type": "Admitted", "status": "True"}]})


def phase(kube: Kube, name: str) -> str:
    return str(kube.get("pods", name, "default")["status"]["phase"])


def fence(kube: Kube, node: str, name: str) -> None:
    """Return when kwok has dealt with a Pod that it saw after everything else."""
    add_pod(kube, name, node)
    admit(kube, name)
    eventually(lambda: phase(kube, name) == "Running")


def test_it_is_a_cluster_that_may_be_destroyed_and_is_healthy(plane: LocalCluster) -> None:
    assert isinstance(plane, OwnedCluster)
    assert plane.kubernetes.startswith(f"v{build.NEWEST}.")
    assert plane.problems() == []
    assert plane.binary("kube-scheduler").name == "kube-scheduler"
    with pytest.raises(ProviderError, match="no component 'kubelet'"):
        plane.binary("kubelet")


def test_a_fake_node_gets_ready_keeps_its_resources_and_loses_its_taint(kube: Kube) -> None:
    add_node(kube, "node-ready")

    eventually(lambda: not kube.get("nodes", "node-ready")["spec"].get("taints"))
    assert kube.get("nodes", "node-ready")["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_a_node_that_a_scenario_broke_stays_broken(kube: Kube) -> None:
    add_node(kube, "node-broken")
    broken = {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken"}]}
    kube.patch("nodes", "node-broken", {"status": broken}, subresource="status", kind="strategic")
    kube.patch("nodes", "node-broken", {"metadata": {"labels": {"touched": "yes"}}})
    add_node(kube, "node-fence")

    assert status_of(kube.get("nodes", "node-broken"), "Ready") == "False"
    eventually(lambda: kube.get("nodes", "node-broken")["spec"].get("taints"))


def test_a_node_that_is_not_marked_as_fake_is_left_alone(kube: Kube) -> None:
    kube.create("nodes", {"metadata": {"name": "node-foreign"}})
    add_node(kube, "node-marked")

    assert status_of(kube.get("nodes", "node-foreign"), "Ready") is None
    kube.delete("nodes", "node-foreign")


def test_a_bound_pod_runs_only_after_its_admission(kube: Kube) -> None:
    add_node(kube, "node-admission")
    add_pod(kube, "waiting", "node-admission")
    fence(kube, "node-admission", "admission-fence")
    assert phase(kube, "waiting") == "Pending"

    admit(kube, "waiting")

    eventually(lambda: phase(kube, "waiting") == "Running")
    assert status_of(kube.get("pods", "waiting", "default"), "Ready") == "True"
    assert status_of(kube.get("pods", "waiting", "default"), "PodScheduled") == "True"


@pytest.mark.parametrize("ended", ["Failed", "Succeeded"])
def test_a_finished_pod_stays_finished(kube: Kube, ended: str) -> None:
    node, name = f"node-{ended.lower()}", ended.lower()
    add_node(kube, node)
    add_pod(kube, name, node)
    set_pod(kube, name, {"phase": ended, "reason": "OutOfnvidia.com/gpu"})
    admit(kube, name)
    fence(kube, node, f"{name}-fence")

    assert phase(kube, name) == ended


def test_a_pod_being_deleted_goes_at_once_but_keeps_the_finalizer_of_somebody_else(kube: Kube) -> None:
    add_node(kube, "node-deleting")
    add_pod(kube, "plain", "node-deleting")
    add_pod(kube, "held", "node-deleting", finalizers=["example.com/hold"])
    kube.delete("pods", "held", "default")
    kube.delete("pods", "plain", "default")

    eventually(lambda: kube.find("pods", "plain", "default") is None)
    held = kube.get("pods", "held", "default")
    assert held["metadata"]["finalizers"] == ["example.com/hold"]
    kube.patch("pods", "held", {"metadata": {"finalizers": None}}, "default")
    eventually(lambda: kube.find("pods", "held", "default") is None)


def test_a_node_that_is_deleted_and_created_again_is_served_at_once(kube: Kube) -> None:
    for _ in range(3):
        add_node(kube, "node-again")
        kube.delete("nodes", "node-again")
    add_node(kube, "node-again")
    add_pod(kube, "again", "node-again")

    started = time.monotonic()
    admit(kube, "again")
    eventually(lambda: phase(kube, "again") == "Running")
    kube.delete("pods", "again", "default")
    eventually(lambda: kube.find("pods", "again", "default") is None)
    # With node leases it took kwok up to ten seconds to come back to such a node.
    assert time.monotonic() - started < 5


def test_a_pod_can_be_created_in_a_namespace_that_was_just_created(kube: Kube) -> None:
    kube.create("namespaces", {"metadata": {"name": "fresh"}})
    pod = {"metadata": {"name": "first"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}

    assert kube.create("pods", pod, "fresh")["spec"]["serviceAccountName"] == "default"


def test_controllers_make_pods_and_collect_them(kube: Kube) -> None:
    labels = {"app": "trainer"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    kube.create("apps/v1/deployments", {"metadata": {"name": "trainer"}, "spec": spec}, "default")
    eventually(lambda: len(kube.list("pods", "default", labels="app=trainer").items) == 2)

    kube.delete("apps/v1/deployments", "trainer", "default")
    eventually(lambda: kube.list("pods", "default", labels="app=trainer").items == [])


def test_an_identity_has_its_roles_and_no_more(plane: LocalCluster) -> None:
    roles = [
        {"kind": "ClusterRole", "name": "system:kube-scheduler"},
        {"kind": "Role", "name": "extension-apiserver-authentication-reader", "namespace": "kube-system"},
    ]
    identity = plane.identity("candidate-0", roles=roles)
    renewed = plane.identity("candidate-0", roles=roles)

    with contextlib.closing(renewed.connect()) as candidate:
        who = candidate.create(
            "authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
        assert who["status"]["userInfo"]["username"] == identity.username
        assert identity.username == f"system:serviceaccount:{SYSTEM_NAMESPACE}:candidate-0"
        eventually(lambda: allowed(lambda: candidate.list("nodes")))
        eventually(lambda: allowed(lambda: candidate.list("pods")))
        assert not allowed(lambda: candidate.list("secrets"))
        assert not allowed(lambda: candidate.create("nodes", {"metadata": {"name": "x"}}))
    assert stat.S_IMODE(renewed.kubeconfig.stat().st_mode) == 0o600


def allowed(request: Callable[[], object]) -> bool:
    try:
        request()
    except ApiError as error:
        if error.reason != "Forbidden":
            raise
        return False
    return True


def test_the_audit_log_has_decisions_in_full_and_no_furniture(plane: LocalCluster, kube: Kube) -> None:
    add_node(kube, "node-audit")
    add_pod(kube, "audited", "node-audit")
    admit(kube, "audited")
    eventually(lambda: phase(kube, "audited") == "Running")

    assert plane.audit_log
    entries = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    of_pod = [e for e in entries if (e.get("objectRef") or {}).get("name") == "audited"]
    binding = [e for e in of_pod if e["objectRef"].get("subresource") == "binding"]
    assert [e["stage"] for e in binding] == ["RequestReceived", "ResponseComplete"]
    assert binding[1]["requestObject"]["target"]["name"] == "node-audit"
    assert binding[1]["user"]["username"] == "unreserve:runner"
    assert {e["level"] for e in of_pod if e["objectRef"].get("subresource") == "status"} == {"Metadata"}
    assert not [e for e in entries if e["user"]["username"] == "unreserve:kwok"]
    reads = [e for e in entries if e["verb"] in ("get", "list", "watch")]  # of nodes: who may not serves nobody
    assert not [e for e in reads if e["verb"] == "get" or e["objectRef"]["resource"] != "nodes"]
    assert all(e["user"]["username"].startswith("system:serviceaccount:") for e in reads)


def test_everything_listens_on_loopback_below_the_ephemeral_ports(plane: LocalCluster) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    listening = [
        connection.laddr
        for process in plane._plane.processes
        for connection in psutil.Process(process.pid).net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]

    assert len(listening) == 5
    assert {address.ip for address in listening} == {"127.0.0.1"}
    assert all(address.port < low for address in listening)


def test_all_files_are_private(plane: LocalCluster) -> None:
    roots = [plane.kubeconfig.parent, plane._plane.audit_log.parent]
    found = {path: stat.S_IMODE(path.stat().st_mode) for root in roots for path in [root, *root.rglob("*")]}

    assert len(found) > 15
    assert {path: oct(mode) for path, mode in found.items() if mode != (0o700 if path.is_dir() else 0o600)} == {}


def test_an_api_server_that_was_killed_comes_back_and_is_watched_on(plane: LocalCluster, kube: Kube) -> None:
    made = kube.create("configmaps", {"metadata": {"name": "before"}}, "default")
    kube.patch("configmaps", "before", {"data": {"changed": "unseen"}}, "default")

    plane.stop_apiserver()
    with pytest.raises(ApiUnreachable):
        kube.get("configmaps", "before", "default")
    assert plane.problems() == []
    plane.start_apiserver()

    with contextlib.closing(kube.watch("configmaps", made["metadata"]["resourceVersion"], seconds=5, idle=5)) as events:
        assert next(iter(events))["object"]["data"] == {"changed": "unseen"}
    assert "--watch-cache=false" in plane._plane._apiserver_process.argv

    for _ in range(2):
        plane.restore_apiserver()
        kube.get("configmaps", "before", "default")
        assert "--watch-cache=false" not in plane._plane._apiserver_process.argv
    assert plane.problems() == []


def test_a_store_that_was_frozen_goes_on(plane: LocalCluster, kube: Kube) -> None:
    plane.pause_etcd()
    try:
        with pytest.raises((ApiError, ApiUnreachable)):
            kube.request("GET", "/api/v1/namespaces/default/configmaps/before", timeout=1.0)
    finally:
        plane.resume_etcd()
    assert kube.get("configmaps", "before", "default")


def test_nobody_without_credentials_gets_in(plane: LocalCluster) -> None:
    state = plane.kubeconfig.parent
    etcd = flag_of(plane, "etcd", "--listen-client-urls")
    anonymous = ssl.create_default_context(cafile=str(state / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{plane._plane.server}/api/v1/nodes", context=anonymous, timeout=5)
    refused.value.close()
    assert refused.value.code == 401

    # Not even the administrator's certificate opens the store behind the API server's back.
    for pair in (None, "runner"):
        context = ssl.create_default_context(cafile=str(state / "etcd-ca.crt"))
        if pair:
            context.load_cert_chain(state / f"{pair}.crt", state / f"{pair}.key")
        with pytest.raises(OSError, match=r"(?i)certificate|unknown.ca|reset|EOF"):
            urllib.request.urlopen(f"{etcd}/version", context=context, timeout=5)


def flag_of(plane: LocalCluster, process: str, flag: str) -> str:
    argv = next(p.argv for p in plane._plane.processes if p.name == process)
    return next(part.partition("=")[2] for part in argv if part.startswith(f"{flag}="))


@pytest.mark.parametrize(
    "wanted",
    [
        ControlPlane(feature_gates={"A=true,--token-auth-file": True}),
        ControlPlane(feature_gates={"lower": True}),
        ControlPlane(runtime_config={"x y": True}),
        ControlPlane(runtime_config={"v1=true,api/all": True}),
    ],
)
def test_only_names_can_be_switched_on(wanted: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="look like"):
        local.create("test", results=tmp_path, control_plane=wanted)


def test_what_is_switched_on_becomes_flags() -> None:
    wanted = ControlPlane({"GenericWorkload": True, "B": False}, {"scheduling.k8s.io/v1beta1": True, "api/alpha": True})

    assert _switches(wanted) == [
        "--feature-gates=B=false,GenericWorkload=true",
        "--runtime-config=api/alpha=true,scheduling.k8s.io/v1beta1=true",
    ]
    assert _switches(ControlPlane()) == []


def test_a_port_that_somebody_took_is_replaced_and_the_end_leaves_only_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose, taken = _Ports.choose, socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    chosen: list[_Ports] = []

    def first_with_a_taken_one() -> _Ports:
        ports = choose()
        chosen.append(ports)
        if len(chosen) == 1:
            return _Ports(taken.getsockname()[1], ports.peer, ports.apiserver, ports.manager, ports.kwok)
        return ports

    monkeypatch.setattr(_Ports, "choose", staticmethod(first_with_a_taken_one))
    gates = ControlPlane({"GenericWorkload": True}, {"scheduling.k8s.io/v1beta1": True})
    with contextlib.closing(taken):
        made = local.create("taken", results=tmp_path, control_plane=gates)
    try:
        assert len(chosen) == 2
        with contextlib.closing(Kube(made.kubeconfig)) as kube:
            assert kube.request("GET", "/apis/scheduling.k8s.io/v1beta1").json()["resources"]

        kwok = made._plane.processes[-1]
        kwok.kill()
        (problem,) = made.problems()
        assert problem.startswith("kwok was killed by SIGKILL: {")
    finally:
        made.destroy()
        made.destroy()

    assert not made.kubeconfig.parent.exists()
    assert made.audit_log
    assert made.audit_log.exists()
    assert all(process.poll() is not None for process in made._plane.processes)


def test_a_failed_start_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for name, path in build.binaries(build.NEWEST, progress=Silent()).items():
        (broken / name).symlink_to(path)
    (broken / "kube-apiserver").unlink()
    (broken / "kube-apiserver").write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exec echo Kubernetes v{build.NEWEST}.0\necho no such flag >&2\nexit 3\n"
    )
    (broken / "kube-apiserver").chmod(0o755)

    with pytest.raises(ProviderError) as caught:
        local.create("broken", results=tmp_path, binaries=broken)

    assert "kube-apiserver exited with code 3" in str(caught.value)
    assert "no such flag" in str(caught.value)
    assert str(tmp_path / "logs" / "kube-apiserver.log") in str(caught.value)
    assert running("unreserve-broken-") == []
    assert list(Path(tempfile.gettempdir()).glob("unreserve-broken-*")) == []


def running(word: str) -> list[str]:
    """Command lines of living processes with that word; the guard has no such word in its own."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(word in part for part in process.cmdline()[1:]):
                lines.append(" ".join(process.cmdline()))
    return lines


RUNNER = """
    import sys, time
    from pathlib import Path
    from clusters import local

    cluster = local.create(sys.argv[1], results=Path(sys.argv[2]))
    print(cluster.kubeconfig.parent, cluster._plane.supervisor._guard.pid, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_two_seconds_after_the_runner_was_killed(number: signal.Signals, tmp_path: Path) -> None:
    name = f"killed-{number.name.lower()}"
    command = [sys.executable, "-c", textwrap.dedent(RUNNER), name, str(tmp_path)]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parents[2]
    )
    with ended(started) as runner:
        assert runner.stdout
        state, guard = runner.stdout.readline().split()
        assert len(running(state)) == 4

        runner.send_signal(number)
        eventually(lambda: not running(state), 2)
        eventually(lambda: not Path(state).exists(), 2)
    eventually(lambda: not psutil.pid_exists(int(guard)) or psutil.Process(int(guard)).status() == "zombie", 2)
