"""YAML that remembers its lines, and the errors that point at them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Loc = tuple[str | int, ...]

# A descriptor is written by hand: more than this is an alias that multiplies itself.
MOST_NODES = 100_000
MOST_DEPTH = 64


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong in one file: `line` counts from 1, `field` is a path such as `deployment.processes[0].args`."""

    file: Path
    line: int
    field: str
    wrong: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: {self.field}: " if self.field else f"{self.file}:{self.line}: "
        return f"{where}{self.wrong}; {self.remedy}"


class DescriptorError(Exception):
    """A descriptor cannot be used. `problems` are all that was found, in the order of files and lines."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # one of two classes
    """Safe loader with the scalars of YAML 1.2: `yes`, `10:30` and `2026-12-31` stay text, `<<` is a key."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012 - PyYAML's way


for tag, pattern, first in (
    ("bool", r"true|false", "tf"),
    ("null", r"~|null|", ["~", "n", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "-+0123456789"),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)


class ManifestLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # one of two classes
    """Safe loader with the scalars that Kubernetes knows: `0644` is octal, `yes` is true, `10:30` is text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {}  # noqa: RUF012 - PyYAML's way


MERGE = "tag:yaml.org,2002:merge"
for tag, pattern, first in (
    ("bool", r"(?i:true|false|yes|no|on|off)", "tTfFyYnNoO"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]*|[1-9][0-9_]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
):
    ManifestLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), first)


def _integer(text: str) -> int:
    """Read a whole number in any notation of Go."""
    return int(re.sub(r"^([-+]?0)(?=[0-7])", r"\1o", text.replace("_", "")), 0)


SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:str": str,
    "tag:yaml.org,2002:bool": lambda text: text.lower() in ("true", "yes", "on"),
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:int": _integer,
    "tag:yaml.org,2002:float": float,
}


@dataclass
class Document:
    """One parsed YAML document: plain data, the line of everything in it, and what was wrong with its form."""

    file: Path
    root: yaml.Node
    data: Any = None
    lines: dict[Loc, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._nodes = 0
        self.data = self._build(self.root, ())

    def problem(self, loc: Loc, wrong: str, remedy: str) -> Problem:
        """Return a problem at `loc`, or at the nearest thing around it that exists."""
        near = next(loc[:end] for end in range(len(loc), -1, -1) if loc[:end] in self.lines)
        return Problem(self.file, self.lines[near], dotted(loc), wrong, remedy)

    def overlaid(self, loc: Loc) -> "Document":
        """Return this document with the mapping at `loc` merged over it; lines point at what was written where."""
        over = self.root
        for key in loc:
            over = next(value for name, value in over.value if name.value == key)
        return Document(self.file, _merged(self.root, over))

    def _build(self, node: yaml.Node, loc: Loc) -> Any:  # noqa: ANN401 - plain YAML data
        self.lines[loc] = node.start_mark.line + 1
        self._nodes += 1
        if self._nodes > MOST_NODES or len(loc) > MOST_DEPTH:
            raise DescriptorError([self.problem(loc[:8], "too large or nested too deeply", "remove recursive aliases")])
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*loc, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, loc)
        if node.tag not in SCALARS:
            self.problems.append(self.problem(loc, f"the tag {node.tag} is not allowed", "write a plain value"))
            return node.value
        try:
            return SCALARS[node.tag](node.value)
        except ValueError:
            self.problems.append(self.problem(loc, f"{node.value!r} is no {node.tag}", "write a plain value"))
            return node.value

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            where = (*loc, key.value) if isinstance(key, yaml.ScalarNode) else (*loc, "?")
            if key.tag != "tag:yaml.org,2002:str":
                wrong, remedy = f"the key {key.value!r} is not text", "put it in quotes"
                self.problems.append(Problem(self.file, line, dotted(where), wrong, remedy))
            elif key.value in found:
                wrong, remedy = f"the key stands twice, first in line {self.lines[where]}", "keep one of them"
                self.problems.append(Problem(self.file, line, dotted(where), wrong, remedy))
            else:
                found[key.value] = self._build(value, where)
                self.lines[where] = line
        return found


class ManifestDocument(Document):
    """A document as Kubernetes reads it: `<<` merges, every key is text, and of equal ones the last counts."""

    def _mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == MERGE:
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    merged = self._mapping(each, loc) | merged
            else:
                own[str(key.value)] = self._build(value, (*loc, str(key.value)))
                self.lines[*loc, str(key.value)] = key.start_mark.line + 1
        return merged | own


def read_text(file: Path) -> str:
    """Read a UTF-8 file.

    Raises:
        DescriptorError: there is no such file, or it is not text.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        wrong, remedy = f"cannot be read: {error.strerror}", "give the path of a candidate descriptor"
        raise DescriptorError([Problem(file, 1, "", wrong, remedy)]) from error
    except UnicodeDecodeError as error:
        raise DescriptorError([Problem(file, 1, "", "is not UTF-8 text", "save it as UTF-8")]) from error


def read(file: Path) -> Document:
    """Parse a file that holds one YAML document.

    Raises:
        DescriptorError: no such file, or no YAML.
    """
    documents = list(read_all(file))
    if len(documents) != 1:
        wrong, remedy = f"holds {len(documents)} YAML documents", "keep one candidate per file"
        raise DescriptorError([Problem(file, 1, "", wrong, remedy)])
    return documents[0]


def read_manifests(file: Path) -> Iterator[Document]:
    """Parse a file of Kubernetes manifests, one document each; empty ones are left out.

    Raises:
        DescriptorError: no such file, or no YAML.
    """
    yield from read_all(file, ManifestLoader, ManifestDocument)


def read_all(file: Path, loader: Any = Loader, document: type[Document] = Document) -> Iterator[Document]:  # noqa: ANN401
    """Parse a file of YAML documents; empty ones are left out.

    Raises:
        DescriptorError: no such file, or no YAML.
    """
    try:
        for node in yaml.compose_all(read_text(file), loader):
            if node is not None and node.tag != "tag:yaml.org,2002:null":
                yield document(file, node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DescriptorError([Problem(file, line, "", f"is no YAML: {error.problem}", "mend the syntax")]) from error
    except yaml.YAMLError as error:
        raise DescriptorError([Problem(file, 1, "", f"is no YAML: {error}", "mend the syntax")]) from error


def leaves(data: Any, loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:  # noqa: ANN401 - plain YAML data
    """Yield every scalar of plain data with its place."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*loc, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*loc, index))
    else:
        yield loc, data


def dotted(loc: Loc) -> str:
    """Write a place as people do: `deployment.processes[0].args`."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif "." in part or "/" in part:
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


def _merged(base: yaml.Node, over: yaml.Node) -> yaml.Node:
    """Merge mappings key by key; `null` removes a key; everything else replaces."""
    if not (isinstance(base, yaml.MappingNode) and isinstance(over, yaml.MappingNode)):
        return over
    values = {key.value: (key, value) for key, value in base.value}
    for key, value in over.value:
        if value.tag == "tag:yaml.org,2002:null":
            values.pop(key.value, None)
        elif key.value in values:
            values[key.value] = (key, _merged(values[key.value][1], value))
        else:
            values[key.value] = (key, value)
    return yaml.MappingNode(base.tag, list(values.values()), base.start_mark, base.end_mark)
