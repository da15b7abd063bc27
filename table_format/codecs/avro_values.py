"""Vectorized decoding of Avro values at many positions of one buffer: numbers, strings, bytes, entries of maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Bytes, Mask, Positions, binary_array, from_numpy, packed
from table_format.codecs.avro_schema_tree import Node
from table_format.errors import SchemaError

_SIGN = np.uint64(1)


class BadValueError(ValueError):
    """Bytes that are not a value of the Avro type."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Values of one field.

    Attributes:
        node: their type.
        values: numbers, or starts of strings and bytes.
        lengths: of strings and bytes, else None.
        valid: false for nulls; None if there are none.
    """

    node: Node
    values: NDArray[Any]
    lengths: Positions | None = None
    valid: Mask | None = None

    def spread(self, rows: Positions, count: int) -> Leaf:
        """Scatter the values to `rows` of `count`; other rows are null."""
        if len(rows) == count:
            return self
        valid = np.zeros(count, dtype=np.bool_)
        valid[rows] = True if self.valid is None else self.valid
        values = np.zeros(count, dtype=self.values.dtype)
        values[rows] = self.values
        lengths = None
        if self.lengths is not None:
            lengths = np.zeros(count, dtype=np.int64)
            lengths[rows] = self.lengths
        return Leaf(self.node, values, lengths, valid)


def read_long(buffer: Bytes, at: Positions) -> tuple[Positions, Positions]:
    """Decode zigzag varints; values and end positions.

    Raises:
        BadValueError: one has more than ten bytes.
        IndexError: the buffer ends inside one.
    """
    byte = buffer[at]
    after = at + 1
    rows = np.flatnonzero(byte > 0x7F)
    if not rows.size:
        return ((byte >> 1) ^ -(byte & 1)).view(np.int8).astype(np.int64), after
    value = (byte & 0x7F).astype(np.uint64)
    shift = 7
    while rows.size:
        if shift > 63:
            raise BadValueError("a number is longer than 64 bits")
        byte = buffer[after[rows]]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[(byte & 0x80) != 0]
        shift += 7
    return (value >> _SIGN).astype(np.int64) ^ -(value & _SIGN).astype(np.int64), after


def checked_lengths(buffer: Bytes, lengths: Positions) -> Positions:
    """Check that lengths are possible, and return them.

    Raises:
        BadValueError: one is negative or longer than the buffer.
    """
    if lengths.size and (lengths.min() < 0 or lengths.max() > len(buffer)):
        raise BadValueError("a length is impossible")
    return lengths


def skip_bytes(buffer: Bytes, at: Positions) -> Positions:
    """End positions of strings or bytes."""
    lengths, after = read_long(buffer, at)
    behind: Positions = after + checked_lengths(buffer, lengths)
    return behind


def read(buffer: Bytes, node: Node, at: Positions, *, keep: bool) -> tuple[Leaf | None, Positions]:
    """Decode values of one plain type; values (None unless kept) and end positions.

    Raises:
        BadValueError: bytes that are no such value.
        IndexError: the buffer ends inside one.
        SchemaError: a type that is not plain.
    """
    if node.kind == "null":
        return (Leaf(node, at, valid=np.zeros(len(at), dtype=np.bool_)) if keep else None), at
    if node.kind in ("int", "long", "enum"):
        values, after = read_long(buffer, at)
        return (Leaf(node, values) if keep else None), after
    if node.kind in ("string", "bytes"):
        lengths, starts = read_long(buffer, at)
        checked_lengths(buffer, lengths)
        return (Leaf(node, starts, lengths) if keep else None), starts + lengths
    if node.kind == "fixed":
        sizes = np.full(len(at), node.size, dtype=np.int64)
        return (Leaf(node, at, sizes) if keep else None), at + node.size
    if node.kind == "boolean":
        flags = buffer[at]
        if flags.size and flags.max() > 1:
            raise BadValueError("a boolean is neither 0 nor 1")
        return (Leaf(node, flags) if keep else None), at + 1
    if node.kind in ("float", "double"):
        width = 4 if node.kind == "float" else 8
        return (Leaf(node, _little_endian(buffer, at, width)) if keep else None), at + width
    raise SchemaError(f"Avro type {node.kind} is no plain value")


def _little_endian(buffer: Bytes, at: Positions, width: int) -> NDArray[Any]:
    if len(buffer) < width:
        return np.empty(0, dtype=f"<f{width}")[at]
    windows: NDArray[Any] = np.ndarray((len(buffer) - width + 1,), dtype=f"<f{width}", buffer=buffer, strides=(1,))
    return windows[at]


def to_arrow(buffer: Bytes, leaf: Leaf) -> Any:
    """Arrow array of a leaf, in the type of its Avro type and logical type.

    Raises:
        pyarrow.ArrowInvalid: a string is not UTF-8, or a decimal has more digits than its precision.
        BadValueError: a number that does not fit its type.
    """
    node, valid = leaf.node, leaf.valid
    if leaf.lengths is not None and node.logical == "decimal":
        return _decimals(buffer, leaf)
    if leaf.lengths is not None:
        binary = binary_array(buffer, leaf.values, leaf.lengths, valid)
        kinds: dict[str, pa.DataType] = {"string": pa.string(), "fixed": pa.binary(node.size or -1)}
        return binary.cast(kinds.get(node.kind, pa.binary()))
    if node.kind == "null":
        return pa.nulls(len(leaf.values))
    numbers = leaf.values
    if node.kind == "boolean":
        numbers = numbers.astype(np.bool_)
    elif node.kind == "enum":
        return _symbols(node, numbers, valid)
    elif node.kind == "int":
        numbers = numbers.astype(np.int32)
        if not np.array_equal(numbers, leaf.values):
            raise BadValueError("an int needs more than 32 bits")
    array = from_numpy(numbers, valid)
    logical = _LOGICAL.get((node.kind, node.logical))
    return array if logical is None else array.cast(logical)


def _symbols(node: Node, numbers: NDArray[Any], valid: Mask | None) -> Any:
    """Symbols of the numbers of an enum."""
    real = numbers if valid is None else numbers[valid]
    if real.size and (real.min() < 0 or real.max() >= len(node.symbols)):
        raise BadValueError(f"the enum {node.name} has no such symbol")
    places: Any = from_numpy(numbers.astype(np.int32), valid)
    return pa.array(node.symbols, pa.string()).take(places)


_LOGICAL: dict[tuple[str, str | None], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def _decimals(buffer: Bytes, leaf: Leaf) -> Any:
    """Decode unscaled big-endian two's complement integers of 1 to 16 bytes as decimal128."""
    count = len(leaf.values)
    valid = np.ones(count, dtype=np.bool_) if leaf.valid is None else leaf.valid
    lengths = np.zeros(count, dtype=np.int64) if leaf.lengths is None else leaf.lengths
    if not ((lengths > 0) & (lengths <= 16) | ~valid).all():
        raise BadValueError("a decimal has no bytes or more than 16")
    starts = np.where(valid, leaf.values, 0)
    if (starts + np.where(valid, lengths, 0)).max(initial=0) > len(buffer):
        raise IndexError("a decimal leaves its buffer")
    out = np.zeros((count, 16), dtype=np.uint8)
    rows = np.flatnonzero(valid)
    if rows.size:
        sign = np.where(buffer[starts[rows]] >= 0x80, 0xFF, 0).astype(np.uint8)
        for place in range(16):
            inside = place < lengths[rows]
            source = np.where(inside, starts[rows] + lengths[rows] - 1 - place, starts[rows])
            out[rows, place] = np.where(inside, buffer[source], sign)
    validity = packed(valid)
    buffers: Any = [validity, pa.py_buffer(out.tobytes())]
    array: Any = pa.Array.from_buffers(
        pa.decimal128(min(leaf.node.precision or 38, 38), leaf.node.scale), count, buffers
    )
    array.validate(full=True)
    return array


# Fewer blocks than this are faster one by one.
_FEW_BLOCKS = 24


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

    A metadata table stores the files of a partition in one map, whose entries must be walked in order. x
    partitions are walked side by side, an entry of each at a time; once few maps remain, entry by entry.

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
        behind = key + checked_lengths(buffer, lengths)
        key_ends[place[:going] + done] = behind
        for step in steps:
            behind = behind + step if step else read_long(buffer, behind)[1]
        position[:going] = behind
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
