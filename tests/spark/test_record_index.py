"""The record index through a real Spark session."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from spark_writer import HudiTable
from spark_writer.frames import insert_records
from table_format.errors import OptionError, RecordError, RecordIndexError, SchemaError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_writer.commit.transaction import WriteTransaction
from table_writer.record_index.verify import verify_index

pytestmark = pytest.mark.spark
DDL = "id string, part string, v bigint, price decimal(12,2), ts bigint"
ON_TASKS = {"hoodie.catalog.record.index.driver.rows": 0}
MOVE = {"hoodie.record.index.update.partition.path": True}
FAIL = {"hoodie.datasource.insert.dup.policy": "fail"}


def frame(spark: SparkSession, start: int, end: int, v: int = 0, ts: int = 1, part: str | None = None) -> DataFrame:
    home = F.lit(part) if part else F.when(F.col("id") % 2 == 0, "a").otherwise("b")
    rows = spark.range(start, end, numPartitions=3).withColumn("part", home)
    rows = rows.withColumn("v", F.lit(v) + F.col("id")).withColumn("price", (F.col("id") / 4).cast("decimal(12,2)"))
    return rows.withColumn("ts", F.lit(ts).cast("bigint")).withColumn(
        "id", F.concat(F.lit("k"), F.col("id"), F.lit("é"))
    )


def contents(table: HudiTable) -> dict[str, tuple[str, int]]:
    rows = table.to_df().select("id", "_hoodie_partition_path", "v", "price").collect()
    assert len({row.id for row in rows}) == len(rows)
    assert all(float(row.price) == int(row.id[1:-1]) / 4 for row in rows)
    return {row.id: (row["_hoodie_partition_path"], row.v) for row in rows}


def test_a_table_lives_by_its_record_index(spark: SparkSession, tmp_path: Path) -> None:
    options = {"hoodie.metadata.record.index.min.filegroup.count": 3, "hoodie.copyonwrite.insert.auto.split": False}
    table = HudiTable.create(
        spark,
        str(tmp_path / "t"),
        frame(spark, 0, 1),
        record_key="id",
        partition_by="part",
        ordering="ts",
        index="RECORD_INDEX",
        options=options | {"hoodie.copyonwrite.insert.split.size": 400},
    )
    assert table.bulk_insert(frame(spark, 0, 2000)).files_written == 6
    expected: dict[str, tuple[str, int]] = {f"k{n}é": ("ab"[n % 2], n) for n in range(2000)}
    assert contents(table) == expected
    # on the driver, then on tasks: updates in place, whatever the rows' partition
    for more, start in (({}, 100), (ON_TASKS, 300)):
        summary = table.upsert(frame(spark, start, start + 50, v=7, ts=2, part="c"), more)
        assert (summary.rows_inserted, summary.rows_updated, summary.partitions) == (0, 50, 2)
        expected |= {f"k{n}é": ("ab"[n % 2], n + 7) for n in range(start, start + 50)}
    # moves, but not of older rows
    summary = table.upsert(frame(spark, 90, 150, v=9, ts=2, part="c"), ON_TASKS | MOVE)
    assert (summary.rows_inserted, summary.rows_deleted) == (60, 60)
    expected |= {f"k{n}é": ("c", n + 9) for n in range(90, 150)}
    assert table.upsert(frame(spark, 90, 150, v=1, ts=1, part="a"), MOVE).files_written == 0
    assert table.delete(spark.createDataFrame([("k91é",), ("none",)], "id string")).rows_deleted == 1
    del expected["k91é"]
    assert contents(table) == expected
    with pytest.raises(RecordError, match="key that the table has already"):
        table.insert(frame(spark, 1990, 2010), ON_TASKS | FAIL)
    assert table.insert(frame(spark, 2000, 2010), FAIL).rows_inserted == 10
    table.insert_overwrite(frame(spark, 100, 110, v=3, part="c"), ON_TASKS)
    expected |= {f"k{n}é": ("ab"[n % 2], n) for n in range(2000, 2010)}
    expected = {key: row for key, row in expected.items() if row[0] != "c"}
    expected |= {f"k{n}é": ("c", n + 3) for n in range(100, 110)}
    assert contents(table) == expected
    assert table.verify_index().is_right
    look_up(spark, table, expected)
    put_in(spark, table)


def test_a_bulk_insert_keeps_the_order_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(spark, str(tmp_path / "t"), frame(spark, 0, 1), record_key="id", index="RECORD_INDEX")
    rows = frame(spark, 0, 900).repartitionByRange(3, F.desc("v")).sortWithinPartitions(F.desc("v"))
    summary = table.bulk_insert(rows, {"hoodie.bulkinsert.sort.mode": "NONE"})
    assert summary.files_written == 3
    rows_read = table.to_df().select("v", "_hoodie_file_name", "_hoodie_commit_seqno").collect()
    for name in {row["_hoodie_file_name"] for row in rows_read}:
        in_file = [row for row in rows_read if row["_hoodie_file_name"] == name]
        in_file.sort(key=lambda row: int(row["_hoodie_commit_seqno"].rpartition("_")[2]))
        assert [row.v for row in in_file] == list(range(in_file[0].v, in_file[0].v - len(in_file), -1))
    assert table.verify_index().is_right


def look_up(spark: SparkSession, table: HudiTable, expected: dict[str, tuple[str, int]]) -> None:
    """The RFC's getRecordLocations."""
    keys = spark.range(0, 2100, numPartitions=2).select(F.concat(F.lit("k"), F.col("id"), F.lit("é")).alias("key"))
    locations = table.get_record_locations(
        keys.union(keys.limit(10)).union(spark.createDataFrame([(None,)], "key string"))
    )
    files = {row["_hoodie_record_key"]: row for row in table.to_df().collect()}
    rows: list[Any] = locations.collect()
    assert {row.key: row.partition for row in rows} == {key: home for key, (home, _) in expected.items()}
    assert len(rows) == len(expected)
    assert all(files[row.key]["_hoodie_file_name"].startswith(f"{row.file_id}_") for row in rows)
    with pytest.raises(SchemaError, match="'key' is missing"):
        table.get_record_locations(keys.withColumnRenamed("key", "id"))


