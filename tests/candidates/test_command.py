"""`python -m candidates`, and the examples of docs/candidate.md."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import candidates
from candidates import __main__ as command
from candidates import placeholders

CHECKOUT = Path(__file__).parent.parent.parent
DOCS = (CHECKOUT / "docs/candidate.md").read_text(encoding="utf-8")
LISTS = (
    placeholders.IN_PROCESS, placeholders.IN_POD, placeholders.IN_JOB, placeholders.IN_NODE, placeholders.IN_GANG,
    placeholders.IN_SLOTS, placeholders.IN_BUILD, placeholders.IN_DEVICES, placeholders.IN_DEVICE,
)  # fmt: skip


def test_good_descriptors_are_summed_up() -> None:
    result = CliRunner().invoke(command.app, ["validate", str(CHECKOUT / "candidates/gpu-packing.yaml")])

    assert result.exit_code == 0
    assert "✓" in result.output
    assert "serves gpu-packing; claims leader-election, packing" in result.output


def test_problems_are_shown_as_they_are_written(written: Callable[..., Path]) -> None:
    path = written(("schedulerNames: [small]", "schedulerNames: ['[red]bold[/]']"))

    result = CliRunner().invoke(command.app, ["validate", str(path)])

    assert result.exit_code == 1
    assert f"✗ {path}:9 schedulerNames[0]" in result.output
    assert "'[red]bold[/]' has the wrong form" in result.output
    assert "→ write a-z" in result.output


def test_an_old_schema_is_noticed_and_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SCHEMA", tmp_path / "schema.json")

    assert CliRunner().invoke(command.app, ["schema", "--check"]).exit_code == 1
    assert CliRunner().invoke(command.app, ["schema"]).exit_code == 0
    assert CliRunner().invoke(command.app, ["schema", "--check"]).exit_code == 0


def test_every_example_of_the_documentation_is_a_candidate(tmp_path: Path) -> None:
    examples = [
        text for text in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL) if text.startswith("apiVersion: unr")
    ]
    (tmp_path / "scheduler.yaml").write_text("a: b")
    (tmp_path / "gpu-packing").mkdir()
    (tmp_path / "gpu-packing" / "previous.yaml").write_text("a: b")
    (tmp_path / "source/cmd/scheduler").mkdir(parents=True)
    for name in ("go.mod", "kubernetes-1.36.mod", "kubernetes-1.37.mod", "cmd/scheduler/main.go"):
        (tmp_path / "source" / name).touch()

    assert len(examples) == 3
    for number, text in enumerate(examples):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text, encoding="utf-8")
        candidates.load(path)


def test_the_first_example_is_the_shipped_descriptor_with_notes(tmp_path: Path) -> None:
    text = re.search(r"```yaml\n(apiVersion.*?)```", DOCS, re.DOTALL)
    assert text
    path = tmp_path / "gpu-packing.yaml"
    path.write_text(text[1], encoding="utf-8")
    (tmp_path / "scheduler.yaml").write_text("a: b")
    (tmp_path / "gpu-packing").mkdir(exist_ok=True)
    (tmp_path / "gpu-packing" / "previous.yaml").write_text("a: b")

    shipped = candidates.load(CHECKOUT / "candidates/gpu-packing.yaml").model_dump()
    shown = candidates.load(path).model_dump()

    for section in ("identity", "deployment", "deviations"):
        shown.pop(section), shipped.pop(section)
    assert shown == shipped


def test_every_placeholder_is_documented() -> None:
    known = {name for names in LISTS for name in names}

    documented = set(re.findall(r"^\| `\$\(([a-z.-]+:?)", DOCS, re.MULTILINE))

    assert documented == known
