"""Spark's schemas as Arrow schemas, in the types that tables store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import types as spark

from table_format.codecs.avro_schema import UTC_MICROS
from table_format.errors import SchemaError

_SIMPLE: dict[type, pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int32(),
    spark.ShortType: pa.int32(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: UTC_MICROS,
    spark.NullType: pa.null(),
}
_HINTS = {
    "timestamp_ntz": "cast it to timestamp, as Apache Hudi's writers for this table version do",
}


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema under which a table stores rows of a Spark schema; top-level columns are nullable.

    Raises:
        SchemaError: a type that Hudi tables cannot hold: timestamps without zone, intervals, times, variants, maps
            whose keys are no strings, empty structs.
    """
    return pa.schema([_field(field, field.name, nullable=True) for field in schema.fields])


def _field(field: spark.StructField, path: str, *, nullable: bool) -> pa.Field[Any]:
    comment = (field.metadata or {}).get("comment")
    return pa.field(
        field.name,
        _type(field.dataType, path),
        nullable=nullable or field.nullable,
        metadata={"comment": comment} if comment else None,
    )


def _type(kind: spark.DataType, path: str) -> pa.DataType:
    simple = _SIMPLE.get(type(kind))
    if simple is not None:
        return simple
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.StructType):
        if not kind.fields:
            raise SchemaError(f"column {path!r} is an empty struct, which Parquet cannot hold; drop it")
        return pa.struct([_field(field, f"{path}.{field.name}", nullable=False) for field in kind.fields])
    if isinstance(kind, spark.ArrayType):
        element = _type(kind.elementType, f"{path}.element")
        return pa.list_(pa.field("element", element, nullable=kind.containsNull))
    if isinstance(kind, spark.MapType):
        if not isinstance(kind.keyType, spark.StringType):
            raise SchemaError(
                f"column {path!r}: Hudi's maps have string keys, this one has {kind.keyType.simpleString()}; cast them"
            )
        value: Any = pa.field("value", _type(kind.valueType, f"{path}.value"), nullable=kind.valueContainsNull)
        result: pa.DataType = pa.map_(pa.string(), value)
        return result
    name = kind.simpleString()
    raise SchemaError(f"column {path!r}: Hudi tables cannot hold {name}; {_HINTS.get(name, 'cast or drop it')}")
