"""Checks of joins and group-bys by bucket, for any PySpark: tests run them, and a script on the oldest."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from hudi_catalog import create_table, explain_scan, open_table, without_shuffle
from hudi_catalog.spark_sql import sql
from hudi_catalog.spark_table import HudiTable
from spark_writer.read.bucket_scan import BucketWork, bucket_work
from spark_writer.read.jvm import elements
from tests.support.spark_reads import conf, error_of

HOWS = ("inner", "left", "right", "full", "left_semi", "left_anti")
HASHED = {"hoodie.bucket.index.hash.field": "id"}
_MADE: dict[str, Path] = {}


def make_joined(folder: Path) -> Path:
    """Tables of 8, 4 and 3 buckets, with keys of numbers and texts, of one field and of two."""
    if str(folder) in _MADE:
        return folder
    numbers = [*range(240)]
    orders = create_table(folder / "orders", "id bigint, v bigint, note string", record_key="id", buckets=8)
    orders.bulk_insert(
        pa.table({"id": numbers, "v": [n * 7 % 50 for n in numbers], "note": [f"n{n % 5}" for n in numbers]})
    )
    orders.upsert(pa.table({"id": [*range(40)], "v": [-1] * 40, "note": [None] * 40}))
    parts = create_table(
        folder / "parts", "id int, month int, w double", record_key="id", partition_by="month", buckets=4
    )
    some = [*range(0, 400, 3)]
    parts.bulk_insert(
        pa.table(
            {
                "id": pa.array(some, pa.int32()),
                "month": pa.array([n // 3 % 3 for n in some], pa.int32()),
                "w": [n / 4 for n in some],
            }
        )
    )
    create_table(folder / "thirds", "id bigint, x bigint", record_key="id", buckets=3).bulk_insert(
        pa.table({"id": numbers[:90], "x": numbers[:90]})
    )
    texts = [None if n % 9 == 0 else f"key {n % 60}" for n in numbers]
    lines = {"id": pa.array(texts, pa.string()), "line": pa.array(numbers, pa.int32()), "q": numbers}
    create_table(
        folder / "lines", "id string, line int, q bigint", record_key=["id", "line"], buckets=4, options=HASHED
    ).bulk_insert(pa.table(lines))
    create_table(folder / "names", "id string, name string", record_key="id", buckets=8).bulk_insert(
        pa.table({"id": [f"key {n}" for n in range(0, 90, 2)], "name": [f"name {n}" for n in range(0, 90, 2)]})
    )
    _MADE[str(folder)] = folder
    return folder


def table(spark: SparkSession, folder: Path, name: str) -> HudiTable:
    return HudiTable.for_path(spark, folder / name)


def bare(frame: DataFrame) -> DataFrame:
    return frame.drop(*(name for name in frame.columns if name.startswith("_hoodie_")))


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def works(frame: DataFrame) -> list[BucketWork]:
    """The parts of a query that work by bucket."""
    plan: Any = frame._jdf.queryExecution().sparkPlan()
    leaves = [leaf for leaf in elements(plan.collectLeaves()) if leaf.getClass().getSimpleName() == "RDDScanExec"]
    return [work for leaf in leaves if (work := bucket_work(int(leaf.rdd().id()))) is not None]


def check_same(frame: DataFrame, spark_own: DataFrame, parts: int = 1) -> None:
    """Rows are Spark's, and neither the query nor its parts have an exchange or a sort."""
    plans = [str(frame._jdf.queryExecution().executedPlan().toString()), *(work.plan for work in works(frame))]
    assert len(plans) == 1 + parts, explain_scan(frame)
    for plan in plans:
        assert "Exchange" not in plan, plan
        assert "Sort [" not in plan, plan  # Spark names what relies on an order after it
    assert frame.schema.names == spark_own.schema.names
    assert rows(frame) == rows(spark_own)


