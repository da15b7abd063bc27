"""The rows of one slot, in memory or in files, divided into parts if they exceed a task's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import SchemaError
from table_writer.execution.task_memory import again_from

Positions = npt.NDArray[np.integer[Any]]


class TableSource(Protocol):
    """Tables that can be read again, such as those of a file."""

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The tables, in the order of the batch, with some of their columns or all."""


class Divider(Protocol):
    """Divides rows into numbered parts; it pickles."""

    def __call__(self, tables: Iterator[tuple[pa.Table, Positions]], parts: int) -> list[TableSource]:
        """Store the rows of each part outside of memory.

        Args:
            tables: rows, and the part of each.
            parts: number of parts.
        """


@dataclass(frozen=True)
class MemoryShare:
    """A task's memory limit.

    Attributes:
        nbytes: of rows at a time.
        divider: stores larger numbers of rows outside of memory, in parts.
    """

    nbytes: int
    divider: Divider


@dataclass(frozen=True)
class InMemory:
    """Tables in memory."""

    content: Sequence[pa.Table]

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The tables."""
        return iter(self.content) if columns is None else (table.select(columns) for table in self.content)


@dataclass(frozen=True)
class SlotRows:
    """The rows that one task gets.

    Attributes:
        source: where they are.
        nbytes: their approximate bytes.
        positions: of the rows in the only table of the source; None for all rows.
        memory: the task's limit; None for no limit.
    """

    source: TableSource
    nbytes: int
    positions: Positions | None = None
    memory: MemoryShare | None = None

    @property
    def fits(self) -> bool:
        """Whether all rows fit into the task's memory."""
        return self.memory is None or self.nbytes <= self.memory.nbytes

    def whole(self, where: str, advice: str) -> tuple[pa.Table, Positions | None]:
        """All rows as one table, each column in one piece, and their positions in it; None for all.

        Args:
            where: what they all are, for the error, such as `in one bucket of this write`.
            advice: what to do if they are too large.

        Raises:
            SchemaError: a column is too large for that.
        """
        return in_one_piece(self.source.tables(), where, advice), self.positions

    def pieces(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, table by table, with some of their columns or all."""
        for table in self.source.tables(columns):
            yield table if self.positions is None else table.take(from_numpy(self.positions))

    def divided(self, part_of: Callable[[pa.Table], Positions], parts: int) -> list[TableSource]:
        """The rows in parts outside of memory; each part keeps the batch's order.

        Args:
            part_of: gives the part of each row of a table.
            parts: number of parts.
        """
        assert self.memory is not None, "rows that fit are not divided"  # noqa: S101
        return self.memory.divider(((table, part_of(table)) for table in self.pieces()), parts)


def some_in_one_piece(tables: Iterator[pa.Table], where: str, advice: str) -> pa.Table | None:
    """As `in_one_piece`; None where there is no table."""
    first = next(tables, None)
    if first is None:
        return None
    again = [first]
    del first
    return in_one_piece(again_from(again, tables), where, advice)


def in_one_piece(tables: Iterable[pa.Table], where: str, advice: str) -> pa.Table:
    """Some rows as one table, each column in one piece.

    A column's pieces are freed as soon as they are joined, if the caller does not hold them.

    Args:
        tables: the rows; at least one table.
        where: what they all are, for the error, such as `in one bucket of this write`.
        advice: what to do if they are too large.

    Raises:
        SchemaError: a column is too large for that.
    """
    pieces = list(tables)
    whole = pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)
    del pieces, tables
    whole = whole.unify_dictionaries()
    for column in whole.schema:
        size = whole.column(column.name).nbytes
        if size >= 1 << 31 and not pa.types.is_fixed_size_binary(column.type):
            raise SchemaError(f"column {column.name!r} has {size} bytes {where}, more than 2 GiB{advice}")
    schema, columns = whole.schema, whole.columns
    del whole
    joined: list[Any] = []
    while columns:
        joined.append(one_chunk(columns.pop(0)))
    return pa.table(joined, schema=schema)
