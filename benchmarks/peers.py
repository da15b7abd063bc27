"""Planning beside hudi-rs and Apache Hudi 1.2.0 in Spark, on one table of 2,048 real files."""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks.committed import commit_file
from benchmarks.rival import RIVAL, apache_session
from catalog import Table
from table_format.actions.commit import WriteStat
from table_format.codecs.arrow_numpy import from_numpy
from table_format.codecs.avro_schema import schema_text
from table_format.config.index_definitions import IndexDefinition, define_index
from table_format.config.table_config import update_table_config
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.column_statistics import concat_statistics, indexable_columns

FILES, ROWS, PARTITIONS = 2_048, 200, 32
SCHEMA = pa.schema(
    [("id", pa.string()), ("at", pa.int64()), ("price", pa.float64()), ("name", pa.string()), ("day", pa.int32())]
)
#: What is asked: as SQL, and as hudi-rs takes it.
QUESTIONS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "one file of many": ("at BETWEEN 100000 AND 100100", [("at", ">=", "100000"), ("at", "<=", "100100")]),
    "a tenth": ("price < 41000.0", [("price", "<", "41000.0")]),
    "partition and range": ("day = 7 AND at > 200000", [("day", "=", "7"), ("at", ">", "200000")]),
}


@dataclass
class Answer:
    """How long one side plans one question, first and again (seconds), and how many files it keeps."""

    question: str
    side: str
    cold: float
    warm: float
    kept: int


def build(path: Path) -> None:
    """Write the files and commit them, metadata table and column statistics included."""
    properties = {
        "hoodie.table.name": "peers",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.precombine.field": "at",
        "hoodie.table.partition.fields": "day",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.timeline.timezone": "UTC",
    }
    client = create_table(Storage(str(path)), properties)
    with WriteTransaction.begin(client, "commit", "BULK_INSERT") as transaction:
        transaction.mark_inflight()
        written = [write_file(transaction, number) for number in range(FILES)]
        stats = [stat for stat, _ in written]
        columns = concat_statistics(columns for _, columns in written)
        transaction.commit(stats, schema_json=schema_text(SCHEMA, "peers"), column_stats=columns)
    define_indexes(client, indexable_columns(SCHEMA, client.config.raw))


def define_indexes(client: TableClient, columns: list[str]) -> None:
    """Say which columns are indexed, as 1.x writers do: without that, Apache 1.2 does not use the statistics."""
    definition = IndexDefinition("column_stats", "column_stats", "column_stats", tuple(columns))
    update_table_config(client.storage, define_index(client.storage, client.config, definition))


def write_file(transaction: WriteTransaction, number: int) -> tuple[WriteStat, pa.Table]:
    """File n holds the n-th 200 of the rows."""
    numbers = np.arange(number * ROWS, (number + 1) * ROWS)
    keys = pa.array([f"k{n:09d}" for n in numbers])
    days = from_numpy(np.full(ROWS, number % PARTITIONS, np.int32))
    names = pa.array([f"n{n % 977}" for n in numbers])
    rows = pa.table([keys, from_numpy(numbers), from_numpy(numbers.astype(np.float64)), names, days], schema=SCHEMA)
    return commit_file(transaction, rows, keys, number, f"day={number % PARTITIONS}")


def ours(path: Path) -> Callable[[str], int]:
    table = Table.open(str(path))
    return lambda question: len(table.scan(QUESTIONS[question][0]).plan().splits)


def hudi_rs(path: Path) -> Callable[[str], int]:
    table = HudiTableBuilder.from_base_uri(str(path)).build()
    return lambda question: len(table.get_file_slices(HudiReadOptions(filters=QUESTIONS[question][1])))


def measure(folder: Path, repeats: int) -> list[Answer]:
    """Each side plans each question in a table that it just opened, then again in the same."""
    path = folder / "peers"
    if not path.exists():
        build(path)
    answers = []
    with apache_session(folder) as apache:
        apache.plan_seconds(path, QUESTIONS["a tenth"][0], 1)  # the first job of a JVM is not counted
        for question in QUESTIONS:
            for side, opener in (("hudi-catalog", ours), ("hudi-rs", hudi_rs)):
                answers.append(Answer(question, side, *_timed(lambda opener=opener: opener(path), question, repeats)))
            runs = apache.plan_seconds(path, QUESTIONS[question][0], repeats)
            cold, warm = statistics.median(runs["cold"]), statistics.median(runs["warm"])
            answers.append(Answer(question, f"Apache Hudi {RIVAL}", cold, warm, runs["kept"]))
    return answers


def _timed(opener: Callable[[], Callable[[str], int]], question: str, repeats: int) -> tuple[float, float, int]:
    cold, warm, kept = [], [], 0
    for _ in range(repeats):
        started = time.perf_counter()
        plan = opener()
        kept = plan(question)
        cold.append(time.perf_counter() - started)
        started = time.perf_counter()
        plan(question)
        warm.append(time.perf_counter() - started)
    return statistics.median(cold), statistics.median(warm), kept


def table(answers: list[Answer]) -> Iterator[str]:
    """The rows of a Markdown table."""
    yield "| question | side | opened and planned (ms) | times ours | again (ms) | times ours | files kept |"
    yield "|---|---|---|---|---|---|---|"
    for answer in answers:
        own = next(a for a in answers if a.question == answer.question and a.side == "hudi-catalog")
        yield (
            f"| {answer.question} | {answer.side} | {answer.cold * 1000:.1f} | {answer.cold / own.cold:.1f} | "
            f"{answer.warm * 1000:.1f} | {answer.warm / own.warm:.1f} | {answer.kept} |"
        )
