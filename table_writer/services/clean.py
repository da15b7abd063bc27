"""Cleaning: deleting old file versions, as an instant of the timeline."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime as dt
import logging
import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from table_format.actions.table_services import CleanerPlan, CleanMetadata, CleanPartition
from table_format.errors import CorruptFileError, HudiError, MissingFileError
from table_format.instant import Action, Instant, State
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_slices import list_data_files, replaced_file_groups
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.metadata.writer import record_clean
from table_writer.services.clean_plan import Horizon, find_horizon, plan_clean
from table_writer.timeline.instants import delete_pending, ensure_state, request, table_lock
from table_writer.timeline.options import CleaningPolicy, CleanOptions, ProtocolOptions

_log = logging.getLogger(__name__)
_THREADS: Final = 16
_MANY: Final = 64


def clean(
    client: TableClient, options: Mapping[str, str] | None = None, now: dt.datetime | None = None
) -> CleanMetadata | None:
    """Delete file versions that only states of the table older than the cleaning policy keeps need.

    An interrupted clean is finished first. Everything happens under the table's lock.

    Args:
        client: the table.
        options: `hoodie.clean.policy`, `hoodie.cleaner.commits.retained` and so on.
        now: the end of the hours that are kept; the present by default.

    Returns:
        What was deleted, or None when there was nothing to delete (then there is no clean on the timeline).
    """
    protocol = ProtocolOptions.parse(options or {})
    with table_lock(client, protocol):
        return clean_locked(client, protocol.clean, now)


def clean_locked(client: TableClient, options: CleanOptions, now: dt.datetime | None = None) -> CleanMetadata | None:
    """`clean` for a caller that holds the table's lock."""
    done = resume_cleans(client)
    timeline = client.timeline()
    plan = _plan(client, timeline, options, now or dt.datetime.now(dt.UTC))
    if plan is not None:
        # Apache's cleaner, which may have to finish this clean, needs full URIs
        whole = {p: [client.storage.full_uri(path) for path in paths] for p, paths in plan.files.items()}
        content = dataclasses.replace(plan, files=whole).to_avro()
        instant = request(client, Action.CLEAN, content)
        done = _execute(client, instant.time, plan, content)
    return done


def resume_cleans(client: TableClient) -> CleanMetadata | None:
    """Finish interrupted cleans, under their own instants; the caller holds the table's lock."""
    timeline = client.timeline()
    done = None
    for instant in timeline.pending:
        if instant.action != Action.CLEAN:
            continue
        requested = instant.at(State.REQUESTED)
        try:
            content = timeline.read(requested)
            plan = CleanerPlan.from_avro(content, timeline.path(requested))
        except (CorruptFileError, MissingFileError):
            delete_pending(client.storage, instant.time, Action.CLEAN)  # its writer died while writing the plan
            continue
        done = _execute(client, instant.time, plan, content)
    return done


def _plan(client: TableClient, timeline: Timeline, options: CleanOptions, now: dt.datetime) -> CleanerPlan | None:
    changed = {entry.name: entry.mtime_ms for entry in client.storage.list(timeline.folder)} if timeline.pending else {}
    horizon = find_horizon(timeline, options, client.config.timeline_timezone, now, changed)
    if horizon is None:
        return None
    partitions = _changed_partitions(timeline, horizon) if options.incremental else None
    if partitions is not None and not partitions:
        return None
    files = _list_files(client, timeline, partitions)
    return plan_clean(
        timeline,
        files,
        replaced_file_groups(timeline),
        horizon=horizon,
        options=options,
        savepointed=_savepointed(timeline),
    )


def _execute(client: TableClient, instant: str, plan: CleanerPlan, content: bytes) -> CleanMetadata:
    """Delete the files of a plan, of which some may be deleted already."""
    started = time.monotonic()
    storage = client.storage
    # the plan is in the inflight file as well: Apache 0.15 archives it from there
    ensure_state(storage, Instant(instant, Action.CLEAN, State.INFLIGHT), content)
    names = {partition: [posixpath.basename(path) for path in paths] for partition, paths in plan.files.items()}
    _delete(client, [posixpath.join(partition, name) for partition, file_names in names.items() for name in file_names])
    record_clean(client, instant, names)
    earliest = plan.earliest_instant
    metadata = CleanMetadata(
        start_time=instant,
        millis=round((time.monotonic() - started) * 1000),
        earliest_commit_to_retain=earliest.time if earliest else "",
        last_completed_commit=plan.last_completed_commit,
        partitions={
            partition: CleanPartition(plan.policy, patterns=file_names, deleted=file_names)
            for partition, file_names in names.items()
        },
    )
    # another tool's writer, which takes no lock, may have finished it meanwhile
    ensure_state(storage, Instant(instant, Action.CLEAN, State.COMPLETED), metadata.to_avro())
    return metadata


def _delete(client: TableClient, paths: Sequence[str]) -> None:
    if len(paths) <= _MANY:
        for path in paths:
            client.storage.delete(path)
        return
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(client.storage.delete, paths))


def _changed_partitions(timeline: Timeline, horizon: Horizon) -> list[str] | None:
    """Partitions in which a version may have become too old since the last clean; None for all partitions.

    A version becomes too old when the write that superseded it does. Writes before the last clean's earliest one were
    handled by that clean.
    """
    last = next((i for i in reversed(timeline.completed) if i.action == Action.CLEAN), None)
    if horizon.earliest is None or last is None:
        return None
    try:
        metadata = CleanMetadata.from_avro(timeline.read(last), timeline.path(last))
    except HudiError:
        return None
    since = metadata.earliest_commit_to_retain
    parts = metadata.partitions.values()
    differs = any(part.failed or part.policy == CleaningPolicy.VERSIONS.value for part in parts)
    if differs or not since or not timeline.writes or since < timeline.writes[0].time:
        return None
    if any(i.action in (Action.RESTORE, Action.SAVEPOINT) for i in timeline.instants):
        return None
    changed: set[str] = set()
    for write in timeline.writes:
        if since <= write.time < horizon.earliest.time:
            commit = timeline.commit_metadata(write)
            changed |= commit.partition_to_write_stats.keys() | (commit.partition_to_replace_file_ids or {}).keys()
    return sorted(changed)


def _list_files(client: TableClient, timeline: Timeline, partitions: Sequence[str] | None) -> pa.Table:
    metadata_table = MetadataTable.open(client, timeline)
    if metadata_table is not None:
        return metadata_table.files(partitions)
    return list_data_files(client.storage, partitions)


def _savepointed(timeline: Timeline) -> set[str]:
    """Names of data files of savepoints."""
    file_names: set[str] = set()
    for instant in timeline.completed:
        if instant.action == Action.SAVEPOINT:
            saved = timeline.savepoint_metadata(instant)
            file_names.update(name for names in saved.files.values() for name in names)
    return file_names
