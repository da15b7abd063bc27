"""Ranges of one column in all files of a snapshot, as positions between 0 and 1: the data of a plan's chart."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.planner import Plan
from catalog.snapshots.footers import read_footer_statistics, unknown_statistics
from catalog.snapshots.snapshot import IndexedColumn
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.walk import restrict
from table_format.codecs.arrow_numpy import from_numpy, pc, to_numpy

_Numbers: TypeAlias = NDArray[np.float64]

_CELLS = 240
_READ_FOOTERS = 500
_TICKS = 5


@dataclass(frozen=True, eq=False)
class ColumnRanges:
    """One column's ranges.

    Attributes:
        column: its name.
        kind: its type.
        low: for each file of the snapshot, where its least value lies; NaN when not known.
        high: likewise for the greatest.
        lower: the least values themselves.
        upper: the greatest.
        cells: edges of equal cells are implied; for each, whether a value in it can make the filter true.
        ticks: positions on the axis and what stands there.
        by_rank: whether positions are ranks (texts have no distances).
    """

    column: str
    kind: pa.DataType
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    lower: pa.Array[Any]
    upper: pa.Array[Any]
    cells: list[tuple[float, float]]
    ticks: list[tuple[float, str]]
    by_rank: bool


def column_ranges(plan: Plan, column: str, kind: pa.DataType) -> ColumnRanges | None:
    """The ranges of a column of the filter; None when no file's range is known or its type has no order."""
    statistics = _statistics(plan, column, kind)
    lower, upper = statistics.lower, statistics.upper
    if pc.all(pc.or_(pc.is_null(lower), pc.is_null(upper)), min_count=0).as_py():
        return None
    numbers = _numbers(lower), _numbers(upper)
    if numbers[0] is not None and numbers[1] is not None:
        return _linear(plan, column, kind, statistics, (numbers[0], numbers[1]))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _ranked(plan, column, kind, statistics)
    return None


def _statistics(plan: Plan, column: str, kind: pa.DataType) -> ColumnStatistics:
    snapshot = plan.snapshot
    by_path = snapshot.path_statistics().get(column)
    if by_path is not None:
        return by_path.take(snapshot.partition_index)
    indexed = snapshot.indexed_column(column, kind)
    if isinstance(indexed, IndexedColumn):
        return indexed.statistics
    count = len(snapshot)
    rows = np.arange(count, dtype=np.int64)
    if count <= _READ_FOOTERS:
        return read_footer_statistics(snapshot, rows, {column: kind}, threads=8)[column]
    return unknown_statistics(kind, count)


def _numbers(array: Any) -> NDArray[np.float64] | None:
    kind = array.type
    types = pa.types
    if types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif types.is_date32(kind):
        array = array.cast(pa.int32())
    elif types.is_timestamp(kind):
        array = array.cast(pa.int64())
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
        return None
    numbers: NDArray[np.float64] = to_numpy(pc.fill_null(pc.cast(array, pa.float64(), safe=False), float("nan")))
    return numbers


def _linear(
    plan: Plan, column: str, kind: pa.DataType, statistics: ColumnStatistics, numbers: tuple[_Numbers, _Numbers]
) -> ColumnRanges:
    low, high = numbers
    finite = np.concatenate([low[np.isfinite(low)], high[np.isfinite(high)]])
    start, end = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    span = end - start if np.isfinite(end - start) and end > start else 1.0
    edges = np.linspace(start, start + span, _CELLS + 1)
    values = _typed(edges, kind)
    cells = [] if values is None else _true_cells(plan, column, values, np.linspace(0, 1, _CELLS + 1))
    ticks = []
    marks = np.linspace(start, start + span, _TICKS)
    shown = _typed(marks, kind)
    for i, at in enumerate(np.linspace(0, 1, _TICKS)):
        ticks.append((float(at), f"{marks[i]:.6g}" if shown is None else _label(shown[i])))

    def place(at: _Numbers) -> _Numbers:
        placed: _Numbers = np.clip((at - start) / span, 0, 1)
        return placed

    return ColumnRanges(
        column, kind, place(low), place(high), statistics.lower, statistics.upper, cells, ticks, by_rank=False
    )


def _ranked(plan: Plan, column: str, kind: pa.DataType, statistics: ColumnStatistics) -> ColumnRanges:
    known = pc.unique(pa.chunked_array([statistics.lower, statistics.upper]).drop_null())
    distinct = known.take(pc.sort_indices(known))
    last = max(len(distinct) - 1, 1)

    def place(array: Any) -> NDArray[np.float64]:
        ranks = pc.cast(pc.index_in(array, distinct), pa.float64())
        placed: NDArray[np.float64] = to_numpy(pc.fill_null(ranks, float("nan"))) / last
        return placed

    positions = np.arange(len(distinct)) / last
    chosen = distinct
    if len(distinct) > _CELLS:
        picked = np.linspace(0, len(distinct) - 1, _CELLS + 1).astype(np.int64)
        positions, chosen = positions[picked], distinct.take(from_numpy(picked))
    cells = _true_cells(plan, column, chosen, positions) if len(chosen) > 1 else []
    at = np.unique(np.linspace(0, len(distinct) - 1, _TICKS).astype(np.int64))
    ticks = [(float(i / last), _label(distinct[int(i)])) for i in at]
    return ColumnRanges(
        column,
        kind,
        place(statistics.lower),
        place(statistics.upper),
        statistics.lower,
        statistics.upper,
        cells,
        ticks,
        by_rank=True,
    )


def _true_cells(plan: Plan, column: str, values: Any, positions: NDArray[np.float64]) -> list[tuple[float, float]]:
    """The stretches of the axis where a value can make the filter true, by the same evaluator as for files."""
    if plan.expression is None:
        return []
    count = len(values) - 1
    ones, zeros = pa.array([1] * count, pa.int64()), pa.array([0] * count, pa.int64())
    cells = ColumnStatistics(lower=values[:-1], upper=values[1:], null_count=zeros, row_count=ones)
    true = evaluate(restrict(plan.expression, [column]), {column: cells}, count).can_true
    edges = np.flatnonzero(np.diff(np.concatenate([[False], true, [False]]).astype(np.int8)))
    return [(float(positions[a]), float(positions[b])) for a, b in edges.reshape(-1, 2)]


def _typed(numbers: NDArray[np.float64], kind: pa.DataType) -> Any:
    """Numbers on the axis as values of the column's type; None when they do not fit."""
    types = pa.types
    try:
        if types.is_floating(kind):
            return from_numpy(numbers).cast(kind)
        if types.is_decimal(kind):
            return pa.array([decimal.Decimal(int(number)) for number in numbers]).cast(kind)
        whole = pa.array([int(number) for number in numbers], pa.int64())
        if types.is_date32(kind):
            return whole.cast(pa.int32()).cast(kind)
        if types.is_boolean(kind):
            return None
        return whole.cast(kind)
    except (pa.ArrowInvalid, OverflowError, pa.ArrowNotImplementedError):
        return None


def value_text(scalar: Any) -> str:
    """A value in words."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):  # dates beyond Python's years
        return str(pc.cast(scalar, pa.string()).as_py())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _label(scalar: Any) -> str:
    text = value_text(scalar)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


_LABEL = 28
