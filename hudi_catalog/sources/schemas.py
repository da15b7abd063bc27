"""Columns of new tables: from schemas, from rows, and from text such as `id bigint, price decimal(10,2)`."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from hudi_catalog.sources.rows import arrow_rows, imported
from hudi_catalog.sources.types import zoned
from table_format.errors import SchemaError, did_you_mean

arrow: Any = pa

_TYPES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int32(),
    "smallint": pa.int32(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_NESTED: Final = ("array", "map", "struct", "decimal")
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.IGNORECASE)
_COLUMN: Final = re.compile(r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))\s*[:\s]\s*(?P<type>.+?)\s*", re.DOTALL)


def arrow_schema(source: Any, *, time_zone: str | None = None) -> pa.Schema:
    """Columns for a new table.

    Args:
        source: a pyarrow schema, an object with `__arrow_c_schema__`, text like Spark's DDL, or rows as for
            `arrow_rows`.
        time_zone: of timestamps that have none.

    Raises:
        ArgumentError: none of these.
        SchemaError: a column that Arrow cannot hold, a timestamp without a time zone where none is given, or a column
            of rows whose values are all null.
    """
    is_data = hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")
    if isinstance(source, str):
        schema = schema_of_text(source)
    elif not is_data and hasattr(source, "__arrow_c_schema__"):
        schema, _ = zoned(imported(arrow.schema, source), None, time_zone)
    else:
        schema = arrow_rows(source, time_zone=time_zone).schema
    untyped = [field.name for field in schema if pa.types.is_null(field.type)]
    if untyped:
        raise SchemaError(f"column {untyped[0]!r} has no type, as it has no value: give the table a schema, or cast it")
    return schema.remove_metadata()


def schema_of_text(text: str) -> pa.Schema:
    """The columns that a text names, such as `id bigint, tags array<string>, place struct<x: double, y: double>`.

    Types are those of Spark SQL; `timestamp` is an instant.

    Raises:
        SchemaError: the text has no columns, or an unknown type.
    """
    return pa.schema([_field(part, text) for part in _split(text)])


def _field(part: str, text: str) -> pa.Field[Any]:
    match = _COLUMN.fullmatch(part)
    if match is None:
        raise SchemaError(f"columns {text!r}: {part.strip()!r} is not a column; write name and type, such as id bigint")
    return pa.field(match["quoted"] or match["name"], _type(match["type"], text))


def _type(name: str, text: str) -> pa.DataType:
    word, inner = re.split(r"[<(]", name, maxsplit=1)[0].strip().lower(), name.partition("<")[2].rstrip()
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None and 1 <= int(decimal[1]) <= 38 and int(decimal[2] or 0) <= int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    if word in _TYPES and ("<" not in name and ("(" not in name or word == "varchar")):
        return _TYPES[word]
    if inner.endswith(">"):
        parts = _split(inner[:-1])
        if word == "array" and len(parts) == 1:
            return pa.list_(_type(parts[0].strip(), text))
        if word == "map" and len(parts) == 2:
            kind: pa.DataType = pa.map_(_type(parts[0].strip(), text), _type(parts[1].strip(), text))
            return kind
        if word == "struct":
            return pa.struct([_field(part, text) for part in parts])
    hint = did_you_mean(word, [*_TYPES, *_NESTED])
    raise SchemaError(
        f"columns {text!r}: there is no type {name!r}{hint}; types are {', '.join(_TYPES)}, decimal(p,s), array<…>, "
        "map<string,…> and struct<name: type, …>"
    )


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
