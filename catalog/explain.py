"""A plan as text for people, and as JSON for scripts: files in and out of each stage, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from catalog.amounts import bytes_text, share_text
from catalog.layout import column_layouts
from catalog.planner import Plan
from catalog.splits.file_splits import FileSplit
from pushdown.walk import columns_of

_SHOWN_SPLITS = 20
_FEWEST = 2  # of one file nothing can be dropped


def explain(plan: Plan, *, splits: int = _SHOWN_SPLITS) -> Iterator[RenderableType]:
    """A plan as texts and tables for `rich.print`.

    Args:
        plan: to explain.
        splits: how many splits are listed at most; 0 for none.

    Yields:
        Table, instant and filter; parts of the filter that are not understood; a table of the stages; a summary; how
        well the filter's columns prune; the first splits.
    """
    plan = plan.detailed
    snapshot = plan.snapshot
    yield Text.assemble(("table   ", "dim"), f"{snapshot.config.name}  ", (snapshot.client.storage.uri, "dim"))
    yield Text.assemble(("instant ", "dim"), snapshot.instant or "none yet")
    if snapshot.read_optimized:
        yield Text.assemble(("reads   ", "dim"), "base files alone, without what log files changed since")
    yield Text.assemble(("filter  ", "dim"), repr(plan.expression) if plan.expression is not None else "none")
    for reason in plan.unknowns:
        yield Text(f"not understood, and so not used: {reason}", style="yellow")
    yield _stage_table(plan)
    yield _summary(plan)
    if text := _pruning(plan):
        yield Text(text, style="dim")
    if len(plan) and splits:
        yield split_table(plan, splits)


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan as `json.dumps` takes it: filter, counts of files and bytes, stages with reasons and seconds, splits."""
    return {
        "table": plan.snapshot.client.storage.uri,
        "instant": plan.snapshot.instant,
        "filter": None if plan.expression is None else plan.expression.to_sql(),
        "not_understood": list(plan.unknowns),
        "files_total": plan.files_total,
        "files_kept": len(plan),
        "bytes_total": plan.bytes_total,
        "bytes_kept": plan.bytes_kept,
        "seconds": plan.seconds,
        "stages": [
            {
                "name": stage.name,
                "files_in": stage.files_in,
                "files_out": stage.files_out,
                "bytes_in": stage.bytes_in,
                "bytes_out": stage.bytes_out,
                "pruned": stage.pruned,
                "reason": stage.reason,
                "seconds": stage.seconds,
            }
            for stage in plan.stages
        ],
        "splits": list(plan.splits.json_objects()),
    }


def _stage_table(plan: Plan) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    for name in ("files in", "dropped", "files out"):
        table.add_column(name, justify="right")
    table.add_column("why", overflow="fold")
    for stage in plan.stages:
        dropped = stage.files_in - stage.files_out
        table.add_row(
            stage.name,
            f"{stage.files_in:,}",
            Text(f"{dropped:,}", style="green" if dropped else "dim"),
            f"{stage.files_out:,}",
            Text(stage.reason, style="" if stage.pruned else "dim"),
        )
    return table


def _summary(plan: Plan) -> Text:
    sure = int(plan.fully_matching.sum())
    text = (
        f"{len(plan):,} of {plan.files_total:,} files ({share_text(len(plan), plan.files_total)}), "
        f"{bytes_text(plan.bytes_kept)} of {bytes_text(plan.bytes_total)}, planned in {plan.seconds * 1000:.1f} ms"
    )
    if plan.expression is not None and len(plan):
        text += f"; in {sure:,} of them every row matches"
    return Text(text, style="bold")


def _pruning(plan: Plan) -> str:
    """Which share of the table's files short ranges of the filter's columns keep; empty where no ranges are known."""
    if plan.expression is None or plan.files_total < _FEWEST:
        return ""
    fields = {*plan.snapshot.schema.names} - {*plan.snapshot.config.partition_fields}
    names = [name for name in columns_of(plan.expression) if name in fields]
    layouts = [layout for layout in column_layouts(plan.snapshot, names) if not layout.reason]
    shares = ", ".join(f"{layout.column} {100 * layout.kept:.0f} %" for layout in layouts)
    return f"of all files a range with 1 % of the rows keeps: {shares} (`hudi-catalog layout`)" if shares else ""


def split_table(plan: Plan, limit: int) -> Table:
    """The first splits of a plan as a table to print."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    logs = bool(plan.snapshot.has_logs.any())
    for name in ("partition", "file", *(("logs",) if logs else ()), "size", "rows", "match"):
        table.add_column(name, justify="right" if name in {"logs", "size", "rows"} else "left", overflow="fold")
    for split in next(plan.splits.batches(limit), []):
        rows = "?" if split.record_count is None else f"{split.record_count:,}"
        match = "all rows" if split.fully_matching else "some rows may"
        count = (f"{len(split.log_files):,}",) if logs else ()
        table.add_row(split.partition or "-", _file(split), *count, bytes_text(split.length), rows, match)
    if len(plan) > limit:
        table.add_row("…", f"and {len(plan) - limit:,} more")
    return table


def _file(split: FileSplit) -> str:
    if split.file_name is None:
        return f"{split.file_id}, log files only"
    if split.row_groups is None:
        return split.file_name
    first, last = split.row_groups[0], split.row_groups[-1]
    return f"{split.file_name}, row group{f's {first} to {last}' if last > first else f' {first}'}"
