"""Kubernetes manifests as people and Helm write them: read, put in order, and asked for their Pods."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from candidates import document
from candidates.document import Document, Loc, Problem
from candidates.patch import Json
from candidates.sections.deployment import SchedulerWorkload

HOOK = "helm.sh/hook"
CRD = "CustomResourceDefinition"

# What runs Pods, by group and kind, with its plural.
WORKLOADS = {
    ("", "Pod"): "pods",
    ("apps", "DaemonSet"): "daemonsets",
    ("apps", "Deployment"): "deployments",
    ("apps", "ReplicaSet"): "replicasets",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "Job"): "jobs",
}
# In this order objects are applied; what is not named comes just before the workloads.
FIRST = (
    ("Namespace",),
    (CRD,),
    ("ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    ("ConfigMap", "Secret"),
    ("Service",),
)
# What calls into the Pods: without them it would refuse everything, so it comes last and goes with them.
LAST = {
    "APIService": "apiservices",
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


@dataclass(frozen=True)
class Manifest:
    """One object, and where it is written."""

    data: Json
    source: Document
    loc: Loc

    def __str__(self) -> str:
        return f"{self.kind} {self.data['metadata']['name']}"

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.data["kind"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.data["metadata"]["name"])

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.source.file}:{self.source.lines[self.loc]}"

    @property
    def hook(self) -> str:
        """When Helm would run it; empty for what is no hook."""
        return str((self.data["metadata"].get("annotations") or {}).get(HOOK, ""))

    @property
    def plural(self) -> str | None:
        """Plural of a workload's kind; None for anything else."""
        group, _, _ = str(self.data["apiVersion"]).rpartition("/")
        return WORKLOADS.get((group, self.kind))

    @property
    def resource(self) -> str:
        """Resource as in its URL, of a workload or of what comes last."""
        version = self.data["apiVersion"]
        plural = self.plural or LAST[self.kind]
        return plural if version == "v1" else f"{version}/{plural}"

    @property
    def rank(self) -> int:
        """Place in the order of applying."""
        if self.plural:
            return len(FIRST) + 1
        if self.kind in LAST:
            return len(FIRST) + 2
        return next((rank for rank, kinds in enumerate(FIRST) if self.kind in kinds), len(FIRST))

    @property
    def ends(self) -> bool:
        """Whether it goes when the candidate is stopped."""
        return self.plural is not None or self.kind in LAST

    @property
    def replicas(self) -> int:
        """How many Pods a workload asks for, as far as it says."""
        return int(self.data.get("spec", {}).get("replicas") or 1)

    @property
    def template(self) -> Json:
        """`metadata` and `spec` of a workload's Pods."""
        found: Json = self.data if self.kind == "Pod" else self.data["spec"]["template"]
        return found

    def problem(self, wrong: str, remedy: str) -> Problem:
        """Return a problem with it."""
        return self.source.problem(self.loc, wrong, remedy)


def read(file: Path) -> Iterator[Manifest]:
    """Yield every object of a file, those of a List one by one, hooks included. Nothing of them is checked.

    Raises:
        DescriptorError: no such file, or no YAML.
    """
    for source in document.read_manifests(file):
        yield from _unpacked(Manifest(source.data, source, ()))


def _unpacked(manifest: Manifest) -> Iterator[Manifest]:
    data = manifest.data
    kind = data.get("kind") if isinstance(data, dict) else None
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(data.get("items"), list)):
        yield manifest
        return
    # The items of a typed list carry neither kind nor apiVersion.
    inherited = {} if kind == "List" else {"apiVersion": data.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(data["items"]):
        whole = inherited | item if isinstance(item, dict) else item
        yield from _unpacked(Manifest(whole, manifest.source, (*manifest.loc, "items", index)))


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return them in the order of applying; equals stay as they are written."""
    return sorted(manifests, key=lambda manifest: manifest.rank)


def scheduler_of(manifests: Iterable[Manifest], named: SchedulerWorkload | None) -> Manifest | None:
    """Return the workload that is the scheduler: the one named, or the only one that is not a Job."""
    able = [each for each in manifests if each.plural and each.kind != "Job"]
    if named:
        able = [each for each in able if (each.kind, each.name) == (named.kind, named.name)]
    return able[0] if len(able) == 1 else None
