"""Reading a descriptor: YAML to model, with every problem at its line."""

import contextlib
import difflib
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from candidates import building, document, manifests, placeholders
from candidates.descriptor import Descriptor, schema
from candidates.document import DescriptorError, Document, Loc, Problem
from candidates.patch import Json
from candidates.sections.deployment import DEFAULT_SCHEDULER, Deployment, SetupObject
from candidates.sections.observe import Endpoint
from candidates.sections.values import Refused, inside

# Characters of a refused value that an error repeats.
MOST_SHOWN = 60

# Where what a placeholder names is to be written down, and what it is called, if not by the placeholder's own word.
PLACES = {
    "built": ("`build`", "builds"),
    "dependency": ("`policies.dependencies`, with an `address`", "dependencies with an address"),
}
NOUNS = {"built": "build", "dependency": "dependency with an address"}

# Which placeholders are expanded where; the first pattern that begins the place decides.
PROCESS = ("deployment", "processes", "*")
SCOPES: tuple[tuple[Loc, dict[str, str]], ...] = (
    (("identity", "version"), placeholders.IN_VERSION),
    ((*PROCESS, "command", 0), placeholders.IN_PROGRAM),
    ((*PROCESS, "command"), placeholders.IN_PROCESS),
    ((*PROCESS, "args"), placeholders.IN_PROCESS),
    ((*PROCESS, "env"), placeholders.IN_PROCESS),
    ((*PROCESS, "workingDir"), placeholders.IN_PROCESS),
    ((*PROCESS, "files", "*", "content"), placeholders.IN_PROCESS),
    (("build",), placeholders.IN_BUILD),
    (("setup", "*", "object"), placeholders.IN_SETUP),
    (("workload", "pod"), placeholders.IN_POD),
    (("workload", "hardNodeLabel", "pod"), placeholders.IN_POD),
    (("workload", "job"), placeholders.IN_JOB),
    (("workload", "node", "labels"), placeholders.IN_NODE),
    (("workload", "node", "annotations"), placeholders.IN_NODE),
    (("workload", "gang", "object"), placeholders.IN_GANG),
    (("workload", "gang", "pod"), placeholders.IN_GANG),
    (("workload", "slots", "pod"), placeholders.IN_SLOTS_POD),
    (("workload", "slots", "node"), placeholders.IN_SLOTS),
    (("policies", "dependencies", "*", "address"), placeholders.IN_ADDRESS),
    (("policies", "dependencies", "*", "pod"), placeholders.IN_POD),
    (("workload", "devices", "claim"), placeholders.IN_DEVICES),
    (("workload", "devices", "together"), placeholders.IN_DEVICES),
    (("workload", "devices", "pod"), placeholders.IN_DEVICES),
    (("workload", "devices", "attributes"), placeholders.IN_DEVICE),
)


def load(path: Path) -> Descriptor:
    """Read and check a descriptor: its form, the files it names, its placeholders, each minor it is made for.

    Raises:
        DescriptorError: with everything that is wrong, each with file, line, field and what to write instead.
    """
    source = document.read(path)
    written = _mapping(_mapping(source.data).get("perVersion"))
    minors = [minor for minor, over in written.items() if isinstance(over, dict)]
    variants: dict[str, Descriptor] = {}
    problems: list[Problem] = []
    for minor in ["", *minors]:
        try:
            variants[minor] = _model(source.overlaid(("perVersion", minor)) if minor else source, minor)
        except DescriptorError as error:
            problems += error.problems
    if problems:
        raise DescriptorError(problems)
    descriptor = variants.pop("")
    descriptor._minors = variants  # noqa: SLF001 - known to the reader only
    return descriptor


def _model(source: Document, minor: str) -> Descriptor:
    """Validate one document, all problems at once; without a minor, as it is for those that have none of their own."""
    problems = [*source.problems, *_references(source)]
    try:
        found = Descriptor.model_validate_json(json.dumps(source.data), context=source.file.parent)
    except ValidationError as error:
        raise DescriptorError([*problems, *_explained(error, source)]) from error
    minors = [minor] if minor else [each for each in found.kubernetes_versions if each not in found.per_version]
    if problems := [*problems, *_inconsistent(found, source), *_inconsistent_builds(found, source, minors)]:
        raise DescriptorError(problems)
    found._document = source  # noqa: SLF001 - known to the reader only
    return found


