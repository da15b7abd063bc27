"""DataFrames that are planned at each query, beside Spark reading files by name, and beside Apache's bundle.

`python -m benchmarks.spark_reading FOLDER ROWS` measures a smaller table than the 3 million rows in 480 files.
"""

import contextlib
import itertools
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks import spark_star
from benchmarks.rival import RIVAL, apache_session
from benchmarks.synthetic import Shape, build
from benchmarks.writing import spark_session
from catalog.table import Table as ReadTable
from hudi_catalog import create_table, open_table
from hudi_catalog.spark_table import HudiTable
from tests.support.apache_hudi_client import ApacheHudi

ROWS, PARTITIONS, BUCKETS = 3_000_000, 30, 16
UNCOUNTED = 2
KEYS = 100
MANY = Shape(files=100_000, columns=3, partitions=10_000)
OURS, RIGHT_FILE, ALL_FILES = "planned", "the right file by name", "all files by name"
WITHOUT_SPARK = "planned, without Spark"
SKIPPING = {
    "hoodie.enable.data.skipping": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}


@dataclass
class Side:
    """Seconds of one way to answer a question, run by run."""

    question: str
    name: str
    ask: Callable[[], object]
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def make(folder: Path, count: int) -> Path:
    """A table by month and key, in 480 files."""
    path = folder / f"keyed-{count}"
    if not path.exists():
        table = create_table(path, "user_id bigint, month int, amount double, note string", record_key="user_id",
                             partition_by="month", buckets=BUCKETS)  # fmt: skip
        numbers = np.arange(count)
        columns = {
            "user_id": numbers,
            "month": (numbers % PARTITIONS).astype(np.int32),
            "amount": numbers * 0.5,
            "note": pa.array([f"note {number % 1000}" for number in range(count)]),
        }
        table.bulk_insert(pa.table(columns))
    return path


def selective(spark: SparkSession, path: Path, count: int) -> Iterator[Side]:
    """One key, with its partition and alone, and another key each time; every row."""
    key = count // 2
    whole, alone = f"user_id = {key} AND month = {key % PARTITIONS}", f"user_id = {key}"
    table = open_table(path)
    frame = table.to_spark(spark)
    files = [str(split.path) for split in table.scan().plan().splits]
    [right] = [str(split.path) for split in table.scan(whole).plan().splits]
    listed = spark.read.schema(frame.schema).parquet(*files)
    one = f"one key of {count:,} rows"
    for name, where in ((f"{one}, and its partition", whole), (one, alone)):
        yield Side(name, RIGHT_FILE, lambda: spark.read.schema(frame.schema).parquet(right).where(whole).collect())
        yield Side(name, OURS, lambda where=where: frame.where(where).collect())  # type: ignore[misc]
        yield Side(name, ALL_FILES, lambda where=where: listed.where(where).collect())  # type: ignore[misc]
    wheres = itertools.cycle(one_key_each(count))
    rights = itertools.cycle([(str(table.scan(one).plan().splits[0].path), one) for one in one_key_each(count)])

    def right_one() -> object:
        file, where = next(rights)
        return spark.read.schema(frame.schema).parquet(file).where(where).collect()

    yield Side(another_key(count), RIGHT_FILE, right_one)
    yield Side(another_key(count), OURS, lambda: frame.where(next(wheres)).collect())
    total = "sum(amount)", "max(note)", "count(user_id)"
    yield Side("every row", ALL_FILES, lambda: listed.selectExpr(*total).collect())
    yield Side("every row", OURS, lambda: frame.selectExpr(*total).collect())


def another_key(count: int) -> str:
    """A question, of which each time is of another key."""
    return f"one key of {count:,} rows, and its partition, another key each time"


