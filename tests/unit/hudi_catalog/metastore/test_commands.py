"""`hudi-catalog sync` as a command."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from hudi_catalog.cli.main import app
from hudi_catalog.metastore.entries import BASE_PATH
from hudi_catalog.metastore.file_metastore import FileMetastore
from tests.support.hive_server import HiveServer
from tests.support.local_writes import LocalTable
from tests.unit.hudi_catalog.metastore.conftest import rows


@pytest.fixture
def run(metastore: FileMetastore) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["sync", "--target", "trino", "--metastore", metastore.uri, *arguments])

    return call


def test_one_table(run: Any, written: LocalTable, metastore: FileMetastore) -> None:
    path = written.client.storage.uri
    result = run(path, "--dry-run")
    assert result.exit_code == 0
    assert "changes, not made" in result.stdout
    assert "  + column db.trips.x: double" in result.stdout.splitlines()
    assert metastore.schemas() == []
    done = run(path, "--schema", "other", "--table", "rides", "--also-hudi")
    assert done.exit_code == 0
    assert done.stdout.startswith("other.rides at 2")
    assert metastore.tables("other") == ["rides", "rides_hudi"]
    again = run(path, "--schema", "other", "--table", "rides", "--also-hudi")
    assert again.stdout.splitlines()[0].endswith(": up to date")
    written.write("upsert", rows(0, 1))
    (changed,) = json.loads(run(path, "--schema", "other", "--table", "rides", "--json").stdout)
    assert [change["kind"] for change in changed["changes"]] == ["alter", "alter"]
    assert (changed["schema"], changed["table"]) == ("other", "rides")


def test_a_warehouse(run: Any, written: LocalTable, metastore: FileMetastore, copied: Any) -> None:
    warehouse = Path(written.client.storage.base).parents[1]
    shutil.move(copied("v6_0150__mor_log"), warehouse / "logs")
    done = run("--all", str(warehouse))
    assert done.exit_code == 0, done.output
    assert (metastore.tables("db"), metastore.tables("default")) == (["trips"], ["logs_ro"])
    (warehouse / "broken/.hoodie").mkdir(parents=True)
    (warehouse / "broken/.hoodie/hoodie.properties").write_text("hoodie.table.name=broken\nhoodie.table.version=3\n")
    partly = run("--all", str(warehouse))
    assert partly.exit_code == 1
    assert "db.trips at " in partly.stdout
    assert "hudi-catalog: broken: " in partly.stderr
    entries = json.loads(run("--all", str(warehouse), "--json").stdout)
    assert {entry["path"]: "problem" in entry for entry in entries} == {
        "broken": True,
        "db/trips": False,
        "logs": False,
    }


def test_tables_of_one_name_are_told_apart(run: Any, written: LocalTable, metastore: FileMetastore) -> None:
    folder = Path(written.client.storage.base)
    shutil.copytree(folder, folder.parent / "TRIPS")
    shutil.copytree(folder, folder.parents[1] / "alone")
    partly = run("--all", str(folder.parents[1]))
    assert partly.exit_code == 1
    assert "hudi-catalog: db/trips: db/TRIPS has the same name for a metastore" in partly.stderr
    assert metastore.tables("db") == ["alone", "trips"]


def test_tables_of_two_databases_in_one_schema(run: Any, written: LocalTable, metastore: FileMetastore) -> None:
    folder = Path(written.client.storage.base)
    warehouse = folder.parents[1]
    shutil.copytree(folder, warehouse / "us/trips")
    properties = warehouse / "us/trips/.hoodie/hoodie.properties"
    without = [line for line in properties.read_text().splitlines() if not line.startswith("hoodie.database.name")]
    properties.write_text("\n".join(line for line in without if "checksum" not in line))
    partly = run("--all", "--schema", "one", str(warehouse))
    assert partly.exit_code == 1, partly.output
    assert "hudi-catalog: us/trips: db/trips has the same name for a metastore; sync it alone" in partly.stderr
    entry = metastore.table("one", "trips")
    assert entry is not None
    assert entry.parameters[BASE_PATH].endswith("/db/trips")


@pytest.fixture
def hive(metastore: FileMetastore) -> Callable[..., Result]:
    """The sync for Hive, into a folder, for there need not be a server for it."""

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["sync", "--target", "hive", "--metastore", metastore.uri, *arguments])

    return call


def test_for_hive(hive: Any, written: LocalTable, metastore: FileMetastore) -> None:
    path = written.client.storage.uri
    result = hive(path, "--dry-run", "--service", "planner:9790")
    assert result.exit_code == 0
    assert "  + property hoodie.catalog.hive.service" not in result.stdout
    assert metastore.schemas() == []
    done = hive(path, "--service", "planner:9790")
    assert done.exit_code == 0
    assert done.stdout.startswith("db.trips at 2")
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert entry.parameters["hoodie.catalog.hive.service"] == "planner:9790"
    assert hive(path).stdout.splitlines()[0].endswith(": up to date")
    (moved,) = json.loads(hive(path, "--format", "apache", "--json").stdout)
    assert {change["what"] for change in moved["changes"]} >= {"partition columns of db.trips"}
    entry = metastore.table("db", "trips")
    assert entry is not None
    metastore.drop_partitions(entry, [("d 1%",)])
    assert hive(path, "--keep-dropped").stdout.splitlines()[0].endswith(": up to date")
    assert "  + partition day=d 1% of db.trips" in hive(path).stdout


def test_a_warehouse_for_hive(hive: Any, written: LocalTable, metastore: FileMetastore, copied: Any) -> None:
    warehouse = Path(written.client.storage.base).parents[1]
    shutil.move(copied("v6_0150__mor_log"), warehouse / "logs")
    done = hive("--all", str(warehouse), "--service", "hive-site")
    assert done.exit_code == 0, done.output
    assert "default.logs_ro, default.logs_rt, default.logs at 2" in done.stdout
    assert metastore.tables("default") == ["logs", "logs_ro", "logs_rt"]
    shutil.rmtree(warehouse / "logs/.hoodie/metadata")
    foreign = metastore.table("db", "trips")
    assert foreign is not None
    metastore.put_table(replace(foreign, parameters={}, location="file:///elsewhere"))
    partly = hive("--all", str(warehouse))
    assert partly.exit_code == 1
    assert "hudi-catalog: db/trips: " in partly.stderr
    assert "default.logs_ro, default.logs_rt, default.logs at 2" in partly.stdout


def test_an_entry_that_nothing_serves_is_refused(
    hive: Any, written: LocalTable, metastore: FileMetastore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written.client.storage.uri
    refused = hive(path)
    assert (refused.exit_code, metastore.tables("db")) == (1, [])
    assert "trips: no service is known by which Hive would read it" in refused.stderr
    assert "--service host:port" in refused.stderr
    every = hive("--all", str(Path(written.client.storage.base).parents[1]), "--json")
    assert (every.exit_code, [sorted(one) for one in json.loads(every.stdout)]) == (1, [["path", "problem", "remedy"]])
    assert hive(path, "--format", "apache", "--dry-run").exit_code == 0, "Hive lists folders then"
    site = tmp_path / "conf/hive-site.xml"
    site.parent.mkdir()
    site.write_text("<property>\n <name>hoodie.catalog.hive.service</name>\n <value>a:1</value></property>")
    monkeypatch.setenv("HIVE_CONF_DIR", str(site.parent))
    assert hive(path, "--dry-run").exit_code == 0
    monkeypatch.delenv("HIVE_CONF_DIR")
    assert hive(path, "--service", "planner:9790").exit_code == 0
    assert hive(path).stdout.splitlines()[0].endswith(": up to date"), "the entry has its service"
    assert (
        "- property hoodie.catalog.hive.service of db.trips: planner:9790"
        in hive(path, "--service", "hive-site").stdout
    )
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert "hoodie.catalog.hive.service" not in entry.parameters
    assert hive(path).exit_code == 0, "who registered it without one knows why"


@pytest.mark.slow
def test_many_tables_in_a_pool_with_progress(written: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over Thrift, eight at a time; a dry run changes nothing, and one table's failure is its own."""
    folder = Path(written.client.storage.base)
    for number in range(199):
        shutil.copytree(folder, folder.parent / f"t{number}", copy_function=os.link)
    (folder.parent / "t50/.hoodie/hoodie.properties").unlink()
    (folder.parent / "t50/.hoodie/hoodie.properties").write_text("hoodie.table.name=t\nhoodie.table.version=3\n")
    server, running, most = HiveServer(), [0], [0]
    lock, get = threading.Lock(), server.handler.get_table_req

    def counted(req: object) -> object:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        try:
            if len(server.handler.calls) < 40:
                threading.Event().wait(0.05)
            return get(req)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(server.handler, "get_table_req", counted)
    arguments = ["sync", "--metastore", f"thrift://127.0.0.1:{server.port}", "--service", "a:1", "--all"]
    arguments.append(str(folder.parents[1]))
    try:
        dry = CliRunner().invoke(app, [*arguments, "--dry-run"], env={"FORCE_COLOR": "1"})
        assert (server.handler.databases, server.handler.tables) == ({"default"}, {})
        assert dry.stdout.count("changes, not made") == 199
        assert "tables" in dry.stderr
        assert "100%" in dry.stderr
        done = CliRunner().invoke(app, arguments)
        assert (dry.exit_code, done.exit_code) == (1, 1)
        assert [line for line in done.stderr.splitlines() if "db/" in line and "warning" not in line] == [
            line for line in done.stderr.splitlines() if line.startswith("hudi-catalog: db/t50: ")
        ]
        assert len(server.handler.tables) == 199
        assert 1 < most[0] <= 8
    finally:
        server.close()


