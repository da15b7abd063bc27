"""Tables read and changed by conditions that are computed for each row."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

import hudi_catalog
from hudi_catalog.cli.main import app
from pushdown import InexactFilterError, RowCastError, matches, parse_sql
from tests.unit.conftest import GoldenTable

_DAYS = 6


def _rows(first: int, count: int) -> pa.Table:
    ids = list(range(first, first + count))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [dt.date(2026, 1, 1 + number % _DAYS) for number in ids],
            "v": pa.array([None if number % 11 == 0 else number % 7 - 3 for number in ids], pa.int32()),
            "price": pa.array([Decimal(number % 13).scaleb(-1) for number in ids], pa.decimal128(10, 2)),
            "name": [None if number % 9 == 0 else f"Name{number % 5}" for number in ids],
            "at": pa.array([number * 3_600_000_000 for number in ids], pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> hudi_catalog.Table:
    made = hudi_catalog.create_table(str(tmp_path / "orders"), _rows(1, 1).schema, record_key="id", partition_by="day")
    made.upsert(_rows(0, 300))
    return made


CONDITIONS = [
    "id % 5 = 0",
    "abs(v) > 2",
    "v + id > 290",
    "v < id AND day >= DATE '2026-01-05'",
    "lower(name) = 'name3'",
    "coalesce(name, '-') = '-'",
    "CASE WHEN v > 0 THEN price ELSE -price END > 0.5",
    "NOT (price * 2 > 1.5) OR id = 7",
    "hour(at) = day(day) + 11",
    "price / nullif(v, 0) > 0.3",
    "name || '!' LIKE '%3!' AND v IS NOT NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_scans_and_counts(table: hudi_catalog.Table, condition: str) -> None:
    rows = table.scan().to_arrow()
    wanted = rows.filter(matches(parse_sql(condition), rows))
    assert 0 < wanted.num_rows < rows.num_rows
    scan = table.scan(condition)
    assert scan.count() == wanted.num_rows
    assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(wanted["id"].to_pylist())
    # columns that the condition needs are read, and not returned
    only = table.scan(condition, columns=["id"]).to_arrow()
    assert only.column_names == ["id"]
    assert sorted(only["id"].to_pylist()) == sorted(wanted["id"].to_pylist())


def test_plans_are_as_those_of_what_is_not_computed(table: hudi_catalog.Table) -> None:
    for computed, unknown in [
        ("coalesce(v, 1) = 2", "unknown('coalesce(v, 1) = 2 is not understood')"),
        ("day = DATE '2026-01-02' AND v < id", "day = DATE '2026-01-02' AND unknown('v < id is not understood')"),
    ]:
        ours, theirs = table.scan(computed).plan(), table.scan(unknown).plan()
        assert ours.rows.tolist() == theirs.rows.tolist()
        assert ours.unknowns == theirs.unknowns
        assert len(ours.unknowns) == 1
        assert [(stage.name, stage.reason) for stage in ours.stages] == [
            (stage.name, stage.reason) for stage in theirs.stages
        ]
        assert not ours.fully_matching.any()


def test_updates_and_deletes(table: hudi_catalog.Table) -> None:
    before = table.scan().to_arrow()
    fifth = before.filter(matches(parse_sql("id % 5 = 0"), before)).num_rows
    assert table.delete("id % 5 = 0").rows_deleted == fifth
    assert table.scan("id % 5 = 0").count() == 0
    assert table.scan().count() == before.num_rows - fifth
    changed = table.scan("coalesce(v, 0) < 0 AND length(name) = 5").count()
    assert changed
    table.update({"name": "'low'"}, "coalesce(v, 0) < 0 AND length(name) = 5")
    assert table.scan("name = 'low'").count() == changed
    assert table.scan().count() == before.num_rows - fifth


def test_what_is_not_computed_changes_nothing(table: hudi_catalog.Table) -> None:
    for call in (
        lambda: table.delete("soundex(name) = 'N500'"),
        lambda: table.update({"v": 1}, "id % 5 = 0 OR soundex(name) = 'N500'"),
        lambda: table.scan("rand() < v").count(),
    ):
        with pytest.raises(InexactFilterError, match=r"is not understood\. Its plan is right"):
            call()
    with pytest.raises(RowCastError, match=r"10 / v.* has no result for a row with v = 0"):
        table.delete("10 / v > 1")
    assert table.scan().count() == 300


def test_earlier_states_and_writes_since(table: hudi_catalog.Table) -> None:
    counted = table.scan("id % 5 = 0").count()
    instant = max(table.scan(columns=["_hoodie_commit_time"]).to_arrow()["_hoodie_commit_time"].to_pylist())
    table.upsert(_rows(300, 30))
    assert table.scan("id % 5 = 0").count() == counted + 6
    assert table.scan("id % 5 = 0", as_of=instant).count() == counted
    since = table.scan("id % 5 = 0", incremental=(instant, None)).to_arrow()
    assert sorted(since["id"].to_pylist()) == [300, 305, 310, 315, 320, 325]


@pytest.mark.usefixtures("table")
def test_command_line(tmp_path: Path) -> None:
    arguments = ["--where", "id % 50 = 0 AND lower(name) <> 'x'", "--columns", "id", "--json"]
    result = CliRunner().invoke(app, ["read", str(tmp_path / "orders"), *arguments], catch_exceptions=False)
    ids = sorted(json.loads(line)["id"] for line in result.stdout.splitlines())
    assert ids == [number for number in range(0, 300, 50) if number % 9]


@pytest.mark.parametrize("name", ["v6_0150__mor_log", "v9_1200__mor_bkt"])
def test_log_files(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name).open()
    rows = table.scan().to_arrow()
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type) and not field.name.startswith("_")]
    ints = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    assert table.snapshot().has_logs.any()
    assert texts
    assert ints
    for condition in (f"`{ints[0]}` % 2 = 0", f"length(`{texts[0]}`) > 3 AND coalesce(`{ints[0]}`, 0) >= 0"):
        truths = pc.fill_null(matches(parse_sql(condition), rows), False)
        scan = table.scan(condition)
        assert scan.count() == pc.sum(truths).as_py() > 0
        assert scan.to_arrow().num_rows == scan.count()
