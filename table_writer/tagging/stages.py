"""The tasks of a write that looks keys up: spread rows by key, tag them, and assign them to files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.keys.java_hash import java_string_hash
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_writer.execution.executor import Block, Place, SplitRows
from table_writer.execution.slot_rows import SlotRows
from table_writer.plan.plan import BUCKET_COLUMN, FRESH_COLUMN, GONE_COLUMN, HOME_COLUMN, TaskIdentity
from table_writer.tagging.bucket_keys import BucketKeys
from table_writer.tagging.placement import Numbers, Placement, Targets, other_rows
from table_writer.tagging.rows import Profile, homes_of, key_check
from table_writer.tagging.tagging import NEW, TagPlan, Tags, slim_rows, tag_rows

_BLOCK_ROWS = 100_000
_WHERE = "in the rows of one task of this write"
_ADVICE = ": many rows of one key, or rows that are very large; write them in several batches"
_NO_GROUPS = pa.array([], pa.string())
_MIX = np.int64(0x2545F4914F6CDD1D)


@dataclass(frozen=True)
class SpreadPlan:
    """How keyed rows are spread over tagging tasks: all rows of a key to one task, by group of the index.

    Attributes:
        index: where keys are looked up; None if nothing is.
        parts: tasks that share a group, each with some of its keys.
        by_partition: see `TagPlan`.
        tasks: number of tasks.
    """

    index: RecordIndex | BucketKeys | None
    parts: int
    by_partition: bool
    tasks: int


@dataclass(frozen=True)
class Assigned:
    """The driver's decisions on one block's rows.

    Attributes:
        check: of the block's keys.
        tags: of its rows.
    """

    check: int
    tags: Tags


@dataclass(frozen=True)
class PlacePlan:
    """How rows are assigned to writing tasks.

    Attributes:
        places: of rows to insert.
        targets: see `Targets`.
        moves: rows may delete their key at an old location.
        assigned: by task and block the driver's decisions; None if the rows are tagged, or all inserted.
        partitioned: the table has partitions.
        fills: rows whose key the record index lacks may go to files that have rows: it may lack these rows' keys, too.
    """

    places: Placement
    targets: Targets
    moves: bool
    assigned: Mapping[Place, Assigned] | None
    partitioned: bool
    fills: bool = False


def spread_blocks(plan: SpreadPlan, blocks: Iterator[Block], _: TaskIdentity) -> Iterator[SplitRows]:
    """Assign each row of keyed blocks to its tagging task."""
    for block in blocks:
        yield SplitRows(block.place, block.rows, _tagging_slots(plan, block.rows))


def tags_of(slim: pa.Table, index: RecordIndex | BucketKeys | None, plan: TagPlan) -> Tags:
    """What to do with rows: one of each key where an index has all keys, and all of them where buckets have files."""
    if isinstance(index, BucketKeys):
        return index.tags(slim, delete=plan.delete, selected=plan.selected)
    return tag_rows(slim, None if index is None else index.find, plan)


def tag_slots(
    plan: TagPlan,
    index: RecordIndex | BucketKeys | None,
    ordering: tuple[str, ...],
    slots: Iterator[SlotRows],
    task: TaskIdentity,
) -> Iterator[Block]:
    """Tag the rows of one task.

    Args:
        plan: see `TagPlan`.
        index: where keys are looked up; None if nothing is.
        ordering: fields that order versions of a record.
        slots: the rows.
        task: the task.

    Yields:
        Blocks of the rows to write, with a `Profile` as their head.
    """
    numbers = itertools.count()
    for slot in slots:
        rows, positions = slot.whole(_WHERE, _ADVICE)
        if positions is not None:
            rows = rows.take(from_numpy(positions))
        slim = slim_rows(rows, ordering, plan.shared)
        tags = tags_of(slim, index, plan)
        if tags.relied and not len(tags.rows):
            nothing = with_tags(rows.slice(0, 0), tags, moves=plan.move)
            yield Block((task.number, next(numbers)), Profile.of(slim, tags), nothing)
        for start in range(0, len(tags.rows), _BLOCK_ROWS):
            part = tags.part(slice(start, start + _BLOCK_ROWS))
            if start == 0:
                part = replace(part, relied=tags.relied, elsewhere=tags.elsewhere)
            taken = with_tags(rows.take(from_numpy(part.rows)), part, moves=plan.move)
            yield Block((task.number, next(numbers)), Profile.of(slim, part), taken)


def place_blocks(plan: PlacePlan, blocks: Iterator[Block], _: TaskIdentity) -> Iterator[SplitRows]:
    """Assign each row of keyed or tagged blocks to its file group and writing task."""
    for block in blocks:
        rows = block.rows
        if plan.assigned is not None:
            rows = assigned_rows(plan.assigned.get(block.place), rows, moves=plan.moves)
        elif BUCKET_COLUMN not in rows.column_names:
            rows = rows.append_column(BUCKET_COLUMN, _group_column(np.full(rows.num_rows, NEW, np.int32), _NO_GROUPS))
        if rows.num_rows:
            rows, slots = _placed(plan, rows)
            yield SplitRows(block.place, rows, slots)


def assigned_rows(decided: Assigned | None, rows: pa.Table, *, moves: bool) -> pa.Table:
    """The rows of a block as the driver tagged them.

    Raises:
        TransactionError: the rows differ from those that the driver planned for.
    """
    if decided is None or decided.check != key_check(rows):
        raise other_rows()
    return with_tags(rows.take(from_numpy(decided.tags.rows)), decided.tags, moves=moves)


def with_tags(rows: pa.Table, tags: Tags, *, moves: bool) -> pa.Table:
    """Rows with their file group, null for those to insert, and whether they only delete their key there."""
    rows = rows.append_column(BUCKET_COLUMN, _group_column(tags.numbers, tags.groups))
    return rows.append_column(GONE_COLUMN, from_numpy(tags.gone)) if moves else rows


def _group_column(numbers: Numbers, groups: Any) -> Any:
    codes: Any = pa.array(numbers, mask=numbers == NEW)
    return pa.DictionaryArray.from_arrays(codes, groups)


def _tagging_slots(plan: SpreadPlan, rows: pa.Table) -> npt.NDArray[np.int64]:
    keys = one_chunk(rows[RECORD_KEY])
    hashes = java_string_hash(keys).astype(np.int64)
    mixed = (hashes * _MIX >> 33) & 0x7FFFFFFF
    if plan.index is None:
        return mixed % plan.tasks
    if isinstance(plan.index, BucketKeys):
        groups = to_numpy(one_chunk(rows[HOME_COLUMN])).astype(np.int64)
    else:
        partitions = one_chunk(rows[PARTITION_PATH]).dictionary_decode() if plan.by_partition else None
        groups = plan.index.group_of(keys, partitions).astype(np.int64)
    slots: npt.NDArray[np.int64] = (np.maximum(groups, 0) * plan.parts + mixed % plan.parts) % plan.tasks
    return slots


def _placed(plan: PlacePlan, rows: pa.Table) -> tuple[pa.Table, Numbers]:
    """Rows with final numbers and partitions of their file groups, and the writing task of each."""
    numbers = plan.targets.numbers_of(one_chunk(rows[BUCKET_COLUMN]))
    fresh = np.flatnonzero(numbers == NEW)
    if plan.fills:
        rows = rows.append_column(FRESH_COLUMN, from_numpy(numbers == NEW))
    if len(fresh):
        try:
            keys = one_chunk(rows[RECORD_KEY]).take(from_numpy(fresh))
            placed = plan.places.numbers_of(keys, homes_of(rows, fresh))
        except KeyError:
            raise other_rows() from None
        numbers[fresh] = placed
    if HOME_COLUMN in rows.column_names:
        rows = rows.drop_columns([HOME_COLUMN])
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
