"""Column statistics of a snapshot, loaded from the metadata table when a filter first needs a column.

How one column is loaded: its entries by file are read (`MetadataTable.column_stats`), those that may hide a row group
are left out (`merged_ranges`), and the files of a slice give the slice's range (`aggregate`). The result, an
`IndexedColumn`, is in the one cache there is, that of `ColumnIndex`. After a refresh the index of the later snapshot
takes over the cached columns and adds the entries that were written since. What is computed from a column, such as
ranges by partition, is memoized for its parts (`indexed_column.ColumnPart`) and lives as long as they do.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.slices.slice_set import SliceSet, file_names
from catalog.statistics.aggregate import PriorStatistics, known_only, statistics_of_slices
from catalog.statistics.indexed_column import IndexedColumn
from catalog.statistics.merged_ranges import RowGroupSize, without_merged_ranges
from catalog.statistics.seen_row_groups import SeenRowGroups
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.errors import CorruptFileError, MissingFileError, UnsupportedTableError
from table_format.metadata_table.layout import COLUMN_STATS
from table_format.metadata_table.reader import MetadataTable
from table_format.table.schema_history import SchemaHistory

DEFAULT_MEMORY = 4 << 30
"""Bytes of statistics that a snapshot keeps; with a million files that is some 70 columns of numbers."""

#: Entries of statistics that are loaded together at most.
_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True, eq=False)
class CachedColumn:
    """A column that was loaded.

    Attributes:
        kind: the type for which it was loaded.
        column: the statistics, or why there are none.
        source: the metadata table version that it was loaded from; None without a metadata table.
    """

    kind: pa.DataType
    column: IndexedColumn | CannotPrune
    source: MetadataTable | None

    @property
    def nbytes(self) -> int:
        """Memory that the statistics take."""
        return self.column.nbytes if isinstance(self.column, IndexedColumn) else 0


class ColumnIndex:
    """Statistics by column of the file slices of a snapshot; threads may share it.

    Args:
        table: the metadata table; None if there is none.
        slices: of the snapshot.
        history: the schemas with column ids, if the table has any.
        row_groups: from which size on files may have several row groups.
        seen: what footers show of that; None to go by `row_groups` alone.
        memory: bytes of statistics that are cached, the least recently used columns evicted; one is always kept.
        partitions: those of the slices, where they are few of the table's; None to read statistics of all.
    """

    def __init__(
        self,
        table: MetadataTable | None,
        slices: SliceSet,
        history: SchemaHistory | None,
        row_groups: RowGroupSize,
        memory: int = DEFAULT_MEMORY,
        *,
        seen: SeenRowGroups | None = None,
        partitions: Sequence[str] | None = None,
    ) -> None:
        self.memory = memory
        self._partitions = partitions
        self._table = table
        self._slices = slices
        self._history = history
        self._row_groups = row_groups
        self._seen = seen
        self._columns: LruCache[str, CachedColumn] = LruCache(max(1, memory), lambda cached: cached.nbytes)
        self._lock = threading.RLock()

    def column(self, name: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        """A column's statistics in all slices, or why there are none.

        Args:
            name: of the column; dotted for a struct's field.
            kind: its type in the snapshot's schema.
        """
        with self._lock:
            cached = self._columns.get(name)
            if cached is not None and cached.source is self._table and cached.kind == kind:
                return cached.column
            try:
                updated = None if cached is None else self._updated(cached, name, kind)
                column = self._loaded(name, kind) if updated is None else updated
            except (CorruptFileError, MissingFileError):
                if self._table is None or not self._table.has_changed(COLUMN_STATS):
                    raise
                return CannotPrune("column_stats was dropped or built anew meanwhile")
            self._columns.put(name, CachedColumn(kind, column, self._table))
            return column

    def columns(self, names: Sequence[str], kind: pa.DataType) -> Iterator[tuple[str, IndexedColumn | CannotPrune]]:
        """As `column` for columns of one type; several of a small table are loaded at once.

        Args:
            names: of the columns, each once.
            kind: their type in the snapshot's schema.

        Yields:
            A column and its statistics, in the order of the names.
        """
        for name, entries in self._entries_of(names, kind):
            yield name, self.column(name, kind) if entries is None else self._indexed(name, kind, entries)

    def _entries_of(self, names: Sequence[str], kind: pa.DataType) -> Iterable[tuple[str, pa.Table | None]]:
        """The columns, each with its entries where those of all are loaded at once."""
        table, count = self._table, len(self._slices) * len(names)
        together = self._partitions is None and len(names) > 1 and count <= _AT_ONCE
        if together and table is not None and table.has_column_stats:
            with contextlib.suppress(CorruptFileError, MissingFileError):  # `column` finds the reason
                return list(table.column_stats_each(names, kind))
        return [(name, None) for name in names]

    def cached_column(self, name: str) -> IndexedColumn | CannotPrune | None:
        """The column if it is cached; None if `column` would load it."""
        cached = self._columns.get(name)
        return cached.column if cached is not None and cached.source is self._table else None

    def succeeded_by(self, table: MetadataTable | None, slices: SliceSet, row_groups: RowGroupSize) -> ColumnIndex:
        """The index of a later snapshot, which takes over the statistics of this one.

        Args:
            table: the metadata table as it is now.
            slices: as they are now; earlier positions stay the same.
            row_groups: from which size on files may have several row groups.
        """
        newer = ColumnIndex(table, slices, self._history, row_groups, self.memory, seen=self._seen)
        for name, cached in self._columns.items():
            if isinstance(cached.column, IndexedColumn):
                newer._columns.put(name, cached)  # of the same class
        return newer

    def with_row_groups(self, row_groups: RowGroupSize) -> ColumnIndex:
        """The index of the same snapshot for another size of row groups, with nothing loaded."""
        return ColumnIndex(
            self._table,
            self._slices,
            self._history,
            row_groups,
            self.memory,
            seen=self._seen,
            partitions=self._partitions,
        )

    def _loaded(self, name: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        table = self._table
        if table is None:
            return CannotPrune("the table has no metadata table")
        if not table.has_column_stats:
            return CannotPrune("the metadata table has no column_stats")
        return self._indexed(name, kind, table.column_stats(name, kind, self._partitions))

    def _indexed(self, name: str, kind: pa.DataType, entries: pa.Table) -> IndexedColumn | CannotPrune:
        slices = self._slices
        if not slices.names_are_unique():
            return CannotPrune("file names repeat between partitions")
        if entries.num_rows == 0:
            return CannotPrune(f"column_stats has no column {name}")
        pieces = [slices.main, slices.tail] if slices.tail.num_rows else [slices.main]
        parts = [
            statistics_of_slices(piece, self._sound(entries, kind, piece), kind, base_files=names)
            for piece, names in zip(pieces, (slices.base_files(), None), strict=False)
        ]
        if self._history is not None:
            same = [_holds_column(piece, name, self._history) for piece in pieces]
            parts = [known_only(mask, part, kind) for mask, part in zip(same, parts, strict=True)]
        return IndexedColumn(*parts)

    def _updated(self, cached: CachedColumn, name: str, kind: pa.DataType) -> IndexedColumn | None:
        """A column of an earlier snapshot with the entries that came since; None when it must be loaded afresh."""
        table, slices, prior = self._table, self._slices, cached.column
        if table is None or cached.source is None or isinstance(prior, CannotPrune) or cached.kind != kind:
            return None
        entries = table.column_stats_since(cached.source, name, kind)
        if entries is None or not slices.names_are_unique():
            return None
        late, superseded, new_files = slices.since(len(prior))
        if not _are_all_of(entries, late):
            return None
        if not late.num_rows:
            return prior
        entries = self._sound(entries, kind, late)
        return prior.with_part(statistics_of_slices(late, entries, kind, PriorStatistics(prior, superseded, new_files)))

    def _sound(self, entries: pa.Table, kind: pa.DataType, slices: pa.Table) -> pa.Table:
        seen = None if self._seen is None else self._seen.least
        return without_merged_ranges(entries, kind, slices, self._row_groups, seen)


def _are_all_of(entries: pa.Table, slices: pa.Table) -> bool:
    """Whether all entries are of files of these slices."""
    _, names = file_names(slices)
    listed: Any = one_chunk(entries.column("file_name"))
    return bool(pc.all(pc.is_in(listed, names), min_count=0).as_py())


def _holds_column(slices: pa.Table, column: str, history: SchemaHistory) -> NDArray[np.bool_]:
    """In which slices the column's name means that column; log files may have names of their own."""
    top = column.split(".", 1)[0]
    instants: Any = one_chunk(slices.column("instant"))
    unrenamed = []
    for instant in pc.unique(instants).to_pylist():
        try:
            if instant is not None and top in history.same_names(instant, [top]):
                unrenamed.append(instant)
        except UnsupportedTableError:  # reading such a file's rows reports it
            continue
    same = to_numpy(pc.is_in(instants, pa.array(unrenamed, pa.string()))).astype(np.bool_)
    mask: NDArray[np.bool_] = same & (to_numpy(pc.list_value_length(one_chunk(slices.column("logs")))) == 0)
    return mask
