"""One table at one instant: its files, its schema, and what is known of their contents.

Everything is a column over the files. What was loaded is kept, so that a table that is held open plans from memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.footer_cache import FooterCache
from catalog.path_values import PathValues, path_values
from catalog.time_travel import check_not_cleaned
from pushdown.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.file_slices import latest_file_slices, list_data_files, read_optimized_slices, replaced_file_groups
from table_format.meta_client import TableClient
from table_format.meta_columns import META_FIELDS
from table_format.metadata_table.reader import MetadataTable
from table_format.schema_history import internal_schemas
from table_format.timeline import Timeline

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

_CACHED_COLUMNS = 64
_UNREAD = object()
_PARTITION_BUCKETS = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"


@dataclass(frozen=True, eq=False)
class IndexedColumn:
    """What the metadata table's column statistics hold of one column.

    Attributes:
        statistics: one entry for each file of the snapshot; null where nothing is known.
        present: for each file, whether there is an entry.
        row_count: rows of each file, null where not known.
    """

    statistics: ColumnStatistics
    present: NDArray[np.bool_]
    row_count: pa.Array[Any]


class Snapshot:
    """The files of a table at an instant.

    Args:
        client: of the table.
        timeline: as loaded.
        as_of: the instant up to which commits count; None for all.
        read_optimized: base files alone, without the log files that changed them since.
        listing: the newest timeline, when the other was put back to an earlier time; None for that itself.

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
        self.schema = _with_meta_columns(self.data_schema) if self.config.populate_meta_fields else self.data_schema
        self.schema_history = internal_schemas(timeline, as_of)
        self.files = self._load_files(past=as_of is not None or listing is not None)
        encoded = self.files.column("partition").combine_chunks().dictionary_encode()
        self.partitions: list[str] = [*map(str, encoded.dictionary.to_pylist())]
        self.partition_index: NDArray[np.int64] = to_numpy(encoded.indices).astype(np.int64)
        self.sizes: NDArray[np.int64] = to_numpy(self.files.column("size").combine_chunks())
        self.has_logs, log_sizes = _logs(self.files)
        self.sizes = self.sizes + log_sizes
        self._indexed: OrderedDict[str, IndexedColumn | CannotPrune] = OrderedDict()
        self._paths: PathValues | CannotPrune | None = None
        self._names_unique: bool | None = None
        self._buckets: Any = _UNREAD
        self._partition_buckets: bool | None = None
        self.footers = FooterCache()
        self.checked_buckets: dict[object, str | None] = {}
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self.files.num_rows

    def path_values(self) -> PathValues | CannotPrune:
        """The partition columns' values by partition, as far as paths tell them."""
        with self._lock:
            if self._paths is None:
                self._paths = path_values(self.config, self.data_schema, self.partitions)
            return self._paths

    def path_statistics(self) -> Mapping[str, ColumnStatistics]:
        """Statistics of partition columns by partition; empty where paths do not tell values."""
        values = self.path_values()
        return {} if isinstance(values, CannotPrune) else values.statistics

    def indexed_column(self, column: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        """The metadata table's statistics of a column, for all files.

        Args:
            column: its name; dotted for a struct's field.
            kind: its type in this snapshot's schema.
        """
        with self._lock:
            if column not in self._indexed:
                self._indexed[column] = self._load_column(column, kind)
                if len(self._indexed) > _CACHED_COLUMNS:
                    self._indexed.popitem(last=False)
            self._indexed.move_to_end(column)
            return self._indexed[column]

    def cached_column(self, column: str) -> IndexedColumn | CannotPrune | None:
        """What `indexed_column` found before; None when it was not asked."""
        with self._lock:
            return self._indexed.get(column)

    def bucket_numbers(self) -> NDArray[np.int64] | None:
        """The bucket of each file by the first eight digits of its id; None when any file has none (RFC-29)."""
        with self._lock:
            if self._buckets is _UNREAD:
                digits = pc.utf8_slice_codeunits(self.files.column("file_id").combine_chunks(), 0, 8)
                numbered = pc.all(pc.match_substring_regex(digits, r"^[0-9]{8}$"), min_count=0).as_py()
                self._buckets = to_numpy(pc.cast(digits, pa.int64())) if numbered else None
            buckets: NDArray[np.int64] | None = self._buckets
            return buckets

    def has_partition_bucket_counts(self) -> bool:
        """Whether partitions have bucket counts of their own (partition-level bucket index, releases from 1.1 on)."""
        with self._lock:
            if self._partition_buckets is None:
                self._partition_buckets = bool(self.client.storage.list(_PARTITION_BUCKETS))
            return self._partition_buckets

    def _load_files(self, *, past: bool) -> pa.Table:
        table = self.metadata_table
        listed = table.files() if table else list_data_files(self.client.storage)
        if past:
            check_not_cleaned(listed, self.timeline, self.as_of, read_optimized=self.read_optimized)
        replaced = replaced_file_groups(self.timeline, self.as_of)
        slices = read_optimized_slices if self.read_optimized else latest_file_slices
        return slices(listed, self.timeline, as_of=self.as_of, replaced=replaced)

    def _load_column(self, column: str, kind: pa.DataType) -> IndexedColumn | CannotPrune:
        table = self.metadata_table
        if table is None:
            return CannotPrune("the table has no metadata table")
        if "column_stats" not in table.partitions:
            return CannotPrune("the metadata table has no column_stats")
        if self.schema_history is not None:
            return CannotPrune("columns were renamed or dropped: statistics of a name may be another column's")
        if not self._file_names_are_unique():
            return CannotPrune("file names repeat between partitions")
        entries = table.column_stats(column, kind)
        if entries.num_rows == 0:
            return CannotPrune(f"column_stats has no column {column}")
        at = pc.index_in(self.files.column("file_name").combine_chunks(), entries.column("file_name").combine_chunks())
        # what a base file's statistics say of a slice with log files is not known
        at = pc.if_else(from_numpy(self.has_logs), pa.scalar(None, pa.int32()), at)
        parts = {name: entries.column(name).combine_chunks().take(at) for name in _STATISTICS}
        statistics = ColumnStatistics(
            lower=parts["min"], upper=parts["max"], null_count=parts["null_count"], row_count=parts["value_count"]
        )
        return IndexedColumn(statistics, valid_mask(at), parts["value_count"])

    def _file_names_are_unique(self) -> bool:
        if self._names_unique is None:
            self._names_unique = len(self.files.column("file_name").combine_chunks().unique()) == len(self)
        return self._names_unique


_STATISTICS = ("min", "max", "null_count", "value_count")


def _logs(files: pa.Table) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which slices have log files, and the sizes of those together."""
    logs: Any = files.column("logs").combine_chunks()
    counts = to_numpy(pc.list_value_length(logs))
    sizes = np.concatenate([[0], np.cumsum(to_numpy(pc.struct_field(logs.flatten(), "size")))]).astype(np.int64)
    ends = np.cumsum(counts)
    return counts > 0, sizes[ends] - sizes[ends - counts]


def _with_meta_columns(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*META_FIELDS, *schema])
