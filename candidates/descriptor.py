"""The model of a candidate: what a team writes down about its scheduler, in one YAML file.

The text under each field is its documentation, in the JSON schema too.
"""

import datetime as dt
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PrivateAttr,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from candidates import placeholders
from candidates.document import DescriptorError, Document
from candidates.patch import EVERY, Json, merged
from clusters.provider import ControlPlane


class Refused(ValueError):
    """A value that a validator refuses; `remedy` says what to write instead."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(wrong)
        self.remedy = remedy


DURATION = r"^(\d+(\.\d+)?(ms|s|m|h))+$"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NAME = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
QUANTITY = r"^\d+(\.\d+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
MOST_PORT = 65535


def seconds(duration: object) -> float:
    """Turn a duration of Kubernetes (`1m30s`, `500ms`) into seconds."""
    if not isinstance(duration, str) or not re.match(DURATION, duration):
        raise Refused(f"{duration!r} is no duration", "write a number with its unit, such as 500ms, 10s, 1m30s or 24h")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)(ms|s|m|h)", duration))


def _quantity(quantity: object) -> str:
    if isinstance(quantity, int) and not isinstance(quantity, bool) and quantity >= 0:
        return str(quantity)
    if not isinstance(quantity, str) or not re.match(QUANTITY, quantity):
        raise Refused(f"{quantity!r} is no quantity", "write one of Kubernetes, such as 8, 500m or 16Gi")
    return quantity


def _port(port: object) -> int | None:
    if port == "auto":
        return None
    if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= MOST_PORT:
        return port
    raise Refused(f"{port!r} is no port", "write auto, or a number where the program cannot be told its port")


def _endpoint_port(port: object) -> str | int:
    if isinstance(port, str) and re.match(NAME, port):
        return port
    if isinstance(port, int) and not isinstance(port, bool) and 0 < port <= MOST_PORT:
        return port
    raise Refused(f"{port!r} is no port", "write the name of a process's port, or the number of a container's")


def _image(text: str, info: ValidationInfo) -> str:
    return _file(text, info) if text.endswith(".tar") else text


def _figure(value: object) -> object:
    if isinstance(value, str | int | float):
        return value
    raise Refused(f"{value!r} is no single value", "write a number, a text, true or false")


def _signal(name: str) -> str:
    if name in signal.Signals.__members__:
        return name
    raise Refused(f"{name!r} is no signal", "write its name, such as SIGTERM or SIGINT")


def _regex(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise Refused(f"{text!r} is no regular expression: {error}", "mend it, or escape it with \\") from error
    return text


def _file(text: str, info: ValidationInfo) -> str:
    return inside(Path(info.context or "."), text)


def inside(folder: Path, text: str) -> str:
    """Return `text` if it is the path of a file in `folder` or below.

    Raises:
        Refused: it is not.
    """
    folder = folder.resolve()
    file = (folder / text).resolve()
    if not file.is_relative_to(folder):
        raise Refused(f"{text!r} lies outside the descriptor's folder", f"move the file into {folder} or below")
    if not file.is_file():
        raise Refused(f"there is no file {text!r} in {folder}", "make it, or correct the path")
    return text


@dataclass(frozen=True)
class Form:
    """The form of a text, for validation and schema; `remedy` says what to write."""

    pattern: str
    remedy: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        return {**handler(schema), "pattern": self.pattern}

    def _checked(self, text: str) -> str:
        if not re.search(self.pattern, text):
            raise Refused(f"{text!r} has the wrong form", self.remedy)
        return text


Text = Annotated[str, Form(r"\S", "write some text")]
Name = Annotated[str, Form(NAME, "write a-z, 0-9 and -, at most 40")]
ObjectName = Annotated[str, Form(r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", "write a-z, 0-9, - and .")]
FileName = Annotated[str, Form(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$", "write a plain file name, such as config.yaml")]
Variable = Annotated[str, Form(r"^[A-Za-z_][A-Za-z0-9_]*$", "write a name such as POD_NAMESPACE")]
Minor = Annotated[str, Form(r"^1\.\d{1,3}$", 'write the minor in quotes, such as "1.37"')]
RequirementId = Annotated[str, Form(r"^[A-Z]+-\d+$", "write the id of a requirement, such as OBS-9")]
Resource = Annotated[
    str,
    Form(
        r"^([a-z0-9.-]+/v[a-z0-9]+/)?[a-z0-9]+$",
        "write it as in its URL, such as scheduling.x-k8s.io/v1alpha1/podgroups",
    ),
]
Package = Annotated[str, Form(r"^\.(/[^\s/]+)*$", "write it as its path in the module, such as ./cmd/scheduler")]
ModFile = Annotated[str, Form(r"^[^/\s]+\.mod$", "write the name of a file beside go.mod, such as new.mod")]
FieldPath = Annotated[str, Form(r"^[A-Za-z]\w*(\.[A-Za-z]\w*)*$", "write names with dots, such as status.slots")]
UrlPath = Annotated[str, Form(r"^/\S*$", "write a path that begins with /, such as /metrics")]
File = Annotated[str, AfterValidator(_file)]
Duration = Annotated[float, BeforeValidator(seconds), WithJsonSchema({"type": "string", "pattern": DURATION})]
Quantity = Annotated[
    str,
    BeforeValidator(_quantity),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": QUANTITY}]}),
]
Port = Annotated[
    int | None,
    BeforeValidator(_port),
    WithJsonSchema({"anyOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": MOST_PORT}]}),
]
EndpointPort = Annotated[
    str | int,
    BeforeValidator(_endpoint_port),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "pattern": NAME}, {"type": "integer", "minimum": 1, "maximum": MOST_PORT}]}
    ),
]
Image = Annotated[Text, AfterValidator(_image)]
Figure = Annotated[
    str | int | float | bool,
    BeforeValidator(_figure),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
Regex = Annotated[str, AfterValidator(_regex)]
SignalName = Annotated[str, AfterValidator(_signal)]


class Model(BaseModel):
    """Base of every section: unknown keys are refused, nothing is converted, nothing changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, use_attribute_docstrings=True,
        allow_inf_nan=False,
    )  # fmt: skip


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


