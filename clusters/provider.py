"""What a place to run must offer. Scenarios and candidates see these types only, never a provider."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from clusters.kube import Json, Kube

# Everything the suite itself installs in a cluster lives here.
SYSTEM_NAMESPACE = "unreserve-system"


class Capability(StrEnum):
    """What a provider can do. A scenario declares its needs; an unmet need is not-supported with a reason."""

    FAKE_NODES = "fake-nodes"
    REAL_KUBELET = "real-kubelet"
    AUDIT_LOG = "audit-log"
    RESTART_APISERVER = "restart-apiserver"
    PAUSE_ETCD = "pause-etcd"
    IN_CLUSTER_DEPLOY = "in-cluster-deploy"
    IMAGE_LOAD = "image-load"


class ProviderError(Exception):
    """The place to run is broken or missing something. The text says what, where and how to mend it."""


@dataclass(frozen=True)
class Identity:
    """One ServiceAccount with its own token, written as a kubeconfig (mode 0600)."""

    name: str
    username: str
    kubeconfig: Path

    def connect(self) -> Kube:
        """Return a connection as this identity."""
        return Kube(self.kubeconfig)


@dataclass(frozen=True)
class ControlPlane:
    """What a candidate needs the control plane to switch on.

    `default_scheduler` is whether the scheduler that a cluster may bring along stays: not beside a candidate that
    serves the same name.
    """

    feature_gates: dict[str, bool] = field(default_factory=dict)
    runtime_config: dict[str, bool] = field(default_factory=dict)
    default_scheduler: bool = True


@runtime_checkable
class Cluster(Protocol):
    """A running control plane. A borrowed one has no way to be destroyed: that is `OwnedCluster`."""

    @property
    def provider(self) -> str:
        """Name of the provider: `local`, `kind`, `existing`."""

    @property
    def kubernetes(self) -> str:
        """Version the API server reports, such as `v1.37.2`."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What can be done here."""

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator (mode 0600)."""

    @property
    def audit_log(self) -> Path | None:
        """JSON lines written by the API server, where the provider has them."""

    def identity(self, name: str, *, roles: Sequence[Json] = ()) -> Identity:
        """Make (or renew) a ServiceAccount in SYSTEM_NAMESPACE and bind it to `roles`.

        `roles` are roleRef-like dicts: {"kind": "ClusterRole"|"Role", "name": ..., "namespace": only for a Role}.
        """

    def binary(self, component: str) -> Path:
        """Path of a component of this cluster's minor, such as `kube-scheduler`.

        Raises:
            ProviderError: the provider has no such binary.
        """

    def problems(self) -> list[str]:
        """What is wrong with the cluster itself now: one sentence each, empty when healthy."""


@runtime_checkable
class ImageLoader(Protocol):
    """A cluster with the capability `image-load`."""

    def image_load(self, image: str | Path) -> None:
        """Load an image into every node: the name of one that docker has, or a tar as of `docker save`.

        Raises:
            ProviderError: there is no such image, or a node refuses it.
        """


@runtime_checkable
class Breakable(Protocol):
    """A cluster with the capabilities `restart-apiserver` and `pause-etcd`."""

    def stop_apiserver(self) -> None:
        """Kill the API server, and see it gone."""

    def start_apiserver(self) -> None:
        """Start it again and return once it answers. What was watched can be watched on from where it was.

        Raises:
            ProviderError: it does not answer.
        """

    def restore_apiserver(self) -> None:
        """Run the API server as it was before all faults. Watches may have to list again.

        Raises:
            ProviderError: it does not answer.
        """

    def pause_etcd(self) -> None:
        """Freeze the store: what the API server asks of it hangs."""

    def resume_etcd(self) -> None:
        """Let it go on, and return once the API server answers.

        Raises:
            ProviderError: it does not answer.
        """


@runtime_checkable
class OwnedCluster(Cluster, Protocol):
    """A cluster that we made and may therefore destroy."""

    def destroy(self) -> None:
        """Stop everything and remove its data; the logs stay. Idempotent."""