def _allowed(loc: Loc) -> dict[str, str] | None:
    """Return the placeholders that may stand at a place; None where nothing is expanded."""
    for pattern, allowed in SCOPES:
        if len(loc) >= len(pattern) and all(want in ("*", part) for want, part in zip(pattern, loc, strict=False)):
            return allowed
    return None


def _references(source: Document) -> Iterator[Problem]:
    """Yield what is wrong with placeholders, whatever else is wrong with the document."""
    for loc, text in document.leaves(source.data):
        if isinstance(text, str) and (allowed := _allowed(loc)) is not None:
            for error in _misplaced(text, allowed, loc, source.data):
                yield source.problem(loc, error.wrong, error.remedy)
        if loc[-1:] == ("source",) and loc[:2] == ("deployment", "processes") and isinstance(text, str):
            with contextlib.suppress(Refused, DescriptorError):  # said by the field itself
                file = source.file.parent / inside(source.file.parent, text)
                for number, line in enumerate(document.read_text(file).splitlines(), 1):
                    for error in _misplaced(line, placeholders.IN_PROCESS, loc, source.data):
                        yield Problem(file, number, "", error.wrong, error.remedy)


def _misplaced(text: str, allowed: dict[str, str], loc: Loc, data: Json) -> Iterator[placeholders.UnknownPlaceholder]:
    yield from placeholders.check(text, allowed)
    written = _mapping(data.get("deployment")).get("processes")
    processes = [_mapping(each) for each in written] if isinstance(written, list) else []
    ports = [port for process in processes for port in _mapping(process.get("ports"))]
    index = loc[2] if loc[0] == "deployment" else None
    files = list(_mapping(processes[index].get("files"))) if isinstance(index, int) else []
    dependencies = _mapping(_mapping(data.get("policies")).get("dependencies"))
    addressed = [name for name, each in dependencies.items() if _mapping(each).get("address")]
    known = {"port": ports, "file": files, "built": list(_mapping(data.get("build"))), "dependency": addressed}
    for name in placeholders.names(text):
        kind, _, argument = (name or "").partition(":")
        if kind + ":" not in allowed or not argument:
            continue
        wrong = f"`$({name})` names no {NOUNS.get(kind, kind)}"
        if kind == "component" and not re.fullmatch(r"[a-z][a-z0-9-]*", argument):
            yield placeholders.UnknownPlaceholder(wrong, "write the name of a binary, such as kube-scheduler")
        elif kind in known and argument not in known[kind]:
            where, what = PLACES.get(kind, (f"`{kind}s` of the process", f"{kind}s"))
            there = f"it knows {', '.join(known[kind])}" if known[kind] else f"there are no {what} yet"
            yield placeholders.UnknownPlaceholder(wrong, f"add {argument!r} to {where}; {there}")


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _inconsistent(found: Descriptor, source: Document) -> Iterator[Problem]:
    """Yield what does not fit together in a document of the right form."""
    if bool(found.deployment.processes) == bool(found.deployment.manifests):
        yield source.problem(("deployment",), "needs either processes or manifests", "write one of the two")
    yield from _inconsistent_processes(found.deployment, source)
    yield from _inconsistent_manifests(found, source)
    yield from _unknown_names(found, source)
    for minor in found.per_version:
        if minor not in found.kubernetes_versions:
            wrong, remedy = "not one of kubernetesVersions", f'add "{minor}" there, or remove it here'
            yield source.problem(("perVersion", minor), wrong, remedy)
    if found.workload.gang and found.workload.gang.object and not found.workload.gang.resource:
        wrong, remedy = "is missing", "say the object's resource as in its URL, such as group/v1/podgroups"
        yield source.problem(("workload", "gang", "resource"), wrong, remedy)
    yield from _unsupported_claims(found, source)
    for index, step in enumerate(found.setup):
        yield from _inconsistent_setup(step, ("setup", index), source)