def one_key_each(count: int) -> list[str]:
    """Conditions that one row meets each."""
    keys = range(count // 3, count // 3 + 1009 * KEYS, 1009)
    return [f"user_id = {key} AND month = {key % PARTITIONS}" for key in keys]


def evolved(spark: SparkSession, folder: Path, count: int) -> Iterator[Side]:
    """Every row of a table of which half the files are from before a column was widened; Spark 4 reads both by name."""
    path = folder / f"evolved-{count}"
    if not path.exists():
        table = create_table(path, "user_id bigint, month int, n int, amount double", record_key="user_id",
                             partition_by="month", buckets=2)  # fmt: skip
        for first, kind in ((0, pa.int32()), (count // 2, pa.int64())):
            numbers = np.arange(first, first + count // 2)
            columns = {"user_id": numbers, "month": (numbers // (count // PARTITIONS)).astype(np.int32)}
            halves = {"n": pa.array(numbers).cast(kind), "amount": numbers % 1000 * 0.5}
            table.bulk_insert(pa.table({**columns, **halves}))
    table = open_table(path)
    frame = table.to_spark(spark)
    listed = spark.read.schema(frame.schema).parquet(*(str(split.path) for split in table.scan().plan().splits))
    total = "sum(n)", "sum(amount)", "count(user_id)"
    question = f"every row of {count:,}, half of them from before an int was widened"
    yield Side(question, ALL_FILES, lambda: listed.selectExpr(*total).collect())
    yield Side(question, OURS, lambda: frame.selectExpr(*total).collect())


def of_apache(apache: ApacheHudi, path: Path, count: int) -> Iterator[Side]:
    """The same questions to Apache's bundle, with data skipping."""
    for option, value in SKIPPING.items():
        apache.sql(f"SET {option}={value}")
    options = ", ".join(f"'{option}'='{value}'" for option, value in SKIPPING.items())
    apache.sql(f"CREATE TEMPORARY VIEW keyed USING hudi OPTIONS (path '{path}', {options})")
    key = count // 2
    name, one = f"Apache Hudi {RIVAL}", f"one key of {count:,} rows"
    texts = {
        f"{one}, and its partition": f"SELECT * FROM keyed WHERE user_id = {key} AND month = {key % PARTITIONS}",
        one: f"SELECT * FROM keyed WHERE user_id = {key}",
        "every row": "SELECT sum(amount), max(note), count(user_id) FROM keyed",
    }
    wheres = itertools.cycle(one_key_each(count))
    yield Side(another_key(count), name, lambda: apache.sql(f"SELECT * FROM keyed WHERE {next(wheres)}"))
    for question, text in texts.items():
        yield Side(question, name, lambda text=text: apache.sql(text))  # type: ignore[misc]


def deletes(spark: SparkSession, folder: Path, path: Path, count: int) -> Iterator[Side]:
    """One key after the other, with and without Spark, from copies of the table."""
    question, keys = f"delete of one key of {count:,} rows", itertools.count(count // 3)
    for name in (OURS, WITHOUT_SPARK):
        copy = folder / f"deletes-{'spark' if name == OURS else 'local'}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(path, copy)
        table = HudiTable.for_path(spark, copy) if name == OURS else open_table(copy)
        yield Side(question, name, lambda table=table: table.delete(f"user_id = {next(keys)}"))  # type: ignore[misc]


def planning(spark: SparkSession, folder: Path) -> Iterator[Side]:
    """What Spark's planner waits for where nearly all of 100,000 files in 10,000 partitions are kept."""
    path = folder / "wide-partitions"
    if not path.exists():
        build(path, MANY)
    from spark_writer.read.dataframe import scan_frame

    def opened() -> DataFrame:
        return scan_frame(spark, ReadTable.open(str(path)).scan())

    def plan(frame: DataFrame) -> None:
        query: Any = frame.where("day >= 1 AND c00 >= 0")
        query._jdf.queryExecution().sparkPlan().collectLeaves().apply(0).selectedPartitions()  # noqa: SLF001

    held = opened()
    question = f"planning of {MANY.files:,} kept files in {MANY.partitions:,} partitions"
    yield Side(question, OURS, lambda: plan(held))
    yield Side(f"{question}, table opened anew", OURS, lambda: plan(opened()))


def measure(
    folder: Path, repeats: int, count: int = ROWS, *, apache: bool = True
) -> tuple[list[Side], list[spark_star.Reading]]:
    """All sides in turn, after uncounted rounds; and what queries on a star read."""
    path = make(folder, count)
    with contextlib.ExitStack() as stack:
        spark = stack.enter_context(spark_session())
        asked = [*selective(spark, path, count), *evolved(spark, folder, count)]
        if apache:
            asked += of_apache(stack.enter_context(apache_session(folder)), path, count)
        changed = [*planning(spark, folder), *deletes(spark, folder, path, count)]
        for sides in (asked, changed):
            run(sorted(sides, key=lambda side: side.question), repeats)
        return [*asked, *changed], spark_star.measure(spark, folder)


def run(sides: list[Side], repeats: int) -> None:
    for attempt in range(repeats + UNCOUNTED):
        for side in sides:
            start = time.perf_counter()
            side.ask()
            if attempt >= UNCOUNTED:
                side.seconds.append(time.perf_counter() - start)


def table(sides: list[Side], star: list[spark_star.Reading]) -> Iterator[str]:
    """The lines of Markdown tables; the ratio is to the planned DataFrame's time."""
    yield "| question | side | runs (s) | median (s) | times ours |"
    yield "|---|---|---|---|---|"
    ours = {side.question: side.median for side in sides if side.name == OURS}
    for side in sorted(sides, key=lambda side: side.question):
        runs = ", ".join(f"{one:.3f}" for one in side.seconds)
        ratio = side.median / ours[side.question]
        yield f"| {side.question} | {side.name} | {runs} | {side.median:.3f} | {ratio:.2f} |"
    yield ""
    yield from spark_star.table(star)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    print("\n".join(table(*measure(place, 3, int(sys.argv[2]), apache=len(sys.argv) > 3))))
