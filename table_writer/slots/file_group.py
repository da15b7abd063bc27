"""One file group in one write: its rows become a new file, or a new version of the file that is there."""

from __future__ import annotations

import time
from dataclasses import dataclass

from table_format.actions.commit import NO_COMMIT, WriteStat
from table_format.config.properties import ensure_partition_metadata
from table_format.slices.file_names import BaseFileName, new_bucket_file_id, new_file_id
from table_writer.files.merge_request import MergeRequest, NewVersion
from table_writer.files.rewrite import rewrite_whole, write_first
from table_writer.plan.plan import FilePlan, TaskIdentity
from table_writer.rows.slot_rows import Incoming
from table_writer.surgery.merge_file import merge_by_surgery
from table_writer.surgery.refusal import CannotSplice
from table_writer.timeline.markers import create_marker


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The newest base file of a file group.

    Attributes:
        file_id: of the group.
        instant: that wrote it.
        path: of the file.
    """

    file_id: str
    instant: str
    path: str


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """What became of a file group.

    Attributes:
        stat: for the commit.
        version: the file.
    """

    stat: WriteStat
    version: NewVersion


class GroupWriter:
    """One file group of one partition in one write."""

    def __init__(self, plan: FilePlan, task: TaskIdentity, partition: str, number: int) -> None:
        """`number` is the bucket, or the group's number among all."""
        self._plan = plan
        self._task = task
        self._partition = partition
        self._number = number
        self._started = time.monotonic()

    def write(self, incoming: Incoming, current: CurrentFile | None) -> WrittenGroup | None:
        """Merge some rows into the group's file, or make its first one; None when nothing changes."""
        if current is None:
            file_id = new_bucket_file_id(self._number) if self._plan.bucketed else new_file_id()
            version = write_first(self._request(incoming.without_deletes(), file_id, None))
        else:
            file_id = current.file_id
            version = _merged(self._request(incoming, file_id, current.path))
        if version is None:
            return None
        return WrittenGroup(self._stat(file_id, version, None if current is None else current.instant), version)

    def _request(self, incoming: Incoming, file_id: str, current: str | None) -> MergeRequest:
        plan, partition = self._plan, self._partition
        name = str(BaseFileName(file_id, self._task.token, plan.instant))

        def announce() -> None:
            create_marker(plan.storage, plan.instant, partition, name, "MERGE" if current else "CREATE")
            ensure_partition_metadata(plan.storage, partition, plan.instant)

        return MergeRequest(incoming, self._task.number, partition, current or "", name, announce)

    def _stat(self, file_id: str, version: NewVersion, previous: str | None) -> WriteStat:
        elapsed = int((time.monotonic() - self._started) * 1000)
        name = str(BaseFileName(file_id, self._task.token, self._plan.instant))
        return WriteStat(
            file_id=file_id,
            path=f"{self._partition}/{name}" if self._partition else name,
            partition_path=self._partition,
            prev_commit=previous or NO_COMMIT,
            num_writes=version.row_count,
            num_deletes=version.deleted_rows,
            num_update_writes=version.updated_rows,
            num_inserts=len(version.inserted),
            total_write_bytes=version.size,
            file_size_in_bytes=version.size,
            runtime_stats={
                "totalScanTime": 0,
                "totalUpsertTime": elapsed if previous else 0,
                "totalCreateTime": 0 if previous else elapsed,
            },
        )


def _merged(request: MergeRequest) -> NewVersion | None:
    try:
        return merge_by_surgery(request)
    except CannotSplice:
        return rewrite_whole(request)
