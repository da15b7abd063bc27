"""Archive entries, one for each file of an instant with its content, and their schema, `HoodieArchivedMetaEntry`.

Fields and types are those of Apache Hudi 0.15.0, and those of write stats that 1.2.0 added: its readers resolve the
schema in a block with their own. Fields are left out that no instant fills which is archived here: of savepoints,
indexings, and the results of compactions of old releases. They all have defaults in Apache's schema.
"""

from __future__ import annotations

import datetime as dt
import io
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
from table_format.codecs.avro_file import read_avro_record
from table_format.errors import CorruptFileError
from table_format.instant import Action, Instant, State, format_instant_time

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


def _commit_schema(name: str, stat: Any, *more: Schema) -> Schema:
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


_COMMIT: Final = _commit_schema("HoodieCommitMetadata", _WRITE_STAT)
_REPLACE: Final = _commit_schema(
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

_COMMITS: Final = frozenset({Action.COMMIT, Action.DELTACOMMIT})
_REPLACED_FILES: Final = "partitionToReplaceFileIds"

#: Member of the entry that holds the content of a file in Avro, by action and state.
_PLANS: Final = {
    (Action.CLEAN, State.REQUESTED): "hoodieCleanerPlan",
    (Action.CLEAN, State.INFLIGHT): "hoodieCleanerPlan",
    (Action.CLEAN, State.COMPLETED): "hoodieCleanMetadata",
    (Action.ROLLBACK, State.COMPLETED): "hoodieRollbackMetadata",
    (Action.REPLACECOMMIT, State.REQUESTED): "hoodieRequestedReplaceMetadata",
    (Action.COMPACTION, State.REQUESTED): "hoodieCompactionPlan",
    (Action.LOGCOMPACTION, State.REQUESTED): "hoodieCompactionPlan",
}


def encode_entry(instant: Instant, content: bytes, changed_ms: int, timezone: str, path: str) -> bytes:
    """Encode the archive entry of one file of the timeline (layout 1).

    Empty files, and the requested and inflight files of rollbacks, become entries without content, as in Apache's
    archives.

    Args:
        instant: with the state that the file stands for.
        content: of the file.
        changed_ms: its modification time, epoch milliseconds: when the instant came to this state.
        timezone: of the timeline, `UTC` or `LOCAL`.
        path: of the file, for messages.

    Raises:
        CorruptFileError: the content is not what such a file holds.
    """
    moment = dt.datetime.fromtimestamp(changed_ms / 1000, dt.UTC)
    completed = instant.state is State.COMPLETED
    record: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.comparable_action if completed else instant.action,
        "actionState": instant.state.name,
        "stateTransitionTime": format_instant_time(moment.astimezone(dt.UTC if timezone == "UTC" else None)),
    }
    if content.strip():
        record |= _member(instant, content, path)
    stream = io.BytesIO()
    try:
        fastavro.schemaless_writer(stream, PARSED_ENTRY, record)
    except Exception as error:  # fastavro raises many kinds on values of the wrong type
        raise CorruptFileError(path, 0, f"content that no archive can hold: {error!r}") from error
    return stream.getvalue()


def _member(instant: Instant, content: bytes, path: str) -> dict[str, Any]:
    name = _PLANS.get((instant.action, instant.state))
    if name is not None:
        return {name: read_avro_record(content, path, dict)}
    if instant.action in _COMMITS:
        return {"hoodieCommitMetadata": _commit(content, path)}
    if instant.action == Action.REPLACECOMMIT:
        completed = instant.state is State.COMPLETED
        member = "hoodieReplaceCommitMetadata" if completed else "HoodieInflightReplaceMetadata"
        return {member: _commit(content, path)}
    return {}


def _commit(content: bytes, path: str) -> dict[str, Any]:
    """Commit metadata in JSON as a record of the entry's schema."""
    try:
        values = json.loads(content)
        stats = values.get("partitionToWriteStats") or {}
        record = {
            "partitionToWriteStats": {partition: [_stat(stat) for stat in of] for partition, of in stats.items()},
            "extraMetadata": {k: v for k, v in (values.get("extraMetadata") or {}).items() if v is not None},
            "operationType": values.get("operationType"),
        }
        if _REPLACED_FILES in values:
            record[_REPLACED_FILES] = values[_REPLACED_FILES]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise CorruptFileError(path, 0, f"commit metadata that is damaged or cut off: {error!r}") from error
    return record


def _stat(stat: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stat.items() if name in STAT_FIELDS}
