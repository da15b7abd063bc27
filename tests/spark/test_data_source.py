"""`spark.read.format("hudi_catalog")`, and the short form of writes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import open_table, register, write
from table_format.errors import ArgumentError, OptionError, TableNotFoundError
from tests.support.spark_reads import ROWS, error_of, full, ids, make_table

pytestmark = pytest.mark.spark


def test_a_data_source_reads_by_options(spark: SparkSession, tmp_path: Path) -> None:
    if spark.version.startswith("3."):
        pytest.skip("data sources in Python came with Spark 4")
    path = make_table(tmp_path / "t")
    before = open_table(path).history()[-1].instant
    register(spark)
    reader = spark.read.format("hudi_catalog")
    everything = reader.load(path)
    assert everything.schema.names == open_table(path).to_spark(spark).schema.names
    assert sorted(everything.drop("s").collect()) == sorted(full(spark, path).drop("s").collect())
    # one DataFrame for several filters: none loses rows of the next query
    assert (everything.where("v < 10").count(), everything.count()) == (4, ROWS)
    for where in ("month = 4 AND id < 410", "t LIKE 't0041%'", "at >= '2024-11-03 12:00:00' AND s.b = 'b1'", "id < 0"):
        some = spark.read.format("hudi_catalog").option("where", where).load(path)
        assert ids(some) == ids(full(spark, path).where(where))
    open_table(path).delete("month = 4")
    assert spark.read.format("hudi_catalog").load(path).count() == ROWS - 100
    assert spark.read.format("hudi_catalog").option("as_of", before).load(path).count() == ROWS
    for option, value, reason in (
        ("wehre", "id = 3", "did you mean where"),
        ("where", "crc32(t) > 7", "not understood"),
        ("where", "nothing = 7", "nothing"),
    ):
        asked = spark.read.format("hudi_catalog").option(option, value)
        broken = error_of(lambda asked=asked: asked.load(path).count())
        assert reason in str(broken)
    frame = spark.range(3)
    refused = error_of(lambda: frame.write.format("hudi_catalog").mode("append").save(path))
    assert "hudi_catalog.write(df, path" in str(refused)
    assert spark.read.format("hudi_catalog").load(path).count() == ROWS - 100


def test_writes_of_one_line(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "lines")
    rows = spark.range(6).withColumn("p", F.col("id") % 2)
    with pytest.raises(TableNotFoundError, match="record_key"):
        write(rows, path)
    assert write(rows, path, record_key="id", partition_by="p", buckets=2).rows_inserted == 6
    (tmp_path / "lines").rename(tmp_path / "moved")
    path = str(tmp_path / "moved")
    assert write(rows.where("id < 2"), path).rows_updated == 2
    assert write(rows.where("id < 2"), path, "delete").rows_deleted == 2
    assert write(rows.where("id = 3"), path, "insert_overwrite_table", record_key="id").rows_inserted == 1
    with pytest.raises(OptionError):
        write(rows, path, record_key="p")
    with pytest.raises(OptionError):
        write(rows, path, "replace")
    with pytest.raises(ArgumentError, match="DataFrame"):
        write([1], path)  # type: ignore[arg-type]
    assert open_table(path).scan().count() == 1
