"""`python -m tests.workflows`: check the workflows with actionlint, built once from its pinned module."""

import subprocess
import sys
from pathlib import Path

from clusters import golang
from clusters.local import build
from clusters.progress import Shown
from clusters.provider import ProviderError

ROOT = Path(__file__).parents[2]


def main() -> int:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    try:
        with Shown() as progress:
            (actionlint,) = build.read_module(Path(__file__).with_name("actionlint"))
            program = golang.ensure(actionlint, progress)
    except ProviderError as error:
        sys.exit(f"error: {error}")
    # The same answer everywhere: never with what else happens to be installed.
    return subprocess.run([program, "-shellcheck=", "-pyflakes=", *files], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
