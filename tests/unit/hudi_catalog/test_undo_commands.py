"""`hudi-catalog savepoint | restore | rollback`: what they print and do."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudi_catalog.cli.main import app
from hudi_catalog.table import Table, create_table
from table_format.errors import TransactionError


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create_table(tmp_path / "t", "id bigint, v bigint", record_key="id", buckets=1)
    for value in (1, 2, 3):
        made.upsert([{"id": 1, "v": value}])
    return made


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def values(table: Table) -> list[Any]:
    table.refresh()
    return [row["v"] for row in table.scan(columns=["v"]).to_arrow().to_pylist()]


def times(table: Table) -> list[str]:
    return [write.time for write in table.client.timeline().writes]


def test_a_savepoint_and_back_to_it(table: Table) -> None:
    path, instants = table.client.storage.uri, times(table)
    text = run("savepoint", "create", path, "--instant", instants[0], "--user", "me", "--comments", "first")
    assert text == f"savepoint {instants[0]} keeps 1 file\n"
    assert run("savepoint", "list", path).startswith(f"{instants[0]}  1 file, by me at ")
    assert json.loads(run("savepoint", "list", path, "--json"))[0]["comments"] == "first"
    planned = run("restore", path, "--to", instants[0], "--dry-run")
    assert planned.startswith(f"would take back 2 writes ({instants[1]} to {instants[2]}), free ")
    assert planned.endswith(f" in 2 files; {instants[0]} is the newest write\n")
    assert values(table) == [3]
    done = json.loads(run("restore", path, "--to", instants[0], "--json"))
    assert (done["undone"], done["files"], done["dry_run"]) == ([instants[2], instants[1]], 2, False)
    assert values(table) == [1]
    assert run("restore", path, "--to", instants[0]) == "nothing to take back\n"
    assert run("savepoint", "delete", path, instants[0]) == f"savepoint {instants[0]} is deleted\n"
    assert run("savepoint", "list", path) == "no savepoints\n"


def test_a_rollback(table: Table) -> None:
    path, instants = table.client.storage.uri, times(table)
    assert run("rollback", path, instants[2], "--dry-run").startswith(f"would take back 1 write ({instants[2]}), free ")
    assert values(table) == [3]
    assert json.loads(run("rollback", path, instants[2], "--json"))["target"] == instants[1]
    assert values(table) == [2]
    with pytest.raises(TransactionError, match="was rolled back"):
        run("rollback", path, instants[2])
