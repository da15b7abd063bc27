"""Hudi's internal schemas, whose columns have ids: written when columns were renamed, dropped or moved."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types

from table_format.errors import CorruptFileError, SchemaError
from table_format.meta_columns import META_COLUMNS

#: Prefix of the name given to a data file's column that was dropped from the table; no real column has it.
GONE = "\0"

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

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class Column:
    """A column, a member of a struct, the element of a list, or key and value of a map.

    Attributes:
        id: constant over all versions of the schema.
        name: in this version; `element`, `key` or `value` in lists and maps.
        members: of structs, lists and maps.
        kind: the type, as `long` or `decimal(10, 2)`; empty for structs, lists and maps.
    """

    id: int
    name: str
    members: tuple[Column, ...] = ()
    kind: str = ""

    def walk(self) -> Iterator[Column]:
        """The column and its nested columns."""
        yield self
        for member in self.members:
            yield from member.walk()


@dataclass(frozen=True, slots=True)
class InternalSchema:
    """One version of a table's schema.

    Attributes:
        version: instant time of the write that made it, as a number; 0 for the schema before any change.
        columns: of the top level, meta columns included.
    """

    version: int
    columns: tuple[Column, ...]

    def by_id(self) -> dict[int, Column]:
        """All columns at all levels."""
        return {column.id: column for top in self.columns for column in top.walk()}


def parse_internal_schema(text: str, path: str) -> InternalSchema:
    """Parse a schema as stored in commits.

    Raises:
        CorruptFileError: not JSON, or of another shape.
    """
    return _guarded(text, path, _schema)


def parse_schema_history(text: str, path: str) -> list[InternalSchema]:
    """Parse all versions up to a change, as stored in files of `.hoodie/.schema`.

    Raises:
        CorruptFileError: not JSON, or of another shape.
    """
    return _guarded(text, path, lambda value: [_schema(schema) for schema in value["schemas"]])


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
        assigned = [column.id for top in _schema(value).columns for column in top.walk()]
        ids = itertools.count(max([int(value.get("max_column_id", -1)), *assigned]) + 1)
        meta = [field for field in value["fields"] if field["name"] in META_COLUMNS]
        fields = meta + _evolved_fields(value["fields"], columns, ids)
        if fields == value["fields"]:
            return text
        key = "version-id" if "version-id" in value else "version_id"
        evolved = {**value, "max_column_id": next(ids) - 1, key: version, "fields": fields}
        return json.dumps(evolved, separators=(",", ":"), ensure_ascii=False)

    return _guarded(text, path, evolve)


def schema_history_with(history: str, path: str, schema: str) -> str:
    """Add a schema to a history, newest first; unchanged if it has that version.

    Raises:
        CorruptFileError: not a history.
    """

    def add(value: dict[str, Any]) -> str:
        newest = json.loads(schema)
        if any(_schema(old).version == _schema(newest).version for old in value["schemas"]):
            return history
        return json.dumps({"schemas": [newest, *value["schemas"]]}, separators=(",", ":"), ensure_ascii=False)

    return _guarded(history, path, add)


def newest_of_history(history: str, path: str) -> str:
    """Text of a history's newest schema.

    Raises:
        CorruptFileError: not a history, or an empty one.
    """

    def newest(value: dict[str, Any]) -> str:
        return json.dumps(max(value["schemas"], key=lambda old: _schema(old).version), separators=(",", ":"))

    return _guarded(history, path, newest)


def rename_type(kind: pa.DataType, stored: Column, current: dict[int, Column]) -> pa.DataType:
    """The type of a stored column with the current names of its members.

    Dropped members get a reserved name. The layout stays the same, so arrays take the new type by `view`.
    """
    if types.is_struct(kind):
        by_name = {member.name: member for member in stored.members}
        return pa.struct([rename_field(kind.field(i), by_name, current) for i in range(kind.num_fields)])
    if types.is_map(kind) and len(stored.members) == 2:
        value = kind.item_field.with_type(rename_type(kind.item_type, stored.members[1], current))
        renamed: pa.DataType = pa.map_(kind.key_field, value)  # type: ignore[call-overload]
        return renamed
    if types.is_list(kind) and len(stored.members) == 1:
        element = kind.value_field
        return pa.list_(element.with_type(rename_type(element.type, stored.members[0], current)))
    return kind


def rename_field(field: Any, stored: dict[str, Column], current: dict[int, Column]) -> Any:
    """A stored field under its column's current name."""
    column = stored.get(field.name)
    if column is None or column.id not in current:
        return field.with_name(f"{GONE}{field.name}")
    return field.with_name(current[column.id].name).with_type(rename_type(field.type, column, current))


def _guarded(text: str, path: str, build: Callable[[Any], Built]) -> Built:
    try:
        return build(json.loads(text))
    except SchemaError:  # of the columns that are to be put into it
        raise
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"no internal schema: {error!r}") from error


def _schema(value: dict[str, Any]) -> InternalSchema:
    # releases spell it differently
    version = value.get("version_id", value.get("version-id", 0))
    return InternalSchema(int(version), _members(value))


def _members(kind: Any) -> tuple[Column, ...]:
    """Nested columns of a type: an object for structs, lists and maps, else a text."""
    if not isinstance(kind, dict):
        return ()
    if kind["type"] == "record":
        return tuple(_column(f["id"], f["name"], f["type"]) for f in kind["fields"])
    if kind["type"] == "array":
        return (_inner(kind, "element"),)
    if kind["type"] == "map":
        return (_inner(kind, "key"), _inner(kind, "value"))
    raise ValueError(f"a type {kind['type']!r}")


def _inner(kind: dict[str, Any], name: str) -> Column:
    number = kind[f"{name}-id"] if f"{name}-id" in kind else kind[f"{name}_id"]
    return _column(number, name, kind[name])


def _column(number: Any, name: Any, kind: Any) -> Column:
    return Column(int(number), str(name), _members(kind), kind if isinstance(kind, str) else "")


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
