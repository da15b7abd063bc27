"""Building and dropping the indexes of files, column statistics and bloom filters, while the table's writers go on.

Files are read before the table's lock is taken, and those of commits that come meanwhile as records on top. Under the
lock the rest is read and the index is listed. From then on every commit adds its files to it, also those of writes
that began before: they read at their commit what their tasks did not collect.
"""

from __future__ import annotations

import contextlib
import math
import posixpath
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from table_format.base_file.footer import footer
from table_format.config.option_values import names
from table_format.config.table_config import require_writable
from table_format.errors import (
    MissingFileError,
    OptionError,
    TransactionError,
    UnsupportedTableError,
    did_you_mean,
)
from table_format.instant import Instant
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.metadata_table import layout
from table_format.metadata_table.keys import bloom_filter_key, shard_of_key
from table_format.metadata_table.reader import data_files
from table_format.metadata_table.record_index import is_private
from table_format.slices.file_names import parse_base_file_names
from table_format.slices.file_slices import FILES_SCHEMA, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.table.schema_history import internal_schemas
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.commit.rollback import how_it_ends
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.encoding.bloom_records import bloom_records, deleted_bloom_records
from table_writer.encoding.metadata_records import Records, column_stats_records, deleted_column_stats_records
from table_writer.execution.executor import Mapper
from table_writer.metadata.column_statistics import COLUMN_LIST, concat_statistics, indexable_columns
from table_writer.metadata.creation import create_metadata_table, publish_file_index
from table_writer.metadata.file_contents import (
    FilterReader,
    Place,
    StatisticsReader,
    check_filter_columns,
    places_of,
    portions,
)
from table_writer.metadata.index_files import BuiltFile
from table_writer.metadata.writer import remove_indexes
from table_writer.plan.arguments import MOST_GROUPS, check_count
from table_writer.record_index.before_index import settle_before_index
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import table_lock, unlisted_writes
from table_writer.timeline.options import BLOOM_GROUPS, ProtocolOptions

FILE_INDEXES: Final = (layout.COLUMN_STATS, layout.BLOOM_FILTERS)
FOLDER: Final = ".hoodie/.catalog/file_index_build"
_ROUNDS: Final = 3
_FEW_FILES: Final = 100
_POLL: Final = 0.5
_SHARD_BYTES: Final = 256 << 20

Progress = Callable[[str], None]
"""Called with each step of a long job, as a few words."""


@dataclass(frozen=True, slots=True)
class FileIndexReport:
    """What building an index of files did.

    Attributes:
        index: its name, that of its partition of the metadata table.
        files: base files that it covers.
        columns: with statistics; of bloom filters the record key.
        groups: file groups of the index.
        size: bytes of its base files.
        replaced: whether the table had such an index before.
        seconds: how long it took.
    """

    index: str
    files: int
    columns: tuple[str, ...]
    groups: int
    size: int
    replaced: bool
    seconds: float


def build_file_index(
    client: TableClient,
    index: str,
    options: Mapping[str, str] | None = None,
    *,
    groups: int | None = None,
    wait_seconds: float = 60.0,
    mapper: Mapper = in_threads,
    progress: Progress = lambda _: None,
) -> FileIndexReport:
    """Build column statistics or bloom filters of all files of a table, in place of those that it may have.

    A build that dies leaves the table with the index that it had, or, once that was taken out of use, without one; the
    next build begins anew. Writes of dead writers are rolled back and their cleans finished, as before a write.

    Args:
        client: the table: copy-on-write, version 6, written by this project or by Apache Hudi.
        index: `column_stats` or `bloom_filters`.
        options: of the table's writers: those of the lock, and `hoodie.metadata.index.*`. Columns that they name for
            statistics are from then on the table's.
        groups: file groups of the index; None for a number by the options, or by the size of the filters.
        wait_seconds: how long to wait for writes of other tools that are under way.
        mapper: runs the tasks, in threads or in Spark.
        progress: called with each step, as a few words.

    Raises:
        OptionError: no such index, or columns that it cannot have.
        TransactionError: a write of another tool is under way and does not end.
        LockError: the table lock could not be taken.
        ArgumentError: `groups` is not a number from 1 to 9,999.
        UnsupportedTableError: merge-on-read, another table version, files without record keys, or renamed columns.
    """
    started = time.monotonic()
    if groups is not None:
        check_count("groups", groups, MOST_GROUPS)
    options = dict(options or {})
    _require_file_index(index)
    require_writable(client.reload(), client.storage.uri)
    replaced = index in client.config.metadata_partitions
    make = _statistics_build if index == layout.COLUMN_STATS else _filters_build
    build = make(client, {**client.config.raw, **options}, groups, mapper, progress)
    try:
        _publish_when_current(client, build, options, wait_seconds)
    finally:
        client.storage.delete_dir(build.folder)
    return FileIndexReport(
        index=index,
        files=len(build.covered),
        columns=build.columns,
        groups=build.shards,
        size=sum(file.size for file in build.base_files),
        replaced=replaced,
        seconds=time.monotonic() - started,
    )


