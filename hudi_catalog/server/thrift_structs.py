"""A strict reader of structs in Thrift's binary protocol.

Thrift's own readers turn a list with another element type into an empty one, and skip a field of another type; in a
filter, both would lose rows. Here every deviation from the declaration is an error, and no memory is allocated for a
length that the message cannot hold. Fields with undeclared numbers are skipped.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from table_format.errors import ServiceError

# Limit of list, set and map elements in one message, so that a few megabytes cannot become gigabytes of objects. The
# filter of a query of a million characters has fewer than half as many.
MAX_ELEMENTS = 2_000_000
_MAX_STRUCTS = 500_000
_MAX_DEPTH = 32

_BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64 = 2, 3, 4, 6, 8, 10
_STRING, _STRUCT, _MAP, _SET, _LIST, _BINARY = 11, 12, 13, 14, 15, 18
_NUMBERS = {_BYTE: "b", _DOUBLE: "d", _I16: "h", _I32: "i", _I64: "q"}
_WIDTHS = {_BOOL: 1, _BYTE: 1, _DOUBLE: 8, _I16: 2, _I32: 4, _I64: 8}
_MIN_BYTES = {**_WIDTHS, _STRING: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5}
_COSTS = {_STRUCT: MAX_ELEMENTS // _MAX_STRUCTS}
_NAMES = {
    _BOOL: "bool",
    _BYTE: "byte",
    _DOUBLE: "double",
    _I16: "i16",
    _I32: "i32",
    _I64: "i64",
    _STRING: "string",
    _STRUCT: "struct",
    _MAP: "map",
    _SET: "set",
    _LIST: "list",
}

_SIZE = struct.Struct(">i")
_FIELD = struct.Struct(">bh")


class MalformedStructError(ServiceError):
    """Bytes that do not match the declaration of their struct.

    Attributes:
        offset: of the error, in bytes from the start of the message.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.offset = offset