def put_in(spark: SparkSession, table: HudiTable) -> None:
    """The RFC's insertRecords, in a commit without data files, and back."""
    client = table.client
    layout = IndexLayout.of(client)
    assert layout is not None
    place = table.get_record_locations(spark.createDataFrame([("k0é",)], "key string")).first()
    assert place is not None
    schema = str(client.table_schema_json())
    for deleted in (False, True):
        rows = [(f"extra{n}", place.partition, place.file_id, deleted) for n in range(100)]
        places = spark.createDataFrame(rows, "key string, partition string, file_id string, deleted boolean")
        with WriteTransaction.begin(client, "commit", "UPSERT", {"hoodie.index.type": "RECORD_INDEX"}) as transaction:
            changes = insert_records(places, transaction, layout)
            assert sum(change.rows for change in changes) == 100
            transaction.commit([], schema_json=schema, index_changes=changes)
        locations = table.get_record_locations(places.select("key")).collect()
        assert {row.file_id for row in locations} == (set() if deleted else {place.file_id})
        assert len(locations) == (0 if deleted else 100)
    assert verify_index(client).is_right
    with (
        WriteTransaction.begin(client, "commit", "UPSERT", {"hoodie.index.type": "RECORD_INDEX"}) as transaction,
        pytest.raises(RecordError, match="without a key"),
    ):
        insert_records(places.withColumn("key", F.lit(None)), transaction, layout)


def test_a_table_without_a_record_index_says_so(spark: SparkSession, tmp_path: Path) -> None:
    table = HudiTable.create(spark, str(tmp_path / "t"), DDL, record_key="id", buckets=1)
    with pytest.raises(OptionError, match="RECORD_INDEX"):
        HudiTable.create(spark, str(tmp_path / "u"), DDL, record_key="id")
    with pytest.raises(RecordIndexError, match="index bootstrap"):
        table.get_record_locations(spark.createDataFrame([("k",)], "key string"))
