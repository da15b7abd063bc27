"""The passes of a write that looks keys up: rows are keyed, tagged by where their keys are, placed, and written.

1. Rows are keyed and held.
2. Rows are tagged: a small batch on the driver, from its keys alone; a larger one in tasks, each with the keys of one
   group of the index. Rows that are all new skip this.
3. The driver adds up the heads of the blocks, plans the file groups of new rows, and the rows go on to the writing
   tasks; or, with some sort modes of a bulk insert, they are written where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.meta_columns import PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index import RecordIndex
from table_writer.execution.executor import Block, Executor, Held, Place, RowSource
from table_writer.execution.slot_rows import in_one_piece
from table_writer.files.file_change import WrittenFile
from table_writer.plan.operations import SortMode
from table_writer.plan.plan import CURRENT_SCHEMA, FilePlan, TaskIdentity
from table_writer.rows.merge import sorted_rows
from table_writer.slots.partition_files import PartitionFiles
from table_writer.slots.slot import GroupRows, write_groups, write_slots
from table_writer.tagging.bucket_keys import BucketKeys
from table_writer.tagging.files import CurrentFiles
from table_writer.tagging.placement import Sizing, other_rows, place_inserts, slot_targets
from table_writer.tagging.rows import BlockSummary, Profile, RowPlan, key_batches, key_check
from table_writer.tagging.stages import (
    Assigned,
    PlacePlan,
    SpreadPlan,
    assigned_rows,
    place_blocks,
    spread_blocks,
    tag_slots,
    tags_of,
)
from table_writer.tagging.tagging import TagPlan, place_of

Rows = npt.NDArray[np.int64]

_WHERE = "in the rows of one partition of the DataFrame"

_ADVICE = ": give it more partitions by `repartition`"


@dataclass(frozen=True)
class StayPlan:
    """How a task writes its own rows to files.

    Attributes:
        files: see `FilePlan`; without current files.
        per_file: most rows of a file.
        sort: by partition path and record key; else rows stay in their order.
        checks: of the keyed blocks' keys, by task and block; None for tagged ones.
        assigned: by task and block the driver's decisions; None for none.
    """

    files: FilePlan
    per_file: int
    sort: bool
    checks: Mapping[Place, int] | None
    assigned: Mapping[Place, Assigned] | None


def write_where_they_are(plan: StayPlan, blocks: Iterator[Block], task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of a task's own rows.

    Memory: with `sort` all rows of the task; else, of each partition path, those that do not fill a file yet.

    Args:
        plan: what to do.
        blocks: keyed or tagged rows.
        task: which attempt of which task this is.

    Raises:
        TransactionError: the rows differ from those that the driver planned for.
        SchemaError: a column is too large for one file, or with `sort` for one task.
    """
    tables = _tables(plan, blocks)
    groups = _in_key_order(plan, tables) if plan.sort else _as_they_come(plan, tables)
    yield from write_groups(plan.files, groups, task)


def _tables(plan: StayPlan, blocks: Iterable[Block]) -> Iterator[pa.Table]:
    for block in blocks:
        rows = block.rows
        if plan.assigned is not None:
            # a small batch was tagged on the driver
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
    """Partition paths, each with the ascending positions of its rows; None for all rows."""
    if PARTITION_PATH not in rows.column_names:
        yield "", None
        return
    partitions = one_chunk(rows[PARTITION_PATH])
    codes = to_numpy(partitions.indices)
    order = np.argsort(codes, kind="stable")
    distinct, firsts = np.unique(codes[order], return_index=True)
    for code, first, end in zip(distinct.tolist(), firsts, [*firsts[1:], len(order)], strict=True):
        yield partitions.dictionary[code].as_py(), None if len(distinct) == 1 else order[first:end]


Finish = Callable[[Profile, pa.Table], FilePlan]

_Blocks = Mapping[Place, BlockSummary]

_NO_FILES = CURRENT_SCHEMA.empty_table()

_TAGGED_BYTES = 128 << 20

_MOST_TASKS = 10_000


