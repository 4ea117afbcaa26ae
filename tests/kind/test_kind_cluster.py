"""A real kind cluster: what scenarios rely on, what it refuses, and that nothing of it is left.

Skipped, in one line with the reason, where Docker, the node image or pytest-kind is missing.
"""

import contextlib
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import kind
from clusters.kind import KindCluster
from clusters.kind.machine import docker
from clusters.kube import ApiError, Kube
from clusters.local import build
from clusters.provider import Capability, ImageLoader, OwnedCluster, ProviderError
from tests.kind.conftest import guarded_routes, of_run, volumes

Json = dict[str, Any]
# kubectl serves files and fetches them: one static program is a whole workload.
IMAGE = "unreserve-test/kubectl:1"
SERVE = [
    "/kubectl", "--server=http://127.0.0.1:1", "proxy", "--port=8001", "--address=0.0.0.0", "--accept-hosts=.*",
    "--www=/", "--www-prefix=/files/",
]  # fmt: skip
READY = 60.0


def eventually(true: Callable[[], object], seconds: float = READY) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(usable: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KindCluster]:  # noqa: ARG001
    made = kind.create(f"test-{os.getpid()}", results=tmp_path_factory.mktemp("results"))
    try:
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def kube(cluster: KindCluster) -> Iterator[Kube]:
    with contextlib.closing(Kube(cluster.kubeconfig)) as connection:
        yield connection


