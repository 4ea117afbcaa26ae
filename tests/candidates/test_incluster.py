"""Candidates given by manifests: objects in memory stand in for a cluster, and once a kind cluster runs one."""

import contextlib
import dataclasses
import http.server
import json
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import candidates
from candidates import DeployError, DescriptorError, ScrapeError, manifests
from candidates.deployed import spelled
from candidates.document import read_manifests
from candidates.sections.observe import Endpoint
from clusters import kind
from clusters.kube import ApiError, ApiUnreachable, Json, Kube, Listed
from clusters.processes import Supervisor
from clusters.provider import Capability, ImageLoader, ProviderError
from tests.kind.conftest import why_not

MODULE = sys.modules["candidates.incluster"]
SHIPPED = Path(candidates.__file__).parent
Write = Callable[..., Path]

DESCRIPTOR = """\
deployment:
  manifests:
    files: [all.yaml]
    namespace: ours
    timeout: 500ms
"""
OBSERVE = """\
observe:
  metrics: {port: 10259, family: kube-scheduler}
  config: {port: 10259, path: /configz}
  health: [{scheme: http, port: 8080, path: /readyz}, {scheme: http, port: 8080, path: /healthz}]
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: scheduler}
spec:
  replicas: 1
  selector: {matchLabels: {app: small}}
  template:
    metadata: {labels: {app: small}}
    spec:
      serviceAccountName: small
      containers:
        - {name: main, image: registry.example.com/small:1.0, command: [small, --me=$(POD_NAME)]}
"""
# As `helm template` writes: comments, empty documents, lists, hooks, YAML 1.1.
HELM = """\
---
# Source: small/templates/empty.yaml
---
# Source: small/templates/webhook.yaml
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: small}
---
# Source: small/templates/queue.yaml
apiVersion: example.com/v1
kind: Queue
metadata: {name: default}
---
# Source: small/templates/deployment.yaml
WORKLOAD
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Service, metadata: {name: small}}
  - apiVersion: v1
    kind: ConfigMap
    metadata: {name: small}
    data: {mode: 0644}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBindingList
items:
  - metadata: {name: small, namespace: kube-system}
---
apiVersion: batch/v1
kind: Job
metadata: {name: prepare, annotations: {helm.sh/hook: pre-install}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.com}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
""".replace("WORKLOAD\n", DEPLOYMENT)
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@dataclasses.dataclass
class FakeCluster:
    """What a deployment asks of a cluster."""

    folder: Path
    provider: str = "fake"
    kubernetes: str = "v1.37.2"
    capabilities: frozenset[Capability] = frozenset({Capability.IN_CLUSTER_DEPLOY, Capability.IMAGE_LOAD})
    audit_log: Path | None = None
    loaded: list[str | Path] = dataclasses.field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin"

    def image_load(self, image: str | Path) -> None:
        self.loaded.append(image)

    def identity(self, name: str, *, roles: Any = ()) -> Any:
        raise NotImplementedError

    def binary(self, component: str) -> Path:
        raise NotImplementedError

    def problems(self) -> list[str]:
        return []


class Answer:
    """An HTTP answer."""

    status = 200

    def __init__(self, body: bytes = b"") -> None:
        self._body = body

    def read(self, amount: int) -> bytes:
        return self._body[:amount]

    def release_conn(self) -> None:
        pass

    def close(self) -> None:
        pass


