"""Tasks of a clustering: samples of its files, their rows to slots in a new order, and a new file from each slot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.slices.file_names import new_bucket_file_id, new_file_id
from table_writer.clustering.cuts import Cuts
from table_writer.clustering.order import RowOrder
from table_writer.execution.executor import SplitRows
from table_writer.execution.slot_rows import SlotRows, TableSource, some_in_one_piece
from table_writer.execution.task_memory import again_from
from table_writer.files.file_change import FileChange, WrittenFile
from table_writer.files.ordered_merge import file_batches
from table_writer.files.rewrite import current_schema, write_moved, write_moved_in_parts
from table_writer.metadata.index_deltas import DeltaCollector
from table_writer.plan.plan import BUCKET_COLUMN, CurrentFile, FilePlan, TaskIdentity
from table_writer.rows.slot_rows import Incoming

CODE_COLUMN: Final = "_hudi_catalog_code"
"""Name under which rows carry their place in the order of their group; see `RowOrder.codes`."""

_BATCH_ROWS: Final = 1 << 16
_SAMPLE_ROWS: Final = 8192
_WHERE: Final = "in one file of this clustering"
_ADVICE: Final = "; give a lower hoodie.clustering.plan.strategy.target.file.max.bytes"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that is clustered.

    Attributes:
        group: number of its group.
        file: the file.
        step: of how many rows one is sampled.
    """

    group: int
    file: CurrentFile
    step: int = 1


@dataclass(frozen=True)
class GroupOrder:
    """How the rows of a group are divided and ordered.

    Attributes:
        partition: its path.
        bucket: of which all rows are; None in a table without buckets.
        order: of the rows.
        cuts: between its new files.
        first: slot of its first new file.
    """

    partition: str
    bucket: int | None
    order: RowOrder
    cuts: Cuts
    first: int


@dataclass(frozen=True)
class ClusterPlan:
    """What the tasks of a clustering share.

    Attributes:
        files: how files are written.
        groups: by their number.
    """

    files: FilePlan
    groups: dict[int, GroupOrder]

    def group_of(self, slot: int) -> GroupOrder:
        """The group whose rows go to a slot."""
        return next(one for one in self.groups.values() if one.first <= slot < one.first + one.cuts.parts)


@dataclass(frozen=True)
class SampleTask:
    """Sampling of one file.

    Attributes:
        files: how files are read.
        input: the file.
        columns: to sample, besides the record key.
    """

    files: FilePlan
    input: InputFile
    columns: tuple[str, ...]


def sample_file(task: SampleTask) -> pa.Table:
    """Evenly spaced rows of a file: the columns, and the record key."""
    fields = {field.name: field for field in (*META_FIELDS, *task.files.schema)}
    schema = pa.schema([fields[name] for name in dict.fromkeys((*task.columns, RECORD_KEY))])
    # not the same rows of each file, whose keys may be in the same order
    start = hash_offset(task.input.file.file_id, task.input.step)
    parts = [schema.empty_table()]
    for rows in file_batches(task.files, task.input.file, schema, _BATCH_ROWS):
        places = np.arange(start, rows.num_rows, task.input.step)
        start += len(places) * task.input.step - rows.num_rows
        parts.append(rows.take(from_numpy(places)))
    return pa.concat_tables(parts).combine_chunks()


def hash_offset(text: str, step: int) -> int:
    """A number below `step` that depends on a text alone."""
    return sum(text.encode()) % step


def split_files(plan: ClusterPlan, inputs: Iterable[InputFile], task: TaskIdentity) -> Iterator[SplitRows]:
    """Rows of files with the slots that they go to: a slot is a new file."""
    number = 0
    schema = current_schema(plan.files)
    for item in inputs:
        group = plan.groups[item.group]
        for rows in file_batches(plan.files, item.file, schema, _BATCH_ROWS):
            if not rows.num_rows:
                continue
            codes = group.order.codes(rows)
            slots = group.first + group.cuts.numbers(codes, one_chunk(rows[RECORD_KEY]))
            coded = rows.append_column(CODE_COLUMN, from_numpy(codes))
            coded = coded.append_column(BUCKET_COLUMN, from_numpy(slots.astype(np.int32)))
            yield SplitRows((task.number, number), coded, slots)
            number += 1


