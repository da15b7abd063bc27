"""Building the record index of a table that has data, while its writers go on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from table_format.config.table_config import require_writable
from table_format.errors import CorruptFileError, MissingFileError, TransactionError
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.commit.rollback import how_it_ends
from table_writer.execution.executor import Mapper
from table_writer.metadata.creation import publish_index
from table_writer.metadata.index_files import BuiltFile
from table_writer.metadata.index_options import HASH_KEY, IndexOptions, new_layout
from table_writer.metadata.key_source import KeySource, current_sources, require_keys
from table_writer.plan.arguments import MOST_GROUPS, check_count
from table_writer.record_index.before_index import settle_before_index
from table_writer.record_index.build import Built, IndexBuild, Progress, begun_layouts, clear_builds, count_keys
from table_writer.timeline.instants import table_lock, unlisted_writes
from table_writer.timeline.options import ProtocolOptions

_ROUNDS: Final = 3
_POLL: Final = 0.5
_BY_PARTITION: Final = "hoodie.metadata.record.level.index.enable"


@dataclass(frozen=True, slots=True)
class BootstrapReport:
    """What a bootstrap did.

    Attributes:
        keys: in the index.
        keys_read: keys read from data files; the others were read by an earlier attempt.
        groups: file groups of the index.
        slices: file slices of the table.
        duplicates: rows whose key another row has, too; the index holds the newest location of each key.
        examples: some such keys, and the locations of each.
        size: bytes of the index.
        seconds: how long it took.
    """

    keys: int
    keys_read: int
    groups: int
    slices: int
    duplicates: int
    examples: tuple[tuple[str, tuple[str, ...]], ...]
    size: int
    seconds: float


def bootstrap_index(
    client: TableClient,
    options: Mapping[str, str] | None = None,
    *,
    groups: int | None = None,
    wait_seconds: float = 60.0,
    mapper: Mapper = in_threads,
    progress: Progress = lambda _: None,
) -> BootstrapReport:
    """Build a table's record index, in place of one that it may have.

    Keys are read while other writers go on; only the end is under the table's lock. Slices that commits change
    meanwhile are read again. An interrupted bootstrap resumes when it is called again. Cleans and rollbacks that dead
    writers began are finished, and their writes rolled back, as before a write.

    Args:
        client: the table: copy-on-write, version 6, written by this project or by Apache Hudi.
        options: of the table's writers; those of the lock and `hoodie.metadata.record.index.*` count.
        groups: file groups of the index; None for a number by the count of keys.
        wait_seconds: how long to wait for writes that are under way.
        mapper: runs the tasks, in threads or in Spark.
        progress: called with each step, as a few words.

    Raises:
        RecordIndexError: the table's files hold no record keys.
        TransactionError: a write is under way and does not end; what was read is kept for the next attempt.
        LockError: the table lock could not be taken.
        UnsupportedTableError: merge-on-read, or another table version.
        ArgumentError: `groups` is not a number from 1 to 9,999.
    """
    started = time.monotonic()
    if groups is not None:
        check_count("groups", groups, MOST_GROUPS)
    options = dict(options or {})
    require_writable(client.reload(), client.storage.uri)
    require_keys(client)
    settings = {**client.config.raw, **options}
    build = IndexBuild(client, _layout(client, options, groups, mapper), mapper, progress, options=settings)
    build.start()
    built = _publish_when_current(client, build, options, wait_seconds, progress)
    files = built.files
    return BootstrapReport(
        keys=built.keys,
        keys_read=built.keys_read,
        groups=len(files),
        slices=len(built.sources),
        duplicates=built.duplicates,
        examples=tuple(example for file in files for example in file.examples),
        size=sum(file.size for file in files),
        seconds=time.monotonic() - started,
    )


def _layout(client: TableClient, options: Mapping[str, str], groups: int | None, mapper: Mapper) -> IndexLayout:
    """The layout of an interrupted build where it has enough file groups, else a new one for these keys."""
    timeline = client.timeline()
    sources = current_sources(client, timeline)
    keys = count_keys(client, timeline, sources, mapper)
    partitions = sorted({source.partition for source in sources})
    wanted = new_layout(_wanted(client, timeline, options), keys, partitions, groups=groups)
    for begun in begun_layouts(client.storage):
        alike = (begun.scope, begun.hash_name) == (wanted.scope, wanted.hash_name)
        enough = begun.scope == PARTITION or begun.count >= wanted.count
        if alike and groups is None and begun.families and enough:
            return begun
    return wanted


def _wanted(client: TableClient, timeline: Timeline, options: Mapping[str, str]) -> Mapping[str, str]:
    """The options of the new index; what they leave open is taken from the present index."""
    settings = {**client.config.raw, **options}
    try:
        present = IndexLayout.of(client, timeline)
    except CorruptFileError:
        present = None  # which this build replaces
    if present is None:
        return settings
    scoped = {_BY_PARTITION: "true"} if present.scope == PARTITION else {}
    return {HASH_KEY: present.hash_name, **({} if IndexOptions.parse(settings).scope else scoped), **settings}


def _publish_when_current(
    client: TableClient, build: IndexBuild, options: Mapping[str, str], wait_seconds: float, progress: Progress
) -> Built:
    """Build until the index is up to date with the table, and publish it under the table's lock.

    After some rounds the rest is built under the lock, so that a table with many commits gets its index, too.
    """
    protocol = ProtocolOptions.parse(options)
    deadline = time.monotonic() + wait_seconds
    rounds = 0
    while True:
        timeline = client.timeline()
        rounds += 1
        built: Built | None = None
        try:
            built = build.run(timeline, current_sources(client, timeline))
        except MissingFileError:
            progress("files were cleaned meanwhile; reading what replaced them")
            if rounds < _ROUNDS:
                continue
        with table_lock(client, protocol) as lock:
            timeline = settle_before_index(client, protocol)
            pending = unlisted_writes(client, timeline)
            if not pending:
                sources = current_sources(client, timeline)
                if built is None or not _is_current(client, built, sources):
                    progress("commits came meanwhile; reading what they changed")
                    if rounds < _ROUNDS:
                        continue
                    built = build.run(timeline, sources)
                lock.check()
                progress("taking the index into use")
                files = [BuiltFile(file.group, file.path, file.size, file.rows) for file in built.files if file.path]
                publish_index(client, built.layout, files)
                clear_builds(client.storage)
                return built
        if time.monotonic() >= deadline:
            raise TransactionError(
                f"{client.storage.uri}: {pending[0]} is pending; an index is put to use only while no write is, or it "
                "would miss that write. Run it again when the write has ended (the keys read so far are kept); "
                f"{how_it_ends(timeline, pending[0])}"
            )
        progress(f"waiting for {pending[0]}")
        time.sleep(_POLL)


def _is_current(client: TableClient, built: Built, sources: Sequence[KeySource]) -> bool:
    """Whether the built files are of the table's present slices, and not deleted by the end of another build."""
    if frozenset(source.identity for source in sources) != built.sources:
        return False
    return all(client.storage.exists(file.path) for file in built.files if file.path)
