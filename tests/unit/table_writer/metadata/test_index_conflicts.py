"""Concurrent writers, and deltas for an index that was rebuilt meanwhile."""

import pytest

from table_format.errors import ConflictError, RecordIndexError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.table.client import TableClient
from tests.support.index_writes import (
    begin,
    change,
    content,
    deltas,
    gone,
    layout_for,
    put,
    touched,
)
from tests.support.toy_table import SCHEMA_JSON

SEVERAL_WRITERS = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


def test_two_writers_cannot_insert_the_same_key(client, storage):
    change(client, put("a"), options=SEVERAL_WRITERS)
    one = begin(client, SEVERAL_WRITERS)
    layout = layout_for(client, [])
    two = begin(TableClient.open(storage), SEVERAL_WRITERS)
    theirs, own = deltas(two, layout, [put("b", "p", "g2")]), deltas(one, layout, [put("b", "p", "g1"), put("c")])
    two.commit(touched(("p", "g2")), schema_json=SCHEMA_JSON, index_changes=theirs)
    with pytest.raises(ConflictError, match=r"same keys \('b'\)"):
        one.commit(touched(("p", "g1")), schema_json=SCHEMA_JSON, index_changes=own)
    assert content(storage.uri) == {("a", ""): ("p", "f"), ("b", ""): ("p", "g2")}
    assert storage.list(".hoodie/.catalog/writes") == []


def test_a_delete_of_a_key_that_another_has_inserted_is_a_conflict(client, storage):
    one, two = begin(client, SEVERAL_WRITERS), begin(TableClient.open(storage), SEVERAL_WRITERS)
    layout = layout_for(client, [])
    two.commit(touched(("p", "g2")), schema_json=SCHEMA_JSON, index_changes=deltas(two, layout, [put("b", "p", "g2")]))
    with pytest.raises(ConflictError, match="same keys"):
        one.commit(touched(("p", "g1")), schema_json=SCHEMA_JSON, index_changes=deltas(one, layout, [gone("b")]))


def test_writers_of_other_keys_do_not_disturb_each_other(client, storage):
    change(client, put("a"), put("b"), options=SEVERAL_WRITERS)
    one, two = begin(client, SEVERAL_WRITERS), begin(TableClient.open(storage), SEVERAL_WRITERS)
    layout = layout_for(client, [])
    two.commit(touched(("p", "g2")), schema_json=SCHEMA_JSON, index_changes=deltas(two, layout, [put("c", "p", "g2")]))
    moved = deltas(one, layout, [gone("a"), put("a", "q", "g1"), put("d", "q", "g1")])
    one.commit(touched(("p", "f"), ("q", "g1")), schema_json=SCHEMA_JSON, index_changes=moved)
    assert content(storage.uri) == {
        ("a", ""): ("q", "g1"),
        ("b", ""): ("p", "f"),
        ("c", ""): ("p", "g2"),
        ("d", ""): ("q", "g1"),
    }


def test_a_write_that_must_be_alone(client, storage):
    one, two = begin(client, SEVERAL_WRITERS), begin(TableClient.open(storage), SEVERAL_WRITERS)
    two.commit([], schema_json=SCHEMA_JSON, index_changes=[])
    with pytest.raises(ConflictError, match="the only one"):
        one.commit([], schema_json=SCHEMA_JSON, index_changes=[], alone=True)
    begin(client, SEVERAL_WRITERS).commit([], schema_json=SCHEMA_JSON, index_changes=[], alone=True)


def test_deltas_for_another_layout_are_refused(client, storage):
    other = IndexLayout((("record-index-", 5),))
    tx = begin(client)
    with pytest.raises(ConflictError, match="rebuilt"):
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=deltas(tx, other, [put("a")]), index_layout=other)
    tx = begin(client)
    many = [put(f"k{number}") for number in range(50)]
    with pytest.raises(RecordIndexError, match="file group 4 of 3"):
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=deltas(tx, other, many))
    assert content(storage.uri) == {}
