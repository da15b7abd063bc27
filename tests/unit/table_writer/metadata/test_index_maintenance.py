"""What commits, rollbacks and cleans do to the index."""

import contextlib
import json

import pytest

from table_format.errors import RecordIndexError
from table_format.log.blocks import BlockType, read_log_blocks
from table_format.metadata_table import layout as names
from table_format.metadata_table.layout import list_file_groups
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import MAINTAINED_KEY
from table_format.table.client import TableClient
from tests.support.index_writes import (
    AT_ONCE,
    BY_PARTITION,
    begin,
    change,
    content,
    deltas,
    gone,
    layout_for,
    make,
    put,
)
from tests.support.toy_table import SCHEMA_JSON, assert_tidy


def log_blocks(storage, group=None):
    groups = list_file_groups(storage, names.RECORD_INDEX)
    logs = [log for file_group in groups for log in file_group.log_files if group in (None, file_group.file_id)]
    return [block for log in logs for block in read_log_blocks(storage.read(log.path), log.path)]


def test_a_commit_writes_puts_and_deletes_of_each_group_in_one_log_file(client, storage):
    change(client, put("a"), put("b"), put("c"), put("d"))
    metadata = change(client, put("b", "q", "g"), gone("a"), gone("a"), gone("never there"))
    assert content(storage.uri) == {("b", ""): ("q", "g"), ("c", ""): ("p", "f"), ("d", ""): ("p", "f")}
    instant = client.timeline().writes[-1].time
    blocks = [block for block in log_blocks(storage) if block.instant == instant]
    assert sorted(block.type for block in blocks) == sorted(
        [BlockType.HFILE_DATA] + [BlockType.DELETE] * len({block.path for block in blocks if block.type == 1})
    )
    assert MAINTAINED_KEY not in metadata.extra_metadata
    done = json.loads(storage.read(f".hoodie/metadata/.hoodie/{instant}.deltacommit"))
    assert "record_index" in done["partitionToWriteStats"]
    assert_tidy(storage.uri)
    assert storage.list(".hoodie/.catalog/writes") == []


def test_a_commit_that_changes_no_place_leaves_the_index_alone(client, storage):
    change(client, put("a"))
    before = [entry.path for entry in storage.list(".hoodie/metadata/record_index")]
    change(client)
    assert [entry.path for entry in storage.list(".hoodie/metadata/record_index")] == before
    assert content(storage.uri) == {("a", ""): ("p", "f")}


def test_of_a_move_within_one_write_the_place_counts(client, storage):
    change(client, put("a"))
    change(client, gone("a"), put("a", "q", "g"))
    assert content(storage.uri) == {("a", ""): ("q", "g")}
    change(client, gone("a"))
    change(client, gone("a"))  # repeated deletes are empty commits
    assert content(storage.uri) == {}
    change(client, put("a", "r", "h"))
    assert content(storage.uri) == {("a", ""): ("r", "h")}


def test_two_places_of_a_key_in_one_write_are_told(client, storage, caplog):
    change(client, put("a", "p", "f"), put("a", "p", "f"), put("b"))
    assert caplog.text == ""
    change(client, put("a", "p", "f"), put("a", "q", "g"))
    assert "several places" in caplog.text
    assert content(storage.uri)["a", ""] == ("q", "g")


def test_a_write_that_does_not_tell_takes_the_index_out_of_use(client, storage, caplog):
    change(client, put("a"))
    with begin(client) as tx:
        tx.commit([], schema_json=SCHEMA_JSON)
    assert "record_index" in caplog.text
    assert client.reload().metadata_partitions == ("column_stats", "files")
    assert not storage.exists(".hoodie/metadata/record_index")
    with pytest.raises(RecordIndexError, match="no record index"):
        RecordIndex.open(client)


def test_an_index_dropped_meanwhile_is_told_and_the_write_stands(client, storage, caplog):
    with begin(client) as tx:
        files = deltas(tx, layout_for(client, []), [put("a")])
        with begin(TableClient.open(storage), {"hoodie.clean.failed.writes.policy": "NEVER"}) as other:
            other.commit([], schema_json=SCHEMA_JSON)
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=files)
    assert "was taken out of use while" in caplog.text
    assert len(client.timeline().writes) == 2


def test_rollbacks_and_cleans_keep_the_index(client, storage):
    change(client, put("a"))
    with contextlib.suppress(RuntimeError), begin(client) as tx:
        tx.mark_inflight()
        deltas(tx, layout_for(client, []), [put("b")])
        raise RuntimeError
    assert content(storage.uri) == {("a", ""): ("p", "f")}
    assert storage.list(".hoodie/.catalog/writes") == []
    change(client, put("c"))
    assert content(storage.uri) == {("a", ""): ("p", "f"), ("c", ""): ("p", "f")}
    assert_tidy(storage.uri)


def test_leftover_deltas_are_swept(client, storage):
    tx = begin(client)
    files = deltas(tx, layout_for(client, []), [put("b")])
    tx._give_up()
    change(client, put("a"))  # rolls the dead write back
    assert not any(storage.exists(file.path) for file in files)
    [file] = deltas(tx, layout_for(client, []), [put("b")], tasks=1)  # its task outlives it
    assert storage.exists(file.path)
    change(client, put("c"))
    assert not storage.exists(file.path)


def test_an_index_by_partition_founds_groups_with_the_first_commit_of_a_partition(storage):
    client = make(storage, properties=BY_PARTITION)
    assert "record_index" in client.config.metadata_partitions
    change(client, put("a", "p=1"), put("a", "p=2", "g"))
    change(client, put("a", "p=3", "h"), gone("a", "p=1"), options=AT_ONCE)
    assert content(storage.uri) == {("a", "p=2"): ("p=2", "g"), ("a", "p=3"): ("p=3", "h")}
    groups = [group.file_id for group in list_file_groups(storage, names.RECORD_INDEX)]
    assert groups == [f"record-index-p%3D{p}-000{n}-0" for p in (1, 2, 3) for n in (0, 1)]
    assert_tidy(storage.uri)
