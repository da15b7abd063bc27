"""Reader of the metadata table: file listing, column statistics, bloom filters, record index."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import (
    Column,
    binaries,
    combined,
    from_numpy,
    one_chunk,
    schema_of,
    strings,
    to_numpy,
)
from table_format.codecs.avro_columns import MapColumn, decode_columns
from table_format.codecs.avro_schema_tree import Node
from table_format.config.table_config import load_table_config
from table_format.errors import CorruptFileError, MissingFileError
from table_format.hfile.entries import HFileEntries
from table_format.metadata_table import column_stats, layout, record_index
from table_format.metadata_table.bloom_filters import bloom_filters
from table_format.metadata_table.keys import (
    ALL_PARTITIONS_KEY,
    NON_PARTITIONED_ID,
    column_id,
    partition_hash,
    partition_identifier,
)
from table_format.metadata_table.record_index import groups_in_order
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.metadata_table.records import SourceRecords, decode_each, newest_versions, split_settled
from table_format.metadata_table.slices import ValidInstants, open_complete_timeline
from table_format.metadata_table.sources import Known, PartitionSources, ShardSources
from table_format.slices.file_slices import list_data_files
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline

_LOG = logging.getLogger(__name__)
FILES_SCHEMA = schema_of(partition=pa.string(), file_name=pa.string(), size=pa.int64())
_LISTED = FILES_SCHEMA.append(pa.field("deleted", pa.bool_()))


class MetadataTable:
    """The metadata table of a data table, as of opening.

    Opened files and the file listing are cached in the instance; statistics are not. Instances
    may be shared by threads.

    Args:
        client: the data table.
        timeline: the data table's timeline; it decides which blocks are valid.
        metadata_timeline: the metadata table's own.
        partitions: partitions that are ready for use; a record index that the table does not list may turn out
            not to be.
    """

    def __init__(
        self, client: TableClient, timeline: Timeline, metadata_timeline: Timeline, partitions: Sequence[str]
    ) -> None:
        self._client = client
        self._timeline = timeline
        self._storage = client.storage
        self._valid = ValidInstants(timeline, metadata_timeline)
        self._lock = threading.Lock()
        self._sources: dict[str, PartitionSources] = {}
        self._known: dict[str, Known] = {}
        self._appended: tuple[MetadataTable, ShardSources | None] | None = None
        self.partitions = tuple(partitions)

    @classmethod
    def open(cls, client: TableClient, timeline: Timeline) -> MetadataTable | None:
        """Open the metadata table, if the data table has one that may be used.

        Returns:
            None if `hoodie.table.metadata.partitions` does not list `files`, and also, with a warning in the log,
            if the metadata table is missing or lacks a completed commit: callers then list the storage.
        """
        listed = client.config.metadata_partitions
        if layout.FILES not in listed:
            return None
        metadata_timeline = open_complete_timeline(client, timeline)
        if isinstance(metadata_timeline, str):
            _LOG.warning("%s: the metadata table is not used: %s", client.storage.uri, metadata_timeline)
            return None
        unlisted = (layout.RECORD_INDEX,) if record_index.is_private(client.config) else ()
        return cls(client, timeline, metadata_timeline, (*listed, *unlisted))

    def refreshed(self, client: TableClient, timeline: Timeline) -> MetadataTable | None:
        """The current metadata table; files that this instance has read are not read again.

        Args:
            client: the data table.
            timeline: the data table's current timeline.

        Returns:
            A new instance, or None as in `open`.
        """
        newer = type(self).open(client, timeline)
        if newer is not None:
            with self._lock:
                newer._known = self._known | {name: of.read_so_far() for name, of in self._sources.items()}  # noqa: SLF001
        return newer

    def all_partitions(self) -> list[str]:
        """Partition paths of the data table, sorted; `""` for the root of a table without partitions."""
        with self._lock:
            names: Any = self._partition_paths()
        return sorted(names.to_pylist())

    def partition_paths(self) -> pa.StringArray:
        """`all_partitions` as an array, in any order."""
        with self._lock:
            return self._partition_paths()

    def _partition_paths(self) -> pa.StringArray:
        if "_listing" in vars(self):
            return self._listing[0]
        return _partitions_of(read_listing(self._open(layout.FILES).get(strings([ALL_PARTITIONS_KEY]))))

    def files(self, partitions: Sequence[str] | None = None) -> pa.Table:
        """Files of the data table that are not deleted, including those of uncommitted instants.

        Args:
            partitions: only these partition paths; None for all.

        Returns:
            Columns `partition`, `file_name`, `size` (bytes).
        """
        with self._lock:
            sources = self._open(layout.FILES)
            every = self._listing[1] if partitions is None or "_listing" in vars(self) else None
        if every is None:
            wanted = [partition_identifier(name) for name in dict.fromkeys(partitions or ())]
            return _files_of(read_listing(sources.get(strings(wanted))))
        if partitions is None:
            return every
        return every.filter(pc.is_in(every["partition"], value_set=strings(partitions)))

    @property
    def has_column_stats(self) -> bool:
        """Whether the table has column statistics."""
        return layout.COLUMN_STATS in self.partitions

    def column_stats(self, column: str, kind: pa.DataType, partitions: Sequence[str] | None = None) -> pa.Table:
        """Statistics of one column by file; files without a row have no statistics.

        Args:
            column: its name; dotted for a nested column.
            kind: its current type.
            partitions: of files in these partition paths only; None for all.

        Returns:
            Columns `file_name`, `min` and `max` (of `kind`; null if unknown, and both for a file in which every row
            is null), `null_count` (null if unknown), `value_count` (rows).
        """
        if not self.has_column_stats:
            return column_stats.typed_schema(kind).empty_table()
        sources = self._column_stats_sources()
        if partitions is None:
            return column_stats.typed(sources, [column_id(column)], column, kind)
        prefixes = [column_id(column) + partition_hash(partition) for partition in dict.fromkeys(partitions)]
        return column_stats.typed(sources, prefixes, column, kind)

    def column_stats_each(self, columns: Sequence[str], kind: pa.DataType) -> Iterator[tuple[str, pa.Table]]:
        """As `column_stats` for several columns of one type, by reading all statistics once.

        Args:
            columns: their names.
            kind: their current type.

        Yields:
            A column and its statistics, in the order of the columns.
        """
        yield from column_stats.typed_each(self._column_stats_sources(), columns, kind)

    def column_stats_since(self, older: MetadataTable, column: str, kind: pa.DataType) -> pa.Table | None:
        """Rows added to `column_stats(column, kind)` since an earlier instance.

        A file that had statistics before may have a row too: its log file has grown, and both apply together.

        Args:
            older: the instance that this one was `refreshed` from, directly or not.
            column: its name.
            kind: its current type.

        Returns:
            Columns as in `column_stats`. None if not only records were added, or if it can no longer be told what
            compactions of the metadata table have merged since: load all statistics then.
        """
        if not (self.has_column_stats and older.has_column_stats):
            return None
        now = self._column_stats_sources()
        try:
            then = older._column_stats_sources()
            added = now.appended_since(then)
            if added is None:
                added = self._before_compaction(older, then)
        except MissingFileError:  # a clean took files of the earlier state, or the index was built anew
            return None
        return None if added is None else column_stats.typed(added, [column_id(column)], column, kind)

    def _before_compaction(self, older: MetadataTable, then: ShardSources) -> ShardSources | None:
        """Sources of statistics that came since an earlier instance, if a compaction has merged some of them."""
        with self._lock:
            if self._appended is None or self._appended[0] is not older:
                sources = self._open(layout.COLUMN_STATS)
                lost = self._valid.lost_since(older._valid, layout.COLUMN_STATS, sources.file_names)
                self._appended = older, None if lost else sources.appended_since(then)
            return self._appended[1]

    def column_stats_raw(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Statistics as stored, bounds as Avro bytes; schema `column_stats.RAW_SCHEMA`.

        Args:
            columns: names; None for all.
        """
        if not self.has_column_stats:
            return column_stats.RAW_SCHEMA.empty_table()
        sources = self._column_stats_sources()
        if columns is None:
            return column_stats.raw(sources.everything())
        return pa.concat_tables(
            [
                column_stats.RAW_SCHEMA.empty_table(),
                *(column_stats.raw(sources.prefix(column_id(name))) for name in columns),
            ]
        )

    def partition_stats_raw(self) -> pa.Table:
        """Partition statistics as stored (from version 8 on), for inspection.

        They are not sound for pruning: a file whose statistics are missing, or hide a NaN or a long value, is left out
        of such an aggregate or makes it wrong without a trace. Columns as in `column_stats_raw`, with the
        partition's name in the metadata table as `file_name`.
        """
        if layout.PARTITION_STATS not in self.partitions:
            return column_stats.RAW_SCHEMA.empty_table()
        with self._lock:
            sources = self._open(layout.PARTITION_STATS)
        return column_stats.raw(sources.everything())

    def record_locations(self, keys: Column) -> pa.Table | None:
        """File group of each record by the record index; see `record_index.record_locations`.

        Returns:
            Columns `key`, `partition`, `file_id`; unknown keys are left out. None if the table has no
            record index.
        """
        if layout.RECORD_INDEX not in self.partitions:
            return None
        with self._lock:
            index = self._record_index
        return None if index is None else record_index.record_locations(index[0], keys, index[1])

    def count_record_keys(self, most: int) -> int | None:
        """Number of keys in the record index; None without an index, or with more than `most` entries."""
        if layout.RECORD_INDEX not in self.partitions:
            return None
        with self._lock:
            index = self._record_index
        return None if index is None else record_index.count_keys(index[0], most)

    def bloom_filters(self, files: pa.Table) -> pa.Table | None:
        """Bloom filters of the record keys of some files; see the function `bloom_filters`.

        Args:
            files: columns `partition` and `file_name`.

        Returns:
            Columns `partition`, `file_name`, `type`, `bloom` (text, for `bloom.parse_bloom`); files without a filter
            are left out. None if the table has no such index.
        """
        if layout.BLOOM_FILTERS not in self.partitions:
            return None
        with self._lock:
            sources = self._open(layout.BLOOM_FILTERS)
        return bloom_filters(sources, files)

    def has_changed(self, partition: str) -> bool:
        """Whether files of a partition have come or gone since this instance listed them, or it is no longer in use."""
        if partition not in load_table_config(self._storage).metadata_partitions:
            return True
        with self._lock:
            known = self._sources.get(partition)
        listed = layout.list_file_groups(self._storage, partition)
        return bool(listed) if known is None else layout.names_of_files(listed) != known.file_names

    def _column_stats_sources(self) -> ShardSources:
        with self._lock:
            sources = self._open(layout.COLUMN_STATS)
        return sources.open()

    @functools.cached_property
    def _record_index(self) -> tuple[PartitionSources, IndexLayout | None] | None:
        """The sources of the record index, and its layout if file group names do not have it.

        None if it is stale or unused. Reads the table's properties again: an index may have grown, or have
        been rebuilt with other file groups, since the caller read them.
        """
        client = TableClient(self._storage, load_table_config(self._storage))
        if layout.RECORD_INDEX in client.config.metadata_partitions:
            return self._open(layout.RECORD_INDEX), None
        index_layout = IndexLayout.of(client, self._timeline)
        if index_layout is None:
            return None
        listed = layout.list_file_groups(self._storage, layout.RECORD_INDEX)
        return self._open(layout.RECORD_INDEX, groups_in_order(listed, index_layout)), index_layout

    def _open(self, partition: str, groups: tuple[layout.FileGroup, ...] | None = None) -> PartitionSources:
        sources = self._sources.get(partition)
        if sources is None:
            sources = PartitionSources(
                self._storage, partition, self._valid, known=self._known.pop(partition, None), groups=groups
            )
            self._sources[partition] = sources
        return sources

    @functools.cached_property
    def _listing(self) -> tuple[pa.StringArray, pa.Table]:
        """Partition paths, and files."""
        split = [[_split_partition_record(piece) for piece in shard] for shard in self._open(layout.FILES).everything()]
        named, listed = (
            read_listing([[piece for one in shard if (piece := one[side]) is not None] for shard in split])
            for side in range(2)
        )
        return _partitions_of(named), _files_of(listed)


