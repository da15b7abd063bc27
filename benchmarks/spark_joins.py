"""Joins and group-bys by bucket, beside Spark's shuffled ones over the same files.

`python -m benchmarks.spark_joins FOLDER ROWS` measures smaller tables than those of 5 million rows.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from benchmarks.spark_writing import processor_seconds
from benchmarks.writing import spark_session
from hudi_catalog import create_table, open_table
from hudi_catalog.spark_table import HudiTable
from spark_writer.read.bucket_scan import bucket_work
from spark_writer.read.jvm import elements

ROWS, UNCOUNTED = 5_000_000, 1
OURS, SHUFFLED = "by bucket", "Spark, shuffled"
TABLES = {"orders": 8, "payments": 4}
#: Rows that are made at once.
_BATCH = 1_000_000


@dataclass
class Side:
    """Seconds of one way to answer a question, run by run: of processors, JVM and Python together, and of the clock."""

    question: str
    name: str
    ask: Callable[[], object]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def make(folder: Path, name: str, rows: int) -> Path:
    """A table keyed by texts; of two tables nine rows of ten have a pair."""
    path = folder / f"{name}-{rows}"
    if path.exists():
        return path
    table = create_table(path, f"id string, {name}_n bigint, {name}_x double", record_key="id", buckets=TABLES[name])
    first = 0 if name == "orders" else rows // 10

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(first, first + rows, _BATCH):
            numbers = np.arange(start, min(start + _BATCH, first + rows))
            ids = pa.array([f"key {number:010d}" for number in numbers])
            columns = {"id": ids, f"{name}_n": numbers * 7 % 1001, f"{name}_x": numbers * 0.5}
            yield from pa.table(columns).to_batches()

    table.bulk_insert(pa.Table.from_batches(list(batches())))
    return path


def sides(spark: SparkSession, folder: Path, rows: int) -> Iterator[Side]:
    """Both ways to join and to group, of which all rows are summed up."""
    paths = {name: make(folder, name, rows) for name in TABLES}
    orders, payments = (HudiTable.for_path(spark, path) for path in paths.values())
    files = {name: [str(split.path) for split in open_table(path).scan().plan().splits] for name, path in paths.items()}
    plain = {name: spark.read.parquet(*files[name]).select("id", f"{name}_n", f"{name}_x") for name in TABLES}
    sums = [F.count("*"), F.sum("orders_n"), F.sum("payments_n"), F.sum("orders_x")]
    joined = orders.join(payments, "id")
    grouped = orders.group_by("id").agg("sum(orders_n) AS n", "max(orders_x) AS x")
    check(joined)
    check(grouped)
    question = f"join of {rows:,} and {rows:,} rows, {' and '.join(map(str, TABLES.values()))} buckets"
    yield Side(question, SHUFFLED, lambda: plain["orders"].join(plain["payments"], "id").agg(*sums).collect())
    yield Side(question, OURS, lambda: joined.agg(*sums).collect())
    question, total = f"group-by of {rows:,} rows into as many groups", [F.count("*"), F.sum("n"), F.sum("x")]
    theirs = plain["orders"].groupBy("id").agg(F.sum("orders_n").alias("n"), F.max("orders_x").alias("x"))
    yield Side(question, SHUFFLED, lambda: theirs.agg(*total).collect())
    yield Side(question, OURS, lambda: grouped.agg(*total).collect())


def check(frame: DataFrame) -> None:
    """What is measured has neither an exchange nor a sort."""
    plan = frame._jdf.queryExecution().sparkPlan()  # noqa: SLF001 - PySpark has no other way
    works = [bucket_work(int(leaf.rdd().id())) for leaf in elements(plan.collectLeaves())]
    assert all(work is not None and "Exchange" not in work.plan and "Sort [" not in work.plan for work in works)


def measure(folder: Path, repeats: int, rows: int = ROWS) -> list[Side]:
    """All sides in turn, after uncounted rounds; answers have to be equal."""
    with spark_session() as spark:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # small tables are joined like large ones
        asked = [*sides(spark, folder, rows)]
        for attempt in range(repeats + UNCOUNTED):
            answers: dict[str, object] = {}
            for side in asked:
                cpu, wall = processor_seconds(), time.perf_counter()
                answer = side.ask()
                assert answers.setdefault(side.question, answer) == answer
                if attempt >= UNCOUNTED:
                    side.cpu.append(processor_seconds() - cpu)
                    side.wall.append(time.perf_counter() - wall)
    return asked


def table(asked: list[Side]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield "| question | side | CPU runs (s) | CPU median (s) | wall median (s) | CPU of the shuffled one |"
    yield "|---|---|---|---|---|---|"
    theirs = {side.question: statistics.median(side.cpu) for side in asked if side.name == SHUFFLED}
    for side in asked:
        cpu, wall = statistics.median(side.cpu), statistics.median(side.wall)
        runs = ", ".join(f"{one:.2f}" for one in side.cpu)
        share = cpu / theirs[side.question]
        yield f"| {side.question} | {side.name} | {runs} | {cpu:.2f} | {wall:.2f} | {share:.2f} |"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    print("\n".join(table(measure(place, 3, int(sys.argv[2]) if len(sys.argv) > 2 else ROWS))))
