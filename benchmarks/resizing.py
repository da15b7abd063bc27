"""Resizing lineitem from 8 to 16 buckets by splits, beside reading a DataFrame and writing it anew, and without Spark.

Each side works on a copy of one table. A write anew is what a table without resizes needs: its rows as a DataFrame, or
as Arrow batches, into a new table with the other number of buckets.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import lineitem
from benchmarks.local_sides import rows_of
from benchmarks.writing import spark_session
from hudi_catalog import create_table, open_table
from spark_writer import HudiTable
from table_format.meta_columns import META_COLUMNS

BEFORE, AFTER, OTHER = lineitem.BUCKETS, 16, 12
QUIET = {"hoodie.catalog.write.progress": "false"}


@dataclass
class Side:
    """One side's counted runs.

    Attributes:
        name: what it does.
        work: does it to a copy of the table, beside which it may make another one.
        seconds: of each run.
        encoded: bytes of column chunks that were encoded; 0 where the side does not say.
        rows: afterwards.
    """

    name: str
    work: Callable[[Path], int]
    seconds: list[float] = field(default_factory=list)
    encoded: int = 0
    rows: int = 0


def prepared(folder: Path, scale: str) -> Path:
    """The table with 8 buckets."""
    path = folder / "buckets"
    if not path.exists():
        rows = rows_of(lineitem.source(folder / "data", scale))
        table = create_table(path, rows.schema, record_key=lineitem.KEY, buckets=BEFORE, name="lineitem", options=QUIET)
        table.bulk_insert(rows)
    return path


def sides(spark: SparkSession) -> list[Side]:
    """What is compared."""

    def split(path: Path) -> int:
        return HudiTable.open(path, session=spark, options=QUIET).resize(AFTER).bytes_encoded

    def anew(path: Path) -> int:
        frame = HudiTable.open(path, session=spark).to_df().drop(*META_COLUMNS)
        table = HudiTable.create(
            spark, f"{path}-anew", frame.schema, record_key=lineitem.KEY, buckets=AFTER, options=QUIET
        )
        table.bulk_insert(frame)
        return 0

    def exchanged(path: Path) -> int:
        return HudiTable.open(path, session=spark, options=QUIET).resize(OTHER).bytes_encoded

    def local_split(path: Path) -> int:
        return open_table(path, options=QUIET).resize(AFTER).bytes_encoded

    def local_anew(path: Path) -> int:
        rows = open_table(path).scan()
        columns = [name for name in rows.schema.names if name not in META_COLUMNS]
        table = create_table(
            f"{path}-anew",
            rows.schema.empty_table().select(columns).schema,
            record_key=lineitem.KEY,
            buckets=AFTER,
            options=QUIET,
        )
        table.bulk_insert(open_table(path).scan(columns=columns).to_batch_reader())
        return 0

    return [
        Side("Spark: resize by splits", split),
        Side("Spark: a DataFrame read and written anew", anew),
        Side(f"Spark: resize to {OTHER}, by an exchange", exchanged),
        Side("Python: resize by splits", local_split),
        Side("Python: batches read and written anew", local_anew),
    ]


def run(folder: Path, repeats: int, scale: str = lineitem.SCALE) -> list[Side]:
    """Each side resizes copies in turns, after one uncounted round."""
    base = prepared(folder, scale)
    wanted = open_table(base).scan().count()
    with spark_session() as spark:
        compared = sides(spark)
        for attempt in range(repeats + 1):
            for number, side in enumerate(compared):
                copy = Path(shutil.copytree(base, folder / f"side{number}"))
                started = time.perf_counter()
                side.encoded = side.work(copy)
                seconds = time.perf_counter() - started
                if attempt:
                    side.seconds.append(seconds)
                made = Path(f"{copy}-anew") if Path(f"{copy}-anew").exists() else copy
                side.rows = open_table(made).scan().count()
                if side.rows != wanted:
                    raise RuntimeError(f"{side.name}: {side.rows} rows of {wanted}")
                shutil.rmtree(copy)
                shutil.rmtree(made, ignore_errors=True)
    return compared


def table(compared: list[Side]) -> Iterator[str]:
    """A Markdown table."""
    yield "| side | runs (s) | median (s) | encoded (MB) |"
    yield "|---|---|---|---|"
    for side in compared:
        runs = ", ".join(f"{seconds:.2f}" for seconds in side.seconds)
        encoded = f"{side.encoded / 1e6:.1f}" if side.encoded else "all"
        yield f"| {side.name} | {runs} | {statistics.median(side.seconds):.2f} | {encoded} |"
