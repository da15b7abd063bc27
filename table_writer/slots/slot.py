"""Second stage: the rows of a slot become new versions of base files, one for each file group that they go to."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_format.slices.file_names import new_bucket_file_id, new_file_id
from table_writer.execution.slot_rows import MemoryShare, SlotRows, TableSource, some_in_one_piece
from table_writer.execution.task_memory import again_from
from table_writer.files.file_change import FileChange, WrittenFile
from table_writer.files.ordered_merge import merge_in_order, rows_size
from table_writer.files.rewrite import rewrite_whole, write_first, write_first_in_parts
from table_writer.metadata.index_deltas import DeltaCollector
from table_writer.plan.plan import BUCKET_COLUMN, CurrentFile, FilePlan, TaskIdentity
from table_writer.rows.merge import positions_after
from table_writer.rows.slot_rows import Incoming
from table_writer.surgery.merge_file import merge_by_surgery
from table_writer.surgery.policy import CannotSplice

Rows = npt.NDArray[np.integer[Any]]

_SAMPLE_ROWS = 8192

# Surgery holds less of a file than a merge of all its rows.
_BY_SURGERY = 4

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
        """Number of rows."""
        return self.rows.num_rows if self.positions is None else len(self.positions)


@dataclass(frozen=True, slots=True)
class GroupParts:
    """The rows of one file group, too many to be in memory together.

    Attributes:
        partition: the group's partition path.
        number: of the group, or its bucket.
        parts: its rows by ranges of record keys, rising; to be read once, before the next group's.
    """

    partition: str
    number: int
    parts: Iterator[GroupRows]


class _Numbered:
    """The parts of a group, converted to a file's rows and numbered consecutively.

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
            del part
            yield incoming
            del incoming  # before the next one is read