class FakeApi:
    """Objects in memory. A workload that is applied gets one Pod, Ready unless the test has said what it is like."""

    def __init__(self, kubeconfig: Path) -> None:
        assert kubeconfig.name == "admin"

    # What the test sets and reads; one API server a test.
    journal: list[str]
    applied: list[Json]
    workloads: dict[str, Json]
    pods: dict[str, Json]
    nodes: dict[str, Json]
    logs: dict[str, str]
    answers: dict[str, Answer | Exception]
    lease: str
    status: Json
    condition: Json
    lingers: int
    early: list[ApiError]

    def close(self) -> None:
        self.journal.append("close")

    def apply(self, manifest: Json, *, namespace: str) -> Json:
        if manifest["metadata"]["name"] == "refused":
            raise ApiError(422, "Invalid", "no such thing")
        if self.early:
            raise self.early.pop()
        own = manifest["metadata"].get("namespace", namespace)
        self.journal.append(f"apply {manifest['kind']} {own}/{manifest['metadata']['name']}")
        self.applied.append(manifest)
        if manifest["kind"] in ("Deployment", "Job", "Pod"):
            self._run(manifest, own)
        return manifest

    def _run(self, manifest: Json, namespace: str) -> None:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self.workloads[name] = manifest
        template = manifest if kind == "Pod" else manifest["spec"]["template"]
        labels = {**template["metadata"].get("labels", {}), "batch.kubernetes.io/job-name": name}
        for number in range(manifest["spec"].get("replicas", 1)):
            pod = name if kind == "Pod" else f"{name}-{number}"
            self.pods[pod] = {
                "metadata": {"name": pod, "namespace": namespace, "labels": labels},
                "spec": {"nodeName": "real", **template["spec"]},
                "status": {
                    "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [container(each) for each in template["spec"]["containers"]],
                    **self.status,
                },
            }

    def create(self, resource: str, body: Json) -> Json:
        self.journal.append(f"create {resource} {body['metadata']['name']}")
        return body

    def get(self, resource: str, name: str, _namespace: str | None = None) -> Json:
        if resource.endswith("customresourcedefinitions"):
            self.journal.append(f"look at {name}")
            established = self.journal.count(f"look at {name}") > 1
            return {"status": {"conditions": [{"type": "Established", "status": str(established)}]}}
        if resource.endswith("leases"):
            return {"spec": {"holderIdentity": self.lease}}
        workload = self.workloads[name]
        own = [ready_of(pod) for name_of, pod in self.pods.items() if name_of.startswith(f"{name}-")]
        status = {"replicas": len(own), "readyReplicas": sum(own), "succeeded": 1, "conditions": [self.condition]}
        return {**workload, "status": self.pods[name]["status"] if workload["kind"] == "Pod" else status}

    def find(self, resource: str, name: str, _namespace: str | None = None) -> Json | None:
        there: dict[str, dict[str, Json]] = {"namespaces": {"default": {}}, "nodes": self.nodes, "pods": self.pods}
        return there[resource].get(name)

    def list(self, _resource: str, namespace: str, *, labels: str = "") -> Listed:
        wanted = dict(label.split("=") for label in labels.split(","))
        if not self.workloads and self.pods:
            type(self).lingers -= 1
            if self.lingers < 0:
                self.pods.clear()
        found = [pod for pod in self.pods.values() if wanted.items() <= pod["metadata"]["labels"].items()]
        return Listed([pod for pod in found if pod["metadata"]["namespace"] == namespace], "1")

    def request(self, method: str, path: str, body: Json | None = None, **options: Any) -> Answer:
        if method == "DELETE":
            assert body
            assert body["propagationPolicy"] == "Background"
            self.journal.append(f"delete {path}")
            if not self.workloads.pop(path.rpartition("/")[2], None) and path != f"{WEBHOOKS}/small":
                raise ApiError(404, "NotFound", "gone")
            return Answer()
        if path.endswith("/log"):
            query = options["query"]
            kind = "previous" if query["previous"] == "true" else "last" if "tailLines" in query else "whole"
            return Answer(self.logs.get(kind, f"the {kind} log").encode())
        answer = self.answers.get(path, ApiUnreachable("nobody there"))
        if isinstance(answer, Exception):
            raise answer
        return answer


def container(written: Json, **state: Any) -> Json:
    return {
        "name": written["name"], "image": written["image"], "imageID": f"sha256:{written['image'][-3:]}",
        "restartCount": 0, "ready": True, "state": {"running": {}}, "lastState": {}, **state,
    }  # fmt: skip


def ready_of(pod: Json) -> bool:
    return bool(pod["status"]["conditions"][0]["status"] == "True")


def broken(**state: Any) -> Json:
    """Status of a Pod that is not ready."""
    written = {"name": "main", "image": "registry.example.com/small:1.0"}
    return {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [container(written, ready=False, **state)],
    }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> type[FakeApi]:
    empty: dict[str, Any] = {
        "status": {},
        "condition": {"type": "Available", "status": "True"},
        "lingers": 0,
        "lease": "",
    }
    empty |= {"journal": [], "applied": [], "workloads": {}, "pods": {}, "nodes": {}, "logs": {}, "answers": {}}
    empty |= {"status": {}, "early": []}
    made = type("Api", (FakeApi,), empty)
    monkeypatch.setattr(MODULE, "Kube", made)
    monkeypatch.setattr(MODULE, "LOOK", 0.001)
    monkeypatch.setattr("candidates.deployed.CRD_YOUNG", 0.001)
    return made


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture
def given(written: Write) -> Callable[..., Path]:
    """Write the small candidate as manifests, with pieces of its descriptor replaced, and return its path."""

    def write(*changes: tuple[str, str], files: str = DEPLOYMENT, more: str = "") -> Path:
        path = written()
        text = path.read_text().split("deployment:")[0] + DESCRIPTOR + more
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)
        (path.parent / "all.yaml").write_text(files)
        return path

    return write


