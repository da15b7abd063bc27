"""Log files that lost their end, as told from what an append that never completed leaves."""

from __future__ import annotations

from collections.abc import Sequence

from table_format.log.format import BlockType, LogBlock
from table_format.slices.file_names import LogFileName
from table_format.timeline.timeline import Timeline

_NAMED_AFTER_WRITES = 2


def seems_cut(blocks: Sequence[LogBlock]) -> bool:
    """Whether a log file is empty, or bytes in it do not tell which instant wrote them."""
    return not blocks or any(block.type is BlockType.CORRUPT and block.instant is None for block in blocks)


def is_cut(path: str, size: int, timeline: Timeline) -> bool:
    """Whether completed writes of the active timeline left more in a log file than there is.

    From layout 2 on a log file is of one write, after which it is named. In layout 1 several writes may have appended
    to it; commit metadata tell how large each of them left it.

    Args:
        path: relative to the table.
        size: bytes that there are.
        timeline: of the table.
    """
    name = LogFileName.parse(path.rpartition("/")[2])
    if timeline.layout >= _NAMED_AFTER_WRITES:
        return name is not None and timeline.is_committed(name.instant)
    return any(
        stat.path == path and stat.file_size_in_bytes > size
        for write in timeline.writes
        for stat in timeline.commit_metadata(write).stats()
    )
