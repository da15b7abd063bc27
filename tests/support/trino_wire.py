"""Blocks as the service encodes them by hand, and decoding with thriftpy2."""

from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.protocol import binary
from thriftpy2.transport import memory

import hudi_catalog.trino
from hudi_catalog.trino.pages import Buffers, cells_of, encode_cells
from hudi_catalog.trino.types import ServedColumn
from hudi_catalog.trino.values import served_values

protocols: Any = binary
transports: Any = memory
IDL = Path(hudi_catalog.trino.__file__).parent / "trino_thrift_service.thrift"
SERVICE: Any = thriftpy2.load(str(IDL), module_name="trino_wire_thrift")
FIELDS = {
    "integerData": "ints",
    "bigintData": "longs",
    "doubleData": "doubles",
    "booleanData": "booleans",
    "dateData": "dates",
    "timestampData": "timestamps",
}


def encode_block(array: Any, column: ServedColumn) -> Buffers:
    """The block of some values of a table's column."""
    return encode_cells([cells_of(served_values(array, column), column.block)], column.block)


def decoded(parts: Any, struct: str) -> Any:
    """The Thrift struct; all bytes must belong to it."""
    data = b"".join(parts)
    buffer = transports.TMemoryBuffer(data)
    protocol = protocols.TBinaryProtocol(buffer, decode_response=False)
    result = getattr(SERVICE, struct)()
    protocol.read_struct(result)
    assert buffer.read(1) == b""
    return result


def block_field(block: Any) -> str:
    present = [spec[1] for spec in block.thrift_spec.values() if getattr(block, spec[1]) is not None]
    assert len(present) == 1
    return str(present[0])


def block_values(block: Any) -> list[Any]:
    """What Trino reads: values, None if null."""
    field = block_field(block)
    data = getattr(block, field)
    if field in FIELDS:
        return nulled(getattr(data, FIELDS[field]), data.nulls)
    if field in {"varcharData", "jsonData"}:
        return nulled(cut(data.bytes, data.sizes, data.nulls), data.nulls)
    assert field == "bigintArrayData"
    items = nulled(data.values.longs, data.values.nulls)
    return nulled(cut(items, data.sizes, data.nulls), data.nulls)


def cut(data: Any, sizes: list[int], nulls: list[bool] | None) -> list[Any]:
    """Trino takes the size of a null for 0, whatever is said."""
    at, result = 0, []
    for position, size in enumerate(sizes):
        step = 0 if nulls and nulls[position] else size
        result.append(data[at : at + step])
        at += step
    assert at == len(data)
    return result


def nulled(values: list[Any], nulls: list[bool] | None) -> list[Any]:
    if nulls is None:
        return list(values)
    assert len(nulls) == len(values)
    return [None if null else value for null, value in zip(nulls, values, strict=True)]
