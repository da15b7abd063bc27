"""Registered tables as the gateway uses them."""

import dataclasses
import itertools
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog import Table
from catalog.concurrency.late_tables import LateTables
from hudi_catalog.metastore import trino_tables
from hudi_catalog.metastore.entries import ENTRY_ID
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.manifests import ManifestFolder
from hudi_catalog.metastore.metastore import SYMLINK_FORMAT, HiveTable
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from hudi_catalog.server.metrics import Metrics
from table_format.errors import HudiError, MetastoreError, ServiceError
from table_format.storage import Storage
from tests.support.local_writes import LocalTable
from tests.support.waiting import until
from tests.unit.hudi_catalog.metastore.conftest import rows
from tests.unit.hudi_catalog.metastore.test_trino_sync import files_of, listed

Opened = Callable[[], Table]
ALWAYS = SyncOptions(entry_age=0.0)


@pytest.fixture
def tables(opened: Opened, metastore: FileMetastore) -> TrinoTables:
    sync_to_trino(opened(), metastore)
    return TrinoTables(metastore, ALWAYS)


def test_only_registered_tables_are_found(tables: TrinoTables, metastore: FileMetastore) -> None:
    metastore.put_table(HiveTable("db", "plain", (), "file:///x", SYMLINK_FORMAT, {}))
    assert tables.find("DB", "TRIPS") is not None
    assert tables.find("db", "plain") is None
    assert tables.find("db", "nothing") is None
    assert tables.find("nothing", "trips") is None
    synced = tables.find("db", "trips")
    pinned = tables.pin(synced, tables.newest(synced))
    assert tables.find(*pinned) is None, "a pinned snapshot is not a table that moves on"


@pytest.mark.parametrize("number", ["../../elsewhere", "", "x", None])
def test_an_entry_cannot_name_another_folder(tables: TrinoTables, metastore: FileMetastore, number: str | None) -> None:
    entry = metastore.table("db", "trips")
    others = {key: value for key, value in entry.parameters.items() if key != ENTRY_ID}
    changed = others if number is None else {**others, ENTRY_ID: number}
    metastore.put_table(dataclasses.replace(entry, parameters=changed))
    assert tables.find("db", "trips") is None


