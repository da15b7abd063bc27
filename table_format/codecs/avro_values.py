"""Vectorized decoding of Avro values at many positions of one buffer: numbers, strings, bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Bytes, Mask, Positions, binary_array, from_numpy, packed
from table_format.codecs.avro_schema_tree import LOGICAL_TYPES, Node
from table_format.errors import SchemaError

_SIGN = np.uint64(1)
_WORD = 8
_ENDS, _ONES = np.uint64(0x80_80_80_80_80_80_80_80), np.uint64(0x01_01_01_01_01_01_01_01)
#: Masks of the lower and the upper groups of bits that are joined, and the gap between them.
_GROUPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(gap))
    for low, high, gap in (
        (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
        (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
        (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
    )
)


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
    second = buffer[after[rows]]
    left = np.flatnonzero(second > 0x7F)
    if left.size > rows.size >> 3 and int(at.max()) + _WORD <= len(buffer):
        return _read_words(buffer, at)
    value = (byte & 0x7F).astype(np.uint64)
    more = (second & 0x7F).astype(np.uint64) << np.uint64(7)
    if rows.size == len(value):
        value |= more
        after += 1
    else:
        value[rows] |= more
        after[rows] += 1
    _read_rest(buffer, value, after, rows[left], 14)
    return _signed(value), after


def _read_rest(buffer: Bytes, value: NDArray[np.uint64], after: Positions, rows: Positions, shift: int) -> None:
    """Add the further bytes of the numbers in some rows, one byte of all at a time."""
    while rows.size:
        if shift > 63:
            raise BadValueError("a number is longer than 64 bits")
        byte = buffer[after[rows]]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[(byte & 0x80) != 0]
        shift += 7


def _read_words(buffer: Bytes, at: Positions) -> tuple[Positions, Positions]:
    """As `read_long` for long numbers: eight bytes at once, their groups of seven bits joined in pairs."""
    windows: NDArray[Any] = np.ndarray((len(buffer) - _WORD + 1,), "<u8", cast("Any", buffer), strides=(1,))
    words = windows[at]
    mask = ~words & _ENDS
    longer = np.flatnonzero(mask == 0)
    mask ^= mask - np.uint64(1)  # all bits up to that of the lowest byte that ends a number; all if none does
    after: Positions = at + ((mask & _ONES) * _ONES >> np.uint64(56)).view(np.int64)  # a bit for each of these bytes
    words &= mask
    for low, high, gap in _GROUPS:
        upper = (words & high) >> gap
        words &= low
        words |= upper
    _read_rest(buffer, words, after, longer, 7 * _WORD)
    return _signed(words), after


def _signed(zigzag: NDArray[np.uint64]) -> Positions:
    """Numbers of their zigzag form, which is overwritten."""
    sign = zigzag & _SIGN
    zigzag >>= _SIGN
    numbers: Positions = zigzag.view(np.int64)
    numbers ^= -sign.view(np.int64)
    return numbers


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
    ends: Positions = after + checked_lengths(buffer, lengths)
    return ends


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
    raise SchemaError(f"Avro type {node.kind} is not a plain value")


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
    logical = LOGICAL_TYPES.get(node.logical or "")
    same_size = logical is not None and node.kind in ("int", "long") and logical.bit_width == array.type.bit_width
    return array.cast(logical) if same_size else array


def _symbols(node: Node, numbers: NDArray[Any], valid: Mask | None) -> Any:
    """Symbols of the numbers of an enum."""
    real = numbers if valid is None else numbers[valid]
    if real.size and (real.min() < 0 or real.max() >= len(node.symbols)):
        raise BadValueError(f"the enum {node.name} has no such symbol")
    places: Any = from_numpy(numbers.astype(np.int32), valid)
    return pa.array(node.symbols, pa.string()).take(places)


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
