"""Row groups of a base file: where they lie, their statistics, and the truth values that a filter may have in them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from catalog.concurrency.caches import memoize
from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression
from pushdown.walk import column_types
from table_format.base_file.footer import BaseFileFooter, FooterStatistics, footer_statistics


class RowGroups:
    """The row groups of a file, with the statistics read from its footer so far. Threads may share it.

    Args:
        footer: of the file.
    """

    def __init__(self, footer: BaseFileFooter) -> None:
        self.footer = footer

    def __len__(self) -> int:
        return int(self.footer.metadata.num_row_groups)

    @functools.cached_property
    def extents(self) -> list[tuple[int, int, int]]:
        """First byte, end, and rows of each row group; zeros for one without rows."""
        groups = map(self.footer.metadata.row_group, range(len(self)))
        return [(*_extent(group), group.num_rows) if group.num_rows else (0, 0, 0) for group in groups]

    def statistics(self, column: str, kind: pa.DataType) -> list[FooterStatistics]:
        """Statistics of a column in each row group.

        Args:
            column: its name; of one that the file lacks only rows are known: it may stand for a default, or under
                another name.
            kind: its type in the table.
        """
        return memoize(self, (column, kind), functools.partial(_statistics, self.footer, column, kind))


def matching_groups(expression: HudiExpression, footer: BaseFileFooter) -> list[int]:
    """Ordinals of the row groups of a file that may hold rows that make the filter true."""
    file = RowGroups(footer)
    possible = outcomes_of([file], expression).can_true
    return [ordinal for ordinal in range(len(file)) if possible[ordinal]]


def _statistics(footer: BaseFileFooter, column: str, kind: pa.DataType) -> list[FooterStatistics]:
    metadata = footer.metadata
    if column in footer.schema.names:
        try:
            return [footer_statistics(footer, column, kind, [ordinal]) for ordinal in range(metadata.num_row_groups)]
        except (ValueError, OverflowError, pa.ArrowException):  # bounds beyond what Python's types hold
            pass
    rows = [metadata.row_group(ordinal).num_rows for ordinal in range(metadata.num_row_groups)]
    return [FooterStatistics(None, None, None, count) for count in rows]


def _extent(row_group: Any) -> tuple[int, int]:
    starts, ends = [], []
    for index in range(row_group.num_columns):
        chunk = row_group.column(index)
        # some writers leave 0 for "no dictionary page"
        first = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
        starts.append(first)
        ends.append(first + chunk.total_compressed_size)
    return min(starts), max(ends)


def outcomes_of(files: Sequence[RowGroups], expression: HudiExpression) -> Outcomes:
    """The truth values that a bound filter may have in the row groups of some files, one file after the other."""
    statistics = {
        column: column_statistics([one for file in files for one in file.statistics(column, kind)], kind)
        for column, kind in column_types(expression).items()
    }
    return evaluate(expression, statistics, sum(map(len, files)))


def column_statistics(parts: Sequence[FooterStatistics | None], kind: pa.DataType) -> ColumnStatistics:
    """Statistics of a column in some files or row groups, one entry for each; null where there are none.

    Args:
        parts: by footers.
        kind: the column's type in the table.
    """

    def values(name: str, of: pa.DataType) -> pa.Array[Any]:
        return pa.array([None if part is None else getattr(part, name) for part in parts], of)

    return ColumnStatistics(
        lower=values("lower", kind),
        upper=values("upper", kind),
        null_count=values("null_count", pa.int64()),
        row_count=values("row_count", pa.int64()),
        bounds_cover_nan=False,
        all_null_is_certain=True,
    )
