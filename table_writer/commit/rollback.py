"""Rolling back failed writes: their data files, metadata table records and instants, and markers of ended writes."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow.compute as pc

from table_format.actions.rollback import RollbackMetadata, RollbackPartition, RollbackPlan, RollbackRequest
from table_format.config import properties
from table_format.errors import (
    CorruptFileError,
    MissingFileError,
    NoSpaceError,
    UnsupportedTableError,
)
from table_format.instant import WRITE_ACTIONS, Action, Instant, State
from table_format.keys.partition_buckets import drop_rules
from table_format.slices.file_names import BaseFileName, parse_base_file_names
from table_format.slices.file_slices import list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.writer import record_rollback
from table_writer.services.rebuilt_metadata import rebuild_noted
from table_writer.services.undo import resume_undo
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import (
    delete_pending,
    ensure_state,
    instant_path,
    is_plan,
    request,
    requested_replace,
    table_lock,
)
from table_writer.timeline.liveness import age_ms
from table_writer.timeline.markers import (
    APPEND,
    CREATE,
    SCRATCH_FOLDER,
    TEMP_FOLDER,
    Marker,
    delete_markers,
    has_markers,
    marker_folder,
    read_markers,
    scratch_folder,
)
from table_writer.timeline.options import FailedWrites, ProtocolOptions

_log = logging.getLogger(__name__)


def rollback_failed_writes(client: TableClient, options: Mapping[str, str] | None = None) -> list[str]:
    """Roll back writes of dead writers, as every write does before it begins.

    Interrupted rollbacks are finished first. LAZY, the default, then rolls back pending writes whose writer is known to
    be dead, has missed its heartbeats, or has none and changed no file for long; EAGER rolls back every pending write,
    NEVER none. Pending table services (clustering, compaction) are plans, not failures; but a clustering that one call
    plans and runs is a write, of which even EAGER rolls back dead ones only.

    Returns:
        The instants that were rolled back, newest first.
    """
    protocol = ProtocolOptions.parse(options or {})
    with table_lock(client, protocol):
        return rollback_failed_writes_locked(client, protocol)


def rollback_failed_writes_locked(client: TableClient, options: ProtocolOptions) -> list[str]:
    """`rollback_failed_writes` for a caller that holds the table's lock."""
    return settled_timeline(client, options)[1]


def settled_timeline(
    client: TableClient, options: ProtocolOptions, known: Timeline | None = None
) -> tuple[Timeline, list[str]]:
    """Roll failed writes back, as `rollback_failed_writes` does; the caller holds the table's lock.

    Args:
        client: the table.
        options: see `rollback_failed_writes`.
        known: the timeline as loaded earlier.

    Returns:
        The timeline after that, and the instants that were rolled back, newest first.
    """
    remains = Remains.of(client.storage)
    timeline = client.timeline(known)
    if resume_rollbacks(client, timeline, options):
        timeline = client.timeline(timeline)
    failed = failed_writes(timeline, options)
    for instant in reversed(failed):
        _log.warning("%s: rolling back %s, which a dead writer left", client.storage.uri, instant)
        roll_back(client, instant)
    if failed:
        timeline = client.timeline(timeline)
    sweep_remains(client, options, remains, timeline)
    return timeline, [instant.time for instant in reversed(failed)]


def resume_rollbacks(client: TableClient, timeline: Timeline, options: ProtocolOptions | None = None) -> bool:
    """Finish interrupted rollbacks and restores, under their own instants.

    Args:
        client: the table, whose lock the caller holds.
        timeline: of the table, loaded under the lock.
        options: by which another tool's restore counts as dead; None where it is left alone.

    Returns:
        Whether there was one.

    Raises:
        TransactionError: another tool takes completed writes back, or died at that.
    """

    def counts_as_dead(one: Instant) -> bool:
        if options is None or options.failed_writes is FailedWrites.NEVER:
            return False
        return is_dead(timeline, one, options)

    changed = resume_undo(client, timeline, counts_as_dead)
    if changed:
        timeline = client.timeline(timeline)
    interrupted = [instant for instant in timeline.pending if instant.action == Action.ROLLBACK]
    for instant in interrupted:
        requested = instant.at(State.REQUESTED)
        try:
            plan = RollbackPlan.from_avro(timeline.read(requested), timeline.path(requested))
        except (CorruptFileError, MissingFileError):
            # its writer died while writing the plan: nothing was deleted, and the failed write is still pending
            delete_pending(client.storage, instant.time, Action.ROLLBACK)
            continue
        _execute(client, instant.time, plan)
    return changed or bool(interrupted)


