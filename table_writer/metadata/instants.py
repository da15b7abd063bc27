"""Instants of the metadata table's own timeline, and the log files, markers and write stats of each."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.errors import AlreadyExistsError
from table_format.instant import Action, Instant, State
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline, load_timeline
from table_writer.encoding.log_blocks import write_hfile_block
from table_writer.encoding.metadata_records import PLAIN_SCHEMA_JSON, SCHEMA_JSON


def load_metadata_timeline(storage: Storage) -> Timeline:
    """The metadata table's own timeline; `storage` is the data table's."""
    return load_timeline(storage, layout.TIMELINE_FOLDER)


def start(storage: Storage, time: str, action: str, plan: bytes = b"", inflight: bytes = b"") -> None:
    """Write the requested and inflight files of an instant; those of an earlier attempt stay."""
    for state, content in ((State.REQUESTED, plan), (State.INFLIGHT, inflight)):
        with contextlib.suppress(AlreadyExistsError):
            storage.create(_path(Instant(time, action, state)), content)


def complete(storage: Storage, time: str, action: str, content: bytes) -> None:
    """Publish an instant, and clear its markers."""
    storage.create(_path(Instant(time, action, State.COMPLETED)), content)
    storage.delete_dir(f"{layout.TIMELINE_FOLDER}/.temp/{time}")


def remove(storage: Storage, time: str, action: str) -> None:
    """Delete the files of an instant, the completed one first."""
    for state in (State.COMPLETED, State.INFLIGHT, State.REQUESTED):
        storage.delete(_path(Instant(time, action, state)))
    storage.delete_dir(f"{layout.TIMELINE_FOLDER}/.temp/{time}")


def mark(storage: Storage, time: str, partition: str, file_name: str, io_type: str) -> None:
    """Create the marker of a file before it is written, so that other writers can roll it back after a crash."""
    path = f"{layout.TIMELINE_FOLDER}/.temp/{time}/{partition}/{file_name}.marker.{io_type}"
    with contextlib.suppress(AlreadyExistsError):
        storage.create(path, b"")


def next_log_file(group: layout.FileGroup, partition: str, token: str = layout.TOKEN) -> layout.LogFile:
    """Name of the next log file of a file group; its size is 0."""
    bases = [base.instant for base in group.base_files]
    base_instant = max([*bases, *(log.base_instant for log in group.log_files)])
    version = 1 + max((log.version for log in group.log_files if log.base_instant == base_instant), default=0)
    path = layout.log_file_path(partition, group.file_id, base_instant, version, token)
    return layout.LogFile(path, 0, group.file_id, base_instant, version, token)


def append_records(
    storage: Storage,
    time: str,
    partition: str,
    groups: Sequence[layout.FileGroup],
    hfiles: Mapping[int, tuple[bytes, int]],
) -> list[WriteStat]:
    """Write one log file with one block for each shard that has records."""
    stats = []
    for shard, (hfile, count) in hfiles.items():
        group = groups[shard]
        log = next_log_file(group, partition)
        mark(storage, time, partition, log.path.rsplit("/", 1)[-1], "APPEND")
        data = write_hfile_block(time, SCHEMA_JSON, hfile)
        storage.create(log.path, data)
        stats.append(log_stat(group, partition, dataclasses.replace(log, size=len(data)), count))
    return stats


def base_file_stat(partition: str, path: str, size: int, count: int, *, previous: str | None = None) -> WriteStat:
    """The write stat of a base HFile; `previous` is the instant of the base file that it supersedes."""
    name = path.rsplit("/", 1)[-1]
    return WriteStat(
        file_id=name.split("_", 1)[0],
        path=f"{partition}/{name}",
        partition_path=partition,
        prev_commit=previous or "null",
        num_writes=count,
        num_inserts=count,
        total_write_bytes=size,
        file_size_in_bytes=size,
    )


def commit_content(stats: Sequence[WriteStat], operation: str, *, compacted: bool = False) -> bytes:
    """Commit metadata of the metadata table."""
    by_partition: dict[str, list[WriteStat]] = {}
    for stat in stats:
        by_partition.setdefault(stat.partition_path, []).append(stat)
    return CommitMetadata(by_partition, operation, {"schema": PLAIN_SCHEMA_JSON}, compacted=compacted).to_json()


def last_compaction(timeline: Timeline) -> str:
    """Time of the newest completed compaction of the metadata table; empty without one."""
    return max((instant.time for instant in timeline.completed if instant.action == Action.COMMIT), default="")


def log_stat(group: layout.FileGroup, partition: str, log: layout.LogFile, count: int) -> WriteStat:
    """The write stat of a log file with `count` records."""
    name = log.path.rsplit("/", 1)[-1]
    base = next((file.path.rsplit("/", 1)[-1] for file in group.base_files if file.instant == log.base_instant), "")
    logs = [other.path.rsplit("/", 1)[-1] for other in group.log_files if other.base_instant == log.base_instant]
    return WriteStat(
        file_id=group.file_id,
        path=f"{partition}/{name}",
        partition_path=partition,
        prev_commit=log.base_instant,
        num_writes=count,
        num_update_writes=count,
        total_write_bytes=log.size,
        file_size_in_bytes=log.size,
        other={"logVersion": log.version, "logOffset": 0, "baseFile": base, "logFiles": [*logs, name]},
    )


def _path(instant: Instant) -> str:
    return f"{layout.TIMELINE_FOLDER}/{instant.file_name}"
