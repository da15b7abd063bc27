"""Entries follow their tables before cleaning deletes what they list, asked or not."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog.gateway import renewal
from hudi_catalog.gateway.options import RenewalOptions
from hudi_catalog.gateway.renewal import EntryRenewal
from hudi_catalog.gateway.rewrite import Rewriter
from hudi_catalog.gateway.serve import GatewaySettings, running_gateway
from hudi_catalog.gateway.statement import SessionNames
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import HiveTable
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from hudi_catalog.metastore.trino_tables import TrinoTables
from table_format.errors import MetastoreError
from tests.support.gateway_hosting import Answer, Request, answer, exchange, post, recording, result
from tests.support.local_writes import LocalTable
from tests.support.waiting import until

CLEANED = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1", "hoodie.keep.min.commits": "2"}
HEADERS = ("X-Trino-User: a", "X-Trino-Catalog: hive", "X-Trino-Schema: db")


def rows(value: int) -> pa.Table:
    return pa.table({"k": pa.array(range(8), pa.int64()), "day": ["a", "b"] * 4, "x": [value] * 8})


class World:
    """A table whose every commit replaces all files, its entry `db.trips`, and a view over a view over it."""

    def __init__(self, folder: Path) -> None:
        self.uri = str(folder / "metastore")
        self.metastore = FileMetastore(self.uri)
        options = {
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.partitionpath.field": "day",
            "hoodie.bucket.index.num.buckets": "1",
        }
        self.written = LocalTable.create(str(folder / "db/trips"), rows(0).schema, options)
        self.written.write("insert", rows(0))
        sync_to_trino(Table.open(self.written.client.storage.uri), self.metastore, SyncOptions(database="db"))
        self.tables = TrinoTables(self.metastore, SyncOptions(entry_age=0.0))
        self.view("inner", 'SELECT k, x FROM "db"."trips" WHERE x >= 0', "other")
        self.view("outer", "SELECT x, count(*) AS n FROM inner GROUP BY x", "db")
        for name in ("inner", "outer"):
            assert self.metastore.table("db", name).trino_view() is not None

    def view(self, name: str, sql: str, schema: str) -> None:
        """As Trino writes it to its file metastore."""
        text = base64.b64encode(json.dumps({"originalSql": sql, "catalog": "hive", "schema": schema}).encode()).decode()
        folder = Path(self.uri, "db", name)
        folder.mkdir(parents=True)
        content = {
            "tableType": "VIRTUAL_VIEW",
            "dataColumns": [{"name": "dummy", "type": "string"}],
            "parameters": {"presto_view": "true"},
            "viewOriginalText": f"/* Presto View: {text} */",
        }
        (folder / ".trinoSchema").write_text(json.dumps(content))

    def commit(self, value: int, **options: str) -> None:
        self.written.write("upsert", rows(value), options)

    def listed(self) -> list[Path]:
        """The files that a reader of the entry opens."""
        location = urlsplit(self.metastore.table("db", "trips").location).path
        lines = Path(unquote(location), "manifest").read_text().splitlines()
        return [Path(urlsplit(line).path) for line in lines]

    def answer(self) -> set[int]:
        """The values of `x` that a reader of the entry finds; fails where files are gone."""
        return {x for path in self.listed() for x in pq.read_table(path).column("x").to_pylist()}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.tables.close()


def test_without_renewal_an_entry_goes_stale_until_it_breaks(world: World) -> None:
    """What the other tests are about."""
    world.commit(1)
    assert world.answer() == {0}
    for value in (2, 3, 4):
        world.commit(value, **CLEANED)
    assert not any(path.exists() for path in world.listed())


def test_views_are_fresh_in_queries_through_the_gateway(world: World) -> None:
    """A writer upserts and cleans while a client asks for a view, in which the gateway finds the table."""

    def trino(request: Request) -> Answer:
        if request.line.startswith("POST"):
            answers.append(world.answer())
        return answer(result(), "Content-Type: application/json")

    answers: list[set[int]] = []
    with recording(trino) as server:
        settings = GatewaySettings(
            upstream=f"http://127.0.0.1:{server.port}",
            metastore=world.uri,
            options={"hoodie.catalog.gateway.renew.seconds": "0", "hoodie.catalog.sync.entries.age": "0"},
        )
        with running_gateway(settings) as gateway:
            for value in range(1, 5):
                world.commit(value, **CLEANED)
                for sql in ("SELECT * FROM outer", "EXPLAIN ANALYZE SELECT 1 FROM hive.db.inner i"):
                    assert b" 200 " in exchange(gateway.port, post(sql, *HEADERS))
    assert answers == [{value} for value in range(1, 5) for _ in range(2)]


def test_a_gateway_that_stops_closes_its_metastore(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[object] = []
    monkeypatch.setattr(FileMetastore, "close", lambda own: closed.extend([own]))
    with running_gateway(GatewaySettings(upstream="http://127.0.0.1:9", metastore=world.uri)) as gateway:
        assert closed == []
    assert closed == [gateway.rewriter.tables.metastore]


def test_whoever_reads_past_the_gateway_finds_all_files(world: World) -> None:
    """The gateway renews in the background while a writer upserts and cleans; nobody asks it anything."""
    settings = GatewaySettings(
        upstream="http://127.0.0.1:9", metastore=world.uri, options={"hoodie.catalog.gateway.renew.seconds": "0.02"}
    )
    with running_gateway(settings) as gateway:
        for value in range(1, 6):
            world.commit(value)  # without cleaning
            until(lambda value=value: world.answer() == {value})
            world.commit(value, **CLEANED)  # deletes what the commits before have replaced
            assert world.answer() == {value}
        assert b'hudi_catalog_open{service="gateway",what="entries"} 1.0' in gateway.metrics.text()


@pytest.mark.parametrize("near", [False, True])
def test_a_large_tables_list_is_written_again_when_cleaning_gets_near(
    world: World, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    monkeypatch.setattr(renewal, "_BYTES_A_PATH", 10**12)
    renewing = EntryRenewal(world.tables, RenewalOptions())
    world.commit(1)
    assert (renewing.round(), world.answer()) == (1, {1})
    world.commit(2)
    assert (renewing.round(), renewing.counts.behind) == (0, 1)
    if near:
        world.commit(3, **CLEANED)  # retains one commit, so that the next clean deletes what the entry lists
        assert (renewing.round(), world.answer()) == (1, {3})
    else:
        for value in (3, 4, 5):
            world.commit(value)
        assert renewing.round() == 0, "ten commits are retained if no clean says otherwise"
        world.commit(6)
        assert (renewing.round(), world.answer()) == (1, {6})
    assert renewing.round() == 0


def test_a_table_that_cannot_be_read_is_said_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_RETRY_SECONDS", 0.0)
    events: list[tuple[str, str, str]] = []
    renewing = EntryRenewal(world.tables, RenewalOptions(), lambda *event: events.append(event))
    assert renewing.round() == 0
    timeline = Path(world.written.client.storage.base, ".hoodie")
    timeline.rename(timeline.with_name("moved"))
    renewing.round()
    renewing.round()
    assert [event[:2] for event in events] == [("not renewed", "db.trips")]
    assert renewing.counts.failed == 2
    timeline.with_name("moved").rename(timeline)
    world.commit(7)
    assert (renewing.round(), world.answer()) == (1, {7})


def test_entries_come_and_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewal, "_DISCOVER_SECONDS", 0.0)
    renewing = EntryRenewal(world.tables, RenewalOptions())
    renewing.round()
    assert renewing.counts.entries == 1
    sync_to_trino(Table.open(world.written.client.storage.uri), world.metastore, SyncOptions(database="new"))
    renewing.round()
    assert renewing.counts.entries == 2
    world.metastore.drop_table("db", "trips")
    renewing.round()
    assert renewing.counts.entries == 1


class _Unreadable(FileMetastore):
    """A metastore that refuses a schema and an entry."""

    def schemas(self) -> list[str]:
        return ["closed", *super().schemas()]

    def tables(self, schema: str) -> list[str]:
        if schema == "closed":
            raise MetastoreError("no access to closed")
        return ["aaa", *super().tables(schema)]

    def table(self, schema: str, name: str) -> HiveTable | None:
        if name == "aaa":
            raise MetastoreError("no access to aaa")
        return super().table(schema, name)


def test_names_that_the_metastore_cannot_read_keep_no_entry_from_being_renewed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "_DISCOVER_SECONDS", 0.0)
    world.tables.metastore = _Unreadable(world.uri)
    events: list[tuple[str, str, str]] = []
    renewing = EntryRenewal(world.tables, RenewalOptions(), lambda *event: events.append(event))
    monkeypatch.setattr(renewal, "_PAUSE_FOR_WORK", 0.0)
    monkeypatch.setattr(renewal, "_BYTES_A_PATH", 0)
    for value in (1, 2):
        world.commit(value)
        assert (renewing.round(), world.answer()) == (1, {value})
    assert events == [("not renewed", "closed", "no access to closed"), ("not renewed", "db.aaa", "no access to aaa")]
    assert renewing.counts.failed == 3  # the schema again; names are looked up later
    monkeypatch.setattr(renewal, "_UNREAD_SECONDS", -1.0)
    renewing = EntryRenewal(world.tables, RenewalOptions())
    renewing.round()
    monkeypatch.setattr(_Unreadable, "table", FileMetastore.table)
    renewing.round()
    assert renewing.counts.failed == 3, "unread names are looked up again"
    assert renewing._unread == {"closed": "no access to closed"}


def test_an_entry_that_was_moved_back_is_renewed(world: World) -> None:
    old = world.metastore.table("db", "trips")
    world.commit(1)
    renewing = EntryRenewal(world.tables, RenewalOptions())
    renewing.round()
    world.metastore.put_table(old)
    assert world.answer() == {0}
    until(lambda: renewing.round() == 1)
    assert world.answer() == {1}
    assert renewing.round() == 0


def test_views_that_name_each_other_end(world: World) -> None:
    world.view("a", "SELECT * FROM b", "db")
    world.view("b", "SELECT * FROM a, trips", "db")
    rewriter = Rewriter(world.tables)
    world.commit(1)
    done = threading.Event()

    def ask() -> None:
        rewriter.rewrite("SELECT * FROM a", SessionNames("hive", "db"))
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    assert done.wait(20)
    assert world.answer() == {1}
