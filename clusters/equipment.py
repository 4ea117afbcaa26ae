"""What the suite brings into every cluster it makes: a namespace, an audit policy, and kwok as the fake kubelet."""

import re
from pathlib import Path

import yaml

from clusters.kube import Kube
from clusters.provider import SYSTEM_NAMESPACE, ControlPlane, ProviderError

DATA = Path(__file__).parent / "data"
AUDIT_POLICY = DATA / "audit-policy.yaml"

# No fake node sends heartbeats, so that none becomes NotReady on a loaded machine, and none is left alone: kwok stops
# serving a node for up to 10 s when its lease is collected after the node was deleted and created again. Only a
# scenario breaks a node.
CONTROLLER_FLAGS = {
    "node-monitor-grace-period": "8760h",
    "node-monitor-period": "1s",
    "kube-api-qps": "100",
    "kube-api-burst": "200",
}

FEATURE_GATE = re.compile(r"[A-Z][A-Za-z0-9]*")
RUNTIME_CONFIG = re.compile(r"api/(all|ga|beta|alpha|legacy)|([a-z0-9.-]+/)?v[0-9]+((alpha|beta)[0-9]+)?(/[a-z]+)?")


def set_up(kube: Kube) -> None:
    """Create the suite's namespace and the role of the fake kubelet.

    Raises:
        ApiError: the API server refuses.
    """
    kube.create("namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})
    for manifest in yaml.safe_load_all((DATA / "rbac.yaml").read_text(encoding="utf-8")):
        kube.apply(manifest)


def kwok_flags(kubeconfig: Path, address: str) -> list[str]:
    """Return the flags of a kwok that serves annotated nodes only and answers probes at `address` (host:port)."""
    return [
        f"--kubeconfig={kubeconfig}", f"--config={DATA / 'kwok.yaml'}", "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", f"--server-address={address}",
    ]  # fmt: skip


def check(wanted: ControlPlane) -> None:
    """Refuse what is no feature gate or API: a descriptor is untrusted text.

    Raises:
        ProviderError: a name is not shaped like one.
    """
    for name in wanted.feature_gates:
        if not FEATURE_GATE.fullmatch(name):
            raise ProviderError(f"{name!r} is no feature gate; their names look like DynamicResourceAllocation")
    for name in wanted.runtime_config:
        if not RUNTIME_CONFIG.fullmatch(name):
            raise ProviderError(f"{name!r} is no API to switch on; they look like scheduling.k8s.io/v1beta1")
