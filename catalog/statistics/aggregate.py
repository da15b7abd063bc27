"""Column statistics of file slices, from those of their base and log files.

What a query sees of a slice is some of the rows of its files, and of a row that was written in part the columns of
several of them. A slice's range is therefore the hull of the ranges of all its files, column by column, before any
filter is looked at; when one file's is not known, neither is the slice's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.slices.slice_set import Rows, file_names
from catalog.statistics.indexed_column import ColumnPart, IndexedColumn, concat_statistics
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.verdict import CannotPrune
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

nulls: Any = pa.nulls  # its stubs take one type at a time

_STATISTICS = ("min", "max", "null_count", "value_count")


@dataclass(frozen=True, eq=False)
class Before:
    """What was known of the slices that some slices supersede.

    Attributes:
        column: the statistics of all slices then.
        rows: for each slice, the position of the one before among those; -1 for none.
        names: the files that are new; all others were in the slice before.
    """

    column: IndexedColumn
    rows: Rows
    names: pa.Array[Any]

    def take(self, rows: Rows) -> ColumnPart:
        """The statistics before of some slices that have them."""
        wanted = self.rows[rows]
        order = np.argsort(wanted, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return self.column.take(wanted[order]).take(places)


def statistics_of_slices(
    slices: pa.Table, entries: pa.Table, kind: pa.DataType, before: Before | None = None
) -> ColumnPart:
    """One column's statistics in some slices.

    Args:
        slices: as `file_slices.SLICES_SCHEMA` has them.
        entries: the column's statistics by file, as `MetadataTable.column_stats` returns them.
        kind: the column's type.
        before: for slices of which `entries` does not have the older files.
    """
    known: Any = one_chunk(entries.column("file_name"))
    at = pc.index_in(one_chunk(slices.column("file_name")), known)
    count = slices.num_rows
    direct = _statistics_at(entries, at)
    alone = ColumnPart(direct, valid_mask(at), direct.row_count)
    has_logs = to_numpy(pc.list_value_length(one_chunk(slices.column("logs")))) > 0
    if not has_logs.any():
        return alone
    rows = np.flatnonzero(has_logs)
    hull = _hull(slices.take(from_numpy(rows)), entries, kind, _taken(before, rows))
    places = np.arange(count)
    places[rows] = count + np.arange(len(rows))
    return ColumnPart.joined([alone, hull]).take(places)


def unknown_part(kind: pa.DataType, count: int) -> ColumnPart:
    """Nothing known of so many slices."""
    nothing, counts = nulls(count, kind), nulls(count, pa.int64())
    return ColumnPart(
        ColumnStatistics(nothing, nothing, counts, counts, all_null_is_certain=True), np.zeros(count, np.bool_), counts
    )


def _taken(before: Before | None, rows: Rows) -> Before | None:
    return None if before is None else Before(before.column, before.rows[rows], before.names)


def _hull(slices: pa.Table, entries: pa.Table, kind: pa.DataType, before: Before | None) -> ColumnPart:
    """The ranges of slices of several files each."""
    count = slices.num_rows
    rows, names = file_names(slices)
    known = np.ones(count, np.bool_)
    parts: list[ColumnStatistics] = []
    groups: list[Rows] = []
    listed: Any = one_chunk(entries.column("file_name"))
    if before is not None:
        is_new = to_numpy(pc.is_in(names, before.names)).astype(np.bool_)
        older = np.unique(rows[~is_new])
        known[older[before.rows[older] < 0]] = False
        older = older[before.rows[older] >= 0]
        then = before.take(older)
        known[older[~then.present]] = False
        parts.append(then.statistics)
        groups.append(older)
        # An entry of an older file is of a log file that has grown; that counts beside what was known before.
        looked_up = is_new | to_numpy(pc.is_in(names, listed)).astype(np.bool_)
        rows, names = rows[looked_up], names.filter(from_numpy(looked_up))
    at = pc.index_in(names, listed)
    known[rows[~valid_mask(at)]] = False
    parts.append(_statistics_at(entries, at))
    groups.append(rows)
    every = concat_statistics(parts)
    gathered = gather(every, kind, np.concatenate(groups), count)
    if isinstance(gathered, CannotPrune):
        return unknown_part(kind, count)
    # Which of the rows are newest is not known, and so not how many there are.
    blank = unknown_part(kind, count)
    mixed = ColumnPart.joined([ColumnPart(gathered, known, blank.row_count), blank])
    chosen = np.where(known, np.arange(count), count + np.arange(count))
    return ColumnPart(mixed.statistics.take(chosen), known, blank.row_count)


def _statistics_at(entries: pa.Table, at: Any) -> ColumnStatistics:
    lower, upper, nulls_of, rows = (one_chunk(entries.column(name)).take(at) for name in _STATISTICS)
    return ColumnStatistics(lower, upper, nulls_of, rows, all_null_is_certain=True)


def known_only(same: NDArray[np.bool_], part: ColumnPart, kind: pa.DataType) -> ColumnPart:
    """A column's statistics, unknown in slices whose files hold another column under its name."""
    if same.all():
        return part
    count = len(part)
    places = np.where(same, np.arange(count), count)
    return ColumnPart.joined([part, unknown_part(kind, 1)]).take(places)


def gather(
    statistics: ColumnStatistics, kind: pa.DataType, groups: NDArray[np.int64], count: int
) -> ColumnStatistics | CannotPrune:
    """Statistics of groups of files.

    Only what may be believed of each file goes in; a bound that one file lacks, though it may hold values, is unknown
    for its group, and so are the bounds of a group that may hold NaN.

    Args:
        statistics: of the files.
        kind: the column's type.
        groups: the number of each file's group.
        count: how many groups there are.
    """
    believed = statistics.believed(kind)

    def has(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.bincount(groups[mask], minlength=count) > 0
        return found

    may_value = has(believed.may_value)
    may_nan = has(believed.may_nan)
    if believed.lower is None:
        return CannotPrune(f"no bounds are known of columns of type {kind}")
    unknown = [has(missing & believed.may_value) | may_nan for missing in (believed.no_lower, believed.no_upper)]
    null = pa.scalar(None, statistics.lower.type)
    lower = pc.if_else(from_numpy(believed.no_lower), null, statistics.lower)
    upper = pc.if_else(from_numpy(believed.no_upper), null, statistics.upper)
    table = pa.table({"group": from_numpy(groups), "lower": lower, "upper": upper})
    try:
        found = table.group_by("group").aggregate([("lower", "min"), ("upper", "max")])
    except pa.ArrowNotImplementedError:
        return CannotPrune(f"columns of type {kind} have no least and greatest value")
    at = np.full(count, len(found), np.int64)
    at[to_numpy(found.column("group").combine_chunks())] = np.arange(len(found))
    rows = from_numpy(at, at < len(found))
    ends = [found.column(name).combine_chunks().take(rows) for name in ("lower_min", "upper_max")]
    bounds = [pc.if_else(from_numpy(mask), null, end) for mask, end in zip(unknown, ends, strict=True)]
    # Only three things are told of nulls: there are none, there is nothing else, or it is not known.
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
