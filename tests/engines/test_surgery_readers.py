"""Files with edited row groups, of several writers, read by parquet-java in Spark: vectorised, row by row, filtered."""

import datetime as dt
import functools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.surgery.splice import Dropped, FileEdit, NewColumns, splice
from tests.support.parquet_pages import check_pages

pytestmark = [pytest.mark.engine, pytest.mark.spark]
GROUPS, GROUP_ROWS = 5, 2048
SCHEMA = pa.schema(
    [
        ("_hoodie_file_name", pa.string()),
        ("id", pa.string()),
        ("n", pa.int64()),
        ("few", pa.string()),
        ("d", pa.float64()),
        ("dec", pa.decimal128(20, 3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("bin", pa.binary()),
        ("st", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("arr", pa.list_(pa.string())),
        ("mp", pa.map_(pa.string(), pa.int64())),
    ]
)
FILTERS = [
    "n = 7777",
    "n between 6140 and 6150",
    "id >= 'k005000' and id < 'k005010'",
    "id = 'k010245'",
    "few = 'f3'",
    "few is null",
    "d < -1100",
    "dec = 777.125",
    "day = DATE '2020-03-01'",
    "n is null",
]


def row(n: int, version: int = 0) -> dict[str, Any]:
    return {
        "_hoodie_file_name": "old",
        "id": f"k{n:06d}",
        "n": n + version * 1000 if n % 17 else None,
        "few": f"f{n % 7}" if n % 5 else None,
        "d": -n / 8 + version,
        "dec": Decimal(n) / 8,
        "day": dt.date(2020, 1, 1) + dt.timedelta(days=n % 366),
        "at": dt.datetime(2021, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n * 1_000_003 + version),
        "bin": bytes([n % 256, version]),
        "st": {"a": n, "b": f"b{n % 3}" if n % 2 else None} if n % 4 else None,
        "arr": [f"a{n % 9}", None] if n % 3 else ([] if n % 2 else None),
        "mp": [("x", n), ("y", None)] if n % 6 else None,
    }


def rows(start: int, count: int, version: int = 0) -> pa.Table:
    return pa.Table.from_pylist([row(n, version) for n in range(start, start + count)], SCHEMA)


ALL = rows(0, GROUPS * GROUP_ROWS)


def by_pyarrow(**options: Any) -> Callable[[Any, Path], None]:
    def write(_: Any, path: Path) -> None:
        pq.write_table(
            ALL,
            path,
            row_group_size=GROUP_ROWS,
            data_page_size=2048,
            write_page_index=True,
            write_page_checksum=True,
            **options,
        )

    return write


def by_spark(spark: Any, path: Path) -> None:
    """Of parquet-java, with bloom filters and as many row groups as it makes."""
    folder = path.with_suffix(".spark")
    options = {
        "compression": "gzip",
        "parquet.block.size": "32768",
        "parquet.page.size": "4096",
        "parquet.block.size.row.check.min": "100",
        "parquet.page.size.row.check.min": "100",
        "parquet.block.size.row.check.max": "200",
        "parquet.bloom.filter.enabled#id": "true",
        "parquet.bloom.filter.expected.ndv#id": "1000",
    }
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        spark.createDataFrame(ALL).coalesce(1).write.options(**options).parquet(str(folder))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    next(folder.glob("*.parquet")).rename(path)


WRITERS = {
    "v1": by_pyarrow(compression="snappy"),
    "v2": by_pyarrow(compression="zstd", data_page_version="2.0"),
    "plain": by_pyarrow(compression="none", use_dictionary=False),
    "parquet-java": by_spark,
}


def edited(source: Path, target: Path) -> pa.Table:
    """Edit a file; its rows now."""
    opened = pq.ParquetFile(source)
    groups = [opened.read_row_group(number).cast(ALL.schema) for number in range(opened.num_row_groups)]
    assert len(groups) >= 4
    changed = groups[0].set_column(2, "n", pc.negate(groups[0]["n"]))
    changed = changed.set_column(10, "arr", pa.array([["new", None]] * len(changed), SCHEMA.field("arr").type))
    changed = changed.set_column(3, "few", pa.array(["f3"] * len(changed), pa.string()))
    shrunk = groups[2].filter(pc.not_equal(pc.field("id"), groups[2]["id"][5]))
    appended = rows(GROUPS * GROUP_ROWS, 150, version=2)
    edit = FileEdit(
        groups={0: NewColumns(changed.select(["n", "arr", "few"])), 1: Dropped(), 2: NewColumns(shrunk)},
        appended=[appended],
        constants={"_hoodie_file_name": "new"},
        texts={"some": "text"},
    )
    result = splice(Storage(str(source.parent)), source.name, target.name, edit, BaseFileOptions())
    assert result.groups_touched == 4
    whole = pa.concat_tables([changed, shrunk, *groups[3:], appended])
    assert result.row_count == len(whole)
    return whole.set_column(0, "_hoodie_file_name", pa.array(["new"] * len(whole)))


def same(rows: pa.Table, wanted: pa.Table) -> None:
    def listed(table: pa.Table) -> list[dict[str, Any]]:
        return table.select(SCHEMA.names).cast(SCHEMA).sort_by("id").to_pylist()

    assert listed(rows) == listed(wanted)


@pytest.mark.parametrize("writer", WRITERS)
def test_readers_of_an_edited_file(spark: Any, tmp_path: Path, writer: str) -> None:
    source, target = tmp_path / "old.parquet", tmp_path / "new.parquet"
    WRITERS[writer](spark, source)
    wanted = edited(source, target)
    check_pages(target.read_bytes())
    same(pq.read_table(target), wanted)
    with duckdb.connect() as session:
        session.execute("SET TimeZone='UTC'")
        same(session.sql(f"SELECT * FROM '{target}'").to_arrow_table(), wanted)
        session.register("wanted", wanted)
        truth = {
            where: session.execute(f"SELECT count(*) FROM wanted WHERE {where}").fetchall()[0] for where in FILTERS
        }
        for where, count in truth.items():
            assert session.execute(f"SELECT count(*) FROM '{target}' WHERE {where}").fetchall() == [count], where
    assert sum(count > 0 for (count,) in truth.values()) > 6
    frame = spark.read.option("parquet.page.verify-checksum.enabled", "true").parquet(str(target))
    same(frame.toArrow(), wanted)
    counted = [frame.where(where).selectExpr(f"{n} AS n", "count(*) AS c") for n, where in enumerate(FILTERS)]
    counts = {FILTERS[r["n"]]: (r["c"],) for r in functools.reduce(DataFrame.union, counted).collect()}
    assert counts == truth
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    try:
        same(frame.toArrow(), wanted)
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
