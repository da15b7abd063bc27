"""Bounds and literals in forms that compare as the column's values do, for all files at once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pushdown.kinds import Kind, kind_of

Mask: TypeAlias = NDArray[np.bool_]
# Numbers as numpy arrays; text and binary as Arrow binary, which compares by unsigned bytes.
Comparable: TypeAlias = "NDArray[Any] | pa.Array[Any]"

_NARROW_DECIMAL_DIGITS = 18


def comparable(array: pa.Array[Any], column_type: pa.DataType) -> Comparable | None:
    """Values in a form that sorts as the column does; None if they are not of the column's type.

    Booleans, integers, dates and timestamps become integers, floats 64-bit floats, decimals their unscaled numbers
    (wide ones as big-endian bytes), text and binary Arrow binary. Nulls become anything, except in text and binary.
    """
    kind = kind_of(column_type)
    decoded: Any = array
    if isinstance(decoded, pa.DictionaryArray):
        decoded = decoded.dictionary_decode()
    values = _in_type(decoded, column_type, kind)
    if values is None:
        return None
    if kind in {Kind.STRING, Kind.BINARY}:
        as_bytes: pa.Array[Any] = values.cast(pa.large_binary())
        return as_bytes
    if kind is Kind.DECIMAL:
        return _decimal_numbers(values)
    if kind is Kind.BOOLEAN:
        values = values.cast(pa.uint8())
    elif kind is Kind.DATE:
        values = values.cast(pa.int32())
    elif kind is Kind.TIMESTAMP:
        values = values.cast(pa.int64())
    elif kind is Kind.FLOAT:
        values = values.cast(pa.float64())
    elif kind is not Kind.INTEGER:
        return None
    numbers: NDArray[Any] = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return numbers


def _in_type(array: pa.Array[Any], column_type: pa.DataType, kind: Kind) -> Any:  # noqa: PLR0911
    """The values in the column's type, if that changes none of them (bounds from before a type was widened)."""
    if array.type == column_type:
        return array
    own: Any = array.type
    wanted: Any = column_type
    if pa.types.is_null(own):
        return array.cast(pa.large_binary() if kind in {Kind.STRING, Kind.BINARY} else wanted)
    own_kind = kind_of(own)
    if kind is Kind.TIMESTAMP and own_kind is kind:
        return array if own.unit == wanted.unit else None
    if own_kind is kind and kind in {Kind.STRING, Kind.BINARY, Kind.FLOAT}:
        return array
    if own_kind in {Kind.INTEGER, Kind.DECIMAL} and kind in {Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT}:
        try:
            return array.cast(column_type)
        except pa.ArrowInvalid:
            return None
    return None


def _decimal_numbers(values: Any) -> NDArray[Any]:
    buffer = values.buffers()[1]
    narrow = values.type.precision <= _NARROW_DECIMAL_DIGITS
    if buffer is None or len(values) == 0:
        return np.zeros(len(values), np.int64 if narrow else "S16")
    words = np.frombuffer(buffer, "<u8").reshape(-1, 2)[values.offset : values.offset + len(values)]
    if narrow:
        return words[:, 0].astype(np.int64)
    ordered = np.empty((len(values), 2), ">u8")
    ordered[:, 0] = words[:, 1] ^ np.uint64(1 << 63)
    ordered[:, 1] = words[:, 0]
    return ordered.view("S16").reshape(-1)


def less(left: Comparable, right: Any) -> Mask:
    """``left < right``, for each file; false where an Arrow value is null."""
    return _compare("less", left, right)


def less_equal(left: Comparable, right: Any) -> Mask:
    """``left <= right``, for each file; false where an Arrow value is null."""
    return _compare("less_equal", left, right)


def greater(left: Comparable, right: Any) -> Mask:
    """``left > right``, for each file; false where an Arrow value is null."""
    return _compare("greater", left, right)


def greater_equal(left: Comparable, right: Any) -> Mask:
    """``left >= right``, for each file; false where an Arrow value is null."""
    return _compare("greater_equal", left, right)


def _compare(function: str, left: Comparable, right: Any) -> Mask:
    if isinstance(left, np.ndarray):
        mask: Mask = getattr(np, function)(left, right)
        return mask
    return mask_of(getattr(pc, function)(left, right))


def mask_of(array: Any) -> Mask:
    """An Arrow array of booleans as a mask; null is false."""
    mask: Mask = pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    return mask


def sorted_distinct(values: pa.Array[Any]) -> pa.Array[Any]:
    """Each value once, in ascending order; NaN is the greatest, as Spark has it."""
    distinct: Any = pc.unique(values)
    if pa.types.is_boolean(distinct.type):
        return pa.array(sorted(distinct.to_pylist()), pa.bool_())
    ordered: pa.Array[Any] = distinct.take(pc.array_sort_indices(distinct))
    return ordered