def roll_back(client: TableClient, failed: Instant) -> RollbackMetadata:
    """Roll back a pending write; the caller holds the table's lock.

    A plan of a clustering whose run has begun stays requested; one whose run has not is cancelled, and so is a
    clustering that was planned and run in one call.

    The plan is on the timeline before anything is deleted. The failed instant leaves the timeline after its files and
    its records in the metadata table are gone, and before the rollback completes, so a crash anywhere in between leaves
    a rollback to be finished. On a full disk the files are deleted first, to make space for the plan; the markers still
    name the same files.
    """
    plan = RollbackPlan(failed.time, failed.action, _requests(client, failed))
    try:
        instant = request(client, Action.ROLLBACK, plan.to_avro())
    except NoSpaceError:
        _delete_files(client.storage, plan)
        instant = request(client, Action.ROLLBACK, plan.to_avro())
    return _execute(client, instant.time, plan)


def rollback_of(timeline: Timeline, time: str, known: Collection[str]) -> Instant | None:
    """The completed rollback of a write, apart from known ones; None if the timeline has none.

    The plan of a clustering may have had earlier runs that were rolled back.
    """
    for instant in reversed(timeline.completed):
        if instant.action != Action.ROLLBACK or instant.time in known:
            continue
        if time in dict(timeline.rolled_back_by(instant)):
            return instant
    return None


def free_space(client: TableClient, failed: Iterable[Instant]) -> None:
    """Delete the data and scratch files of pending writes that can never complete.

    Nothing is written, not even a lock file: callers know that the writers are dead, or are those writers. The writes
    stay pending, to be rolled back.
    """
    for instant in failed:
        _delete_files(client.storage, RollbackPlan(instant.time, instant.action, _requests(client, instant)))
        client.storage.delete_dir(scratch_folder(instant.time))


def surely_dead_writes(client: TableClient) -> list[Instant]:
    """Pending writes of processes of this machine that have ended.

    The timeline is loaded once more when they are known to be dead, without the table's lock: one of them may have
    completed its write in between.
    """

    def pending() -> list[Instant]:
        return [instant for instant in client.timeline().pending if instant.action in WRITE_ACTIONS]

    dead = {instant.time for instant in pending() if heartbeat.is_known_dead(client.storage, instant.time)}
    return [instant for instant in pending() if instant.time in dead] if dead else []


def _execute(client: TableClient, rollback: str, plan: RollbackPlan) -> RollbackMetadata:
    started = time.monotonic()
    storage = client.storage
    ensure_state(storage, Instant(rollback, Action.ROLLBACK, State.INFLIGHT), b"")
    metadata = RollbackMetadata(rollback, 0, [(plan.instant, plan.action)])
    _delete_files(storage, plan)
    if plan.action == Action.REPLACECOMMIT:
        drop_rules(storage, lambda time: time == plan.instant)  # those of a resize that has not completed
    for deletion in plan.requests:
        metadata.partitions.setdefault(deletion.partition, RollbackPartition()).deleted.extend(deletion.files)
    for partition_path in metadata.partitions:
        drop_new_partition(storage, partition_path, lambda time: time == plan.instant)
    record_rollback(client, rollback, plan.instant)
    begun = _begun_clustering(client, plan)
    if begun is None:
        delete_pending(storage, plan.instant, plan.action)
    metadata.millis = round((time.monotonic() - started) * 1000)
    # another tool's writer, which takes no lock, may have finished it meanwhile
    ensure_state(storage, Instant(rollback, Action.ROLLBACK, State.COMPLETED), metadata.to_avro())
    if begun is not None:
        # last, so that a rollback which is finished later knows that the plan stays
        storage.delete(instant_path(begun))
    delete_markers(storage, plan.instant)
    heartbeat.delete_heartbeat(storage, plan.instant)
    return metadata


def _begun_clustering(client: TableClient, plan: RollbackPlan) -> Instant | None:
    """The inflight instant of what is rolled back if it is the run of a plan."""
    timeline = client.timeline()
    instant = timeline.find(plan.instant, plan.action)
    if instant is None or instant.state is not State.INFLIGHT or not is_plan(timeline, instant):
        return None
    return instant


def _delete_files(storage: Storage, plan: RollbackPlan) -> None:
    for deletion in plan.requests:
        for path in deletion.files:
            # Apache's plans hold full URIs of any scheme; the file name is enough
            storage.delete(posixpath.join(deletion.partition, posixpath.basename(path)))


def failed_writes(timeline: Timeline, options: ProtocolOptions) -> list[Instant]:
    """Pending writes that `rollback_failed_writes` would roll back, oldest first."""
    return [instant for instant in timeline.pending if _has_failed(timeline, instant, options)]


