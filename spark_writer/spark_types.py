"""Spark's schemas as Arrow schemas, in the types that tables store."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark import __version__
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from table_format.codecs.avro_schema_tree import UTC_MICROS
from table_format.errors import ArgumentError, SchemaError

# PySpark is imported in this package alone: what is above it takes these types from here.
__all__ = [
    "Column",
    "DataFrame",
    "SparkSession",
    "StructType",
    "arrow_schema",
    "check_frame",
    "check_session",
    "is_condition",
    "is_frame",
    "schema_columns",
]

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
            whose keys are not strings, empty structs.
    """
    return pa.schema([_field(field, field.name, nullable=True) for field in schema.fields])


def nested_names(kind: spark.DataType) -> pa.DataType:
    """A type's structs with the names of their fields, as an Arrow type; whatever is no struct, list or map is null."""
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(field.name, nested_names(field.dataType)) for field in kind.fields])
    if isinstance(kind, spark.ArrayType):
        return pa.list_(nested_names(kind.elementType))
    if isinstance(kind, spark.MapType):
        result: pa.DataType = pa.map_(pa.string(), nested_names(kind.valueType))
        return result
    return pa.null()


def schema_columns(schema: DataFrame | StructType | str | None) -> pa.Schema | None:
    """The Arrow schema of a DataFrame, a struct type or a DDL text; None for None.

    Raises:
        ArgumentError: something else.
        SchemaError: a type that Hudi tables cannot hold.
    """
    if schema is None:
        return None
    kind: Any = schema
    if is_frame(kind):
        kind = kind.schema
    if isinstance(kind, str):
        kind = spark._parse_datatype_string(kind)  # noqa: SLF001  # PySpark's only DDL parser in both versions
        if not isinstance(kind, StructType):
            kind = StructType([spark.StructField("value", kind)])
    if not isinstance(kind, StructType):
        check_frame(kind, "HudiTable.create")
    return arrow_schema(kind)


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


# PySpark takes Arrow tables since 4.0.
_FROM_ARROW: Final = "spark.createDataFrame({})" if int(__version__.split(".", 1)[0]) >= 4 else ""

_REMEDIES: Final = {
    "pyspark.pandas.frame.DataFrame": "rows.to_spark()",
    "pandas.DataFrame": "spark.createDataFrame(rows)",
    "pyarrow.Table": _FROM_ARROW.format("rows") or "spark.createDataFrame(rows.to_pandas())",
    "pyarrow.RecordBatch": "spark.createDataFrame(rows.to_pandas())",
    "pyarrow.RecordBatchReader": "spark.createDataFrame(rows.read_pandas())",
    "polars.DataFrame": _FROM_ARROW.format("rows.to_arrow()") or "spark.createDataFrame(rows.to_pandas())",
    "polars.LazyFrame": "spark.createDataFrame(rows.collect().to_pandas())",
    "pyspark.RDD": "spark.createDataFrame(rows, schema)",
    "list": "spark.createDataFrame(rows, schema)",
    "tuple": "spark.createDataFrame(rows, schema)",
    "dict": "spark.createDataFrame([rows])",
    "str": "spark.read.parquet(rows), or another reader for the files",
}


def is_frame(rows: object) -> bool:
    """Whether an object is a Spark DataFrame, classic or of Spark Connect."""
    return hasattr(rows, "mapInArrow") and hasattr(rows, "sparkSession")


def is_condition(rows: object) -> bool:
    """Whether an object is a condition on rows: SQL text, or a Spark Column, classic or of Spark Connect."""
    return isinstance(rows, str) or (type(rows).__name__ == "Column" and type(rows).__module__.startswith("pyspark."))


def check_frame(rows: object, call: str) -> None:
    """Refuse rows that are not a Spark DataFrame.

    Args:
        rows: what the user gave.
        call: name of the called function, for the message.

    Raises:
        ArgumentError: they are not; the message says how to make a DataFrame of them.
    """
    if is_frame(rows):
        return
    name = _name(rows)
    remedy = _REMEDIES.get(name, "a DataFrame, such as that of spark.createDataFrame(…)")
    raise ArgumentError(f"{call} takes a Spark DataFrame, and this is a {name}: give {remedy}")


def check_session(session: Any, call: str) -> None:
    """Refuse an argument that is not a Spark session, such as a path.

    Raises:
        ArgumentError: it is not a session.
    """
    if not (hasattr(session, "createDataFrame") and hasattr(session, "conf")):
        raise ArgumentError(f"{call} takes a Spark session first, and this is a {_name(session)}: give spark, then it")


def _name(value: object) -> str:
    """The name of a value's class, as users import it."""
    kind = type(value)
    package = kind.__module__.partition(".")[0]
    if package == "builtins":
        return kind.__qualname__
    if kind.__module__.startswith("pyspark.pandas"):
        return f"{kind.__module__}.{kind.__qualname__}"
    return f"{package}.{kind.__qualname__}"
