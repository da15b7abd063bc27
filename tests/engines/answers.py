"""Comparing answers of engines, and DuckDB's answers from a table's files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

_BASE_FILE = re.compile(r"(?P<file_id>.+)_\d+-\d+-\d+_(?P<instant>\d{14,17})\.parquet")
_COMPLETED = re.compile(r"(?P<instant>\d{14,17})(?:_\d+)?\.(?:commit|deltacommit|replacecommit)")


def rows_agree(left: Iterable[Sequence[Any]], right: Iterable[Sequence[Any]], *, slack: float = 0.0) -> str:
    """What sets two answers apart, empty where nothing does; the order of rows doesn't count.

    Args:
        left: Rows of one engine.
        right: Rows of the other.
        slack: How far two numbers may lie apart: for averages and quotients, which engines round to different scales.
    """
    ours, theirs = sorted(map(_plain, left), key=_order), sorted(map(_plain, right), key=_order)
    if len(ours) != len(theirs):
        return f"{len(ours)} rows against {len(theirs)}: {_only(ours, theirs)}"
    for one, other in zip(ours, theirs, strict=True):
        if len(one) != len(other) or not all(_close(a, b, slack) for a, b in zip(one, other, strict=True)):
            return f"{one} against {other}"
    return ""


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.isoformat() if hasattr(value, "isoformat") else value for value in row)


def _order(row: tuple[Any, ...]) -> list[tuple[int, float, str]]:
    """Texts first, so that numbers that differ by a rounding don't change the order."""
    texts = [(0, 0.0, str(value)) for value in row if not isinstance(value, float | Decimal)]
    return texts + [(1, round(float(value), 1), "") for value in row if isinstance(value, float | Decimal)]


def _close(left: Any, right: Any, slack: float) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(left, numbers) and isinstance(right, numbers):
        if left == right:
            return True
        apart = abs(float(left) - float(right))
        return slack > 0 and apart <= slack + 1e-9 * abs(float(left))
    return bool(left == right)


def _only(left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> str:
    first, second = {str(row) for row in left}, {str(row) for row in right}
    return f"only left {sorted(first - second)[:3]}, only right {sorted(second - first)[:3]}"


def snapshot_files(table: Path) -> list[str]:
    """Base files of the newest snapshot of a table that is only inserted into and upserted.

    Read from names of files and of the timeline alone, without this project's code.
    """
    timeline = table / ".hoodie/timeline"
    timeline = timeline if timeline.exists() else table / ".hoodie"
    completed = {match["instant"] for path in timeline.iterdir() if (match := _COMPLETED.fullmatch(path.name))}
    newest: dict[tuple[Path, str], tuple[str, Path]] = {}
    for path in table.rglob("*.parquet"):
        match = _BASE_FILE.fullmatch(path.name)
        if ".hoodie" in path.parts or not match or match["instant"] not in completed:
            continue
        slot = (path.parent, match["file_id"])
        newest[slot] = max(newest.get(slot, ("", path)), (match["instant"], path))
    return sorted(str(path) for _, path in newest.values())


class DuckDb:
    """Tables of a warehouse as views over the files of their snapshots; there is no view of a table without files."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 2")
        for name, files in tables.items():
            if not files:
                continue
            listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
            read = f"read_parquet([{listed}], hive_partitioning = false, union_by_name = true)"
            self.connection.execute(f'CREATE VIEW "{name}" AS SELECT * FROM {read}')

    @classmethod
    def of_warehouse(cls, warehouse: Path) -> DuckDb:
        """Every table in a folder, by the folder's name."""
        folders = [folder for folder in sorted(warehouse.iterdir()) if (folder / ".hoodie").exists()]
        return cls({folder.name: snapshot_files(folder) for folder in folders})

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        return self.connection.execute(sql).fetchall()
