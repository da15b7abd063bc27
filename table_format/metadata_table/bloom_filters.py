"""The `bloom_filters` partition: a bloom filter of the record keys of each base file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Column, binaries, from_numpy, one_chunk, schema_of, strings, to_numpy
from table_format.codecs.avro_columns import decode_columns
from table_format.metadata_table.keys import bloom_filter_key
from table_format.metadata_table.records import SourceRecords, newest_versions
from table_format.metadata_table.sources import PartitionSources

BLOOMS_SCHEMA = schema_of(partition=pa.string(), file_name=pa.string(), type=pa.string(), bloom=pa.binary())
_ROOT: Final = "BloomFilterMetadata"


def bloom_filters(sources: PartitionSources, files: pa.Table) -> pa.Table:
    """Look up the bloom filters of some files.

    A filter has 430 kB by default: look up few files at a time.

    Args:
        sources: the `bloom_filters` partition.
        files: columns `partition` and `file_name` (base files), each file once.

    Returns:
        Schema `BLOOMS_SCHEMA`, `type` and `bloom` as stored (the bytes are base64 text, as in Parquet
        footers). Files without a filter have no row.

    Raises:
        CorruptFileError: the filters are damaged.
    """
    partitions: list[Any] = files["partition"].to_pylist()
    names: list[Any] = files["file_name"].to_pylist()
    keys = list(map(bloom_filter_key, partitions, names))
    if not keys:
        return BLOOMS_SCHEMA.empty_table()
    places_by_key: dict[bytes, int] = {key: place for place, key in enumerate(keys)}
    parts = [BLOOMS_SCHEMA.empty_table()]
    for shard in sources.get(binaries(keys)):
        if not shard:
            continue
        filters = newest_filters(shard)
        filter_keys: list[Any] = filters["key"].to_pylist()
        places = [places_by_key[key] for key in filter_keys]
        columns = {
            "partition": strings([partitions[place] for place in places]),
            "file_name": strings([names[place] for place in places]),
            "type": filters["type"],
            "bloom": filters["bloom"],
        }
        parts.append(pa.table(columns, schema=BLOOMS_SCHEMA))
    return pa.concat_tables(parts)


def newest_filters(pieces: Sequence[SourceRecords]) -> pa.Table:
    """The newest version of each file's filter, without those of deleted files.

    Args:
        pieces: records of one file group, oldest first.

    Returns:
        Columns `key`, `type`, `timestamp` (instant), `bloom`.
    """
    rows = pa.concat_tables([_decode(piece) for piece in pieces])
    versions = newest_versions(rows["key"], to_numpy(one_chunk(rows["deleted"])))
    return rows.take(from_numpy(versions.newest())).drop_columns(["deleted"])


def _decode(piece: SourceRecords) -> pa.Table:
    if piece.schema is None:
        count = len(piece.deleted_keys)
        texts = pa.nulls(count, pa.string())
        return _table(binaries(piece.deleted_keys), texts, texts, pa.nulls(count, pa.binary()))
    entries = piece.entries
    paths = [f"{_ROOT}.{name}" for name in ("type", "timestamp", "bloomFilter", "isDeleted")]
    decoded = decode_columns(
        entries.buffer, entries.value_starts, entries.value_lengths, piece.schema, paths, name=piece.name
    )
    kinds, times, blooms, deleted = (decoded[path] for path in paths)
    blooms = pc.if_else(pc.fill_null(deleted, True), pa.scalar(None, pa.binary()), blooms)
    return _table(entries.keys(), kinds, times, blooms)


def _table(keys: Column, kinds: Column, times: Column, blooms: Column) -> pa.Table:
    columns = {"key": keys, "type": kinds, "timestamp": times, "bloom": blooms}
    return pa.table({**columns, "deleted": pc.is_null(blooms)})
