"""How fast the embedded cluster is ready, side by side with `kwokctl create cluster` and the same binaries.

Both are measured in turn, in one process, to the same three points: `/readyz` answers, a fake node that was then
created is Ready, a Pod that was then created and bound is Running. Run it by `make bench`.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from clusters import golang, local
from clusters.kube import ApiError, ApiUnreachable, Kube
from clusters.local import build
from clusters.processes import POLL, Supervisor, minimal_environment
from clusters.progress import Shown

POINTS = ("API server ready", "fake node Ready", "bound Pod Running")
# Beyond this ratio of the medians to the last point the bench fails.
LIMIT = 1.15
# Seconds for one cluster.
TIMEOUT = 120.0

Begin = Callable[[Path], AbstractContextManager[Path]]
console = Console(highlight=False)


def main(
    rounds: Annotated[int, typer.Option(help="Measured rounds of each; one more warms up.")] = 5,
    kubernetes: Annotated[str, typer.Option(help="Minor version.")] = build.NEWEST,
) -> None:
    """Measure, print the medians and the ratio, and exit with 1 where the embedded cluster is too slow."""
    with Shown() as progress:
        binaries = build.binaries(kubernetes, progress=progress)
        kwokctl = golang.ensure(build.components(kubernetes)["kwokctl"], progress)

        @contextmanager
        def ours(folder: Path) -> Iterator[Path]:
            cluster = local.create("bench", kubernetes=kubernetes, results=folder)
            try:
                yield cluster.kubeconfig
            finally:
                cluster.destroy()

        @contextmanager
        def theirs(folder: Path) -> Iterator[Path]:
            # The token of the supervisor reaches what kwokctl leaves running: leaving this block ends all of it.
            with Supervisor(folder / "state") as supervisor:
                kubeconfig = _start_kwokctl(supervisor, kwokctl, binaries, folder)
                yield kubeconfig

        taken: dict[str, list[tuple[float, ...]]] = {"unreserve": [], "kwokctl": []}
        contenders: dict[str, Begin] = {"unreserve": ours, "kwokctl": theirs}
        for number in range(rounds + 1):
            for name, begin in contenders.items():
                progress.tick(f"round {number} of {rounds}: {name}")
                seconds = _measure(begin)
                if number > 0:
                    taken[name].append(seconds)
    raise SystemExit(_judge(taken))


def _start_kwokctl(supervisor: Supervisor, kwokctl: Path, binaries: dict[str, Path], folder: Path) -> Path:
    home = supervisor.state
    flags = [
        f"--{name}-binary={binaries[component]}"
        for name, component in {
            "etcd": "etcd", "kube-apiserver": "kube-apiserver", "kwok-controller": "kwok",
            "kube-controller-manager": "kube-controller-manager",
        }.items()
    ]  # fmt: skip
    # Without its scheduler: the embedded cluster has none either.
    command: list[str | Path] = [
        kwokctl,
        "create",
        "cluster",
        "--name=bench",
        "--runtime=binary",
        "--disable=kube-scheduler",
        *flags,
    ]
    environment = minimal_environment() | {"HOME": str(home), "KWOK_WORKDIR": str(home / "kwok")}
    process = supervisor.start("kwokctl", command, env=environment, log=folder / "kwokctl.log")
    kubeconfig = home / "kwok" / "clusters" / "bench" / "kubeconfig.yaml"
    while not (kubeconfig.exists() and kubeconfig.stat().st_size):
        if process.poll():
            raise SystemExit(f"kwokctl failed:\n{process.log.read_text()}")
        time.sleep(POLL)
    return kubeconfig


def _measure(begin: Begin) -> tuple[float, ...]:
    """Return the seconds from nothing to each of the points."""
    with tempfile.TemporaryDirectory(prefix="unreserve-bench-") as folder:
        started, points = time.monotonic(), []
        with begin(Path(folder)) as kubeconfig, contextlib.closing(Kube(kubeconfig)) as kube:
            for step in (_ready, _node, _pod):
                step(kube)
                points.append(time.monotonic() - started)
    return tuple(points)


def _ready(kube: Kube) -> None:
    _until(lambda: kube.request("GET", "/readyz").read() == b"ok")


def _node(kube: Kube) -> None:
    node = {
        "metadata": {"name": "node", "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"capacity": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}},
    }
    kube.create("nodes", node)
    _until(lambda: _is_ready(kube.get("nodes", "node")["status"].get("conditions") or []))


def _is_ready(conditions: list[dict[str, str]]) -> bool:
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _pod(kube: Kube) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
    pod = {"metadata": {"name": "pod"}, "spec": spec}
    # The default ServiceAccount may take longer than the API server is willing to wait.
    _until(lambda: bool(kube.create("pods", pod, "default")))
    binding = {"metadata": {"name": "pod"}, "target": {"kind": "Node", "name": "node"}}
    kube.create("pods", binding, "default", name="pod", subresource="binding")
    admitted = {"status": {"conditions": [{"type": "Admitted", "status": "True"}]}}
    kube.patch("pods", "pod", admitted, "default", subresource="status", kind="strategic")
    _until(lambda: kube.get("pods", "pod", "default")["status"]["phase"] == "Running")


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        with contextlib.suppress(ApiError, ApiUnreachable):
            if true():
                return
        if time.monotonic() > deadline:
            raise SystemExit(f"not ready after {TIMEOUT:.0f} s")
        time.sleep(POLL)


def _judge(taken: dict[str, list[tuple[float, ...]]]) -> int:
    table = Table("seconds from nothing to", *taken, "ratio", title=f"medians of {len(taken['unreserve'])}, in turn")
    ratio = 0.0
    for place, point in enumerate(POINTS):
        middle = [median(seconds[place] for seconds in rounds) for rounds in taken.values()]
        ratio = middle[0] / middle[1]
        table.add_row(point, *(f"{seconds:.2f}" for seconds in middle), f"{ratio:.2f}")
    for name, rounds in taken.items():
        spread = ", ".join(f"{seconds[-1]:.2f}" for seconds in rounds)
        console.print(f"{name}: {spread}")
    console.print(table)
    verdict = "within" if ratio <= LIMIT else "beyond"
    console.print(f"{ratio:.2f} of the time that kwokctl takes, {verdict} the limit of {LIMIT}")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    typer.run(main)