def test_many_changes_are_cut_short(hive: Any, written: LocalTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_catalog.metastore.commands._MAX_CHANGES", 3)
    path = written.client.storage.uri
    assert len(hive(path, "--dry-run", "--service", "hive-site").stdout.splitlines()) > 8
    lines = hive(path, "--service", "hive-site").stdout.splitlines()
    assert len(lines) == 5
    assert lines[-1].endswith("more; --json lists all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "handler"], "--format handler is for Hive"),
        (["-o", "hoodie.catalog.sync.format=x"], "='x': give handler or apache or symlink"),
        (["-o", "hoodie.datasource.hive_sync.table_properties=x"], "'x' is not name=value"),
        (["--all", "--table", "x"], "--table names one entry"),
        (["-o", "hoodie.catalog.sync.nothing=1"], "no such option of the sync"),
        (["-o", "nothing"], "write key=value"),
        (["--location-prefix", "/a"], "write ours=theirs"),
        (["--service", "here"], "hoodie.catalog.hive.service=here: write host:port of the service, or hive-site"),
        (["--service", "one:1,two:99999"], "hoodie.catalog.hive.service=two:99999: write host:port"),
    ],
)
def test_wrong_usage(run: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments, str(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_metastore_that_is_not_there(written: LocalTable) -> None:
    also = CliRunner().invoke(app, ["sync", "--metastore", "thrift://127.0.0.1:1", "--also-hudi", "x"])
    assert (also.exit_code, "--also-hudi registers for Trino" in also.stderr) == (2, True)
    arguments = ["sync", "--metastore", "thrift://127.0.0.1:1", written.client.storage.uri]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert "no Hive Metastore can be reached: 127.0.0.1:1" in str(result.exception)
