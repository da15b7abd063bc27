"""Values by which Spark's Parquet reader skips rows that meet a filter, for any PySpark."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hudi_catalog import Table, create_table, explain_scan, open_table
from spark_writer.read import dataframe
from spark_writer.read.jvm import Jvm
from table_writer.encoding.float_chunks import FloatLeaves
from tests.support.spark_reads import conf

_NAN = float("nan")
_FLOATS = [1.0, _NAN, -0.0, 0.0, 2.5, -3.0]
#: Days that java.sql.Date does not tell apart: those that the calendar of 1582 lacks, and one that Samoa lacks.
_DAYS = [dt.date(1582, 10, 4), dt.date(1582, 10, 14), dt.date(1582, 10, 24), dt.date(1812, 6, 24)]
_DAYS += [dt.date(2011, 12, day) for day in (29, 30, 31)]
_FILTERS = [
    *(f"f {test}" for test in (
        "> 5", ">= 'NaN'", "= 'NaN'", "<> 1", "<=> 'NaN'", "= 0", "= -0.0D", "<= -0.0D", ">= 0", "IN (0, 7)",
        "IN (-0.0D, 1)", "NOT IN (1, 9)", "= 1", "< 2", "<= 2.5D", "IN (1, 2, 3)", "< 0",
    )),
    "g > 5", "g = 0", "g IN (0, 7)", "s.f > 5", "s.f IN (0, 7)",
    "NOT (f <= 5)", "NOT (f <=> 1D)", "(f > 5 AND id > 2) OR f = 1", "NOT (f < 0 OR g < 0)",
    *(f"day {op} DATE '{day}'" for day in _DAYS for op in ("=", ">")),
    *(f"at {op} TIMESTAMP '{_DAYS[1]}'" for op in ("=", ">", "<")),
    *(f"day {op} DATE '{_DAYS[place]}'" for place in (1, 5) for op in (">=", "<", "<=", "<>")),
    f"day IN (DATE '{_DAYS[1]}', DATE '1970-01-01')", f"day NOT IN (DATE '{_DAYS[1]}', DATE '{_DAYS[4]}')",
    "id = 3", "NOT (id IN (3, 4))", "id > 3 OR day < DATE '2000-01-01'",
]  # fmt: skip
#: Code made for each query takes longer than it runs.
_INTERPRETED = {"spark_sql_codegen_wholeStage": "false"}


def _write(path: Path) -> Table:
    """Files of one or of two rows, numbers beside each number."""
    table = create_table(
        path,
        "id int, p int, f double, g float, s struct<f: double>, day date, at timestamp",
        record_key="id",
        partition_by="p",
        buckets=1,
    )
    pairs = [(one,) for one in _FLOATS] + [(1.0, _NAN), (_NAN, -0.0), (-0.0, 2.5)]
    # several times each, for dictionaries
    rows = [(part, value) for part, pair in enumerate(pairs) for value in pair * 3]
    numbers = [value for _, value in rows]
    days = [_DAYS[part % len(_DAYS)] for part, _ in rows]
    midnights = [dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC) for day in days]
    columns = {
        "id": pa.array(range(len(rows)), pa.int32()),
        "p": pa.array([part for part, _ in rows], pa.int32()),
        "f": numbers,
        "g": pa.array(numbers, pa.float32()),
        "s": [{"f": value} for value in numbers],
        "day": days,
        "at": pa.array(midnights, pa.timestamp("us", "UTC")),
    }
    table.bulk_insert(pa.table(columns))
    return table


@contextmanager
def _time_zone(spark: SparkSession, name: str) -> Iterator[None]:
    """Another zone of the JVM, which is not that of the session."""
    zones = Jvm(spark).root.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    try:
        yield
    finally:
        zones.setDefault(before)


def _counts(frame: DataFrame, filters: list[str]) -> dict[str, int]:
    """The counts by a scan each, in one job."""
    scans = [frame.where(text).selectExpr(f"{place} AS place") for place, text in enumerate(filters)]
    counts = dict(functools.reduce(DataFrame.union, scans).coalesce(2).groupBy("place").count().collect())
    return {text: counts.get(place, 0) for place, text in enumerate(filters)}


def _counted_at_once(frame: DataFrame, filters: list[str]) -> dict[str, int]:
    """The counts by one query, which reads all rows: nothing is handed to the reader."""
    rows = frame.selectExpr(*(f"({text}) AS t{place}" for place, text in enumerate(filters))).collect()
    return {text: sum(bool(row[place]) for row in rows) for place, text in enumerate(filters)}


def check_values_that_readers_skip(spark: SparkSession, path: str) -> None:
    """Frames of ours, of files whose statistics and dictionaries mislead Spark's reader as Arrow's mostly do."""
    with tempfile.TemporaryDirectory() as folder, _time_zone(spark, "Pacific/Apia"), conf(spark, **_INTERPRETED):
        with mock.patch.object(FloatLeaves, "__bool__", return_value=False):
            table = _write(Path(folder) / "t")
        frame = table.to_spark(spark)
        wanted = _counted_at_once(frame, _FILTERS)
        assert _counts(frame, _FILTERS) == wanted
        of_spark = _counts(spark.read.parquet(*frame.inputFiles()), _FILTERS)
        misled = [text for text in _FILTERS if of_spark[text] != wanted[text]]
        assert {"f > 5", "f = 0", "s.f IN (0, 7)", "day = DATE '1582-10-14'", "day = DATE '2011-12-30'"} <= {*misled}
        with mock.patch.object(dataframe, "why_unreachable", return_value="a reason"):
            unplanned = table.to_spark(spark)
        assert _counts(unplanned, misled) == {text: wanted[text] for text in misled}


def check_floats_that_any_reader_finds(spark: SparkSession, path: str) -> None:
    """Files of ours by Spark's reader alone, as Apache Hudi uses it."""
    with tempfile.TemporaryDirectory() as folder, conf(spark, **_INTERPRETED):
        table = _write(Path(folder) / "t")
        table.delete("id = 1")
        files = spark.read.parquet(*table.to_spark(spark).inputFiles())
        # 0.0 is not looked for by the sign of -0.0, and NaN is above all bounds
        others = {"day", "at", "-0.0D", "NaN"}
        filters = [text for text in _FILTERS if others.isdisjoint(re.findall(r"[\w.-]+", text))]
        assert len(filters) > 20
        assert _counts(files, filters) == _counted_at_once(files, filters)


