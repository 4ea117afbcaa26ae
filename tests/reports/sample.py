"""A made-up run with histories as the timeline writes them: the same files every time, and no cluster needed."""

import copy
import json
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from reports.record import (
    Candidate,
    Deviation,
    DeviationState,
    Finding,
    Machine,
    Measurement,
    Record,
    RecordWriter,
    Requirement,
    Scenario,
    Step,
    Suite,
    Verdict,
    Witness,
)

START = datetime(2026, 11, 30, 9, 14, 2, 118000, tzinfo=UTC)
LABEL = "infra.example.com/high-speed-network"
CANDIDATE = "system:serviceaccount:unreserve-system:gpu-packing"
RIVAL = "system:serviceaccount:unreserve-system:rival"
GPU = "nvidia.com/gpu"
NETWORK_RULE = (
    "0/{n} nodes are available: {n} node(s) didn't match Pod's node affinity/selector. preemption: not eligible."
)
NO_GPU = "0/{n} nodes are available: {n} Insufficient nvidia.com/gpu. preemption: 0/{n} nodes are available."
DENIED = (
    'running Bind plugin "DefaultBinder": pods "{pod}" is forbidden: ValidatingAdmissionPolicy '
    "'unreserve-deny-bind' denied request: unreserve: bind denied"
)
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: scheduler.kubeconfig
  qps: 50
leaderElection:
  leaderElect: false
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 10
profiles:
- schedulerName: gpu-packing
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - key: infra.example.com/high-speed-network
              operator: In
              values: ["true"]
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - {name: cpu, weight: 1}
        - {name: memory, weight: 1}
        - {name: nvidia.com/gpu, weight: 4}
