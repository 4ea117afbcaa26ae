"""A cluster as somebody knows it for whom a part of it is different."""

from collections.abc import Sequence
from pathlib import Path

from clusters.kube import Json
from clusters.provider import Capability, Cluster, Identity


class Through:
    """Another cluster, to which everything is passed on. A `Cluster`; what is different overrides it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def provider(self) -> str:
        """Name of the provider."""
        return self._cluster.provider

    @property
    def kubernetes(self) -> str:
        """Version the API server reports."""
        return self._cluster.kubernetes

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What can be done here."""
        return self._cluster.capabilities

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self._cluster.kubeconfig

    @property
    def audit_log(self) -> Path | None:
        """JSON lines written by the API server, where the provider has them."""
        return self._cluster.audit_log

    def identity(self, name: str, *, roles: Sequence[Json] = ()) -> Identity:
        """Make (or renew) a ServiceAccount, see `Cluster.identity`."""
        return self._cluster.identity(name, roles=roles)

    def binary(self, component: str) -> Path:
        """Path of a component of this cluster's minor."""
        return self._cluster.binary(component)

    def problems(self) -> list[str]:
        """What is wrong with the cluster itself now."""
        return self._cluster.problems()
