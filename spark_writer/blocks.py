"""Rows between Spark's stages: blocks as Arrow streams in a binary column, beside the slot that Spark shuffles by."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
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
from table_writer.execution.slot_rows import InMemory, SlotRows

_SPLIT: dict[str, pa.DataType] = {
    "slot": pa.int32(),
    "task": pa.int32(),
    "block": pa.int32(),
    "payload": pa.binary(),
}

SPLIT_SCHEMA: Final = pa.schema(_SPLIT)

"""Rows on their way to a slot, with the order in which they were read."""

SPLIT_DDL: Final = "slot int, task int, block int, payload binary"

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

"""Held blocks: place, number of rows, pickled head, the driver's columns (in one of two), and the rows."""

HELD_DDL: Final = "task int, block int, rows int, head binary, early binary, keys binary, payload binary"

_MOST_BYTES: Final = 1 << 20

# The columns for the driver come with the heads where that is little in any case: a few MB from each of so many tasks.
# It saves a job.
_EARLY_TASKS: Final = 32

_EARLY_ROWS: Final = 50_000


def split_batches(parts: Iterable[SplitRows], slots: int) -> Iterator[pa.RecordBatch]:
    """Rows with their slots as batches of `SPLIT_SCHEMA`, a block a slot."""
    numbers = placements(slots)
    for part in parts:
        task, number = part.place
        counts = np.bincount(part.slots, minlength=slots)
        order = np.argsort(part.slots, kind="stable").astype(np.int32)
        ends = np.cumsum(counts)
        blocks: list[tuple[int, pa.Buffer]] = []
        size = 0
        for slot in np.flatnonzero(counts):
            positions = order[ends[slot] - counts[slot] : ends[slot]]
            # slot by slot, so that the memory of one serves the next
            payload = stream(part.rows.take(from_numpy(positions)))
            blocks.append((int(numbers[slot]), payload))
            size += payload.size
            if size >= _MOST_BYTES:
                yield _batch(blocks, task, number)
                blocks, size = [], 0
        if blocks:
            yield _batch(blocks, task, number)


def slot_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[SlotRows]:
    """The rows of a task's slot, in the order of the batch; nothing where there are none."""
    blocks = [block for batch in batches for block in _payloads(batch)]
    if not blocks:
        return
    # The shuffle mixes blocks; their own order decides which of two equal versions is the later.
    blocks.sort(key=lambda block: block[:2])
    tables = tuple(pa.ipc.open_stream(payload).read_all() for _, _, payload in blocks)
    blocks.clear()
    yield SlotRows(InMemory(tables), sum(table.nbytes for table in tables))


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
        for task, number, payload in _payloads(batch):
            yield Block((task, number), None, pa.ipc.open_stream(payload).read_all())


def stream(rows: pa.Table) -> Any:
    """Rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    # lz4 halves what the shuffle moves and costs less than moving it
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _payloads(batch: pa.RecordBatch) -> Iterator[tuple[int, int, Any]]:
    """Task, number and the rows as an Arrow stream, of each block in a batch."""
    columns: Any = [batch.column(name) for name in ("task", "block", "payload")]
    tasks, numbers, payloads = columns
    for task, number, payload in zip(tasks.to_pylist(), numbers.to_pylist(), payloads, strict=True):
        yield task, number, payload.as_buffer()


def _batch(blocks: list[tuple[int, pa.Buffer]], task: int, number: int) -> pa.RecordBatch:
    slots = from_numpy(np.array([slot for slot, _ in blocks], np.int32))
    tasks = from_numpy(np.full(len(blocks), task, np.int32))
    numbers = from_numpy(np.full(len(blocks), number, np.int32))
    sizes = np.array([0, *(payload.size for _, payload in blocks)])
    ends: Any = np.cumsum(sizes).astype(np.int32)
    content: Any = blocks[0][1] if len(blocks) == 1 else pa.py_buffer(b"".join(payload for _, payload in blocks))
    payloads = pa.Array.from_buffers(pa.binary(), len(blocks), [None, pa.py_buffer(ends), content])
    return pa.RecordBatch.from_arrays([slots, tasks, numbers, payloads], schema=SPLIT_SCHEMA)


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


def placements(count: int) -> npt.NDArray[np.int64]:
    """For each of `count` slots the least int that `repartition(count, column)` sends to the partition of that number.

    So each slot is a task of its own, whereas the slots' plain numbers would leave many tasks empty and double others.
    """
    preimages: dict[int, int] = {}
    value = 0
    while len(preimages) < count:
        preimages.setdefault(murmur3_int(value) % count, value)
        value += 1
    return np.array([preimages[slot] for slot in range(count)], np.int64)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


#: Digits that fit a long.
_LONG_DIGITS = 18

#: From Spark 4 on, columns and expressions are made of each other by a class of their own.
_FIRST_WITH_BRIDGE = 4


def unscaled(df: DataFrame) -> tuple[DataFrame, pa.Schema | None]:
    """Put the unscaled value in the place of top-level decimals that fit a long.

    The expression is one of Spark's own that has no SQL name; where it cannot be had (Spark Connect, a release that
    moved it) the decimals stay.

    Returns:
        The rows, and the decimal types of the columns that are longs now; None where all is as it was.
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
    """Put decimals in the place of longs; see `restored`."""
    for batch in batches:
        yield from restored(pa.Table.from_batches([batch]), decimals).to_batches()


def restored(table: pa.Table, decimals: pa.Schema) -> pa.Table:
    """Put decimals in the place of longs.

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
