"""Taking completed writes back, as restores and rollbacks of completed writes do, under the table's lock.

1. The plan goes onto the timeline (`<time>.restore.requested`, or `rollback`). 2. The metadata table gets one commit:
files that go, their statistics, and where the keys are afterwards. 3. The inflight file, which holds the plan again:
from here on the table is without the writes (`table_format.timeline.undoing`). 4. Their instants leave the timeline,
the newest first. 5. Their data files are deleted. 6. The restore or rollback completes.

One that was interrupted before step 3 is cancelled by the next writer, one after it is finished. So is a restore of
Apache Hudi whose job has died: it rolls back one write after the other, and brings the metadata table up to date last.
"""

from __future__ import annotations

import dataclasses
import logging
import posixpath
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.restore import RestoreMetadata, RestorePlan
from table_format.actions.rollback import RollbackMetadata, RollbackPartition, RollbackPlan, RollbackRequest
from table_format.config.properties import PARTITION_METAFILE, partition_creator
from table_format.errors import ConflictError, CorruptFileError, HudiError, MissingFileError, TransactionError
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.metadata_table.reader import data_files
from table_format.slices.file_names import parse_base_file_names
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline, Undoing
from table_format.timeline.undoing import undone_by
from table_writer.execution.executor import Mapper
from table_writer.metadata.recovery import rollback_in_metadata_table
from table_writer.metadata.writer import DELETED_SCHEMA, drop_metadata_table, update_metadata_table
from table_writer.services.rebuilt_metadata import note_partitions, rebuild_noted
from table_writer.services.undone_keys import changes_of_index
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import delete_pending, ensure_state, instant_path, request
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.markers import delete_markers

_log = logging.getLogger(__name__)
_ACTIONS: Final = (Action.RESTORE, Action.ROLLBACK)


@dataclass(frozen=True, slots=True)
class Undo:
    """What is taken back.

    Attributes:
        action: `restore` or `rollback`; a rollback is of one write.
        target: the newest write that stays; None if none does.
        instants: completed writes, and plans of table services that have not run, newest first.
        files: data files that they wrote: columns partition, file_name, size.
        partitions: paths of partitions that the writes created, and of which nothing stays.
        touched: paths of partitions of which the writes changed or replaced file groups.
    """

    action: str
    target: Instant | None
    instants: tuple[Instant, ...]
    files: pa.Table
    partitions: tuple[str, ...]
    touched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UndoReport:
    """What a restore or a rollback took back, or would.

    Attributes:
        action: `restore` or `rollback`.
        instant: of the restore or rollback; None if nothing was changed.
        target: the newest write that is left; None if none is.
        undone: times of the writes taken back, newest first.
        files: number of deleted data files.
        bytes: size of these files.
        partitions: paths of partitions that are gone.
    """

    action: str
    instant: str | None
    target: str | None
    undone: tuple[str, ...]
    files: int
    bytes: int
    partitions: tuple[str, ...]


def report_of(undo: Undo, instant: str | None = None) -> UndoReport:
    """What an undo does, or did under an instant."""
    target = None if undo.target is None else undo.target.time
    size: Any = pc.sum(undo.files["size"], min_count=0).as_py()
    undone = tuple(one.time for one in undo.instants)
    return UndoReport(undo.action, instant, target, undone, undo.files.num_rows, int(size), undo.partitions)


def plan_undo(
    client: TableClient, timeline: Timeline, action: str, target: Instant | None, instants: Sequence[Instant]
) -> Undo:
    """Find the files of writes, and the partitions that they created.

    Args:
        client: the table.
        timeline: with these writes.
        action: `restore` or `rollback`.
        target: the newest write that stays.
        instants: what is taken back, newest first; of writes that did not complete all partitions are listed.
    """
    completed = [one for one in instants if one.state is State.COMPLETED]
    touched = touched_partitions(timeline, completed)
    listed = touched if len(completed) == len(instants) else None
    files, partitions = _left_by(client.storage, {one.time for one in instants}, listed)
    return Undo(action, target, tuple(instants), files, partitions, touched)


def touched_partitions(timeline: Timeline, writes: Iterable[Instant]) -> tuple[str, ...]:
    """Partitions into which completed writes wrote, or in which they replaced file groups."""
    partitions: set[str] = set()
    for write in writes:
        metadata = timeline.commit_metadata(write)
        partitions |= metadata.partition_to_write_stats.keys()
        partitions |= (metadata.partition_to_replace_file_ids or {}).keys()
    return tuple(sorted(partitions))


