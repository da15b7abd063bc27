"""Partition paths: formatting of values as path text, and parsing of paths.

A path has the values' texts joined by `/` in field order, in hive style `field=value`. Null and the empty string are
both written `__HIVE_DEFAULT_PARTITION__`. URL encoding is optional, and escapes fewer characters than in URLs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from table_format.codecs.arrow_numpy import pc
from table_format.errors import RecordError

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Path text of null and, in string columns, of the empty string."""

_ESCAPED = frozenset([*map(chr, range(1, 0x20)), "\x7f", *"\"#%'*/:=?\\{[]^"])
_PERCENT = re.compile("%([0-9a-fA-F]{2})")


def escape_path_name(value: str) -> str:
    """Escape the characters that Hudi escapes in URL-encoded partition paths (as Hive does).

    >>> escape_path_name("a/b=50% ü")
    'a%2Fb%3D50%25 ü'
    """
    if _ESCAPED.isdisjoint(value):
        return value
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in value)


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
    segment = f"{field}={value}" if hive_style else value
    parts = segment.split("/")
    if "" in parts or "." in parts or ".." in parts or parts[0] == ".hoodie" or "\x00" in segment:
        raise RecordError(
            f"partition column {field!r}: value {text!r} cannot be a folder name; "
            "set hoodie.datasource.write.partitionpath.urlencode or change the value"
        )
    return segment


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
    paths: Sequence[str], fields: Sequence[str], kinds: Sequence[pa.DataType], *, hive_style: bool, url_encode: bool
) -> pa.Table:
    """Like `parse_partition_path` for many paths: one column per field, by position, and a last column `known`.

    If `known` is false the path cannot be parsed (too few parts, or text that is not a value of the type),
    and every filter must keep the partition.
    """
    rows = [_split(path, fields, hive_style=hive_style) for path in paths]
    known = pa.array([row is not None for row in rows], pa.bool_())
    columns = []
    for position, kind in enumerate(kinds):
        texts = [None if row is None else _value_text(row[position], url_encode=url_encode) for row in rows]
        column, valid = _typed(pa.array(texts, pa.string()), kind)
        columns.append(column)
        known = pc.and_(known, valid)
    return pa.Table.from_arrays([*columns, known], names=[*fields, KNOWN])


def _split(path: str, fields: Sequence[str], *, hive_style: bool) -> list[str] | None:
    if not fields:
        return []
    if not hive_style:
        if len(fields) == 1:  # a value may contain slashes
            return [path] if path else None
        parts = path.split("/")
        return parts if len(parts) == len(fields) else None
    # Values may contain slashes here as well; `/field=` marks the start of the next one.
    pattern = "/".join(f"{re.escape(field)}=(.*)" for field in fields)
    match = re.fullmatch(pattern, path, re.DOTALL)
    if match is None or any(f"/{field}=" in value for field in fields for value in match.groups()):
        return None
    return list(match.groups())


def _value_text(text: str, *, url_encode: bool) -> str | None:
    if text == DEFAULT_PARTITION:
        return None
    return unescape_path_name(text) if url_encode else text


def _typed(texts: Any, kind: pa.DataType) -> tuple[pa.Array[Any], pa.Array[Any]]:
    """Cast texts to a type; values, and a mask of valid texts."""
    try:
        return _cast(texts, kind), pa.array([True] * len(texts), pa.bool_())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    values, valid = [], []
    for text in texts:  # one by one if a text does not fit
        try:
            values.append(_cast(pa.array([text.as_py()], pa.string()), kind)[0].as_py())
            valid.append(True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values.append(None)
            valid.append(False)
    return pa.array(values, kind), pa.array(valid, pa.bool_())


def _cast(texts: Any, kind: pa.DataType) -> Any:
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if isinstance(kind, pa.TimestampType):  # raw microseconds, see key_text
        return pc.cast(pc.cast(pc.cast(texts, pa.int64()), pa.timestamp("us", kind.tz)), kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise pa.ArrowNotImplementedError("hexadecimal text")
    if pa.types.is_boolean(kind) and not pc.all(pc.is_in(texts, pa.array(["true", "false", None]))).as_py():
        raise pa.ArrowInvalid("not a boolean")  # Arrow also accepts 0 and 1, which Hudi never writes
    return pc.cast(texts, kind)
