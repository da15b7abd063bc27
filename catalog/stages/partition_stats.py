"""The partition statistics stage: ranges of whole partitions, so that partitions go before their files are looked at.

They are gathered once from the statistics of the files, for a table that is held open, and as soundly as those: a
file of which a bound is not known makes it unknown of its partition. What Hudi's own writers store of partitions is
not used, for it does not show that a file's statistics were missing or hid a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from catalog.snapshot import Snapshot
from catalog.stages.column_stats import column_types
from catalog.stages.kept import kept
from catalog.stages.stage import StageInput
from pushdown.evaluate import evaluate
from pushdown.statistics import ColumnStatistics
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.arrow_numpy import from_numpy, to_numpy

pc: Any = pyarrow.compute  # the stubs know too few of the forms that its functions take

LEAST_FILES = 10_000
FILES_A_PARTITION = 8


def prune_by_partition_statistics(given: StageInput) -> Verdict:
    """Keep the files of partitions whose ranges allow a row that makes the filter true (RFC-27, by partition).

    Args:
        given: what came in.

    Returns:
        The files kept, and those of partitions in which every row matches; or why it is not worth while.
    """
    snapshot = given.snapshot
    count, files = len(snapshot.partitions), len(given.rows)
    if files < LEAST_FILES or files < FILES_A_PARTITION * count:
        return CannotPrune(f"{files:,} files in {count:,} partitions are sooner looked at one by one")
    statistics: dict[str, ColumnStatistics] = {}
    missing: list[str] = []
    for column, kind in column_types(given.expression).items():
        found = _of_column(snapshot, column, kind)
        if isinstance(found, CannotPrune):
            missing.append(found.reason)
        else:
            statistics[column] = found
    if not statistics:
        return CannotPrune("; ".join(dict.fromkeys(missing)) or "the filter names no column whose ranges could help")
    outcomes = evaluate(given.expression, statistics, count)
    of_files = snapshot.partition_index[given.rows]
    here = np.unique(of_files)
    kept_here = int(outcomes.can_true[here].sum())
    reason = f"{kept_here:,} of {len(here):,} partitions can match by ranges of {', '.join(statistics)}"
    return Candidates(outcomes.can_true[of_files], reason, outcomes.only_true[of_files])


def _of_column(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    told = snapshot.path_values()
    if not isinstance(told, CannotPrune) and column in told.values and column in told.statistics:
        return told.statistics[column]
    return kept(snapshot, ("partition statistics", column, str(kind)), lambda: _gathered(snapshot, column, kind))


def _gathered(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    indexed = snapshot.indexed_column(column, kind)
    if isinstance(indexed, CannotPrune):
        return indexed
    return gather(indexed.statistics, kind, snapshot.partition_index, len(snapshot.partitions))


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
    )
