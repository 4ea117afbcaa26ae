"""Telling people what takes its time."""

import time
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status

# Seconds between two lines about the same thing where lines cannot be replaced.
PLAIN_INTERVAL = 15.0


class Progress(Protocol):
    """Where long work reports to."""

    def step(self, text: str) -> None:
        """Something began or is done: stays on the screen."""

    def tick(self, text: str) -> None:
        """How far it is: replaces the tick before."""


class Silent:
    """Reports nothing."""

    def step(self, text: str) -> None:
        """Nothing."""

    def tick(self, text: str) -> None:
        """Nothing."""


class Shown:
    """Reports on a console: a live line on a terminal, else a plain line now and then. A context manager."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Status | None = None
        self._next_line = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    def step(self, text: str) -> None:
        """Print a line."""
        self._clear()
        self._console.print(text, markup=False, soft_wrap=True)
        self._next_line = time.monotonic() + PLAIN_INTERVAL

    def tick(self, text: str) -> None:
        """Show a line that the next one replaces."""
        if self._console.is_terminal:
            if self._live is None:
                self._live = self._console.status("")
                self._live.start()
            self._live.update(escape(text))
        elif time.monotonic() >= self._next_line:
            self.step(text)

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