class ControlPlaneSection(Model):
    """What the control plane must switch on."""

    feature_gates: dict[Text, bool] = {}
    """Feature gates of the API server and the controller manager; `$(feature-gates)` hands them to a process."""
    runtime_config: dict[Text, bool] = {}
    """API versions to serve, such as `scheduling.k8s.io/v1beta1: true`."""


class SetupObject(Model):
    """One step of the setup: an object written here, or a file of objects."""

    object: Json | None = None
    """A Kubernetes object. Its placeholders are expanded."""
    file: File | None = None
    """A YAML file, of one or more objects, applied as it is: CRDs are full of `$(...)` that is none of ours."""


class Webhooks(Model):
    """Whether the candidate brings admission webhooks."""

    need: Literal["none", "optional", "required"] = "none"
    """`required` needs `deployment.manifests`: no webhook reaches a host process."""
    disabled_by: Text | None = None
    """What switches optional ones off, in words; the switch itself belongs into `args` or `env`."""


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


class Readiness(Model):
    """What must answer before the process counts as ready."""

    scheme: Literal["https", "http", "tcp"] = "https"
    """`tcp` is satisfied by a listening port."""
    port: Name
    """Name of one of this process's ports."""
    path: UrlPath = "/readyz"
    """Path that answers 200 when ready."""
    timeout: Duration = 60.0
    """How long it may take."""


class Stop(Model):
    """How the process is asked to end."""

    signal: SignalName = "SIGTERM"
    """Signal that asks."""
    grace: Duration = 10.0
    """How long it may take; then it is killed."""


class Role(Model):
    """A role that the process's ServiceAccount is bound to."""

    kind: Literal["ClusterRole", "Role"]
    """`Role` binds in one namespace, `ClusterRole` everywhere."""
    name: Text
    """Name of the role."""
    namespace: ObjectName | None = None
    """Namespace of a `Role`."""


SCHEDULER_ROLES = (
    Role(kind="ClusterRole", name="system:kube-scheduler"),
    Role(kind="ClusterRole", name="system:volume-scheduler"),
    Role(kind="ClusterRole", name="system:auth-delegator"),
    Role(kind="Role", name="extension-apiserver-authentication-reader", namespace="kube-system"),
)


class Lease(Model):
    """The Lease object that instances compete for."""

    namespace: ObjectName
    """Namespace of the Lease."""
    name: ObjectName
    """Name of the Lease."""