@dataclass(frozen=True)
class IndexedWrite:
    """One write of rows into a table whose files are found by looking keys up.

    Attributes:
        rows: how they are keyed.
        tags: how they are tagged; None when all are inserted as they are.
        index: where; None when nothing is looked up.
        files: of the table.
        placed: current files that may take new records; none if the write replaces them.
        sizing: given the bytes that a row of the batch takes in a file.
        partitioned: the table has partitions.
        tasks: number of writing tasks, if the job sets it.
        driver_rows: most rows to tag on the driver.
        sort: how rows that are inserted are laid out; see `SortMode`.
        busy: partition path and file id of file groups that take no new records, since a clustering is planned.
    """

    rows: RowPlan
    tags: TagPlan | None
    index: RecordIndex | BucketKeys | None
    files: PartitionFiles
    placed: bool
    sizing: Callable[[float | None], Sizing]
    partitioned: bool
    tasks: int | None
    driver_rows: int
    sort: SortMode = SortMode.GLOBAL_SORT
    busy: Collection[tuple[str, str]] = ()

    def run(self, executor: Executor, rows: RowSource, finish: Finish) -> list[WrittenFile]:
        """Run the passes.

        Args:
            executor: runs the tasks.
            rows: the rows.
            finish: makes the plan of the files once the rows to write and the changed current files are known.

        Raises:
            HudiError: a task's error, as it raised it.
        """
        with executor.hold(rows, partial(key_batches, self.rows)) as keyed:
            heads = keyed.heads
            blocks: dict[Place, BlockSummary] = {head.place: head.head for head in heads}
            total = sum(head.rows for head in heads)
            if not total:
                return []
            if self.tags is None:
                profile = Profile.total(block.profile for block in blocks.values())
                return self._place(executor, keyed, blocks, finish, profile=profile)
            if total <= self.driver_rows:
                profile, assigned = self._tag_here(keyed, blocks, self.tags)
                return self._place(executor, keyed, blocks, finish, profile=profile, assigned=assigned)
            with self._tag_there(executor, keyed, blocks, self.tags) as tagged:
                profile = Profile.total(head.head for head in tagged.heads)
                return self._place(executor, tagged, blocks, finish, profile=profile)

    def _tag_here(self, keyed: Held, blocks: _Blocks, plan: TagPlan) -> tuple[Profile, dict[Place, Assigned]]:
        """Tag a small batch on the driver, which gets only its keys and ordering values."""
        slims = keyed.keys()
        if slims.keys() != blocks.keys():
            raise other_rows()
        places = sorted(slims)
        tables = [slims[place] for place in places]
        # only some tell apart records of one key
        slim = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
        tags = tags_of(slim, self.index, plan)
        ends = np.cumsum([table.num_rows for table in tables])
        owners = np.searchsorted(ends, tags.rows, side="right")
        assigned = {}
        for number, place in enumerate(places):
            chosen = np.flatnonzero(owners == number)
            start = int(ends[number]) - tables[number].num_rows
            part = tags.part(chosen)
            assigned[place] = Assigned(blocks[place].check, replace(part, rows=part.rows - start))
        return Profile.of(slim, tags, most=max(1, slim.num_rows)), assigned

    def _tag_there(self, executor: Executor, keyed: Held, blocks: _Blocks, plan: TagPlan) -> Held:
        """Tag in tasks, each with all rows of its keys."""
        size = sum(block.size for block in blocks.values())
        fitting = -(-size // _task_bytes(executor))
        wanted = max(executor.parallelism, fitting)
        groups, fewest = 1, 1
        if isinstance(self.index, BucketKeys):
            groups, fewest = self.index.count, fitting  # most rows may be of one bucket
        elif self.index is not None:
            groups = self.index.layout.count
        parts = max(fewest, -(-wanted // groups))
        # hashes spread keys evenly, and starting a task costs as much as ten thousand look-ups
        tasks = min(groups * parts, wanted, _MOST_TASKS)
        spread = partial(spread_blocks, SpreadPlan(self.index, parts, plan.by_partition, tasks))
        tagging = partial(tag_slots, plan, self.index, self.rows.ordering)
        return executor.hold(executor.exchange(keyed, spread, tasks), tagging)

    def _place(
        self,
        executor: Executor,
        rows: Held,
        blocks: _Blocks,
        finish: Finish,
        *,
        profile: Profile,
        assigned: dict[Place, Assigned] | None = None,
    ) -> list[WrittenFile]:
        weighed = [block.record for block in blocks.values() if block.record is not None]
        sizing = self.sizing(sum(weighed) / len(weighed) if weighed else None)
        if self.sort is not SortMode.GLOBAL_SORT:
            # if all rows are inserted, each task writes its own rows
            checks = {place: block.check for place, block in blocks.items()} if self.tags is None else None
            files = replace(finish(profile, _NO_FILES), as_they_come=True)
            staying = StayPlan(files, sizing.per_file, self.sort is SortMode.PARTITION_SORT, checks, assigned)
            return executor.collect(rows, partial(write_where_they_are, staying))
        indexed = [*profile.updates, *profile.relied]
        touched = {place_of(group)[0] for group in indexed} | (profile.partitions if self.placed else set())
        present = CurrentFiles.of(self.files, touched)
        numbers = present.numbers_of(indexed).tolist()
        updates = dict(zip(numbers, profile.updates.values(), strict=False))
        current = present.sizes_of(profile.inserts.keys(), self.busy) if self.placed else {}
        places = place_inserts(profile.inserts, current, sizing, present.table.num_rows, updates)
        size = sum(block.size for block in blocks.values())
        targets = slot_targets(updates, places, present.table, self._most_slots(executor, size))
        plan = finish(profile, present.only(targets.numbers) if self.placed else _NO_FILES)
        created = enumerate(places.created, present.table.num_rows)
        plan = replace(plan, created={number: home.bucket for number, home in created if home.bucket is not None})
        if not len(targets.numbers):
            return []
        slots = int(targets.slots.max()) + 1
        moves = self.tags is not None and self.tags.move
        fills = isinstance(self.index, RecordIndex) and any(current.values())
        placed = PlacePlan(places, targets, moves, assigned, self.partitioned, fills)
        placing = partial(place_blocks, placed)
        return executor.collect(executor.exchange(rows, placing, slots), partial(write_slots, plan))

    def _most_slots(self, executor: Executor, size: int) -> int:
        if self.tasks is not None:
            return self.tasks
        return min(max(4 * executor.parallelism, -(-size // _task_bytes(executor))), _MOST_TASKS)


def _task_bytes(executor: Executor) -> int:
    """Bytes of rows that a task works on."""
    return min(_TAGGED_BYTES, executor.task_memory or _TAGGED_BYTES)
