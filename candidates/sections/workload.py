"""How Pods, gangs and nodes must look for a candidate."""

from typing import Annotated, Any, Literal

from pydantic import Field

from candidates.patch import Json
from candidates.sections.policies import Outcome
from candidates.sections.values import Duration, FieldPath, Model, ObjectName, Quantity, Resource, Text


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