def data_files(client: TableClient, timeline: Timeline, partitions: Sequence[str] | None = None) -> pa.Table:
    """Data files of some partitions or all (None), by the metadata table if there is one, else by the file system.

    Columns `partition`, `file_name`, `size` (bytes).
    """
    metadata = MetadataTable.open(client, timeline)
    return list_data_files(client.storage, partitions) if metadata is None else metadata.files(partitions)


def _split_partition_record(records: SourceRecords) -> tuple[SourceRecords | None, SourceRecords | None]:
    """The record that names all partitions, and the records of single ones; None where there is none."""
    keys: Any = records.entries.keys()
    is_all = to_numpy(pc.equal(keys, ALL_PARTITIONS_KEY.encode())).astype(np.bool_)
    if not is_all.any():
        return None, records
    named, listed = (
        dataclasses.replace(records, entries=records.entries.take(mask)) if mask.any() else None
        for mask in (is_all, ~is_all)
    )
    return named, listed


def _partitions_of(rows: pa.Table) -> pa.StringArray:
    """Partition paths that the listing's record of all partitions names."""
    names: Any = one_chunk(rows["file_name"])
    paths: pa.StringArray = pc.if_else(pc.equal(names, NON_PARTITIONED_ID), "", names)
    return paths


def _files_of(rows: pa.Table) -> pa.Table:
    """Files of partitions, whose records name the root of the table `.`, which no partition path is."""
    if pc.index(rows["partition"], NON_PARTITIONED_ID).as_py() < 0:
        return rows
    folders: Any = pc.if_else(pc.equal(rows["partition"], NON_PARTITIONED_ID), "", rows["partition"])
    return rows.set_column(0, "partition", folders).cast(FILES_SCHEMA)


