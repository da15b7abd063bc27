"""Column-wise conversion of a table's values to those of Trino's Thrift connector.

Structs, maps and lists are served as JSON text in Trino's form: no spaces, members of objects sorted by name. Maps with
string keys are objects, all others arrays of ``[key, value]`` sorted by key. Decimals, times, dates and bytes are
strings, so that nothing is rounded; NaN and the infinities are the strings ``"NaN"``, ``"Infinity"`` and
``"-Infinity"``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.rows.json_rows import (
    base64_texts,
    calendar_texts,
    decimal_texts,
    hex_texts,
    joined_texts,
    json_values,
    list_items,
    map_entries,
)
from hudi_catalog.trino.types import TYPE_PREFIX, BlockKind, Form, ServedColumn
from table_format.codecs.arrow_numpy import from_numpy, to_numpy, valid_mask
from table_format.errors import HudiError, ServiceError
from table_format.schema.nested import is_list

types = pa.types

_ARROW: Mapping[BlockKind, pa.DataType] = {
    BlockKind.INTEGER: pa.int32(),
    BlockKind.BIGINT: pa.int64(),
    BlockKind.DOUBLE: pa.float64(),
    BlockKind.BOOLEAN: pa.bool_(),
    BlockKind.DATE: pa.date32(),
    BlockKind.TIMESTAMP: pa.int64(),
    BlockKind.BIGINT_ARRAY: pa.list_(pa.int64()),
}

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MILLIS, _MICROS = _UNITS["ms"], _UNITS["us"]

# Decimals of at most 15 digits and powers of ten up to 22 are exact doubles, so their quotient is correctly rounded.
_EXACT_DIGITS, _EXACT_POWER = 15, 22


def served_values(array: Any, column: ServedColumn) -> Any:
    """The values to be put into a block, as an Arrow array.

    Args:
        array: the table's values.
        column: how they are served.

    Raises:
        ServiceError: the column cannot be read, or a value cannot be converted; the message names the column and the
            option that serves it otherwise.
    """
    if column.problem is not None:
        raise ServiceError(column.problem)
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    try:
        return _MAKERS[column.form](array, column)
    except (pa.ArrowException, OverflowError) as error:
        raise ServiceError(f"column {column.source!r}: values of {array.type} cannot be served: {error}") from error
    except ServiceError:
        raise
    except HudiError as error:
        raise ServiceError(f"column {column.source!r}: {error}") from error


def _plain(array: Any, column: ServedColumn) -> Any:
    wanted = _ARROW.get(column.block)
    return array if wanted is None or array.type == wanted else array.cast(wanted)


def _units(array: Any) -> NDArray[np.int64]:
    return to_numpy(array).astype(np.int64, copy=False)


def _millis(array: Any, column: ServedColumn) -> Any:
    numbers = _scaled(array, _MILLIS)
    if _UNITS[array.type.unit] > _MILLIS:
        lost = numbers * (_UNITS[array.type.unit] // _MILLIS) != _units(array)
        if lost.any() and bool((lost & valid_mask(array)).any()):
            raise ServiceError(
                f"column {column.source!r} has timestamps that are not whole milliseconds, which Trino's Thrift "
                f"connector cannot represent; set {TYPE_PREFIX}timestamp to truncate, varchar or bigint"
            )
    return _with_nulls(numbers, array)


def _millis_cut(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return _with_nulls(_scaled(array, _MILLIS), array)


def _micros(array: Any, column: ServedColumn) -> Any:
    if array.type.unit == "ns":
        whole = _scaled(array, _MICROS)
        if bool(((whole * 1000 != _units(array)) & valid_mask(array)).any()):
            raise ServiceError(
                f"column {column.source!r} has timestamps that are not whole microseconds; "
                f"set {TYPE_PREFIX}timestamp to varchar"
            )
        return _with_nulls(whole, array)
    return _with_nulls(_scaled(array, _MICROS), array)


def _scaled(array: Any, per_second: int) -> NDArray[np.int64]:
    """Timestamps in another unit, rounded down."""
    numbers, unit = _units(array), _UNITS[array.type.unit]
    if unit > per_second:
        return numbers // (unit // per_second)
    factor = per_second // unit
    if factor == 1:
        return numbers
    most = np.iinfo(np.int64).max // factor
    if bool((((numbers > most) | (numbers < -most)) & valid_mask(array)).any()):
        raise OverflowError("a timestamp that does not fit into 64 bits")
    return numbers * factor


def _with_nulls(numbers: NDArray[np.int64], array: Any) -> Any:
    return from_numpy(numbers, valid_mask(array) if array.null_count else None)


def _time_text(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return time_texts(array)


def time_texts(array: Any) -> Any:
    """Timestamps in Trino's text form, with `` UTC`` after those with a time zone."""
    unit = array.type.unit
    # Cast to a type without time zone, values print as UTC, which needs no time zone database.
    text = calendar_texts(pc.cast(array, pa.int64()).cast(pa.timestamp(unit)))
    return text if array.type.tz is None else pc.binary_join_element_wise(text, " UTC", "")


