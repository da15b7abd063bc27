"""What Spark's tasks do in a write by the record index, as functions on batches."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.keys.java_hash import java_string_hash
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_writer.execution.blocks import slot_blocks, stream
from table_writer.plan.plan import BUCKET_COLUMN, GONE_COLUMN
from table_writer.tagging.placement import Numbers, Places
from table_writer.tagging.rows import Profile, key_check, open_rows, whole_rows
from table_writer.tagging.tagging import NEW, TagPlan, Tags, slim_rows, tag_rows
from table_writer.tagging.targets import Targets, other_rows

_TAGGED: dict[str, pa.DataType] = {
    "task": pa.int32(),
    "block": pa.int32(),
    "profile": pa.binary(),
    "payload": pa.binary(),
}
TAGGED_SCHEMA = pa.schema(_TAGGED)
"""Blocks of tagged rows: their order, a pickled `Profile`, and the rows as an Arrow stream."""
TAGGED_DDL = "task int, block int, profile binary, payload binary"
_BLOCK_ROWS = 100_000
_MIX = np.int64(0x2545F4914F6CDD1D)


@dataclass(frozen=True)
class SpreadPlan:
    """How keyed rows get to the tasks that tag them: all rows of a key to one task, by file group of the index.

    Attributes:
        index: the record index; None when nothing is looked up.
        parts: tasks that share a file group, each with some of its keys.
        by_partition: see `TagPlan`.
        placements: see `placements`; one a task.
    """

    index: RecordIndex | None
    parts: int
    by_partition: bool
    placements: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Assigned:
    """What the driver decided of one block's rows.

    Attributes:
        check: of the block's keys.
        tags: of its rows.
    """

    check: int
    tags: Tags


@dataclass(frozen=True)
class PlacePlan:
    """The last step before the shuffle to the writing tasks.

    Attributes:
        places: of rows to insert.
        targets: see `Targets`.
        placements: see `placements`; one a writing task.
        moves: rows may delete their key at an old place.
        assigned: by task and block what the driver decided; None when the rows are tagged, or all inserted.
        partitioned: the table has partitions.
    """

    places: Places
    targets: Targets
    placements: npt.NDArray[np.int64]
    moves: bool
    assigned: Mapping[tuple[int, int], Assigned] | None
    partitioned: bool


def spread_blocks(plan: SpreadPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split keyed blocks by tagging task.

    Args:
        plan: see `SpreadPlan`.
        batches: of `KEYED_SCHEMA`.

    Yields:
        Batches of `BLOCK_SCHEMA`.
    """
    for task, block, payload in payloads_of(batches):
        rows = open_rows(payload)
        yield from slot_blocks(rows, _tagging_slots(plan, rows), plan.placements, task, block)


def tag_blocks(
    plan: TagPlan,
    index: RecordIndex | None,
    ordering: tuple[str, ...],
    batches: Iterable[pa.RecordBatch],
    number: int,
) -> Iterator[pa.RecordBatch]:
    """Tag the rows of one task.

    Args:
        plan: see `TagPlan`.
        index: the record index; None when nothing is looked up.
        ordering: fields that order versions of a record.
        batches: of `BLOCK_SCHEMA`.
        number: of the task.

    Yields:
        Batches of `TAGGED_SCHEMA`, one row a block.
    """
    found = sorted(
        ((task, block, payload) for batch in batches for task, block, payload in payloads_of([batch])),
        key=lambda entry: entry[:2],
    )
    if not found:
        return
    rows = whole_rows(payload for _, _, payload in found)
    found.clear()
    slim = slim_rows(rows, ordering)
    tags = tag_rows(slim, None if index is None else index.get_record_locations, plan)
    if tags.elsewhere and not len(tags.rows):
        yield _tagged(number, 0, Profile(elsewhere=tags.elsewhere), rows.slice(0, 0), tags, moves=plan.move)
    for block, start in enumerate(range(0, len(tags.rows), _BLOCK_ROWS)):
        end = start + _BLOCK_ROWS
        elsewhere = tags.elsewhere if block == 0 else {}
        part = Tags(tags.rows[start:end], tags.numbers[start:end], tags.gone[start:end], elsewhere)
        yield _tagged(number, block, Profile.of(slim, part), rows, part, moves=plan.move)


