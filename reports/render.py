"""Draw every report of a run from its record and its histories. The same input gives the same bytes."""

import hashlib
from pathlib import Path
from typing import Final

from reports import allure, attestation, junit, signoff
from reports.record import Record, read, write_private

SUMS: Final = "SHA256SUMS"


def render(directory: Path) -> Record:
    """Write all reports beside the record in `directory`, finished run or not, and return the record.

    Raises:
        RecordError: the record cannot be read.
    """
    record = read(directory)
    junit.write(directory, record)
    allure.write(directory, record)
    signoff.write(directory, record)
    attestation.write(directory, record)
    write_sums(directory)
    return record


def write_sums(directory: Path) -> None:
    """Write the digest of every file of the results, to be checked with `sha256sum -c SHA256SUMS` inside of them."""
    files = sorted(
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != SUMS and not path.name.endswith(".unfinished")
    )
    write_private(directory / SUMS, "".join(_line(directory, name) for name in files))


def _line(directory: Path, name: str) -> str:
    with (directory / name).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""  # coreutils marks a line with an escaped name
    return f"{mark}{digest}  {escaped}\n"