def read_listing(shards: Sequence[Sequence[SourceRecords]]) -> pa.Table:
    """Merged records of the `files` partition.

    Args:
        shards: records by shard, all or some; of each all versions.

    Returns:
        Columns `partition` (the record's key), `file_name`, `size`; deleted entries are left out.
    """
    settled, disputed = split_settled(shards)
    tables = [_live(_decode_files(piece)) for piece in settled]
    for first, *later in filter(None, disputed):
        older, *newer = _versions_of_files([first, *later])  # within one file, names are unique
        rows = pa.concat_tables(newer or [_LISTED.empty_table()])
        again: Any = pc.is_in(older["file_name"], value_set=one_chunk(rows["file_name"]))
        tables += [
            _live(older.filter(pc.invert(again))),
            _merged_files(pa.concat_tables([older.filter(again), rows])),
        ]
    filled = [table for table in tables if table.num_rows]
    return combined(pa.concat_tables(filled)) if filled else FILES_SCHEMA.empty_table()


def _live(rows: pa.Table) -> pa.Table:
    """Files that are not deleted."""
    some_deleted = pc.any(rows["deleted"]).as_py() is not False
    return (rows.filter(pc.invert(rows["deleted"])) if some_deleted else rows).select(FILES_SCHEMA.names)


def _merged_files(rows: pa.Table) -> pa.Table:
    """Merge several versions of partitions' file lists, oldest first."""
    separator = "\x00"  # in no path
    keys: Any = pc.binary_join_element_wise(rows["partition"], rows["file_name"], separator)
    versions = newest_versions(keys, to_numpy(one_chunk(rows["deleted"])))
    live = rows.take(from_numpy(versions.live)).select(FILES_SCHEMA.names)
    if versions.unique:
        return live
    # A file with several entries has grown: the greatest size is current.
    grouped = live.append_column("code", from_numpy(versions.codes)).group_by("code", use_threads=False)
    merged = grouped.aggregate([("partition", "first"), ("file_name", "first"), ("size", "max")])
    return merged.select(["partition_first", "file_name_first", "size_max"]).rename_columns(FILES_SCHEMA.names)


