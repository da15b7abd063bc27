"""bulk_insert of TPC-H lineitem by PySpark beside Spark's own sorted write, few rows, and the memory of a task."""

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks import lineitem
from benchmarks.writing import spark_session
from spark_writer import write_hudi
from table_format.meta_columns import META_COLUMNS

QUIET = {"hoodie.catalog.write.progress": "false"}
#: Spark's default codec and level.
BULK = {
    **lineitem.OPTIONS,
    **QUIET,
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.catalog.write.zstd.level": "3",
}
NO_SCAN = {"hoodie.catalog.write.direct.scan": "false"}
SPARK = "Spark's sorted write"
#: How many times a batch is the memory that a task may take.
OVER_LIMIT = 20
UNCOUNTED = 2
#: 600,572 rows: all jobs fit into a minute, for which a machine can be kept quiet.
SCALE = "0.1"


@dataclass
class Job:
    """Seconds of each counted run: of the clock, and of the processors of this process and all below it.

    Attributes:
        rival: Spark's job for the same rows; None for one that has no rival.
        folder: where its files are.
    """

    name: str
    rival: str | None
    folder: Path
    work: Callable[[Path], object]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Memory:
    """The most memory of one of Spark's Python workers, above what one takes that does nothing; bytes."""

    batch: int
    limit: int
    grown: int


def processor_seconds() -> float:
    """Of this process, the JVM and the workers."""
    total = 0.0
    process = psutil.Process()
    for one in [process, *process.children(recursive=True)]:
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def computed(df: DataFrame) -> DataFrame:
    """All rows, which Spark has to look at."""
    return df.where("l_orderkey >= 0")


def bulk_jobs(spark: SparkSession, source: str, folder: Path) -> Iterator[Job]:
    def scanned() -> DataFrame:
        return spark.read.parquet(source)

    def ours(rows: Callable[[], DataFrame], options: Mapping[str, str]) -> Callable[[Path], object]:
        return lambda path: write_hudi(rows(), path, {**BULK, **options}, mode="append")

    def theirs(rows: Callable[[], DataFrame]) -> Callable[[Path], object]:
        def work(path: Path) -> None:
            placed = rows().repartition(lineitem.BUCKETS).sortWithinPartitions(*lineitem.KEY)
            placed.write.option("compression", "zstd").parquet(str(path))

        return work

    for rows, name in ((scanned, "a bare scan"), (lambda: computed(scanned()), "a filter")):
        rival = f"{SPARK}, {name}"
        yield Job(f"bulk_insert, {name}", rival, folder / f"ours {name}", ours(rows, {}))
        if rows is scanned:
            yield Job("bulk_insert, a bare scan by Spark", rival, folder / "ours by Spark", ours(rows, NO_SCAN))
        yield Job(rival, None, folder / f"Spark {name}", theirs(rows))


def few_jobs(spark: SparkSession, folder: Path) -> Iterator[Job]:
    """Upserts of three rows without an index option, each into a new table."""
    file = folder / "few.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "ts": [1, 1, 1]}), file)
    options = {
        "hoodie.table.name": "few",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        **QUIET,
    }
    sources: dict[str, Callable[[], DataFrame]] = {
        "of a file": lambda: spark.read.parquet(str(file)),
        "of a list": lambda: spark.createDataFrame([(1, 1), (2, 1), (3, 1)], "id long, ts long"),
        "computed": lambda: spark.range(1, 4).selectExpr("id", "id * 2 as ts"),
    }
    for name, rows in sources.items():
        yield Job(
            f"upsert of 3 rows {name}",
            None,
            folder / f"few {name}",
            lambda path, rows=rows: write_hudi(rows(), path, options, mode="append"),  # type: ignore[misc]
        )


def measure(folder: Path, repeats: int, scale: str = SCALE) -> tuple[list[Job], list[Memory]]:
    """All jobs in turn, after two uncounted rounds: a session's first jobs take twice as long."""
    source = str(lineitem.source(folder / "data", scale))
    with spark_session() as spark:
        jobs = [*bulk_jobs(spark, source, folder), *few_jobs(spark, folder)]
        for job in jobs:
            shutil.rmtree(job.folder, ignore_errors=True)
        for attempt in range(repeats + UNCOUNTED):
            for job in jobs:
                if not job.name.startswith("upsert"):
                    shutil.rmtree(job.folder, ignore_errors=True)
                run(job, counted=attempt >= UNCOUNTED)
    return jobs, memory(folder)


