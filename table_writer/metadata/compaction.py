"""Compaction of the metadata table, and the deletion of file slices that compactions have superseded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.avro_schemas import COMPACTION_PLAN
from table_format.actions.commit import WriteStat
from table_format.actions.table_services import CleanerPlan, CleanMetadata, CleanPartition
from table_format.codecs.arrow_numpy import to_numpy
from table_format.codecs.avro_file import write_avro_file
from table_format.config.option_values import whole_number
from table_format.errors import AlreadyExistsError
from table_format.instant import Action
from table_format.log.blocks import read_log_blocks
from table_format.metadata_table import column_stats, layout
from table_format.metadata_table.bloom_filters import newest_filters
from table_format.metadata_table.keys import ALL_PARTITIONS_KEY, NON_PARTITIONED_ID, partition_of_identifier
from table_format.metadata_table.reader import read_listing
from table_format.metadata_table.records import SourceRecords
from table_format.metadata_table.slices import ValidInstants
from table_format.metadata_table.sources import PartitionSources, ShardSources, Source
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.encoding.bloom_records import stored_bloom_records
from table_writer.encoding.log_blocks import write_empty_block
from table_writer.encoding.merged_hfile import BlockwiseHFile
from table_writer.encoding.metadata_records import (
    NO_FILES,
    SCHEMA_JSON,
    Records,
    block_size_of,
    files_records,
    stored_statistics_records,
)
from table_writer.execution.executor import Mapper
from table_writer.metadata import instants
from table_writer.metadata.index_compaction import compact_record_index, is_due
from table_writer.metadata.recovery import metadata_partitions
from table_writer.timeline.instants import pending_work
from table_writer.timeline.options import ProtocolOptions

MAX_DELTA_COMMITS_KEY = "hoodie.metadata.compact.max.delta.commits"

Merge = Callable[[Sequence[SourceRecords]], Records]
"""Records of several sources, in the order in which they apply, as one record for each key that is left."""

_LARGE: Final = {layout.BLOOM_FILTERS: 200}
"""Records from which on a file group is large; a bloom filter by Apache's defaults takes 420 KiB."""

_DEFAULT_MAX_DELTA_COMMITS = 10
_AFTER_ALL = "~"


def compact_metadata_table(
    client: TableClient,
    options: Mapping[str, str] | None = None,
    mapper: Mapper = in_threads,
    *,
    data: Timeline | None = None,
    metadata: Timeline | None = None,
) -> str | None:
    """Compact when enough deltacommits are there and no pending instant of the data table would be compacted away.

    Callers hold the table's lock.

    Args:
        client: the data table.
        options: `hoodie.metadata.compact.max.delta.commits`, 10 by default; see also `compact_record_index`.
        mapper: runs the compaction of the record index's file groups.
        data: the data table's timeline, loaded under the lock; None loads it.
        metadata: the metadata table's, loaded after the other one.

    Returns:
        The compaction's instant, or None when it is not due.

    Raises:
        OptionError: the option is not a positive number.
    """
    storage = client.storage
    if data is None or metadata is None:
        data, metadata = client.timeline(), instants.load_metadata_timeline(storage)
    time = due_compaction(client, data, metadata, options or {})
    if time is not None:
        _execute(client, time, data, metadata, options=options or {}, mapper=mapper)
    return time


def due_compaction(client: TableClient, data: Timeline, metadata: Timeline, options: Mapping[str, str]) -> str | None:
    """Time of the compaction that is due, or was interrupted; None without one.

    Args:
        client: the data table.
        data: the data table's timeline.
        metadata: the metadata table's, loaded after the other one.
        options: see `compact_metadata_table`.
    """
    for pending in metadata.pending:
        if pending.action == Action.COMPACTION:
            return pending.time
    deltas = [instant.time for instant in metadata.completed if instant.action == Action.DELTACOMMIT]
    since = [time for time in deltas if time > instants.last_compaction(metadata)]
    if len(since) < most_deltacommits(options) or _is_blocked(client, data, metadata, deltas[-1]):
        return None
    time = f"{deltas[-1]}{layout.COMPACTION_SUFFIX}"
    return None if metadata.find(time) is not None else time


