"""Files and partitions as tables, against what a scan plans."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hudi_catalog
from catalog.metadata_tables import FILES_SCHEMA, HISTORY_SCHEMA, PARTITIONS_SCHEMA
from hudi_catalog.cli.main import app
from tests.support import golden_tables


@pytest.mark.parametrize("name", golden_tables.NAMES[:8])
def test_tables_of_apache(name: str, tmp_path: Path) -> None:
    table = hudi_catalog.open_table(golden_tables.lay_out(name, str(tmp_path)))
    files, partitions = table.files(), table.partitions()
    assert (files.schema, partitions.schema) == (FILES_SCHEMA, PARTITIONS_SCHEMA)
    splits = table.scan().plan().splits
    assert {(row["partition"], row["file_id"]) for row in files.to_pylist()} == {
        (split.partition, split.file_id) for split in splits
    }
    root = Path(table.client.storage.uri)
    without_logs = [row for row in files.to_pylist() if not row["log_files"]]
    assert all((root / row["path"]).stat().st_size == row["bytes"] for row in without_logs)
    groups = Counter(row["partition"] for row in files.to_pylist())
    assert {row["partition"]: row["file_groups"] for row in partitions.to_pylist()} == groups
    assert sum(partitions["bytes"].to_pylist()) == sum(files["bytes"].to_pylist())


def test_past_states_and_the_command_line(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(
        tmp_path / "t", "id bigint, p string", record_key="id", partition_by="p", buckets=1
    )
    first = table.insert([{"id": 1, "p": "a"}]).instant
    second = table.insert([{"id": 2, "p": "b"}]).instant
    assert table.partitions(as_of=first)["partition"].to_pylist() == ["a"]
    assert table.partitions()["last_instant"].to_pylist() == [first, second]
    for command, rows in (("files", table.files()), ("partitions", table.partitions())):
        result = CliRunner().invoke(app, [command, str(tmp_path / "t"), "--json"], catch_exceptions=False)
        assert json.loads(result.stdout) == rows.to_pylist()
        result = CliRunner().invoke(app, [command, str(tmp_path / "t"), "--as-of", first], catch_exceptions=False)
        assert len(result.stdout.splitlines()) == 2


def test_history(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    options = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    options["hoodie.metadata.compact.max.delta.commits"] = "1"
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id", buckets=1, options=options)
    for number in range(6):
        table.upsert([{"id": 1}, {"id": 10 + number}])
    table.delete("id = 1")
    history = table.history_table()
    assert history.schema == HISTORY_SCHEMA
    assert [row["instant"] for row in history.to_pylist()] == [entry.instant for entry in table.history()]
    assert table.history_table(archived=False).num_rows < history.num_rows
    writes = "state = 'COMPLETED' AND action = 'commit'"
    sums = (
        "sum(rows_inserted), sum(rows_updated), sum(rows_deleted), max(partitions), min(time) > TIMESTAMP '2026-01-01'"
    )
    assert duckdb.sql(f"SELECT {sums} FROM history WHERE {writes}").fetchall() == [(7, 5, 1, 1, True)]


def test_an_empty_table(tmp_path: Path) -> None:
    table = hudi_catalog.create_table(tmp_path / "t", "id bigint", record_key="id", buckets=1)
    assert (table.files().num_rows, table.partitions().num_rows) == (0, 0)
    assert (table.files().schema, table.partitions().schema) == (FILES_SCHEMA, PARTITIONS_SCHEMA)
