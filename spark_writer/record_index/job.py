"""A write by the record index as Spark jobs: rows are keyed, tagged by the index, placed, and written.

1. Rows get their keys and wait in Spark's cache.
2. They are tagged: a small batch on the driver, from its keys alone; another one in tasks, each with the keys of one
   file group of the index. Rows that are all new skip this.
3. The driver adds up what it was told, plans the file groups of new rows, and the rows go on to the writing tasks; or,
   with some sort modes of a bulk insert, they are written where they are.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from spark_writer.decimals import unscaled
from spark_writer.placement import placements
from spark_writer.shuffle import file_writer, task_context, task_identity
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.metadata_table.record_index import RecordIndex
from table_writer.execution.blocks import BLOCK_DDL
from table_writer.files.written import WRITTEN_DDL, WrittenFile
from table_writer.plan.operations import SortMode
from table_writer.plan.plan import FilePlan
from table_writer.tagging.files import CurrentFiles
from table_writer.tagging.placement import Sizing, place_inserts
from table_writer.tagging.rows import KEYED_DDL, BlockSummary, Profile, RowPlan, key_batches, open_rows
from table_writer.tagging.stages import (
    TAGGED_DDL,
    Assigned,
    PlacePlan,
    SpreadPlan,
    place_blocks,
    spread_blocks,
    tag_blocks,
)
from table_writer.tagging.tagging import TagPlan, Tags, tag_rows
from table_writer.tagging.targets import other_rows, slot_targets
from table_writer.tagging.unshuffled import StayPlan, write_where_they_are

_Blocks = dict[tuple[int, int], BlockSummary]

_TAGGED_BYTES = 128 << 20
_MOST_TASKS = 10_000


@dataclass(frozen=True)
class IndexedWrite:
    """One write of rows into a table whose files are found by the record index.

    Attributes:
        rows: how they are keyed.
        tags: how they are tagged; None when all are inserted as they are.
        index: the record index; None when nothing is looked up.
        files: of the table.
        placed: current files that may take new records; none where the write replaces them.
        sizing: by the bytes that a row of the batch takes in a file.
        partitioned: the table has partitions.
        parallelism: tasks that run at a time.
        tasks: writing tasks that the job asks for.
        driver_rows: rows that are tagged on the driver, at most.
        sort: how rows that are inserted are laid out; see `SortMode`.
    """

    rows: RowPlan
    tags: TagPlan | None
    index: RecordIndex | None
    files: CurrentFiles
    placed: bool
    sizing: Callable[[float | None], Sizing]
    partitioned: bool
    parallelism: int
    tasks: int | None
    driver_rows: int
    sort: SortMode = SortMode.GLOBAL_SORT

    def run(self, df: DataFrame, finish: Callable[[Profile, pa.Table], FilePlan]) -> list[WrittenFile]:
        """Run the jobs.

        Args:
            df: the rows.
            finish: the plan of the files, when it is known what is to be written and which current files change.

        Raises:
            HudiError: a worker's error, as it raised it.
        """
        df, decimals = unscaled(df)
        rows = replace(self.rows, decimals=decimals)
        keyed = df.mapInArrow(_keyer(rows), KEYED_DDL).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with workers_errors():
                heads = keyed.select("task", "block", "rows", "summary", "early").collect()
                blocks = {(head["task"], head["block"]): _summary(head["summary"]) for head in heads}
                early = {(head["task"], head["block"]): head["early"] for head in heads if head["early"] is not None}
                total = sum(head["rows"] for head in heads)
                if not total:
                    return []
                if self.tags is not None and total <= self.driver_rows:
                    profile, assigned = self._tag_here(keyed, blocks, early, self.tags)
                    return self._place(keyed, blocks, profile, assigned, finish)
                return self._write(keyed, blocks, finish)
        finally:
            keyed.unpersist()

    def _write(
        self, keyed: DataFrame, blocks: _Blocks, finish: Callable[[Profile, pa.Table], FilePlan]
    ) -> list[WrittenFile]:
        if self.tags is None:
            profile = Profile.total(block.profile for block in blocks.values())
            return self._place(keyed, blocks, profile, None, finish)
        tagged = self._tag_there(keyed, blocks, self.tags).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            # of our own workers, as all that Spark's Python sends
            profiles = [pickle.loads(row["profile"]) for row in tagged.select("profile").collect()]  # noqa: S301
            return self._place(tagged, blocks, Profile.total(profiles), None, finish)
        finally:
            tagged.unpersist()

    def _tag_here(
        self, keyed: DataFrame, blocks: _Blocks, early: dict[tuple[int, int], bytes], plan: TagPlan
    ) -> tuple[Profile, dict[tuple[int, int], Assigned]]:
        """Tag a small batch, whose keys and ordering values alone come to the driver."""
        slims = dict(early)
        if slims.keys() != blocks.keys():
            rows = keyed.select("task", "block", "slim").collect()
            slims |= {(row["task"], row["block"]): row["slim"] for row in rows if row["slim"] is not None}
        if slims.keys() != blocks.keys():
            raise other_rows()
        found = sorted(slims.items())
        tables = [open_rows(bytes(slim)) for _, slim in found]
        slim = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        tags = tag_rows(slim, None if self.index is None else self.index.get_record_locations, plan)
        ends = np.cumsum([table.num_rows for table in tables])
        owners = np.searchsorted(ends, tags.rows, side="right")
        assigned = {}
        for number, (place, _) in enumerate(found):
            mine = np.flatnonzero(owners == number)
            start = int(ends[number]) - tables[number].num_rows
            part = Tags(tags.rows[mine] - start, tags.numbers[mine], tags.gone[mine], {})
            assigned[place] = Assigned(blocks[place].check, part)
        return Profile.of(slim, tags, most=max(1, slim.num_rows)), assigned

    def _tag_there(self, keyed: DataFrame, blocks: _Blocks, plan: TagPlan) -> DataFrame:
        """Tag in tasks, each with all rows of its keys."""
        size = sum(block.size for block in blocks.values())
        groups = 1 if self.index is None else self.index.layout.count
        wanted = max(self.parallelism, -(-size // _TAGGED_BYTES))
        parts = max(1, -(-wanted // groups))
        # one a core: hashes leave tasks alike, and starting one takes as long as looking ten thousands of keys up
        tasks = min(groups * parts, wanted, _MOST_TASKS)
        spread = SpreadPlan(self.index, parts, plan.by_partition, placements(tasks))
        spreading = keyed.mapInArrow(_on_batches(spread_blocks, spread), BLOCK_DDL)
        worker = _tagger(plan, self.index, self.rows.ordering)
        return spreading.repartition(tasks, "slot").mapInArrow(worker, TAGGED_DDL)

    def _place(
        self,
        rows: DataFrame,
        blocks: _Blocks,
        profile: Profile,
        assigned: dict[tuple[int, int], Assigned] | None,
        finish: Callable[[Profile, pa.Table], FilePlan],
    ) -> list[WrittenFile]:
        weighed = [block.record for block in blocks.values() if block.record is not None]
        sizing = self.sizing(sum(weighed) / len(weighed) if weighed else None)
        if self.sort is not SortMode.GLOBAL_SORT:
            return self._stay(rows, blocks, assigned, sizing.per_file, finish(profile, self.files.table.slice(0, 0)))
        current = self.files.sizes_of(set(profile.inserts)) if self.placed else {}
        first = self.files.table.num_rows
        places = place_inserts(profile.inserts, current, sizing, first, profile.updates)
        size = sum(block.size for block in blocks.values())
        targets = slot_targets(profile.updates, places, self.files.table, self._most_slots(size))
        plan = finish(profile, self.files.only(targets.numbers) if self.placed else self.files.table.slice(0, 0))
        if not len(targets.numbers):
            return []
        slots = int(targets.slots.max()) + 1
        moves = self.tags is not None and self.tags.move
        placing = PlacePlan(places, targets, placements(slots), moves, assigned, self.partitioned)
        split = rows.mapInArrow(_on_batches(place_blocks, placing), BLOCK_DDL)
        written = split.repartition(slots, "slot").mapInArrow(file_writer(plan), WRITTEN_DDL)
        return [WrittenFile.from_row(row["stat"], row["statistics"]) for row in written.collect()]

    def _stay(
        self,
        rows: DataFrame,
        blocks: _Blocks,
        assigned: dict[tuple[int, int], Assigned] | None,
        per_file: int,
        files: FilePlan,
    ) -> list[WrittenFile]:
        """Write rows that are all inserted in the tasks that have them."""
        checks = {place: block.check for place, block in blocks.items()} if self.tags is None else None
        files = replace(files, as_they_come=True)
        plan = StayPlan(files, per_file, self.sort is SortMode.PARTITION_SORT, checks, assigned)
        written = rows.mapInArrow(_stayer(plan), WRITTEN_DDL)
        return [WrittenFile.from_row(row["stat"], row["statistics"]) for row in written.collect()]

    def _most_slots(self, size: int) -> int:
        if self.tasks is not None:
            return self.tasks
        return min(max(4 * self.parallelism, -(-size // _TAGGED_BYTES)), _MOST_TASKS)


def _keyer(plan: RowPlan) -> Worker:
    return in_worker(lambda batches: key_batches(plan, batches, task_context().partitionId()))


def _tagger(plan: TagPlan, index: RecordIndex | None, ordering: tuple[str, ...]) -> Worker:
    return in_worker(lambda batches: tag_blocks(plan, index, ordering, batches, task_context().partitionId()))


def _stayer(plan: StayPlan) -> Worker:
    return in_worker(lambda batches: write_where_they_are(plan, batches, task_identity()))


def _on_batches(function: Callable[[Any, Batches], Iterator[pa.RecordBatch]], plan: object) -> Worker:
    return in_worker(lambda batches: function(plan, batches))


def _summary(data: bytes) -> BlockSummary:
    found: BlockSummary = pickle.loads(data)  # noqa: S301 - of our own workers, as all that Spark's Python sends
    return found
