"""Calls as the connectors make them, decoded by thriftpy2's own reader."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Catalog
from catalog.planner import STAGES
from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.metrics import Metrics
from hudi_catalog.server.security import Secret
from hudi_catalog.server.tables import WarehouseTables
from hudi_catalog.trino import batches
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.service import TrinoService
from hudi_catalog.trino.split_id import SplitCodec, TrinoSplit
from hudi_catalog.trino.wire import presto_service, trino_service
from table_format.errors import StorageError
from tests.support.local_writes import LocalTable
from tests.support.trino_wire import block_values
from tests.unit.hudi_catalog.trino.domains import (
    EVERYTHING,
    T,
    between,
    block,
    call,
    decoded_reply,
    domain,
    points,
    ranges,
)

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), metadata={"comment": "the key"}),
        pa.field("day", pa.string()),
        pa.field("Größe", pa.float32()),
        pa.field("price", pa.decimal128(10, 2)),
    ]
)
SECRET = Secret(b"of the service's tests")
ROWS = 600
NAMES = ["trino", "presto"]


def rows(keys: range) -> pa.Table:
    days = [f"2026-01-0{key % 3 + 1}" for key in keys]
    prices = pa.array([f"{key}.25" for key in keys]).cast(pa.decimal128(10, 2))
    sizes = pa.array([key / 4 for key in keys], pa.float32())
    return pa.table([pa.array(list(keys)), pa.array(days), sizes, prices], schema=SCHEMA)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("warehouse")
    (folder / "Db").mkdir()
    options = {
        "hoodie.table.name": "trips",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.metadata.enable": "true",
    }
    table = LocalTable.create(str(folder / "Db" / "Trips-1"), SCHEMA, options)
    table.write("insert", rows(range(ROWS - 10)))
    table.write("upsert", rows(range(ROWS - 20, ROWS)))
    odd = folder / "broken" / ".hoodie"
    odd.mkdir(parents=True)
    (odd / "hoodie.properties").write_text("hoodie.table.name=broken\nhoodie.table.version=99\n")
    return folder


def served(warehouse: Path, secret: Secret | None = SECRET, metrics: Metrics | None = None, **options: str) -> Service:
    parsed = TrinoOptions.parse({f"hoodie.catalog.trino.{key.replace('_', '.')}": v for key, v in options.items()})
    return Service(TrinoService(WarehouseTables(Catalog(str(warehouse))), parsed, secret=secret, metrics=metrics))


class FailedError(Exception):
    """What the service threw."""

    def __init__(self, struct: Any) -> None:
        super().__init__(struct.message)
        self.struct = struct


class Service:
    """The service, asked as a connector asks it."""

    def __init__(self, service: TrinoService) -> None:
        self.service = service
        self.sequence = 100

    def ask(self, method: str, *arguments: Any, name: str = "trino") -> Any:
        module: ModuleType = presto_service() if name == "presto" else trino_service()
        self.sequence += 1
        reply = b"".join(self.service.dispatch(call(module, f"{name}{method}", self.sequence, *arguments)))
        told, sequence, result = decoded_reply(module, reply)
        assert (told, sequence) == (f"{name}{method}", self.sequence)
        if getattr(result, "ex1", None) is not None:
            raise FailedError(result.ex1)
        return result.success

    def splits(self, constraint: Any = EVERYTHING, most: int = 1000, token: bytes | None = None, **more: Any) -> Any:
        name = T.TrinoThriftSchemaTableName("db", more.pop("table", "trips_1"))
        columns = T.TrinoThriftNullableColumnSet(more.pop("columns", None))
        return self.ask("GetSplits", name, columns, constraint, most, nullable(token), **more)

    def page(
        self, split: bytes, columns: list[str], most: int = 1 << 20, token: bytes | None = None, **more: Any
    ) -> Any:
        return self.ask("GetRows", T.TrinoThriftId(split), columns, most, nullable(token), **more)

    def rows(self, batch: Any, columns: list[str], most: int = 1 << 20) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for split in batch.splits:
            token = None
            while True:
                page = self.page(split.splitId.id, columns, most, token)
                found += zip(*(block_values(one) for one in page.columnBlocks), strict=True)
                if page.nextToken is None:
                    break
                token = page.nextToken.id
        return sorted(found)


def nullable(token: bytes | None) -> Any:
    return T.TrinoThriftNullableToken(None if token is None else T.TrinoThriftId(token))


@pytest.mark.parametrize("name", NAMES)
def test_what_there_is(warehouse: Path, name: str) -> None:
    service = served(warehouse)
    assert service.ask("ListSchemaNames", name=name) == ["db", "default"]
    listed = service.ask("ListTables", T.TrinoThriftNullableSchemaName(None), name=name)
    assert [(one.schemaName, one.tableName) for one in listed] == [("db", "trips_1")]  # and not the broken one
    assert service.ask("ListTables", T.TrinoThriftNullableSchemaName("default"), name=name) == []
    told = service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", "trips_1"), name=name).tableMetadata
    assert [(one.name, one.type, one.hidden) for one in told.columns] == [
        ("hoodie_commit_time", "varchar", True),
        ("hoodie_commit_seqno", "varchar", True),
        ("hoodie_record_key", "varchar", True),
        ("hoodie_partition_path", "varchar", True),
        ("hoodie_file_name", "varchar", True),
        ("k", "bigint", False),
        ("day", "varchar", False),
        ("grou00dfe", "double", False),
        ("price", "varchar", False),
    ]
    assert told.columns[5].comment == "the key"
    assert "Größe" in told.columns[7].comment
    assert told.comment.startswith("Hudi table, copy on write, version ")
    assert told.indexableKeys is None


@pytest.mark.parametrize("table", ["nothing", "trips_2", "trips_1__at_2026", "trips-1"])
def test_a_table_that_is_not_there(warehouse: Path, table: str) -> None:
    found = served(warehouse).ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", table))
    assert found.tableMetadata is None


def test_a_table_that_cannot_be_read_says_why(warehouse: Path) -> None:
    with pytest.raises(FailedError, match="version") as caught:
        served(warehouse).ask("GetTableMetadata", T.TrinoThriftSchemaTableName("default", "broken"))
    assert not caught.value.struct.retryable


def test_a_new_table_is_found_at_once(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "Db", tmp_path / "db")
    service = served(tmp_path)
    name = T.TrinoThriftSchemaTableName("db", "later")
    assert service.ask("GetTableMetadata", name).tableMetadata is None
    shutil.copytree(tmp_path / "db" / "Trips-1", tmp_path / "db" / "later")
    time.sleep(0.6)  # the warehouse is not listed more often than each half second
    assert service.ask("GetTableMetadata", name).tableMetadata is not None
    shutil.rmtree(tmp_path / "db" / "later")
    assert service.ask("GetTableMetadata", name).tableMetadata is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("most", [500, 4_000, 1 << 20])
def test_rows_by_pages(warehouse: Path, name: str, most: int) -> None:
    service = served(warehouse)
    batch = service.splits(name=name)
    assert (batch.nextToken, all(split.hosts == [] for split in batch.splits)) == (None, True)
    found = service.rows(batch, ["k", "price", "grou00dfe"], most)
    assert found == [(key, f"{key}.25".encode(), key / 4) for key in range(ROWS)]


def test_splits_by_batches(warehouse: Path) -> None:
    service = served(warehouse)
    first = service.splits(most=5)
    assert len(first.splits) == 5
    rest = served(warehouse).splits(token=first.nextToken.id)  # another instance with the same secret
    found = served(warehouse).rows(first, ["k"]) + service.rows(rest, ["k"])
    assert sorted(found) == [(key,) for key in range(ROWS)]


def test_the_constraint_is_applied_to_rows(warehouse: Path) -> None:
    service = served(warehouse)
    batch = service.splits(domain(k=points("bigint", 7, 599), day=points("varchar", "2026-01-02", "2026-01-03")))
    assert service.rows(batch, ["day", "k"]) == [(b"2026-01-02", 7), (b"2026-01-03", 599)]


def test_only_counting(warehouse: Path) -> None:
    service = served(warehouse)
    batch = service.splits(columns=[])
    pages = [service.page(split.splitId.id, []) for split in batch.splits]
    assert sum(page.rowCount for page in pages) == ROWS
    assert all(page.columnBlocks == [] and page.nextToken is None for page in pages)


def test_a_table_as_of_a_time(warehouse: Path) -> None:
    service = served(warehouse)
    instant = min(one[0] for one in service.rows(service.splits(), ["hoodie_commit_time"])).decode()
    table = f"trips_1__at_{instant}"
    told = service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", table)).tableMetadata
    assert (told.schemaTableName.tableName, len(told.columns)) == (table, 9)
    assert told.comment.endswith(str(warehouse / "Db" / "Trips-1"))
    assert f"as of {instant}" in told.comment
    assert len(service.rows(service.splits(table=table), ["k"])) == ROWS - 10
    with pytest.raises(FailedError, match="oldest commit"):
        service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", "trips_1__at_20010101"))


def test_forged_and_foreign_ids(warehouse: Path) -> None:
    service = served(warehouse)
    split = service.splits().splits[0].splitId.id
    foreign = served(warehouse, None).splits().splits[0].splitId.id
    for forged in (b"", b"x" * 100, split[:-1], split[:50] + b"\0" + split[51:], foreign):
        with pytest.raises(FailedError, match="split id") as caught:
            service.page(forged, ["k"])
        assert not caught.value.struct.retryable


def test_page_tokens_belong_to_a_split_and_its_columns(warehouse: Path) -> None:
    service = served(warehouse)
    one, other = (split.splitId.id for split in service.splits().splits[:2])
    token = service.page(one, ["k", "day"], 300).nextToken.id
    assert service.page(one, ["k", "day"], 300, token).rowCount > 0
    for split, columns in ((other, ["k", "day"]), (one, ["day", "k"]), (one, ["kday"]), (one, [])):
        with pytest.raises(FailedError, match="another split"):
            service.page(split, columns, 300, token)
    for forged in (b"", token[:-1], one):
        with pytest.raises(FailedError, match="token"):
            service.page(one, ["k", "day"], 300, forged)


@pytest.mark.parametrize("path", ["../../secret.parquet", "/etc/passwd", "2026-01-01/../../../secret.parquet"])
def test_no_file_outside_the_table_is_opened(warehouse: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even for an id that is signed."""
    service = served(warehouse)
    good = SplitCodec(SECRET).unpack(service.splits().splits[0].splitId.id)
    pa.parquet.write_table(rows(range(5)), warehouse / "secret.parquet")
    bad = TrinoSplit(good.table, good.pin, (FileSlice("", "f", path, "1"),))
    opened = []
    monkeypatch.setattr(os, "open", lambda *given, **more: opened.append(given) or 1 / 0)
    with pytest.raises(FailedError, match="not inside the table"):
        service.page(SplitCodec(SECRET).pack(bad), ["k"])
    assert opened == []


