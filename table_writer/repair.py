"""Repair: what crashes and failed deletions left in a table is removed, without any change of its rows."""

from __future__ import annotations

import logging
import posixpath
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.table_stats import OrphanStats, TableStats
from table_format.config.table_config import require_writable
from table_format.errors import TransactionError
from table_format.instant import Action
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.rollback import (
    Remains,
    dead_runs,
    drop_new_partition,
    failed_writes,
    files_of,
    roll_back_dead_runs,
    settled_timeline,
    uncounted_files,
)
from table_writer.services.clean import resume_cleans
from table_writer.services.orphans import Orphan, Reason, Search, all_base_files, find_orphans
from table_writer.timeline import heartbeat
from table_writer.timeline.instants import table_lock
from table_writer.timeline.liveness import storage_time_ms
from table_writer.timeline.options import ProtocolOptions

_log = logging.getLogger(__name__)
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair removed, or would remove.

    Attributes:
        rolled_back: times of dead writers' writes; of clusterings that died, whose plans stay, as well.
        leftovers: times of ended writes that left markers, scratch files or a heartbeat.
        files: data files that belong to nothing, those of dead writers among them.
        young: number of files that would be among them if they were older.
        unclear: number of data files of which neither the timeline nor the archive can tell; they stay.
        unlisted: paths of files that a commit names and the metadata table lacks: readers miss their rows.
        cleans: times of interrupted cleans that were finished; the files of their plans are not among `files`.
    """

    rolled_back: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    files: tuple[Orphan, ...] = ()
    young: int = 0
    unclear: int = 0
    unlisted: tuple[str, ...] = ()
    cleans: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Sizes of the files."""
        return sum(file.size for file in self.files)


def repair(client: TableClient, options: Mapping[str, str] | None = None, *, dry_run: bool = False) -> RepairReport:
    """Remove what belongs to nothing: files of dead writers, their markers, and data files that no instant knows.

    As every write does, it first rolls back dead writers' writes, and finishes interrupted rollbacks, restores and
    cleans. Then the folders are listed, without the table's lock. A data file is deleted under the lock, if by the
    timeline as it is then the file still belongs to nothing: no pending, completed or archived instant, no savepoint,
    and it is old enough. Log files, and files that are not Hudi's, are passed over.

    Args:
        client: the table.
        options: of the commit protocol; `hoodie.catalog.repair.minutes` is the least age of files that are deleted.
        dry_run: report what would be removed, change nothing, and take no lock.

    Raises:
        OptionError: an invalid option.
        LockError: the table lock could not be taken.
        TransactionError: another tool takes completed writes back; or a restore is pending, in a dry run.
        UnsupportedTableError: a table of this kind can only be read.
    """
    protocol = ProtocolOptions.parse(options or {})
    if dry_run:
        require_writable(client.config, client.storage.uri)
        return _foresee(client, protocol)
    with table_lock(client, protocol):
        settled = settle_locked(client, protocol)
    for file in settled.files:
        _log.warning("%s: deleted %s (%d bytes): %s", client.storage.uri, file.path, file.size, file.reason.value)
    storage = client.storage
    oldest_ms = storage_time_ms(storage) - protocol.repair_minutes * _MINUTE_MS
    files = all_base_files(storage)
    search = find_orphans(client, files, before_ms=oldest_ms, alive=_alive(storage, protocol))
    if search.orphans:
        with table_lock(client, protocol):
            search = _delete_orphans(client, protocol, _only(files, search.orphans), search, oldest_ms)
    _warn(client, search)
    return _report(settled, search)


def _report(settled: RepairReport, search: Search) -> RepairReport:
    files = {file.path: file for file in (*search.orphans, *settled.files)}
    return replace(
        settled,
        files=tuple(files[path] for path in sorted(files)),
        young=search.young,
        unclear=search.unclear,
        unlisted=search.unlisted,
    )


def settle_locked(client: TableClient, options: ProtocolOptions) -> RepairReport:
    """Bring the timeline to rest, as every write does first; the caller holds the table's lock.

    Raises:
        TransactionError: another tool takes completed writes back.
    """
    remains = Remains.of(client.storage)
    timeline = client.timeline()
    foreseen = _foresee_rest(client, options, remains, timeline)
    timeline, rolled_back = settled_timeline(client, options, timeline)
    if roll_back_dead_runs(client, options):
        timeline = client.timeline(timeline)
    if resume_cleans(client, timeline):
        timeline = client.timeline(timeline)
    _require_rest(timeline)
    # interrupted rollbacks are not among those just done
    return replace(foreseen, rolled_back=tuple(sorted({*foreseen.rolled_back, *rolled_back})))


def foresee_settling(client: TableClient, options: ProtocolOptions) -> RepairReport:
    """What `settle_locked` would do; nothing changes, and no lock is needed."""
    remains = Remains.of(client.storage)
    return _foresee_rest(client, options, remains, client.timeline())


