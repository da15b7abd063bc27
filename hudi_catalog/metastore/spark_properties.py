"""What Spark SQL knows a table of the Hudi data source by, in the parameters of its entry.

Spark keeps the schema of such a table as JSON, cut into parts, for metastores bound the length of a parameter. The
columns that partition the table come last in it. Apache Hudi's sync writes the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from table_format.errors import UnsupportedTableError

PREFIX: Final = "spark.sql.sources."
PROVIDER: Final = f"{PREFIX}provider"
PATH: Final = "path"
VERSION: Final = "spark.sql.create.version"
_PARTS: Final = f"{PREFIX}schema.numParts"
_PART: Final = f"{PREFIX}schema.part."
_PARTITION_COLUMNS: Final = f"{PREFIX}schema.numPartCols"
_PARTITION_COLUMN: Final = f"{PREFIX}schema.partCol."
_READ_OPTIMIZED: Final = "hoodie.query.as.ro.table"

_SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def spark_properties(
    schema: pa.Schema, partition_fields: Sequence[str], comments: Mapping[str, str], part: int, version: str | None
) -> dict[str, str]:
    """Parameters of an entry.

    Args:
        schema: the table's columns.
        partition_fields: names of those that partition it.
        comments: of columns, by name.
        part: characters of the schema that one parameter may hold.
        version: of Spark; None to say nothing of it.

    Raises:
        UnsupportedTableError: a column has a type that Spark does not have.
    """
    by_name = {column.name.lower(): column for column in schema}
    apart = [by_name[name.lower()] for name in partition_fields if name.lower() in by_name]
    last = {column.name: column for column in apart}
    ordered = [column for column in schema if column.name not in last] + list(last.values())
    fields = [_field(column, comments.get(column.name)) for column in ordered]
    text = json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))
    parts = [text[start : start + part] for start in range(0, len(text), part)]
    properties = {PROVIDER: "hudi", _PARTS: str(len(parts))}
    properties |= {f"{_PART}{number}": piece for number, piece in enumerate(parts)}
    if last:
        properties[_PARTITION_COLUMNS] = str(len(last))
        properties |= {f"{_PARTITION_COLUMN}{number}": name for number, name in enumerate(last)}
    return properties | ({VERSION: version} if version else {})


def spark_serde_properties(location: str, *, read_optimized: bool) -> dict[str, str]:
    """Parameters of an entry's SerDe: where Spark's data source finds the table, and how it is to read it.

    Args:
        location: of the table.
        read_optimized: base files alone, without log files.
    """
    return {PATH: location, _READ_OPTIMIZED: str(read_optimized).lower()}


def spark_type(kind: pa.DataType, column: str) -> Any:
    """Spark's JSON of a type: a name, or an object for nested ones.

    Args:
        kind: of the values.
        column: for messages.

    Raises:
        UnsupportedTableError: Spark has no such type.
    """
    types = pa.types
    text: Any = _SIMPLE.get(kind)
    if isinstance(kind, pa.TimestampType):
        text = "timestamp" if kind.tz else "timestamp_ntz"
    elif types.is_time(kind):
        text = "integer" if types.is_time32(kind) else "long"
    elif isinstance(kind, pa.Decimal128Type):
        text = f"decimal({kind.precision},{kind.scale})"
    elif types.is_fixed_size_binary(kind):
        text = "binary"
    elif isinstance(kind, pa.MapType):
        text = {
            "type": "map",
            "keyType": spark_type(kind.key_type, column),
            "valueType": spark_type(kind.item_type, column),
            "valueContainsNull": kind.item_field.nullable,
        }
    elif isinstance(kind, pa.StructType):
        text = {"type": "struct", "fields": [_field(kind.field(i), None) for i in range(kind.num_fields)]}
    elif isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        value = kind.value_field
        text = {
            "type": "array",
            "elementType": spark_type(value.type, column),
            "containsNull": value.nullable,
        }
    if text is None:
        raise UnsupportedTableError(f"column {column}: Spark has no type for {kind}; leave the column out, or cast it")
    return text


def _field(column: pa.Field[Any], comment: str | None) -> dict[str, Any]:
    kind = spark_type(column.type, column.name)
    metadata = {"comment": comment} if comment else {}
    return {"name": column.name, "type": kind, "nullable": column.nullable, "metadata": metadata}
