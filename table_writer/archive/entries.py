"""Archive entries: one for each file of an instant, with the file's content."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any, Final

import fastavro

from table_format.codecs.avro_file import read_avro_record
from table_format.errors import CorruptFileError
from table_format.instant import Action, Instant, State, format_instant_time
from table_writer.archive.entry_schema import PARSED_ENTRY, STAT_FIELDS

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
