"""Restores to an earlier state, and rollbacks of single writes: what is checked, and what is taken back."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from table_format.config.table_config import recover_table_config
from table_format.errors import HudiError, TransactionError
from table_format.instant import WRITE_ACTIONS, Action, Instant
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.archive.archive import finish_archiving
from table_writer.commit.conflicts import foreign_writes
from table_writer.commit.rollback import roll_back, settled_timeline
from table_writer.commit.table_properties import settle_counts
from table_writer.execution.executor import Mapper
from table_writer.services.clean import resume_cleans
from table_writer.services.savepoint import state_files, write_at
from table_writer.services.undo import (
    Undo,
    UndoReport,
    completed_writes_after,
    plan_undo,
    report_of,
    touched_partitions,
    undo_writes,
)
from table_writer.timeline.instants import is_clustering, table_lock
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import ProtocolOptions

_log = logging.getLogger(__name__)


def restore_table(
    client: TableClient,
    to: str,
    options: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
    mapper: Mapper = in_threads,
) -> UndoReport:
    """Take back all writes after one, so that the table is as it was after that.

    Dead writers' writes are rolled back before, and interrupted cleans finished. Writes of this project that are under
    way fail with a conflict when they commit, and are tried again on the restored table.

    Args:
        client: the table.
        to: instant of a completed write, such as that of a savepoint.
        options: of the table's writers.
        dry_run: report what would go, and change nothing.
        mapper: runs the reading of keys, where the table has a record index.

    Raises:
        TransactionError: there is no such write on the active timeline; files of its state were cleaned; a savepoint
            is newer; or another tool's write is under way.
        LockError: the table lock could not be taken, or another writer broke it before anything was taken back.
    """
    protocol = ProtocolOptions.parse(options or {})

    def service(lock: FileSystemLock) -> UndoReport:
        timeline = _settled(client, protocol, dry_run=dry_run)
        target = write_at(client, timeline, to)
        undo = _plan_restore(client, timeline, target, dry_run=dry_run)
        if dry_run or not undo.instants:
            return report_of(undo)
        return _undone(client, undo, timeline, options or {}, lock=lock, mapper=mapper)

    return _locked(client, protocol, service)


def rollback_write(
    client: TableClient,
    instant: str,
    options: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
    mapper: Mapper = in_threads,
) -> UndoReport:
    """Roll back one write: a pending one, or the newest completed one.

    Args:
        client: the table.
        instant: of the write.
        options: of the table's writers.
        dry_run: report what would go, and change nothing.
        mapper: runs the reading of keys, where the table has a record index.

    Raises:
        TransactionError: there is no such write; newer ones follow it; a savepoint keeps it; files of the state
            before it were cleaned; or another tool's write is under way.
        LockError: the table lock could not be taken, or another writer broke it before anything was taken back.
    """
    protocol = ProtocolOptions.parse(options or {})

    def service(lock: FileSystemLock) -> UndoReport:
        timeline = _settled(client, protocol, dry_run=dry_run)
        pending = next((one for one in timeline.pending if _is_pending_write(one, instant)), None)
        if pending is not None:
            return _roll_back_pending(client, timeline, pending, dry_run=dry_run)
        write = write_at(client, timeline, instant)
        undo = _plan_rollback(client, timeline, write, dry_run=dry_run)
        if dry_run:
            return report_of(undo)
        return _undone(client, undo, timeline, options or {}, lock=lock, mapper=mapper)

    return _locked(client, protocol, service)


def _undone(
    client: TableClient,
    undo: Undo,
    timeline: Timeline,
    options: Mapping[str, str],
    *,
    lock: FileSystemLock,
    mapper: Mapper,
) -> UndoReport:
    """Take writes back, and with a resize the bucket count."""
    report = undo_writes(client, undo, timeline, options, lock=lock, mapper=mapper)
    settle_counts(client, client.timeline())
    return report


def _locked(
    client: TableClient, protocol: ProtocolOptions, service: Callable[[FileSystemLock], UndoReport]
) -> UndoReport:
    """Run under the table's lock; what is done is done, even if the lock cannot be released."""
    report: UndoReport | None = None
    try:
        with table_lock(client, protocol) as lock:
            report = service(lock)
    except HudiError as error:
        if report is None:
            raise
        _log.warning("%s: releasing the lock failed: %s", client.storage.uri, error)
    return report


def _settled(client: TableClient, protocol: ProtocolOptions, *, dry_run: bool) -> Timeline:
    if dry_run:
        return client.timeline()
    if recover_table_config(client.storage):
        client.reload()
    timeline, _ = settled_timeline(client, protocol)
    cleaned, archived = resume_cleans(client, timeline), finish_archiving(client)
    return client.timeline(timeline) if cleaned or archived else timeline


