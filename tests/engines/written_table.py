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
from tests.engines.apache_tables import apache_tables
from tests.support.apache_hudi_client import ApacheHudi, bundle
from tests.support.filter_battery import random_filter
from tests.support.paths import ROOT

_FAVOURITES = ["id", "_hoodie_record_key", "part"]
#: Tables of earlier runs. Nothing of this project makes them, so they stay what they are.
KEPT = ROOT / ".work/apache-tables"
#: What they depend on, beside the release.
_SOURCES = ("apache_tables.py", "edges.py", "kinds.py", "written_table.py", "apache_hudi/session.py")
_DIGITS = 12


class Written:
    """One table, as Apache left it and reads it; no test changes it.

    Release 1.0.2 fails to merge its own deletes with long ordering values, so 1.2.0 reads its merge-on-read tables.

    Args:
        release: gives the running Apache Hudi of a release.
        version: the release that writes.
        name: of the table.
    """

    def __init__(self, release: Callable[[str], ApacheHudi], version: str, name: str) -> None:
        self._release, self._version = release, version
        self.spec = apache_tables()[name]
        folder = KEPT / f"{version}-{name}-{_digest(version)}"
        if not folder.exists():
            self._make(folder)
        self.path = folder / "table"
        self.theirs = pq.read_table(folder / "rows.parquet")
        self.table = Table.open(str(self.path))
        self.ours = self.table.scan().to_arrow()

    @property
    def engine(self) -> ApacheHudi:
        """The release that wrote the table, running."""
        return self._release(self._version)

    def _make(self, folder: Path) -> None:
        """Write the table, and keep it with what Apache reads of it in place of what was kept for other sources."""
        by_newest = self._version == "1.0.2" and self.spec.name.startswith("mor")
        making = folder.with_name(f"{folder.name}.{os.getpid()}")
        path = self.spec.write(self.engine, making / "table")
        reader = self._release("1.2.0") if by_newest else self.engine
        rows = reader.read(path, options=self.spec.apache_reads_with)
        pq.write_table(rows, making / "rows.parquet")
        for older in KEPT.glob(f"{self._version}-{self.spec.name}-{'?' * _DIGITS}"):
            shutil.rmtree(older)
        making.rename(folder)

    def filters(self, count: int) -> list[HudiExpression]:
        chance = random.Random(self.spec.name)
        favourites = [name for name in _FAVOURITES if name in self.ours.column_names]
        return [random_filter(self.ours, favourites, chance) for _ in range(count)]

    def matching(self, expression: HudiExpression) -> pa.Table:
        return self.ours.filter(matches(bind(expression, self.ours.schema), self.ours))


@functools.cache
def _digest(version: str) -> str:
    """Of all that the tables of a release depend on."""
    digest = hashlib.sha256(str(bundle(version).stat().st_size).encode())
    for name in _SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    return digest.hexdigest()[:_DIGITS]
