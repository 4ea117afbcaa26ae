"""What allure-pytest cannot know of a run: its environment, its executor and the categories of its verdicts."""

import json
from pathlib import Path
from typing import Final

from reports import wording
from reports.record import Record, write_private

DIRECTORY: Final = "allure-results"
# The classic viewer reads these; Allure 3 takes categories from its own configuration file.
CATEGORIES: Final = [
    {"name": "Inconclusive", "matchedStatuses": ["broken"], "messageRegex": r"(?s).*(INCONCLUSIVE|Inconclusive).*"},
    {"name": "Suite, cluster or provider broke", "matchedStatuses": ["broken"]},
    {"name": "Rule broken", "matchedStatuses": ["failed"]},
    {"name": "Waived", "matchedStatuses": ["skipped"], "messageRegex": r"(?s).*(XFAIL|waived).*"},
    {"name": "Not run or not supported", "matchedStatuses": ["skipped"]},
]


def write(directory: Path, record: Record) -> None:
    """Write the files beside the results of allure-pytest."""
    results = directory / DIRECTORY
    results.mkdir(mode=0o700, exist_ok=True)
    environment = {
        "Verdict": str(record.verdict),
        "Selection": f"{record.selection} {record.select}".strip(),
        "Candidate": f"{record.candidate.name} {record.candidate.version}".strip(),
        "Candidate.digest": record.candidate.digest,
        "Kubernetes": record.kubernetes,
        "Provider": record.provider,
        "Suite": f"{record.suite.version} {record.suite.commit}".strip(),
        "Seed": "" if record.seed is None else str(record.seed),
        "Patience": str(record.patience),
        "Run": record.run_id,
    }
    lines = [f"{_escape(name, key=True)}={_escape(value)}\n" for name, value in environment.items() if value]
    write_private(results / "environment.properties", "".join(lines))
    write_private(results / "categories.json", json.dumps(CATEGORIES, indent=1) + "\n")
    executor = {
        "name": "unreserve",
        "type": "unreserve",
        "buildName": record.run_id,
        "reportName": wording.headline(record),
    }
    write_private(results / "executor.json", json.dumps(executor, indent=1) + "\n")


def _escape(text: str, *, key: bool = False) -> str:
    """Escape for a Java properties file, which is Latin-1 and one line an entry."""
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if key:
        special |= {sign: f"\\{sign}" for sign in " :=#!"}
    escaped = "".join(special.get(sign, sign) for sign in text)
    units = escaped.encode("utf-16-be")
    codes = [int.from_bytes(units[index : index + 2]) for index in range(0, len(units), 2)]
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)  # noqa: PLR2004
