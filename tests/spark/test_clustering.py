"""Clustering by Spark's tasks."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_writer import HudiTable

pytestmark = pytest.mark.spark
SIZE = {"hoodie.clustering.plan.strategy.target.file.max.bytes": "25000"}


def test_a_table_is_clustered_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    options = {"hoodie.parquet.small.file.limit": "0"}
    table = HudiTable.create(
        spark,
        str(tmp_path / "t"),
        "id string, p string, x bigint, y double",
        record_key="id",
        partition_by="p",
        index="RECORD_INDEX",
        options=options,
    )
    for number in range(2):
        ids = [f"{number}-{n}" for n in range(4000)]
        rows = pa.table(
            {"id": ids, "p": ["a"] * 4000, "x": [n * 7 % 997 for n in range(4000)], "y": [n / 3 for n in range(4000)]}
        )
        table.upsert(rows)
    before = table.scan(columns=["id", "x", "y", "_hoodie_commit_time"]).to_arrow().sort_by("id")
    # less than the rows of a file take
    report = table.cluster(["x", "y"], "hilbert", options={**SIZE, "hoodie.catalog.write.task.memory": str(1 << 20)})
    assert (report.rows, report.files_before) == (8000, 2)
    assert report.files_after > 2
    assert table.scan(columns=["id", "x", "y", "_hoodie_commit_time"]).to_arrow().sort_by("id").equals(before)
    assert table.verify_index().is_right
    assert table.to_df().where("x < 10").count() == sum(value < 10 for value in before["x"].to_pylist())


def test_buckets_are_split_merged_and_exchanged_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(spark, str(tmp_path / "t"), "id string, v bigint", record_key="id", buckets=2)
    table.upsert(pa.table({"id": [f"k{n}" for n in range(500)], "v": list(range(500))}))
    names = ["id", "v", "_hoodie_commit_time"]
    before = table.scan(columns=names).to_arrow().sort_by("id")
    for count, way in ((6, "split"), (3, "merge"), (4, "overwrite")):
        report = table.resize(count)
        assert (report.way, report.rows, report.files_after) == (way, 500, count)
        assert table.scan(columns=names).to_arrow().sort_by("id").equals(before)
        # our own writer takes the table's count
        table.upsert(pa.table({"id": ["k7"], "v": [7]}), {"hoodie.bucket.index.num.buckets": "2"})
        before = table.scan(columns=names).to_arrow().sort_by("id")
        assert table.to_df().where("id = 'k7'").count() == 1
    assert table.to_df().count() == 500


def test_buckets_of_a_partition_are_changed_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(
        spark, str(tmp_path / "t"), "id string, p string, v bigint", record_key="id", partition_by="p", buckets=2
    )
    rows = pa.table(
        {"id": [f"k{n}" for n in range(600)], "p": ["big" if n % 4 else "small" for n in range(600)], "v": range(600)}
    )
    table.upsert(rows)
    for count, way in ((6, "split"), (3, "merge"), (4, "overwrite")):
        report = table.resize(count, partitions="big")
        assert (report.way, report.partitions, report.rows, report.files_after) == (way, 1, 450, count)
        table.upsert(table.to_df().where("id in ('k7', 'k8')"))
        groups = {row["partition"]: row["file_groups"] for row in table.partitions().to_pylist()}
        assert groups == {"big": count, "small": 2}
        for key in ("k7", "k8"):
            assert table.to_df().where(f"id = '{key}'").count() == table.scan(f"id = '{key}'").count() == 1
        assert table.scan(columns=["id", "v"]).to_arrow().sort_by("v")["v"].to_pylist() == [*range(600)]
    joined = table.to_df().alias("a").join(table.to_df().alias("b"), "id")
    assert joined.count() == 600
