"""The page of a service: what it is, and its last queries, each with the share of files that was left to read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from catalog.text import bytes_text, share_text

_STYLE = """
:root { --bg:#fff; --ink:#1c2430; --dim:#667085; --rule:#e3e7ee; --kept:#1f6feb; --gone:#e3e7ee; --good:#12805c;
  --bad:#b42318; --odd:#b54708; }
@media (prefers-color-scheme: dark) { :root { --bg:#12161c; --ink:#e6eaf0; --dim:#98a2b3; --rule:#2a313c;
  --kept:#6cb0ff; --gone:#2a313c; --good:#4cc38a; --bad:#f97066; --odd:#fdb022; } }
body { font:15px/1.5 system-ui,sans-serif; background:var(--bg); color:var(--ink); margin:2rem auto; max-width:1080px;
  padding:0 1rem; }
h1 { font-size:1.35rem; margin:0; } h2 { font-size:1.05rem; margin:2rem 0 .5rem; }
.dim { color:var(--dim); } .good { color:var(--good); } .bad { color:var(--bad); } .odd { color:var(--odd); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:.1rem 1rem; margin:.8rem 0; }
dt { color:var(--dim); } dd { margin:0; overflow-wrap:anywhere; }
details { border-bottom:1px solid var(--rule); }
summary { display:grid; cursor:pointer; list-style:none; gap:.2rem 1rem;
  grid-template-columns:6.5rem minmax(6rem,14rem) 9rem 9rem 5.5rem minmax(0,1fr); padding:.35rem 0; }
summary::-webkit-details-marker { display:none; } summary:hover { background:var(--rule); }
summary > * { overflow:hidden; text-overflow:ellipsis; white-space:nowrap; }
.head { color:var(--dim); border-bottom:1px solid var(--rule); display:grid; gap:.2rem 1rem; padding:.35rem 0;
  grid-template-columns:6.5rem minmax(6rem,14rem) 9rem 9rem 5.5rem minmax(0,1fr); }
.n { text-align:right; font-variant-numeric:tabular-nums; } code { font-size:.9em; overflow-wrap:anywhere; }
pre { white-space:pre-wrap; margin:.3rem 0; } a { color:inherit; }
.bar { height:.7rem; border-radius:3px; background:var(--gone); margin-top:.4rem; }
.bar i { display:block; height:100%; border-radius:3px; background:var(--kept); min-width:2px; }
.bar i[style="width:0.00%"] { display:none; }
.more { padding:.2rem 0 1rem 7.5rem; } .more table { border-collapse:collapse; }
.more td,.more th { text-align:left; padding:.15rem 1rem .15rem 0; vertical-align:top; font-weight:normal; }
.more th { color:var(--dim); } .more .n { text-align:right; }
@media (max-width:760px) { summary,.head { grid-template-columns:5rem 1fr 5rem; } .wide { display:none; }
  .more { padding-left:0; } }
"""


def status_page(service: str, facts: Mapping[str, str], records: Sequence[Mapping[str, Any]], *, ready: bool) -> str:
    """The page; it refers to nothing outside itself.

    Args:
        service: its name.
        facts: what there is to say of it, by name.
        records: of the log, newest first.
        ready: whether it takes queries.
    """
    title = f"hudi-catalog {escape(service)}"
    state = '<span class="good">takes queries</span>' if ready else '<span class="bad">takes no queries</span>'
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
        '<meta name="viewport" content="width=device-width">',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{title}</h1><dl><dt>state</dt><dd>{state}</dd>{rows}</dl>",
        "<h2>Last queries</h2>",
        _HEAD if records else '<p class="dim">None yet.</p>',
        *(_record(record) for record in records),
        _FOOT,
    ]
    return "\n".join(parts)


_FOOT = (
    '<p class="dim"><a href="/metrics">metrics</a> · <a href="/ready">ready</a> · <a href="/health">health</a></p>'
    "</body></html>"
)
_HEAD = (
    '<div class="head"><span>time (UTC)</span><span>table</span><span class="wide">files</span>'
    '<span class="n">read</span><span class="n wide">planned in</span><span class="wide">filter</span></div>'
)


def _record(record: Mapping[str, Any]) -> str:
    try:
        return _planned(record) if record.get("event") == "planned" else _other(record)
    except (KeyError, TypeError, ValueError, AttributeError):  # a field was too long, and its text was cut
        return _other(record)


def _planned(record: Mapping[str, Any]) -> str:
    kept, total = int(record["files_out"]), int(record["files_in"])
    share = 100 * kept / total if total else 0
    asked = record["expression"] or "all rows"
    return (
        f"<details><summary><span>{_time(record)}</span><b>{escape(str(record['table']))}</b>"
        f'<span class="wide" title="{share_text(kept, total)} of the files"><div class="bar">'
        f'<i style="width:{share:.2f}%"></i></div></span>'
        f'<span class="n">{kept:,} of {total:,}</span><span class="n wide">{float(record["ms"]):,.1f} ms</span>'
        f'<code class="wide">{escape(asked)}</code></summary>{_funnel(record)}</details>'
    )


def _funnel(record: Mapping[str, Any]) -> str:
    stages = "".join(
        f'<tr><td>{escape(stage["name"])}</td><td class="n">{stage["in"]:,}</td><td class="n">{stage["out"]:,}</td>'
        f'<td class="{"" if stage["pruned"] else "dim"}">{escape(stage["reason"])}</td></tr>'
        for stage in record["stages"]
    )
    unknown = "".join(f'<div class="odd">not understood: {escape(str(reason))}</div>' for reason in record["unknown"])
    sizes = f"{bytes_text(int(record['bytes_out']))} of {bytes_text(int(record['bytes_in']))}"
    return (
        f'<div class="more"><div class="dim">instant {escape(str(record["instant"]))}, {sizes}</div>'
        f"<div><code>{escape(record['expression'] or 'no filter')}</code></div>{unknown}"
        '<table><tr><th>stage</th><th class="n">files in</th><th class="n">files out</th><th>why</th></tr>'
        f"{stages}</table></div>"
    )


def _other(record: Mapping[str, Any]) -> str:
    outcome = str(record.get("outcome", record.get("event", "")))
    reason = str(record.get("reason", ""))
    reason = "" if reason == outcome else reason
    about = str(record.get("sql") or record.get("error") or record.get("table") or "")
    style = {"rewritten": "good", "unchanged": "dim"}.get(outcome, "odd")
    spent = record.get("ms")
    shown = f"{spent:,.1f} ms" if isinstance(spent, int | float) else ""
    body = escape(json.dumps(record, ensure_ascii=False, indent=1, default=str))
    return (
        f'<details><summary><span>{_time(record)}</span><span class="{style}">{escape(outcome)}</span>'
        f'<span class="wide dim" style="grid-column:span 2">{escape(reason)}</span><span class="n wide">{shown}</span>'
        f'<code class="wide">{escape(about)}</code></summary><div class="more"><pre><code>{body}</code></pre></div>'
        "</details>"
    )


def _time(record: Mapping[str, Any]) -> str:
    return escape(str(record.get("time", ""))[11:19])