"""


@dataclass
class Story:
    """Tells one scenario: each call adds what the timeline would have recorded, and time only moves by `wait`."""

    namespace: str
    begin: datetime
    seed: int = 1
    t: float = 0.0
    lines: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    attempts: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    rv: int = 4000

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.t = 0.004
        self.process("kube-scheduler", "started", "pid 4711")
        for result in ("scheduled", "unschedulable", "error"):
            self.attempts[result] = 0
        self.count()

    def wait(self, seconds: float) -> None:
        self.t += seconds * self.random.uniform(0.92, 1.08)

    def stamp(self, t: float | None = None) -> str:
        return (self.begin + timedelta(seconds=self.t if t is None else t)).isoformat(timespec="microseconds")[
            :-6
        ] + "Z"

    def add(self, kind: str, **data: Any) -> int:
        seq = len(self.lines) + 1
        self.lines.append({"seq": seq, "t": round(self.t, 6), "wall": self.stamp(), "kind": kind, **data})
        return seq

    def step(self, phase: str, text: str) -> None:
        self.steps.append(Step(phase=phase, text=text, at=round(self.t, 3)))  # type: ignore[arg-type]
        self.add("step", phase=phase, text=text)

    def process(self, name: str, event: str, detail: str = "") -> None:
        self.add("process", process=name, event=event, detail=detail)

    def request(self, number: int, stage: str, name: str, **more: Any) -> None:
        """Add what the fault proxy notes about a binding request."""
        said = {"instance": "candidate/scheduler", "verb": "create", "resource": "pods/binding", "name": name}
        received = more.pop("received", self.t)
        self.add("request", stage=stage, number=number, received=received, at=self.t, **said, **more)

    def fault(self, name: str, phase: str, detail: str = "") -> int:
        return self.add("fault", fault=name, phase=phase, detail=detail)

    def seen(self, resource: str, change: str, manifest: dict[str, Any]) -> int:
        self.t += self.random.uniform(0.001, 0.006)
        self.rv += self.random.randint(1, 4)
        metadata = manifest["metadata"]
        metadata["resourceVersion"] = str(self.rv)
        return self.add(
            "object",
            resource=resource,
            type=change,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata["uid"],
            rv=str(self.rv),
            object=copy.deepcopy(manifest),
        )

    # Nodes

    def node(self, name: str, gpus: int = 8, *, labelled: bool = True, change: str = "ADDED") -> str:
        manifest = {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": {"kubernetes.io/hostname": name}},
            "spec": {},
            "status": {
                "allocatable": {"cpu": "64", "memory": "512Gi", GPU: str(gpus), "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": self.stamp()}],
            },
        }
        if labelled:
            manifest["metadata"]["labels"][LABEL] = "true"  # type: ignore[index]
        self.objects[name] = manifest
        self.seen("nodes", change, manifest)
        return name

    def relabel(self, node: str, value: str | None) -> None:
        labels = self.objects[node]["metadata"]["labels"]
        labels.pop(LABEL, None)
        if value is not None:
            labels[LABEL] = value
        self.seen("nodes", "MODIFIED", self.objects[node])

    def taint(self, node: str, *taints: dict[str, str]) -> None:
        self.objects[node]["spec"]["taints"] = list(taints)
        self.seen("nodes", "MODIFIED", self.objects[node])

    def devices(self, node: str, gpus: int) -> None:
        self.objects[node]["status"]["allocatable"][GPU] = str(gpus)
        self.seen("nodes", "MODIFIED", self.objects[node])

    def ready(self, node: str, status: str) -> None:
        self.objects[node]["status"]["conditions"][0]["status"] = status
        self.seen("nodes", "MODIFIED", self.objects[node])

    # Pods

    def pod(self, name: str, gpus: int = 1, scheduler: str = "gpu-packing", *, gated: bool = False) -> str:
        manifest: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "uid": f"pod-{self.namespace}-{name}",
                "creationTimestamp": self.stamp()[:19] + "Z",
            },
            "spec": {
                "schedulerName": scheduler,
                "containers": [{"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}],
            },
            "status": {"phase": "Pending"},
        }
        self.objects[name] = manifest
        if gated:
            manifest["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
            manifest["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "waiting for the gate",
                }
            ]
        self.seen("pods", "ADDED", manifest)
        self.pending[name] = "gated" if gated else "active"
        return name

    def ungate(self, name: str) -> None:
        del self.objects[name]["spec"]["schedulingGates"]
        self.seen("pods", "MODIFIED", self.objects[name])
        self.pending[name] = "active"
        self.count()

    def refuse(self, name: str, message: str, reason: str = "Unschedulable") -> None:
        conditions = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]
        if self.objects[name]["status"].get("conditions") != conditions:
            self.objects[name]["status"]["conditions"] = conditions
            self.seen("pods", "MODIFIED", self.objects[name])
        self.event(name, "FailedScheduling", message)
        self.attempts["error" if reason == "SchedulerError" else "unschedulable"] += 1
        self.pending[name] = "backoff" if reason == "SchedulerError" else "unschedulable"
        self.count()

    def binding(self, name: str, node: str, code: int = 201, message: str = "", user: str = CANDIDATE) -> int:
        reference = {"resource": "pods", "subresource": "binding", "namespace": self.namespace, "name": name}
        received, request = self.t, f"request-{len(self.lines)}"
        seq = 0
        for stage, at in (("RequestReceived", received), ("ResponseComplete", received + 0.0021)):
            audit: dict[str, Any] = {
                "auditID": request,
                "stage": stage,
                "verb": "create",
                "user": {"username": user, "groups": ["system:serviceaccounts"]},
                "objectRef": {**reference, "apiVersion": "v1"},
                "requestURI": f"/api/v1/namespaces/{self.namespace}/pods/{name}/binding",
                "requestReceivedTimestamp": self.stamp(received),
                "stageTimestamp": self.stamp(at),
            }
            if stage == "ResponseComplete":
                audit["responseStatus"] = {"code": code, **({"message": message} if message else {})}
                audit["requestObject"] = {"target": {"kind": "Node", "name": node}}
            self.t += 0.012
            seq = self.add("audit", audit=audit)
        return seq

    def deny(self, name: str, node: str) -> int:
        seq = self.binding(name, node, 422, "ValidatingAdmissionPolicy 'unreserve-deny-bind' denied request")
        self.refuse(name, DENIED.format(pod=name), "SchedulerError")
        return seq

    def bind(self, name: str, node: str, user: str = CANDIDATE) -> None:
        self.wait(0.02)
        self.binding(name, node, user=user)
        pod = self.objects[name]
        pod["spec"]["nodeName"] = node
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
        self.seen("pods", "MODIFIED", pod)
        self.event(name, "Scheduled", f"Successfully assigned {self.namespace}/{name} to {node}")
        self.attempts["scheduled"] += 1
        self.pending.pop(name, None)
        self.count()

    def phase(self, name: str, phase: str, **status: str) -> None:
        self.objects[name]["status"].update({"phase": phase, **status})
        self.seen("pods", "MODIFIED", self.objects[name])

    def run(self, name: str, node: str) -> None:
        self.bind(name, node)
        self.wait(0.12)
        self.phase(name, "Running")

    def delete(self, name: str) -> None:
        pod = self.objects.pop(name)
        pod["metadata"]["deletionTimestamp"] = self.stamp()[:19] + "Z"
        if pod["spec"].get("nodeName"):
            self.seen("pods", "MODIFIED", pod)
            self.wait(0.15)
        self.seen("pods", "DELETED", pod)
        self.pending.pop(name, None)
        self.count()

    def event(self, pod: str, reason: str, message: str) -> None:
        about = {"kind": "Pod", "namespace": self.namespace, "name": pod, "uid": f"pod-{self.namespace}-{pod}"}
        name = f"{pod}.{len(self.lines):x}"
        manifest = {
            "metadata": {"name": name, "namespace": self.namespace, "uid": f"event-{name}"},
            "involvedObject": about,
            "type": "Normal" if reason == "Scheduled" else "Warning",
            "reason": reason,
            "message": message,
            "source": {"component": "gpu-packing"},
        }
        self.seen("events", "ADDED", manifest)

    def count(self) -> None:
        queues = ("active", "backoff", "unschedulable", "gated")
        series = {
            ("scheduler_pending_pods", "queue", queue): float(list(self.pending.values()).count(queue))
            for queue in queues
        } | {
            ("scheduler_schedule_attempts_total", "result", result): 17.0 + count
            for result, count in self.attempts.items()
        }
        for (name, label, value), number in series.items():
            key = f"{name}/{value}"
            if self.metrics.get(key) != number:
                self.metrics[key] = number
                labels = {label: value} | ({"profile": "gpu-packing"} if label == "result" else {})
                self.add("metric", name=name, labels=labels, value=number)


@dataclass
class Told:
    """What a story proved."""

    witnesses: list[Witness] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    verdict: Verdict = Verdict.PASS
    message: str = ""


def hard(story: Story) -> Told:
    """Only ineligible nodes are idle."""
    story.step("arrange", "2 nodes with 8 GPUs and the network label, both full; 1 idle node without the label")
    for index in (1, 2):
        story.node(f"net-{index}")
        story.pod(f"filler-{index}", 8)
        story.run(f"filler-{index}", f"net-{index}")
    story.node("plain-1", labelled=False)
    story.wait(0.1)
    story.step("arrange", "Pod training-1 asks for 8 GPUs")
    story.pod("training-1", 8)
    story.wait(0.03)
    story.refuse("training-1", NETWORK_RULE.format(n=1))
    for attempt in (1, 2):
        story.wait(1.0 * attempt)
        story.step("break", f"provoked attempt {attempt}: label example.com/flip of node net-1 changes")
        story.objects["net-1"]["metadata"]["labels"]["example.com/flip"] = str(attempt)
        story.seen("nodes", "MODIFIED", story.objects["net-1"])
        story.wait(0.04)
        story.refuse("training-1", NETWORK_RULE.format(n=1))
    story.step("check", "Pod training-1 is unschedulable, and its message names the rule")
    story.wait(0.2)
    story.step("conclude", "quiescence: a probe Pod binds on the freed capacity")
    story.delete("training-1")
    story.delete("filler-1")
    story.pod("probe", 8)
    story.run("probe", "net-1")
    story.wait(0.1)
    return Told(
        witnesses=[Witness(fault="provoked attempts", detail="2 attempts counted for Pod training-1", at=2.9)],
    )


def wake(story: Story) -> Told:
    """A node change wakes a waiting Pod."""
    story.step("arrange", "2 nodes with 8 GPUs, none with the network label; Pod training-1 asks for 4 GPUs")
    story.node("gpu-1", labelled=False)
    story.node("gpu-2", labelled=False)
    story.pod("training-1", 4)
    story.wait(0.03)
    story.refuse("training-1", NETWORK_RULE.format(n=2))
    story.wait(1.4)
    story.step("break", f"node gpu-2: label {LABEL}=true is added")
    changed = story.t
    story.relabel("gpu-2", "true")
    story.wait(0.05)
    story.run("training-1", "gpu-2")
    measured = round(story.t - changed - 0.13, 3)
    story.step("check", f"Pod training-1 is bound to gpu-2 after {measured:.2f} s (at most 15.0 s)")
    story.wait(0.3)
    story.step("conclude", "quiescence: a probe Pod binds on the freed capacity")
    story.delete("training-1")
    story.pod("probe", 8)
    story.run("probe", "gpu-2")
    story.wait(0.1)
    return Told(
        witnesses=[Witness(fault="wake-up", detail="Pod training-1 was unschedulable before the change", at=0.04)],
        measurements=[Measurement(what="bound after the change", measured_seconds=measured, bound_seconds=15.0)],
    )


def bind_denied(story: Story, leak: bool = False) -> Told:
    """Bindings are refused for a while."""
    story.step("arrange", "1 node with 8 GPUs; Pod training-1 asks for 8 GPUs")
    story.node("gpu-1")
    story.wait(0.3)
    story.fault("bind denied", "injected", "policy unreserve-deny-bind for Pod training-1")
    story.step("break", "every binding of Pod training-1 is denied")
    story.pod("training-1", 8)
    seqs = []
    first = 0.0
    for backoff in (0.04, 1.0, 2.0, 4.0):
        story.wait(backoff)
        seqs.append(story.deny("training-1", "gpu-1"))
        if len(seqs) == 1:
            first = round(story.t, 3)
            story.fault("bind denied", "witnessed", "binding of training-1 answered with 422")
    story.wait(0.4)
    story.step("check", "at least 3 bindings were refused: 4 in the audit log")
    story.fault("bind denied", "healed", "policy removed, a dry run as the candidate is allowed again")
    healed = story.t
    witnesses = [
        Witness(fault="bind denied", detail="4 refused binding requests for Pod training-1", at=first, entries=seqs)
    ]
    if leak:
        story.refuse("training-1", NO_GPU.format(n=1))
        story.wait(14.2)
        story.step("check", "Pod training-1 is bound to gpu-1: not within 12.0 s")
        seq = len(story.lines)
        story.wait(0.4)
        return Told(
            witnesses=witnesses,
            verdict=Verdict.FAIL,
            measurements=[
                Measurement(
                    what="bound after the heal", measured_seconds=round(story.t - healed, 3), bound_seconds=12.0
                )
            ],
            message=(
                "Pod training-1 was not bound within 12.0 s after the heal: gpu-1 is empty, yet counted as full\n"
                "expected: Pod training-1 bound to gpu-1 within 12.0 s (bound 12.0 s, times patience 1)\n"
                f"seen:     unbound, Unschedulable: {NO_GPU.format(n=1)}\n"
                f"     {healed:.3f} s  fault   #{seq - 6} bind denied healed policy removed\n"
                f"     {story.t:.3f} s  object  #{seq - 1} pod training-1 modified: node none, Pending"
            ),
        )
    story.wait(1.8)
    story.run("training-1", "gpu-1")
    measured = round(story.t - healed, 3)
    story.step("check", f"Pod training-1 is bound to gpu-1 after {measured:.2f} s (at most 12.0 s)")
    story.wait(0.2)
    story.step("conclude", "fault healed; assumed Pods 0; a probe Pod binds on the freed capacity")
    story.delete("training-1")
    story.pod("probe", 8)
    story.run("probe", "gpu-1")
    story.wait(0.1)
    return Told(
        witnesses=witnesses,
        measurements=[Measurement(what="bound after the heal", measured_seconds=measured, bound_seconds=12.0)],
    )


def starved(story: Story) -> Told:
    """A doomed Pod beside others; the others over-commit a node for a moment."""
    story.step("arrange", "2 nodes with 8 GPUs; Pod doomed-1 asks for 1 GPU")
    story.node("gpu-1")
    story.node("gpu-2")
    story.fault("bind denied", "injected", "policy unreserve-deny-bind for Pod doomed-1")
    story.step("break", "every binding of Pod doomed-1 is denied while 6 Pods arrive")
    story.pod("doomed-1")
    seqs = []
    for index in range(1, 7):
        story.wait(0.1)
        story.pod(f"worker-{index}", 2)
        story.wait(0.05)
        if index in (1, 4):
            seqs.append(story.deny("doomed-1", "gpu-1"))
            if index == 1:
                story.fault("bind denied", "witnessed", "binding of doomed-1 answered with 422")
        story.run(f"worker-{index}", "gpu-1" if index < 6 else "gpu-2")
    over = len(story.lines) - 3
    story.wait(2.2)
    seqs.append(story.deny("doomed-1", "gpu-1"))
    story.step("check", "6 other Pods are bound while doomed-1 waits")
    story.wait(0.3)
    story.fault("bind denied", "healed", "policy removed")
    story.step("conclude", "fault healed; a probe Pod binds on the freed capacity")
    story.run("doomed-1", "gpu-2")
    story.wait(0.3)
    return Told(
        witnesses=[
            Witness(fault="bind denied", detail="3 refused binding requests for Pod doomed-1", at=0.4, entries=seqs)
        ],
        measurements=[Measurement(what="the others bound", measured_seconds=1.31, bound_seconds=12.0)],
        findings=[
            Finding(
                requirement="CAP-4",
                message="node gpu-1: bound Pods request 10 nvidia.com/gpu, allocatable is 8 (binding of worker-5)",
                at=1.72,
                entries=[over - 1, over],
            )
        ],
    )


def gates(story: Story) -> Told:
    """Gates are lifted one by one."""
    story.step("arrange", "1 node with 8 GPUs; 3 gated Pods")
    story.node("gpu-1")
    for index in (1, 2, 3):
        story.pod(f"gated-{index}", 2, gated=True)
    story.count()
    story.wait(0.6)
    for index in (1, 2, 3):
        story.step("break", f"the scheduling gate of Pod gated-{index} is lifted")
        story.ungate(f"gated-{index}")
        story.wait(0.03)
        story.run(f"gated-{index}", "gpu-1")
        story.wait(0.3)
    story.step("check", "the gauge equals the facts in every queue, and is never negative")
    story.wait(0.3)
    story.step("conclude", "quiescence: assumed Pods 0")
    return Told(witnesses=[Witness(fault="gates", detail="3 Pods were counted in the queue gated", at=0.05)])


def churn(story: Story) -> Told:
    """Many Pods come and go, some fail; one node loses devices and gets them back."""
    story.step("arrange", "3 nodes with 8 GPUs")
    for index in (1, 2, 3):
        story.node(f"gpu-{index}")
    story.step("break", "30 Pods arrive and leave")
    used = {f"gpu-{index}": 0 for index in (1, 2, 3)}
    running: list[tuple[str, str, int]] = []
    for index in range(1, 31):
        gpus = story.random.choice([1, 1, 4])
        story.pod(f"job-{index}", gpus)
        story.wait(0.05)
        fitting = [name for name, taken in used.items() if taken + gpus <= 8]
        while not fitting:
            story.refuse(f"job-{index}", NO_GPU.format(n=3))
            name, node, size = running.pop(0)
            if story.random.random() < 0.5:
                story.phase(name, "Succeeded")
            else:
                story.delete(name)
            used[node] -= size
            story.wait(0.06)
            fitting = [name for name, taken in used.items() if taken + gpus <= 8]
        node = max(fitting, key=lambda name: used[name])
        used[node] += gpus
        story.run(f"job-{index}", node)
        running.append((f"job-{index}", node, gpus))
        if index == 12:
            story.phase("job-11", "Failed", reason="OutOfnvidia.com/gpu")
        if index == 15:
            story.devices("gpu-3", 4)
            story.step("break", "node gpu-3 loses 4 devices")
        if index == 22:
            story.devices("gpu-3", 8)
            story.step("break", "the devices of node gpu-3 are back")
    story.step("check", "requests of bound Pods never exceeded allocatable")
    story.wait(0.2)
    return Told(
        witnesses=[Witness(fault="churn", detail="30 arrivals, 9 departures, 1 failure", at=0.2)],
        figures={"created_to_bound_p50_seconds": 0.071, "created_to_bound_p95_seconds": 0.342},
    )


def foreign(story: Story) -> Told:
    """A Pod that nobody serves, a rival that binds its own, and a restart of the candidate."""
    story.step("arrange", "1 node; Pod orphan-1 names a scheduler nobody serves; Pod other-1 belongs to the rival")
    story.node("gpu-1")
    story.pod("orphan-1", 1, "nobody")
    story.pod("other-1", 1, "rival")
    story.pod("mine-1", 1)
    story.bind("other-1", "gpu-1", RIVAL)
    story.run("mine-1", "gpu-1")
    story.wait(0.4)
    story.step("break", "the candidate is restarted")
    story.process("kube-scheduler", "signalled", "SIGTERM")
    story.wait(0.2)
    story.process("kube-scheduler", "exited", "code 0")
    story.wait(0.2)
    story.process("kube-scheduler", "started", "pid 4802")
    story.add("gap", resource="events", from_rv="4020", to_rv="4058", reason="410 Gone: too old resource version")
    story.ready("gpu-1", "False")
    story.taint("gpu-1", {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    story.wait(0.4)
    story.ready("gpu-1", "True")
    story.taint("gpu-1")
    story.wait(0.2)
    story.pod("mine-2", 1)
    story.run("mine-2", "gpu-1")
    story.step("check", "the candidate wrote to no Pod of another schedulerName")
    story.wait(0.3)
    story.step("conclude", "quiescence: Pod orphan-1 is listed as waiting for nobody")
    return Told(witnesses=[Witness(fault="foreign Pods", detail="2 Pods of other schedulers were seen", at=0.02)])


def leaked_bind(story: Story) -> Told:
    """As `bind_denied`, on a scheduler that leaks."""
    return bind_denied(story, leak=True)


def not_witnessed(story: Story) -> Told:
    """The fault never bites."""
    told = wake(story)
    told.witnesses, told.measurements = [], []
    told.verdict = Verdict.INCONCLUSIVE
    told.message = "the taint was never seen to keep Pod training-1 waiting: it was bound before the taint was recorded"
    return told


def broke(story: Story) -> Told:
    """Healing fails."""
    told = bind_denied(story)
    told.verdict = Verdict.ERROR
    told.message = (
        "healing of `bind denied` could not be verified within 5.0 s: the dry run as the candidate is still refused\n"
        'clusters.kube.ApiError: 422 Invalid: pods "fence" is forbidden: ValidatingAdmissionPolicy denied request'
    )
    return told


def waived(story: Story) -> Told:
    """A rule that a deviation covers."""
    told = gates(story)
    told.verdict = Verdict.WAIVED
    told.message = "SCHED-1182: a Pod refused at Permit gets no event"
    return told


TELLERS = {
    "HARD": hard, "CAP": churn, "WAKE": wake, "RES": bind_denied, "OBS": gates, "ISO": foreign,
    "RES-4": leaked_bind, "RES-5": starved, "WAKE-2": not_witnessed, "OBS-6": waived, "WAKE-7": gates, "CAP-6": hard,
}  # fmt: skip

RULES = {
    "HARD-1": "Only GPU nodes without the network label are idle: the Pod stays unscheduled with reason Unschedulable",
    "HARD-2": "A strong soft preference for the ineligible node does not win over the hard condition",
    "HARD-3": "Repeated failure does not relax the condition",
    "HARD-4": "Look-alike labels are not eligible",
    "HARD-5": "When an eligible node appears the Pod binds there and nowhere else",
    "HARD-6": "A label removed after binding evicts nobody; later Pods are not placed there",
    "HARD-8": "The same key on the Pod does not make a node eligible",
    "HARD-9": "Only a tainted node has room: no toleration, no binding; the reason names taint and capacity",
    "HARD-10": "GPUs are counted over containers, init containers and sidecars as Kubernetes defines it",
    "CAP-4": "At no recorded state do requests on a node exceed allocatable at bind time",
    "CAP-5": "Allocatable drops below use: no further GPU Pod there; restored cards are used again without restart",
    "CAP-6": "8 N single-card Pods fill N nodes exactly; one more stays unscheduled with an insufficient-GPU reason",
    "WAKE-1": "A label added to a node wakes the Pod",
    "WAKE-2": "Taint removed, node uncordoned, node Ready again: each wakes the Pod",
    "WAKE-3": "Allocatable grows: the Pod is woken",
    "WAKE-4": "Pod deleted, Pod finished: the waiting Pod is woken",
    "WAKE-5": "A node added wakes the Pod",
    "WAKE-7": "A lifted scheduling gate wakes the Pod",
    "WAKE-9": "The reason follows the cause: at the next provoked attempt the condition names what blocks then",
    "WAKE-10": "Changes that no rejecting plugin asked for cause no attempt",
    "WAKE-11": "Device goes offline while Pods wait: nobody is bound to it",
    "RES-4": "Bind denied for a while, then healed: one binding, nothing held, no success event in between",
    "RES-5": "A Pod whose bind is always denied does not starve others",
    "OBS-1": "scheduler_pending_pods by queue equals the facts at quiescence and is never negative",
    "OBS-2": "scheduler_schedule_attempts_total by result moves with forced outcomes",
    "OBS-5": "Created→bound and bound→Ready are recorded apart for every Pod",
    "OBS-6": "Success event only after a binding; a reason for every waiting Pod",
    "ISO-1": "The candidate writes to no Pod of another schedulerName",
    "ISO-4": "A schedulerName nobody serves is left alone, and the report says which Pods wait for it",
}
EXTENDED = {
    "RES-1": ("Permit timeout: rejected in time, capacity, slots and nomination come back", ["permit-wait"]),
    "GANG-1": ("No partial gang outlasts the declared bind window, and none at quiescence", ["gang"]),
    "CONF-2": ("Leader killed: takeover within the lease bound, nothing bound twice", ["leader-election"]),
}
ALWAYS_GOOD = {"RES-4": bind_denied, "RES-5": bind_denied, "WAKE-2": wake, "OBS-6": gates}


def requirements() -> list[Requirement]:
    """The sample's catalogue."""
    core = [
        Requirement(id=name, title=title, origin="seed 3, volcano-sh/volcano#2412") for name, title in RULES.items()
    ]
    extended = [
        Requirement(
            id=name,
            title=title,
            level="extended",
            features=features,
            verdict=Verdict.NOT_SUPPORTED,
            reason=f"not claimed: {', '.join(features)}",
        )
        for name, (title, features) in EXTENDED.items()
    ]
    return core + extended


