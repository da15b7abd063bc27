"""A plan as one self-contained HTML file: the funnel of stages, and each file's range of every filter column."""

from __future__ import annotations

from html import escape

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.explain import bytes_text, share_text
from catalog.planner import Plan
from catalog.ranges import ColumnRanges, column_ranges, value_text
from pushdown.expression import Predicate
from pushdown.walk import leaves

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
    name = plan.snapshot.files.column("path")[row].as_py()
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
