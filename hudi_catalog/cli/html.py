"""A plan as one self-contained HTML file: the funnel of stages, and each file's range of every filter column."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.amounts import bytes_text, share_text
from catalog.planner import Plan
from catalog.snapshots.footers import read_footer_statistics
from catalog.statistics.indexed_column import IndexedColumn
from pushdown.evaluation.evaluate import evaluate
from pushdown.evaluation.statistics import ColumnStatistics
from pushdown.expression import Predicate
from pushdown.walk import leaves, restrict
from table_format.codecs.arrow_numpy import from_numpy, to_numpy

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
        low: for each file of the snapshot, the axis position of its least value; NaN if unknown.
        high: likewise for the greatest.
        lower: the least values themselves.
        upper: the greatest.
        cells: for each of equally wide cells of the axis, whether a value in it can make the filter true.
        ticks: positions on the axis, and the label of each.
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
    """The ranges of a column of the filter; None if no file's range is known, or its type has no order."""
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
    return ColumnStatistics.unknown(kind, count)


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
    """A value as text for people."""
    try:
        value = scalar.as_py()
    except (OverflowError, ValueError):  # dates beyond Python's years
        return str(pc.cast(scalar, pa.string()).as_py())
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _label(scalar: Any) -> str:
    text = value_text(scalar)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


_LABEL = 28


_MOST_LINES = 300

_MOST_COLUMNS = 12

_WIDTH = 900

_LINE = 7

_AXIS = 34

_LEAST = 2.5

_STYLE = """
:root { --bg:#fff; --ink:#1c2430; --dim:#667085; --rule:#e3e7ee; --kept:#1f6feb; --sure:#12805c; --gone:#c3cad5;
  --match:#fff3c4; --bar:#1f6feb22; }
@media (prefers-color-scheme: dark) { :root { --bg:#12161c; --ink:#e6eaf0; --dim:#98a2b3; --rule:#2a313c;
  --kept:#6cb0ff; --sure:#4cc38a; --gone:#475061; --match:#4a3f12; --bar:#6cb0ff22; } }
body { font:15px/1.5 system-ui,sans-serif; background:var(--bg); color:var(--ink); margin:2rem auto; max-width:960px;
  padding:0 1rem; }
h1 { font-size:1.35rem; margin:0; }
h2 { font-size:1.05rem; margin:2rem 0 .3rem; }
p { margin:.3rem 0; } .dim { color:var(--dim); } code { font-size:.92em; overflow-wrap:anywhere; }
table { border-collapse:collapse; width:100%; }
td,th { text-align:left; padding:.3rem .6rem .3rem 0; vertical-align:top;
  border-bottom:1px solid var(--rule); } td.n,th.n { text-align:right; font-variant-numeric:tabular-nums; }
.bar { background:linear-gradient(to right, var(--bar) var(--w), transparent var(--w)); }
svg { width:100%; height:auto; display:block; } svg text { font-size:11px; fill:var(--dim); }
.axis { stroke:var(--rule); } .match { fill:var(--match); }
.kept { fill:var(--kept); } .sure { fill:var(--sure); } .gone { fill:var(--gone); }
.key { display:inline-block; width:.8em; height:.8em; border-radius:2px; margin:0 .3em 0 1em; }
.bg-kept { background:var(--kept); } .bg-sure { background:var(--sure); } .bg-gone { background:var(--gone); }
.bg-match { background:var(--match); border:1px solid var(--rule); }
"""


def plan_html(plan: Plan) -> str:
    """The plan as a page without external resources."""
    plan = plan.detailed
    name = escape(plan.snapshot.config.name)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}: which files, and why</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body>",
        _heading(plan),
        _funnel(plan),
        _legend(),
        *_columns(plan),
        "</body></html>",
    ]
    return "\n".join(parts)


def _heading(plan: Plan) -> str:
    question = "none" if plan.expression is None else escape(repr(plan.expression))
    unknown = "".join(f"<p>Not understood, and so not used: {escape(reason)}</p>" for reason in plan.unknowns)
    return (
        f"<h1>{escape(plan.snapshot.config.name)}</h1>"
        f'<p class="dim">{escape(plan.snapshot.client.storage.uri)}, '
        f"instant {escape(plan.snapshot.instant or 'none')}</p>"
        f"<p>Filter: <code>{question}</code></p>{unknown}"
        f"<p><b>{len(plan):,} of {plan.files_total:,} files</b> ({share_text(len(plan), plan.files_total)}) are read, "
        f"{bytes_text(plan.bytes_kept)} of {bytes_text(plan.bytes_total)}; "
        f"in {int(plan.fully_matching.sum()):,} of them every row matches. Planned in {plan.seconds * 1000:.1f} ms.</p>"
    )


def _funnel(plan: Plan) -> str:
    rows = []
    for stage in plan.stages:
        share = 100 * stage.files_out / max(plan.files_total, 1)
        rows.append(
            f'<tr><td>{escape(stage.name)}</td><td class="n">{stage.files_in:,}</td>'
            f'<td class="n">{stage.files_in - stage.files_out:,}</td>'
            f'<td class="n bar" style="--w:{share:.2f}%">{stage.files_out:,}</td>'
            f'<td class="{"" if stage.pruned else "dim"}">{escape(stage.reason)}</td></tr>'
        )
    return (
        '<h2>Stages</h2><table><tr><th>stage</th><th class="n">files in</th><th class="n">dropped</th>'
        '<th class="n">files out</th><th>why</th></tr>' + "".join(rows) + "</table>"
    )