def drop_index(client: TableClient, index: str, options: Mapping[str, str] | None = None) -> None:
    """Take an index out of use and delete it, while writers go on: their commits no longer add to it.

    Readers notice when they next read the table's properties, and plan without it.

    Args:
        client: the table.
        index: `column_stats`, `bloom_filters` or `record_index`.
        options: of the table's lock.

    Raises:
        OptionError: the table has no such index, or its writers find records by it.
        LockError: the table lock could not be taken.
    """
    known = (*FILE_INDEXES, layout.RECORD_INDEX)
    require_writable(client.config, client.storage.uri)
    if index in client.config.metadata_partitions and index not in (*known, layout.FILES):
        raise OptionError(f"{client.storage.uri}: {index} is an index of Apache Hudi's, which drops it (DROP INDEX)")
    if index not in known:
        raise OptionError(f"no index {index!r}{did_you_mean(index, known)}: indexes are {', '.join(known)}")
    with table_lock(client, ProtocolOptions.parse(options or {})):
        present = set(client.config.metadata_partitions)
        if is_private(client.config):
            present.add(layout.RECORD_INDEX)
        if index not in present and _is_left(client, index):
            remove_indexes(client, [index])  # the files of a drop that died after it had taken the index out of use
            return
        if index not in present:
            others = ", ".join(name for name in known if name in present) or "none"
            raise OptionError(f"{client.storage.uri}: the table has no {index}; its indexes: {others}")
        if index == layout.RECORD_INDEX and client.config.has_buckets is False:
            raise OptionError(
                f"{client.storage.uri}: the table's writers find records by its record index (hoodie.index.type="
                f"{client.config.index_type}); `hudi-catalog index bootstrap` builds it anew"
            )
        remove_indexes(client, [index])


def _is_left(client: TableClient, index: str) -> bool:
    """Whether files of an index are there that the table does not list, and that Apache Hudi is not building."""
    if index not in FILE_INDEXES or index in names(client.config.raw, layout.INFLIGHT_PARTITIONS_KEY):
        return False
    return client.storage.is_dir(f"{layout.FOLDER}/{index}")


@dataclass
class _Build:
    """An index under construction.

    Attributes:
        client: the table.
        index: its name.
        columns: see `FileIndexReport`.
        shards: file groups.
        properties: that the table gets with the index.
        folder: of the base files until they are moved into the index.
        write: makes the base files of some data files.
        records: reads the records of further files.
        tombstones: makes records that delete those of files.
        progress: called with each step.
        covered: data files in the index.
        base_files: of the index.
        late: records of files that came later, oldest first.
    """

    client: TableClient
    index: str
    columns: tuple[str, ...]
    shards: int
    properties: Mapping[str, str | None]
    folder: str
    write: Callable[[Sequence[Place]], list[BuiltFile]]
    records: Callable[[Sequence[Place]], Records]
    tombstones: Callable[[pa.Table], Records]
    progress: Progress
    covered: set[Place] = field(default_factory=set)
    base_files: list[BuiltFile] = field(default_factory=list)
    late: list[Records] = field(default_factory=list)

    def is_whole(self) -> bool:
        """Whether the base files are still there, which another build of the same index deletes at its end."""
        return all(self.client.storage.exists(file.path) for file in self.base_files)

    def begin_again(self) -> None:
        """Forget all files."""
        self.covered, self.base_files, self.late = set(), [], []

    def missing(self, timeline: Timeline) -> list[Place]:
        """Files of completed instants that are not in the index yet."""
        return [place for place in _committed_files(self.client, timeline) if place not in self.covered]

    def forget_cleaned(self, timeline: Timeline) -> None:
        """Delete the records of files that were cleaned since they were read."""
        gone = sorted(self.covered - set(_committed_files(self.client, timeline)))
        if gone:
            partitions, names = zip(*gone, strict=True)
            files = {"partition": pa.array(partitions, pa.string()), "file_name": pa.array(names, pa.string())}
            self.late.append(self.tombstones(pa.table(files)))
            self.covered -= set(gone)

    def extend(self, places: Sequence[Place]) -> None:
        """Add files."""
        if not places:
            return
        if not self.covered:
            self.progress(f"reading {len(places):,} files")
            self.base_files = self.write(places)
        else:
            self.progress(f"reading {len(places):,} files of commits that came meanwhile")
            self.late.append(self.records(places))
        self.covered |= set(places)


