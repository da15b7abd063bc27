"""Many small commits to one table: how a commit's time, requests and bytes, and the files below `.hoodie`, change.

The table keeps its size: each commit upserts some of the same keys. Time is counted in seconds of the processor, which
a busy machine disturbs less; on Spark by the clock, since the JVM has a part in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.growth import counted
from benchmarks.writing import spark_session
from hudi_catalog import HudiTable, create_table, open_table

COMMITS, SPARK_COMMITS = 10_000, 1_000
BATCH = 20
KEYS = 400
PARTITIONS = 2
BUCKETS = 2
INDEXES = ("BUCKET", "RECORD_INDEX")
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
#: Commits between two counts of files, so that every state between two archivings and compactions is met.
STEP = 7
#: Commits at the beginning that are left out: before the first archiving the timeline still grows.
START = 100


@dataclass
class Life:
    """Figures of one table, one value a commit.

    Attributes:
        index: how records are found.
        seconds: of the processor, on Spark of the clock.
        requests: to the storage.
        megabytes: read.
        files: below `.hoodie`, after each `STEP` commits.
    """

    index: str
    seconds: list[float] = field(default_factory=list)
    requests: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    executor: str = "local"


def batch(number: int) -> pa.Table:
    """Some of the table's keys, each always in the same partition."""
    keys = np.sort(np.random.default_rng(number).choice(KEYS, BATCH, replace=False))
    columns = [[f"k{key:05d}" for key in keys], [f"p={key % PARTITIONS}" for key in keys], [number] * BATCH]
    return pa.table(columns, schema=SCHEMA)


def live(
    path: Path,
    index: str,
    commits: int,
    note: Callable[[Life], None] = lambda _: None,
    spark: SparkSession | None = None,
) -> Life:
    """Make a table and its commits, by Spark if there is a session."""
    buckets = BUCKETS if index == "BUCKET" else None
    create_table(path, SCHEMA, record_key="id", partition_by="p", buckets=buckets, index=index)
    life = Life(index, executor="local" if spark is None else "Spark")
    opened: Any = open_table(path) if spark is None else HudiTable.for_path(spark, str(path))
    clock = time.process_time if spark is None else time.perf_counter
    for number in range(commits):
        upserted: Any = batch(number) if spark is None else spark.createDataFrame(batch(number))
        with counted() as counts:
            started = clock()
            opened.upsert(upserted)
            life.seconds.append(clock() - started)
        life.requests.append(counts["requests"])
        life.megabytes.append(counts["bytes"] / 1e6)
        if number % STEP == 0:
            life.files.append(sum(len(names) for _, _, names in os.walk(path / ".hoodie")))
        note(life)
    return life


def growth(values: Sequence[float], start: int) -> float:
    """By which part of its beginning a line fitted to the values rises until its end."""
    later = np.array(values[start:])
    slope, first = np.polyfit(np.arange(len(later)), later, 1)
    return float(slope * (len(later) - 1) / first)


def run(folder: Path, commits: int = COMMITS) -> list[Life]:
    """A table of each index."""

    def note(life: Life) -> None:
        if len(life.seconds) % 500 == 0:
            print(next(rows([life])), flush=True)

    lives = [live(folder / index.lower(), index, commits, note) for index in INDEXES]
    with spark_session() as spark:
        return [*lives, *(live(folder / f"spark-{index}", index, SPARK_COMMITS, note, spark) for index in INDEXES)]


def rows(lives: Sequence[Life]) -> Iterator[str]:
    """The rows of the table."""
    for life in lives:
        start = min(START, len(life.seconds) // 4)
        columns = [life.seconds, life.requests, life.megabytes]
        cells = [f"{np.mean(column[start:]):.3g}, {growth(column, start):+.1%}" for column in columns]
        files = life.files[start // STEP :]
        cells = [f"{len(life.seconds):,}", life.executor, life.index, *cells, f"{min(files):.0f}-{max(files):.0f}"]
        yield f"| {' | '.join(cells)} |"


def table(lives: Sequence[Life]) -> Iterator[str]:
    """A Markdown table: means, and by how much a fitted line rises from the first commit to the last."""
    yield "| commits | executor | index | seconds | requests | MB read | files below `.hoodie` |"
    yield "|---|---|---|---|---|---|---|"
    yield from rows(lives)
