"""Blocks of Hudi log files: parsing, and the blocks that apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from table_format.errors import CorruptFileError, UnsupportedTableError

MAGIC = b"#HUDI#"
VERSION = 1


class BlockType(IntEnum):
    """Type of a log block; the values are part of the format."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's header; the values are part of the format. Table version 6 has those up to BLOCK_IDENTIFIER."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND = "0"


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block of a log file.

    Attributes:
        type: block type. CORRUPT marks bytes that are not a whole block, such as a torn append: readers skip it.
        header: values by `HeaderKey`; of a CORRUPT block those that could be read, to identify its instant.
        content: the bytes between header and footer.
        offset: start of the block in the file.
        size: bytes of the block in the file.
        path: the file.
        content_offset: start of the content in the file.
    """

    type: BlockType
    header: dict[int, str]
    content: memoryview
    offset: int
    size: int
    path: str
    content_offset: int

    @property
    def instant(self) -> str | None:
        """The instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def target_instant(self) -> str | None:
        """The instant that a rollback block rolls back; None for any other block."""
        if self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND:
            return self.header.get(HeaderKey.TARGET_INSTANT_TIME)
        return None

    @property
    def schema_json(self) -> str | None:
        """The Avro schema of the content."""
        return self.header.get(HeaderKey.SCHEMA)


_INT = Struct(">i")
_LONG = Struct(">q")
_PAIR = Struct(">ii")

# Version, type, header count, content length, footer count, whole length: fields of an empty block after its length.
_SMALLEST = 4 + 4 + 4 + 8 + 4 + 8


class _BrokenBlockError(ValueError):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def read_log_blocks(data: bytes | memoryview, path: str) -> list[LogBlock]:
    """Parse the blocks of a log file, in file order.

    As in Hudi's reader, a block is corrupt if it reaches past the end of the file, if its two lengths
    differ, or if neither another block nor the end follows; the bytes up to the next magic are then one CORRUPT block.
    A crash during an append leaves such a block; its writer's instant never completed. Its header is parsed as far as
    possible, so that the caller can refuse a corrupt block of a completed instant.

    Args:
        data: the whole file.
        path: the file, for messages.

    Raises:
        CorruptFileError: the file does not start with a block, or a whole block is malformed.
        UnsupportedTableError: a block of format version 0 (before 2018).
    """
    view = memoryview(data)
    whole = bytes(data)
    blocks: list[LogBlock] = []
    position = 0
    while position < len(view):
        if whole[position : position + len(MAGIC)] != MAGIC:
            torn = MAGIC.startswith(whole[position : position + len(MAGIC)])
            if not torn:
                raise CorruptFileError(path, position, "no Hudi log block starts here; the file is not a log file")
            end = len(view)
        else:
            end = _block_end(view, whole, position)
        if end < 0 or whole[position : position + len(MAGIC)] != MAGIC:
            end = _next_magic(whole, position)
            blocks.append(_corrupt(view, position, end, path))
        else:
            try:
                blocks.append(_parse(view, position, end, path))
            except _BrokenBlockError as error:
                raise CorruptFileError(path, error.offset, f"broken log block: {error}; restore the file") from error
        position = end
    return blocks


def _block_end(view: memoryview, whole: bytes, position: int) -> int:
    """End of the block, or -1 if it is corrupt."""
    start = position + len(MAGIC) + _LONG.size
    if start > len(view):
        return -1
    (length,) = _LONG.unpack_from(view, position + len(MAGIC))
    end: int = start + length
    if length < _SMALLEST or end > len(view):
        return -1
    (total,) = _LONG.unpack_from(view, end - _LONG.size)
    follows = whole[end : end + len(MAGIC)]
    return end if total == length + len(MAGIC) and MAGIC.startswith(follows) else -1


def _next_magic(whole: bytes, position: int) -> int:
    magic_at = whole.find(MAGIC, position + 1)
    return len(whole) if magic_at < 0 else magic_at


def _corrupt(view: memoryview, start: int, end: int, path: str) -> LogBlock:
    header: dict[int, str] = {}
    position = start + len(MAGIC) + _LONG.size + 2 * _INT.size
    try:
        header, _ = _read_map(view[:end], position)
    except _BrokenBlockError:
        header = {}
    return LogBlock(BlockType.CORRUPT, header, view[start:end], start, end - start, path, start)


