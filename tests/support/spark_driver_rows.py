"""Checks of queries whose few rows the driver reads by itself, for any PySpark."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from catalog.snapshots.scan_options import DRIVER_BYTES
from hudi_catalog import create_table, explain_scan, open_table
from tests.property.spark_rows import COLUMNS, NOT_IN_HUDI
from tests.property.spark_texts import make_filter
from tests.support.spark_reads import conf, error_of, make_kinds

NEVER = {DRIVER_BYTES: "0"}
_FILTERS = 120
_GROUPS = itertools.count()


def _jobs(spark: SparkSession, ask: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and how many jobs it ran."""
    group = f"driver-{next(_GROUPS)}"
    spark.sparkContext.setJobGroup(group, group)
    try:
        answer: Any = ask()
        context: Any = spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()  # the tracker hears of jobs in another thread
        return answer, len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _texts(ask: Callable[[], list[Row]]) -> list[str] | None:
    """The rows as texts, in order, as NaN does not equal itself; None if Spark refuses the question."""
    rows: list[Row] = []
    return None if error_of(lambda: rows.extend(ask())) else sorted(map(str, rows))


def check_few_rows_run_no_job(spark: SparkSession, path: str) -> None:
    frame, by_tasks = open_table(path).to_spark(spark), open_table(path).to_spark(spark, options=NEVER)
    one = "id = 417 AND month = 4"
    questions: dict[str, Callable[[Any], Any]] = {
        "collect": lambda df: df.where(one).collect(),
        "columns": lambda df: df.where(one).select(F.expr("v + 1").alias("w"), "s.b", "at", "day").collect(),
        "take": lambda df: df.where(one).take(3),
        "first": lambda df: df.where(one).first(),
        "limit": lambda df: df.where(one).limit(1).collect(),
        "no row": lambda df: df.where(f"{one} AND v = 417 * 417 + 1").collect(),
        "show": lambda df: df.where(one)._jdf.showString(5, 20, False),
        "files": lambda df: df.where(one).select("_metadata.file_name", "month").collect(),
    }
    for name, ask in questions.items():
        (ours, none), (wanted, some) = (_jobs(spark, lambda df=df, ask=ask: ask(df)) for df in (frame, by_tasks))
        assert ours == wanted, (name, ours, wanted)
        assert (none, some > 0) == (0, True), (name, none, some)
    assert "HudiDriverRows" in frame.where(one)._jdf.queryExecution().executedPlan().toString()
    assert "1 of 24 files" in explain_scan(frame.where(one))


def check_tasks_read_what_the_driver_must_not(spark: SparkSession, path: str) -> None:
    """Many files, values that differ by task, subqueries, and what is more than one scan."""
    frame, one = open_table(path).to_spark(spark), "id = 417 AND month = 4"
    frame.createOrReplaceTempView("driver_rows")
    for name, df, count in (
        ("many files", frame.where("month < 5"), 500),
        ("random", frame.where(f"{one} AND rand() > 1e-8"), 1),
        ("partition", frame.where(one).select(F.spark_partition_id()), 1),
        ("sort", frame.where(one).orderBy("v"), 1),
        ("subquery", spark.sql(f"SELECT * FROM driver_rows WHERE {one} AND id = (SELECT min(417) FROM range(9))"), 1),
        ("join", frame.where(one).join(spark.range(400, 420), "id"), 1),
    ):
        rows, jobs = _jobs(spark, df.collect)
        assert (len(rows), jobs > 0) == (count, True), (name, len(rows), jobs)
    [[count]] = frame.where(one).groupBy().count().collect()
    assert count == 1
    assert frame.where(one).limit(1).agg(F.sum("v")).collect() == [Row(**{"sum(v)": 417 * 417})]


def check_a_small_file_of_many_rows_is_left_to_tasks(spark: SparkSession, path: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(Path(folder) / "t", "id bigint, n int", record_key="id", buckets=1)
        table.bulk_insert(pa.table({"id": pa.array(range(1_100_000)), "n": pa.array([7] * 1_100_000, pa.int32())}))
        frame = open_table(Path(folder) / "t").to_spark(spark).select("n")
        for df, count, most in ((frame.where("n > 7"), 0, 0), (frame, 3, 0), (frame.where("hash(n) = 1"), 0, 1)):
            rows, jobs = _jobs(spark, lambda df=df: df.take(3))
            assert (len(rows), jobs) == (count, most), (len(rows), jobs)


def check_threads_do_not_share_what_expressions_hold(spark: SparkSession, path: str) -> None:
    """Variables of lambdas, and patterns that functions keep from the row before."""
    count = 3000
    columns = {
        "id": pa.array(range(count)),
        "t": [f"t{number}" for number in range(count)],
        "p": [f"^t{number + number % 2}$" for number in range(count)],
    }
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(Path(folder) / "t", "id bigint, t string, p string", record_key="id", buckets=1)
        table.bulk_insert(pa.table(columns))
        frame = open_table(Path(folder) / "t").to_spark(spark)
        for text, wanted in (
            ("exists(array(id, id + 1), x -> x % 7 = id % 7 AND x = id)", count),
            ("regexp_replace(t, p, 'x') = 'x'", count // 2),
        ):
            selected = frame.where(text)
            with ThreadPoolExecutor(4) as pool:
                counts = [*pool.map(lambda _, df=selected: len(df.collect()), range(24))]
            assert counts == [wanted] * 24, text


def check_generated_filters_of_the_driver(spark: SparkSession, path: str) -> None:
    """The driver's rows are those of tasks, for every type, and so are the errors of values that cannot be cast."""
    names = tuple(name for name in COLUMNS if name not in NOT_IN_HUDI)
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        kinds = open_table(make_kinds(Path(folder) / "t"))
        first = min(entry.instant for entry in kinds.history())  # of one generation of types
        frame, by_tasks = (kinds.to_spark(spark, as_of=first, options=options) for options in (None, NEVER))
        with conf(spark, spark_sql_codegen_wholeStage="false"):
            for number in range(_FILTERS):
                text = make_filter(77_000_000 + number, names).text
                ours, wanted = (
                    _texts(lambda df=df, n=number, text=text: df.where(f"part = 'p{n % 8}'").where(text).collect())
                    for df in (frame, by_tasks)
                )
                assert ours == wanted, text
                compared += wanted is not None
            assert _texts(frame.where("part < 'p2'").collect) == _texts(by_tasks.where("part < 'p2'").collect)
    assert compared > _FILTERS // 2


DRIVER_CHECKS: dict[str, Callable[[SparkSession, str], None]] = {
    name.removeprefix("check_"): check
    for name, check in globals().items()
    if name.startswith("check_") and check.__module__ == __name__
}