def _clock_text(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return pc.cast(array, pa.string())


def _decimal_text(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return decimal_texts(array)


def _decimal_double(array: Any, column: ServedColumn) -> Any:
    kind = array.type
    if kind.precision <= _EXACT_DIGITS and 0 <= kind.scale <= _EXACT_POWER:
        numbers = _low_words(array).astype(np.float64) / 10.0**kind.scale
        return from_numpy(numbers, valid_mask(array) if array.null_count else None)
    return pc.cast(_decimal_text(array, column), pa.float64())


def _decimal_unscaled(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return _with_nulls(_low_words(array), array)


def _low_words(array: Any) -> NDArray[np.int64]:
    """The unscaled values of decimals of up to 18 digits."""
    if not isinstance(array.type, pa.Decimal128Type):
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    if not len(array):
        return np.empty(0, np.int64)
    return np.ascontiguousarray(np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)[::2])


def _hex(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return hex_texts(array)


def _base64(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return base64_texts(array)


def _json(array: Any, column: ServedColumn) -> Any:  # noqa: ARG001
    return json_texts(array)


_MAKERS: Mapping[Form, Callable[[Any, ServedColumn], Any]] = {
    Form.PLAIN: _plain,
    Form.MILLIS: _millis,
    Form.MILLIS_CUT: _millis_cut,
    Form.MICROS: _micros,
    Form.TIME_TEXT: _time_text,
    Form.CLOCK_TEXT: _clock_text,
    Form.CLOCK_MICROS: _micros,
    Form.DECIMAL_TEXT: _decimal_text,
    Form.DECIMAL_DOUBLE: _decimal_double,
    Form.DECIMAL_UNSCALED: _decimal_unscaled,
    Form.HEX: _hex,
    Form.BASE64: _base64,
    Form.JSON: _json,
}


def json_texts(array: Any) -> Any:
    """The JSON text of each value; null where the value is null.

    Raises:
        SchemaError: a nested type has no JSON form.
    """
    return pc.if_else(array.is_valid(), _texts(array), pa.scalar(None, pa.string()))


def _texts(array: Any) -> Any:
    """The JSON text of each value, `null` for null."""
    kind = array.type
    if isinstance(kind, pa.DictionaryType):
        return _texts(array.dictionary_decode())
    if types.is_struct(kind):
        texts = _object(array)
    elif types.is_map(kind):
        texts = _map(array)
    elif is_list(kind):
        texts = _list(array)
    else:
        return json_values(array)
    return pc.if_else(array.is_valid(), texts, "null")


def _object(array: Any) -> Any:
    names = [field.name for field in array.type]
    if not names:
        return pa.array(["{}"] * len(array), pa.string())
    members = array.flatten()
    parts: list[Any] = []
    for name, member in sorted(zip(names, members, strict=True), key=lambda one: one[0]):
        parts += [f"{',' if parts else '{'}{json.dumps(name, ensure_ascii=False)}:", _texts(member)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _list(array: Any) -> Any:
    items, lengths = list_items(array)
    return joined_texts(_texts(items), lengths, "[", ",", "]")


def _map(array: Any) -> Any:
    key = array.type.key_type
    keys, values, lengths = map_entries(array)
    is_object = types.is_string(key) or types.is_large_string(key)
    begin, between, end = ("", ":", "") if is_object else ("[", ",", "]")
    pairs = pc.binary_join_element_wise(begin, _texts(keys), between, _texts(values), end, "")
    return joined_texts(pairs, lengths, "{" if is_object else "[", ",", "}" if is_object else "]")
