"""Columns of statistics that a snapshot has loaded, within a limit of memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import pyarrow as pa

from catalog.statistics.indexed_column import IndexedColumn
from pushdown.verdict import CannotPrune
from table_format.metadata_table.reader import MetadataTable

DEFAULT_LIMIT = 4 << 30
"""Bytes of statistics that a snapshot keeps; with a million files that is some 70 columns of numbers."""


@dataclass(frozen=True, eq=False)
class CachedColumn:
    """What is known of a column.

    Attributes:
        kind: the type for which it was loaded.
        column: the statistics, or why there are none.
        source: the look at the metadata table that it is of.
    """

    kind: pa.DataType
    column: IndexedColumn | CannotPrune
    source: MetadataTable | None


class ColumnCache:
    """The columns used last, as many as fit; threads may share it.

    Args:
        limit: bytes; one column is always kept.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._columns: OrderedDict[str, CachedColumn] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str) -> CachedColumn | None:
        """What was put under that name and not dropped since."""
        with self._lock:
            found = self._columns.get(name)
            if found is not None:
                self._columns.move_to_end(name)
            return found

    def put(self, name: str, column: CachedColumn) -> None:
        """Keep a column; the ones that were used least recently make room."""
        with self._lock:
            self._columns[name] = column
            self._columns.move_to_end(name)
            excess = self._bytes() - self.limit
            while excess > 0 and len(self._columns) > 1:
                _, dropped = self._columns.popitem(last=False)
                excess -= _bytes_of(dropped)

    @property
    def nbytes(self) -> int:
        """Memory that the columns take."""
        with self._lock:
            return self._bytes()

    def inherited(self) -> ColumnCache:
        """A cache of its own with the statistics of this one, which they share."""
        other = ColumnCache(self.limit)
        with self._lock:
            columns = [(name, of) for name, of in self._columns.items() if isinstance(of.column, IndexedColumn)]
        other._columns.update(columns)
        return other

    def _bytes(self) -> int:
        return sum(map(_bytes_of, self._columns.values()))


def _bytes_of(cached: CachedColumn) -> int:
    return cached.column.nbytes if isinstance(cached.column, IndexedColumn) else 0
