"""Schema on read as written: column ids in a commit, and the history of schemas beside it.

Apache's writers take a table's ids from its newest commit (`latest_schema`) and the history from the newest file of
`.hoodie/.schema` whose commit is on the active timeline. After a commit without them 0.15 refuses the next
write, and 1.x resolves columns by name, so renamed columns are empty. So every commit writes both.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from table_format.codecs.avro_schema import avro_to_arrow, without_meta_columns
from table_format.errors import SchemaError
from table_format.meta_columns import META_COLUMNS
from table_format.schema.evolution import storage_schema
from table_format.schema.internal_schema import build_from_json, parse_internal_schema, schema_of_json
from table_format.storage import Storage
from table_format.table.schema_history import FOLDER, KEY, SchemaHistory, internal_schemas, newest_history
from table_format.timeline.timeline import Timeline

_KINDS: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}
# Kinds with the same Arrow type; releases from 1.1 on have more of them.
_SAME_KIND = (
    (re.compile(r"timestamp|timestamp-millis"), "timestamp"),
    (re.compile(r"binary|fixed\[\d+\]"), "binary"),
    (re.compile(r"string|uuid"), "string"),
)
_DECIMAL = re.compile(r"decimal\D*(\d+)\D+(\d+)\D*")


@dataclass(frozen=True)
class NextSchema:
    """A table's schema with column ids after a write.

    Attributes:
        text: of the schema, for the commit.
        history: text of all versions, for the file beside it.
    """

    text: str
    history: str


def next_schema(timeline: Timeline, instant: str, columns: pa.Schema) -> NextSchema | None:
    """The schema of a table after a write; None for a table whose columns are resolved by name.

    Args:
        timeline: as of the commit.
        instant: of the write.
        columns: of the table after it, without meta columns.

    Raises:
        CorruptFileError: a recorded schema is damaged.
        SchemaError: a new column of a type that such schemas do not have.
    """
    recorded = newest_history(timeline)
    if recorded is None:
        return None
    path, history = recorded
    written = ((timeline.path(write), timeline.extra_metadata(write).get(KEY)) for write in reversed(timeline.writes))
    place, text = next(((at, text) for at, text in written if text), (path, newest_of_history(history, path)))
    evolved = evolve_schema(text, place, storage_schema(columns), int(instant))
    return NextSchema(evolved, schema_history_with(history, path, evolved))


def schema_after(timeline: Timeline, instant: str, schema_json: str) -> NextSchema | None:
    """`next_schema` of a write after which the table has an Avro schema."""
    return next_schema(timeline, instant, without_meta_columns(avro_to_arrow(schema_json)))


def history_of_write(timeline: Timeline, instant: str, columns: pa.Schema) -> SchemaHistory | None:
    """The schemas by which a write reads files; None for a table whose columns are resolved by name.

    Args:
        timeline: as of the write's begin.
        instant: of the write.
        columns: the table's after it, without meta columns.

    Raises:
        CorruptFileError: a recorded schema is damaged.
    """
    following = next_schema(timeline, instant, columns)
    history = None if following is None else internal_schemas(timeline)
    if following is None or history is None:
        return None
    return history.to_schema(parse_internal_schema(following.text, instant))


def record_history(storage: Storage, instant: str, history: str) -> None:
    """Write the history of schemas of a commit that is about to be published; readers ignore it without the commit."""
    path = f"{FOLDER}/{instant}.schemacommit"
    for state in (".requested", ".inflight"):
        storage.overwrite(path + state, b"")
    storage.overwrite(path, history.encode())


def evolve_schema(text: str, path: str, columns: pa.Schema, version: int) -> str:
    """Update a schema to the table's columns after a write.

    Columns keep their ids by name, at all levels. New columns get ids above all ids ever used; dropped columns are
    left out.

    Args:
        text: the schema as stored in commits.
        path: of the file that holds it.
        columns: the table's, without meta columns, in storage types.
        version: of the new schema: the instant of the write, as a number.

    Returns:
        The same text if nothing changes.

    Raises:
        CorruptFileError: the text is not such a schema.
        SchemaError: a new column has a type that these schemas cannot store.
    """

    def evolve(value: dict[str, Any]) -> str:
        assigned = [column.id for top in schema_of_json(value).columns for column in top.walk()]
        ids = itertools.count(max([int(value.get("max_column_id", -1)), *assigned]) + 1)
        meta = [field for field in value["fields"] if field["name"] in META_COLUMNS]
        fields = meta + _evolved_fields(value["fields"], columns, ids)
        if fields == value["fields"]:
            return text
        key = "version-id" if "version-id" in value else "version_id"
        evolved = {**value, "max_column_id": next(ids) - 1, key: version, "fields": fields}
        return json.dumps(evolved, separators=(",", ":"), ensure_ascii=False)

    return build_from_json(text, path, evolve)


def schema_history_with(history: str, path: str, schema: str) -> str:
    """Add a schema to a history, newest first; unchanged if it has that version.

    Raises:
        CorruptFileError: not a history.
    """

    def add(value: dict[str, Any]) -> str:
        newest = json.loads(schema)
        if any(schema_of_json(old).version == schema_of_json(newest).version for old in value["schemas"]):
            return history
        return json.dumps({"schemas": [newest, *value["schemas"]]}, separators=(",", ":"), ensure_ascii=False)

    return build_from_json(history, path, add)


def newest_of_history(history: str, path: str) -> str:
    """Text of a history's newest schema.

    Raises:
        CorruptFileError: not a history, or an empty one.
    """

    def newest(value: dict[str, Any]) -> str:
        return json.dumps(max(value["schemas"], key=lambda old: schema_of_json(old).version), separators=(",", ":"))

    return build_from_json(history, path, newest)


def _evolved_fields(old: Any, columns: Iterable[pa.Field[Any]], ids: Iterator[int]) -> list[dict[str, Any]]:
    known = {field["name"]: field for field in old}
    fields = []
    for column in columns:
        field = known.get(column.name) or {"id": next(ids), "name": column.name, "optional": True}
        fields.append({**field, "type": _evolved_type(field.get("type"), column.type, ids)})
    return fields


def _evolved_type(old: Any, kind: Any, ids: Iterator[int]) -> Any:
    """Type of a column after the write; `old` is its type before, None for a new column."""
    nested = old if isinstance(old, dict) else {}
    if types.is_struct(kind):
        base = nested if nested.get("type") == "record" else {"type": "record", "fields": []}
        return {**base, "fields": _evolved_fields(base["fields"], kind, ids)}
    if types.is_list(kind):
        base = nested if nested.get("type") == "array" else {"type": "array", "element_id": next(ids)}
        element = _evolved_type(base.get("element"), kind.value_type, ids)
        return {**base, "element": element, "element_optional": base.get("element_optional", True)}
    if types.is_map(kind):
        base = nested if nested.get("type") == "map" else {"type": "map", "key_id": next(ids)}
        base = {**base, "key": _evolved_type(base.get("key"), kind.key_type, ids)}
        if "value_id" not in base and "value-id" not in base:
            base["value_id"] = next(ids)
        value = _evolved_type(base.get("value"), kind.item_type, ids)
        return {**base, "value": value, "value_optional": base.get("value_optional", True)}
    return _evolved_kind(old if isinstance(old, str) else None, kind)


def _evolved_kind(old: str | None, kind: pa.DataType) -> str:
    if isinstance(kind, pa.Decimal128Type):
        stored = _DECIMAL.fullmatch(old or "")
        if old and stored and (int(stored[1]), int(stored[2])) == (kind.precision, kind.scale):
            return old
        return f"decimal({kind.precision}, {kind.scale})"
    name = _KINDS.get(kind)
    if old is not None and (name is None or any(same == name and form.fullmatch(old) for form, same in _SAME_KIND)):
        return old
    if name is None:
        raise SchemaError(f"this table's schema with column ids cannot store the type {kind}; cast the column")
    return name
