"""Numbered batches are written exactly once: replayed, by two writers at once, after a crash, an archive, a restore."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog import Table, create_table, open_table
from table_format.errors import OptionError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.batches import KEY
from table_writer.summary import WriteSummary
from tests.property.profile import STRIDE
from tests.support.faults import FaultyStorage, dying, overtaken

SHORT = {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    "hoodie.clean.commits.retained": "2",
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return create_table(tmp_path / "t", "id bigint, v int", record_key="id", index="RECORD_INDEX", options=SHORT)


def write(table: Table, number: int, app: str = "a", **row: Any) -> WriteSummary:
    """Insert a row with the number of its batch, duplicates and all."""
    rows = [{"id": number, "v": 0, **row}]
    return table.stream_writer(app, "bulk_insert", SHORT)(rows, number)


def ids(table: Table) -> list[int]:
    return sorted(open_table(table.client.storage.uri).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_a_replayed_batch_or_an_earlier_one_is_left_out(table: Table) -> None:
    first, second = write(table, 3), write(table, 5)
    instants = TableClient.open(table.client.storage.uri).timeline().instants
    for number in (5, 4, 3):
        again = write(table, number)
        assert (again.replayed, again.instant, again.rows_inserted) == (True, second.instant, 0)
        assert str(again).endswith(f"nothing written, instant {second.instant} holds this batch")
    assert TableClient.open(table.client.storage.uri).timeline().instants == instants
    assert (first.replayed, ids(table)) == (False, [3, 5])


def test_jobs_count_apart_and_note_each_other(table: Table) -> None:
    write(table, 7, "a")
    assert not write(table, 1, "b").replayed
    assert write(table, 7, "a").replayed
    timeline = TableClient.open(table.client.storage.uri).timeline()
    # the form of Apache's streaming sink
    assert json.loads(timeline.extra_metadata(timeline.writes[-1])[KEY]) == {"a": "7", "b": "1"}


def test_batches_are_found_in_the_archive(table: Table) -> None:
    write(table, 1, "a")
    write(table, 1, "b")
    for number in range(10):
        table.upsert([{"id": 100, "v": number}], SHORT)
    assert TableClient.open(table.client.storage.uri).timeline().archive.extras(KEY)
    assert (write(table, 1, "a").replayed, write(table, 1, "b").replayed) == (True, True)
    assert not write(table, 1, "c").replayed
    assert ids(table) == [1, 1, 1, 100]


def test_a_batch_that_was_taken_back_is_written_again(table: Table) -> None:
    first, second = write(table, 1), write(table, 2)
    table.rollback(second.instant)
    assert (write(table, 1).instant, write(table, 2).replayed) == (first.instant, False)
    assert ids(table) == [1, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_two_writers_of_a_batch_at_once(table: Table, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    other = open_table(table.client.storage.uri)
    write(table, 0)
    overtaken(monkeypatch, lambda: write(other, number))
    # batches of a job come one after the other: that a later one is there means that this one is, too
    assert write(table, 1).replayed
    assert ids(table) == [0, number]


def test_options_come_together(table: Table) -> None:
    for key in ("app", "version"):
        with pytest.raises(OptionError, match="set together"):
            table.upsert([{"id": 1, "v": 1}], {f"hoodie.catalog.write.txn.{key}": "1"})
    assert ids(table) == []


@pytest.mark.slow
def test_killed_at_any_change_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    made = create_table(tmp_path / "t", "id bigint, v int", record_key="id", index="RECORD_INDEX")
    seen: Counter[bool] = Counter()
    for number in range(1, 200):
        at = number * STRIDE
        with dying(at):
            write(Table.open(FaultyStorage(str(tmp_path / "t"))), number)
            break
        # the stream starts again with the batch that it did not know to be done
        seen[write(Table.open(Storage(str(tmp_path / "t"))), number).replayed] += 1
        assert ids(made) == list(range(1, number + 1))
    assert min(seen[True], seen[False]) >= 1, seen
