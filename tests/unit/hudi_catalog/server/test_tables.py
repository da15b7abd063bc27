"""Tables that a service holds: always the newest state, and for running queries the state that they began with."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Catalog, Table
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.server.options import ServiceOptions
from hudi_catalog.server.tables import WarehouseTables
from table_format.errors import CorruptFileError, ServiceError, SplitError, StorageError, TableNotFoundError
from tests.support.local_writes import LocalTable
from tests.support.waiting import until

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64())])
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.bucket.index.num.buckets": "2",
}


def rows(first: int, last: int) -> pa.Table:
    return pa.table({"k": list(range(first, last)), "x": [float(key) for key in range(first, last)]}, SCHEMA)


def keys(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.take_files(snapshot.live_rows)["path"].to_pylist())


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def trips(warehouse: Path) -> LocalTable:
    table = LocalTable.create(str(warehouse / "db/trips"), SCHEMA, OPTIONS)
    table.write("insert", rows(0, 10))
    return table


@pytest.fixture
def tables(trips: LocalTable, warehouse: Path) -> WarehouseTables:
    return WarehouseTables(Catalog(str(warehouse)))


def reopened(tables: WarehouseTables, **options: int) -> WarehouseTables:
    return WarehouseTables(tables.warehouse, ServiceOptions(**options))


def test_the_newest_state_has_every_commit_before_the_call(tables: WarehouseTables, trips: LocalTable) -> None:
    seen = []
    for number in range(4):
        table, snapshot = tables.newest("db.trips")
        assert keys(snapshot) == keys(Table.open(table.client.storage.uri).snapshot())
        seen.append(snapshot)
        trips.write("upsert", rows(number, 20 + number))
    assert len({snapshot.instant for snapshot in seen}) == 4
    table, newest = tables.newest("db.trips")
    assert tables.newest("db.trips") == (table, newest)
    assert tables.table("db.trips") is table


def test_a_pinned_state_stays_while_the_table_goes_on(tables: WarehouseTables, trips: LocalTable) -> None:
    _, began = tables.newest("db.trips")
    pin = tables.pin(began)
    files = keys(began)
    assert pin.startswith(f"{began.instant}#")
    for number in range(3):
        trips.write("upsert", rows(0, 20 + number))
        tables.newest("db.trips")
    assert tables.at("db.trips", pin) is began
    # a service that was restarted, or one that holds few snapshots, loads it again
    for others in (reopened(tables), reopened(tables, snapshots=1)):
        again = others.at("db.trips", pin)
        assert keys(again) == files
        assert again.instant == began.instant
        assert keys(others.newest("db.trips")[1]) != files
        assert keys(others.at("db.trips", pin)) == files


def test_a_state_by_its_instant_or_a_time(tables: WarehouseTables, trips: LocalTable) -> None:
    _, began = tables.newest("db.trips")
    time.sleep(0.01)
    trips.write("upsert", rows(0, 20))
    _, now = tables.newest("db.trips")
    assert began.instant is not None
    assert now.instant is not None
    assert tables.at("db.trips", began.instant) is began
    assert tables.at("db.trips", now.instant) is now
    assert tables.at("db.trips", "29990101000000000") is now
    assert keys(reopened(tables).at("db.trips", began.instant)) == keys(began)
    with pytest.raises(SplitError, match=r"db\.trips: .*oldest commit"):
        tables.at("db.trips", "20010101000000000")
    with pytest.raises(SplitError, match=r"db\.trips: .*yesterday"):
        tables.at("db.trips", "yesterday")


def hidden(trips: LocalTable, instant: str) -> Callable[[], None]:
    """Take the completion of a commit away for a while, as if it came later; returns what brings it back."""
    folder = os.path.join(trips.client.storage.uri.removeprefix("file://"), trips.client.config.timeline_folder)
    (name,) = [name for name in os.listdir(folder) if name.startswith(instant) and name.endswith("commit")]
    away = folder.replace(".hoodie", ".away")
    os.makedirs(away, exist_ok=True)
    shutil.move(f"{folder}/{name}", f"{away}/{name}")
    return lambda: shutil.move(f"{away}/{name}", f"{folder}/{name}") and None


def test_a_write_that_completes_late_does_not_slip_into_a_pinned_state(trips: LocalTable, warehouse: Path) -> None:
    """Its instant is before the one that the query began with, so an instant alone would not tell."""
    trips.write("upsert", rows(5, 15))
    late = Table.open(trips.client.storage.uri).snapshot().instant
    trips.write("upsert", rows(20, 21))  # goes to one of the two buckets
    assert late is not None
    bring_back = hidden(trips, late)
    # the metadata table knows of the commit; without it, the timeline alone tells
    shutil.rmtree(warehouse / "db/trips/.hoodie/metadata")
    tables = WarehouseTables(Catalog(str(warehouse)))
    _, began = tables.newest("db.trips")
    pin = tables.pin(began)
    bring_back()
    _, now = tables.newest("db.trips")
    assert now.instant == began.instant
    assert keys(now) != keys(began)
    assert tables.pin(now) != pin
    assert tables.at("db.trips", pin) is began
    assert tables.at("db.trips", tables.pin(now)) is now
    with pytest.raises(SplitError, match="has changed since the query began; run the query again"):
        reopened(tables).at("db.trips", pin)


@pytest.mark.slow
def test_nor_does_one_that_completes_after_many_others(trips: LocalTable, warehouse: Path) -> None:
    trips.write("upsert", rows(5, 15))
    late = Table.open(trips.client.storage.uri).snapshot().instant
    assert late is not None
    for _ in range(12):
        trips.write("upsert", rows(20, 21), {"hoodie.clean.automatic": "false"})
    bring_back = hidden(trips, late)
    shutil.rmtree(warehouse / "db/trips/.hoodie/metadata")
    tables = WarehouseTables(Catalog(str(warehouse)))
    _, began = tables.newest("db.trips")
    pin = tables.pin(began)
    assert keys(reopened(tables).at("db.trips", pin)) == keys(began)
    bring_back()
    _, now = tables.newest("db.trips")
    assert keys(now) != keys(began)
    assert tables.pin(now) != pin
    assert tables.at("db.trips", pin) is began
    with pytest.raises(SplitError, match="has changed since the query began; run the query again"):
        reopened(tables).at("db.trips", pin)


def test_a_state_that_was_cleaned_away_is_a_split_error(tables: WarehouseTables, trips: LocalTable) -> None:
    _, began = tables.newest("db.trips")
    for _ in range(3):
        trips.write("upsert", rows(0, 20), {"hoodie.clean.commits.retained": "1"})
    with pytest.raises(SplitError, match=r"db\.trips: .*cleaned away"):
        reopened(tables).at("db.trips", tables.pin(began))


def test_few_snapshots_and_tables_are_held(warehouse: Path, trips: LocalTable) -> None:
    for name in ("one", "two"):
        LocalTable.create(str(warehouse / name), SCHEMA, {**OPTIONS, "hoodie.table.name": name})
    tables = WarehouseTables(Catalog(str(warehouse)), ServiceOptions(open_tables=2, snapshots=2))
    for _ in range(2):
        for name in tables.names():
            tables.newest(name)
            assert len(tables) <= 2
    pins = []
    for number in range(4):
        trips.write("upsert", rows(0, 20 + number))
        pins.append(tables.pin(tables.newest("db.trips")[1]))
    cached = tables._cached.get("db.trips")
    assert cached is not None
    assert [pin for pin in pins if ("snapshot", pin) in cached.snapshots] == pins[-2:]


def test_names_are_those_of_the_warehouse(warehouse: Path, trips: LocalTable) -> None:
    LocalTable.create(str(warehouse / "Alone"), SCHEMA, {**OPTIONS, "hoodie.table.name": "alone"})
    odd = warehouse / "db/odd/.hoodie"
    odd.mkdir(parents=True)
    (odd / "hoodie.properties").write_text("hoodie.table.version=8\n")
    tables = WarehouseTables(Catalog(str(warehouse)))
    assert tables.names() == ["Alone", "db.trips"]
    assert tables.newest("Alone")[1].instant is None
    assert tables.uri.endswith("/warehouse")
    with pytest.raises(CorruptFileError, match=r"hoodie\.table\.name is missing"):
        tables.newest("db.odd")
    for name in ("trips", "db", "alone", "", "db/trips", "../warehouse/db/trips", "db.trips@2026"):
        with pytest.raises(TableNotFoundError, match="there is no table"):
            tables.newest(name)


def test_two_folders_of_one_name_are_told_apart_by_nobody(warehouse: Path, trips: LocalTable) -> None:
    shutil.copytree(warehouse / "db/trips", warehouse / "db.db/trips")
    tables = WarehouseTables(Catalog(str(warehouse)))
    assert tables.names() == ["db.trips"]
    with pytest.raises(TableNotFoundError, match=r"(db|db\.db)/trips and (db|db\.db)/trips are both db\.trips"):
        tables.newest("db.trips")


def test_a_table_that_is_new_or_gone_or_moved(tables: WarehouseTables, trips: LocalTable, warehouse: Path) -> None:
    assert tables.names() == ["db.trips"]
    before = keys(tables.newest("db.trips")[1])
    LocalTable.create(str(warehouse / "new"), SCHEMA, {**OPTIONS, "hoodie.table.name": "new"})
    assert tables.names() == ["db.trips"]
    assert tables.names(fresh=True) == ["db.trips", "new"]
    LocalTable.create(str(warehouse / "newer"), SCHEMA, {**OPTIONS, "hoodie.table.name": "newer"})
    assert tables.newest("newer")[1].instant is None  # a name that is not known is looked for again
    shutil.move(warehouse / "db", warehouse / "db.db")
    assert keys(tables.newest("db.trips")[1]) == before
    assert tables.table("db.trips").client.storage.uri.endswith("db.db/trips")
    shutil.rmtree(warehouse / "db.db")
    with pytest.raises(TableNotFoundError, match=r"there is no table db\.trips"):
        tables.newest("db.trips")
    assert tables.names() == ["new", "newer"]


def test_a_warehouse_that_is_not_there_is_an_error_each_time(tmp_path: Path) -> None:
    tables = WarehouseTables(Catalog(str(tmp_path / "missing")))
    for ask in (tables.names, lambda: tables.newest("t"), tables.names):
        with pytest.raises(ServiceError, match=r"the service's warehouse is gone: .*no such folder; mount it again"):
            ask()


class CountedRefresh:
    """Counts the refreshes of tables, which last until so many callers have come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, callers: int) -> None:
        self.came = 0
        self.count = 0
        self.running = 0
        self.most = 0
        real = Table.refresh

        def refresh(table: Table) -> Table:
            self.count += 1
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                until(lambda: self.came >= callers)
                time.sleep(0.05)  # until the last of them waits
                return real(table)
            finally:
                self.running -= 1

        monkeypatch.setattr(Table, "refresh", refresh)