@pytest.fixture
def deploy(tmp_path: Path, cluster: FakeCluster, api: type[FakeApi]) -> Callable[..., candidates.InClusterDeployed]:
    assert MODULE.Kube is api

    def bring_up(path: Path) -> candidates.InClusterDeployed:
        with Supervisor(tmp_path / "state") as supervisor:
            made = candidates.deploy(candidates.load(path), cluster, supervisor, tmp_path / "work", tmp_path / "logs")
        assert isinstance(made, candidates.InClusterDeployed)
        return made

    return bring_up


Given = Callable[..., Path]
Deploy = Callable[..., candidates.InClusterDeployed]
Api = type[FakeApi]


def problem(path: Path) -> tuple[str, int, str, str, str]:
    with pytest.raises(DescriptorError) as refused:
        candidates.load(path)
    (found,) = refused.value.problems
    return found.file.name, found.line, found.field, found.wrong, found.remedy


# Reading


def test_manifests_are_read_as_kubernetes_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("""\
# nothing
---
a: 0644
b: 0o17
c: yes
d: Off
e: 10:30
f: 2026-12-31
g: 1_000
h: -0x1f
i: 1.5
j: 1e3
k: ~
l: "0644"
m: 0
n: 12e4f
1: one
o: first
o: last
p: &base {q: 1, r: 2}
s: {<<: *base, r: 3}
t: {<<: [{u: 1}, {u: 2, v: 3}]}
""")

    (found,) = read_manifests(file)

    assert found.problems == []
    assert found.data == {
        "a": 0o644, "b": 15, "c": True, "d": False, "e": "10:30", "f": "2026-12-31", "g": 1000, "h": -31, "i": 1.5,
        "j": 1000.0, "k": None, "l": "0644", "m": 0, "n": "12e4f", "1": "one", "o": "last", "p": {"q": 1, "r": 2},
        "s": {"q": 1, "r": 3}, "t": {"u": 1, "v": 3},
    }  # fmt: skip


