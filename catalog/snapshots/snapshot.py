"""A table at one instant: its file slices, its schema, and statistics of their contents.

Slices are rows of Arrow tables and numpy arrays, by position. What was loaded stays in memory, so that a table that is
held open plans without reading.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache
from catalog.slices.file_slice import FileSlice, file_slices
from catalog.slices.path_values import PathValues, path_values
from catalog.slices.slice_set import Rows, SliceSet
from catalog.slices.time_travel import check_not_cleaned
from catalog.statistics.column_index import DEFAULT_MEMORY, ColumnIndex
from catalog.statistics.indexed_column import IndexedColumn
from catalog.statistics.merged_ranges import DEFAULT_BLOCK_SIZE, RowGroupSize
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.base_file.footer import FooterStatistics
from table_format.codecs.arrow_numpy import one_chunk, pc, to_numpy
from table_format.meta_columns import META_FIELDS
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import (
    latest_file_slices,
    list_data_files,
    read_optimized_slices,
    replaced_file_groups,
)
from table_format.table.client import TableClient
from table_format.table.schema_history import internal_schemas
from table_format.timeline.timeline import Timeline

__all__ = ["IndexedColumn", "Snapshot"]
_UNREAD = object()
_MOST_FOOTER_ENTRIES = 200_000


class Snapshot:
    """The files of a table at an instant.

    Args:
        client: of the table.
        timeline: as loaded.
        as_of: the instant up to which commits count; None for all.
        read_optimized: base files alone, without the log files that changed them since.
        listing: the newest timeline, when the other was put back to an earlier time; None for that itself.
        statistics_limit: bytes of column statistics that are kept in memory.

    Raises:
        OptionError: the table was not there yet at that instant, or its files of then are cleaned away.
        UnsupportedTableError: what is not read, such as base files that are not Parquet.
    """

    def __init__(
        self,
        client: TableClient,
        timeline: Timeline,
        as_of: str | None = None,
        *,
        read_optimized: bool = False,
        listing: Timeline | None = None,
        statistics_limit: int = DEFAULT_MEMORY,
    ) -> None:
        self.client = client
        self.config = client.config
        self.timeline = timeline
        self.as_of = as_of
        self.read_optimized = read_optimized
        self.is_latest = as_of is None and listing is None
        last = timeline.last_completed_write(as_of)
        self.instant: str | None = last.time if last else None
        self.metadata_table = MetadataTable.open(client, listing or timeline)
        self.data_schema: pa.Schema = client.table_schema(timeline, as_of)
        self.schema = whole_schema(client, self.data_schema)
        self.schema_history = internal_schemas(timeline, as_of, newest=listing)
        self.slices = self._load_slices(past=as_of is not None or listing is not None)
        self.replaced = replaced_file_groups(timeline, as_of)
        self.block_size = client.config.block_size or DEFAULT_BLOCK_SIZE
        self.column_index = ColumnIndex(
            self.metadata_table, self.slices, self.schema_history, self._row_groups, statistics_limit
        )
        self._others: dict[int, Snapshot] = {}
        self._paths: PathValues | CannotPrune | None = None
        self._buckets: Any = _UNREAD
        self.footers = _footer_cache()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """How many positions there are; after a refresh some may be of slices that are no more."""
        return len(self.slices)

    @property
    def files(self) -> pa.Table:
        """The file slices by position, of `file_slices.SLICES_SCHEMA`; to pick some, `take_files` is faster."""
        return self.slices.files

    @property
    def partitions(self) -> list[str]:
        """Paths of the partitions."""
        return self.slices.partitions

    @property
    def partition_index(self) -> Rows:
        """For each position, the partition."""
        return self.slices.partition_index

    @property
    def sizes(self) -> Rows:
        """For each position, the bytes of base and log files."""
        return self.slices.sizes

    @property
    def has_logs(self) -> NDArray[np.bool_]:
        """For each position, whether the slice has log files."""
        return self.slices.has_logs

    @property
    def live_rows(self) -> Rows:
        """The positions that count, ascending."""
        return self.slices.live_rows

    @property
    def live_bytes(self) -> int:
        """Sizes of the slices that count together."""
        return self.slices.live_bytes

    def take_files(self, rows: Rows) -> pa.Table:
        """The file slices at some positions."""
        return self.slices.take(rows)

    def file_slices(self, rows: Rows) -> list[FileSlice]:
        """The file slices at some positions, as objects."""
        return file_slices(self.take_files(rows))

    def file_slice(self, row: int) -> FileSlice:
        """The file slice at a position, as an object."""
        return self.file_slices(np.array([row], np.int64))[0]

    def path_values(self) -> PathValues | CannotPrune:
        """The values of the partition columns by partition, parsed from paths."""
        with self._lock:
            if self._paths is None:
                self._paths = path_values(self.config, self.data_schema, self.partitions)
            return self._paths

    def path_statistics(self) -> Mapping[str, ColumnStatistics]:
        """Statistics of the partition columns by partition; empty where paths give no values."""
        values = self.path_values()
        return {} if isinstance(values, CannotPrune) else values.statistics

    def indexed_column(self, column: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        """The metadata table's statistics of a column, for all files.

        Args:
            column: its name; dotted for a struct's field.
            kind: its type in this snapshot's schema.
        """
        return self.column_index.column(column, kind)

    def cached_column(self, column: str) -> IndexedColumn | CannotPrune | None:
        """The result of `indexed_column` if it is cached; None where it would be loaded."""
        return self.column_index.cached_column(column)

    def bucket_numbers(self) -> NDArray[np.int64] | None:
        """The bucket of each file by the first eight digits of its file id; None if any id has none (RFC-29)."""
        with self._lock:
            if self._buckets is _UNREAD:
                digits = pc.utf8_slice_codeunits(one_chunk(self.files.column("file_id")), 0, 8)
                numbered = pc.all(pc.match_substring_regex(digits, r"^[0-9]{8}$"), min_count=0).as_py()
                self._buckets = to_numpy(pc.cast(digits, pa.int64())) if numbered else None
            buckets: NDArray[np.int64] | None = self._buckets
            return buckets

    def succeeded_by(
        self, client: TableClient, timeline: Timeline, table: MetadataTable | None, slices: SliceSet, replaced: pa.Table
    ) -> Snapshot:
        """The snapshot after some more commits, which shares what they did not change.

        Args:
            client: of the table.
            timeline: as it is now.
            table: the metadata table as it is now.
            slices: as they are now; what stood at a position of this snapshot stands there still.
            replaced: `replaced_file_groups` of that timeline.
        """
        newer = copy.copy(self)
        last = timeline.last_completed_write()
        newer.client, newer.config, newer.timeline, newer.metadata_table = client, client.config, timeline, table
        newer.instant = last.time if last else None
        newer.data_schema = client.table_schema(timeline)
        newer.schema = whole_schema(client, newer.data_schema)
        newer.slices, newer.replaced = slices, replaced
        newer.column_index = self.column_index.succeeded_by(table, slices, newer._row_groups)  # noqa: SLF001  # of the same class
        same_columns = newer.data_schema == self.data_schema
        if not same_columns:
            newer.footers = _footer_cache()
        paths = self._paths if same_columns and len(slices.partitions) == len(self.partitions) else None
        vars(newer).update(_paths=paths, _buckets=_UNREAD, _lock=threading.RLock(), _others={})
        return newer

    def with_block_size(self, size: int | None) -> Snapshot:
        """The same state, planned as for writers that close row groups at another size.

        Args:
            size: in bytes; None for what the table says, or Apache Hudi's default.
        """
        if size is None or size == self.block_size:
            return self
        with self._lock:
            if size not in self._others:
                other = copy.copy(self)
                vars(other).update(block_size=size, _lock=threading.RLock(), _others={})
                other.column_index = self.column_index.with_row_groups(other._row_groups)  # noqa: SLF001  # likewise
                self._others = {size: other}
            return self._others[size]

    def _load_slices(self, *, past: bool) -> SliceSet:
        table = self.metadata_table
        listed = table.files() if table else list_data_files(self.client.storage)
        if past:
            check_not_cleaned(listed, self.timeline, self.as_of, read_optimized=self.read_optimized)
        slices = read_optimized_slices if self.read_optimized else latest_file_slices
        return SliceSet.of(slices(listed, self.timeline, as_of=self.as_of))

    @property
    def _row_groups(self) -> RowGroupSize:
        return RowGroupSize.of(self.schema, self.block_size)


def _footer_cache() -> LruCache[tuple[int, str], FooterStatistics | None]:
    return LruCache(_MOST_FOOTER_ENTRIES)


def whole_schema(client: TableClient, schema: pa.Schema) -> pa.Schema:
    """The columns of a table with Hudi's meta columns first, where it has these."""
    return pa.schema([*META_FIELDS, *schema]) if client.config.populate_meta_fields else schema