class ShortLease(Model):
    """Shorter timers of the leader election, for scenarios alone: what they wait for is then soon over."""

    args: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Arguments that, appended after `switch`, set them."""
    lease_duration: Duration
    """As in `leaderElection`."""
    renew_deadline: Duration
    """As in `leaderElection`."""
    retry_period: Duration
    """As in `leaderElection`."""
    reason: Text
    """Why what is shown with them holds with the timers of production too."""


class LeaderElection(Model):
    """How several instances of one process agree."""

    enabled: bool = False
    """Whether the process elects with `args` as they stand."""
    switch: tuple[Text, ...] = ()
    """Arguments that, appended to `args`, turn the election on for scenarios with several instances."""
    lease: Lease
    """What they compete for."""
    lease_duration: Duration = 15.0
    """After this time without renewal others may take over."""
    renew_deadline: Duration = 10.0
    """After this time without a successful renewal the leader gives up."""
    retry_period: Duration = 2.0
    """Time between two tries."""
    on_loss: Literal["exit", "standby"] = "exit"
    """What losing the lease does: ends the process (kube-scheduler), or makes it wait again."""
    short: ShortLease | None = None
    """Timers that scenarios may use instead; without it they wait for those of production."""

    def shortened(self) -> "LeaderElection":
        """Return it with the timers that scenarios use, their arguments appended to `switch`."""
        if self.short is None:
            return self
        timers = {each: getattr(self.short, each) for each in ("lease_duration", "renew_deadline", "retry_period")}
        return self.model_copy(update=timers | {"switch": (*self.switch, *self.short.args)})


class RenderedFile(Model):
    """A file that is written into the process's private folder before its start."""

    content: str | None = None
    """The text itself, placeholders expanded."""
    source: File | None = None
    """A file to take the text from, placeholders expanded."""


class ProcessSection(Model):
    """One program on this machine."""

    name: Name
    """Name of the process, unique in this file."""
    command: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Program and its first arguments: `[$(component:kube-scheduler)]`, `[$(folder)/bin/mine]`, `[python3, ...]`."""
    args: tuple[str, ...] = ()
    """Further arguments. No shell looks at them."""
    env: dict[Variable, str] = {}
    """Environment, beside PATH and a HOME in the private folder. Nothing else is inherited."""
    working_dir: Text = "$(workdir)"
    """Folder that the process starts in."""
    files: dict[FileName, RenderedFile] = {}
    """Files by name: `$(file:NAME)` is the path."""
    ports: dict[Name, Port] = {}
    """Ports by a name that is unique in this file: `auto`, or a number where the program cannot be told."""
    readiness: Readiness | None = None
    """Without it the process counts as ready when it is still alive after `warmUp`."""
    warm_up: Duration = 0.0
    """How long it needs after it is ready before it works as it should."""
    required: bool = True
    """Whether the candidate is broken without it."""
    stop: Stop = Stop()
    """How it is ended."""
    roles: tuple[Role, ...] = SCHEDULER_ROLES
    """Rights of its ServiceAccount. Roles of its own belong into `setup`."""
    leader_election: LeaderElection | None = None
    """Without it the process knows no leader election."""
    version_args: tuple[Text, ...] = ()
    """Arguments that make the program print its version, such as `[--version]`; compared with `identity.version`."""


class SchedulerWorkload(Model):
    """One workload of the manifests."""

    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Pod"]
    """Its kind."""
    name: ObjectName
    """Its name."""


class Manifests(Model):
    """What to apply to a cluster that runs images."""

    files: Annotated[tuple[File, ...], Field(min_length=1)]
    """YAML files, applied as they are: what `helm template` prints will do. Hooks of Helm are left out."""
    namespace: ObjectName = "default"
    """Namespace of objects that name none; made if no file holds it."""
    images: tuple[Image, ...] = ()
    """Images to load into the nodes: a file as `docker save` writes it (`*.tar`), or a name that docker knows."""
    scheduler: SchedulerWorkload | None = None
    """The workload that binds Pods and answers on the endpoints, where the files hold more than one."""
    lease: Lease | None = None
    """The Lease of its leader election; needed with several replicas, since the leader alone is asked."""
    timeout: Duration = 120.0
    """How long it may take until every workload is ready."""


class Deployment(Model):
    """How the candidate is brought up: as host processes, or inside the cluster."""

    processes: tuple[ProcessSection, ...] = ()
    """Started in this order, each when the one before is ready; stopped in the reverse order."""
    manifests: Manifests | None = None
    """In place of processes: what to apply to a cluster that runs images."""
    binder: Name | None = None
    """The process that binds Pods, where that is not the first: an extender, a separate binder."""

    @property
    def binding(self) -> ProcessSection:
        """The process that binds Pods; there must be processes."""
        return next((each for each in self.processes if each.name == self.binder), self.processes[0])


class BuildSection(Model):
    """A Go program, built from source before the run: once, and kept in the cache outside the checkout."""

    folder: Text = "."
    """Folder of the module, with its `go.mod`: that of the descriptor or one below."""
    package: Package
    """Package of the program as its path in the module: `./cmd/scheduler`."""
    modfile: ModFile | None = None
    """Pins in place of `go.mod`, with the sums beside them: `kubernetes-$(kubernetes.minor).mod`."""
    tags: tuple[Text, ...] = ()
    """Build tags, such as `kubernetes$(kubernetes.minor)`."""


MetricMeaning = Literal["attempts", "pending", "retries", "assumed", "ledger"]


class Metric(Model):
    """One time series."""

    name: Text
    """Name of the metric."""
    labels: dict[Text, str] = {}
    """Labels that select it."""


DEFAULT_SCHEDULER = "default-scheduler"
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


Outcome = Literal["requeue", "fail", "evict-and-requeue", "evict-survivors"]


class GangTimeout(Model):
    """What ends the wait for missing members."""

    set_by: Literal["group", "config"]
    """`group`: each gang says it (`$(gang.timeout)` in its template); `config`: one value for all."""
    value: Duration
    """The value in force, or the one used where a gang says none."""
    minimum: Duration = 1.0
    """Shortest value that the candidate honours."""
    outcome: Outcome
    """What becomes of the members then."""


class GangCondition(Model):
    """A condition on the gang object."""

    type: Text
    """Type of the condition."""
    status: Literal["True", "False"] = "True"
    """Status that says so."""
    once: bool = False
    """Whether it says that it was so once, and stays when members leave; otherwise it must not outlast that."""


class GangSection(Model):
    """How Pods ask to run together."""

    object: Json | None = None
    """Template of the gang object; none where the Pods carry everything."""
    resource: Resource | None = None
    """The object's resource as in its URL: `scheduling.x-k8s.io/v1alpha1/podgroups`. Five groups call it podgroups."""
    pod: Json
    """Patch that makes a Pod a member: a label, an annotation, a spec field."""
    timeout: GangTimeout | None = None
    """Without it members wait for ever."""
    bind_window: Duration = 5.0
    """Within this time after the first member all are bound: only longer partial states are findings."""
    bind_failure: Literal["whole", "undone", "retried-member"] | None = None
    """What follows when the binding of one member fails after all were allowed. `whole`: none is bound as long as one
    cannot be. `undone`: those that are bound are deleted, and the gang is tried again once its Pods were made anew.
    `retried-member`: the others stay bound, and the member is tried again by itself."""
    scheduled: GangCondition | None = None
    """Condition by which the candidate reports the gang as scheduled."""
    started: GangCondition | None = None
    """Condition by which it reports that every member runs."""


