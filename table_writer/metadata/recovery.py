"""Rolling back what a failed writer left in the metadata table.

Blocks cannot be deleted from log files, so a rollback appends a block that makes readers skip them.
"""

from __future__ import annotations

import contextlib

from table_format.actions.rollback import RollbackMetadata, RollbackPartition, RollbackPlan
from table_format.errors import AlreadyExistsError
from table_format.instant import Action
from table_format.log.blocks import read_log_blocks
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline
from table_writer.encoding.log_blocks import write_rollback_block
from table_writer.metadata import instants


def rollback_in_metadata_table(storage: Storage, failed: str, rollback: str) -> bool:
    """Roll back what an instant of the data table left in the metadata table, completed there or not.

    The data table's rollback calls this after `update_metadata_table` has recorded the rollback itself, and before it
    removes the failed instant from its own timeline.

    Args:
        storage: of the data table.
        failed: the instant that failed.
        rollback: the rollback's instant; the metadata table's is that with the suffix 006.

    Returns:
        Whether there was anything to roll back.
    """
    timeline = instants.load_metadata_timeline(storage)
    if timeline.find(failed, Action.DELTACOMMIT) is None:
        return False
    _roll_back(storage, failed, _free_time(timeline, f"{rollback[:17]}{layout.ROLLBACK_SUFFIX}"))
    return True


def recover(storage: Storage, instant: str) -> Timeline:
    """Roll back whatever is pending in the metadata table, before an instant is written there.

    Callers hold the table's lock, so whatever is pending is a dead writer's. An earlier attempt of `instant` itself is
    rolled back, too, even when the metadata table completed it.

    Returns:
        The metadata table's timeline after that.
    """
    timeline = instants.load_metadata_timeline(storage)
    changed = bool(timeline.pending)
    _sweep_markers(storage, timeline)
    for pending in timeline.pending:
        if pending.action == Action.ROLLBACK:
            plan = timeline.storage.read(f"{timeline.folder}/{pending.time}.rollback.requested")
            failed = RollbackPlan.from_avro(plan, pending.file_name).instant if plan else ""
            _roll_back(storage, failed, pending.time)
    for dead in timeline.pending:
        if dead.action == Action.CLEAN:  # the next clean plans again what it left
            instants.remove(storage, dead.time, Action.CLEAN)
        if dead.action != Action.DELTACOMMIT:
            continue
        if layout.builds_partition(dead.time):
            _remove_half_built(storage, dead.time)
        else:
            _roll_back(storage, dead.time, _free_time(timeline, f"{instant[:17]}{layout.ROLLBACK_SUFFIX}"))
            timeline = instants.load_metadata_timeline(storage)
    if any(done.time == instant and done.action == Action.DELTACOMMIT for done in timeline.completed):
        changed = True
        _roll_back(storage, instant, _free_time(timeline, f"{instant[:17]}{layout.ROLLBACK_SUFFIX}"))
    return instants.load_metadata_timeline(storage) if changed else timeline


def _sweep_markers(storage: Storage, timeline: Timeline) -> None:
    """Delete markers of ended instants, whose writers died before deleting them."""
    pending = {instant.time for instant in timeline.pending}
    for entry in storage.list(f"{layout.TIMELINE_FOLDER}/.temp"):
        if entry.is_dir and entry.name not in pending:
            storage.delete_dir(entry.path)


def _roll_back(storage: Storage, failed: str, time: str) -> None:
    instants.start(storage, time, Action.ROLLBACK, plan=RollbackPlan(failed, Action.DELTACOMMIT).to_avro())
    partitions = {}
    for partition in metadata_partitions(storage):
        written = _append_rollbacks(storage, partition, failed, time)
        if written.rollback_log_files:
            partitions[partition] = written
    instants.remove(storage, failed, Action.DELTACOMMIT)
    result = RollbackMetadata(time, 0, [(failed, Action.DELTACOMMIT)], partitions)
    with contextlib.suppress(AlreadyExistsError):
        instants.complete(storage, time, Action.ROLLBACK, result.to_avro())


def _append_rollbacks(storage: Storage, partition: str, failed: str, time: str) -> RollbackPartition:
    result = RollbackPartition()
    for group in layout.list_file_groups(storage, partition):
        hit = [log for log in group.log_files if _holds(storage, log, failed)]
        if not hit:
            continue
        path = instants.next_log_file(group, partition, layout.ROLLBACK_TOKEN).path
        block = write_rollback_block(time, failed)
        storage.create(path, block)
        result.rollback_log_files[storage.full_uri(path)] = len(block)
        result.failed_log_files.update({storage.full_uri(log.path): log.size for log in hit})
    return result


def _holds(storage: Storage, log: layout.LogFile, instant: str) -> bool:
    return any(block.instant == instant for block in read_log_blocks(storage.read(log.path), log.path))


def _remove_half_built(storage: Storage, time: str) -> None:
    """Delete the files of a partition that was being built; it is not listed for use, so nobody reads them."""
    for partition in metadata_partitions(storage):
        for group in layout.list_file_groups(storage, partition):
            for base in group.base_files:
                if base.instant == time:
                    storage.delete(base.path)
            for log in group.log_files:
                if log.base_instant == time:
                    storage.delete(log.path)
    instants.remove(storage, time, Action.DELTACOMMIT)


def metadata_partitions(storage: Storage) -> list[str]:
    """Names of the partitions that have a folder in the metadata table."""
    entries = storage.list(layout.FOLDER)
    return [entry.name for entry in entries if entry.is_dir and not entry.name.startswith(".")]


def _free_time(timeline: Timeline, wanted: str) -> str:
    """The first time from `wanted` on that no instant has."""
    taken = {instant.time for instant in timeline.instants}
    while wanted in taken:
        wanted = str(int(wanted) + 1).zfill(len(wanted))
    return wanted
