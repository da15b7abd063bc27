"""Cleaning: deleting old file versions, as an instant of the timeline."""

from __future__ import annotations

import dataclasses
import datetime as dt
import posixpath
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from table_format.actions.table_services import CleanerPlan, CleanMetadata, CleanPartition
from table_format.config.option_values import alias
from table_format.config.properties import PARTITION_METAFILES
from table_format.config.table_config import require_writable
from table_format.errors import ArgumentError, CorruptFileError, MissingFileError
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.writer import record_clean
from table_writer.services.clean_plan import PlannedClean, list_files, plan_table, sizes_of
from table_writer.services.undo import refuse_foreign_undo
from table_writer.timeline.instants import delete_pending, ensure_state, request, table_lock
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import CleaningPolicy, CleanOptions, ProtocolOptions

_RETAINED: Final = {
    CleaningPolicy.COMMITS: "hoodie.clean.commits.retained",
    CleaningPolicy.HOURS: "hoodie.clean.hours.retained",
    CleaningPolicy.VERSIONS: "hoodie.clean.fileversions.retained",
}


@dataclass(frozen=True, slots=True)
class CleanReport:
    """What a clean deleted, or would delete.

    Attributes:
        instants: times of the cleans on the timeline: interrupted ones that were finished, and the new one.
        files: number of data files.
        bytes: their sizes.
        partitions: number of partitions that they were in.
        earliest: time of the oldest write whose state of the table stays readable; None under the policy of file
            versions, and when nothing was deleted.
    """

    instants: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    partitions: int = 0
    earliest: str | None = None


def clean(
    client: TableClient,
    options: Mapping[str, str] | None = None,
    now: dt.datetime | None = None,
    *,
    dry_run: bool = False,
) -> CleanReport:
    """Delete file versions that no state of the table needs which the cleaning policy keeps readable.

    An interrupted clean is finished first. Everything happens under the table's lock. There is no clean on the timeline
    when there was nothing to delete.

    Args:
        client: the table.
        options: `hoodie.clean.policy`, `hoodie.clean.commits.retained` and so on. Unless
            `hoodie.clean.incremental.enabled` is set, all partitions are looked at.
        now: the end of the hours that are kept; the present by default.
        dry_run: report what would be deleted, change nothing, and take no lock.

    Raises:
        OptionError: an invalid option.
        LockError: the table lock could not be taken, or another writer broke it before anything was deleted.
        TransactionError: a restore of another tool is under way.
        UnsupportedTableError: a table of this kind can only be read.
    """
    options = options or {}
    incremental = alias(options, "hoodie.clean.incremental.enabled", "hoodie.cleaner.incremental.mode")
    protocol = ProtocolOptions.parse({incremental: "false", **options})
    if dry_run:
        require_writable(client.config, client.storage.uri)
        return _foresee(client, protocol.clean, now)
    with table_lock(client, protocol) as lock:
        return clean_locked(client, protocol.clean, lock, now)


def policy_options(
    *, commits: int | None = None, hours: int | None = None, versions: int | None = None
) -> dict[str, str]:
    """The options that keep some commits, hours or file versions; none if all are None.

    Raises:
        ArgumentError: more than one is set.
    """
    counts = {CleaningPolicy.COMMITS: commits, CleaningPolicy.HOURS: hours, CleaningPolicy.VERSIONS: versions}
    wanted = {policy: count for policy, count in counts.items() if count is not None}
    if len(wanted) > 1:
        raise ArgumentError("a clean keeps a number of commits, of hours or of file versions: give one of them")
    return {
        key: text
        for policy, count in wanted.items()
        for key, text in (("hoodie.clean.policy", policy.value), (_RETAINED[policy], str(count)))
    }


def is_due(timeline: Timeline, options: CleanOptions) -> bool:
    """Whether the automatic clean runs after a commit: there are enough since the last one, or one was interrupted."""
    if options.every == 1 or any(instant.action == Action.CLEAN for instant in timeline.pending):
        return True
    last = max((instant.time for instant in timeline.completed if instant.action == Action.CLEAN), default="")
    return sum(1 for write in timeline.writes if write.time > last) >= options.every


def clean_locked(
    client: TableClient,
    options: CleanOptions,
    lock: FileSystemLock,
    now: dt.datetime | None = None,
    *,
    timeline: Timeline | None = None,
    metadata: MetadataTable | None = None,
) -> CleanReport:
    """`clean` for a caller that holds the table's lock.

    Args:
        client: the table.
        options: see `CleanOptions`.
        lock: the table's.
        now: see `clean`.
        timeline: loaded under the lock, if the caller has it.
        metadata: the metadata table of an earlier moment; what was read of it is not read again.
    """
    timeline = timeline or client.timeline()
    refuse_foreign_undo(timeline)
    finished = _Finished()
    if _resume(client, timeline, finished):
        timeline = client.timeline(timeline)
    planned = plan_table(client, timeline, options, now, metadata=metadata)
    if planned is not None:
        # Apache's cleaner, which may have to finish this clean, needs full URIs
        plan = planned.plan
        whole = {p: [client.storage.full_uri(path) for path in paths] for p, paths in plan.files.items()}
        content = dataclasses.replace(plan, files=whole).to_avro()
        # before the plan is on the timeline: from there on whoever takes the lock carries it out
        lock.check()
        instant = request(client, Action.CLEAN, content, timeline)
        finished.add(instant.time, planned)
        _execute(client, timeline, instant.time, plan, content)
    return finished.report()