def test_lists_are_unpacked_and_everything_is_put_in_order(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(HELM)

    read = list(manifests.read(file))

    kinds = [each.kind for each in manifests.in_order(read)]
    assert kinds == [
        "Namespace", "CustomResourceDefinition", "RoleBinding", "ConfigMap", "Service", "Queue", "Deployment", "Job",
        "ValidatingWebhookConfiguration",
    ]  # fmt: skip
    (binding,) = [each for each in read if each.kind == "RoleBinding"]
    assert binding.data["apiVersion"] == "rbac.authorization.k8s.io/v1"
    line = HELM.splitlines().index("  - metadata: {name: small, namespace: kube-system}") + 1
    assert binding.where == f"{file}:{line}"
    assert [str(each) for each in read if each.hook] == ["Job prepare"]


@pytest.mark.parametrize(
    ("changes", "files", "more", "told"),
    [
        ((), "kind: Service\n", "", ("all.yaml", 1, "", "apiVersion is missing", "write a Kubernetes object")),
        ((), "a: [\n", "", ("all.yaml", 2, "", "is no YAML", "mend the syntax")),
        ((), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "", (
            "candidate.yaml", 12, "deployment.manifests.scheduler", "no file holds a workload", "the files hold none",
        )),
        ((), f"{DEPLOYMENT}---\n{DEPLOYMENT.replace('name: scheduler', 'name: other')}", "", (
            "candidate.yaml", 12, "deployment.manifests.scheduler", "which workload is the scheduler cannot be told",
            "the files hold Deployment scheduler, Deployment other",
        )),
        ((("    namespace", "    scheduler: {kind: Pod, name: x}\n    namespace"),), DEPLOYMENT, "", (
            "candidate.yaml", 14, "deployment.manifests.scheduler", "cannot be told", "the files hold Deployment sched",
        )),
        ((), DEPLOYMENT.replace("replicas: 1", "replicas: 2"), OBSERVE, (
            "candidate.yaml", 12, "deployment.manifests.lease", "has 2 replicas", "name the Lease",
        )),
        ((("[small]", "[default-scheduler]"),), DEPLOYMENT, "", (
            "all.yaml", 1, "", "waits for 'default-scheduler', which is the candidate itself", "spec.nodeName",
        )),
        ((), DEPLOYMENT.replace("containers", "container"), "", (
            "all.yaml", 1, "", "spec.template.spec.containers is missing", "write the Pods",
        )),
        ((), DEPLOYMENT.replace("metadata: {labels: {app: small}}", "metadata: {}"), "", (
            "all.yaml", 1, "", "spec.template.metadata.labels is missing", "write the Pods",
        )),
        ((), DEPLOYMENT, "observe: {metrics: {port: web}}\n", (
            "candidate.yaml", 16, "observe.metrics.port", "there is no port 'web'", "write the number",
        )),
        ((), DEPLOYMENT, "observe: {metrics: {port: 1, auth: token}}\n", (
            "candidate.yaml", 16, "observe.metrics.auth", "no token passes the API server", "always-allow-paths",
        )),
        ((), DEPLOYMENT, "observe: {metrics: {port: 0}}\n", (
            "candidate.yaml", 16, "observe.metrics.port", "0 is no port", "the number of a container's",
        )),
        ((("    namespace", "    images: [no.tar]\n    namespace"),), DEPLOYMENT, "", (
            "candidate.yaml", 14, "deployment.manifests.images[0]", "there is no file 'no.tar'", "make it",
        )),
        ((), DEPLOYMENT, "setup: [{object: {apiVersion: v1, kind: X, metadata: {name: $(port:web)}}}]\n", (
            "candidate.yaml", 16, "setup[0].object.metadata.name", "names no port", "there are no ports yet",
        )),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_told_where_it_is(
    given: Given, changes: tuple[tuple[str, str], ...], files: str, more: str, told: tuple[str, int, str, str, str]
) -> None:
    found = problem(given(*changes, files=files, more=more))

    assert found[:3] == told[:3]
    assert told[3] in found[3]
    assert told[4] in found[4]


def test_the_number_of_a_port_is_for_manifests_only(written: Write) -> None:
    found = problem(written(more="observe: {metrics: {port: 10259}}\n"))

    assert found[2:4] == ("observe.metrics.port", "there is no port '10259'")


def test_the_named_workload_is_the_scheduler(given: Given, deploy: Deploy) -> None:
    other = DEPLOYMENT.replace("name: scheduler", "name: controller").replace("Name: small", "Name: other")
    other = other.replace("app: small", "app: other")
    named = ("    namespace", "    scheduler: {kind: Deployment, name: scheduler}\n    namespace")

    deployed = deploy(given(named, files=f"{other}---\n{DEPLOYMENT}"))

    assert deployed.username == "system:serviceaccount:ours:small"
    assert deployed.usernames == ("system:serviceaccount:ours:small", "system:serviceaccount:ours:other")


# Bringing it up


def test_the_output_of_helm_is_applied_in_order_and_waited_for(given: Given, deploy: Deploy, api: Api) -> None:
    first = "{apiVersion: v1, kind: First, metadata: {name: $(scheduler-name)}}"

    deploy(given(files=HELM, more=f"setup: [{{object: {first}}}]\n"))

    assert api.journal == [
        "apply First default/small",
        "create namespaces ours",
        "apply Namespace ours/other",
        "apply CustomResourceDefinition ours/queues.example.com",
        "look at queues.example.com",
        "look at queues.example.com",
        "apply RoleBinding kube-system/small",
        "apply ConfigMap ours/small",
        "apply Service ours/small",
        "apply Queue ours/default",
        "apply Deployment ours/scheduler",
        "apply ValidatingWebhookConfiguration ours/small",
    ]
    (deployment,) = [each for each in api.applied if each["kind"] == "Deployment"]
    assert deployment == yaml.safe_load(DEPLOYMENT)  # $(POD_NAME) is Kubernetes' own


def test_a_namespace_that_the_files_hold_is_not_made_twice(given: Given, deploy: Deploy, api: Api) -> None:
    own = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ours, labels: {a: b}}\n"

    deploy(given(files=f"{own}---\n{DEPLOYMENT}"))

    assert [line for line in api.journal if "amespace" in line] == ["apply Namespace ours/ours"]


def test_a_candidate_tells_about_itself(given: Given, deploy: Deploy, api: Api) -> None:
    proxy = "/api/v1/namespaces/ours/pods"
    build = b'a 1\nkubernetes_build_info{build_date="",git_version="v1.37.2",x=""} 1\n'
    api.answers = {
        f"{proxy}/https:scheduler-0:10259/proxy/metrics": Answer(build),
        f"{proxy}/https:scheduler-0:10259/proxy/configz": Answer(b'{"componentconfig": {"a": 1}}'),
        f"{proxy}/http:scheduler-0:8080/proxy/readyz": ApiError(500, "", "not yet"),
        f"{proxy}/http:scheduler-0:8080/proxy/healthz": ApiError(503, "ServiceUnavailable", "error trying to reach"),
    }

    deployed = deploy(given(files=HELM, more=OBSERVE))

    assert deployed.processes == ["scheduler-0"]
    assert deployed.scheduler_names == ("small",)
    assert deployed.version == "1.0"
    assert deployed.reported_version == "Kubernetes v1.37.2"
    assert deployed.metrics() == build.decode()
    assert deployed.config() == {"a": 1}

    assert deployed.health() == {"/readyz": 500, "/healthz": None}
    assert deployed.images == {"registry.example.com/small:1.0": "sha256:1.0"}
    assert deployed.notes[0] == "image registry.example.com/small:1.0 is sha256:1.0"
    assert re.search(r"all\.yaml:\d+: Job prepare is a Helm hook \(pre-install\) and was left out", deployed.notes[1])
    assert deployed.exits() == []


def test_fields_of_an_old_configuration_are_named_as_in_its_file() -> None:
    served = {"Profiles": [{"SchedulerName": "a"}], "PodMaxBackoffSeconds": 10, "Extenders": [{"HTTPTimeout": "1s"}]}
    assert spelled(served | {"ClientConnection": {"QPS": 50}}) == {
        "profiles": [{"schedulerName": "a"}], "podMaxBackoffSeconds": 10, "extenders": [{"httpTimeout": "1s"}],
        "clientConnection": {"qps": 50},
    }  # fmt: skip


def test_what_its_containers_write(given: Given, deploy: Deploy, api: Api) -> None:
    deployed = deploy(given())
    assert deployed.logs() == {"scheduler-0/main": "the whole log"}
    (pod,) = api.pods.values()
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    assert deployed.logs() == {"scheduler-0/main": "the previous log\nthe whole log"}


def test_a_readiness_probe_is_seen(given: Given, deploy: Deploy) -> None:
    assert not deploy(given()).probed
    probe = "readinessProbe: {httpGet: {path: /readyz, port: 1}}"
    assert deploy(given(files=DEPLOYMENT.replace("image:", f"{probe}, image:"))).probed


def test_without_a_build_in_the_metrics_the_tag_is_the_version(given: Given, deploy: Deploy) -> None:
    tagged = deploy(given())
    untagged = deploy(given(files=DEPLOYMENT.replace("small:1.0", "small@sha256:77")))

    assert (tagged.reported_version, untagged.reported_version) == ("image tag 1.0", None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ApiError(403, "Forbidden", "no"), "/metrics of small answers 403; it must let anybody read it"),
        (ApiError(404, "", "404 page not found"), "/metrics of small answers 404"),
        (ApiError(404, "NotFound", "pods not found"), "/metrics on https:scheduler-0:10259: pods not found"),
        (ApiUnreachable("reset"), "/metrics on https:scheduler-0:10259: reset"),
    ],
)
def test_what_an_endpoint_refuses_is_told(given: Given, deploy: Deploy, api: Api, answer: Exception, said: str) -> None:
    api.answers = {"/api/v1/namespaces/ours/pods/https:scheduler-0:10259/proxy/metrics": answer}
    deployed = deploy(given(more=OBSERVE))

    with pytest.raises(ScrapeError, match=re.escape(said)):
        deployed.metrics()
    assert deployed.reported_version == "image tag 1.0"