def test_callers_that_come_together_share_a_refresh(tables: WarehouseTables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables.newest("db.trips")
    counted = CountedRefresh(monkeypatch, 16)

    def ask(_: int) -> object:
        counted.came += 1
        return tables.newest("db.trips")[1]

    with ThreadPoolExecutor(16) as pool:
        snapshots = list(pool.map(ask, range(16)))
    assert len(set(map(id, snapshots))) == 1
    assert counted.most == 1
    assert counted.count <= 4  # the first one's, and one for those that came while it ran


def test_a_refresh_that_began_before_a_commit_does_not_serve_a_call_after_it(
    tables: WarehouseTables, trips: LocalTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.newest("db.trips")
    real, looked, go_on = Table.refresh, threading.Event(), threading.Event()

    def slow_once(table: Table) -> Table:
        done = real(table)
        if not looked.is_set():
            looked.set()
            assert go_on.wait(20)
        return done

    monkeypatch.setattr(Table, "refresh", slow_once)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(tables.newest, "db.trips")
        assert looked.wait(20)
        trips.write("upsert", rows(0, 20))
        late = pool.submit(tables.newest, "db.trips")
        time.sleep(0.05)
        go_on.set()
        assert late.result(20)[1].instant == Table.open(trips.client.storage.uri).snapshot().instant
        assert early.result(20)[1].instant is not None


def test_a_pinned_state_is_found_while_the_storage_is_slow(
    tables: WarehouseTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, began = tables.newest("db.trips")
    entered, go_on = threading.Event(), threading.Event()

    def stuck(table: Table) -> Table:
        entered.set()
        assert go_on.wait(20)
        return table

    monkeypatch.setattr(Table, "refresh", stuck)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(tables.newest, "db.trips")
        assert entered.wait(20)
        assert tables.at("db.trips", tables.pin(began)) is began
        go_on.set()
        assert waiting.result(20)[1] is began


def test_a_refresh_that_failed_is_tried_again(tables: WarehouseTables, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a file of the timeline is archived between the listing and the reading."""
    _, began = tables.newest("db.trips")
    real, failures = Table.refresh, [StorageError("a hiccup")]

    def refresh(table: Table) -> Table:
        if failures:
            raise failures.pop()
        return real(table)

    monkeypatch.setattr(Table, "refresh", refresh)
    assert keys(tables.newest("db.trips")[1]) == keys(began)
    failures += [StorageError("for long"), StorageError("for long")]
    with pytest.raises(StorageError, match="for long"):
        tables.newest("db.trips")
    assert keys(tables.newest("db.trips")[1]) == keys(began)


def test_a_state_may_be_kept_for_a_while(tables: WarehouseTables, trips: LocalTable) -> None:
    patient = reopened(tables, refresh_interval=60_000)
    _, began = patient.newest("db.trips")
    trips.write("upsert", rows(0, 20))
    assert patient.newest("db.trips")[1] is began
    assert tables.newest("db.trips")[1].instant != began.instant


@pytest.mark.slow
def test_readers_beside_a_writer_see_committed_states_only(tables: WarehouseTables, trips: LocalTable) -> None:
    stop = threading.Event()
    seen: dict[str, set[tuple[str, ...]]] = {}

    def read() -> None:
        while not stop.is_set():
            _, snapshot = tables.newest("db.trips")
            again = tables.at("db.trips", tables.pin(snapshot))
            assert keys(again) == keys(snapshot)
            seen.setdefault(str(snapshot.instant), set()).add(tuple(keys(snapshot)))

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        for number in range(6):
            trips.write("upsert", rows(number, 20 + number), {"hoodie.clean.commits.retained": "2"})
        stop.set()
        for reader in readers:
            reader.result(30)
    assert all(len(files) == 1 for files in seen.values())
    newest = Table.open(trips.client.storage.uri).snapshot()
    assert keys(tables.newest("db.trips")[1]) == keys(newest)
