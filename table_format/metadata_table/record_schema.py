"""The Avro schema of the metadata table's records, as Apache Hudi 0.14 and 0.15 write it for table version 6.

Readers decode each file by the schema that it embeds, so that files of later releases, whose records have more
fields, are read as well. What is written has this shape, which every release from 0.14 on reads.
"""

from __future__ import annotations

import json
from typing import Any

TYPE_ALL_PARTITIONS = 1
TYPE_FILES = 2
TYPE_COLUMN_STATS = 3

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)

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
"""Members of the union of `minValue` and `maxValue`, in the order of the union, after null."""


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
        *(_field(name, _optional("string")) for name in META_FIELDS),
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

PLAIN_SCHEMA_JSON: str = json.dumps({**SCHEMA, "fields": SCHEMA["fields"][len(META_FIELDS) :]}, separators=(",", ":"))
"""The schema without the meta columns, as commit metadata carries it."""
