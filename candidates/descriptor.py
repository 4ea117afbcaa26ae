"""The model of a candidate: what a team writes down about its scheduler, in one YAML file.

Its sections stand in `candidates/sections`. The text under each field is its documentation, in the JSON schema too.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, PrivateAttr

from candidates import placeholders
from candidates.document import DescriptorError, Document
from candidates.patch import EVERY, Json, merged
from candidates.sections.deployment import (
    DEFAULT_SCHEDULER,
    Baseline,
    BuildSection,
    ControlPlaneSection,
    Deployment,
    ProcessSection,
    SetupObject,
    Webhooks,
)
from candidates.sections.observe import (
    KUBE_SCHEDULER_CAUSES,
    KUBE_SCHEDULER_METRICS,
    NO_CAUSE,
    Cause,
    Metric,
    MetricMeaning,
    Observe,
    Signals,
)
from candidates.sections.policies import Policies
from candidates.sections.team import Deviation, IdentitySection
from candidates.sections.values import Figure, Minor, Model, Name, ObjectName, Text
from candidates.sections.workload import GangSection, HardNodeLabel, SlotsSection, Workload
from clusters.provider import ControlPlane


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
