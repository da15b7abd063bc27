"""Rows that Spark has measured: the JVM sends them to the driver, as workers of Python would."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from hudi_catalog import open_table
from spark_writer import write_hudi
from spark_writer.frame_rows import FrameRows, can_be_sent, estimated_size
from table_writer.rows.slot_rows import user_rows

pytestmark = pytest.mark.spark

# Each column once with a null; dates and times of before the calendar's change.
VALUES = """
    named_struct(
        'flag', true, 'tiny', tinyint(-3), 'n', 7, 'big', 1L << 40, 'd', double('-0.0'), 't', 'größe', 'raw', X'00ff',
        'day', date'1001-01-01', 'at', timestamp'0990-05-06 07:08:09.123456', 'p', 1.25BD,
        'q', cast('12345678901234.5678' as decimal(18, 4)),
        'r', cast('-12345678901234567890123456789012.345678' as decimal(38, 6))),
    null
"""
NESTED = ("v", "array(v) as list", "map('k', v, 'none', null) as map")


def cached_rows(spark: SparkSession, *nested: str) -> DataFrame:
    """Rows of many types, in three partitions and a fourth without rows."""
    rows = spark.sql(f"select posexplode(array({VALUES})) as (id, v)").crossJoin(spark.range(0, 3000, 1, 4))
    frame = (
        rows.toDF("id", "v", "other")
        .where("other < 2250")
        .selectExpr("id", "v.*", "id as `SPARK_PARTITION_ID()`", *nested)
        .persist()
    )
    frame.count()
    return frame


def shares(frame: DataFrame, collect: Callable[[FrameRows], object]) -> list[pa.Table]:
    rows = FrameRows(frame)
    collected = collect(rows)
    return [user_rows(list(share), rows.schema) for share in collected.shares]  # type: ignore[attr-defined]


def test_the_jvm_sends_the_rows_of_each_partition_as_python_does(spark: SparkSession) -> None:
    cached = cached_rows(spark)
    assert can_be_sent(cached)
    for frame in (cached, cached.where("id = 1"), cached.select("big", "id"), cached.where("id > 5")):
        sent = shares(frame, lambda rows: rows._by_arrow())
        counted = shares(frame, lambda rows: rows._by_job(1 << 30))
        assert [share.num_rows for share in sent] == [share.num_rows for share in counted]
        assert all(one.equals(other) for one, other in zip(sent, counted, strict=True))
    cached.unpersist()


def test_rows_in_the_cache_and_those_of_a_list_are_sent_unless_they_are_nested(spark: SparkSession) -> None:
    cached = cached_rows(spark, *NESTED)
    assert not can_be_sent(cached)
    assert can_be_sent(cached.where("id = 1").select("big"))
    # such a column may be of any size
    assert not can_be_sent(cached.selectExpr("repeat(t, 1000) as t"))
    assert not can_be_sent(cached.selectExpr("explode(list) as one"))
    listed = spark.createDataFrame([(n, "a" * 1000) for n in range(30)], "id long, t string")
    assert can_be_sent(listed)
    assert not can_be_sent(listed.selectExpr("repeat(t, 1000) as t"))
    assert not can_be_sent(spark.range(10))
    unpersisted = spark.range(10).selectExpr("repeat('x', 1000) as t").persist()
    assert not can_be_sent(unpersisted.select("t"))  # it is not computed yet
    unpersisted.count()
    assert can_be_sent(unpersisted.select("t"))
    assert estimated_size(unpersisted.select("t")) > 10_000  # not as compressed
    cached.unpersist()
    unpersisted.unpersist()


def test_cached_rows_are_written_without_workers_of_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FrameRows, "_by_job", lambda *_: pytest.fail("a worker of Python"))
    rows = spark.range(1000).selectExpr("id", "cast(id as decimal(9, 2)) as amount", "id as ts").persist()
    rows.count()
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.catalog.write.progress": "false",
    }
    write_hudi(rows.where("id < 600"), tmp_path / "t", options)
    write_hudi(rows.where("id >= 300"), tmp_path / "t", options, mode="append")
    rows.unpersist()
    stored = open_table(tmp_path / "t").scan(columns=["id", "amount"]).to_arrow()
    assert stored["id"].combine_chunks().sort().to_pylist() == list(range(1000))
    assert all(row["id"] == row["amount"] for row in stored.to_pylist())