def blank(run_id: str = "20261130-091402-7f3a", **fields: Any) -> Record:
    """A record as it is when the run begins."""
    values: dict[str, Any] = {
        "run_id": run_id,
        "candidate": Candidate(
            name="gpu-packing",
            version="v1.37.2",
            digest="sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            organisation="Example GPU Platform",
            contact="scheduling@example.com",
            source="https://example.com/gpu-packing",
            scheduler_names=["gpu-packing"],
        ),
        "kubernetes": "v1.37.2",
        "provider": "local",
        "suite": Suite(version="0.1.0", commit="82583862c1f0", dirty=False),
        "machine": Machine(system="Linux 6.12 x86_64", python="3.11.9", cores=2, memory_bytes=25_276_518_400),
        "seed": 20261130,
        "patience": 1.25,
        "started": START,
        "command": [
            "make", "conformance", "CANDIDATE=candidates/gpu-packing.yaml", "PROVIDER=local", "KUBERNETES=1.37",
            "SUITES=suites",
        ],
        "configuration": CONFIGURATION,
        "claims": {"profiles": {"names": ["gpu-packing"]}, "node-affinity": {"key": LABEL, "value": "true"}},
        "requirements": requirements(),
    }  # fmt: skip
    return Record(**(values | fields))


def begin(directory: Path, **fields: Any) -> RecordWriter:
    """Begin a run: what a kill leaves if it comes early."""
    writer = RecordWriter(directory)
    writer.begin(blank(directory.name, **fields), requirements())
    return writer


