"""Structs, maps and lists as JSON text, in the form that Trino's own JSON values have.

No spaces, members of objects sorted by name. Maps with texts as keys are objects, all others arrays of
``[key, value]`` sorted by key. Decimals, times, dates and bytes are strings, so that nothing is rounded; NaN and the
infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from catalog.json_rows import json_values
from catalog.trino.types import is_list
from table_format.arrow_numpy import from_numpy, to_numpy

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take
types = pa.types


def json_texts(array: Any) -> Any:
    """The JSON text of each value; null where the value is null.

    Raises:
        SchemaError: a value inside is of a type that has no text.
    """
    return pc.if_else(array.is_valid(), _texts(array), pa.scalar(None, pa.string()))


def _texts(array: Any) -> Any:
    """The text of each value, `null` for null."""
    kind = array.type
    if isinstance(kind, pa.DictionaryType):
        return _texts(array.dictionary_decode())
    if types.is_struct(kind):
        found = _object(array)
    elif types.is_map(kind):
        found = _map(array)
    elif is_list(kind):
        found = _list(array)
    else:
        return json_values(array)
    return pc.if_else(array.is_valid(), found, "null")


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
    if types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    # `flatten` leaves out what lies under null lists, so that offsets follow from the lengths alone.
    return _joined(_texts(array.flatten()), pc.fill_null(pc.list_value_length(array), 0), "[", "]")


def _map(array: Any) -> Any:
    key, item = array.type.key_type, array.type.item_type
    entries = pc.cast(array, pa.list_(pa.struct([("k", key), ("v", item)])))
    keys, values = entries.flatten().flatten()
    lengths = pc.fill_null(pc.list_value_length(entries), 0)
    rows = np.repeat(np.arange(len(array), dtype=np.int64), to_numpy(lengths))
    is_object = types.is_string(key) or types.is_large_string(key)
    begin, between, end = ("", ":", "") if is_object else ("[", ",", "]")
    pairs = pc.binary_join_element_wise(begin, _texts(keys), between, _texts(values), end, "")
    try:
        table = pa.table({"row": from_numpy(rows), "key": keys})
        pairs = pairs.take(pc.sort_indices(table, [("row", "ascending"), ("key", "ascending")]))
    except pa.ArrowNotImplementedError:
        pass  # keys without an order stay as they are stored
    return _joined(pairs, lengths, "{", "}") if is_object else _joined(pairs, lengths, "[", "]")


def _joined(texts: Any, lengths: Any, begin: str, end: str) -> Any:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    joined = pc.binary_join(pa.ListArray.from_arrays(from_numpy(offsets), texts), ",")
    return pc.binary_join_element_wise(begin, joined, end, "")
