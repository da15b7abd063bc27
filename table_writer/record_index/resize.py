"""Resizing a record index: its entries are spread over another number of file groups, without reading the data."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.errors import RecordIndexError
from table_format.keys.key_order import sorted_order
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.metadata_table.slices import ValidInstants
from table_format.metadata_table.sources import PartitionSources
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.execution.executor import Mapper
from table_writer.metadata import instants, recovery
from table_writer.metadata.creation import free_init_instant, latest_data_instant, publish_index
from table_writer.metadata.index_compaction import merged_entries
from table_writer.metadata.index_files import BuiltFile, add_groups, create_index_partition
from table_writer.metadata.index_options import IndexFileOptions, IndexOptions
from table_writer.metadata.writer import index_in_use, list_index
from table_writer.plan.arguments import MOST_GROUPS, check_count
from table_writer.record_index.before_index import settle_before_index
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.timeline.instants import table_lock
from table_writer.timeline.options import ProtocolOptions

_LOG = logging.getLogger(__name__)

_FOLDER: Final = ".hoodie/.catalog/record_index_resize"
_ENTRIES = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


def resize(
    client: TableClient, groups: int, mapper: Mapper = in_threads, options: Mapping[str, str] | None = None
) -> IndexLayout:
    """Change the number of file groups of a record index.

    By default all entries are redistributed, and Apache reads and writes the result like any index. With the option
    `hoodie.catalog.record.index.growth=groups` further file groups are added beside the old ones and take all new keys
    (RFC-8, bucket groups), which Apache cannot read. The table's lock is held throughout; no write may be pending.
    Where a resize died while it put its file groups to use, the table has no index, and it is built from the data.

    Args:
        client: the table.
        groups: file groups in all, or with that option the further ones.
        mapper: runs the tasks, one file group each.
        options: of the writing protocol, and the one above.

    Returns:
        The new layout.

    Raises:
        RecordIndexError: the table has no record index, or one that is kept by partition.
        TransactionError: a write is pending.
        OptionError: an unknown way to grow.
        ArgumentError: `groups` is not a number from 1 to 9,999.
    """
    check_count("groups", groups, MOST_GROUPS)
    settings = IndexOptions.parse(options or {})
    with _alone(client, options or {}):
        current = index_in_use(client)
        if current is not None:
            return _resized(client, current, groups, mapper, settings)
        if not client.storage.list(_FOLDER):
            raise RecordIndexError(
                f"{client.storage.uri}: the table has no record index: build it by `hudi-catalog index bootstrap`"
            )
    _LOG.warning("%s: a resize that died left no record index: it is built from the data", client.storage.uri)
    bootstrap_index(client, options, groups=groups, mapper=mapper)
    client.storage.delete_dir(_FOLDER)
    client.reload()
    built = index_in_use(client)
    if built is None:
        raise AssertionError("a bootstrap lists the index that it builds")
    return built


def _resized(
    client: TableClient, current: IndexLayout, groups: int, mapper: Mapper, settings: IndexOptions
) -> IndexLayout:
    if current.scope != GLOBAL:
        raise RecordIndexError(
            f"{client.storage.uri}: each partition has file groups of its own in this record index; rebuild it "
            "by `hudi-catalog index bootstrap` to change their number"
        )
    if settings.grows_by_groups:
        return _add_family(client, current, groups)
    return _redistribute(client, current, groups, mapper, settings.files)


def grow_empty_index(client: TableClient, layout: IndexLayout, entries: int, options: Mapping[str, str]) -> IndexLayout:
    """Add the file groups that a first large write needs to an index without entries.

    No key can be looked up in the wrong file group while all are empty. A concurrent write that began with the smaller
    layout ends in a conflict.

    Args:
        client: the table; the caller's own write may be pending.
        layout: the index's, as the caller loaded it.
        entries: how many the write puts into the index.
        options: of the writing protocol, and of the index's size.

    Returns:
        The layout to write with; unchanged when the index has entries, or enough file groups.
    """
    wanted = IndexOptions.parse(options).needed_groups(entries)
    if layout.is_private or layout.scope != GLOBAL or wanted <= layout.count:
        return layout
    storage = client.storage
    with table_lock(client, ProtocolOptions.parse(options)):
        timeline = client.timeline()
        latest = max((instant.time for instant in timeline.completed), default=names.EMPTY_TABLE_INSTANT)
        recovery.recover(storage, latest + "0")  # rolls back file groups that a dead writer began
        there = names.list_file_groups(storage, names.RECORD_INDEX)
        if any(group.base_files or len(group.log_files) > 1 for group in there):
            return layout
        if names.RECORD_INDEX not in client.config.metadata_partitions or len(there) >= wanted:
            return layout
        taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
        grown = dataclasses.replace(layout, families=((layout.families[0][0], wanted),))
        add_groups(storage, grown.groups[len(there) :], free_init_instant(latest, taken))
    return grown


@contextlib.contextmanager
def _alone(client: TableClient, options: Mapping[str, str]) -> Iterator[None]:
    """Hold the table's lock, with dead writers' writes rolled back and their cleans finished."""
    protocol = ProtocolOptions.parse(options)
    with table_lock(client, protocol):
        settle_before_index(client, protocol)
        yield


def _add_family(client: TableClient, current: IndexLayout, groups: int) -> IndexLayout:
    """Create a further family of empty file groups, which takes all new keys."""
    storage = client.storage
    latest = latest_data_instant(client)
    recovery.recover(storage, latest + "0")
    taken = {instant.time for instant in instants.load_metadata_timeline(storage).instants}
    if not current.is_private:
        # Apache spreads keys by the count of file groups: hide the index from it before there are more.
        list_index(client, current, latest, private=True)
    prefix = f"{names.FILE_ID_PREFIXES[names.RECORD_INDEX]}g{len(current.families)}-"
    time = free_init_instant(latest, taken)
    create_index_partition(storage, dataclasses.replace(current, families=((prefix, groups),)), [], time)
    grown = dataclasses.replace(current, families=(*current.families, (prefix, groups)))
    list_index(client, grown, latest)
    return grown


@dataclass(frozen=True, slots=True)
class _Spread:
    """Splits the entries of one file group by the file groups of the new layout."""

    storage: Storage
    folder: str
    groups: tuple[names.FileGroup, ...]
    valid: ValidInstants
    layout: IndexLayout

    def __call__(self, number: int) -> _Run:
        sources = PartitionSources(self.storage, names.RECORD_INDEX, self.valid, groups=(self.groups[number],))
        keys, values = merged_entries(sources.everything()[0])
        shards = self.layout.shards_of(keys)[0] if len(keys) else np.empty(0, np.int32)
        order = np.argsort(shards, kind="stable")
        table: Any = pa.table([keys, values], schema=_ENTRIES).take(from_numpy(order.astype(np.int64)))
        sink, start, batches = io.BytesIO(), 0, []
        with pa.ipc.new_file(sink, _ENTRIES) as writer:
            for end in (np.flatnonzero(np.diff(shards[order], append=-1)) + 1).tolist():
                columns = [one_chunk(column) for column in table.slice(start, end - start).columns]
                writer.write_batch(pa.record_batch(columns, schema=_ENTRIES))
                batches.append(int(shards[order[start]]))
                start = end
        path = f"{self.folder}/{number}-{uuid.uuid4().hex}.arrow"
        self.storage.create(path, sink.getvalue())
        return _Run(path, tuple(batches))


@dataclass(frozen=True, slots=True)
class _Run:
    """The entries of one old file group, a record batch for each new file group."""

    path: str
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Gather:
    """Writes the base file of one new file group."""

    storage: Storage
    folder: str
    runs: tuple[_Run, ...]
    options: IndexFileOptions

    def __call__(self, group: int) -> BuiltFile | None:
        tables = [
            _read_batch(self.storage, run.path, run.groups.index(group)) for run in self.runs if group in run.groups
        ]
        if not tables:
            return None
        entries = pa.concat_tables(tables)
        keys, values = one_chunk(entries["key"]), one_chunk(entries["value"])
        order = from_numpy(sorted_order(keys))
        data = self.options.base_file(keys.take(order), values.take(order))
        path = f"{self.folder}/{group}-{uuid.uuid4().hex}.hfile"
        self.storage.create(path, data)
        return BuiltFile(group, path, len(data), len(keys))


def _read_batch(storage: Storage, path: str, number: int) -> pa.Table:
    with storage.open_input(path) as stream, pa.ipc.open_file(stream) as reader:
        return pa.Table.from_batches([reader.get_batch(number)])


def _redistribute(
    client: TableClient, current: IndexLayout, groups: int, mapper: Mapper, options: IndexFileOptions
) -> IndexLayout:
    storage = client.storage
    latest = latest_data_instant(client)  # and nothing is pending
    recovery.recover(storage, latest + "0")
    storage.delete_dir(_FOLDER)  # of an attempt that died
    prefix = names.FILE_ID_PREFIXES[names.RECORD_INDEX]
    layout = dataclasses.replace(current, families=((prefix, groups),))
    by_id = {group.file_id: group for group in names.list_file_groups(storage, names.RECORD_INDEX)}
    old = tuple(by_id[file_id] for file_id in current.groups)
    valid = ValidInstants(client.timeline(), instants.load_metadata_timeline(storage))
    runs: Sequence[_Run] = mapper(_Spread(storage, _FOLDER, old, valid, layout), list(range(len(old))))
    made = mapper(_Gather(storage, _FOLDER, tuple(runs), options), list(range(groups)))
    publish_index(client, layout, [file for file in made if file is not None])
    storage.delete_dir(_FOLDER)
    return layout
