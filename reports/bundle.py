"""The sign-off: everything by which somebody answers for a candidate, as one archive."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reports import attestation, junit, signoff
from reports.record import RECORD, Record
from reports.render import SUMS

PARTS: Final = (RECORD, signoff.PAGE, junit.FILE, attestation.FILE)


def in_the_way(record: Record) -> list[str]:
    """Return why a run cannot be signed off, one line each; empty where it can."""
    rows = [f"{row.id} is {row.verdict.replace('-', ' ')}: {row.title}" for row in record.blockers()]
    return [*record.obstacles(), *rows]


def write(directory: Path, record: Record) -> Path:
    """Write the archive of a run that can be signed off, and return its path. The same run gives the same bytes.

    It holds one folder: record, page, JUnit, attestation, histories and SHA256SUMS, to be checked inside of it.
    """
    name = f"signoff-{record.run_id}"
    path = directory / f"{name}.tar.gz"
    unfinished = path.with_suffix(".unfinished")
    sums = []
    unfinished.touch(mode=0o600)
    with (
        unfinished.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for part in _parts(directory, record):
            content = (directory / part).read_bytes()
            sums.append(f"{hashlib.sha256(content).hexdigest()}  {part}\n")
            _add(archive, f"{name}/{part}", content)
        _add(archive, f"{name}/{SUMS}", "".join(sums).encode())
    unfinished.replace(path)
    return path


def _parts(directory: Path, record: Record) -> Iterator[str]:
    yield from PARTS
    histories = {scenario.history for row in record.requirements for scenario in row.scenarios if scenario.history}
    for history in sorted(histories):
        if not (directory / history).resolve().is_relative_to(directory.resolve()):
            raise ValueError(f"{history}: outside of the results")
        yield history


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    archive.addfile(member, io.BytesIO(content))
