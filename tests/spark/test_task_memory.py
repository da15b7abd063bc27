"""Tasks that may hold less than their rows write the same table."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hudi_catalog import open_table
from spark_writer import write_hudi

pytestmark = pytest.mark.spark
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.catalog.write.driver.bytes": "0",
    "hoodie.catalog.write.progress": "false",
}
ROWS = 30_000


def written(path: Path) -> pa.Table:
    names = ["_hoodie_record_key", "_hoodie_partition_path", "id", "part", "ts", "text"]
    return open_table(path).scan(columns=names).to_arrow().select(names).sort_by("id")


def sorted_files(path: Path) -> bool:
    """Whether the rows of each file are in key order."""
    for file in path.glob("*/*.parquet"):
        keys: list[Any] = pa.parquet.read_table(file, columns=["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
        if keys != sorted(keys):
            return False
    return True


def test_a_batch_of_many_times_the_bound(spark: SparkSession, tmp_path: Path) -> None:
    """Nine rows of ten are in one partition."""
    part = "if(id % 10 = 0, 'few', 'many') as part"
    rows = spark.range(ROWS).selectExpr("id", part, "1 as ts", "repeat(sha2(string(id), 256), 6) as text")
    again = rows.where("id % 3 = 0").selectExpr("id", "part", "if(id % 2 = 0, 2, 0) as ts", "'changed' as text")
    for name, memory in (("bounded", str(1 << 20)), ("free", str(1 << 30))):
        options = {**OPTIONS, "hoodie.catalog.write.task.memory": memory}
        bulk = {**options, "hoodie.datasource.write.operation": "bulk_insert"}
        write_hudi(rows, tmp_path / name, bulk, mode="append")
        write_hudi(again, tmp_path / name, options, mode="append")
    assert written(tmp_path / "bounded").equals(written(tmp_path / "free"))
    assert written(tmp_path / "bounded").num_rows == ROWS
    assert sorted_files(tmp_path / "bounded")
