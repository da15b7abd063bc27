"""DataFrames that only scan Parquet files: Arrow reads the rows that Spark reads, or leaves them to Spark."""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from hudi_catalog import open_table
from spark_writer import write_hudi
from spark_writer.bare_scan import CannotScan, bare_scan
from spark_writer.frame_rows import FrameRows
from spark_writer.scanned_files import scanned_rows
from table_writer.rows.slot_rows import user_rows

pytestmark = pytest.mark.spark

# Each column once with a null; dates and times of before the calendar's change, and of before 1900.
VALUES = """
    named_struct(
        'flag', true, 'tiny', tinyint(-3), 'small', smallint(300), 'n', 7, 'big', 1L << 40,
        'f', float('nan'), 'd', double('-0.0'), 't', 'größe', 'raw', X'00ff', 'day', date'1001-01-01',
        'at', timestamp'0990-05-06 07:08:09.123456', 'p', 1.25BD, 'q', cast('12345678901234.5678' as decimal(18, 4)),
        'r', cast('-12345678901234567890123456789012.345678' as decimal(38, 6))),
    named_struct(
        'flag', false, 'tiny', tinyint(3), 'small', smallint(-300), 'n', -7, 'big', -1L,
        'f', float('inf'), 'd', double('1e300'), 't', '', 'raw', X'', 'day', date'2026-02-28',
        'at', timestamp'2026-02-28 23:59:59', 'p', -1.25BD, 'q', cast('-0.0001' as decimal(18, 4)),
        'r', cast('0.000001' as decimal(38, 6))),
    null
"""
NESTED = ("array(v) as list", "map('k', v, 'none', null) as map", "array(map('k', array(v, null))) as deep")


@pytest.fixture(scope="module")
def golden(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of all types that tables hold, plain and nested, in several files."""
    path = tmp_path_factory.mktemp("golden") / "all types"
    rows = spark.sql(f"select posexplode(array({VALUES})) as (id, v)")
    rows.selectExpr("id", "v", "v.*", *NESTED).repartition(3).write.parquet(str(path))
    return path


def direct(df: DataFrame) -> pa.Table:
    rows = scanned_rows(bare_scan(df))
    batches = [batch for part in range(len(rows.parts)) for batch in rows.batches(part)]
    return user_rows(batches, FrameRows(df).schema)


def by_spark(df: DataFrame) -> pa.Table:
    return user_rows(df.toArrow().to_batches(), FrameRows(df).schema)


def same(rows: pa.Table, others: pa.Table) -> bool:
    """Equal to the bit, also where NaN is or zero has a sign."""
    return rows.schema == others.schema and repr(rows.to_pylist()) == repr(others.to_pylist())


STAMPS = "spark.sql.parquet.outputTimestampType"


@pytest.mark.parametrize("stamps", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.parametrize("codec", ["snappy", "gzip"])
def test_all_types_that_spark_wrote(spark: SparkSession, golden: Path, tmp_path: Path, codec: str, stamps: str) -> None:
    before = spark.conf.get(STAMPS) or ""
    spark.conf.set(STAMPS, stamps)
    try:
        spark.read.parquet(str(golden)).write.option("compression", codec).parquet(str(tmp_path / "copy"))
    finally:
        spark.conf.set(STAMPS, before)
    df = spark.read.parquet(str(tmp_path / "copy"))
    assert same(direct(df), by_spark(df))


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
def test_all_types_in_any_time_zone(spark: SparkSession, golden: Path, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = spark.read.parquet(str(golden))
        assert same(direct(df), by_spark(df))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_some_columns_renamed_and_twice_and_many_parts(spark: SparkSession, golden: Path) -> None:
    before = spark.conf.get("spark.sql.files.maxPartitionBytes") or "128m"
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        df = spark.read.parquet(str(golden)).select("T", F.col("id").alias("key"), "id", F.col("v").alias("all"))
        assert df.rdd.getNumPartitions() > 3
        assert same(direct(df), by_spark(df))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)


def arrow_types() -> pa.Table:
    """Columns as Arrow's own writer stores them, with a schema of Arrow's beside Parquet's."""
    zone = pa.timestamp("ms", "Asia/Tokyo")
    return pa.table(
        {
            "id": pa.array([1, 2], pa.int32()),
            "large": pa.array(["a", None], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "few": pa.array(["a", "a"]).dictionary_encode(),
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], zone),
            "many": pa.array([[1], None], pa.large_list(pa.int16())),
            "pairs": pa.array([[("k", None)], []], pa.map_(pa.string(), pa.float32())),
        }
    )


