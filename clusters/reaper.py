"""The guard of one run: when the runner is gone, kill what it started and remove its private folder.

Run as a script by `clusters.processes.Supervisor`. Standard input carries two lines (token, folder), then commands to
run after a death (a JSON object each), then `done` after a clean end. End of file without `done`, or another parent
process, means that the runner died, whatever killed it.
Standard library only and few imports (no pathlib): it is started before everything else.
"""

import contextlib
import os
import select
import signal
import sys
import time

# Every process of a run carries this variable; its value is the run's random token.
VARIABLE = "UNRESERVE_RUN"

# Seconds between two looks at the runner; the pipe is the quick way, this one covers a leaked write end.
WATCH = 0.25
# Seconds between two scans, and how many in a row must find nothing: a process between fork and exec shows no token.
RESCAN = 0.03
CALM = 3


def carriers(token: str) -> list[int]:
    """Return the pids of all living processes whose environment carries the token."""
    wanted = f"{VARIABLE}={token}".encode()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208
        if not entry.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as environ:  # noqa: PTH123
            if wanted in environ.read().split(b"\0"):
                found.append(int(entry))
    return found


def session_of(pid: int) -> int:
    """Return the session id of a process, -1 where it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def kill_carriers(token: str, session: int | None = None) -> None:
    """Kill every process that carries the token, of one session or of all, and look again until none is left."""
    calm = 0
    while calm < CALM:
        pids = [pid for pid in carriers(token) if session in (None, session_of(pid))]
        for pid in pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        calm = 0 if pids else calm + 1
        if calm < CALM:
            time.sleep(RESCAN)


def main() -> None:
    """Guard the parent process until it ends, cleanly or not."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    parent = os.getppid()
    os.write(1, b"ready\n")
    os.close(1)

    received = b""
    while os.getppid() == parent:
        if select.select([0], [], [], WATCH)[0]:
            chunk = os.read(0, 4096)
            if not chunk:
                break
            received += chunk
    # What the runner wrote just before it died.
    os.set_blocking(0, False)
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(0, 4096):
            received += chunk
    token, folder, *rest = (*received.decode().split("\n"), "", "")
    if "done" in rest or not token:
        return
    kill_carriers(token)
    import json  # noqa: PLC0415 - only after the fact, to start fast
    import shutil  # noqa: PLC0415
    import subprocess  # noqa: PLC0415

    for line in filter(None, rest):
        with contextlib.suppress(OSError, ValueError):
            subprocess.run(**json.loads(line), stdin=subprocess.DEVNULL, check=False)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
    sys.exit(0)
