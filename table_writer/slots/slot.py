"""Second stage: the rows of a slot become new versions of base files, one for each file group that they go to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.meta_columns import PARTITION_PATH
from table_writer.execution.slot_rows import SlotRows
from table_writer.files.file_change import CurrentFile
from table_writer.files.written import WrittenFile
from table_writer.metadata.index_deltas import DeltaCollector
from table_writer.plan.plan import BUCKET_COLUMN, FilePlan, TaskIdentity
from table_writer.rows.slot_rows import Incoming
from table_writer.slots.file_group import GroupWriter

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.integer[Any]]

_WHERE = "in one bucket of this write"
_ADVICE = "; write the rows in several batches, or make the table with more buckets"


@dataclass(frozen=True, slots=True)
class GroupRows:
    """The rows of one file group.

    Attributes:
        partition: the group's partition path.
        number: of the group, or its bucket.
        rows: keyed rows, this group's among them.
        positions: of its rows; None for all.
    """

    partition: str
    number: int
    rows: pa.Table
    positions: Rows | None


def write_slots(plan: FilePlan, slots: Iterable[SlotRows], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all partitions and buckets that a task's rows fall into; unchanged files stay."""
    for slot in slots:
        rows, positions = slot.whole(_WHERE, _ADVICE)
        yield from write_groups(plan, groups_of_rows(rows, positions), task)


def write_groups(plan: FilePlan, groups: Iterable[GroupRows], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all file groups that a task changes; unchanged files stay.

    What they change in the record index is left in one file, which the last of the files names.
    """
    first = 0
    changes = DeltaCollector(plan.storage, plan.index_folder, task.token, plan.index)
    last: WrittenFile | None = None
    for mine in groups:
        incoming = Incoming.of(plan, mine.rows, mine.positions, first)
        first += mine.rows.num_rows if mine.positions is None else len(mine.positions)
        current = _current(plan, mine.partition, mine.number)
        written = GroupWriter(plan, task, mine.partition, mine.number).write(incoming, current)
        if written is None:
            continue
        changes.add(mine.partition, written.stat.file_id, written.inserted, written.deleted)
        if last is not None:
            yield last
        last = dataclasses.replace(written, inserted=None, deleted=None)
    if last is not None:
        yield dataclasses.replace(last, index_delta=changes.write())


def groups_of_rows(rows: pa.Table, positions: Rows | None = None) -> Iterator[GroupRows]:
    """Keyed rows by file group.

    Args:
        rows: the rows.
        positions: of those that count; None for all.
    """
    numbers = to_numpy(one_chunk(rows.column(BUCKET_COLUMN))).astype(np.int64)
    names = [""]
    codes = numbers
    if PARTITION_PATH in rows.column_names:
        partitions = one_chunk(rows.column(PARTITION_PATH))
        names = partitions.dictionary.to_pylist()
        codes = numbers * len(names) + to_numpy(partitions.indices)
    if positions is not None:
        codes = codes[positions]
    if codes.min() == codes.max():
        yield GroupRows(names[int(codes[0]) % len(names)], int(codes[0]) // len(names), rows, positions)
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        code = int(ordered[start])
        chosen = order[start:end] if positions is None else positions[order[start:end]]
        yield GroupRows(names[code % len(names)], code // len(names), rows, chosen)


def _current(plan: FilePlan, partition: str, number: int) -> CurrentFile | None:
    table = plan.current
    if table.num_rows == 0:
        return None
    mine = pc.and_(pc.equal(table["partition"], partition), pc.equal(table["bucket"], number))
    found: list[dict[str, str]] = table.select(["file_id", "instant", "path"]).filter(mine).to_pylist()
    return CurrentFile(**found[0]) if found else None
