"""Table schemas: conversion between Arrow and the Avro text of Hudi's commits and Parquet footers.

Hudi on Spark names things by path: the record of table `t` is `t_record` in namespace `hoodie.t`, and what a field
nests (records, and the `fixed` of decimals) lives in the namespace of the names above it. `arrow_to_avro` follows
those names and the order of JSON members, so that the text equals what Apache Hudi writes for the same columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from table_format.codecs.avro_schema_tree import LOGICAL_TYPES
from table_format.errors import SchemaError
from table_format.meta_columns import META_COLUMNS

_AvroSchema = Any  # JSON value: a type name, a list (union), or an object
_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "null": pa.null(),
}
# Vectors of Hudi 1.2: `fixed` with that many little-endian numbers
_VECTORS: dict[str, pa.DataType] = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}


def arrow_to_avro(schema: pa.Schema, table_name: str, *, meta_fields: bool = False) -> dict[str, Any]:
    """Avro record schema of columns, with the names that Hudi on Spark uses.

    Args:
        schema: user columns; meta columns in it are left out, see `meta_fields`. A field's `comment` metadata
            becomes its `doc`.
        table_name: `hoodie.table.name`; characters that Avro forbids in names are masked as in Hudi.
        meta_fields: put the five meta columns in front, as the Parquet footers have it. Commits leave them out.

    Raises:
        SchemaError: a name or type that Avro or Hudi does not support.
    """
    name = sanitize_name(table_name)
    fields = [_field_to_avro(field, f"hoodie.{name}.{name}_record") for field in schema if not _is_meta(field)]
    if meta_fields:
        fields = [{"name": c, "type": ["null", "string"], "doc": "", "default": None} for c in META_COLUMNS] + fields
    return {"type": "record", "name": f"{name}_record", "namespace": f"hoodie.{name}", "fields": fields}


def check_type(field: pa.Field[Any]) -> None:
    """Refuse a column of a type that tables lack, whatever its name.

    Raises:
        SchemaError: the type, or one in it, or the name of a member.
    """
    _type_to_avro(field.type, field.name, "")


def avro_text(schema: Mapping[str, Any]) -> str:
    """Avro schema JSON as Java writes it: no spaces, non-ASCII text unescaped."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def schema_text(schema: pa.Schema, table_name: str, *, meta_fields: bool = False) -> str:
    """`arrow_to_avro` as text, as in `extraMetadata.schema` of commits."""
    return avro_text(arrow_to_avro(schema, table_name, meta_fields=meta_fields))


def avro_to_arrow(schema: Mapping[str, Any] | str) -> pa.Schema:
    """Arrow schema of an Avro record schema, given as parsed JSON or as text.

    Strings become `string`, `fixed` without a logical type `binary`, enums `string`, timestamps keep their unit, the
    UTC ones with time zone "UTC". A union of null and one type is a nullable field. Hudi 1.2's VECTOR becomes a list of
    its numbers, its BLOB the record that it is.

    Raises:
        SchemaError: not JSON, not a record, a union of several types, a type that refers to itself, or a VARIANT.
    """
    parsed: Any = schema
    if isinstance(schema, str):
        try:
            parsed = json.loads(schema)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"the table's schema is not Avro JSON: {error}; text starts {schema[:80]!r}") from error
    if not isinstance(parsed, Mapping) or parsed.get("type") != "record":
        raise SchemaError(f"the table's schema must be an Avro record, not {str(parsed)[:80]!r}")
    try:
        record = cast("pa.StructType", _Reader().type_of(parsed, ""))
    except SchemaError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the table's schema is malformed Avro: {error!r}; it starts {str(parsed)[:80]!r}") from error
    return pa.schema([record.field(index) for index in range(record.num_fields)])


def sanitize_name(name: str) -> str:
    """A table name as in Hudi's Avro names: each forbidden character becomes `__`.

    >>> sanitize_name("db.my-table"), sanitize_name("1st")
    ('db__my__table', '__st')
    """
    return re.sub("[^A-Za-z0-9_]", "__", re.sub("^[^A-Za-z_]", "__", name))


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """The schema without Hudi's meta columns and without Arrow's schema metadata."""
    return pa.schema([field for field in schema if not _is_meta(field)])


