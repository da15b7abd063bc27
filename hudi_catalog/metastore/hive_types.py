"""Hive's column types, as Apache Hudi's sync registers them, and statistics of columns of these types."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

import pyarrow as pa

from catalog.row_summary import SnapshotSummary
from hudi_catalog.metastore.metastore import ColumnStatistics, HiveColumn
from table_format.errors import UnsupportedTableError

# Field names that Hive's type parser accepts without quotes.
_MEMBER = re.compile(r"[\w$]+")
_MOST_DIGITS = 38
# A metastore's database refuses the whole entry if a comment is longer.
_LONGEST_COMMENT = 256

SIMPLE_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}
"""Hive\'s names of types without parameters."""


def hive_columns(
    schema: pa.Schema, comments: Mapping[str, str] | None = None, *, times: str = "timestamp"
) -> tuple[HiveColumn, ...]:
    """The columns of a table for a metastore.

    Args:
        schema: the columns; Hive lower-cases top-level names.
        comments: by column.
        times: the type of timestamps; `bigint` for the numbers in the files.

    Raises:
        UnsupportedTableError: a column without a matching type in Hive, or names that differ in case only.
    """
    several = [name for name, count in Counter(field.name.lower() for field in schema).items() if count > 1]
    if several:
        same = [field.name for field in schema if field.name.lower() == several[0]]
        raise UnsupportedTableError(f"columns {' and '.join(same)}: Hive does not distinguish them; rename one of them")
    comment_texts = comments or {}
    return tuple(
        HiveColumn(field.name.lower(), hive_type(field.type, field.name, times), _cut(comment_texts.get(field.name)))
        for field in schema
    )


def _cut(comment: str | None) -> str | None:
    """A comment truncated to the metastore's limit, which Java counts in UTF-16 units."""
    if not comment:
        return None
    units = comment.encode("utf-16-le")
    if len(units) <= 2 * _LONGEST_COMMENT:
        return comment
    return units[: 2 * (_LONGEST_COMMENT - 1)].decode("utf-16-le", "ignore") + "…"


def hive_type(kind: pa.DataType, column: str, times: str = "timestamp") -> str:
    """Hive's text of a type. Times of day become numbers, as files hold them.

    Args:
        kind: of the values.
        column: for messages.
        times: the type of timestamps.

    Raises:
        UnsupportedTableError: Hive has no matching type.
    """
    types = pa.types
    text = SIMPLE_TYPES.get(kind)
    if types.is_timestamp(kind):
        text = times
    elif types.is_time(kind):
        text = "int" if types.is_time32(kind) else "bigint"
    elif isinstance(kind, pa.Decimal128Type) and 0 <= kind.scale <= kind.precision <= _MOST_DIGITS:
        text = f"decimal({kind.precision},{kind.scale})"
    elif types.is_fixed_size_binary(kind):
        text = "binary"
    elif isinstance(kind, pa.MapType):
        text = f"map<{hive_type(kind.key_type, column, times)},{hive_type(kind.item_type, column, times)}>"
    elif isinstance(kind, pa.StructType):
        text = _struct(kind, column, times)
    elif types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        text = f"array<{hive_type(kind.value_type, column, times)}>"
    if text is None:
        raise UnsupportedTableError(f"column {column}: Hive has no type for {kind}; leave the column out, or cast it")
    return text


def _struct(kind: pa.StructType, column: str, times: str) -> str:
    members = [kind.field(index) for index in range(kind.num_fields)]
    unwritable = [member.name for member in members if not _MEMBER.fullmatch(member.name)]
    if unwritable or not members or len({member.name.lower() for member in members}) < len(members):
        what = (
            f"a field named {unwritable[0]!r}"
            if unwritable
            else "a struct without fields, or with names equal in lower case,"
        )
        raise UnsupportedTableError(f"column {column}: {what} cannot be written in Hive's types")
    return f"struct<{','.join(f'{member.name}:{hive_type(member.type, column, times)}' for member in members)}>"


_INTEGERS: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_TEXTS: Final = frozenset({"string", "char", "varchar"})
_EXACT_DOUBLES: Final = float(1 << 53)
_MOST_DECIMAL: Final = 1e30
_DIGITS: Final = Context(prec=80)
_SCALE: Final = re.compile(r"decimal\(\d+,\s*(\d+)\)")


def column_statistics(columns: Sequence[HiveColumn], summary: SnapshotSummary) -> list[ColumnStatistics]:
    """Statistics of an entry's columns: of those whose nulls, bounds and number of values are known.

    Args:
        columns: of the entry.
        summary: of the rows; without columns unless the number of rows is exact.
    """
    if not summary.exact or not summary.rows:
        return []
    described = (_statistics(column, summary.columns.get(column.name, {}), summary.rows) for column in columns)
    return [one for one in described if one is not None]


def _statistics(column: HiveColumn, known: Mapping[str, float], rows: int) -> ColumnStatistics | None:
    if "nulls" not in known or "distinct" not in known:
        return None
    nulls = round(known["nulls"] * rows)
    # fewer than the rows: Hive takes a column with as many values for a key
    distinct = max(1, min(round(known["distinct"]), rows - 1))
    base = column.type.partition("(")[0]
    if base in _TEXTS:
        length = known["bytes"] / (rows - nulls) if "bytes" in known and rows > nulls else None
        return None if length is None else ColumnStatistics(column.name, column.type, nulls, distinct, length=length)
    bounds = _bounds(base, column.type, known["low"], known["high"]) if {"low", "high"} <= known.keys() else None
    return None if bounds is None else ColumnStatistics(column.name, column.type, nulls, distinct, *bounds)


def _bounds(
    base: str, kind: str, low: float, high: float
) -> tuple[int | float | Decimal, int | float | Decimal] | None:
    """Bounds in the form of a type, outside of those given where these are rounded; None for other types."""
    if base in _INTEGERS:
        return math.floor(_below(low)), math.ceil(_above(high))
    if base == "date":
        return int(low), int(high)
    if base in {"float", "double"}:
        return low, high
    scale = _SCALE.match(kind)
    if scale is None or max(abs(low), abs(high)) > _MOST_DECIMAL:
        return None
    step = Decimal(1).scaleb(-int(scale[1]))
    down, up = Decimal(math.nextafter(low, -math.inf)), Decimal(math.nextafter(high, math.inf))
    return down.quantize(step, ROUND_FLOOR, _DIGITS), up.quantize(step, ROUND_CEILING, _DIGITS)


def _below(value: float) -> float:
    return value if abs(value) < _EXACT_DOUBLES else math.nextafter(value, -math.inf)


def _above(value: float) -> float:
    return value if abs(value) < _EXACT_DOUBLES else math.nextafter(value, math.inf)
