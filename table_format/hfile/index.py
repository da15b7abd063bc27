"""The block index of an HFile: which block holds which range of keys; entries are written here too, as one struct."""

import bisect
import itertools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import Struct

import numpy as np

from table_format.codecs.arrow_numpy import DISORDERED_BYTE
from table_format.codecs.varint import BadEncodingError, read_hadoop_vint, require, write_hadoop_vint
from table_format.errors import CorruptFileError

_ENTRY = Struct(">qi")
_COUNT = Struct(">i")


@dataclass(frozen=True, slots=True)
class BlockIndex:
    """Index of blocks, in file order.

    Attributes:
        offsets: offset of each block in the file.
        sizes: bytes of each block in the file.
        first_keys: for each block a key not after its first entry, and after all entries of the previous block.
    """

    offsets: list[int]
    sizes: list[int]
    first_keys: list[bytes]

    def __len__(self) -> int:
        return len(self.offsets)

    def block_of(self, key: bytes) -> int:
        """The block that can contain a key; -1 if the key is before all blocks."""
        return bisect.bisect_right(self.first_keys, key) - 1

    def blocks_of_prefix(self, prefix: bytes) -> range:
        """The blocks that can contain keys with a prefix."""
        size = len(prefix)
        low = max(bisect.bisect_left(self.first_keys, prefix) - 1, 0)
        high = bisect.bisect_right(self.first_keys, prefix, lo=low, key=lambda key: key[:size])
        return range(low, high)


def read_entries(content: bytes, start: int, count: int, offset: int, path: str) -> tuple[BlockIndex, int]:
    """Parse `count` entries of a root index; entries and their end.

    Args:
        content: the decompressed index block.
        start: start of the first entry.
        count: the number of entries.
        offset: the block's offset in the file, for messages.
        path: the file, for messages.

    Raises:
        CorruptFileError: the content is malformed.
    """
    offsets, sizes, keys = [], [], []
    position = start
    try:
        for _ in range(count):
            place, size = _ENTRY.unpack_from(content, position)
            length, key_start = read_hadoop_vint(content, position + _ENTRY.size)
            position = key_start + length
            require(position <= len(content), key_start, "a key is cut off")
            require(place >= 0 and size > 0, position, "a block has an impossible offset or size")
            offsets.append(place)
            sizes.append(size)
            keys.append(content[key_start:position])
    except (BadEncodingError, struct.error) as error:
        raise CorruptFileError(path, offset, f"broken HFile index: {error}; restore the file") from error
    return BlockIndex(offsets, sizes, keys), position


def read_root(content: bytes, count: int, offset: int, path: str, *, rows: bool) -> BlockIndex:
    """Parse a root index (or the meta index, whose keys are plain names).

    Args:
        content: the decompressed index block.
        count: the number of entries, from the trailer.
        offset: the block's offset in the file, for messages.
        path: the file, for messages.
        rows: the keys are HBase keys, of which only the row is returned.

    Raises:
        CorruptFileError: the content is malformed.
    """
    if count > len(content):
        raise CorruptFileError(path, offset, "the HFile trailer counts more index entries than the index can hold")
    index, end = read_entries(content, 0, count, offset, path)
    # After the entries of a multi-level root HBase stores its middle key (16 bytes).
    if end not in (len(content), len(content) - 16):
        raise CorruptFileError(path, offset, "the HFile index has unknown bytes after its entries; restore the file")
    return _sorted(_with_rows(index, offset, path), offset, path) if rows else index


def _with_rows(index: BlockIndex, offset: int, path: str) -> BlockIndex:
    rows = []
    for key in index.first_keys:
        length = int.from_bytes(key[:2], "big")
        if len(key) < 2 + length:
            raise CorruptFileError(path, offset, "the HFile index holds a key that is cut off; restore the file")
        rows.append(key[2 : 2 + length])
    return BlockIndex(index.offsets, index.sizes, rows)


def order_is_doubtful(key: bytes) -> bool:
    """Whether Java may order a key differently from its bytes.

    Java compares strings by UTF-16 units. This is the order of the UTF-8 bytes, except for characters from U+E000
    on, and the format does not prevent a writer of log blocks from using it.
    """
    return bool(key) and max(key) >= DISORDERED_BYTE


def _sorted(index: BlockIndex, offset: int, path: str) -> BlockIndex:
    keys = index.first_keys
    if any(a > b for a, b in itertools.pairwise(keys)) and not any(order_is_doubtful(key) for key in keys):
        raise CorruptFileError(path, offset, "the keys of the HFile index are not in order; restore the file")
    places, sizes = index.offsets, index.sizes
    if any(place + size > after for place, size, after in zip(places, sizes, places[1:], strict=False)):
        raise CorruptFileError(path, offset, "the blocks of the HFile index overlap; restore the file")
    return index


def read_lower_level(content: bytes, offset: int, path: str) -> BlockIndex:
    """Parse an intermediate or leaf index block, which HBase writes once the root gets too large.

    A count; the start of each entry, and the end of the last one; then the entries: offset and
    size of a block, and a key without a length, which follows from the starts (HBase, HFileBlockIndex.writeNonRoot).

    Raises:
        CorruptFileError: the content is malformed.
    """
    if len(content) < _COUNT.size:
        raise CorruptFileError(path, offset, "an HFile index block is cut off; restore the file")
    (count,) = _COUNT.unpack_from(content)
    start = _COUNT.size * (count + 2)
    if not 0 < count <= len(content) // _ENTRY.size or start > len(content):
        raise CorruptFileError(path, offset, "an HFile index block counts more entries than it can hold, or none")
    begins = np.frombuffer(content, ">i4", count + 1, _COUNT.size).astype(np.int64)
    if begins[0] or begins[-1] != len(content) - start or int(np.diff(begins).min()) < _ENTRY.size:
        raise CorruptFileError(path, offset, "the entries of an HFile index block do not fill it; restore the file")
    entries = [content[begin:end] for begin, end in itertools.pairwise((begins + start).tolist())]
    places = [_ENTRY.unpack_from(entry) for entry in entries]
    if any(place < 0 or size <= 0 for place, size in places):
        raise CorruptFileError(path, offset, "an HFile index block names an impossible block; restore the file")
    keys = [entry[_ENTRY.size :] for entry in entries]
    index = BlockIndex([place for place, _ in places], [size for _, size in places], keys)
    return _sorted(_with_rows(index, offset, path), offset, path)


def expand_levels(
    index: BlockIndex, levels: int, read_lower: Callable[[BlockIndex], Sequence[bytes]], offset: int, path: str
) -> BlockIndex:
    """Replace a multi-level root by the index of the data blocks themselves.

    Args:
        index: the root.
        levels: the number of levels, 1 when the root points to data blocks.
        read_lower: returns the decompressed index blocks that an index points to.
        offset: the root's offset in the file, for messages.
        path: the file, for messages.

    Raises:
        CorruptFileError: too many levels, or a broken one.
    """
    if levels > 16:
        raise CorruptFileError(path, offset, f"an HFile index of {levels} levels; the trailer is broken")
    for _ in range(levels - 1):
        contents = read_lower(index)
        parts = [read_lower_level(content, place, path) for content, place in zip(contents, index.offsets, strict=True)]
        index = BlockIndex(
            [value for part in parts for value in part.offsets],
            [value for part in parts for value in part.sizes],
            [value for part in parts for value in part.first_keys],
        )
        index = _sorted(index, offset, path)
    return index


def write_entry(offset: int, size: int, key: bytes) -> bytes:
    """One index entry."""
    return _ENTRY.pack(offset, size) + write_hadoop_vint(len(key)) + key
