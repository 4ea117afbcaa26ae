"""The embedded control plane: processes on loopback, from binaries that are built once and kept in a cache."""

from clusters.local.build import NEWEST, ensure, inventory, minors
from clusters.local.cluster import LocalCluster, create

__all__ = ["NEWEST", "LocalCluster", "create", "ensure", "inventory", "minors"]
