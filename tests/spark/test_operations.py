"""The writer through a real Spark session: small data, every operation."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as spark_types

from hudi_catalog import Table, col, create_table
from spark_writer import HudiTable, write_hudi
from spark_writer.blocks import murmur3_int, placements
from table_format.errors import OptionError, RecordError, SchemaError, TableExistsError, TableNotFoundError
from tests.property.test_write_histories import WRITES, State, apply, shown
from tests.support.golden_renames import lay_out

pytestmark = pytest.mark.spark
DDL = "id string, part string, v bigint, ts bigint"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.index.type": "BUCKET_HASH_INDEX",
    "hoodie.hash.index.bucket.num": 2,
    "hoodie.datasource.write.hive_style_partitioning": True,
}


def frame(spark: SparkSession, ids: Any, v: int = 0, ts: int = 1) -> DataFrame:
    return spark.createDataFrame([(f"k{n}é", "ab"[n % 2], v + n, ts) for n in ids], DDL)


def contents(table: HudiTable) -> dict[str, int]:
    rows = table.to_df().select("id", "v").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.v for row in rows}


def expected(ids: Any, v: int = 0) -> dict[str, int]:
    return {f"k{n}é": v + n for n in ids}


def test_a_job_moves_over_by_one_line(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = write_hudi(frame(spark, range(20)), path, OPTIONS, mode="append")
    assert first is not None
    assert (first.rows_inserted, first.files_written, first.partitions) == (20, 4, 2)
    second = write_hudi(frame(spark, range(15, 25), v=100, ts=2), path, OPTIONS, mode="append")
    assert second is not None
    assert (second.rows_inserted, second.rows_updated) == (5, 5)
    table = HudiTable.for_path(spark, path)
    assert contents(table) == expected(range(15)) | expected(range(15, 25), 100)
    delete = {**OPTIONS, "hoodie.datasource.write.operation": "delete"}
    write_hudi(frame(spark, range(10)).select("id", "part"), path, delete, mode="append")
    assert contents(table) == expected(range(10, 15)) | expected(range(15, 25), 100)
    history = table.history_df().collect()
    for metadata, rows in ((table.files_df(), table.files()), (table.partitions_df(), table.partitions())):
        assert [row.asDict() for row in metadata.collect()] == rows.to_pylist()
    assert [row.operation for row in history] == ["DELETE", "UPSERT", "UPSERT"]
    assert [row.rows_deleted for row in history] == [10, 0, 0]


def test_modes(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_hudi(frame(spark, range(4)), path, OPTIONS)
    with pytest.raises(TableExistsError, match="append or overwrite"):
        write_hudi(frame(spark, range(4)), path, OPTIONS)
    assert write_hudi(frame(spark, [9]), path, OPTIONS, mode="ignore") is None
    write_hudi(frame(spark, [5]), path, OPTIONS, mode="overwrite")
    assert contents(HudiTable.for_path(spark, path)) == expected([5])
    with pytest.raises(OptionError, match="mode='merge'"):
        write_hudi(frame(spark, [5]), path, OPTIONS, mode="merge")
    delete = {**OPTIONS, "hoodie.datasource.write.operation": "delete"}
    with pytest.raises(TableNotFoundError, match="nothing to delete"):
        write_hudi(frame(spark, [5]), str(tmp_path / "none"), delete, mode="append")


def arrow(_: SparkSession, ids: Any, v: int = 0, ts: int = 1) -> pa.Table:
    parts = ["ab"[n % 2] for n in ids]
    return pa.table({"id": [f"k{n}é" for n in ids], "part": parts, "v": [v + n for n in ids], "ts": [ts] * len(ids)})


def test_a_table_of_a_session_and_one_without_do_the_same(spark: SparkSession, tmp_path: Path) -> None:
    keys: Any = {"record_key": "id", "partition_by": "part", "ordering": "ts", "index": "RECORD_INDEX"}
    session_table = HudiTable.create(spark, tmp_path / "spark", DDL, **keys)
    assert isinstance(session_table, Table)
    outcomes = []
    for table, rows in ((session_table, frame), (create_table(tmp_path / "local", DDL, **keys), arrow)):
        summaries = [
            table.bulk_insert(rows(spark, range(10))),
            table.upsert(rows(spark, range(8, 12), v=100, ts=2)),
            table.insert(arrow(spark, [12])),  # rows of this process: both take them
            table.delete("v between 0 and 1"),
            table.delete(col("id") == "k2é"),
            table.delete(rows(spark, [3])),
            table.insert_overwrite(rows(spark, [14])),
            table.delete_partitions("b"),
            table.insert_overwrite_table(rows(spark, range(6))),
        ]
        report = table.bootstrap_index(groups=1)
        resized = table.resize_index(2)
        outcomes.append(
            (
                [(each.operation, each.rows_inserted, each.rows_updated, each.rows_deleted) for each in summaries],
                (report.keys, resized.count, table.verify_index().is_right, table.clean().files),
                (table.columns, table.schema, [entry.operation for entry in table.history()]),
                table.scan("v >= 2", ["id", "v"]).to_arrow().sort_by("id"),
                table.explain("v < 0").count("\n") > 3,
            )
        )
    assert outcomes[0] == outcomes[1]
    assert contents(session_table) == expected(range(6))
    assert session_table.scan("v >= 2").to_arrow().num_rows == 4


def test_the_table_object(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = HudiTable.create(spark, path, DDL, name="t", record_key="id", partition_by="part", ordering="ts", buckets=2)
    assert table.to_df().count() == 0
    assert table.columns.names == ["id", "part", "v", "ts"]
    table.bulk_insert(frame(spark, range(10)))
    table.insert(frame(spark, range(10, 12)))
    assert table.delete("v >= 8 and part = 'a'").rows_deleted == 2
    table.insert_overwrite(frame(spark, [1, 21], v=50))
    assert contents(table) == expected([0, 2, 4, 6]) | expected([1, 21], 50)
    assert table.delete_partitions("a").groups_replaced == 2
    assert contents(table) == expected([1, 21], 50)
    table.insert_overwrite_table(frame(spark, [3]))
    assert contents(table) == expected([3])
    with pytest.raises(TableExistsError):
        HudiTable.create(spark, path, DDL, name="t", record_key="id", buckets=2)


def test_every_type_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    schema = spark_types._parse_datatype_string(
        "id string, b boolean, i8 tinyint, i16 smallint, i int, l bigint, f float, d double, dec decimal(12,3), "
        "big decimal(38,10), s string, bin binary, day date, at timestamp, arr array<string>, "
        "m map<string,bigint>, st struct<a:int,b:struct<c:array<int>>>, nothing string"
    )
    utc = dt.UTC
    rows = [
        Row(
            id=f"日本{n}𝄞",
            b=bool(n % 2),
            i8=n,
            i16=-n,
            i=n * 1000,
            l=n << 40,
            f=n / 4,
            d=-n / 3,
            dec=Decimal(n).scaleb(-3),
            big=Decimal(n).scaleb(-10),
            s="" if n % 2 else "ｱ한é",
            bin=bytes([n, 255]),
            day=dt.date(1, 1, 1) if n == 0 else dt.date(2024, 2, 29),
            at=dt.datetime(1969, 12, 31, 23, 59, 59, 999999, utc),
            arr=["x", None, f"{n}"] if n % 2 else [],
            m={"k": n, "null": None} if n % 3 else None,
            st=Row(a=n, b=Row(c=[1, n])) if n % 4 else None,
            nothing=None,
        )
        for n in range(12)
    ]
    df = spark.createDataFrame(rows, schema)
    table = HudiTable.create(spark, str(tmp_path / "t"), df, name="types", record_key="id", buckets=3)
    table.upsert(df)
    stored = table.to_df().select(*schema.names)
    assert sorted(map(repr, stored.collect())) == sorted(map(repr, df.collect()))
    table.upsert(table.to_df())  # meta columns in the rows are left aside
    stored = table.to_df().select(*schema.names)
    assert sorted(map(repr, stored.collect())) == sorted(map(repr, df.collect()))


def test_widened_columns_are_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    narrow = spark.createDataFrame([(n, n) for n in range(6)], "id int, v int")
    table = HudiTable.create(spark, path, narrow, name="t", record_key="id", buckets=4)
    table.upsert(narrow)
    table.upsert(spark.createDataFrame([(5, 1 << 40, "n")], "id int, v bigint, note string"))
    rows = {row.id: (row.v, row.note) for row in table.to_df().collect()}
    assert rows == {n: (n, None) for n in range(5)} | {5: (1 << 40, "n")}


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("id string, t timestamp_ntz", "timestamp_ntz; cast it to timestamp"),
        ("id string, t interval day to second", "interval day to second"),
        ("id string, m map<int,int>", "string keys"),
        ("id string, n void", "no type"),
        ("id string, `a b` int", "Avro names"),
    ],
)
def test_types_that_tables_cannot_hold(spark: SparkSession, tmp_path: Path, ddl: str, message: str) -> None:
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(SchemaError, match=message):
        write_hudi(spark.createDataFrame([], ddl), str(tmp_path / "t"), options)
    assert not (tmp_path / "t").exists()


def test_renamed_columns_are_read_by_their_ids(spark: SparkSession, tmp_path: Path) -> None:
    """A table of Apache's whose columns were renamed, dropped and added again: files have other names."""
    base, rows = lay_out("v6_0150", str(tmp_path))
    table = HudiTable.for_path(spark, base)
    by_id = {row.id: row for row in table.to_df().collect()}
    names = ("old", "title", "price", "ts", "name")
    assert {key: [row[name] for name in names] for key, row in by_id.items()} == {
        key: [row[name] for name in names] for key, row in rows.items()
    }
    assert {key: row["s"] and row["s"].asDict() for key, row in by_id.items()} == {k: r["s"] for k, r in rows.items()}


