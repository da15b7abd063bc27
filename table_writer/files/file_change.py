"""A change of one base file: the rows that a write merges into it, and the new version that is written."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.commit import NO_COMMIT, WriteStat
from table_format.codecs.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.config.properties import ensure_partition_metadata
from table_format.keys.key_text import columns_of_fields
from table_format.slices.file_names import BaseFileName
from table_writer.metadata.index_deltas import DeltaFile
from table_writer.plan.operations import Duplicates
from table_writer.plan.plan import CurrentFile, FilePlan, TaskIdentity
from table_writer.rows.key_identity import refuse_other_records
from table_writer.rows.merge import RowChanges, row_changes
from table_writer.rows.ordering import ordering_columns
from table_writer.rows.several_rows import Several
from table_writer.rows.slot_rows import Incoming
from table_writer.timeline import markers


@dataclass(frozen=True, slots=True)
class EncodedWork:
    """How much of a file was encoded, and how much copied from the previous version.

    Attributes:
        bytes_encoded: of column chunks that were encoded, compressed.
        bytes_copied: of column chunks that were copied.
        chunks_encoded: number of encoded chunks, including the file name column of each row group (a hundred bytes).
        groups_touched: row groups that were edited, dropped or appended; all of a file that was written whole.
        spliced: 1 for a file that was written by row-group surgery; their number in a total.
    """

    bytes_encoded: int = 0
    bytes_copied: int = 0
    chunks_encoded: int = 0
    groups_touched: int = 0
    spliced: int = 0

    @classmethod
    def total(cls, works: Iterable[EncodedWork]) -> EncodedWork:
        """The sum."""
        rows = [dataclasses.astuple(work) for work in (cls(), *works)]
        return cls(*(sum(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True)
class WrittenFile:
    """One new base file.

    Attributes:
        stat: for the commit.
        statistics: of its columns, as a table of the metadata table's exchange schema; None without them.
        work: how it was made.
        index_deltas: delta files of its task's changes to the record index; set on one file of the task.
        inserted: record keys that are new in the file, or in the record index; only within the task, they do not go to
            the driver.
        deleted: record keys that the file no longer holds; only within the task.
        several: the records of which it changed several rows.
    """

    stat: WriteStat
    statistics: pa.Table | None
    work: EncodedWork = EncodedWork()
    index_deltas: tuple[DeltaFile, ...] = ()
    inserted: Any = field(default=None, compare=False)
    deleted: Any = field(default=None, compare=False)
    several: Several = field(default_factory=Several)


@dataclass(frozen=True)
class FileChange:
    """Rows that one write merges into one base file, or puts into the first file of a file group.

    Attributes:
        incoming: the rows.
        task: the writing task.
        partition: partition path.
        file_id: of the file group.
        previous: the group's newest file; None for a new group.
        started: monotonic time at which the task began this file.
    """

    incoming: Incoming
    task: TaskIdentity
    partition: str
    file_id: str
    previous: CurrentFile | None
    started: float = field(default_factory=time.monotonic)

    @property
    def plan(self) -> FilePlan:
        """The write's plan."""
        return self.incoming.plan

    @property
    def path(self) -> str:
        """Path of the previous version; empty for a new file group."""
        return "" if self.previous is None else self.previous.path

    @property
    def name(self) -> str:
        """File name of the new version."""
        return str(BaseFileName(self.file_id, self.task.token, self.plan.instant))

    @property
    def target(self) -> str:
        """Path of the new version."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @cached_property
    def added(self) -> pa.Table:
        """The rows with meta columns; not for writes that only delete."""
        if self.plan.delete:
            raise AssertionError("a write that deletes adds no rows")
        return self.incoming.with_meta(self.task.number, self.partition, self.name)

    @property
    def ordering(self) -> tuple[str, ...]:
        """Columns that decide whether the file's row or the batch's is newer; empty if the batch's always is."""
        plan = self.plan
        by_value = plan.event_time and plan.duplicates is Duplicates.MERGE and not plan.delete
        return plan.ordering if by_value else ()

    @property
    def compared(self) -> list[str]:
        """Columns of the file that are compared with those of the rows, besides the record key."""
        doubted = () if self.incoming.doubtful is None else self.plan.shared
        return columns_of_fields(self.plan.schema, [*self.ordering, *doubted])

    def announce(self) -> None:
        """Create the marker, and the partition's metadata file; must precede the new version's first byte."""
        plan = self.plan
        io_type = markers.CREATE if self.previous is None else markers.MERGE
        markers.create_marker(plan.storage, plan.instant, self.partition, self.name, io_type)
        ensure_partition_metadata(plan.storage, self.partition, plan.instant)

    def row_changes(self, old: pa.Table, old_keys: Any) -> RowChanges:
        """Which rows of the file are replaced, deleted or added.

        Args:
            old: their columns of `compared` at least.
            old_keys: their record keys, in one array.

        Raises:
            RecordError: a row has the key of another record, see `key_identity`; or of one that the file has already.
        """
        incoming = self.incoming
        self._refuse_other_records(old, old_keys)
        return row_changes(
            old_keys,
            incoming.keys,
            deletes=incoming.deletes,
            gone=incoming.gone,
            duplicates=Duplicates.MERGE if self.plan.delete else self.plan.duplicates,
            old_ordering=ordering_columns(old, self.ordering),
            new_ordering=incoming.ordering() if self.ordering else [],
        )

    def _refuse_other_records(self, old: pa.Table, old_keys: Any) -> None:
        incoming = self.incoming
        doubtful = incoming.doubtful
        if doubtful is None or (self.plan.duplicates is Duplicates.ADD and not self.plan.delete):
            return
        at = pc.index_in(old_keys, value_set=incoming.keys.take(from_numpy(doubtful)))
        there = np.flatnonzero(valid_mask(at))
        if len(there):
            new = incoming.key_rows(doubtful[to_numpy(at)[there]])
            places = from_numpy(there)
            old = old.select(columns_of_fields(old.schema, self.plan.shared)).take(places)
            refuse_other_records(old, new, old_keys.take(places), self.plan.shared)

    def keys_to_put(self, changes: RowChanges) -> Any:
        """The keys that the record index is to locate in the file: new ones, and those that it should have had."""
        fresh = self.incoming.fresh
        rows = changes.inserted if fresh is None else np.union1d(changes.inserted, np.flatnonzero(fresh))
        return self.incoming.keys.take(from_numpy(rows))

    def written(
        self,
        size: int,
        row_count: int,
        work: EncodedWork,
        statistics: pa.Table | None,
        *,
        inserted: Any,
        deleted: Any,
        inserted_rows: int | None = None,
        updated_rows: int = 0,
        deleted_rows: int = 0,
        several: Several | None = None,
    ) -> WrittenFile:
        """The new version, with its write stat.

        Args:
            size: bytes of the file.
            row_count: its rows.
            work: how it was made.
            statistics: of its columns, for the metadata table; None without them.
            inserted: keys that are new in the file, or in the record index.
            deleted: keys that it no longer holds.
            inserted_rows: rows that are new in the file; None for as many as `inserted`.
            updated_rows: rows whose values were replaced.
            deleted_rows: rows that were deleted.
            several: see `WrittenFile`; None for none.
        """
        elapsed = int((time.monotonic() - self.started) * 1000)
        stat = WriteStat(
            file_id=self.file_id,
            path=self.target,
            partition_path=self.partition,
            prev_commit=NO_COMMIT if self.previous is None else self.previous.instant,
            num_writes=row_count,
            num_deletes=deleted_rows,
            num_update_writes=updated_rows,
            num_inserts=len(inserted) if inserted_rows is None else inserted_rows,
            total_write_bytes=size,
            file_size_in_bytes=size,
            runtime_stats={
                "totalScanTime": 0,
                "totalUpsertTime": 0 if self.previous is None else elapsed,
                "totalCreateTime": elapsed if self.previous is None else 0,
            },
        )
        return WrittenFile(stat, statistics, work, inserted=inserted, deleted=deleted, several=several or Several())

    def merged(
        self,
        old_keys: Any,
        changes: RowChanges,
        *,
        size: int,
        row_count: int,
        work: EncodedWork,
        statistics: pa.Table | None,
    ) -> WrittenFile:
        """The new version after some changes to rows of the previous one, whose keys are `old_keys`."""
        gone = old_keys.take(from_numpy(changes.gone))
        deleted = pc.unique(gone)
        return self.written(
            size,
            row_count,
            work,
            statistics,
            inserted=self.keys_to_put(changes),
            deleted=deleted,
            inserted_rows=len(changes.inserted),
            updated_rows=len(changes.replaced),
            deleted_rows=len(changes.gone),
            several=Several.of(self.incoming.keys, changes.by, gone, deleted),
        )
