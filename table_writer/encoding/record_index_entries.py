"""Entries of the record index as they are written: the schema of changes, encoded locations, the limit of keys."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.codecs.avro_schema_tree import parse
from table_format.errors import RecordError, RecordIndexError
from table_format.metadata_table.record_index_entries import BY_TEXT, BY_UUID, ROOT
from table_writer.encoding.avro import encode_records
from table_writer.encoding.hfile import LONGEST_KEY
from table_writer.encoding.metadata_records import SCHEMA, Records

TYPE_RECORD_INDEX: Final = 5
_SHOWN: Final = 40
_NODE = parse(SCHEMA)
_UUID_FILE_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-(0|[1-9][0-9]{0,8}))?", re.ASCII)

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


def encode_locations(table: pa.Table, instant_ms: int) -> Records:
    """Encode index entries with the locations of keys.

    All records of one file group have the same bytes, which are encoded once.

    Args:
        table: columns `key`, `partition`, `file_id` as in `CHANGES_SCHEMA`, without nulls; each key once. The two of
            the location may be dictionary-encoded.
        instant_ms: the instant that wrote the records, in milliseconds since the epoch.

    Returns:
        Records whose values are dictionary-encoded.

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
    return Records(keys, pa.DictionaryArray.from_arrays(codes.indices, values))


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
    return encode_records(_NODE, {"key": b"\x00", "type": kinds, ROOT: fields}, count)


def _parts(file_id: str) -> tuple[int, int, int, str, int]:
    match = _UUID_FILE_ID.fullmatch(file_id)
    if match is None:
        return -1, -1, -1, file_id, BY_TEXT
    number = uuid.UUID(match[1]).int
    high, low = (half - (1 << 64) if half >> 63 else half for half in (number >> 64, number & ((1 << 64) - 1)))
    return high, low, -1 if match[2] is None else int(match[2]), "", BY_UUID
