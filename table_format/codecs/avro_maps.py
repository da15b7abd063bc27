"""Finding the entries of Avro maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from table_format.codecs.avro_leaves import BadValueError, checked_lengths, read_long
from table_format.codecs.avro_schema_tree import Node
from table_format.codecs.byte_spans import Bytes, Positions
from table_format.errors import SchemaError

# Fewer than these are faster one by one.
_FEW_BLOCKS = 24


@dataclass(frozen=True, slots=True)
class MapEntries:
    """Where the entries of maps stand.

    Attributes:
        records: for each entry the index of its map.
        key_starts: where each key's bytes start.
        key_lengths: bytes of each key.
        value_starts: where each value starts.
        ends: for each map the position behind it.
    """

    records: Positions
    key_starts: Positions
    key_lengths: Positions
    value_starts: Positions
    ends: Positions


def walk_maps(buffer: Bytes, item: Node, at: Positions) -> MapEntries:
    """Find the entries of maps.

    A metadata table keeps the files of a partition in one map, whose entries follow from one another. The maps of all
    partitions are walked side by side, an entry of each at a time; where few maps go on, entry by entry.

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
        # Every entry takes a byte at least.
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
        at: where the first entry of each block starts.
        counts: entries of each block, more than 0.
        steps: how to step over a value.

    Returns:
        Where each key starts and ends, block after block; where each block ends.
    """
    firsts = np.cumsum(counts) - counts
    starts, key_ends = np.empty((2, int(counts.sum())), np.int64)
    order = np.argsort(-counts, kind="stable")  # the blocks that go on are always the first ones
    position, place, left = at[order], firsts[order], counts[order]
    going = len(order)
    for done in range(int(left[0])):
        while going and left[going - 1] <= done:
            going -= 1
        if going < _FEW_BLOCKS:
            break
        lengths, key = read_long(buffer, position[:going])
        starts[place[:going] + done] = key
        behind = key + checked_lengths(buffer, lengths)
        key_ends[place[:going] + done] = behind
        for step in steps:
            behind = behind + step if step else read_long(buffer, behind)[1]
        position[:going] = behind
    else:
        going = 0
    data = memoryview(cast("Any", buffer))
    for block in range(going):
        found: tuple[list[int], list[int]] = [], []
        position[block] = _walk_entries(data, int(position[block]), int(left[block]) - done, steps, found)
        rest = slice(int(place[block]) + done, int(place[block]) + int(left[block]))
        starts[rest], key_ends[rest] = found
    ends = np.empty(len(order), np.int64)
    ends[order] = position
    return starts, key_ends, ends


def _walk_entries(
    data: memoryview, position: int, count: int, steps: tuple[int, ...], found: tuple[list[int], list[int]]
) -> int:
    """Note where the keys of one block of map entries start and end; returns where the block ends."""
    note_key, note_end = found[0].append, found[1].append
    for _ in range(count):
        length = data[position]
        position += 1
        if length > 0x7F:
            if data[position] > 0x7F:
                length, position = _one_long(data, position - 1)
                if length < 0:
                    raise BadValueError("a map key has a negative length")
                length = 2 * length
            else:
                length = length & 0x7F | data[position] << 7
                position += 1
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
    """How to step over a value: its bytes for each fixed-size part, 0 for a varint."""
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
