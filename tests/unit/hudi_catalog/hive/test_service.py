"""The service's answers to the storage handler: one snapshot per query, exactly its files, or one clear refusal."""

import copy
import hashlib
import hmac
import os
import shutil
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Table
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive import planning
from hudi_catalog.server.admission import Nonces
from hudi_catalog.server.security import Secret
from table_format.errors import StorageError
from tests.support.hive_client import Asking, RefusedError, T, encoded, frame, read, reply, tree
from tests.support.local_writes import LocalTable
from tests.unit.conftest import GoldenTable

SCHEMA = pa.schema([("k", pa.int64()), ("day", pa.string()), ("Size", pa.float64())])
LOW = tree("OPLessThan", "k", "bigint", 20)
VALUE = b"known to the two of them"


def rows(keys: range, size: float = 0.5) -> pa.Table:
    days = [f"2026-01-0{key % 3 + 1}" for key in keys]
    return pa.table({"k": list(keys), "day": days, "Size": [size] * len(keys)}, SCHEMA)


def create(path: Path, **more: str) -> LocalTable:
    options = {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
        "hoodie.bucket.index.num.buckets": "2",
        **more,
    }
    return LocalTable.create(str(path), SCHEMA, options)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "ware house"


@pytest.fixture
def trips(warehouse: Path) -> LocalTable:
    table = create(warehouse / "trips")
    table.write("insert", rows(range(300)))
    return table


@pytest.fixture
def asking(trips: LocalTable, warehouse: Path) -> Asking:
    return Asking(warehouse)


def keys(asking: Asking, query: str = "q", **fields: Any) -> list[int]:
    return sorted(asking.rows(query=query, **fields)["k"].to_pylist())


def test_a_scan_is_the_files_of_its_plan(asking: Asking) -> None:
    whole = asking.splits()
    assert (whole.version, whole.filesTotal, whole.filesKept, len(whole.splits)) == (3, 6, 6, 6)
    assert all(split.path.startswith(f"file:{asking.warehouse}/trips/2026-01-0") for split in whole.splits)
    assert sorted(read(whole.splits, ["k"])["k"].to_pylist()) == list(range(300))
    day = asking.splits(filter=tree("OPEqual", "day", "string", "2026-01-02"), columns=["k", "day"])
    assert (day.filesTotal, day.filesKept) == (6, 2)
    assert sorted(read(day.splits, ["k"])["k"].to_pylist()) == list(range(1, 300, 3))
    assert asking.splits(filter=tree("OPGreaterThan", "k", "bigint", 10**6)).splits == []


def test_statistics_are_of_the_pinned_snapshot(asking: Asking, trips: LocalTable) -> None:
    pin = asking.pin(query="one")
    trips.write("upsert", rows(range(250, 400)))
    one, two = (
        asking.ask("statistics", asking.request(query=query, pin=at)) for query, at in (("one", pin), ("two", None))
    )
    assert (one.version, one.rows, one.exact, one.files) == (3, 300, True, 6)
    assert (two.rows, two.exact, two.files) == (400, True, 6)
    assert two.bytes == Table.open(trips.client.storage.uri).snapshot().live_bytes > one.bytes
    known = {column.name: column for column in two.columns}
    assert (known["k"].low, known["k"].high, known["k"].distinct, known["k"].nulls) == (0, 399, 400, 0)
    assert (known["day"].distinct, known["size"].low, known["size"].high) == (3, 0.5, 0.5)
    assert known["k"].spread > 0.9, "keys are spread over buckets"
    assert (known["day"].spread, known["size"].spread) == (pytest.approx(1 / 3), 1)


def test_the_log_tells_what_was_received_and_kept(asking: Asking) -> None:
    asking.splits(query="hive_1", filter=LOW, columns=["k"])
    record = asking.log.recent()[0]
    assert record["service"] == "hive"
    assert (record["event"], record["table"], record["query"]) == ("planned", "db.trips", "hive_1")
    assert (record["received"], record["expression"], record["unknown"]) == (LOW, "k < 20", [])
    assert (record["columns"], record["files_in"], record["files_out"], record["splits"]) == (["k"], 6, 6, 6)


