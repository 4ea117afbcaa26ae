"""Schedulers that are wrong in one known way, and the requirement that must catch each."""

import sys
from collections.abc import Callable, Mapping
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