def _is_meta(field: pa.Field[Any]) -> bool:
    return field.name in META_COLUMNS


def _field_to_avro(field: pa.Field[Any], namespace: str) -> dict[str, Any]:
    _check_name(field.name)
    kind = _type_to_avro(field.type, field.name, namespace)
    result: dict[str, Any] = {"name": field.name, "type": ["null", kind] if field.nullable else kind}
    comment = (field.metadata or {}).get(b"comment")
    if comment:
        result["doc"] = comment.decode()
    if field.nullable:
        result["default"] = None
    return result


def _check_name(name: str) -> None:
    first, rest = name[:1], name[1:]
    if not (first.isalpha() or first == "_") or not all(c.isalpha() or c.isdecimal() or c == "_" for c in rest):
        raise SchemaError(
            f"column {name!r}: Avro names are letters, digits and underscores, not a digit first; rename the column"
        )


def _type_to_avro(kind: pa.DataType, name: str, namespace: str) -> _AvroSchema:
    types = pa.types
    if isinstance(kind, pa.DictionaryType):
        return _type_to_avro(kind.value_type, name, namespace)
    if isinstance(kind, pa.StructType):
        below = f"{namespace}.{name}"
        fields = [_field_to_avro(kind.field(index), below) for index in range(kind.num_fields)]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    if isinstance(kind, pa.MapType):
        if not (types.is_string(kind.key_type) or types.is_large_string(kind.key_type)):
            raise SchemaError(f"column {name!r}: Hudi's maps have string keys, this one has {kind.key_type}; cast it")
        return {"type": "map", "values": _element_to_avro(kind.item_field, name, namespace)}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"type": "array", "items": _element_to_avro(kind.value_field, name, namespace)}
    if isinstance(kind, pa.Decimal128Type):
        return _decimal_to_avro(kind, name, namespace)
    return _simple_to_avro(kind, name)


def _element_to_avro(element: pa.Field[Any], name: str, namespace: str) -> _AvroSchema:
    kind = _type_to_avro(element.type, name, namespace)
    return ["null", kind] if element.nullable else kind


def _decimal_to_avro(kind: pa.Decimal128Type[Any, Any], name: str, namespace: str) -> _AvroSchema:
    if kind.scale < 0:
        raise SchemaError(f"column {name!r}: {kind} has a negative scale; cast it to a scale of 0 or more")
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"{namespace}.{name}",
        "size": decimal_byte_width(kind.precision),
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }


def decimal_byte_width(precision: int) -> int:
    """Bytes of the smallest two's complement integer for that many decimal digits.

    >>> [decimal_byte_width(precision) for precision in (1, 12, 18, 30, 38)]
    [1, 6, 8, 13, 16]
    """
    width = 1
    while (1 << (8 * width - 1)) < 10**precision:
        width += 1
    return width


def _simple_to_avro(kind: pa.DataType, name: str) -> _AvroSchema:
    types = pa.types
    if isinstance(kind, pa.TimestampType):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes"
    for result, candidates in (
        ("boolean", (pa.bool_(),)),
        ("int", (pa.int32(), pa.int16(), pa.int8(), pa.uint8(), pa.uint16())),
        ("long", (pa.int64(), pa.uint32())),
        ("float", (pa.float32(), pa.float16())),
        ("double", (pa.float64(),)),
    ):
        if kind in candidates:
            return result
    if types.is_null(kind):
        raise SchemaError(
            f"column {name!r} holds nulls only, and so has no type: declare its type when the table is created, or "
            "leave it out"
        )
    raise SchemaError(f"column {name!r}: Hudi tables cannot hold {kind}; cast or drop it")


