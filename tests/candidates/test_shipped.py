"""The shipped candidates on a real control plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import candidates
from candidates.descriptor import KUBE_SCHEDULER_METRICS
from clusters import local
from clusters.kube import Kube
from clusters.processes import Supervisor

SHIPPED = Path(candidates.__file__).parent
LABEL = "infra.example.com/high-speed-network"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[local.LocalCluster]:
    created = local.create("candidates", results=tmp_path_factory.mktemp("results"))
    yield created
    created.destroy()


@pytest.mark.parametrize("name", ["gpu-packing", "stock"])
def test_a_shipped_candidate_schedules_by_the_hard_condition(
    name: str, cluster: local.LocalCluster, tmp_path: Path
) -> None:
    descriptor = candidates.load(SHIPPED / f"{name}.yaml").require_kubernetes(cluster.kubernetes)
    kube = Kube(cluster.kubeconfig)
    for node, fast in (("slow", {}), ("fast", {LABEL: "true"})):
        manifest = {
            "metadata": {"name": f"{name}-{node}", "labels": fast, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
        }
        kube.create("nodes", descriptor.node(manifest, gpus=8))

    with Supervisor(tmp_path / "state") as supervisor:
        deployed = candidates.deploy(descriptor, cluster, supervisor, tmp_path / "work", tmp_path / "logs")
        config, metrics = deployed.config(), deployed.metrics()
        version = kube.list("pods").resource_version
        container = {"name": "main", "image": "none", "resources": {"limits": descriptor.gpus(4)}}
        kube.create(
            "pods", descriptor.pod({"metadata": {"name": name}, "spec": {"containers": [container]}}), "default"
        )
        pods = (event["object"] for event in kube.watch("pods", version, seconds=30, idle=30))
        bound = next((pod for pod in pods if pod.get("spec", {}).get("nodeName")), None)
        assert deployed.health() == {"/healthz": 200, "/readyz": 200, "/livez": 200}
        assert deployed.exits() == []
        assert deployed.stop() == {"scheduler": 0}

    assert bound
    assert bound["spec"]["nodeName"] == f"{name}-fast"
    assert deployed.version == f"kube-scheduler {cluster.kubernetes}"
    assert deployed.reported_version == f"Kubernetes {cluster.kubernetes}"
    assert metrics
    for metric in KUBE_SCHEDULER_METRICS.values():
        assert f"\n# TYPE {metric.name} " in metrics
    assert config
    assert [profile["schedulerName"] for profile in config["Profiles"]] == list(descriptor.scheduler_names)
    kube.delete("pods", name, "default", grace=0)
    kube.close()