def write(directory: Path, *, good: bool = False) -> Record:
    """Write a run with everything that can go wrong in it, or with `good` one that succeeds, and return its record."""
    (directory / "history").mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {}
    if not good:
        fields["deviations"] = [
            Deviation(
                id="OBS-6",
                reason="SCHED-1182: a Pod refused at Permit gets no event",
                owner="scheduling@example.com",
                expires=date(2027, 2, 28),
                link="https://example.com/SCHED-1182",
            ),
            Deviation(
                id="WAKE-9",
                reason="SCHED-1100: stale reason",
                owner="ops",
                expires=date(2026, 10, 1),
                state=DeviationState.EXPIRED,
            ),
        ]
        fields["notes"] = ["The metrics endpoint serves no scheduler_cache_size: quiescence was judged without it."]
    writer = begin(directory, **fields)
    started = START + timedelta(seconds=9)
    for number, (row, rule) in enumerate(RULES.items()):
        if row == "WAKE-11" and not good:
            continue
        tell = (ALWAYS_GOOD.get(row) if good else TELLERS.get(row)) or TELLERS[row.split("-")[0]]
        if row == "HARD-5":
            tell = wake
        if row == "CAP-5" and not good:
            tell = broke
        for part in ("",) if row not in ("WAKE-4", "HARD-10") else ("_once", "_and_again"):
            function = (
                "test_" + "_".join(word for word in rule.lower().split(":")[0].split() if word.isalpha())[:56] + part
            )
            story = Story(namespace=f"u-{row.lower()}{part.replace('_', '-')}", begin=started, seed=number)
            told = tell(story)
            path = f"history/{row}.{function}.jsonl"
            (directory / path).write_text(
                "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in story.lines)
            )
            writer.add(
                row,
                Scenario(
                    name=function,
                    verdict=told.verdict,
                    message=told.message,
                    seconds=round(story.t + 0.4, 3),
                    waited_seconds=sum(each.measured_seconds for each in told.measurements),
                    measurements=told.measurements,
                    figures=told.figures,
                    witnesses=told.witnesses,
                    steps=story.steps,
                    findings=told.findings,
                    history=path,
                    started=started,
                ),
            )
            started += timedelta(seconds=story.t + 0.5)
    return writer.finish(ended=started)
