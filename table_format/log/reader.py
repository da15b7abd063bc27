"""Splitting a Hudi log file into its blocks."""

from struct import Struct

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.log.format import MAGIC, VERSION, BlockType, LogBlock

_INT = Struct(">i")
_LONG = Struct(">q")
_PAIR = Struct(">ii")
# Version, type, header count, content length, footer count, whole length: what an empty block has behind its length.
_SMALLEST = 4 + 4 + 4 + 8 + 4 + 8


class _BrokenBlockError(ValueError):
    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset


def read_log_blocks(data: bytes | memoryview, path: str) -> list[LogBlock]:
    """The blocks of a log file, in file order.

    As Hudi's own reader does, a block counts as corrupt when it reaches past the end of the file, when its two lengths
    differ, or when no other block (nor the end) follows; the bytes up to the next magic are then one CORRUPT block.
    Such a block is what a crash during an append leaves; its writer's instant never completed. What its header still
    tells is kept, so that the caller can refuse when a completed instant lost its block.

    Args:
        data: the whole file.
        path: the file, for messages.

    Raises:
        CorruptFileError: the file does not start with a block, or a block is whole and yet makes no sense.
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
                raise CorruptFileError(path, position, "no Hudi log block starts here; the file is no log file")
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
    """Where the block ends, or -1 when it is corrupt."""
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
    found = whole.find(MAGIC, position + 1)
    return len(whole) if found < 0 else found


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
    footer, position = _read_map(body, content_end)
    if position != len(body):
        raise _BrokenBlockError(position, "bytes stand behind the footer")
    content = view[content_start:content_end]
    return LogBlock(kind, header, content, start, end - start, path, content_start, footer)


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
