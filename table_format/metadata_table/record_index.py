"""The record index (RFC-8, record-level index): look-up of the file group of each record key."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Column, from_numpy, last_rows, one_chunk, valid_mask
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, RecordIndexError
from table_format.metadata_table import layout as names
from table_format.metadata_table.layout import RECORD_INDEX, FileGroup, list_file_groups
from table_format.metadata_table.record_index_layout import LAYOUT_KEY, PARTITION, IndexLayout
from table_format.metadata_table.record_index_shard import (
    DYNAMIC,
    Found,
    LookupStrategy,
    Matches,
    decoded,
    live_entries,
    look_up,
    matches,
)
from table_format.metadata_table.records import SourceRecords, newest_versions
from table_format.metadata_table.slices import ValidInstants, open_complete_timeline
from table_format.metadata_table.sources import PartitionSources, Source
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline


def is_private(config: TableConfig) -> bool:
    """Whether a table has or had a record index that the metadata table does not list; see `IndexLayout.of`."""
    return RECORD_INDEX not in config.metadata_partitions and bool(config.raw.get(LAYOUT_KEY, "").strip())


def record_locations(sources: PartitionSources, keys: Column, layout: IndexLayout | None = None) -> pa.Table:
    """Look up the file groups of records.

    Reads only the shards, and the blocks of their base files, that can contain one of the keys.

    Args:
        sources: of the record index.
        keys: record keys as made by the table's key generator; nulls are ignored.
        layout: of the index; None to derive it from the names of its file groups.

    Returns:
        Columns `key`, `partition`, `file_id`; keys that are not in the index have no row. In a partitioned record
        index a key has one row for each partition of the data table that has it.

    Raises:
        CorruptFileError: the index is damaged.
    """
    layout = layout or IndexLayout.of_groups(sources.groups)
    return locate(sources, layout, keys).with_keys(keys).select(["key", "partition", "file_id"])


def count_keys(sources: PartitionSources, most: int) -> int | None:
    """Number of distinct live keys in the index.

    In a partitioned record index, a key counts once for each partition of the data table that has it.

    Args:
        sources: of the record index.
        most: limit of entries to read; None is returned for an index with more entries in its base files.
    """
    opened = sources.open()
    entries = sum(source.reader.entry_count for shard in opened.shards for source in shard if source.reader)
    return sum(_live(pieces) for pieces in opened.everything() if pieces) if entries <= most else None


def _live(pieces: list[SourceRecords]) -> int:
    keys = pa.chunked_array([piece.keys() for piece in pieces], pa.binary())
    gone = np.concatenate([np.full(len(piece.keys()), piece.schema is None) for piece in pieces])
    return len(newest_versions(keys, gone).newest())


_NONE = "the table has no record index: build it by `hudi-catalog index bootstrap`"


class RecordIndex:
    """The record index, as of opening.

    Instances pickle without cached content, so a worker opens only the file groups that it reads.

    Attributes:
        layout: its file groups.
    """

    def __init__(
        self,
        storage: Storage,
        layout: IndexLayout,
        groups: Sequence[FileGroup],
        valid: ValidInstants,
        options: Mapping[str, str],
    ) -> None:
        self.layout = layout
        self._storage = storage
        self._groups = tuple(groups)
        self._valid = valid
        self._options = dict(options)
        self._strategy = LookupStrategy.of(self._options)
        self._sources = PartitionSources(storage, names.RECORD_INDEX, valid, groups=self._groups)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._storage, self.layout, self._groups, self._valid, self._options)

    @classmethod
    def open(
        cls, client: TableClient, timeline: Timeline | None = None, options: Mapping[str, str] | None = None
    ) -> RecordIndex:
        """Open a table's record index.

        Args:
            client: the table.
            timeline: its timeline, if loaded already; it decides which entries are valid.
            options: see `docs/reference/options.md`, `hoodie.catalog.record.index.…`.

        Raises:
            RecordIndexError: there is none, or it is stale.
            CorruptFileError: a file group is missing.
        """
        timeline = timeline or client.timeline()
        state = _state(client)  # an index may have grown or been rebuilt since the properties were read
        before = list_file_groups(client.storage, names.RECORD_INDEX)
        layout = IndexLayout.of(client, timeline, before)
        if layout is None:
            raise RecordIndexError(f"{client.storage.uri}: {_NONE}")
        metadata_timeline = open_complete_timeline(client, timeline)
        if isinstance(metadata_timeline, str):
            raise RecordIndexError(
                f"{client.storage.uri}: the metadata table with the record index is stale: {metadata_timeline}"
            )
        listed = list_file_groups(client.storage, names.RECORD_INDEX)  # after the timeline: it has the timeline's logs
        if _ids(listed) != _ids(before) or _state(client) != state:
            raise RecordIndexError(f"{client.storage.uri}: the record index was rebuilt at this moment: try again")
        groups = groups_in_order(listed, layout)
        return cls(client.storage, layout, groups, ValidInstants(timeline, metadata_timeline), options or {})

    def get_record_locations(self, keys: Column, partitions: Column | None = None) -> pa.Table:
        """Look up the locations of records (the RFC's `getRecordLocations`).

        Args:
            keys: record keys; nulls and repetitions are ignored.
            partitions: in an index of partition scope, the partition in which to look up each key, aligned with
                `keys`; None looks into all. Ignored by an index of global scope.

        Returns:
            Schema `LOCATIONS_SCHEMA`, unordered; unknown keys have no row.

        Raises:
            CorruptFileError: the index is damaged.
        """
        return self.find(keys, partitions).with_keys(keys)

    def find(self, keys: Column, partitions: Column | None = None) -> Found:
        """As `get_record_locations`, with the rows of `keys` (of equal keys the first) in place of the keys.

        Raises:
            CorruptFileError: the index is damaged.
        """
        return locate(self._sources, self.layout, keys, partitions, self._strategy)

    def group_locations(self, group: int, keys: Column) -> pa.Table:
        """Locations of some keys in one file group, for one task.

        Args:
            group: its ordinal in `layout.groups`.
            keys: as in `get_record_locations`; only keys of this file group.

        Raises:
            CorruptFileError: the file group is damaged.
        """
        return look_up(self._shard(group), one_chunk(keys).drop_null(), self._strategy)

    def group_entries(self, group: int) -> pa.Table:
        """All live entries of one file group, by its ordinal; schema `LOCATIONS_SCHEMA`, unordered.

        Raises:
            CorruptFileError: the file group is damaged.
        """
        return live_entries(self._shard(group))

    def group_of(self, keys: Column, partitions: Column | None = None) -> NDArray[np.int32]:
        """Ordinal of the file group into which each key is written; see `IndexLayout.group_of`."""
        return self.layout.group_of(keys, partitions)

    def _shard(self, group: int) -> Sequence[Source]:
        return self._sources.open([group]).shards[0]


def _state(client: TableClient) -> tuple[str, bool]:
    """State that changes when an index is rebuilt or grows; reads the table's properties again."""
    config = client.reload()
    return config.raw.get(LAYOUT_KEY, ""), names.RECORD_INDEX in config.metadata_partitions


def _ids(groups: Sequence[FileGroup]) -> list[str]:
    return [group.file_id for group in groups]


def groups_in_order(listed: Sequence[FileGroup], layout: IndexLayout) -> tuple[FileGroup, ...]:
    """Files of each file group of a layout.

    Args:
        listed: file groups in the index's folder.
        layout: of the index.

    Raises:
        CorruptFileError: a file group is missing.
    """
    by_id = {group.file_id: group for group in listed}
    absent = [file_id for file_id in layout.groups if file_id not in by_id]
    if absent:
        place = f"{names.FOLDER}/{names.RECORD_INDEX}"
        raise CorruptFileError(place, 0, f"the file group {absent[0]} of the record index is missing; rebuild it")
    return tuple(by_id[file_id] for file_id in layout.groups)


def locate(
    sources: PartitionSources,
    layout: IndexLayout,
    keys: Column,
    partitions: Column | None = None,
    strategy: LookupStrategy = DYNAMIC,
) -> Found:
    """Look up locations in the sources of an index; see `RecordIndex.find`.

    Reads only the file groups, and the blocks of their base files, that can contain one of the keys.

    Args:
        sources: of the file groups of the layout, in its order.
        layout: of the index.
        keys: record keys; nulls and repetitions are ignored.
        partitions: of the keys, for an index of partition scope; aligned with them.
        strategy: how to read HFiles.
    """
    texts = one_chunk(keys).cast(pa.string())
    there = np.flatnonzero(valid_mask(texts))
    whole = texts.null_count == 0
    by_partition = partitions is not None and layout.scope == PARTITION
    owners = one_chunk(partitions).take(from_numpy(there)) if by_partition else None
    wanted = (texts if whole else texts.take(from_numpy(there))).cast(pa.binary())
    located: list[Matches] = []
    for groups in layout.groups_of(wanted, owners) if len(wanted) else ():
        order = np.argsort(_narrow(groups), kind="stable")
        numbers, firsts = np.unique(groups[order], return_index=True)
        arranged = wanted.take(from_numpy(order)) if len(numbers) > 1 else wanted
        ends = [*firsts[1:].tolist(), len(order)]
        spans = {
            number: slice(first, end)
            for number, first, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True)
            if number >= 0
        }
        picked = {number: arranged.slice(span.start, span.stop - span.start) for number, span in spans.items()}
        parts = sources.of_shards(picked, functools.partial(matches, strategy=strategy))
        for span, shard in zip(spans.values(), parts, strict=True):
            for part in shard:
                # the order of rows is stable: of equal keys each family answers for the same row
                rows = order[span][part.rows] if len(numbers) > 1 else part.rows
                located.append(replace(part, rows=there[rows]))
    return _one_place(decoded(located), layout)


def _narrow(groups: NDArray[np.int32]) -> NDArray[Any]:
    """The numbers of file groups as 16 bits where they fit, which numpy sorts without comparing them."""
    fit = len(groups) and int(groups.max()) < 1 << 15
    return groups.astype(np.int16) if fit else groups


def _one_place(locations: Found, layout: IndexLayout) -> Found:
    """In an index of global scope with several families, the newest family that has a key is valid."""
    if len(layout.families) == 1 or layout.scope == PARTITION:
        return locations
    last = last_rows(locations.rows)
    return locations if len(last) == len(locations.rows) else locations.part(last)