def _publish_when_current(client: TableClient, build: _Build, options: Mapping[str, str], wait_seconds: float) -> None:
    """Extend the index until it is up to date with the table, and publish it under the table's lock."""
    protocol = ProtocolOptions.parse(options)
    deadline = time.monotonic() + wait_seconds
    rounds = 0
    while True:
        rounds += 1
        try:
            build.extend(build.missing(client.timeline()))
        except MissingFileError:
            build.progress("files were cleaned meanwhile; reading what is left")
            if rounds < _ROUNDS:
                continue  # afterwards the rest is read under the lock, where nothing is cleaned
        with table_lock(client, protocol) as lock:
            timeline = settle_before_index(client, protocol)
            pending = _foreign(client, timeline)
            if pending is None:
                if not build.is_whole():
                    build.begin_again()
                missing = build.missing(timeline)
                if len(missing) > _FEW_FILES and rounds < _ROUNDS:
                    continue
                build.extend(missing)
                build.forget_cleaned(timeline)
                lock.check()
                build.progress("taking the index into use")
                _publish(client, build)
                return
        if time.monotonic() >= deadline:
            raise TransactionError(
                f"{client.storage.uri}: {pending} is pending, and an index that is put to use now would miss it. Run "
                f"it again when the write has ended; {how_it_ends(timeline, pending)}"
            )
        build.progress(f"waiting for {pending}")
        time.sleep(_POLL)


def _publish(client: TableClient, build: _Build) -> None:
    if layout.FILES not in client.config.metadata_partitions:
        files = list_data_files(client.storage).select(FILES_SCHEMA.names)
        create_metadata_table(client, files=files, with_column_stats=False)
    publish_file_index(
        client, build.index, build.base_files, build.late, shards=build.shards, properties=build.properties
    )
    client.storage.delete_dir(posixpath.dirname(build.folder))  # with what dead builds left


def _foreign(client: TableClient, timeline: Timeline) -> Instant | None:
    """A pending instant whose commit may miss the index: of another tool, or any in a table without listing.

    Writers of this project, known by their heartbeats, look at their commit, under the lock, for the indexes to add to.
    """
    listed = layout.FILES in client.config.metadata_partitions
    pending = unlisted_writes(client, timeline)
    return next((one for one in pending if not (listed and heartbeat.is_own(client.storage, one.time))), None)


def _committed_files(client: TableClient, timeline: Timeline) -> list[Place]:
    """Base files of a table, without those of pending writes."""
    files = data_files(client, timeline)
    names = parse_base_file_names(files["file_name"], ["instant", "extension"]).to_pylist()
    pending = {instant.time for instant in timeline.pending}
    return [
        place
        for place, name in zip(places_of(files), names, strict=True)
        if name["extension"] == "parquet" and name["instant"] not in pending
    ]


def _require_file_index(index: str) -> None:
    if index == layout.RECORD_INDEX:
        raise OptionError("the record index is built by `hudi-catalog index bootstrap` (`bootstrap_index`)")
    if index not in FILE_INDEXES:
        raise OptionError(f"no index {index!r}{did_you_mean(index, FILE_INDEXES)}: give {' or '.join(FILE_INDEXES)}")


