"""A small scheduler that does right by default, and breaks one promise with `--fault NAME`.

It watches nodes and Pods, binds one Pod at a time, and waits for an event that can help before it tries a refused Pod
again. It shares no code with the suite: what both got wrong would never be found. `variants.py` says which requirement
must catch which fault; every fault is one `broken("NAME")` in this file.
"""

import argparse
import base64
import functools
import json
import math
import os
import re
import signal
import ssl
import threading
import time
import traceback
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any
from urllib.error import HTTPError

Json = dict[str, Any]
# Of a quantity, in thousandths of what it counts.
UNITS = {"n": 1e-6, "u": 1e-3, "m": 1} | {unit: 10 ** (3 * power) for power, unit in enumerate(["", *"kMGTPE"], 1)}
UNITS |= {f"{unit}i": 2 ** (10 * power) * 10**3 for power, unit in enumerate("KMGTPE", 1)}
QUANTITY = re.compile(r"([\d.]+)(?:[eE]([+-]?\d+)|([A-Za-z]*))")
FAULTS: set[str] = set()
# Seconds for an extender to bind a Pod.
BINDER_PATIENCE = 2.0


def broken(name: str) -> bool:
    """Whether this promise is to be broken."""
    return name in FAULTS


class Api:
    """The API server, as the identity of one kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())  # JSON, as the suite writes it
        cluster = config["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server, self._tls = cluster["server"], ssl.create_default_context(cadata=authority)
        self._token = config["users"][0]["user"]["token"]

    def send(
        self, method: str, path: str, body: Json | None = None, kind: str = "json", timeout: float | None = 30.0
    ) -> HTTPResponse:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, headers, method=method)
        answer: HTTPResponse = urllib.request.urlopen(request, timeout=timeout, context=self._tls)
        return answer

    def follow(
        self, path: str, known: dict[str, Json], changed: Callable[[Json | None, Json | None], None], listed: Event
    ) -> None:
        """Report changes as (old, new), None where there is none; `changed` keeps `known`. Never ends."""
        while True:
            try:
                for uid, new in self._changes(path, known, listed):
                    changed(known.get(uid), new)
            except (OSError, HTTPException):  # refused or cut: list again
                time.sleep(0.2)

    def _changes(self, path: str, known: dict[str, Json], listed: Event) -> Iterator[tuple[str, Json | None]]:
        with self.send("GET", path) as answer:
            found = json.load(answer)
        items = {item["metadata"]["uid"]: item for item in found["items"]}
        gone = known.keys() - items.keys()
        if broken("keeps-ghosts") and path.endswith("/pods"):
            gone = {uid for uid in gone if known[uid]["spec"].get("nodeName")}
        yield from [(uid, None) for uid in gone]
        yield from items.items()
        listed.set()
        watch = f"{path}?watch=1&resourceVersion={found['metadata']['resourceVersion']}"
        with self.send("GET", watch, timeout=None) as stream:
            for line in stream:
                event = json.loads(line)
                if event["type"] == "ERROR":  # 410: list again
                    return
                yield event["object"]["metadata"]["uid"], None if event["type"] == "DELETED" else event["object"]


# --- what a Pod needs, and what a node has; amounts in thousandths ----------------------------------------------------


def amounts(quantities: Json) -> Counter[str]:
    parsed = {name: QUANTITY.fullmatch(str(quantity)) for name, quantity in quantities.items()}
    return Counter({
        name: int(float(found[1]) * UNITS[found[3] or ""] * 10 ** int(found[2] or 0))
        for name, found in parsed.items() if found
    })  # fmt: skip


def asked(container: Json) -> Counter[str]:
    resources = container.get("resources", {})
    return amounts(resources.get("limits", {}) | resources.get("requests", {}))


def requests(pod: Json) -> Counter[str]:
    """Containers and sidecars run together; a plain init container runs beside the sidecars before it. A Pod is one."""
    spec = pod["spec"]
    sidecars, peak = Counter[str](), Counter[str]()
    for container in spec.get("initContainers", []):
        beside = sidecars + asked(container)
        peak |= beside
        sidecars = beside if container.get("restartPolicy") == "Always" else sidecars
    if broken("count-first-container"):
        return asked(spec["containers"][0])
    return (sum((asked(container) for container in spec["containers"]), sidecars) | peak) + Counter(pods=1000)


def finished(pod: Json) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def integer(text: str | None) -> float:
    """What is no integer is neither greater nor less than another."""
    return float(text) if text and re.fullmatch(r"[+-]?\d{1,18}", text) else math.nan


def leaving(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"] and not broken("bind-deleted")


def meets(expression: Json, labels: Json) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    number, limit = (integer(text) for text in (value, *values, None)[:2])
    answers = {
        "In": value in values, "NotIn": value not in values, "Exists": value is not None,
        "DoesNotExist": value is None, "Gt": number > limit, "Lt": number < limit,
    }  # fmt: skip
    return answers[expression["operator"]]


def suits(term: Json, node: Json) -> bool:
    """Whether a node meets a term of required node affinity; an empty one is met by none."""
    labels, name = node["metadata"].get("labels", {}), {"metadata.name": node["metadata"]["name"]}
    asked_for = [(e, labels) for e in term.get("matchExpressions", [])]
    asked_for += [(e, name) for e in term.get("matchFields", [])]
    return bool(asked_for) and all(meets(expression, values) for expression, values in asked_for)


@dataclass
class Waiting:
    """A Pod without a node. `ready_at` (monotonic) is inf while only an event can help."""

    pod: Json
    since: float = field(default_factory=time.monotonic)
    failures: int = 0
    failed_at: float = 0.0
    ready_at: float = 0.0
    refused_by: set[str] = field(default_factory=set)

    @property
    def queue(self) -> str:
        if self.pod["spec"].get("schedulingGates") and not broken("ignore-gates"):
            return "gated"
        if self.ready_at == math.inf:
            return "unschedulable"
        return "active" if self.ready_at <= time.monotonic() else "backoff"


class Election:
    """Holds a Lease, or waits for it. Who has lost it ends."""

    DURATION, DEADLINE, PERIOD = 6.0, 4.0, 1.0  # seconds

    def __init__(self, api: Api, lease: str) -> None:
        namespace, self._name = lease.split("/")
        self._api, self._path = api, f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._me, self.leads = f"toy-{os.getpid()}", Event()
        self._seen: tuple[Json, float] = {}, 0.0  # the Lease as it was last, and since when it is so
        self._renewed = 0.0

    def run(self) -> None:
        while True:
            try:
                self._renew()
            except (OSError, HTTPException) as error:
                print(f"the Lease cannot be renewed: {error}", flush=True)  # noqa: T201 - its log
            if self.leads.is_set() and time.monotonic() > self._renewed + self.DEADLINE and not broken("split-brain"):
                print("the Lease is lost", flush=True)  # noqa: T201
                os._exit(1)
            time.sleep(self.PERIOD)

    def _renew(self) -> None:
        asked = time.monotonic()
        mine = {
            "holderIdentity": self._me, "leaseDurationSeconds": int(self.DURATION),
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }  # fmt: skip
        try:
            with self._api.send("GET", f"{self._path}/{self._name}", timeout=self.DEADLINE) as answer:
                lease = json.load(answer)
        except HTTPError as error:
            if error.code != 404:
                raise
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            self._api.send("POST", self._path, {**lease, "spec": mine}, timeout=self.DEADLINE).close()
        else:
            if lease["spec"] != self._seen[0]:
                self._seen = lease["spec"], asked
            held = lease["spec"].get("holderIdentity") not in (None, "", self._me)
            if held and asked < self._seen[1] + lease["spec"]["leaseDurationSeconds"]:
                return
            if held and self.leads.is_set():
                return  # somebody else leads
            path = f"{self._path}/{self._name}"
            self._api.send("PUT", path, {**lease, "spec": mine}, timeout=self.DEADLINE).close()
        self._renewed = asked
        self.leads.set()


class Scheduler:
    """Decides under one lock, writes to the API server outside of it."""

    def __init__(
        self, api: Api, names: list[str], max_backoff: float, election: Election | None, binder: str = ""
    ) -> None:
        self._api, self._names, self._max_backoff, self._election = api, names, max_backoff, election
        self._binder = binder
        self._lock = threading.Condition(threading.RLock())
        self._nodes: dict[str, Json] = {}
        self._pods: dict[str, Json] = {}
        self._waiting: dict[str, Waiting] = {}
        # Pod UID → node and requests, from the decision until the watch delivers the bound Pod.
        self._assumed: dict[str, tuple[str, Counter[str]]] = {}
        self._attempts: Counter[str] = Counter(scheduled=0, unschedulable=0, error=0)
        self._latencies: list[float] = []
        self._leaked_gauge = 0
        self._decided: set[str] = set()  # Pods, since the start
        self.ready = False

    def run(self) -> None:
        self.ready = broken("ready-at-once")
        for path, known, changed in (
            ("/api/v1/nodes", self._nodes, self._node_changed),
            ("/api/v1/pods", self._pods, self._pod_changed),
        ):
            listed = Event()
            threading.Thread(target=self._api.follow, args=(path, known, changed, listed), daemon=True).start()
            listed.wait()
        if broken("evicts-on-start"):
            self._evict(lambda pod: pod["spec"]["schedulerName"] in self._names)
        for kind in ("deployments", "replicasets") if broken("takes-back") else ():
            followed: Json = {}
            args = f"/apis/apps/v1/{kind}", followed, functools.partial(self._take_back, kind), Event()
            threading.Thread(target=self._api.follow, args=args, daemon=True).start()
        self.ready = True
        if self._election:
            threading.Thread(target=self._election.run, daemon=True).start()
            if not broken("no-election"):
                self._election.leads.wait()
        while True:
            with self._lock:
                waiting = self._next()
                node, why = self._decide(waiting)
            if node:
                threading.Thread(target=self._bind, args=(waiting, node), daemon=True).start()
            else:
                self._explain(waiting, "Unschedulable", why)
                self._make_room(waiting.pod["spec"].get("priority", 0))

    # --- events

    def _node_changed(self, old: Json | None, new: Json | None) -> None:
        with self._lock:
            if new is None:
                self._nodes.pop((old or {})["metadata"]["uid"], None)
                for uid, (node, taken) in list(self._assumed.items()):
                    if node == (old or {})["metadata"]["name"] and broken("leak-on-node-delete"):
                        self._assumed[f"{uid}, node gone"] = node, taken
                return
            self._nodes[new["metadata"]["uid"]] = new
            self._wake(lambda waiting: self._helps(waiting, old, new))

    def _helps(self, waiting: Waiting, old: Json | None, new: Json) -> bool:
        """Whether a node passes a check now that refused this Pod before."""
        if old is None:
            return not broken("no-wake-new-node") and (
                not waiting.refused_by or any(not self._check(each, waiting, new) for each in waiting.refused_by)
            )
        return any(
            self._check(each, waiting, old) and not self._check(each, waiting, new)
            for each in waiting.refused_by
            if not broken(f"no-wake-{each}")
        )

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod: Json = new or old or {}
        uid = pod["metadata"]["uid"]
        with self._lock:
            gone = new is None or finished(new)
            if self._follows and pod["spec"].get("nodeName") and broken("stale-takeover"):
                self._waits_no_more(uid)
                return
            if new is None:
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = new
            node = pod["spec"].get("nodeName")
            if gone or node:
                self._settled(uid, node)
                if gone and not broken("no-wake-pod"):
                    self._room_was_made()
            elif leaving(pod):
                self._waits_no_more(uid)
            elif uid in self._waiting:
                self._waiting[uid].pod = pod
            elif uid not in self._assumed and pod["spec"]["schedulerName"] in self._names:
                self._waiting[uid] = Waiting(pod)
            self._lock.notify()

    @property
    def _follows(self) -> bool:
        """Whether another instance leads."""
        return self._election is not None and not self._election.leads.is_set()

    def _settled(self, uid: str, node: str | None) -> None:
        """Forget what was decided about a Pod: it is bound, or over."""
        self._waits_no_more(uid)
        assumed = self._assumed.pop(uid, None)
        if assumed and node not in (None, assumed[0]) and broken("double-count"):
            self._assumed[f"{uid}, as decided"] = assumed

    def _waits_no_more(self, uid: str) -> None:
        left = self._waiting.pop(uid, None)
        if left and left.queue == "gated" and broken("gauge-leak"):
            self._leaked_gauge += 1
        if left and broken("crash"):
            os._exit(1)

    def _room_was_made(self) -> None:
        self._wake(lambda waiting: "allocatable" in waiting.refused_by)

    def _wake(self, helps: Callable[[Waiting], bool]) -> None:
        for waiting in self._waiting.values():
            if waiting.ready_at == math.inf and helps(waiting):
                waiting.ready_at = waiting.failed_at + self._backoff(waiting)
        self._lock.notify()

    # --- one attempt

    def _next(self) -> Waiting:
        """Return the oldest Pod that may be tried, as soon as there is one."""
        while True:
            queued = [waiting for waiting in self._waiting.values() if waiting.queue in ("active", "backoff")]
            order = -1 if broken("newest-first") else 1
            ranked = sorted(queued, key=lambda each: (max(each.ready_at, time.monotonic()), order * each.since))
            first = next(iter(ranked), None)
            if queued and broken("doomed-first"):
                first = min(queued, key=lambda waiting: waiting.since)
            if first and first.ready_at <= time.monotonic():
                return first
            self._lock.wait(first.ready_at - time.monotonic() if first else None)

    def _decide(self, waiting: Waiting) -> tuple[str, str]:
        """Return a node, and hold its capacity; or an empty name and why there is none."""
        held, refusals = self._held(), Counter[str]()
        fitting, waiting.refused_by = [], set()
        for node in self._nodes.values():
            said = {each: self._check(each, waiting, node) for each in ("taint", "label", "allocatable")}
            first = next((each for each, words in said.items() if words), None)
            if first is None:
                fitting.append(node["metadata"]["name"])
            else:
                waiting.refused_by.add(first)
                refusals[said[first]] += 1
        if fitting:
            fullest = max(fitting, key=lambda name: sum(node == name for node, _ in held.values()))
            del self._waiting[waiting.pod["metadata"]["uid"]]
            self._assumed[waiting.pod["metadata"]["uid"]] = fullest, requests(waiting.pod)
            self._decided.add(waiting.pod["metadata"]["uid"])
            return fullest, ""
        self._failed(waiting, "unschedulable", math.inf)
        reasons = ", ".join(sorted(f"{count} {words}" for words, count in refusals.items()))
        return "", f"0/{len(self._nodes)} nodes are available: {reasons or 'there is no node'}."

    def _check(self, check: str, waiting: Waiting, node: Json) -> str:
        """Return why a node is refused, in the words of kube-scheduler; empty where it passes."""
        spec, labels = waiting.pod["spec"], node["metadata"].get("labels", {})
        if check == "taint":
            tolerations = spec.get("tolerations", [])
            taints = [t for t in node["spec"].get("taints", []) if t["effect"] in ("NoSchedule", "NoExecute")]
            if node["spec"].get("unschedulable"):
                taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
            refusing = [taint for taint in taints if not any(tolerates(each, taint) for each in tolerations)]
            return "node(s) had untolerated taint(s)" if refusing else ""
        if check == "label":
            affinity = spec.get("affinity", {}).get("nodeAffinity", {})
            terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
            chosen = all(labels.get(key) == value for key, value in spec.get("nodeSelector", {}).items())
            meeting = [suits(term, node) for term in terms]
            if broken("preference-wins") and affinity.get("preferredDuringSchedulingIgnoredDuringExecution"):
                return ""
            return "" if chosen and (any(meeting) or not terms) else "node(s) didn't match Pod's node affinity/selector"
        wanted, has = requests(waiting.pod), node["status"].get("allocatable", {})
        if broken("ignore-allocatable"):
            has = node["status"].get("capacity", {})
        free = amounts(has)
        for where, taken in self._held().values():
            if where == node["metadata"]["name"]:
                free.subtract(taken)
        return " and ".join(f"Insufficient {name}" for name, amount in sorted(wanted.items()) if amount > free[name])

    def _held(self) -> dict[str, tuple[str, Counter[str]]]:
        """Return node and requests of every Pod that is bound or about to be."""
        bound = {
            uid: (pod["spec"]["nodeName"], requests(pod))
            for uid, pod in self._pods.items()
            if pod["spec"].get("nodeName") and not finished(pod)
            and (uid in self._decided or not broken("ledger-lost"))
        }  # fmt: skip
        return bound if broken("no-assume") else self._assumed | bound

    def _backoff(self, waiting: Waiting) -> float:
        return float(min(2 ** (waiting.failures - 1), self._max_backoff))

    def _failed(self, waiting: Waiting, result: str, ready_at: float) -> None:
        waiting.failures, waiting.failed_at, waiting.ready_at = waiting.failures + 1, time.monotonic(), ready_at
        self._attempts["error" if broken("wrong-result-label") else result] += 1

    # --- writes

    def _bind(self, waiting: Waiting, node: str) -> None:
        metadata = waiting.pod["metadata"]
        uid, path = metadata["uid"], f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        binding = {"metadata": {"name": metadata["name"], "uid": uid}, "target": {"kind": "Node", "name": node}}
        try:
            if self._binder:
                self._bind_by_extender(metadata, node)
            else:
                self._api.send("POST", path, {"apiVersion": "v1", "kind": "Binding", **binding}).close()
        except (OSError, HTTPException) as error:
            why = f"binding rejected: {error}"
            known = getattr(error, "code", 500) < 500
            if self._is_bound(path.removesuffix("/binding")):  # by this request, whose answer was lost, or by another's
                with self._lock:
                    if broken("leak-on-lost-answer") and not known:
                        self._assumed[f"{uid}, answer lost"] = node, requests(waiting.pod)
                return
            with self._lock:
                self._assumed.pop(uid, None)
                if broken("leak-on-given-up-bind") and not known:
                    self._assumed[f"{uid}, given up"] = node, requests(waiting.pod)
                self._room_was_made()
                self._failed(waiting, "error", 0.0)
                waiting.ready_at = waiting.failed_at + self._backoff(waiting)
                if broken("ignores-retry-after") and getattr(error, "code", 0) == 429:
                    waiting.ready_at = 0.0
                if (now := self._pods.get(uid)) and not now["spec"].get("nodeName") and not leaving(now):
                    waiting.pod = now
                    self._waiting[uid] = waiting
            self._explain(waiting, "SchedulerError", why)
            return
        with self._lock:
            self._attempts["scheduled"] += 1
            since = max(waiting.failed_at, waiting.since) if broken("last-attempt-latency") else waiting.since
            self._latencies.append(time.monotonic() - since)
        self._announce(waiting, "Normal", "Scheduled", f"bound to {node}")

    def _bind_by_extender(self, metadata: Json, node: str) -> None:
        asked = {"podName": metadata["name"], "podNamespace": metadata["namespace"], "podUID": metadata["uid"]}
        body, headers = json.dumps(asked | {"node": node}).encode(), {"Content-Type": "application/json"}
        while True:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(f"{self._binder}/bind", body, headers), timeout=BINDER_PATIENCE
                ) as answer:
                    said = json.load(answer).get("Error")
            except TimeoutError:
                if broken("retry-after-bind"):
                    continue
                raise
            if said:
                raise OSError(said)
            return

    def _is_bound(self, path: str) -> bool:
        try:
            with self._api.send("GET", path) as answer:
                return bool(json.load(answer)["spec"].get("nodeName"))
        except (OSError, HTTPException):  # the Pod is gone, or nobody knows
            return False

    def _evict(self, chosen: Callable[[Json], bool]) -> None:
        with self._lock:
            victims = [pod["metadata"] for pod in self._pods.values() if pod["spec"].get("nodeName") and chosen(pod)]
        for each in victims:
            self._write("DELETE", f"/api/v1/namespaces/{each['namespace']}/pods/{each['name']}", {})

    def give_up(self) -> None:
        """Leave nothing behind that waits."""
        for each in [waiting.pod["metadata"] for waiting in self._waiting.values()]:
            self._write("DELETE", f"/api/v1/namespaces/{each['namespace']}/pods/{each['name']}", {})

    def _make_room(self, priority: int) -> None:
        if broken("evicts-foreign"):
            self._evict(lambda pod: pod["spec"]["schedulerName"] not in self._names)
        if broken("preempts-across-pools"):
            self._evict(lambda pod: pod["spec"].get("priority", 0) < priority)

    def _take_back(self, kind: str, _: Json | None, new: Json | None) -> None:
        if new and new["spec"]["template"]["spec"]["schedulerName"] not in self._names:
            metadata, mine = new["metadata"], {"schedulerName": self._names[0]}
            path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/{kind}/{metadata['name']}"
            self._write("PATCH", path, {"spec": {"template": {"spec": mine}}}, "strategic-merge-patch+json")

    def _explain(self, waiting: Waiting, reason: str, why: str) -> None:
        metadata = waiting.pod["metadata"]
        if broken("silent-reject") and reason == "Unschedulable":
            return
        self._announce(waiting, "Warning", "FailedScheduling", why)
        said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": why}
        if broken("no-condition"):
            return
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        self._write("PATCH", path, {"status": {"conditions": [said]}}, "strategic-merge-patch+json")

    def _announce(self, waiting: Waiting, kind: str, reason: str, note: str) -> None:
        metadata = waiting.pod["metadata"]
        event = {
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
            "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
            "regarding": {"kind": "Pod", "apiVersion": "v1", **{k: metadata[k] for k in ("name", "namespace", "uid")}},
            "reportingController": self._names[0], "reportingInstance": "toy", "action": "Scheduling",
            "type": kind, "reason": reason, "note": note[:1024],
        }  # fmt: skip
        self._write("POST", f"/apis/events.k8s.io/v1/namespaces/{metadata['namespace']}/events", event)

    def _write(self, method: str, path: str, body: Json, kind: str = "json") -> None:
        try:
            self._api.send(method, path, body, kind).close()
        except (OSError, HTTPException) as error:  # the Pod is gone, or its namespace
            print(f"{method} {path}: {error}", flush=True)  # noqa: T201 - its log

    def metrics(self) -> str:
        with self._lock:
            queues = Counter(active=0, backoff=0, unschedulable=0, gated=self._leaked_gauge)
            queues.update(waiting.queue for waiting in self._waiting.values())
            total = "toy_attempts_total" if broken("renamed-metric") else "scheduler_schedule_attempts_total"
            lines = [f'{total}{{result="{k}"}} {v}' for k, v in self._attempts.items()]
            lines += [f'scheduler_pending_pods{{queue="{k}"}} {v}' for k, v in queues.items()]
            lines.append(f'scheduler_cache_size{{type="assumed_pods"}} {len(self._assumed)}')
            lines.append(f"scheduler_pod_scheduling_sli_duration_seconds_sum {sum(self._latencies)}")
            lines.append(f"scheduler_pod_scheduling_sli_duration_seconds_count {len(self._latencies)}")
        return "\n".join([*lines, ""])


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))


def ended_by(raised: threading.ExceptHookArgs) -> None:
    """End the process with an exception of any thread, as a panic does."""
    traceback.print_exception(raised.exc_value)
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="of /readyz and /metrics, on 127.0.0.1")
    parser.add_argument("--scheduler-name", action="append", required=True)
    parser.add_argument("--max-backoff", type=float, default=10.0, help="seconds")
    parser.add_argument("--elect", help="Lease to hold before anything is bound, as namespace/name")
    parser.add_argument("--binder", default="", help="URL of an extender that binds")
    parser.add_argument("--fault", action="append", default=[])
    options, unknown = parser.parse_known_args()
    FAULTS.update(options.fault)
    if unknown and not broken("silent-bad-config"):
        parser.error(f"unknown arguments: {' '.join(unknown)}")
    api = Api(options.kubeconfig)
    election = Election(api, options.elect) if options.elect else None
    scheduler = Scheduler(api, options.scheduler_name, options.max_backoff, election, options.binder)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = scheduler.metrics().encode() if self.path == "/metrics" else b""
            self.send_response(200 if scheduler.ready else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    def asked_to_end(*_: Any) -> None:
        scheduler.give_up()
        os._exit(0)

    if broken("gives-up-on-stop"):
        signal.signal(signal.SIGTERM, asked_to_end)
    threading.excepthook = ended_by
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scheduler.run()


if __name__ == "__main__":
    main()