def _unsupported_claims(found: Descriptor, source: Document) -> Iterator[Problem]:
    """Yield claims that no scenario could put to the test."""
    here: Loc = ("claims", "slots")
    if "gang" in found.claims and not found.workload.gang:
        yield source.problem(("claims", "gang"), "workload.gang is missing", "say there how a Pod becomes a member")
    if "slots" in found.claims and not found.workload.slots:
        yield source.problem(here, "workload.slots is missing", "say there how a Pod asks for slots")
    if "slots" in found.claims and not found.signals.causes.get("slots"):
        remedy = "write there what a Pod that waits for slots is told, as a regular expression"
        yield source.problem(here, "signals.causes.slots is missing", remedy)


def _inconsistent_builds(found: Descriptor, source: Document, minors: list[str]) -> Iterator[Problem]:
    """Yield what a build lacks for one of the minors."""
    if found.build and found.deployment.manifests:
        remedy = "put the program into one of deployment.manifests.images, or describe deployment.processes"
        yield source.problem(("build",), "no image is built of it", remedy)
    for name, section in found.build.items():
        for minor in minors:
            try:
                build = building.expanded(section, minor)
            except placeholders.UnknownPlaceholder:
                break  # said of the text itself
            here, module = ("build", name), source.file.parent / build.folder
            try:
                inside(source.file.parent, f"{build.folder}/go.mod")
            except Refused as error:
                yield source.problem((*here, "folder"), str(error), error.remedy)
                continue
            if build.modfile:
                try:
                    inside(module, build.modfile)
                except Refused as error:
                    yield source.problem((*here, "modfile"), str(error), error.remedy)
            if not any((module / build.package).glob("*.go")):
                wrong, remedy = f"there is no Go package {build.package!r} in {module.resolve()}", "correct the path"
                yield source.problem((*here, "package"), wrong, remedy)


def _unknown_names(found: Descriptor, source: Document) -> Iterator[Problem]:
    """Yield references to ports and processes that are not there."""
    ports = [port for process in found.deployment.processes for port in process.ports]
    for loc, endpoint in _endpoints(found):
        if found.deployment.manifests:
            if isinstance(endpoint.port, str):
                remedy = "write the number of the container's port: manifests have no `ports`"
                yield source.problem((*loc, "port"), f"there is no port {endpoint.port!r}", remedy)
            if endpoint.auth == "token":
                wrong = "no token passes the API server, which is how a Pod is asked"
                remedy = "let anybody read it, with kube-scheduler's --authorization-always-allow-paths"
                yield source.problem((*loc, "auth"), wrong, remedy)
        elif endpoint.port not in ports:
            yield _no_port(source, (*loc, "port"), str(endpoint.port), ports)
    names = [process.name for process in found.deployment.processes]
    wanted: list[tuple[Loc, str | None]] = [(("deployment", "binder"), found.deployment.binder)]
    for each, dependency in found.policies.dependencies.items():
        here: Loc = ("policies", "dependencies", each)
        wanted.append(((*here, "process"), dependency.process))
        if dependency.on_failure == "degrade" and not dependency.degraded:
            yield source.problem(here, "degraded is missing", "write what is said of a Pod that went on without it")
    for loc, name in wanted:
        if name and name not in names:
            remedy = f"name one of {', '.join(names)}" if names else "describe it in deployment.processes"
            yield source.problem(loc, f"there is no process {name!r}", remedy)


def _endpoints(found: Descriptor) -> Iterator[tuple[Loc, Endpoint]]:
    """Yield every endpoint with its place."""
    observe = found.observe
    for name, endpoint in (("metrics", observe.metrics), ("config", observe.config)):
        if endpoint:
            yield ("observe", name), endpoint
    for index, each in enumerate(observe.health):
        yield ("observe", "health", index), each