def test_a_query_reads_the_snapshot_that_was_pinned(asking: Asking, trips: LocalTable, warehouse: Path) -> None:
    pin = asking.pin(query="one")
    trips.write("upsert", rows(range(250, 400)))
    assert asking.pin(query="two") != pin
    later = Asking(warehouse)  # a service that was restarted, or another one
    for service in (asking, later):
        for query in ("one", "one", "of another name"):
            planned = service.splits(query=query, pin=pin)
            assert planned.pin == pin
            assert sorted(read(planned.splits, ["k"])["k"].to_pylist()) == list(range(300))
    assert keys(later, "three") == list(range(400))


def test_without_a_pin_all_scans_of_a_query_read_one_snapshot(asking: Asking, trips: LocalTable) -> None:
    first = asking.splits(query="one")
    trips.write("upsert", rows(range(250, 400)))
    assert asking.splits(query="one").pin == first.pin == asking.pin(query="one")
    assert keys(asking, "one") == list(range(300))
    assert keys(asking, "two") == list(range(400))
    for method in (asking.pin, asking.splits):
        with pytest.raises(RefusedError, match=r"db\.trips: the request names no query"):
            method(query="")


def test_scans_of_a_query_that_begin_at_once_read_one_snapshot(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    planner, pins, together = asking.service._planner, map(str, count()), Barrier(4, timeout=60)

    def pin(_: Snapshot) -> str:
        together.wait()
        return next(pins)

    monkeypatch.setattr(planner._tables, "pin", pin)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: asking.pin(query="one"), range(4)))) == 1


