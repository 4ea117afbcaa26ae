"""Descriptors of schedulers that are wrong in one known way, and of healthy ones to hold them against."""

import copy
import functools
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
CANDIDATES = Path(__file__).parents[2] / "candidates"
REFERENCE = CANDIDATES / "reference.yaml"
TOY, SHIM = Path(__file__).with_name("toy.py"), Path(__file__).with_name("shim.py")
# The one that the role of a scheduler grants.
LEASE = {"namespace": "kube-system", "name": "kube-scheduler"}
# What the small scheduler goes back to: itself, without any fault.
TOY_BEFORE = "toy-before.yaml"
# Seconds. Short, so that a Pod nobody wakes is soon told from one in backoff.
MAX_BACKOFF = 2


def reference(*faults: str) -> Json:
    """Describe the reference scheduler, with its faults."""
    descriptor = shipped(REFERENCE.name)
    descriptor["identity"]["name"] = "-".join(["reference", *faults])
    if faults:
        _without_deviations(descriptor)
    scheduler = next(each for each in descriptor["deployment"]["processes"] if each["name"] == "scheduler")
    scheduler["args"] += [f"--fault={each}" for each in faults]
    return descriptor


def toy(*faults: str, family: str = "own") -> Json:
    """Describe the small scheduler, with its faults."""
    metrics: Json = {"scheme": "http", "port": "scheduler", "family": family}
    metrics["names"] = {
        "attempts": {"name": "scheduler_schedule_attempts_total"},
        "pending": {"name": "scheduler_pending_pods"},
        "assumed": {"name": "scheduler_cache_size", "labels": {"type": "assumed_pods"}},
    }
    process = _toy_process("scheduler", "$(scheduler-name)", faults=faults)
    process["leaderElection"] = {
        "switch": [f"--elect={LEASE['namespace']}/{LEASE['name']}"], "lease": LEASE, "onLoss": "exit",
        "leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s",
    }  # fmt: skip
    return {
        "apiVersion": "unreserve/v1",
        "kind": "Candidate",
        "identity": {
            "name": "-".join(["toy", *faults]),
            "version": "1.0",
            "organisation": "Unreserve",
            "contact": "the project's issue tracker",
            "source": "tests/proof/toy.py",
        },
        "schedulerNames": ["toy"],
        "kubernetesVersions": ["1.34", "1.35", "1.36", "1.37"],
        "deployment": {"processes": [process]},
        "claims": {"leader-election": {}},
        "observe": {"metrics": metrics},
        "policies": {"backoff": {"initial": "1s", "max": f"{MAX_BACKOFF}s"}, "unschedulableFlush": "24h"},
        "baseline": {"descriptor": TOY_BEFORE},
    }


def toy_taking_back() -> Json:
    """Describe the small scheduler with rights on Deployments, by which it makes their templates name it again."""
    descriptor, role = toy("takes-back"), "toy:templates"
    rule = {"apiGroups": ["apps"], "resources": ["deployments", "replicasets"], "verbs": ["list", "watch", "patch"]}
    metadata = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": role}}
    descriptor["setup"] = [{"object": {**metadata, "rules": [rule]}}]
    roles = [{"kind": "ClusterRole", "name": name} for name in ("system:kube-scheduler", role)]
    descriptor["deployment"]["processes"][0]["roles"] = roles
    return descriptor


def toy_without_conditions() -> Json:
    """Describe the small scheduler as one that is right in another way: it says why a Pod waits in events alone."""
    return toy("no-condition") | {"signals": {"podCondition": False}}


