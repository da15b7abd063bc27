"""Crashes while a record index gains file groups: keys are still found."""

import shutil
from pathlib import Path

import pytest

from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.record_index.resize import grow_empty_index, resize
from table_writer.record_index.verify import verify_index
from tests.support.faults import FaultyStorage, dying
from tests.support.indexed_tables import RECORD_INDEX, make, rows, writer_of

ROWS = rows(0, 9)
GROUPS = {"hoodie.catalog.record.index.growth": "groups"}
ROOM = {"hoodie.metadata.record.index.max.filegroup.size": "480"}
_MOST = 60


@pytest.mark.slow
def test_file_groups_beside_the_old_ones(tmp_path: Path) -> None:
    table = make(tmp_path, RECORD_INDEX)
    table.write("upsert", ROWS)
    for at in range(1, _MOST):
        path = tmp_path / str(at)
        shutil.copytree(table.client.storage.base, path)
        grown = None
        with dying(at):
            grown = resize(TableClient.open(FaultyStorage(str(path))), 2, options=GROUPS)
        client = TableClient.open(Storage(str(path)))
        layout = IndexLayout.of(client)
        assert layout is not None
        assert layout.scope == GLOBAL, f"after a death before change {at}"
        assert RecordIndex.open(client).get_record_locations(ROWS["id"].combine_chunks()).num_rows == ROWS.num_rows
        if at % 4 == 0 or grown is not None:
            writer_of(client, RECORD_INDEX).write("upsert", rows(0, 9, x=1))
            assert verify_index(client).is_right
        shutil.rmtree(path)
        if grown is not None:
            assert at > 5
            return
    pytest.fail("it never ends")


@pytest.mark.slow
def test_a_resize_that_died_is_resized_again(tmp_path: Path) -> None:
    table = make(tmp_path, RECORD_INDEX)
    table.write("upsert", ROWS)
    gone = 0
    for at in range(1, _MOST):
        path = tmp_path / str(at)
        shutil.copytree(table.client.storage.base, path)
        died = True
        with dying(at):
            resize(TableClient.open(FaultyStorage(str(path))), 3)
            died = False
        client = TableClient.open(Storage(str(path)))
        gone += IndexLayout.of(client) is None
        assert resize(client, 3).count == 3, f"after a death before change {at}"
        assert verify_index(client).is_right
        assert not client.storage.list(".hoodie/.catalog/record_index_resize")
        writer_of(client, RECORD_INDEX).write("upsert", rows(0, 12, x=1))
        assert verify_index(client).is_right
        shutil.rmtree(path)
        if not died:
            assert gone > 3
            return
    pytest.fail("it never ends")


def test_room_for_a_first_write(tmp_path: Path) -> None:
    table = make(tmp_path, RECORD_INDEX)
    for at in range(1, _MOST):
        path = tmp_path / str(at)
        shutil.copytree(table.client.storage.base, path)
        made = None
        with dying(at):
            client = TableClient.open(FaultyStorage(str(path)))
            before = IndexLayout.of(client)
            assert before is not None
            made = grow_empty_index(client, before, 50, ROOM)
        client = TableClient.open(Storage(str(path)))
        seen = IndexLayout.of(client)
        assert seen is not None
        assert grow_empty_index(client, seen, 100, ROOM).count == 13
        after = IndexLayout.of(client)
        assert after is not None
        assert after.count == 13
        shutil.rmtree(path)
        if made is not None:
            assert made.count == 7
            return
    pytest.fail("it never ends")