def test_unknown_columns(warehouse: Path) -> None:
    service = served(warehouse)
    with pytest.raises(FailedError, match="no column gone"):
        service.page(service.splits().splits[0].splitId.id, ["gone"])


def test_storage_that_fails_may_be_asked_again(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = served(warehouse)

    def fail(*_: Any) -> Any:
        raise StorageError("the storage is away")

    monkeypatch.setattr(WarehouseTables, "newest", fail)
    with pytest.raises(FailedError, match="the storage is away") as caught:
        service.splits()
    assert caught.value.struct.retryable


@pytest.mark.parametrize("name", NAMES)
def test_what_nobody_thought_of_is_logged_and_not_told(
    warehouse: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = served(warehouse)
    monkeypatch.setattr(WarehouseTables, "newest", lambda *_: 1 / 0)
    with caplog.at_level(logging.ERROR), pytest.raises(FailedError) as caught:
        service.splits(name=name)
    assert caught.value.struct.message == "the service failed; its log says why"
    assert not caught.value.struct.retryable
    assert "ZeroDivisionError" in caplog.text


def test_frames_that_are_no_calls(warehouse: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = served(warehouse).service
    assert service.dispatch(b"GET / HTTP/1.1\r\n\r\n") is None
    assert service.dispatch(b"") is None
    assert len(caplog.records) == 2
    assert service.dispatch(b"\x0f\xff\x00\x00\x00\x00\x00\x01") is None
    assert "transport to FRAMED" in caplog.records[-1].getMessage()
    good = call(trino_service(), "trinoListSchemaNames", 7)
    _, _, failure = decoded_reply(trino_service(), b"".join(service.dispatch(good.replace(b"Schema", b"Schemo"))))
    assert "no method trinoListSchemoNames" in failure.message
    _, _, failure = decoded_reply(trino_service(), b"".join(service.dispatch(good[:-1])))
    assert "trinoListSchemaNames" in failure.message
    assert service.refuse(good[:40], "too large") is not None
    assert service.refuse(b"GET", "too large") is None


def test_requests_are_counted(warehouse: Path) -> None:
    metrics = Metrics()
    service = served(warehouse, metrics=metrics)
    service.rows(service.splits(name="presto"), ["k"], 300)
    with pytest.raises(FailedError):
        service.page(b"x", ["k"])
    told = metrics.text().decode()
    assert 'requests_total{method="GetSplits",outcome="ok",service="trino"} 1.0' in told
    assert f'served_rows_total{{service="trino"}} {ROWS}.0' in told
    assert 'requests_total{method="GetRows",outcome="refused",service="trino"} 1.0' in told


def test_a_service_is_busy_until_splits_are_read(warehouse: Path) -> None:
    service = served(warehouse)
    assert not service.service.busy()
    batch = service.splits()
    assert service.service.busy()
    service.rows(batch, ["k"], 300)
    assert not service.service.busy()
    assert service.service.open_scans == 0


def indexed(service: Service, keys: Any, columns: list[str], constraint: Any = EVERYTHING, **more: Any) -> Any:
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    page = T.TrinoThriftPageResult(keys, more.pop("count"), None)
    token = nullable(more.pop("token", None))
    return service.ask("GetIndexSplits", name, columns, ["k", "day"], page, constraint, 1000, token, **more)


def test_indexable_keys_are_told_where_it_is_asked_for(warehouse: Path) -> None:
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    for pattern, found in (("*", True), ("other.*,db.TRIPS*", True), ("db.other", False), ("trips_1", False)):
        told = served(warehouse, index_joins=pattern).ask("GetTableMetadata", name).tableMetadata.indexableKeys
        assert (told is not None) == found
        if found:
            sets = [set(one) for one in told]
            assert sets == [{"k"}, {"k", "day"}, {"hoodie_record_key"}, {"hoodie_record_key", "day"}]


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
    prices = [block("varchar", ["7.25", "7.250", "nothing"])]  # not an index, and right all the same
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
    for seconds, found in ((0.9, []), (1.1, [(ROWS,)])):
        clock[0] += 0.9
        service.rows(some, ["k"])
        clock[0] += seconds
        assert service.rows(indexed(service, key, ["k"], count=1), ["k"]) == found


@pytest.fixture(scope="module")
def frames(warehouse: Path) -> tuple[TrinoService, list[bytes]]:
    service = served(warehouse).service
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    limit = domain(
        k=points("bigint", 7, 599, null=True),
        day=ranges(between("varchar", "2026-01-02", None, open_ends=True)),
        price=T.TrinoThriftDomain(
            T.TrinoThriftValueSet(
                equatableValueSet=T.TrinoThriftEquatableValueSet(False, [block("varchar", ["7.25"])])
            ),
            False,
        ),
    )
    columns = T.TrinoThriftNullableColumnSet(["k"])
    page = T.TrinoThriftPageResult([block("bigint", [3, 7, None]), block("varchar", ["2026-01-01", None, ""])], 3, None)
    made = [
        ("GetTableMetadata", name),
        ("ListTables", T.TrinoThriftNullableSchemaName("db")),
        ("GetSplits", name, columns, limit, 10, nullable(None)),
        ("GetIndexSplits", name, ["k", "day"], ["k"], page, limit, 10, nullable(None)),
    ]
    found = [call(trino_service(), f"trino{one[0]}", 5, *one[1:]) for one in made]
    batch = decoded_reply(trino_service(), b"".join(service.dispatch(found[2]) or ()))[2].success
    rows_asked = (batch.splits[0].splitId, ["k", "day"], 1000, nullable(None))
    return service, [*found, call(trino_service(), "trinoGetRows", 5, *rows_asked)]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_damaged_frames_are_answered(frames: tuple[TrinoService, list[bytes]], data: st.DataObject) -> None:
    """Whatever a byte becomes: an answer, a refusal, or the end of the connection; never a fault of the service."""
    service, whole = frames
    frame = bytearray(data.draw(st.sampled_from(whole)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(4, len(frame) - 1))
        frame[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        frame = frame[: data.draw(st.integers(0, len(frame)))]
    reply = b"".join(service.dispatch(bytes(frame)) or ())
    assert b"the service failed" not in reply
    if reply:
        decoded_reply(presto_service() if b"presto" in reply[:20] else trino_service(), reply)
