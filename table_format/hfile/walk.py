"""Finding where the entries of data blocks start: each start follows from the lengths before it.

Walking from entry to entry takes a step of Python for each. Mostly there is no need. Entries of an index are often
equally long: where the lengths of the first entry stand at each multiple of its size, these are the entries. Else, each
key ends with ten bytes that are the same everywhere and hardly occur elsewhere. Where all of them are found, and the
lengths before the keys lead exactly from each entry to the next and from the first to the end, these are the entries;
else the walk is made.
"""

from __future__ import annotations

from collections import Counter
from struct import Struct
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from table_format.codecs.byte_spans import Bytes, Positions

SUFFIX: Final = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
"""Every key ends with an empty family, the greatest timestamp and the type Put."""
KEY_OVERHEAD: Final = 2 + len(SUFFIX)
LENGTHS: Final = Struct(">II")
ENTRY_OVERHEAD: Final = LENGTHS.size + 1
"""Two lengths before key and value, one byte (MVCC version 0) behind them."""

# Bytes that are walked one entry at a time before numpy has started.
_FEW_BYTES = 8 * 1024
_FOUR = np.uint32(0xFFFFFFFF)
_PATTERN = np.uint64(int.from_bytes(SUFFIX[1:9], "big"))
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_FRONT = LENGTHS.size + 2
# Lengths of keys that are tried in vain before the walk is the shorter way.
_MOST_LENGTHS = 64
_SAMPLE = 64


def find_entries(buffer: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, int | None]:
    """Where each entry of some data blocks starts.

    Args:
        buffer: the decompressed content of the blocks, one behind the other.
        begins: where each block's content begins in it.
        ends: where it ends, which is where the next one begins.

    Returns:
        The places, ascending; and the number of a block in which lengths lead out of it, None if all is well.
    """
    if len(begins) and int(ends[-1]) - int(begins[0]) > _FEW_BYTES and bool((begins[1:] == ends[:-1]).all()):
        begin, end = int(begins[0]), int(ends[-1])
        found = _equally_long(buffer, begin, end)
        if found is None:
            found = _by_key_ends(buffer, begin, end)
        if found is not None:
            at = np.searchsorted(found, begins)
            if at[-1] < len(found) and bool((found[at] == begins).all()):
                return found, None
    return _one_by_one(buffer, begins, ends)


def _one_by_one(buffer: Bytes, begins: Positions, ends: Positions) -> tuple[Positions, int | None]:
    found: list[int] = []
    wrong = None
    for block, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        reached = _walk(buffer, begin, end, found)
        if reached != end and wrong is None:
            wrong = block
    return np.array(found, dtype=np.int64), wrong


def _walk(buffer: Bytes, position: int, end: int, found: list[int], most: int = -1) -> int:
    """Note the starts of entries between two places, up to a number of them; the place behind the last one."""
    note, unpack, overhead = found.append, LENGTHS.unpack_from, ENTRY_OVERHEAD
    data = memoryview(cast("Any", buffer))
    while position + overhead <= end and len(found) != most:
        note(position)
        key, value = unpack(data, position)
        position += key + value + overhead
    return position


def _equally_long(buffer: Bytes, begin: int, end: int) -> Positions | None:
    """All entries between two places, if each has a key and a value as long as those of the first."""
    key, value = LENGTHS.unpack_from(memoryview(cast("Any", buffer)), begin)
    size = key + value + ENTRY_OVERHEAD
    count, rest = divmod(end - begin, size)
    if rest:
        return None
    lengths: NDArray[Any] = np.ndarray((count,), "<u8", buffer=cast("Any", buffer), offset=begin, strides=(size,))
    if not bool((lengths == lengths[0]).all()):
        return None
    return np.arange(begin, end, size, dtype=np.int64)


def _by_key_ends(buffer: Bytes, begin: int, end: int) -> Positions | None:
    """All entries between two places, found by the ends of their keys; None where that does not prove itself."""
    starts, heads = _starts(buffer, begin, end)
    if not len(starts) or starts[0] != begin:
        return None
    following = starts + ENTRY_OVERHEAD
    following += (heads >> _HALF).view(np.int64)
    following += (heads & _LOW).view(np.int64)
    proven = following[-1] == end and bool((following[:-1] == starts[1:]).all())
    return starts if proven else None


def _key_lengths(buffer: Bytes, begin: int, end: int, most: int) -> list[int]:
    """The distinct lengths of the keys of some first entries, the most frequent first."""
    starts: list[int] = []
    _walk(buffer, begin, end, starts, most)
    lengths = [LENGTHS.unpack_from(memoryview(cast("Any", buffer)), start)[0] - KEY_OVERHEAD for start in starts]
    return [length for length, _ in Counter(lengths).most_common() if 0 <= length <= len(buffer)]


def _key_ends(buffer: Bytes, begin: int, end: int) -> Positions:
    """Where the ends of keys may begin: seven bytes of ones have four of them in one word of the buffer."""
    words: NDArray[np.uint32] = buffer[: len(buffer) // 4 * 4].view("<u4")
    full = np.flatnonzero(words[begin // 4 : end // 4] == _FOUR)
    full += begin // 4
    full = full[full > _FRONT // 4]
    before = words[full - 1]
    # how many of the ones stand in the word before
    ahead = (before >= np.uint32(0xFF000000)).view(np.uint8) + (before >= np.uint32(0xFFFF0000)).view(np.uint8)
    ahead += (before >= np.uint32(0xFFFFFF00)).view(np.uint8)
    full <<= 2
    full -= ahead
    full -= 2
    return cast("Positions", full)


def _starts(buffer: Bytes, begin: int, end: int) -> tuple[Positions, NDArray[np.uint64]]:
    """The entries whose keys end where it seems, ascending, and the lengths that stand at their starts."""
    heads, key_ends = _heads(buffer), _key_ends(buffer, begin, end)
    for length in _key_lengths(buffer, begin, end, 1):  # mostly all keys are equally long
        starts, words, fits = _with_length(heads, key_ends, length)
        if fits.all():
            return starts, words
    sampled = _key_lengths(buffer, begin, end, _SAMPLE)
    left = key_ends[heads[np.minimum(key_ends + 1, len(heads) - 1)].astype(np.uint64) == _PATTERN]
    found, found_heads = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    for length in [*sampled, *(other for other in range(_MOST_LENGTHS) if other not in sampled)]:
        starts, words, fits = _with_length(heads, left, length)
        found.append(starts[fits])
        found_heads.append(words[fits])
        left = left[~fits]
        if not left.size:
            break
    starts, words = np.concatenate(found), np.concatenate(found_heads)
    order = np.argsort(starts, kind="stable")
    return starts[order], words[order]


def _with_length(
    heads: NDArray[Any], key_ends: Positions, length: int
) -> tuple[Positions, NDArray[np.uint64], NDArray[np.bool_]]:
    """Starts of entries with keys of one length, what stands there, and where it says that length."""
    starts = key_ends - (_FRONT + length)
    inside = starts if not starts.size or int(starts.min()) >= 0 else np.maximum(starts, 0)
    words = heads[inside].astype(np.uint64)
    fits = words >> _HALF == np.uint64(length + KEY_OVERHEAD)
    if inside is not starts:
        fits &= starts >= 0
    return starts, words, fits


def _heads(buffer: Bytes) -> NDArray[Any]:
    """The eight bytes from each place on, as a big-endian number, without a copy."""
    return np.ndarray((max(len(buffer) - 7, 0),), dtype=">u8", buffer=cast("Any", buffer), strides=(1,))