def memory(folder: Path) -> list[Memory]:
    """The memory of tasks, each limit in a new session: workers keep some memory for the next task."""
    source = str(lineitem.source(folder / "larger"))
    measured = []
    for times in (1, 3):
        with spark_session() as spark:
            measured.append(worker_memory(spark, source, folder, times))
    return measured


def run(job: Job, *, counted: bool) -> None:
    """Run a job once, and print what it took."""
    cpu, start = processor_seconds(), time.perf_counter()
    job.work(job.folder)
    seconds, cpu = time.perf_counter() - start, processor_seconds() - cpu
    print(f"{job.name:40} {seconds:6.2f} s, {cpu:6.2f} s of processors{'' if counted else '  (warm-up)'}", flush=True)
    if counted:
        job.wall.append(seconds)
        job.cpu.append(cpu)


def worker_memory(spark: SparkSession, source: str, folder: Path, times: int) -> Memory:
    """Write all rows some times into one bucket, by tasks that may take a twentieth of them."""
    rows = pq.read_table(source).nbytes
    limit = rows * times // OVER_LIMIT
    options = {
        **BULK,
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.catalog.write.task.memory": str(limit),
        "hoodie.catalog.write.split.bytes": str(limit),
    }
    path = folder / "bounded"
    shutil.rmtree(path, ignore_errors=True)
    # loads what a worker needs for any write
    few = spark.read.parquet(source).limit(1000)
    write_hudi(few, path, {**options, "hoodie.catalog.write.driver.bytes": "0"}, mode="append")
    shutil.rmtree(path)
    idle = max(worker_sizes(), default=0)
    most = idle
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.01):
            most = max(most, *worker_sizes(), 0)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        write_hudi(spark.read.parquet(*[source] * times), path, options, mode="append")
    finally:
        done.set()
        watcher.join()
    return Memory(rows * times, limit, most - idle)


def worker_sizes() -> list[int]:
    """Resident bytes of each of Spark's Python workers."""
    sizes = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "python" in process.name():
                sizes.append(process.memory_info().rss)
        except psutil.Error:
            continue
    return sizes


def column_bytes(folder: Path) -> int:
    """Bytes of the columns' chunks in all files of a folder, without Hudi's own columns."""
    total = 0
    for file in folder.glob("*.parquet"):
        metadata = pq.read_metadata(file)
        for group in range(metadata.num_row_groups):
            chunks = [metadata.row_group(group).column(index) for index in range(metadata.num_columns)]
            total += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema not in META_COLUMNS)
    return total


def table(jobs: list[Job], tasks: list[Memory]) -> Iterator[str]:
    """The lines of a Markdown table, and sentences about memory."""
    heads = ["job", "median (s)", "ratio", "processors (s)", "ratio", "user columns (MB)", "ratio", "files (MB)"]
    yield f"| {' | '.join(heads)} |"
    yield "|---|---|---|---|---|---|---|---|"
    by_name = {job.name: job for job in jobs}
    for job in jobs:
        wall, cpu, size = statistics.median(job.wall), statistics.median(job.cpu), column_bytes(job.folder)
        cells = [job.name, f"{wall:.2f}", "", f"{cpu:.2f}", "", f"{size / 1e6:.1f}", ""]
        if job.rival is not None:
            rival = by_name[job.rival]
            cells[2] = f"{wall / statistics.median(rival.wall):.2f}"
            cells[4] = f"{cpu / statistics.median(rival.cpu):.2f}"
            cells[6] = f"{size / column_bytes(rival.folder):.2f}"
        yield f"| {' | '.join(cells)} | {lineitem.bytes_on_disk(job.folder) / 1e6:.1f} |"
    yield ""
    for one in tasks:
        yield (
            f"A batch of {one.batch >> 20} MiB in one bucket, by tasks that may take {one.limit >> 20} MiB: a worker "
            f"grows by {one.grown >> 20} MiB at most, {one.grown / one.limit:.2f} times the limit."
        )
