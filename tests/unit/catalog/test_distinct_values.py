"""Estimates of how many distinct values a column has."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Table
from catalog.distinct_values import Draws, draws, in_part
from catalog.row_summary import summarize, summarize_snapshot
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog import create_table
from table_format.base_file.reader import base_file_batches
from table_format.storage import Storage

ROWS = 3_000
COUNTS = st.integers(0, 1_000)


@given(COUNTS, COUNTS, st.data(), st.floats(0, 1e12))
def test_between_what_was_seen_and_all_values(first: int, second: int, data: st.DataObject, values: float) -> None:
    common = data.draw(st.integers(0, min(first, second)))
    drawn = data.draw(st.integers(first + second, 3_000))
    seen = first + second - common
    estimate = Draws(drawn, first, second, common).among(values)
    assert seen <= estimate <= max(seen, values)
    assert estimate <= Draws(drawn, first, second, common).among(2 * values), "more values are not fewer distinct ones"


@pytest.mark.parametrize("distinct", [1, 12, 5_000, 300_000, 20_000_000])
def test_of_evenly_spread_values(distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    first, second = (np.unique(rng.integers(0, distinct, 65_536)) for _ in range(2))
    common = len(np.intersect1d(first, second))
    estimate = Draws(2 * 65_536, len(first), len(second), common).among(1e9)
    assert 0.8 * distinct <= estimate <= 1.25 * distinct


def test_of_values_that_each_file_has_to_itself() -> None:
    assert Draws(2_000, 1_000, 1_000, 0).among(50_000) == 50_000, "all differ"
    assert Draws(2_000, 10, 10, 0).among(50_000) == 500, "a hundred rows have the same"


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
def test_a_part_has_some_of_them(distinct: float, values: float, part: float) -> None:
    estimate = in_part(distinct, values, part)
    assert 0 <= estimate <= distinct
    if values >= distinct:
        assert estimate >= distinct * part * (1 - 1e-9), "at least in proportion"


def test_a_part_of_values_of_one_row_and_of_many() -> None:
    assert in_part(1_000, 1_000, 0.25) == pytest.approx(250)
    assert in_part(10, 100_000, 0.25) == pytest.approx(10)


def table_of_every_kind() -> pa.Table:
    number = np.arange(ROWS)
    return pa.table(
        {
            "id": pa.array(number),
            "color": pa.array([f"color {one % 7}" if one % 3 else None for one in number]),
            "name": pa.array([f"name {one}" for one in number]),
            "price": pa.array([Decimal(int(one) % 50) / 4 for one in number], pa.decimal128(9, 2)),
            "ratio": pa.array(np.random.default_rng(0).integers(0, 11, ROWS) / 11),
            "user": pa.array((number % 40) * 10**15),
            "order": pa.array(number // 3 * 20),
            "even": pa.array(number % 2 == 0),
            "raw": pa.array([bytes([one % 5]) for one in number], pa.binary()),
            "at": pa.array([dt.datetime(2026, 1, 1 + int(one) % 9, tzinfo=dt.UTC) for one in number]),
            "tags": pa.array([["a"]] * ROWS),
        }
    )


@pytest.fixture(params=[1, 4])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table of one file, or of four."""
    rows = table_of_every_kind()
    table = create_table(tmp_path / "t", rows.schema, record_key="id", buckets=request.param)
    table.bulk_insert(rows)
    return tmp_path / "t"


def distinct(path: Path) -> dict[str, int]:
    columns = summarize_snapshot(Table.open(str(path)).snapshot()).columns
    return {name: round(known["distinct"]) for name, known in columns.items() if "distinct" in known}


def test_of_columns_without_bounds_that_tell(path: Path) -> None:
    found = distinct(path)
    few = {"color": 7, "price": 50, "ratio": 11, "user": 40, "even": 2, "raw": 5, "at": 9}
    assert {name: found[name] for name in few} == few
    assert found["id"] == ROWS
    assert 0.9 * ROWS <= found["name"] <= ROWS
    assert 0.8 * ROWS / 3 <= found["order"] <= 1.2 * ROWS / 3
    assert "tags" not in found


