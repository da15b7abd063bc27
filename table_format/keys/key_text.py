"""Text of values in record keys and partition paths.

The rules are those of Hudi's Avro key generators, observed with releases 0.15.0 and 1.2.0: numbers in decimal,
booleans `true` and `false`, dates `yyyy-MM-dd`, timestamps as raw microseconds, decimals by `BigDecimal.toString`,
floating point by Java's `toString`, binary as hexadecimal digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import RecordError, SchemaError, did_you_mean


def key_texts(values: pa.Array[Any] | pa.ChunkedArray[Any], field: str) -> pa.Array[Any]:
    """Text of each value, as a `string` array; nulls stay null.

    Args:
        values: a column of any type that is allowed in keys.
        field: its name, for messages.

    Raises:
        SchemaError: a nested type.
    """
    values = _in_one_piece(values)
    kind = values.type
    if isinstance(values, pa.DictionaryArray):
        return key_texts(values.dictionary, field).take(values.indices)
    types = pa.types
    if isinstance(kind, pa.TimestampType):
        return _cast(_cast(values, pa.timestamp("us", kind.tz)), pa.int64(), pa.string())
    if types.is_floating(kind):
        return _of_uniques(values, lambda number: java_float_text(number, single=kind != pa.float64()))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _of_uniques(values, bytes.hex)
    if types.is_date(kind):
        return _cast(values, pa.date32(), pa.string())
    if types.is_nested(kind) or types.is_duration(kind) or types.is_interval(kind) or types.is_time(kind):
        raise SchemaError(f"column {field!r} is {kind}: it cannot be part of a key or partition path")
    return _cast(values, pa.string())


def key_text(value: Any, kind: pa.DataType) -> str | None:
    """Text of one Python value of Arrow type `kind`; None for null.

    >>> key_text(5, pa.int64()), key_text(True, pa.bool_()), key_text(None, pa.string()), key_text(0.1, pa.float64())
    ('5', 'true', None, '0.1')
    """
    text: str | None = key_texts(pa.array([value], kind), "")[0].as_py()
    return text


def text_column(batch: pa.Table | pa.RecordBatch, field: str) -> pa.Array[Any]:
    """Key text of one column of a batch; `a.b` is a member of a struct.

    Raises:
        SchemaError: there is no such column, or its type is not supported.
    """
    return key_texts(raw_column(batch, field), field)


def field_parts(schema: pa.Schema, field: str) -> list[str]:
    """The column of a field, and the members below it: `a.b` is one of the struct `a`, if no column has that name."""
    return [field] if field in schema.names else field.split(".")


def columns_of_fields(schema: pa.Schema, fields: Sequence[str]) -> list[str]:
    """The columns of some fields, each once; of a member of a struct the column that holds it."""
    return list(dict.fromkeys(field_parts(schema, field)[0] for field in fields))


def raw_column(batch: pa.Table | pa.RecordBatch, field: str) -> pa.Array[Any]:
    """One column of a batch as a single array; `a.b` is a member of a struct.

    Raises:
        SchemaError: there is no such column.
    """
    name, *inner = field_parts(batch.schema, field)
    if name not in batch.schema.names:
        hint = did_you_mean(name, batch.schema.names)
        raise SchemaError(
            f"key or partition column {field!r} is not in the data{hint}; columns are {batch.schema.names}"
        )
    column: Any = batch.column(name)
    for part in inner:
        if not isinstance(column.type, pa.StructType) or column.type.get_field_index(part) < 0:
            raise SchemaError(f"key or partition column {field!r}: {part!r} is not a member of {column.type}")
        column = pc.struct_field(column, part)
    return _in_one_piece(column)


def _in_one_piece(column: Any) -> pa.Array[Any]:
    if isinstance(column, pa.ChunkedArray) and isinstance(column.type, pa.DictionaryType):
        column = column.unify_dictionaries()
    result: pa.Array[Any] = one_chunk(column)
    return result


def java_float_text(number: float, *, single: bool) -> str:
    """`Double.toString` (`Float.toString` when `single`): shortest digits, exponents outside 10^-3 .. 10^7.

    >>> [java_float_text(x, single=False) for x in (0.1, 1e10, 100.0, 1e-4, -0.0, 1234567.0, 12345678.0)]
    ['0.1', '1.0E10', '100.0', '1.0E-4', '-0.0', '1234567.0', '1.2345678E7']
    """
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    shown = np.format_float_scientific(np.float32(number) if single else np.float64(number), trim="-")
    mantissa, _, exponent = shown.partition("e")
    power = int(exponent)
    if not -3 <= power < 7:
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{power}"
    plain = np.float32(number) if single else np.float64(number)
    return np.format_float_positional(plain, trim="0")


def _cast(values: Any, *kinds: pa.DataType) -> pa.Array[Any]:
    try:
        for kind in kinds:
            values = pc.cast(values, kind)
    except pa.ArrowInvalid as error:
        raise RecordError(f"a key value has no exact text: {error}") from error
    result: pa.Array[Any] = values
    return result


def _of_uniques(values: Any, text: Callable[[Any], str]) -> pa.Array[Any]:
    """Texts computed in Python, once for each distinct value."""
    encoded = pc.dictionary_encode(values.view(_bits_of(values.type)) if pa.types.is_floating(values.type) else values)
    distinct = encoded.dictionary
    if pa.types.is_floating(values.type):
        distinct = distinct.view(values.type)
    texts = pa.array([text(value.as_py()) for value in distinct], pa.string())
    result: pa.Array[Any] = texts.take(encoded.indices)
    return result


def _bits_of(kind: pa.DataType) -> pa.DataType:
    # Compared as bits, so that -0.0 and 0.0 are distinct.
    return pa.int64() if kind == pa.float64() else pa.int32() if kind == pa.float32() else pa.int16()
