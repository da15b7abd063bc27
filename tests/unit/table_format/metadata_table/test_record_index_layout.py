"""The file groups of a record index and the keys that belong to them."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from table_format.errors import RecordIndexError
from table_format.metadata_table.keys import shard_of_key
from table_format.metadata_table.record_index_layout import (
    PARTITION,
    IndexLayout,
    family_partition,
    partition_family,
    register_hash,
    sharding,
    xxhash64,
)

KEYS = pa.array(["a", "", "polygenelubricants", "日本", *(f"key-{number}" for number in range(200))])


def test_groups_are_counted_through_all_families():
    layout = IndexLayout((("record-index-", 3), ("record-index-b1-", 5)))
    assert layout.count == 8 == len(layout.groups)
    assert layout.groups[2:4] == ("record-index-0002-0", "record-index-b1-0000-0")
    assert [layout.family_of(group) for group in range(8)] == [0] * 3 + [1] * 5
    old, new = layout.groups_of(KEYS)
    texts = KEYS.to_pylist()
    assert old.tolist() == [shard_of_key(text, 3) for text in texts]
    assert new.tolist() == [3 + shard_of_key(text, 5) for text in texts]
    assert layout.group_of(KEYS).tolist() == new.tolist()
    assert layout.is_private
    assert pickle.loads(pickle.dumps(layout)) == layout


def test_each_partition_has_groups_of_its_own():
    layout = IndexLayout(((partition_family("p=a"), 2), (partition_family("p=b"), 3)), PARTITION)
    assert not layout.is_private
    partitions = pa.array(["p=b", "p=a", "new", "p=b"]).dictionary_encode()
    keys = KEYS.slice(0, 4)
    first, second = layout.groups_of(keys, partitions)
    assert (first >= 0).tolist() == [False, True, False, False]
    assert (second >= 2).tolist() == [True, False, False, True]
    assert layout.group_of(keys, partitions).tolist() == [second[0], first[1], -1, second[3]]
    assert all((groups >= 0).all() for groups in layout.groups_of(keys))
    assert layout.partition_of(1) == "p=b"
    with pytest.raises(RecordIndexError, match="partition"):
        layout.group_of(keys)
    nothing = IndexLayout((), PARTITION)
    assert nothing.groups_of(keys, partitions) == ()
    assert nothing.group_of(keys, partitions).tolist() == [-1] * 4


@pytest.mark.parametrize(
    ("partition", "prefix"),  # asked of 1.2.0's HoodieTableMetadataUtil.getFileIDForFileGroup
    [
        ("", "record-index--"),
        ("2024/01", "record-index-2024%2F01-"),
        ("p=a-b", "record-index-p%3Da%2Db-"),
        ("a b", "record-index-a b-"),
        ("x%2Fy", "record-index-x%252Fy-"),
        ("é", "record-index-é-"),
        ("a_b", "record-index-a%5Fb-"),
        ("p='x'/q=\"{[]}\"", "record-index-p%3D%27x%27%2Fq%3D%22%7B%5B%5D}%22-"),
        ("A+B&C=*?#^\\", "record-index-A+B&C%3D%2A%3F%23%5E%5C-"),
        ("a!b@c$d(e),;|<>`", "record-index-a!b@c$d(e),;|<>`-"),
    ],
)
def test_families_of_partitions_are_named_as_apache_does(partition, prefix):
    assert partition_family(partition) == prefix
    assert family_partition(prefix) == partition


def test_a_layout_survives_its_text():
    layout = IndexLayout((("record-index-", 3), ("record-index-b1-", 5)), hash_name="xxhash64")
    assert IndexLayout.from_json(layout.to_json("20260101000000000")) == (layout, "20260101000000000")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"families": [["a-", 0]], "scope": "global", "hash": "java"}',
        '{"families": [["a-", 1e999]], "scope": "global", "hash": "java"}',
        '{"families": [], "scope": "global", "hash": "java"}',
        '{"families": 5}',
        "[" * 100_000,
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(RecordIndexError, match="layout"):
        IndexLayout.from_json(text)


def test_xxhash64_is_the_one_of_the_library():
    import xxhash

    texts = ["x" * length + "ü" * (length % 3) for length in range(140)]
    rng = np.random.default_rng(7)
    raw = [text.encode() for text in texts] + [rng.bytes(length) for length in range(100)]
    array = pa.array([b"before", *raw], pa.binary()).slice(1)
    assert xxhash64(array).tolist() == [xxhash.xxh64_intdigest(value) for value in raw]
    assert xxhash64(array, 99).tolist() == [xxhash.xxh64_intdigest(value, seed=99) for value in raw]
    layout = IndexLayout((("record-index-", 7),), hash_name="xxhash64")
    assert layout.is_private
    assert layout.group_of(array).tolist() == [xxhash.xxh64_intdigest(value) % 7 for value in raw]


def test_hashes_are_registered_once():
    def constant(keys, shards):
        return np.zeros(len(keys), np.int32) + shards - 1

    register_hash("test_constant", constant)
    register_hash("test_constant", constant)
    layout = IndexLayout((("record-index-", 7),), hash_name="test_constant")
    assert set(layout.group_of(KEYS).tolist()) == {6}
    with pytest.raises(RecordIndexError, match="registered already"):
        register_hash("java", constant)
    with pytest.raises(RecordIndexError, match="no_such"):
        sharding("no_such")