def _inconsistent_manifests(found: Descriptor, source: Document) -> Iterator[Problem]:
    section = found.deployment.manifests
    if section is None:
        return
    here: Loc = ("deployment", "manifests")
    try:
        read = [each for name in section.files for each in manifests.read(source.file.parent / name)]
    except DescriptorError as error:
        yield from error.problems
        return
    problems = [
        each.problem(f"{missing} is missing", "write a Kubernetes object")
        for each in read
        if (missing := _incomplete(each.data))
    ]
    workloads = [each for each in read if not problems and each.plural and not each.hook]
    if problems := problems + [problem for each in workloads for problem in _inconsistent_workload(each, found)]:
        yield from problems
        return
    scheduler = manifests.scheduler_of(workloads, section.scheduler)
    if scheduler is None:
        listed = ", ".join(str(each) for each in workloads) or "none"
        wrong = "which workload is the scheduler cannot be told" if workloads else "no file holds a workload"
        yield source.problem((*here, "scheduler"), wrong, f"name one by kind and name; the files hold {listed}")
    elif scheduler.replicas > 1 and not section.lease and any(_endpoints(found)):
        wrong = f"{scheduler} has {scheduler.replicas} replicas, and which of them leads cannot be told"
        yield source.problem((*here, "lease"), wrong, "name the Lease of its leader election")


def _inconsistent_workload(workload: manifests.Manifest, found: Descriptor) -> Iterator[Problem]:
    if missing := _podless(workload):
        yield workload.problem(f"{missing} is missing", "write the Pods that it runs")
        return
    pods = workload.template["spec"]
    waits_for = pods.get("schedulerName", DEFAULT_SCHEDULER)
    if waits_for in found.served and not pods.get("nodeName"):
        wrong = f"{workload} waits for {waits_for!r}, which is the candidate itself"
        yield workload.problem(wrong, "name another spec.schedulerName in its Pods, or their spec.nodeName")


def _podless(workload: manifests.Manifest) -> str | None:
    """Return the first field that a workload must have and has not."""
    spec = _mapping(workload.data.get("spec"))
    if workload.kind == "Pod":
        return None if spec.get("containers") else "spec.containers"
    template = _mapping(spec.get("template"))
    labelled = workload.kind == "Job" or _mapping(template.get("metadata")).get("labels")
    if not _mapping(template.get("spec")).get("containers"):
        return "spec.template.spec.containers"
    return None if labelled else "spec.template.metadata.labels"


def _inconsistent_processes(deployment: Deployment, source: Document) -> Iterator[Problem]:
    names: set[str] = set()
    ports: set[str] = set()
    for index, process in enumerate(deployment.processes):
        here: Loc = ("deployment", "processes", index)
        if process.name in names:
            yield source.problem((*here, "name"), f"there are two processes {process.name!r}", "name them apart")
        names.add(process.name)
        for port in process.ports:
            if port in ports:
                wrong, remedy = f"another process has a port {port!r}", "name them apart: `$(port:NAME)` sees them all"
                yield source.problem((*here, "ports", port), wrong, remedy)
            ports.add(port)
        if process.readiness and process.readiness.port not in process.ports:
            yield _no_port(source, (*here, "readiness", "port"), process.readiness.port, list(process.ports))
        for name, file in process.files.items():
            if (file.content is None) == (file.source is None):
                yield source.problem((*here, "files", name), "needs either content or source", "write one of the two")
        for at, role in enumerate(process.roles):
            if (role.kind == "Role") != (role.namespace is not None):
                wrong, remedy = "only a Role has a namespace, and always", "add it to a Role, remove it elsewhere"
                yield source.problem((*here, "roles", at), wrong, remedy)


def _inconsistent_setup(step: SetupObject, loc: Loc, source: Document) -> Iterator[Problem]:
    if (step.object is None) == (step.file is None):
        yield source.problem(loc, "needs either object or file", "write one of the two")
        return
    remedy = "write a Kubernetes object"
    if step.object is not None:
        if missing := _incomplete(step.object):
            yield source.problem((*loc, "object"), f"{missing} is missing", remedy)
        return
    try:
        for each in document.read_manifests(source.file.parent / str(step.file)):
            if missing := _incomplete(each.data):
                yield each.problem((), f"{missing} is missing", remedy)
    except DescriptorError as error:
        yield from error.problems


