"""Rows between Spark's stages: blocks as Arrow streams in a binary column, beside the slot that Spark shuffles by."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import __version__
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as spark

from spark_writer.spark_types import arrow_schema
from table_format.codecs.arrow_numpy import from_numpy, to_numpy
from table_writer.execution.executor import Block, SplitRows
from table_writer.execution.task_memory import TaskMemory, release_free_memory

_SPLIT: dict[str, pa.DataType] = {
    "slot": pa.int32(),
    "task": pa.int32(),
    "block": pa.int32(),
    "nbytes": pa.int64(),
    "payload": pa.binary(),
}

SPLIT_SCHEMA: Final = pa.schema(_SPLIT)

"""Rows on their way to a slot, with the order in which they were read, and their bytes before they are compressed."""

SPLIT_DDL: Final = "slot int, task int, block int, nbytes long, payload binary"

_HELD: dict[str, pa.DataType] = {
    "task": pa.int32(),
    "block": pa.int32(),
    "rows": pa.int32(),
    "head": pa.binary(),
    "early": pa.binary(),
    "keys": pa.binary(),
    "payload": pa.binary(),
}

HELD_SCHEMA: Final = pa.schema(_HELD)

"""Held blocks: place, number of rows, pickled head, the driver's columns (in one of two fields), and the rows."""

HELD_DDL: Final = "task int, block int, rows int, head binary, early binary, keys binary, payload binary"

_MOST_BYTES: Final = 1 << 20

# A block is decompressed at once.
_MOST_BLOCK: Final = 16 << 20

# The driver's columns are sent with the heads if they are small in any case, which saves a job: a few MB from each of
# this many tasks.
_EARLY_TASKS: Final = 32

_EARLY_ROWS: Final = 50_000