def test_types_that_arrow_wrote(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(arrow_types().drop_columns(["many"]), tmp_path / "f.parquet")
    df = spark.read.parquet(str(tmp_path))
    assert same(direct(df), by_spark(df))


Made = Callable[[SparkSession, Path], DataFrame]


def of_parquet(change: Callable[[DataFrame], DataFrame]) -> Made:
    return lambda spark, golden: change(spark.read.parquet(str(golden)))


COMPUTED: Mapping[str, Made] = {
    "a filter": of_parquet(lambda df: df.where("id > 0")),
    "an expression": of_parquet(lambda df: df.withColumn("id", F.expr("id + 1"))),
    "a cast": of_parquet(lambda df: df.select(F.col("id").cast("long"))),
    "a member": of_parquet(lambda df: df.select("v.n")),
    "a limit": of_parquet(lambda df: df.limit(1)),
    "a sample": of_parquet(lambda df: df.sample(0.5, seed=1)),
    "a shuffle": of_parquet(lambda df: df.repartition(2)),
    "a sort": of_parquet(lambda df: df.sortWithinPartitions("id")),
    "a join": of_parquet(lambda df: df.join(df.select(F.col("id").alias("other")), F.expr("id = other"))),
    "a union": of_parquet(lambda df: df.select("id").union(df.select("id"))),
    "an observation": of_parquet(lambda df: df.observe("seen", F.count(F.lit(1)))),
    "a function of Python's": of_parquet(lambda df: df.select("id").mapInArrow(lambda batches: batches, "id int")),
    "metadata": of_parquet(lambda df: df.select("id", "_metadata.file_path")),
    "a cache": of_parquet(lambda df: df.select("id").cache()),
    "another type": lambda spark, golden: spark.read.schema("id long").parquet(str(golden)),
    "a column of no file": lambda spark, golden: spark.read.schema("id int, other int").parquet(str(golden)),
    "missing files": lambda spark, golden: spark.read.option("ignoreMissingFiles", "true").parquet(str(golden)),
    "corrupt files": lambda spark, golden: spark.read.option("ignoreCorruptFiles", "true").parquet(str(golden)),
    "an unknown option": lambda spark, golden: spark.read.option("its.own", "1").parquet(str(golden)),
    "rows of the driver": lambda spark, golden: spark.range(3),
    "another format": lambda spark, golden: spark.read.format("binaryFile").load(str(golden)),
}


@pytest.mark.parametrize("made", COMPUTED.values(), ids=COMPUTED.keys())
def test_what_spark_computes_is_left_to_it(spark: SparkSession, golden: Path, made: Made) -> None:
    df = made(spark, golden)
    with pytest.raises(CannotScan):
        scanned_rows(bare_scan(df))


def test_columns_of_folders_are_left_to_spark(spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    spark.read.parquet(str(golden)).select("id", "n").write.partitionBy("n").parquet(str(tmp_path / "t"))
    with pytest.raises(CannotScan, match="folders"):
        bare_scan(spark.read.parquet(str(tmp_path / "t")))


@pytest.mark.parametrize("setting", ["spark.sql.files.ignoreCorruptFiles", "spark.sql.parquet.fieldId.read.enabled"])
def test_settings_of_the_session_leave_files_to_spark(spark: SparkSession, golden: Path, setting: str) -> None:
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(CannotScan):
            bare_scan(spark.read.parquet(str(golden)))
    finally:
        spark.conf.unset(setting)


def test_old_dates_of_the_old_calendar_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The same bytes are another day in files that say so."""
    pq.write_table(
        pa.table({"id": [1], "day": pa.array([dt.date(1001, 1, 1)])}).replace_schema_metadata(
            {"org.apache.spark.version": "2.4.8"}
        ),
        tmp_path / "old.parquet",
    )
    df = spark.read.parquet(str(tmp_path / "old.parquet"))
    options = {**BY_BUCKETS, "hoodie.catalog.write.driver.bytes": "0"}
    write_hudi(df, tmp_path / "t", options)
    (row,) = open_table(tmp_path / "t").scan(columns=["day"]).to_arrow().to_pylist()
    assert row["day"] == df.collect()[0]["day"] != dt.date(1001, 1, 1)


OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.catalog.write.progress": "false",
}
BY_BUCKETS = {**OPTIONS, "hoodie.bucket.index.num.buckets": "3"}
BY_INDEX = {
    **OPTIONS,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.bulkinsert.sort.mode": "NONE",
}


def written(path: Path) -> list[Any]:
    columns = ["id", "t", "day", "at", "p", "r", "v", "deep", "_hoodie_record_key", "_hoodie_commit_seqno"]
    rows = open_table(path).scan(columns=columns).to_arrow().sort_by("id").to_pylist()
    # the instant differs, the task and the row's number do not
    return [repr({**row, "_hoodie_commit_seqno": row["_hoodie_commit_seqno"].split("_", 1)[1]}) for row in rows]


@pytest.mark.parametrize("driver", ["0", "8388608"], ids=["in tasks", "in the driver"])
@pytest.mark.parametrize("options", [BY_BUCKETS, BY_INDEX], ids=["by buckets", "by index"])
def test_tables_are_the_same_either_way(
    spark: SparkSession, golden: Path, tmp_path: Path, options: Mapping[str, str], driver: str
) -> None:
    df = spark.read.parquet(str(golden))
    for flag in ("true", "false"):
        keys = {"hoodie.catalog.write.direct.scan": flag, "hoodie.catalog.write.driver.bytes": driver}
        write_hudi(df, tmp_path / flag, {**options, **keys})
    assert len(written(tmp_path / "true")) == 3
    assert written(tmp_path / "true") == written(tmp_path / "false")
