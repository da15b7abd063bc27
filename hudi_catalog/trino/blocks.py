"""Blocks of Trino's Thrift connector: the cells of a column in the binary protocol, as buffers to be sent."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from hudi_catalog.trino.cells import Cells, bytes_of
from hudi_catalog.trino.types import Wire

Parts = list["bytes | memoryview"]

# Types of the binary protocol.
BOOL, DOUBLE, I32, I64, STRING, STRUCT, LIST = 2, 4, 8, 10, 11, 12, 15
STOP = b"\0"
_FIELD = struct.Struct(">bh")
_LIST = struct.Struct(">bi")
_COUNT = struct.Struct(">i")
_ELEMENTS = {
    Wire.INTEGER: I32,
    Wire.BIGINT: I64,
    Wire.DOUBLE: DOUBLE,
    Wire.BOOLEAN: BOOL,
    Wire.DATE: I32,
    Wire.TIMESTAMP: I64,
}
_NULLS, _VALUES, _TEXTS = 1, 2, 3


def field_head(kind: int, number: int) -> bytes:
    """The head of a field: its type and number."""
    return _FIELD.pack(kind, number)


def list_head(kind: int, count: int) -> bytes:
    """The head of a list: the type of its elements, and how many there are."""
    return _LIST.pack(kind, count)


def count_bytes(number: int) -> bytes:
    """A whole number of 32 bits."""
    return _COUNT.pack(number)


LIST_HEAD_BYTES = _FIELD.size + _LIST.size
BLOCK_HEAD_BYTES = _FIELD.size + LIST_HEAD_BYTES + 2 * len(STOP)
"""Bytes of a block of one width beside values and nulls."""
TEXT_HEAD_BYTES = BLOCK_HEAD_BYTES + _FIELD.size + _COUNT.size
ARRAY_HEAD_BYTES = BLOCK_HEAD_BYTES + _FIELD.size + 2 * LIST_HEAD_BYTES + len(STOP)


def head_bytes(wire: Wire) -> int:
    """Bytes of a block beside those of its values and nulls, and the head of the list of nulls."""
    if wire is Wire.BIGINT_ARRAY:
        return ARRAY_HEAD_BYTES
    return TEXT_HEAD_BYTES if wire in {Wire.VARCHAR, Wire.JSON} else BLOCK_HEAD_BYTES


def encode_cells(pieces: Sequence[Cells], wire: Wire) -> Parts:
    """The block of cells that stand one behind the other; their values are not copied."""
    return [field_head(STRUCT, wire.value), *_data(pieces, wire), STOP]


def _data(pieces: Sequence[Cells], wire: Wire) -> Iterator[bytes | memoryview]:
    """The struct of one kind of block, its end included."""
    count = sum(piece.count for piece in pieces)
    yield from _nulls(pieces, count)
    if wire in _ELEMENTS:
        yield field_head(LIST, _VALUES) + list_head(_ELEMENTS[wire], count)
        yield from (piece.contents for piece in pieces)
    else:
        yield field_head(LIST, _VALUES) + list_head(I32, count)
        for piece in pieces:
            yield _sizes(piece)
        if wire is Wire.BIGINT_ARRAY:
            yield field_head(STRUCT, _TEXTS)
            yield from _data([items for piece in pieces if (items := piece.inner) is not None], Wire.BIGINT)
        else:
            contents = [piece.contents for piece in pieces]
            yield field_head(STRING, _TEXTS) + count_bytes(sum(map(len, contents)))
            yield from contents
    yield STOP


def _nulls(pieces: Sequence[Cells], count: int) -> Iterator[bytes | memoryview]:
    if all(piece.nulls is None for piece in pieces):
        return
    yield field_head(LIST, _NULLS) + list_head(BOOL, count)
    for piece in pieces:
        yield bytes(piece.count) if piece.nulls is None else bytes_of(piece.nulls)


def _sizes(piece: Cells) -> bytes | memoryview:
    if piece.ends is None or not piece.count:
        return b""
    return bytes_of(np.diff(piece.ends).astype(np.int32, copy=False).byteswap(inplace=True))