def undo_writes(
    client: TableClient,
    undo: Undo,
    timeline: Timeline,
    options: Mapping[str, str],
    *,
    lock: FileSystemLock,
    mapper: Mapper = in_threads,
) -> UndoReport:
    """Take writes back.

    Args:
        client: the table.
        undo: by `plan_undo`.
        timeline: of the table, loaded under the lock.
        options: of the table's writers.
        lock: the table's, which the caller holds.
        mapper: runs the reading of keys, where the table has a record index.

    Raises:
        ConflictError: somebody changed the table meanwhile. Nothing was taken back; the next writer removes the plan.
        LockError: another writer broke the lock; likewise.
    """
    started = time.monotonic()
    plan = _plan(client.storage, undo)
    instant = request(client, undo.action, plan)
    _record(client, instant, undo, timeline, options=options, mapper=mapper)
    lock.check()
    _refuse_changed(client, timeline, instant)
    _take_effect(client.storage, instant.at(State.INFLIGHT), plan)
    try:
        _finish(client, instant, undo, started)
    except (HudiError, OSError) as error:
        _log.warning(
            "%s: %s %s is in effect; removing what it took back failed and is left to the next writer: %s",
            client.storage.uri,
            instant.action,
            instant.time,
            error,
        )
    return report_of(undo, instant.time)


def _refuse_changed(client: TableClient, planned: Timeline, own: Instant) -> None:
    """Refuse to take effect on another table than was planned for: tools that take no lock may have written."""

    def ends(timeline: Timeline) -> set[tuple[str, str, bool]]:
        return {(one.time, one.comparable_action, one.state is State.COMPLETED) for one in timeline.instants}

    changed = ends(client.timeline(planned)) ^ ends(planned.with_instant(own))
    if changed:
        time_changed, action, _ = max(changed)
        raise ConflictError(
            f"{client.storage.uri}: instant {time_changed} ({action}) came or went while {own.action} {own.time} was "
            "planned; nothing was taken back, try again"
        )


def _take_effect(storage: Storage, inflight: Instant, plan: bytes) -> None:
    path = instant_path(inflight)
    try:
        storage.create(path, plan)
    except HudiError:
        # the storage may fail after it has stored the file
        if not storage.exists(path):
            raise


def resume_undo(client: TableClient, timeline: Timeline, is_dead: Callable[[Instant], bool] = lambda _: False) -> bool:
    """Finish or cancel interrupted restores and rollbacks of completed writes; the caller holds the table's lock.

    Args:
        client: the table.
        timeline: of the table, loaded under the lock.
        is_dead: whether the tool that began a restore counts as dead.

    Returns:
        Whether there was one.

    Raises:
        TransactionError: one of another tool is under way, or cannot be finished.
    """
    interrupted = [one for one in timeline.pending if one.action in _ACTIONS and _is_undo(timeline, one)]
    for instant in interrupted:
        under_way = next((one for one in timeline.undoing if one.instant == instant), None)
        if under_way is not None:
            _log.warning("%s: finishing %s, which was interrupted", client.storage.uri, instant)
            _resume(client, instant)
        elif instant.state is State.REQUESTED:
            _log.warning("%s: %s was interrupted before it changed anything: cancelled", client.storage.uri, instant)
            rollback_in_metadata_table(client.storage, instant.time, instant.time)
            delete_pending(client.storage, instant.time, instant.action)
            delete_markers(client.storage, instant.time)
        elif instant.action == Action.RESTORE and all(map(is_dead, _begun_by(timeline, instant))):
            _log.warning("%s: finishing %s of another tool, which has died", client.storage.uri, instant)
            _adopt(client, timeline, instant)
            return True  # with the rollbacks that it began
        else:
            raise _by_another_tool(timeline, instant)
    return bool(interrupted)


def refuse_foreign_undo(timeline: Timeline) -> None:
    """Refuse to delete or save files, or to archive, beside another tool's restore or rollback of a completed write.

    Its writes are on the timeline until it comes to them: what is older looks superseded, and is what it returns to.
    Once they are archived, they count for good.

    Raises:
        TransactionError: one is under way.
    """
    for instant in timeline.pending:
        if instant.action not in _ACTIONS or not _is_undo(timeline, instant):
            continue
        if instant.state is State.REQUESTED:  # ours are only where their process has died: they hold the lock
            raise TransactionError(
                f"{timeline.path(instant)}: a {instant.action} of completed writes that is about to begin; let its "
                "tool go on, or, where its job has died, cancel it: any write does so, and `hudi-catalog repair`"
            )
        if all(one.instant != instant for one in timeline.undoing):
            raise _by_another_tool(timeline, instant)


