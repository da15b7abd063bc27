"""One bound of a column's values: made sound where it is shortened, and wrapped as the metadata table stores it."""

from __future__ import annotations

import struct
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import pyarrow as pa

from table_format.codecs.varint import write_varint

types = pa.types

LONGEST_BOUND = 2000
"""Bytes up to which strings and binary values are kept whole. Parquet drops bounds beyond about twice that."""

DECIMAL_SCALE = 15
_DECIMAL_DIGITS = 30
_EXACT = Context(prec=80)
# Place in the union of value wrappers, whose first branch is null.
_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _BYTES, _STRING, _DATE, _DECIMAL = range(1, 10)


class UnfitDecimalError(ValueError):
    """A decimal has more than 15 digits before its point, which no bound of table version 6 holds."""


def fits_decimal_wrapper(kind: pa.Decimal128Type[Any, Any]) -> bool:
    """Whether all values of a decimal type are exact in a bound, which has 15 digits on each side of the point."""
    return bool(kind.precision - kind.scale <= _DECIMAL_DIGITS - DECIMAL_SCALE and kind.scale <= DECIMAL_SCALE)


def lower_bound(value: Any, kind: pa.DataType) -> Any:
    """A value not above `value` that can be stored."""
    if isinstance(value, str):
        return cut_text(value, LONGEST_BOUND)
    if isinstance(value, bytes):
        return value[:LONGEST_BOUND]
    return _scaled(value, ROUND_FLOOR) if types.is_decimal(kind) else value


def upper_bound(value: Any, kind: pa.DataType) -> Any:
    """A value not below `value` that can be stored."""
    if isinstance(value, str):
        return text_above(value, LONGEST_BOUND)
    if isinstance(value, bytes):
        return bytes_above(value, LONGEST_BOUND)
    return _scaled(value, ROUND_CEILING) if types.is_decimal(kind) else value


def cut_text(text: str, limit: int) -> str:
    """The longest prefix of whole characters within a number of UTF-8 bytes.

    >>> cut_text("aé", 2), cut_text("aé", 3)
    ('a', 'aé')
    """
    data = text.encode()
    return text if len(data) <= limit else data[:limit].decode("utf-8", "ignore")


def text_above(text: str, limit: int) -> str:
    """A short text that is not below `text` in the order of its bytes; `text` itself when it is within the limit.

    >>> text_above("abc", 2), text_above("abc", 3)
    ('ac', 'abc')
    """
    prefix = cut_text(text, limit)
    if prefix == text:
        return text
    while prefix:
        following = ord(prefix[-1]) + 1
        if following == 0xD800:
            following = 0xE000  # surrogates are no characters
        if following <= 0x10FFFF:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return text  # nothing short is above it


def bytes_above(data: bytes, limit: int) -> bytes:
    r"""Few bytes that are not below `data` in unsigned order; `data` itself when it is within the limit.

    >>> bytes_above(b"a\xff\xffb", 3)
    b'b'
    """
    if len(data) <= limit:
        return data
    prefix = data[:limit].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else data


def encode_bound(value: Any, kind: pa.DataType) -> bytes:
    """The Avro bytes of a wrapped bound: the branch in the union of wrappers, then the wrapper's one field.

    Dates are days and timestamps microseconds, both given as numbers; a timestamp is stored as a plain long.
    """
    if types.is_boolean(kind):
        return encode_long(_BOOLEAN) + (b"\x01" if value else b"\x00")
    if types.is_decimal(kind):
        unscaled = int(value.scaleb(DECIMAL_SCALE, _EXACT))
        return encode_long(_DECIMAL) + _sized(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))
    if isinstance(value, str):
        return encode_long(_STRING) + _sized(value.encode())
    if isinstance(value, bytes):
        return encode_long(_BYTES) + _sized(value)
    if types.is_floating(kind):
        double = types.is_float64(kind)
        return encode_long(_DOUBLE if double else _FLOAT) + struct.pack("<d" if double else "<f", value)
    return encode_long(_DATE if types.is_date(kind) else _LONG if _is_long(kind) else _INT) + encode_long(value)


def encode_long(number: int) -> bytes:
    r"""A number as Avro writes it: zigzag, seven bits to a byte.

    >>> encode_long(0), encode_long(-1), encode_long(64)
    (b'\x00', b'\x01', b'\x80\x01')
    """
    rest = number << 1 if number >= 0 else ((-number - 1) << 1) | 1
    return write_varint(rest)


def _is_long(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) or types.is_int64(kind) or types.is_uint32(kind))


def _scaled(value: Decimal, rounding: str) -> Decimal:
    """The value at the wrapper's scale, rounded outwards where it has more digits."""
    result = value.quantize(Decimal(1).scaleb(-DECIMAL_SCALE), rounding=rounding, context=_EXACT)
    if abs(result) >= Decimal(10) ** (_DECIMAL_DIGITS - DECIMAL_SCALE):
        raise UnfitDecimalError(f"{value} has more than {_DECIMAL_DIGITS - DECIMAL_SCALE} digits before its point")
    return result


def _sized(data: bytes) -> bytes:
    return encode_long(len(data)) + data
