"""Candidates as processes: small HTTP servers stand in for schedulers, a fake cluster for the API server."""

import dataclasses
import datetime as dt
import json
import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import candidates
from candidates import DeployError, DescriptorError, ScrapeError
from candidates.deployed import CRD_YOUNG, POLL, wait_until_served
from candidates.loopback import Loopback, Unreachable, is_free
from clusters.kube import ApiError, Json
from clusters.processes import Process, Supervisor, free_port
from clusters.provider import Cluster, Identity, ProviderError

Write = Callable[..., Path]
Deploy = Callable[..., candidates.HostDeployed]

MODULE = sys.modules["candidates.host"]
PROGRAM = Path(__file__).with_name("program.py")
ARGS = (
    "ports: {web: auto}",
    "ports: {web: auto}\n      args: [$(port:web)]\n      readiness: {scheme: http, port: web}",
)
PYTHON = ("[python3,", "[$(component:python),")  # `python3` on PATH may be a script that sets variables
OBSERVE = """
observe:
  metrics: {scheme: http, port: web, auth: token}
  config: {scheme: http, port: web, path: /configz}
  health: [{scheme: http, port: web, path: /readyz}, {scheme: http, port: web, path: /healthz}]
"""


@dataclasses.dataclass
class FakeCluster:
    """What a deployment asks of a cluster, remembered."""

    folder: Path
    provider: str = "fake"
    kubernetes: str = "v1.37.2"
    capabilities: frozenset[Any] = frozenset()
    audit_log: Path | None = None
    asked: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "admin"

    def identity(self, name: str, *, roles: Any = ()) -> Identity:
        self.asked[name] = list(roles)
        file = self.folder / name
        server = {"cluster": {"server": "https://127.0.0.1:1"}}
        file.write_text(json.dumps({"clusters": [server], "users": [{"user": {"token": f"token-of-{name}"}}]}))
        return Identity(name, f"system:serviceaccount:unreserve-system:{name}", file)

    def binary(self, component: str) -> Path:
        if component != "python":
            raise ProviderError(f"there is no {component}")
        return Path(sys.executable)

    def problems(self) -> list[str]:
        return []


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "state") as started:
        yield started


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    folder = tmp_path / "cluster"
    folder.mkdir()
    return FakeCluster(folder)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """What was applied by the administrator, in order."""
    manifests: list[Json] = []

    class FakeKube:
        def __init__(self, kubeconfig: Path) -> None:
            assert kubeconfig.name == "admin"

        def close(self) -> None:
            pass

        def apply(self, manifest: Json, *, namespace: str) -> Json:
            assert namespace == "default"
            if manifest["kind"] == "Bad":
                raise ApiError(422, "Invalid", "no such thing")
            manifests.append(manifest)
            return manifest

    monkeypatch.setattr(MODULE, "Kube", FakeKube)
    return manifests


@pytest.fixture
def deploy(tmp_path: Path, supervisor: Supervisor, cluster: FakeCluster) -> Deploy:
    def bring_up(path: Path, name: str = "run") -> candidates.HostDeployed:
        if not (path.parent / "program.py").exists():
            shutil.copy(PROGRAM, path.parent)
        deployed = candidates.deploy(
            candidates.load(path), cluster, supervisor, tmp_path / name / "work", tmp_path / name / "logs"
        )
        assert isinstance(deployed, candidates.HostDeployed)
        return deployed

    return bring_up


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_fake_cluster_is_a_cluster(cluster: FakeCluster) -> None:
    assert isinstance(cluster, Cluster)


def test_a_candidate_comes_up_and_tells_about_itself(
    written: Write, deploy: Deploy, cluster: FakeCluster, applied: list[Json]
) -> None:
    deployed = deploy(written(ARGS, more=OBSERVE))

    user = "system:serviceaccount:unreserve-system:small-scheduler"
    assert (deployed.username, deployed.usernames) == (user, (user,))
    assert deployed.scheduler_names == ("small",)
    assert deployed.version == "1.0"
    assert deployed.reported_version is None
    assert deployed.metrics() == "who Bearer token-of-metrics-reader\n"
    assert deployed.health() == {"/readyz": 200, "/healthz": 403}
    assert deployed.exits() == []
    assert {role["name"] for role in cluster.asked["small-scheduler"]} == {
        "system:kube-scheduler", "system:volume-scheduler", "system:auth-delegator",
        "extension-apiserver-authentication-reader",
    }  # fmt: skip
    assert [manifest["kind"] for manifest in applied] == ["ClusterRole"]


