"""The column statistics stage: ranges and null counts of the filter's columns in each file (RFC-27 data skipping).

They come from the metadata table; without it from the Parquet footers of the remaining files, if these are few. A file
without statistics is kept, whatever is known of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.snapshots.footers import read_footer_statistics
from catalog.snapshots.scan_options import FOOTER_LIMIT
from catalog.stages.stage import FileRows, StageInput
from catalog.statistics.indexed_column import IndexedColumn
from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import HudiExpression, Predicate
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import leaves
from table_format.codecs.arrow_numpy import valid_mask

_MANY = 4
"""From a quarter of the files on, statistics of all are compared rather than picked out first."""


@dataclass(frozen=True, eq=False)
class _PathStatistics:
    """Statistics of a partition column by partition, and the partition of each file."""

    statistics: ColumnStatistics
    partitions: NDArray[np.int64]

    def take(self, rows: FileRows) -> ColumnStatistics:
        return self.statistics.take(self.partitions[rows])


_Source: TypeAlias = IndexedColumn | _PathStatistics


@dataclass(frozen=True, eq=False)
class _FileStatistics:
    """Statistics of the files by column, and which files have any."""

    statistics: Mapping[str, _Source]
    present: Mapping[str, NDArray[np.bool_]]
    missing: Mapping[str, str]


def prune_by_column_statistics(stage_input: StageInput) -> Verdict:
    """Keep the files whose statistics allow a row that makes the filter true.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, and those in which every row matches; or why no statistics apply.
    """
    kinds = column_types(stage_input.expression)
    if not kinds:
        return _by_constants(stage_input)
    loaded = _file_statistics(stage_input, kinds)
    outcomes = _evaluate(stage_input, loaded.statistics)
    from_footers, tried = _refine(stage_input, kinds, loaded, outcomes)
    if not loaded.statistics and not from_footers:
        return CannotPrune("; ".join([*dict.fromkeys(loaded.missing.values()), *tried]))
    keep, matched = outcomes.can_true.copy(), outcomes.only_true.copy()
    for position, verdict in from_footers.items():
        keep[position], matched[position] = verdict
    return Candidates(keep, _reason(loaded, kinds, len(from_footers), tried, keep), matched)


def _by_constants(stage_input: StageInput) -> Verdict:
    """The verdict of a filter without columns, such as `1 = 0`, for all rows alike."""
    outcomes = evaluate(stage_input.expression, {}, len(stage_input.rows))
    if outcomes.can_true.any() and not outcomes.only_true.any():
        return CannotPrune("the filter names no column whose statistics could help")
    return Candidates(outcomes.can_true.copy(), "the filter is the same for every row", outcomes.only_true.copy())


def column_types(expression: HudiExpression) -> dict[str, pa.DataType]:
    """The columns that a bound filter mentions, and their types."""
    types: dict[str, pa.DataType] = {}
    for leaf in leaves(expression):
        if isinstance(leaf, Predicate) and leaf.column_type is not None:
            types.setdefault(leaf.column, leaf.column_type)
    return types


def _file_statistics(stage_input: StageInput, kinds: Mapping[str, pa.DataType]) -> _FileStatistics:
    snapshot = stage_input.snapshot
    by_path = snapshot.path_statistics()
    path_values = snapshot.path_values()
    statistics: dict[str, _Source] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    missing: dict[str, str] = {}
    for column, kind in kinds.items():
        # Where a path gives a range only, the index is more exact.
        indexed: IndexedColumn | CannotPrune | None = None
        if column in by_path and not isinstance(path_values, CannotPrune) and column in path_values.values:
            of_files = snapshot.partition_index[stage_input.rows]
            if path_values.known[of_files].all():
                # Null and the empty text have one path; the index may know which of them it is.
                if not valid_mask(path_values.values[column])[of_files].all():
                    indexed = snapshot.indexed_column(column, kind)
                if not isinstance(indexed, IndexedColumn) or not indexed.present[stage_input.rows].all():
                    statistics[column] = _PathStatistics(by_path[column], snapshot.partition_index)
                    present[column] = np.ones(len(of_files), np.bool_)
                    continue
        indexed = indexed or snapshot.indexed_column(column, kind)
        if isinstance(indexed, CannotPrune):
            missing[column] = indexed.reason
            present[column] = np.zeros(len(stage_input.rows), np.bool_)
            continue
        statistics[column] = indexed
        present[column] = indexed.present[stage_input.rows]
    return _FileStatistics(statistics, present, missing)


def _evaluate(stage_input: StageInput, sources: Mapping[str, _Source]) -> Outcomes:
    """The outcomes of the filter in each file.

    The files that the snapshot was loaded with and those that came later are looked at apart: what was made of the
    statistics of the former serves as long as the table is held open. Of many files, all are looked at.
    """
    pieces = []
    for number, (start, end) in enumerate(stage_input.snapshot.slices.segments):
        first, last = np.searchsorted(stage_input.rows, (start, end))
        rows = stage_input.rows[first:last]
        if _MANY * len(rows) < end - start:
            pieces.append(evaluate(stage_input.expression, _at_rows(sources, rows), len(rows)))
            continue
        whole = (
            np.arange(start, end) if any(isinstance(source, _PathStatistics) for source in sources.values()) else rows
        )
        statistics = {
            name: source.take(whole) if isinstance(source, _PathStatistics) else source.parts[number].statistics
            for name, source in sources.items()
        }
        outcomes = evaluate(stage_input.expression, statistics, end - start)
        pieces.append(outcomes if len(rows) == end - start else _outcomes_at(outcomes, rows - start))
    if len(pieces) == 1:
        return pieces[0]
    true, false, null = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("can_true", "can_false", "can_null")
    )
    return Outcomes(true, false, null)


def _at_rows(sources: Mapping[str, _Source], rows: FileRows) -> dict[str, ColumnStatistics]:
    taken: dict[str, ColumnStatistics] = {}
    for name, source in sources.items():
        part = source.take(rows)
        taken[name] = part if isinstance(part, ColumnStatistics) else part.statistics
    return taken


def _outcomes_at(outcomes: Outcomes, rows: FileRows) -> Outcomes:
    return Outcomes(outcomes.can_true[rows], outcomes.can_false[rows], outcomes.can_null[rows])


def _refine(
    stage_input: StageInput, kinds: Mapping[str, pa.DataType], loaded: _FileStatistics, outcomes: Outcomes
) -> tuple[dict[int, tuple[bool, bool]], list[str]]:
    """Outcomes by footers, for the remaining files that lack statistics of some column.

    Returns:
        By position among the files that came in, whether to keep it and whether all of it matches; and remarks.
    """
    lacking = np.zeros(len(stage_input.rows), np.bool_)
    for has in loaded.present.values():
        lacking |= ~has
    positions: FileRows = np.flatnonzero(lacking & outcomes.can_true)
    if not len(positions):
        return {}, []
    limit = stage_input.options.footer_limit
    if len(positions) > limit:
        return {}, [f"footers of {len(positions):,} files are not read ({FOOTER_LIMIT} is {limit:,})"]
    columns = {name: kind for name, kind in kinds.items() if not loaded.present[name][positions].all()}
    read = read_footer_statistics(
        stage_input.snapshot, stage_input.rows[positions], columns, stage_input.options.threads
    )
    known = {name: source for name, source in loaded.statistics.items() if name not in columns}
    statistics = _at_rows(known, stage_input.rows[positions]) | read
    better = evaluate(stage_input.expression, statistics, len(positions))
    # What the index already proved stays proven.
    keep = better.can_true & outcomes.can_true[positions]
    matched = better.only_true | outcomes.only_true[positions]
    return {int(at): (bool(k), bool(m)) for at, k, m in zip(positions, keep, matched, strict=True)}, []


def _reason(
    loaded: _FileStatistics, kinds: Mapping[str, pa.DataType], footers: int, tried: list[str], keep: NDArray[np.bool_]
) -> str:
    parts = []
    if loaded.statistics:
        parts.append(f"ranges of {', '.join(name for name in kinds if name in loaded.statistics)}")
    parts += dict.fromkeys(loaded.missing.values())
    if footers:
        parts.append(f"footers of {footers:,} files were read instead")
    lacking = np.zeros(len(keep), np.bool_)
    for name, has in loaded.present.items():
        if name in loaded.statistics:
            lacking |= ~has
    bare = int((lacking & keep).sum())
    if bare and not footers:
        parts.append(f"{bare:,} files without statistics are kept")
    return "; ".join([*parts, *tried])
