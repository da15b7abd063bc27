"""The Thrift contract of Trino's connector and PrestoDB's, which differ in names only, and its custom readers.

The ranges of long IN and NOT IN lists are read as one column of end points instead of range by range. In an IN list all
ranges include both ends; in a NOT IN list none does, and the outermost are unbounded. Their encodings are equal except
for the values, so they are decoded with strides, encoded again and compared with the message; other ranges are left to
the default reader.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import posixpath
import struct
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple, overload

from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.transport import TCyMemoryBuffer

from hudi_catalog.server.thrift_calls import load_service
from hudi_catalog.server.thrift_structs import ReadStruct, Source, read_struct, register_reader

IDL = "trino_thrift_service.thrift"


@functools.cache
def trino_service() -> ModuleType:
    """The contract with Trino's names."""
    return _with_readers("Trino", load_service(_path()))


@functools.cache
def presto_service() -> ModuleType:
    """The contract with PrestoDB's names. Encodings are equal, so a reply to Presto may use Trino's structs."""
    return _with_readers("Presto", load_service(_path(), rename={"Trino": "Presto", "trino": "presto"}))


def _with_readers(prefix: str, service: ModuleType) -> ModuleType:
    register_reader(getattr(service, f"{prefix}ThriftRangeValueSet"), read_packed)
    register_reader(getattr(service, f"{prefix}ThriftTupleDomain"), _read_domain)
    return service