def _folder(index: str) -> str:
    return f"{FOLDER}/{index}/{uuid.uuid4().hex}"


def _statistics_build(
    client: TableClient, settings: Mapping[str, str], groups: int | None, mapper: Mapper, progress: Progress
) -> _Build:
    timeline = client.timeline()
    if internal_schemas(timeline) is not None:
        raise UnsupportedTableError(
            f"{client.storage.uri}: columns of this table have ids (schema on read), under which files may have other "
            "names: column statistics of its files are not built; Apache Hudi's own indexer builds them"
        )
    schema = pa.schema([*META_FIELDS, *client.table_schema(timeline)])
    columns = tuple(indexable_columns(schema, settings))
    shards = groups or ProtocolOptions.parse(settings).column_stats_shards
    reader = StatisticsReader(client.storage, schema, columns)
    folder = _folder(layout.COLUMN_STATS)

    def records(places: Sequence[Place]) -> Records:
        return column_stats_records(concat_statistics(mapper(reader, portions(places))))

    def write(places: Sequence[Place]) -> list[BuiltFile]:
        made = records(places).hfiles(shards)
        return [_saved(client.storage, folder, shard, data, count) for shard, (data, count) in made.items()]

    listed = settings.get(COLUMN_LIST, "").strip()
    properties = {COLUMN_LIST: listed} if listed else {}
    return _Build(
        client,
        layout.COLUMN_STATS,
        columns,
        shards,
        properties,
        folder,
        write,
        records,
        lambda files: deleted_column_stats_records(files, columns),
        progress,
    )


@dataclass(frozen=True, slots=True)
class _FilterShard:
    """Writes the base file of one file group of bloom filters; a task."""

    reader: FilterReader
    folder: str

    def __call__(self, work: tuple[int, Sequence[Place]]) -> BuiltFile:
        shard, places = work
        [(data, count)] = bloom_records(self.reader(places)).hfiles(1).values()
        return _saved(self.reader.storage, self.folder, shard, data, count)


def _filters_build(
    client: TableClient, settings: Mapping[str, str], groups: int | None, mapper: Mapper, progress: Progress
) -> _Build:
    if not client.config.populate_meta_fields:
        raise UnsupportedTableError(
            f"{client.storage.uri}: hoodie.populate.meta.fields=false, so that files hold no record keys to make "
            "bloom filters of"
        )
    protocol = ProtocolOptions.parse(settings)
    check_filter_columns(protocol.bloom_columns, client.config.record_key_fields)
    folder = _folder(layout.BLOOM_FILTERS)
    reader = FilterReader(client.storage, BaseFileOptions.of(settings))
    chosen = groups or (protocol.bloom_shards if BLOOM_GROUPS in settings else None)
    shards = chosen or max(protocol.bloom_shards, _shards_by_size(client))

    def records(places: Sequence[Place]) -> Records:
        return bloom_records(pa.concat_tables(mapper(reader, portions(places))))

    def write(places: Sequence[Place]) -> list[BuiltFile]:
        of_shard: dict[int, list[Place]] = {}
        for place in places:
            of_shard.setdefault(shard_of_key(bloom_filter_key(*place).decode(), shards), []).append(place)
        return mapper(_FilterShard(reader, folder), sorted(of_shard.items()))

    return _Build(
        client,
        layout.BLOOM_FILTERS,
        (RECORD_KEY,),
        shards,
        {},
        folder,
        write,
        records,
        deleted_bloom_records,
        progress,
    )


def _shards_by_size(client: TableClient) -> int:
    """File groups of bloom filters so that each has some hundred megabytes, by the filter of one file."""
    places = _committed_files(client, client.timeline())
    for place in reversed(places):
        with contextlib.suppress(MissingFileError):  # cleaned meanwhile
            bloom = footer(client.storage, posixpath.join(*place)).bloom
            size = 0 if bloom is None else len(bloom.vectors) * bloom.bits // 6
            return math.ceil(len(places) * size / _SHARD_BYTES)
    return 1


def _saved(storage: Storage, folder: str, shard: int, data: bytes, count: int) -> BuiltFile:
    path = f"{folder}/{shard}-{uuid.uuid4().hex}.hfile"
    storage.create(path, data)
    return BuiltFile(shard, path, len(data), count)
