"""Statistics of groups of files, as soundly as those of the files: of partitions, and of file slices.

A query sees some of the rows of a slice's files, and of a row that was written in part the columns of several of them.
A slice's range is therefore the hull of the ranges of all its files, column by column, before any filter is looked at.
When one file's range is not known, neither is the slice's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.slices.name_table import NameTable
from catalog.slices.slice_set import Rows, file_names
from catalog.statistics.indexed_column import ColumnPart, IndexedColumn, concat_statistics
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.threads import in_threads

_STATISTICS = ("min", "max", "null_count", "value_count")


@dataclass(frozen=True, eq=False)
class PriorStatistics:
    """Statistics of the slices that some slices supersede.

    Attributes:
        column: of all slices of the earlier snapshot.
        rows: for each new slice, the position there of the one it supersedes; -1 for none.
        new_files: names of the files that came since; all others were in the superseded slice.
    """

    column: IndexedColumn
    rows: Rows
    new_files: pa.Array[Any]

    def take(self, slices: Rows) -> PriorStatistics:
        """Those of some of the new slices."""
        return PriorStatistics(self.column, self.rows[slices], self.new_files)

    def statistics(self, slices: Rows) -> ColumnPart:
        """Prior statistics of these slices, each of which supersedes another one."""
        wanted = self.rows[slices]
        order = np.argsort(wanted, kind="stable")
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return self.column.take(wanted[order]).take(ranks)


def statistics_of_slices(
    slices: pa.Table,
    entries: pa.Table,
    kind: pa.DataType,
    prior: PriorStatistics | None = None,
    base_files: NameTable | None = None,
) -> ColumnPart:
    """One column's statistics in some slices.

    Args:
        slices: as `file_slices.SLICES_SCHEMA` has them.
        entries: the column's statistics by file, as `MetadataTable.column_stats` returns them.
        kind: the column's type.
        prior: statistics of the superseded slices, if `entries` has new files only.
        base_files: of the slices, by name; None to make it.
    """
    count = slices.num_rows
    at = _entries_of(base_files or NameTable(one_chunk(slices.column("file_name"))), entries, count)
    of_base_files = _statistics_at(entries, from_numpy(at, at >= 0))
    base_part = ColumnPart(of_base_files, at >= 0, of_base_files.row_count)
    has_logs = to_numpy(pc.list_value_length(one_chunk(slices.column("logs")))) > 0
    if not has_logs.any():
        return base_part
    rows = np.flatnonzero(has_logs)
    hull = _hull(slices.take(from_numpy(rows)), entries, kind, None if prior is None else prior.take(rows))
    positions = np.arange(count)
    positions[rows] = count + np.arange(len(rows))
    return ColumnPart.joined([base_part, hull]).take(positions)


def aggregate_statistics(
    statistics: ColumnStatistics, kind: pa.DataType, groups: NDArray[np.int64], count: int
) -> ColumnStatistics | CannotPrune:
    """Statistics of groups of files.

    Only sound statistics of each file count (`ColumnStatistics.believed`). If one file that may hold values lacks a
    bound, that bound is unknown for its group, and so are both bounds of a group that may hold NaN.

    Args:
        statistics: of the files.
        kind: the column's type.
        groups: the number of each file's group.
        count: how many groups there are.
    """
    believed = statistics.believed(kind)

    def has(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        in_group: NDArray[np.bool_] = np.bincount(groups[mask], minlength=count) > 0
        return in_group

    may_value = has(believed.may_value)
    may_nan = has(believed.may_nan)
    if believed.lower is None:
        return CannotPrune(f"columns of type {kind} have no bounds")
    unknown = [has(missing & believed.may_value) | may_nan for missing in (believed.no_lower, believed.no_upper)]
    null = pa.scalar(None, statistics.lower.type)
    lower = pc.if_else(from_numpy(believed.no_lower), null, statistics.lower)
    upper = pc.if_else(from_numpy(believed.no_upper), null, statistics.upper)
    table = pa.table({"group": from_numpy(groups), "lower": lower, "upper": upper})
    try:
        ranges = table.group_by("group").aggregate([("lower", "min"), ("upper", "max")])
    except pa.ArrowNotImplementedError:
        return CannotPrune(f"values of type {kind} have no order")
    at = np.full(count, len(ranges), np.int64)
    at[to_numpy(one_chunk(ranges.column("group")))] = np.arange(len(ranges))
    rows = from_numpy(at, at < len(ranges))
    ends = [one_chunk(ranges.column(name)).take(rows) for name in ("lower_min", "upper_max")]
    bounds = [pc.if_else(from_numpy(mask), null, end) for mask, end in zip(unknown, ends, strict=True)]
    # The null count says one of three things: no nulls (0 of 1), nothing but nulls (1 of 1), or unknown (null).
    no_value, no_null = ~may_value, ~has(believed.may_null)
    ones = from_numpy(np.ones(count, np.int64), no_value)
    return ColumnStatistics(
        lower=bounds[0],
        upper=bounds[1],
        null_count=from_numpy(no_value.astype(np.int64), no_value | no_null),
        row_count=ones,
        bounds_cover_nan=statistics.bounds_cover_nan,
        all_null_is_certain=statistics.all_null_is_certain,
    )


def known_only(same: NDArray[np.bool_], part: ColumnPart, kind: pa.DataType) -> ColumnPart:
    """A column's statistics, unknown in slices whose files hold another column under its name."""
    if same.all():
        return part
    count = len(part)
    positions = np.where(same, np.arange(count), count)
    return ColumnPart.joined([part, ColumnPart.unknown(kind, 1)]).take(positions)


