"""What is asked for when a file takes some rows, whether it is rewritten whole or in parts, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import compute

from table_format.codecs.arrow_numpy import from_numpy
from table_writer.files.written import EncodedWork
from table_writer.plan.operations import Duplicates
from table_writer.plan.plan import FilePlan
from table_writer.rows.merge import RowChanges, row_changes
from table_writer.rows.ordering import ordering_columns
from table_writer.rows.slot_rows import Incoming

pc: Any = compute  # the stubs lag behind the functions


@dataclass(frozen=True)
class MergeRequest:
    """Rows to merge into a file.

    Attributes:
        incoming: the rows.
        task: number of the writing task, for the sequence numbers.
        partition: the file's partition path.
        path: of the file as it is.
        name: of its new version, in the same folder.
        announce: to be called before the new version's first byte is written.
    """

    incoming: Incoming
    task: int
    partition: str
    path: str
    name: str
    announce: Callable[[], None]

    @property
    def plan(self) -> FilePlan:
        """The write's plan."""
        return self.incoming.plan

    @property
    def target(self) -> str:
        """Path of the new version."""
        return f"{self.partition}/{self.name}" if self.partition else self.name

    @cached_property
    def added(self) -> pa.Table:
        """The rows with meta columns; none of them where the write only deletes."""
        if self.plan.delete:
            raise AssertionError("a write that deletes adds no rows")
        return self.incoming.with_meta(self.task, self.partition, self.name)

    @property
    def ordering(self) -> tuple[str, ...]:
        """Columns of the file that decide whether its rows or the batch's are the newer; none where the batch's are."""
        plan = self.plan
        by_value = plan.event_time and plan.duplicates is Duplicates.MERGE and not plan.delete
        return plan.ordering if by_value else ()

    def changes(self, old: pa.Table, old_keys: Any) -> RowChanges:
        """What the rows do to rows of the file.

        Args:
            old: their ordering columns at least.
            old_keys: their record keys, in one array.
        """
        incoming = self.incoming
        ordered = bool(self.ordering)
        return row_changes(
            old_keys,
            incoming.keys,
            deletes=incoming.deletes,
            gone=incoming.gone,
            duplicates=Duplicates.MERGE if self.plan.delete else self.plan.duplicates,
            old_ordering=ordering_columns(old, self.ordering),
            new_ordering=incoming.ordering() if ordered else [],
        )


@dataclass(frozen=True)
class FileFacts:
    """A file that was written, apart from what became of the keys.

    Attributes:
        size: its bytes.
        row_count: its rows.
        work: how it was made.
        statistics: of its columns, for the metadata table; None without them.
    """

    size: int
    row_count: int
    work: EncodedWork
    statistics: pa.Table | None


@dataclass(frozen=True)
class NewVersion:
    """A file that was written.

    Attributes:
        size: its bytes.
        row_count: its rows.
        inserted: keys that are new in it.
        deleted: keys that were taken out of it.
        updated_rows: rows whose values were replaced.
        deleted_rows: rows that went.
        work: how it was made.
        statistics: of its columns, for the metadata table; None without them.
    """

    size: int
    row_count: int
    inserted: Any
    deleted: Any
    updated_rows: int
    deleted_rows: int
    work: EncodedWork
    statistics: pa.Table | None

    @classmethod
    def of(cls, request: MergeRequest, old_keys: Any, changes: RowChanges, file: FileFacts) -> NewVersion:
        """By the changes to rows with some keys."""
        return cls(
            size=file.size,
            row_count=file.row_count,
            inserted=request.incoming.keys.take(from_numpy(changes.inserted)),
            deleted=pc.unique(old_keys.take(from_numpy(changes.gone))),
            updated_rows=len(changes.replaced),
            deleted_rows=len(changes.gone),
            work=file.work,
            statistics=file.statistics,
        )
