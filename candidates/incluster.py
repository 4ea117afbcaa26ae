"""A candidate as Pods of the cluster, given by manifests."""

import contextlib
import functools
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import urllib3

from candidates import manifests
from candidates.deployed import Deployed, DeployError, ScrapeError, apply, sha256, wait_until_served
from candidates.descriptor import Descriptor
from candidates.loopback import MOST_BYTES, TIMEOUT, Unreachable
from candidates.manifests import Manifest
from candidates.patch import Json
from candidates.sections.observe import Endpoint
from clusters.identity import write_private
from clusters.kube import ApiError, ApiUnreachable, Kube, path_of
from clusters.provider import Capability, Cluster, ImageLoader, ProviderError

LEASES = "coordination.k8s.io/v1/leases"
JOB_LABEL = "batch.kubernetes.io/job-name"
FAKE_NODE = "kwok.x-k8s.io/node"
# Seconds between two looks at a rollout, and the age up to which a look at the containers counts as now.
LOOK = 0.1
# Seconds that Pods may take to be gone beyond their own grace period.
STOP_MARGIN = 60.0
# A container that ended so often before it was ready will not become so.
MOST_RESTARTS = 3
# Why a container waits that will wait for ever.
HOPELESS = ("ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName")
# Lines of a log that an error repeats, and bytes of it that are kept.
LAST_LINES = 5
MOST_LOG = 16 * 1024 * 1024
BUILD = re.compile(r'^kubernetes_build_info\{.*git_version="([^"]+)"', re.MULTILINE)

# What one scenario has loaded is there for the next: kubeconfig of the cluster, image, and the time of a file.
_loaded: set[tuple[Path, str, float]] = set()