def _plan_restore(client: TableClient, timeline: Timeline, target: Instant, *, dry_run: bool) -> Undo:
    place = client.storage.uri
    writes = completed_writes_after(timeline, target)
    plans = [one for one in timeline.pending if one.time > target.time and is_clustering(timeline, one)]
    _refuse_saved(place, timeline, target)
    if timeline.has_gaps and any(time > target.time for time in timeline.archive.writes):
        raise TransactionError(
            f"{place}: writes after {target.time} are archived, which hoodie.archive.beyond.savepoint allows; they "
            "cannot be taken back"
        )
    if not writes and not plans:
        return plan_undo(client, timeline, Action.RESTORE, target, [])
    if not dry_run:
        _refuse_foreign_writers(client, timeline, plans)
    _require_state(client, timeline, target, writes)
    instants = sorted((*writes, *plans), key=lambda one: one.time, reverse=True)
    return plan_undo(client, timeline, Action.RESTORE, target, instants)


def _plan_rollback(client: TableClient, timeline: Timeline, write: Instant, *, dry_run: bool) -> Undo:
    place = client.storage.uri
    newer = completed_writes_after(timeline, write)
    if newer:
        raise TransactionError(
            f"{place}: {len(newer)} write(s) follow {write.time}, up to {newer[0].time}: roll these back before, or "
            "restore the table to the write before it"
        )
    if timeline.is_saved(write):
        raise TransactionError(f"{place}: a savepoint keeps {write.time}; delete the savepoint before")
    plan = next((one for one in timeline.pending if one.time > write.time and is_clustering(timeline, one)), None)
    if plan is not None:
        raise TransactionError(
            f"{place}: {plan}, a clustering, was planned after {write.time}: cancel it before, or restore the table to "
            "the write before both, which cancels it"
        )
    if not dry_run:
        _refuse_foreign_writers(client, timeline, [])
    target = next((one for one in reversed(timeline.writes) if one.time < write.time), None)
    if target is None and timeline.archive.writes:
        raise TransactionError(f"{place}: the write before {write.time} is archived, and its state cannot be restored")
    if target is not None:
        _require_state(client, timeline, target, [write])
    return plan_undo(client, timeline, Action.ROLLBACK, target, [write])


def _is_pending_write(one: Instant, time: str) -> bool:
    return one.time == time and one.action in WRITE_ACTIONS


def _roll_back_pending(client: TableClient, timeline: Timeline, pending: Instant, *, dry_run: bool) -> UndoReport:
    """Roll back a write whose writer is dead or whose heartbeat is unknown, or a plan that nobody runs."""
    last = timeline.last_completed_write()
    undo = plan_undo(client, timeline, Action.ROLLBACK, last, [pending])
    if dry_run:
        return report_of(undo)
    done = roll_back(client, pending)
    plan = client.timeline().find(pending.time, pending.action)
    if plan is not None:  # a clustering that had begun
        done = roll_back(client, plan)
    return report_of(undo, done.start_time)


def _refuse_saved(place: str, timeline: Timeline, target: Instant) -> None:
    saved = [one.time for one in timeline.completed if one.action == Action.SAVEPOINT and one.time > target.time]
    if saved:
        raise TransactionError(
            f"{place}: {', '.join(saved)} has a savepoint, and is newer than {target.time}: delete the savepoint before"
        )


def _refuse_foreign_writers(client: TableClient, timeline: Timeline, plans: list[Instant]) -> None:
    """Refuse to go on beside a write that would not notice."""
    for one in foreign_writes(timeline):
        if one in plans:
            continue
        raise TransactionError(
            f"{client.storage.uri}: {one} of another tool is pending, which would not notice that writes before it "
            "are taken back. Wait until it has ended; if its writer is dead, "
            "hoodie.clean.failed.writes.policy=EAGER rolls it back now"
        )


def _require_state(client: TableClient, timeline: Timeline, target: Instant, undone: Sequence[Instant]) -> None:
    """Refuse a target of which files are missing; partitions that the undone writes left alone are as they are.

    Raises:
        TransactionError: files were cleaned, or are gone for another reason.
    """
    wanted = latest_base_files(state_files(client, timeline, target), timeline, as_of=target.time)
    touched = touched_partitions(timeline, undone)
    wanted = wanted.filter(pc.is_in(wanted["partition"], pa.array(touched, pa.string())))
    listed = list_data_files(client.storage, touched)
    there = {posixpath.join(row["partition"], row["file_name"]) for row in listed.to_pylist()}
    missing = [path for path in wanted["path"].to_pylist() if path not in there]
    if missing:
        raise TransactionError(
            f"{client.storage.uri}: the state after {target.time} cannot be restored: {len(missing)} of its files are "
            f"missing, such as {missing[0]}"
        )