def most_deltacommits(options: Mapping[str, str]) -> int:
    """After how many deltacommits the metadata table is compacted.

    Raises:
        OptionError: no whole number of at least 1.
    """
    return whole_number(options, MAX_DELTA_COMMITS_KEY, _DEFAULT_MAX_DELTA_COMMITS, 1)


def _is_blocked(client: TableClient, data: Timeline, metadata: Timeline, latest: str) -> bool:
    """Whether an instant is pending: its rollback must stay possible in the metadata table."""
    return any(instant.time <= latest for instant in pending_work(client, data)) or bool(metadata.pending)


def _execute(
    client: TableClient, time: str, data: Timeline, metadata: Timeline, *, options: Mapping[str, str], mapper: Mapper
) -> None:
    storage = client.storage
    valid = ValidInstants(data, metadata)
    partitions = [name for name in layout.MAINTAINED if layout.list_file_groups(storage, name)]
    for partition in partitions:  # left by a dead writer
        for group in layout.list_file_groups(storage, partition):
            for base in group.base_files:
                if base.instant == time:
                    storage.delete(base.path)
    instants.start(storage, time, Action.COMPACTION, plan=_plan(storage, partitions, valid))
    stale = _stale(data, options)
    emptied: dict[str, set[str]] = {partition: set() for partition in partitions}
    written = [
        stat
        for partition in partitions
        for stat in (
            compact_record_index(storage, time, valid, options, mapper, stale=stale, emptied=emptied[partition])
            if partition == layout.RECORD_INDEX
            else _compact_partition(storage, partition, time, valid, emptied=emptied[partition], stale=stale)
        )
    ]
    content = instants.commit_content(written, "COMPACT", compacted=True)
    with contextlib.suppress(AlreadyExistsError):
        instants.complete(storage, time, Action.COMPACTION, content)
    if not any(pending.time <= time for pending in pending_work(client, data)):
        _empty_groups(storage, emptied, valid, instants.last_compaction(metadata))


def _empty_groups(storage: Storage, emptied: Mapping[str, Collection[str]], valid: ValidInstants, before: str) -> None:
    """Make file groups anew whose records are all deleted, if a compaction before has left them so.

    A file group without records gets no base file by a compaction, so that its log blocks would keep their instants
    from being archived for as long as it is empty, and its log files would become more and more. What goes was
    superseded by the compaction before, like the file slices that cleaning deletes.

    Args:
        storage: of the data table.
        emptied: ids of the file groups without records, by partition.
        valid: instants whose blocks are valid.
        before: time of the last compaction but this one.
    """
    for partition, ids in emptied.items():
        for group in layout.list_file_groups(storage, partition) if ids else ():
            if group.file_id not in ids:
                continue
            logs = valid.latest_log_files(group, valid.latest_base_file(group))
            blocks = [block for log in logs for block in read_log_blocks(storage.read(log.path), log.path)]
            times = [block.instant for block in blocks if block.instant is not None]
            if any(time < before and not layout.builds_partition(time) for time in times):
                _make_anew(storage, partition, group)


def _make_anew(storage: Storage, partition: str, group: layout.FileGroup) -> None:
    """Leave nothing of a file group but an empty log, as at its creation.

    The slices go from the oldest on, the base file of each before its logs, so that what is left at any moment has no
    records either: logs that delete records stay longer than those that insert them.
    """
    time = f"{layout.EMPTY_TABLE_INSTANT}010"
    first = layout.log_file_path(partition, group.file_id, time, 1)
    if not storage.exists(first):
        storage.create(first, write_empty_block(time))
    files = [(base.instant, 0, number, base.path) for number, base in enumerate(group.base_files)]
    files += [(log.base_instant, 1, number, log.path) for number, log in enumerate(group.log_files)]
    for *_, path in sorted(files):
        if path != first:
            storage.delete(path)


def _stale(data: Timeline, options: Mapping[str, str]) -> str:
    """Time before which no block may stay in a log of the metadata table.

    Apache's archivers take the metadata table's last compaction for one of all its file groups, and its readers skip
    blocks of instants that are archived. So a block must be merged by the compaction after which its instant may no
    longer be among those that archiving leaves.
    """
    until_next = most_deltacommits(options)
    left = ProtocolOptions.parse(options).archive.least - until_next
    if left <= 0:
        return _AFTER_ALL
    return data.writes[-min(left, len(data.writes))].time if data.writes else ""


