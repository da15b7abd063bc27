"""Vectorized encoding of Arrow columns as Avro records.

Each field becomes a binary array with the Avro bytes of all rows; Arrow then joins the fields row by row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import (
    fixed_rows,
    from_numpy,
    join_bytes,
    masked_rows,
    one_chunk,
    spans_of,
    to_numpy,
)
from table_format.codecs.avro_schema_tree import LOGICAL_TYPES, Node, parse
from table_format.codecs.varint import write_varint
from table_format.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Encoded:
    """A field whose rows are encoded already, union branch included; nulls are encoded as the null branch."""

    values: pa.BinaryArray


# A column of a record: an array, encoded bytes, the columns of a nested record that is never null, or a constant.
ColumnLike = Any


def encode_long(number: int) -> bytes:
    r"""A number as Avro writes it: zigzag, seven bits to a byte; see `encode_longs` for many.

    >>> encode_long(0), encode_long(-1), encode_long(64)
    (b'\x00', b'\x01', b'\x80\x01')
    """
    rest = number << 1 if number >= 0 else ((-number - 1) << 1) | 1
    return write_varint(rest)


def encode_longs(values: NDArray[Any]) -> pa.BinaryArray:
    """Encode integers as zigzag varints."""
    signed = values.astype(np.int64)
    zigzag = (signed.astype(np.uint64) << np.uint64(1)) ^ (signed >> np.int64(63)).astype(np.uint64)
    greatest = int(zigzag.max()) if len(zigzag) else 0
    width = max(1, -(-greatest.bit_length() // 7))
    rows = np.empty((len(zigzag), width), dtype=np.uint8)
    keep = np.ones((len(zigzag), width), dtype=np.bool_)
    for place in range(width):
        rest = zigzag >> np.uint64(7 * place)
        more = rest > 0x7F
        rows[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << np.uint8(7))
        if place:
            keep[:, place] = rest > 0
    return fixed_rows(rows) if width == 1 else masked_rows(rows, keep)


def encode_values(node: Node, array: pa.Array[Any]) -> pa.BinaryArray:
    """Encode plain values.

    Args:
        node: their Avro type.
        array: without nulls, of a matching type; logical types may be given as integers.

    Raises:
        SchemaError: the type is not plain, or the array does not fit it.
    """
    column: Any = array
    if column.null_count:
        raise SchemaError(f"nulls for the Avro type {node.name}, which has none")
    try:
        return _encode_plain(node, column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(f"{column.type} values cannot be the Avro type {node.name}: {error}") from error


def _encode_plain(node: Node, column: Any) -> pa.BinaryArray:
    if node.kind in ("int", "long", "enum"):
        logical = LOGICAL_TYPES.get(node.logical or "")
        if logical is not None and pa.types.is_temporal(column.type):
            column = column.cast(logical)
        width = pa.int64() if node.kind == "long" else pa.int32()
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        return encode_longs(to_numpy(column.cast(width)))
    if node.kind == "boolean":
        flags = to_numpy(column.cast(pa.bool_()))
        return fixed_rows(flags.astype(np.uint8).reshape(-1, 1))
    if node.kind in ("float", "double"):
        size = 4 if node.kind == "float" else 8
        numbers = to_numpy(column.cast(pa.float32() if size == 4 else pa.float64()))
        return fixed_rows(np.ascontiguousarray(numbers, dtype=f"<f{size}").view(np.uint8).reshape(-1, size))
    if node.logical == "decimal":
        column = _decimal_bytes(node, column)
    elif node.kind not in ("string", "bytes", "fixed"):
        raise SchemaError(f"Avro type {node.kind} is not a plain value")
    binary: pa.BinaryArray = (column.cast(pa.string()) if node.kind == "string" else column).cast(pa.binary())
    if node.kind == "fixed":
        return binary
    return join_bytes(encode_longs(to_numpy(pc.binary_length(binary))), binary)


def _decimal_bytes(node: Node, column: Any) -> pa.BinaryArray:
    """Encode decimals as big-endian two's complement of their unscaled value, in the fewest bytes, as Java does."""
    decimals = column.cast(pa.decimal128(min(node.precision or 38, 38), node.scale))
    raw = np.frombuffer(decimals.buffers()[1], dtype=np.uint8)[
        decimals.offset * 16 : (decimals.offset + len(decimals)) * 16
    ]
    rows = raw.reshape(-1, 16)[:, ::-1]
    if node.kind == "fixed":
        return fixed_rows(rows[:, 16 - node.size :])
    fill = np.where(rows[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    keep = np.ones(rows.shape, dtype=np.bool_)
    redundant = np.ones(len(rows), dtype=np.bool_)
    for place in range(15):
        # A leading byte is redundant if it only repeats the sign bit of the next byte.
        redundant &= (rows[:, place] == fill[:, 0]) & ((rows[:, place + 1] ^ fill[:, 0]) < 0x80)
        keep[:, place] = ~redundant
    return masked_rows(rows, keep)


def encode_union(node: Node, branch: int, array: pa.Array[Any]) -> pa.BinaryArray:
    """Encode a union whose values are all of one branch, or null.

    Args:
        node: the union.
        branch: index of the values' branch: a plain type, or a record with one plain field.
        array: the values; nulls become the null branch.

    Raises:
        SchemaError: there are nulls but no null branch, or the values do not fit.
    """
    column: Any = array
    inner = node.branches[branch]
    if inner.kind == "record":
        if len(inner.fields) != 1:
            raise SchemaError(f"the Avro record {inner.name} must have exactly one field")
        inner = inner.fields[0][1]
    if not column.null_count:
        return join_bytes(_index(branch), encode_values(inner, column))
    valid = column.is_valid()
    encoded: Any = join_bytes(_index(branch), encode_values(inner, column.drop_null()))
    null = pa.scalar(_index(_null_branch(node)), pa.binary())
    positions = np.cumsum(to_numpy(valid)) - 1
    if len(encoded) == 0:
        encoded = pa.array([b""], pa.binary())
    spread = encoded.take(from_numpy(np.maximum(positions, 0)))
    joined: pa.BinaryArray = pc.if_else(valid, spread, null)
    return joined


def _index(branch: int) -> bytes:
    """A branch index as a zigzag varint; unions have fewer than 64 branches."""
    return bytes([2 * branch])


def _null_branch(node: Node) -> int:
    for number, branch in enumerate(node.branches):
        if branch.kind == "null":
            return number
    raise SchemaError("nulls for an Avro union that has no null branch")


def encode_records(schema: Any, columns: Mapping[str, ColumnLike], count: int) -> pa.BinaryArray:
    """Encode `count` records.

    Args:
        schema: of a record, as `json.loads` gives it, or a parsed `Node`.
        columns: for each field an Arrow array, an `Encoded`, a `bytes` that is the Avro encoding of every row, or a
            nested mapping for a record that is never null. A field that is left out is null.
        count: rows.

    Raises:
        SchemaError: a field that cannot be null is left out, or a column does not fit its type.
    """
    node = schema if isinstance(schema, Node) else parse(schema)
    parts = _record_parts(node, columns)
    merged: list[pa.BinaryArray | bytes] = []
    for part in parts:
        # Adjacent constants are joined once, here.
        if isinstance(part, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += part
        else:
            merged.append(part)
    if all(isinstance(part, bytes) for part in merged):
        return pa.array([b"".join(part for part in merged if isinstance(part, bytes))] * count, pa.binary())
    joined = join_bytes(*merged)
    if len(joined) != count or joined.null_count:
        raise SchemaError(f"the columns of an Avro record hold nulls or other than {count} rows")
    return joined


def _record_parts(node: Node, columns: Mapping[str, ColumnLike]) -> list[pa.BinaryArray | bytes]:
    known = {name for name, _ in node.fields}
    unknown = [name for name in columns if name not in known]
    if unknown:
        raise SchemaError(f"the Avro schema has no field {unknown[0]!r} in {node.name}")
    return [part for name, child in node.fields for part in _field_parts(child, columns.get(name), name)]


def _field_parts(node: Node, column: ColumnLike, name: str) -> list[pa.BinaryArray | bytes]:
    if isinstance(column, Mapping):
        return _nested_parts(node, column, name)
    return [column if isinstance(column, bytes) else _encoded_field(node, column, name)]


def _nested_parts(node: Node, columns: Mapping[str, ColumnLike], name: str) -> list[pa.BinaryArray | bytes]:
    if node.kind == "record":
        return _record_parts(node, columns)
    for number, branch in enumerate(node.branches):
        if branch.kind == "record":
            return [_index(number), *_record_parts(branch, columns)]
    raise SchemaError(f"the Avro field {name!r} is not a record")


def _encoded_field(node: Node, column: ColumnLike, name: str) -> pa.BinaryArray | bytes:
    if column is None:
        if node.kind != "union":
            raise SchemaError(f"the Avro field {name!r} needs a column")
        return _index(_null_branch(node))
    if isinstance(column, Encoded):
        if not column.values.null_count:
            return column.values
        filled: Any = pc.fill_null(column.values, pa.scalar(_index(_null_branch(node)), pa.binary()))
        return cast("pa.BinaryArray", filled)
    array = one_chunk(column)
    if node.optional is not None:
        return encode_union(node, node.branches.index(node.optional), array)
    return encode_values(node, array)


def map_blocks(keys: pa.Array[Any], values: pa.BinaryArray, offsets: NDArray[np.int64]) -> list[bytes]:
    """Encode one map for each range of entries.

    Args:
        keys: strings.
        values: the Avro bytes of each value.
        offsets: start of each map's entries, and the end of the last.
    """
    column: Any = keys
    binary = column.cast(pa.binary())
    entries: Any = join_bytes(encode_longs(to_numpy(pc.binary_length(binary))), binary, values)
    counts = np.diff(offsets)
    heads = [head or b"" for head in encode_longs(counts).to_pylist()]
    data, starts, lengths = spans_of(entries)
    ends = np.concatenate([starts[:1], starts + lengths]) if len(starts) else np.zeros(1, dtype=np.int64)
    return [
        head + data[int(ends[first]) : int(ends[last])].tobytes() + b"\x00" if last > first else b"\x00"
        for head, first, last in zip(heads, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
