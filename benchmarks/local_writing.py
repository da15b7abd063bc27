"""Writes of TPC-H lineitem without Spark, beside delta-rs in one process, and once beside Apache Hudi on Spark."""

import contextlib
import multiprocessing
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks import lineitem
from table_writer.execution.local import LocalExecutor
from table_writer.writer import TableWriter
from tests.support.apache_hudi_client import ApacheHudi

RIVAL = "1.2.0"
OURS, DELTA, APACHE = "hudi-catalog", "delta-rs", f"Apache Hudi {RIVAL}"
BULK = "bulk_insert"
#: Columns that an upsert changes, by the upsert's name.
UPSERTS = {
    "upsert of 1 %, 1 column changed": ["l_comment"],
    "upsert of 1 %, 4 columns": ["l_comment", "l_discount", "l_shipmode", "l_quantity"],
    "upsert of 1 %, all but the key": [],
}
THREE = "upsert of 3 rows"
#: How many times a batch is the memory limit.
OVER_LIMIT = 10


@dataclass
class Job:
    """Seconds of each counted run of one job on one side: of the clock, and of this process's processors."""

    name: str
    side: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    megabytes: float = 0.0


@dataclass(frozen=True)
class Memory:
    """A write of a batch that is several times the limit."""

    batch: int
    limit: int
    peak: int
    seconds: float