def _parse(view: memoryview, start: int, end: int, path: str) -> LogBlock:
    position = start + len(MAGIC) + _LONG.size
    version, number = _PAIR.unpack_from(view, position)
    if version == 0:
        raise UnsupportedTableError(f"{path}: log block of format version 0; compact the table with an old Hudi first")
    if version != VERSION:
        raise _BrokenBlockError(position, f"unknown format version {version}")
    try:
        kind = BlockType(number)
    except ValueError as error:
        raise _BrokenBlockError(position + 4, f"unknown block type {number}") from error
    body = view[: end - _LONG.size]
    header, position = _read_map(body, position + _PAIR.size)
    length, content_start = _read(body, position, _LONG)
    content_end = content_start + length
    if not 0 <= length <= len(body) - content_start:
        raise _BrokenBlockError(position, "the content is longer than the block")
    _, position = _read_map(body, content_end)
    if position != len(body):
        raise _BrokenBlockError(position, "there are bytes after the footer")
    content = view[content_start:content_end]
    return LogBlock(kind, header, content, start, end - start, path, content_start)


def _read(view: memoryview, position: int, kind: Struct) -> tuple[int, int]:
    if position + kind.size > len(view):
        raise _BrokenBlockError(position, "it is cut off")
    return kind.unpack_from(view, position)[0], position + kind.size


def _read_map(view: memoryview, position: int) -> tuple[dict[int, str], int]:
    count, position = _read(view, position, _INT)
    if not 0 <= count <= (len(view) - position) // _PAIR.size:
        raise _BrokenBlockError(position, f"impossible number of header entries ({count})")
    entries: dict[int, str] = {}
    for _ in range(count):
        key, position = _read(view, position, _INT)
        length, position = _read(view, position, _INT)
        if not 0 <= length <= len(view) - position:
            raise _BrokenBlockError(position, "a header value is longer than the block")
        try:
            entries[key] = bytes(view[position : position + length]).decode()
        except UnicodeDecodeError as error:
            raise _BrokenBlockError(position, "a header value is not text") from error
        position += length
    return entries, position


_METADATA_CONTENT = (BlockType.HFILE_DATA, BlockType.DELETE)
_CONTENT = (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, *_METADATA_CONTENT)


def surviving_blocks(
    blocks: Iterable[LogBlock], counts: Callable[[str], bool], *, in_metadata: bool = False
) -> list[LogBlock]:
    """Data and delete blocks that apply, in order (Hudi format, log files).

    A rollback block drops earlier blocks of its target. A block made of others by log compaction takes their
    place. Blocks of change data are ignored.

    Args:
        blocks: of all log files of a slice, in merge order.
        counts: whether the blocks of an instant apply: it completed, and not after the query's instant.
        in_metadata: they are of the metadata table, whose records are in HFile blocks only.

    Raises:
        CorruptFileError: a completed instant's block is broken, or a block has no instant.
        UnsupportedTableError: an unknown command, or in the metadata table data that it does not hold.
    """
    content = _METADATA_CONTENT if in_metadata else _CONTENT
    remedy = "drop and rebuild the metadata table" if in_metadata else "restore the file"
    queue: list[LogBlock] = []
    for block in blocks:
        if block.type is BlockType.CORRUPT:
            # left by a torn append, whose instant never completed; else rows are lost
            if block.instant is not None and counts(block.instant):
                reason = f"the log block of the completed instant {block.instant} is broken; {remedy}"
                raise CorruptFileError(block.path, block.offset, reason)
        elif block.type is BlockType.COMMAND:
            target = block.target_instant
            if target is None:
                raise UnsupportedTableError(f"{block.path}: {_command_of(block)}; {remedy}")
            queue = [queued for queued in queue if queued.instant != target]
        elif block.type in content:
            if block.instant is None:
                raise CorruptFileError(block.path, block.offset, f"a log block has no instant; {remedy}")
            if counts(block.instant):
                queue = with_block(queue, block)
        elif in_metadata:
            raise UnsupportedTableError(f"{block.path}: a {block.type.name} block in the metadata table; {remedy}")
    return queue


def _command_of(block: LogBlock) -> str:
    command = block.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
    if command == ROLLBACK_COMMAND:
        return "a rollback in a log that names no instant"
    return f"a log command other than a rollback, number {command}"


def with_block(queue: list[LogBlock], block: LogBlock) -> list[LogBlock]:
    """Append a block to the queue; a block made by log compaction replaces the blocks that it was made of."""
    replaced = block.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
    if replaced is None:
        return [*queue, block]
    times = {time.strip() for time in replaced.split(",")}
    remaining = [queued for queued in queue if queued.instant not in times]
    # Blocks before the compacted ones stay before the new block, blocks after the last of them stay after it.
    last = max((place for place, queued in enumerate(queue) if queued.instant in times), default=len(queue))
    place = sum(1 for queued in queue[:last] if queued.instant not in times)
    return [*remaining[:place], block, *remaining[place:]]