def _has_failed(timeline: Timeline, instant: Instant, options: ProtocolOptions) -> bool:
    if instant.action not in WRITE_ACTIONS or options.failed_writes is FailedWrites.NEVER:
        return False
    requested = requested_replace(timeline, instant)
    if requested.is_clustering:
        return requested.at_once and _is_dead_clustering(timeline, instant, options)
    return is_dead(timeline, instant, options)


def dead_runs(timeline: Timeline, options: ProtocolOptions) -> list[Instant]:
    """Begun runs of plans of clusterings whose runner is dead, oldest first."""
    if options.failed_writes is FailedWrites.NEVER:
        return []
    begun = (one for one in timeline.pending if one.state is State.INFLIGHT and is_plan(timeline, one))
    return [one for one in begun if _is_dead_clustering(timeline, one, options)]


def _is_dead_clustering(timeline: Timeline, instant: Instant, options: ProtocolOptions) -> bool:
    """By heartbeats and silence even under EAGER: Apache's single writers, too, let clusterings run beside them."""
    return is_dead(timeline, instant, replace(options, failed_writes=FailedWrites.LAZY))


def roll_back_dead_runs(client: TableClient, options: ProtocolOptions) -> list[str]:
    """Roll clusterings whose runner is dead back to their plans; the caller holds the table's lock.

    Returns:
        Their instants, oldest first.
    """
    dead = dead_runs(client.timeline(), options)
    for instant in dead:
        _log.warning("%s: rolling back %s, a clustering that died, to its plan", client.storage.uri, instant)
        roll_back(client, instant)
    return [instant.time for instant in dead]


def how_it_ends(timeline: Timeline, pending: Instant) -> str:
    """What to do about a pending instant whose writer does not go on, for messages: a plan stays."""
    if is_plan(timeline, pending):
        return "a clustering ends by `hudi-catalog cluster PATH --run`, or by `hudi-catalog rollback`, which cancels it"
    if pending.action == Action.INDEXING:
        return "if its indexer is dead, drop the index that it builds with Apache Hudi (DROP INDEX)"
    return "if its writer is dead, any write rolls it back"


def is_dead(timeline: Timeline, instant: Instant, options: ProtocolOptions) -> bool:
    """Whether the writer of a pending instant counts as dead."""
    if options.failed_writes is FailedWrites.EAGER:
        return True
    interval, misses = options.heartbeat_interval_ms, options.heartbeat_misses
    expired = heartbeat.is_expired(timeline.storage, instant.time, interval, misses)
    return _is_silent(timeline, instant, options.silent_minutes) if expired is None else expired


def _is_silent(timeline: Timeline, instant: Instant, minutes: int) -> bool:
    """Whether a write without heartbeats, as of Apache's single writers, changed no file for some minutes."""
    storage = timeline.storage
    paths = {timeline.path(instant.at(state)) for state in (State.REQUESTED, State.INFLIGHT)}
    paths |= {marker.path for marker in _markers(storage, instant.time)}
    entries = [entry for entry in map(storage.entry, sorted(paths)) if entry is not None]
    entries += storage.list(marker_folder(instant.time), recursive=True)
    if not entries:
        return False  # it has just ended
    age = age_ms(storage, max(entries, key=lambda entry: entry.mtime_ms)) / 60_000
    if age > minutes:
        return True
    remedy = (
        f"it is a clustering: `hudi-catalog cluster PATH --run` runs it, `hudi-catalog rollback PATH {instant.time}` "
        "cancels it"
        if is_plan(timeline, instant)
        else "hoodie.clean.failed.writes.policy=EAGER rolls it back now"
    )
    _log.warning(
        "%s: %s is pending and has no heartbeat, as writes of Apache's single writers; it changed its last file "
        "%.0f minutes ago and counts as dead after %d (hoodie.catalog.write.silent.minutes). If its writer is dead, %s",
        storage.uri,
        instant,
        age,
        minutes,
        remedy,
    )
    return False


def files_of(client: TableClient, failed: Instant) -> list[str]:
    """Paths of the data files that a rollback of a pending write deletes, whether they exist or not."""
    requests = _requests(client, failed)
    return [posixpath.join(of.partition, posixpath.basename(path)) for of in requests for path in of.files]


def _requests(client: TableClient, failed: Instant) -> list[RollbackRequest]:
    """Files to delete: those that markers name; without markers, all listed files of the failed instant."""
    storage = client.storage
    if has_markers(storage, failed.time):
        places = [(marker.partition, marker.file_name) for marker in _base_file_markers(storage, failed.time)]
    elif failed.state is State.REQUESTED:
        places = []
    else:
        places = _listed(storage, failed.time)
    requests = []
    for partition, name in places:
        parts = BaseFileName.parse(name)
        path = storage.full_uri(posixpath.join(partition, name))
        requests.append(RollbackRequest(partition, [path], parts.file_id if parts else ""))
    return requests


