"""Who answers for a candidate, and for which known violations."""

import datetime as dt

from candidates.sections.values import Model, Name, RequirementId, Text


class IdentitySection(Model):
    """Who made what; stands on the sign-off page."""

    name: Name
    """Short name, in the way of a DNS label. Part of the names of its ServiceAccounts."""
    version: Text
    """Version under test. `$(kubernetes.version)` where the candidate is the stock kube-scheduler."""
    organisation: Text
    """Team or organisation that answers for it."""
    contact: Text
    """Where questions about a finding go: an address, a channel, a page."""
    source: Text
    """Where its source or configuration is kept."""


class Deviation(Model):
    """A known violation that the team answers for."""

    id: RequirementId
    """Requirement that is not met, such as `OBS-9`."""
    reason: Text
    """Why it is acceptable."""
    owner: Text
    """Who answers for it."""
    expires: dt.date
    """Last day on which it counts."""
    link: Text
    """Where it is tracked."""
    saying: Text | None = None
    """Words of the failure's message: another failure of the requirement is not covered. Every one is, if left out."""
    intermittent: bool = False
    """Whether it shows in some runs only, such as a race: else its requirement fails where it passes again."""