def _versions_of_files(pieces: Sequence[SourceRecords]) -> list[pa.Table]:
    """Map entries of the first source, and of others, without those of partitions whose record a later block deletes.

    Apache's cleaning writes such a block once all files of a partition are gone.
    """
    first, *later = pieces
    tables = [_decode_files(first)]
    for deletes, run in itertools.groupby(later, lambda piece: piece.schema is None):
        if deletes:
            gone = binaries([key for piece in run for key in piece.deleted_keys]).cast(pa.string())
            tables = [table.filter(pc.invert(pc.is_in(table["partition"], value_set=gone))) for table in tables]
        else:
            tables += decode_each(run, _decode_files)
    return tables


def _decode_files(piece: SourceRecords) -> pa.Table:
    """Map entries of one source; none of a delete block."""
    if piece.schema is None:
        return _LISTED.empty_table()
    return pa.concat_tables(
        in_threads(functools.partial(_decode_maps, piece.schema, piece.name), piece.entries.parts())
    )


def _decode_maps(schema: Node, name: str, entries: HFileEntries) -> pa.Table:
    """Map entries of some records."""
    path = "filesystemMetadata"
    decoded = decode_columns(entries.buffer, entries.value_starts, entries.value_lengths, schema, [path], name=name)
    column = decoded[path]
    if not isinstance(column, MapColumn):
        raise CorruptFileError(name, 0, f"{path} is not a map in the schema of the records")
    try:
        keys, names = entries.keys().cast(pa.string()), column.keys
    except pa.ArrowInvalid as error:
        raise CorruptFileError(name, 0, f"a name of a partition or file is not UTF-8 ({error})") from error
    partitions: Any = pa.DictionaryArray.from_arrays(from_numpy(column.records.astype(np.int32)), keys)
    columns = [partitions.dictionary_decode(), names, column.values["size"], column.values["isDeleted"]]
    return pa.table(columns, names=_LISTED.names)