def rows_of(path: Path) -> pa.Table:
    """A Parquet file in memory, in plain types."""
    table = pq.read_table(path).replace_schema_metadata(None)
    plain = {pa.string_view(): pa.string()}
    fields = [pa.field(column.name, plain.get(column.type, column.type)) for column in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


def changed(rows: pa.Table, columns: list[str]) -> pa.Table:
    """One row in a hundred, drawn at random, with other values in some columns: all but the key where none is named."""
    draw = np.random.default_rng(1)
    chosen = rows.take(pa.array(np.flatnonzero(draw.random(rows.num_rows) < 0.01)))
    for name in columns or [name for name in rows.column_names if name not in lineitem.KEY]:
        column = chosen[name]
        if pa.types.is_string(column.type):
            column = pc.binary_join_element_wise("corrected", column, " ")
        else:
            column = column.take(pa.array(draw.permutation(len(column))))
        chosen = chosen.set_column(rows.schema.get_field_index(name), name, column)
    return chosen.combine_chunks()


def create(path: Path, schema: pa.Schema, executor: LocalExecutor) -> TableWriter:
    fresh(path)
    return TableWriter.create(
        path,
        schema,
        record_key=lineitem.KEY,
        buckets=lineitem.BUCKETS,
        name=lineitem.OPTIONS["hoodie.table.name"],
        ordering=lineitem.OPTIONS["hoodie.datasource.write.precombine.field"],
        options=lineitem.OPTIONS,
        executor=executor,
    )


def merge(path: Path, rows: pa.Table) -> None:
    on_key = " and ".join(f"old.{name} = new.{name}" for name in lineitem.KEY)
    merger = DeltaTable(str(path)).merge(rows, on_key, source_alias="new", target_alias="old")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def fresh(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def measure(folder: Path, repeats: int, *, apache: bool = True) -> tuple[list[Job], Memory]:
    """Each side does each job in turn, after one uncounted round; upserts start from a copy of bulk_insert's table."""
    source = lineitem.source(folder / "data")
    rows = rows_of(source)
    executor = LocalExecutor()
    jobs: dict[tuple[str, str], Job] = {}

    def run(name: str, side: str, path: Path, work: Callable[[], object]) -> None:
        job = jobs.setdefault((name, side), Job(name, side))
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        job.wall.append(time.perf_counter() - wall)
        job.cpu.append(time.process_time() - cpu)
        job.megabytes = lineitem.bytes_on_disk(path) / 1e6

    ours, delta = folder / "local-ours", folder / "local-delta"
    batches = {name: changed(rows, columns) for name, columns in UPSERTS.items()}
    batches[THREE] = batches["upsert of 1 %, 1 column changed"].slice(1000, 3)
    for _ in range(repeats + 1):
        writer = create(ours, rows.schema, executor)
        run(BULK, OURS, ours, lambda writer=writer: writer.bulk_insert(rows))
        fresh(delta)
        run(BULK, DELTA, delta, lambda: write_deltalake(str(delta), rows))
        for name, batch in batches.items():
            path = copied(ours, folder / "local-ours-upsert")
            writer = TableWriter.open(path, options=lineitem.OPTIONS, executor=executor)
            run(name, OURS, path, lambda writer=writer, batch=batch: writer.upsert(batch))
            path = copied(delta, folder / "local-delta-merge")
            run(name, DELTA, path, lambda path=path, batch=batch: merge(path, batch))
    for job in jobs.values():
        job.wall, job.cpu = job.wall[1:], job.cpu[1:]
    if apache:
        measure_apache(folder, source, batches, jobs)
    return list(jobs.values()), bounded(folder, rows)


def measure_apache(folder: Path, source: Path, batches: dict[str, pa.Table], jobs: dict[tuple[str, str], Job]) -> None:
    """One counted run of each job in a Spark session that did each operation before."""
    options = {name: {**lineitem.OPTIONS, "hoodie.datasource.write.operation": name} for name in (BULK, "upsert")}
    with contextlib.closing(ApacheHudi(RIVAL, folder)) as session:

        def run(name: str, path: Path, rows: Path, operation: str) -> None:
            started = time.perf_counter()
            session.write_file(path, rows, options[operation])
            seconds = time.perf_counter() - started
            jobs[name, APACHE] = Job(name, APACHE, [seconds], [], lineitem.bytes_on_disk(path) / 1e6)

        # the session remembers files by path, so that each table has its own folder
        base = folder / "local-apache"
        for path in (folder / "local-apache-first", base):
            run(BULK, path, source, BULK)
        for number, (name, batch) in enumerate([next(iter(batches.items())), *batches.items()]):
            changes = folder / f"local-batch-{number}.parquet"
            pq.write_table(batch, changes)
            run(name, copied(base, folder / f"local-apache-{number}"), changes, "upsert")


def bounded(folder: Path, rows: pa.Table) -> Memory:
    """A separate process writes the rows, mapped from a file, under a tenth of their bytes."""
    data = folder / "data/lineitem.arrow"
    with pa.OSFile(str(data), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as out:
        out.write_table(rows, max_chunksize=1 << 16)
    limit = rows.nbytes // OVER_LIMIT
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("spawn").Process(
        target=_write_bounded, args=(data, folder / "local-bounded", limit, sender)
    )
    child.start()
    peak, seconds = receiver.recv()
    child.join()
    return Memory(rows.nbytes, limit, peak, seconds)


def _write_bounded(data: Path, path: Path, limit: int, answer: "multiprocessing.connection.Connection") -> None:
    file = pa.ipc.open_file(pa.memory_map(str(data)))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    writer = create(path, file.schema, LocalExecutor(memory=limit))
    started = time.perf_counter()
    writer.bulk_insert(batches)
    answer.send((pa.default_memory_pool().max_memory(), time.perf_counter() - started))


def table(jobs: list[Job], memory: Memory) -> Iterator[str]:
    """The rows of a Markdown table."""
    yield "| job | side | runs (s) | median (s) | times delta-rs | processors (s) | times delta-rs | data files (MB) |"
    yield "|---|---|---|---|---|---|---|---|"
    for job in jobs:
        rival = next(other for other in jobs if other.name == job.name and other.side == DELTA)
        runs = ", ".join(f"{seconds:.2f}" for seconds in job.wall)
        wall = statistics.median(job.wall)
        cpu, ratio = "-", "-"
        if job.cpu:
            median = statistics.median(job.cpu)
            cpu, ratio = f"{median:.2f}", f"{median / statistics.median(rival.cpu):.2f}"
        yield (
            f"| {job.name} | {job.side} | {runs} | {wall:.2f} | {wall / statistics.median(rival.wall):.2f} | {cpu} | "
            f"{ratio} | {job.megabytes:.1f} |"
        )
    yield ""
    yield (
        f"Under a limit of {memory.limit >> 20} MiB, a batch of {memory.batch >> 20} MiB is written in "
        f"{memory.seconds:.1f} s with {memory.peak >> 20} MiB of Arrow memory at most, "
        f"{memory.peak / memory.limit:.2f} times the limit."
    )
