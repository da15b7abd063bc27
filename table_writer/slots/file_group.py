"""One file group in one write: its rows become a new file, or a new version of the file that is there."""

from __future__ import annotations

from collections.abc import Iterator

from table_format.slices.file_names import new_bucket_file_id, new_file_id
from table_writer.files.file_change import CurrentFile, FileChange, WrittenFile
from table_writer.files.rewrite import rewrite_whole, write_first, write_first_in_parts
from table_writer.plan.plan import FilePlan, TaskIdentity
from table_writer.rows.slot_rows import Incoming
from table_writer.surgery.merge_file import merge_by_surgery
from table_writer.surgery.policy import CannotSplice


class GroupWriter:
    """One file group of one partition in one write."""

    def __init__(self, plan: FilePlan, task: TaskIdentity, partition: str, number: int) -> None:
        """`number` is the bucket, or the group's number among all."""
        self._plan = plan
        self._task = task
        self._partition = partition
        self._number = number

    def write(self, incoming: Incoming, current: CurrentFile | None) -> WrittenFile | None:
        """Merge some rows into the group's file, or make its first one; None when nothing changes."""
        if current is None:
            file_id = new_bucket_file_id(self._number) if self._plan.bucketed else new_file_id()
            return write_first(FileChange(incoming.without_deletes(), self._task, self._partition, file_id, None))
        change = FileChange(incoming, self._task, self._partition, current.file_id, current)
        try:
            return merge_by_surgery(change)
        except CannotSplice:
            return rewrite_whole(change)

    def write_parts(self, parts: Iterator[Incoming]) -> WrittenFile | None:
        """Make the group's first file of rows that come part by part, their keys rising; None when there are none."""
        file_id = new_bucket_file_id(self._number) if self._plan.bucketed else new_file_id()
        changes = (FileChange(part.without_deletes(), self._task, self._partition, file_id, None) for part in parts)
        return write_first_in_parts(change for change in changes if len(change.incoming.keys))