class PublishedSlots(Model):
    """Where a controller publishes how many slots a node has: one object a node, of the node's name."""

    resource: Resource
    """The object's resource as in its URL: `network.example.com/v1/networkcapacities`."""
    field: FieldPath
    """Field that holds the number: `status.slots`."""


class SlotOwners(Model):
    """Where it stands who owns the slots of a node: one object a node, of the node's name."""

    resource: Resource
    """The object's resource as in its URL: `network.example.com/v1/networkallocations`."""
    list: FieldPath
    """Field that holds a list of owners: `spec.owners`."""
    uid: FieldPath
    """Field of an owner that holds the UID of its Pod: `uid`."""
    amount: FieldPath
    """Field of an owner that holds how many slots it has: `slots`."""


class SlotsSection(Model):
    """How Pods ask for slots of a node, such as those of its network, and how a node comes by them."""

    pod: Json
    """Patch by which a Pod asks for `$(slots)` of them."""
    node: Json
    """Patch that gives a node `$(slots)` of them: what its hardware says, before any controller publishes it."""
    per_node: Annotated[int, Field(ge=0)] = 16
    """Slots of a node where a scenario asks for no number."""
    published: PublishedSlots | None = None
    """Where they are published for the scheduler."""
    owners: SlotOwners | None = None
    """Where their owners are written down."""


