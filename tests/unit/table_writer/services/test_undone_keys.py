"""The record index after writes were taken back that had put rows of keys which other files have."""

from __future__ import annotations

from pathlib import Path

import pytest

import hudi_catalog
from hudi_catalog.table import Table
from table_format.table.client import TableClient
from table_writer.record_index.verify import verify_index
from table_writer.services import undone_keys

ROWS = [{"id": number, "v": 0, "p": number % 2} for number in range(20)]
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}


@pytest.fixture(params=["RECORD_INDEX", "RECORD_LEVEL_INDEX", "private"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """A table by partition with 20 rows."""
    index = "RECORD_INDEX" if request.param == "private" else request.param
    made = hudi_catalog.create_table(
        str(tmp_path / "table"), "id int, v int, p int", record_key="id", partition_by="p", index=index
    )
    made.bulk_insert(ROWS)
    if request.param == "private":
        made.resize_index(3)
    return made


def writes(table: Table) -> list[str]:
    return [write.time for write in TableClient.open(table.client.storage.uri).timeline().writes]


def assert_indexed(table: Table, rows: int = len(ROWS)) -> None:
    """All rows are in the index: an upsert of them adds none, and a deletion finds them."""
    assert table.refresh().scan().count() == rows
    assert not any(verify_index(TableClient.open(table.client.storage.uri)).counts.values())
    assert table.upsert([{**row, "v": 1} for row in ROWS], options=NO_SMALL_FILES).rows_inserted == 0
    assert table.refresh().scan("v = 1").count() == len(ROWS)
    assert table.delete([{"id": row["id"], "p": row["p"]} for row in ROWS]).rows_deleted == len(ROWS)
    assert table.refresh().scan().count() == rows - len(ROWS)


def test_a_rollback_of_rows_that_were_loaded_twice(table: Table) -> None:
    again = table.bulk_insert([*ROWS, {"id": 100, "v": 0, "p": 0}])
    table.rollback(again.instant)
    assert_indexed(table)


def test_a_restore_to_before_rows_that_were_loaded_thrice(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undone_keys, "_MEMORY", 1)
    first = writes(table)[-1]
    table.bulk_insert(ROWS)
    table.bulk_insert(ROWS[:10])
    table.upsert([{"id": 1, "v": 5, "p": 1}, {"id": 101, "v": 5, "p": 1}])
    table.restore(first)
    assert_indexed(table)


def test_a_rollback_of_the_second_of_two_further_loads(table: Table) -> None:
    table.bulk_insert([{"id": 100, "v": 0, "p": 0}])
    table.bulk_insert(ROWS)
    newest = writes(table)[-1]
    table.rollback(newest)
    assert_indexed(table, len(ROWS) + 1)


def test_undoing_writes_that_look_keys_up_reads_no_other_files(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undone_keys, "keys_of_slices", None)
    table.upsert([{"id": 1, "v": 5, "p": 1}, {"id": 101, "v": 5, "p": 1}])
    table.rollback(writes(table)[-1])
    assert_indexed(table)