def toy_bound_by_extender(*faults: str) -> Json:
    """Describe the small scheduler with the extender of the candidate `extender`, which binds its Pods."""
    descriptor, extender = toy(*faults), shipped("extender.yaml")
    descriptor["identity"]["name"] = "-".join(["toy-extender", *faults])
    descriptor["setup"] = extender["setup"]
    process = descriptor["deployment"]["processes"][0]
    process["args"].append("--binder=http://$(dependency:binder)")
    descriptor["deployment"] = {"processes": [extender["deployment"]["processes"][0], process], "binder": "scheduler"}
    descriptor["claims"] = {"extender-bind": {}}
    descriptor["policies"]["extenderTimeout"] = "2s"
    descriptor["policies"]["dependencies"] = {"binder": extender["policies"]["dependencies"]["binder"]}
    return descriptor


def extender(name: str, **changed: Any) -> Json:
    """Describe the candidate `extender` with fields of one of its extenders changed."""
    descriptor = shipped("extender.yaml")
    _without_deviations(descriptor)
    configuration = _configuration(descriptor)
    entry = next(each for each in configuration["extenders"] if f"$(dependency:{name})" in each["urlPrefix"])
    entry.update(changed)
    _write_configuration(descriptor, configuration)
    return descriptor


def through_shim(*faults: str, whole_nodes: bool = False) -> Json:
    """Describe the candidate `extender` with a further program of its own between scheduler and dependency.

    With `whole_nodes` the scheduler asks by nodes, not by names, and only to filter.
    """
    descriptor = shipped("extender.yaml")
    _without_deviations(descriptor)
    descriptor["identity"]["name"] = "-".join(["extender-shim", *faults])
    configuration = _configuration(descriptor)
    entry = configuration["extenders"][0]
    entry["urlPrefix"] = "http://127.0.0.1:$(port:shim)/network"
    if whole_nodes:
        entry["nodeCacheCapable"] = False
        del entry["prioritizeVerb"], entry["preemptVerb"]
    _write_configuration(descriptor, configuration)
    shim = {
        "name": "shim",
        "command": [sys.executable, str(SHIM)],
        "args": ["--port=$(port:shim)", "--ask=$(dependency:network)", *(f"--fault={each}" for each in faults)],
        "ports": {"shim": "auto"},
        "readiness": {"scheme": "http", "port": "shim"},
    }
    descriptor["deployment"]["processes"].insert(1, shim)
    return descriptor


def ignorable() -> Json:
    """Describe the candidate `extender-ignorable`."""
    descriptor = shipped("extender-ignorable.yaml")
    _without_deviations(descriptor)
    return descriptor


def stock(*disabled: str) -> Json:
    """Describe the stock kube-scheduler with the filters of some plugins switched off; they still score."""
    descriptor = shipped("stock.yaml")
    _without_deviations(descriptor)
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


def dra(*faults: str, plugins: Json | None = None, together: bool = True) -> Json:
    """Describe the stock kube-scheduler with GPUs as devices; other plugins, or claims that ask for no domain.

    With faults it is the reference scheduler's build, whose plugin Devices stands in place of DynamicResources.
    """
    descriptor = shipped("dra.yaml")
    _without_deviations(descriptor)
    process = descriptor["deployment"]["processes"][0]
    if faults:
        process["command"] = ["$(built:scheduler)"]
        process["args"] += [f"--fault={each}" for each in faults]
        descriptor["build"] = {"scheduler": shipped(REFERENCE.name)["build"]["scheduler"]}
        enabled, disabled = [{"name": "Devices"}], [{"name": "DynamicResources"}]
        plugins = {"multiPoint": {"enabled": enabled, "disabled": disabled}}
    file = process["files"]["config.yaml"]
    configuration = yaml.safe_load((CANDIDATES / file.pop("source")).read_text())
    configuration["profiles"][0]["plugins"] = plugins or {}
    file["content"] = yaml.safe_dump(configuration)
    if not together:
        descriptor["workload"]["devices"]["together"] = {}
    return descriptor


def stock_with(*args: str) -> Json:
    """Describe the stock kube-scheduler with further arguments."""
    descriptor = shipped("stock.yaml")
    descriptor["deployment"]["processes"][0]["args"] += args
    return descriptor


