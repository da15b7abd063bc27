"""Structs, maps and lists as JSON text, in the form that Trino's own JSON values have.

No spaces, members of objects sorted by name. Maps with texts as keys are objects, all others arrays of
``[key, value]`` sorted by key. Decimals, times, dates and bytes are strings, so that nothing is rounded; NaN and the
infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute

from catalog.splits.json_rows import joined_texts, json_values, list_items, map_entries
from hudi_catalog.trino.types import is_list

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
    items, lengths = list_items(array)
    return joined_texts(_texts(items), lengths, "[", ",", "]")


def _map(array: Any) -> Any:
    key = array.type.key_type
    keys, values, lengths = map_entries(array)
    is_object = types.is_string(key) or types.is_large_string(key)
    begin, between, end = ("", ":", "") if is_object else ("[", ",", "]")
    pairs = pc.binary_join_element_wise(begin, _texts(keys), between, _texts(values), end, "")
    return joined_texts(pairs, lengths, "{" if is_object else "[", ",", "}" if is_object else "]")
