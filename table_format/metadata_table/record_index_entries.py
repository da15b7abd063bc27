"""Entries of the record index: schemas of locations and changes, encoding and decoding, limits of keys."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import (
    Column,
    fixed_rows,
    from_numpy,
    one_chunk,
    pc,
    spans_of,
    to_numpy,
    valid_mask,
)
from table_format.codecs.avro_columns import decode_columns
from table_format.codecs.avro_encode import encode_records
from table_format.codecs.avro_schema_tree import Node, parse
from table_format.errors import CorruptFileError, RecordError, RecordIndexError, SchemaError
from table_format.hfile.writer import LONGEST_KEY
from table_format.metadata_table.records import SCHEMA, Records

_SHOWN: Final = 40

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

_CHANGES: dict[str, pa.DataType] = {
    "key": pa.string(),
    "partition": pa.string(),
    "file_id": pa.string(),
    "deleted": pa.bool_(),
}

CHANGES_SCHEMA = pa.schema(_CHANGES)

"""Changes of a write to the index: keys with their new location, or deleted keys (file id null; partition used in a
partition-scoped index only). If one write does both to a key, as in a move between partitions, the location wins."""


def refuse_long_keys(keys: Any, path: str = "") -> None:
    """Refuse record keys that are too long for a record index.

    Args:
        keys: a string array.
        path: file with the keys; empty if they are yet to be written.

    Raises:
        RecordError: one of them is too long.
    """
    lengths = pc.fill_null(pc.binary_length(keys), 0)
    if len(keys) == 0 or pc.max(lengths).as_py() <= LONGEST_KEY:
        return
    sizes = to_numpy(lengths)
    longer = np.flatnonzero(sizes > LONGEST_KEY)
    start = keys[int(longer[0])].as_py()[:_SHOWN]
    where = f"{path}: " if path else ""
    raise RecordError(
        f"{where}{len(longer)} row(s) have a record key that is too long for the record index, which takes "
        f"{LONGEST_KEY} bytes; the first has {sizes[longer[0]]} and begins with {start!r}. Make the key of fewer or "
        "shorter fields, such as a hash of a long one, or leave these rows out; a table with buckets needs no record "
        "index"
    )


TYPE_RECORD_INDEX: Final = 5

_NODE = parse(SCHEMA)

_ROOT = "recordIndexMetadata"

_POSITION = "position"

_FIELDS = (
    *("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex"),
    *("fileId", "instantTime", "fileIdEncoding"),
)

_BY_UUID, _BY_TEXT = 0, 1

_UUID_FILE_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?", re.ASCII)

_UUID_GROUPS = (8, 4, 4, 4, 12)

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def encode_locations(table: pa.Table, instant_ms: int) -> Records:
    """Encode index entries with the locations of keys.

    All records of one file group have the same bytes, which are encoded once.

    Args:
        table: columns `key`, `partition`, `file_id` as in `CHANGES_SCHEMA`, without nulls; each key once.
        instant_ms: the instant that wrote the records, in milliseconds since the epoch.

    Raises:
        RecordIndexError: a row without a key, partition or file id.
    """
    if any(table[name].null_count for name in ("key", "partition", "file_id")):
        raise RecordIndexError("a record without key, partition or file id cannot be in the record index")
    keys = one_chunk(table["key"]).cast(pa.binary())
    if not table.num_rows:
        return Records.empty()
    partitions, files = (one_chunk(table[name]).dictionary_encode() for name in ("partition", "file_id"))
    width = len(files.dictionary)
    pairs = to_numpy(partitions.indices).astype(np.int64) * width + to_numpy(files.indices)
    codes = from_numpy(pairs).dictionary_encode()
    distinct = to_numpy(codes.dictionary)
    values = encode_places(
        partitions.dictionary.take(from_numpy(distinct // width)).to_pylist(),
        files.dictionary.take(from_numpy(distinct % width)).to_pylist(),
        [instant_ms] * len(distinct),
    )
    return Records(keys, values.take(codes.indices))


def encode_places(partitions: Sequence[str], file_ids: Sequence[str], instants_ms: Sequence[int]) -> pa.BinaryArray:
    """Encode the index value for records of each file group, written there by an instant (epoch milliseconds).

    A file id `<uuid>` or `<uuid>-<number>` is stored as numbers (encoding 0), any other as text (encoding 1), as
    `HoodieMetadataPayload.createRecordIndexUpdate` does.
    """
    parts = [_parts(file_id) for file_id in file_ids]
    high, low, index, text, encoding = zip(*parts, strict=True)
    count = len(parts)
    fields = {
        "partitionName": pa.array(list(partitions), pa.string()),
        "fileIdHighBits": pa.array(high, pa.int64()),
        "fileIdLowBits": pa.array(low, pa.int64()),
        "fileIndex": pa.array(index, pa.int32()),
        "fileId": pa.array(text, pa.string()),
        "instantTime": pa.array(list(instants_ms), pa.int64()),
        "fileIdEncoding": pa.array(encoding, pa.int32()),
    }
    kinds = pa.array([TYPE_RECORD_INDEX] * count, pa.int32())
    return encode_records(_NODE, {"key": b"\x00", "type": kinds, _ROOT: fields}, count)


def _parts(file_id: str) -> tuple[int, int, int, str, int]:
    match = _UUID_FILE_ID.fullmatch(file_id)
    if match is None:
        return -1, -1, -1, file_id, _BY_TEXT
    number = uuid.UUID(match[1]).int
    high, low = (half - (1 << 64) if half >> 63 else half for half in (number >> 64, number & ((1 << 64) - 1)))
    return high, low, -1 if match[2] is None else int(match[2]), "", _BY_UUID


def decode_values(values: Column, schema: Node, name: str) -> pa.Table:
    """Decode the locations in index entries; each distinct value is decoded once.

    Args:
        values: Avro bytes of the entries, in one piece or several.
        schema: their Avro schema in the file.
        name: the file, for messages.

    Returns:
        The columns of `LOCATIONS_SCHEMA` but for `key`.

    Raises:
        CorruptFileError: they are not entries of a record index.
    """
    encoded: Any = one_chunk(values.dictionary_encode())
    distinct = _decode_distinct(encoded.dictionary, schema, name)
    return distinct.take(encoded.indices)


def _decode_distinct(values: pa.BinaryArray, schema: Node, name: str) -> pa.Table:
    buffer, starts, lengths = spans_of(values)
    fields = (*_FIELDS, _POSITION) if _has_position(schema) else _FIELDS
    paths = [f"{_ROOT}.{field}" for field in fields]
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
    return pa.table(decoded_columns, schema=pa.schema([LOCATIONS_SCHEMA.field(field) for field in decoded_columns]))


def _has_position(schema: Node) -> bool:
    for field, node in schema.fields:
        if field == _ROOT:
            record = node.optional if node.optional is not None else node
            return any(inner == _POSITION for inner, _ in record.fields)
    return False


def _file_ids(name: str, columns: Mapping[str, Column]) -> Column:
    """File ids of either encoding: the halves of a UUID and a number, or the id itself."""
    high, low, text = (columns[field] for field in ("fileIdHighBits", "fileIdLowBits", "fileId"))
    codes = to_numpy(columns["fileIdEncoding"])
    known = valid_mask(columns["fileIdEncoding"])
    by_text, by_uuid = codes == _BY_TEXT, (codes == _BY_UUID) & valid_mask(high) & valid_mask(low)
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
