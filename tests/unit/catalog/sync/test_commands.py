"""`hudi-catalog sync` as a command."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.sync.file_metastore import FileMetastore
from tests.local_writes import LocalTable

from .conftest import rows


@pytest.fixture
def run(metastore: FileMetastore) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["sync", "--target", "trino", "--metastore", metastore.uri, *arguments])

    return call


def test_one_table(run: Any, written: LocalTable, metastore: FileMetastore) -> None:
    path = written.client.storage.uri
    told = run(path, "--dry-run")
    assert told.exit_code == 0
    assert "changes, not made" in told.stdout
    assert "  + column db.trips.x: double" in told.stdout.splitlines()
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
    found = json.loads(run("--all", str(warehouse), "--json").stdout)
    assert {entry["path"]: "problem" in entry for entry in found} == {
        "broken": True,
        "db/trips": False,
        "logs": False,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all", "--table", "x"], "--table names one entry"),
        (["-o", "hoodie.catalog.sync.nothing=1"], "no such option of the sync"),
        (["-o", "nothing"], "write key=value"),
        (["--location-prefix", "/a"], "write ours=theirs"),
    ],
)
def test_wrong_usage(run: Any, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments, str(tmp_path))
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_metastore_that_is_not_there(written: LocalTable) -> None:
    arguments = ["sync", "--metastore", "thrift://127.0.0.1:1", written.client.storage.uri]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code != 0
    assert "no Hive Metastore can be reached: 127.0.0.1:1" in str(result.exception)
