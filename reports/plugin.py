"""Draws the reports of a run that pytest has just ended, and prints the summary."""

from pathlib import Path

import pytest

from reports import summary
from reports.record import Record
from reports.render import render

ENDED = pytest.StashKey[tuple[Path, Record]]()


class Reports:
    """Listens to one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_unreserve_run_ended(self, directory: Path) -> None:
        """Draw everything from the record, as far as it got."""
        self._config.stash[ENDED] = (directory, render(directory))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdict."""
        if ENDED not in self._config.stash:
            return
        directory, record = self._config.stash[ENDED]
        terminal = terminalreporter._tw  # noqa: SLF001 - the only way to its width
        terminalreporter.ensure_newline()
        terminalreporter.write_line("")
        terminalreporter.write(
            summary.text(record, directory, width=terminal.fullwidth, color=terminalreporter.hasmarkup)
        )


def pytest_configure(config: pytest.Config) -> None:
    """Listen."""
    config.pluginmanager.register(Reports(config), "unreserve-reports")
