"""A commit of 100 rows and a plan of one partition as the table grows: seconds, requests and bytes read.

The rows fall into one partition, whose files are real. All other files exist in the metadata table only, which this
project's own writer made, as if it had just been compacted.
"""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa

from benchmarks import synthetic
from benchmarks.writing import spark_session
from hudi_catalog import HudiTable, create_table, open_table
from table_format.actions.commit import CommitMetadata
from table_format.codecs.avro_schema import schema_text
from table_format.instant import Action, Instant, State
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.writer import drop_metadata_table

SIZES = (800, 8_000, 80_000, 400_000, 1_000_000)
BUCKETS = 8
BATCH = 100
LIVE_ROWS = 8_000
#: Commits between two compactions of the metadata table, so that one of the counted commits compacts.
COMMITS = 12
#: Name of a kind of table, its index, and whether it has partitions. A table without them has one record of all files
#: in its listing, which each write reads.
KINDS = (
    ("BUCKET", "BUCKET", True),
    ("RECORD_INDEX", "RECORD_INDEX", True),
    ("RECORD_INDEX, no partitions", "RECORD_INDEX", False),
)


@dataclass
class Figures:
    """Of one size of table.

    Attributes:
        files: file groups.
        kind: how records are found, and whether the table has partitions.
        executor: who wrote.
        commits: seconds of each commit, without those that compacted the metadata table.
        busy: for how long each keeps processors busy, without Spark's JVM.
        compactions: seconds of each commit that did, and megabytes that it read.
        requests: to the storage, of each commit that did not.
        megabytes: read by each of them.
    """

    files: int
    kind: str
    executor: str
    commits: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    compactions: list[tuple[float, float]] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)


