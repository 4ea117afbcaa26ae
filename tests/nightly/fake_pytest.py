"""Stands in for pytest: does what the descriptor's text says, and writes its record through the real writer."""

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from reports.record import Candidate, Record, RecordWriter, Requirement, Scenario, Verdict  # noqa: E402
from reports.render import render  # noqa: E402

VERDICTS = {
    "success": Verdict.PASS,
    "failure": Verdict.FAIL,
    "error": Verdict.ERROR,
    "partial": Verdict.INCONCLUSIVE,
    "lie": Verdict.FAIL,
}


def interrupt(number: int, frame: object) -> None:  # noqa: ARG001
    raise KeyboardInterrupt


def main() -> int:
    options = dict(zip(sys.argv, sys.argv[1:], strict=False))
    results = Path(options["--results"])
    behaviour, _, text = Path(ROOT, options["--candidate"]).read_text().strip().partition(" ")
    if behaviour == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdout.write(f"said by the fake {behaviour}\n")
    sys.stdout.flush()
    if behaviour == "unborn":
        return 3
    if behaviour in ("mute", "stubborn"):
        time.sleep(600)
    signal.signal(signal.SIGTERM, interrupt)
    directory = results / "run-1"
    writer = RecordWriter(directory)
    row = Requirement(id="RES-4", title="A bind that is denied leaves nothing behind.", scenarios=[Scenario(name="x")])
    begun = Record(
        run_id="run-1", candidate=Candidate(name=text or behaviour), started=datetime.now(UTC), patience=1.5,
        requirements=[row], kubernetes=f"v{options['--kubernetes']}.9", command=os.environ["UNRESERVE_COMMAND"].split(),
    )  # fmt: skip
    writer.begin(begun)
    if behaviour == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "garbled":
        directory.joinpath("record.json").write_text("{")
        return 0
    try:
        if behaviour == "hang":
            subprocess.run(["sleep", "600"], check=False)
        if behaviour == "slow":
            time.sleep(1.0)
    except KeyboardInterrupt:
        behaviour = "interrupted"
    message = text or f"it is a {behaviour}"
    writer.add("RES-4", Scenario(name="x", verdict=VERDICTS.get(behaviour, Verdict.PASS), message=message))
    record = writer.finish(interrupted=behaviour == "interrupted")
    render(directory)
    return 0 if behaviour == "lie" else record.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