def test_a_failed_pin_is_not_remembered(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as failing:
        failing.setattr(asking.service._planner._tables, "pin", lambda _: str(1 // 0))
        with pytest.raises(RefusedError):
            asking.pin(query="one")
    assert asking.pin(query="one") == asking.splits(query="one").pin


def test_a_pinned_snapshot_that_is_gone_is_refused(asking: Asking, trips: LocalTable, warehouse: Path) -> None:
    pin = asking.pin()
    for _ in range(3):
        trips.write("upsert", rows(range(300)), {"hoodie.clean.commits.retained": "1"})
    with pytest.raises(RefusedError, match="cleaned away") as refused:
        Asking(warehouse).splits(pin=pin)
    assert not refused.value.retryable
    late = f"{pin.partition('#')[0]}#0123456789abcdef"
    with pytest.raises(RefusedError, match=r"cleaned away|has changed since the query began; run the query again"):
        asking.splits(pin=late)


def test_a_table_without_commits_has_no_files_also_when_it_gets_some(warehouse: Path) -> None:
    empty = create(warehouse / "empty")
    asking = Asking(warehouse)
    pin = asking.pin("empty")
    assert asking.splits("empty", pin=pin).splits == []
    assert Asking(warehouse).splits("empty", pin=pin).splits == []
    empty.write("insert", rows(range(3)))
    assert asking.splits("empty", pin=pin).splits == []
    with pytest.raises(RefusedError, match=r"before its first commit has changed since .*; run the query again"):
        Asking(warehouse).splits("empty", pin=pin)


def test_the_past_by_a_setting(asking: Asking, trips: LocalTable, warehouse: Path) -> None:
    instant = asking.pin().partition("#")[0]
    trips.write("upsert", rows(range(250, 400)))
    past = {"hoodie.catalog.hive.as.of": instant}
    assert keys(asking, "one", settings=past) == list(range(300))
    assert keys(asking, "one") == list(range(400))  # the same query may read the table of now beside it
    assert keys(Asking(warehouse), "one", pin=asking.pin(query="one", settings=past)) == list(range(300))
    with pytest.raises(RefusedError, match="oldest commit"):
        asking.pin(query="two", settings={"hoodie.catalog.hive.as.of": "2001-01-01"})


def test_a_table_is_found_by_any_spelling_of_its_place(asking: Asking, warehouse: Path) -> None:
    for location in (f"file://{warehouse}/trips", f"file:{warehouse}/trips/", f"{warehouse}/trips"):
        planned = asking.splits(location=location)
        assert all(split.path.startswith(f"{location.rstrip('/')}/2026") for split in planned.splits)
        assert len(planned.splits) == 6
    hdfs = Asking(warehouse, locations=f"file://{warehouse}=hdfs://nn:8020/lake")
    planned = hdfs.splits(location="hdfs://nn:8020/lake/trips")
    assert all(split.path.startswith("hdfs://nn:8020/lake/trips/2026-01-0") for split in planned.splits)
    alone = Asking(f"{warehouse}/trips")
    assert len(alone.splits("").splits) == 6


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("file:{}/absent", "absent"),
        ("file:{}", "no Hudi table"),
        ("file:{}/../elsewhere", r"without \. and \.\."),
        ("file:{}house/trips", "is not in the warehouse"),
        ("file:/", "is not in the warehouse"),
        ("s3a://bucket/trips", "set hoodie.catalog.hive.locations"),
        ("file:{}/trips/.hoodie/metadata", "hidden"),
        ("", "is not in the warehouse"),
    ],
)
def test_places_without_a_table_are_refused(asking: Asking, warehouse: Path, location: str, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as refused:
        asking.splits(location=location.format(warehouse))
    assert not refused.value.retryable
    assert asking.log.recent()[0]["event"] == "refused"


def test_an_unsupported_table_is_refused_by_our_message(asking: Asking, warehouse: Path) -> None:
    odd = warehouse / "odd/.hoodie"
    odd.mkdir(parents=True)
    (odd / "hoodie.properties").write_text("hoodie.table.name=odd\nhoodie.table.version=99\n")
    for method in (asking.pin, asking.splits):
        with pytest.raises(RefusedError, match="99"):
            method("odd")


def test_a_storage_that_fails_may_work_again(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise StorageError("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr("catalog.table.Table.refresh", broken)
        with pytest.raises(RefusedError, match="the storage is away") as refused:
            asking.pin()
    assert refused.value.retryable
    assert asking.pin()

    def bug(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr("hudi_catalog.hive.planning.make_plan", bug)
    with pytest.raises(RefusedError, match="the service failed; its log says why") as failed:
        asking.splits()
    assert not failed.value.retryable


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hoodie.catalog.hive.query.typ": "snapshot"}, "no such option of a table in Hive"),
        ({"hoodie.catalog.hive.query.type": "newest"}, "neither snapshot nor read_optimized"),
        ({"hoodie.catalog.hive.materialize": "perhaps"}, "give true or false"),
        ({"hoodie.catalog.hive.as.of": "yesterday"}, "yesterday"),
        ({"hoodie.catalog.hive.columns": "k,day", "hoodie.catalog.hive.columns.types": "int"}, "2 columns and 1 types"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(asking: Asking, settings: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        asking.splits(settings=settings)
    known = {"service": "h:1", "timeout.seconds": "5", "tls": "true", "query.type": "SNAPSHOT"}
    assert len(asking.splits(settings={f"hoodie.catalog.hive.{key}": value for key, value in known.items()}).splits)


def test_what_is_remembered_of_a_query_is_small(asking: Asking) -> None:
    long = "q" * 1_000_000
    assert asking.pin(query=long) == asking.pin(query=long)
    leases = asking.service._planner._leases
    assert len(leases) == 1
    assert len(repr(leases.items())) < 10_000


def entry(columns: str, types: str) -> dict[str, str]:
    return {"hoodie.catalog.hive.columns": columns, "hoodie.catalog.hive.columns.types": types}


def test_columns_that_hive_would_read_as_others_are_refused(asking: Asking, trips: LocalTable) -> None:
    right = entry("_hoodie_commit_time,k,day,size", "string:bigint:varchar(20):DOUBLE")
    assert len(asking.splits(settings=right).splits) == 6
    narrow = entry("k,day,size", "int:string:double")
    with pytest.raises(RefusedError, match=r"db\.trips: column k is int in Hive and bigint in trips of \d+; run"):
        asking.splits(settings=narrow)
    assert len(asking.splits(settings=narrow, columns=["day"]).splits) == 6
    assert len(asking.splits(settings=narrow, columns=[]).splits) == 6
    gone = entry("k,old", "bigint:string")
    with pytest.raises(RefusedError, match="column old is not in trips"):
        asking.splits(settings=gone, columns=["old"])
    assert len(asking.splits(settings=gone, columns=["k"]).splits) == 6


@pytest.mark.slow
def test_splits_are_as_large_as_hive_and_the_option_allow(
    asking: Asking, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = create(warehouse / "large", **{"hoodie.parquet.block.size": "4096", "hoodie.bucket.index.num.buckets": "1"})
    large.write("bulk_insert", rows(range(8_000)))
    monkeypatch.setattr(planning, "_LEAST_SPLIT", 1)
    files = len(asking.splits("large").splits)
    wanted = list(range(8_000))
    for service, asked in ((asking, 8_000), (Asking(warehouse, split_size="8000"), 10**9), (asking, 1), (asking, -5)):
        splits = service.splits("large", splitBytes=asked).splits
        assert len(splits) >= 2 * files
        assert sorted(read(splits, ["k"])["k"].to_pylist()) == wanted
    monkeypatch.setattr("catalog.splits.splitter._PRUNE_BYTES", 1)
    few = Asking(warehouse).splits("large", filter=tree("OPLessThan", "_hoodie_record_key", "string", "1000"))
    kept = read(few.splits, ["k"])["k"].to_pylist()
    assert {0, 1, 10, 100} <= set(kept)
    assert len(kept) < 4_000


def test_newer_versions_are_refused_by_number(asking: Asking) -> None:
    for version in (0, -1, 4, 100):
        with pytest.raises(RefusedError, match=rf"speaks version {version}, and this service 3; .*hive-jar"):
            asking.ask("splits", asking.request(version=version))
    parts = asking.service.dispatch(frame("pin", None))
    assert parts is not None
    assert "no request" in reply("pin", b"".join(parts)).refusal.message


def signed(
    request: Any,
    method: str,
    value: bytes = VALUE,
    off: float = 0,
    nonce: bytes | None = None,
    purpose: bytes = b"hudi-catalog 3",
) -> Any:
    """As the contract's remarks say it, without the code of the service."""
    moment, nonce = int((time.time() + off) * 1000), os.urandom(16) if nonce is None else nonce
    payload = struct.pack(">q", moment) + nonce + struct.pack(">i", len(method)) + method.encode() + encoded(request)
    key = hmac.new(value, purpose, hashlib.sha256).digest()
    return T.Credential(moment, hmac.new(key, payload, hashlib.sha256).digest(), nonce)


def test_only_who_knows_the_secret_is_answered(trips: LocalTable, warehouse: Path) -> None:
    asking = Asking(warehouse, secret=Secret(VALUE))
    request = asking.request(filter=LOW, table="db.tägliche")
    for method in ("pin", "splits"):
        assert asking.ask(method, request, signed(request, method))
        with pytest.raises(RefusedError, match=r"asks for the shared secret; set hoodie\.catalog\.hive\.secret\.file"):
            asking.ask(method, request)
    wrong = "Hive's secret is not the service's"
    for credential in (
        signed(request, "pin"),
        signed(request, "splits", b"some other secret"),
        T.Credential(int(time.time() * 1000), b""),
        signed(asking.request(filter=LOW, pin="x"), "splits"),
        signed(request, "splits", nonce=b"short"),
        signed(request, "splits", nonce=b""),
    ):
        with pytest.raises(RefusedError, match=wrong):
            asking.ask("splits", request, credential)
    for off in (-400, 400):
        with pytest.raises(
            RefusedError, match=rf"signed [+-]?{abs(off)} s from the service's time; synchronize the clocks"
        ):
            asking.ask("splits", request, signed(request, "splits", off=off))
    assert asking.ask("splits", request, signed(request, "splits", off=200)).splits


def test_a_signed_request_is_answered_as_it_was_signed_and_once(trips: LocalTable, warehouse: Path) -> None:
    asking = Asking(warehouse, secret=Secret(VALUE))
    whole = {
        "pin": asking.ask("pin", (first := asking.request()), signed(first, "pin")),
        "filter": LOW,
        "columns": ["k"],
        "settings": {"hoodie.catalog.hive.query.type": "read_optimized"},
        "zoneOffsets": "0",
        "splitBytes": 10**9,
    }
    changed = {
        "location": f"file:{warehouse}/./trips",
        "table": "db.other",
        "queryId": "other",
        "pin": None,
        "filter": tree("OPLessThan", "k", "bigint", -1),
        "columns": ["v"],
        "settings": {"hoodie.catalog.hive.as.of": "20200101"},
        "timeZone": "Asia/Tokyo",
        "splitBytes": 1,
        "zoneOffsets": "3600",
    }
    request = asking.request(**whole)
    credential = signed(request, "splits")
    fields = {spec[1] for spec in T.ScanRequest.thrift_spec.values()}
    assert fields == {"version", *changed}, "a new field of the contract: is it signed?"
    for name, value in changed.items():
        tampered = copy.copy(request)
        setattr(tampered, name, value)
        with pytest.raises(RefusedError, match="or the request was changed in transit"):
            asking.ask("splits", tampered, credential)
    without = frame("splits", request, credential)
    unknown = b"\x0b\x00\x63\x00\x00\x00\x01x"  # field 99, a string
    head = without.index(encoded(request))
    parts = asking.service.dispatch(without[:head] + unknown + without[head:])
    assert parts is not None
    assert "changed in transit" in reply("splits", b"".join(parts)).refusal.message
    assert asking.ask("splits", request, credential).splits
    with pytest.raises(RefusedError, match="the same signed request was received before"):
        asking.ask("splits", request, credential)
    assert asking.ask("splits", request, signed(request, "splits")).splits


def test_nonces_are_kept_while_their_signatures_are_good() -> None:
    nonces, minute = Nonces(), 60_000
    assert nonces.is_new(b"a", 100 * minute)
    assert nonces.is_new(b"b", 109 * minute)
    assert not nonces.is_new(b"b", 118 * minute)
    assert not nonces.is_new(b"b", 109 * minute + 10 * minute)
    for later in range(120, 200):
        assert nonces.is_new(str(later).encode(), later * minute)
    assert nonces.is_new(b"a", 200 * minute), "they go in the end"


def test_handlers_of_version_1_are_answered_where_nothing_is_signed(
    asking: Asking, trips: LocalTable, warehouse: Path
) -> None:
    old = asking.request(version=1)
    assert asking.ask("splits", old).version == 1
    guarded = Asking(warehouse, secret=Secret(VALUE))
    for credential in (None, signed(old, "splits"), T.Credential(int(time.time() * 1000), b"x" * 32)):
        with pytest.raises(RefusedError, match=r"speaks version 1, whose signature leaves out parts.*jar of version 3"):
            guarded.ask("splits", old, credential)


def test_handlers_of_version_2_are_answered_by_what_they_sign(
    asking: Asking, trips: LocalTable, warehouse: Path
) -> None:
    old = asking.request(version=2)
    guarded = Asking(warehouse, secret=Secret(VALUE))
    assert guarded.ask("splits", old, signed(old, "splits", purpose=b"hive 2")).version == 2
    new = asking.request()
    for request, purpose in ((old, b"hudi-catalog 3"), (new, b"hive 2")):
        with pytest.raises(RefusedError, match="Hive's secret is not the service's"):
            guarded.ask("splits", request, signed(request, "splits", purpose=purpose))


def test_a_call_of_trinos_connector_is_told_where_to_go(asking: Asking) -> None:
    parts = asking.service.dispatch(frame("hudiTables", T.ConnectorRequest(3, "{}")))
    assert parts is not None
    assert "Trino's connector asks `hudi-catalog serve trino`" in reply("hudiTables", b"".join(parts)).refusal.message


def test_merge_on_read_tables_are_read_optimised_unless_told_otherwise(golden: Callable[[str], GoldenTable]) -> None:
    folder = Path(golden("v9_1200__mor_bkt").path)
    asking = Asking(folder.parent)
    table = Table.open(str(folder))
    base, whole = table.snapshot(None, "read_optimized"), table.snapshot()
    assert whole.has_logs[whole.live_rows].any()
    planned = asking.splits(folder.name, "one")
    wanted = base.take_files(base.live_rows)["path"].to_pylist()
    assert sorted(split.path.split(f"/{folder.name}/")[1] for split in planned.splits) == sorted(map(str, wanted))
    snapshot = {"hoodie.catalog.hive.query.type": "snapshot", "hoodie.catalog.hive.materialize": "false"}
    with pytest.raises(RefusedError):
        asking.splits(folder.name, "two", settings=snapshot)
    assert asking.pin(folder.name, "two", settings=snapshot) == planned.pin


def test_a_table_that_moved_is_found_again(asking: Asking, warehouse: Path) -> None:
    asking.pin()
    shutil.move(warehouse / "trips", warehouse / "moved")
    with pytest.raises(RefusedError):
        asking.pin(query="two")
    os.rename(warehouse / "moved", warehouse / "trips")
    assert keys(asking, "three") == list(range(300))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_frames_get_an_answer_or_none(data: st.DataObject) -> None:
    service = Asking("/tmp").service
    whole = frame("splits", T.ScanRequest(1, "file:/x", "t", "q", "p", LOW, ["k"], {"a": "b"}, "UTC", 5))
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = data.draw(
        st.sampled_from([whole[:at], whole[:at] + data.draw(st.binary(min_size=1, max_size=8)) + whole[at + 1 :]])
    )
    parts = service.dispatch(damaged)
    assert parts is None or b"".join(parts)[:2] == b"\x80\x01"