@dataclass
class Planned:
    """A cold plan of one partition: seconds, requests and megabytes read."""

    files: int
    seconds: list[float]
    requests: int
    megabytes: float


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the requests and bytes read of this process."""
    counts: Counter[str] = Counter()

    def wrapped(name: str) -> Callable[..., Any]:
        method = getattr(Storage, name)

        @functools.wraps(method)
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            counts["requests"] += 1
            counts["bytes"] += len(answer) if name.startswith("read") else 0
            return answer

        return call

    names = ("list", "read", "read_range", "create", "overwrite", "exists", "delete")
    with mock.patch.multiple(Storage, **{name: wrapped(name) for name in names}):
        yield counts


def shape(files: int) -> synthetic.Shape:
    """Of the part of the table that is not real."""
    return synthetic.Shape(files - BUCKETS, 5, 1)


def rows(count: int, seed: int) -> pa.Table:
    """Rows of the live partition, their keys drawn at random."""
    schema = shape(BUCKETS + 1).schema
    random = np.random.default_rng(seed)
    numbers = np.sort(random.choice(LIVE_ROWS, count, replace=False))
    columns = {"day": pa.array(np.zeros(count, np.int32))}
    for name, kind in zip(schema.names[1:], schema.types[1:], strict=True):
        columns[name] = synthetic.bounds(numbers if name == "c00" else random.integers(0, 1 << 20, count), kind)
    return pa.table(columns, schema=schema)


def build(path: Path, files: int, index: str, *, partitioned: bool) -> None:
    """Make a table of so many file groups, eight per partition or all without one."""
    made = shape(files)
    options = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    buckets = BUCKETS if index == "BUCKET" else None
    by = "day" if partitioned else ()
    create_table(path, made.schema, record_key="c00", partition_by=by, buckets=buckets, index=index, options=options)
    storage = Storage(str(path))
    client = TableClient.open(storage)
    layout = IndexLayout.of(client)
    schema = schema_text(made.schema, client.config.name)
    content = CommitMetadata(operation_type="BULK_INSERT", extra_metadata={"schema": schema}).to_json()
    for state in State:
        instant = Instant(synthetic.INSTANT, Action.COMMIT, state)
        storage.create(f".hoodie/{instant.file_name}", content if state is State.COMPLETED else b"")
    numbers = np.arange(made.files)
    names = pa.array(
        [f"{n % BUCKETS:08d}-0000-4000-8000-{n:012d}-0_0-0-0_{synthetic.INSTANT}.parquet" for n in numbers]
    )
    partitions = pa.array([f"day={1 + n // BUCKETS}" if partitioned else "" for n in numbers])
    drop_metadata_table(client)
    create_metadata_table(
        client,
        files=pa.table({"partition": partitions, "file_name": names, "size": np.full(made.files, synthetic.SIZE)}),
        column_stats=synthetic.statistics(names, partitions, made),
        record_index=layout,
    )
    # no row goes into a file that is not there, however small it seems
    open_table(path, options={"hoodie.parquet.small.file.limit": "0"}).upsert(rows(LIVE_ROWS, 0))


def commits(path: Path, upsert: Callable[[pa.Table], Any], figures: Figures) -> None:
    """Write the batches; the first one is not counted."""
    compactions = path / ".hoodie/metadata/.hoodie"
    for number in range(COMMITS + 1):
        batch = rows(BATCH, number)
        before = len(list(compactions.glob("*.commit")))
        with counted() as counts:
            started, busy = time.perf_counter(), time.process_time()
            upsert(batch)
            seconds, busy = time.perf_counter() - started, time.process_time() - busy
        compacted = len(list(compactions.glob("*.commit"))) > before
        if compacted:
            figures.compactions.append((seconds, counts["bytes"] / 1e6))
        elif number:
            figures.commits.append(seconds)
            figures.busy.append(busy)
            figures.requests.append(counts["requests"])
            figures.megabytes.append(counts["bytes"] / 1e6)


def plans(path: Path, repeats: int) -> Planned:
    """Plan one partition in a separate process, each time with the table opened again."""
    command = [sys.executable, "-m", "benchmarks.growth", str(path), str(repeats)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return Planned(**json.loads(printed))


def plan_cold(path: Path, repeats: int) -> Planned:
    """Open the table and plan; an uncounted plan before imports what is needed."""
    from catalog import Table

    planned = Planned(0, [], 0, 0.0)
    for number in range(repeats + 1):
        with counted() as counts:
            started = time.perf_counter()
            splits = Table.open(str(path)).scan("day = 0 AND c00 >= 0").plan().splits
            seconds = time.perf_counter() - started
        if len(splits) != BUCKETS:
            raise SystemExit(f"{path}: {len(splits)} splits instead of {BUCKETS}")
        if number:
            planned.seconds.append(seconds)
    planned.requests, planned.megabytes = counts["requests"], counts["bytes"] / 1e6
    return planned


def run(folder: Path, repeats: int, sizes: Sequence[int] = SIZES) -> tuple[list[Figures], list[Planned]]:
    """All sizes, all kinds of tables, both executors."""
    measured, planned = [], []
    with spark_session() as spark:
        for files, (number, (kind, index, partitioned)) in itertools.product(sizes, enumerate(KINDS)):
            path = folder / f"growth-{number}-{files}"
            build(path, files, index, partitioned=partitioned)
            if not number:
                planned.append(plans(path, repeats))
                planned[-1].files = files
            local = open_table(path)
            spark_table = HudiTable.for_path(spark, str(path))
            sides = {
                "local": local.upsert,
                "Spark": lambda batch, table=spark_table: table.upsert(spark.createDataFrame(batch)),
            }
            for executor, upsert in sides.items():
                figures = Figures(files, kind, executor)
                commits(path, upsert, figures)
                measured.append(figures)
                print(next(itertools.islice(table([figures], []), 2, None)), flush=True)
            shutil.rmtree(path)
    return measured, planned


def table(measured: Sequence[Figures], planned: Sequence[Planned]) -> Iterator[str]:
    """The rows of Markdown tables."""
    heads = [
        "file groups",
        "table",
        "executor",
        "commit of 100 rows (s)",
        "processors (s)",
        "requests",
        "MB read",
        "compacting (s; MB read)",
    ]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for one in measured:
        compacting = ", ".join(f"{seconds:.2f}; {megabytes:.1f}" for seconds, megabytes in one.compactions)
        busy = "-" if one.executor == "Spark" else f"{statistics.median(one.busy):.3f}"
        yield (
            f"| {one.files:,} | {one.kind} | {one.executor} | {statistics.median(one.commits):.3f} | {busy} | "
            f"{statistics.median(one.requests):.0f} | {statistics.median(one.megabytes):.2f} | {compacting} |"
        )
    if planned:
        yield ""
        yield "| file groups | cold plan of one partition, median (s) | requests | MB read |"
        yield "|---|---|---|---|"
    for plan in planned:
        yield f"| {plan.files:,} | {statistics.median(plan.seconds):.3f} | {plan.requests} | {plan.megabytes:.2f} |"


if __name__ == "__main__":
    print(json.dumps(asdict(plan_cold(Path(sys.argv[1]), int(sys.argv[2])))))
