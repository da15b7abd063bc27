"""Structs in Thrift's binary protocol, read strictly.

Thrift's own readers forgive: of a list with another type of element they make an empty one, and a field of another type
they pass over. In a condition on rows, both would lose rows. Here whatever is not as declared is an error, and nothing
is allocated on the word of a length alone. Fields with numbers that are not declared are passed over.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from table_format.errors import ServiceError

# Elements of lists, sets and maps in one message, so that a message of a few megabytes doesn't become gigabytes of
# objects. The condition of a query of a million characters has fewer than half as many.
MOST_ELEMENTS = 2_000_000

_MOST_STRUCTS = 500_000

_DEEPEST = 32

_BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64 = 2, 3, 4, 6, 8, 10

_STRING, _STRUCT, _MAP, _SET, _LIST, _BINARY = 11, 12, 13, 14, 15, 18

_NUMBERS = {_BYTE: "b", _DOUBLE: "d", _I16: "h", _I32: "i", _I64: "q"}

_WIDTHS = {_BOOL: 1, _BYTE: 1, _DOUBLE: 8, _I16: 2, _I32: 4, _I64: 8}

# Bytes that a value has at least.
_LEAST = {**_WIDTHS, _STRING: 4, _STRUCT: 1, _MAP: 6, _SET: 5, _LIST: 5}

_PRICES = {_STRUCT: MOST_ELEMENTS // _MOST_STRUCTS}

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
    """Bytes that are not the struct that they should be.

    Attributes:
        offset: of the fault, in bytes from the beginning of the message.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"at byte {offset}: {reason}")
        self.offset = offset


class Source:
    """The bytes of a message, and how many elements may still be read from them."""

    __slots__ = ("data", "left")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.left = MOST_ELEMENTS

    def spend(self, at: int, elements: int, wire: int) -> None:
        """Count elements that are about to be read.

        Raises:
            MalformedStructError: they are too many.
        """
        self.left -= elements * _PRICES.get(wire, 1)
        if self.left < 0:
            raise MalformedStructError(at, f"more than {MOST_ELEMENTS:,} elements, or {_MOST_STRUCTS:,} structs")


ReadStruct: TypeAlias = Callable[[Source, int], tuple[Any, int]]

_Read: TypeAlias = ReadStruct

_OTHERWISE: dict[Any, Callable[[Any, Source, int, ReadStruct], tuple[Any, int]]] = {}


def read_otherwise(kind: Any, reader: Callable[[Any, Source, int, ReadStruct], tuple[Any, int]]) -> None:
    """Let another reader read the structs of a class; to be said before the first one is read.

    Args:
        kind: the class.
        reader: takes the class, the message, the offset of a struct and what would read it otherwise; returns an
            object and the offset behind the struct. It has to be as strict.
    """
    _OTHERWISE[kind] = reader


def read_struct(kind: Any, data: bytes, at: int) -> Any:
    """Read a struct that ends where the bytes end.

    Args:
        kind: class of the struct, with thriftpy2's `thrift_spec`. Fields that the IDL calls `required` must be there.
        data: the message.
        at: offset at which the struct begins.

    Returns:
        An object of that class: `binary` as bytes, `string` as str, lists and sets as lists, absent fields None.

    Raises:
        MalformedStructError: the bytes are anything else.
    """
    try:
        found, end = _struct_reader(kind)(Source(data), at)
    except (struct.error, IndexError):
        raise MalformedStructError(len(data), "the message ends within a value") from None
    if end != len(data):
        raise MalformedStructError(end, f"{len(data) - end} more bytes after the end of the message")
    return found


@functools.cache
def _struct_reader(kind: Any) -> _Read:
    """A function that reads structs of a class."""
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
                at = _pass_over_field(source, at, numbers, kind.__name__)
                continue
            place = field[0]
            if values[place] is not None:
                raise MalformedStructError(at, f"{kind.__name__} has {names[place]} twice")
            values[place], at = field[1](source, at + 3)
        for place in required:
            if values[place] is None:
                raise MalformedStructError(begin, f"{kind.__name__} without {names[place]}")
        # Its __init__ takes the fields in the order of the IDL; to set them one by one would cost a dictionary each.
        return kind(*values), at + 1

    other = _OTHERWISE.get(kind)
    return read if other is None else lambda source, at: other(kind, source, at, read)


