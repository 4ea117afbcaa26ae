"""The matrix file: which cells a night has. docs/nightly.md shows one."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from candidates import document
from candidates.document import DescriptorError, Document, Problem
from clusters import local
from nightly.night import ROOT, Cell, Options, Strict

SEE = "see docs/nightly.md"


class MatrixError(Exception):
    """A matrix file cannot be used. One line for each problem, with file, line and field."""


def _minor(value: object) -> object:
    if value not in local.minors():
        raise ValueError(f"{value!r} is not one of {', '.join(map(repr, local.minors()))}, in quotes")
    return value


Minor = Annotated[str, BeforeValidator(_minor)]
Provider = Literal["local", "kind"]


class Where(Strict):
    """Some cells: those that match in all three; an empty list matches all."""

    candidates: list[str] = Field(default=[])
    kubernetes: list[Minor] = Field(default=[])
    providers: list[Provider] = Field(default=[])

    def matches(self, *cell: str) -> bool:
        """Whether it is one of them: its candidate, minor and provider as the file writes them."""
        wanted: tuple[Sequence[str], ...] = (self.candidates, self.kubernetes, self.providers)
        return all(value in values for values, value in zip(wanted, cell, strict=True) if values)


class Settings(Where, Options):
    """Other options for some cells. What is left out stays as it is."""


class Matrix(Strict):
    """The whole file."""

    candidates: list[str] = Field(min_length=1)
    """Descriptors, relative to the file."""
    kubernetes: list[Minor] = Field(min_length=1)
    providers: list[Provider] = Field(min_length=1)
    suites: list[str] = Field(default=["suites"], min_length=1)
    """Folders of scenarios, relative to the file."""
    exclude: list[Where] = Field(default=[])
    settings: list[Settings] = Field(default=[])
    """In order: a later one wins."""


def load(file: Path) -> list[Cell]:
    """Read a matrix file and return its cells, all of the first candidate first.

    Raises:
        MatrixError: with everything that is wrong.
    """
    if not file.is_file():
        raise MatrixError(f"{file}: there is no such file; {SEE}")
    try:
        sources = list(document.read_all(file))
    except DescriptorError as error:
        raise MatrixError(str(error)) from None
    if len(sources) != 1:
        raise MatrixError(f"{file}: holds {len(sources)} YAML documents; keep one")
    (source,), cells = sources, []
    try:
        found = Matrix.model_validate(source.data)
        cells = list(_cells(found, file.parent))
        source.problems += _inconsistent(found, source, [cell.name for cell in cells])
    except ValidationError as error:
        source.problems += [source.problem(each["loc"], each["msg"], SEE) for each in error.errors()]
    if source.problems:
        raise MatrixError("\n".join(map(str, sorted(source.problems))))
    return cells


def _cells(found: Matrix, folder: Path) -> Iterator[Cell]:
    for written, provider, minor in itertools.product(found.candidates, found.providers, found.kubernetes):
        if any(where.matches(written, minor, provider) for where in found.exclude):
            continue
        chosen: dict[str, Any] = {}
        for settings in found.settings:
            if settings.matches(written, minor, provider):
                chosen |= settings.model_dump(include=settings.model_fields_set & Options.model_fields.keys())
        candidate, *suites = (_shown((folder / path).resolve()) for path in (written, *found.suites))
        name = re.sub(r"[^A-Za-z0-9.]+", "-", Path(candidate).stem).strip(".-") or "candidate"
        yield Cell(
            name=f"{name}-{provider}-{minor}", candidate=candidate, kubernetes=minor, provider=provider, suites=suites,
            **chosen,
        )  # fmt: skip


def _shown(path: Path) -> str:
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)


def _inconsistent(found: Matrix, source: Document, names: list[str]) -> Iterator[Problem]:
    for key, paths in (("candidates", found.candidates), ("suites", found.suites)):
        for index, path in enumerate(paths):
            if not (source.file.parent / path).exists():
                yield source.problem((key, index), f"there is no {path!r}", "give a path relative to this file")
    lists: dict[str, Sequence[Where]] = {"exclude": found.exclude, "settings": found.settings}
    for key, index, where in ((key, *item) for key, items in lists.items() for item in enumerate(items)):
        idle = [each for field in Where.model_fields for each in getattr(where, field)
                if each not in getattr(found, field)]  # fmt: skip
        if idle:
            yield source.problem((key, index), f"not in the matrix: {', '.join(idle)}", "add it there, or remove it")
    if not names:
        yield source.problem(("exclude",), "leaves no cell", "remove some of it")
    if twice := {name for name in names if names.count(name) > 1}:
        yield source.problem((), f"two cells are called {', '.join(sorted(twice))}", "keep one, or rename its file")
