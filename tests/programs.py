"""Programs that tests start."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T", str, bytes)


@contextmanager
def ended(process: subprocess.Popen[T]) -> Iterator[subprocess.Popen[T]]:
    """Wait for a process at the end; where the test has failed, kill it first, or the wait would be for ever."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
