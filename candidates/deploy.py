"""Bringing a candidate up."""

from pathlib import Path

from candidates.deployed import Deployed
from candidates.descriptor import Descriptor
from candidates.host import HostDeployed, Through, directly
from candidates.incluster import InClusterDeployed
from clusters.processes import Supervisor
from clusters.provider import Capability, Cluster, ProviderError


def deploy(
    descriptor: Descriptor, cluster: Cluster, supervisor: Supervisor, workdir: Path, logs: Path, *,
    through: Through = directly,
) -> Deployed:  # fmt: skip
    """Bring a candidate up and wait until it is ready.

    `workdir` is made private (0700) and gets what is rendered (0600); `logs` gets one log a process or container;
    `through` says under which address the processes shall find a dependency, given its name and its own.

    Raises:
        DescriptorError: it is not made for this Kubernetes version.
        ProviderError: it wants something that this provider cannot do.
        DeployError: a program is missing, an object is refused, or something required does not come up.
    """
    descriptor = descriptor.require_kubernetes(cluster.kubernetes)
    deployed: Deployed
    if descriptor.deployment.manifests is not None:
        if Capability.IN_CLUSTER_DEPLOY not in cluster.capabilities:
            raise ProviderError(
                f"{descriptor.path}: deployment.manifests: the provider {cluster.provider} runs no images; "
                "run it with PROVIDER=kind, or describe the candidate by deployment.processes"
            )
        deployed = InClusterDeployed(descriptor, cluster, logs)
    elif descriptor.webhooks.need == "required":
        raise ProviderError(
            f"{descriptor.path}: webhooks.need: required: no webhook reaches a process of this machine; "
            "describe the candidate by deployment.manifests, or without webhooks"
        )
    else:
        deployed = HostDeployed(descriptor, cluster, supervisor, workdir, logs, through)
    deployed.start()
    return deployed
