"""Records of the metadata table: Avro schema, encoding by columns, distribution over file groups."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import Column, from_numpy, join_bytes, last_rows, one_chunk, schema_of, to_numpy
from table_format.codecs.avro_schema_tree import parse
from table_format.meta_columns import META_COLUMNS
from table_format.metadata_table.column_stats import RAW_SCHEMA
from table_format.metadata_table.keys import ALL_PARTITIONS_KEY, column_stats_keys, partition_identifier, shards_of_keys
from table_format.metadata_table.layout import FILES
from table_writer.encoding.avro import Encoded, encode_long, encode_longs, encode_records, map_blocks
from table_writer.encoding.hfile import write_hfile

TYPE_ALL_PARTITIONS = 1
TYPE_FILES = 2
TYPE_COLUMN_STATS = 3

_LISTING_BLOCK = 64 << 10


def block_size_of(partition: str) -> int | None:
    """Bytes of a data block in base files of a partition of the metadata table; None for the usual size.

    Writes and plans look a few partitions up among the listings, which should not cost them a MiB of other ones.
    Statistics are read in large ranges, for which small blocks cost more.
    """
    return _LISTING_BLOCK if partition == FILES else None


_NAMESPACE = "org.apache.hudi.avro.model"

WRAPPERS = (
    "BooleanWrapper",
    "IntWrapper",
    "LongWrapper",
    "FloatWrapper",
    "DoubleWrapper",
    "BytesWrapper",
    "StringWrapper",
    "DateWrapper",
    "DecimalWrapper",
    "TimeMicrosWrapper",
    "TimestampMicrosWrapper",
)
"""Branches of the union of `minValue` and `maxValue` after null, in order."""


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _field(name: str, kind: Any, *, default: bool = True) -> dict[str, Any]:
    return {"name": name, "type": kind, "default": None} if default else {"name": name, "type": kind}


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _wrapper(name: str, value: Any) -> dict[str, Any]:
    return _record(name, [{"name": "value", "type": value}])


def _string() -> dict[str, Any]:
    return {"type": "string", "avro.java.string": "String"}


_WRAPPER_TYPES: tuple[Any, ...] = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    _string(),
    "int",
    {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    {"type": "long", "logicalType": "time-micros"},
    "long",
)


def _file_info() -> dict[str, Any]:
    return _record(
        "HoodieMetadataFileInfo", [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}]
    )


def _bloom_filter() -> dict[str, Any]:
    return _record(
        "HoodieMetadataBloomFilter",
        [
            {"name": "type", "type": _string()},
            {"name": "timestamp", "type": _string()},
            {"name": "bloomFilter", "type": "bytes"},
            {"name": "isDeleted", "type": "boolean"},
        ],
    )


def _column_stats() -> dict[str, Any]:
    wrappers = [_wrapper(name, kind) for name, kind in zip(WRAPPERS, _WRAPPER_TYPES, strict=True)]
    counts = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
    return _record(
        "HoodieMetadataColumnStats",
        [
            _field("fileName", _optional(_string())),
            _field("columnName", _optional(_string())),
            _field("minValue", ["null", *wrappers]),
            _field("maxValue", ["null", *WRAPPERS]),
            *(_field(name, _optional("long")) for name in counts),
            {"name": "isDeleted", "type": "boolean"},
        ],
    )


def _record_index() -> dict[str, Any]:
    return _record(
        "HoodieRecordIndexInfo",
        [
            _field("partitionName", _optional(_string())),
            _field("fileIdHighBits", _optional("long")),
            _field("fileIdLowBits", _optional("long")),
            _field("fileIndex", _optional("int")),
            _field("fileId", _optional(_string())),
            _field("instantTime", _optional("long")),
            {"name": "fileIdEncoding", "type": "int", "default": 0},
        ],
    )


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "namespace": _NAMESPACE,
    "fields": [
        *(_field(name, _optional("string")) for name in META_COLUMNS),
        {"name": "key", "type": _string()},
        {"name": "type", "type": "int"},
        _field(
            "filesystemMetadata",
            _optional({"type": "map", "values": _file_info(), "avro.java.string": "String"}),
            default=False,
        ),
        _field("BloomFilterMetadata", _optional(_bloom_filter())),
        _field("ColumnStatsMetadata", _optional(_column_stats())),
        _field("recordIndexMetadata", _optional(_record_index())),
    ],
}

SCHEMA_JSON: str = json.dumps(SCHEMA, separators=(",", ":"))
PLAIN_SCHEMA_JSON: str = json.dumps({**SCHEMA, "fields": SCHEMA["fields"][len(META_COLUMNS) :]}, separators=(",", ":"))
"""The schema without meta columns, as in commit metadata."""


_FILE_AND_COLUMN = schema_of(partition=pa.string(), file_name=pa.string(), column=pa.string(), type=pa.string())
STATISTICS_SCHEMA = pa.schema([*_FILE_AND_COLUMN, *list(RAW_SCHEMA)[3:]])
"""Statistics of new files, a row for each file and column; bounds as in `column_stats.RAW_SCHEMA`."""

NO_FILES = schema_of(partition=pa.string(), file_name=pa.string(), size=pa.int64()).empty_table()
_NODE = parse(SCHEMA)
_EMPTY_STRING = b"\x00"
_PRESENT = b"\x02"
_UNKNOWN_COUNT = b"\x02\x01"  # -1
_TRUE, _FALSE = b"\x01", b"\x00"
_LOCAL_DATE, _DATE = len(WRAPPERS) + 1, WRAPPERS.index("DateWrapper") + 1


class Records:
    """Records of one partition of the metadata table.

    Attributes:
        keys: unique, unordered.
        values: the Avro bytes of each record.
    """

    def __init__(self, keys: Any, values: Any) -> None:
        self.keys = keys
        self.values = values

    def __len__(self) -> int:
        return len(self.keys)

    def sorted(self) -> Records:
        """These by their keys."""
        order = pc.sort_indices(self.keys)
        return Records(self.keys.take(order), self.values.take(order))

    def without(self, key: bytes) -> Records:
        """These less that of a key."""
        kept = pc.not_equal(self.keys, pa.scalar(key, pa.binary()))
        return Records(self.keys.filter(kept), self.values.filter(kept))

    @staticmethod
    def empty() -> Records:
        """No records."""
        return Records(pa.array([], pa.binary()), pa.array([], pa.binary()))

    def hfiles(self, shards: int, codec: str = "GZ", block_size: int | None = None) -> dict[int, tuple[bytes, int]]:
        """An HFile for each shard with records, and its number of records; see `write_hfile`."""
        if not len(self):
            return {}
        ordered = self.sorted()
        keys, values = ordered.keys, ordered.values
        how: Any = {"schema_json": SCHEMA_JSON, "codec": codec, "block_size": block_size}
        if shards == 1:
            return {0: (write_hfile(keys, values, **how), len(keys))}
        numbers = shards_of_keys(keys, shards)
        made: dict[int, tuple[bytes, int]] = {}
        for shard in np.unique(numbers).tolist():
            rows = from_numpy(np.flatnonzero(numbers == shard))
            data = write_hfile(keys.take(rows), values.take(rows), **how)
            made[shard] = data, len(rows)
        return made


def files_records(
    added: pa.Table, deleted: pa.Table, partitions: Sequence[str], deleted_partitions: Sequence[str] = ()
) -> Records:
    """Records of the `files` partition: one for each changed partition, and the list of partitions.

    Args:
        added: columns `partition`, `file_name`, `size` (bytes, more than 0).
        deleted: columns `partition`, `file_name`.
        partitions: partition paths that exist from now on, besides those of `added`.
        deleted_partitions: deleted partition paths.
    """
    names = pa.chunked_array([*added["file_name"].chunks, *deleted["file_name"].chunks], pa.string())
    folders = pa.chunked_array([*added["partition"].chunks, *deleted["partition"].chunks], pa.string())
    sizes = np.concatenate([_numbers(added["size"]), np.zeros(deleted.num_rows, dtype=np.int64)])
    flags = np.concatenate([np.zeros(added.num_rows, dtype=np.uint8), np.ones(deleted.num_rows, dtype=np.uint8)])
    known = {*partitions, *pc.unique(added["partition"]).to_pylist()} - set(deleted_partitions)
    listed = sorted(partition_identifier(path) for path in known)
    gone = sorted(partition_identifier(path) for path in deleted_partitions)
    keys = [ALL_PARTITIONS_KEY.encode()]
    types = [TYPE_ALL_PARTITIONS]
    maps = [_partition_map(listed, gone)]
    if len(names):
        order = pc.sort_indices(pa.table({"p": folders, "f": names}), [("p", "ascending"), ("f", "ascending")])
        folders, names = folders.take(order), names.take(order)
        position = to_numpy(order).astype(np.int64)
        runs = pc.run_end_encode(one_chunk(folders))
        offsets = np.concatenate([[0], np.asarray(runs.run_ends.to_pylist(), dtype=np.int64)])
        entries = join_bytes(encode_longs(sizes[position]), _flag_bytes(flags[position]))
        maps += map_blocks(one_chunk(names), entries, offsets)
        keys += [partition_identifier(path).encode() for path in runs.values.to_pylist()]
        types += [TYPE_FILES] * (len(keys) - 1)
    values = encode_records(
        _NODE,
        {
            "key": _EMPTY_STRING,
            "type": pa.array(types, pa.int32()),
            "filesystemMetadata": Encoded(pa.array([_PRESENT + entry for entry in maps], pa.binary())),
        },
        len(keys),
    )
    return Records(pa.array(keys, pa.binary()), values)


def column_stats_records(statistics: pa.Table) -> Records:
    """Records of the `column_stats` partition.

    Args:
        statistics: schema `STATISTICS_SCHEMA`; of equal (partition, file name, column) the last wins.
    """
    table = statistics.select(STATISTICS_SCHEMA.names).cast(STATISTICS_SCHEMA).combine_chunks()
    keys = column_stats_keys(table["column"], table["partition"], table["file_name"])
    return _unique(Records(keys, encode_statistics(table)))


def stored_statistics_records(statistics: pa.Table) -> Records:
    """Records of the `column_stats` partition from its stored content, `column_stats.RAW_SCHEMA` with unique keys."""
    table = statistics.combine_chunks()
    return Records(one_chunk(table["key"]), encode_statistics(table))


def deleted_column_stats_records(files: pa.Table, columns: Sequence[str]) -> Records:
    """Records that delete the statistics of deleted files (columns `partition`, `file_name`)."""
    count = files.num_rows
    if not count or not columns:
        return Records.empty()
    partitions = pa.chunked_array([chunk for _ in columns for chunk in files["partition"].chunks], pa.string())
    names = pa.chunked_array([chunk for _ in columns for chunk in files["file_name"].chunks], pa.string())
    places = from_numpy(np.repeat(np.arange(len(columns), dtype=np.int32), count))
    column: Any = pa.DictionaryArray.from_arrays(places, pa.array(list(columns), pa.string()))
    fields = {
        "fileName": one_chunk(names),
        "columnName": column.dictionary_decode(),
        "valueCount": _UNKNOWN_COUNT,
        "nullCount": _UNKNOWN_COUNT,
        "totalSize": _UNKNOWN_COUNT,
        "totalUncompressedSize": _UNKNOWN_COUNT,
        "isDeleted": _TRUE,
    }
    return _unique(Records(column_stats_keys(column, partitions, names), _stats_values(fields, len(places))))


def encode_statistics(table: pa.Table) -> pa.BinaryArray:
    """Avro bytes of statistics records; columns as in `STATISTICS_SCHEMA` or `column_stats.RAW_SCHEMA`."""
    fields: dict[str, Any] = {
        "fileName": one_chunk(table["file_name"]),
        "columnName": one_chunk(table["column"]),
        "minValue": Encoded(_known_wrappers(one_chunk(table["min"]))),
        "maxValue": Encoded(_known_wrappers(one_chunk(table["max"]))),
        "valueCount": one_chunk(table["value_count"]),
        "nullCount": one_chunk(table["null_count"]),
        "totalSize": one_chunk(table["total_size"]),
        "totalUncompressedSize": one_chunk(table["total_uncompressed_size"]),
        "isDeleted": _FALSE,
    }
    return _stats_values(fields, table.num_rows)


def concatenated(*parts: Records) -> Records:
    """Concatenate sets of records; of equal keys the last wins."""
    keys = pa.concat_arrays([part.keys for part in parts])
    return _unique(Records(keys, pa.concat_arrays([part.values for part in parts])))


def _stats_values(fields: Mapping[str, Any], count: int) -> pa.BinaryArray:
    columns = {"key": _EMPTY_STRING, "type": encode_long(TYPE_COLUMN_STATS)}
    return encode_records(_NODE, {**columns, "ColumnStatsMetadata": fields}, count)


def _unique(records: Records) -> Records:
    distinct = pc.count_distinct(records.keys).as_py()
    if distinct == len(records):
        return records
    codes = to_numpy(records.keys.dictionary_encode().indices)
    rows = from_numpy(last_rows(codes))
    return Records(records.keys.take(rows), records.values.take(rows))


def _known_wrappers(bounds: Any) -> Any:
    """Convert bounds in wrappers of later releases to the equivalent wrapper of 0.15, or drop them."""
    first: Any = pc.binary_slice(bounds, 0, 1)
    later = pc.fill_null(pc.greater(first, bytes([2 * len(WRAPPERS)])), False)
    if not pc.any(later).as_py():
        return bounds
    dates = pc.equal(first, bytes([2 * _LOCAL_DATE]))
    replaced = pc.binary_replace_slice(bounds, 0, 1, bytes([2 * _DATE]))
    return pc.if_else(later, pc.if_else(dates, replaced, pa.scalar(None, pa.binary())), bounds)


def _partition_map(listed: Sequence[str], gone: Sequence[str]) -> bytes:
    names = pa.array([*listed, *gone], pa.string())
    flags = np.array([0] * len(listed) + [1] * len(gone), dtype=np.uint8)
    if not len(names):
        return b"\x00"
    entries = join_bytes(b"\x00", _flag_bytes(flags))  # size 0, and the flag
    return map_blocks(names, entries, np.array([0, len(names)], dtype=np.int64))[0]


def _flag_bytes(flags: Any) -> Any:
    return encode_longs(-(flags.astype(np.int64)))  # zigzag of 0 and -1: the bytes 0 and 1 of Avro's booleans


def _numbers(column: Column) -> Any:
    return to_numpy(one_chunk(column)).astype(np.int64)
