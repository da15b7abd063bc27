"""Building bloom filters and column statistics of a table that has data, beside Apache Hudi.

Apache Hudi builds them in the first write whose options ask for them; the time of a write of the same few rows that
builds nothing is subtracted.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.rival import apache_session
from hudi_catalog import create_table, open_table
from table_format.table.client import TableClient
from tests.support.apache_hudi_client import ApacheHudi

FILES = 512
ROWS = 1_000_000
SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
INDEXES = {
    "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
    "column_stats": "hoodie.metadata.index.column.stats.enable",
}
_JOB = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.clean.automatic": "false",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
}


@dataclass(frozen=True)
class Figures:
    """Seconds of building one index on both sides; Apache's without those of a write that builds nothing."""

    index: str
    ours: float
    apache: float


def rows(first: int, last: int) -> pa.Table:
    """Rows of a range of keys."""
    numbers = range(first, last)
    keys = pa.array([f"{n * 7_919 % 10_000_019:08d}" for n in numbers], pa.string())
    return pa.table([keys, pa.array(numbers, pa.int64()), pa.array([n / 7 for n in numbers])], schema=SCHEMA)


def measure(folder: Path, count: int = ROWS, files: int = FILES) -> list[Figures]:
    """Make a table of `count` rows in `files` files without indexes, and build each index on a copy of it."""
    made = folder / "made"
    off = {**dict.fromkeys(INDEXES.values(), "false"), "hoodie.clean.automatic": "false"}
    create_table(made, SCHEMA, record_key="id", ordering="v", buckets=files, name="t", options=off).bulk_insert(
        rows(0, count)
    )
    figures = []
    with apache_session(folder) as apache:
        _by_apache(apache, folder, made, files, {})  # starts the engine
        nothing = _by_apache(apache, folder, made, files, {})
        for index, key in INDEXES.items():
            path = _copy(folder, made)
            table = open_table(path)
            start = time.perf_counter()
            table.build_index(index)
            ours = time.perf_counter() - start
            figures.append(Figures(index, ours, _by_apache(apache, folder, made, files, {key: "true"}) - nothing))
    return figures


def _copy(folder: Path, made: Path) -> Path:
    path = folder / "copy"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(made, path)
    return path


def _by_apache(apache: ApacheHudi, folder: Path, made: Path, files: int, options: dict[str, str]) -> float:
    path = _copy(folder, made)
    off = dict.fromkeys(INDEXES.values(), "false")
    job = {**_JOB, **off, "hoodie.bucket.index.num.buckets": str(files), **options}
    start = time.perf_counter()
    apache.write(path, rows(0, 1), job, "append")
    seconds = time.perf_counter() - start
    listed = TableClient.open(str(path)).config.metadata_partitions
    asked = [index for index, key in INDEXES.items() if key in options]
    if not set(asked) <= set(listed):
        raise AssertionError(f"Apache Hudi did not build {asked}: {listed}")
    return seconds


def report(figures: list[Figures]) -> str:
    """The figures as a table of Markdown."""
    lines = [f"| index of {FILES} files | hudi-catalog, s | Apache Hudi, s |", "|---|---|---|"]
    lines += [f"| `{one.index}` | {one.ours:.2f} | {one.apache:.2f} |" for one in figures]
    return "\n".join(lines) + "\n"