def _read_domain(kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:  # noqa: ARG001
    domain, end = read(source, at)
    domain.encoded = source.data[at:end]
    return domain, end


def domain_bytes(domain: Any) -> bytes:
    """A TupleDomain in the binary protocol; the original bytes if it was read from a message."""
    encoded: bytes | None = getattr(domain, "encoded", None)
    return struct_bytes(domain) if encoded is None else encoded


def struct_bytes(struct: Any) -> bytes:
    """A struct in the binary protocol."""
    buffer = TCyMemoryBuffer()
    protocol: Any = TCyBinaryProtocol  # thriftpy2 has types for its interpreted half only
    protocol(buffer).write_struct(struct)
    written: bytes = buffer.getvalue()
    return written


def domain_of(content: bytes) -> Any:
    """The TupleDomain encoded by `struct_bytes`.

    Raises:
        MalformedStructError: the bytes are not a TupleDomain.
    """
    return read_struct(trino_service().TrinoThriftTupleDomain, content, 0)


def _path() -> str:
    return posixpath.join(posixpath.dirname(__file__), IDL)


_MIN_RANGES = 20
_BELOW, _EXACTLY, _ABOVE = 1, 2, 3
_I32, _I64, _DOUBLE, _STRUCT = 8, 10, 4, 12
_SIZE = struct.Struct(">i")
_LIST = b"\x0f\0\1\x0c"  # head of a set's field, a list of structs
_LOW, _HIGH, _STOP = b"\x0c\0\1", b"\x0c\0\2", b"\0"
_VALUE = _LOW  # head of a marker's first field; equal to that of a range's
_BYTES = b"\x0b\0\3"
_NO_TEXT = _SIZE.pack(0)

# Element type of a block's list, and its struct format, by the block's field number. For strings these are the sizes.
_TEXTS = 4
_NUMBERS = {1: (_I32, "i"), 2: (_I64, "q"), 3: (_DOUBLE, "d"), _TEXTS: (_I32, "i"), 6: (_I32, "i"), 7: (_I64, "q")}
_MIN_RANGE_BYTES = 50  # a lower bound
_KIND_AT = 8  # offset of the block's field number in a range whose low end has a value


def _bound(bound: int) -> bytes:
    """The bytes of a marker after its value."""
    return b"\x08\0\2" + _SIZE.pack(bound) + _STOP


_UNBOUNDED = _LOW + _bound(_ABOVE) + _HIGH  # a range without a low end, up to its high end


class PackedRanges(Sequence[Any]):
    """A sequence of ranges whose objects are created on access.

    Args:
        kind: class of the ranges.
        number: of the block field that holds the values.
        values: low and high ends in turn: numbers, or strings as bytes.
        closed: whether all ranges include their ends. Otherwise none does, and the first range has no low end and the
            last no high end; these are not among the values.
    """

    def __init__(self, kind: Any, number: int, values: Sequence[Any], *, closed: bool) -> None:
        self._range = kind
        self._marker = kind.thrift_spec[1][2]
        self._block = self._marker.thrift_spec[1][2]
        _, self._field, self._data, _ = self._block.thrift_spec[number]
        self._values = values
        self.closed = closed

    @property
    def ends(self) -> Any:
        """All values in one block."""
        return self._block_of(self._values)

    def __len__(self) -> int:
        return (len(self._values) + (0 if self.closed else 2)) // 2

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        first = 2 * range(len(self))[at] - (0 if self.closed else 1)
        return self._range(
            self._end(first, _EXACTLY if self.closed else _ABOVE),
            self._end(first + 1, _EXACTLY if self.closed else _BELOW),
        )

    def _end(self, place: int, bound: int) -> Any:
        known = 0 <= place < len(self._values)
        return self._marker(self._block_of([self._values[place]]) if known else None, bound)

    def _block_of(self, values: Sequence[Any]) -> Any:
        is_text = isinstance(values[0], bytes)
        data = self._data(None, list(map(len, values)), b"".join(values)) if is_text else self._data(None, list(values))
        return self._block(**{self._field: data})


def read_packed(kind: Any, source: Source, at: int, read: ReadStruct) -> tuple[Any, int]:
    """Read a set of ranges, packed where possible; a custom reader for `register_reader`.

    Args:
        kind: class of the set.
        source: the message.
        at: offset of the set.
        read: the default reader.
    """
    elements_left = source.elements_left
    with contextlib.suppress(struct.error, IndexError):
        packed = _packed(kind, source, at)
        if packed is not None:
            return packed
    source.elements_left = elements_left
    return read(source, at)


class _Form(NamedTuple):
    """The constant bytes around the end points: before the first, after each odd and each even one, after the last.

    Odd end points are low ends; where the first range has no low end, they are high ends.
    """

    first: bytes
    odd: bytes
    even: bytes
    last: bytes


def _packed(kind: Any, source: Source, at: int) -> tuple[Any, int] | None:
    data = source.data
    begin = at + len(_LIST) + _SIZE.size
    count = _SIZE.unpack_from(data, at + len(_LIST))[0] if data.startswith(_LIST, at) else 0
    if not _MIN_RANGES <= count <= len(data) // _MIN_RANGE_BYTES:
        return None
    source.spend(at, count, _STRUCT)
    closed = data.startswith(_LOW + _VALUE, begin)
    field = data[begin + (_KIND_AT if closed else len(_UNBOUNDED) + _KIND_AT - len(_LOW))]
    if field not in _NUMBERS:
        return None
    form = _form(field, closed=closed)
    ends = _ends(data, begin + len(form.first), field, 2 * count if closed else 2 * count - 2, form)
    joined = b"".join(itertools.chain.from_iterable(zip(ends, itertools.cycle((form.odd, form.even)), strict=False)))
    written = form.first + joined.removesuffix(form.even) + form.last
    if not data.startswith(written, begin):
        return None
    source.spend(at, len(ends), _I32)
    values = _texts(ends) if field == _TEXTS else struct.unpack(f">{len(ends)}{_NUMBERS[field][1]}", b"".join(ends))
    if values is None:
        return None
    return kind(PackedRanges(kind.thrift_spec[1][2][1], field, values, closed=closed)), begin + len(written)


def _form(field: int, *, closed: bool) -> _Form:
    """The encoding of ranges whose values are in this field of their blocks."""
    wire, _ = _NUMBERS[field]
    head = _VALUE + b"\x0c\0" + bytes([field]) + b"\x0f\0\2" + bytes([wire]) + _SIZE.pack(1)
    exactly, below, above = (_STOP + _STOP + _bound(bound) for bound in (_EXACTLY, _BELOW, _ABOVE))
    if closed:
        return _Form(_LOW + head, exactly + _HIGH + head, exactly + _STOP + _LOW + head, exactly + _STOP + _STOP)
    last = above + _HIGH + _bound(_BELOW) + _STOP + _STOP
    return _Form(_UNBOUNDED + head, below + _STOP + _LOW + head, above + _HIGH + head, last)


def _ends(data: bytes, at: int, field: int, count: int, form: _Form) -> list[bytes]:
    """The bytes at the positions of the end points, provided that the message has this form."""
    steps = len(form.odd), len(form.even)
    if field != _TEXTS:
        width = struct.calcsize(_NUMBERS[field][1])
        both = 2 * width + sum(steps)
        ends = [b""] * count
        ends[::2] = [data[one : one + width] for one in range(at, at + count // 2 * both, both)]
        at += width + steps[0]
        ends[1::2] = [data[one : one + width] for one in range(at, at + count // 2 * both, both)]
        return ends
    ends = []
    for number in range(count):
        (size,) = _SIZE.unpack_from(data, at)
        end = at + _SIZE.size + (size + len(_BYTES) + _SIZE.size if size > 0 else 0)
        ends.append(data[at:end])
        at = end + steps[number & 1]
    return ends


def _texts(ends: Sequence[bytes]) -> list[bytes] | None:
    """The strings, encoded as size, head of the bytes field, size, bytes; None for any other encoding.

    The size 0 may stand alone.
    """
    if any(end[4:11] != _BYTES + end[:4] and end != _NO_TEXT for end in ends):
        return None
    return [end[11:] for end in ends]
