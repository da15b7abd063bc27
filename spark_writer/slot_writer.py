"""Second stage: the rows of a slot become new versions of base files, one for each file group that they go to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from spark_writer.group_writer import CurrentFile, GroupWriter
from spark_writer.incoming import Incoming
from spark_writer.index_changes import IndexChanges
from spark_writer.plans import BUCKET_COLUMN, FilePlan, TaskIdentity
from spark_writer.written_file import WRITTEN_SCHEMA, WrittenFile
from table_format.arrow_numpy import one_chunk, to_numpy
from table_format.errors import SchemaError
from table_format.meta_columns import PARTITION_PATH

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.int64]


def write_blocks(plan: FilePlan, batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> Iterator[pa.RecordBatch]:
    """Write the files of one slot out of its blocks (batches of the first stage).

    Yields:
        One batch of `WRITTEN_SCHEMA` a file.
    """
    blocks: list[tuple[int, int, Any]] = []
    for batch in batches:
        columns: Any = batch.columns
        _, tasks, numbers, payloads = columns
        places = zip(tasks.to_pylist(), numbers.to_pylist(), payloads, strict=True)
        blocks += [(source, number, payload.as_buffer()) for source, number, payload in places]
    if not blocks:
        return
    # The shuffle mixes blocks; their own order decides which of two equal versions is the later.
    blocks.sort(key=lambda block: block[:2])
    tables = [pa.ipc.open_stream(payload).read_all() for _, _, payload in blocks]
    blocks.clear()
    rows = _concatenated(tables)
    tables.clear()
    for written in write_slot(plan, rows, task):
        stat, statistics = written.to_row()
        yield pa.RecordBatch.from_arrays([pa.array([stat]), pa.array([statistics], pa.binary())], schema=WRITTEN_SCHEMA)


def write_slot(plan: FilePlan, rows: pa.Table, task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all partitions and buckets that some keyed rows fall into; unchanged files stay.

    What the slot changed in the record index is left in one file, which the last of the files names.
    """
    first = 0
    changes = IndexChanges(plan, task)
    last: WrittenFile | None = None
    for partition, number, positions in _groups(rows):
        incoming = Incoming.of(plan, rows, positions, first)
        first += rows.num_rows if positions is None else len(positions)
        group = GroupWriter(plan, task, partition, number).write(incoming, _current(plan, partition, number))
        if group is None:
            continue
        changes.add(partition, group.stat.file_id, group.version.inserted, group.version.deleted)
        if last is not None:
            yield last
        last = WrittenFile(group.stat, group.version.statistics, group.version.work)
    if last is not None:
        yield dataclasses.replace(last, index_delta=changes.write())


def _concatenated(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables).unify_dictionaries()
    for field in whole.schema:
        if whole.column(field.name).nbytes >= 1 << 31 and not pa.types.is_fixed_size_binary(field.type):
            raise SchemaError(
                f"column {field.name!r} has {whole.column(field.name).nbytes} bytes in one bucket of this write, more "
                "than 2 GiB; write the rows in several batches, or make the table with more buckets"
            )
    return whole.combine_chunks()


def _groups(rows: pa.Table) -> Iterator[tuple[str, int, Rows | None]]:
    """Partition, number and row positions of each file group; None for all rows."""
    numbers = to_numpy(one_chunk(rows.column(BUCKET_COLUMN))).astype(np.int64)
    names = [""]
    codes = numbers
    if PARTITION_PATH in rows.column_names:
        partitions = one_chunk(rows.column(PARTITION_PATH))
        names = partitions.dictionary.to_pylist()
        codes = numbers * len(names) + to_numpy(partitions.indices)
    if codes.min() == codes.max():
        yield names[int(codes[0]) % len(names)], int(numbers[0]), None
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        code = int(ordered[start])
        yield names[code % len(names)], code // len(names), order[start:end]


def _current(plan: FilePlan, partition: str, number: int) -> CurrentFile | None:
    table = plan.current
    if table.num_rows == 0:
        return None
    mine = pc.and_(pc.equal(table["partition"], partition), pc.equal(table["bucket"], number))
    found: list[dict[str, str]] = table.select(["file_id", "instant", "path"]).filter(mine).to_pylist()
    return CurrentFile(**found[0]) if found else None
