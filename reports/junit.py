"""`junit.xml`: one testcase for each scenario of each requirement, so that any CI server shows the run."""

from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from reports import wording
from reports.record import Record, Requirement, RunVerdict, Scenario, Verdict, write_private

FILE: Final = "junit.xml"


def document(record: Record) -> str:
    """Return the document. Findings booked at another requirement are testcases of that requirement."""
    suite = ET.Element("testsuite", name="unreserve", timestamp=record.started.isoformat(timespec="seconds"))
    _properties(
        suite,
        run_id=record.run_id,
        verdict=record.verdict,
        selection=record.selection,
        candidate=f"{record.candidate.name} {record.candidate.version}".strip(),
        digest=record.candidate.digest,
        kubernetes=record.kubernetes,
        provider=record.provider,
        suite=f"{record.suite.version} {record.suite.commit}".strip(),
        seed="" if record.seed is None else str(record.seed),
        patience=str(record.patience),
    )
    for row in record.requirements:
        for scenario in row.scenarios or [Scenario(name="no scenario", verdict=row.verdict, message=row.reason)]:
            _case(suite, record, row, scenario)
    broken = [*record.errors]
    if record.verdict is RunVerdict.INTERRUPTED:
        broken.append("the run was interrupted: this is what had been recorded by then")
    if record.verdict is RunVerdict.NOTHING_RAN:
        broken.append("nothing ran, so nothing is known")
    for text in broken:
        case = ET.SubElement(suite, "testcase", classname="run", name="run", time="0.000")
        _outcome(case, "error", text)
    counts = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
        "time": f"{sum(float(case.get('time', '0')) for case in suite.findall('testcase')):.3f}",
    }
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    root = ET.Element("testsuites", {"name": "unreserve", **{name: suite.attrib[name] for name in counts}})
    root.append(suite)
    ET.indent(root, " ")
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ET.tostring(root, encoding="unicode") + "\n"


def write(directory: Path, record: Record) -> None:
    """Write the document into the results."""
    write_private(directory / FILE, document(record))


def _case(suite: ET.Element, record: Record, row: Requirement, scenario: Scenario) -> None:
    name = scenario.name + (f"[{scenario.iteration}]" if record.iterations > 1 else "")
    case = ET.SubElement(suite, "testcase", classname=row.id, name=name, time=f"{scenario.seconds:.3f}")
    _properties(
        case,
        requirement=row.id,
        level=row.level,
        verdict=scenario.verdict,
        digest=record.candidate.digest,
        found_in=scenario.found_in,
    )
    message = wording.why(row, scenario)
    match scenario.verdict:
        case Verdict.PASS:
            pass
        case Verdict.FAIL:
            _outcome(case, "failure", message)
        case Verdict.INCONCLUSIVE:
            _outcome(case, "failure", f"INCONCLUSIVE: {message}")
        case Verdict.ERROR:
            _outcome(case, "error", message)
        case Verdict.WAIVED | Verdict.SKIPPED | Verdict.NOT_SUPPORTED:
            _outcome(case, "skipped", f"{wording.WORDS[scenario.verdict]}: {message}")


def _outcome(case: ET.Element, tag: str, message: str) -> None:
    """Put the first line where every viewer shows it, and the whole text below."""
    first, _, rest = message.partition("\n")
    ET.SubElement(case, tag, message=first).text = message if rest else None


def _properties(parent: ET.Element, **values: str) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=value)