def check_escapes_in_patterns(spark: SparkSession, path: str) -> None:
    """Spark 3.5 leaves the escape character out of a condition's text."""
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(
            Path(folder) / "t", "id int, name string, p string", record_key="id", partition_by="p", buckets=1
        )
        names = ["x_y1", "x/qy", "zzz"]
        table.insert([{"id": number, "name": name, "p": name[0] + name[-1]} for number, name in enumerate(names)])
        frame = table.to_spark(spark)
        for condition in ("name LIKE 'x/_y%' ESCAPE '/'", "name LIKE 'x!_y%' ESCAPE '!' OR name = ' ESCAPE '"):
            assert [row.id for row in frame.where(condition).collect()] == [0]
            assert [row.id for row in table.to_spark(spark, condition).collect()] == [0]
        without = frame.where("name LIKE 'zz%'")
        assert [row.id for row in without.collect()] == [2]
        assert "1 of 3 files" in explain_scan(without)


def check_literals_that_are_null_without_ansi_mode(spark: SparkSession, path: str) -> None:
    """A text that is no number is null beside one, and the least integer is its own negative."""
    with tempfile.TemporaryDirectory() as folder, conf(spark, spark_sql_ansi_enabled="false"):
        columns = "id int, d decimal(9, 2), f float, p string"
        table = create_table(Path(folder) / "t", columns, record_key="id", partition_by="p", buckets=1)
        table.insert([{"id": 1, "p": "a"}, {"id": -(2**31), "d": decimal.Decimal("1.5"), "f": 1.5, "p": "b"}])
        for condition, wanted in (
            ("d <=> 'x'", [1]),
            ("f - 1 <=> 'x'", [1]),
            ("CAST(f AS int) <=> CAST('2024-01-01' AS int)", [1]),
            ("NOT d <=> 'x'", [-(2**31)]),
            ("id = -(-2147483648)", [-(2**31)]),
        ):
            rows = table.to_spark(spark, condition)
            assert [row.id for row in rows.collect()] == wanted, condition


def check_columns_that_came_and_widened_since(spark: SparkSession, path: str) -> None:
    """The oldest file lacks the columns, later ones have earlier types, and the commits of all are archived."""
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.automatic": "false"}
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(
            Path(folder) / "t", "id int, p string", record_key="id", partition_by="p", buckets=1, options=few
        )
        table.insert(pa.table({"id": pa.array([0], pa.int32()), "p": ["a"]}))
        for number in range(1, 9):
            kinds = (pa.int32(), pa.float32()) if number == 1 else (pa.int64(), pa.float64())
            columns = {name: pa.array([1], kind) for name, kind in zip("xy", kinds, strict=True)}
            table.insert(pa.table({"id": pa.array([number], pa.int32()), "p": [f"b{number}"], **columns}))
        table.archive({**few, "hoodie.clean.commits.retained": "1"})
        rows = open_table(Path(folder) / "t").to_spark(spark).select("id", "x", "y").collect()
        assert sorted(row.id for row in rows if row.x == 1 and row.y == 1) == [*range(1, 9)]
        assert [row.id for row in rows if row.x is None] == [0]


READER_CHECKS: dict[str, Callable[[SparkSession, str], None]] = {
    name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")
}
