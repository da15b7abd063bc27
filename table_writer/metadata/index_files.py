"""File groups of the record index in the metadata table: created, and one log file appended to each by a commit."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.commit import WriteStat
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.config.properties import ensure_partition_metadata
from table_format.errors import ConflictError, RecordIndexError
from table_format.instant import Action, instant_epoch_ms
from table_format.keys.key_order import sorted_order
from table_format.metadata_table import layout
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout, file_id
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.encoding.hfile import write_hfile
from table_writer.encoding.log_blocks import write_empty_block, write_hfile_block, write_key_delete_block
from table_writer.encoding.metadata_records import SCHEMA_JSON
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA, encode_locations
from table_writer.execution.executor import Mapper
from table_writer.metadata import instants
from table_writer.metadata.index_deltas import DeltaFile, changed_groups, read_deltas
from table_writer.metadata.index_options import IndexOptions
from table_writer.timeline.markers import scratch_folder

FEW_CHANGES: Final = 50_000

"""Fewer changes are written in threads, which start faster than tasks."""


@dataclass(frozen=True, slots=True)
class IndexChanges:
    """What a write changes in the record index.

    Attributes:
        files: delta files of the write's tasks.
        layout: that they were written by; None for the table's own.
        mapper: runs the writing of log files where there are many changes.
        located: instant of the locations that are put; None for that of the write itself. Apache's writers take a
            location for valid if its instant is a commit, which restores and rollbacks are not.
    """

    files: Sequence[DeltaFile]
    layout: IndexLayout | None = None
    mapper: Mapper = in_threads
    located: str | None = None


UNCHANGED: Final = IndexChanges(())

"""Of cleans and rollbacks, which change nothing in the record index."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One file group's part of a commit."""

    storage: Storage
    files: tuple[DeltaFile, ...]
    group: int
    instant: str
    instant_ms: int
    codec: str


def append_changes(
    client: TableClient, instant: str, current: IndexLayout, changes: IndexChanges, options: Mapping[str, str]
) -> list[WriteStat]:
    """Write the log files of a commit into the record index. Callers hold the table's lock.

    The mapper's workers write into the write's scratch folder, and the files are moved into place here: a worker that
    outlives its write leaves nothing in the index.

    Args:
        client: the data table.
        instant: the write's.
        current: layout of the index.
        changes: of the write.
        options: `hoodie.hfile.compression.algorithm` is `GZ` or `NONE`.

    Raises:
        ConflictError: the index was rebuilt since the write began.
        TransactionError: a delta file is missing.
    """
    storage = client.storage
    layout = changes.layout or current
    counts = changed_groups(changes.files)
    if counts and max(counts) >= layout.count:
        raise RecordIndexError(f"{instant}: changes for file group {max(counts)} of {layout.count} of the record index")
    created = _create_families(storage, instant, current, layout)
    on_disk = {group.file_id: group for group in names.list_file_groups(storage, names.RECORD_INDEX)}
    groups = [on_disk[layout.groups[number]] for number in counts]
    logs = [instants.next_log_file(group, names.RECORD_INDEX) for group in groups]
    for log in logs:
        instants.mark(storage, instant, names.RECORD_INDEX, _name(log.path), "APPEND")
    milliseconds = instant_epoch_ms(changes.located or instant, client.config.timeline_timezone)
    codec = IndexOptions.parse(options).files.codec
    tasks = [
        _Task(storage, _of_group(changes.files, number), number, instant, milliseconds, codec) for number in counts
    ]
    if changes.mapper is in_threads or sum(counts.values()) < FEW_CHANGES:
        written = in_threads(_write, [(task, log.path) for task, log in zip(tasks, logs, strict=True)])
    else:
        written = _write_by(changes.mapper, tasks, [log.path for log in logs])
    stats = [
        instants.log_stat(group, names.RECORD_INDEX, dataclasses.replace(log, size=size), count)
        for group, log, (size, count) in zip(groups, logs, written, strict=True)
    ]
    return created + stats