def unheard(name: str) -> Json:
    """Describe a shipped candidate whose scheduler keeps to itself what it writes and how it ends."""
    descriptor = shipped(name)
    process = _scheduler(descriptor)
    process["command"] = ["sh", "-c", '"$0" "$@" >/dev/null 2>&1; exit 0', *process["command"]]
    return descriptor


def stock_unheard_when_built_for(minor: str) -> Json:
    """Describe the stock kube-scheduler whose build for one minor ends at its start, as if nothing were wrong."""
    descriptor = shipped("stock.yaml")
    _without_deviations(descriptor)
    process = copy.deepcopy(_scheduler(descriptor))
    process["command"], process["args"] = ["true"], []
    descriptor["perVersion"] = {minor: {"deployment": {"processes": [process]}}}
    return descriptor


def beside_stock(*names: str) -> Json:
    """Describe the stock kube-scheduler with a process beside it that binds the Pods of other schedulers."""
    descriptor = shipped("stock.yaml")
    _without_deviations(descriptor)
    descriptor["deployment"]["processes"].append(_toy_process("thief", *names))
    return descriptor


def overwriting() -> Json:
    """Describe the canary profile, brought up with other scores for the default profile too."""
    descriptor = shipped("gpu-canary.yaml")
    _without_deviations(descriptor)
    file = descriptor["deployment"]["processes"][0]["files"]["config.yaml"]
    configuration = yaml.safe_load((CANDIDATES / file.pop("source")).read_text())
    default, canary = configuration["profiles"]
    default["pluginConfig"] = canary["pluginConfig"]
    file["content"] = yaml.safe_dump(configuration)
    return descriptor


class Folder:
    """Where descriptors are written: a copy of the shipped candidates, so that what they name lies beside them.

    A copy, because nothing is made in the checkout; a program built from its source is the same as from the checkout's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(CANDIDATES, path, ignore=_modules)
        before = {key: value for key, value in toy().items() if key != "baseline"}
        path.joinpath(TOY_BEFORE).write_text(yaml.safe_dump(before, sort_keys=False))

    def write(self, name: str, descriptor: Json) -> Path:
        """Write a descriptor and return its path."""
        file = self.path / f"{name}.proof.yaml"
        file.write_text(yaml.safe_dump(descriptor, sort_keys=False))
        return file


def _modules(folder: str, names: list[str]) -> list[str]:
    """Return what of a folder belongs to the suite and to no candidate."""
    ours = [name for name in names if name.endswith(".py") and Path(folder) == CANDIDATES]
    return [*ours, *({"__pycache__"} & set(names))]


def faults(descriptor: Json, program: str) -> list[str]:
    """Return the faults that a descriptor switches on in the toy (`toy.py`), or else in the reference."""
    return [
        argument.partition("=")[2]
        for process in descriptor["deployment"]["processes"]
        if process["command"][-1].endswith(program)
        for argument in process["args"]
        if argument.startswith("--fault=")
    ]


def _without_deviations(descriptor: Json) -> None:
    """Let nothing cover what a wrong scheduler does."""
    descriptor.pop("deviations", None)


def _configuration(descriptor: Json) -> Json:
    file = _scheduler(descriptor)["files"]["config.yaml"]
    configuration: Json = yaml.safe_load((CANDIDATES / file["source"]).read_text())
    return configuration


def _write_configuration(descriptor: Json, configuration: Json) -> None:
    _scheduler(descriptor)["files"]["config.yaml"] = {"content": yaml.safe_dump(configuration)}


def _scheduler(descriptor: Json) -> Json:
    found: Json = next(each for each in descriptor["deployment"]["processes"] if each["name"] == "scheduler")
    return found


def shipped(name: str) -> Json:
    """Describe a shipped candidate as it is, by the name of its file."""
    return copy.deepcopy(_read(CANDIDATES / name))


@functools.cache
def _read(file: Path) -> Json:
    descriptor: Json = yaml.safe_load(file.read_text())
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
