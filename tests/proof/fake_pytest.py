"""Stands in for pytest: does what the candidate's descriptor says, and writes its record through the real writer."""

import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from reports.record import Record, RecordWriter, Requirement, Scenario, Verdict  # noqa: E402


def interrupt(number: int, frame: object) -> None:  # noqa: ARG001
    raise KeyboardInterrupt


def main() -> int:
    options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    does = yaml.safe_load(Path(options["--candidate"]).read_text())
    results = Path(options["--results"])
    signal.signal(signal.SIGTERM, signal.SIG_IGN if does.get("stubborn") else interrupt)
    sys.stdout.write("said by the fake\n")
    sys.stdout.flush()
    time.sleep(does.get("stubborn", 0.0))
    if does.get("unborn"):
        return 4
    writer = RecordWriter(results / "run-1")
    begun = Record(
        run_id="run-1", started=datetime.now(UTC), requirements=[Requirement(id="A-1"), Requirement(id="B-2")]
    )
    writer.begin(begun, [])
    log = Path(does["log"])
    with log.open("a") as file:
        file.write(f"{time.monotonic()} starting {os.getpid()}\n")
    try:
        time.sleep(does.get("start", 0.0))
        writer.update(kubernetes="v1.37.2")
        with log.open("a") as file:
            file.write(f"{time.monotonic()} up {os.getpid()}\n")
        while log.read_text().count(" up ") < does.get("beside", 0):
            time.sleep(0.05)
        time.sleep(does.get("last", 0.0))
        for requirement, verdict in does.get("verdicts", {"A-1": "fail", "B-2": "pass"}).items():
            message = "" if verdict == "pass" else f"{requirement} is {verdict}"
            writer.add(requirement, Scenario(name="scenario", verdict=Verdict(verdict), message=message))
    except KeyboardInterrupt:
        writer.finish(interrupted=True)
        return 2
    with log.open("a") as file:
        file.write(f"{time.monotonic()} ended {os.getpid()}\n")
    return writer.finish().verdict.exit_code


if __name__ == "__main__":
    sys.exit(main())
