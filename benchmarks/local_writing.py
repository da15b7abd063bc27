"""Writes of TPC-H lineitem without Spark, beside delta-rs in one process, and once beside Apache Hudi on Spark."""

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import lineitem
from benchmarks.local_sides import BULK, JOBS, Delta, Ours, batches_of, copied, create, rows_of, running
from benchmarks.rival import RIVAL, apache_session
from table_writer.execution.local import LocalExecutor

OURS, DELTA, APACHE = "hudi-catalog", "delta-rs", f"Apache Hudi {RIVAL}"
#: How many times a batch is the memory limit.
OVER_LIMIT = 10


@dataclass
class Job:
    """Seconds of each counted run of one job on one side: of the clock, and of its process's processors."""

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


def measure(folder: Path, repeats: int, *, apache: bool = True) -> tuple[list[Job], Memory]:
    """Each side does each job in turn, after one uncounted round; upserts start from a copy of bulk_insert's table."""
    source = lineitem.source(folder / "data")
    jobs = {(name, side): Job(name, side) for name in JOBS for side in (OURS, DELTA)}
    with running(Ours, folder) as ours, running(Delta, folder) as delta:
        for attempt in range(repeats + 1):
            for (name, side), job in jobs.items():
                wall, cpu, job.megabytes = ours(name) if side == OURS else delta(name)
                if attempt:
                    job.wall.append(wall)
                    job.cpu.append(cpu)
    rows = rows_of(source)
    if apache:
        measure_apache(folder, source, batches_of(rows), jobs)
    return list(jobs.values()), bounded(folder, rows)


def measure_apache(folder: Path, source: Path, batches: dict[str, pa.Table], jobs: dict[tuple[str, str], Job]) -> None:
    """One counted run of each job in a Spark session that did each operation before."""
    options = {name: {**lineitem.OPTIONS, "hoodie.datasource.write.operation": name} for name in (BULK, "upsert")}
    with apache_session(folder) as session:

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
    seconds = time.perf_counter() - started
    pools = (pa.default_memory_pool(), pa.jemalloc_memory_pool())  # around the write, and in it
    answer.send((sum(pool.max_memory() for pool in pools), seconds))


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