def check_every_join(spark: SparkSession, folder: Path) -> None:
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    for how in HOWS:
        theirs = bare(orders.to_df()).join(bare(parts.to_df()), "id", how)
        check_same(orders.join(parts, "id", how), theirs)
        [work] = works(orders.join(parts, "id", how))
        [hashed] = [line for line in work.plan.splitlines() if "ShuffledHashJoin" in line]
        assert "_hoodie_bucket" not in hashed, hashed  # a single number is looked up faster than two keys
    text = "orders.id = parts.id AND v < w"
    theirs = bare(orders.to_df()).join(bare(parts.to_df()), F.expr(text), "left").select("v", "w")
    check_same(orders.join(parts, text, "left", columns=["v", "w"]), theirs)
    shown = explain_scan(orders.join(parts, "id"))
    assert (
        "join on id = id: without an exchange, without a sort, 4 tasks (orders: 8 buckets, parts: 4 buckets)" in shown
    )
    assert "8 files by bucket in 4 tasks" in shown


def check_outer_joins_without_generated_code(spark: SparkSession, folder: Path) -> None:
    """As of plans of more than 100 columns; Spark 3.5.0 then loses pairs if the rows that are all kept are hashed."""
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    text = "orders.id = parts.id AND v < w"
    for how in HOWS:
        theirs = bare(orders.to_df()).join(bare(parts.to_df()), F.expr(text), how)
        names = [name for name in theirs.columns if name in {"v", "w"}]
        with conf(spark, spark_sql_codegen_wholeStage="false"):
            check_same(orders.join(parts, text, how, columns=names), theirs.select(*names))


def check_group_by(spark: SparkSession, folder: Path) -> None:
    orders, lines = table(spark, folder, "orders"), table(spark, folder, "lines")
    check_same(orders.group_by("id").agg("sum(v) AS s"), orders.to_df().groupBy("id").agg(F.sum("v").alias("s")))
    check_same(lines.group_by("id").count(), lines.to_df().groupBy("id").count())
    check_same(orders.group_by("note", "id").agg({"v": "max"}), orders.to_df().groupBy("note", "id").agg({"v": "max"}))
    check_same(lines.group_by("id").agg("count(DISTINCT q)"), lines.to_df().groupBy("id").agg(F.countDistinct("q")))
    for keys in (["line"], [F.expr("id || 'x'")]):
        frame = lines.group_by(*keys).count()
        assert "is Spark's own: " in explain_scan(frame)
        assert rows(frame) == rows(lines.to_df().groupBy(*keys).count())


def check_null_keys_and_keys_of_two_fields(spark: SparkSession, folder: Path) -> None:
    lines, names = table(spark, folder, "lines"), table(spark, folder, "names")
    for how in HOWS:
        check_same(lines.join(names, "id", how), bare(lines.to_df()).join(bare(names.to_df()), "id", how))
    twice = lines.to_df().select("id", F.col("line").alias("line_2"), F.col("q").alias("q_2"))
    check_same(lines.join(twice, "id"), bare(lines.to_df()).join(twice, "id"))


def check_chains(spark: SparkSession, folder: Path) -> None:
    """Joins and group-bys on each other's results, and Spark's own work after them."""
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    sums = orders.to_df().groupBy("id").agg(F.sum("v").alias("s"))
    query = bare(parts.to_df()).join(sums, "id").groupBy("id").agg(F.max("s").alias("m"))
    check_same(without_shuffle(query), query)
    for adaptive in ("true", "false"):
        with conf(spark, spark_sql_adaptive_enabled=adaptive):
            joined = orders.join(parts, "id")
            theirs = bare(orders.to_df()).join(bare(parts.to_df()), "id")
            assert rows(joined.groupBy("month").count()) == rows(theirs.groupBy("month").count())
            again = joined.join(theirs.select("id", F.col("v").alias("v2")), "id").join(joined.select("id"), "id")
            assert again.count() == theirs.count()
    both = without_shuffle(bare(orders.to_df()).join(bare(parts.to_df()), "id").groupBy("month").count())
    assert len(works(both)) == 1
    assert "group-by of month is Spark's own" in explain_scan(both)
    joined.createOrReplaceTempView("joined_by_bucket")
    assert spark.sql("SELECT count(*) FROM joined_by_bucket").first()[0] == theirs.count()  # type: ignore[index]


