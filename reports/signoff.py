"""The sign-off page: one self-contained HTML file without a script, drawn from the record and the histories."""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports import picture, wording
from reports.picture import Picture
from reports.record import (
    DeviationState,
    Record,
    Requirement,
    Scenario,
    Verdict,
    write_private,
)

PAGE: Final = "signoff.html"
# Bytes. Pictures beyond it are left out of the page: it must open anywhere and travel by mail.
BUDGET: Final = 1_800_000
MESSAGE: Final = 4000
MANY: Final = 24  # steps that are folded away

KINDS: Final = {
    "pending": "pending",
    "gated": "gated",
    "unschedulable": "unschedulable",
    "refused-by-error": "scheduler error",
    "bound": "bound",
    "running": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "terminating": "terminating",
    "ready": "ready",
    "not-ready": "not ready",
    "cordoned": "cordoned",
    "alive": "process alive",
    "ended": "process ended",
    "met": "met by the fault proxy",
    "accepted": "binding accepted",
    "refused": "binding refused",
    "unanswered": "binding not answered",
    "created": "created",
    "changed": "changed",
    "signalled": "signalled",
    "deleted": "deleted",
}
MARKS: Final = {"accepted", "refused", "unanswered", "created", "changed", "signalled", "deleted"}


@dataclass
class Drawn:
    """One scenario with its picture, or with why there is none."""

    anchor: str
    scenario: Scenario
    title: str
    picture: Picture | None = None
    svg: Markup = field(default_factory=Markup)
    note: str = ""


@dataclass(frozen=True)
class Section:
    """One requirement with its scenarios."""

    anchor: str
    row: Requirement
    blocks: bool
    scenarios: list[Drawn]


def page(record: Record, load: Callable[[str], Iterator[picture.Json]]) -> str:
    """Return the page. `load` yields the history at a path of the record, or raises OSError or ValueError."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "seconds": wording.seconds,
        "moment": wording.moment,
        "shell": shlex.join,
        "gib": lambda count: f"{count / 2**30:.1f} GiB",
        "cut": lambda text: text if len(text) <= MESSAGE else text[:MESSAGE] + "\n[cut here; the record has the rest]",
    }
    environment.globals |= {
        "GLYPHS": wording.GLYPHS,
        "WORDS": wording.WORDS,
        "KINDS": KINDS,
        "MARKS": MARKS,
        "MANY": MANY,
        "layout": picture,
        "cause": wording.cause,
        "measured": wording.measured,
        "lasted": wording.lasted,
    }
    sections = _sections(record, load, environment)
    by_id = {section.row.id: section for section in sections}
    return environment.get_template(PAGE).render(
        record=record,
        headline=wording.headline(record),
        obstacles=record.obstacles(),
        sections=sections,
        families=_families(sections),
        blockers=[by_id[row.id] for row in record.blockers()],
        absent=[section for section in sections if section.row.verdict in (Verdict.SKIPPED, Verdict.NOT_SUPPORTED)],
        deviations=sorted(record.deviations, key=lambda one: list(DeviationState).index(one.state)),
        tally=_tally(record),
        checklists=[one for section in sections for one in section.scenarios if one.scenario.checklist],
        found_in={
            section.row.id: {one.scenario.name: one.anchor for one in section.scenarios if not one.scenario.found_in}
            for section in sections
        },
    )


def write(directory: Path, record: Record) -> None:
    """Draw the page of the record in `directory`."""

    def load(relative: str) -> Iterator[picture.Json]:
        path = (directory / relative).resolve()
        if not path.is_relative_to(directory.resolve()):
            raise ValueError(f"{relative}: outside of the results")
        return picture.lines(path)

    write_private(directory / PAGE, page(record, load))


def _sections(record: Record, load: Callable[[str], Iterator[picture.Json]], environment: Environment) -> list[Section]:
    blocking = {row.id for row in record.blockers()}
    anchors: set[str] = set()
    sections = [Section(_anchor(row.id, anchors), row, row.id in blocking, []) for row in record.requirements]
    for section in sections:
        for scenario in section.row.scenarios:
            anchor = _anchor(f"{section.anchor}.{scenario.name}.{scenario.iteration}", anchors)
            section.scenarios.append(Drawn(anchor, scenario, wording.title(scenario)))
    # What blocks is drawn first, so that it is the good ones that a full page leaves out.
    every = [(section, one) for section in sections for one in section.scenarios]
    spent = 0
    for _, one in sorted(
        every, key=lambda pair: not (pair[0].blocks and pair[1].scenario.verdict is pair[0].row.verdict)
    ):
        one.picture, one.svg, one.note = _picture(one.scenario, load, environment)
        size = len(one.svg.encode())
        if spent + size > BUDGET:
            one.picture, one.svg, one.note = (
                None,
                Markup(),
                f"not drawn, to keep the page small: {one.scenario.history}",
            )
        else:
            spent += size
    return sections


def _picture(
    scenario: Scenario, load: Callable[[str], Iterator[picture.Json]], environment: Environment
) -> tuple[Picture | None, Markup, str]:
    if scenario.found_in or not scenario.history:
        return None, Markup(), ""
    try:
        drawn = picture.draw(load(scenario.history), scenario.steps, scenario.witnesses)
    except OSError as problem:
        return None, Markup(), f"no picture: {problem.strerror}: {scenario.history}"
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # A history is evidence that a crash may have left half written: its picture must not cost the whole page.
        return None, Markup(), f"no picture: {scenario.history}: {type(problem).__name__}: {problem}"
    return drawn, Markup(environment.get_template("picture.svg").render(p=drawn)), ""  # noqa: S704 - autoescaped


def _tally(record: Record) -> list[tuple[str, list[tuple[Verdict, int]]]]:
    """Return the number of requirements for each level and verdict, the gravest first."""
    return [
        (level, [(verdict, count) for verdict in reversed(Verdict) if (count := _number(record, level, verdict))])
        for level in ("core", "extended")
        if any(row.level == level for row in record.requirements)
    ]


def _families(sections: list[Section]) -> dict[str, list[Section]]:
    families: dict[str, list[Section]] = {}
    for section in sections:
        families.setdefault(wording.family(section.row.id), []).append(section)
    return families


def _number(record: Record, level: str, verdict: Verdict) -> int:
    return sum(row.level == level and row.verdict is verdict for row in record.requirements)


def _anchor(text: str, taken: set[str]) -> str:
    """Return a stable anchor made of `text`, whatever that holds."""
    base = re.sub(r"[^A-Za-z0-9.-]+", "-", re.sub(r"\btest_", "", text)).strip("-.") or "x"
    anchor, number = base, 2
    while anchor in taken:
        anchor, number = f"{base}-{number}", number + 1
    taken.add(anchor)
    return anchor