def _legend() -> str:
    return (
        '<p class="dim" style="margin-top:1.5rem">One line a file, from its least to its greatest value.'
        '<span class="key bg-kept"></span>read<span class="key bg-sure"></span>read, every row matches'
        '<span class="key bg-gone"></span>dropped<span class="key bg-match"></span>'
        "values that can make the filter true</p>"
    )


def _columns(plan: Plan) -> list[str]:
    kinds: dict[str, pa.DataType] = {}
    for leaf in leaves(plan.expression) if plan.expression is not None else ():
        if isinstance(leaf, Predicate) and leaf.column_type is not None:
            kinds.setdefault(leaf.column, leaf.column_type)
    parts = []
    for column, kind in list(kinds.items())[:_MOST_COLUMNS]:
        ranges = column_ranges(plan, column, kind)
        parts.append(_no_ranges(column, kind) if ranges is None else _picture(plan, ranges))
    if len(kinds) > _MOST_COLUMNS:
        parts.append(f'<p class="dim">{len(kinds) - _MOST_COLUMNS} more columns are not drawn.</p>')
    return parts


def _no_ranges(column: str, kind: pa.DataType) -> str:
    title = f"<h2>{escape(column)} <span class='dim'>{escape(str(kind))}</span></h2>"
    return f'{title}<p class="dim">No file has a known range of this column.</p>'


def _picture(plan: Plan, ranges: ColumnRanges) -> str:
    live = plan.snapshot.live_rows
    known = live[~(np.isnan(ranges.low) | np.isnan(ranges.high))[live]]
    chosen = _chosen(plan, ranges, known)
    bare = plan.files_total - len(known)
    remarks = [f"{len(known):,} files with a range"]
    if len(chosen) < len(known):
        remarks.append(f"{len(chosen):,} of them drawn")
    if bare:
        remarks.append(f"{bare:,} without one")
    if ranges.by_rank:
        remarks.append("ordered by rank")
    title = (
        f"<h2>{escape(ranges.column)} <span class='dim'>{escape(str(ranges.kind))}; {', '.join(remarks)}</span></h2>"
    )
    height = len(chosen) * _LINE + _AXIS
    body = [
        f'<rect class="match" x="{a * _WIDTH:.1f}" width="{max((b - a) * _WIDTH, 1):.1f}" height="{height - _AXIS}"/>'
        for a, b in ranges.cells
    ]
    body += [_bar(plan, ranges, int(row), line) for line, row in enumerate(chosen)]
    body.append(_axis(ranges, height))
    return f'{title}<svg viewBox="-4 0 {_WIDTH + 8} {height}" role="img">{"".join(body)}</svg>'


def _chosen(plan: Plan, ranges: ColumnRanges, known: NDArray[np.int64]) -> NDArray[np.int64]:
    """Files to draw, by their least value; of many, an even sample of the kept and of the dropped ones."""
    ordered = known[np.lexsort((ranges.high[known], ranges.low[known]))]
    kept = plan.dropped_by[ordered] < 0
    picked = np.zeros(len(ordered), np.bool_)
    for group in (np.flatnonzero(kept), np.flatnonzero(~kept)):
        if len(group):
            picked[group[np.unique(np.linspace(0, len(group) - 1, _MOST_LINES // 2).astype(np.int64))]] = True
    return ordered[picked]


def _bar(plan: Plan, ranges: ColumnRanges, row: int, line: int) -> str:
    stage = int(plan.dropped_by[row])
    if stage >= 0:
        style, fate = "gone", f"dropped by {plan.stages[stage].name}"
    elif plan.fully_matching[int(np.searchsorted(plan.rows, row))]:
        style, fate = "sure", "read, every row matches"
    else:
        style, fate = "kept", "read"
    name = str(plan.snapshot.path(row))
    span = f"{value_text(ranges.lower[row])} to {value_text(ranges.upper[row])}"
    left = ranges.low[row] * _WIDTH
    width = max((ranges.high[row] - ranges.low[row]) * _WIDTH, _LEAST)
    return (
        f'<rect class="{style}" x="{left:.1f}" y="{line * _LINE + 1}" width="{width:.1f}" height="{_LINE - 2}" rx="2">'
        f"<title>{escape(name)}\n{escape(_short(span))}\n{fate}</title></rect>"
    )


def _axis(ranges: ColumnRanges, height: int) -> str:
    top = height - _AXIS + 4
    parts = [f'<line class="axis" x1="0" x2="{_WIDTH}" y1="{top}" y2="{top}"/>']
    for position, text in ranges.ticks:
        anchor = "start" if position == 0 else "end" if position == 1 else "middle"
        parts.append(
            f'<line class="axis" x1="{position * _WIDTH:.1f}" x2="{position * _WIDTH:.1f}" y1="0" y2="{top + 4}"/>'
            f'<text x="{position * _WIDTH:.1f}" y="{top + 18}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    return "".join(parts)


def _short(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
