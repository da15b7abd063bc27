import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.errors import CorruptFileError, RecordError, RecordIndexError, TransactionError
from table_format.metadata_table.keys import shard_of_key
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout, partition_family
from table_format.storage import Storage
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.metadata.index_deltas import DeltaFile, changed_groups, delta_folder, read_deltas, write_delta
from table_writer.timeline.markers import create_marker, delete_markers, read_markers

FIVE = IndexLayout((("record-index-", 5),))
TWO_FAMILIES = IndexLayout((("record-index-", 3), ("record-index-g1-", 4)))


def changes(*rows):
    return pa.Table.from_pylist([dict(zip(CHANGES_SCHEMA.names, row, strict=True)) for row in rows], CHANGES_SCHEMA)


def put(key, partition="p", file_id="f"):
    return key, partition, file_id, False


def gone(key, partition="p"):
    return key, partition, None, True


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


def test_nothing_changed_needs_no_file(storage):
    assert write_delta(storage, "d", "a", FIVE, changes()) is None
    assert storage.list("") == []


def test_a_group_reads_its_own_changes_of_each_file(storage):
    keys = [f"k{number}" for number in range(100)]
    first = write_delta(storage, delta_folder("1"), "a", FIVE, changes(*map(put, keys)))
    second = write_delta(storage, delta_folder("1"), "b", FIVE, changes(*map(gone, keys[:10])))
    assert (first.rows, second.rows) == (100, 10)
    counts = changed_groups([first, second])
    assert sum(counts.values()) == 110
    assert list(counts) == sorted(counts)
    for group in range(5):
        of_group = [key for key in keys if shard_of_key(key, 5) == group]
        expected = [put(key) for key in of_group] + [gone(key) for key in of_group if key in keys[:10]]
        assert [tuple(row.values()) for row in read_deltas(storage, [first, second], group).to_pylist()] == expected
    assert read_deltas(storage, [], 0).schema == CHANGES_SCHEMA


def test_a_put_takes_the_key_out_of_older_families(storage):
    file = write_delta(storage, "d", "a", TWO_FAMILIES, changes(put("a"), gone("b")))
    assert file.rows == 4
    old, new = (shard_of_key("a", 3), 3 + shard_of_key("a", 4))
    assert ("a", "p", None, True) in [tuple(r.values()) for r in read_deltas(storage, [file], old).to_pylist()]
    assert ("a", "p", "f", False) in [tuple(r.values()) for r in read_deltas(storage, [file], new).to_pylist()]
    for group in (shard_of_key("b", 3), 3 + shard_of_key("b", 4)):
        assert gone("b") in [tuple(r.values()) for r in read_deltas(storage, [file], group).to_pylist()]


def test_each_partition_has_its_own_groups_in_an_index_by_partition(storage):
    layout = IndexLayout(((partition_family("p=1"), 2), (partition_family("p=2"), 3)), PARTITION)
    file = write_delta(storage, "d", "a", layout, changes(put("a", "p=1"), put("a", "p=2"), gone("b", "p=2")))
    assert file.rows == 3
    assert {(group, rows) for group, rows, _ in file.groups} <= {(n, c) for n in range(5) for c in (1, 2)}
    assert read_deltas(storage, [file], shard_of_key("a", 2))["partition"].to_pylist() == ["p=1"]
    with pytest.raises(RecordIndexError, match="p=3"):
        write_delta(storage, "d", "b", layout, changes(put("a", "p=3")))


@pytest.mark.parametrize("row", [put(None), ("k", None, "f", False), ("k", "p", None, False), ("k", "p", "f", None)])
def test_a_change_needs_key_and_place(storage, row):
    with pytest.raises(RecordError, match="needs a key"):
        write_delta(storage, "d", "a", FIVE, changes(row))


def test_a_key_that_no_file_can_hold_is_told_at_once(storage):
    with pytest.raises(RecordError, match="has 32768 and begins with 'kkk"):
        write_delta(storage, "d", "a", FIVE, changes(put("a"), put("k" * 32_768)))


def test_deltas_go_with_the_markers_and_are_none(storage):
    create_marker(storage, "1", "p", "f.parquet", "CREATE")
    file = write_delta(storage, delta_folder("1"), "a", FIVE, changes(put("a")))
    assert [marker.file_name for marker in read_markers(storage, "1")] == ["f.parquet"]
    delete_markers(storage, "1")
    with pytest.raises(TransactionError, match="considered this one dead"):
        read_deltas(storage, [file], shard_of_key("a", 5))


def test_a_broken_delta_file_is_told(storage):
    file = write_delta(storage, "d", "a", FIVE, changes(put("a")))
    storage.overwrite(file.path, storage.read(file.path)[:-20])
    with pytest.raises(CorruptFileError, match="delta file"):
        read_deltas(storage, [file], shard_of_key("a", 5))
    with pytest.raises(TransactionError):
        read_deltas(storage, [DeltaFile("d/none", 1, ((0, 1, 0),))], 0)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.text(max_size=6), st.sampled_from(["", "p", "ü/q"]), st.sampled_from(["f", "g", None]))),
    st.sampled_from([FIVE, TWO_FAMILIES]),
)
def test_every_change_comes_back_once_a_family(tmp_path_factory, rows, layout):
    storage = Storage(str(tmp_path_factory.mktemp("deltas")))
    table = changes(*((key, partition, file, file is None) for key, partition, file in rows))
    file = write_delta(storage, "d", "a", layout, table)
    if file is None:
        assert not rows
        return
    newest = layout.count - layout.families[-1][1]
    read_back = pa.concat_tables([read_deltas(storage, [file], group) for group in range(newest, layout.count)])
    order = [(name, "ascending") for name in CHANGES_SCHEMA.names]
    assert read_back.sort_by(order).equals(table.sort_by(order))
    assert file.rows == len(rows) * len(layout.families)
