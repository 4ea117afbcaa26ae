"""What is tested: the description of a scheduler, and how it is deployed."""

from candidates.deploy import Deployed, DeployError, ScrapeError, deploy
from candidates.descriptor import Cause, Descriptor, Deviation, Gang, Metric
from candidates.document import DescriptorError
from candidates.reading import load

__all__ = [
    "Cause",
    "DeployError",
    "Deployed",
    "Descriptor",
    "DescriptorError",
    "Deviation",
    "Gang",
    "Metric",
    "ScrapeError",
    "deploy",
    "load",
]
