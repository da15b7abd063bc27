"""Lower and upper bounds of column statistics as values of the column's Arrow type.

The metadata table wraps a bound in a record of its kind. A bound is used for pruning only if it certainly has the
same meaning in the column's current type: any other becomes null, which means unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs import avro_values
from table_format.codecs.arrow_numpy import (
    DISORDERED_BYTE,
    Column,
    has_bytes_from,
    one_chunk,
    spans_of,
    to_numpy,
    valid_mask,
)
from table_format.codecs.avro_columns import UnionColumn
from table_format.codecs.avro_schema_tree import Node

_BY_WRAPPER = 0
_DECIMAL = 10

_MEANINGS: Mapping[int, tuple[str, str]] = {
    2: ("BooleanWrapper", "BooleanWrapper"),
    3: ("IntWrapper", "Integer"),
    4: ("LongWrapper", "Integer"),
    5: ("FloatWrapper", "FloatWrapper"),
    6: ("DoubleWrapper", "DoubleWrapper"),
    7: ("StringWrapper", "StringWrapper"),
    8: ("BytesWrapper", "BytesWrapper"),
    _DECIMAL: ("BytesWrapper", "Decimal"),
    12: ("IntWrapper", "DateWrapper"),
    13: ("IntWrapper", "TimeMillis"),
    14: ("LongWrapper", "TimeMicrosWrapper"),
    15: ("LongWrapper", "TimestampMillis"),
    16: ("LongWrapper", "TimestampMicrosWrapper"),
    17: ("LongWrapper", "TimestampNanos"),
    18: ("LongWrapper", "TimestampMillis"),
    19: ("LongWrapper", "TimestampMicrosWrapper"),
    20: ("LongWrapper", "TimestampNanos"),
}
"""By type number: the wrapper, and the name of such values in `bounds`.