def test_of_several_replicas_the_one_that_leads_is_asked(given: Given, deploy: Deploy, api: Api) -> None:
    api.answers = {"/api/v1/namespaces/ours/pods/https:scheduler-1:10259/proxy/metrics": Answer(b"leads 1\n")}
    lease = ("    namespace", "    lease: {namespace: kube-system, name: small}\n    namespace")
    deployed = deploy(given(lease, files=DEPLOYMENT.replace("replicas: 1", "replicas: 2"), more=OBSERVE))

    api.lease = "scheduler-1_4f1c"
    assert deployed.metrics() == "leads 1\n"
    api.lease = "scheduler-10_4f1c"
    with pytest.raises(ScrapeError, match=r"held by 'scheduler-10_4f1c', none of scheduler-0, scheduler-1"):
        deployed.metrics()


def test_the_digest_is_that_of_files_and_images(
    given: Given, deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = given(files=HELM)
    first, again = deploy(path), deploy(path)
    moved = deploy(Path(shutil.copytree(path.parent, tmp_path / "moved")) / path.name)
    configured = deploy(given(files=HELM.replace("mode: 0644", "mode: 0600")))
    pushed_again = container
    monkeypatch.setitem(globals(), "container", lambda each: {**pushed_again(each), "imageID": "sha256:another"})
    rebuilt = deploy(given(files=HELM))

    assert first.digest.startswith("sha256:")
    assert first.digest == again.digest == moved.digest
    assert len({first.digest, configured.digest, rebuilt.digest}) == 3


def test_images_are_loaded_once_for_a_cluster(given: Given, deploy: Deploy, cluster: FakeCluster) -> None:
    path = given(("    namespace", "    images: [small.tar, other:1.0]\n    namespace"))
    (path.parent / "small.tar").write_bytes(b"")
    assert isinstance(cluster, ImageLoader)

    deploy(path)
    deploy(path)

    assert cluster.loaded == [path.parent / "small.tar", "other:1.0"]


@pytest.mark.parametrize(
    ("capabilities", "text"),
    [
        (
            frozenset(),
            r"candidate\.yaml: deployment\.manifests: the provider fake runs no images; run it with PROVIDER=k",
        ),
        (frozenset({Capability.IN_CLUSTER_DEPLOY}), r"manifests\.images: the provider fake loads no images; leave"),
    ],
)
def test_what_the_provider_cannot_do_is_refused_before_anything_is_applied(
    given: Given, deploy: Deploy, api: Api, cluster: FakeCluster, capabilities: frozenset[Capability], text: str
) -> None:
    cluster.capabilities = capabilities

    with pytest.raises(ProviderError, match=text):
        deploy(given(("    namespace", "    images: [other:1.0]\n    namespace")))

    assert api.applied == []


def test_a_refused_object_is_told_with_its_line_and_nothing_is_left(given: Given, deploy: Deploy, api: Api) -> None:
    refused = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\n"

    with pytest.raises(DeployError, match=r"all\.yaml:14: Service refused is refused: 422 Invalid: no such thing"):
        deploy(given(files=f"{DEPLOYMENT}---\n{refused}"))

    assert (api.workloads, api.pods) == ({}, {})
    assert api.journal[-2:] == ["delete /apis/apps/v1/namespaces/ours/deployments/scheduler", "close"]


def test_what_is_only_early_is_tried_again(given: Given, deploy: Deploy, api: Api) -> None:
    api.early = [
        ApiError(404, "NotFound", "the server serves no kind Queue in example.com/v1"),
        ApiError(403, "Forbidden", "error looking up service account ours/default: not found"),
    ]
    queue = "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: default}\n"

    deploy(given(files=f"{queue}---\n{DEPLOYMENT}"))

    assert [each["kind"] for each in api.applied] == ["Queue", "Deployment"]


def test_a_namespace_that_is_not_there_is_told_at_once(given: Given, deploy: Deploy, api: Api) -> None:
    api.early = [ApiError(404, "NotFound", 'namespaces "ours" not found')]
    queue = "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: default}\n"

    with pytest.raises(DeployError, match=r'all\.yaml:1: Queue default is refused: 404 NotFound: namespaces "ours"'):
        deploy(given(files=f"{queue}---\n{DEPLOYMENT}"))


PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "no such host"}}
CRASH = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}}
CRASHED = {"terminated": {"reason": "Error", "exitCode": 3}}


