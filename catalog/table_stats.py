"""Statistics of a table: its files, its timelines and its services, from metadata alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk, to_numpy
from table_format.config.table_config import TableConfig
from table_format.errors import OptionError
from table_format.instant import Action, format_instant_time, instant_epoch_ms, is_calendar_time
from table_format.keys.partition_buckets import BucketRules, claimed_rules
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.slices import open_complete_timeline
from table_format.slices.file_slices import latest_file_slices, list_data_files
from table_format.table.bucket_counts import bucket_count_as_of
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline

#: Bytes below which a file counts as small: Apache's default of `hoodie.parquet.small.file.limit`.
SMALL_FILE: Final = 104_857_600
#: Bytes wanted in a file of a bucket: Apache's default of `hoodie.parquet.max.file.size`.
FILE_TARGET: Final = 120 << 20
_BUCKET_DIGITS: Final = 8
_MOST_BUCKETS: Final = 99_999_999
_FULL: Final = 1.5
_EMPTY: Final = 0.5


@dataclass(frozen=True, slots=True)
class FileStats:
    """The files of a table's newest state, and those that only older states need.

    Attributes:
        groups: number of file groups.
        files: number of their base and log files.
        bytes: sizes of these.
        log_files: number of log files among them.
        smallest: bytes of the smallest file group, its logs included; None without one, as in the next two.
        median: bytes.
        largest: bytes.
        small: number of file groups below `small_limit`.
        small_limit: bytes.
        older_files: number of files that the newest state does not need, those of uncommitted writes among them.
        older_bytes: sizes of these.
        listed_by: `metadata table`, or `storage` where the table has none that may be used.
    """

    groups: int
    files: int
    bytes: int
    log_files: int
    smallest: int | None
    median: int | None
    largest: int | None
    small: int
    small_limit: int
    older_files: int
    older_bytes: int
    listed_by: str


@dataclass(frozen=True, slots=True)
class SkewStats:
    """How unevenly the buckets of a bucketed table are filled.

    Attributes:
        buckets: number of different buckets, over all partitions.
        mean: bytes of a bucket.
        largest: bytes of the fullest one.
        largest_bucket: its number.
        ratio: `largest` by `mean`; 1 is even.
        count: buckets of each partition, or of `partition`; None where the table does not record it.
        advised: the number that `resize --auto` would choose; `count` where that is good; None likewise.
        partition: the fullest partition, where it alone should be resized; None for the whole table.
    """

    buckets: int
    mean: int
    largest: int
    largest_bucket: int
    ratio: float
    count: int | None = None
    advised: int | None = None
    partition: str | None = None


@dataclass(frozen=True, slots=True)
class TimelineStats:
    """How long a timeline is.

    Attributes:
        active: number of instants on the active timeline, pending ones included.
        pending: number of requested and inflight ones.
        archived: number of archived instants.
        archive_files: number of files of the archive.
        archive_bytes: their sizes.
        oldest: time of the oldest active instant; None without one.
        oldest_seconds: its age; None where its time is no calendar time, as in the next fields.
        oldest_pending: time of the oldest pending instant; None without one.
        oldest_pending_seconds: its age.
    """

    active: int
    pending: int
    archived: int
    archive_files: int
    archive_bytes: int
    oldest: str | None
    oldest_seconds: int | None
    oldest_pending: str | None
    oldest_pending_seconds: int | None


@dataclass(frozen=True, slots=True)
class ServiceStats:
    """When services last ran, as instant times; None for never.

    Attributes:
        clean: the last completed clean.
        archive: when the archive was last changed.
        rollback: the last completed rollback.
        metadata_compaction: the last compaction of the metadata table.
        metadata_deltacommits: number of deltacommits of the metadata table since then.
    """

    clean: str | None
    archive: str | None
    rollback: str | None
    metadata_compaction: str | None
    metadata_deltacommits: int


@dataclass(frozen=True, slots=True)
class OrphanStats:
    """Data files that no instant of a table knows.

    Attributes:
        files: number of those that a repair would delete.
        bytes: sizes of these.
        young: number of those that are too young for that.
        unclear: number of files that are older than all that is known.
    """

    files: int
    bytes: int
    young: int
    unclear: int


@dataclass(frozen=True, slots=True)
class TableStats:
    """Statistics of a table.

    Attributes:
        name: of the table.
        uri: its folder.
        type: `COPY_ON_WRITE` or `MERGE_ON_READ`.
        version: of its format.
        partitions: number of partitions with files of the newest state.
        files: see `FileStats`.
        skew: see `SkewStats`; None for a table without buckets or without files.
        timeline: the table's own.
        metadata_timeline: that of the metadata table; None without one that may be used.
        services: see `ServiceStats`.
        savepoints: times of savepoints.
        orphans: see `OrphanStats`; None where they were not looked for, which means listing the storage.
    """

    name: str
    uri: str
    type: str
    version: int
    partitions: int
    files: FileStats
    skew: SkewStats | None
    timeline: TimelineStats
    metadata_timeline: TimelineStats | None
    services: ServiceStats
    savepoints: tuple[str, ...]
    orphans: OrphanStats | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields by name, those of the parts as objects."""
        return dataclasses.asdict(self)