def test_kept_until_the_table_has_grown(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Table.open(str(path)).snapshot()
    before = draws(snapshot, {"color": pa.string()})
    size = snapshot.live_bytes
    with monkeypatch.context() as patched:
        patched.setattr("catalog.distinct_values.base_file_batches", None)
        patched.setattr(Snapshot, "live_bytes", size + size // 5)
        assert draws(snapshot, {"color": pa.string()}) == before
        patched.setattr(Snapshot, "live_bytes", 2 * size)
        with pytest.raises(TypeError):
            draws(snapshot, {"color": pa.string()})
        patched.setattr(Snapshot, "live_bytes", size)
        with pytest.raises(TypeError):
            draws(snapshot, {"color": pa.string(), "name": pa.string()})


def test_parts_of_a_table_share_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one partition take many times the bytes of the other's."""
    chance = random.Random(0)
    rows = [{"id": n, "p": "ab"[n % 2], "text": chance.randbytes(1 if n % 2 else 400).hex()} for n in range(ROWS)]
    create_table(tmp_path / "t", "id bigint, p string, text string", record_key="id", partition_by="p").upsert(rows)
    snapshot = Table.open(str(tmp_path / "t")).snapshot()
    read: list[str] = []

    def noted(storage: Storage, path: str, *args: Any, **named: Any) -> Any:
        read.append(path)
        return base_file_batches(storage, path, *args, **named)

    monkeypatch.setattr("catalog.distinct_values.base_file_batches", noted)
    for _ in range(2):
        for row in snapshot.live_rows:
            summarize_snapshot(snapshot, np.array([row]))
    assert len(read) == 2, "once from each of two files"


def test_none_of_files_that_cannot_be_read(path: Path) -> None:
    for file in path.glob("*.parquet"):
        file.write_bytes(b"PAR1")
    assert draws(Table.open(str(path)).snapshot(), {"color": pa.string()}) == {}


def test_none_of_columns_that_the_files_lack(path: Path) -> None:
    assert draws(Table.open(str(path)).snapshot(), {"later": pa.string()}) == {}


def test_only_some_of_many_columns_are_drawn(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], **{f"c{number}": ["a", "b"] for number in range(50)}})
    create_table(tmp_path / "t", rows.schema, record_key="id", buckets=1).bulk_insert(rows)
    drawn = draws(Table.open(str(tmp_path / "t")).snapshot(), {f"c{number}": pa.string() for number in range(50)})
    assert list(drawn) == [f"c{number}" for number in range(32)]


def test_values_of_partitions_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.row_summary._MANY_BETWEEN_BOUNDS", 5)
    # the two files that would be drawn have most of the rows
    rows = pa.table(
        {"id": range(ROWS), "p": [f"p{2 if one % 3 else 7 if one % 9 else one % 10}" for one in range(ROWS)]}
    )
    create_table(tmp_path / "t", rows.schema, record_key="id", partition_by="p", buckets=1).bulk_insert(rows)
    assert distinct(tmp_path / "t")["p"] == 10


def test_a_summary_is_made_once_for_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create_table(tmp_path / "t", "id long, name string", record_key="id", buckets=2)
    table.insert(pa.table({"id": range(100), "name": [f"n{number % 7}" for number in range(100)]}))
    snapshot = Table.open(str(tmp_path / "t")).snapshot()
    columns = {field.name: (field.name, field.type, field.type) for field in snapshot.data_schema}
    every, one = snapshot.live_rows, snapshot.live_rows[:1]
    first = summarize(snapshot, every, columns)
    assert first.rows == 100
    with monkeypatch.context() as patched:
        patched.setattr("catalog.row_summary._indexed", lambda *_: pytest.fail("made again"))
        assert summarize(snapshot, every.copy(), dict(columns)) is first
    assert summarize(snapshot, one, columns).rows != 100
    assert list(summarize(snapshot, every, {"id": columns["id"]}).columns) == ["id"]
    assert summarize(snapshot, every, columns, draw=False) is not first
