"""Which instants of the metadata table count, and which base file and log blocks of a file group hold its content.

The metadata table commits an instant before the data table does. A block therefore counts only when the data table
completed its instant too, or when it belongs to the metadata table's own services.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.instant import Action
from table_format.log.format import BlockType, HeaderKey, LogBlock
from table_format.log.reader import read_log_blocks
from table_format.metadata_table.layout import BaseFile, FileGroup, LogFile, has_service_suffix
from table_format.storage import Storage
from table_format.timeline import Timeline

_READERS = 8
_BOOTSTRAP_PREFIX = "0" * 14


class ValidInstants:
    """Decides whether a log block of the metadata table counts.

    Args:
        data: the data table's timeline.
        metadata: the metadata table's own timeline.
    """

    def __init__(self, data: Timeline, metadata: Timeline) -> None:
        self._data_done = {instant.time for instant in data.completed}
        self._data_pending = {instant.time for instant in data.pending if _is_write(instant.action)}
        self._data_first = _first(data)
        self._done = {instant.time for instant in metadata.completed}
        self._pending = {instant.time for instant in metadata.pending} - self._done
        self._first = _first(metadata)
        services = (Action.ROLLBACK, Action.RESTORE)
        self._services = {instant.time for instant in metadata.completed if instant.action in services}
        self._rolled_back = data.rolled_back

    def committed_in_metadata(self, time: str) -> bool:
        """Whether the metadata table itself completed an instant; its archived instants did."""
        return time in self._done or (time < self._first and time not in self._pending)

    def __contains__(self, time: str) -> bool:
        """Whether blocks of an instant count, as Hudi decides it for tables of version 6."""
        if not self.committed_in_metadata(time) or time in self._data_pending:
            return False
        return (
            time in self._data_done
            or time in self._rolled_back
            or time in self._services
            or has_service_suffix(time)
            or time.startswith(_BOOTSTRAP_PREFIX)
            or time < self._data_first
        )


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The content of a file group: a base file, if any, and the blocks that apply over it, in order."""

    file_id: str
    base: BaseFile | None
    blocks: tuple[LogBlock, ...]


def latest_base_file(group: FileGroup, valid: ValidInstants) -> BaseFile | None:
    """The newest base file that a completed compaction (or the partition's creation) left."""
    done = [base for base in group.base_files if valid.committed_in_metadata(base.instant)]
    return done[-1] if done else None


def latest_log_files(group: FileGroup, base: BaseFile | None) -> list[LogFile]:
    """The log files over a base file.

    Logs may already name a later compaction that has not completed; they apply over the same base file.
    """
    return [log for log in group.log_files if base is None or log.base_instant >= base.instant]


def read_slices(
    storage: Storage, groups: Iterable[FileGroup], valid: ValidInstants, before: str | None = None
) -> list[FileSlice]:
    """Read the log files of the newest slice of each file group, several files at a time.

    Args:
        storage: of the data table.
        groups: the file groups of one partition.
        valid: which blocks count.
        before: leave out slices of this instant and later ones.

    Raises:
        CorruptFileError: a log file breaks the format, or a completed instant lost its block.
    """
    chosen = []
    for group in groups:
        base = latest_base_file(group, valid)
        logs = [log for log in latest_log_files(group, base) if before is None or log.base_instant < before]
        chosen.append((group, base, logs))
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        reading = [[pool.submit(_read_log, storage, log) for log in logs] for _, _, logs in chosen]
        blocks = [[block for future in files for block in future.result()] for files in reading]
    return [
        FileSlice(group.file_id, base, tuple(surviving_blocks(read, valid)))
        for (group, base, _), read in zip(chosen, blocks, strict=True)
    ]


def surviving_blocks(blocks: Sequence[LogBlock], valid: ValidInstants) -> list[LogBlock]:
    """The data and delete blocks that count, in the order in which they apply.

    A rollback block drops the blocks of its target that stand before it. A block made of others (log compaction)
    takes the place of those.
    """
    queue: list[LogBlock] = []
    for block in blocks:
        if block.type is BlockType.CORRUPT:
            _check_torn(block, valid)
        elif block.type is BlockType.COMMAND:
            target = block.target_instant
            queue = [queued for queued in queue if queued.instant != target]
        elif block.type in (BlockType.HFILE_DATA, BlockType.DELETE):
            if block.instant is not None and block.instant in valid:
                queue = _with_block(queue, block)
        else:
            raise UnsupportedTableError(f"{block.path}: a {block.type.name} block in the metadata table")
    return queue


def _with_block(queue: list[LogBlock], block: LogBlock) -> list[LogBlock]:
    replaced = block.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
    if replaced is None:
        return [*queue, block]
    times = set(replaced.split(","))
    kept = [queued for queued in queue if queued.instant not in times]
    # What the compacted blocks followed stays before them, what followed the last of them stays behind.
    last = max((place for place, queued in enumerate(queue) if queued.instant in times), default=len(queue))
    place = sum(1 for queued in queue[:last] if queued.instant not in times)
    return [*kept[:place], block, *kept[place:]]


def _check_torn(block: LogBlock, valid: ValidInstants) -> None:
    """A torn append belongs to a dead writer; a broken block of a completed instant is lost content."""
    if block.instant is not None and block.instant in valid:
        raise CorruptFileError(
            block.path,
            block.offset,
            f"the log block of the completed instant {block.instant} is broken; drop and rebuild the metadata table",
        )


def _read_log(storage: Storage, log: LogFile) -> list[LogBlock]:
    return read_log_blocks(storage.read(log.path), log.path)


def _is_write(action: str) -> bool:
    return action not in (Action.SAVEPOINT, Action.INDEXING)


def _first(timeline: Timeline) -> str:
    return min((instant.time for instant in timeline.instants), default="")
