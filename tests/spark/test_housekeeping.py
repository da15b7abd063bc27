"""Cleaning by hand, summaries as text, and which Python the workers run."""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from catalog import Table
from spark_writer import HudiTable
from spark_writer.blocks import unscaled
from tools.engines.brief_java import quick

pytestmark = pytest.mark.spark

WITHOUT_SETTINGS = """
import sys
from pyspark.sql import SparkSession
from spark_writer import HudiTable
from spark_writer.blocks import unscaled
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = spark.config("spark.driver.host", "127.0.0.1").getOrCreate()
rows = spark.range(1).selectExpr("cast(id as string) id", "1 v")
print(HudiTable.create(spark, sys.argv[1], rows, record_key="id", buckets=1).upsert(rows))
"""


def test_cleaning_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(
        spark,
        str(tmp_path / "t"),
        "id string, v int",
        record_key="id",
        buckets=1,
        options={"hoodie.clean.automatic": "false"},
    )
    for v in range(4):
        table.upsert(spark.createDataFrame([("a", v)], "id string, v int"))
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 4
    assert table.clean({"hoodie.cleaner.commits.retained": "1"}).files == 2
    assert table.clean({"hoodie.cleaner.commits.retained": "1"}).files == 0
    assert [row.v for row in table.to_df().collect()] == [3]


def test_a_summary_reads_well(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "id string, v int")
    summary = HudiTable.create(spark, str(tmp_path / "t"), rows, record_key="id", buckets=1).upsert(rows)
    assert str(summary).startswith(
        f"upsert into t, instant {summary.instant}: 2 rows inserted, 0 updated, 0 deleted; 1 file"
    )


def test_local_workers_run_the_drivers_python(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK")}
    # a python3 that has none of the packages
    fake = tmp_path / "bin/python3"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 9\n")
    fake.chmod(0o755)
    environment["JDK_JAVA_OPTIONS"] = quick()
    environment["PATH"] = f"{fake.parent}:{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SETTINGS, str(tmp_path / "t")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert ": 1 row inserted" in done.stdout


def test_decimals_go_through_as_longs_where_they_fit(spark: SparkSession) -> None:
    rows = spark.sql(
        "SELECT CAST(-1.25 AS DECIMAL(15, 2)) a, CAST(NULL AS DECIMAL(18, 0)) `b.x`, CAST(1 AS DECIMAL(19, 2)) c"
    )
    changed, kinds = unscaled(rows)
    assert kinds == pa.schema([("a", pa.decimal128(15, 2)), ("b.x", pa.decimal128(18, 0))])
    assert [tuple(row) for row in changed.collect()] == [(-125, None, Decimal("1.00"))]


def test_rows_that_cannot_be_unscaled_stay(spark: SparkSession) -> None:
    ambiguous = spark.sql("SELECT CAST(1 AS DECIMAL(5, 2)) a, CAST(2 AS DECIMAL(5, 2)) A")
    assert unscaled(ambiguous) == (ambiguous, None)


def test_many_commits_are_archived(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(spark, str(tmp_path / "t"), "id string, v int", record_key="id", buckets=1)
    times = [
        table.upsert(spark.createDataFrame([("a", v), (f"b{v % 3}", v)], "id string, v int")).instant for v in range(42)
    ]
    active = {path.name.removesuffix(".commit") for path in (tmp_path / "t/.hoodie").glob("*.commit")}
    assert 20 <= len(active) <= 31
    assert active == set(times[-len(active) :])
    assert [row.instant for row in table.history_df().collect() if row.action == "commit"] == times[::-1]
    assert {row.id: row.v for row in table.to_df().collect()} == {"a": 41, "b0": 39, "b1": 40, "b2": 41}
    assert set(Table.open(str(tmp_path / "t")).scan(as_of=times[-5]).to_arrow()["v"].to_pylist()) == {35, 36, 37}