Fixed values (9) and UUIDs (11) are left out; Java orders the latter by signed halves.
"""

_PARAMETERS = re.compile(r"(\d{1,2}),(\d{1,2})")


@dataclass(frozen=True, slots=True)
class ValueTypes:
    """Value type that each record declares for its bounds.

    Attributes:
        numbers: ordinal of the type; null if the record declares none.
        parameters: precision and scale of a decimal.
    """

    numbers: Column
    parameters: Column


def meanings(wrapper: str, values: Column, types: ValueTypes | None) -> Iterator[tuple[str, Column]]:
    """Split the values of one wrapper by the types that their records declare.

    Values whose type contradicts the wrapper or is unknown are left out.

    Args:
        wrapper: its short name.
        values: for all records, null for those with another wrapper.
        types: for all records; None if the writer's schema has no types.

    Yields:
        Name of such values in `bounds`, and the values, null for the others.
    """
    if types is None:
        yield wrapper, values
        return
    numbers = one_chunk(pc.fill_null(types.numbers, _BY_WRAPPER))
    present = valid_mask(values)
    for number in np.unique(to_numpy(numbers)[present]).tolist():
        of_number = pc.equal(numbers, number)
        part = pc.if_else(of_number, values, pa.scalar(None, values.type))
        if number == _BY_WRAPPER:
            yield wrapper, part
        elif number == _DECIMAL and wrapper == "BytesWrapper":
            yield from (("Decimal", decimals) for decimals in _decimals(part, types.parameters))
        elif number in _MEANINGS and _MEANINGS[number][0] == wrapper:
            yield _MEANINGS[number][1], part


def _decimals(values: Column, parameters: Column) -> Iterator[Column]:
    """Convert unscaled numbers to decimals by precision and scale."""
    known = pc.filter(parameters, pc.is_valid(values))
    for text in pc.unique(known).to_pylist():
        match = _PARAMETERS.fullmatch(text or "")
        if match is None:
            continue
        part: Any = pc.if_else(pc.equal(parameters, text), values, pa.scalar(None, values.type))
        buffer, starts, lengths = spans_of(part)
        node = Node("bytes", "bytes", logical="decimal", precision=int(match[1]), scale=int(match[2]))
        valid = valid_mask(part) & (lengths > 0)
        try:
            yield avro_values.to_arrow(buffer, avro_values.Leaf(node, starts, lengths, valid))
        except (avro_values.BadValueError, IndexError, pa.ArrowInvalid):
            continue


_SHARED_SCALE = 15

# Parquet omits statistics of 4096 bytes and more, so that at least one bound has half of that.
_SMALLEST_OMITTED = 2048
_INTEGERS = ("IntWrapper", "LongWrapper", "Integer")
_FLOATS = ("FloatWrapper", "DoubleWrapper")


def typed_bounds(bounds: Any, kind: pa.DataType, types: ValueTypes | None = None) -> Column:
    """Lower or upper bounds as values of a type; null if unknown or if the wrapper is not reliable for the type.

    Args:
        bounds: as decoded.
        kind: the column's current type.
        types: the types that the records declare, from table version 9 on.
    """
    count = len(bounds.branches) if isinstance(bounds, UnionColumn) else len(bounds)
    target: Any = kind
    result: Any = pa.nulls(count, target)
    if not isinstance(bounds, UnionColumn):  # the writer's schema has no such union
        return result
    for branch, values in bounds.values.items():
        for meaning, part in meanings(bounds.names[branch].rsplit(".", 1)[-1], values, types):
            converted = _convert(meaning, part, kind)
            if converted is not None:
                result = converted if result.null_count == len(result) else pc.coalesce(result, converted)
    return result


def sound_lower(bounds: Column) -> Column:
    """Lower bounds that are valid in byte order, whatever order the writer used.

    Hudi combines the row groups of a file by Java's comparison, which orders some strings (UTF-16) and binary
    values (signed bytes) differently from Parquet and the engines. The prefix before the first byte that may sort
    differently is a lower bound in either order.
    """
    limit = _limit(bounds.type)
    if limit is None or not has_bytes_from(bounds, limit):
        return bounds
    cut = [None if value is None else _cut(value, limit) for value in _as_bytes(bounds).to_pylist()]
    return pa.array(cut, pa.binary()).cast(bounds.type)


def sound_upper(bounds: Column) -> Column:
    """Upper bounds that are valid in byte order; the others become null. See `sound_lower`."""
    if pa.types.is_binary(bounds.type) or pa.types.is_large_binary(bounds.type):
        return pa.nulls(len(bounds), bounds.type)
    limit = _limit(bounds.type)
    if limit is None or not has_bytes_from(bounds, limit):
        return bounds
    sound = [value is not None and all(byte < limit for byte in value) for value in _as_bytes(bounds).to_pylist()]
    return pc.if_else(pa.array(sound), bounds, pa.scalar(None, bounds.type))


def without_nan_traps(lower: Column, upper: Column) -> tuple[Column, Column]:
    """Remove bounds of floating-point columns that may hide a NaN.

    Parquet's Java library writes `[0.0, 0.0]` for a chunk with a NaN, whatever else the chunk holds. Apply this
    before bounds are merged, which would hide it. NaN itself, last in Java's order, is not a bound either.
    """
    if not pa.types.is_floating(lower.type):
        return lower, upper
    none = pa.scalar(None, lower.type)
    trap = pc.fill_null(pc.and_(pc.equal(lower, 0.0), pc.equal(upper, 0.0)), False)
    doubtful = (pc.or_(trap, pc.fill_null(pc.is_nan(side), False)) for side in (lower, upper))
    low, high = (pc.if_else(bad, none, side) for bad, side in zip(doubtful, (lower, upper), strict=True))
    return low, high


def trusted_null_counts(
    null_counts: Column, value_counts: Column, uncompressed_sizes: Column, kind: pa.DataType
) -> Column:
    """Remove null counts that only look like "all rows are null".

    Parquet omits the statistics of a chunk with very long values, and Hudi then counts all its values as nulls. The
    chunk's size distinguishes the cases: such long values do not fit into the few bytes of a chunk of nulls.

    Args:
        null_counts: as stored; negative or null if unknown.
        value_counts: rows, nulls included.
        uncompressed_sizes: bytes of the column in the file.
        kind: the column's type; only values of variable length can be that long.
    """
    known = pc.if_else(pc.greater_equal(null_counts, 0), null_counts, pa.scalar(None, pa.int64()))
    if not _is_variable(kind):
        return known
    sizes = pc.fill_null(uncompressed_sizes, 0)
    small = pc.and_(pc.greater(sizes, 0), pc.less(sizes, _SMALLEST_OMITTED))
    doubtful = pc.and_(pc.equal(known, value_counts), pc.invert(small))
    return pc.if_else(pc.fill_null(doubtful, True), pa.scalar(None, pa.int64()), known)


def _convert(wrapper: str, values: Any, kind: pa.DataType) -> Any:
    try:
        return _cast(wrapper, values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _cast(wrapper: str, values: Any, kind: Any) -> Any:
    for is_kind, cast in _CASTS:
        if is_kind(kind):
            return cast(wrapper, values, kind)
    return None


def _to_boolean(wrapper: str, values: Any, _kind: Any) -> Any:
    return values if wrapper == "BooleanWrapper" else None


def _to_integer(wrapper: str, values: Any, kind: Any) -> Any:
    return values.cast(kind) if wrapper in _INTEGERS else None


def _to_variable(wrapper: str, values: Any, kind: Any) -> Any:
    return values.cast(pa.binary()).cast(kind) if wrapper in ("StringWrapper", "BytesWrapper") else None


def _to_date(wrapper: str, values: Any, _kind: Any) -> Any:
    if wrapper not in ("DateWrapper", "LocalDateWrapper"):
        return None
    return values if pa.types.is_date32(values.type) else values.cast(pa.int32()).cast(pa.date32())


def _to_time(wrapper: str, values: Any, kind: Any) -> Any:
    if kind.unit == "us" and wrapper in ("TimeMicrosWrapper", "LongWrapper"):
        return values.cast(pa.int64()).cast(kind)
    return values.cast(kind) if kind.unit == "ms" and wrapper in ("IntWrapper", "TimeMillis") else None


def _to_decimal(wrapper: str, values: Any, kind: Any) -> Any:
    if wrapper == "Decimal":
        return values.cast(kind)
    return values.cast(kind) if wrapper == "DecimalWrapper" and kind.scale <= _SHARED_SCALE else None


def _to_floating(wrapper: str, values: Any, kind: pa.DataType) -> Any:
    if wrapper in _INTEGERS:
        # Rounding to nearest keeps the order, and rows are rounded in the same way when they are read.
        return values.cast(kind, safe=False)
    if wrapper not in _FLOATS or (wrapper == "DoubleWrapper" and not pa.types.is_float64(kind)):
        return None
    return values.cast(kind)


def _to_timestamp(wrapper: str, values: Any, kind: Any) -> Any:
    if wrapper == "LongWrapper" and kind.unit in ("us", "ms"):
        return values.cast(pa.int64()).cast(pa.timestamp(kind.unit)).cast(kind)
    if wrapper == "TimestampMicrosWrapper" and kind.unit == "us":
        return values.cast(pa.int64()).cast(pa.timestamp("us")).cast(kind)
    if wrapper == "TimestampMillis" and kind.unit in ("us", "ms"):
        return values.cast(pa.int64()).cast(pa.timestamp("ms")).cast(kind)
    if wrapper == "TimestampNanos" and kind.unit == "ns":
        return values.cast(pa.int64()).cast(pa.timestamp("ns")).cast(kind)
    return None


def _is_variable(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind)


def _limit(kind: pa.DataType) -> int | None:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return DISORDERED_BYTE
    return 0x80 if _is_variable(kind) else None


def _as_bytes(bounds: Column) -> Any:
    large = pa.types.is_large_string(bounds.type) or pa.types.is_large_binary(bounds.type)
    return bounds.cast(pa.large_binary() if large else pa.binary())


def _cut(value: bytes, limit: int) -> bytes:
    for place, byte in enumerate(value):
        if byte >= limit:
            return value[:place]
    return value


_CASTS: tuple[tuple[Any, Any], ...] = (
    (pa.types.is_boolean, _to_boolean),
    (pa.types.is_integer, _to_integer),
    (pa.types.is_floating, _to_floating),
    (_is_variable, _to_variable),
    (pa.types.is_date32, _to_date),
    (pa.types.is_timestamp, _to_timestamp),
    (pa.types.is_time, _to_time),
    (pa.types.is_decimal, _to_decimal),
)
"""For each family of column types, the conversion of wrapped values; None if it is not certain."""