def _write(work: tuple[_Task, str]) -> tuple[int, int]:
    """Size and number of records of a log file, written at once."""
    task, path = work
    data, count = _content(task)
    task.storage.create(path, data)
    return len(data), count


def _prepare(task: _Task) -> tuple[str, int, int]:
    """Path, size and number of records of a log file to be moved into place."""
    data, count = _content(task)
    path = f"{scratch_folder(task.instant)}/record_index_logs/{task.group}-{uuid.uuid4().hex}"
    task.storage.create(path, data)
    return path, len(data), count


def _content(task: _Task) -> tuple[bytes, int]:
    changes = read_deltas(task.storage, task.files, task.group, encoded=True)
    return write_log_content(changes, task.instant, task.instant_ms, task.codec)


def _write_by(mapper: Mapper, tasks: Sequence[_Task], paths: Sequence[str]) -> list[tuple[int, int]]:
    prepared = mapper(_prepare, tasks)
    for task, path, (source, _, _) in zip(tasks, paths, prepared, strict=True):
        task.storage.move(source, path)
    return [(size, count) for _, size, count in prepared]


def _of_group(files: Sequence[DeltaFile], group: int) -> tuple[DeltaFile, ...]:
    """The delta files with changes of a file group, without their parts of other file groups."""
    parts_by_file = [(file, tuple(part for part in file.groups if part[0] == group)) for file in files]
    return tuple(dataclasses.replace(file, groups=parts) for file, parts in parts_by_file if parts)


def _create_families(storage: Storage, instant: str, current: IndexLayout, layout: IndexLayout) -> list[WriteStat]:
    """Create the file groups of new data partitions in an index by partition, as Apache 1.2 does."""
    old, new = dict(current.families), dict(layout.families)
    common = old.keys() & new.keys()
    same = all(old[prefix] == new[prefix] for prefix in common) and current.hash_name == layout.hash_name
    if not same or (layout.scope != PARTITION and old != new) or layout.scope != current.scope:
        raise ConflictError(
            f"{instant}: the record index was rebuilt while this write was under way; nothing was written, try again"
        )
    stats: list[WriteStat] = []
    for prefix in (prefix for prefix in new if prefix not in old):
        ensure_partition_metadata(storage, f"{names.FOLDER}/{names.RECORD_INDEX}", instant)
        stats += [create_index_group(storage, file_id(prefix, shard), instant) for shard in range(new[prefix])]
    return stats


def create_index_group(storage: Storage, group: str, instant: str) -> WriteStat:
    """Create a file group of the index by a log file with an empty block, so that readers can count it."""
    path = names.log_file_path(names.RECORD_INDEX, group, instant, 1)
    instants.mark(storage, instant, names.RECORD_INDEX, _name(path), "APPEND")
    data = write_empty_block(instant)
    storage.create(path, data)
    log = names.LogFile(path, len(data), group, instant, 1, names.TOKEN)
    return instants.log_stat(names.FileGroup(group, (), ()), names.RECORD_INDEX, log, 0)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


_LOG = logging.getLogger(__name__)


def write_log_content(changes: pa.Table, instant: str, instant_ms: int, codec: str) -> tuple[bytes, int]:
    """A data block with the keys that are put, sorted, and a delete block with those that are deleted.

    A key that is both put and deleted is put, as in a move between partitions.

    Args:
        changes: of one file group, as of `read_deltas`, at least one.
        instant: the write's.
        instant_ms: the same in milliseconds since the epoch.
        codec: of the HFile.

    Returns:
        The file's content, and the number of records in it, deleted ones included.
    """
    deleted = pc.any(changes["deleted"]).as_py()
    puts = _sorted_once(changes.filter(pc.invert(changes["deleted"])) if deleted else changes)
    gone: Any = pc.unique(one_chunk(changes.filter(changes["deleted"])["key"]))
    if len(gone) and puts.num_rows:
        gone = gone.filter(pc.invert(pc.is_in(gone, value_set=one_chunk(puts["key"]))))
    blocks: list[bytes] = []
    if puts.num_rows:
        entries = encode_locations(puts, instant_ms)
        hfile = write_hfile(entries.keys, entries.values, schema_json=SCHEMA_JSON, codec=codec)
        blocks.append(write_hfile_block(instant, SCHEMA_JSON, hfile))
    if len(gone):
        keys = gone.cast(pa.binary())
        keys = keys.take(from_numpy(sorted_order(keys)))
        blocks.append(write_key_delete_block(instant, SCHEMA_JSON, keys, layout.RECORD_INDEX))
    return b"".join(blocks), puts.num_rows + len(gone)