def test_a_process_gets_what_is_declared_and_nothing_else(
    written: Write, deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    files = "files: {config: {content: 'k: $(kubeconfig), s: $(server), $$(x)'}}"
    process = ARGS[1].replace("$(port:web)", '$(port:web), --config=$(file:config), "a b; $HOME"')
    more = "observe: {config: {scheme: http, port: web, path: /configz}}\n"
    gates = "controlPlane: {featureGates: {A: true, B: false}}\n"
    changes = (ARGS[0], f"{process}\n      {files}\n      env: {{GATES: $(feature-gates)}}"), PYTHON
    deployed = deploy(written(*changes, more=more + gates))

    seen = deployed.config()

    work = tmp_path / "run/work"
    assert seen
    assert seen["argv"][2:] == [f"--config={work}/scheduler/config", "a b; $HOME"]
    env = seen["env"]
    assert (env["GATES"], env["HOME"]) == ("A=true,B=false", f"{work}/scheduler")
    assert set(env) <= {"PATH", "HOME", "GATES", "UNRESERVE_RUN", "PWD", "LC_CTYPE"}
    rendered = work / "scheduler/config"
    assert rendered.read_text() == f"k: {tmp_path}/cluster/small-scheduler, s: https://127.0.0.1:1, $(x)"
    assert (mode(rendered), mode(rendered.parent), mode(work)) == (0o600, 0o700, 0o700)


def test_an_early_exit_is_told_with_its_last_words(written: Write, deploy: Deploy, tmp_path: Path) -> None:
    path = written((ARGS[0], ARGS[1].replace("[$(port:web)]", "[$(port:web), broken]")))

    with pytest.raises(DeployError) as refused:
        deploy(path)

    text = str(refused.value)
    assert "scheduler exited with code 1" in text
    assert "first words" in text
    assert "cannot do <this>" in text
    assert str(tmp_path / "run/logs/scheduler.log") in text
    assert str(path) in text


def test_a_process_that_never_gets_ready_is_told_and_stopped(
    written: Write, deploy: Deploy, supervisor: Supervisor
) -> None:
    probe = "readiness: {scheme: http, port: web, path: /healthz, timeout: 500ms}"
    path = written((ARGS[0], ARGS[1].replace("readiness: {scheme: http, port: web}", probe)))

    with pytest.raises(DeployError, match=r"scheduler is not ready \(http /healthz on port \d+\) after 0\.5 s"):
        deploy(path)

    assert [process.poll() is None for process in supervisor.processes] == [False]


def test_a_process_that_lost_its_port_is_started_with_another(
    written: Write, deploy: Deploy, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        taken = thief.getsockname()[1]
        handed = iter([taken, taken])
        monkeypatch.setattr(MODULE, "free_port", lambda: next(handed, None) or free_port())
        deployed = deploy(written(ARGS))

    assert deployed.ports["web"] != taken
    assert len(supervisor.processes) == 3
    assert deployed.exits() == []


def test_a_fixed_port_that_is_taken_is_refused_before_anything_starts(
    written: Write, deploy: Deploy, supervisor: Supervisor
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as thief:
        taken = thief.getsockname()[1]
        path = written((ARGS[0], ARGS[1].replace("web: auto", f"web: {taken}")))
        with pytest.raises(DeployError, match=rf"scheduler: port {taken} \(web\) is taken; stop what listens there"):
            deploy(path)

    assert supervisor.processes == []


def test_stop_and_restart(written: Write, deploy: Deploy) -> None:
    deployed = deploy(written(ARGS, more=OBSERVE.replace("auth: token", "auth: none")))
    before, port = deployed.processes["scheduler"].pid, deployed.ports["web"]

    deployed.restart()
    deployed.start()

    assert list(deployed.processes) == ["scheduler"]
    assert deployed.processes["scheduler"].pid != before
    assert deployed.starts == 2
    assert deployed.ports["web"] == port
    assert deployed.metrics() == "who None\n"
    assert deployed.stop() == {"scheduler": -signal.SIGTERM}
    assert deployed.stop() == {}
    assert is_free(port)
    assert deployed.exits() == []
    with pytest.raises(ScrapeError, match="scheduler does not listen on its port web"):
        deployed.metrics()


def test_an_end_that_nobody_asked_for_is_kept(written: Write, deploy: Deploy) -> None:
    deployed = deploy(written(ARGS))
    process = deployed.processes["scheduler"]

    process.signal(signal.SIGKILL)
    process.wait(10)

    assert deployed.exits() == [("scheduler", -signal.SIGKILL)]
    deployed.restart()
    assert deployed.exits() == [("scheduler", -signal.SIGKILL)]


def test_a_process_that_does_not_obey_is_killed(written: Write, deploy: Deploy) -> None:
    args = ARGS[1].replace("[$(port:web)]", "[$(port:web), stubborn]\n      stop: {signal: SIGINT, grace: 100ms}")
    deployed = deploy(written((ARGS[0], args)))

    code = deployed.stop()["scheduler"]

    assert code in (-signal.SIGTERM, -signal.SIGKILL)


TWO = """\
    - name: second
      command: [python3, $(folder)/program.py, $(port:other), $(port:web)]
      ports: {other: auto}
      readiness: {scheme: http, port: other}
"""


def test_processes_start_in_order_and_see_the_ports_of_others(
    written: Write, deploy: Deploy, supervisor: Supervisor
) -> None:
    deployed = deploy(written(ARGS, more=TWO))

    assert list(deployed.processes) == ["scheduler", "second"]
    assert deployed.processes["second"].argv[-1] == str(deployed.ports["web"])
    assert len(set(deployed.usernames)) == 2
    assert list(deployed.stop()) == ["second", "scheduler"]
    assert [type(process) for process in supervisor.processes] == [Process, Process]


def test_when_the_second_does_not_come_up_the_first_is_stopped(
    written: Write, deploy: Deploy, supervisor: Supervisor
) -> None:
    with pytest.raises(DeployError, match="second exited with code 1"):
        deploy(written(ARGS, more=TWO.replace("$(port:other),", "$(port:other), broken,")))

    assert all(process.poll() is not None for process in supervisor.processes)


def test_an_optional_process_may_be_absent(written: Write, deploy: Deploy) -> None:
    broken = TWO.replace("$(port:other),", "$(port:other), broken,") + "      required: false\n"

    deployed = deploy(written(ARGS, more=broken))

    assert list(deployed.processes) == ["scheduler"]
    assert "exited with code 1" in deployed.absent["second"]
    assert deployed.notes[0].startswith("the optional process second did not come up: ")
    assert deployed.exits() == []


def test_the_binder_is_the_process_that_is_named(written: Write, deploy: Deploy) -> None:
    deployed = deploy(written(ARGS, ("deployment:", "deployment:\n  binder: second"), more=TWO))

    assert deployed.username.endswith(":small-second")


def test_a_process_without_a_probe_must_stay_alive(written: Write, deploy: Deploy) -> None:
    args = ARGS[1].split("\n      readiness", maxsplit=1)[0]

    assert deploy(written((ARGS[0], args)), "good").exits() == []
    with pytest.raises(DeployError, match="exited with code 1"):
        deploy(written((ARGS[0], args.replace("web)]", "web), broken]\n      warmUp: 60s"))), "bad")


def test_the_digest_depends_on_bytes_only(written: Write, deploy: Deploy, tmp_path: Path) -> None:
    args = (ARGS[0], ARGS[1] + "\n      files: {config: {source: config.yaml}}")
    path = written(args)
    config = path.parent / "config.yaml"
    config.write_text("a: $(kubeconfig)")

    first = deploy(path, "first")
    again = deploy(path, "again")
    moved = deploy(Path(shutil.copytree(path.parent, tmp_path / "moved")) / path.name, "moved")
    config.write_text("b: $(kubeconfig)")
    configured = deploy(path, "configured")
    config.write_text("a: $(kubeconfig)")
    with (path.parent / "program.py").open("a") as program:
        program.write("# another build\n")
    rebuilt = deploy(path, "rebuilt")

    assert first.digest.startswith("sha256:")
    assert len({first.ports["web"], again.ports["web"], moved.ports["web"]}) == 3
    assert first.digest == again.digest == moved.digest
    assert len({first.digest, configured.digest, rebuilt.digest}) == 3


def test_setup_is_applied_before_the_start(written: Write, deploy: Deploy, applied: list[Json]) -> None:
    path = written(ARGS, more="""\
setup:
  - object: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {port: $(port:web), v: $(kubernetes.minor)}}
  - file: more.yaml
""")  # fmt: skip
    (path.parent / "more.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: $(as-it-is)}\n")

    deployed = deploy(path)

    assert applied[0]["data"] == {"port": str(deployed.ports["web"]), "v": "1.37"}
    assert applied[1]["metadata"] == {"name": "$(as-it-is)"}


def test_a_new_kind_is_waited_for_until_its_objects_are_created_without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("candidates.deployed.time.sleep", slept.append)
    old, new = ({"kind": "CustomResourceDefinition", "metadata": {"name": name}} for name in ("old", "new"))
    served = {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
    answers = [{}, served]

    class FakeKube:
        def get(self, resource: str, name: str) -> Json:
            assert (resource, name) == ("apiextensions.k8s.io/v1/customresourcedefinitions", "new")
            return answers.pop(0)

    wait_until_served(cast("Any", FakeKube()), [(old | served, ""), ({"kind": "Role"}, "")])
    assert slept == []
    wait_until_served(cast("Any", FakeKube()), [(old | served, ""), (new, "")])
    assert slept == [POLL, CRD_YOUNG]


def test_a_refused_setup_object_is_told(
    written: Write, deploy: Deploy, applied: list[Json], supervisor: Supervisor
) -> None:
    path = written(ARGS, more="setup: [{object: {apiVersion: v1, kind: Bad, metadata: {name: x}}}]\n")

    with pytest.raises(DeployError, match=r"candidate\.yaml: setup\[0\]: Bad x is refused: 422 Invalid: no such thing"):
        deploy(path)

    assert (applied, supervisor.processes) == ([], [])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (("[python3, $(folder)/program.py]", "[$(folder)/nothing]"), DeployError, "nothing is no program; build it"),
        (("[python3, $(folder)/program.py]", "[no-such-program]"), DeployError, "no program 'no-such-program' on PATH"),
        (("[python3, $(folder)/program.py]", "[$(component:kubelet)]"), ProviderError, "there is no kubelet"),
        (('["1.37"]', '["1.36"]'), DescriptorError, "made for 1.36, not for 1.37"),
        (("deployment:", "webhooks: {need: required}\ndeployment:"), ProviderError, "no webhook reaches a process"),
        (("{web: auto}", "{web: auto}\n      workingDir: /nowhere"), DeployError, "cannot be started"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_anything_starts(
    written: Write, deploy: Deploy, supervisor: Supervisor, change: tuple[str, str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        deploy(written(change))

    assert supervisor.processes == []


def test_what_an_endpoint_refuses_is_told(written: Write, deploy: Deploy) -> None:
    more = (
        "observe: {metrics: {scheme: http, port: web, path: /no}, config: {scheme: http, port: web, path: /garbage}}\n"
    )
    deployed = deploy(written(ARGS, more=more))

    with pytest.raises(ScrapeError, match=r"/no of small answers 403; is `auth: token` missing"):
        deployed.metrics()
    with pytest.raises(ScrapeError, match="/garbage of small is no JSON object"):
        deployed.config()


def test_an_endpoint_answers_strangers_with_what_they_show(
    written: Write, deploy: Deploy, cluster: FakeCluster, applied: list[Json]
) -> None:
    deployed = deploy(written(ARGS, more=OBSERVE))
    metrics, health = deployed.descriptor.observe.metrics, deployed.descriptor.observe.health[1]
    assert metrics
    assert applied

    assert deployed._ask(metrics, None) == (200, b"who None\n")
    assert deployed._ask(metrics, "x") == (200, b"who Bearer x\n")
    assert [deployed.answer_to(who, health) for who in (None, cluster.identity("tenant"))] == [403, 403]


def test_what_the_processes_write_is_kept_over_restarts(written: Write, deploy: Deploy) -> None:
    deployed = deploy(written(ARGS))
    assert deployed.logs() == {"scheduler": "first words\n"}
    deployed.restart()
    assert deployed.logs() == {"scheduler": "first words\nfirst words\n"}


def test_whether_it_counts_as_ready_only_once_it_says_so(written: Write, deploy: Deploy) -> None:
    assert deploy(written(ARGS), name="probed").probed
    unprobed = ARGS[1].replace("\n      readiness: {scheme: http, port: web}", "")
    assert not deploy(written((ARGS[0], unprobed)), name="unprobed").probed


def test_nothing_is_read_where_nothing_is_declared(written: Write, deploy: Deploy) -> None:
    deployed = deploy(written(ARGS))

    assert (deployed.metrics(), deployed.config(), deployed.health()) == (None, None, {})


def test_the_version_is_compared_with_what_the_program_prints(written: Write, deploy: Deploy) -> None:
    version = 'versionArgs: ["0", broken]\n      args'
    deployed = deploy(written(PYTHON, (ARGS[0], ARGS[1].replace("args", version))))

    assert deployed.reported_version == "first words"


def certificate(file: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "scheduler")])
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), start, start + dt.timedelta(days=36500)
    ).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    plain = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(plain + made.public_bytes(pem))
    return file


def test_a_self_signed_certificate_is_taken_and_then_kept_to(supervisor: Supervisor, tmp_path: Path) -> None:
    port = free_port()
    web = Loopback("https", port)
    argv: list[str | Path] = [sys.executable, PROGRAM, str(port)]
    log = tmp_path / "log"

    def up() -> bool:
        try:
            return Loopback("https", port).get("/readyz") == (200, b"ok")
        except Unreachable:
            return False

    first = supervisor.start("first", [*argv, certificate(tmp_path / "a.pem")], log=log)
    first.wait_until(up, 10)
    assert web.get("/metrics", "t") == (200, b"who Bearer t\n")
    first.stop()
    second = supervisor.start("second", [*argv, certificate(tmp_path / "b.pem")], log=log)
    second.wait_until(up, 10)

    with pytest.raises(Unreachable, match="Fingerprints did not match"):
        web.get("/metrics", "t")
    assert os.getpgid(second.pid) == second.pid
