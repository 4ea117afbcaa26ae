"""What a candidate shows: its endpoints, its metrics, what it says about Pods."""

from collections.abc import Mapping
from typing import Literal

from candidates.sections.values import EndpointPort, Model, Regex, Text, UrlPath


class Endpoint(Model):
    """Where a process answers on the loopback interface, or a container on its port."""

    scheme: Literal["https", "http"] = "https"
    """Self-signed certificates are taken as they are: the process was started by the suite itself."""
    port: EndpointPort
    """Name of a port, from `ports` of any process; with `deployment.manifests` the number of a container's port."""
    path: UrlPath
    """Path of the URL."""
    auth: Literal["none", "token"] = "none"
    """`token` sends a ServiceAccount token that may read /metrics and /configz; not possible with manifests."""


MetricMeaning = Literal["attempts", "pending", "retries", "assumed", "ledger"]


class Metric(Model):
    """One time series."""

    name: Text
    """Name of the metric."""
    labels: dict[Text, str] = {}
    """Labels that select it."""


# What every build of kube-scheduler exposes, in all supported minors.
KUBE_SCHEDULER_METRICS: Mapping[MetricMeaning, Metric] = {
    "attempts": Metric(name="scheduler_schedule_attempts_total"),
    "pending": Metric(name="scheduler_pending_pods"),
    "retries": Metric(name="scheduler_queue_incoming_pods_total", labels={"event": "ScheduleAttemptFailure"}),
    "assumed": Metric(name="scheduler_cache_size", labels={"type": "assumed_pods"}),
}


class Metrics(Endpoint):
    """The metrics endpoint and the names on it."""

    path: UrlPath = "/metrics"
    """Path of the URL."""
    family: Literal["kube-scheduler", "own"] = "own"
    """`kube-scheduler`: the candidate is a build of it and exposes all its metrics."""
    names: dict[MetricMeaning, Metric] = {}
    """What stands for scheduling attempts, pending Pods, retries, assumed Pods and the candidate's own ledger."""


class Observe(Model):
    """What can be read from the running candidate."""

    metrics: Metrics | None = None
    """Without it attempts cannot be counted, and what rests on their count is inconclusive."""
    config: Endpoint | None = None
    """Where it serves its effective configuration as JSON: /configz of kube-scheduler."""
    health: tuple[Endpoint, ...] = ()
    """Health endpoints. Each must answer 200 while nothing is broken; what they answer otherwise is recorded."""


Cause = Literal["network", "gpu", "taint", "slots"]

# What kube-scheduler writes into the PodScheduled condition, in all supported minors.
KUBE_SCHEDULER_CAUSES: Mapping[Cause, str] = {
    "network": r"didn't match Pod's node affinity/selector",
    "gpu": r"Insufficient ({gpus})",
    "taint": r"untolerated taint",
}
# What no text matches: a cause that kube-scheduler does not know, and the descriptor does not name.
NO_CAUSE = r"(?!)"


class Signals(Model):
    """What the candidate says about Pods in the API."""

    unschedulable_reasons: tuple[Text, ...] = ("FailedScheduling",)
    """Event reasons on a Pod that could not be scheduled."""
    group_unschedulable_reasons: tuple[Text, ...] = ()
    """Event reasons on a gang object."""
    event_api: Literal["events.k8s.io/v1", "v1"] = "events.k8s.io/v1"
    """Where its events are written: series in events.k8s.io, counts in core."""
    pod_condition: bool = True
    """Whether a Pod that could not be scheduled gets PodScheduled=False."""
    success_reasons: tuple[Text, ...] = ("Scheduled",)
    """Event reasons that announce a binding."""
    premature_reasons: tuple[Text, ...] = ()
    """Event reasons that sound like success and come before the binding: never taken as evidence."""
    causes: dict[Cause, Regex] = {}
    """Regular expressions for what the reason for waiting says of each cause, if it is not what kube-scheduler says."""