def write_slots(plan: FilePlan, slots: Iterable[SlotRows], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all partitions and buckets that a task's rows fall into; unchanged files stay."""
    waiting = iter(slots)
    first = next(waiting, None)
    if first is None:
        return
    memory = first.memory
    waiting = again_from([first], waiting)
    del first  # so that its rows are freed once its files are written
    # all slots together: row numbers and index changes continue from slot to slot
    groups = itertools.chain.from_iterable(map(functools.partial(_groups_of_slot, plan), waiting))
    yield from write_groups(plan, groups, task, memory)


def _groups_of_slot(plan: FilePlan, slot: SlotRows) -> Iterator[GroupRows | GroupParts]:
    if not slot.fits:
        yield from groups_in_ranges(slot)
        return
    rows, positions = slot.whole(_WHERE, _ADVICE)
    plan.current.load(partitions_of_rows(rows, positions))
    yield from groups_of_rows(rows, positions)


def write_groups(
    plan: FilePlan,
    groups: Iterable[GroupRows | GroupParts],
    task: TaskIdentity,
    memory: MemoryShare | None = None,
) -> Iterator[WrittenFile]:
    """Write the files of all file groups that a task changes; unchanged files stay.

    Changes of the record index are written to files, which the last result names.

    Args:
        plan: see `FilePlan`.
        groups: the rows.
        task: which attempt of which task this is.
        memory: what the task may hold; None if nothing bounds it.
    """
    first = 0
    most = None if memory is None else memory.nbytes
    changes = DeltaCollector(plan.storage, plan.index_folder, task.token, plan.index, most)
    last: WrittenFile | None = None
    for group in groups:
        current = plan.current.find(group.partition, group.number)
        writer = GroupWriter(plan, task, group, current, changes, memory=memory)
        if isinstance(group, GroupParts):
            parts = _Numbered(plan, group.parts, first)
            written = writer.write_parts(iter(parts))
            first = parts.first
        else:
            count = group.count
            written = writer.write(Incoming.of(plan, group.rows, group.positions, first))
            first += count
        del group, writer  # before the next group's rows are read
        if written is None:
            continue
        if last is not None:
            yield last
        last = written
    if last is not None:
        yield dataclasses.replace(last, index_deltas=changes.write())


def partitions_of_rows(rows: pa.Table, positions: Rows | None = None) -> list[str]:
    """The partition paths of keyed rows, of all rows or of those at the positions."""
    if PARTITION_PATH not in rows.column_names:
        return [""]
    column = one_chunk(rows.column(PARTITION_PATH))
    codes = to_numpy(column.indices)
    chosen = np.unique(codes if positions is None else codes[positions])
    names: list[str] = column.dictionary.take(from_numpy(chosen)).to_pylist()
    return names


def groups_of_rows(rows: pa.Table, positions: Rows | None = None) -> Iterator[GroupRows]:
    """Keyed rows by file group.

    Args:
        rows: the rows.
        positions: of the rows to take; None for all.
    """

    def numbers(column: Any) -> npt.NDArray[np.int64]:
        values = to_numpy(column)
        return (values if positions is None else values[positions]).astype(np.int64)

    names = [""]
    codes = numbers(one_chunk(rows.column(BUCKET_COLUMN)))
    if PARTITION_PATH in rows.column_names:
        partitions = one_chunk(rows.column(PARTITION_PATH))
        names = partitions.dictionary.to_pylist()
        codes = codes * len(names) + numbers(partitions.indices)
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
    """The rows of a slot that exceeds a task's memory, by file group.

    They are spilled in ranges of partition, group and record key of about equal size, and read back range by range:
    all rows of a key are in one range.
    """
    columns = [name for name in (PARTITION_PATH, BUCKET_COLUMN, RECORD_KEY) if name in next(slot.pieces()).column_names]
    sample = _sample(slot.pieces(columns))
    sample = sample.take(pc.sort_indices(sample))
    most = slot.nbytes if slot.memory is None else slot.memory.nbytes
    count = -(-slot.nbytes // max(1, most)) + 1
    places = np.unique(np.linspace(0, len(sample), count + 1).astype(np.int64)[1:-1])
    bounds = sample.take(from_numpy(places[places < len(sample)])).unique()
    ranges = slot.divided(lambda table: positions_after(bounds, _order_texts(table)), len(bounds) + 1)
    groups = itertools.groupby(_range_groups(ranges), key=lambda group: (group.partition, group.number))
    for (partition, number), parts in groups:
        yield GroupParts(partition, number, parts)


def _range_groups(ranges: Iterable[TableSource]) -> Iterator[GroupRows]:
    for source in ranges:
        rows = some_in_one_piece(source.tables(), _WHERE, _ADVICE)
        if rows is not None:
            groups = sorted(groups_of_rows(rows), key=lambda group: (group.partition, group.number), reverse=True)
            del rows
            while groups:
                yield groups.pop()


def _sample(tables: Iterator[pa.Table]) -> Any:
    """Sort keys of evenly spaced rows, between `_SAMPLE_ROWS` and twice as many if there are so many."""
    sample: Any = pa.array([], pa.string())
    step, start = 1, 0
    for table in tables:
        places = np.arange(start, table.num_rows, step)
        start = start - table.num_rows + len(places) * step
        sample = pa.concat_arrays([sample, _order_texts(table.take(from_numpy(places)))])
        while len(sample) > 2 * _SAMPLE_ROWS:
            # the next row is one that the sparser sample would take
            start += step * (len(sample) % 2)
            sample = sample.take(from_numpy(np.arange(0, len(sample), 2)))
            step *= 2
    return sample


def _order_texts(table: pa.Table) -> Any:
    """A sort key for each row: its file group, then its record key."""
    numbers = pc.utf8_lpad(pc.cast(one_chunk(table[BUCKET_COLUMN]), pa.string()), 10, "0")
    texts = [numbers, one_chunk(table[RECORD_KEY])]
    if PARTITION_PATH in table.column_names:
        texts.insert(0, one_chunk(table[PARTITION_PATH]).dictionary_decode())
    return pc.binary_join_element_wise(*texts, "\0")


def _has_rows(change: FileChange) -> bool:
    return len(change.incoming.keys) > 0


class GroupWriter:
    """One file group of one partition in one write.

    Args:
        plan: see `FilePlan`.
        task: which attempt of which task this is.
        group: the group's partition path and number; see `GroupRows`.
        current: the group's newest file; None for a new group.
        changes: takes what the write changes in the record index.
        memory: see `write_groups`.
    """

    def __init__(
        self,
        plan: FilePlan,
        task: TaskIdentity,
        group: GroupRows | GroupParts,
        current: CurrentFile | None,
        changes: DeltaCollector,
        *,
        memory: MemoryShare | None,
    ) -> None:
        self._plan = plan
        self._task = task
        self._partition = group.partition
        self._current = current
        self._changes = changes
        self._memory = memory
        if current is not None:
            self._file_id = current.file_id
        else:
            bucket = group.number if plan.bucketed else plan.created.get(group.number)
            self._file_id = new_file_id() if bucket is None else new_bucket_file_id(bucket)

    def write(self, incoming: Incoming) -> WrittenFile | None:
        """Merge some rows into the group's file, or make its first one; None when nothing changes."""
        if self._current is None:
            return self._with_keys(write_first(self._change(incoming.without_deletes())))
        change = self._change(incoming)
        size = 0 if self._memory is None else incoming.nbytes + rows_size(self._plan, self._current.path)
        whole = self._holds(size)
        if whole or self._holds(size // _BY_SURGERY):
            try:
                return self._with_keys(merge_by_surgery(change, or_whole=whole))
            except CannotSplice:
                pass
        if whole:
            return self._with_keys(rewrite_whole(change))
        return self.write_parts(iter((incoming,)))

    def write_parts(self, parts: Iterator[Incoming]) -> WrittenFile | None:
        """Like `write`, for rows that come part by part in the order of their keys."""
        if self._current is None:
            # unlike generators, these hold no part while the next one is read
            changes = map(self._kept, parts)
            return write_first_in_parts(filter(_has_rows, changes), self._take_keys)
        assert self._memory is not None, "rows come in parts where memory is bounded"  # noqa: S101
        first = next(parts)
        change = self._change(first.without_rows())
        todo = again_from([first], parts)
        del first
        return merge_in_order(change, todo, self._memory, self._take_keys)

    def _holds(self, size: int) -> bool:
        return self._memory is None or size <= self._memory.nbytes

    def _change(self, incoming: Incoming) -> FileChange:
        return FileChange(incoming, self._task, self._partition, self._file_id, self._current)

    def _kept(self, part: Incoming) -> FileChange:
        """The rows of a new file group."""
        return self._change(part.without_deletes())

    def _with_keys(self, written: WrittenFile | None) -> WrittenFile | None:
        """Hand on the keys of a file that was written whole."""
        if written is None:
            return None
        self._take_keys(written.inserted, written.deleted)
        return dataclasses.replace(written, inserted=None, deleted=None)

    def _take_keys(self, inserted: Any, deleted: Any) -> None:
        self._changes.add(self._partition, self._file_id, inserted, deleted)