class DevicesSection(Model):
    """GPUs as devices of the Kubernetes API (DRA), in place of extended resources. `gpu` is what they are counted in.

    The suite publishes the ResourceSlice of each node; the DeviceClass belongs into `setup`.
    """

    driver: ObjectName
    """Driver that the ResourceSlices name."""
    claim: Json
    """Template of the object that is created before a Pod which asks for `$(gpus)` GPUs."""
    resource: Resource = "resource.k8s.io/v1/resourceclaimtemplates"
    """The object's resource as in its URL."""
    pod: Json
    """Patch by which the Pod then names it."""
    together: Json | None = None
    """Patch of `claim` that wants all of them in one domain, such as that of NVLink."""
    attributes: dict[Text, dict[Text, Any]] = {}
    """Attributes of each published device, as the API has them: `nvlink: {string: $(node.name)-$(device.domain)}`."""
    per_domain: Annotated[int, Field(ge=1)] = 4
    """GPUs of one domain."""


class HardNodeLabel(Model):
    """The hard condition under test: only nodes with this label may run the Pod."""

    key: Text = "infra.example.com/high-speed-network"
    """Key of the node label."""
    value: str = "true"
    """Its value, compared exactly."""
    pod: Json | None = None
    """Patch by which a Pod asks for it. Without it: required node affinity; `{}`: the platform enforces it unasked."""


class NodeSection(Model):
    """What the candidate expects of a node beside its GPUs: the part of a device plugin or a node agent."""

    labels: dict[Text, str] = {}
    """Labels."""
    annotations: dict[Text, str] = {}
    """Annotations."""
    capacity: dict[Text, Quantity] = {}
    """Further capacity, the same on every node."""
    refresh: Duration | None = None
    """Write labels and annotations again in this period (`$(time:...)` is then new)."""


class Workload(Model):
    """How Pods and nodes must look for this candidate."""

    kinds: Annotated[tuple[Literal["Pod", "Job", "Deployment"], ...], Field(min_length=1)] = (
        "Pod", "Job", "Deployment",
    )  # fmt: skip
    """Kinds of workload that it serves."""
    pod: Json = {}
    """Patch for every Pod, or Pod template. In `containers`, the name `"*"` stands for each container."""
    job: Json = {}
    """Patch for every Job: a queue label, `suspend: true`."""
    node: NodeSection = NodeSection()
    """What every node gets."""
    gpu: Annotated[dict[Text, Annotated[int, Field(gt=0)]], Field(min_length=1)] = {"nvidia.com/gpu": 1}
    """Extended resources of one whole card, in a Pod's limits and in a node's capacity alike."""
    hard_node_label: HardNodeLabel = HardNodeLabel()
    """The hard condition and how a Pod asks for it."""
    gang: GangSection | None = None
    """How a gang is asked for; needs the claim `gang` to be tested."""
    slots: SlotsSection | None = None
    """How slots are asked for; needs the claim `slots` to be tested."""
    devices: DevicesSection | None = None
    """How GPUs are asked for where they are devices; needs the claim `dra` to be tested."""
    auxiliary_pods: dict[Text, str] = {}
    """Labels of Pods that the candidate makes for itself (placeholders, reservations) and that no scenario counts."""


class Backoff(Model):
    """Wait before a Pod is tried again."""

    initial: Duration = 1.0
    """After the first failure; doubled by each further one."""
    max: Duration = 10.0
    """Longest wait."""


class PermitPolicy(Model):
    """The wait at Permit."""

    timeout: Duration
    """How long a Pod may wait."""
    outcome: Outcome
    """What becomes of it then."""


class Answers(Model):
    """Answers of a dependency that are well-formed and of no use, as bodies of its HTTP protocol."""

    wrong_node: Text | None = None
    """Body of an answer that names a node which nobody has asked about."""
    empty: Text | None = None
    """Body of an answer in which no node passes."""


class Dependency(Model):
    """Something outside the scheduler that its decisions need."""

    process: Name | None = None
    """The process that is the dependency, where the candidate brings it."""
    address: Text | None = None
    """`host:port` where it answers plain HTTP, such as `127.0.0.1:$(port:extender)`. A process that is told it as
    `$(dependency:NAME)` can be cut off from it: the suite then stands in between."""
    on_failure: Literal["closed", "degrade"]
    """`closed`: Pods that need it wait; `degrade`: Pods that need it go on without."""
    pod: Json | None = None
    """Patch by which a Pod comes to need it. Without it, Pods with GPUs and the hard condition do."""
    binds: bool = False
    """Whether it is asked to bind Pods: then every Pod needs it."""
    degraded: Regex | None = None
    """With `degrade`: what a log, an event or a condition says of a Pod that went on without it."""
    answers: Answers = Answers()
    """What it could answer wrongly; without an `address` nothing."""
    max_age: Duration | None = None
    """Oldest snapshot that is still trusted."""


