"""The Avro schema of archived instants, `HoodieArchivedMetaEntry`.

Fields and types are those of Apache Hudi 0.15.0, and those of write stats that 1.2.0 added: its readers resolve the
schema in a block with their own. Fields are left out that no instant fills which is archived here: of savepoints,
indexings, and the results of compactions of old releases. They all have defaults in Apache's schema.
"""

from __future__ import annotations

import json
from typing import Any, Final

import fastavro

from table_format.actions.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMPACTION_PLAN,
    REQUESTED_REPLACE,
    ROLLBACK_METADATA,
    Schema,
)

_JAVA_STRING: Final = "avro.java.string"
_NAMESPACE: Final = "org.apache.hudi.avro.model"
_VERSION: Final[Schema] = {"name": "version", "type": ["int", "null"], "default": 1}

_STAT_LONGS: Final = (
    "numWrites",
    "numDeletes",
    "numUpdateWrites",
    "totalWriteBytes",
    "totalWriteErrors",
    "totalLogRecords",
    "totalLogFiles",
    "totalUpdatedRecordsCompacted",
    "numInserts",
    "totalLogBlocks",
    "totalCorruptLogBlock",
    "totalRollbackBlocks",
    "fileSizeInBytes",
    "logOffset",
    "minEventTime",
    "maxEventTime",
    "totalLogFilesCompacted",
    "totalLogReadTimeMs",
    "totalLogSizeCompacted",
)


def _optional(name: str, kind: Any) -> Schema:
    return {"name": name, "type": ["null", kind], "default": None}


def _record(name: str, fields: list[Schema]) -> Schema:
    return {"type": "record", "name": name, "namespace": _NAMESPACE, "fields": fields}


def _array(items: Any) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Any) -> Schema:
    return {"type": "map", "values": values}


_WRITE_STAT: Final = _record(
    "HoodieWriteStat",
    [
        *(_optional(name, "string") for name in ("fileId", "path", "prevCommit", "partitionPath")),
        *(_optional(name, "long") for name in _STAT_LONGS),
        _optional("logVersion", "int"),
        *(_optional(name, "string") for name in ("baseFile", "prevBaseFile", "tempPath")),
        _optional("logFiles", _array("string")),
        _optional("cdcStats", _map("long")),
    ],
)

#: Fields of a write stat that the archive keeps, by their names in JSON.
STAT_FIELDS: Final = frozenset(field["name"] for field in _WRITE_STAT["fields"])


def _commit(name: str, stat: Any, *more: Schema) -> Schema:
    return _record(
        name,
        [
            _optional("partitionToWriteStats", _map(_array(stat))),
            _optional("extraMetadata", _map("string")),
            _VERSION,
            _optional("operationType", "string"),
            *more,
        ],
    )


_COMMIT: Final = _commit("HoodieCommitMetadata", _WRITE_STAT)
_REPLACE: Final = _commit(
    "HoodieReplaceCommitMetadata",
    f"{_NAMESPACE}.HoodieWriteStat",
    _optional("partitionToReplaceFileIds", _map(_array("string"))),
)

ENTRY: Final = _record(
    "HoodieArchivedMetaEntry",
    [
        _optional("hoodieCommitMetadata", _COMMIT),
        _optional("hoodieCleanMetadata", CLEAN_METADATA),
        _optional("hoodieRollbackMetadata", ROLLBACK_METADATA),
        _optional("commitTime", "string"),
        _optional("actionType", "string"),
        _VERSION,
        _optional("hoodieCompactionPlan", COMPACTION_PLAN),
        _optional("hoodieCleanerPlan", CLEANER_PLAN),
        _optional("actionState", "string"),
        _optional("hoodieReplaceCommitMetadata", _REPLACE),
        _optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE),
        _optional("HoodieInflightReplaceMetadata", f"{_NAMESPACE}.HoodieCommitMetadata"),
        _optional("stateTransitionTime", "string"),
    ],
)


def _with_java_strings(kind: Any) -> Any:
    """The same schema with the property by which Avro gives Java's own strings; 1.2.0 fails on others."""
    if kind == "string":
        return {"type": "string", _JAVA_STRING: "String"}
    if isinstance(kind, list):
        return [_with_java_strings(branch) for branch in kind]
    if not isinstance(kind, dict):
        return kind
    inner = {part: _with_java_strings(kind[part]) for part in ("items", "values") if part in kind}
    if "fields" in kind:
        inner["fields"] = [{**field, "type": _with_java_strings(field["type"])} for field in kind["fields"]]
    return {**kind, **inner, **({_JAVA_STRING: "String"} if kind.get("type") == "map" else {})}


ENTRY_JSON: Final = json.dumps(_with_java_strings(ENTRY), separators=(",", ":"))
PARSED_ENTRY: Final[Any] = fastavro.parse_schema(ENTRY)