def table_stats(client: TableClient, *, small_limit: int = SMALL_FILE, now: float | None = None) -> TableStats:
    """Statistics of a table's newest state; no data file is opened.

    Args:
        client: the table.
        small_limit: bytes below which a file group counts as small.
        now: seconds since the epoch, for ages; the present by default.

    Raises:
        CorruptFileError: the timeline, the archive or the metadata table is damaged.
        UnsupportedTableError: the table has files of a kind that is not read.
    """
    timeline, config = client.timeline(), client.config
    listing = MetadataTable.open(client, timeline)
    files = list_data_files(client.storage) if listing is None else listing.files()
    slices = latest_file_slices(files, timeline, paths=False)
    now_ms = (time.time() if now is None else now) * 1000
    zone = config.timeline_timezone
    own = open_complete_timeline(client, timeline) if listing is not None else ""
    metadata_timeline = None if isinstance(own, str) else own
    archived = timeline.archive.instants
    return TableStats(
        name=config.name,
        uri=client.storage.uri,
        type=config.table_type,
        version=config.version,
        partitions=pc.count_distinct(slices["partition"]).as_py() if slices.num_rows else 0,
        files=_files(files, slices, small_limit, "storage" if listing is None else "metadata table"),
        skew=_skew(slices, _counts(config, timeline)) if config.has_buckets else None,
        timeline=_timeline(timeline, now_ms, zone),
        metadata_timeline=None if metadata_timeline is None else _timeline(metadata_timeline, now_ms, zone),
        services=_services(timeline, archived, metadata_timeline, zone),
        savepoints=tuple(i.time for i in timeline.completed if i.action == Action.SAVEPOINT),
    )


def slice_sizes(slices: pa.Table) -> Any:
    """Bytes of each file slice, its logs included (numpy, int64), and its number of log files."""
    sizes = to_numpy(one_chunk(slices["size"])).astype(np.int64)
    logs = one_chunk(slices["logs"])
    counts = to_numpy(pc.list_value_length(logs)).astype(np.int64)
    if counts.any():
        flat = pc.list_flatten(logs)
        owners = to_numpy(pc.list_parent_indices(logs))
        sizes = sizes + np.bincount(owners, to_numpy(pc.struct_field(flat, "size")), len(sizes)).astype(np.int64)
    return sizes, counts


def _files(files: pa.Table, slices: pa.Table, small_limit: int, listed_by: str) -> FileStats:
    sizes, logs = slice_sizes(slices)
    count = int(logs.sum()) + slices.num_rows - slices["file_name"].null_count
    total = int(sizes.sum())
    return FileStats(
        groups=slices.num_rows,
        files=count,
        bytes=total,
        log_files=int(logs.sum()),
        smallest=int(sizes.min()) if len(sizes) else None,
        median=int(np.median(sizes)) if len(sizes) else None,
        largest=int(sizes.max()) if len(sizes) else None,
        small=int((sizes < small_limit).sum()),
        small_limit=small_limit,
        older_files=files.num_rows - count,
        older_bytes=int(pc.sum(files["size"], min_count=0).as_py()) - total,
        listed_by=listed_by,
    )


def advised_buckets(partition_bytes: Iterable[int], count: int, target: int = FILE_TARGET) -> int:
    """The number of buckets that makes the files of the largest partition about as large as wanted.

    A multiple or a divisor of the present number, which a resize reaches without an exchange of rows. The present one
    stays while files are between half as large as wanted and one and a half times.

    Args:
        partition_bytes: bytes of the files of each partition.
        count: buckets of each partition now.
        target: bytes wanted in a file.

    >>> advised_buckets([4000], 4, 400), advised_buckets([4000], 4, 800), advised_buckets([400], 12, 100)
    (16, 4, 4)
    """
    largest = max(partition_bytes, default=0)
    if not largest:
        return count
    fill = largest / (count * target)
    if fill > _FULL:
        return int(min(_MOST_BUCKETS, count << math.ceil(math.log2(fill))))
    if fill >= _EMPTY:
        return count
    return next(parts for parts in range(1, count + 1) if count % parts == 0 and largest <= parts * target)