@pytest.fixture(scope="module")
def workload(cluster: KindCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name of an image that every node has, loaded once by name and once from a tar."""
    folder = tmp_path_factory.mktemp("image")
    subprocess.run(["tar", "-C", cluster.binary("kubectl").parent, "-cf", folder / "root.tar", "kubectl"], check=True)
    docker("import", str(folder / "root.tar"), IMAGE)
    try:
        cluster.image_load(IMAGE)
        docker("save", "--output", str(folder / "image.tar"), IMAGE)
    finally:
        docker("image", "rm", IMAGE)
    cluster.image_load(folder / "image.tar")
    return IMAGE


def pod(name: str, image: str, command: list[str], **spec: Any) -> Json:
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": command}
    container |= spec.pop("container", {})
    return {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [container], **spec}}


def ready(kube: Kube, name: str) -> bool:
    conditions = kube.get("pods", name, "default")["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def add_fake_node(kube: Kube, name: str) -> None:
    resources = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    kube.create("nodes", {"metadata": metadata, "status": {"capacity": resources, "allocatable": resources}})


def test_it_is_a_cluster_of_ours_and_healthy(cluster: KindCluster) -> None:
    assert isinstance(cluster, OwnedCluster)
    assert isinstance(cluster, ImageLoader)
    assert {Capability.REAL_KUBELET, Capability.FAKE_NODES, Capability.AUDIT_LOG} <= cluster.capabilities
    assert cluster.kubernetes.startswith(f"v{build.NEWEST}.")
    assert cluster.problems() == []
    assert len(cluster.workers()) == 2


def test_everything_of_the_system_is_ready_at_once(kube: Kube) -> None:
    pods = kube.list("pods", "kube-system").items

    assert len(pods) >= 10
    assert {condition["status"] for p in pods for condition in p["status"]["conditions"]} == {"True"}


def test_credentials_are_private_and_on_loopback(cluster: KindCluster) -> None:
    server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]

    assert server.startswith("https://127.0.0.1:")
    assert cluster.kubeconfig.stat().st_mode & 0o777 == 0o600
    assert cluster.kubeconfig.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("cluster")
def test_cluster_addresses_are_unreachable_from_the_machine_while_it_stands() -> None:
    assert guarded_routes() == ["unreachable 10.96.0.0/16", "unreachable 10.244.0.0/16"]


def test_a_cluster_that_is_there_is_refused_and_stays(cluster: KindCluster, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match="is there already"):
        kind.create(cluster.name.removeprefix("unreserve-"), results=tmp_path)

    assert cluster.problems() == []


def test_an_identity_may_do_what_its_roles_say(cluster: KindCluster) -> None:
    made = cluster.identity("reader", roles=[{"kind": "ClusterRole", "name": "view"}])

    with contextlib.closing(made.connect()) as connection:
        assert connection.list("pods").items
        with pytest.raises(ApiError, match="403"):
            connection.list("secrets")


def test_writes_are_in_the_audit_log_before_their_answer(cluster: KindCluster, kube: Kube) -> None:
    kube.create("configmaps", {"metadata": {"name": "audited"}}, "default")

    assert cluster.audit_log is not None
    entries = [json.loads(line) for line in cluster.audit_log.read_text().splitlines()]
    written = [e["stage"] for e in entries if e.get("objectRef", {}).get("name") == "audited"]
    assert written == ["ResponseComplete"]
    assert "RequestReceived" in {e["stage"] for e in entries}
    assert not [e for e in entries if e["user"]["username"].endswith(":kwok")]


def test_a_fake_node_gets_ready_and_no_daemon_set_comes_to_it(kube: Kube) -> None:
    add_fake_node(kube, "fake-1")
    eventually(lambda: not kube.get("nodes", "fake-1")["spec"].get("taints"))
    eventually(lambda: kube.get("nodes", "fake-1")["spec"].get("podCIDR"))

    assert [p["metadata"]["name"] for p in kube.list("pods").items if p["spec"].get("nodeName") == "fake-1"] == []


def test_a_real_kubelet_refuses_what_its_node_has_not(cluster: KindCluster, kube: Kube, workload: str) -> None:
    worker = cluster.workers()[0]
    cluster.extend(worker, {"nvidia.com/gpu": 4})
    limits = {"resources": {"limits": {"nvidia.com/gpu": "3"}}}
    kube.create("pods", pod("fits", workload, SERVE, nodeName=worker, container=limits), "default")
    eventually(lambda: ready(kube, "fits"))

    kube.create("pods", pod("too-much", workload, SERVE, nodeName=worker, container=limits), "default")

    eventually(lambda: kube.get("pods", "too-much", "default")["status"]["phase"] == "Failed")
    status = kube.get("pods", "too-much", "default")["status"]
    assert status["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 3, used: 3, capacity: 4" in status["message"]
    kube.delete("pods", "fits", "default", grace=0)
    cluster.extend(worker, {"nvidia.com/gpu": 0})


def test_a_service_is_spread_over_its_pods_on_both_workers(cluster: KindCluster, kube: Kube, workload: str) -> None:
    """With one endpoint it would work even where kube-proxy lacks the plugins to spread."""
    for number, worker in enumerate(cluster.workers() * 2):
        probe = {"readinessProbe": {"httpGet": {"path": "/files/etc/hostname", "port": 8001}, "periodSeconds": 1}}
        manifest = pod(f"web-{number}", workload, SERVE, nodeName=worker, container=probe)
        manifest["metadata"]["labels"] = {"app": "web"}
        kube.create("pods", manifest, "default")
    ports = [{"port": 80, "targetPort": 8001}]
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    kube.create("services", service, "default")
    eventually(lambda: all(ready(kube, f"web-{number}") for number in range(4)))

    def fetch(address: str) -> str:
        inside = [
            "exec",
            "web-0",
            "--",
            "/kubectl",
            f"--server=http://{address}/",
            "get",
            "--raw",
            "/files/etc/hostname",
        ]
        command = [str(cluster.binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}", *inside]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=READY).stdout.strip()

    eventually(lambda: fetch("web.default.svc.cluster.local").startswith("web-"))
    answered = Counter(fetch("web.default.svc.cluster.local") for _ in range(16))

    assert set(answered) <= {f"web-{number}" for number in range(4)}
    assert len(answered) >= 2
    # An address that nobody has ends here, not outside.
    assert fetch("10.96.200.200") == ""
    logs = docker("exec", f"{cluster.name}-worker", "sh", "-c", "cat /var/log/pods/kube-system_kube-proxy*/*/*.log")
    assert logs
    assert "Sync failed" not in logs


def test_a_node_that_is_gone_is_a_problem(cluster: KindCluster) -> None:
    """It does not recover: only the end comes after this."""
    docker("rm", "--force", "--volumes", f"{cluster.name}-worker2")

    assert any("2 of 3 node containers run" in problem for problem in cluster.problems())


def test_a_cluster_that_is_destroyed_leaves_its_logs_alone(cluster: KindCluster) -> None:
    run_id, logs = cluster.name.removeprefix("unreserve-"), cluster.audit_log.parent if cluster.audit_log else Path()
    known = volumes(cluster.name)
    assert of_run(run_id)

    cluster.destroy()
    cluster.destroy()

    assert of_run(run_id) == []
    assert not set(known) & set(docker("volume", "ls", "--quiet").split())
    kept = {file.name for file in logs.rglob("*") if file.is_file()}
    assert {"audit.jsonl", "kind.log", "kwok.log", "kubelet.log", "containerd.log"} <= kept