def _by_another_tool(timeline: Timeline, instant: Instant) -> TransactionError:
    return TransactionError(
        f"{timeline.path(instant)}: a pending {instant.action} of completed writes by another tool; finish it "
        "with the tool that began it, such as Apache Hudi's procedure `rollback_to_savepoint`; a restore whose "
        "job has died is finished by a write, with hoodie.clean.failed.writes.policy=EAGER now, else when it has been "
        "silent for hoodie.catalog.write.silent.minutes"
    )


def _begun_by(timeline: Timeline, restore: Instant) -> list[Instant]:
    """A restore of Apache's and the rollbacks that it began; they stay pending until it completes."""
    later = (one for one in timeline.pending if one.action == Action.ROLLBACK and one.time > restore.time)
    return [restore, *later]


def _adopt(client: TableClient, timeline: Timeline, restore: Instant) -> None:
    """Bring another tool's dead restore into effect, and finish it.

    What it did so far to the metadata table is not known, so that this is taken out of use before, and made anew from
    the files that are left. The record index is not.

    Raises:
        TransactionError: its plan is damaged, or somebody writes, or has written, beside it.
    """
    storage, requested = client.storage, restore.at(State.REQUESTED)
    begun = _begun_by(timeline, restore)
    try:
        content = timeline.read(requested)
        times = {time_undone for time_undone, _ in undone_by(content, requested, timeline.path(requested))}
    except (MissingFileError, CorruptFileError) as error:
        raise TransactionError(f"{timeline.path(restore)}: this restore cannot be finished: {error}") from error
    beside = [one for one in timeline.pending if one not in begun and one.time not in times]
    beside = [one for one in beside if one.action != Action.SAVEPOINT] + completed_writes_after(timeline, restore)
    if beside:
        raise TransactionError(
            f"{timeline.path(restore)}: this restore by another tool died, and {beside[0]} came beside it, so that it "
            f"is not finished here: roll back {beside[0].time}, or restore the table with that tool"
        )
    note_partitions(storage, restore.time, client.config.metadata_partitions)
    for one in begun[1:]:
        delete_pending(storage, one.time, one.action)
    drop_metadata_table(client)
    storage.overwrite(instant_path(restore.at(State.INFLIGHT)), content)
    _resume(client, restore.at(State.INFLIGHT))