class InClusterDeployed(Deployed):
    """A candidate whose Pods run in the cluster.

    Attributes:
        processes: names of its Pods.
        images: image ID of each image that its Pods run, by the name the manifests give it.
    """

    processes: list[str]
    _hint = "; it must let anybody read it, as kube-scheduler does with --authorization-always-allow-paths"

    def __init__(self, descriptor: Descriptor, cluster: Cluster, logs: Path) -> None:
        super().__init__(descriptor, cluster)
        assert descriptor.deployment.manifests
        self._section, self._logs = descriptor.deployment.manifests, logs
        self._files = [descriptor.folder / name for name in self._section.files]
        written = [each for file in self._files for each in manifests.read(file)]
        self._hooks = [each for each in written if each.hook]
        self._objects = manifests.in_order(each for each in written if not each.hook)
        workloads = [each for each in self._objects if each.plural]
        found = manifests.scheduler_of(workloads, self._section.scheduler)
        assert found  # reading.py has seen to it
        self._scheduler = found
        self._workloads = [found, *(each for each in workloads if each is not found)]
        self._kube = Kube(cluster.kubeconfig)
        self._applied = False
        self.processes = []
        self.images: dict[str, str] = {}
        # The scheduler's own among the Pods.
        self._instances: list[str] = []
        # Restarts of each container when it became ready, by Pod and container.
        self._restarts: dict[tuple[str, str], int] = {}
        self._ended: list[tuple[str, int]] = []
        self._seen: tuple[float, list[tuple[str, int]]] = 0.0, []
        self._lock = threading.Lock()

    @property
    def usernames(self) -> tuple[str, ...]:
        """ServiceAccounts of its Pods, that of the scheduler first."""
        accounts = [
            f"{self._namespace(each)}:{each.template['spec'].get('serviceAccountName', 'default')}"
            for each in self._workloads
        ]
        return tuple(f"system:serviceaccount:{account}" for account in dict.fromkeys(accounts))

    @property
    def username(self) -> str:
        """ServiceAccount of the workload that binds Pods."""
        return self.usernames[0]

    @functools.cached_property
    def reported_version(self) -> str | None:
        """What a build of kube-scheduler says in its metrics; of any other, the tag of the image it runs."""
        exposed = self.descriptor.observe.metrics
        if exposed and exposed.family == "kube-scheduler":
            with contextlib.suppress(ScrapeError):
                if said := BUILD.search(self.metrics() or ""):
                    return f"Kubernetes {said[1]}"
        image = self._scheduler.template["spec"]["containers"][0]["image"].partition("@")[0]
        tag = image.rpartition("/")[2].partition(":")[2]
        return f"image tag {tag}" if tag else None

    @property
    def notes(self) -> list[str]:
        """Images that run, and hooks that were left out."""
        return [
            *(f"image {name} is {found}" for name, found in sorted(self.images.items())),
            *(f"{each.where}: {each} is a Helm hook ({each.hook}) and was left out" for each in self._hooks),
        ]

    def exits(self) -> list[tuple[str, int]]:
        """Return Pod and container, and exit code, of every container that ended or was restarted unasked.

        A Pod that somebody else deleted took its exit codes with it: the code is then -1.
        """
        with self._lock:
            looked, found = self._seen
            if self.processes and time.monotonic() - looked > LOOK:
                # An API server that does not answer hides nothing for long: the next look tells.
                with contextlib.suppress(ApiError, ApiUnreachable):
                    found = list(self._ends())
                self._seen = time.monotonic(), found
            return [*self._ended, *found]

    @property
    def probed(self) -> bool:
        """Whether a container of the workload that binds Pods has a readiness probe."""
        return any("readinessProbe" in each for each in self._scheduler.template["spec"]["containers"])

    def logs(self) -> dict[str, str]:
        """Return what each container has written so far, that before its last restart first."""
        found: dict[str, str] = {}
        for pod in [pod for workload in self._workloads for pod in self._pods(workload)]:
            for status in _statuses(pod):
                times = [True, False] if status["restartCount"] else [False]
                written = [self._log(pod, status["name"], previous=previous) for previous in times]
                found[f"{pod['metadata']['name']}/{status['name']}"] = "\n".join(written)
        return found

    def start(self) -> None:
        """Load the images, apply in order what is not there, and wait until every workload is ready.

        Raises:
            DeployError: an object is refused, or a workload does not get ready; its Pods are removed again.
            ProviderError: the provider loads no images.
        """
        if self.processes:
            return
        self.starts += 1
        self._load_images()
        try:
            self._apply()
            deadline = time.monotonic() + self._section.timeout
            for workload in self._workloads:
                self._wait_until_ready(workload, deadline)
            self._take_stock()
        except (ApiError, ApiUnreachable, DeployError) as error:
            with contextlib.suppress(ApiError, ApiUnreachable, DeployError):
                self._save_logs()
                self._delete()
            self._kube.close()
            if isinstance(error, DeployError):
                raise
            raise DeployError(f"{self.descriptor.path}: cannot be deployed: {error}") from error

    def stop(self) -> dict[str, int]:
        """Keep the logs, delete the workloads and see their Pods gone. What else was applied stays. Idempotent.

        Returns:
            Nothing: exit codes go with the Pods.

        Raises:
            DeployError: a Pod does not go.
        """
        if self.processes:
            self._seen = 0.0, self._seen[1]
            self._ended, self._seen = self.exits(), (0.0, [])
            self.processes = []
            try:
                self._save_logs()
                self._delete()
            except (ApiError, ApiUnreachable) as error:
                raise DeployError(f"{self.descriptor.path}: cannot be removed: {error}") from error
            finally:
                self._kube.close()
        return {}

    # Bringing it up

    def _load_images(self) -> None:
        for image in self._section.images:
            file = self.descriptor.folder / image if image.endswith(".tar") else None
            key = self._cluster.kubeconfig, str(file or image), file.stat().st_mtime if file else 0.0
            if key in _loaded:
                continue
            if Capability.IMAGE_LOAD not in self._cluster.capabilities or not isinstance(self._cluster, ImageLoader):
                raise ProviderError(
                    f"{self.descriptor.path}: deployment.manifests.images: the provider {self._cluster.provider} loads "
                    "no images; leave `images` out and let the nodes pull them"
                )
            self._cluster.image_load(file or image)
            _loaded.add(key)

    def _apply(self) -> None:
        """Apply everything; after a stop only what that removed, for what was changed meanwhile is to stay changed."""
        if self._applied:
            for each in [each for each in self._objects if each.ends]:
                apply(self._kube, each.data, each.where, namespace=self._section.namespace)
            return
        wait_until_served(self._kube, [(apply(self._kube, each, where), where) for each, where in self._setup()])
        own, written = self._section.namespace, [each.name for each in self._objects if each.kind == "Namespace"]
        if own not in written and self._kube.find("namespaces", own) is None:
            self._kube.create("namespaces", {"metadata": {"name": own}})
        crds: list[tuple[Json, str]] = []
        for each in self._objects:
            if each.kind != manifests.CRD:
                wait_until_served(self._kube, crds)
                crds = []
            applied = apply(self._kube, each.data, each.where, namespace=own)
            crds += [(applied, each.where)] if each.kind == manifests.CRD else []
        self._applied = True

    def _wait_until_ready(self, workload: Manifest, deadline: float) -> None:
        """Wait for a rollout.

        Raises:
            DeployError: it cannot succeed, or takes too long; the text names the Pods, and what their logs say last.
        """
        while True:
            found = self._kube.get(workload.resource, workload.name, self._namespace(workload))
            if _rolled_out(found):
                return
            pods = self._pods(workload)
            hopeless = [reason for pod in pods if (reason := self._hopeless(pod))]
            if hopeless or time.monotonic() > deadline:
                why = hopeless[0] if hopeless else f"not ready after {self._section.timeout:g} s"
                lines = [f"{workload.where}: {workload} in {self._namespace(workload)}: {why}"]
                lines += [f"{condition['type']}: {condition.get('message', '')}" for condition in _failures(found)]
                lines += [line for pod in pods for line in self._described(pod)]
                raise DeployError("\n    ".join([*lines, f"described in {self.descriptor.path}"]))
            time.sleep(LOOK)

    def _hopeless(self, pod: Json) -> str:
        """Say why a Pod will never be ready; empty where it may be."""
        node = pod["spec"].get("nodeName")
        if node and self._fake(node):
            return (
                f"Pod {pod['metadata']['name']} was put on the fake node {node}, where nothing runs; give its Pods the "
                "nodeSelector kubernetes.io/os: linux, which fake nodes lack"
            )
        for status in _statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in HOPELESS:
                return f"image {status.get('image')}: {waiting['reason']}"
            if status["restartCount"] >= MOST_RESTARTS and not status["ready"]:
                return f"container {status['name']} ended {status['restartCount']} times before it was ready"
        return ""

    def _fake(self, node: str) -> bool:
        found = self._kube.find("nodes", node)
        return found is not None and (found["metadata"].get("annotations") or {}).get(FAKE_NODE) == "fake"

    def _described(self, pod: Json) -> Iterator[str]:
        """Yield what is wrong with a Pod that is not ready, one line each."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "no node")
        if _holds(pod, "Ready"):
            return
        yield f"Pod {name} on {node}: {pod['status'].get('phase')}"
        for condition in _failures(pod):
            if condition.get("message"):
                yield f"  {condition['type']}: {condition['message']}"
        for status in _statuses(pod):
            state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
            for kind, details in (*state.items(), ("before that terminated", last)):
                if details:
                    said = [details.get("reason"), details.get("message"), _coded(details)]
                    yield f"  container {status['name']} {kind}: {', '.join(str(word) for word in said if word)}"
            # While it waits to be restarted both are the same.
            for previous in [True] * bool(last) + [False] * (not last or "running" in state):
                for line in self._log(pod, status["name"], previous=previous, lines=LAST_LINES).splitlines():
                    yield f"    {line}"

    def _take_stock(self) -> None:
        """Note what runs, and compute the digest."""
        by_workload = [self._pods(workload) for workload in self._workloads]
        self._instances = [pod["metadata"]["name"] for pod in by_workload[0]]
        pods = [pod for own in by_workload for pod in own]
        self._restarts = {
            (pod["metadata"]["name"], status["name"]): status["restartCount"]
            for pod in pods
            for status in _statuses(pod)
        }
        self.processes = [pod["metadata"]["name"] for pod in pods]
        self.images = dict(image for pod in pods for image in _images(pod))
        self._seen = time.monotonic(), []
        self.digest = self._digest_with(manifests=[sha256(file) for file in self._files], images=self.images)

    # While it runs

    def _namespace(self, workload: Manifest) -> str:
        return str(workload.data["metadata"].get("namespace") or self._section.namespace)

    def _pods(self, workload: Manifest) -> list[Json]:
        """Return its Pods by name, those that are being deleted included."""
        namespace = self._namespace(workload)
        if workload.kind == "Pod":
            found = self._kube.find("pods", workload.name, namespace)
            return [found] if found else []
        labels = dict(workload.template.get("metadata", {}).get("labels") or {})
        if workload.kind == "Job":
            labels[JOB_LABEL] = workload.name
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        pods = self._kube.list("pods", namespace, labels=selector).items
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def _ends(self) -> Iterator[tuple[str, int]]:
        there = set()
        for workload in self._workloads:
            for pod in self._pods(workload):
                name = pod["metadata"]["name"]
                there.add(name)
                for status in _statuses(pod):
                    ended = (status.get("state") or {}).get("terminated")
                    if status["restartCount"] > self._restarts.get((name, status["name"]), 0):
                        ended = ended or (status.get("lastState") or {}).get("terminated") or {}
                    elif workload.kind == "Job" and ended and ended.get("exitCode") == 0:
                        continue
                    if ended is not None:
                        yield f"{name}/{status['name']}", ended.get("exitCode", -1)
        yield from ((f"{name} (deleted)", -1) for name in self.processes if name not in there)

    def _get(self, endpoint: Endpoint) -> tuple[int, bytes]:
        """Ask the Pod through the API server, which takes its certificate as it is and passes no credentials on."""
        where = f"{endpoint.scheme}:{self._leader()}:{endpoint.port}"
        path = path_of("pods", self._namespace(self._scheduler), where, f"proxy{endpoint.path}")
        try:
            answer = self._kube.request("GET", path, timeout=TIMEOUT)
            body = answer.read(MOST_BYTES + 1)
        except ApiError as error:
            # A Status of the API server's own has a reason, and 403 is the candidate's: ours may do everything.
            if error.reason in ("ServiceUnavailable", "NotFound", "InternalError"):
                raise Unreachable(f"{endpoint.path} on {where}: {error.message}") from error
            return error.status, error.message.encode()
        except (ApiUnreachable, urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"{endpoint.path} on {where}: {error}") from error
        if len(body) > MOST_BYTES:
            answer.close()
            raise Unreachable(f"{endpoint.path} on {where}: more than {MOST_BYTES} bytes")
        answer.release_conn()
        return answer.status, body

    def _leader(self) -> str:
        """Return the Pod of the scheduler that leads.

        Raises:
            Unreachable: it does not run, or none of its Pods holds the Lease.
        """
        if not self.processes:
            raise Unreachable(f"{self._scheduler} does not run")
        lease, pods = self._section.lease, self._instances
        if lease is None:
            return pods[0]
        try:
            held = self._kube.get(LEASES, lease.name, lease.namespace)["spec"].get("holderIdentity") or ""
        except (ApiError, ApiUnreachable) as error:
            raise Unreachable(f"Lease {lease.namespace}/{lease.name}: {error}") from error
        # client-go appends a unique part to the host name, which is the Pod's.
        for name in pods:
            if held == name or held.startswith(f"{name}_"):
                return name
        raise Unreachable(f"Lease {lease.namespace}/{lease.name} is held by {held!r}, none of {', '.join(pods)}")

    def _log(self, pod: Json, container: str, *, previous: bool = False, lines: int | None = None) -> str:
        """Return a container's log, or its last lines; a reason in brackets where there is none."""
        query = {"container": container, "limitBytes": str(MOST_LOG), "previous": str(previous).lower()}
        query |= {} if lines is None else {"tailLines": str(lines)}
        path = path_of("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], "log")
        try:
            answer = self._kube.request("GET", path, query=query)
            return answer.read(MOST_LOG).decode(errors="replace")
        except (ApiError, ApiUnreachable, urllib3.exceptions.HTTPError, OSError) as error:
            return f"(no log: {error})"

    # Taking it down

    def _save_logs(self) -> None:
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        for workload in self._workloads:
            for pod in self._pods(workload):
                for status in _statuses(pod):
                    parts = [self._log(pod, status["name"])]
                    if status["restartCount"]:
                        parts.insert(0, self._log(pod, status["name"], previous=True))
                    name = f"{pod['metadata']['name']}-{status['name']}.log"
                    write_private(self._logs / name, "\n".join(parts).encode())

    def _delete(self) -> None:
        # Without it a Job's Pods would stay.
        policy = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        for each in reversed([each for each in self._objects if each.ends]):
            path = path_of(each.resource, self._namespace(each) if each.plural else None, each.name)
            try:
                self._kube.request("DELETE", path, policy).release_conn()
            except ApiError as error:
                if error.status != 404:  # noqa: PLR2004
                    raise
        graces = [each.template["spec"].get("terminationGracePeriodSeconds", 30) for each in self._workloads]
        deadline = time.monotonic() + max(graces) + STOP_MARGIN
        while left := [pod["metadata"]["name"] for each in self._workloads for pod in self._pods(each)]:
            if time.monotonic() > deadline:
                raise DeployError(f"{self.descriptor.path}: Pods do not go: {', '.join(left)}")
            time.sleep(LOOK)


def _rolled_out(workload: Json) -> bool:
    """Whether every Pod that a workload wants is there and ready, and no other."""
    status, spec = workload.get("status", {}), workload["spec"]
    if status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0):
        return False
    match workload["kind"]:
        case "Pod":
            return _holds(workload, "Ready")
        case "Job":
            return bool(status.get("succeeded", 0) >= spec.get("completions", 1))
        case "DaemonSet":
            return bool(status.get("numberReady", 0) == status.get("desiredNumberScheduled", 0))
    wanted = spec.get("replicas", 1)
    return bool(status.get("replicas", 0) == wanted == status.get("readyReplicas", 0))


def _holds(found: Json, condition: str) -> bool:
    conditions = found.get("status", {}).get("conditions") or []
    return any((each["type"], each["status"]) == (condition, "True") for each in conditions)


def _failures(found: Json) -> list[Json]:
    """Return the conditions of a workload or a Pod that say what is wrong."""
    bad = (("PodScheduled", "False"), ("Progressing", "False"), ("ReplicaFailure", "True"))
    return [each for each in found["status"].get("conditions") or [] if (each["type"], each["status"]) in bad]


def _statuses(pod: Json) -> list[Json]:
    """Return the status of every container that was told of, init containers first."""
    status = pod["status"]
    return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]


def _images(pod: Json) -> Iterator[tuple[str, str]]:
    """Yield name and ID of each image of a Pod."""
    ids = {status["name"]: status["imageID"] for status in _statuses(pod)}
    for container in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]:
        if container["name"] in ids:
            yield container["image"], ids[container["name"]]


def _coded(ended: Json) -> str:
    return f"exit code {ended['exitCode']}" if "exitCode" in ended else ""
