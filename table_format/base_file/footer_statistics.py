"""Bounds of a column out of a Parquet footer, for files that the metadata table does not describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from table_format.base_file.reader import BaseFileFooter
from table_format.codecs.arrow_numpy import pc

types = pa.types
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class FooterStatistics:
    """What a footer tells for certain about a column.

    Attributes:
        lower: an Arrow scalar of the column's type that no value is below; None for unknown, or without values.
        upper: a scalar that no value is above; None likewise.
        null_count: nulls; None for unknown. Equal to `row_count` when there are no values.
        row_count: rows of the file, or of the row groups asked for.
    """

    lower: Any
    upper: Any
    null_count: int | None
    row_count: int


def footer_statistics(
    footer: BaseFileFooter, column: str, kind: pa.DataType, row_groups: Sequence[int] | None = None
) -> FooterStatistics:
    """The statistics of one column of a base file, or of some row groups of it.

    Bounds of floating-point columns are not used: writers leave NaN out of them, or write 0 .. 0 in its place.

    Args:
        footer: see `base_file.footer`.
        column: name of a top-level column. A file that lacks it counts as holding nulls only.
        kind: the column's type in the table, to which the file's narrower one is brought.
        row_groups: their ordinals; None for all.
    """
    groups = range(footer.metadata.num_row_groups) if row_groups is None else row_groups
    rows = sum(footer.metadata.row_group(group).num_rows for group in groups)
    if column not in footer.schema.names:
        return FooterStatistics(None, None, rows, rows)
    unknown = FooterStatistics(None, None, None, rows)
    if types.is_nested(footer.schema.field(column).type):
        return unknown
    chunks = _chunks(footer, column, groups)
    if chunks is None:
        return unknown
    counts = [chunk.statistics.null_count if chunk.statistics.has_null_count else None for chunk in chunks]
    nulls = None if None in counts else sum(count or 0 for count in counts)
    if nulls == rows:
        return FooterStatistics(None, None, nulls, rows)
    bounds = _bounds(chunks, counts, footer.schema.field(column).type, kind)
    return FooterStatistics(*bounds, nulls, rows)


def _chunks(footer: BaseFileFooter, column: str, groups: Sequence[int]) -> list[Any] | None:
    """The column's chunks, one a row group that has rows; None when one has no statistics."""
    leaves = footer.metadata.schema
    index = next((at for at in range(len(leaves)) if leaves.column(at).path == column), None)
    result = []
    for group in groups:
        row_group = footer.metadata.row_group(group)
        if row_group.num_rows == 0:
            continue
        chunk = None if index is None else row_group.column(index)
        if chunk is None or not chunk.is_stats_set or chunk.statistics is None:
            return None
        result.append(chunk)
    return result


def _bounds(chunks: list[Any], counts: list[int | None], stored: pa.DataType, kind: pa.DataType) -> tuple[Any, Any]:
    if types.is_floating(stored) or types.is_floating(kind):
        return None, None
    if types.is_integer(stored) and not types.is_integer(kind) and not types.is_decimal(kind):
        return None, None  # read as text, whole numbers have another order
    bounds = []
    for chunk, nulls in zip(chunks, counts, strict=True):
        if nulls == chunk.num_values:
            continue
        if not chunk.statistics.has_min_max:
            return None, None
        bounds += [_value(bound, stored, kind) for bound in _stored_bounds(chunk.statistics, stored)]
    if not bounds or None in bounds:
        return None, None
    found = pc.min_max(pa.array(bounds, kind))
    return found["min"], found["max"]


def _stored_bounds(statistics: Any, stored: pa.DataType) -> tuple[Any, Any]:
    """The bounds of a chunk; None for one that may be missing.

    Of dates and timestamps the numbers, since Python has no dates beyond the year 9999, and of decimals the unscaled
    ones, since pyarrow before 20 reads none that are stored as whole numbers.
    """
    if types.is_date(stored) or types.is_timestamp(stored) or isinstance(stored, pa.Decimal128Type):
        return statistics.min_raw, statistics.max_raw
    try:
        least, greatest = statistics.min, statistics.max
    except UnicodeDecodeError:
        return None, None  # not in UTF-8, or cut within a character
    # pyarrow before 20 gives an empty text where a chunk has one of the two bounds only.
    return least, (None if greatest in ("", b"") else greatest)


def _value(value: Any, stored: pa.DataType, kind: pa.DataType) -> Any:
    """A footer's bound as a scalar of the table's type; None when it cannot be told."""
    if value is None:
        return None
    if isinstance(stored, pa.Decimal128Type):
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value
        value = Decimal(unscaled).scaleb(-stored.scale, _EXACT)
    try:
        if types.is_date(stored):
            return pa.scalar(value, pa.int32()).cast(stored).cast(kind)
        if types.is_timestamp(stored):
            return pa.scalar(value, pa.int64()).cast(stored).cast(kind)
        if isinstance(value, str) and types.is_binary(kind):
            value = value.encode()
        return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, TypeError, ValueError):
        return None
