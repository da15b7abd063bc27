"""Entries of the record index, decoded to locations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Column, fixed_rows, from_numpy, one_chunk, spans_of, to_numpy, valid_mask
from table_format.codecs.avro_columns import decode_columns
from table_format.codecs.avro_schema_tree import Node
from table_format.errors import CorruptFileError, SchemaError

_LOCATIONS: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "instant_ms": pa.int64(),
    "position": pa.int64(),
}

LOCATIONS_SCHEMA = pa.schema(_LOCATIONS)
"""A location: record key, partition path, file id, the instant that wrote the record there (epoch milliseconds of the
instant in the writer's zone, as stored in the index), and the record's row in the base file if the index has it."""

PLACES_SCHEMA = LOCATIONS_SCHEMA.remove(0)
"""A location without its key."""

ROOT = "recordIndexMetadata"
_POSITION = "position"

_FIELDS = (
    *("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex"),
    *("fileId", "instantTime", "fileIdEncoding"),
)

BY_UUID, BY_TEXT = 0, 1
_UUID_GROUPS = (8, 4, 4, 4, 12)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def decode_values(values: Column, schema: Node, name: str) -> pa.Table:
    """Decode the locations in index entries.

    Args:
        values: Avro bytes of the entries, in one piece or several.
        schema: their Avro schema in the file.
        name: the file, for messages.

    Returns:
        Schema `PLACES_SCHEMA`.

    Raises:
        CorruptFileError: they are not entries of a record index.
    """
    codes, places = decode_places(values, schema, name)
    return places.take(from_numpy(codes))


def decode_places(values: Column, schema: Node, name: str) -> tuple[NDArray[np.int64], pa.Table]:
    """Decode the locations in index entries, each distinct one once; see `decode_values`.

    Returns:
        For each entry the row of its place in a table of `PLACES_SCHEMA`, which has places of these entries only.

    Raises:
        CorruptFileError: they are not entries of a record index.
    """
    encoded: Any = one_chunk(values.dictionary_encode())
    codes = to_numpy(encoded.indices).astype(np.int64)
    used = np.zeros(len(encoded.dictionary), np.bool_)
    used[codes] = True
    places = _decode_distinct(encoded.dictionary.filter(from_numpy(used)), schema, name)
    return (np.cumsum(used) - 1)[codes], places


def _decode_distinct(values: pa.BinaryArray, schema: Node, name: str) -> pa.Table:
    buffer, starts, lengths = spans_of(values)
    fields = (*_FIELDS, _POSITION) if _has_position(schema) else _FIELDS
    paths = [f"{ROOT}.{field}" for field in fields]
    try:
        decoded = decode_columns(buffer, starts, lengths, schema, paths, name=name)
    except SchemaError as error:
        raise CorruptFileError(name, 0, f"not records of a record index ({error})") from error
    columns: dict[str, Any] = {field: decoded[path] for field, path in zip(fields, paths, strict=True)}
    if columns["partitionName"].null_count:
        raise CorruptFileError(name, 0, "an entry of the record index names no partition; rebuild the index")
    decoded_columns = {
        "partition": columns["partitionName"],
        "file_id": _file_ids(name, columns),
        "instant_ms": columns["instantTime"],
        "position": columns.get(_POSITION, pa.nulls(len(values), pa.int64())),
    }
    return pa.table(decoded_columns, schema=PLACES_SCHEMA)


def _has_position(schema: Node) -> bool:
    for field, node in schema.fields:
        if field == ROOT:
            record = node.optional if node.optional is not None else node
            return any(inner == _POSITION for inner, _ in record.fields)
    return False


def _file_ids(name: str, columns: Mapping[str, Column]) -> Column:
    """File ids of either encoding: the halves of a UUID and a number, or the id itself."""
    high, low, text = (columns[field] for field in ("fileIdHighBits", "fileIdLowBits", "fileId"))
    codes = to_numpy(columns["fileIdEncoding"])
    known = valid_mask(columns["fileIdEncoding"])
    by_text, by_uuid = codes == BY_TEXT, (codes == BY_UUID) & valid_mask(high) & valid_mask(low)
    if not (known & (by_text & valid_mask(text) | by_uuid)).all():
        raise CorruptFileError(name, 0, "an entry of the record index names no file group; rebuild the index")
    made: Any = uuid_texts(to_numpy(high).astype(np.int64), to_numpy(low).astype(np.int64))
    numbers = pc.fill_null(columns["fileIndex"], -1)
    numbered = pc.binary_join_element_wise(made, numbers.cast(pa.string()), "-")
    made = pc.if_else(pc.greater_equal(numbers, 0), numbered, made)
    return made if not by_text.any() else pc.if_else(from_numpy(by_text), text, made)


def uuid_texts(high: NDArray[np.int64], low: NDArray[np.int64]) -> Column:
    """Format UUIDs as Java's `UUID.toString` does."""
    halves = np.stack([high, low], axis=1).astype(">i8")
    octets = halves.view(np.uint8).reshape(len(high), 16)
    digits = np.empty((len(high), 32), dtype=np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[octets >> 4], _HEX[octets & 15]
    rows = np.full((len(high), 36), ord("-"), dtype=np.uint8)
    read = written = 0
    for size in _UUID_GROUPS:
        rows[:, written : written + size] = digits[:, read : read + size]
        read, written = read + size, written + size + 1
    return fixed_rows(rows).cast(pa.string())
