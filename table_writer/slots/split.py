"""First stage of a write by buckets: rows get their keys, and the slot that writes their bucket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.keys.java_hash import java_string_hash
from table_format.meta_columns import PARTITION_PATH
from table_format.schema.evolution import storage_schema
from table_writer.execution.executor import Executor, RowSource, SplitRows
from table_writer.plan.plan import BUCKET_COLUMN, KeyPlan, SplitPlan, TaskIdentity
from table_writer.rows.slot_rows import flushes, keyed_rows, user_rows


def split_rows(plan: SplitPlan, batches: Iterator[pa.RecordBatch], task: TaskIdentity) -> Iterator[SplitRows]:
    """Key a task's rows, and assign each to a slot.

    Memory is bounded: rows are yielded after every `plan.flush_bytes`.
    """
    for number, pending in enumerate(flushes(batches, plan.flush_bytes)):
        rows = keyed_rows(plan.keys, user_rows(pending, plan.schema), plan.payload)
        pending.clear()
        if plan.limits is not None and PARTITION_PATH in rows.column_names:
            plan.limits.refuse_long(one_chunk(rows[PARTITION_PATH]).dictionary)
        yield SplitRows((task.number, number), rows, _slots(rows, plan.keys.buckets, plan.slots))
        del rows  # before the next ones are collected


def _slots(rows: pa.Table, buckets: int, slots: int) -> npt.NDArray[np.int16 | np.int64]:
    """The slot of each row: its bucket number, offset by its partition's hash.

    Partitions that hash to neighbouring numbers, as those of consecutive days do, get slots side by side.
    """
    numbers = to_numpy(one_chunk(rows.column(BUCKET_COLUMN))).astype(np.int64)
    if PARTITION_PATH in rows.column_names:
        partitions: Any = one_chunk(rows.column(PARTITION_PATH))
        hashes = java_string_hash(partitions.dictionary).astype(np.int64) & 0x7FFFFFFF
        numbers = numbers + hashes[to_numpy(partitions.indices)] * buckets
    numbers %= slots
    # numpy sorts 16-bit numbers by radix
    return numbers.astype(np.int16) if slots < 1 << 15 else numbers


def distinct_partitions(executor: Executor, rows: RowSource, keys: KeyPlan, schema: pa.Schema) -> list[str]:
    """The distinct partition paths of rows, sorted.

    Args:
        executor: runs the tasks.
        rows: the rows.
        keys: how keys are made.
        schema: the rows' columns in the table's types.
    """
    return sorted(set(executor.collect(rows, _Distinct(keys, schema, slots=False))))


def distinct_slots(executor: Executor, rows: RowSource, keys: KeyPlan, schema: pa.Schema) -> set[tuple[str, int]]:
    """The distinct partition paths and buckets of rows; see `distinct_partitions`."""
    return set(executor.collect(rows, _Distinct(keys, schema, slots=True)))


class _Distinct:
    """A stage that yields the distinct partition paths of its rows, or the distinct pairs of path and bucket."""

    def __init__(self, keys: KeyPlan, schema: pa.Schema, *, slots: bool) -> None:
        self._keys = keys
        self._schema = storage_schema(schema)
        self._slots = slots

    def __call__(self, batches: Iterator[pa.RecordBatch], _: TaskIdentity) -> Iterator[Any]:
        seen: set[Any] = set()
        for batch in batches:
            if batch.num_rows:
                fresh = self._of(user_rows([batch], self._schema)) - seen
                seen |= fresh
                yield from fresh

    def _of(self, rows: pa.Table) -> set[Any]:
        if not self._slots:
            return set(self._keys.generator.partition_paths(rows).unique().to_pylist())
        keyed = keyed_rows(self._keys, rows, ())
        paths: Any = keyed[PARTITION_PATH] if self._keys.spec.is_partitioned else pa.repeat("", len(keyed))
        pairs = pa.table([paths.cast(pa.string()), keyed[BUCKET_COLUMN]], names=["partition", "bucket"])
        distinct = pairs.group_by(["partition", "bucket"], use_threads=False).aggregate([])
        return set(zip(distinct["partition"].to_pylist(), distinct["bucket"].to_pylist(), strict=True))
