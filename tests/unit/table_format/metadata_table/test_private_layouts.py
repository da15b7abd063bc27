"""Indexes that Apache Hudi cannot read: commits record that they updated them."""

import pytest

from table_format.errors import RecordIndexError
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import LAYOUT_KEY, MAINTAINED_KEY, IndexLayout
from tests.support.index_writes import AT_ONCE, begin, change, content, deltas, gone, make, put
from tests.support.toy_table import SCHEMA_JSON, assert_tidy


def test_another_hash_is_not_listed_and_each_commit_says_that_it_kept_the_index(storage, caplog):
    client = make(storage, {"hoodie.catalog.record.index.hash": "xxhash64"})
    assert "Apache Hudi cannot read" in caplog.text
    assert client.config.metadata_partitions == ("column_stats", "files")
    assert IndexLayout.of(client).hash_name == "xxhash64"
    keys = [f"k{number}" for number in range(20)]
    metadata = change(client, *map(put, keys), options=AT_ONCE)
    assert metadata.extra_metadata[MAINTAINED_KEY] == "maintained"
    change(client, gone("k0"), options=AT_ONCE)
    change(client, put("k0", "q", "g"), options=AT_ONCE)
    assert content(storage.uri) == {(key, ""): ("p", "f") for key in keys} | {("k0", ""): ("q", "g")}
    assert_tidy(storage.uri)


def test_a_foreign_write_puts_a_private_index_out_of_date(storage):
    client = make(storage, {"hoodie.catalog.record.index.hash": "xxhash64"})
    change(client, put("a"))
    time = str(int(client.timeline().writes[-1].time) + 1)
    for name in (f"{time}.commit.requested", f"{time}.inflight"):
        storage.create(f".hoodie/{name}", b"")
    storage.create(f".hoodie/metadata/.hoodie/{time}.deltacommit.requested", b"")
    storage.create(f".hoodie/metadata/.hoodie/{time}.deltacommit.inflight", b"")
    storage.create(f".hoodie/metadata/.hoodie/{time}.deltacommit", b'{"partitionToWriteStats": {}}')
    storage.create(f".hoodie/{time}.commit", b'{"partitionToWriteStats": {}, "extraMetadata": {}}')
    with pytest.raises(RecordIndexError):
        RecordIndex.open(client)
    tx = begin(client)
    with pytest.raises(RecordIndexError, match="out of date"):
        tx.commit(
            [], schema_json=SCHEMA_JSON, index_changes=deltas(tx, IndexLayout((("record-index-", 3),)), [put("b")])
        )
    with begin(client) as tx:  # who does not use the index may write, and removes it
        tx.commit([], schema_json=SCHEMA_JSON)
    assert LAYOUT_KEY not in client.reload().raw
    assert not storage.exists(".hoodie/metadata/record_index")


def test_a_restore_puts_a_private_index_out_of_date(storage):
    client = make(storage, {"hoodie.catalog.record.index.hash": "xxhash64"})
    change(client, put("a"))
    time = str(int(client.timeline().writes[-1].time) + 1)
    for state in (".restore.requested", ".restore.inflight", ".restore"):
        storage.create(f".hoodie/{time}{state}", b"")
    assert IndexLayout.of(client) is None
