"""Finding the entries of Avro maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from table_format.avro_leaves import BadValueError
from table_format.avro_schema_tree import Node
from table_format.byte_spans import Bytes, Positions
from table_format.errors import SchemaError


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

    A metadata table keeps the files of a partition in one map. Its entries follow from one another, so this is a
    loop over them, kept tight for values of numbers and flags.

    Raises:
        BadValueError: counts or lengths that are impossible.
        IndexError: the buffer ends inside a map.
        SchemaError: values of another type.
    """
    data = memoryview(cast("Any", buffer))
    steps = _steps(item)
    records: list[int] = []
    keys: list[int] = []
    key_ends: list[int] = []
    ends: list[int] = []
    for record, start in enumerate(at.tolist()):
        position = start
        while True:
            count, position = _one_long(data, position)
            if count == 0:
                break
            if count < 0:
                count = -count
                _, position = _one_long(data, position)
            if count > len(data) - position:
                raise BadValueError("a map has an impossible number of entries")
            records += [record] * count
            position = _walk_entries(data, position, count, steps, (keys, key_ends))
        ends.append(position)
    columns = [np.array(column, dtype=np.int64) for column in (records, keys, key_ends, ends)]
    return MapEntries(columns[0], columns[1], columns[2] - columns[1], columns[2], columns[3])


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
