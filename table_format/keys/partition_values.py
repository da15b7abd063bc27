"""Partition paths: formatting of values as path text, and parsing of paths.

A path has the values' texts joined by `/` in field order, in hive style `field=value`. Null and the empty string are
both written `__HIVE_DEFAULT_PARTITION__`. URL encoding is optional, and escapes fewer characters than in URLs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import RecordError

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Path text of null and, in string columns, of the empty string."""

_ESCAPED = frozenset([*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{[]^"])
_UNSAFE = f"[{re.escape(''.join(sorted(_ESCAPED)))}]"
_PERCENT = re.compile("%([0-9a-fA-F]{2})")


def escape_path_name(value: str) -> str:
    """Escape the characters that Hudi escapes in URL-encoded partition paths (as Hive does).

    >>> escape_path_name("a/b=50% ü")
    'a%2Fb%3D50%25 ü'
    """
    if _ESCAPED.isdisjoint(value):
        return value
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


def escape_path_names(values: Any) -> Any:
    """`escape_path_name` of each text of an array; nulls stay null."""
    unsafe: Any = pc.fill_null(pc.match_substring_regex(values, _UNSAFE), False)
    if not unsafe.true_count:
        return values
    escaped = [None if text is None else escape_path_name(text) for text in values.filter(unsafe).to_pylist()]
    return pc.replace_with_mask(values, unsafe, pa.array(escaped, pa.string()))


def unescape_path_name(text: str) -> str:
    """Inverse of `escape_path_name`; a percent sign without two hexadecimal digits is kept."""
    return _PERCENT.sub(lambda match: chr(int(match.group(1), 16)), text) if "%" in text else text


def path_segment(text: str | None, field: str, *, hive_style: bool, url_encode: bool) -> str:
    """One field's part of a partition path.

    Raises:
        RecordError: the value would lead to another folder, such as `..`, or one inside `.hoodie`.
    """
    value = text or DEFAULT_PARTITION
    if url_encode:
        value = escape_path_name(value)
    prefix = f"{field}=" if hive_style else ""
    if _is_folder_name(prefix + value):
        return prefix + value
    remedy = "change the value"
    if _is_folder_name(prefix + escape_path_name(value)):
        remedy += ", or set hoodie.datasource.write.partitionpath.urlencode"
    elif _is_folder_name(f"{field}={value}"):
        remedy += ", or make the table with hoodie.datasource.write.hive_style_partitioning"
    raise RecordError(f"partition column {field!r}: value {text!r} cannot be a folder name; {remedy}")


def _is_folder_name(path: str) -> bool:
    """Whether a path stays within the table, outside of `.hoodie`."""
    parts = path.split("/")
    return not ("" in parts or "." in parts or ".." in parts or parts[0] == ".hoodie" or "\x00" in path)


def parse_partition_path(
    path: str, fields: Sequence[str], kinds: Sequence[pa.DataType], *, hive_style: bool, url_encode: bool
) -> tuple[Any, ...] | None:
    """Values of a partition path, one per field; None if it cannot be parsed.

    Args:
        path: a partition path, "" for a table without partitions.
        fields: partition columns, in order.
        kinds: their Arrow types.
        hive_style: whether segments are `field=value`.
        url_encode: whether values are escaped.

    Returns:
        Python values; None for the default partition: null, or in a string column also the empty string.

    >>> parse_partition_path("year=2024", ["year"], [pa.int32()], hive_style=True, url_encode=False)
    (2024,)
    """
    table = parse_partition_paths([path], fields, kinds, hive_style=hive_style, url_encode=url_encode)
    if not table.column(KNOWN)[0].as_py():
        return None
    return tuple(table.column(index)[0].as_py() for index in range(len(fields)))


KNOWN = "known"


def parse_partition_paths(
    paths: Sequence[str] | pa.Array[Any],
    fields: Sequence[str],
    kinds: Sequence[pa.DataType],
    *,
    hive_style: bool,
    url_encode: bool,
) -> pa.Table:
    """Like `parse_partition_path` for many paths: one column per field, by position, and a last column `known`.

    If `known` is false the path cannot be parsed (too few parts, or text that is not a value of the type),
    and every filter must keep the partition.
    """
    array: Any = paths if isinstance(paths, pa.Array) else pa.array(paths, pa.string())
    fitting, parts = _hive_parts(array, fields) if hive_style and fields else _parts(array, len(fields))
    known: Any = fitting
    columns = []
    for part, kind in zip(parts, kinds, strict=True):
        texts: Any = pc.if_else(pc.equal(part, DEFAULT_PARTITION), pa.scalar(None, pa.string()), part)
        column, valid = _typed(_unescaped(texts) if url_encode else texts, kind)
        columns.append(column)
        known = pc.and_(known, valid)
    return pa.Table.from_arrays([*columns, known], names=[*fields, KNOWN])


def _parts(paths: Any, count: int) -> tuple[Any, list[Any]]:
    """Whether each path has a part for each field, and the parts, null where it has not."""
    if count <= 1:  # a value may contain slashes
        fitting = pc.not_equal(paths, "") if count else pc.is_valid(paths)
        return fitting, [_only(paths, fitting)] * count
    lists = pc.split_pattern(paths, "/")
    fitting = pc.equal(pc.list_value_length(lists), count)
    lists = _only(lists, fitting)
    if fitting.true_count == 0:  # list_element fails on an array of no lists
        return fitting, [pa.nulls(len(paths), pa.string())] * count
    return fitting, [pc.list_element(lists, at) for at in range(count)]


def _hive_parts(paths: Any, fields: Sequence[str]) -> tuple[Any, list[Any]]:
    """As `_parts` for segments `field=value`, whose values may contain slashes: `/field=` starts the next one."""
    if len(fields) == 1:
        start = f"{fields[0]}="
        fitting = pc.starts_with(paths, start)
        values = [pc.utf8_slice_codeunits(paths, len(start))]
    else:
        pattern = "/".join(f"{re.escape(field)}=(?P<f{at}>.*)" for at, field in enumerate(fields))
        groups = pc.extract_regex(paths, rf"(?s)\A{pattern}\z")
        fitting = pc.is_valid(groups)
        values = [pc.struct_field(groups, at) for at in range(len(fields))]
    for value, field in itertools.product(values, fields):
        fitting = pc.and_not(fitting, pc.fill_null(pc.match_substring(value, f"/{field}="), False))
    return fitting, [_only(value, fitting) for value in values]


def _only(values: Any, mask: Any) -> Any:
    """The values where a mask is true, null elsewhere."""
    return values if mask.true_count == len(mask) else pc.if_else(mask, values, pa.scalar(None, values.type))


def _unescaped(texts: Any) -> Any:
    escaped = pc.fill_null(pc.match_substring(texts, "%"), False)
    if not escaped.true_count:
        return texts
    plain = [None if text is None else unescape_path_name(text) for text in texts.filter(escaped).to_pylist()]
    return pc.replace_with_mask(texts, escaped, pa.array(plain, pa.string()))


def _typed(texts: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Cast texts to a type; values, and a mask of valid texts."""
    try:
        return _cast(texts, kind), from_numpy(np.ones(len(texts), np.bool_))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    if len(texts) <= 1:
        target: Any = _value_type(kind)
        return pa.nulls(len(texts), target), from_numpy(np.zeros(len(texts), np.bool_))
    middle = len(texts) // 2  # until what does not fit is alone
    halves = [_typed(half, kind) for half in (texts[:middle], texts[middle:])]
    values, valid = (pa.concat_arrays(list(pieces)) for pieces in zip(*halves, strict=True))
    return values, valid


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def _cast(texts: Any, kind: pa.DataType) -> Any:
    kind = _value_type(kind)
    if isinstance(kind, pa.TimestampType):  # raw microseconds, see key_text
        return pc.cast(pc.cast(pc.cast(texts, pa.int64()), pa.timestamp("us", kind.tz)), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise pa.ArrowNotImplementedError("hexadecimal text")
    if pa.types.is_boolean(kind) and not pc.all(pc.is_in(texts, pa.array(["true", "false", None]))).as_py():
        raise pa.ArrowInvalid("not a boolean")  # Arrow also accepts 0 and 1, which Hudi never writes
    return pc.cast(texts, kind)
