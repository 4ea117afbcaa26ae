"""Schedulers that are wrong in one known way, and the requirement that must catch each."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
TOY = Path(__file__).with_name("toy.py")
STOCK = Path(__file__).parents[2] / "candidates" / "stock.yaml"
# Seconds. Short, so that a Pod nobody wakes is soon told from one in backoff.
MAX_BACKOFF = 2


def toy(*faults: str) -> Json:
    """Describe the small scheduler, with its faults."""
    descriptor: Json = {
        "apiVersion": "unreserve/v1",
        "kind": "Candidate",
        "identity": {
            "name": "-".join(["toy", *faults]),
            "version": "1.0",
            "organisation": "Unreserve",
            "contact": "the project's issue tracker",
            "source": "tests/broken/toy.py",
        },
        "schedulerNames": ["toy"],
        "kubernetesVersions": ["1.34", "1.35", "1.36", "1.37"],
        "deployment": {"processes": [_toy_process("scheduler", "$(scheduler-name)", faults=faults)]},
        "observe": {"metrics": {"scheme": "http", "port": "scheduler", "family": "kube-scheduler"}},
        "policies": {"backoff": {"initial": "1s", "max": f"{MAX_BACKOFF}s"}},
    }
    return descriptor


def stock(*disabled: str) -> Json:
    """Describe the stock kube-scheduler with the filters of some plugins switched off; they still score."""
    descriptor: Json = yaml.safe_load(STOCK.read_text())
    process = descriptor["deployment"]["processes"][0]
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "$(kubeconfig)"},
        "leaderElection": {"leaderElect": False},
        "podMaxBackoffSeconds": MAX_BACKOFF,
        "profiles": [
            {
                "schedulerName": "$(scheduler-name)",
                "plugins": {"filter": {"disabled": [{"name": plugin} for plugin in disabled]}},
            }
        ],
    }
    process["files"] = {"config.yaml": {"content": yaml.safe_dump(configuration)}}
    process["args"] = ["--config=$(file:config.yaml)", *process["args"][1:]]
    return descriptor


def beside_stock(*names: str) -> Json:
    """Describe the stock kube-scheduler with a process beside it that binds the Pods of other schedulers."""
    descriptor: Json = yaml.safe_load(STOCK.read_text())
    descriptor["deployment"]["processes"].append(_toy_process("thief", *names))
    return descriptor


def _toy_process(name: str, *names: str, faults: tuple[str, ...] = ()) -> Json:
    return {
        "name": name,
        "command": [sys.executable, str(TOY)],
        "args": [
            "--kubeconfig=$(kubeconfig)",
            f"--port=$(port:{name})",
            f"--max-backoff={MAX_BACKOFF}",
            *(f"--scheduler-name={each}" for each in names),
            *(f"--fault={each}" for each in faults),
        ],
        "ports": {name: "auto"},
        "readiness": {"scheme": "http", "port": name},
    }


@dataclass(frozen=True)
class Variant:
    """One wrong scheduler.

    Attributes:
        name: as in the column `variant` of suites/requirements.yaml.
        descriptor: what it is.
        caught_by: requirements that must fail, each with a regular expression that a failing message must match.
        collateral: requirements that may fail too, each with the reason; whether they do may be a matter of timing.
        proof: requirements to run so that it is caught, where those of `caught_by` are judged in every scenario.
    """

    name: str
    descriptor: Json
    caught_by: Mapping[str, str]
    collateral: Mapping[str, str] = field(default_factory=dict)
    proof: tuple[str, ...] = ()

    @property
    def selected(self) -> tuple[str, ...]:
        """Requirements to run: those that catch it, and a sample of others."""
        return tuple(dict.fromkeys([*(self.proof or self.caught_by), *(SAMPLE - self.collateral.keys())]))


# Requirements that a variant must not fail unless it says why; cheap ones of four families.
SAMPLE = {"HARD-1": None, "CAP-6": None, "WAKE-5": None, "OBS-6": None}.keys()

AT_BINDING = "the same binding, seen by the invariant"
NOT_ELIGIBLE = r"bound to .* which is not eligible: "
NOT_BOUND = r"expected: Pod .* bound to .*\nseen: +.*{}"

VARIANTS = (
    # The stock scheduler, configured wrongly.
    Variant(
        "hard-as-score",
        stock("NodeAffinity"),
        {
            "HARD-1": NOT_ELIGIBLE + "required node affinity",
            "HARD-2": NOT_ELIGIBLE + "required node affinity",
            "INV-1": "against its hard condition: required node affinity",
        },
    ),
    Variant(
        "ignore-taint",
        stock("TaintToleration"),
        {"HARD-9": NOT_ELIGIBLE + "taint example.com/maintenance"},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "overcommit",
        stock("NodeResourcesFit"),
        {"CAP-4": "requested 9 of 8 allocatable nvidia.com/gpu", "CAP-6": "bound"},
    ),
    Variant(
        "steals-pods",
        beside_stock("another-scheduler", "nobody-serves-this"),
        {"ISO-1": "no write of the candidate about", "ISO-4": "no write of the candidate about"},
    ),
    # The small scheduler, with a fault.
    Variant("relax-after-retries", toy("relax-after-retries"), {"HARD-3": NOT_ELIGIBLE}, {"INV-1": AT_BINDING}),
    Variant("label-prefix-match", toy("label-prefix-match"), {"HARD-4": NOT_ELIGIBLE}, {"INV-1": AT_BINDING}),
    Variant("stale-labels", toy("stale-labels"), {"HARD-6": NOT_ELIGIBLE}, {"INV-1": AT_BINDING}),
    Variant("tenant-label", toy("tenant-label"), {"HARD-8": NOT_ELIGIBLE}, {"INV-1": AT_BINDING}),
    Variant(
        "count-first-container",
        toy("count-first-container"),
        {"HARD-10": "unscheduled"},
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "ignore-allocatable",
        toy("ignore-allocatable"),
        {"CAP-5": "unscheduled", "WAKE-11": "unscheduled"},
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "no-wake-node",
        toy("no-wake-node"),
        {"WAKE-5": NOT_BOUND.format("Insufficient"), "HARD-5": NOT_BOUND.format("affinity")},
        {"HARD-1": "the lever is a node that is added"},
    ),
    Variant("no-wake-label", toy("no-wake-label"), {"WAKE-1": NOT_BOUND.format("affinity")}),
    Variant(
        "no-wake-taint",
        toy("no-wake-taint"),
        {"WAKE-2": NOT_BOUND.format("taint")},
        {"WAKE-5": "new nodes are tainted not-ready"},
    ),
    Variant("no-wake-allocatable", toy("no-wake-allocatable"), {"WAKE-3": NOT_BOUND.format("Insufficient")}),
    Variant("no-wake-pod", toy("no-wake-pod"), {"WAKE-4": NOT_BOUND.format("Insufficient")}),
    Variant("stale-reason", toy("stale-reason"), {"WAKE-9": "the message names no gpu"}),
    Variant("wake-always", toy("wake-always"), {"WAKE-10": "no attempt"}),
    Variant("retry-storm", toy("retry-storm"), {"WAKE-10": "binding requests", "INV-2": "backoff allows at most"}),
    Variant(
        "leak-on-bind",
        toy("leak-on-bind"),
        {"RES-4": "free GPUs can be used", "INV-4": "assumed"},
        proof=("RES-4", "OBS-2"),
    ),
    Variant("doomed-first", toy("doomed-first"), {"RES-5": "bound to"}),
    Variant(
        "false-scheduled-event",
        toy("false-scheduled-event"),
        {"OBS-6": "no event Scheduled"},
        {"RES-4": "forbids it too"},
    ),
    Variant("gauge-leak", toy("gauge-leak"), {"OBS-1": "queue.*gated"}),
    Variant("wrong-result-label", toy("wrong-result-label"), {"OBS-2": "result unschedulable"}),
    Variant("wrong-latency", toy("wrong-latency"), {"OBS-5": "mean latency"}),
    Variant("crash", toy("crash"), {"INV-3": "ended: exit code 1"}, proof=("HARD-1",)),
)
