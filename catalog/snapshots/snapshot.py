"""A table at one instant: its file slices, its schema, and statistics of their contents.

Slices are rows of Arrow tables and numpy arrays, by position. What a plan loads stays in memory, so that a table that
is held open plans without reading: column statistics and footers in caches of bounded size (`LruCache`), results that
follow from the snapshot alone by `memoize`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import LruCache, memoize
from catalog.slices.file_slice import FileSlice, file_slices
from catalog.slices.path_values import PartitionPaths, PathValues, misplaces_rows
from catalog.slices.slice_set import Rows, SliceSet
from catalog.slices.time_travel import check_not_cleaned
from catalog.statistics.column_index import DEFAULT_MEMORY, ColumnIndex
from catalog.statistics.indexed_column import IndexedColumn
from catalog.statistics.merged_ranges import DEFAULT_BLOCK_SIZE, RowGroupSize
from catalog.statistics.seen_row_groups import SeenRowGroups
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.base_file.bloom import BloomFilter
from table_format.base_file.footer import FooterStatistics
from table_format.codecs.arrow_numpy import one_chunk, to_numpy
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
from table_format.timeline.timeline import InstantContents, Timeline

_MOST_FOOTER_ENTRIES = 200_000
_MOST_FILTER_BYTES = 64 << 20
_LEAST_WEIGHT = 512  # of a filter, besides its bits


class Snapshot:
    """The files of a table at an instant.

    Args:
        client: of the table.
        timeline: as loaded.
        as_of: the instant up to which commits count; None for all.
        read_optimized: base files alone, without the log files that changed them since.
        listing: the newest timeline, if `timeline` is an earlier state of it; else None.
        statistics_limit: bytes of column statistics that are cached.
        metadata_table: as of the timeline, if it is open already.
        partitions: only the files of these partition paths; None for all.
        whole: returns the snapshot of all partitions, where these are only some.

    Raises:
        OptionError: the table did not exist at that instant, or files of that state are cleaned away.
        UnsupportedTableError: the table is of a kind that is not read, such as one with base files other than Parquet.
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
        metadata_table: MetadataTable | None = None,
        partitions: Sequence[str] | None = None,
        whole: Callable[[], Snapshot] | None = None,
    ) -> None:
        self.client = client
        self.config = client.config
        self.timeline = timeline
        self.as_of = as_of
        self.read_optimized = read_optimized
        self.listing = listing
        self.is_latest = as_of is None and listing is None
        last = timeline.last_completed_write(as_of)
        self.instant: str | None = last.time if last else None
        self.metadata_table = metadata_table or MetadataTable.open(client, listing or timeline)
        self.whole = whole
        self.data_schema: pa.Schema = client.table_schema(timeline, as_of)
        self.schema = whole_schema(client, self.data_schema)
        self.schema_history = internal_schemas(timeline, as_of, newest=listing)
        self.slices = self._load_slices(partitions, past=as_of is not None or listing is not None)
        self.replaced = replaced_file_groups(timeline, as_of)
        self.block_size = client.config.block_size or DEFAULT_BLOCK_SIZE
        self.column_index = ColumnIndex(
            self.metadata_table,
            self.slices,
            self.schema_history,
            self._row_groups,
            statistics_limit,
            seen=SeenRowGroups(client.storage),
            partitions=partitions,
        )
        self._paths = PartitionPaths(self.config, self.data_schema, self.partitions, misplaces_rows(client))
        self.footers = _footer_cache()
        self.key_filters: LruCache[int, BloomFilter | None] = LruCache(_MOST_FILTER_BYTES, _filter_weight)

    def __len__(self) -> int:
        """Number of positions; after a refresh some are of superseded slices, see `live_rows`."""
        return len(self.slices)

    @property
    def files(self) -> pa.Table:
        """The file slices by position, of `file_slices.SLICES_SCHEMA`; `take_files` is faster for some of them."""
        return self.slices.files

    def path(self, row: int) -> str | None:
        """Path of the base file of the slice at a position; None for one of log files only."""
        path: str | None = self.take_files(np.array([row], np.int64)).column("path")[0].as_py()
        return path

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
        """Positions of the slices that a query sees, ascending."""
        return self.slices.live_rows

    @property
    def live_bytes(self) -> int:
        """Bytes of the slices that a query sees."""
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
        return self._paths.values()

    def path_statistics(self) -> Mapping[str, ColumnStatistics]:
        """Statistics of the partition columns by partition; empty where paths give no values."""
        values = self.path_values()
        return {} if isinstance(values, CannotPrune) else values.statistics

    @property
    def path_columns(self) -> frozenset[str]:
        """Columns whose values are those of the paths, whatever files and statistics hold: mostly none."""
        if not self.config.drop_partition_columns:
            return frozenset()
        fields = {name.lower() for name in self.config.partition_fields}
        return frozenset(name for name in self.data_schema.names if name.lower() in fields)

    @property
    def footers_apply(self) -> bool:
        """Whether a file's footer describes the columns: not once some were renamed, or if paths give values."""
        return self.schema_history is None and not self.path_columns

    def indexed_column(self, column: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        """The metadata table's statistics of a column, for all files.

        Args:
            column: its name; dotted for a struct's field.
            kind: its type in this snapshot's schema.
        """
        if column in self.path_columns:
            return CannotPrune(f"values of {column} are those of the partition paths")
        return self.column_index.column(column, kind)

    def indexed_columns(
        self, columns: Sequence[str], kind: pa.DataType
    ) -> Iterator[tuple[str, IndexedColumn | CannotPrune]]:
        """As `indexed_column` for columns of one type: each with its statistics, in the order of the columns."""
        if self.path_columns.isdisjoint(columns):
            return self.column_index.columns(columns, kind)
        return ((column, self.indexed_column(column, kind)) for column in columns)

    def cached_column(self, column: str) -> IndexedColumn | CannotPrune | None:
        """The result of `indexed_column` if it is cached; None if it would be loaded."""
        return self.column_index.cached_column(column)

    def bucket_numbers(self) -> NDArray[np.int64] | None:
        """The bucket of each file by the first eight digits of its file id; None if any id has none (RFC-29)."""
        return memoize(self, "bucket numbers", lambda: _bucket_numbers(self.slices.listed))

    def succeeded_by(
        self, client: TableClient, timeline: Timeline, table: MetadataTable | None, slices: SliceSet, replaced: pa.Table
    ) -> Snapshot:
        """The snapshot after some more commits, which shares what they did not change.

        Args:
            client: of the table.
            timeline: as it is now.
            table: the metadata table as it is now.
            slices: as they are now; positions of this snapshot stay the same.
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
        if not same_columns or len(slices.partitions) != len(self.partitions):
            paths = PartitionPaths(newer.config, newer.data_schema, newer.partitions, self._paths.misplaced)
            newer._paths = paths  # noqa: SLF001  # likewise
        return newer

    def for_reading(self, rows: Rows) -> Snapshot:
        """A small copy for workers in other processes, which pickles: it reads slices and cannot plan.

        Args:
            rows: positions of the slices that they read.
        """
        other = copy.copy(self)
        # where files leave partition columns out, paths give their values
        other.slices = SliceSet.of(self.take_files(rows if self.config.drop_partition_columns else rows[:0]))
        other._paths = dataclasses.replace(self._paths, partitions=other.partitions)  # noqa: SLF001  # of the same class
        other.timeline = dataclasses.replace(self.timeline, _read=InstantContents())
        other.metadata_table = other.whole = other.listing = None
        del other.column_index, other.footers, other.key_filters, other.replaced
        return other

    def again(self) -> Callable[[], Snapshot]:
        """Makes the snapshot of the same state in another process, from its files; it pickles."""
        state = partial(
            Snapshot,
            self.client,
            self.timeline,
            self.as_of,
            read_optimized=self.read_optimized,
            listing=self.listing,
            statistics_limit=self.column_index.memory,
        )
        return partial(_with_block_size, state, self.block_size)

    def with_block_size(self, size: int | None) -> Snapshot:
        """The same state, planned as for writers that close row groups at another size.

        Args:
            size: in bytes; None for the table's own, or else Apache Hudi's default.
        """
        if size is None or size == self.block_size:
            return self
        copies: LruCache[int, Snapshot] = memoize(self, "copies by block size", lambda: LruCache(1))
        cached = copies.get(size)
        return copies.setdefault(size, self._with_block_size(size)) if cached is None else cached

    def _with_block_size(self, size: int) -> Snapshot:
        other = copy.copy(self)
        other.block_size = size
        other.column_index = self.column_index.with_row_groups(other._row_groups)  # noqa: SLF001  # of the same class
        return other

    def _load_slices(self, partitions: Sequence[str] | None, *, past: bool) -> SliceSet:
        table = self.metadata_table
        listed = table.files(partitions) if table else list_data_files(self.client.storage, partitions)
        if past:
            check_not_cleaned(listed, self.timeline, self.as_of, read_optimized=self.read_optimized)
        if self.read_optimized:
            return SliceSet.of(read_optimized_slices(listed, self.timeline, as_of=self.as_of))
        return SliceSet.of(latest_file_slices(listed, self.timeline, as_of=self.as_of, paths=False))

    @property
    def _row_groups(self) -> RowGroupSize:
        return RowGroupSize.of(self.schema, self.block_size)


def _with_block_size(state: Callable[[], Snapshot], size: int) -> Snapshot:
    return state().with_block_size(size)


def _bucket_numbers(files: pa.Table) -> NDArray[np.int64] | None:
    digits = pc.utf8_slice_codeunits(one_chunk(files.column("file_id")), 0, 8)
    numbered = pc.all(pc.match_substring_regex(digits, r"^[0-9]{8}$"), min_count=0).as_py()
    return to_numpy(pc.cast(digits, pa.int64())) if numbered else None


def _footer_cache() -> LruCache[tuple[int, str], FooterStatistics | None]:
    return LruCache(_MOST_FOOTER_ENTRIES)


def _filter_weight(bloom: BloomFilter | None) -> int:
    return _LEAST_WEIGHT + (0 if bloom is None else bloom.nbytes)


def whole_schema(client: TableClient, schema: pa.Schema) -> pa.Schema:
    """The columns of a table with Hudi's meta columns first, where it has these."""
    return pa.schema([*META_FIELDS, *schema]) if client.config.populate_meta_fields else schema
