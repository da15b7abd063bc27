"""A bulk insert whose rows stay in the task that has them: each task makes files of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_writer.execution.executor import Block, Place
from table_writer.execution.slot_rows import in_one_piece
from table_writer.files.file_change import WrittenFile
from table_writer.plan.plan import FilePlan, TaskIdentity
from table_writer.rows.merge import sorted_rows
from table_writer.slots.slot import GroupRows, write_groups
from table_writer.tagging.rows import key_check
from table_writer.tagging.stages import Assigned, assigned_rows
from table_writer.tagging.targets import other_rows

Rows = npt.NDArray[np.int64]

_WHERE = "in the rows of one partition of the DataFrame"
_ADVICE = ": give it more partitions by `repartition`"


@dataclass(frozen=True)
class StayPlan:
    """How the rows of a task become files.

    Attributes:
        files: see `FilePlan`; without current files.
        per_file: rows of a file, at most.
        sort: by partition path and record key; else rows stay in their order.
        checks: of the keyed blocks' keys, by task and block; None for tagged ones.
        assigned: by task and block what the driver decided; None when it decided nothing.
    """

    files: FilePlan
    per_file: int
    sort: bool
    checks: Mapping[Place, int] | None
    assigned: Mapping[Place, Assigned] | None


def write_where_they_are(plan: StayPlan, blocks: Iterator[Block], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of a task's own rows.

    Memory: with `sort` all rows of the task; else those that do not fill a file yet, of each partition path.

    Args:
        plan: what to do.
        blocks: keyed or tagged rows.
        task: which attempt of which task this is.

    Raises:
        TransactionError: these are not the rows whose heads the driver has.
        SchemaError: a column is too large for one file, or with `sort` for one task.
    """
    tables = _tables(plan, blocks)
    groups = _in_key_order(plan, tables) if plan.sort else _as_they_come(plan, tables)
    yield from write_groups(plan.files, groups, task)


def _tables(plan: StayPlan, blocks: Iterable[Block]) -> Iterator[pa.Table]:
    for block in blocks:
        rows = block.rows
        if plan.assigned is not None:
            # the driver knows each row of a small batch
            rows = assigned_rows(plan.assigned.get(block.place), rows, moves=False)
        elif plan.checks is not None and plan.checks.get(block.place) != key_check(rows):
            raise other_rows()
        if rows.num_rows:
            yield rows


def _as_they_come(plan: StayPlan, tables: Iterable[pa.Table]) -> Iterator[GroupRows]:
    waiting: dict[str, pa.Table] = {}
    numbers = count()
    for table in tables:
        for partition, positions in _by_partition(table):
            rows = table if positions is None else table.take(from_numpy(positions))
            if partition in waiting:
                rows = pa.concat_tables([waiting[partition], rows])
            full = rows.num_rows - rows.num_rows % plan.per_file
            for start in range(0, full, plan.per_file):
                whole = in_one_piece([rows.slice(start, plan.per_file)], _WHERE, _ADVICE)
                yield GroupRows(partition, next(numbers), whole, None)
            waiting[partition] = rows.slice(full)
    for partition, rows in waiting.items():
        if rows.num_rows:
            yield GroupRows(partition, next(numbers), in_one_piece([rows], _WHERE, _ADVICE), None)


def _in_key_order(plan: StayPlan, tables: Iterable[pa.Table]) -> Iterator[GroupRows]:
    blocks = list(tables)
    if not blocks:
        return
    rows = in_one_piece(blocks, _WHERE, _ADVICE)
    blocks.clear()
    keys = one_chunk(rows[RECORD_KEY])
    numbers = count()
    for partition, positions in sorted(_by_partition(rows), key=lambda entry: entry[0]):
        group_keys = keys if positions is None else keys.take(from_numpy(positions))
        order = sorted_rows(group_keys, unique=False)
        order = order if positions is None else positions[order]
        for part in np.array_split(order, -(-len(order) // plan.per_file)):
            yield GroupRows(partition, next(numbers), rows, part)


def _by_partition(rows: pa.Table) -> Iterator[tuple[str, Rows | None]]:
    """Partition paths, and the positions of the rows of each, rising; None for all rows."""
    if PARTITION_PATH not in rows.column_names:
        yield "", None
        return
    partitions = one_chunk(rows[PARTITION_PATH])
    codes = to_numpy(partitions.indices)
    order = np.argsort(codes, kind="stable")
    distinct, firsts = np.unique(codes[order], return_index=True)
    for code, first, end in zip(distinct.tolist(), firsts, [*firsts[1:], len(order)], strict=True):
        yield partitions.dictionary[code].as_py(), None if len(distinct) == 1 else order[first:end]
