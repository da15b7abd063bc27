"""The partition statistics stage: ranges of whole partitions, so that partitions go before their files are looked at.

They are gathered once from the statistics of the files, and as soundly as those: a file of which a bound is not known
makes it unknown of its partition. That costs more than looking at the files once, so it is done for a snapshot that is
asked about a column for the second time. What Hudi's own writers store of partitions is not used, for it does not
show that a file's statistics were missing or hid a NaN.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pyarrow as pa

from catalog.snapshot.snapshot import Snapshot
from catalog.stages.column_stats import column_types
from catalog.stages.kept import kept
from catalog.stages.stage import StageInput
from catalog.statistics.gather import gather
from catalog.statistics.indexed_column import concat_statistics
from pushdown.evaluate import evaluate
from pushdown.statistics import ColumnStatistics
from pushdown.verdict import Candidates, CannotPrune, Verdict

LEAST_FILES = 10_000
FILES_A_PARTITION = 8
PLANS_BEFORE = 1


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
    here = np.flatnonzero(np.bincount(of_files, minlength=count))
    kept_here = int(outcomes.can_true[here].sum())
    reason = f"{kept_here:,} of {len(here):,} partitions can match by ranges of {', '.join(statistics)}"
    return Candidates(outcomes.can_true[of_files], reason, outcomes.only_true[of_files])


def _of_column(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    told = snapshot.path_values()
    if not isinstance(told, CannotPrune) and column in told.values and column in told.statistics:
        return told.statistics[column]
    before = next(kept(snapshot, ("plans", column), itertools.count))
    if before < PLANS_BEFORE:
        return CannotPrune(f"ranges of {column} are gathered when this snapshot is asked about it again")
    return kept(snapshot, ("partition statistics", column, str(kind)), lambda: _gathered(snapshot, column, kind))


def _gathered(snapshot: Snapshot, column: str, kind: pa.DataType) -> ColumnStatistics | CannotPrune:
    indexed = snapshot.indexed_column(column, kind)
    if isinstance(indexed, CannotPrune):
        return indexed
    count = len(snapshot.partitions)
    parts = []
    for part, (start, end) in zip(indexed.parts, snapshot.slices.segments, strict=True):
        groups = snapshot.partition_index[start:end]
        found = part.remembered(
            ("partitions", str(kind), count), functools.partial(gather, part.statistics, kind, groups, count)
        )
        if isinstance(found, CannotPrune):
            return found
        parts.append((found, np.bincount(groups, minlength=count) > 0))
    if len(parts) == 1:
        return parts[0][0]
    here = [np.flatnonzero(has) for _, has in parts]
    joined = concat_statistics([found.take(rows) for (found, _), rows in zip(parts, here, strict=True)])
    return gather(joined, kind, np.concatenate(here), count)
