"""Division of large base files by row groups: those that cannot match are left out, the others go into parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.evaluate import Outcomes, evaluate
from pushdown.expression import HudiExpression, Predicate
from pushdown.statistics import ColumnStatistics
from pushdown.walk import leaves
from table_format.base_file import BaseFileFooter
from table_format.footer_statistics import FooterStatistics, footer_statistics


@dataclass(frozen=True, slots=True)
class FilePart:
    """Row groups of a file that lie one behind the other.

    Attributes:
        row_groups: their ordinals.
        start: first byte of the first one; readers that assign row groups by byte range find the same ones.
        length: bytes up to the end of the last one.
        row_count: their rows.
        fully_matching: statistics prove that every row makes the filter true.
    """

    row_groups: tuple[int, ...]
    start: int
    length: int
    row_count: int
    fully_matching: bool


@dataclass(frozen=True, slots=True)
class _Group:
    ordinal: int
    start: int
    end: int
    rows: int
    sure: bool


def divide(footer: BaseFileFooter, expression: HudiExpression | None, most_bytes: int) -> list[FilePart]:
    """The parts of a file to read.

    Args:
        footer: of the file.
        expression: the bound filter that its rows must meet; None when all do.
        most_bytes: a part is closed before it grows beyond so many bytes; a single row group is never cut.

    Returns:
        Parts in the order of the file. Empty when no row group can hold a matching row.
    """
    count = footer.metadata.num_row_groups
    outcomes = None if expression is None else _outcomes(footer, expression, count)
    parts: list[list[_Group]] = []
    for ordinal in range(count):
        rows = footer.metadata.row_group(ordinal).num_rows
        if not rows or (outcomes is not None and not outcomes.can_true[ordinal]):
            continue
        start, end = _extent(footer.metadata.row_group(ordinal))
        group = _Group(ordinal, start, end, rows, outcomes is None or bool(outcomes.only_true[ordinal]))
        last = parts[-1] if parts else None
        if last is None or last[-1].ordinal != ordinal - 1 or end - last[0].start > most_bytes:
            parts.append([group])
        else:
            last.append(group)
    return [_part(part) for part in parts]


def matching_groups(expression: HudiExpression, footer: BaseFileFooter) -> list[int]:
    """Ordinals of the row groups of a file that may hold rows that make the filter true."""
    count = footer.metadata.num_row_groups
    possible = _outcomes(footer, expression, count).can_true
    return [ordinal for ordinal in range(count) if possible[ordinal]]


def _part(groups: Sequence[_Group]) -> FilePart:
    return FilePart(
        tuple(group.ordinal for group in groups),
        groups[0].start,
        groups[-1].end - groups[0].start,
        sum(group.rows for group in groups),
        all(group.sure for group in groups),
    )


def _extent(row_group: Any) -> tuple[int, int]:
    starts, ends = [], []
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        # some writers leave 0 for "no dictionary page"
        first = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
        starts.append(first)
        ends.append(first + chunk.total_compressed_size)
    return min(starts), max(ends)


def _outcomes(footer: BaseFileFooter, expression: HudiExpression, count: int) -> Outcomes:
    kinds: dict[str, pa.DataType] = {}
    for leaf in leaves(expression):
        # A column that the file lacks may stand for a default or another name: nothing is known of it.
        if isinstance(leaf, Predicate) and leaf.column_type is not None and leaf.column in footer.schema.names:
            kinds.setdefault(leaf.column, leaf.column_type)
    return evaluate(expression, _statistics(footer, kinds, count), count)


def _statistics(footer: BaseFileFooter, kinds: Mapping[str, pa.DataType], count: int) -> dict[str, ColumnStatistics]:
    result = {}
    for column, kind in kinds.items():
        try:
            found = [footer_statistics(footer, column, kind, [ordinal]) for ordinal in range(count)]
        except (ValueError, OverflowError, pa.ArrowException):  # bounds beyond what Python's types hold
            continue
        result[column] = _column(found, kind)
    return result


def _column(found: Sequence[FooterStatistics], kind: pa.DataType) -> ColumnStatistics:
    return ColumnStatistics(
        lower=pa.array([one.lower for one in found], kind),
        upper=pa.array([one.upper for one in found], kind),
        null_count=pa.array([one.null_count for one in found], pa.int64()),
        row_count=pa.array([one.row_count for one in found], pa.int64()),
        bounds_cover_nan=False,
        all_null_is_certain=True,
    )
