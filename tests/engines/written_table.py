"""A table that a release of Apache Hudi wrote, with what Apache and we read of it."""

import functools
import hashlib
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from catalog import Table
from pushdown import HudiExpression
from pushdown.binding.bind import bind
from pushdown.evaluation.rows import matches
from tests.engines.apache_tables import ApacheTable, apache_tables
from tests.golden.packing import read_archive
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.filter_battery import random_filter
from tests.support.paths import GOLDEN, ROOT

_FAVOURITES = ["id", "_hoodie_record_key", "part"]
#: Tables as they are read. Nothing of this project makes them, so they stay what they are from run to run.
KEPT = ROOT / ".work/apache-tables"
#: An archive for each release, of such tables; see `tests/golden/README.md`.
ARCHIVES = GOLDEN / "apache_tables"
_DIGITS = 12


class Written:
    """One table, as Apache left it and reads it; no test changes it.

    It comes from the archive of its release; one whose description is newer than the archive is written by the release.

    Args:
        release: gives the running Apache Hudi of a release.
        version: the release that writes.
        name: of the table.
    """

    def __init__(self, release: Callable[[str], ApacheHudi], version: str, name: str) -> None:
        self._release, self._version = release, version
        self.spec = apache_tables()[name]
        folder = kept(release, version, self.spec)
        self.path = folder / "table"
        self.theirs = pq.read_table(folder / "rows.parquet")
        self.table = Table.open(str(self.path))
        self.ours = self.table.scan().to_arrow()

    @property
    def engine(self) -> ApacheHudi:
        """The release that wrote the table, running."""
        return self._release(self._version)

    def filters(self, count: int) -> list[HudiExpression]:
        chance = random.Random(self.spec.name)
        favourites = [name for name in _FAVOURITES if name in self.ours.column_names]
        return [random_filter(self.ours, favourites, chance) for _ in range(count)]

    def matching(self, expression: HudiExpression) -> pa.Table:
        return self.ours.filter(matches(bind(expression, self.ours.schema), self.ours))


def label(version: str, spec: ApacheTable) -> str:
    """Name of a table's folder here and in the archive, which tells its description from others."""
    parts = (spec.options, spec.writes, str(spec.schema), spec.apache_reads_with)
    return f"{version}-{spec.name}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:_DIGITS]}"


def kept(release: Callable[[str], ApacheHudi], version: str, spec: ApacheTable) -> Path:
    """Folder with the table, and with what Apache reads of it."""
    folder = KEPT / label(version, spec)
    if not folder.exists():
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        if not _unpack(version, folder.name, making):
            _write(release, version, spec, making)
        for older in KEPT.glob(f"{version}-{spec.name}-{'?' * _DIGITS}"):
            shutil.rmtree(older)
        making.rename(folder)
    return folder


def _unpack(version: str, name: str, folder: Path) -> bool:
    """Unpack a table if the archive has it."""
    members = {path: data for path, data in packed(version).items() if path.startswith(f"{name}/")}
    for path, data in members.items():
        target = folder / path.removeprefix(f"{name}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return bool(members)


@functools.cache
def packed(version: str) -> dict[str, bytes]:
    """The archive of a release."""
    return read_archive(ARCHIVES / f"{version}.tar.xz")


def _write(release: Callable[[str], ApacheHudi], version: str, spec: ApacheTable, folder: Path) -> None:
    """Let a release write a table and read it.

    Release 1.0.2 fails to merge its own deletes with long ordering values, so 1.2.0 reads its merge-on-read tables.
    """
    path = spec.write(release(version), folder / "table")
    reader = release("1.2.0" if version == "1.0.2" and spec.name.startswith("mor") else version)
    pq.write_table(reader.read(path, options=spec.apache_reads_with), folder / "rows.parquet")
