"""What is tested: the description of a scheduler, and how it is deployed."""

from candidates.building import build, unbuilt
from candidates.deploy import deploy
from candidates.deployed import Deployed, DeployError, ScrapeError
from candidates.descriptor import Descriptor, Gang
from candidates.document import DescriptorError
from candidates.host import HostDeployed, directly
from candidates.incluster import InClusterDeployed
from candidates.loopback import Unreachable
from candidates.reading import load
from candidates.sections.deployment import DEFAULT_SCHEDULER, ProcessSection
from candidates.sections.observe import Cause, Metric
from candidates.sections.team import Deviation

__all__ = [
    "DEFAULT_SCHEDULER",
    "Cause",
    "DeployError",
    "Deployed",
    "Descriptor",
    "DescriptorError",
    "Deviation",
    "Gang",
    "HostDeployed",
    "InClusterDeployed",
    "Metric",
    "ProcessSection",
    "ScrapeError",
    "Unreachable",
    "build",
    "deploy",
    "directly",
    "load",
    "unbuilt",
]
