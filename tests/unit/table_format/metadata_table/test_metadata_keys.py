import numpy as np
import pyarrow as pa
import pytest

from table_format.metadata_table import keys
from table_format.metadata_table.sources import PartitionSources
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support import golden_metadata as golden


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_hoodie_commit_time", b"JBBzUToHtLc="),
        ("id", b"sLZoasJosec="),
        ("ts", b"oyTjviKHuhI="),
        (".", b"FXThHwelITM="),
        ("p=a", b"s2AMmwSBZPw="),
        ("city=chennai", b"qWIoUqdwX74="),
        ("", b"DW/eaNVbRdo="),
    ],
)
def test_short_hashes_are_those_of_java(text, expected):
    assert keys.column_id(text) == expected


def test_the_root_partition_is_hashed_as_a_dot():
    assert keys.partition_hash("") == keys.column_id(".")


@pytest.mark.parametrize(
    ("key", "shards", "expected"),
    [
        ("p=a", 4, 0),
        (".", 4, 2),
        ("__all_partitions__", 2, 1),
        ("k1-x", 10, 1),
        ("id:5,name:x", 10, 7),
        ("日本", 10, 7),
        ("polygenelubricants", 7, 2),
    ],
)
def test_shards_are_those_of_java(key, shards, expected):
    assert keys.shard_of_key(key, shards) == expected
    assert keys.shards_of_keys(pa.array([key]), shards).tolist() == [expected]


def test_many_keys_are_the_keys_one_by_one():
    rows = [(c, p, f) for c in ("id", "été") for p in ("", "a/b", "日本") for f in ("x.parquet", "y.parquet")]
    made = keys.column_stats_keys(*(pa.array(list(column)) for column in zip(*rows, strict=True)))
    assert made.to_pylist() == [keys.column_stats_key(*row) for row in rows]


def test_no_keys():
    empty = pa.chunked_array([], pa.string())
    assert len(keys.column_stats_keys(empty, empty, empty)) == 0


@pytest.mark.parametrize("name", golden.NAMES)
def test_every_key_of_apache_is_recomputed(name):
    table = golden.open_table(golden.shared(name))
    raw = table.column_stats_raw()
    partitions = dict(zip(*(table.files()[column].to_pylist() for column in ("file_name", "partition")), strict=True))
    known = raw.filter(pa.array([file in partitions for file in raw["file_name"].to_pylist()]))
    assert known.num_rows > 0
    made = keys.column_stats_keys(
        known["column"], pa.array([partitions[file] for file in known["file_name"].to_pylist()]), known["file_name"]
    )
    assert made.to_pylist() == known["key"].to_pylist()


@pytest.mark.parametrize("partition", ["files", "column_stats"])
@pytest.mark.parametrize("name", golden.NAMES[::3])
def test_apache_put_every_key_into_the_shard_that_we_compute(name, partition):
    client = TableClient.open(Storage(golden.shared(name)))
    table = golden.open_table(client.storage.uri)
    sources = PartitionSources(client.storage, partition, table._valid)
    for number, shard in enumerate(sources.everything()):
        for piece in shard:
            numbers = keys.shards_of_keys(piece.entries.keys(), sources.shard_count)
            np.testing.assert_array_equal(numbers, number)