def test_an_error_of_a_worker_arrives_as_itself(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_hudi(frame(spark, range(4)), path, OPTIONS)
    bad = spark.createDataFrame([(None, "a", 1, 1)], DDL)
    with pytest.raises(RecordError, match=r"^1 row.* id must not be null or empty$"):
        write_hudi(bad, path, OPTIONS, mode="append")
    table = HudiTable.for_path(spark, path)
    assert contents(table) == expected(range(4))
    assert not table.client.timeline().pending


def test_slots_are_sparks_partitions(spark: SparkSession) -> None:
    numbers = [*range(-3, 4), 8, 2**31 - 1, -(2**31)]
    hashes = spark.createDataFrame([(n,) for n in numbers], "n int").selectExpr("hash(n) as h").collect()
    assert [row.h for row in hashes] == [murmur3_int(n) for n in numbers]
    slots = spark.createDataFrame([(int(n),) for n in placements(16)], "slot int").repartition(16, "slot")
    placed = slots.selectExpr("slot", "spark_partition_id() as task").collect()
    assert sorted(row.task for row in placed) == list(range(16))


def test_a_table_without_partitions_writes_one_task_a_bucket(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(500).selectExpr("id", "cast(id % 7 as double) as d").repartition(3)
    table = HudiTable.create(spark, str(tmp_path / "t"), df, name="t", record_key="id", buckets=5)
    assert table.bulk_insert(df).files_written == 5
    files = [Path(name).name for name in table.to_df().inputFiles()]
    assert sorted(int(name[:8]) for name in files) == list(range(5))
    assert len({name.split("_")[1].split("-")[0] for name in files}) == 5
    assert table.to_df().selectExpr("sum(id) as s").collect()[0].s == sum(range(500))


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """As tests/property/test_write_histories.py, with Spark in between."""
    chance = random.Random(seed)
    ddl = "id string, p string, v int, ts double"
    partitioned, event_time = bool(seed % 2), seed != 2
    table = HudiTable.create(
        spark,
        str(tmp_path / "t"),
        ddl,
        name="t",
        record_key="id",
        partition_by="p" if partitioned else (),
        ordering="ts",
        buckets=3,
        options={} if event_time else {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    )
    state: State = {}
    for _ in range(4):
        step = chance.choice(["upsert", "upsert", "insert", "drop", "delete", "insert_overwrite"])
        batch = [
            {
                "id": chance.choice(["a", "b:c", "x,y", "é", "日", "𝄞", "0", "1", "2"]),
                "p": chance.choice("pq"),
                "v": chance.randint(0, 9),
                "ts": chance.choice([None, -0.0, 0.0, 1.0, float("nan")]),
            }
            for _ in range(12)
        ]
        operation, options = WRITES.get(step, (step, {}))
        df = spark.createDataFrame([tuple(row.values()) for row in batch], ddl)
        getattr(table, operation)(df, options)
        apply(state, step, batch, partitioned, event_time)
        stored = [shown(row.asDict()) for row in table.to_df().collect()]
        assert sorted(stored) == sorted(shown(row) for rows in state.values() for row in rows)