class Policies(Model):
    """Declared timers and policies. What /configz serves is read there, and compared with these."""

    backoff: Backoff | None = None
    """Wait before a Pod is tried again."""
    unschedulable_flush: Duration | None = None
    """Period after which waiting Pods are tried again without cause: keep it out of reach, it hides lost wake-ups."""
    permit: PermitPolicy | None = None
    """The wait at Permit."""
    bind_retries: Annotated[int, Field(ge=0, le=10)] | None = None
    """Binding requests that may follow a failed one for the same attempt."""
    extender_timeout: Duration | None = None
    """How long an answer of an extender is waited for."""
    dependencies: dict[Name, Dependency] = {}
    """What must be there for decisions to be made."""


class Baseline(Model):
    """What to go back to."""

    scheduler_name: ObjectName = DEFAULT_SCHEDULER
    """Scheduler that takes over when the candidate is withdrawn."""
    descriptor: File | None = None
    """Descriptor of the previous version or configuration."""


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


@dataclass(frozen=True)
class Gang:
    """One gang of a scenario; `timeout` in seconds."""

    name: str
    namespace: str
    min_member: int
    timeout: float = 60.0


class Descriptor(Model):
    """A scheduler under test. Read it with `candidates.load`."""

    api_version: Literal["unreserve/v1"]
    """Version of this format."""
    kind: Literal["Candidate"]
    """Always `Candidate`."""
    identity: IdentitySection
    """Who made what."""
    scheduler_names: Annotated[tuple[ObjectName, ...], Field(min_length=1)]
    """Values of `spec.schedulerName` that it serves; workloads use the first."""
    mode: Literal["own-process", "profile-of-default"] = "own-process"
    """A scheduler beside the default one, or a further profile in the default scheduler's process."""
    kubernetes_versions: Annotated[tuple[Minor, ...], Field(min_length=1)]
    """Kubernetes minors that it is made for, in quotes: `["1.36", "1.37"]`."""
    per_version: dict[Minor, dict[str, Any]] = {}
    """For a minor, any part of this file that is different there: mappings merge, `null` removes, the rest replaces."""
    deployment: Deployment
    """How it is brought up."""
    build: dict[Name, BuildSection] = {}
    """Go programs to build before the run, by name: `$(built:NAME)` is the path of one."""
    control_plane: ControlPlaneSection = ControlPlaneSection()
    """What the control plane must switch on."""
    setup: tuple[SetupObject, ...] = ()
    """Objects applied before the start, in order: CRDs, namespaces, queues, roles."""
    webhooks: Webhooks = Webhooks()
    """Whether it brings admission webhooks."""
    replicas: Annotated[int, Field(ge=1)] = 1
    """Instances that run side by side in production. A scenario that needs a second one starts it itself."""
    observe: Observe = Observe()
    """What can be read from it while it runs."""
    signals: Signals = Signals()
    """What it says about Pods in the API."""
    claims: dict[Name, dict[Text, Figure]] = {}
    """Features it claims, by the names of the requirement catalogue, with the figures they are judged by."""
    workload: Workload = Workload()
    """How Pods and nodes must look for it."""
    policies: Policies = Policies()
    """Timers and policies."""
    baseline: Baseline = Baseline()
    """What to go back to."""
    deviations: tuple[Deviation, ...] = ()
    """Known violations that the team answers for."""

    _document: Document = PrivateAttr()
    _minors: dict[str, "Descriptor"] = PrivateAttr(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file it was read from."""
        return self._document.file

    @property
    def folder(self) -> Path:
        """Folder of that file; what it refers to lies there or below."""
        return self.path.resolve().parent

    @property
    def served(self) -> frozenset[str]:
        """Every schedulerName that the process serves, those of the default scheduler it is a profile of included."""
        shared = {self.baseline.scheduler_name} if self.mode == "profile-of-default" else set()
        return frozenset({*self.scheduler_names, *shared})

    @property
    def features(self) -> frozenset[str]:
        """Names of the features it claims."""
        return frozenset(self.claims)

    def with_processes(self, *processes: ProcessSection) -> "Descriptor":
        """Return the descriptor with these processes in place of its own."""
        return self.model_copy(update={"deployment": self.deployment.model_copy(update={"processes": processes})})

    def with_process(self, changed: ProcessSection) -> "Descriptor":
        """Return the descriptor with the process of this name changed."""
        return self.with_processes(*(changed if e.name == changed.name else e for e in self.deployment.processes))

    def require_kubernetes(self, version: str) -> "Descriptor":
        """Return the descriptor as it is for one Kubernetes version (`1.37` or `v1.37.2`), `perVersion` applied.

        Raises:
            DescriptorError: the candidate is not made for it.
        """
        minor = placeholders.minor(version)
        if minor not in self.kubernetes_versions:
            wrong = f"the candidate is made for {', '.join(self.kubernetes_versions)}, not for {minor}"
            remedy = f'run it with one of these, or add "{minor}" once it is made for it'
            raise DescriptorError([self._document.problem(("kubernetesVersions",), wrong, remedy)])
        return self._minors.get(minor, self)

    def switches(self) -> ControlPlane:
        """Return what the cluster's control plane must be created with."""
        alone = self.mode == "own-process" and DEFAULT_SCHEDULER not in self.scheduler_names
        gates, apis = self.control_plane.feature_gates, self.control_plane.runtime_config
        return ControlPlane(dict(gates), dict(apis), default_scheduler=alone)

    def metric(self, meaning: MetricMeaning) -> Metric | None:
        """Return the time series of a meaning; None where the candidate exposes none."""
        if not (exposed := self.observe.metrics):
            return None
        family = KUBE_SCHEDULER_METRICS if exposed.family == "kube-scheduler" else {}
        return exposed.names.get(meaning) or family.get(meaning)

    def metrics(self) -> list[Metric]:
        """Return the time series of every meaning that the candidate exposes."""
        found = [self.metric(meaning) for meaning in get_args(MetricMeaning)]
        return [metric for metric in found if metric]

    def cause(self, cause: Cause) -> str:
        """Return the regular expression that the reason for waiting matches if this cause is among its reasons."""
        gpus = "|".join(re.escape(resource) for resource in self.workload.gpu)
        stock = KUBE_SCHEDULER_CAUSES.get(cause, NO_CAUSE)
        return self.signals.causes.get(cause) or stock.format(gpus=gpus)

    def gpus(self, cards: int) -> dict[str, str]:
        """Return the extended resources of a number of whole cards, for limits and for capacity."""
        return {resource: str(amount * cards) for resource, amount in self.workload.gpu.items()}

    def pod(
        self, manifest: Json, *, hard: bool = True, gang: Gang | None = None, slots: int | None = None,
        needs: str | None = None,
    ) -> Json:  # fmt: skip
        """Return a Pod, or a Pod template, as this candidate wants it.

        It gets the first schedulerName unless it has one, the Pod patch, with `hard` the hard condition, with `gang`
        the mark of a member, with `slots` (0 included) what asks for so many, and with `needs` what makes it need that
        dependency.

        Raises:
            ValueError: a gang, or slots, are asked of a candidate that has none.
        """
        metadata = manifest.get("metadata", {})
        names = {
            "pod.name": metadata.get("name") or metadata.get("generateName", "pod"),
            "pod.namespace": metadata.get("namespace", "default"),
        }
        result = merged({"spec": {"schedulerName": self.scheduler_names[0]}}, manifest)
        result = merged(result, self._expanded(self.workload.pod, names))
        if hard:
            label = self.workload.hard_node_label
            asked = _required(label) if label.pod is None else self._expanded(label.pod, names)
            result = merged(result, asked)
        if gang:
            result = merged(result, self._expanded(self._gang().pod, _gang_names(gang)))
        if slots is not None:
            result = merged(result, self._expanded(self._slots().pod, names | {"slots": str(slots)}))
        if needs and (asked_for := self.policies.dependencies[needs].pod):
            result = merged(result, self._expanded(asked_for, names))
        return result

    def by_claim(self, manifest: Json, cards: int, *, together: bool = False) -> tuple[Json, Json]:
        """Return a Pod that asks for cards as devices in place of extended resources, and what is created before it.

        With `together` all of them are to be in one domain.

        Raises:
            ValueError: the candidate has no devices, or no word for a domain.
        """
        words = self.workload.devices
        if words is None or (together and words.together is None):
            raise ValueError(f"{self.path}: workload.devices: the candidate describes no such devices")
        names = {"pod.name": manifest["metadata"]["name"], "pod.namespace": manifest["metadata"].get("namespace", "")}
        claim = self._expanded(words.claim, names | {"gpus": cards})
        if together:
            claim = merged(claim, self._expanded(words.together or {}, names | {"gpus": cards}))
        without = dict.fromkeys(self.workload.gpu)
        rest = {"name": EVERY, "resources": {"requests": without, "limits": without}}
        pod = merged(manifest, {"spec": {"containers": [rest], "initContainers": [rest]}})
        return merged(pod, self._expanded(words.pod, names | {"gpus": cards})), claim

    def device(self, node: str, number: int) -> Json:
        """Return a device of a node as its ResourceSlice lists it.

        Raises:
            ValueError: the candidate has no devices.
        """
        words = self.workload.devices
        if words is None:
            raise ValueError(f"{self.path}: workload.devices: the candidate describes no devices")
        names: dict[str, str | int] = {"node.name": node, "device": number, "device.domain": number // words.per_domain}
        attributes: Json = self._expanded(words.attributes, names)
        return {"name": f"gpu-{number}", "attributes": attributes}

    def job(self, manifest: Json, *, hard: bool = True) -> Json:
        """Return a Job as this candidate wants it, its Pod template included."""
        template = self.pod(manifest["spec"]["template"], hard=hard)
        names = {"job.name": manifest["metadata"]["name"]}
        job = self._expanded(self.workload.job, names)
        return merged({**manifest, "spec": {**manifest["spec"], "template": template}}, job)

    def node(self, manifest: Json, *, gpus: int = 0, slots: int | None = None) -> Json:
        """Return a node as this candidate wants it: its cards, slots, further capacity, labels and annotations.

        What is added to the capacity is added to the allocatable too, where the manifest has one. Without `slots` it
        gets `workload.slots.perNode`, where the candidate has slots.

        Raises:
            ValueError: slots are asked of a candidate that has none.
        """
        wanted = self.workload.node
        capacity = dict(wanted.capacity) | (self.gpus(gpus) if gpus and not self.workload.devices else {})
        patch: Json = {"metadata": {"labels": dict(wanted.labels), "annotations": dict(wanted.annotations)}}
        names = {"node.name": manifest["metadata"]["name"], "node.gpus": gpus}
        patch = self._expanded(patch, names)
        # The API server takes allocatable from capacity only where there is none at all.
        patch["status"] = {key: capacity for key in ("capacity", "allocatable") if key in manifest.get("status", {})}
        if capacity:
            patch["status"]["capacity"] = capacity
        result = merged(manifest, patch)
        if slots is None and self.workload.slots:
            slots = self.workload.slots.per_node
        return result if slots is None else merged(result, self.node_slots(slots))

    def node_slots(self, slots: int) -> Json:
        """Return the patch that gives a node a number of slots.

        Raises:
            ValueError: the candidate has no slots.
        """
        return self._expanded(self._slots().node, {"slots": str(slots)})

    def gang_object(self, gang: Gang) -> Json | None:
        """Return the gang object to create before the members; None where the Pods carry everything.

        Raises:
            ValueError: the candidate has no gangs.
        """
        template = self._gang().object
        return None if template is None else self._expanded(template, _gang_names(gang))

    def _gang(self) -> GangSection:
        if self.workload.gang is None:
            raise ValueError(f"{self.path}: workload.gang: the candidate describes no gang")
        return self.workload.gang

    def _slots(self) -> SlotsSection:
        if self.workload.slots is None:
            raise ValueError(f"{self.path}: workload.slots: the candidate describes no slots")
        return self.workload.slots

    def _expanded(self, patch: Json, names: Mapping[str, str | int]) -> Json:
        known = {"scheduler-name": self.scheduler_names[0], **names}

        def value(placeholder: str) -> str | int:
            kind, _, argument = placeholder.partition(":")
            return time.strftime(argument, time.gmtime()) if kind == "time" else known[placeholder]

        expanded: Json = placeholders.expand_all(patch, value)
        return expanded


def _required(label: HardNodeLabel) -> Json:
    """Return the patch that asks for a node label by required node affinity."""
    term = {"matchExpressions": [{"key": label.key, "operator": "In", "values": [label.value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"spec": {"affinity": {"nodeAffinity": required}}}


def _gang_names(gang: Gang) -> dict[str, str | int]:
    return {
        "gang.name": gang.name,
        "gang.namespace": gang.namespace,
        "gang.min-member": gang.min_member,
        "gang.timeout": f"{gang.timeout:g}s",
        "gang.timeout-seconds": round(gang.timeout),
    }


def schema() -> Json:
    """Return the JSON schema of the descriptor format."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Descriptor.model_json_schema()}
