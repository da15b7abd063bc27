"""Division of large base files by row groups: those that cannot match are left out, the others go into parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression, Predicate
from pushdown.walk import leaves
from table_format.base_file.footer import BaseFileFooter, FooterStatistics, footer_statistics


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


class RowGroups:
    """The row groups of a file, with what its footer told of them so far. Threads may share it.

    Args:
        footer: of the file.
    """

    def __init__(self, footer: BaseFileFooter) -> None:
        self.footer = footer
        self._statistics: dict[tuple[str, pa.DataType], list[FooterStatistics]] = {}
        self._extents: list[tuple[int, int, int]] | None = None

    def __len__(self) -> int:
        return int(self.footer.metadata.num_row_groups)

    @property
    def extents(self) -> list[tuple[int, int, int]]:
        """First byte, end, and rows of each."""
        if self._extents is None:
            groups = map(self.footer.metadata.row_group, range(len(self)))
            self._extents = [(*_extent(group), group.num_rows) if group.num_rows else (0, 0, 0) for group in groups]
        return self._extents

    def statistics(self, column: str, kind: pa.DataType) -> list[FooterStatistics]:
        """What is known of a column in each.

        Args:
            column: its name; nothing is known of one that the file lacks: it may stand for a default or another name.
            kind: its type in the table.
        """
        known = self._statistics.get((column, kind))
        if known is None:
            known = self._statistics[column, kind] = self._told(column, kind)
        return known

    def _told(self, column: str, kind: pa.DataType) -> list[FooterStatistics]:
        if column in self.footer.schema.names:
            try:
                return [footer_statistics(self.footer, column, kind, [ordinal]) for ordinal in range(len(self))]
            except (ValueError, OverflowError, pa.ArrowException):  # bounds beyond what Python's types hold
                pass
        metadata = self.footer.metadata
        rows = [metadata.row_group(ordinal).num_rows for ordinal in range(len(self))]
        return [FooterStatistics(None, None, None, count) for count in rows]


def divide(footer: BaseFileFooter, expression: HudiExpression | None, most_bytes: int) -> list[FilePart]:
    """The parts of a file to read; see `divide_all`."""
    return divide_all([RowGroups(footer)], expression, most_bytes)[0]


def divide_all(files: Sequence[RowGroups], expression: HudiExpression | None, most_bytes: int) -> list[list[FilePart]]:
    """The parts of some files to read.

    Args:
        files: their row groups.
        expression: the bound filter that their rows must meet; None when all do.
        most_bytes: a part is closed before it grows beyond so many bytes; a single row group is never cut.

    Returns:
        For each file, its parts in their order. Empty when no row group can hold a matching row.
    """
    outcomes = None if expression is None or not files else _outcomes(files, expression)
    parts = []
    first = 0
    for file in files:
        kept = []
        for ordinal, (start, end, rows) in enumerate(file.extents):
            at = first + ordinal
            if rows and (outcomes is None or outcomes.can_true[at]):
                kept.append(_Group(ordinal, start, end, rows, outcomes is None or bool(outcomes.only_true[at])))
        parts.append(_joined(kept, most_bytes))
        first += len(file)
    return parts


def matching_groups(expression: HudiExpression, footer: BaseFileFooter) -> list[int]:
    """Ordinals of the row groups of a file that may hold rows that make the filter true."""
    file = RowGroups(footer)
    possible = _outcomes([file], expression).can_true
    return [ordinal for ordinal in range(len(file)) if possible[ordinal]]


def _joined(groups: Sequence[_Group], most_bytes: int) -> list[FilePart]:
    parts: list[list[_Group]] = []
    for group in groups:
        last = parts[-1] if parts else None
        if last is None or last[-1].ordinal != group.ordinal - 1 or group.end - last[0].start > most_bytes:
            parts.append([group])
        else:
            last.append(group)
    return [_part(part) for part in parts]


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


def _outcomes(files: Sequence[RowGroups], expression: HudiExpression) -> Outcomes:
    """The filter's outcomes in the row groups of all files, one file's behind the other's."""
    kinds: dict[str, pa.DataType] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, Predicate) and leaf.column_type is not None:
            kinds.setdefault(leaf.column, leaf.column_type)
    found = {
        column: _column([one for file in files for one in file.statistics(column, kind)], kind)
        for column, kind in kinds.items()
    }
    return evaluate(expression, found, sum(map(len, files)))


def _column(found: Sequence[FooterStatistics], kind: pa.DataType) -> ColumnStatistics:
    return ColumnStatistics(
        lower=pa.array([one.lower for one in found], kind),
        upper=pa.array([one.upper for one in found], kind),
        null_count=pa.array([one.null_count for one in found], pa.int64()),
        row_count=pa.array([one.row_count for one in found], pa.int64()),
        bounds_cover_nan=False,
        all_null_is_certain=True,
    )
