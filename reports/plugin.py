"""Draws the reports of a run that pytest has just ended, prints the summary, and bundles what is signed off."""

from collections.abc import Generator
from pathlib import Path

import pytest

from reports import bundle, summary
from reports.record import Record, RunVerdict
from reports.render import render

# As where a core requirement was left out: nothing broke, and nothing is signed.
NOT_SIGNED_OFF = RunVerdict.PARTIAL.exit_code
ENDED = pytest.StashKey[tuple[Path, Record]]()


class Reports:
    """Listens to one session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._in_the_way: list[str] = []
        self._bundle: Path | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_unreserve_run_begins(self, record: Record) -> None:
        """Refuse what could not be signed off at its end."""
        if self._config.getoption("signoff") and (obstacles := record.obstacles_at_begin()):
            raise pytest.UsageError("this run could not be signed off:\n" + "\n".join(obstacles))

    @pytest.hookimpl(optionalhook=True)
    def pytest_unreserve_run_ended(self, directory: Path) -> None:
        """Draw everything from the record, as far as it got."""
        record = render(directory)
        self._config.stash[ENDED] = (directory, record)
        if not self._config.getoption("signoff"):
            return
        self._in_the_way = bundle.in_the_way(record)
        if not self._in_the_way:
            self._bundle = bundle.write(directory, record)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Let no run end well that was to be signed off and is not."""
        yield
        if self._config.getoption("signoff") and self._bundle is None and session.exitstatus == 0:
            session.exitstatus = NOT_SIGNED_OFF

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
        if self._bundle is not None:
            terminalreporter.write_line(f"Sign-off: {self._bundle}")
        elif self._config.getoption("signoff"):
            terminalreporter.write_line("Not signed off:")
            for each in self._in_the_way:
                terminalreporter.write_line(f"  {each}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--signoff`."""
    parser.getgroup("unreserve").addoption(
        "--signoff", action="store_true", help="end with the sign-off bundle, or with what stands in its way"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Listen."""
    config.pluginmanager.register(Reports(config), "unreserve-reports")
