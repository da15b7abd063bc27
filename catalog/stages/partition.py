"""The partition stages: partitions whose path, or whose range of a column, rules out every row.

Ranges of partitions are aggregated once from the statistics of their files, and as soundly: a bound that one file lacks
is unknown for its partition. That costs more than evaluating the files once, so it is done at the second plan of a
snapshot that needs a column. The partition statistics that Hudi's writers store are not used, because they do not
show that a file's statistics were missing or hid a NaN.
"""

from __future__ import annotations

import functools

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize, times_before
from catalog.slices.path_values import PathValues
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.stage import FileRows, StageInput
from catalog.statistics.aggregate import aggregate_statistics
from catalog.statistics.indexed_column import concat_statistics
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.key_bindings import key_bindings
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import column_types, columns_of, restrict
from table_format.keys.timestamp_keys import path_of_text

_MOST_TIMES = 10_000
LEAST_FILES = 10_000
FILES_A_PARTITION = 8
PLANS_BEFORE = 1


def prune_by_partition(stage_input: StageInput) -> Verdict:
    """Keep the files of partitions for which the filter, restricted to partition columns, can be true.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, or why paths don't help.
    """
    snapshot = stage_input.snapshot
    fields = snapshot.config.partition_fields
    if not fields:
        return CannotPrune("the table is not partitioned")
    values = snapshot.path_values()
    if isinstance(values, CannotPrune):
        return values
    count = len(snapshot.partitions)
    matching = matching_partitions(stage_input.expression, values, count)
    if matching is None:
        return CannotPrune(f"the filter says nothing of partition column {', '.join(fields)}")
    can_true, used = matching
    of_files = snapshot.partition_index[stage_input.rows]
    here = np.flatnonzero(np.bincount(of_files, minlength=count))
    kept_count = int(can_true[here].sum())
    reason = f"{kept_count:,} of {len(here):,} partitions can match by {', '.join(used)}"
    unknown = int((~values.known[here]).sum())
    if unknown:
        reason += f"; {unknown:,} whose path gives no values are kept"
    return Candidates(can_true[of_files], reason)


def matching_partitions(
    expression: HudiExpression, values: PathValues, count: int
) -> tuple[NDArray[np.bool_], list[str]] | None:
    """Partitions for which a filter, restricted to partition columns, can be true, and these columns.

    Args:
        expression: the bound filter.
        values: of the partition columns by partition.
        count: of partitions.

    Returns:
        A mask over the partitions; None if the filter says nothing of partition columns.
    """
    columns = columns_of(expression)
    used = [column for column in columns if column in values.statistics]
    keep = _by_times(expression, values)
    if not used and keep is None:
        return None
    can_true = evaluate(restrict(expression, used), values.statistics, count).can_true
    if keep is not None:
        can_true = can_true & keep
        used += [column for column in columns if column in values.times]
    return can_true, used


def _by_times(expression: HudiExpression, values: PathValues) -> NDArray[np.bool_] | None:
    """Partitions that can hold the times that the filter names, of text columns; None if there are no such columns."""
    keep: NDArray[np.bool_] | None = None
    for column, times in values.times.items():
        named = key_bindings(expression, (column,), _MOST_TIMES)
        if named is None:
            continue
        paths = {None if row[0] is None else path_of_text(row[0], times.form) for row in named}
        if None not in paths:
            here = np.array([text is None or text in paths for text in times.segments], np.bool_)
            keep = here if keep is None else keep & here
    return keep


def prune_by_partition_statistics(stage_input: StageInput) -> Verdict:
    """Keep the files of partitions whose ranges allow a row that makes the filter true (RFC-27, by partition).

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, and those of partitions in which every row matches; or why it is not worth while.
    """
    snapshot = stage_input.snapshot
    count, files = len(snapshot.partitions), len(stage_input.rows)
    if files < LEAST_FILES or files < FILES_A_PARTITION * count:
        return CannotPrune(f"{files:,} files in {count:,} partitions are evaluated faster one by one")
    statistics: dict[str, ColumnStatistics] = {}
    missing: list[str] = []
    for column, kind in column_types(stage_input.expression).items():
        of_column = _of_column(snapshot, column, kind)
        if isinstance(of_column, CannotPrune):
            missing.append(of_column.reason)
        else:
            statistics[column] = of_column
    if not statistics:
        return CannotPrune("; ".join(dict.fromkeys(missing)) or "the filter names no column whose ranges could help")
    outcomes = evaluate(stage_input.expression, statistics, count)
    of_files, here = _partitions_of_files(snapshot, stage_input.rows)
    kept_here = int(outcomes.can_true[here].sum())
    reason = f"{kept_here:,} of {len(here):,} partitions can match by ranges of {', '.join(statistics)}"
    keep = np.ones(files, np.bool_) if kept_here == len(here) else outcomes.can_true[of_files]
    return Candidates(keep, reason, outcomes.only_true[of_files] if outcomes.only_true[here].any() else None)


def _partitions_of_files(snapshot: Snapshot, rows: FileRows) -> tuple[FileRows, FileRows]:
    """The partition of each of some files, and the partitions that have any of them."""
    if rows is snapshot.live_rows:
        index, live = snapshot.partition_index, None if len(rows) == len(snapshot) else rows
        return memoize(snapshot.slices, "partitions of live files", lambda: _partitions(index, live))
    return _partitions(snapshot.partition_index, rows)


def _partitions(index: FileRows, rows: FileRows | None) -> tuple[FileRows, FileRows]:
    of_files = index if rows is None else index[rows]
    return of_files, np.flatnonzero(np.bincount(of_files))


def _of_column(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    path_values = snapshot.path_values()
    if not isinstance(path_values, CannotPrune) and column in path_values.values and column in path_values.statistics:
        return path_values.statistics[column]
    if times_before(snapshot, ("plans", column)) < PLANS_BEFORE:
        return CannotPrune(f"ranges of {column} by partition are computed at the second plan that needs them")
    return memoize(snapshot, ("partition statistics", column, str(kind)), lambda: _aggregated(snapshot, column, kind))


def _aggregated(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    indexed = snapshot.indexed_column(column, kind)
    if isinstance(indexed, CannotPrune):
        return indexed
    count = len(snapshot.partitions)
    parts = []
    for part, (start, end) in zip(indexed.parts, snapshot.slices.segments, strict=True):
        groups = snapshot.partition_index[start:end]
        statistics = memoize(
            part,
            ("partitions", str(kind), count),
            functools.partial(aggregate_statistics, part.statistics, kind, groups, count),
        )
        if isinstance(statistics, CannotPrune):
            return statistics
        has = memoize(part, ("has", count), functools.partial(np.bincount, groups, minlength=count)) > 0
        parts.append((statistics, has))
    if len(parts) == 1:
        return parts[0][0]
    here = [np.flatnonzero(has) for _, has in parts]
    joined = concat_statistics([statistics.take(rows) for (statistics, _), rows in zip(parts, here, strict=True)])
    return aggregate_statistics(joined, kind, np.concatenate(here), count)
