"""Schedulers that are wrong in one known way, and the requirement that must catch each."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
TOY = Path(__file__).with_name("toy.py")
CANDIDATES = Path(__file__).parents[2] / "candidates"
STOCK = CANDIDATES / "stock.yaml"
# Seconds. Short, so that a Pod nobody wakes is soon told from one in backoff.
MAX_BACKOFF = 2


def toy(*faults: str, family: str = "own") -> Json:
    """Describe the small scheduler, with its faults."""
    metrics: Json = {"scheme": "http", "port": "scheduler", "family": family}
    metrics["names"] = {
        "attempts": {"name": "scheduler_schedule_attempts_total"},
        "pending": {"name": "scheduler_pending_pods"},
        "assumed": {"name": "scheduler_cache_size", "labels": {"type": "assumed_pods"}},
    }
    return {
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
        "observe": {"metrics": metrics},
        "policies": {"backoff": {"initial": "1s", "max": f"{MAX_BACKOFF}s"}, "unschedulableFlush": "24h"},
    }


def toy_without_conditions() -> Json:
    """Describe the small scheduler as one that is right in another way: it says why a Pod waits in events alone."""
    return toy("no-condition") | {"signals": {"podCondition": False}}


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


def overwriting() -> Json:
    """Describe the canary profile, brought up with other scores for the default profile too."""
    descriptor: Json = yaml.safe_load((CANDIDATES / "gpu-canary.yaml").read_text())
    process = descriptor["deployment"]["processes"][0]
    configuration = yaml.safe_load((CANDIDATES / process["files"]["config.yaml"]["source"]).read_text())
    default, canary = configuration["profiles"]
    default["pluginConfig"] = canary["pluginConfig"]
    process["files"]["config.yaml"] = {"content": yaml.safe_dump(configuration)}
    return descriptor


def write(descriptor: Json, folder: Path) -> Path:
    """Write a descriptor into a folder, and beside it what it may name as its baseline."""
    (folder / STOCK.name).write_text(STOCK.read_text())
    file = folder / "candidate.yaml"
    file.write_text(yaml.safe_dump(descriptor, sort_keys=False))
    return file


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
        collateral: requirements that may fail too, each with the reason; it may be a matter of timing.
        run: requirements to run, where those of `caught_by` alone do not do: an invariant has no scenario of its own,
            and INV-4 is judged only where a scenario holds up to its end.
    """

    name: str
    descriptor: Json
    caught_by: Mapping[str, str]
    collateral: Mapping[str, str] = field(default_factory=dict)
    run: tuple[str, ...] = ()

    def selected(self, place: int) -> tuple[str, ...]:
        """Return the requirements to run: those that catch it, and a few others that must pass.

        Running the whole sample with each would double the time, so each place in the table gets the next few of it.
        """
        others = [SAMPLE[(place + step) % len(SAMPLE)] for step in range(OTHERS)]
        others = [name for name in others if name not in self.collateral]
        return tuple(dict.fromkeys([*(self.run or self.caught_by), *others]))


# What no variant may fail unless it says why: cheap ones of several families; and how many to run with each variant.
SAMPLE = ("HARD-1", "CAP-6", "WAKE-5", "OBS-6", "ISO-1")
OTHERS = 2

AT_BINDING = "the same binding, judged as an invariant"
FULL = "its nodes are full, which this scheduler does not see"
NOT_ELIGIBLE = r"seen: .*bound to .*, which is not eligible: .*{}"
NOT_BOUND = r"expected: Pod .* bound to .*\nseen: .* is not bound; .*{}"
AFFINITY = "required node affinity infra.example.com/high-speed-network In"