def check_pruned_buckets(spark: SparkSession, folder: Path) -> None:
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    for where in ("id = 9", "id IN (3, 6, 7)", "v = 3 AND note = 'n1'"):
        frame = orders.join(parts, "id", "right", where=where)
        check_same(frame, bare(orders.to_df(where)).join(bare(parts.to_df()), "id", "right"))
    assert "1 file by bucket in 4 tasks" in explain_scan(orders.join(parts, "id", where="id = 9"))
    query = bare(orders.to_df()).join(bare(parts.to_df("month = 1")), "id")
    check_same(orders.join(parts.to_df("month = 1"), "id"), query)


def check_time_travel(spark: SparkSession, folder: Path) -> None:
    orders, parts = table(spark, folder, "orders"), table(spark, folder, "parts")
    before = orders.history()[0].instant
    theirs = bare(orders.to_df(as_of=before)).join(bare(parts.to_df()), "id")
    assert theirs.where("v = -1").count() == 0
    check_same(orders.join(parts, "id", as_of=before), theirs)
    earlier = orders.to_df(as_of=before).select("id", F.col("v").alias("before"))
    check_same(orders.join(earlier, "id"), bare(orders.to_df()).join(earlier, "id"))
    check_same(orders.group_by("id", as_of=before).count(), orders.to_df(as_of=before).groupBy("id").count())


def check_earlier_types(spark: SparkSession, folder: Path) -> None:
    """Half of the files are from before a key and a value were widened."""
    place = folder / "widened"
    if not place.exists():
        made = create_table(place, "id int, v int", record_key="id", buckets=4)
        made.bulk_insert(pa.table({"id": pa.array([*range(50)], pa.int32()), "v": pa.array([*range(50)], pa.int32())}))
        late = [25, 91]  # of 2 of 4 buckets at most
        open_table(place).upsert(pa.table({"id": pa.array(late, pa.int64()), "v": pa.array(late, pa.int64())}))
    widened, orders = table(spark, folder, "widened"), table(spark, folder, "orders")
    frame = orders.join(widened.to_df().withColumnRenamed("v", "u"), "id", "full")
    theirs = bare(orders.to_df()).join(bare(widened.to_df()).withColumnRenamed("v", "u"), "id", "full")
    assert widened.to_df().schema["id"].dataType.simpleString() == "bigint"
    if spark.version.startswith("3."):  # Spark 4 reads both as the wider type
        assert "files of earlier column types" in explain_scan(frame)
        assert rows(frame) == rows(theirs)
    else:
        check_same(frame, theirs)


def check_reasons(spark: SparkSession, folder: Path) -> None:
    """What cannot work by bucket is Spark's own join, and the reason is shown."""
    orders, thirds = table(spark, folder, "orders"), table(spark, folder, "thirds")
    parts, lines = table(spark, folder, "parts"), table(spark, folder, "lines")
    place = folder / "times"
    if not place.exists():
        made = create_table(place, "at timestamp, v bigint", record_key="at", buckets=4)
        made.bulk_insert(pa.table({"at": pa.array([0, 1, 2], pa.timestamp("us", "UTC")), "v": [1, 2, 3]}))
    times = table(spark, folder, "times")
    plain = spark.range(0, 200, 2).toDF("id")
    frames = {
        "bucket counts 3 and 8 do not divide each other": (orders, thirds, "id"),
        "right: it reads no Hudi table": (orders, plain, "id"),
        "it does not say that all hash fields are equal": (orders, parts, "orders.v = parts.month"),
        "its condition is Spark's own": (orders, parts, "orders.id < parts.month"),
        "it has a hint": (orders, parts.to_df().hint("broadcast"), "id"),
        "a timestamp[us, tz=UTC], may be hashed in different forms": (times, times.to_df().alias("b"), "at"),
        "right: a hash field is not among the columns": (orders, lines.to_df().drop("id"), "orders.id = lines.line"),
    }
    for reason, (one, other, on) in frames.items():
        frame = one.join(other, on)
        assert reason in explain_scan(frame), explain_scan(frame)
        right = bare(other if isinstance(other, DataFrame) else other.to_df())
        condition: Any = on if on.isidentifier() else F.expr(on)
        assert rows(frame) == rows(bare(one.to_df()).join(right, condition))
    asked = without_shuffle(orders.to_df().where("v = (SELECT max(v) FROM range(3) t(v))").groupBy("id").count())
    assert "Spark's own plan: it has a subquery" in explain_scan(asked)
    assert "no join and no group-by" in explain_scan(without_shuffle(orders.to_df()))