def write_clusters(plan: ClusterPlan, slots: Iterable[SlotRows], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the file of each slot; the last result names the files with changes of the record index."""
    files = plan.files
    waiting = iter(slots)
    first = next(waiting, None)
    if first is None:
        return
    most = None if first.memory is None else first.memory.nbytes
    changes = DeltaCollector(files.storage, files.index_folder, task.token, files.index, most)
    todo = again_from([first], waiting)
    del first
    # unlike generators, this holds no slot while the next one is read
    yield from with_deltas(map(partial(_write_slot, plan, task, changes), todo), changes)


def with_deltas(written: Iterable[WrittenFile], changes: DeltaCollector) -> Iterator[WrittenFile]:
    """New files of a task; the last one names those with the task's changes of the record index."""
    last: WrittenFile | None = None
    for file in written:
        if last is not None:
            yield last
        last = file
    if last is not None:
        yield dataclasses.replace(last, index_deltas=changes.write())


def _write_slot(plan: ClusterPlan, task: TaskIdentity, changes: DeltaCollector, slot: SlotRows) -> WrittenFile:
    group = plan.group_of(int(next(slot.pieces([BUCKET_COLUMN]))[BUCKET_COLUMN][0].as_py()))
    file_id = new_file_id() if group.bucket is None else new_bucket_file_id(group.bucket)
    none: Any = pa.array([], pa.string())
    incoming = Incoming(plan.files, pa.table({}), np.empty(0, np.int64), none, 0)
    change = FileChange(incoming, task, group.partition, file_id, None)

    def noted(rows: pa.Table) -> pa.Table:
        changes.add(group.partition, file_id, one_chunk(rows[RECORD_KEY]), none)
        return rows

    if slot.fits:
        table, positions = slot.whole(_WHERE, _ADVICE)
        return write_moved(change, noted(ordered(plan.files, group.order, table, positions)))
    return write_moved_in_parts(change, map(noted, _ordered_parts(plan.files, group.order, slot)))


def ordered(files: FilePlan, order: RowOrder, table: pa.Table, positions: Any = None) -> pa.Table:
    """The rows at some positions, or all, in their order, of `current_schema`."""
    columns = [*dict.fromkeys((*order.columns, RECORD_KEY, CODE_COLUMN))]
    known = table.select(columns) if positions is None else table.select(columns).take(from_numpy(positions))
    places = order.positions(known, to_numpy(one_chunk(known[CODE_COLUMN])))
    chosen = places if positions is None else positions[places]
    return table.select(current_schema(files).names).take(from_numpy(chosen))


def _ordered_parts(files: FilePlan, order: RowOrder, slot: SlotRows) -> Iterator[pa.Table]:
    """The rows of a slot that does not fit into memory, in their order, part by part."""
    assert slot.memory is not None, "rows that fit are not divided"  # noqa: S101
    cuts = _cuts_of_slot(slot, -(-2 * slot.nbytes // max(1, slot.memory.nbytes)) + 1)

    def numbers(table: pa.Table) -> Any:
        return cuts.numbers(to_numpy(one_chunk(table[CODE_COLUMN])), one_chunk(table[RECORD_KEY]))

    sources: list[TableSource] = slot.divided(numbers, cuts.parts)
    for source in sources:
        rows = some_in_one_piece(source.tables(), _WHERE, _ADVICE)
        if rows is not None:
            part = ordered(files, order, rows)
            del rows  # before the rows are encoded
            yield part
            del part


def _cuts_of_slot(slot: SlotRows, parts: int) -> Cuts:
    samples = []
    for table in slot.pieces([CODE_COLUMN, RECORD_KEY]):
        step = max(1, table.num_rows // _SAMPLE_ROWS)
        samples.append(table.take(from_numpy(np.arange(0, table.num_rows, step))))
    sample = pa.concat_tables(samples)
    return Cuts.of(to_numpy(one_chunk(sample[CODE_COLUMN])), one_chunk(sample[RECORD_KEY]), parts)
