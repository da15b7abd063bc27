"""Second stage: the rows of a slot become new versions of base files, one for each file group that they go to."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_format.slices.file_names import new_bucket_file_id, new_file_id
from table_writer.execution.slot_rows import SlotRows, TableSource, in_one_piece
from table_writer.files.file_change import CurrentFile, FileChange, WrittenFile
from table_writer.files.rewrite import rewrite_whole, write_first, write_first_in_parts
from table_writer.metadata.index_deltas import DeltaCollector
from table_writer.plan.plan import BUCKET_COLUMN, FilePlan, TaskIdentity
from table_writer.rows.merge import positions_after
from table_writer.rows.slot_rows import Incoming
from table_writer.slots.current import files_of_group
from table_writer.surgery.merge_file import merge_by_surgery
from table_writer.surgery.policy import CannotSplice

pc: Any = compute  # the stubs lag behind the functions

Rows = npt.NDArray[np.integer[Any]]

_SAMPLE_ROWS = 1024

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

    @property
    def count(self) -> int:
        """How many rows they are."""
        return self.rows.num_rows if self.positions is None else len(self.positions)


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The rows of one file group that are not in memory together.

    Attributes:
        partition: the group's partition path.
        number: of the group, or its bucket.
        parts: its rows by ranges of record keys, rising; to be read once, before the next group's.
    """

    partition: str
    number: int
    parts: Iterator[GroupRows]

    def together(self) -> GroupRows:
        """All of its rows in memory, as a merge with the group's file needs them."""
        tables = [
            part.rows if part.positions is None else part.rows.take(from_numpy(part.positions)) for part in self.parts
        ]
        return GroupRows(self.partition, self.number, in_one_piece(tables, _WHERE, _ADVICE), None)


class _Numbered:
    """The rows of a group's parts as a file takes them, with their numbers running on.

    Attributes:
        first: number of the next row.
    """

    def __init__(self, plan: FilePlan, parts: Iterator[GroupRows], first: int) -> None:
        self._plan = plan
        self._parts = parts
        self.first = first

    def __iter__(self) -> Iterator[Incoming]:
        for part in self._parts:
            incoming = Incoming.of(self._plan, part.rows, part.positions, self.first)
            self.first += part.count
            yield incoming


