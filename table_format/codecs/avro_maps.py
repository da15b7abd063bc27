"""Finds the entries of Avro maps in a buffer, for many maps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from table_format.codecs.arrow_numpy import Bytes, Positions
from table_format.codecs.avro_schema_tree import Node
from table_format.codecs.avro_values import BadValueError, checked_lengths, read_long
from table_format.errors import SchemaError

# Fewer blocks than this are faster one by one.
_FEW_BLOCKS = 24

# Walking fewer entries takes no longer than the numpy calls that guess them.
_FEW_ENTRIES = 256
_SIZE_AND_FLAG = (0, 1)


@dataclass(frozen=True, slots=True)
class MapEntries:
    """Positions of the entries of maps.

    Attributes:
        records: for each entry the index of its map.
        key_starts: start of each key's bytes.
        key_lengths: bytes of each key.
        value_starts: start of each value.
        ends: end position of each map.
    """

    records: Positions
    key_starts: Positions
    key_lengths: Positions
    value_starts: Positions
    ends: Positions


def walk_maps(buffer: Bytes, item: Node, at: Positions) -> MapEntries:
    """Find the entries of maps.

    A metadata table stores the files of a partition in one map. The starts of its entries are guessed from all bytes at
    once and proven by their lengths. If the guess is wrong, entries are walked in order: the maps of several partitions
    side by side, an entry of each at a time; once few maps remain, entry by entry.

    Raises:
        BadValueError: counts or lengths that are impossible.
        IndexError: the buffer ends inside a map.
        SchemaError: values of another type.
    """
    steps = _steps(item)
    ends = at.astype(np.int64, copy=True)
    active = np.arange(len(at))
    blocks: list[tuple[Positions, Positions, Positions]] = []
    while active.size:
        counts, after = read_long(buffer, ends[active])
        sized = counts < 0
        if sized.any():
            _, after[sized] = read_long(buffer, after[sized])
        counts = np.abs(counts)
        ends[active] = after
        more = counts != 0
        active, counts = active[more], counts[more]
        # Every entry has at least one byte.
        if (counts < 0).any() or counts.sum(dtype=np.float64) > len(buffer):
            raise BadValueError("a map has an impossible number of entries")
        if active.size:
            keys, key_ends, ends[active] = _walk_blocks(buffer, ends[active], counts, steps)
            blocks.append((np.repeat(active, counts), keys, key_ends))
    if not blocks:
        none = np.empty(0, np.int64)
        return MapEntries(none, none, none, none, ends)
    records, keys, key_ends = (np.concatenate(columns) for columns in zip(*blocks, strict=True))
    if len(blocks) > 1:
        order = np.argsort(records, kind="stable")
        records, keys, key_ends = records[order], keys[order], key_ends[order]
    return MapEntries(records, keys, key_ends - keys, key_ends, ends)


def _walk_blocks(
    buffer: Bytes, at: Positions, counts: Positions, steps: tuple[int, ...]
) -> tuple[Positions, Positions, Positions]:
    """Find the entries of blocks of map entries.

    Args:
        buffer: the bytes.
        at: start of the first entry of each block.
        counts: entries of each block, more than 0.
        steps: sizes of a value's parts, see `_steps`.

    Returns:
        Start and end of each key, block after block; end of each block.
    """
    guessed = _guessed_blocks(buffer, at, counts) if steps == _SIZE_AND_FLAG else None
    if guessed is not None:
        return guessed
    firsts = np.cumsum(counts) - counts
    starts, key_ends = np.empty((2, int(counts.sum())), np.int64)
    order = np.argsort(-counts, kind="stable")  # unfinished blocks are always the first ones
    position, place, left = at[order], firsts[order], counts[order]
    going = len(order)
    for done in range(int(left[0])):
        while going and left[going - 1] <= done:
            going -= 1
        if going < _FEW_BLOCKS:
            break
        lengths, key = read_long(buffer, position[:going])
        starts[place[:going] + done] = key
        ends = key + checked_lengths(buffer, lengths)
        key_ends[place[:going] + done] = ends
        for step in steps:
            ends = ends + step if step else read_long(buffer, ends)[1]
        position[:going] = ends
    else:
        going = 0
    data = memoryview(cast("Any", buffer))
    for block in range(going):
        spans: tuple[list[int], list[int]] = [], []
        position[block] = _walk_entries(data, int(position[block]), int(left[block]) - done, steps, spans)
        rest = slice(int(place[block]) + done, int(place[block]) + int(left[block]))
        starts[rest], key_ends[rest] = spans
    ends = np.empty(len(order), np.int64)
    ends[order] = position
    return starts, key_ends, ends


def _guessed_blocks(buffer: Bytes, at: Positions, counts: Positions) -> tuple[Positions, Positions, Positions] | None:
    """As `_walk_blocks`, for entries of a number and a flag; None if they are few, or not where they seem to be.

    An entry ends with the flag, a byte of 0 or 1. Keys are texts without such bytes, and the next key's length begins
    with a greater one. In the length and the number a byte of 0 or 1 can be the last of several, after one of 0x80
    or more; the flag after it is a byte of 0 or 1 again.
    """
    total = int(counts.sum())
    if total < _FEW_ENTRIES:
        return None
    begin = int(at.min())
    region = buffer[begin:]
    low = region <= 1
    ends = low[1:-1] & ~low[2:]
    ends &= region[:-2] < 0x80
    following = np.flatnonzero(ends) + (begin + 2)
    firsts = np.cumsum(counts) - counts
    skipped = np.searchsorted(following, at, side="right")
    if int((skipped + counts).max()) - 1 > len(following):
        return None
    places = np.arange(total, dtype=np.int64)
    places += np.repeat(skipped - firsts - 1, counts)
    places[firsts] = 0
    entries = following[places] if len(following) else np.empty(total, np.int64)
    entries[firsts] = at
    try:
        lengths, starts = read_long(buffer, entries)
        key_ends = starts + checked_lengths(buffer, lengths)
        map_ends = read_long(buffer, key_ends)[1] + 1
    except (BadValueError, IndexError):
        return None
    lasts = firsts + counts - 1
    proven = map_ends[:-1] == entries[1:]
    proven[lasts[:-1]] = True
    return (starts, key_ends, map_ends[lasts]) if proven.all() else None


def _walk_entries(
    data: memoryview, position: int, count: int, steps: tuple[int, ...], spans: tuple[list[int], list[int]]
) -> int:
    """Append starts and ends of the keys of one block of map entries; returns the block's end."""
    note_key, note_end = spans[0].append, spans[1].append
    for _ in range(count):
        length = data[position]
        position += 1
        if length > 0x7F:
            if data[position] > 0x7F:
                number, position = _one_long(data, position - 1)
                length = 2 * number if number >= 0 else 1
            else:
                length = length & 0x7F | data[position] << 7
                position += 1
        if length & 1:
            raise BadValueError("a map key has a negative length")
        note_key(position)
        position += length >> 1
        note_end(position)
        for step in steps:
            if step:
                position += step
            else:
                while data[position] > 0x7F:
                    position += 1
                position += 1
    return position


def _steps(item: Node) -> tuple[int, ...]:
    """Sizes of a value's parts: bytes of a fixed-size part, 0 for a varint."""
    if item.kind == "record":
        return tuple(step for _, child in item.fields for step in _steps(child))
    sizes = {"int": 0, "long": 0, "enum": 0, "boolean": 1, "float": 4, "double": 8}
    if item.kind not in sizes:
        raise SchemaError(f"a map with values of type {item.kind} cannot be a column")
    return (sizes[item.kind],)


def _one_long(data: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise BadValueError("a number is longer than 64 bits")
