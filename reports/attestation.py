"""What a machine may believe about the run: an in-toto Statement with the test-result predicate.

https://github.com/in-toto/attestation/blob/main/spec/predicates/test-result.md
"""

import json
from pathlib import Path
from typing import Any, Final

from reports.record import Record, RunVerdict, Verdict, write_private

FILE: Final = "attestation.json"


def statement(record: Record) -> dict[str, Any]:
    """Return the statement. `PASSED` and `WARNED` (with deviations) are for what can be signed off, nothing else."""
    algorithm, _, digest = record.candidate.digest.partition(":")
    by_verdict = {
        verdict: sorted(row.id for row in record.requirements if row.verdict is verdict) for verdict in Verdict
    }
    signable = not record.obstacles()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": f"{record.candidate.name} {record.candidate.version}", "digest": {algorithm: digest}}],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": ("WARNED" if by_verdict[Verdict.WAIVED] else "PASSED") if signable else "FAILED",
            "configuration": [
                {"name": f"unreserve {record.suite.version}", "digest": {"gitCommit": record.suite.commit}},
                {"name": f"kubernetes {record.kubernetes}", "annotations": {"provider": record.provider}},
            ],
            "passedTests": by_verdict[Verdict.PASS],
            "warnedTests": by_verdict[Verdict.WAIVED],
            "failedTests": sorted(row.id for row in record.blockers()),
        },
    }


def write(directory: Path, record: Record) -> None:
    """Write it for a run that has ended and whose candidate's digest is known: without one there is no subject."""
    if record.candidate.digest and record.verdict is not RunVerdict.INTERRUPTED:
        write_private(directory / FILE, json.dumps(statement(record), indent=1) + "\n")
