"""The matrix file: which runs a night has. docs/nightly.md shows one."""

import itertools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from candidates import document
from candidates.document import DescriptorError, Document, Loc, Problem
from clusters import local

ROOT = Path(__file__).resolve().parent.parent
# What to write instead, by pydantic's name of the error.
REMEDIES = {
    "string_type": 'put it in quotes, such as "1.37"',
    "int_type": "write a whole number, without quotes",
    "list_type": "write a list, such as [local]",
    "missing": "add it",
    "too_short": "write at least one",
}


class MatrixError(Exception):
    """A matrix file cannot be used. One line for each problem, with file, line and field."""


def _distinct(values: list[str]) -> list[str]:
    if twice := next((value for value in values if values.count(value) > 1), None):
        raise ValueError(f"{twice!r} stands twice")
    return values


def _minor(value: str) -> str:
    if value not in local.minors():
        raise ValueError(f"Kubernetes {value!r} is not supported; choose of {', '.join(local.minors())}")
    return value


Texts = Annotated[list[str], AfterValidator(_distinct)]
Minors = Annotated[list[Annotated[str, AfterValidator(_minor)]], AfterValidator(_distinct)]
Providers = Annotated[list[Literal["local", "kind"]], AfterValidator(_distinct)]


class Model(BaseModel):
    """Unknown keys and values of another type are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Where(Model):
    """Cells: those of the matrix that match in all three; an empty list matches all."""

    candidates: Texts = []
    kubernetes: Minors = []
    providers: Providers = []

    def matches(self, candidate: str, kubernetes: str, provider: str) -> bool:
        """Whether a cell is one of them."""
        pairs = ((self.candidates, candidate), (self.kubernetes, kubernetes), (self.providers, provider))
        return all(value in wanted for wanted, value in pairs if wanted)


class Settings(Where):
    """Other options of pytest for some cells. What is left out stays as it is."""

    select: str | None = None
    """Requirement ids and families, such as `RES,HARD-1`."""
    iterations: int | None = Field(default=None, ge=1)
    seed: int | None = None
    minutes: int | None = Field(default=None, ge=1)
    """A cell that takes longer is stopped, and is an error."""


class Matrix(Model):
    """The whole file."""

    candidates: Texts = Field(min_length=1)
    """Descriptors, relative to the file."""
    kubernetes: Minors = Field(min_length=1)
    providers: Providers = Field(min_length=1)
    suites: Texts = Field(default=["suites"], min_length=1)
    """Folders of scenarios, relative to the file."""
    exclude: list[Where] = []
    settings: list[Settings] = []
    """In order: a later one wins."""


@dataclass(frozen=True)
class Cell:
    """One run of a night. `name` is unique in it, and also a folder."""

    name: str
    candidate: Path
    kubernetes: str
    provider: str
    suites: tuple[Path, ...]
    select: str = ""
    iterations: int = 1
    seed: int | None = None
    minutes: int = 120

    def arguments(self) -> list[str]:
        """Return the arguments of pytest, but for where the results go; paths in the checkout are relative to it."""
        words = [*map(_shown, self.suites), "--candidate", _shown(self.candidate), "--provider", self.provider]
        words += ["--kubernetes", self.kubernetes]
        words += ["--select", self.select] if self.select else []
        words += ["--iterations", str(self.iterations)] if self.iterations > 1 else []
        return words + (["--seed", str(self.seed)] if self.seed is not None else [])


def load(file: Path) -> list[Cell]:
    """Read a matrix file and return its cells: all minors and providers of the first candidate, then the next one's.

    Raises:
        MatrixError: with everything that is wrong.
    """
    if not file.is_file():
        raise MatrixError(f"{file}: there is no such file; give one with MATRIX=... (docs/nightly.md shows one)")
    try:
        sources = list(document.read_all(file))
        if len(sources) != 1:
            raise MatrixError(f"{file}: holds {len(sources)} YAML documents; keep one")
        found = _checked(sources[0])
    except DescriptorError as error:
        raise MatrixError(str(error)) from None
    cells = []
    for candidate, provider, kubernetes in itertools.product(found.candidates, found.providers, found.kubernetes):
        if any(where.matches(candidate, kubernetes, provider) for where in found.exclude):
            continue
        options: dict[str, str | int] = {}
        for settings in found.settings:
            if settings.matches(candidate, kubernetes, provider):
                chosen = settings.model_dump(exclude_none=True)
                options |= {name: value for name, value in chosen.items() if name not in Where.model_fields}
        cells.append(
            Cell(
                f"{_name(candidate)}-{provider}-{kubernetes}", (file.parent / candidate).resolve(), kubernetes, provider,
                tuple((file.parent / suite).resolve() for suite in found.suites), **options,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    if not cells:
        raise MatrixError(f"{file}: exclude: leaves no cell; remove one of its items")
    return cells


def _checked(source: Document) -> Matrix:
    try:
        found = Matrix.model_validate(source.data)
    except ValidationError as error:
        raise DescriptorError([*source.problems, *_explained(error, source)]) from None
    if problems := [*source.problems, *_inconsistent(found, source)]:
        raise DescriptorError(problems)
    return found


def _explained(error: ValidationError, source: Document) -> Iterator[Problem]:
    for each in error.errors():
        wrong = f"{json.dumps(each['input'], default=str)[:60]}: {each['msg'].removeprefix('Value error, ')}"
        if each["type"] == "extra_forbidden":
            wrong = f"unknown key, only {', '.join(_keys(each['loc']))} may stand here"
        yield source.problem(each["loc"], wrong, REMEDIES.get(each["type"], "see docs/nightly.md"))


def _keys(loc: Loc) -> list[str]:
    models: dict[str | int, type[Model]] = {"exclude": Where, "settings": Settings}
    return list(models.get(loc[0] if len(loc) > 1 else "", Matrix).model_fields)


def _inconsistent(found: Matrix, source: Document) -> Iterator[Problem]:
    for index, candidate in enumerate(found.candidates):
        loc: Loc = ("candidates", index)
        if not (source.file.parent / candidate).is_file():
            yield source.problem(loc, f"there is no file {candidate!r}", "give a path relative to this file")
        if _name(candidate) in map(_name, found.candidates[:index]):
            yield source.problem(loc, f"another one is called {_name(candidate)!r} too", "rename the file")
    for index, suite in enumerate(found.suites):
        if not (source.file.parent / suite).is_dir():
            yield source.problem(
                ("suites", index), f"there is no folder {suite!r}", "give a path relative to this file"
            )
    lists: tuple[tuple[str, list[Where]], ...] = (("exclude", found.exclude), ("settings", [*found.settings]))
    for key, items in lists:
        for index, where in enumerate(items):
            for field in Where.model_fields:
                for at, value in enumerate(getattr(where, field)):
                    if value not in getattr(found, field):
                        wrong = f"{value!r} matches nothing: it is not in {field}"
                        yield source.problem((key, index, field, at), wrong, "add it there, or remove it here")


def _name(candidate: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", Path(candidate).stem).strip("-.") or "candidate"


def _shown(path: Path) -> str:
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)