VARIANTS = (
    # The stock scheduler, configured wrongly.
    Variant(
        "hard-as-score",
        stock("NodeAffinity"),
        {
            "HARD-1": NOT_ELIGIBLE.format(AFFINITY),
            "HARD-2": NOT_ELIGIBLE.format(AFFINITY),
            "INV-1": f"against its hard condition: {AFFINITY}",
        },
    ),
    Variant(
        "ignore-taint",
        stock("TaintToleration"),
        {"HARD-9": NOT_ELIGIBLE.format("taint example.com/maintenance")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "overcommit",
        stock("NodeResourcesFit"),
        {
            "CAP-4": r"requested \d+ of 8 allocatable nvidia.com/gpu",
            "CAP-6": NOT_ELIGIBLE.format("request 9 nvidia.com"),
        },
        {"HARD-1": FULL, "WAKE-5": FULL, "OBS-6": FULL},
        run=("CAP-4", "CAP-6", "ISO-1"),
    ),
    Variant(
        "overwrites-profiles",
        overwriting(),
        {"ISO-7": r"pluginConfig.NodeResourcesFit.args.scoringStrategy.type: LeastAllocated became MostAllocated"},
    ),
    # The stock scheduler with a rival in the same deployment.
    Variant(
        "steals-pods",
        beside_stock("another-scheduler", "nobody-serves-this"),
        {
            "ISO-1": r"no write of the candidate about Pod s\d+-foreign-1, which names 'another-scheduler'",
            "ISO-4": r"no write of the candidate about Pod s\d+-orphan-1, which names 'nobody-serves-this'",
        },
    ),
    # The small scheduler with a fault.
    Variant(
        "preference-wins",
        toy("preference-wins"),
        {"HARD-2": NOT_ELIGIBLE.format(AFFINITY)},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "relax-after-retries",
        toy("relax-after-retries"),
        {"HARD-3": NOT_ELIGIBLE.format(AFFINITY)},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "label-prefix-match",
        toy("label-prefix-match"),
        {"HARD-4": NOT_ELIGIBLE.format("node has infra.example.com/high-speed-network='true-2'")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "stale-labels",
        toy("stale-labels"),
        {"HARD-6": NOT_ELIGIBLE.format("node has infra.example.com/high-speed-network=None")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "tenant-label",
        toy("tenant-label"),
        {"HARD-8": NOT_ELIGIBLE.format("node has infra.example.com/high-speed-network=None")},
        {"INV-1": AT_BINDING},
    ),
    Variant(
        "count-first-container",
        toy("count-first-container"),
        {"HARD-10": NOT_ELIGIBLE.format("request 5 nvidia.com/gpu, it has 4")},
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "ignore-allocatable",
        toy("ignore-allocatable"),
        {
            "CAP-5": NOT_ELIGIBLE.format("request 5 nvidia.com/gpu, it has 2"),
            "WAKE-11": NOT_ELIGIBLE.format("request 8 nvidia.com/gpu, it has 0"),
        },
        {"CAP-4": AT_BINDING},
    ),
    Variant(
        "no-wake-node",
        toy("no-wake-node"),
        {"HARD-5": NOT_BOUND.format("affinity"), "WAKE-5": NOT_BOUND.format("Insufficient")},
        {"HARD-1": "its attempts are provoked by a node that is added", "ISO-1": "so is its fence closed"},
    ),
    Variant("no-wake-label", toy("no-wake-label"), {"WAKE-1": NOT_BOUND.format("affinity")}),
    Variant(
        "no-wake-taint",
        toy("no-wake-taint"),
        {"WAKE-2": NOT_BOUND.format("taint")},
        {"WAKE-5": "a node is tainted until it is Ready"},
    ),
    Variant("no-wake-allocatable", toy("no-wake-allocatable"), {"WAKE-3": NOT_BOUND.format("Insufficient")}),
    Variant("no-wake-pod", toy("no-wake-pod"), {"WAKE-4": NOT_BOUND.format("Insufficient")}),
    Variant(
        "ignore-gates",
        toy("ignore-gates"),
        {"WAKE-7": "expected: no binding request for Pod"},
    ),
    Variant("stale-reason", toy("stale-reason"), {"WAKE-9": "the message names no gpu .*: .*node affinity"}),
    Variant(
        "wake-on-heartbeat",
        toy("wake-on-heartbeat"),
        {"WAKE-10": r"expected: no attempt: unschedulable stays at \d+\nseen: "},
    ),
    Variant("polls", toy("polls"), {"WAKE-10": r"expected: no attempt: unschedulable stays at \d+\nseen: "}),
    Variant(
        "retry-storm",
        toy("retry-storm"),
        {"WAKE-10": r"at most \d+ binding requests", "INV-2": r"backoff allows at most \d+"},
    ),
    Variant(
        "leak-on-bind",
        toy("leak-on-bind"),
        {"RES-4": NOT_BOUND.format("Insufficient"), "INV-4": 'type="assumed_pods"} is 1'},
        run=("RES-4", "OBS-2"),
    ),
    Variant("doomed-first", toy("doomed-first"), {"RES-5": NOT_BOUND.format("nothing says it was tried")}),
    Variant(
        "false-scheduled-event",
        toy("false-scheduled-event"),
        {"OBS-6": "no event Scheduled about", "RES-4": "no event Scheduled about"},
    ),
    Variant("gauge-leak", toy("gauge-leak"), {"OBS-1": r'scheduler_pending_pods{queue="gated"} is 1'}),
    Variant("wrong-result-label", toy("wrong-result-label"), {"OBS-2": "result unschedulable counted"}),
    Variant(
        "renamed-metric",
        toy("renamed-metric"),
        {"OBS-4": "scheduler_schedule_attempts_total: not exposed"},
        {"HARD-1": "its attempts cannot be counted"},
    ),
    Variant(
        "last-attempt-latency",
        toy("last-attempt-latency", family="kube-scheduler"),
        {"OBS-5": r"the candidate's mean latency of s\d+-pod-9 is"},
    ),
    Variant("crash", toy("crash"), {"INV-3": "process scheduler ended: exit code 1"}, run=("HARD-1",)),
)
