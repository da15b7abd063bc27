"""An index that is rehashed to more or fewer file groups, or gets further ones."""

import pytest

from table_format.errors import ConflictError, OptionError, RecordIndexError, TransactionError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.threads import in_threads
from table_writer.metadata.creation import publish_index
from table_writer.record_index.resize import grow_empty_index, resize
from tests.support.index_writes import (
    AT_ONCE,
    BY_PARTITION,
    begin,
    change,
    content,
    deltas,
    gone,
    make,
    put,
    twice_pickled,
)
from tests.support.toy_table import SCHEMA_JSON, assert_tidy


@pytest.mark.slow
@pytest.mark.parametrize("mapper", [in_threads, twice_pickled])
@pytest.mark.parametrize("options", [{}, {"hoodie.catalog.record.index.hash": "xxhash64"}])
def test_an_index_is_spread_over_more_file_groups_and_fewer(storage, mapper, options):
    client = make(storage, options)
    change(client, *(put(f"k{number}") for number in range(60)), options=AT_ONCE)
    change(client, gone("k0"), put("k1", "q", "g"), options=AT_ONCE)
    change(client, put("k2", "r", "h"))
    before = content(storage.uri)
    for groups in (7, 2):
        assert resize(client, groups, mapper).families == (("record-index-", groups),)
        assert IndexLayout.of(client).count == groups
        assert content(storage.uri) == before
        change(client, gone("k3"), put("k4", "s", "i"), options=AT_ONCE)
        before = content(storage.uri)
        assert (before["k4", ""], len(before)) == (("s", "i"), 58)
    assert storage.list(".hoodie/.catalog/record_index_resize") == []
    assert_tidy(storage.uri)


def test_an_empty_index_gets_room_for_a_first_large_write(client, storage):
    options = {"hoodie.metadata.record.index.max.filegroup.size": "480"}  # ten entries
    with begin(client) as tx:
        small = IndexLayout.of(client)
        assert grow_empty_index(client, small, 20, options) == small
        grown = grow_empty_index(client, small, 70, options)
        assert (small.count, grown.count) == (3, 10)
        assert IndexLayout.of(client) == grown
        rows = [put(f"k{number}") for number in range(70)]
        files = deltas(tx, grown, rows)
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=files, index_layout=grown)
    assert len(content(storage.uri)) == 70
    with begin(client) as tx:
        assert grow_empty_index(client, grown, 1000, options) == grown  # it has entries
        with pytest.raises(ConflictError, match="rebuilt"):
            tx.commit([], schema_json=SCHEMA_JSON, index_changes=deltas(tx, small, rows), index_layout=small)
    change(client, gone("k1"), options=AT_ONCE)
    assert len(content(storage.uri)) == 69
    assert_tidy(storage.uri)


def test_room_that_was_half_made_is_taken_back(client, storage, monkeypatch):
    options = {"hoodie.metadata.record.index.max.filegroup.size": "480"}
    small = IndexLayout.of(client)

    def dies(*_):
        raise KeyboardInterrupt

    tx = begin(client)
    with monkeypatch.context() as patch:
        patch.setattr("table_writer.metadata.index_files.instants.complete", dies)
        with pytest.raises(KeyboardInterrupt):
            grow_empty_index(client, small, 70, options)
    tx.abort()
    assert IndexLayout.of(client) == small
    change(client, put("a"))
    assert content(storage.uri) == {("a", ""): ("p", "f")}
    assert_tidy(storage.uri)


def test_what_cannot_be_spread(storage):
    client = make(storage, properties=BY_PARTITION)
    with pytest.raises(RecordIndexError, match="of its own"):
        resize(client, 5)
    with pytest.raises(OptionError, match="REHASH or GROUPS"):
        resize(client, 5, options={"hoodie.catalog.record.index.growth": "up"})
    with begin(client) as tx:
        tx.commit([], schema_json=SCHEMA_JSON)
    with pytest.raises(RecordIndexError, match="bootstrap"):
        resize(client, 5)


def test_nothing_is_spread_while_a_write_is_pending(client, storage):
    change(client, put("a"))
    with begin(client):
        with pytest.raises(TransactionError, match="pending"):
            resize(client, 5)
        with pytest.raises(TransactionError, match="pending"):
            publish_index(client, IndexLayout((("record-index-", 5),)), [])
    assert content(storage.uri) == {("a", ""): ("p", "f")}


def test_bucket_groups_take_new_keys_into_the_newest(storage):
    client = make(storage)
    change(client, put("a"), put("b"), put("c"))
    grown = resize(client, 2, options={"hoodie.catalog.record.index.growth": "groups"})
    assert grown.families == (("record-index-", 3), ("record-index-g1-", 2))
    assert client.config.metadata_partitions == ("column_stats", "files")
    change(client, put("d"), options=AT_ONCE)
    change(client, put("a", "q", "g"), gone("b"), options=AT_ONCE)
    change(client, put("b", "r", "h"), options=AT_ONCE)
    after = {("a", ""): ("q", "g"), ("b", ""): ("r", "h"), ("c", ""): ("p", "f"), ("d", ""): ("p", "f")}
    assert content(storage.uri) == after
    resize(client, 4, options={"hoodie.catalog.record.index.growth": "groups"})
    change(client, gone("c"), options=AT_ONCE)
    del after["c", ""]
    assert content(storage.uri) == after
    assert resize(client, 6).families == (("record-index-", 6),)  # and Apache reads it again
    assert "record_index" in client.config.metadata_partitions
    assert content(storage.uri) == after
    assert_tidy(storage.uri)