def _counts(config: TableConfig, timeline: Timeline) -> BucketRules | None:
    """Buckets of each partition, where the table records them and its files outgrow them."""
    if config.bucket_file_size is not None:
        return None
    try:
        rules = claimed_rules(config.raw, config.bucket_count)
    except OptionError:
        return None
    count = bucket_count_as_of(config, timeline)
    return rules or (BucketRules((), count) if isinstance(count, int) else None)


def _skew(slices: pa.Table, counts: BucketRules | None) -> SkewStats | None:
    """By the first eight characters of file ids, which are the bucket."""
    ids: Any = one_chunk(slices["file_id"])
    heads: Any = pc.utf8_slice_codeunits(ids, 0, _BUCKET_DIGITS)
    if not len(heads) or not pc.all(pc.utf8_is_decimal(heads)).as_py():
        return None
    numbers = to_numpy(pc.cast(heads, pa.int64()))
    kinds, places = np.unique(numbers, return_inverse=True)
    sizes = np.bincount(places, slice_sizes(slices)[0])
    fullest, mean = int(sizes.argmax()), float(sizes.mean())
    ratio = round(float(sizes[fullest]) / mean, 2) if mean else 1.0
    whole = SkewStats(len(kinds), round(mean), int(sizes[fullest]), int(kinds[fullest]), ratio)
    return whole if counts is None else _with_advice(whole, slices, counts)


def _with_advice(skew: SkewStats, slices: pa.Table, rules: BucketRules) -> SkewStats:
    """What to do about the fullest partition: resize the table, or that partition where most others are well filled."""
    paths = one_chunk(slices["partition"]).dictionary_encode()
    names: list[Any] = paths.dictionary.to_pylist()
    nbytes = np.bincount(to_numpy(paths.indices), slice_sizes(slices)[0], len(names))
    counts = np.array(rules.counts_of(names), np.int64)
    fullest = int(np.argmax(nbytes / counts))
    count = int(counts[fullest])
    advised = advised_buckets([int(nbytes[fullest])], count)
    usual = advised_buckets([int(np.median(nbytes / counts) * count)], count)
    alone = bool(rules.rules) or (len(names) > 1 and usual <= count < advised)
    if rules.rules and advised < count:
        advised = count
    return dataclasses.replace(skew, count=count, advised=advised, partition=names[fullest] if alone else None)


def _timeline(timeline: Timeline, now_ms: float, zone: str) -> TimelineStats:
    files = timeline.archive.entries()

    def age(time_: str | None) -> int | None:
        if time_ is None or not is_calendar_time(time_):
            return None
        return max(0, round((now_ms - instant_epoch_ms(time_[:17], zone)) / 1000))

    oldest = timeline.first_instant.time if timeline.first_instant else None
    waiting = timeline.pending[0].time if timeline.pending else None
    return TimelineStats(
        active=len(timeline.instants),
        pending=len(timeline.pending),
        archived=len(set(timeline.archive.instants) - {(i.time, i.comparable_action) for i in timeline.instants}),
        archive_files=len(files),
        archive_bytes=sum(file.size for file in files),
        oldest=oldest,
        oldest_seconds=age(oldest),
        oldest_pending=waiting,
        oldest_pending_seconds=age(waiting),
    )


def _services(timeline: Timeline, archived: Sequence[tuple[str, str]], own: Timeline | None, zone: str) -> ServiceStats:
    changed = max((entry.mtime_ms for entry in timeline.archive.entries()), default=None)
    compacted = None
    deltas = 0
    if own is not None:
        times = {i.time for i in own.completed if i.action == Action.COMMIT}
        times |= {time_ for time_, action in own.archive.instants if action == Action.COMMIT}
        compacted = max(times, default=None)
        writes = [i.time for i in own.completed if i.action == Action.DELTACOMMIT]
        deltas = sum(1 for time_ in writes if time_ > (compacted or ""))
    return ServiceStats(
        clean=_last(timeline, archived, Action.CLEAN),
        archive=None if changed is None else _instant_of(changed, zone),
        rollback=_last(timeline, archived, Action.ROLLBACK),
        metadata_compaction=compacted,
        metadata_deltacommits=deltas,
    )


def _last(timeline: Timeline, archived: Sequence[tuple[str, str]], action: str) -> str | None:
    active = [instant.time for instant in timeline.completed if instant.action == action]
    return max([*active, *(time_ for time_, of in archived if of == action)], default=None)


def _instant_of(epoch_ms: int, zone: str) -> str:
    moment = dt.datetime.fromtimestamp(epoch_ms / 1000, dt.UTC)
    return format_instant_time(moment.astimezone(dt.UTC if zone == "UTC" else None))
