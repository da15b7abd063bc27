"""Which blocks of a file slice's log files count."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.log.format import BlockType, HeaderKey, LogBlock

_CONTENT = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.HFILE_DATA, BlockType.DELETE)


def surviving_blocks(blocks: Iterable[LogBlock], counts: Callable[[str], bool]) -> list[LogBlock]:
    """The data and delete blocks that count, in the order in which they apply (Hudi format, log files).

    A rollback block drops the blocks of its target before it. A block made of others by log compaction takes their
    place. Blocks of change data are none of a query's.

    Args:
        blocks: of all log files of a slice, in merge order.
        counts: whether the blocks of an instant count: it completed, and not after the query's instant.

    Raises:
        CorruptFileError: a completed instant's block is broken, or a block names no instant.
        UnsupportedTableError: a command that is not known.
    """
    queue: list[LogBlock] = []
    for block in blocks:
        if block.type is BlockType.CORRUPT:
            # what a torn append leaves; its instant never completed, or rows are lost
            if block.instant is not None and counts(block.instant):
                reason = f"the log block of the completed instant {block.instant} is broken; restore the file"
                raise CorruptFileError(block.path, block.offset, reason)
        elif block.type is BlockType.COMMAND:
            target = block.target_instant
            if target is None:
                raise UnsupportedTableError(f"{block.path}: a log command other than a rollback")
            queue = [queued for queued in queue if queued.instant != target]
        elif block.type in _CONTENT:
            if block.instant is None:
                raise CorruptFileError(block.path, block.offset, "a log block names no instant; restore the file")
            if counts(block.instant):
                queue = with_block(queue, block)
    return queue


def with_block(queue: list[LogBlock], block: LogBlock) -> list[LogBlock]:
    """The queue with one more block; one that log compaction made of others takes their place."""
    replaced = block.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
    if replaced is None:
        return [*queue, block]
    times = {time.strip() for time in replaced.split(",")}
    kept = [queued for queued in queue if queued.instant not in times]
    # What the compacted blocks followed stays before them, what followed the last of them stays behind.
    last = max((place for place, queued in enumerate(queue) if queued.instant in times), default=len(queue))
    place = sum(1 for queued in queue[:last] if queued.instant not in times)
    return [*kept[:place], block, *kept[place:]]
