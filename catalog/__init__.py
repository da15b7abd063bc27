"""Hudi tables by name, and planning and reading of scans.

`Catalog` lists the tables of a warehouse, `Table.open` opens one by its folder. `Table.scan(filter, columns, as_of=…)`
describes a query: its `plan()` says which files may hold matching rows and why, `to_arrow()` and `to_batches()` read
only those.
"""

from typing import TYPE_CHECKING

from table_format.lazy import lazy_names

if TYPE_CHECKING:
    from catalog.catalog import Catalog, TableEntry
    from catalog.history import HistoryEntry
    from catalog.planner import Plan
    from catalog.scan import Scan
    from catalog.splits.file_splits import FileSplit, Splits
    from catalog.stages.stage import StageResult
    from catalog.table import Table

__all__ = ["Catalog", "FileSplit", "HistoryEntry", "Plan", "Scan", "Splits", "StageResult", "Table", "TableEntry"]
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "catalog.catalog": ("Catalog", "TableEntry"),
        "catalog.history": ("HistoryEntry",),
        "catalog.planner": ("Plan",),
        "catalog.scan": ("Scan",),
        "catalog.splits.file_splits": ("FileSplit", "Splits"),
        "catalog.stages.stage": ("StageResult",),
        "catalog.table": ("Table",),
    },
)
