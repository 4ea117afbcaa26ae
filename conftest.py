"""Wires the plugins; nothing else belongs here."""

pytest_plugins = ["fixtures.plugin", "reports.plugin"]
