"""What tables of the corpus are described with: options, and what is done to a table beside writes."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from catalog import Table
from tests.engines.apache_tables import KEYGEN, MERGE_ON_READ, ApacheTable, Statements, Write
from tests.golden.corpus.rows import SMALL, Rows
from tests.support.apache_hudi_client import ApacheHudi

Step = Write | Statements
COMMON = {
    "hoodie.index.bloom.num_entries": "300",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.archive.automatic": "false",
}
CLEANED = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.commits.retained": "1",
}
ARCHIVED = {
    **CLEANED,
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.commits.archival.batch": "1",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
NOT_COMPACTED = {"hoodie.metadata.compact.max.delta.commits": "100"}
LOGS_ONLY = {**MERGE_ON_READ, "hoodie.compact.inline": "false"}


def bucket(count: int) -> dict[str, str]:
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(count),
        "hoodie.bucket.index.hash.field": "id",
    }


def record_index(shards: int) -> dict[str, str]:
    return {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.metadata.record.index.min.filegroup.count": str(shards),
        "hoodie.metadata.record.index.max.filegroup.count": str(shards),
    }


def by(column: str) -> dict[str, str]:
    return {
        "hoodie.datasource.write.partitionpath.field": column,
        "hoodie.datasource.write.keygenerator.class": f"{KEYGEN}.SimpleKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "false",
    }


@dataclass(frozen=True)
class Crash(Statements):
    """The newest write loses its completed instant, after the metadata table took it."""

    def run(self, apache: ApacheHudi, path: Path) -> None:
        newest = _timeline(path).writes[-1]
        os.unlink(path / _timeline(path).path(newest))


@dataclass(frozen=True)
class Call(Statements):
    """One procedure of Apache's."""

    def run(self, apache: ApacheHudi, path: Path) -> None:
        try:
            for key, value in self.settings.items():
                apache.sql(f"SET {key}={value}")
            apache.sql(self.statement(path))
        finally:
            for key in self.settings:
                apache.sql(f"RESET {key}")

    def statement(self, path: Path) -> str:
        """SQL text."""
        raise NotImplementedError


@dataclass(frozen=True)
class Savepoint(Call):
    """A savepoint of the newest write."""

    def statement(self, path: Path) -> str:
        newest = _timeline(path).writes[-1].time
        return f"CALL create_savepoint(path => '{path}', commit_time => '{newest}')"


@dataclass(frozen=True)
class Restore(Call):
    """The table becomes what it was at its savepoint."""

    def statement(self, path: Path) -> str:
        [savepoint] = [one.time for one in _timeline(path).completed if one.action == "savepoint"]
        return f"CALL rollback_to_savepoint(path => '{path}', instant_time => '{savepoint}')"


def _timeline(path: Path) -> Any:
    return Table.open(str(path)).client.timeline()


def history(rows: Rows, count: int, first: str = "insert", *, back: int = 3, more: int = 0) -> list[Step]:
    """An insert, updates and new keys, deletes, updates that bring `back` deleted keys back, updates of `more` keys."""
    every = range(count + count // 2)
    deleted = rows.some(every, count * 3 // 16)
    left = sorted({*every} - {*deleted})
    steps: list[Step] = [
        Write(first, rows(range(count), 1)),
        Write("upsert", rows([*rows.some(range(count), count * 3 // 10), *every[count:]], 2)),
        Write("delete", rows(deleted, 3)),
        Write("upsert", rows([*deleted[:back], *rows.some(left, count // 5 + 1)], 4)),
    ]
    return [*steps, Write("upsert", rows(rows.some(left, more), 9))] if more else steps


def table(
    name: str,
    options: dict[str, str],
    steps: Callable[[Rows], Sequence[Step]],
    schema: pa.Schema = SMALL,
    /,
    **fixed: Callable[[int], Any],
) -> ApacheTable:
    """A table whose `fixed` columns tell a row's value by its number."""
    rows = Rows(name, schema, fixed)
    return ApacheTable(name, {**COMMON, **options}, list(steps(rows)), schema)


def with_column(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    return schema.append(pa.field(name, kind))


def among(*values: Any) -> Callable[[int], Any]:
    return lambda number: values[number % len(values)]
