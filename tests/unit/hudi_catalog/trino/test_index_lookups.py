"""Look-ups of an index join: rows by keys, at one snapshot per query."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from catalog import Catalog
from catalog.planner import STAGES
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino import batches
from tests.support.local_writes import LocalTable
from tests.support.trino_calls import EVERYTHING, T, block, domain, points
from tests.support.trino_client import NAMES, ROWS, FailedError, TrinoClient, nullable, rows, served


def indexed(service: TrinoClient, keys: Any, columns: list[str], constraint: Any = EVERYTHING, **more: Any) -> Any:
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    page = T.TrinoThriftPageResult(keys, more.pop("count"), None)
    token = nullable(more.pop("token", None))
    return service.ask("GetIndexSplits", name, columns, ["k", "day"], page, constraint, 1000, token, **more)


@pytest.mark.parametrize("name", NAMES)
def test_rows_by_keys(warehouse: Path, name: str) -> None:
    service = served(warehouse)
    keys = [block("bigint", [3, 7, 3, None, 100_000, 599])]
    batch = indexed(service, keys, ["k"], count=6, name=name)
    assert service.rows(batch, ["k", "day"]) == [(3, b"2026-01-01"), (7, b"2026-01-02"), (599, b"2026-01-03")]
    pairs = [block("bigint", [3, 7, 8, None]), block("varchar", ["2026-01-01", "2026-01-01", None, "2026-01-01"])]
    assert service.rows(indexed(service, pairs, ["k", "day"], count=4), ["k", "day"]) == [(3, b"2026-01-01")]
    texts = [block("varchar", ["7", "nothing"])]
    assert service.rows(indexed(service, texts, ["hoodie_record_key"], count=2), ["k"]) == [(7,)]
    prices = [block("double", [7.25, 7.2500001, -1.0])]  # not an index, and right all the same
    assert service.rows(indexed(service, prices, ["price"], count=3), ["k"]) == [(7,)]


def test_few_keys_read_few_files(warehouse: Path) -> None:
    service = served(warehouse)
    batch = indexed(service, [block("bigint", [7])], ["k"], count=1)
    assert 1 <= len(batch.splits) <= 3  # of the key's bucket, a file for each partition
    batch = indexed(service, [block("bigint", [7]), block("varchar", ["2026-01-02"])], ["k", "day"], count=1)
    assert len(batch.splits) == 1
    for keys, count in (([block("bigint", [None, None])], 2), ([block("bigint", [])], 0)):
        assert indexed(service, keys, ["k"], count=count).splits == []


def test_null_keys_have_no_rows_where_no_index_helps(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trino would take rows that come unasked for rows of the keys that it asks for later."""
    monkeypatch.setattr("catalog.planner.STAGES", [named for named in STAGES if named[0] == "column statistics"])
    assert indexed(served(warehouse), [block("bigint", [None])], ["k"], count=1).splits == []


def test_a_constraint_beside_keys(warehouse: Path) -> None:
    service = served(warehouse)
    limit = domain(day=points("varchar", "2026-01-02"))
    batch = indexed(service, [block("bigint", list(range(20)))], ["k"], limit, count=20)
    assert service.rows(batch, ["k"]) == [(key,) for key in range(20) if key % 3 == 1]


def test_many_keys(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = served(warehouse)
    keys = [block("bigint", [*range(0, 60_000, 2), *range(0, 60_000, 2)])]
    batch = indexed(service, keys, ["k"], count=60_000)
    assert service.rows(batch, ["k"]) == [(key,) for key in range(0, ROWS, 2)]
    monkeypatch.setattr(batches, "_MIN_SPLITS", 1)
    monkeypatch.setattr(batches, "_MAX_FILES", 2)
    assert service.rows(indexed(service, keys, ["k"], count=60_000), ["k"]) == [(key,) for key in range(0, ROWS, 2)]


@pytest.mark.parametrize(
    ("keys", "columns", "count", "message"),
    [
        ([block("bigint", [1])], ["gone"], 1, "no column gone"),
        ([block("varchar", ["1"])], ["k"], 1, "keys of type bigint as varcharData"),
        ([block("bigint", [1])], ["k"], 2, "1 keys in a page of 2"),
        ([block("bigint", [1])], ["k", "day"], 1, "keys of 1 columns for 2"),
        ([], [], 1, "keys of 0 columns"),
        ([T.TrinoThriftBlock()], ["k"], 1, "as nothing"),
        (
            [T.TrinoThriftBlock(varcharData=T.TrinoThriftVarchar(None, [1, -1, 1], b"a"))],
            ["day"],
            3,
            "texts of 1 bytes together in 1",
        ),
        ([T.TrinoThriftBlock(varcharData=T.TrinoThriftVarchar(None, [5], b"a"))], ["day"], 1, "texts of 5 bytes"),
        ([T.TrinoThriftBlock(varcharData=T.TrinoThriftVarchar(None, [1], b"\xff"))], ["day"], 1, "not UTF-8"),
    ],
)
def test_keys_that_are_none(warehouse: Path, keys: list[Any], columns: list[str], count: int, message: str) -> None:
    with pytest.raises(FailedError, match=message):
        indexed(served(warehouse), keys, columns, count=count)


def test_look_ups_of_a_query_share_a_snapshot(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "Db", tmp_path / "db")
    service = served(tmp_path, lease_idle="60", lease_most="60")
    every = [block("bigint", list(range(ROWS + 100)))]
    assert len(service.rows(indexed(service, every, ["k"], count=ROWS + 100), ["k"])) == ROWS
    opened = LocalTable(WarehouseTables(Catalog(str(tmp_path))).table("db.Trips-1").client, {})
    opened.write("upsert", rows(range(ROWS, ROWS + 100)))
    assert len(service.rows(indexed(service, every, ["k"], count=ROWS + 100), ["k"])) == ROWS
    assert len(service.rows(service.splits(), ["k"])) == ROWS + 100  # a scan is another query
    limit = domain(k=points("bigint", ROWS + 1))
    assert service.rows(indexed(service, every, ["k"], limit, count=ROWS + 100), ["k"]) == [(ROWS + 1,)]


def test_reading_keeps_the_snapshot_of_look_ups(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "Db", tmp_path / "db")
    service, clock = served(tmp_path, lease_idle="1"), [0.0]
    service.service._index._leases._clock = lambda: clock[0]
    key = [block("bigint", [ROWS])]
    some = indexed(service, [block("bigint", [7])], ["k"], count=1)
    opened = LocalTable(WarehouseTables(Catalog(str(tmp_path))).table("db.Trips-1").client, {})
    opened.write("upsert", rows(range(ROWS, ROWS + 1)))
    for seconds, expected in ((0.9, []), (1.1, [(ROWS,)])):
        clock[0] += 0.9
        service.rows(some, ["k"])
        clock[0] += seconds
        assert service.rows(indexed(service, key, ["k"], count=1), ["k"]) == expected