def _base_file_markers(storage: Storage, instant: str) -> list[Marker]:
    markers = _markers(storage, instant)
    for marker in markers:
        if marker.io_type == APPEND:
            raise UnsupportedTableError(
                f"{marker.path}: {instant} wrote log files; writes to merge-on-read tables are not rolled back yet"
            )
    return markers


def _markers(storage: Storage, instant: str) -> list[Marker]:
    """The markers of a write, or one for each of its files that exist if a list of them is torn."""
    try:
        return read_markers(storage, instant)
    except CorruptFileError as error:
        _log.warning("%s: %s; files of %s are listed instead", storage.uri, error, instant)
        return [Marker(partition, name, CREATE) for partition, name in _listed(storage, instant)]


def _listed(storage: Storage, instant: str) -> list[tuple[str, str]]:
    files = list_data_files(storage)
    failed_files = files.filter(pc.equal(parse_base_file_names(files["file_name"])["instant"], instant))
    return [(row["partition"], row["file_name"]) for row in failed_files.to_pylist()]


def drop_new_partition(storage: Storage, partition: str, has_failed: Callable[[str], bool]) -> None:
    """Delete a partition's metadata file if the folder holds nothing else and the write that created it failed."""
    entries = storage.list(partition)
    if not partition or [entry.name for entry in entries] != [properties.PARTITION_METAFILE]:
        return
    creator = properties.partition_creator(storage, partition)
    if creator and has_failed(creator):
        storage.delete(entries[0].path)


@dataclass(frozen=True)
class Remains:
    """What writes leave while they are under way, and dead ones for good: instants with a folder or a heartbeat.

    Attributes:
        marked: instants with markers or scratch files.
        beating: instants with a heartbeat.
    """

    marked: Sequence[str]
    beating: Sequence[str]

    @classmethod
    def of(cls, storage: Storage) -> Remains:
        """List them; before the timeline, so that those of a write that begins meanwhile are not seen."""
        folders = [*storage.list(TEMP_FOLDER), *storage.list(SCRATCH_FOLDER)]
        marked = sorted({entry.name for entry in folders if entry.is_dir and entry.name.isdigit()})
        return cls(marked, heartbeat.heartbeats(storage))


def sweep_remains(client: TableClient, options: ProtocolOptions, remains: Remains, timeline: Timeline) -> None:
    """Delete markers and heartbeats of instants that are no longer pending; the caller holds the table's lock.

    A task may outlive the rollback of its write, and write its file afterwards: files of such markers that no commit
    names are deleted, too.

    Args:
        client: the table.
        options: of heartbeats.
        remains: listed before the timeline.
        timeline: loaded under the lock.
    """
    storage = client.storage
    pending = {write.time for write in timeline.pending}
    for instant in remains.marked:
        if instant not in pending and rebuild_noted(client, instant):
            for path in uncounted_files(client, timeline, instant):
                storage.delete(path)
            delete_markers(storage, instant)
    for instant in remains.beating:
        if instant in pending:
            continue
        dead = heartbeat.is_expired(storage, instant, options.heartbeat_interval_ms, options.heartbeat_misses)
        if dead is not False or timeline.find(instant) is not None:
            heartbeat.delete_heartbeat(storage, instant)


def uncounted_files(client: TableClient, timeline: Timeline, time: str) -> list[str]:
    """Paths of the data files that the markers of an ended write name and no commit, whether they exist or not."""
    marked = [marker.path for marker in _markers(client.storage, time)]
    done = next((i for i in timeline.writes if i.time == time and i.action in WRITE_ACTIONS), None)
    if done is not None:
        counted = _paths(timeline, done) if marked else set()
        return [path for path in marked if path not in counted]
    if timeline.is_undone(time) or (time < (timeline.start or "") and time not in timeline.archive.writes):
        return marked  # where the rollback is archived, the write itself never was
    return []  # any other instant may have been completed and archived: its files stay


def _paths(timeline: Timeline, instant: Instant) -> set[str]:
    return {stat.path for stat in timeline.commit_metadata(instant).stats() if stat.path}


@contextlib.contextmanager
def lock_on_a_full_disk(client: TableClient, protocol: ProtocolOptions) -> Iterator[None]:
    """The table's lock; on a full disk, files of writers that died on this machine are deleted to make space for it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(table_lock(client, protocol))
        except NoSpaceError:
            if protocol.failed_writes is FailedWrites.NEVER:
                raise
            free_space(client, surely_dead_writes(client))
            stack.enter_context(table_lock(client, protocol))
        yield