class Source:
    """The bytes of a message, and the budget of elements left to read from them."""

    __slots__ = ("data", "elements_left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.elements_left = MAX_ELEMENTS

    def spend(self, at: int, elements: int, wire: int) -> None:
        """Charge elements that are about to be read.

        Raises:
            MalformedStructError: the budget is exceeded.
        """
        self.elements_left -= elements * _COSTS.get(wire, 1)
        if self.elements_left < 0:
            raise MalformedStructError(at, f"more than {MAX_ELEMENTS:,} elements, or {_MAX_STRUCTS:,} structs")


ReadStruct: TypeAlias = Callable[[Source, int], tuple[Any, int]]

_Read: TypeAlias = ReadStruct

_CUSTOM_READERS: dict[Any, Callable[[Any, Source, int, ReadStruct], tuple[Any, int]]] = {}


def register_reader(kind: Any, reader: Callable[[Any, Source, int, ReadStruct], tuple[Any, int]]) -> None:
    """Register a custom reader for a struct class, before the first struct of the class is read.

    Args:
        kind: the class.
        reader: takes the class, the message, the struct's offset and the default reader; returns the object and the
            offset after the struct. It has to be as strict as the default reader.
    """
    _CUSTOM_READERS[kind] = reader


def read_struct(kind: Any, data: bytes, at: int) -> Any:
    """Read a struct that extends to the end of the message.

    Args:
        kind: class of the struct, with thriftpy2's `thrift_spec`; fields declared `required` must be present.
        data: the message.
        at: offset of the struct.

    Returns:
        An object of that class: `binary` as bytes, `string` as str, lists and sets as lists, absent fields None.

    Raises:
        MalformedStructError: the bytes do not match the declaration.
    """
    try:
        value, end = _struct_reader(kind)(Source(data), at)
    except (struct.error, IndexError):
        raise MalformedStructError(len(data), "the message ends within a value") from None
    if end != len(data):
        raise MalformedStructError(end, f"{len(data) - end} more bytes after the end of the message")
    return value


@functools.cache
def _struct_reader(kind: Any) -> _Read:
    """The reader of a struct class."""
    fields: dict[bytes, tuple[int, _Read]] = {}
    numbers: dict[int, tuple[str, int]] = {}
    for place, (number, (declared, name, *more)) in enumerate(kind.thrift_spec.items()):
        wire = _STRING if declared == _BINARY else declared
        fields[_FIELD.pack(wire, number)] = (place, _value_reader(declared, more[0] if len(more) > 1 else None))
        numbers[number] = (name, wire)
    names = [spec[1] for spec in kind.thrift_spec.values()]
    required = tuple(place for place, spec in enumerate(kind.thrift_spec.values()) if spec[-1])
    empty = [None] * len(names)

    def read(source: Source, at: int) -> tuple[Any, int]:
        data, begin = source.data, at
        values: list[Any] = empty.copy()
        while True:
            head = data[at : at + 3]
            field = fields.get(head)
            if field is None:
                if head[0] == 0:
                    break
                at = _skip_field(source, at, numbers, kind.__name__)
                continue
            place = field[0]
            if values[place] is not None:
                raise MalformedStructError(at, f"{kind.__name__} has {names[place]} twice")
            values[place], at = field[1](source, at + 3)
        for place in required:
            if values[place] is None:
                raise MalformedStructError(begin, f"{kind.__name__} without {names[place]}")
        # __init__ takes the fields in the IDL's order; passing them by name would cost a dictionary per struct.
        return kind(*values), at + 1

    custom = _CUSTOM_READERS.get(kind)
    return read if custom is None else lambda source, at: custom(kind, source, at, read)


def _value_reader(declared: int, spec: Any) -> _Read:
    """The reader of a type in thriftpy2's notation."""
    if declared == _STRUCT:
        return _lazy_struct_reader(spec)
    if declared in (_LIST, _SET):
        return _list_reader(*_split(spec))
    if declared == _MAP:
        return _map_reader(_split(spec[0]), _split(spec[1]))
    simple = {_BOOL: _read_bool, _BINARY: _read_bytes, _STRING: _read_text}
    return simple[declared] if declared in simple else _number_reader(declared, getattr(spec, "_VALUES_TO_NAMES", None))


def _split(spec: Any) -> tuple[int, Any]:
    return (spec[0], spec[1]) if isinstance(spec, tuple) else (spec, None)


def _lazy_struct_reader(kind: Any) -> _Read:
    """A reader of structs, built when the first one is read, because struct classes may contain each other."""
    reader: _Read | None = None

    def read(source: Source, at: int) -> tuple[Any, int]:
        nonlocal reader
        if reader is None:
            reader = _struct_reader(kind)
        return reader(source, at)

    return read


def _read_bool(source: Source, at: int) -> tuple[bool, int]:
    value = source.data[at]
    if value > 1:
        raise MalformedStructError(at, f"{value} is neither false (0) nor true (1)")
    return value == 1, at + 1


def _read_bytes(source: Source, at: int) -> tuple[bytes, int]:
    (size,) = _SIZE.unpack_from(source.data, at)
    end = at + 4 + size
    if size < 0 or end > len(source.data):
        raise MalformedStructError(at, f"{size} bytes are announced and {len(source.data) - at - 4} are left")
    return source.data[at + 4 : end], end


def _read_text(source: Source, at: int) -> tuple[str, int]:
    value, end = _read_bytes(source, at)
    try:
        return value.decode(), end
    except UnicodeDecodeError as error:
        raise MalformedStructError(at + 4 + error.start, "a string that is not UTF-8") from None


def _number_reader(declared: int, choices: dict[int, str] | None) -> _Read:
    form = struct.Struct(">" + _NUMBERS[declared])
    unpack, width = form.unpack_from, form.size

    def read(source: Source, at: int) -> tuple[Any, int]:
        return unpack(source.data, at)[0], at + width

    def read_choice(source: Source, at: int) -> tuple[Any, int]:
        (value,) = unpack(source.data, at)
        if value not in choices:  # type: ignore[operator]
            raise MalformedStructError(at, f"{value} is none of {choices}")
        return value, at + width

    return read if choices is None else read_choice


def _count(source: Source, at: int, min_bytes: int, wire: int) -> int:
    """The number of elements at an offset, checked against the bytes left and the budget."""
    (count,) = _SIZE.unpack_from(source.data, at)
    left = len(source.data) - at - 4
    if count < 0 or count * min_bytes > left:
        raise MalformedStructError(at, f"{count} elements are announced and {left} bytes are left")
    source.spend(at, count, wire)
    return int(count)


def _list_reader(declared: int, spec: Any) -> _Read:
    wire = _STRING if declared == _BINARY else declared
    min_bytes = _MIN_BYTES[wire]
    element = _value_reader(declared, spec)
    form = _NUMBERS.get(declared, "") if spec is None else ""
    unpack_one = struct.Struct(f">{form}").unpack_from

    def head(source: Source, at: int) -> int:
        if source.data[at] != wire:
            raise MalformedStructError(at, f"a list of {_type_name(source.data[at])} instead of {_NAMES[wire]}")
        return _count(source, at + 1, min_bytes, wire)

    def read_numbers(source: Source, at: int) -> tuple[list[Any], int]:
        count = head(source, at)
        if count == 1:
            return list(unpack_one(source.data, at + 5)), at + 5 + min_bytes
        return list(struct.unpack_from(f">{count}{form}", source.data, at + 5)), at + 5 + count * min_bytes

    def read_bools(source: Source, at: int) -> tuple[list[bool], int]:
        end = at + 5 + head(source, at)
        values = source.data[at + 5 : end]
        if values and max(values) > 1:
            raise MalformedStructError(at + 5, "a list of bool with other bytes than 0 and 1")
        return list(map(bool, values)), end

    def read(source: Source, at: int) -> tuple[list[Any], int]:
        count = head(source, at)
        at += 5
        values = []
        for _ in range(count):
            value, at = element(source, at)
            values.append(value)
        return values, at

    if declared == _BOOL:
        return read_bools
    return read_numbers if form else read


def _map_reader(key: tuple[int, Any], value: tuple[int, Any]) -> _Read:
    wires = tuple(_STRING if kind == _BINARY else kind for kind, _ in (key, value))
    min_bytes = _MIN_BYTES[wires[0]] + _MIN_BYTES[wires[1]]
    read_key, read_value = _value_reader(*key), _value_reader(*value)

    def read(source: Source, at: int) -> tuple[dict[Any, Any], int]:
        count = _count(source, at + 2, min_bytes, wires[1])
        # An empty map may have any types.
        if count and (source.data[at], source.data[at + 1]) != wires:
            raise MalformedStructError(at, f"a map that is not of {_NAMES[wires[0]]} to {_NAMES[wires[1]]}")
        at += 6
        entries: dict[Any, Any] = {}
        for _ in range(count):
            begin = at
            name, at = read_key(source, at)
            if name in entries:
                raise MalformedStructError(begin, f"a map with {str(name)[:50]!r} twice")
            entries[name], at = read_value(source, at)
        return entries, at

    return read


def _skip_field(source: Source, at: int, numbers: dict[int, tuple[str, int]], owner: str) -> int:
    """The offset after an undeclared field."""
    wire, number = _FIELD.unpack_from(source.data, at)
    if number in numbers:
        name, declared = numbers[number]
        raise MalformedStructError(at, f"{owner}.{name} is a {_type_name(wire)} instead of a {_NAMES[declared]}")
    return _skip(source, at + 3, wire, _MAX_DEPTH)


def _skip(source: Source, at: int, wire: int, depth: int) -> int:
    if wire in _WIDTHS:
        return _within(source, at + _WIDTHS[wire])
    if wire == _STRING:
        return _read_bytes(source, at)[1]
    if wire not in _MIN_BYTES:
        raise MalformedStructError(at, f"a field of {_type_name(wire)}")
    if depth == 0:
        raise MalformedStructError(at, f"values nested deeper than {_MAX_DEPTH}")
    if wire == _STRUCT:
        while (inner := source.data[at]) != 0:
            at = _skip(source, _within(source, at + 3), inner, depth - 1)
        return at + 1
    return _skip_elements(source, at, 2 if wire == _MAP else 1, depth - 1)


def _skip_elements(source: Source, at: int, kinds_per_element: int, depth: int) -> int:
    kinds = source.data[at : at + kinds_per_element]
    at += kinds_per_element
    count = _count(source, at, sum(_MIN_BYTES.get(kind, 1) for kind in kinds), kinds[-1])
    at += 4
    if all(kind in _WIDTHS for kind in kinds):
        return at + count * sum(_WIDTHS[kind] for kind in kinds)
    for _ in range(count):
        for kind in kinds:
            at = _skip(source, at, kind, depth)
    return at


def _within(source: Source, at: int) -> int:
    if at > len(source.data):
        raise IndexError
    return at


def _type_name(wire: int) -> str:
    return _NAMES.get(wire, f"type {wire}, which does not exist")