def check_keys_of_doubt_are_errors(spark: SparkSession, folder: Path) -> None:
    """Releases put a text with a colon into different buckets: no row is lost silently."""
    place = folder / "urls"
    if not place.exists():
        made = create_table(place, "id string, v bigint", record_key="id", buckets=4)
        made.bulk_insert(pa.table({"id": ["key 2", "a:b", "key 4"], "v": [1, 2, 3]}))
    urls, names = table(spark, folder, "urls"), table(spark, folder, "names")
    for frame in (urls.join(names, "id"), names.join(urls, "id"), urls.group_by("id").count()):
        assert "releases of Hudi differ in its bucket" in str(error_of(frame.collect))
    assert urls.join(names, "id", where="id != 'a:b'").count() == 2
    assert names.join(table(spark, folder, "lines"), "id").count() > 0


def check_sql(spark: SparkSession, folder: Path) -> None:
    from hudi_catalog import Catalog

    views = {f"j_{name}": name for name in ("orders", "parts")}
    Catalog(str(folder)).register(spark, views)
    text = (
        "SELECT o.id, max(v) AS v, sum(w) AS w FROM j_orders o LEFT JOIN j_parts p ON o.id = p.id "
        "WHERE o.v < 40 GROUP BY o.id"
    )
    check_same(sql(spark, text), spark.sql(text))  # type: ignore[arg-type]
    check_same(without_shuffle(spark.sql(text)), spark.sql(text))
    assert "Exchange" in str(spark.sql(text)._jdf.queryExecution().executedPlan().toString())
    path = f"SELECT count(*) FROM hudi_catalog.`{folder}/orders` WHERE v < 40"
    assert sql(spark, path).first()[0] == spark.sql("SELECT count(*) FROM j_orders WHERE v < 40").first()[0]  # type: ignore[union-attr,index]


def generated_query(
    spark: SparkSession, folder: Path, seed: int, tables: Sequence[str] | None = None, prefix: str = "key "
) -> DataFrame:
    """A query of joins and group-bys, of which some shuffle.

    Args:
        spark: the session.
        folder: of the tables.
        seed: the same query for the same one.
        tables: of text keys; None for those of `make_joined`.
        prefix: of the keys, before a number.
    """
    chance = random.Random(seed)
    numbers = chance.random() < 0.7
    numbers = numbers and tables is None
    names = tables or (("orders", "parts", "thirds") if numbers else ("lines", "names"))

    def side(label: str) -> DataFrame:
        frame = bare(table(spark, folder, chance.choice(names)).to_df())
        if chance.random() < 0.4:
            key = f"id < {chance.randrange(300)}" if numbers else f"id > '{prefix}{chance.randrange(60)}'"
            frame = frame.where(key)
        frame = frame.select("id", *(F.col(name).alias(f"{name}_{label}") for name in frame.columns if name != "id"))
        if chance.random() < 0.3:
            last = frame.columns[-1]
            frame = frame.groupBy("id").agg(F.max(last).alias(last), F.count("*").alias(f"n_{label}"))
        return frame

    query = side("a")
    for label in "bc"[: chance.randrange(3)]:
        query = query.join(side(label), "id", chance.choice(HOWS))
    if chance.random() < 0.4:
        keys = ["id", *chance.sample(query.columns[1:], min(1, len(query.columns) - 1))]
        query = query.groupBy(*chance.choice((keys, keys[:1], keys[1:] or keys))).count()
    return query.where("id IS NOT NULL") if "id" in query.columns and chance.random() < 0.2 else query


def check_generated_queries(spark: SparkSession, folder: Path) -> None:
    seeds = range(12, 24) if spark.version.startswith("3.") else range(12)  # others on another PySpark
    by_bucket = 0
    for seed in seeds:
        query = generated_query(spark, folder, seed)
        ours = without_shuffle(query)
        by_bucket += bool(works(ours))
        assert rows(ours) == rows(query), f"seed {seed}\n{explain_scan(ours)}"
    assert by_bucket >= len(seeds) // 3


JOIN_CHECKS: dict[str, Callable[[SparkSession, Path], None]] = {
    name.removeprefix("check_"): check
    for name, check in globals().items()
    if name.startswith("check_") and name != "check_same"
}
