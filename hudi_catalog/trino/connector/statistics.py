"""Statistics for Trino's optimizer, of the files that a filter keeps: of the metadata table, else estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.planner import Plan
from catalog.row_summary import summarize
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.connector.types import ConnectorColumn, plain_type

_MOST_COLUMNS = 200


def scan_statistics(snapshot: Snapshot, plan: Plan, columns: Sequence[ConnectorColumn]) -> dict[str, Any]:
    """Statistics of the files of a plan, see `summarize`.

    Args:
        snapshot: of the table.
        plan: of the scan.
        columns: of the table in Trino.

    Returns:
        `rows`, exact, null where not known; `estimated_rows`, null only where no file could be opened; `columns` by
        name in Trino, with `nulls` (a fraction), `low` and `high` (numbers as Trino's statistics have them), `distinct`
        and `bytes` (of texts), each where known.
    """
    shown = [column for column in columns[:_MOST_COLUMNS] if not column.hidden]
    wanted = {column.name: (column.source, column.kind, plain_type(column.kind)) for column in shown}
    summary = summarize(snapshot, plan.rows, wanted)
    columns_known = {
        name: {key: value for key, value in known.items() if key != "spread"} for name, known in summary.columns.items()
    }
    return {"rows": summary.rows, "estimated_rows": summary.estimated_rows, "columns": columns_known}