@pytest.mark.parametrize(
    ("status", "condition", "node", "told"),
    [
        (broken(state=PULL), {}, "real", [
            "all.yaml:1: Deployment scheduler in ours: image registry.example.com/small:1.0: ImagePullBackOff",
            "Pod scheduler-0 on real: Pending",
            "container main waiting: ImagePullBackOff, no such host",
        ]),
        (broken(state=CRASH, lastState=CRASHED, restartCount=3), {}, "real", [
            "container main ended 3 times before it was ready",
            "container main waiting: CrashLoopBackOff, back-off 20s",
            "container main before that terminated: Error, exit code 3",
            "    words of the one before",
        ]),
        (broken(), {}, "real", ["not ready after 0.5 s", "    last words"]),
        (broken(lastState=CRASHED, restartCount=1), {}, "real", ["words of the one before", "    last words"]),
        (broken(), {"type": "ReplicaFailure", "status": "True", "message": "forbidden: quota"}, "real", [
            "ReplicaFailure: forbidden: quota",
        ]),
        (broken(), {}, "fake", ["Pod scheduler-0 was put on the fake node fake", "kubernetes.io/os: linux"]),
    ],
)  # fmt: skip
def test_a_workload_that_does_not_get_ready_is_explained_and_removed(
    given: Given, deploy: Deploy, api: Api, status: Json, condition: Json, node: str, told: list[str], tmp_path: Path
) -> None:
    api.status, api.condition = status, {"type": "Available", "status": "False", **condition}
    api.nodes = {"real": {"metadata": {}}, "fake": {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}}}
    api.logs = {"last": "last words\n", "previous": "words of the one before\n"}
    path = given(files=DEPLOYMENT.replace("serviceAccountName: small", f"nodeName: {node}"))

    with pytest.raises(DeployError) as refused:
        deploy(path)

    text = str(refused.value)
    assert [each for each in told if each not in text] == [], text
    assert text.endswith(f"described in {path}")
    assert (api.workloads, api.pods) == ({}, {})
    assert (tmp_path / "logs/scheduler-0-main.log").exists()


# While it runs


