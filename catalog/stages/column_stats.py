"""The column statistics stage: ranges and null counts of the filter's columns in each file (RFC-27 data skipping).

They come from the metadata table; without it from the Parquet footers of the remaining files, if these are few. A file
without statistics is kept, whatever is known of others.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize
from catalog.snapshots.footers import read_footer_statistics
from catalog.snapshots.scan_options import FOOTER_LIMIT
from catalog.stages.stage import FileRows, StageInput
from catalog.statistics.indexed_column import IndexedColumn
from catalog.statistics.ordered_blocks import files_of_blocks
from pushdown.evaluation.evaluate import Outcomes, evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import And, HudiExpression
from pushdown.verdict import Candidates, CannotPrune, Verdict
from pushdown.walk import column_types, columns_of, parts_by_columns
from table_format.codecs.arrow_numpy import valid_mask

_ALL_FROM = 4
"""From a quarter of the files on, statistics of all files are evaluated rather than picked out first."""
_SAMPLED = 200_000
"""For fewer files the whole of a conjunction is evaluated in the time that it takes to find its selective part."""
_SAMPLE, _FEW_SHARE, _FEW_LEFT = 1_000, 0.2, 50_000


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
    """Statistics of the files by column, which files have any (None for all of them), and why there are none."""

    statistics: Mapping[str, _Source]
    present: Mapping[str, NDArray[np.bool_] | None]
    missing: Mapping[str, str]

    def lacking(self, columns: Collection[str]) -> NDArray[np.bool_] | None:
        """Which files lack statistics of one of the columns; None if none does."""
        lacking: NDArray[np.bool_] | None = None
        for column in columns:
            has = self.present[column]
            if has is not None:
                lacking = ~has if lacking is None else lacking | ~has
        return lacking


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


def _file_statistics(stage_input: StageInput, kinds: Mapping[str, pa.DataType]) -> _FileStatistics:
    snapshot = stage_input.snapshot
    by_path = snapshot.path_statistics()
    path_values = snapshot.path_values()
    statistics: dict[str, _Source] = {}
    present: dict[str, NDArray[np.bool_] | None] = {}
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
                if not isinstance(indexed, IndexedColumn) or not (
                    indexed.all_present or indexed.present[stage_input.rows].all()
                ):
                    statistics[column] = _PathStatistics(by_path[column], snapshot.partition_index)
                    present[column] = None
                    continue
        indexed = indexed or snapshot.indexed_column(column, kind)
        if isinstance(indexed, CannotPrune):
            missing[column] = indexed.reason
            present[column] = np.zeros(len(stage_input.rows), np.bool_)
            continue
        statistics[column] = indexed
        present[column] = None if indexed.all_present else indexed.present[stage_input.rows]
    return _FileStatistics(statistics, present, missing)


def _evaluate(stage_input: StageInput, sources: Mapping[str, _Source]) -> Outcomes:
    """The outcomes of the filter in each file.

    Files that the snapshot was loaded with and later files are evaluated apart, so that the comparable form of the
    former's statistics is computed once for as long as the table is held open.
    """
    pieces = []
    for number, (start, end) in enumerate(stage_input.snapshot.slices.segments):
        first, last = np.searchsorted(stage_input.rows, (start, end))
        rows = stage_input.rows[first:last]
        if _ALL_FROM * len(rows) < end - start:
            pieces.append(evaluate(stage_input.expression, _at_rows(sources, rows), len(rows)))
            continue
        whole = (
            np.arange(start, end) if any(isinstance(source, _PathStatistics) for source in sources.values()) else rows
        )
        statistics = {
            name: source.take(whole) if isinstance(source, _PathStatistics) else source.parts[number].statistics
            for name, source in sources.items()
        }
        pieces.append(_in_segment(stage_input.expression, statistics, end - start, rows - start if start else rows))
    if len(pieces) == 1:
        return pieces[0]
    true, false, null = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("can_true", "can_false", "can_null")
    )
    return Outcomes(true, false, null)


def _in_segment(
    expression: HudiExpression, statistics: Mapping[str, ColumnStatistics], count: int, rows: FileRows
) -> Outcomes:
    """The outcomes at some of the `count` files of a segment, or at all of them."""
    few = _few_files(expression, statistics, count)
    if few is None:
        outcomes = evaluate(expression, statistics, count)
        return outcomes if len(rows) == count else _outcomes_at(outcomes, rows)
    places = few
    if len(rows) < count:
        places = np.searchsorted(rows, few)
        here = places < len(rows)
        here[here] = rows[places[here]] == few[here]
        few, places = few[here], places[here]
    at_few = evaluate(expression, {name: of.take(few) for name, of in statistics.items()}, len(few))
    # Elsewhere a part of the conjunction cannot be true; what else it may be matters to no stage.
    true = np.zeros(len(rows), np.bool_)
    other = np.ones((2, len(rows)), np.bool_)
    true[places], other[0, places], other[1, places] = at_few.can_true, at_few.can_false, at_few.can_null
    return Outcomes(true, other[0], other[1])


def _few_files(expression: HudiExpression, statistics: Mapping[str, ColumnStatistics], count: int) -> FileRows | None:
    """The files of which all must be looked at; None unless they are found to be few before that."""
    if count < _SAMPLED:
        return None
    few = files_of_blocks(expression, statistics, count // _ALL_FROM)
    return _by_selective_part(expression, statistics, count) if few is None else few


def _by_selective_part(
    expression: HudiExpression, statistics: Mapping[str, ColumnStatistics], count: int
) -> FileRows | None:
    """The files in which the most selective parts of a conjunction can be true; None unless they are few.

    Which parts these are is estimated from a sample of the files.
    """
    if not isinstance(expression, And) or len(expression.children) <= 1:
        return None
    sample = np.arange(0, count, count // _SAMPLE)
    sampled = {name: _sample_of(of, sample) for name, of in statistics.items()}
    parts = [part for _, part in parts_by_columns(expression)]
    shares = [evaluate(part, sampled, len(sample)).can_true.mean() for part in parts]
    parts = [part for _, part in sorted(zip(shares, parts, strict=True), key=operator.itemgetter(0))]
    if min(shares) > _FEW_SHARE:
        return None
    few: FileRows = np.flatnonzero(evaluate(parts[0], statistics, count).can_true)
    for part in parts[1:]:
        if _ALL_FROM * len(few) > count:
            return None
        if len(few) < _FEW_LEFT:
            break
        names = columns_of(part)
        taken = {name: of.take(few) for name, of in statistics.items() if name in names}
        few = few[evaluate(part, taken, len(few)).can_true]
    return few


def _sample_of(statistics: ColumnStatistics, sample: FileRows) -> ColumnStatistics:
    return memoize(statistics, ("sample", len(sample)), lambda: statistics.take(sample))


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
        By position among the files that came in, whether to keep it and whether all of it matches; and why footers
        were not read.
    """
    lacking = loaded.lacking(loaded.present)
    positions: FileRows = np.empty(0, np.int64) if lacking is None else np.flatnonzero(lacking & outcomes.can_true)
    if not len(positions):
        return {}, []
    limit = stage_input.options.footer_limit
    if len(positions) > limit:
        return {}, [f"footers of {len(positions):,} files are not read ({FOOTER_LIMIT} is {limit:,})"]
    has = loaded.present
    columns = {name: kind for name, kind in kinds.items() if (of := has[name]) is not None and not of[positions].all()}
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
    lacking = loaded.lacking([name for name in loaded.present if name in loaded.statistics])
    bare = 0 if lacking is None else int((lacking & keep).sum())
    if bare and not footers:
        parts.append(f"{bare:,} files without statistics are kept")
    return "; ".join([*parts, *tried])
