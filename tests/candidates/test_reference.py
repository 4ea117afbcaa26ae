"""The reference scheduler's own tests, which are Go's."""

import subprocess
from pathlib import Path

import pytest

import candidates
from candidates.building import expanded
from clusters import golang, local

FOLDER = Path(candidates.__file__).parent / "reference"
# Seconds, with nothing of it compiled yet.
LONGEST = 600


@pytest.mark.parametrize("command", ["vet", "test"])
def test_its_own_tests_pass(command: str) -> None:
    section = expanded(candidates.load(FOLDER.with_suffix(".yaml")).build["scheduler"], local.NEWEST)
    assert section.modfile
    toolchain = golang.find_toolchain(golang.language((FOLDER / section.modfile).read_text()))
    assert toolchain  # the components of the control plane have needed it

    done = subprocess.run(
        [toolchain.go, command, f"-modfile={section.modfile}", f"-tags={','.join(section.tags)}", "./..."],
        cwd=FOLDER, env=golang.environment(toolchain), capture_output=True, text=True, check=False, timeout=LONGEST,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert command == "vet" or "ok  \tunreserve.dev/reference/slots" in done.stdout
