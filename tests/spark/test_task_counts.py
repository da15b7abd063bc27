"""How many jobs and tasks a write takes: they follow the rows, whatever the table's number of buckets."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from hudi_catalog import open_table
from spark_writer import executor, write_hudi

pytestmark = pytest.mark.spark
DRIVER = "hoodie.catalog.write.driver.bytes"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.catalog.write.progress": "false",
}
PARTITIONED = {**OPTIONS, "hoodie.datasource.write.partitionpath.field": "part"}
BY_INDEX = {**OPTIONS, "hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}


def few_rows(spark: SparkSession, folder: Path) -> DataFrame:
    """Three rows of a Parquet file."""
    path = str(folder / "rows.parquet")
    rows = spark.createDataFrame([(n, "ab"[n % 2], 1) for n in range(3)], "id long, part string, ts long")
    rows.coalesce(1).write.mode("overwrite").parquet(path)
    return spark.read.parquet(path)


def jobs_and_tasks(spark: SparkSession, df: DataFrame, path: Path, options: Mapping[str, Any]) -> tuple[int, int]:
    """Write, and count Spark's jobs and the tasks that they ran."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        write_hudi(df, path, options, mode="append")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # what unsets it
    tracker = spark.sparkContext.statusTracker()
    jobs = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    return len(jobs), sum(stage.numCompletedTasks for stage in stages if stage is not None)


def ids(path: Path) -> list[Any]:
    rows = open_table(path).scan(columns=["id"]).to_arrow()
    return rows["id"].combine_chunks().sort().to_pylist()


@pytest.mark.parametrize("options", [OPTIONS, PARTITIONED, BY_INDEX], ids=["256 buckets", "partitioned", "by index"])
def test_few_rows_take_one_job_of_one_task(spark: SparkSession, tmp_path: Path, options: Mapping[str, Any]) -> None:
    rows = few_rows(spark, tmp_path)
    for change in ("ts", "ts + 1"):  # the second write updates
        computed = rows.withColumn("ts", expr(change)).where("id >= 0")
        assert jobs_and_tasks(spark, computed, tmp_path / "t", options) == (1, 1)
    delete = {**options, "hoodie.datasource.write.operation": "delete"}
    assert jobs_and_tasks(spark, rows.where("id = 1"), tmp_path / "t", delete) == (1, 1)
    assert ids(tmp_path / "t") == [0, 2]


@pytest.mark.parametrize("options", [OPTIONS, PARTITIONED, BY_INDEX], ids=["256 buckets", "partitioned", "by index"])
def test_few_rows_of_a_file_take_no_job(spark: SparkSession, tmp_path: Path, options: Mapping[str, Any]) -> None:
    rows = few_rows(spark, tmp_path)
    for _ in range(2):
        assert jobs_and_tasks(spark, rows, tmp_path / "t", options) == (0, 0)
    assert ids(tmp_path / "t") == [0, 1, 2]


def test_a_list_of_few_rows_takes_one_job(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(n, "a", 1) for n in range(3)], "id long, part string, ts long")
    assert jobs_and_tasks(spark, rows, tmp_path / "t", OPTIONS) == (1, rows.rdd.getNumPartitions())
    changed = rows.withColumn("ts", expr("ts + 1")).where("id > 0")
    assert jobs_and_tasks(spark, changed, tmp_path / "t", OPTIONS) == (1, rows.rdd.getNumPartitions())
    assert ids(tmp_path / "t") == [0, 1, 2]


def test_a_long_list_is_left_to_tasks(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(n, "a", 1) for n in range(2000)], "id long, part string, ts long")
    options = {**OPTIONS, DRIVER: 2000, "hoodie.bucket.index.num.buckets": 2}
    _, tasks = jobs_and_tasks(spark, rows, tmp_path / "t", options)
    assert tasks == rows.rdd.getNumPartitions() + 2
    assert ids(tmp_path / "t") == list(range(2000))


def test_a_batch_of_unknown_size_takes_the_tasks_that_its_rows_need(spark: SparkSession, tmp_path: Path) -> None:
    rows = few_rows(spark, tmp_path)
    _, tasks = jobs_and_tasks(spark, rows, tmp_path / "t", {**OPTIONS, DRIVER: 0})
    assert tasks <= 3
    assert ids(tmp_path / "t") == [0, 1, 2]


def test_a_batch_in_many_buckets_takes_one_job_where_tasks_are_threads_of_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(400).selectExpr("id", "'a' as part", "id as ts")
    for _ in range(2):  # the second write rewrites the files
        assert jobs_and_tasks(spark, rows, tmp_path / "t", OPTIONS) == (1, rows.rdd.getNumPartitions())
    assert ids(tmp_path / "t") == list(range(400))


@pytest.mark.parametrize("master", ["spark://host:7077", "local-cluster[2,1,1024]", None])
def test_a_batch_in_many_buckets_is_collected_and_written_by_tasks_of_a_cluster(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str | None
) -> None:
    monkeypatch.setattr(executor, "master", lambda _: master)
    rows = spark.range(400).selectExpr("id", "'a' as part", "id as ts")
    jobs, tasks = jobs_and_tasks(spark, rows, tmp_path / "t", OPTIONS)
    assert jobs > 1
    assert tasks < 50
    assert ids(tmp_path / "t") == list(range(400))


def test_rows_far_above_sparks_estimate_are_left_to_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the generated rows for as many as their source has."""
    rows = few_rows(spark, tmp_path).selectExpr("explode(sequence(id * 10000, id * 10000 + 9999)) as id", "ts")
    jobs_and_tasks(spark, rows, tmp_path / "t", {**OPTIONS, DRIVER: 2000, "hoodie.bucket.index.num.buckets": 4})
    assert ids(tmp_path / "t") == list(range(30000))


def test_large_partitions_are_written_by_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Their paths hash to equal numbers, modulo the few slots that two cores have without adaptive execution."""
    names = [name for name in (f"p{n}" for n in range(60)) if (java_hash(name) & 0x7FFFFFFF) % 4 == 0][:8]
    paths = ", ".join(f"'{name}'" for name in names)
    rows = spark.range(8 * 12_000).selectExpr(
        "id", f"array({paths})[id % 8] as part", "1 as ts", "concat(sha2(string(id), 512), uuid()) as text"
    )
    options = {**PARTITIONED, DRIVER: 0, "hoodie.bucket.index.num.buckets": 1}
    before = spark.conf.get("spark.sql.shuffle.partitions") or "200"
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    try:
        write_hudi(rows, tmp_path / "t", options)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    files = [file.name for file in (tmp_path / "t").glob("*/*.parquet")]
    assert len(files) == 8
    # <file id>_<task>-<stage>-<attempt>_<instant>.parquet
    assert len({name.split("_")[1].split("-")[0] for name in files}) > 1


def java_hash(text: str) -> int:
    result = 0
    for letter in text:
        result = (31 * result + ord(letter)) & 0xFFFFFFFF
    return result
