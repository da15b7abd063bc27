"""Parquet files in Spark's place: each row group is read once, and doubtful files are left to Spark."""

import datetime as dt
import decimal
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from spark_writer.bare_scan import BareScan, CannotScan, FileRange, ScannedColumn
from spark_writer.scanned_files import ScannedRows, scanned_rows
from table_format.errors import StorageError

NEW = {"org.apache.spark.version": "3.0.0"}
OLD_DAYS = pa.array([dt.date(1500, 1, 1), None])
OLD_TIMES = pa.array([dt.datetime(1899, 12, 31, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
MICROS = pa.timestamp("us", "UTC")
PRICE = spark.DecimalType(9, 2)


def stored(folder: Path, values: Any, texts: dict[str, str] | None = None, **how: Any) -> Path:
    path = folder / "a file.parquet"
    table = values if isinstance(values, pa.Table) else pa.table({"a": values})
    pq.write_table(table.replace_schema_metadata(texts), path, **how)
    return path


def ranges(path: Path, cuts: Sequence[int] = ()) -> tuple[FileRange, ...]:
    state = path.stat()
    ends = [*sorted(cuts), state.st_size]
    starts = [0, *ends[:-1]]
    mtime = state.st_mtime_ns // 1_000_000
    return tuple(
        FileRange(str(path), start, end - start, state.st_size, mtime) for start, end in zip(starts, ends, strict=True)
    )


def scanned(path: Path, *kinds: spark.DataType) -> ScannedRows:
    columns = tuple(ScannedColumn(name, name, kind) for name, kind in zip("abc", kinds, strict=False))
    return scanned_rows(BareScan(columns, (ranges(path),)))


def rows_of(rows: ScannedRows) -> list[dict[str, Any]]:
    return [row for part in range(len(rows.parts)) for batch in rows.batches(part) for row in batch.to_pylist()]


@pytest.mark.slow
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.data())
def test_each_row_group_is_in_one_part(tmp_path_factory: Any, sizes: list[int], data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("groups") / "f.parquet"
    first = 0
    with pq.ParquetWriter(path, pa.schema([("a", pa.int64()), ("b", pa.string())])) as writer:
        for size in sizes:
            numbers = range(first, first + size)
            writer.write_table(pa.table({"a": pa.array(numbers, pa.int64()), "b": ["x" * n for n in numbers]}))
            first += size
    cuts = data.draw(st.lists(st.integers(1, path.stat().st_size - 1), unique=True, max_size=6))
    pieces = data.draw(st.permutations(ranges(path, cuts)))
    column = ScannedColumn("id", "a", spark.LongType())
    rows = scanned_rows(BareScan((column,), tuple((piece,) for piece in pieces)))
    assert sorted(row["id"] for row in rows_of(rows)) == list(range(first))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1], pa.int8()), spark.ByteType()),
        (pa.array([1], pa.int16()), spark.ShortType()),
        (pa.array([1.5, float("nan"), -0.0]), spark.DoubleType()),
        (pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)), PRICE),
        (pa.array(["a", None]).dictionary_encode(), spark.StringType()),
        (pa.array([b"a"]), spark.BinaryType()),
        (pa.array([0], MICROS), spark.TimestampType()),
        (pa.array([0], pa.timestamp("ms", "Asia/Tokyo")), spark.TimestampType()),
        (pa.array([dt.date(1582, 10, 15), None]), spark.DateType()),
        (pa.array([None], pa.date32()), spark.DateType()),
        (pa.array([[1], None, [None]], pa.list_(pa.int32())), spark.ArrayType(spark.IntegerType())),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), spark.MapType(spark.StringType(), spark.LongType())),
    ],
    ids=str,
)
def test_types_of_one_reading_are_read(tmp_path: Path, values: Any, kind: spark.DataType) -> None:
    rows = rows_of(scanned(stored(tmp_path, values), kind))
    assert repr(rows) == repr([{"a": value} for value in values.to_pylist()])  # NaN differs from itself


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1], pa.uint32()), spark.LongType()),
        (pa.array([1], pa.int32()), spark.LongType()),
        (pa.array([1], pa.int64()), spark.TimestampType()),
        (pa.array(["a"]), spark.BinaryType()),
        (pa.array([b"a"]), spark.StringType()),
        (pa.array([b"abcd"], pa.binary(4)), spark.BinaryType()),
        (pa.array([0], pa.timestamp("us")), spark.TimestampType()),
        (pa.array([0], pa.timestamp("ns", "UTC")), spark.TimestampType()),
        (pa.array([decimal.Decimal("1.25")], pa.decimal128(9, 2)), spark.DecimalType(10, 2)),
        (pa.array([{"x": 1, "y": 2}]), spark.StructType().add("x", spark.LongType())),
        (pa.array([{"y": 1}]), spark.StructType().add("x", spark.LongType())),
        (pa.array([{"x.y": 1}]), spark.StructType().add("x.y", spark.LongType())),
        (OLD_DAYS, spark.DateType()),
        (OLD_TIMES, spark.TimestampType()),
        (pa.array([[OLD_DAYS[0]]], pa.list_(pa.date32())), spark.ArrayType(spark.DateType())),
    ],
    ids=str,
)
def test_types_of_several_readings_are_left_to_spark(tmp_path: Path, values: Any, kind: spark.DataType) -> None:
    path = stored(tmp_path, values, store_schema=False)
    with pytest.raises(CannotScan):
        scanned(path, kind)


