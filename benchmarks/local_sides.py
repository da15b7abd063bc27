"""The two sides of the benchmark of writes without Spark, each in a process of its own that takes turns with the other.

In one process each side would pay for the memory that the other frees.
"""

import contextlib
import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks import lineitem
from table_writer.execution.local import LocalExecutor
from table_writer.writer import TableWriter

BULK = "bulk_insert"
#: Columns that an upsert changes, by the upsert's name.
UPSERTS = {
    "upsert of 1 %, 1 column changed": ["l_comment"],
    "upsert of 1 %, 4 columns": ["l_comment", "l_discount", "l_shipmode", "l_quantity"],
    "upsert of 1 %, all but the key": [],
}
THREE = "upsert of 3 rows"
JOBS = (BULK, *UPSERTS, THREE)

Measured = tuple[float, float, float]
"""Seconds of the clock, seconds of the process's processors, megabytes of data files."""


class Side(Protocol):
    """One of the writers that are compared."""

    def __init__(self, folder: Path, rows: pa.Table) -> None: ...

    def job(self, name: str, batch: pa.Table) -> tuple[Path, Callable[[], object]]:
        """The table that a job writes, and its work; making the table ready is not part of it."""
        ...


class Ours:
    """`TableWriter` with a `LocalExecutor`."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._base, self._copy = folder / "local-ours", folder / "local-ours-upsert"
        self._rows = rows
        self._executor = LocalExecutor()

    def job(self, name: str, batch: pa.Table) -> tuple[Path, Callable[[], object]]:
        if name == BULK:
            writer = create(self._base, self._rows.schema, self._executor)
            return self._base, lambda: writer.bulk_insert(self._rows)
        copied(self._base, self._copy)
        writer = TableWriter.open(self._copy, options=lineitem.OPTIONS, executor=self._executor)
        return self._copy, lambda: writer.upsert(batch)


class Delta:
    """delta-rs, by the Python package `deltalake`."""

    def __init__(self, folder: Path, rows: pa.Table) -> None:
        self._base, self._copy = folder / "local-delta", folder / "local-delta-merge"
        self._rows = rows

    def job(self, name: str, batch: pa.Table) -> tuple[Path, Callable[[], object]]:
        if name == BULK:
            fresh(self._base)
            return self._base, lambda: write_deltalake(str(self._base), self._rows)
        copied(self._base, self._copy)
        return self._copy, lambda: merge(self._copy, batch)


@contextlib.contextmanager
def running(kind: type[Side], folder: Path) -> Iterator[Callable[[str], Measured]]:
    """A function that has a side do a job by its name, in a new process with the rows in memory."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_serve, args=(kind, folder, there))
    child.start()
    there.close()

    def run(name: str) -> Measured:
        here.send(name)
        measured: Measured = here.recv()
        return measured

    try:
        yield run
    finally:
        here.close()
        child.join()


def _serve(kind: type[Side], folder: Path, commands: Connection) -> None:
    rows = rows_of(lineitem.source(folder / "data"))
    side, batches = kind(folder, rows), batches_of(rows)
    with contextlib.suppress(EOFError):
        while True:
            name = commands.recv()
            path, work = side.job(name, batches.get(name, rows))
            wall, cpu = time.perf_counter(), time.process_time()
            work()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            commands.send((wall, cpu, lineitem.bytes_on_disk(path) / 1e6))


def rows_of(path: Path) -> pa.Table:
    """A Parquet file in memory, in plain types."""
    table = pq.read_table(path).replace_schema_metadata(None)
    plain = {pa.string_view(): pa.string()}
    fields = [pa.field(column.name, plain.get(column.type, column.type)) for column in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


def batches_of(rows: pa.Table) -> dict[str, pa.Table]:
    """The batch of each upsert, by its name."""
    batches = {name: changed(rows, columns) for name, columns in UPSERTS.items()}
    return {**batches, THREE: batches["upsert of 1 %, 1 column changed"].slice(1000, 3)}


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
    """An empty table of this project's."""
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
    """Upsert rows by delta-rs."""
    on_key = " and ".join(f"old.{name} = new.{name}" for name in lineitem.KEY)
    merger = DeltaTable(str(path)).merge(rows, on_key, source_alias="new", target_alias="old")
    merger.when_matched_update_all().when_not_matched_insert_all().execute()


def fresh(path: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def copied(source: Path, target: Path) -> Path:
    """A folder's copy, in place of what was there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target
