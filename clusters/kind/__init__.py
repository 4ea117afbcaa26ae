"""A real cluster in Docker containers: kind through pytest-kind, with fake GPU nodes beside its real ones."""

from clusters.kind.cluster import KindCluster, create

__all__ = ["KindCluster", "create"]
