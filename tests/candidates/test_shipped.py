"""The shipped candidates on a real control plane."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import candidates
from candidates.sections.observe import KUBE_SCHEDULER_METRICS, MetricMeaning
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


def exposes(deployed: candidates.Deployed, meaning: MetricMeaning) -> bool:
    metric, text = deployed.descriptor.metric(meaning), deployed.metrics()
    return bool(metric and text and f"\n# TYPE {metric.name} " in text)


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
        assert isinstance(deployed, candidates.HostDeployed)
        config = deployed.config()
        version = kube.list("pods").resource_version
        container = {"name": "main", "image": "none", "resources": {"limits": descriptor.gpus(4)}}
        kube.create(
            "pods", descriptor.pod({"metadata": {"name": name}, "spec": {"containers": [container]}}), "default"
        )
        pods = (event["object"] for event in kube.watch("pods", version, seconds=30, idle=30))
        bound = next((pod for pod in pods if pod.get("spec", {}).get("nodeName")), None)
        deployed.processes["scheduler"].wait_until(lambda: exposes(deployed, "attempts"), 10, "counting attempts")
        assert [meaning for meaning in KUBE_SCHEDULER_METRICS if not exposes(deployed, meaning)] == []
        assert deployed.health() == {"/healthz": 200, "/readyz": 200, "/livez": 200}
        assert deployed.exits() == []
        assert deployed.stop()["scheduler"] >= 0  # it ended by itself

    assert bound
    assert bound["spec"]["nodeName"] == f"{name}-fast"
    assert deployed.version == f"kube-scheduler {cluster.kubernetes}"
    assert deployed.reported_version == f"Kubernetes {cluster.kubernetes}"
    assert config
    assert [profile["schedulerName"] for profile in config["profiles"]] == list(descriptor.scheduler_names)
    kube.close()