def _sorted_once(puts: pa.Table) -> pa.Table:
    """Sorted by the bytes of the keys, each once; of several locations the last by partition and file id is taken."""
    keys = one_chunk(puts["key"]).cast(pa.binary())
    order = from_numpy(sorted_order(keys))
    in_order = keys.take(order)
    if len(keys) < 2 or pc.all(pc.less(in_order[:-1], in_order[1:])).as_py():
        return puts.take(order)
    puts = puts.cast(CHANGES_SCHEMA)
    order = pc.sort_indices(
        puts.append_column("binary", keys), [(name, "ascending") for name in ("binary", "partition", "file_id")]
    )
    in_order = keys.take(order)
    last = np.append(to_numpy(pc.not_equal(in_order[:-1], in_order[1:])), True)
    places = puts.take(order).select(["partition", "file_id"])
    if places.filter(from_numpy(~last)).num_rows and _differ(in_order, places):
        _LOG.warning("a write put records of one key into several places; the record index can name only one of them")
    return puts.take(order.filter(from_numpy(last)))


def _differ(keys: Any, places: pa.Table) -> bool:
    """Whether neighbouring rows of one key have different locations."""
    same_key = pc.equal(keys[:-1], keys[1:])
    columns: Sequence[Any] = [one_chunk(column) for column in places.columns]
    moved = pc.or_(*(pc.not_equal(column[:-1], column[1:]) for column in columns))
    return bool(pc.any(pc.and_(same_key, moved)).as_py())


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A base file of an index that is being built.

    Attributes:
        group: ordinal of its file group in `IndexLayout.groups`.
        path: before it is moved into the index, in the table's storage.
        size: bytes.
        rows: entries, at least one.
    """

    group: int
    path: str
    size: int
    rows: int


def create_index_partition(storage: Storage, layout: IndexLayout, files: Sequence[BuiltFile], time: str) -> None:
    """Create all file groups of an index in one deltacommit of the metadata table, and move base files into them.

    Nobody reads the index before it is listed. Callers hold the table's lock, and have deleted what dead writers left.

    Args:
        storage: of the data table.
        layout: of the index.
        files: base files; file groups without one are empty.
        time: the init instant; see `metadata_table.layout.init_instant`.
    """
    instants.start(storage, time, Action.DELTACOMMIT)
    ensure_partition_metadata(storage, f"{names.FOLDER}/{names.RECORD_INDEX}", time)
    groups = layout.groups
    for group in groups:
        create_index_group(storage, group, time)
    stats = []
    for file in files:
        path = names.base_file_path(names.RECORD_INDEX, groups[file.group], time)
        storage.move(file.path, path)
        stats.append(instants.base_file_stat(names.RECORD_INDEX, path, file.size, file.rows))
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content(stats, "BULK_INSERT"))


def add_groups(storage: Storage, groups: Sequence[str], time: str) -> None:
    """Create further file groups, by their ids, in one deltacommit of the metadata table."""
    instants.start(storage, time, Action.DELTACOMMIT)
    for group in groups:
        create_index_group(storage, group, time)
    instants.complete(storage, time, Action.DELTACOMMIT, instants.commit_content([], "BULK_INSERT"))
