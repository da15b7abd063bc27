"""The column statistics stage: the ranges and null counts of the filter's columns in each file (RFC-27 data skipping).

They come from the metadata table; where it has none, from the Parquet footers of the files that are left, if these
are few. A file without statistics is kept, whatever is known of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.footers import read_footer_statistics
from catalog.scan_options import FOOTER_LIMIT
from catalog.stages.stage import FileRows, StageInput
from pushdown.evaluate import Outcomes, evaluate
from pushdown.expression import HudiExpression, Predicate
from pushdown.statistics import ColumnStatistics
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import leaves


@dataclass(frozen=True, eq=False)
class _Gathered:
    """Statistics of the files that came in, by column, and where each file has any."""

    statistics: Mapping[str, ColumnStatistics]
    present: Mapping[str, NDArray[np.bool_]]
    missing: Mapping[str, str]


def prune_by_column_statistics(given: StageInput) -> Verdict:
    """Keep the files whose statistics allow a row that makes the filter true.

    Args:
        given: what came in.

    Returns:
        The files kept, and those in which every row matches; or why there is nothing to go by.
    """
    kinds = column_types(given.expression)
    if not kinds:
        return CannotPrune("the filter names no column whose statistics could help")
    gathered = _gather(given, kinds)
    count = len(given.rows)
    outcomes = evaluate(given.expression, gathered.statistics, count)
    from_footers, tried = _refine(given, kinds, gathered, outcomes)
    if not gathered.statistics and not from_footers:
        return CannotPrune("; ".join([*dict.fromkeys(gathered.missing.values()), *tried]))
    keep, matched = outcomes.can_true.copy(), outcomes.only_true.copy()
    for position, verdict in from_footers.items():
        keep[position], matched[position] = verdict
    return Candidates(keep, _reason(gathered, kinds, len(from_footers), tried, keep), matched)


def column_types(expression: HudiExpression) -> dict[str, pa.DataType]:
    """The columns that a bound filter mentions, and their types."""
    found: dict[str, pa.DataType] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, Predicate) and leaf.column_type is not None:
            found.setdefault(leaf.column, leaf.column_type)
    return found


def _gather(given: StageInput, kinds: Mapping[str, pa.DataType]) -> _Gathered:
    snapshot = given.snapshot
    all_files = len(given.rows) == len(snapshot)
    by_path = snapshot.path_statistics()
    told = snapshot.path_values()
    statistics: dict[str, ColumnStatistics] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    missing: dict[str, str] = {}
    for column, kind in kinds.items():
        # Where a path tells a range only, the index knows better.
        if column in by_path and not isinstance(told, CannotPrune) and column in told.values:
            of_files = snapshot.partition_index[given.rows]
            if told.known[of_files].all():
                statistics[column] = by_path[column].take(of_files)
                present[column] = np.ones(len(of_files), np.bool_)
                continue
        indexed = snapshot.indexed_column(column, kind)
        if isinstance(indexed, CannotPrune):
            missing[column] = indexed.reason
            present[column] = np.zeros(len(given.rows), np.bool_)
            continue
        statistics[column] = indexed.statistics if all_files else indexed.statistics.take(given.rows)
        present[column] = indexed.present if all_files else indexed.present[given.rows]
    return _Gathered(statistics, present, missing)


def _refine(
    given: StageInput, kinds: Mapping[str, pa.DataType], gathered: _Gathered, outcomes: Outcomes
) -> tuple[dict[int, tuple[bool, bool]], list[str]]:
    """What footers say of the files that are left and lack statistics of some column.

    Returns:
        By position among the files that came in, whether to keep it and whether all of it matches; and remarks.
    """
    lacking = np.zeros(len(given.rows), np.bool_)
    for has in gathered.present.values():
        lacking |= ~has
    positions: FileRows = np.flatnonzero(lacking & outcomes.can_true)
    if not len(positions):
        return {}, []
    limit = given.options.footer_limit
    if len(positions) > limit:
        return {}, [f"footers of {len(positions):,} files are not read ({FOOTER_LIMIT} is {limit:,})"]
    columns = {name: kind for name, kind in kinds.items() if not gathered.present[name][positions].all()}
    read = read_footer_statistics(given.snapshot, given.rows[positions], columns, given.options.threads)
    statistics = {name: stats.take(positions) for name, stats in gathered.statistics.items() if name not in columns}
    statistics.update(read)
    better = evaluate(given.expression, statistics, len(positions))
    # What the index already proved stays proven.
    keep = better.can_true & outcomes.can_true[positions]
    matched = better.only_true | outcomes.only_true[positions]
    return {int(at): (bool(k), bool(m)) for at, k, m in zip(positions, keep, matched, strict=True)}, []


def _reason(
    gathered: _Gathered, kinds: Mapping[str, pa.DataType], footers: int, tried: list[str], keep: NDArray[np.bool_]
) -> str:
    parts = []
    if gathered.statistics:
        parts.append(f"ranges of {', '.join(name for name in kinds if name in gathered.statistics)}")
    parts += dict.fromkeys(gathered.missing.values())
    if footers:
        parts.append(f"footers of {footers:,} files were read instead")
    lacking = np.zeros(len(keep), np.bool_)
    for name, has in gathered.present.items():
        if name in gathered.statistics:
            lacking |= ~has
    bare = int((lacking & keep).sum())
    if bare and not footers:
        parts.append(f"{bare:,} files without statistics are kept")
    return "; ".join([*parts, *tried])
