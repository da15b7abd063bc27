"""Statistics for Trino's optimizer: exact where the metadata table has them, else estimated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from catalog.row_summary import summarize_snapshot
from hudi_catalog import create_table
from hudi_catalog.trino.connector.metadata import scan_statistics
from hudi_catalog.trino.connector.types import connector_columns
from tests.support.tpch_tables import Layout, write

COUNT = 400
ROWS = pa.table(
    {
        "id": pa.array(range(0, COUNT * 10, 10), pa.int64()),
        "part": [f"p{one % 5}" for one in range(COUNT)],
        "customer": pa.array([None if one % 4 == 0 else one % 50 for one in range(COUNT)], pa.int32()),
        "day": pa.array([dt.date(2026, 1, 1) + dt.timedelta(days=one % 30) for one in range(COUNT)], pa.date32()),
        "text": ["0123456789"] * COUNT,
        "price": pa.array([one / 2 for one in range(COUNT)], pa.float64()),
    }
)


def statistics(path: str | Path, condition: str | None = None) -> dict[str, Any]:
    plan = Table.open(str(path)).scan(condition).plan()
    return scan_statistics(plan.snapshot, plan, connector_columns(plan.snapshot.schema, "t"))


def test_what_the_metadata_table_has(tmp_path: Path) -> None:
    write(tmp_path, "t", ROWS, Layout("id", "id", 2, "part"))
    whole = statistics(tmp_path / "t")
    assert (whole["rows"], whole["estimated_rows"]) == (COUNT, COUNT)
    columns = whole["columns"]
    assert columns["id"] == {"nulls": 0.0, "low": 0.0, "high": 3990.0, "distinct": COUNT}
    assert columns["customer"] == {"nulls": 0.25, "low": 0.0, "high": 49.0, "distinct": 50.0}
    assert columns["day"]["distinct"] == 30
    assert columns["text"] == {"nulls": 0.0, "bytes": 10.0 * COUNT, "distinct": 1}
    assert columns["part"]["distinct"] == 5
    assert columns["price"]["distinct"] == pytest.approx(COUNT, rel=0.1), "by two files of many"
    some = statistics(tmp_path / "t", "part = 'p3'")
    assert (some["rows"], some["columns"]["part"]["distinct"]) == (COUNT // 5, 1)
    assert some["columns"]["id"]["distinct"] == COUNT // 5
    none = statistics(tmp_path / "t", "part = 'nowhere'")
    assert (none["rows"], none["estimated_rows"]) == (0, 0)


def test_rows_are_estimated_without_column_statistics(tmp_path: Path) -> None:
    write(tmp_path, "t", ROWS, Layout("id", "id", 2, "part"), **{"hoodie.metadata.enable": "false"})
    whole = statistics(tmp_path / "t")
    assert whole["rows"] is None
    assert whole["estimated_rows"] == pytest.approx(COUNT, rel=0.2)
    assert whole["columns"]["part"] == {"distinct": 5}
    assert statistics(tmp_path / "t", "part = 'p3'")["estimated_rows"] == pytest.approx(COUNT / 5, rel=0.2)


@pytest.mark.parametrize("name", ["v6_0150__mor_bkt", "v9_1200__mor_bkt"])
def test_rows_of_slices_with_log_files_are_estimated(copied: Callable[..., str], name: str) -> None:
    path = copied(name)
    rows = Table.open(path).scan().to_arrow().num_rows
    merged = statistics(path)
    assert merged["rows"] is None
    assert rows / 3 < merged["estimated_rows"] < rows * 3


def test_bounds_of_instants_are_milliseconds(tmp_path: Path) -> None:
    """As Trino's statistics have them; with microseconds it took some rows for none."""
    times = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=one) for one in range(48)]
    table = create_table(tmp_path / "t", "id bigint, at timestamp", record_key="id", buckets=1)
    table.insert(pa.table({"id": range(48), "at": pa.array(times, pa.timestamp("us", "UTC"))}))
    known = statistics(tmp_path / "t")["columns"]["at"]
    assert (known["low"], known["high"]) == (times[0].timestamp() * 1e3, times[-1].timestamp() * 1e3)


@pytest.mark.parametrize(("kind", "unit"), [(pa.date32(), 1), (pa.timestamp("us", "UTC"), 86_400_000_000)])
@pytest.mark.parametrize("day", [2_932_897, -719_163])
def test_bounds_that_python_has_no_dates_for(tmp_path: Path, kind: pa.DataType, unit: int, day: int) -> None:
    table = create_table(tmp_path / "t", pa.schema([("id", pa.int64()), ("at", kind)]), record_key="id", buckets=1)
    numbers: Any = pa.array([0, day * unit], pa.int32() if unit == 1 else pa.int64())
    table.insert(pa.table({"id": [1, 2], "at": numbers.cast(kind)}))
    known = statistics(tmp_path / "t")["columns"]["at"]
    scale = 1 if unit == 1 else 1000
    assert {known["low"], known["high"]} == {0.0, float(day * unit // scale)}
    summary = summarize_snapshot(table.snapshot())
    assert {summary.columns["at"]["low"], summary.columns["at"]["high"]} == {0.0, float(day * unit)}