def place_blocks(plan: PlacePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give each row of keyed or tagged blocks its file group, and split them by writing task.

    Args:
        plan: see `PlacePlan`.
        batches: of `KEYED_SCHEMA` or `TAGGED_SCHEMA`.

    Yields:
        Batches of `BLOCK_SCHEMA`.
    """
    for task, block, payload in payloads_of(batches):
        rows = open_rows(payload)
        if plan.assigned is not None:
            rows = assigned_rows(plan.assigned.get((task, block)), rows, moves=plan.moves)
        elif BUCKET_COLUMN not in rows.column_names:
            rows = with_tags(rows, np.full(rows.num_rows, NEW, np.int32), None)
        if not rows.num_rows:
            continue
        rows, slots = _placed(plan, rows)
        yield from slot_blocks(rows, slots, plan.placements, task, block)


def payloads_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, Any]]:
    """Task, block and the rows as an Arrow stream, of each block in some batches."""
    for batch in batches:
        columns: Any = [batch.column(name) for name in ("task", "block", "payload")]
        tasks, blocks, payloads = columns
        for task, block, payload in zip(tasks.to_pylist(), blocks.to_pylist(), payloads, strict=True):
            yield task, block, payload.as_buffer()


def assigned_rows(decided: Assigned | None, rows: pa.Table, *, moves: bool) -> pa.Table:
    """The rows of a block as the driver tagged them.

    Raises:
        TransactionError: these are not the rows that the driver was told of.
    """
    if decided is None or decided.check != key_check(rows):
        raise other_rows()
    tags = decided.tags
    return with_tags(rows.take(from_numpy(tags.rows)), tags.numbers, tags.gone if moves else None)


def with_tags(rows: pa.Table, numbers: Numbers, gone: npt.NDArray[np.bool_] | None) -> pa.Table:
    """Rows with the number of their file group, and whether they only delete their key there."""
    rows = rows.append_column(BUCKET_COLUMN, from_numpy(numbers))
    return rows if gone is None else rows.append_column(GONE_COLUMN, from_numpy(gone))


def _tagging_slots(plan: SpreadPlan, rows: pa.Table) -> npt.NDArray[np.int64]:
    keys = one_chunk(rows[RECORD_KEY])
    tasks = len(plan.placements)
    hashes = java_string_hash(keys).astype(np.int64)
    mixed = (hashes * _MIX >> 33) & 0x7FFFFFFF
    if plan.index is None:
        return mixed % tasks
    partitions = None
    if plan.by_partition:
        partitions = one_chunk(rows[PARTITION_PATH]).dictionary_decode()
    groups = plan.index.group_of(keys, partitions).astype(np.int64)
    slots: npt.NDArray[np.int64] = (np.maximum(groups, 0) * plan.parts + mixed % plan.parts) % tasks
    return slots


def _tagged(task: int, block: int, profile: Profile, rows: pa.Table, tags: Tags, *, moves: bool) -> pa.RecordBatch:
    taken = with_tags(rows.take(from_numpy(tags.rows)), tags.numbers, tags.gone if moves else None)
    values: list[Any] = [[task], [block], [pickle.dumps(profile)], [stream(taken).to_pybytes()]]
    columns = [pa.array(value, field.type) for value, field in zip(values, TAGGED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=TAGGED_SCHEMA)


def _placed(plan: PlacePlan, rows: pa.Table) -> tuple[pa.Table, Numbers]:
    """Rows with final numbers and partitions of their file groups, and the writing task of each."""
    numbers = to_numpy(one_chunk(rows[BUCKET_COLUMN])).astype(np.int32)
    fresh = np.flatnonzero(numbers == NEW)
    if len(fresh):
        at = from_numpy(fresh)
        partitions = one_chunk(rows[PARTITION_PATH]).take(at) if plan.partitioned else None
        try:
            placed = plan.places.numbers_of(one_chunk(rows[RECORD_KEY]).take(at), partitions)
        except KeyError:
            raise other_rows() from None
        numbers = numbers.copy()
        numbers[fresh] = placed
        rows = rows.set_column(rows.column_names.index(BUCKET_COLUMN), BUCKET_COLUMN, from_numpy(numbers))
    positions = plan.targets.positions(numbers)
    if plan.partitioned:
        codes = from_numpy(plan.targets.partitions[positions])
        homes: Any = pa.DictionaryArray.from_arrays(codes, pa.array(plan.targets.names, pa.string()))
        if PARTITION_PATH in rows.column_names:
            rows = rows.set_column(rows.column_names.index(PARTITION_PATH), PARTITION_PATH, homes)
        else:
            rows = rows.append_column(PARTITION_PATH, homes)
    return rows, plan.targets.slots[positions]