def _hull(slices: pa.Table, entries: pa.Table, kind: pa.DataType, prior: PriorStatistics | None) -> ColumnPart:
    """The ranges of slices of several files each."""
    count = slices.num_rows
    rows, names = file_names(slices)
    known = np.ones(count, np.bool_)
    parts: list[ColumnStatistics] = []
    groups: list[Rows] = []
    listed: Any = one_chunk(entries.column("file_name"))
    if prior is not None:
        is_new = to_numpy(pc.is_in(names, prior.new_files)).astype(np.bool_)
        with_older_files = np.unique(rows[~is_new])
        known[with_older_files[prior.rows[with_older_files] < 0]] = False
        with_older_files = with_older_files[prior.rows[with_older_files] >= 0]
        older = prior.statistics(with_older_files)
        known[with_older_files[~older.present]] = False
        parts.append(older.statistics)
        groups.append(with_older_files)
        # An entry of an older file is of a log file that has grown; it is joined with the prior statistics.
        looked_up = is_new | to_numpy(pc.is_in(names, listed)).astype(np.bool_)
        rows, names = rows[looked_up], names.filter(from_numpy(looked_up))
    at = pc.index_in(names, listed)
    known[rows[~valid_mask(at)]] = False
    parts.append(_statistics_at(entries, at))
    groups.append(rows)
    ranges = aggregate_statistics(concat_statistics(parts), kind, np.concatenate(groups), count)
    if isinstance(ranges, CannotPrune):
        return ColumnPart.unknown(kind, count)
    # Which rows are superseded by log files is not known, so neither is the number of rows.
    unknown = ColumnPart.unknown(kind, count)
    both = ColumnPart.joined([ColumnPart(ranges, known, unknown.row_count), unknown])
    positions = np.where(known, np.arange(count), count + np.arange(count))
    return ColumnPart(both.statistics.take(positions), known, unknown.row_count)


def _entries_of(base_files: NameTable, entries: pa.Table, count: int) -> Rows:
    """The entry of each slice's base file; -1 for none, and for several, which are of files in several partitions."""
    chunks: Any = entries.column("file_name").chunks
    rows = np.concatenate([np.empty(0, np.int64), *in_threads(base_files.rows_of, chunks)])
    known = np.flatnonzero(rows >= 0)
    at = np.full(count, -1, np.int64)
    at[rows[known]] = known
    if len(known) > np.count_nonzero(at >= 0):
        at[np.bincount(rows[known], minlength=count) > 1] = -1
    return at


def _statistics_at(entries: pa.Table, at: Any) -> ColumnStatistics:
    lower, upper, null_counts, row_counts = in_threads(
        lambda name: one_chunk(entries.column(name)).take(at), _STATISTICS
    )
    return ColumnStatistics(lower, upper, null_counts, row_counts, all_null_is_certain=True)
