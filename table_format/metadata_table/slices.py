"""Which base file and log blocks of a file group of the metadata table hold its content."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from table_format.errors import CorruptFileError, MissingFileError, UnsupportedTableError
from table_format.log.format import BlockType, LogBlock
from table_format.log.reader import read_log_blocks
from table_format.log.scan import with_block
from table_format.metadata_table.layout import BaseFile, FileGroup, LogFile
from table_format.metadata_table.validity import ValidInstants
from table_format.slices.log_cuts import seems_cut
from table_format.storage import Storage

_READERS = 8
# Bytes that are read from a local disk before threads have started.
_SMALL = 1 << 20

LogBlocks = dict[LogFile, list[LogBlock]]
"""All blocks of log files that were read; a log file that grew is another one, for size and time are part of it."""


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The content of a file group: a base file, if any, and the blocks that apply over it, in order."""

    file_id: str
    base: BaseFile | None
    blocks: tuple[LogBlock, ...]
    log_blocks: LogBlocks


def read_slices(
    storage: Storage,
    groups: Iterable[FileGroup],
    valid: ValidInstants,
    before: str | None = None,
    known: Mapping[LogFile, list[LogBlock]] | None = None,
    *,
    complete: bool = False,
) -> list[FileSlice]:
    """Read the log files of the newest slice of each file group, several files at a time.

    Args:
        storage: of the data table.
        groups: file groups of one partition.
        valid: which blocks count.
        before: leave out slices of this instant and later ones.
        known: log files that need not be read again.
        complete: whether what is not found is taken for absent, rather than unknown.

    Raises:
        CorruptFileError: a log file breaks the format, or a completed instant lost its block.
        MissingFileError: the metadata table was compacted and cleaned, or built anew, since the timelines were read.
    """
    chosen = []
    for group in groups:
        base = valid.latest_base_file(group)
        logs = [log for log in valid.latest_log_files(group, base) if before is None or log.base_instant < before]
        if base is None and complete:
            _require_reach(group, valid)
        chosen.append((group, base, logs))
    blocks = _read_logs(storage, [log for _, _, logs in chosen for log in logs], known or {})
    for log, found in blocks.items():
        if seems_cut(found) and valid.is_cut(log.path, log.size):
            raise CorruptFileError(log.path, log.size, "the log file is cut off; drop and rebuild the metadata table")
    return [
        FileSlice(
            group.file_id,
            base,
            tuple(surviving_blocks([block for log in logs for block in blocks[log]], valid)),
            {log: blocks[log] for log in logs},
        )
        for group, base, logs in chosen
    ]


def _require_reach(group: FileGroup, valid: ValidInstants) -> None:
    """Refuse a file group of which only what came later is left: it would seem to hold nothing."""
    if not group.base_files or any(valid.committed_in_metadata(log.base_instant) for log in group.log_files):
        return
    raise MissingFileError(
        f"{group.base_files[-1].path}: the metadata table was compacted or built anew since this state of the table "
        "was read, and the files of then are gone: read the table anew"
    )


def _read_logs(storage: Storage, logs: Sequence[LogFile], known: Mapping[LogFile, list[LogBlock]]) -> LogBlocks:
    new = [log for log in logs if log not in known]
    if len(new) <= 1 or (storage.is_local and sum(log.size for log in new) < _SMALL):
        read = [_read_log(storage, log) for log in new]
    else:
        with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
            read = list(pool.map(lambda log: _read_log(storage, log), new))
    found = dict(zip(new, read, strict=True))
    return {log: found[log] if log in found else known[log] for log in logs}


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
                queue = with_block(queue, block)
        else:
            raise UnsupportedTableError(f"{block.path}: a {block.type.name} block in the metadata table")
    return queue


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
