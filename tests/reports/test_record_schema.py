"""The published schema is the one that records follow."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from reports.__main__ import app
from reports.record import RECORD, SCHEMA, json_schema
from tests.reports import sample

COMMITTED = Path(__file__).parents[2] / "reports" / "record.schema.json"


def test_the_committed_schema_is_current() -> None:
    assert json.loads(COMMITTED.read_text()) == json_schema(), "python -m reports schema > reports/record.schema.json"
    assert CliRunner().invoke(app, ["schema"]).output == COMMITTED.read_text()


@pytest.mark.parametrize("good", [True, False])
def test_a_record_follows_it(tmp_path: Path, good: bool) -> None:
    sample.write(tmp_path / "run", good=good)
    data = json.loads((tmp_path / "run" / RECORD).read_text())
    jsonschema.validate(data, json_schema(), cls=jsonschema.Draft202012Validator)
    assert data["schema"] == SCHEMA
    data["requirements"][0]["mood"] = "good"
    with pytest.raises(jsonschema.ValidationError, match="mood"):
        jsonschema.validate(data, json_schema(), cls=jsonschema.Draft202012Validator)


def test_the_published_fields_are_there(tmp_path: Path) -> None:
    sample.write(tmp_path / "run")
    data = json.loads((tmp_path / "run" / RECORD).read_text())
    published = {
        "schema",
        "verdict",
        "selection",
        "candidate",
        "kubernetes",
        "provider",
        "suite",
        "patience",
        "requirements",
    }
    assert published <= data.keys()
    assert {"name", "version", "digest"} <= data["candidate"].keys()
    assert {"version", "commit"} <= data["suite"].keys()
    assert {"id", "level", "verdict", "scenarios"} <= data["requirements"][0].keys()
    scenario = {"name", "verdict", "seconds", "witnesses", "bound_seconds", "measured_seconds", "message"}
    assert scenario <= data["requirements"][0]["scenarios"][0].keys()