def _compact_partition(
    storage: Storage, partition: str, time: str, valid: ValidInstants, *, emptied: set[str], stale: str
) -> list[WriteStat]:
    """Compact the file groups of a partition that have log blocks; but for the listing, only those that are due.

    Other base files grow with the table, and nothing but plans reads their log blocks; each write reads the listing's.

    Args:
        storage: of the data table.
        partition: of the metadata table.
        time: the compaction's instant.
        valid: which blocks count.
        emptied: takes the ids of file groups without records left.
        stale: see `compact_record_index`.
    """
    sources = PartitionSources(storage, partition, valid, before=time)
    merge = _MERGES[partition]
    block_size = block_size_of(partition)
    written = []
    for file_slice, opened in zip(sources.slices, sources.open().shards, strict=True):
        if not file_slice.blocks:
            continue
        if partition != layout.FILES and not is_due(file_slice, opened, stale, _LARGE.get(partition)):
            continue
        made = _merged(storage, file_slice.base, opened, merge, block_size)
        # A file group without records gets no base file: Hudi's readers fail on an empty one.
        if made is None:
            emptied.add(file_slice.file_id)
            continue
        data, count = made
        path = layout.base_file_path(partition, file_slice.file_id, time)
        instants.mark(storage, time, partition, path.rsplit("/", 1)[-1], "CREATE")
        storage.create(path, data)
        previous = file_slice.base.instant if file_slice.base else None
        stat = instants.base_file_stat(partition, path, len(data), count, previous=previous)
        stat.total_log_blocks = len(file_slice.blocks)
        written.append(stat)
    return written


def _merged(
    storage: Storage, base: layout.BaseFile | None, sources: Sequence[Source], merge: Merge, block_size: int | None
) -> tuple[bytes, int] | None:
    """The base file of a file group after a compaction, and its number of records; None without any.

    Of the old base file only those records are decoded whose keys are in the log blocks, and only those data blocks are
    inflated into which these keys fall.
    """
    logs = ShardSources([sources if base is None else sources[1:]]).everything()[0]
    blockwise = None
    if base is not None:
        blockwise = BlockwiseHFile.open(storage.read(base.path), base.path, SCHEMA_JSON, block_size)
    if blockwise is None:
        return merge(ShardSources([sources]).everything()[0]).hfiles(1, block_size=block_size).get(0)
    changed = pc.unique(pa.chunked_array([piece.keys() for piece in logs], pa.binary()))
    touched = blockwise.touched(changed.to_pylist())
    entries = blockwise.entries(touched)
    again = to_numpy(pc.is_in(entries.keys(), value_set=changed)).astype(np.bool_)
    merged = merge([SourceRecords(sources[0].name, entries.take(again), sources[0].schema), *logs])
    rest = entries.take(~again)
    records = Records(*map(pa.concat_arrays, ([rest.keys(), merged.keys], [rest.values(), merged.values]))).sorted()
    return blockwise.with_entries(touched, len(entries), records.keys, records.values)


def _statistics_records(pieces: Sequence[SourceRecords]) -> Records:
    return stored_statistics_records(column_stats.raw([pieces], unify=True))


def _listing_records(pieces: Sequence[SourceRecords]) -> Records:
    """Merged records of partitions, and that of all partitions if it is among the pieces."""
    listing = read_listing([pieces])
    is_list = pc.equal(listing["partition"], ALL_PARTITIONS_KEY)
    named: Any = listing.filter(is_list)["file_name"]
    partitions = [partition_of_identifier(name) for name in named.to_pylist()]
    files = listing.filter(pc.invert(is_list))
    folders: Any = pc.if_else(pc.equal(files["partition"], NON_PARTITIONED_ID), "", files["partition"])
    records = files_records(files.set_column(0, "partition", folders), NO_FILES, partitions)
    key = ALL_PARTITIONS_KEY.encode()
    listed = any(pc.index(piece.keys(), pa.scalar(key, pa.binary())).as_py() >= 0 for piece in pieces)
    return records if listed else records.without(key)