def _value_reader(declared: int, spec: Any) -> _Read:
    """A function that reads values of a type, as thriftpy2 writes types down."""
    if declared == _STRUCT:
        return _later(spec)
    if declared in (_LIST, _SET):
        return _list_reader(*_split(spec))
    if declared == _MAP:
        return _map_reader(_split(spec[0]), _split(spec[1]))
    simple = {_BOOL: _read_bool, _BINARY: _read_bytes, _STRING: _read_text}
    return simple[declared] if declared in simple else _number_reader(declared, getattr(spec, "_VALUES_TO_NAMES", None))


def _split(spec: Any) -> tuple[int, Any]:
    return (spec[0], spec[1]) if isinstance(spec, tuple) else (spec, None)


def _later(kind: Any) -> _Read:
    """Reads structs of a class that is looked at when the first one comes, since classes may contain each other."""
    found: _Read | None = None

    def read(source: Source, at: int) -> tuple[Any, int]:
        nonlocal found
        if found is None:
            found = _struct_reader(kind)
        return found(source, at)

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


def _count(source: Source, at: int, least: int, wire: int) -> int:
    """How many elements are announced at an offset, if so many can follow."""
    (count,) = _SIZE.unpack_from(source.data, at)
    left = len(source.data) - at - 4
    if count < 0 or count * least > left:
        raise MalformedStructError(at, f"{count} elements are announced and {left} bytes are left")
    source.spend(at, count, wire)
    return int(count)


def _list_reader(declared: int, spec: Any) -> _Read:
    wire = _STRING if declared == _BINARY else declared
    least = _LEAST[wire]
    element = _value_reader(declared, spec)
    form = _NUMBERS.get(declared, "") if spec is None else ""
    unpack_one = struct.Struct(f">{form}").unpack_from

    def head(source: Source, at: int) -> int:
        if source.data[at] != wire:
            raise MalformedStructError(at, f"a list of {_type_name(source.data[at])} instead of {_NAMES[wire]}")
        return _count(source, at + 1, least, wire)

    def read_numbers(source: Source, at: int) -> tuple[list[Any], int]:
        count = head(source, at)
        if count == 1:
            return list(unpack_one(source.data, at + 5)), at + 5 + least
        return list(struct.unpack_from(f">{count}{form}", source.data, at + 5)), at + 5 + count * least

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
    least = _LEAST[wires[0]] + _LEAST[wires[1]]
    read_key, read_value = _value_reader(*key), _value_reader(*value)

    def read(source: Source, at: int) -> tuple[dict[Any, Any], int]:
        count = _count(source, at + 2, least, wires[1])
        # A map without entries may leave its types open.
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


def _pass_over_field(source: Source, at: int, numbers: dict[int, tuple[str, int]], owner: str) -> int:
    """The offset after a field that the IDL does not have."""
    wire, number = _FIELD.unpack_from(source.data, at)
    if number in numbers:
        name, declared = numbers[number]
        raise MalformedStructError(at, f"{owner}.{name} is a {_type_name(wire)} instead of a {_NAMES[declared]}")
    return _pass_over(source, at + 3, wire, _DEEPEST)


def _pass_over(source: Source, at: int, wire: int, depth: int) -> int:
    if wire in _WIDTHS:
        return _within(source, at + _WIDTHS[wire])
    if wire == _STRING:
        return _read_bytes(source, at)[1]
    if wire not in _LEAST:
        raise MalformedStructError(at, f"a field of {_type_name(wire)}")
    if depth == 0:
        raise MalformedStructError(at, f"values nested deeper than {_DEEPEST}")
    if wire == _STRUCT:
        while (inner := source.data[at]) != 0:
            at = _pass_over(source, _within(source, at + 3), inner, depth - 1)
        return at + 1
    return _pass_over_elements(source, at, 2 if wire == _MAP else 1, depth - 1)


def _pass_over_elements(source: Source, at: int, kinds_per_element: int, depth: int) -> int:
    kinds = source.data[at : at + kinds_per_element]
    at += kinds_per_element
    count = _count(source, at, sum(_LEAST.get(kind, 1) for kind in kinds), kinds[-1])
    at += 4
    if all(kind in _WIDTHS for kind in kinds):
        return at + count * sum(_WIDTHS[kind] for kind in kinds)
    for _ in range(count):
        for kind in kinds:
            at = _pass_over(source, at, kind, depth)
    return at


def _within(source: Source, at: int) -> int:
    if at > len(source.data):
        raise IndexError
    return at


def _type_name(wire: int) -> str:
    return _NAMES.get(wire, f"type {wire}, which does not exist")