def resume_cleans(client: TableClient, timeline: Timeline) -> bool:
    """Finish interrupted cleans, under their own instants; the caller holds the table's lock.

    Returns:
        Whether there was one.
    """
    return _resume(client, timeline, _Finished())


class _Finished:
    """Collects what several cleans delete, or would; plans may name the same files."""

    def __init__(self) -> None:
        self._instants: list[str] = []
        self._sizes: dict[tuple[str, str], int] = {}
        self._earliest: str | None = None

    def add(self, instant: str | None, planned: PlannedClean) -> None:
        plan, sizes = planned.plan, planned.sizes
        self._instants += [] if instant is None else [instant]
        for partition, paths in plan.files.items():
            for name in map(posixpath.basename, paths):
                self._sizes[partition, name] = sizes.get(name, 0)
        self._earliest = plan.earliest_instant.time if plan.earliest_instant else None

    def report(self) -> CleanReport:
        partitions = len({partition for partition, _ in self._sizes})
        return CleanReport(
            tuple(self._instants), len(self._sizes), sum(self._sizes.values()), partitions, self._earliest
        )


def _foresee(client: TableClient, options: CleanOptions, now: dt.datetime | None) -> CleanReport:
    timeline = client.timeline()
    foreseen = _Finished()
    for instant, content in _interrupted(timeline):
        plan = _plan_of(timeline, instant, content)
        if plan is not None:
            foreseen.add(instant.time, _with_sizes(client, timeline, plan))
    planned = plan_table(client, timeline, options, now)
    if planned is not None:
        foreseen.add(None, planned)
    return foreseen.report()


def _resume(client: TableClient, timeline: Timeline, finished: _Finished) -> bool:
    """See `resume_cleans`."""
    for instant, content in _interrupted(timeline):
        plan = _plan_of(timeline, instant, content)
        if plan is None:
            delete_pending(client.storage, instant.time, Action.CLEAN)
            continue
        finished.add(instant.time, _with_sizes(client, timeline, plan))
        _execute(client, timeline, instant.time, plan, content)
    return any(instant.action == Action.CLEAN for instant in timeline.pending)


def _interrupted(timeline: Timeline) -> Iterator[tuple[Instant, bytes]]:
    """Pending cleans with the content of their plan; empty if that is missing."""
    for instant in timeline.pending:
        if instant.action == Action.CLEAN:
            requested = instant.at(State.REQUESTED)
            try:
                yield requested, timeline.read(requested)
            except MissingFileError:
                yield requested, b""


def _plan_of(timeline: Timeline, instant: Instant, content: bytes) -> CleanerPlan | None:
    """The plan of a pending clean; None if its writer died while writing it."""
    try:
        return CleanerPlan.from_avro(content, timeline.path(instant))
    except CorruptFileError:
        return None


def _with_sizes(client: TableClient, timeline: Timeline, plan: CleanerPlan) -> PlannedClean:
    return PlannedClean(plan, sizes_of(plan, list_files(client, timeline, sorted(plan.files))))


def _execute(client: TableClient, timeline: Timeline, instant: str, plan: CleanerPlan, content: bytes) -> None:
    """Delete the files of a plan, of which some may be deleted already."""
    started = time.monotonic()
    storage = client.storage
    # the plan is in the inflight file as well: Apache 0.15 archives it from there
    ensure_state(storage, Instant(instant, Action.CLEAN, State.INFLIGHT), content)
    names = {partition: [posixpath.basename(path) for path in paths] for partition, paths in plan.files.items()}
    storage.delete_all(
        [posixpath.join(partition, name) for partition, file_names in names.items() for name in file_names]
    )
    gone = _delete_partitions(storage, timeline, plan)
    for partition in gone:
        names.setdefault(partition, [])
    record_clean(client, instant, names, gone)
    earliest = plan.earliest_instant
    metadata = CleanMetadata(
        start_time=instant,
        millis=round((time.monotonic() - started) * 1000),
        earliest_commit_to_retain=earliest.time if earliest else "",
        last_completed_commit=plan.last_completed_commit,
        savepoints=plan.savepoints,
        partitions={
            partition: CleanPartition(plan.policy, file_names, file_names, partition_deleted=partition in gone)
            for partition, file_names in names.items()
        },
    )
    # another tool's writer, which takes no lock, may have finished it meanwhile
    ensure_state(storage, Instant(instant, Action.CLEAN, State.COMPLETED), metadata.to_avro())


def _delete_partitions(storage: Storage, timeline: Timeline, plan: CleanerPlan) -> list[str]:
    """Delete the partitions that a plan of another tool deletes as a whole; returns those that are gone.

    Only those in which nothing is left, and none while a write is pending, which may have found its partition there.
    """
    if any(one.comparable_action in WRITE_ACTIONS for one in timeline.pending):
        return []
    gone = []
    for partition in filter(None, plan.partitions_to_delete):
        entries = storage.list(partition)
        if all(entry.name in PARTITION_METAFILES for entry in entries):
            storage.delete_all([entry.path for entry in entries])
            gone.append(partition)
    return gone
