"""Rows as JSON text, lossless, one object a row, built column by column.

The encoding: integers, booleans and strings as JSON has them; float and double as JSON numbers with `"NaN"`,
`"Infinity"` and `"-Infinity"` as strings; decimal as a string in plain notation; binary in base64; date as
`YYYY-MM-DD`; timestamp as ISO 8601 with at least microseconds, and `Z` when it is an instant; struct as an object;
list as an array; map as an array of `[key, value]` sorted by key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import from_numpy, one_chunk, packed, to_numpy, valid_mask
from table_format.errors import SchemaError

Strings = Any  # pa.StringArray; the stubs of pyarrow take too few forms of arrays
_SLICE_ROWS = 16_384
_CONTROL_CHARACTERS = r"[\x00-\x1f]"
_HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_BASE64_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PADDING = ord("=")


def json_lines(table: pa.Table | pa.RecordBatch) -> Iterator[str]:
    """The rows of a table as JSON objects without line ends, in order."""
    for start in range(0, table.num_rows, _SLICE_ROWS):
        yield from json_objects(table.slice(start, _SLICE_ROWS)).to_pylist()


def json_objects(table: pa.Table | pa.RecordBatch) -> Strings:
    """One JSON object for each row; fields are in the order of the columns.

    Raises:
        SchemaError: a column's type has no encoding; the message names column and type.
    """
    columns = [one_chunk(table.column(i)) for i in range(table.num_columns)]
    return _object(table.schema.names, columns, table.num_rows)


def json_values(array: Any) -> Strings:
    """The JSON text of each value of one column; null becomes the text `null`."""
    array = one_chunk(array)
    encoder = _encoder(array.type)
    if encoder is None:
        raise SchemaError(f"values of type {array.type} cannot be written as JSON; leave the column out with --columns")
    return pc.if_else(array.is_valid(), encoder(array), "null")


def _object(names: list[str], columns: list[Any], rows: int) -> Strings:
    if not columns:
        return pa.array(["{}"] * rows, pa.string())
    parts: list[Any] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [("{" if i == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": ", json_values(column)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _encoder(kind: pa.DataType) -> Callable[[Any], Strings] | None:
    return next((encoder for test, encoder in _ENCODERS if test(kind)), None)


def _boolean(array: Any) -> Strings:
    return pc.if_else(array, "true", "false")


def _integer(array: Any) -> Strings:
    return pc.cast(array, pa.string())


def _floating(array: Any) -> Strings:
    wide = pc.cast(array, pa.float64())
    text = pc.cast(wide, pa.string())
    text = pc.if_else(pc.match_substring_regex(text, r"^-?\d+$"), pc.binary_join_element_wise(text, ".0", ""), text)
    special = pc.if_else(pc.is_nan(wide), '"NaN"', pc.if_else(pc.greater(wide, 0.0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(pc.is_finite(wide), text, special)


def _string(array: Any) -> Strings:
    text = pc.cast(array, pa.string())
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    control = pc.fill_null(pc.match_substring_regex(text, _CONTROL_CHARACTERS), False)
    if pc.any(control).as_py():
        replacement = [json.dumps(value, ensure_ascii=False) for value in text.filter(control).to_pylist()]
        return pc.replace_with_mask(quoted, control, pa.array(replacement, pa.string()))
    return quoted


def decimal_texts(array: Any) -> Strings:
    """Decimals with all digits of their scale, never with an exponent."""
    text = pc.cast(array, pa.string())
    scientific = pc.fill_null(pc.match_substring(text, "E"), False)
    if not pc.any(scientific).as_py():
        return text
    plain = [format(value, "f") for value in array.filter(scientific).to_pylist()]
    return pc.replace_with_mask(text, scientific, pa.array(plain, pa.string()))


def _decimal(array: Any) -> Strings:
    return _quoted(decimal_texts(array))


def _binary(array: Any) -> Strings:
    return _quoted(base64_texts(array).cast(pa.string()))


def calendar_texts(array: Any) -> Strings:
    """Dates, or times without a zone, as Arrow writes them.

    Raises:
        SchemaError: one is so far from now that it has no text.
    """
    text = pc.cast(array, pa.string())
    if pc.any(pc.starts_with(text, "<")).as_py():  # Arrow writes a remark in place of the value
        raise SchemaError(f"a {array.type} value lies beyond the years -32767 to 32767, and has no text")
    return text


def _date(array: Any) -> Strings:
    return _quoted(calendar_texts(pc.cast(array, pa.date32())))


def _timestamp(array: Any) -> Strings:
    unit: Any = "us" if array.type.unit in {"s", "ms"} else array.type.unit
    # Without its zone the value prints as UTC, and no time zone database is needed.
    local = pc.cast(pc.cast(pc.cast(array, pa.timestamp(unit, array.type.tz)), pa.int64()), pa.timestamp(unit))
    text = pc.replace_substring(calendar_texts(local), " ", "T")
    return _quoted(text if array.type.tz is None else pc.binary_join_element_wise(text, "Z", ""))


def _time(array: Any) -> Strings:
    return _quoted(pc.cast(array, pa.string()))


def _dictionary(array: Any) -> Strings:
    return json_values(array.dictionary_decode())


def _null(array: Any) -> Strings:
    return pa.nulls(len(array), pa.string())


def _struct(array: Any) -> Strings:
    return _object([field.name for field in array.type], array.flatten(), len(array))


def list_items(array: Any) -> tuple[Any, Any]:
    """Flattened members of lists of any layout, and the length of each list; null lists have length 0."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    # `flatten` leaves out what lies under null lists, so that offsets follow from the lengths alone.
    return array.flatten(), pc.fill_null(pc.list_value_length(array), 0)


