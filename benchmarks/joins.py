"""Joins of two bucketed tables in this process, beside DuckDB's own join of the same Parquet files."""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from hudi_catalog import create_table, join, open_table

ROWS = 2_000_000
MEMORY = 512 << 20
BUCKETS = {"orders": 8, "refunds": 4}


@dataclass
class Joined:
    """One way to join: for each run seconds of the clock and of processors, and the process's peak in MiB."""

    side: str
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: list[int] = field(default_factory=list)
    rows: int = 0


def measure(folder: Path, repeats: int, rows: int = ROWS) -> list[Joined]:
    """Each side in turn, each run in a process of its own, after one round that is not counted."""
    make(folder, rows)
    results = [Joined(name) for name in SIDES]
    context = multiprocessing.get_context("spawn")
    for attempt in range(repeats + 1):
        for result in results:
            with context.Pool(1) as pool:
                wall, cpu, peak, result.rows = pool.apply(run, (result.side, folder))
            if attempt:
                result.wall.append(wall)
                result.cpu.append(cpu)
                result.peak.append(peak)
    return results


def make(folder: Path, rows: int) -> None:
    """Two tables of so many rows each, half of whose keys are common."""
    draw = np.random.default_rng(1)
    for number, (name, buckets) in enumerate(BUCKETS.items()):
        if (folder / name).exists():
            continue
        keys = draw.permutation(rows).astype(np.int64) + number * rows // 2
        columns = {f"{name}_{at}": draw.integers(0, 1 << 40, rows) for at in range(3)}
        texts = pa.array(draw.integers(0, 1 << 30, rows)).cast(pa.string())
        table = pa.table({"id": keys, **columns, f"{name}_text": texts})
        made = create_table(folder / name, table.schema, record_key="id", buckets=buckets)
        made.bulk_insert(table)


def run(side: str, folder: Path) -> tuple[float, float, int, int]:
    """Join in this process: seconds of the clock and of processors, peak in MiB, and rows."""
    wall, cpu = time.perf_counter(), time.process_time()
    rows = sum(batch.num_rows for batch in SIDES[side](folder))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    # the resource module's peak would be that of the process that started this one
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return wall, cpu, int(peak.split()[1]) >> 10, rows


def by_buckets(folder: Path) -> Iterator[pa.RecordBatch]:
    """Bucket by bucket."""
    return join(open_table(folder / "orders"), open_table(folder / "refunds"), "id", "left", memory=MEMORY).to_batches()


def at_once(folder: Path) -> Iterator[pa.RecordBatch]:
    """All rows, read by this project."""
    sides = open_table(folder / "orders"), open_table(folder / "refunds")
    return join(*sides, "id", "left", memory=MEMORY, by_buckets=False).to_batches()


def by_duckdb(folder: Path) -> Iterator[pa.RecordBatch]:
    """All rows, read and joined by DuckDB."""
    files = [
        [str(one.path).removeprefix("file:") for one in open_table(folder / name).scan().plan().splits]
        for name in BUCKETS
    ]
    with tempfile.TemporaryDirectory() as spilled:
        config = {"memory_limit": f"{MEMORY}B", "temp_directory": spilled}
        with duckdb.connect(config=config) as connection:
            connection.execute("SET enable_progress_bar = false")
            columns = "l.* EXCLUDE (_hoodie_commit_time, _hoodie_commit_seqno, _hoodie_record_key, "
            columns += (
                "_hoodie_partition_path, _hoodie_file_name), r.refunds_0, r.refunds_1, r.refunds_2, r.refunds_text"
            )
            sides = (f"read_parquet({files[0]}) l", f"read_parquet({files[1]}) r")
            query = f"SELECT {columns} FROM {sides[0]} LEFT JOIN {sides[1]} ON l.id = r.id"
            yield from pa.RecordBatchReader.from_stream(connection.sql(query))


SIDES: dict[str, Callable[[Path], Iterator[pa.RecordBatch]]] = {
    "by buckets": by_buckets,
    "all rows at once": at_once,
    "DuckDB on the files": by_duckdb,
}


def table(results: list[Joined]) -> Iterator[str]:
    """Lines of the table in `docs/benchmarks.md`."""
    yield "| left join | runs (s) | median (s) | processors (s) | peak of the process (MiB) | rows |"
    yield "|---|---|---|---|---|---|"
    for one in results:
        runs = ", ".join(f"{seconds:.2f}" for seconds in one.wall)
        wall, cpu = statistics.median(one.wall), statistics.median(one.cpu)
        yield f"| {one.side} | {runs} | {wall:.2f} | {cpu:.2f} | {max(one.peak):,} | {one.rows:,} |"
