"""File groups of the metadata table whose records were all deleted."""

import shutil
from pathlib import Path

import pytest

from table_format.metadata_table import layout as names
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.archive.archive import archive
from tests.support.archived_tables import SHORT
from tests.support.faults import Faults, FaultyStorage, dying
from tests.support.index_writes import AT_ONCE, change, content, gone, put
from tests.support.toy_table import assert_tidy

KEYS = [f"k{number}" for number in range(40)]
SOME = {"hoodie.metadata.compact.max.delta.commits": "2"}


def files(storage, partition=names.RECORD_INDEX):
    """Base files and log files."""
    groups = names.list_file_groups(storage, partition)
    return sum(len(group.base_files) for group in groups), sum(len(group.log_files) for group in groups)


def emptied(client):
    change(client, *map(put, KEYS), options=AT_ONCE)
    change(client, options=AT_ONCE)
    change(client, *map(gone, KEYS), options=AT_ONCE)
    change(client, options=AT_ONCE)


def test_they_keep_nothing_from_being_archived(client, storage):
    emptied(client)
    assert files(storage)[0], "what the compaction before has left is still there for readers"
    for _ in range(6):
        change(client, options=AT_ONCE)
    assert files(storage) == (0, 3)
    assert content(storage.uri) == {}
    archive(client, SHORT)
    assert len(client.timeline().writes) == 2
    change(client, put("again"), options=AT_ONCE)
    change(client, options=AT_ONCE)
    assert content(storage.uri).keys() == {("again", "")}
    assert_tidy(storage.uri)


@pytest.mark.slow
def test_what_comes_and_goes_leaves_few_files(client, storage):
    for number in range(30):
        change(client, put(f"new{number}"), options=SOME)
        change(client, gone(f"new{number}"), options=SOME)
        assert sum(files(storage)) < 20
    assert content(storage.uri) == {}


def test_a_key_that_comes_later_stays(client, storage):
    emptied(client)
    change(client, put("k1"), options=AT_ONCE)
    for _ in range(3):
        change(client, options=AT_ONCE)
    assert content(storage.uri).keys() == {("k1", "")}


def steps_of(path):
    """Numbers of the changes of the storage by which a commit makes the file groups anew."""
    FaultyStorage.faults = Faults()
    change(TableClient.open(FaultyStorage(path)), options=AT_ONCE)
    log, FaultyStorage.faults = FaultyStorage.faults.log, Faults()
    index = f"{names.FOLDER}/{names.RECORD_INDEX}/"
    changes = (f"delete {index}", f"create {index}.record-index-0000-0_{names.EMPTY_TABLE_INSTANT}")
    return [number for number, line in enumerate(log, 1) if line.startswith(changes)]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_that_dies_leaves_them_empty(client, storage, tmp_path, when):
    emptied(client)
    path = Path(storage.uri.removeprefix("file://"))
    steps = steps_of(str(shutil.copytree(path, tmp_path / "whole")))
    assert len(steps) > 8
    for at in steps:
        broken = str(shutil.copytree(path, tmp_path / str(at)))
        with dying(at, when):
            change(TableClient.open(FaultyStorage(broken)), options=AT_ONCE)
        Storage(broken).delete(".hoodie/lock")
        assert content(broken) == {}
        change(TableClient.open(Storage(broken)), put("k1"), options=AT_ONCE)
        assert content(broken).keys() == {("k1", "")}
