"""What the fault proxy costs a candidate while no rule stands: Pods bound in a second, with it and without it.

The stock kube-scheduler binds the same Pods on the same cluster, in turn directly and behind the proxy. As it is
shipped the proxy must leave it its throughput. Without its client's own limit it has hundreds of requests under way at
once and, since the proxy speaks HTTP/1.1, opens a connection for each: what that costs is told, and not judged.
Bindings are timed by the audit log. Run it by `make bench`.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import candidates
from candidates import Descriptor
from clusters import local
from clusters.kube import Kube
from clusters.local import build
from clusters.processes import POLL, Supervisor
from clusters.progress import Shown
from clusters.provider import Cluster
from fixtures.proxy.behind import Behind, before

ROOT = Path(__file__).resolve().parents[2]
# The share of throughput that must be left to a scheduler as it is shipped.
LIMIT = 0.9
# Of the Pods, the first of each round are not counted: the client's burst, and connections being made.
WARM_UP = 0.25
NODES, GPUS = 20, 110
# Seconds for one round.
TIMEOUT = 300.0
SHIPPED, UNLIMITED = "as shipped", "without its client's limit"
FLAGS: dict[str, list[str]] = {SHIPPED: [], UNLIMITED: ["--kube-api-qps=5000", "--kube-api-burst=10000"]}

Json = dict[str, Any]
console = Console(highlight=False)


def main(
    rounds: Annotated[int, typer.Option(help="Measured rounds of each.")] = 4,
    pods: Annotated[int, typer.Option(help="Pods to bind in each round.")] = 600,
    kubernetes: Annotated[str, typer.Option(help="Minor version.")] = build.NEWEST,
) -> None:
    """Measure, print medians and ratios, and exit with 1 where the proxy takes too much."""
    descriptor = candidates.load(ROOT / "candidates" / "stock.yaml")
    ratios = {}
    with tempfile.TemporaryDirectory(prefix="unreserve-bench-") as folder, Shown() as progress:
        cluster = local.create("bench", kubernetes=kubernetes, results=Path(folder), progress=progress)
        try:
            bench = Bench(cluster, Path(folder))
            for name, flags in FLAGS.items():
                taken: dict[str, list[float]] = {"directly": [], "behind the proxy": []}
                for number in range(rounds):
                    # ABBA: whatever drifts, drifts for both.
                    for way in list(taken)[:: 1 if number % 2 == 0 else -1]:
                        progress.tick(f"{name}: round {number + 1} of {rounds}, {way}")
                        taken[way].append(bench.measure(with_flags(descriptor, flags), pods, way == "behind the proxy"))
                ratios[name] = _tell(name, taken)
        finally:
            cluster.destroy()
    verdict = "within" if ratios[SHIPPED] >= LIMIT else "beyond"
    console.print(f"{ratios[SHIPPED]:.2f} of the throughput {SHIPPED}, {verdict} the limit of {LIMIT}")
    console.print(f"{ratios[UNLIMITED]:.2f} of that {UNLIMITED}, told for information")
    raise SystemExit(int(ratios[SHIPPED] < LIMIT))


def with_flags(descriptor: Descriptor, flags: list[str]) -> Descriptor:
    """Return the descriptor with further arguments for its one process."""
    process = descriptor.deployment.processes[0]
    process = process.model_copy(update={"args": (*process.args, *flags)})
    deployment = descriptor.deployment.model_copy(update={"processes": (process,)})
    return descriptor.model_copy(update={"deployment": deployment})


class Bench:
    """One cluster, and schedulers that bind the same Pods on it one after the other."""

    def __init__(self, cluster: local.LocalCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._kube, self._round = Kube(cluster.kubeconfig), 0
        for number in range(NODES):
            capacity = {"cpu": "64", "memory": "512Gi", "pods": str(GPUS)}
            node = {
                "metadata": {"name": f"node-{number}", "annotations": {"kwok.x-k8s.io/node": "fake"}},
                "status": {"capacity": capacity, "allocatable": capacity},
            }
            self._kube.create("nodes", node)

    def measure(self, descriptor: Descriptor, pods: int, proxied: bool) -> float:
        """Return the Pods bound in a second, once they are bound at an even pace."""
        self._round += 1
        folder = self._folder / str(self._round)
        for number in range(pods):
            spec = {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m"}}}]}
            self._kube.create("pods", {"metadata": {"name": f"pod-{self._round}-{number}"}, "spec": spec}, "default")
        assert self._cluster.audit_log
        before_it = self._cluster.audit_log.stat().st_size
        with Supervisor(folder / "state") as supervisor, self._before(supervisor, folder, proxied) as cluster:
            deployed = candidates.deploy(descriptor, cluster, supervisor, folder / "work", folder / "logs")
            deadline = time.monotonic() + TIMEOUT
            while len(times := _bindings(self._cluster.audit_log, before_it)) < pods:
                if time.monotonic() > deadline:
                    raise SystemExit(f"{len(times)} of {pods} Pods bound after {TIMEOUT:.0f} s")
                time.sleep(POLL * 50)
            deployed.stop()
        self._kube.delete_all("pods", "default")
        self._kube.delete_all("events", "default")
        while self._kube.list("pods", "default").items:
            time.sleep(POLL * 10)
        first = int(pods * WARM_UP)
        return (pods - first) / (times[-1] - times[first - 1])

    @contextmanager
    def _before(self, supervisor: Supervisor, folder: Path, proxied: bool) -> Iterator[Cluster]:
        if not proxied:
            yield self._cluster
            return
        logged: list[Json] = []
        proxy = before(
            self._cluster, supervisor, folder / "proxy", folder / "proxy.log", record=logged.append, broke=console.print
        )
        yield Behind(self._cluster, proxy, "candidate")
        proxy.sync()
        bound = sum(entry["resource"] == "pods/binding" for entry in logged)
        assert bound, "the scheduler did not go through the proxy"
        proxy.stop()


def _bindings(log: Path, offset: int) -> list[float]:
    """Return when each accepted binding was answered, in order."""
    times = []
    with log.open("rb") as file:
        file.seek(offset)
        for line in file:
            if b"/binding" in line and b"ResponseComplete" in line and line.endswith(b"\n"):
                audit = json.loads(line)
                if audit["objectRef"].get("subresource") == "binding" and audit["responseStatus"]["code"] == 201:
                    times.append(datetime.fromisoformat(audit["stageTimestamp"]).timestamp())
    return sorted(times)


def _tell(name: str, taken: dict[str, list[float]]) -> float:
    table = Table("Pods bound in a second", *taken, "ratio", title=f"kube-scheduler {name}, in turn")
    for number, pair in enumerate(zip(*taken.values(), strict=True), 1):
        table.add_row(f"round {number}", *(f"{rate:.1f}" for rate in pair), f"{pair[1] / pair[0]:.2f}")
    direct, proxied = (median(rates) for rates in taken.values())
    table.add_row("median", f"{direct:.1f}", f"{proxied:.1f}", f"{proxied / direct:.2f}")
    console.print(table)
    return proxied / direct


if __name__ == "__main__":
    typer.run(main)