def _incomplete(manifest: object) -> str | None:
    """Return the first field that an object must have and has not."""
    top = _mapping(manifest)
    present = {key: top.get(key) for key in ("apiVersion", "kind")}
    present["metadata.name"] = _mapping(top.get("metadata")).get("name")
    return next((key for key, value in present.items() if not value), None)


def _no_port(source: Document, loc: Loc, port: str, known: list[str]) -> Problem:
    there = f"it knows {', '.join(known)}" if known else "there are none yet"
    return source.problem(loc, f"there is no port {port!r}", f"add it to `ports` of the process; {there}")


# What to write where a value has the wrong type, by pydantic's name of the error.
TYPES = {
    "string_type": ("no text", "put it in quotes"),
    "bool_type": ("neither true nor false", "write true or false"),
    "int_type": ("no whole number", "write a whole number, without quotes"),
    "dict_type": ("no mapping", "write `key: value` lines below it"),
    "model_type": ("no mapping", "write `key: value` lines below it"),
    "tuple_type": ("no list", "write `- item` lines below it"),
    "too_short": ("empty", "write at least one item"),
    "date_type": ("no date", "write it as 2026-12-31"),
    "date_from_datetime_parsing": ("no date", "write it as 2026-12-31"),
}


def _explained(error: ValidationError, source: Document) -> Iterator[Problem]:
    """Turn pydantic's findings into problems with a line and a remedy."""
    for each in error.errors():
        loc: Loc = tuple(part for part in each["loc"] if part != "[key]")
        if each["type"] == "too_short" and each["input"]:
            continue  # its items are wrong, which is said of each
        yield source.problem(loc, *_wrong_and_remedy(each, loc))


def _wrong_and_remedy(error: ErrorDetails, loc: Loc) -> tuple[str, str]:
    kind, given = error["type"], _shown(error["input"])
    field = _field(loc)
    about = field.get("description", "see docs/candidate.md").rstrip(".")
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, Refused):
        return str(cause), cause.remedy
    if kind in TYPES:
        return f"{given} is {TYPES[kind][0]}", TYPES[kind][1]
    if kind == "missing":
        return "is missing", f"add `{loc[-1]}: {field['const']}`" if "const" in field else f"add it: {about}"
    if kind == "extra_forbidden":
        return "unknown key", _instead(str(loc[-1]), list(_field(loc[:-1]).get("properties", {})))
    if kind == "literal_error":
        return f"{given} is not allowed", _instead(str(error["input"]), field.get("enum") or [field.get("const")])
    return f"{given}: {error['msg']}", f"it must be: {about}"


def _instead(written: str, known: list[str]) -> str:
    close = difflib.get_close_matches(written, known, n=1)
    listed = ", ".join(known)
    return f"did you mean `{close[0]}`? Known here: {listed}" if close else f"known here: {listed}"


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _field(loc: Loc) -> Json:
    """Return the JSON schema of a place, with the description of the field; empty where anything goes."""
    whole = _schema()
    node: Json = whole
    for part in loc:
        node = _resolved(node, whole)
        inner = node.get("items") if isinstance(part, int) else node.get("properties", {}).get(part)
        named = next(iter(_mapping(node.get("patternProperties")).values()), None)  # all names have one form
        node = _mapping(inner or named or node.get("additionalProperties"))
    return _resolved(node, whole)


def _resolved(node: Json, whole: Json) -> Json:
    for branch in node.get("anyOf", ()):
        if branch != {"type": "null"}:
            node = {**branch, **{key: value for key, value in node.items() if key != "anyOf"}}
            break
    if "$ref" in node:
        target = whole["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        return {**target, **node}
    return node


@functools.cache
def _schema() -> Json:
    return schema()
