"""The configuration of a kind cluster: one control plane, two workers, an audit log on the host. Pure."""

import json
from collections.abc import Mapping
from pathlib import Path

from clusters import equipment
from clusters.golang import numbers
from clusters.kind.machine import PODS, SERVICES
from clusters.kube import Json
from clusters.provider import ControlPlane

LOOPBACK = "127.0.0.1"
WORKERS = 2
NODES = 1 + WORKERS

# In the control-plane container and in the API server's Pod alike. Outside /var/log: kind's export takes that along.
INSIDE = "/unreserve"
AUDIT_LOG = "audit.jsonl"
POLICY = "policy.yaml"

API_SERVER_FLAGS = {
    "audit-policy-file": f"{INSIDE}/{POLICY}",
    "audit-log-path": f"{INSIDE}/log/{AUDIT_LOG}",
    # Written before the answer is sent: what a client knows, the log has.
    "audit-log-mode": "blocking",
    "audit-log-maxsize": "0",
}
# The data does not outlive the run.
ETCD_FLAGS = {"unsafe-no-fsync": "true"}

# Since this minor kind writes kubeadm's v1beta4, where arguments are a list; before it v1beta3, where they are a map.
LISTS = (1, 36)


def render(kubernetes: str, wanted: ControlPlane, *, port: int, logs: Path) -> Json:
    """Return the configuration for a minor; `logs` is a folder of the host that gets the audit log.

    Raises:
        ProviderError: a name in `wanted` is not shaped like one.
    """
    equipment.check(wanted)
    mounts = [
        {"hostPath": str(equipment.AUDIT_POLICY), "containerPath": f"{INSIDE}/{POLICY}", "readOnly": True},
        {"hostPath": str(logs), "containerPath": f"{INSIDE}/log"},
    ]
    worker = {"role": "worker"}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {
            "apiServerAddress": LOOPBACK,
            "apiServerPort": port,
            "serviceSubnet": str(SERVICES),
            "podSubnet": str(PODS),
        },
        "featureGates": dict(sorted(wanted.feature_gates.items())),
        "runtimeConfig": {name: str(on).lower() for name, on in sorted(wanted.runtime_config.items())},
        # Since 1.35 it refuses cgroup v1 unless told.
        "kubeadmConfigPatches": [json.dumps({"kind": "KubeletConfiguration", "failCgroupV1": False})],
        "kubeadmConfigPatchesJSON6902": [_patch(kubernetes)],
        "nodes": [{"role": "control-plane", "extraMounts": mounts}, *([worker] * WORKERS)],
    }


def _patch(kubernetes: str) -> Json:
    lists = numbers(kubernetes) >= LISTS
    volume = {"name": "unreserve", "hostPath": INSIDE, "mountPath": INSIDE, "pathType": "Directory"}
    etcd = [{"name": k, "value": v} for k, v in ETCD_FLAGS.items()] if lists else ETCD_FLAGS
    operations = [
        *_arguments("apiServer", API_SERVER_FLAGS, lists=lists),
        *_arguments("controllerManager", equipment.CONTROLLER_FLAGS, lists=lists),
        {"op": "add", "path": "/apiServer/extraVolumes", "value": [volume]},
        {"op": "add", "path": "/etcd", "value": {"local": {"extraArgs": etcd}}},
    ]
    version = "v1beta4" if lists else "v1beta3"
    return {
        "group": "kubeadm.k8s.io", "version": version, "kind": "ClusterConfiguration", "patch": json.dumps(operations)
    }  # fmt: skip


def _arguments(component: str, flags: Mapping[str, str], *, lists: bool) -> list[Json]:
    path = f"/{component}/extraArgs"
    if lists:
        return [{"op": "add", "path": f"{path}/-", "value": {"name": k, "value": v}} for k, v in flags.items()]
    return [{"op": "add", "path": f"{path}/{k}", "value": v} for k, v in flags.items()]
