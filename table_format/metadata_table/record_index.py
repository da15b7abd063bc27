"""Look-ups in the record index: in which file group each record key lies (RFC-8, record level index)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from table_format.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.avro_columns import decode_columns
from table_format.byte_spans import fixed_rows
from table_format.errors import CorruptFileError, SchemaError
from table_format.metadata_table.arrow import Column, binaries, pc, schema_of
from table_format.metadata_table.sources import PartitionSources, Piece, newest_versions

LOCATIONS_SCHEMA = schema_of(key=pa.string(), partition=pa.string(), file_id=pa.string())

_ROOT = "recordIndexMetadata"
_FIELDS = ("partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "fileIdEncoding")
_BY_UUID, _BY_TEXT = 0, 1
_UUID_GROUPS = (8, 4, 4, 4, 12)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def record_locations(sources: PartitionSources, keys: Column) -> pa.Table:
    """Where records lie.

    Only shards, and only blocks of their base files, that can hold one of the keys are read.

    Args:
        sources: of the record index.
        keys: record keys as the table's key generator makes them; nulls are passed over.

    Returns:
        Schema `LOCATIONS_SCHEMA`; a key that the index does not know has no row. In a partitioned record index, where
        a key stands once for each partition of the data table, there may be several.

    Raises:
        CorruptFileError: the index is damaged.
    """
    wanted = pc.unique(one_chunk(keys).drop_null().cast(pa.string()))
    shards = sources.get(wanted) if len(wanted) else []
    return pa.concat_tables([LOCATIONS_SCHEMA.empty_table(), *(_newest(shard) for shard in shards if shard)])


def count_keys(sources: PartitionSources, most: int) -> int | None:
    """How many keys the index has: each counts once, however often it was written, and deleted ones do not.

    In a partitioned record index, a key counts once for each partition of the data table that has it.

    Args:
        sources: of the record index.
        most: entries that are looked through for it; None is returned for an index with more in its base files.
    """
    opened = sources.open()
    entries = sum(source.reader.entry_count for shard in opened.shards for source in shard if source.reader)
    return sum(_live(pieces) for pieces in opened.everything() if pieces) if entries <= most else None


def _live(pieces: list[Piece]) -> int:
    keys = pa.chunked_array([piece.keys() for piece in pieces], pa.binary())
    gone = np.concatenate([np.full(len(piece.keys()), piece.schema is None) for piece in pieces])
    return len(newest_versions(keys, gone).newest())


def _newest(pieces: list[Piece]) -> pa.Table:
    """Of several entries of a key the newest counts."""
    rows = pa.concat_tables([_decode(piece) for piece in pieces])
    versions = newest_versions(rows["key"], to_numpy(one_chunk(rows["deleted"])))
    return rows.take(from_numpy(versions.newest())).select(LOCATIONS_SCHEMA.names)


def _decode(piece: Piece) -> pa.Table:
    if piece.schema is None:
        gone = len(piece.deleted_keys)
        nothing = pa.nulls(gone, pa.string())
        return _table(binaries(piece.deleted_keys).cast(pa.string()), nothing, nothing, deleted=True)
    entries = piece.entries
    paths = [f"{_ROOT}.{name}" for name in _FIELDS]
    try:
        decoded = decode_columns(
            entries.buffer, entries.value_starts, entries.value_lengths, piece.schema, paths, name=piece.name
        )
    except SchemaError as error:
        raise CorruptFileError(piece.name, 0, f"these are no records of a record index ({error})") from error
    columns = {name: decoded[path] for name, path in zip(_FIELDS, paths, strict=True)}
    partitions = columns["partitionName"]
    if partitions.null_count:
        raise CorruptFileError(piece.name, 0, "an entry of the record index names no partition; rebuild the index")
    return _table(entries.keys().cast(pa.string()), partitions, _file_ids(piece.name, columns), deleted=False)


def _table(keys: Column, partitions: Column, file_ids: Column, *, deleted: bool) -> pa.Table:
    flags = from_numpy(np.full(len(keys), deleted))
    return pa.table({"key": keys, "partition": partitions, "file_id": file_ids, "deleted": flags})


def _file_ids(name: str, columns: Mapping[str, Column]) -> Column:
    """File ids from either form: the halves of a UUID and a number behind it, or the id itself."""
    high, low, text = (columns[field] for field in ("fileIdHighBits", "fileIdLowBits", "fileId"))
    codes = to_numpy(columns["fileIdEncoding"])
    known = valid_mask(columns["fileIdEncoding"])
    by_text, by_uuid = codes == _BY_TEXT, (codes == _BY_UUID) & valid_mask(high) & valid_mask(low)
    if not (known & (by_text & valid_mask(text) | by_uuid)).all():
        raise CorruptFileError(name, 0, "an entry of the record index names no file group; rebuild the index")
    made: Any = _uuid_texts(to_numpy(high).astype(np.int64), to_numpy(low).astype(np.int64))
    numbers = pc.fill_null(columns["fileIndex"], -1)
    numbered = pc.binary_join_element_wise(made, numbers.cast(pa.string()), "-")
    made = pc.if_else(pc.greater_equal(numbers, 0), numbered, made)
    return made if not by_text.any() else pc.if_else(from_numpy(by_text), text, made)


def _uuid_texts(high: NDArray[np.int64], low: NDArray[np.int64]) -> Column:
    """UUIDs as Java's `UUID.toString` gives them."""
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