class _Reader:
    """Converter from Avro to Arrow, with the named types defined so far."""

    def __init__(self) -> None:
        self.named: dict[str, pa.DataType | None] = {}
        self.path: list[str] = []

    def field(self, field: Mapping[str, Any], namespace: str) -> pa.Field[Any]:
        self.path.append(field["name"])
        kind, nullable = self.nullable(field["type"], namespace)
        self.path.pop()
        doc = field.get("doc")
        return pa.field(field["name"], kind, nullable=nullable, metadata={"comment": doc} if doc else None)

    def nullable(self, schema: _AvroSchema, namespace: str) -> tuple[pa.DataType, bool]:
        if not isinstance(schema, list):
            return self.type_of(schema, namespace), schema == "null"
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) > 1:
            raise SchemaError(f"unions of several types are not supported: {json.dumps(schema)[:200]}")
        kind = self.type_of(branches[0], namespace) if branches else pa.null()
        return kind, len(branches) < len(schema)

    def type_of(self, schema: _AvroSchema, namespace: str) -> pa.DataType:
        if isinstance(schema, list):
            return self.nullable(schema, namespace)[0]
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self.reference(schema, namespace)
        kind, logical = schema.get("type"), schema.get("logicalType")
        if kind in ("record", "error"):
            return self.record(schema, namespace)
        if kind in ("fixed", "enum"):
            return self.name(schema, namespace, self.plain(schema))
        if logical in LOGICAL_TYPES and kind in ("int", "long"):
            return LOGICAL_TYPES[logical]
        return self.nested(schema, kind, namespace)

    def nested(self, schema: Mapping[str, Any], kind: _AvroSchema, namespace: str) -> pa.DataType:
        if kind == "bytes" and schema.get("logicalType") == "decimal":
            return _decimal_type(schema)
        if kind == "array":
            return pa.list_(self.element("element", schema["items"], namespace))
        if kind == "map":
            value: Any = self.element("value", schema["values"], namespace)
            return cast("pa.DataType", pa.map_(pa.string(), value))
        return self.type_of(kind, namespace)

    def element(self, name: str, schema: _AvroSchema, namespace: str) -> pa.Field[Any]:
        kind, nullable = self.nullable(schema, namespace)
        return pa.field(name, kind, nullable=nullable)

    def record(self, schema: Mapping[str, Any], namespace: str) -> pa.DataType:
        if schema.get("logicalType") == "variant":
            raise SchemaError(
                f"column {'.'.join(self.path)!r} is a VARIANT of Hudi 1.2, which is not read; keep its text in a string"
            )
        full = _full_name(schema, namespace)
        self.named[full] = None
        inside = full.rpartition(".")[0]
        kind = pa.struct([self.field(field, inside) for field in schema["fields"]])
        self.named[full] = kind
        return kind

    def plain(self, schema: Mapping[str, Any]) -> pa.DataType:
        """An enum or a fixed."""
        if schema["type"] == "enum":
            return pa.string()
        if schema.get("logicalType") == "vector":
            return self.vector(schema)
        return _decimal_type(schema) if schema.get("logicalType") == "decimal" else pa.binary()

    def vector(self, schema: Mapping[str, Any]) -> pa.DataType:
        element, backing = schema.get("elementType", "FLOAT"), schema.get("storageBacking", "FIXED_BYTES")
        number = _VECTORS.get(element)
        if number is None or backing != "FIXED_BYTES" or schema["size"] * 8 != schema["dimension"] * number.bit_width:
            raise SchemaError(
                f"column {'.'.join(self.path)!r} is a VECTOR({schema['dimension']}, {element}) in {schema['size']} "
                f"bytes of {backing}, which is not read; vectors of FLOAT, DOUBLE or INT8 in FIXED_BYTES are"
            )
        return pa.list_(pa.field("element", number, nullable=False))

    def name(self, schema: Mapping[str, Any], namespace: str, kind: pa.DataType) -> pa.DataType:
        self.named[_full_name(schema, namespace)] = kind
        return kind

    def reference(self, name: str, namespace: str) -> pa.DataType:
        for full in (f"{namespace}.{name}" if namespace and "." not in name else name, name):
            if full in self.named:
                kind = self.named[full]
                if kind is None:
                    raise SchemaError(f"type {full!r} contains itself; such schemas are not supported")
                return kind
        raise SchemaError(f"unknown Avro type {name!r}")


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name: str = schema["name"]
    space = schema.get("namespace", namespace)
    return name if "." in name or not space else f"{space}.{name}"


def _decimal_type(schema: Mapping[str, Any]) -> pa.DataType:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    try:
        return pa.decimal128(precision, scale)
    except ValueError as error:
        raise SchemaError(f"decimal({precision},{scale}) is beyond 38 digits: {error}") from error
