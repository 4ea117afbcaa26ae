"""The embedded control plane: processes on loopback, from binaries that are built once and kept in a cache."""

from clusters.local.build import NEWEST, inventory, minors
from clusters.local.cluster import LocalCluster, create

__all__ = ["NEWEST", "LocalCluster", "create", "inventory", "minors"]
