"""A small candidate that every test may change."""

from collections.abc import Callable
from pathlib import Path

import pytest

BASE = """\
apiVersion: unreserve/v1
kind: Candidate
identity:
  name: small
  version: "1.0"
  organisation: Team
  contact: team@example.com
  source: https://example.com/small
schedulerNames: [small]
kubernetesVersions: ["1.37"]
deployment:
  processes:
    - name: scheduler
      command: [python3, $(folder)/program.py]
      ports: {web: auto}
"""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Write the small candidate, with the given pieces of its text replaced, and return its path."""
    folder = tmp_path / "candidate"
    folder.mkdir()

    def write(*changes: tuple[str, str], more: str = "") -> Path:
        text = BASE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        file = folder / "candidate.yaml"
        file.write_text(text + more, encoding="utf-8")
        return file

    return write
