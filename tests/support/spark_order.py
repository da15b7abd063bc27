"""Checks of joins and group-bys in the order of files, for any PySpark; beside `spark_joins`."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import create_table, explain_scan, open_table, without_shuffle
from table_format.base_file.footer import footer_of
from table_format.base_file.key_runs import key_runs
from table_writer.encoding.row_order import WrittenOrder
from tests.support.spark_joins import HOWS, bare, check_same, generated_query, rows, table, works
from tests.support.spark_reads import conf, error_of

IN_ORDER = "merged in the order of files"
SURGERY = {"hoodie.catalog.write.surgery": "always", "hoodie.parquet.block.size": "20000"}
_KEYS = 3_000


def _texts(numbers: list[int]) -> list[str]:
    """Keys in which shorter texts, and bytes above 127, come between others."""
    return [f"k{number}" if number % 5 else f"k{number}é" for number in numbers]


def _rows(numbers: list[int], value: str, chance: random.Random) -> pa.Table:
    ids = [*dict.fromkeys(_texts(numbers))]
    days = [int(one.strip("ké")) % 2 for one in ids]  # the partition of a key stays
    return pa.table({"id": ids, value: [chance.randrange(50) for _ in ids], "day": pa.array(days, pa.int32())})


def make_ordered(folder: Path, name: str, buckets: int, seed: int, **partitioned: str) -> None:
    """A table of texts, and of files of several row groups with a past of surgery."""
    place = folder / name
    if place.exists():
        return
    chance, value = random.Random(seed), f"v_{name}"
    made = create_table(
        place, f"id string, {value} bigint, day int", record_key="id", buckets=buckets, options=SURGERY, **partitioned
    )
    made.bulk_insert(_rows(chance.sample(range(2 * _KEYS), _KEYS), value, chance))
    for _ in range(2):
        made.upsert(_rows(chance.sample(range(2 * _KEYS), 40), value, chance))
        made.delete(_rows(chance.sample(range(2 * _KEYS), 40), value, chance))


def _runs(place: Path) -> list[int]:
    paths = [Path(urlparse(str(split.path)).path) for split in open_table(place).scan().plan().splits]
    opened = [footer_of(pq.ParquetFile(path), str(path), path.stat().st_size) for path in paths]
    return [len(key_runs(one) or ()) for one in opened]


def check_joins_in_order(spark: SparkSession, folder: Path) -> None:
    """Files of several sorted parts, and several files a task."""
    make_ordered(folder, "left", 4, 1)
    make_ordered(folder, "right", 2, 2)
    make_ordered(folder, "days", 2, 3, partition_by="day")
    assert max(_runs(folder / "left")) > 1, "no file has rows behind its sorted ones"
    left, right, days = (table(spark, folder, name) for name in ("left", "right", "days"))
    for how in HOWS:
        frame = left.join(bare(right.to_df()).drop("day"), "id", how)
        check_same(frame, bare(left.to_df()).join(bare(right.to_df()).drop("day"), "id", how))
        assert IN_ORDER in explain_scan(frame), explain_scan(frame)
        assert all("SortMergeJoin" in work.plan for work in works(frame))
        text = "left.id = days.id AND v_left < v_days"
        theirs = bare(left.to_df()).join(bare(days.to_df()), F.expr(text), how)
        names = [name for name in theirs.columns if name.startswith("v_")]
        for generated in ("true", "false"):
            with conf(spark, spark_sql_codegen_wholeStage=generated):
                check_same(left.join(days, text, how, columns=names), theirs.select(*names))
    with conf(spark, spark_sql_parquet_enableVectorizedReader="false", spark_sql_join_preferSortMergeJoin="false"):
        check_same(left.join(right, "id"), bare(left.to_df()).join(bare(right.to_df()), "id"))
    where = "id > 'k3' AND v_left < 20"
    check_same(left.join(right, "id", where=where), bare(left.to_df(where)).join(bare(right.to_df()), "id"))
    check_same(left.join(right, "id", where="id = 'k7'"), bare(left.to_df("id = 'k7'")).join(bare(right.to_df()), "id"))


def check_chains_in_order(spark: SparkSession, folder: Path) -> None:
    make_ordered(folder, "left", 4, 1)
    make_ordered(folder, "right", 2, 2)
    make_ordered(folder, "days", 2, 3, partition_by="day")
    left, right, days = (bare(table(spark, folder, name).to_df()) for name in ("left", "right", "days"))
    chain = left.join(right.drop("day"), "id").join(days.drop("day"), "id", "left")
    assert explain_scan(without_shuffle(chain)).count(IN_ORDER) == 2
    check_same(without_shuffle(chain), chain)
    grouped = chain.groupBy("id").agg(F.max("v_days").alias("m"), F.max("id").alias("t"), F.count("*").alias("n"))
    check_same(without_shuffle(grouped), grouped)
    for frame in (left, days):
        sums = frame.groupBy("id").agg(F.count("*").alias("n"), F.max("id").alias("t"))
        ours = without_shuffle(sums)
        assert "in the order of files" in explain_scan(ours), explain_scan(ours)
        assert all("SortAggregate" in work.plan for work in works(ours))
        check_same(ours, sums)
        check_same(without_shuffle(sums.join(right, "id")), sums.join(right, "id"))
    named = left.withColumn("file", F.input_file_name()).join(right.drop("day"), "id")
    assert "it asks for the names of files" in explain_scan(without_shuffle(named))
    check_same(without_shuffle(named), named)
    both = left.join(right, ["id", "day"])
    assert "further columns are equal" in explain_scan(without_shuffle(both))
    check_same(without_shuffle(both), both)


def check_generated_queries_in_order(spark: SparkSession, folder: Path) -> None:
    make_ordered(folder, "left", 4, 1)
    make_ordered(folder, "right", 2, 2)
    make_ordered(folder, "days", 2, 3, partition_by="day")
    seeds = range(20, 30) if spark.version.startswith("3.") else range(10)  # others on another PySpark
    in_order = 0
    for seed in seeds:
        query = generated_query(spark, folder, seed, ("left", "right", "days"), "k")
        ours = without_shuffle(query)
        in_order += ", in the order of files" in explain_scan(ours) or IN_ORDER in explain_scan(ours)
        assert rows(ours) == rows(query), f"seed {seed}\n{explain_scan(ours)}"
    assert in_order >= len(seeds) // 3


def check_files_that_are_not_known_to_be_sorted(spark: SparkSession, folder: Path) -> None:
    make_ordered(folder, "left", 4, 1)
    whole = mock.patch.object(WrittenOrder, "sorting_columns", return_value=None)
    with whole, mock.patch("table_writer.surgery.splice.is_in_key_order", return_value=False):  # as earlier versions do
        make_ordered(folder, "plain", 2, 2)
    left, plain = table(spark, folder, "left"), bare(table(spark, folder, "plain").to_df()).drop("day")
    for how in HOWS:
        frame = left.join(plain, "id", how)
        assert "does not say that it is sorted" in explain_scan(frame), explain_scan(frame)
        check_same(frame, bare(left.to_df()).join(plain, "id", how))


def check_rows_in_another_order_are_errors(spark: SparkSession, folder: Path) -> None:
    """A footer may be wrong: no pair is lost silently."""
    make_ordered(folder, "left", 4, 1)
    make_ordered(folder, "right", 2, 2)
    if not (folder / "wrong").exists():
        shutil.copytree(folder / "left", folder / "wrong")
    wrong = bare(table(spark, folder, "wrong").to_df()).drop("day")
    with mock.patch("spark_writer.read.file_order.key_runs", lambda footer: [(0, footer.size)]):
        frames = [table(spark, folder, "right").join(wrong, "id", how) for how in HOWS]
        frames.append(without_shuffle(wrong.groupBy("id").count()))
    for frame in frames:
        assert "in the order of files" in explain_scan(frame), explain_scan(frame)
        assert "are not in the order of id, which its footer claims" in str(error_of(frame.collect))


ORDER_CHECKS: dict[str, Callable[[SparkSession, Path], None]] = {
    name.removeprefix("check_"): check
    for name, check in globals().items()
    if name.startswith("check_") and name != "check_same"
}
