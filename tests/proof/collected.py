"""A pytest plugin for `--collect-only`: prints each scenario with its requirement and the fixtures that it asks for."""

import json
import sys

import pytest

# Before the one line that is meant.
MARK = "collected scenarios: "


def pytest_collection_finish(session: pytest.Session) -> None:
    rows = [
        (marker.args[0], item.name.removeprefix("test_"), sorted(item.fixturenames))
        for item in session.items
        if isinstance(item, pytest.Function) and (marker := item.get_closest_marker("requirement"))
    ]
    sys.stdout.write(f"\n{MARK}{json.dumps(rows)}\n")
