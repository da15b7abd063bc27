"""The merge-on-read table that the documentation's examples read: version 9, written by Apache Hudi 1.2.0."""

import tarfile
from pathlib import Path

from tests.support.paths import GOLDEN

_ARCHIVE = GOLDEN / "tables/indexes.tar.xz"
_NAME = "v9_ring"


def unpack_readings(place: Path) -> None:
    """Put the table into a folder that does not exist yet."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(_ARCHIVE) as archive:
        members = [member for member in archive.getmembers() if member.name.split("/")[0] == _NAME]
        archive.extractall(place.parent, members=members, filter="data")
    (place.parent / _NAME).rename(place)
