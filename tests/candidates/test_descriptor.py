"""A bad descriptor is refused with file, line, field, what was wrong and what to write instead."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml

import candidates
from candidates.__main__ import SCHEMA
from candidates.descriptor import Descriptor, schema
from candidates.document import DescriptorError, Loader, Problem
from candidates.sections.observe import KUBE_SCHEDULER_METRICS

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
Write = Callable[..., Path]

SHIPPED = sorted((CHECKOUT / "candidates").glob("*.yaml"))
THIRD_PARTY = sorted((HERE / "third_party").glob("*.yaml"))


def problems(path: Path) -> list[Problem]:
    with pytest.raises(DescriptorError) as refused:
        candidates.load(path)
    assert str(refused.value) == "\n".join(map(str, refused.value.problems))
    return list(refused.value.problems)


# What is replaced by what; line, field, part of what is wrong, part of the remedy.
ONE_PROBLEM: dict[str, tuple[tuple[str, str], int, str, str, str]] = {
    "unknown key with a near one": (
        ("ports: {web: auto}", "prots: {web: auto}"), 15, "deployment.processes[0].prots",
        "unknown key", "did you mean `ports`?",
    ),
    "unknown key without a near one": (
        ("schedulerNames: [small]", "schedulerNames: [small]\ncolour: red"), 10, "colour",
        "unknown key", "known here: apiVersion, kind, identity,",
    ),
    "snake case": (
        ("kubernetesVersions", "kubernetesVersions: ['1.37']\nper_version: {}\n#"), 11, "per_version",
        "unknown key", "did you mean `perVersion`?",
    ),
    "missing key": (
        ("  contact: team@example.com\n", ""), 3, "identity.contact", "is missing", "add it: Where questions",
    ),
    "another kind": (("kind: Candidate", "kind: Deployment"), 2, "kind", '"Deployment" is not allowed', "Candidate"),
    "text for a list": (
        ("schedulerNames: [small]", "schedulerNames: small"), 9, "schedulerNames", '"small" is no list', "`- item`",
    ),
    "text for a mapping": (("{web: auto}", "web"), 15, "deployment.processes[0].ports", "no mapping", "`key: value`"),
    "yes for true": (
        ("ports: {web: auto}", "required: yes"), 15, "deployment.processes[0].required", '"yes" is neither',
        "write true",
    ),
    "duration": (
        ("ports: {web: auto}", "warmUp: 20"), 15, "deployment.processes[0].warmUp", "20 is no duration", "10s",
    ),
    "quantity": (
        ("schedulerNames", "workload: {node: {capacity: {example.com/x: 4 GiB}}}\nschedulerNames"), 9,
        'workload.node.capacity["example.com/x"]', "'4 GiB' is no quantity", "16Gi",
    ),
    "port": (("web: auto", "web: 99999"), 15, "deployment.processes[0].ports.web", "99999 is no port", "write auto"),
    "signal": (
        ("ports: {web: auto}", "stop: {signal: TERM}"), 15, "deployment.processes[0].stop.signal",
        "'TERM' is no signal", "SIGTERM",
    ),
    "regular expression": (
        ("schedulerNames", "signals: {causes: {gpu: '('}}\nschedulerNames"), 9, "signals.causes.gpu",
        "is no regular expression", "escape it",
    ),
    "one word of several": (
        ("schedulerNames", "mode: own-proces\nschedulerNames"), 9, "mode", "not allowed", "did you mean `own-process`?",
    ),
    "date": (
        ("schedulerNames", "deviations: [{id: OBS-9, reason: r, owner: o, expires: soon, link: l}]\nschedulerNames"), 9,
        "deviations[0].expires", '"soon"', "Last day on which it counts",
    ),
    "claim that is no figure": (
        ("schedulerNames", "claims: {packing: {share: [1]}}\nschedulerNames"), 9, "claims.packing.share",
        "[1] is no single value", "write a number",
    ),
    "missing file": (
        ("ports: {web: auto}",
        "files: {a.yaml: {source: a.yaml}}"), 15, 'deployment.processes[0].files["a.yaml"].source',
        "there is no file 'a.yaml'", "correct the path",
    ),
    "file outside of the folder": (
        ("ports: {web: auto}", "files: {a: {source: ../../etc/passwd}}"), 15, "deployment.processes[0].files.a.source",
        "lies outside the descriptor's folder", "move the file",
    ),
    "target outside of the workdir": (
        ("ports: {web: auto}", "files: {../a: {content: x}}"), 15, 'deployment.processes[0].files["../a"]',
        "'../a' has the wrong form", "plain file name",
    ),
    "file without content": (
        ("ports: {web: auto}", "files: {a: {}}"), 15, "deployment.processes[0].files.a", "needs either content",
        "one of",
    ),
    "shell in a placeholder": (
        ("$(folder)/program.py", "$(cat /etc/passwd)"), 14, "deployment.processes[0].command[1]",
        "`$(cat /etc/passwd)` is not a placeholder", "known here: $(scheduler-name)",
    ),
    "environment in a placeholder": (
        ("ports: {web: auto}", "env: {TOKEN: $(env:SECRET)}"), 15, "deployment.processes[0].env.TOKEN",
        "`$(env:SECRET)` is not a placeholder", "write `$$(`",
    ),
    "misspelt placeholder": (
        ("ports: {web: auto}", "args: [$(kubeconfg)]"), 15, "deployment.processes[0].args[0]",
        "`$(kubeconfg)` is not", "did you mean `$(kubeconfig)`?",
    ),
    "open placeholder": (
        ("ports: {web: auto}", "args: [$(kubeconfig]"), 15, "deployment.processes[0].args[0]", "never closed",
        "close it",
    ),
    "component with a path": (
        ("[python3, $(folder)/program.py]", "[$(component:../../bin/sh)]"), 14, "deployment.processes[0].command[0]",
        "names no component", "kube-scheduler",
    ),
    "program from a port": (
        ("[python3,", "[$(port:web),"), 14, "deployment.processes[0].command[0]", "not a placeholder",
        "$(component:NAME)",
    ),
    "file that is not there in a placeholder": (
        ("ports: {web: auto}", "args: [$(file:config)]"), 15, "deployment.processes[0].args[0]",
        "`$(file:config)` names no file", "add 'config' to `files`",
    ),
    "port that is not there in a placeholder": (
        ("program.py]", "program.py, $(port:wbe)]"), 14, "deployment.processes[0].command[2]",
        "`$(port:wbe)` names no port", "it knows web",
    ),
    "process placeholder outside of a process": (
        ("schedulerNames", "workload: {pod: {metadata: {labels: {x: $(kubeconfig)}}}}\nschedulerNames"), 9,
        "workload.pod.metadata.labels.x", "`$(kubeconfig)` is not", "$(pod.name)",
    ),
    "port of an endpoint": (
        ("schedulerNames", "observe: {metrics: {port: wbe}}\nschedulerNames"), 9, "observe.metrics.port",
        "there is no port 'wbe'", "it knows web",
    ),
    "port of the readiness probe": (
        ("ports: {web: auto}", "readiness: {port: web}"), 15, "deployment.processes[0].readiness.port",
        "there is no port 'web'", "there are none yet",
    ),
    "binder": (
        ("deployment:", "deployment:\n  binder: extender"), 12, "deployment.binder", "no process 'extender'",
        "scheduler",
    ),
    "role in no namespace": (
        ("ports: {web: auto}", "roles: [{kind: Role, name: x}]"), 15, "deployment.processes[0].roles[0]",
        "only a Role", "add it",
    ),
    "setup that is no object": (
        ("schedulerNames", "setup: [{object: {kind: Queue}}]\nschedulerNames"), 9, "setup[0].object",
        "apiVersion is missing", "Kubernetes object",
    ),
    "gang object without resource": (
        ("schedulerNames", "workload: {gang: {pod: {}, object: {kind: PodGroup}}}\nschedulerNames"), 9,
        "workload.gang.resource", "is missing", "group/v1/podgroups",
    ),
    "gang that is claimed and not described": (
        ("schedulerNames", "claims: {gang: {}}\nschedulerNames"), 9, "claims.gang", "workload.gang is missing",
        "becomes a member",
    ),
    "slots that are claimed and not described": (
        ("schedulerNames", "claims: {slots: {}}\nsignals: {causes: {slots: x}}\nschedulerNames"), 9, "claims.slots",
        "workload.slots is missing", "asks for slots",
    ),
    "slots whose lack nobody is told": (
        ("schedulerNames", "claims: {slots: {}}\nworkload: {slots: {pod: {}, node: {}}}\nschedulerNames"), 9,
        "claims.slots", "signals.causes.slots is missing", "regular expression",
    ),
    "placeholder of a Pod on a node": (
        ("schedulerNames", "workload: {slots: {pod: {}, node: {a: $(pod.name)}}}\nschedulerNames"), 9,
        "workload.slots.node.a", "`$(pod.name)` is not", "$(slots)",
    ),
    "field that is no path": (
        ("schedulerNames", "workload: {slots: {pod: {}, node: {},published: {resource: b, field: .}}}\nschedulerNames"),
        9, "workload.slots.published.field", "'.' has the wrong form", "status.slots",
    ),
    "dependency without an address in a placeholder": (
        ("ports: {web: auto}", "args: [$(dependency:x)]\npolicies: {dependencies: {x: {onFailure: closed}}}"), 15,
        "deployment.processes[0].args[0]", "names no dependency with an address", "add 'x' to `policies.dependencies`",
    ),
    "process placeholder in an address": (
        ("schedulerNames", "policies: {dependencies: {x: {onFailure: closed, address: $(server)}}}\nschedulerNames"), 9,
        "policies.dependencies.x.address", "`$(server)` is not", "$(port:NAME)",
    ),
    "dependency that degrades in silence": (
        ("schedulerNames", "policies: {dependencies: {x: {onFailure: degrade}}}\nschedulerNames"), 9,
        "policies.dependencies.x", "degraded is missing", "what is said",
    ),
    "minor as a number": (
        ('["1.37"]', "[1.37]"), 10, "kubernetesVersions[0]", "1.37 is no text", "put it in quotes",
    ),
    "minor with a patch": (
        ('["1.37"]', '["1.37.2"]'), 10, "kubernetesVersions[0]", "'1.37.2' has the wrong form", "the minor in quotes",
    ),
    "difference for a minor that is not supported": (
        ("deployment:", 'perVersion: {"1.20": {}}\ndeployment:'), 11, 'perVersion["1.20"]', "not one of", 'add "1.20"',
    ),
    "unknown key in a difference": (
        ("deployment:", 'perVersion:\n  "1.37":\n    controlPlane: {gates: {}}\ndeployment:'), 13, "controlPlane.gates",
        "unknown key", "featureGates",
    ),
    "key twice": (
        ("kind: Candidate", "kind: Candidate\nkind: Candidate"), 3, "kind", "stands twice, first in line 2", "keep one",
    ),
    "tag": (("source: https", "source: !!python/name:os.system https"), 8, "identity.source", "tag", "plain value"),
    "key that is no text": (("schedulerNames", "1: 2\nschedulerNames"), 9, "1", "is not text", "quotes"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_PROBLEM)
def test_one_problem_is_told_with_line_field_and_remedy(written: Write, name: str) -> None:
    change, line, field, wrong, remedy = ONE_PROBLEM[name]
    path = written(change)

    (problem,) = problems(path)

    assert (problem.file, problem.line, problem.field) == (path, line, field)
    assert wrong in problem.wrong
    assert remedy in problem.remedy


def test_all_problems_are_told_at_once(written: Write) -> None:
    path = written(
        ("contact:", "contcat:"),
        ("schedulerNames: [small]", "schedulerNames: []"),
        ("ports: {web: auto}", "ports: {web: auto}\n      args: [$(nothing), $(port:nothing)]"),
        more='replicas: many\nperVersion: {"1.37": {replicas: 0}}\n',
    )

    told = [(problem.line, problem.field, problem.wrong) for problem in problems(path)]

    assert told == [
        (3, "identity.contact", "is missing"),
        (7, "identity.contcat", "unknown key"),
        (9, "schedulerNames", "[] is empty"),
        (16, "deployment.processes[0].args[0]", "`$(nothing)` is not a placeholder"),
        (16, "deployment.processes[0].args[1]", "`$(port:nothing)` names no port"),
        (17, "replicas", '"many" is no whole number'),
        (18, "replicas", "0: Input should be greater than or equal to 1"),
    ]


def test_neither_processes_nor_manifests(written: Write) -> None:
    path = written(more="")
    path.write_text(re.sub(r"deployment:(.|\n)*", "deployment: {}\n", path.read_text()))

    (problem,) = problems(path)

    assert (problem.line, problem.field) == (11, "deployment")
    assert "either processes or manifests" in problem.wrong


@pytest.mark.parametrize(
    ("content", "line", "wrong"),
    [
        (None, 1, "cannot be read: No such file"),
        (b"", 1, "holds 0 YAML documents"),
        (b"a: 1\n---\nb: 2\n", 1, "holds 2 YAML documents"),
        (b"a: 1\nb: [1\n", 3, "is no YAML"),
        (b"a: \xff", 1, "is not UTF-8"),
        (b"a: &a [*a]", 1, "nested too deeply"),
        (b"a: &a [x, x, x, x, x, x, x, x, x]\n" + b"".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n".encode() for i in range(8)
        ), 1, "too large"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_descriptor(tmp_path: Path, content: bytes | None, line: int, wrong: str) -> None:
    path = tmp_path / "candidate.yaml"
    if content is not None:
        path.write_bytes(content)

    told = problems(path)

    assert wrong in told[0].wrong
    assert told[0].line == line
    assert len(told) == 1


def test_a_list_is_no_descriptor(tmp_path: Path) -> None:
    path = tmp_path / "candidate.yaml"
    path.write_text("- a\n- $(b)\n")

    (problem,) = problems(path)

    assert "is no mapping" in problem.wrong or "object" in problem.wrong


def test_placeholders_of_a_file_are_told_with_its_own_line(written: Write) -> None:
    path = written(("ports: {web: auto}", "files: {config: {source: config.yaml}}"))
    config = path.parent / "config.yaml"
    config.write_text("a: $(kubeconfig)\nb: $$(literal)\nc: $(oops)\n")

    (problem,) = problems(path)

    assert (problem.file, problem.line) == (config, 3)
    assert "`$(oops)`" in problem.wrong


def test_a_link_does_not_lead_out_of_the_folder(written: Write, tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text("secret")
    path = written(("ports: {web: auto}", "files: {a: {source: inside.yaml}}"))
    (path.parent / "inside.yaml").symlink_to(tmp_path / "outside.yaml")

    (problem,) = problems(path)

    assert "lies outside" in problem.wrong


def test_setup_files_are_checked_and_keep_their_dollars(written: Write) -> None:
    path = written(more="setup: [{file: crd.yaml}]\n")
    crd = path.parent / "crd.yaml"
    crd.write_text("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: $(VAR_NAME)\n---\nkind: Queue\n")

    (problem,) = problems(path)

    assert (problem.file, problem.line, problem.wrong) == (crd, 7, "apiVersion is missing")
    crd.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: $(VAR_NAME)}\n")
    assert candidates.load(path).setup[0].file == "crd.yaml"


def test_yaml_surprises_stay_text() -> None:
    found = yaml.load("{a: yes, b: 10:30, c: 2026-12-31, d: 0600, e: 1_0, f: 12, g: 1.5, h: true, i: null}", Loader)

    assert found == {
        "a": "yes", "b": "10:30", "c": "2026-12-31", "d": "0600", "e": "1_0", "f": 12, "g": 1.5, "h": True, "i": None,
    }  # fmt: skip


@pytest.mark.parametrize("path", [*SHIPPED, *THIRD_PARTY], ids=lambda path: path.stem)
def test_every_descriptor_is_accepted_by_model_and_schema(path: Path) -> None:
    found = candidates.load(path)

    jsonschema.validate(yaml.load(path.read_text(), Loader), schema())
    for minor in found.kubernetes_versions:
        assert found.require_kubernetes(minor).identity == found.identity


def test_every_scheduler_of_the_list_has_a_descriptor() -> None:
    assert {path.stem for path in THIRD_PARTY} == {
        "in-tree-gang", "coscheduling", "kai", "volcano", "koordinator", "yunikorn", "kueue", "gpushare", "hami",
    }  # fmt: skip


def test_the_committed_schema_is_current() -> None:
    assert json.loads(SCHEMA.read_text()) == schema(), "run `python -m candidates schema`"


def test_the_schema_refuses_what_the_model_refuses(written: Write) -> None:
    data = yaml.load(written(("ports: {web: auto}", "prots: {web: auto}")).read_text(), Loader)

    with pytest.raises(jsonschema.ValidationError, match="prots"):
        jsonschema.validate(data, schema())


def test_every_field_of_the_schema_explains_itself() -> None:
    named = schema()["$defs"]
    fields = [each for section in [schema(), *named.values()] for each in section.get("properties", {}).items()]

    assert len(fields) > 100
    for name, field in fields:
        about = field if "description" in field else named[field.get("$ref", "/none").rsplit("/", 1)[-1]]
        assert about["description"].endswith((".", "`", ")")), name


def test_a_version_that_is_not_supported_is_refused(written: Write) -> None:
    path = written()
    found = candidates.load(path)

    assert found.require_kubernetes("v1.37.2") is found
    with pytest.raises(DescriptorError) as refused:
        found.require_kubernetes("1.20")

    (problem,) = refused.value.problems
    assert (problem.file, problem.line, problem.field) == (path, 10, "kubernetesVersions")
    assert problem.wrong == "the candidate is made for 1.37, not for 1.20"
    assert 'add "1.20"' in problem.remedy


def test_differences_of_a_minor_are_merged() -> None:
    found = candidates.load(HERE / "third_party/in-tree-gang.yaml")

    older, newer = found.require_kubernetes("1.36"), found.require_kubernetes("1.37")

    assert older.switches().feature_gates == {"GenericWorkload": True, "GangScheduling": True}
    assert newer.switches().feature_gates == {"GenericWorkload": True}
    assert older.switches().runtime_config == {"scheduling.k8s.io/v1alpha2": True}
    gang = candidates.Gang("g", "ns", 3)
    assert older.gang_object(gang) == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    assert newer.workload.gang
    assert newer.workload.gang.resource == "scheduling.k8s.io/v1beta1/podgroups"


def test_durations_are_seconds(written: Write) -> None:
    found = candidates.load(written(more="policies: {backoff: {initial: 500ms, max: 1m30s}}\n"))

    assert found.policies.backoff
    assert (found.policies.backoff.initial, found.policies.backoff.max) == (0.5, 90)


def test_metrics_of_kube_scheduler_are_known_and_may_be_renamed(written: Write) -> None:
    observe = "observe: {metrics: {port: web, family: %s, names: {ledger: {name: slots}}}}\n"
    stock = candidates.load(written(more=observe % "kube-scheduler"))
    own = candidates.load(written(more=observe % "own"))
    silent = candidates.load(written())

    ledgers = [found.metric("ledger") for found in (stock, own)]
    assert [ledger.name for ledger in ledgers if ledger] == ["slots", "slots"]
    assert stock.metric("assumed") == KUBE_SCHEDULER_METRICS["assumed"]
    assert own.metric("assumed") is None
    assert silent.metric("attempts") is None


def test_nothing_of_a_descriptor_changes(written: Write) -> None:
    found = candidates.load(written())

    with pytest.raises(ValueError, match="frozen"):
        found.replicas = 2
    assert isinstance(found, Descriptor)