def test_what_ended_unasked_is_told(given: Given, deploy: Deploy, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.status = {"containerStatuses": [container({"name": "main", "image": "x:1.0"}, restartCount=2)]}
    deployed = deploy(given())
    monkeypatch.setattr(MODULE, "LOOK", -1.0)
    assert deployed.exits() == []  # it was restarted before it was ready

    status = api.pods["scheduler-0"]["status"]
    status["containerStatuses"][0] |= {"restartCount": 3, "lastState": CRASHED}
    assert deployed.exits() == [("scheduler-0/main", 3)]
    status["containerStatuses"][0] |= {"state": {"terminated": {"exitCode": 137}}}
    assert deployed.exits() == [("scheduler-0/main", 137)]
    api.pods.clear()
    assert deployed.exits() == [("scheduler-0 (deleted)", -1)]

    deployed.stop()
    assert deployed.exits() == [("scheduler-0 (deleted)", -1)]


def test_a_job_may_end_well(given: Given, deploy: Deploy, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "LOOK", -1.0)
    job = DEPLOYMENT.replace("apps/v1", "batch/v1").replace("Deployment", "Job").replace("name: sch", "name: once-sch")
    job = job.replace("app: small", "app: once")
    deployed = deploy(given(files=f"{DEPLOYMENT}---\n{job}"))
    status = api.pods["once-scheduler-0"]["status"]["containerStatuses"][0]

    status["state"] = {"terminated": {"exitCode": 0}}
    assert deployed.exits() == []
    status["state"] = {"terminated": {"exitCode": 1}}
    assert deployed.exits() == [("once-scheduler-0/main", 1)]


def test_a_look_at_the_containers_counts_for_a_moment(
    given: Given, deploy: Deploy, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = deploy(given())
    monkeypatch.setattr(MODULE, "LOOK", 3600.0)

    api.pods["scheduler-0"]["status"]["containerStatuses"][0] |= {"restartCount": 1, "lastState": CRASHED}

    assert deployed.exits() == []
    monkeypatch.setattr(MODULE, "LOOK", 0.001)
    deployed.stop()
    assert deployed.exits() == [("scheduler-0/main", 3)]


def test_stop_keeps_the_logs_and_waits_until_the_pods_are_gone(
    given: Given, deploy: Deploy, api: Api, tmp_path: Path
) -> None:
    api.lingers = 3
    deployed = deploy(given(files=HELM))
    api.journal.clear()

    assert deployed.stop() == {}

    assert api.journal == [
        f"delete {WEBHOOKS}/small", "delete /apis/apps/v1/namespaces/ours/deployments/scheduler", "close",
    ]  # fmt: skip
    assert (api.pods, api.lingers, list(deployed.processes)) == ({}, -1, [])
    log = tmp_path / "logs/scheduler-0-main.log"
    assert log.read_text() == "the whole log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    with pytest.raises(ScrapeError, match="Deployment scheduler does not run"):
        deployed._read(Endpoint(port=1, path="/x"))


def test_stop_and_start_again(given: Given, deploy: Deploy, api: Api) -> None:
    deployed = deploy(given(files=HELM))
    before = len(api.applied)

    deployed.start()
    assert len(api.applied) == before
    deployed.restart()

    assert deployed.starts == 2
    assert list(deployed.processes) == ["scheduler-0"]
    assert sorted(each["kind"] for each in api.applied[before:]) == ["Deployment", "ValidatingWebhookConfiguration"]
    deployed.stop()
    deployed.stop()
    assert deployed.exits() == []


def test_pods_that_do_not_go_are_named(given: Given, deploy: Deploy, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    api.lingers = 1_000_000
    monkeypatch.setattr(MODULE, "STOP_MARGIN", 0.0)
    quick = DEPLOYMENT.replace("serviceAccountName: small", "terminationGracePeriodSeconds: 0")
    deployed = deploy(given(files=quick))

    with pytest.raises(DeployError, match=r"candidate\.yaml: Pods do not go: scheduler-0"):
        deployed.stop()


def test_a_bare_pod_is_a_workload_too(given: Given, deploy: Deploy) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: alone}\nspec: {containers: [{name: main, image: x:1.0}]}\n"

    deployed = deploy(given(files=pod))

    assert (deployed.processes, deployed.username) == (["alone"], "system:serviceaccount:ours:default")


def test_what_a_pod_redirects_to_is_not_followed(tmp_path: Path) -> None:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        }  # fmt: skip
        (tmp_path / "admin").write_text(json.dumps(config))
        kube = Kube(tmp_path / "admin")
        answer = kube.request("GET", "/proxied")
        answer.release_conn()
        kube.close()
        server.shutdown()

    assert (answer.status, asked) == (302, ["/proxied"])


# The shipped example


def test_the_example_has_the_profile_of_gpu_packing() -> None:
    written = manifests.read(SHIPPED / "gpu-packing/manifests/scheduler.yaml")
    (configmap,) = [each.data for each in written if each.kind == "ConfigMap"]

    inside = yaml.safe_load(configmap["data"]["config.yaml"])
    beside = yaml.safe_load((SHIPPED / "gpu-packing/config.yaml").read_text())

    names = candidates.load(SHIPPED / "gpu-packing-incluster.yaml").scheduler_names
    assert [profile["schedulerName"] for profile in inside["profiles"]] == list(names)
    for one, other in zip(inside["profiles"], beside["profiles"], strict=True):
        assert one["pluginConfig"] == other["pluginConfig"]
    assert inside["leaderElection"] == beside["leaderElection"]


# A real cluster


UNKNOWN_PLUGIN = "plugins: {filter: {enabled: [{name: NoSuchPlugin}]}}\n        pluginConfig:"


def variant(folder: Path, *changes: tuple[str, str]) -> candidates.Descriptor:
    """Return the example with pieces of its Deployment or configuration replaced."""
    shutil.copytree(SHIPPED / "gpu-packing", folder / "gpu-packing")
    shutil.copy(SHIPPED / "gpu-packing-incluster.yaml", folder)
    file = folder / "gpu-packing/manifests/scheduler.yaml"
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return candidates.load(folder / "gpu-packing-incluster.yaml")


def bind_one_pod(descriptor: candidates.Descriptor, kube: Kube) -> Json:
    """Return a Pod of the candidate, bound to the one fake node that is eligible."""
    node = {
        "metadata": {
            "name": "fast",
            "labels": {descriptor.workload.hard_node_label.key: "true"},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"}},
    }
    kube.create("nodes", descriptor.node(node, gpus=8))
    version = kube.list("pods").resource_version
    main = {"name": "main", "image": "none", "resources": {"limits": descriptor.gpus(4)}}
    kube.create("pods", descriptor.pod({"metadata": {"name": "one"}, "spec": {"containers": [main]}}), "default")
    states = (event["object"] for event in kube.watch("pods", version, seconds=30, idle=30))
    return next(pod for pod in states if pod["metadata"]["name"] == "one" and pod["spec"].get("nodeName"))


def test_the_example_on_a_real_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not():
        pytest.skip(f"kind is not exercised: {reason}")
    descriptor = candidates.load(SHIPPED / "gpu-packing-incluster.yaml")
    monkeypatch.setattr(MODULE, "MOST_RESTARTS", 1)
    absent = [("kube-scheduler:v1.37.2", "kube-scheduler:none")]
    cluster = kind.create("incluster", results=tmp_path / "results", control_plane=descriptor.switches())
    with (
        contextlib.closing(Kube(cluster.kubeconfig)) as kube,
        Supervisor(tmp_path / "state") as supervisor,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(cluster.destroy)

        def deploy(what: candidates.Descriptor, name: str) -> candidates.InClusterDeployed:
            made = candidates.deploy(what, cluster, supervisor, tmp_path / "work", tmp_path / name)
            assert isinstance(made, candidates.InClusterDeployed)
            return made

        deployed = deploy(descriptor, "good")
        (instance,), image = deployed.processes, deployed.images["registry.k8s.io/kube-scheduler:v1.37.2"]
        pod = bind_one_pod(descriptor, kube)
        assert cluster.audit_log
        audited = map(json.loads, cluster.audit_log.read_text().splitlines())
        bindings = [each["user"] for each in audited if each["objectRef"].get("subresource") == "binding"]
        by = [user for user in bindings if user["username"] == deployed.username]
        config = deployed.config()
        healthy, version, alive = deployed.health(), deployed.reported_version, deployed.exits()
        kube.delete("pods", instance, "gpu-packing", grace=0)
        time.sleep(2 * MODULE.LOOK)
        ended = deployed.exits()
        deployed.restart()
        deployed.stop()
        with pytest.raises(DeployError, match=r"registry\.k8s\.io/kube-scheduler:none: ErrImageNeverPull"):
            deploy(variant(tmp_path / "a", *absent), "image")
        with pytest.raises(DeployError, match="NoSuchPlugin"):
            deploy(variant(tmp_path / "b", ("pluginConfig:", UNKNOWN_PLUGIN)), "plugin")
        left = kube.list("pods", "gpu-packing").items

    assert pod["spec"]["nodeName"] == "fast"
    assert {user["extra"]["authentication.kubernetes.io/pod-name"][0] for user in by} == {instance}
    assert config
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["gpu-packing"]
    assert healthy == {"/healthz": 200, "/readyz": 200, "/livez": 200}
    assert version == "Kubernetes v1.37.2"
    assert "sha256:" in image
    assert alive == []
    assert ended == [(f"{instance} (deleted)", -1)]
    assert left == []
    assert list((tmp_path / "good").glob("*-scheduler.log"))