def map_entries(array: Any) -> tuple[Any, Any, Any]:
    """Flattened keys and values of maps, sorted by key within each map, and the length of each map.

    Keys without an order stay as they are stored.
    """
    entries, lengths = list_items(
        pc.cast(array, pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)])))
    )
    keys, values = entries.flatten()
    rows = from_numpy(np.repeat(np.arange(len(array), dtype=np.int64), to_numpy(lengths)))
    try:
        order = pc.sort_indices(pa.table({"row": rows, "key": keys}), [("row", "ascending"), ("key", "ascending")])
    except pa.ArrowNotImplementedError:
        return keys, values, lengths
    return keys.take(order), values.take(order), lengths


def joined_texts(texts: Strings, lengths: Any, begin: str, between: str, end: str) -> Strings:
    """Texts joined into one for each list."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    lists: Any = pa.ListArray
    joined = pc.binary_join(lists.from_arrays(from_numpy(offsets), texts), between)
    return pc.binary_join_element_wise(begin, joined, end, "")


def _list(array: Any) -> Strings:
    items, lengths = list_items(array)
    return joined_texts(json_values(items), lengths, "[", ", ", "]")


def _map(array: Any) -> Strings:
    keys, values, lengths = map_entries(array)
    pairs = pc.binary_join_element_wise("[", json_values(keys), ", ", json_values(values), "]", "")
    return joined_texts(pairs, lengths, "[", ", ", "]")


def _quoted(text: Any) -> Strings:
    return pc.binary_join_element_wise('"', text, '"', "")


_ENCODERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Strings]], ...] = (
    (pa.types.is_null, _null),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), _string),
    (pa.types.is_decimal, _decimal),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t), _binary),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_time, _time),
    (pa.types.is_dictionary, _dictionary),
    (pa.types.is_struct, _struct),
    (lambda t: pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t), _list),
    (pa.types.is_map, _map),
)


def hex_texts(array: Any) -> Any:
    """Two digits a byte, in capitals, as Trino's ``to_hex`` writes them.

    Args:
        array: of binary values, of any layout.
    """
    data, ends = _contents(array)
    digits = np.empty((len(data), 2), np.uint8)
    digits[:, 0] = _HEX_DIGITS[data >> 4]
    digits[:, 1] = _HEX_DIGITS[data & 15]
    return _texts(digits.reshape(-1), ends * 2, array)


def base64_texts(array: Any) -> Any:
    """Base64 with padding, as Trino's ``to_base64`` writes it.

    Args:
        array: of binary values, of any layout.
    """
    data, ends = _contents(array)
    sizes = np.diff(ends)
    groups = (sizes + 2) // 3
    group_ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(groups)])
    # Each value begins with a group of three bytes of its own; missing ones are zero.
    padded = np.zeros(int(group_ends[-1]) * 3, np.uint8)
    padded[np.arange(len(data)) + np.repeat(group_ends[:-1] * 3 - ends[:-1], sizes)] = data
    triples = padded.reshape(-1, 3).astype(np.uint32)
    joined = triples[:, 0] << 16 | triples[:, 1] << 8 | triples[:, 2]
    shifts = np.array([18, 12, 6, 0], np.uint32)
    digits = _BASE64_DIGITS[(joined[:, None] >> shifts) & 63]
    last = group_ends[1:] - 1
    digits[last[sizes % 3 == 1], 2:] = _PADDING
    digits[last[sizes % 3 == 2], 3] = _PADDING
    return _texts(digits.reshape(-1), group_ends * 4, array)


def _contents(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The concatenated bytes of all values and their offsets; nulls are empty."""
    if array.null_count:
        array = array.cast(pa.large_binary()).fill_null(b"")
    array = array.cast(pa.large_binary())
    if not len(array):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    ends = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    whole = np.frombuffer(array.buffers()[2] or b"", np.uint8)
    return whole[int(ends[0]) : int(ends[-1])], ends - ends[0]


def _texts(digits: NDArray[np.uint8], ends: NDArray[np.int64], array: Any) -> Any:
    valid = packed(valid_mask(array)) if array.null_count else None
    offsets: Any = np.ascontiguousarray(ends)
    data: Any = digits
    buffers: Any = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(array), buffers)