def _is_undo(timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending restore or rollback is of completed writes."""
    if instant.action == Action.RESTORE or any(one.instant == instant for one in timeline.undoing):
        return True
    requested = instant.at(State.REQUESTED)
    try:
        [(undone, action)] = undone_by(timeline.read(requested), requested, timeline.path(requested))
    except (MissingFileError, CorruptFileError):
        return False  # rollbacks without a plan are dealt with by those of pending writes
    write = timeline.find(undone, action)
    return write is not None and write.state is State.COMPLETED


def _plan(storage: Storage, undo: Undo) -> bytes:
    """The content of the requested file."""
    if undo.action == Action.RESTORE:
        target = None if undo.target is None else undo.target.time
        return RestorePlan(target, [(one.time, one.action) for one in undo.instants]).to_avro()
    requests = [
        RollbackRequest(row["partition"], [storage.full_uri(posixpath.join(row["partition"], row["file_name"]))])
        for row in undo.files.to_pylist()
    ]
    [write] = undo.instants
    return RollbackPlan(write.time, write.action, requests).to_avro()


def _record(
    client: TableClient,
    instant: Instant,
    undo: Undo,
    timeline: Timeline,
    *,
    options: Mapping[str, str],
    mapper: Mapper,
) -> None:
    """Commit to the metadata table what the table loses, before any of it goes."""
    gone = frozenset(one.time for one in undo.instants)
    rest = tuple(one for one in timeline.instants if one not in undo.instants)
    then = dataclasses.replace(timeline, instants=rest, undoing=(Undoing(instant, gone),))
    listed = list_data_files(client.storage, undo.touched)
    before, after = latest_base_files(listed, timeline), latest_base_files(listed, then)
    target = None if undo.target is None else undo.target.time
    doubling = [one for one in undo.instants if one.state is State.COMPLETED and _may_double(timeline, one)]
    changes = changes_of_index(
        client,
        timeline,
        instant.time,
        before,
        after,
        located=target,
        options=options,
        mapper=mapper,
        staying=(lambda: latest_base_files(data_files(client, timeline), then)) if doubling else None,
    )
    update_metadata_table(
        client,
        instant.time,
        files_deleted=undo.files.select(DELETED_SCHEMA.names).cast(DELETED_SCHEMA),
        deleted_partitions=undo.partitions,
        index_changes=changes,
        options=options,
        timeline=timeline,
    )


def _may_double(timeline: Timeline, write: Instant) -> bool:
    """Whether a write may have added rows whose keys other files have: inserts need not look keys up."""
    operation = timeline.commit_metadata(write).operation_type.upper()
    return "INSERT" in operation or operation == "UNKNOWN"


def _resume(client: TableClient, instant: Instant) -> None:
    storage, path = client.storage, instant_path(instant)
    undone = undone_by(storage.read(path), instant, path)
    instants = tuple(Instant(time_undone, action, State.COMPLETED) for time_undone, action in undone)
    files, partitions = _left_by(storage, {one.time for one in instants})
    _finish(client, instant, Undo(instant.action, None, instants, files, partitions), time.monotonic())


def _finish(client: TableClient, instant: Instant, undo: Undo, started: float) -> None:
    """Remove instants and files, which may have happened in part, and complete."""
    storage = client.storage
    for one in undo.instants:
        for state in (State.COMPLETED, State.INFLIGHT, State.REQUESTED):
            storage.delete(instant_path(Instant(one.time, one.action, state)))
    rows = undo.files.to_pylist()
    storage.delete_all([posixpath.join(row["partition"], row["file_name"]) for row in rows])
    for partition in undo.partitions:
        storage.delete(posixpath.join(partition, PARTITION_METAFILE))
    rollbacks = _rollbacks(storage, instant.time, undo)
    millis = round((time.monotonic() - started) * 1000)
    if undo.action == Action.RESTORE:
        content = RestoreMetadata.of_rollbacks(instant.time, millis, rollbacks).to_avro()
    else:
        [rollback] = rollbacks
        content = dataclasses.replace(rollback, millis=millis).to_avro()
    ensure_state(storage, instant.at(State.COMPLETED), content)
    for one in (*undo.instants, instant):
        if one is not instant or rebuild_noted(client, instant.time):
            delete_markers(storage, one.time)
        heartbeat.delete_heartbeat(storage, one.time)


def _rollbacks(storage: Storage, time_undone: str, undo: Undo) -> list[RollbackMetadata]:
    """The result for each instant, with the files that it lost."""
    instants: list[Any] = parse_base_file_names(undo.files["file_name"])["instant"].to_pylist()
    of_instant: dict[str, dict[str, RollbackPartition]] = {}
    for row, time_written in zip(undo.files.to_pylist(), instants, strict=True):
        part = of_instant.setdefault(time_written, {}).setdefault(row["partition"], RollbackPartition())
        part.deleted.append(storage.full_uri(posixpath.join(row["partition"], row["file_name"])))
    return [
        RollbackMetadata(time_undone, 0, [(one.time, one.action)], of_instant.get(one.time, {}))
        for one in undo.instants
    ]


def _left_by(
    storage: Storage, times: set[str], partitions: Sequence[str] | None = None
) -> tuple[pa.Table, tuple[str, ...]]:
    """Base files of some instants, and the partitions that they created and of which nothing else is left."""
    files = list_data_files(storage, partitions)
    written = pc.is_in(parse_base_file_names(files["file_name"])["instant"], pa.array(sorted(times), pa.string()))
    written = pc.fill_null(written, False)
    others = set(files.filter(pc.invert(written))["partition"].to_pylist())
    doomed = files.filter(written)
    # what an earlier attempt has emptied has no files left
    touched = _folders(storage) if partitions is None else set(doomed["partition"].to_pylist())
    emptied = [partition for partition in touched if partition and partition not in others]
    return doomed, tuple(sorted(partition for partition in emptied if partition_creator(storage, partition) in times))


def _folders(storage: Storage) -> set[str]:
    """Paths of all partitions."""
    entries = storage.list(recursive=True)
    files = (entry for entry in entries if entry.name == PARTITION_METAFILE)
    return {posixpath.dirname(entry.path) for entry in files if not entry.path.startswith(".hoodie/")}


def completed_writes_after(timeline: Timeline, target: Instant) -> list[Instant]:
    """Completed writes after another one, newest first."""
    return [one for one in reversed(timeline.completed) if one.action in WRITE_ACTIONS and one.time > target.time]
