"""How verdicts, names and figures are written, the same in every report."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from reports.record import Record, Requirement, RunVerdict, Scenario, Verdict

# One glyph for each verdict, so that nothing is said by colour alone. None of them is an emoji anywhere.
GLYPHS: Final[dict[Verdict | RunVerdict, str]] = {
    Verdict.PASS: "✓",
    Verdict.NOT_SUPPORTED: "∅",
    Verdict.SKIPPED: "\N{EN DASH}",
    Verdict.WAIVED: "≈",
    Verdict.INCONCLUSIVE: "?",
    Verdict.FAIL: "✕",
    Verdict.ERROR: "!",
    RunVerdict.SUCCESS: "✓",
    RunVerdict.NOTHING_RAN: "∅",
    RunVerdict.INCONCLUSIVE: "?",
    RunVerdict.PARTIAL: "\N{EN DASH}",
    RunVerdict.FAILURE: "✕",
    RunVerdict.ERROR: "!",
    RunVerdict.INTERRUPTED: "!",
}
WORDS: Final = {
    Verdict.PASS: "pass",
    Verdict.NOT_SUPPORTED: "not supported",
    Verdict.SKIPPED: "not run",
    Verdict.WAIVED: "waived",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.FAIL: "fail",
    Verdict.ERROR: "error",
}


def headline(record: Record) -> str:
    """Return the run in one sentence, without its verdict. Counts, never percentages."""
    candidate = f"{record.candidate.name or 'no candidate'} {record.candidate.version}".rstrip()
    place = f" on Kubernetes {record.kubernetes}" if record.kubernetes else ""
    provider = f" ({record.provider})" if record.provider else ""
    core = [row for row in record.requirements if row.level == "core"]
    extended = [row for row in record.requirements if row.level == "extended" and record.claimed(row)]
    parts = [_count(core, "core requirement"), _count(extended, "claimed extended requirement")]
    counted = "; ".join(part for part in parts if part) or "no requirement was selected"
    only = f" (only {record.select})" if record.selection == "filtered" and record.select else ""
    so_far = "so far " if record.verdict is RunVerdict.INTERRUPTED else ""
    return " ".join(f"{candidate}{place}{provider}: {so_far}{counted}{only}".split())


def _count(rows: Sequence[Requirement], what: str) -> str:
    if not rows:
        return ""
    verdicts = Counter(row.verdict for row in rows)
    holding = verdicts.pop(Verdict.PASS, 0)
    plural = "" if len(rows) == 1 else "s"
    hold = "holds" if holding == 1 else "hold"
    others = [
        f"{verdicts[verdict]} {_be(verdict, verdicts[verdict])}" for verdict in reversed(Verdict) if verdicts[verdict]
    ]
    return ", ".join([f"{holding} of {len(rows)} {what}{plural} {hold}", *others])


def _be(verdict: Verdict, count: int) -> str:
    if verdict is Verdict.FAIL:
        return "fails" if count == 1 else "fail"
    return "ended in error" if verdict is Verdict.ERROR else WORDS[verdict]


def title(scenario: Scenario) -> str:
    """Return a scenario's name as a sentence, with its iteration where there are several."""
    words = re.sub(r"^test_", "", scenario.name)
    words = words if " " in words else words.replace("_", " ")
    return words + (f" (iteration {scenario.iteration})" if scenario.iteration > 1 else "")


def family(requirement: str) -> str:
    """Return `RES` of `RES-4`."""
    return requirement.rpartition("-")[0] or requirement


def why(row: Requirement, scenario: Scenario | None) -> str:
    """Return why a scenario, or a requirement without one, has its verdict. Never empty."""
    planned = scenario is None or scenario.message in ("", Scenario.model_fields["message"].default)
    text = row.reason if planned else ""
    return text.strip() or (scenario.message.strip() if scenario else "") or WORDS[row.verdict]


def cause(row: Requirement) -> tuple[Scenario | None, str]:
    """Return the scenario that gave a requirement its verdict, and why: one line, or what was expected and seen."""
    scenario = next((one for one in row.scenarios if one.verdict is row.verdict), None)
    first, *others = why(row, scenario).splitlines()
    return scenario, "\n".join([first, *others[:1]]) if first.startswith("expected:") else first


def seconds(value: float) -> str:
    """Write a duration with a sensible number of digits: `0.042 s`, `1.35 s`, `75.0 s`."""
    digits = 3 if abs(value) < 0.1 else 2 if abs(value) < 10 else 1  # noqa: PLR2004
    return f"{value:.{digits}f} s"


def measured(scenario: Scenario) -> str:
    """Write the measured time against its bound, empty where there is none."""
    if scenario.measured_seconds is None:
        return "" if scenario.bound_seconds is None else f"at most {seconds(scenario.bound_seconds)}"
    bound = "" if scenario.bound_seconds is None else f" of {seconds(scenario.bound_seconds)}"
    return seconds(scenario.measured_seconds) + bound


def moment(time: datetime | None) -> str:
    """Write a time for people, `30 Nov 2026 09:14:02 UTC`; a run that did not end has none."""
    return time.strftime("%-d %b %Y %H:%M:%S %Z") if time else "did not end"


def lasted(record: Record) -> str:
    """Write how long the run took, and how much of that was the candidate's own time; empty if it did not end."""
    if record.ended is None:
        return ""
    waited = sum(scenario.waited_seconds for row in record.requirements for scenario in row.scenarios)
    took = _minutes((record.ended - record.started).total_seconds())
    return f"{took}, {_minutes(waited)} of that waiting for the candidate"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