def split_batches(
    parts: Iterable[SplitRows], slots: int, tasks: int | None = None, memory: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows with their slots as batches of `SPLIT_SCHEMA`, in bounded blocks of one slot each.

    Args:
        parts: the rows.
        slots: how many there are.
        tasks: of the shuffle; see `placements`.
        memory: bytes that this task, and one that gets the blocks, may take; None for no limit.
    """
    budget = TaskMemory.of(memory)
    largest = _MOST_BLOCK if budget is None else budget.block
    places = placements(slots, tasks)
    number = 0
    for part in parts:
        task, _ = part.place
        counts = np.bincount(part.slots, minlength=slots)
        order = np.argsort(part.slots, kind="stable").astype(np.int32)
        ends = np.cumsum(counts)
        most = max(1, part.rows.num_rows * largest // max(1, part.rows.nbytes))
        blocks: list[_Block] = []
        size = 0
        for slot in np.flatnonzero(counts).tolist():
            for start in range(int(ends[slot] - counts[slot]), int(ends[slot]), most):
                positions = order[start : min(start + most, int(ends[slot]))]
                # block by block, so that the memory of one serves the next
                rows = part.rows.take(from_numpy(positions))
                payload = stream(rows)
                blocks.append(_Block(int(places[slot]), number, rows.nbytes, payload))
                size += payload.size
                del rows, payload
                number += 1
                if size >= _MOST_BYTES:
                    batch = _batch(blocks, task)
                    blocks, size = [], 0
                    yield batch
                    del batch
        del part, order  # before the next one is made
        if blocks:
            yield _batch(blocks, task)
            blocks = []
        if budget is not None:
            release_free_memory()


def held_batch(block: Block) -> pa.RecordBatch:
    """A block as a batch of `HELD_SCHEMA`, of one row."""
    task, number = block.place
    keys = None if block.keys is None else stream(block.keys).to_pybytes()
    early = None
    if task < _EARLY_TASKS and number == 0 and block.rows.num_rows <= _EARLY_ROWS:
        early, keys = keys, None
    entry = [task, number, block.rows.num_rows, pickle.dumps(block.head), early, keys, stream(block.rows).to_pybytes()]
    columns: list[Any] = [pa.array([value], field.type) for value, field in zip(entry, HELD_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=HELD_SCHEMA)


def held_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """The blocks of batches of `HELD_SCHEMA`, without their heads."""
    for batch in batches:
        for task, number, payload in payloads(batch):
            yield Block((task, number), None, pa.ipc.open_stream(payload).read_all())


def stream(rows: pa.Table) -> Any:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    # lz4 halves what the shuffle moves and costs less than moving it
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def payloads(batch: pa.RecordBatch) -> Iterator[tuple[int, int, Any]]:
    """Task, number and the rows as an Arrow stream, of each block in a batch."""
    columns: Any = [batch.column(name) for name in ("task", "block", "payload")]
    tasks, numbers, payloads = columns
    for task, number, payload in zip(tasks.to_pylist(), numbers.to_pylist(), payloads, strict=True):
        yield task, number, payload.as_buffer()


@dataclass(frozen=True, slots=True)
class _Block:
    place: int
    number: int
    nbytes: int
    payload: pa.Buffer


def _batch(blocks: list[_Block], task: int) -> pa.RecordBatch:
    places = from_numpy(np.array([block.place for block in blocks], np.int32))
    tasks = from_numpy(np.full(len(blocks), task, np.int32))
    numbers = from_numpy(np.array([block.number for block in blocks], np.int32))
    nbytes = from_numpy(np.array([block.nbytes for block in blocks], np.int64))
    sizes = np.array([0, *(block.payload.size for block in blocks)])
    ends: Any = np.cumsum(sizes).astype(np.int32)
    content: Any = blocks[0].payload
    if len(blocks) > 1:
        content = pa.py_buffer(b"".join(block.payload for block in blocks))
    contents = pa.Array.from_buffers(pa.binary(), len(blocks), [None, pa.py_buffer(ends), content])
    return pa.RecordBatch.from_arrays([places, tasks, numbers, nbytes, contents], schema=SPLIT_SCHEMA)


_MASK = 0xFFFFFFFF

_SEED = 42


def murmur3_int(value: int) -> int:
    """Spark's `hash(int)`: Murmur3 (x86, 32 bits) of one int with seed 42, as a signed number.

    >>> murmur3_int(0), murmur3_int(1)
    (933211791, -559580957)
    """
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    result = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _MASK
    result ^= 4  # bytes hashed
    result ^= result >> 16
    result = result * 0x85EBCA6B & _MASK
    result ^= result >> 13
    result = result * 0xC2B2AE35 & _MASK
    result ^= result >> 16
    return result - (1 << 32) if result >> 31 else result


def placements(count: int, tasks: int | None = None) -> npt.NDArray[np.int64]:
    """For each of `count` slots, the int that represents it in Spark's shuffle column.

    `repartition` sends it to the task of the slot's number modulo `tasks`. So the slots spread evenly over the tasks,
    whereas their plain numbers would leave many tasks empty and double others.

    Args:
        count: slots.
        tasks: of the shuffle; None for one per slot.
    """
    tasks = tasks or count
    free = [len(range(task, count, tasks)) for task in range(tasks)]
    result = np.empty(count, np.int64)
    value = placed = 0
    while placed < count:
        task = murmur3_int(value) % tasks
        if free[task]:
            free[task] -= 1
            result[task + free[task] * tasks] = value
            placed += 1
        value += 1
    return result


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


#: Digits that fit a long.
_LONG_DIGITS = 18

#: From Spark 4 on, this class converts between columns and expressions.
_FIRST_WITH_BRIDGE = 4


def unscaled(df: DataFrame) -> tuple[DataFrame, pa.Schema | None]:
    """Replace top-level decimals that fit a long by their unscaled value.

    The expression is one of Spark's own that has no SQL name; if it is not available (Spark Connect, a release that
    moved it) the decimals stay.

    Returns:
        The rows, and the decimal types of the columns that are longs now; None if nothing changed.
    """
    names = [
        field.name
        for field in df.schema.fields
        if isinstance(field.dataType, spark.DecimalType) and field.dataType.precision <= _LONG_DIGITS
    ]
    if not names:
        return df, None
    try:
        session = df.sparkSession
        changed = df.withColumns({name: _unscaled(session, name) for name in names})
        if any(not isinstance(changed.schema[name].dataType, spark.LongType) for name in names):
            return df, None
    except Exception:  # noqa: BLE001 - whatever the session's internals raise, the plain way is there
        return df, None
    whole = arrow_schema(df.schema)
    return changed, pa.schema([whole.field(name) for name in names])


def _unscaled(session: Any, name: str) -> Column:
    column: Any = F.col(_quoted(name))
    wrapped: Any = Column
    catalyst = session._jvm.org.apache.spark.sql  # noqa: SLF001 - Spark has no public way to it
    expression = catalyst.catalyst.expressions.UnscaledValue
    result: Column
    if int(__version__.split(".", 1)[0]) < _FIRST_WITH_BRIDGE:
        result = wrapped(catalyst.Column(expression(column._jc.expr())))  # noqa: SLF001
    else:
        bridge = catalyst.classic.ExpressionUtils
        result = wrapped(bridge.column(expression(bridge.expression(column._jc))))  # noqa: SLF001
    return result


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def restored_batches(batches: Iterable[pa.RecordBatch], decimals: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Turn unscaled longs back into decimals; see `restored`."""
    for batch in batches:
        yield from restored(pa.Table.from_batches([batch]), decimals).to_batches()


def restored(table: pa.Table, decimals: pa.Schema) -> pa.Table:
    """Turn unscaled longs back into decimals.

    Args:
        table: rows.
        decimals: the columns that are unscaled longs, with their decimal types.
    """
    for name, kind in zip(decimals.names, decimals.types, strict=True):
        index = table.schema.get_field_index(name)
        chunks: Any = [_decimals(chunk, kind) for chunk in table.column(index).chunks]
        column: Any = pa.chunked_array(chunks)
        table = table.set_column(index, pa.field(name, kind), column)
    return table


def _decimals(numbers: Any, kind: pa.DataType) -> Any:
    values = np.empty((len(numbers), 2), np.int64)
    whole = numbers.fill_null(0) if numbers.null_count else numbers
    values[:, 0] = to_numpy(whole)
    # the upper half repeats the sign
    np.right_shift(values[:, 0], 63, out=values[:, 1])
    buffer: Any = values
    validity = None
    if numbers.null_count:
        mask = np.packbits(to_numpy(numbers.is_valid()), bitorder="little")
        validity = pa.py_buffer(mask.tobytes())
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(buffer)], numbers.null_count)
