"""The writes of rows that every table to write has, in terms of one call that carries an operation out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from table_writer.plan.operations import Operation

if TYPE_CHECKING:
    from table_writer.summary import WriteSummary

Rows = TypeVar("Rows")
Options = Mapping[str, Any]


class RowWrites(ABC, Generic[Rows]):
    """A table whose rows can be written; subclasses say what rows may be, and implement `_write`."""

    @abstractmethod
    def _write(self, operation: Operation, rows: Rows, options: Options | None) -> WriteSummary:
        """Carry out an operation in one commit, of which all becomes visible or nothing."""

    def upsert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Insert rows with new keys and update those whose key the table has; `_hoodie_is_deleted` rows delete.

        Columns that the rows lack become null; new columns and wider types become part of the table.
        """
        return self._write(Operation.UPSERT, rows, options)

    def insert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Add rows; `hoodie.datasource.insert.dup.policy` and others say what happens to keys that are there."""
        return self._write(Operation.INSERT, rows, options)

    def bulk_insert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Add rows as they are; keys are taken for new."""
        return self._write(Operation.BULK_INSERT, rows, options)

    def insert_overwrite(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Replace the partitions that the rows fall into by these rows."""
        return self._write(Operation.INSERT_OVERWRITE, rows, options)

    def insert_overwrite_table(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Replace all that the table holds by these rows."""
        return self._write(Operation.INSERT_OVERWRITE_TABLE, rows, options)
