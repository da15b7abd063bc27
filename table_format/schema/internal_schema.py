"""Hudi's internal schemas, whose columns have ids: written when columns were renamed, dropped or moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import types

from table_format.errors import CorruptFileError, SchemaError

#: Prefix of the name given to a data file's column that was dropped from the table; no real column has it.
GONE = "\0"

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column, a member of a struct, the element of a list, or key and value of a map.

    Attributes:
        id: constant over all versions of the schema.
        name: in this version; `element`, `key` or `value` in lists and maps.
        members: of structs, lists and maps.
        kind: the type, as `long` or `decimal(10, 2)`; empty for structs, lists and maps.
    """

    id: int
    name: str
    members: tuple[SchemaColumn, ...] = ()
    kind: str = ""

    def walk(self) -> Iterator[SchemaColumn]:
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
    columns: tuple[SchemaColumn, ...]

    def by_id(self) -> dict[int, SchemaColumn]:
        """All columns at all levels."""
        return {column.id: column for top in self.columns for column in top.walk()}


def parse_internal_schema(text: str, path: str) -> InternalSchema:
    """Parse a schema as stored in commits.

    Raises:
        CorruptFileError: not JSON, or of another shape.
    """
    return build_from_json(text, path, schema_of_json)


def parse_schema_history(text: str, path: str) -> list[InternalSchema]:
    """Parse all versions up to a change, as stored in files of `.hoodie/.schema`.

    Raises:
        CorruptFileError: not JSON, or of another shape.
    """
    return build_from_json(text, path, lambda value: [schema_of_json(schema) for schema in value["schemas"]])


def rename_type(kind: pa.DataType, stored: SchemaColumn, current: dict[int, SchemaColumn]) -> pa.DataType:
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


def rename_field(field: Any, stored: dict[str, SchemaColumn], current: dict[int, SchemaColumn]) -> Any:
    """A stored field under its column's current name."""
    column = stored.get(field.name)
    if column is None or column.id not in current:
        return field.with_name(f"{GONE}{field.name}")
    return field.with_name(current[column.id].name).with_type(rename_type(field.type, column, current))


def build_from_json(text: str, path: str, build: Callable[[Any], Built]) -> Built:
    """Parse JSON and convert it by `build`.

    Raises:
        CorruptFileError: not JSON, or of a shape that `build` does not expect.
    """
    try:
        return build(json.loads(text))
    except SchemaError:  # of the columns that are to be put into it
        raise
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise CorruptFileError(path, 0, f"no internal schema: {error!r}") from error


def schema_of_json(value: dict[str, Any]) -> InternalSchema:
    """The schema in a parsed JSON object."""
    # releases spell it differently
    version = value.get("version_id", value.get("version-id", 0))
    return InternalSchema(int(version), _members(value))


def _members(kind: Any) -> tuple[SchemaColumn, ...]:
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


def _inner(kind: dict[str, Any], name: str) -> SchemaColumn:
    number = kind[f"{name}-id"] if f"{name}-id" in kind else kind[f"{name}_id"]
    return _column(number, name, kind[name])


def _column(number: Any, name: Any, kind: Any) -> SchemaColumn:
    return SchemaColumn(int(number), str(name), _members(kind), kind if isinstance(kind, str) else "")
