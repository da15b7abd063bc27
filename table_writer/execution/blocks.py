"""First stage: rows get their record key, partition path and bucket, and leave as one block of rows per slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.errors import SchemaError
from table_format.keys.java_hash import java_string_hash
from table_format.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index_entries import refuse_long_keys
from table_format.schema.evolution import conform
from table_writer.plan.plan import BUCKET_COLUMN, KeyPlan, SplitPlan
from table_writer.rows.unscaled import restored

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.int64]

_BLOCK: dict[str, pa.DataType] = {
    "slot": pa.int32(),
    "task": pa.int32(),
    "block": pa.int32(),
    "payload": pa.binary(),
}
BLOCK_SCHEMA = pa.schema(_BLOCK)
"""What the first stage gives: blocks of rows as Arrow streams, with the order in which they were read."""
BLOCK_DDL = "slot int, task int, block int, payload binary"
_MOST_BYTES = 1 << 20


def split_batches(
    plan: SplitPlan, placements: Rows, batches: Iterable[pa.RecordBatch], task: int
) -> Iterator[pa.RecordBatch]:
    """Split a task's rows by slot.

    Args:
        plan: what to do.
        placements: for each slot the number that Spark's hash partitioning sends to it.
        batches: the task's rows.
        task: number of the task.

    Yields:
        Batches of `BLOCK_SCHEMA`. Memory is bounded: rows are split each time that `plan.flush_bytes` came in.
    """
    pending: list[pa.RecordBatch] = []
    size = block = 0
    for batch in batches:
        pending.append(batch)
        size += batch.nbytes
        if size >= plan.flush_bytes:
            for result in _blocks(plan, placements, pending, task, block):
                yield result
                block += result.num_rows
            pending, size = [], 0
    if any(batch.num_rows for batch in pending):
        yield from _blocks(plan, placements, pending, task, block)


def keyed_rows(plan: KeyPlan, table: pa.Table, payload: Iterable[str]) -> pa.Table:
    """Rows with their record key, partition path (if the table is partitioned) and bucket behind the payload columns.

    Without buckets (`plan.buckets` is 0) there is no bucket column.

    Raises:
        RecordError: a row without a key, or with one that is too long for the record index.
        SchemaError: a key or partition column is missing.
    """
    generator = plan.generator
    keys = generator.record_keys(table)
    if plan.indexed:
        refuse_long_keys(keys)
    result = table.select(list(payload))
    result = result.append_column(RECORD_KEY, keys)
    if plan.spec.is_partitioned:
        result = result.append_column(PARTITION_PATH, pc.dictionary_encode(generator.partition_paths(table)))
    if not plan.buckets:
        return result
    buckets = generator.bucket_ids(table, plan.buckets, plan.hash_fields, keys)
    return result.append_column(BUCKET_COLUMN, from_numpy(buckets.astype(np.int32)))


def user_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, decimals: pa.Schema | None = None) -> pa.Table:
    """Spark's rows in the table's types, without meta columns, each column in one piece; see `SplitPlan.decimals`."""
    table = pa.Table.from_batches(list(batches))
    if decimals is not None:
        table = restored(table, decimals)
    table = table.drop_columns([name for name in META_COLUMNS if name in table.column_names])
    return conform(table, schema).combine_chunks()


def _blocks(
    plan: SplitPlan, placements: Rows, batches: Iterable[pa.RecordBatch], task: int, first: int
) -> Iterator[pa.RecordBatch]:
    rows = keyed_rows(plan.keys, user_rows(batches, plan.schema, plan.decimals), plan.payload)
    if plan.limits is not None and PARTITION_PATH in rows.column_names:
        plan.limits.refuse_long(one_chunk(rows[PARTITION_PATH]).dictionary)
    yield from slot_blocks(rows, _slots(rows, plan.keys.buckets, plan.slots), placements, task, first)


def slot_blocks(
    rows: pa.Table, slots: npt.NDArray[Any], placements: Rows, task: int, first: int
) -> Iterator[pa.RecordBatch]:
    """Some rows as one block a slot.

    Args:
        rows: keyed rows.
        slots: of each row.
        placements: for each slot the number that Spark's hash partitioning sends to it.
        task: number of the task that read the rows.
        first: number of the first block; with the task's it orders blocks.

    Yields:
        Batches of `BLOCK_SCHEMA`.
    """
    counts = np.bincount(slots, minlength=len(placements))
    order = np.argsort(slots, kind="stable").astype(np.int32)
    ends = np.cumsum(counts)
    found: list[tuple[int, pa.Buffer]] = []
    size = 0
    for slot in np.flatnonzero(counts):
        mine = order[ends[slot] - counts[slot] : ends[slot]]
        # slot by slot, so that the memory of one serves the next
        payload = stream(rows.take(from_numpy(mine)))
        found.append((int(placements[slot]), payload))
        size += payload.size
        if size >= _MOST_BYTES:
            yield _batch(found, task, first)
            first += len(found)
            found, size = [], 0
    if found:
        yield _batch(found, task, first)


def in_one_piece(tables: Iterable[pa.Table], where: str, advice: str) -> pa.Table:
    """Some rows as one table, each column in one piece.

    Args:
        tables: the rows; at least one table.
        where: what they all are, for the error, such as `in one bucket of this write`.
        advice: what to do where they are too large.

    Raises:
        SchemaError: a column is too large for that.
    """
    whole = pa.concat_tables(tables).unify_dictionaries()
    for column in whole.schema:
        size = whole.column(column.name).nbytes
        if size >= 1 << 31 and not pa.types.is_fixed_size_binary(column.type):
            raise SchemaError(f"column {column.name!r} has {size} bytes {where}, more than 2 GiB{advice}")
    return whole.combine_chunks()


def _batch(blocks: list[tuple[int, pa.Buffer]], task: int, first: int) -> pa.RecordBatch:
    slots = from_numpy(np.array([slot for slot, _ in blocks], np.int32))
    tasks = from_numpy(np.full(len(blocks), task, np.int32))
    numbers = from_numpy(np.arange(first, first + len(blocks), dtype=np.int32))
    sizes = np.array([0, *(payload.size for _, payload in blocks)])
    ends: Any = np.cumsum(sizes).astype(np.int32)
    content: Any = blocks[0][1] if len(blocks) == 1 else pa.py_buffer(b"".join(payload for _, payload in blocks))
    payloads = pa.Array.from_buffers(pa.binary(), len(blocks), [None, pa.py_buffer(ends), content])
    return pa.RecordBatch.from_arrays([slots, tasks, numbers, payloads], schema=BLOCK_SCHEMA)


def _slots(rows: pa.Table, buckets: int, slots: int) -> npt.NDArray[np.int16 | np.int64]:
    """The slot of each row: its bucket, moved on by its partition's hash.

    Partitions that hash to neighbouring numbers, as those of consecutive days do, get slots side by side.
    """
    numbers = _whole(rows.column(BUCKET_COLUMN)).astype(np.int64)
    if PARTITION_PATH in rows.column_names:
        partitions: Any = rows.column(PARTITION_PATH).combine_chunks()
        hashes = java_string_hash(partitions.dictionary).astype(np.int64) & 0x7FFFFFFF
        numbers = numbers + hashes[to_numpy(partitions.indices)] * buckets
    numbers %= slots
    # numpy sorts 16-bit numbers by radix
    return numbers.astype(np.int16) if slots < 1 << 15 else numbers


def _whole(column: Any) -> npt.NDArray[Any]:
    return to_numpy(column.combine_chunks())


def stream(rows: pa.Table) -> Any:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    # lz4 halves what the shuffle moves and costs less than moving it
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()