def _foresee_rest(client: TableClient, options: ProtocolOptions, remains: Remains, timeline: Timeline) -> RepairReport:
    """What bringing the timeline to rest removes."""
    pending = {instant.time for instant in timeline.pending}
    alive = _alive(client.storage, options)
    ended = sorted({*remains.marked, *remains.beating} - pending - alive)
    failed = sorted([*failed_writes(timeline, options), *dead_runs(timeline, options)])
    dead = [Orphan(path, 0, instant.time, Reason.DEAD) for instant in failed for path in files_of(client, instant)]
    dead += [
        Orphan(path, 0, instant, Reason.UNCOMMITTED if timeline.find(instant) else Reason.UNDONE)
        for instant in ended
        for path in uncounted_files(client, timeline, instant)
    ]
    sizes = [(file, client.storage.entry(file.path)) for file in dead]
    return RepairReport(
        rolled_back=tuple(instant.time for instant in failed),
        leftovers=tuple(ended),
        files=tuple(replace(file, size=entry.size) for file, entry in sizes if entry is not None),
        cleans=tuple(instant.time for instant in timeline.pending if instant.action == Action.CLEAN),
    )


def _foresee(client: TableClient, options: ProtocolOptions) -> RepairReport:
    remains, files = Remains.of(client.storage), all_base_files(client.storage)
    timeline = client.timeline()
    _require_rest(timeline)
    rest = _foresee_rest(client, options, remains, timeline)
    search = _search(client, options, files, timeline)
    _warn(client, search)
    return _report(rest, search)


def with_orphans(client: TableClient, statistics: TableStats, options: Mapping[str, str] | None = None) -> TableStats:
    """Add the data files that no instant knows to a table's statistics; those of dead writers' writes do not count.

    Args:
        client: the table, which may be one that is only read.
        statistics: of the table.
        options: as for `repair`.
    """
    files = all_base_files(client.storage)
    search = _search(client, ProtocolOptions.parse(options or {}), files, client.timeline())
    size = sum(file.size for file in search.orphans)
    counts = OrphanStats(len(search.orphans), size, search.young, search.unclear)
    return replace(statistics, orphans=counts)


def _search(client: TableClient, options: ProtocolOptions, files: pa.Table, timeline: Timeline) -> Search:
    oldest_ms = time.time() * 1000 - options.repair_minutes * _MINUTE_MS
    alive = _alive(client.storage, options)
    return find_orphans(client, files, before_ms=oldest_ms, alive=alive, timeline=timeline)


def _require_rest(timeline: Timeline) -> None:
    """Refuse a table of which a part may be about to come back."""
    restore = next((instant for instant in timeline.pending if instant.action == Action.RESTORE), None)
    if restore is not None:
        raise TransactionError(
            f"{timeline.storage.uri}: {restore} is pending, which the next write or a repair without dry run finishes, "
            "unless another tool began it; what belongs to nothing is known after that"
        )


def _alive(storage: Storage, options: ProtocolOptions) -> frozenset[str]:
    interval, misses = options.heartbeat_interval_ms, options.heartbeat_misses
    times = heartbeat.heartbeats(storage)
    return frozenset(time for time in times if heartbeat.is_expired(storage, time, interval, misses) is False)


def _only(files: pa.Table, orphans: Sequence[Orphan]) -> pa.Table:
    names = pa.array([posixpath.basename(orphan.path) for orphan in orphans], pa.string())
    return files.filter(pc.is_in(files["file_name"], names))


def _delete_orphans(
    client: TableClient, options: ProtocolOptions, files: pa.Table, search: Search, oldest_ms: float
) -> Search:
    """Delete those of some files that still belong to nothing; the caller holds the table's lock."""
    storage = client.storage
    timeline = client.timeline()
    again = find_orphans(client, files, before_ms=oldest_ms, alive=_alive(storage, options), timeline=timeline)
    unchanged = []
    for orphan in again.orphans:
        entry = storage.entry(orphan.path)
        if entry is not None and entry.mtime_ms <= oldest_ms:
            unchanged.append(orphan)
    for orphan in unchanged:
        _log.warning("%s: deleting %s (%d bytes): %s", storage.uri, orphan.path, orphan.size, orphan.reason.value)
    storage.delete_all([orphan.path for orphan in unchanged])
    pending = {instant.time for instant in timeline.pending}
    for partition in sorted({posixpath.dirname(orphan.path) for orphan in unchanged}):
        drop_new_partition(storage, partition, lambda time: time not in pending and not timeline.is_committed(time))
    return replace(search, orphans=tuple(unchanged))


def _warn(client: TableClient, search: Search) -> None:
    if search.unlisted:
        _log.warning(
            "%s: the metadata table lacks %d files that commits name, such as %s: readers miss their rows. Delete the "
            "folder .hoodie/metadata: the table is then read without it, until Apache Hudi builds it again",
            client.storage.uri,
            len(search.unlisted),
            search.unlisted[0],
        )
