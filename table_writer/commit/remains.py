"""Clearing away what writers left beside the timeline: markers and heartbeats of instants that have ended."""

from __future__ import annotations

from table_format.instant import WRITE_ACTIONS, Instant
from table_format.slices.table_client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit import heartbeat
from table_writer.commit.markers import SCRATCH_FOLDER, TEMP_FOLDER, delete_markers, read_markers
from table_writer.commit.options import ProtocolOptions


def sweep_remains(client: TableClient, options: ProtocolOptions) -> None:
    """Delete markers and heartbeats of instants that are no longer pending; the caller holds the table's lock.

    A task may outlive the rollback of its write, and write its file after it. Files that such markers name, and that no
    commit counts in, go too.
    """
    storage = client.storage
    # listed before the timeline is: what is pending in the timeline then began before or is kept
    folders = [*storage.list(TEMP_FOLDER), *storage.list(SCRATCH_FOLDER)]
    marked = sorted({entry.name for entry in folders if entry.is_dir and entry.name.isdigit()})
    beating = heartbeat.heartbeats(storage)
    if not marked and not beating:
        return
    timeline = client.timeline()
    pending = {instant.time for instant in timeline.pending}
    for time in marked:
        if time not in pending:
            _delete_uncounted(client, timeline, time)
            delete_markers(storage, time)
    for time in beating:
        if time in pending:
            continue
        dead = heartbeat.is_expired(storage, time, options.heartbeat_interval_ms, options.heartbeat_misses)
        if dead is not False or timeline.find(time) is not None:
            heartbeat.delete_heartbeat(storage, time)


def delete_marked_files(client: TableClient, instant: str, keep: frozenset[str] | set[str]) -> None:
    """Delete the data files that a write's markers name, except those to keep (paths)."""
    for marker in read_markers(client.storage, instant):
        if marker.path not in keep:
            client.storage.delete(marker.path)


def _delete_uncounted(client: TableClient, timeline: Timeline, time: str) -> None:
    done = next((i for i in timeline.writes if i.time == time and i.action in WRITE_ACTIONS), None)
    if done is not None:
        delete_marked_files(client, time, _paths(timeline, done))
    elif time in timeline.rolled_back:
        delete_marked_files(client, time, frozenset())
    # any other instant may be a completed one that was archived: its files stay


def _paths(timeline: Timeline, instant: Instant) -> set[str]:
    return {stat.path for stat in timeline.commit_metadata(instant).stats() if stat.path}
