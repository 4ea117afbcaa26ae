"""`$(name)` in a descriptor, from a closed list. `$$(` is a literal `$(`. No shell, no environment, no nesting."""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

# Leftmost match wins: an escape hides the placeholder behind it. The last alternative is one that never closes.
TOKEN = re.compile(r"\$\$\(|\$\(([^()\n]*)\)|\$\(")

# What may stand where; reading.py says which list counts in which field. A name that ends with ":" takes an argument.
ANYWHERE = {
    "scheduler-name": "first of `schedulerNames`",
}
IN_VERSION = {
    "kubernetes.version": "version of the API server, such as `v1.37.2`",
    "kubernetes.minor": "its minor, such as `1.37`",
}
IN_SETUP = (
    ANYWHERE
    | IN_VERSION
    | {
        "namespace": "namespace of the ServiceAccounts that the candidate's processes run as",
        "port:": "a port by its name, of any process: `$(port:secure)`",
    }
)
IN_PROGRAM = IN_VERSION | {
    "folder": "folder of the descriptor",
    "component:": "path of a Kubernetes binary of this minor: `$(component:kube-scheduler)`",
    "built:": "path of a program of `build`: `$(built:scheduler)`",
}
IN_BUILD = {
    "kubernetes.minor": IN_VERSION["kubernetes.minor"],
}
IN_PROCESS = (
    IN_SETUP
    | IN_PROGRAM
    | {
        "kubeconfig": "path of this process's own kubeconfig",
        "server": "URL of the API server",
        "feature-gates": "`controlPlane.featureGates` as a flag wants them: `A=true,B=false`",
        "workdir": "private folder of this process",
        "file:": "path of a file of this process's `files`: `$(file:config.yaml)`",
        "dependency:": "`host:port` of a dependency, or of what stands in front of it: `$(dependency:extender)`",
    }
)
IN_ADDRESS = {
    "port:": IN_SETUP["port:"],
}
IN_POD = ANYWHERE | {
    "pod.name": "name of the Pod",
    "pod.namespace": "its namespace",
}
IN_SLOTS = ANYWHERE | {
    "slots": "number of slots, always as text",
}
IN_SLOTS_POD = IN_POD | IN_SLOTS
IN_DEVICES = IN_POD | {
    "gpus": "number of GPUs (a number where it stands alone)",
}
IN_DEVICE = ANYWHERE | {
    "node.name": "name of the node",
    "device": "number of the device on its node, from 0 (a number where it stands alone)",
    "device.domain": "number of its domain on its node, from 0 (a number where it stands alone)",
}
IN_JOB = ANYWHERE | {
    "job.name": "name of the Job",
}
IN_NODE = ANYWHERE | {
    "node.name": "name of the node",
    "node.gpus": "its number of GPUs (a number where it stands alone)",
    "time:": "current time (UTC) in a form of strftime: `$(time:%Y-%m-%dT%H:%M:%SZ)`",
}
IN_GANG = ANYWHERE | {
    "gang.name": "name of the gang",
    "gang.namespace": "its namespace",
    "gang.min-member": "how many members must run together (a number where it stands alone)",
    "gang.timeout": "its timeout as a duration, such as `30s`",
    "gang.timeout-seconds": "its timeout in seconds (a number where it stands alone)",
}

Value = str | int
Lookup = Callable[[str], Value]


class UnknownPlaceholder(ValueError):
    """A placeholder that is not on the list, or one that never ends. `remedy` says what to write instead."""

    def __init__(self, wrong: str, remedy: str) -> None:
        super().__init__(f"{wrong}; {remedy}")
        self.wrong, self.remedy = wrong, remedy


def minor(version: str) -> str:
    """Return the minor of a Kubernetes version: `v1.37.2` gives `1.37`."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def names(template: str) -> Iterator[str | None]:
    """Yield the placeholders of a template, escaped ones left out; None for one that never ends."""
    for match in TOKEN.finditer(template):
        if match[0] != "$$(":
            yield match[1]


def check(template: str, allowed: dict[str, str]) -> Iterator[UnknownPlaceholder]:
    """Yield what is wrong with the placeholders of a template."""
    for name in names(template):
        if name is None:
            yield UnknownPlaceholder("`$(` is never closed", "close it, or write `$$(` for a literal `$(`")
            continue
        kind, colon, argument = name.partition(":")
        if kind + colon in allowed and (argument or not colon):
            continue
        close = difflib.get_close_matches(name, [each.removesuffix(":") for each in allowed], n=1)
        listed = ", ".join(f"$({each}NAME)" if each.endswith(":") else f"$({each})" for each in allowed)
        meant = f"did you mean `$({close[0]})`? Known here" if close else "known here"
        yield UnknownPlaceholder(
            f"`$({name})` is not a placeholder", f"{meant}: {listed}; for a literal `$(` write `$$(`"
        )


def expand(template: str, lookup: Lookup) -> str:
    """Replace every placeholder by what `lookup` says; what it inserts is never expanded again.

    Raises:
        UnknownPlaceholder: `lookup` raised KeyError, or a placeholder never ends.
    """

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$$(":
            return "$("
        try:
            return str(lookup(match[1]))
        except KeyError:
            raise UnknownPlaceholder(f"`{match[0]}` is not known here", "use one of docs/candidate.md") from None

    return TOKEN.sub(replaced, template)


def expand_all(data: Any, lookup: Lookup, *, text: bool = False) -> Any:  # noqa: ANN401 - plain YAML data
    """Expand every string of plain data, keys left alone.

    A string that is one placeholder and nothing else becomes the value with its type, so that `$(gang.min-member)` is
    a number; below `labels`, `annotations` and `data`, where Kubernetes wants text, it stays text.
    """
    if isinstance(data, dict):
        texts = {"labels", "annotations", "data"}
        return {key: expand_all(value, lookup, text=text or key in texts) for key, value in data.items()}
    if isinstance(data, list):
        return [expand_all(value, lookup, text=text) for value in data]
    if not isinstance(data, str):
        return data
    whole = TOKEN.fullmatch(data)
    if whole and whole[1] and not text:
        try:
            return lookup(whole[1])
        except KeyError:
            pass  # expand says it better
    return expand(data, lookup)
