"""Thrift's compact protocol without struct definitions, so that unknown fields survive a rewrite.

A struct is a dictionary from field id to (type, value), in the order of the bytes. Types are those of the protocol:
1 and 2 booleans, 3 byte, 4 to 6 whole numbers, 7 double (as its bytes), 8 binary, 9 list, 10 set, 11 map, 12 struct.
A list is (type, values), a map (type of keys, type of values, pairs).
"""

from __future__ import annotations

from typing import Any

Struct = dict[int, tuple[int, Any]]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_STOP = 0
_LONG_LIST = 15
_DEEPEST = 64


class CompactError(ValueError):
    """The bytes are not a struct of the compact protocol."""


def read_struct(data: bytes, position: int = 0) -> tuple[Struct, int]:
    """A struct and the position after it.

    Raises:
        CompactError: the bytes end early, or are not a struct.
    """
    try:
        return _struct(data, position, 0)
    except IndexError as error:
        raise CompactError(f"the struct at byte {position} is cut off") from error


def write_struct(struct: Struct) -> bytes:
    """The bytes of a struct; structs from `read_struct` give the same bytes if a canonical writer wrote them."""
    out = bytearray()
    _put_struct(out, struct)
    return bytes(out)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned number of seven bits a byte, and the position after it."""
    result = shift = 0
    while True:
        byte = data[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, position
        shift += 7
        if shift >= 70:
            raise CompactError(f"a number of more than ten bytes before byte {position}")


def put_varint(out: bytearray, number: int) -> None:
    """Append an unsigned number of seven bits a byte."""
    while number > 127:
        out.append((number & 127) | 128)
        number >>= 7
    out.append(number)


def _too_deep(position: int) -> CompactError:
    return CompactError(f"values nested more than {_DEEPEST} deep at byte {position}")


def _struct(data: bytes, position: int, depth: int) -> tuple[Struct, int]:
    if depth > _DEEPEST:
        raise _too_deep(position)
    result: Struct = {}
    field = 0
    while True:
        head = data[position]
        position += 1
        if head == _STOP:
            return result, position
        kind = head & 15
        if head > 15:
            field += head >> 4
        else:
            number, position = read_varint(data, position)
            field = (number >> 1) ^ -(number & 1)
        if I16 <= kind <= I64:
            number = data[position]
            if number < 128:
                position += 1
            else:
                number, position = read_varint(data, position)
            result[field] = (kind, (number >> 1) ^ -(number & 1))
        else:
            value, position = _value(data, position, kind, depth)
            result[field] = (kind, value)


def _value(data: bytes, position: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _struct(data, position, depth + 1)
    if kind in (LIST, SET):
        return _list(data, position, depth)
    if kind == MAP:
        return _map(data, position, depth)
    return _scalar(data, position, kind)


def _scalar(data: bytes, position: int, kind: int) -> tuple[Any, int]:
    if kind == BINARY:
        size, position = read_varint(data, position)
        return _slice(data, position, size), position + size
    if I16 <= kind <= I64:
        number, position = read_varint(data, position)
        return (number >> 1) ^ -(number & 1), position
    if kind in (TRUE, FALSE):
        return kind == TRUE, position
    if kind == BYTE:
        byte = data[position]
        return byte - 256 if byte > 127 else byte, position + 1
    if kind == DOUBLE:
        return _slice(data, position, 8), position + 8
    raise CompactError(f"a field of unknown type {kind} before byte {position}")


def _list(data: bytes, position: int, depth: int) -> tuple[tuple[int, list[Any]], int]:
    if depth > _DEEPEST:
        raise _too_deep(position)
    head = data[position]
    position += 1
    size, kind = head >> 4, head & 15
    if size == _LONG_LIST:
        size, position = read_varint(data, position)
    if size > len(data) - position:
        raise CompactError(f"a list of {size} values at byte {position} is longer than what follows")
    values = []
    for _ in range(size):
        if kind in (TRUE, FALSE):  # in lists a boolean is a byte of its own
            values.append(data[position] == TRUE)
            position += 1
        else:
            value, position = _value(data, position, kind, depth + 1)
            values.append(value)
    return (kind, values), position


def _map(data: bytes, position: int, depth: int) -> tuple[tuple[int, int, list[tuple[Any, Any]]], int]:
    if depth > _DEEPEST:
        raise _too_deep(position)
    size, position = read_varint(data, position)
    if size == 0:
        return (0, 0, []), position
    if size > len(data) - position:
        raise CompactError(f"a map of {size} pairs at byte {position} is longer than what follows")
    kinds = data[position]
    position += 1
    pairs = []
    for _ in range(size):
        key, position = _value(data, position, kinds >> 4, depth + 1)
        value, position = _value(data, position, kinds & 15, depth + 1)
        pairs.append((key, value))
    return (kinds >> 4, kinds & 15, pairs), position


def _slice(data: bytes, position: int, size: int) -> bytes:
    if position + size > len(data):
        raise CompactError(f"{size} bytes at byte {position} are cut off")
    return data[position : position + size]


def _put_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field, (kind, value) in struct.items():
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE  # noqa: PLW2901 - a boolean field's value is its type
        step = field - last
        if 0 < step < 16:
            out.append(step << 4 | kind)
        else:
            out.append(kind)
            put_varint(out, (field << 1) ^ (field >> 31))
        last = field
        if I16 <= kind <= I64:
            number = (value << 1) ^ (value >> 63)
            if number < 128:
                out.append(number)
            else:
                put_varint(out, number)
        elif kind > FALSE:
            _put_value(out, kind, value)
    out.append(_STOP)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if kind == BINARY:
        put_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _put_struct(out, value)
    elif I16 <= kind <= I64:
        put_varint(out, (value << 1) ^ (value >> 63))
    elif kind in (LIST, SET):
        _put_list(out, *value)
    elif kind == BYTE:
        out.append(value & 255)
    elif kind == DOUBLE:
        out += value
    else:
        _put_map(out, *value)


def _put_list(out: bytearray, kind: int, values: list[Any]) -> None:
    if len(values) < _LONG_LIST:
        out.append(len(values) << 4 | kind)
    else:
        out.append(_LONG_LIST << 4 | kind)
        put_varint(out, len(values))
    if kind in (TRUE, FALSE):
        out += bytes(TRUE if value else FALSE for value in values)
        return
    for value in values:
        _put_value(out, kind, value)


def _put_map(out: bytearray, keys: int, values: int, pairs: list[tuple[Any, Any]]) -> None:
    put_varint(out, len(pairs))
    if not pairs:
        return
    out.append(keys << 4 | values)
    for key, value in pairs:
        _put_value(out, keys, key)
        _put_value(out, values, value)