def test_an_entry_is_believed_for_a_while(
    opened: Opened, metastore: FileMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_to_trino(opened(), metastore)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tables = TrinoTables(metastore, SyncOptions(entry_age=20))
    assert tables.find("db", "trips") is not None
    metastore.drop_table("db", "trips")
    now += 19
    assert tables.find("db", "trips") is not None
    now += 2
    assert tables.find("db", "trips") is None


def test_a_pin_goes_on_listing_its_files(
    tables: TrinoTables, written: LocalTable, opened: Opened, metastore: FileMetastore
) -> None:
    synced = tables.find("db", "trips")
    first = tables.newest(synced)
    schema, name = tables.pin(synced, first)
    assert schema == "db__snapshots"
    assert name.startswith(f"trips__{first.instant}__")
    before = listed(metastore.table(schema, name))
    assert sorted(before) == files_of(opened())
    written.write("upsert", rows(5, 10))
    second = tables.newest(synced)
    assert second.instant != first.instant
    other = tables.pin(synced, second)
    assert other != (schema, name)
    assert listed(metastore.table(schema, name)) == before
    assert sorted(listed(metastore.table(*other))) == files_of(opened())
    assert tables.pin(synced, first) == (schema, name)


def test_some_files(tables: TrinoTables, metastore: FileMetastore) -> None:
    synced = tables.find("db", "trips")
    snapshot = tables.newest(synced)
    few = snapshot.live_rows[[2, 0]]
    paths = tables.path_column(synced, snapshot, few).to_pylist()
    assert paths == [files_listed(tables)[2], files_listed(tables)[0]]
    assert listed(metastore.table(*tables.pin(synced, snapshot, few))) == paths
    none = np.array([], np.int64)
    assert tables.path_column(synced, snapshot, none).to_pylist() == []
    assert listed(metastore.table(*tables.pin(synced, snapshot, none))) == []
    assert len({tables.pin(synced, snapshot, at) for at in (None, few, few[::-1], none)}) == 4


def files_listed(tables: TrinoTables) -> list[str]:
    synced = tables.find("db", "trips")
    paths: list[str] = tables.path_column(synced, tables.newest(synced)).to_pylist()
    return paths


def test_a_commit_that_completes_late_is_another_state(
    tables: TrinoTables, written: LocalTable, metastore: FileMetastore
) -> None:
    """Instants are taken when commits begin, so the newest may stay the same while files come."""
    synced = tables.find("db", "trips")
    written.write("upsert", rows(0, 1))
    written.write("upsert", rows(1, 1))
    timeline = Path(written.client.storage.base, ".hoodie")
    late = sorted(path for path in timeline.iterdir() if path.suffix in {".commit", ".deltacommit"})[1]
    os.rename(late, tmp := late.with_name("hidden"))
    without = TrinoTables(metastore, ALWAYS)
    early = without.find("db", "trips")
    state = without.newest(early)
    pinned = without.pin(early, state)
    os.rename(tmp, late)
    now = tables.newest(synced)
    assert now.instant == state.instant
    assert tables.pin(synced, now) != pinned
    assert set(listed(metastore.table(*pinned))) != set(listed(metastore.table(*tables.pin(synced, now))))
    without.point_at(early, state)
    entry = tables.point_at(synced, now)
    assert sorted(listed(entry)) == sorted(tables.path_column(synced, now).to_pylist())


def test_the_entry_follows_commits(
    tables: TrinoTables, written: LocalTable, opened: Opened, metastore: FileMetastore
) -> None:
    synced = tables.find("db", "trips")
    unchanged = tables.point_at(synced, tables.newest(synced))
    assert unchanged == synced.entry
    written.write("insert", rows(100, 10))
    tables.point_at(synced, tables.newest(synced))
    assert sorted(listed(metastore.table("db", "trips"))) == files_of(opened())
    assert sync_to_trino(opened(), metastore).changes == ()


def test_who_lags_behind_does_not_move_the_entry_back(
    tables: TrinoTables, written: LocalTable, opened: Opened, metastore: FileMetastore
) -> None:
    lagging = TrinoTables(metastore, ALWAYS)
    slow = lagging.find("db", "trips")
    old = lagging.newest(slow)
    written.write("insert", rows(100, 10))
    synced = tables.find("db", "trips")
    tables.point_at(synced, tables.newest(synced))
    lagging.point_at(slow, old)
    assert sorted(listed(metastore.table("db", "trips"))) == files_of(opened())


def test_an_entry_that_was_changed_meanwhile_is_looked_at_again(
    tables: TrinoTables, written: LocalTable, opened: Opened, metastore: FileMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves the entry between our look and our change."""
    remembering = TrinoTables(metastore, SyncOptions(entry_age=1000.0))
    synced = remembering.find("db", "trips")
    written.write("insert", rows(100, 10))
    state = remembering.newest(synced)
    written.write("insert", rows(200, 10))
    tables.point_at(tables.find("db", "trips"), tables.newest(tables.find("db", "trips")))
    puts: list[HiveTable] = []
    monkeypatch.setattr(metastore, "put_table", puts.append)
    remembering.point_at(synced, state)
    assert puts == []
    assert sorted(listed(metastore.table("db", "trips"))) == files_of(opened())


def test_a_table_that_is_no_longer_registered(tables: TrinoTables, metastore: FileMetastore) -> None:
    synced = tables.find("db", "trips")
    snapshot = tables.newest(synced)
    metastore.drop_table("db", "trips")
    with pytest.raises(MetastoreError, match=r"db\.trips"):
        tables.point_at(synced, snapshot)


def test_a_table_that_is_gone_says_so(
    tables: TrinoTables, written: LocalTable, metastore: FileMetastore, tmp_path: Path
) -> None:
    os.rename(written.client.storage.base, tmp_path / "moved")
    with pytest.raises(HudiError, match="no Hudi table here"):
        TrinoTables(metastore, ALWAYS).find("db", "trips")


def test_files_with_logs_are_not_listed(copied: Any, metastore: FileMetastore) -> None:
    table = Table.open(copied("v9_1200__mor_log"))
    done = sync_to_trino(table, metastore)
    tables = TrinoTables(metastore, ALWAYS)
    synced = tables.find(done.schema, done.name)
    assert not tables.newest(synced).has_logs.any()
    assert tables.newest(synced) is tables.newest(synced), "nothing is loaded again when nothing changed"
    with pytest.raises(ServiceError, match="logs change its files"):
        tables.pin(synced, table.snapshot())


def test_many_at_once(tables: TrinoTables, written: LocalTable, metastore: FileMetastore) -> None:
    """Threads and processes pin and move while a writer commits: every entry lists one committed state."""
    states: set[tuple[str, ...]] = set()
    problems: list[BaseException] = []
    done = threading.Event()

    def work(own: TrinoTables) -> None:
        try:
            synced = own.find("db", "trips")
            while not done.is_set():
                snapshot = own.newest(synced)
                pinned = metastore.table(*own.pin(synced, snapshot))
                assert listed(pinned) == own.path_column(synced, snapshot).to_pylist()
                states.add(tuple(sorted(listed(own.point_at(synced, snapshot)))))
                own.clean(synced)
        except BaseException as error:
            problems.append(error)

    own = [tables, tables, TrinoTables(metastore), TrinoTables(metastore, ALWAYS)]
    threads = [threading.Thread(target=work, args=(one,)) for one in own]
    for thread in threads:
        thread.start()
    committed = {tuple(sorted(files_of(Table.open(written.client.storage.uri))))}
    for start in (0, 10):
        written.write("upsert", rows(start, 10))
        newest = tuple(sorted(files_of(Table.open(written.client.storage.uri))))
        committed.add(newest)
        while newest not in states and not problems:
            time.sleep(0.01)
    done.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert states <= committed
    assert len(states) >= 2


def test_a_look_that_failed_is_not_shared(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    held = trino_tables.NewestSnapshot(opened(), "snapshot")
    first = held.get()
    numbers = itertools.count()
    look = held._load

    def sometimes() -> Any:
        if next(numbers) == 0:
            raise MetastoreError("once")
        return look()

    monkeypatch.setattr(held, "_load", sometimes)
    with pytest.raises(MetastoreError, match="once"):
        held.get()
    assert held.get() is first


def test_those_who_wait_share_one_look(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    held = trino_tables.NewestSnapshot(opened(), "snapshot")
    look, looks, callers = held._load, [], []

    def slowly() -> Any:
        looks.append(look())
        until(lambda: len(callers) == 12)
        time.sleep(0.1)  # until the last of them waits
        return looks[-1]

    monkeypatch.setattr(held, "_load", slowly)
    threads = [threading.Thread(target=lambda: (callers.append(1), held.get())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looks) <= 3


def test_clean_up_runs_beside_queries(tables: TrinoTables, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned = threading.Event()
    monkeypatch.setattr(trino_tables.Pins, "clean", lambda *_: cleaned.set())
    synced = tables.find("db", "trips")
    tables.pin(synced, tables.newest(synced))
    assert cleaned.wait(10)


def test_a_table_that_hangs_keeps_no_other_from_being_cleaned(
    opened: Opened, metastore: FileMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "warehouse/db/trips", tmp_path / "dead/db/trips")
    sync_to_trino(opened(), metastore)
    sync_to_trino(Table.open(str(tmp_path / "dead/db/trips")), metastore, SyncOptions(database="dead"))
    tables = TrinoTables(metastore, ALWAYS, late=LateTables(0.1))
    answer, hangs, cleaned = threading.Event(), threading.Event(), threading.Event()
    opened_file = Storage._opened

    def slowly(own: Storage, path: str) -> Any:
        if path.endswith("hangs"):
            hangs.set()
            answer.wait(20)
        return opened_file(own, path)

    def clean(_: Any, folder: ManifestFolder, *__: Any) -> int:
        if "/dead/" in folder.engine_uri:
            folder.storage.read("hangs")
        cleaned.set()
        return 0

    monkeypatch.setattr(Storage, "_opened", slowly)
    monkeypatch.setattr(trino_tables.Pins, "clean", clean)
    for schema in ("dead", "db"):
        synced = tables.find(schema, "trips")
        tables.pin(synced, tables.newest(synced))
        assert hangs.wait(10)
    try:
        assert cleaned.wait(10)
    finally:
        answer.set()
    until(lambda: not tables._cleaning)
    tables.close()


def test_metrics_of_tables_that_queries_have_loaded(tables: TrinoTables) -> None:
    metrics = Metrics()
    metrics.watch_tables("gateway", tables.held)
    assert b"table_file_groups{" not in metrics.text()
    synced = tables.find("db", "trips")
    assert tables.held() == {}
    snapshot = tables.newest(synced)
    [(uri, held)] = tables.held().items()
    assert uri.endswith("/db/trips")
    assert held is snapshot
    groups = f'hudi_catalog_table_file_groups{{service="gateway",table="{uri}"}} {len(snapshot.live_rows)}.0'
    assert groups in metrics.text().decode()
