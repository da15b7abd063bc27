"""Selective Hive queries on large files: the storage handler beside Hive's own reading of plain Parquet.

The rows of TPC-H lineitem at scale factor 10 are two Hudi tables by our writer: one by quarters of the ship date, a
column that no query knows, and one by the hash of the part. Hive reads them as plain Parquet twice: as the generator
gives them, in the order of order keys, and in the very files of the Hudi tables.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

import hudi_catalog
from benchmarks import lineitem
from benchmarks.hive import WARMING, ask, compare, handling, parquet_table, plain_table
from benchmarks.shipments import AGGREGATE
from tools.engines.hive.server import HiveServer

SCALE = "10"  # 59,986,052 rows
BUCKETS = 24
PLAIN_BYTES = "100MB"
DAYS, PARTS = "by_quarter", "by_part"
PLAIN, SAME, HANDLER = "plain Parquet", "plain Parquet, the same files", "storage handler"
SCHEMAS = {PLAIN: "plain", SAME: "files", HANDLER: "tpch"}
AMOUNTS = ("l_quantity", "l_extendedprice", "l_discount", "l_tax")
QUESTIONS = {
    "one day": (DAYS, f"SELECT {AGGREGATE} FROM {{}} WHERE l_shipdate = DATE '1995-03-15'"),
    "one week": (
        DAYS,
        f"SELECT {AGGREGATE} FROM {{}} WHERE l_shipdate BETWEEN DATE '1996-07-01' AND DATE '1996-07-07'",
    ),
    "rows of a day": (
        DAYS,
        "SELECT l_orderkey, l_shipmode, l_comment FROM {} WHERE l_shipdate = DATE '1994-02-11' AND l_quantity > 49",
    ),
    "one part": (PARTS, f"SELECT {AGGREGATE} FROM {{}} WHERE l_partkey = 155190"),
    "rows of a part": (PARTS, "SELECT l_orderkey, l_shipmode, l_comment FROM {} WHERE l_partkey = 155190"),
}
"""By name: the Hudi table, and the text, where `{}` stands for its name."""


@dataclass
class Figures:
    """What was measured.

    Attributes:
        seconds: by question, by side, of each counted run.
        files: of each Hudi table, and their bytes.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    files: dict[str, tuple[int, int]] = field(default_factory=dict)


def build(folder: Path) -> None:
    """Both Hudi tables and the plain one, where they are not there yet."""
    source = lineitem.source(folder / "source", SCALE)
    amounts = ", ".join(f"{name}::DOUBLE AS {name}" for name in AMOUNTS)
    with duckdb.connect(config={"memory_limit": "4GB", "preserve_insertion_order": True}) as connection:
        rows = connection.sql(f"SELECT * REPLACE ({amounts}) FROM '{source}'")
        quarters = connection.sql("SELECT *, year(l_shipdate) || '-' || quarter(l_shipdate) AS quarter FROM rows")
        plain = folder / "plain"
        if not plain.exists():
            rows.query("rows", f"COPY rows TO '{plain}' (FORMAT PARQUET, FILE_SIZE_BYTES '{PLAIN_BYTES}')")
        key = lineitem.KEY
        for name, frame, fields, buckets, options in (
            (DAYS, quarters, key, 1, {"hoodie.datasource.write.partitionpath.field": "quarter"}),
            (PARTS, rows, ["l_partkey", *key], BUCKETS, {"hoodie.bucket.index.hash.field": "l_partkey"}),
        ):
            path = folder / "warehouse" / SCHEMAS[HANDLER] / name
            if not path.exists():
                table = hudi_catalog.create_table(path, frame, record_key=fields, buckets=buckets, options=options)
                table.bulk_insert(frame)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[HiveServer]:
    """HiveServer2 with the tables of all sides."""
    build(folder)
    paths = {name: folder / "warehouse" / SCHEMAS[HANDLER] / name for name in (DAYS, PARTS)}
    with handling(folder, [*paths.values()], SCHEMAS[HANDLER], folder / "selective.jsonl", memory="3g") as hive:
        for side in (PLAIN, SAME):
            ask(hive, f"CREATE DATABASE {SCHEMAS[side]}")
        for name, path in paths.items():
            ask(hive, parquet_table(f"{SCHEMAS[PLAIN]}.{name}", folder / "plain"))
            ask(hive, plain_table(f"{SCHEMAS[SAME]}.{name}", path, folder / "files" / name))
        yield hive


def run(folder: Path, repeats: int) -> Figures:
    """Measure all of it; sides take turns.

    Raises:
        RuntimeError: the sides gave different rows.
    """
    figures = Figures()
    with server(folder) as hive:
        warming, first = next(iter(QUESTIONS.values()))
        compare(hive, first, _tables(warming), WARMING)
        for question, (name, text) in QUESTIONS.items():
            figures.seconds[question] = compare(hive, text, _tables(name), repeats).seconds
    for name in (DAYS, PARTS):
        sizes = [file.stat().st_size for file in (folder / "files" / name).iterdir()]
        figures.files[name] = len(sizes), sum(sizes)
    return figures


def _tables(name: str) -> dict[str, str]:
    return {side: f"{schema}.{name}" for side, schema in SCHEMAS.items()}


def table(figures: Figures) -> Iterator[str]:
    """The figures as a Markdown table."""
    yield "| query on Hive 4.0.1 | table | runs (s) | median (s) | times as fast |"
    yield "|---|---|---|---|---|"
    for question, runs_by_side in figures.seconds.items():
        count, size = figures.files[QUESTIONS[question][0]]
        plain = statistics.median(runs_by_side[PLAIN])
        for side, seconds in runs_by_side.items():
            median = statistics.median(seconds)
            runs = ", ".join(f"{one:.2f}" for one in seconds)
            name = f"{question}, {count} files of {size / count / 1e6:.0f} MB"
            yield f"| {name} | {side} | {runs} | {median:.2f} | {plain / median:.1f} |"