def _filter_records(pieces: Sequence[SourceRecords]) -> Records:
    return stored_bloom_records(newest_filters(pieces))


_MERGES: Final[Mapping[str, Merge]] = {
    layout.FILES: _listing_records,
    layout.COLUMN_STATS: _statistics_records,
    layout.BLOOM_FILTERS: _filter_records,
}


def _plan(storage: Storage, partitions: list[str], valid: ValidInstants) -> bytes:
    operations = []
    for partition in partitions:
        for group in layout.list_file_groups(storage, partition):
            base = valid.latest_base_file(group)
            logs = valid.latest_log_files(group, base)
            if not logs:
                continue
            operations.append(
                {
                    "baseInstantTime": base.instant if base else logs[0].base_instant,
                    "deltaFilePaths": [log.path.rsplit("/", 1)[-1] for log in logs],
                    "dataFilePath": base.path.rsplit("/", 1)[-1] if base else None,
                    "fileId": group.file_id,
                    "partitionPath": partition,
                    "metrics": {
                        "TOTAL_LOG_FILES": float(len(logs)),
                        "TOTAL_LOG_FILES_SIZE": float(sum(log.size for log in logs)),
                    },
                    "bootstrapFilePath": None,
                }
            )
    plan = {"operations": operations, "version": 2, "preserveHoodieMetadata": False}
    return write_avro_file(COMPACTION_PLAN, [plan])


_CLEANING_POLICY = "KEEP_LATEST_FILE_VERSIONS"

_KEPT_SLICES = 2

"""Readers that opened the table before the last compaction still need the slices before it."""


def clean_metadata_table(client: TableClient) -> str | None:
    """Delete all but the newest two file slices of each file group. Callers hold the table's lock.

    Returns:
        The clean's instant, or None when there is nothing to delete.
    """
    storage = client.storage
    metadata = instants.load_metadata_timeline(storage)
    pending = [instant.time for instant in metadata.pending if instant.action == Action.CLEAN]
    for time in pending:  # of a dead writer: what it left is planned again
        instants.remove(storage, time, Action.CLEAN)
    valid = ValidInstants(client.timeline(), metadata)
    superseded = {name: _superseded(storage, name, valid) for name in metadata_partitions(storage)}
    superseded = {name: paths for name, paths in superseded.items() if paths}
    deltas = [instant.time for instant in metadata.completed if instant.action == Action.DELTACOMMIT]
    if not superseded or not deltas:
        return None
    time = f"{deltas[-1]}{layout.CLEAN_SUFFIX}"
    if metadata.find(time) is not None and time not in pending:
        return None
    _execute_clean(storage, time, deltas[-1], superseded)
    return time


def _superseded(storage: Storage, partition: str, valid: ValidInstants) -> list[str]:
    paths = []
    for group in layout.list_file_groups(storage, partition):
        done = [base.instant for base in group.base_files if valid.committed_in_metadata(base.instant)]
        if len(done) < _KEPT_SLICES:
            continue
        oldest_kept = done[-_KEPT_SLICES]
        paths += [base.path for base in group.base_files if base.instant < oldest_kept]
        paths += [log.path for log in group.log_files if log.base_instant < oldest_kept]
    return paths


def _execute_clean(storage: Storage, time: str, last_commit: str, superseded: dict[str, list[str]]) -> None:
    absolute = {name: [storage.full_uri(path) for path in paths] for name, paths in superseded.items()}
    plan = CleanerPlan(_CLEANING_POLICY, absolute, last_completed_commit=last_commit).to_avro()
    instants.start(storage, time, Action.CLEAN, plan=plan, inflight=plan)
    partitions = {}
    for name, paths in superseded.items():
        for path in paths:
            storage.delete(path)
        names = [path.rsplit("/", 1)[-1] for path in paths]
        partitions[name] = CleanPartition(_CLEANING_POLICY, patterns=names, deleted=names)
    result = CleanMetadata(time, 0, last_completed_commit=last_commit, partitions=partitions)
    with contextlib.suppress(AlreadyExistsError):
        instants.complete(storage, time, Action.CLEAN, result.to_avro())