def write_slots(plan: FilePlan, slots: Iterable[SlotRows], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all partitions and buckets that a task's rows fall into; unchanged files stay."""
    for slot in slots:
        if slot.fits:
            rows, positions = slot.whole(_WHERE, _ADVICE)
            groups: Iterable[GroupRows | GroupParts] = groups_of_rows(rows, positions)
        else:
            groups = groups_in_ranges(slot)
        yield from write_groups(plan, groups, task)


def write_groups(plan: FilePlan, groups: Iterable[GroupRows | GroupParts], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all file groups that a task changes; unchanged files stay.

    What they change in the record index is left in one file, which the last of the files names.
    """
    first = 0
    changes = DeltaCollector(plan.storage, plan.index_folder, task.token, plan.index)
    last: WrittenFile | None = None
    for group in groups:
        writer = GroupWriter(plan, task, group.partition, group.number)
        current = _current(plan, group.partition, group.number)
        if isinstance(group, GroupParts) and current is None:
            parts = _Numbered(plan, group.parts, first)
            written = writer.write_parts(iter(parts))
            first = parts.first
        else:
            rows = group.together() if isinstance(group, GroupParts) else group
            written = writer.write(Incoming.of(plan, rows.rows, rows.positions, first), current)
            first += rows.count
        if written is None:
            continue
        changes.add(group.partition, written.stat.file_id, written.inserted, written.deleted)
        if last is not None:
            yield last
        last = dataclasses.replace(written, inserted=None, deleted=None)
    if last is not None:
        yield dataclasses.replace(last, index_deltas=changes.write())


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


def groups_in_ranges(slot: SlotRows) -> Iterator[GroupParts]:
    """The rows of a slot that a task cannot hold at a time, by file group.

    They are put aside by ranges of partition, group and record key that are about equal in size, and come back range
    by range: all rows of a key are in one.
    """
    columns = [name for name in (PARTITION_PATH, BUCKET_COLUMN, RECORD_KEY) if name in next(slot.pieces()).column_names]
    samples = [_order_texts(_some_rows(table)) for table in slot.pieces(columns)]
    sample = pa.concat_arrays(samples)
    sample = sample.take(pc.sort_indices(sample))
    count = -(-slot.nbytes // max(1, slot.share or slot.nbytes)) + 1
    places = np.unique(np.linspace(0, len(sample), count + 1).astype(np.int64)[1:-1])
    bounds = sample.take(from_numpy(places[places < len(sample)])).unique()
    ranges = slot.divided(lambda table: positions_after(bounds, _order_texts(table)), len(bounds) + 1)
    groups = itertools.groupby(_range_groups(ranges), key=lambda group: (group.partition, group.number))
    for (partition, number), parts in groups:
        yield GroupParts(partition, number, parts)


def _range_groups(ranges: Iterable[TableSource]) -> Iterator[GroupRows]:
    for source in ranges:
        tables = list(source.tables())
        if tables:
            rows = in_one_piece(tables, _WHERE, _ADVICE)
            tables.clear()
            yield from sorted(groups_of_rows(rows), key=lambda group: (group.partition, group.number))
            del rows


def _some_rows(table: pa.Table) -> pa.Table:
    step = max(1, table.num_rows // _SAMPLE_ROWS)
    return table.take(from_numpy(np.arange(0, table.num_rows, step)))


def _order_texts(table: pa.Table) -> Any:
    """A text for each row, by which rows of one file group, and keys within it, follow each other."""
    numbers = pc.utf8_lpad(pc.cast(one_chunk(table[BUCKET_COLUMN]), pa.string()), 10, "0")
    texts = [numbers, one_chunk(table[RECORD_KEY])]
    if PARTITION_PATH in table.column_names:
        texts.insert(0, one_chunk(table[PARTITION_PATH]).dictionary_decode())
    return pc.binary_join_element_wise(*texts, "\0")


def _current(plan: FilePlan, partition: str, number: int) -> CurrentFile | None:
    table = plan.current
    if table.num_rows == 0:
        return None
    columns = ["file_id", "instant", "path"]
    files: list[dict[str, str]] = files_of_group(table, partition, number).select(columns).to_pylist()
    return CurrentFile(**files[0]) if files else None


class GroupWriter:
    """One file group of one partition in one write."""

    def __init__(self, plan: FilePlan, task: TaskIdentity, partition: str, number: int) -> None:
        """`number` is the bucket, or the group's number among all."""
        self._plan = plan
        self._task = task
        self._partition = partition
        self._number = number

    def write(self, incoming: Incoming, current: CurrentFile | None) -> WrittenFile | None:
        """Merge some rows into the group's file, or make its first one; None when nothing changes."""
        if current is None:
            file_id = new_bucket_file_id(self._number) if self._plan.bucketed else new_file_id()
            return write_first(FileChange(incoming.without_deletes(), self._task, self._partition, file_id, None))
        change = FileChange(incoming, self._task, self._partition, current.file_id, current)
        try:
            return merge_by_surgery(change)
        except CannotSplice:
            return rewrite_whole(change)

    def write_parts(self, parts: Iterator[Incoming]) -> WrittenFile | None:
        """Make the group's first file of rows that come part by part, their keys rising; None when there are none."""
        file_id = new_bucket_file_id(self._number) if self._plan.bucketed else new_file_id()
        changes = (FileChange(part.without_deletes(), self._task, self._partition, file_id, None) for part in parts)
        return write_first_in_parts(change for change in changes if len(change.incoming.keys))
