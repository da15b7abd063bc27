"""One write: requested on the timeline, and then committed or rolled back."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.config.properties import ensure_partition_metadata
from table_format.config.table_config import recover_table_config
from table_format.errors import (
    ConflictError,
    HudiError,
    LockError,
    MissingFileError,
    NoSpaceError,
    TransactionError,
)
from table_format.instant import Action, Instant, State
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index import is_private
from table_format.metadata_table.record_index_layout import MAINTAINED, MAINTAINED_KEY, IndexLayout
from table_format.table.client import SCHEMA_KEY, TableClient
from table_format.table.schema_history import KEY as SCHEMA_IDS_KEY
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.archive.archive import archive_locked
from table_writer.commit.batches import Batch
from table_writer.commit.conflicts import (
    Cleared,
    TimelineState,
    changed_since,
    check_alone,
    check_conflicts,
    check_keys,
    check_savepoints,
    completed_since,
    raise_if_overtaken,
)
from table_writer.commit.create import ensure_metadata_table
from table_writer.commit.rollback import (
    Remains,
    free_space,
    lock_on_a_full_disk,
    resume_rollbacks,
    roll_back,
    rollback_of,
    settled_timeline,
    sweep_remains,
)
from table_writer.commit.schema import record_history, schema_after
from table_writer.commit.table_properties import KEY as PROPERTIES_KEY
from table_writer.commit.table_properties import Adopt, recorded_text, settle_properties
from table_writer.execution.executor import Mapper
from table_writer.metadata.file_contents import statistics_at_commit
from table_writer.metadata.index_deltas import DeltaFile
from table_writer.metadata.index_files import IndexChanges
from table_writer.metadata.index_options import IndexOptions
from table_writer.metadata.statistics_repair import repair_statistics
from table_writer.metadata.writer import record_commit
from table_writer.services.clean import clean_locked, is_due
from table_writer.timeline.heartbeat import Heartbeat, silenced_if_it_fails
from table_writer.timeline.instants import (
    RequestedReplaceMetadata,
    ensure_state,
    instant_path,
    request_alive,
    table_lock,
)
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.markers import delete_markers, read_markers
from table_writer.timeline.options import ProtocolOptions

_log = logging.getLogger(__name__)


class WriteTransaction:
    """One write to a copy-on-write table: all of it becomes visible, or nothing.

    Others may write at the same time, from this process or elsewhere: beginning and committing happen under the
    table's lock, and a heartbeat shows in between that this writer is alive.

    `begin` rolls back dead writers and requests the instant. A process that writes a data file creates its marker
    first (`markers.create_marker`). `commit` publishes the files that the write stats name. As a context
    manager, a transaction that was not committed is rolled back at the end of the block.

    Attributes:
        instant: the write's time, which is in the names and rows of its data files.
        storage: of the table.
        client: the table.
        timeline: as the write began. All reads for the write see this state, so that instants that complete later are
            found as conflicts at the commit.
    """

    def __init__(
        self,
        client: TableClient,
        instant: Instant,
        operation: str,
        *,
        options: Mapping[str, str],
        timeline: Timeline,
        heartbeat: Heartbeat,
    ) -> None:
        self.client = client
        self.storage = client.storage
        self.instant = instant.time
        self._requested = instant
        self._operation = operation
        self._options = dict(options)
        self._protocol = ProtocolOptions.parse(options)
        self.timeline = timeline
        self._before = TimelineState.of(client, timeline)
        self._begun = dict(client.config.raw)
        self._heartbeat = heartbeat
        # a transaction that was garbage-collected before its end is dead, though its process is alive
        self._metadata_table: MetadataTable | None = None
        self._dropped = weakref.finalize(self, heartbeat.silence)
        self._dropped.atexit = False
        self._inflight = self._published = self._ended = False

    @classmethod
    def begin(
        cls,
        client: TableClient,
        action: str,
        operation: str,
        options: Mapping[str, str] | None = None,
        adopt: Adopt | None = None,
        *,
        known: Timeline | None = None,
    ) -> Self:
        """Start a write.

        Args:
            client: the table.
            action: `commit`, or `replacecommit` for writes that replace file groups.
            operation: e.g. `UPSERT`; goes into the commit metadata.
            options: Apache's keys; see `ProtocolOptions`.
            adopt: returns the properties that the job adds to the table's; see `settle_properties`.
            known: the timeline as loaded earlier; what it has read is not read again.

        Raises:
            OptionError: an invalid option.
            LockError: the table lock could not be taken.
            UnsupportedTableError: the table is of another version than 6, or not copy-on-write.
        """
        options = options or {}
        protocol, index = ProtocolOptions.parse(options), IndexOptions.parse(options)
        if action not in (Action.COMMIT, Action.REPLACECOMMIT):
            raise TransactionError(f"{action!r} is not the action of a write: give commit or replacecommit")
        begun: Self | None = None
        try:
            with lock_on_a_full_disk(client, protocol):
                if recover_table_config(client.storage):
                    client.reload()
                timeline, _ = settled_timeline(client, protocol, known)  # first, because it frees space
                bring_up_to_date(client, timeline, options, protocol, index, adopt=adopt)
                data = RequestedReplaceMetadata().to_avro() if action == Action.REPLACECOMMIT else b""
                instant, beat = request_alive(client, action, data, timeline, protocol)
                with silenced_if_it_fails(beat):
                    begun = cls(client, instant, operation, options=options, timeline=timeline, heartbeat=beat)
        except BaseException:
            if begun is not None:
                begun._give_up()
            raise
        return begun

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort_because(error)
            if isinstance(error, MissingFileError):  # a clean, a rollback or a restore deleted it
                raise_if_overtaken(self.client, self.timeline, self.instant, error)
        else:
            self.abort()

    def open_metadata(self) -> MetadataTable | None:
        """The metadata table as the write began, None without one; cleaning reads only what was added to it since."""
        if self._metadata_table is None:
            self._metadata_table = MetadataTable.open(self.client, self.timeline)
        return self._metadata_table

    def mark_inflight(self, stats: CommitMetadata | None = None) -> None:
        """Put the inflight state on the timeline, before data files are written. `commit` does it if nobody did.

        Args:
            stats: the planned write, if known; markers make it dispensable.

        Raises:
            ConflictError: somebody rolled this write back.
        """
        self._require_open()
        if not self.storage.exists(instant_path(self._requested)):
            self._require_pending(self.client.timeline(self.timeline))
        planned = stats or CommitMetadata(operation_type=self._operation)
        ensure_state(self.storage, self._requested.at(State.INFLIGHT), planned.to_json())
        self._inflight = True

    def commit(
        self,
        stats: Sequence[WriteStat],
        *,
        schema_json: str,
        column_stats: pa.Table | None = None,
        replaced: Mapping[str, Sequence[str]] | None = None,
        extra: Mapping[str, str] | None = None,
        index_changes: Sequence[DeltaFile] | None = None,
        index_layout: IndexLayout | None = None,
        mapper: Mapper = in_threads,
        cleared: Cleared | None = None,
        alone: bool = False,
        batch: Batch | None = None,
    ) -> CommitMetadata:
        """Commit the write; on failure, roll it back and raise.

        Under the table's lock conflicts are checked, files of retried tasks are deleted, the metadata table is updated,
        and the completed instant is published. Then old versions are cleaned and old instants archived, unless
        `hoodie.clean.automatic` or `hoodie.archive.automatic` is off; if that fails, the write stays committed and the
        next run finishes.

        Args:
            stats: one for each data file of the write, with its real size; none for an empty commit.
            schema_json: the table's Avro schema after this write, without meta columns.
            column_stats: statistics of these files' columns (the metadata table's exchange table).
            replaced: file groups that this write replaces, by partition; for replacecommits.
            extra: further key-values of the commit metadata, such as checkpoints.
            index_changes: delta files of the write's tasks for the record index: keys that were inserted, moved or
                deleted, without those that stayed in their file group. None takes the table's record index, if it has
                one, out of use.
            index_layout: the layout of these files; needed when it has file groups for new data partitions.
            mapper: runs the changes of the record index's file groups, where there are many.
            cleared: whether the write replaces everything in a partition, given its path, also in file groups that are
                new since it began.
            alone: whether the write must be the only one since it began.
            batch: the numbered batch that the write is of.

        Raises:
            ConflictError: another writer changed the same file groups first, or put a record of the same key into
                another one, or rolled this write back as dead.
            RecordIndexError: another tool left the record index out of date.
            TransactionError: a file without a marker, or a pending clustering of the same file groups.
            LockError: the table lock could not be taken or held.
        """
        self._require_open()
        metadata = self._metadata(stats, schema_json, replaced, extra)
        changes = None if index_changes is None else IndexChanges(tuple(index_changes), index_layout, mapper)
        try:
            if not self._inflight:
                self.mark_inflight()
            with table_lock(self.client, self._protocol) as lock:
                timeline = self.client.timeline(self.timeline)
                if resume_rollbacks(self.client, timeline):  # one in effect may have been left unfinished
                    timeline = self.client.timeline(timeline)
                own = self._require_pending(timeline)
                self._check(timeline, own, metadata, changes, cleared, alone=alone)
                if batch is not None:
                    others = completed_since(timeline, own, self._before)
                    batch.refuse_concurrent(self.instant, timeline, others)
                    metadata.extra_metadata.update(batch.note(timeline))
                self._finalize(metadata)
                record_commit(
                    self.client,
                    self.instant,
                    stats,
                    statistics_at_commit(
                        self.storage,
                        stats,
                        column_stats,
                        schema_json,
                        begun=self._begun,
                        options=self._options,
                        mapper=mapper,
                    ),
                    index_changes=changes,
                    options=self._options,
                    timeline=timeline,
                )
                if changes is not None and is_private(self.client.config):
                    metadata.extra_metadata[MAINTAINED_KEY] = MAINTAINED
                self._carry_schema(timeline, metadata, schema_json)
                metadata.extra_metadata[PROPERTIES_KEY] = self._recorded_properties()
                lock.check()
                timeline = self.client.timeline(timeline)
                own = self._require_pending(timeline)
                self._publish(metadata)
                self._tidy()
                self._clean(timeline.with_instant(own.at(State.COMPLETED)), lock)
                self._archive(timeline.with_instant(own.at(State.COMPLETED)), lock)
        except BaseException as error:
            if not self._published:
                self._abort_because(error)
            if not self._published or not isinstance(error, Exception):
                raise
            _log.warning("%s: %s is committed; tidying up failed: %s", self.storage.uri, self.instant, error)
        return metadata

    def abort(self) -> None:
        """Roll the write back; nothing happens once it is committed or rolled back."""
        if self._ended:
            return
        self._ended = True
        try:
            try:
                self._undo()
            except NoSpaceError:
                self._free_space()
                self._undo()
        except BaseException:
            self._give_up()
            raise
        self._dropped.detach()
        self._heartbeat.stop()

    def _undo(self) -> None:
        with table_lock(self.client, self._protocol):
            remains = Remains.of(self.storage)
            timeline = self.client.timeline()
            if resume_rollbacks(self.client, timeline):
                timeline = self.client.timeline()
            own = timeline.find(self.instant, self._requested.action)
            if own is None:
                sweep_remains(self.client, self._protocol, remains, timeline)  # another writer rolled it back
            elif own.state is not State.COMPLETED:
                roll_back(self.client, own)

    def _free_space(self) -> None:
        """Delete this write's files, on a disk that is too full for the lock file or the rollback's plan."""
        own = self.client.timeline().find(self.instant, self._requested.action)
        if own is not None and own.state is not State.COMPLETED:
            free_space(self.client, [own])

    def _give_up(self) -> None:
        """Leave the write pending, as a dead writer's."""
        self._ended = True
        self._dropped()

    def _abort_because(self, error: BaseException) -> None:
        """Roll the write back because of an error; a failure of this is left to the next writer."""
        if isinstance(error, LockError):
            self._give_up()
            error.add_note(f"{self.instant} stays pending and invisible; the next writer rolls it back")
            return
        try:
            self.abort()
        except (HudiError, OSError) as failure:
            error.add_note(f"{self.instant} stays pending and invisible, since undoing it failed, too: {failure}")

    def _require_open(self) -> None:
        if self._ended:
            raise TransactionError(f"{self.instant}: this write has ended; begin another one")

    def _metadata(
        self,
        stats: Sequence[WriteStat],
        schema_json: str,
        replaced: Mapping[str, Sequence[str]] | None,
        extra: Mapping[str, str] | None,
    ) -> CommitMetadata:
        by_partition: dict[str, list[WriteStat]] = {}
        for stat in stats:
            by_partition.setdefault(stat.partition_path, []).append(stat)
        metadata = CommitMetadata(by_partition, self._operation, {**(extra or {}), SCHEMA_KEY: schema_json})
        if self._requested.action == Action.REPLACECOMMIT:
            metadata.partition_to_replace_file_ids = {p: list(ids) for p, ids in (replaced or {}).items()}
        elif replaced:
            raise TransactionError(f"{self.instant}: only a replacecommit can replace file groups")
        return metadata

    def _check(
        self,
        timeline: Timeline,
        own: Instant,
        metadata: CommitMetadata,
        changes: IndexChanges | None,
        cleared: Cleared | None,
        *,
        alone: bool,
    ) -> None:
        if alone:
            check_alone(timeline, own, self._before)
        check_savepoints(timeline, own)
        bucketed = self._is_bucketed()
        check_conflicts(timeline, own, self._before, metadata, bucketed=bucketed, cleared=cleared)
        if changes is not None and not bucketed:
            check_keys(self.client, timeline, changes, self.instant, changed_since(timeline, own, self._before))

    def _require_pending(self, timeline: Timeline) -> Instant:
        own = timeline.find(self.instant, self._requested.action)
        rollback = rollback_of(timeline, self.instant, self._before.completed)
        requested = self.storage.exists(instant_path(self._requested))  # else this write made the inflight file anew
        if requested and rollback is None and own is not None and own.state is State.INFLIGHT:
            return own
        raise ConflictError(
            f"{self.storage.uri}: {self.instant} is no longer pending: it was rolled back, by hand, by a restore, or "
            f"by another writer that considered this one dead ({rollback or 'its rollback is not on the timeline'}). "
            "Nothing was written, try again. Writers of this project do that only when heartbeats are missed or under "
            "hoodie.clean.failed.writes.policy=EAGER; Apache's do so unless they have "
            "hoodie.write.concurrency.mode=optimistic_concurrency_control"
        )

    def _is_bucketed(self) -> bool:
        recorded = self.client.config.has_buckets
        return self._options.get("hoodie.index.type", "").upper() == "BUCKET" if recorded is None else recorded

    def _finalize(self, metadata: CommitMetadata) -> None:
        """Delete files of failed task attempts, which have a marker and no write stat."""
        counted = {stat.path for stat in metadata.stats() if stat.path}
        marked = {marker.path for marker in read_markers(self.storage, self.instant)}
        unmarked = sorted(counted - marked)
        if unmarked:
            raise TransactionError(
                f"{self.instant}: no marker for {unmarked[0]} (and {len(unmarked) - 1} more): a marker must be created "
                "before its data file, or the files of a crashed write cannot be recognised"
            )
        for path in sorted(marked - counted):
            self.storage.delete(path)
        # the rollback of another write may have deleted the metadata file of a partition that this write uses
        for partition, stats in metadata.partition_to_write_stats.items():
            if stats:
                ensure_partition_metadata(self.storage, partition, self.instant)

    def _recorded_properties(self) -> str:
        """The table's properties that the commit records; see `recorded_text`."""
        return recorded_text(self._begun, self.client.config)

    def _carry_schema(self, timeline: Timeline, metadata: CommitMetadata, schema_json: str) -> None:
        """Record the table's column ids, if it has them."""
        schema = schema_after(timeline, self.instant, schema_json)
        if schema is not None:
            metadata.extra_metadata[SCHEMA_IDS_KEY] = schema.text
            record_history(self.storage, self.instant, schema.history)

    def _publish(self, metadata: CommitMetadata) -> None:
        path = instant_path(self._requested.at(State.COMPLETED))
        content = metadata.to_json()
        try:
            self.storage.create(path, content)
        except HudiError:
            # the storage may fail after it has stored the file: then the write is committed
            if not _holds(self.client, path, content):
                raise
        self._published = self._ended = True

    def _tidy(self) -> None:
        self._dropped.detach()
        try:
            delete_markers(self.storage, self.instant)
        finally:
            self._heartbeat.stop()

    def _clean(self, timeline: Timeline, lock: FileSystemLock) -> None:
        options = self._protocol.clean
        if not options.automatic or not is_due(timeline, options):
            return
        try:
            clean_locked(self.client, options, lock, timeline=timeline, metadata=self._metadata_table)
        except (HudiError, OSError) as error:
            _log.warning("%s: cleaning failed and is left to the next one: %s", self.storage.uri, error)

    def _archive(self, timeline: Timeline, lock: FileSystemLock) -> None:
        options = self._protocol.archive
        if not options.automatic or len(timeline.writes) <= options.most:
            return
        try:
            archive_locked(self.client, self.client.timeline(timeline), self._protocol, lock)
        except (HudiError, OSError) as error:
            _log.warning("%s: archiving failed and is left to the next one: %s", self.storage.uri, error)


def bring_up_to_date(
    client: TableClient,
    timeline: Timeline,
    options: Mapping[str, str],
    protocol: ProtocolOptions,
    index: IndexOptions,
    *,
    adopt: Adopt | None = None,
) -> None:
    """Settle the properties and complete the metadata table, as every write does when it begins, under the lock."""
    settle_properties(client, timeline, adopt)
    ensure_metadata_table(client, protocol, index, timeline)
    if protocol.metadata and protocol.column_stats:
        repair_statistics(client, timeline, options, protocol.column_stats_shards)


def _holds(client: TableClient, path: str, content: bytes) -> bool:
    try:
        return client.storage.read(path) == content
    except HudiError:
        return False