@pytest.mark.parametrize("texts", [{}, {**NEW, "org.apache.spark.version": "4.0.0"}], ids=["Hive", "not parquet-mr"])
def test_timestamps_of_hive_are_left_to_spark(tmp_path: Path, texts: dict[str, str]) -> None:
    path = stored(tmp_path, pa.array([0], MICROS), texts, use_deprecated_int96_timestamps=True)
    with pytest.raises(CannotScan, match="old calendar"):
        scanned(path, spark.TimestampType())


def test_lists_of_two_levels_are_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.array([[1]]), use_compliant_nested_type=False)
    with pytest.raises(CannotScan, match="ambiguous"):
        scanned(path, spark.ArrayType(spark.LongType()))


@pytest.mark.parametrize("values", [OLD_DAYS, OLD_TIMES], ids=["dates", "times"])
def test_old_dates_are_read_where_spark_says_how_they_were_written(tmp_path: Path, values: Any) -> None:
    kind = spark.DateType() if pa.types.is_date(values.type) else spark.TimestampType()
    assert rows_of(scanned(stored(tmp_path, values, NEW), kind)) == [{"a": value} for value in values.to_pylist()]
    for texts in ({"org.apache.spark.version": "2.4.8"}, {**NEW, "org.apache.spark.legacyDateTime": ""}):
        with pytest.raises(CannotScan, match="old calendar"):
            scanned(stored(tmp_path, values, texts), kind)


def test_dates_without_statistics_are_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.array([dt.date(2026, 1, 1)]), write_statistics=False)
    with pytest.raises(CannotScan, match="old calendar"):
        scanned(path, spark.DateType())


def test_columns_that_differ_in_letter_case_only_are_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.table({"a": [1], "A": [2]}))
    with pytest.raises(CannotScan, match="not once"):
        scanned(path, spark.LongType())


def test_a_file_without_the_column_is_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.table({"A": [2]}))
    with pytest.raises(CannotScan, match="not in a file"):
        scanned(path, spark.LongType())


def test_a_file_that_changed_since_it_was_listed_is_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.array([1]))
    scan = BareScan((ScannedColumn("a", "a", spark.LongType()),), (ranges(path),))
    os.utime(path, (1, 1))
    with pytest.raises(CannotScan, match="as Spark listed it"):
        scanned_rows(scan)
    path.unlink()
    with pytest.raises(CannotScan):
        scanned_rows(scan)


def test_bytes_that_no_range_covers_are_left_to_spark(tmp_path: Path) -> None:
    path = stored(tmp_path, pa.array([1]))
    column = ScannedColumn("a", "a", spark.LongType())
    with pytest.raises(CannotScan, match="as a whole"):
        scanned_rows(BareScan((column,), (ranges(path, [9])[:1],)))


def test_a_file_that_changes_before_a_task_reads_it_is_an_error(tmp_path: Path) -> None:
    rows = scanned(stored(tmp_path, pa.array([1])), spark.LongType())
    path = stored(tmp_path, pa.array([1, 2]))
    with pytest.raises(StorageError, match="changed while it was read"):
        rows_of(rows)
    path.unlink()
    with pytest.raises(StorageError, match="a file"):
        rows_of(rows)
