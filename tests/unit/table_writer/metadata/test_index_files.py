"""The index of a new table, and its number of file groups."""

import json

import pytest

from table_format.config.index_definitions import DEFAULT_PATH
from table_format.errors import OptionError, RecordIndexError
from table_format.metadata_table.record_index_layout import GLOBAL, PARTITION, IndexLayout
from table_writer.metadata.index_options import group_count, new_layout, with_partitions
from tests.support.index_writes import BY_PARTITION, PROPERTIES, content, make


def test_a_new_table_gets_an_empty_index_as_apache_makes_it(client, storage):
    assert client.config.metadata_partitions == ("column_stats", "files", "record_index")
    listed = [entry.name for entry in storage.list(".hoodie/metadata/record_index")]
    assert listed == [
        ".hoodie_partition_metadata",
        *(f".record-index-000{number}-0_00000000000000012.log.1_0-0-0" for number in range(3)),
    ]
    assert content(storage.uri) == {}


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        ({"hoodie.metadata.record.index.enable": "true"}, GLOBAL),
        ({"hoodie.metadata.global.record.level.index.enable": "true"}, GLOBAL),
        ({"hoodie.metadata.record.level.index.enable": "true"}, PARTITION),
        ({"hoodie.metadata.record.index.enable": "false"}, None),
    ],
)
def test_options_ask_for_an_index_whatever_the_tables_own_is(storage, options, scope):
    client = make(storage, options, {**PROPERTIES, "hoodie.index.type": "BUCKET"})
    assert ("record_index" in client.config.metadata_partitions) == (scope is not None)
    if scope == PARTITION:
        definition = json.loads(storage.read(DEFAULT_PATH))["indexDefinitions"]["record_index"]
        assert definition["indexOptions"] == {"isPartitioned": "true"}


def test_an_index_needs_a_metadata_table(storage):
    with pytest.raises(OptionError, match="metadata table"):
        make(storage, {"hoodie.metadata.enable": "false"})
    assert not storage.exists(".hoodie/hoodie.properties")


@pytest.mark.parametrize(
    ("entries", "options", "count"),
    [
        (0, {}, 10),
        (50_000_000, {}, 65),
        (50_000_000, {"hoodie.metadata.record.index.growth.factor": "2"}, 100),
        (10**11, {}, 10_000),
        (10**9, {"hoodie.metadata.record.index.max.filegroup.count": "20"}, 20),
        (10**6, {"hoodie.metadata.record.index.max.filegroup.size": "480000"}, 130),
        (5, {"hoodie.metadata.global.record.level.index.min.filegroup.count": "4"}, 4),
    ],
)
def test_file_groups_by_estimate(entries, options, count):
    assert group_count(entries, options) == count
    assert new_layout(options, entries) == IndexLayout((("record-index-", count),))
    assert new_layout(options, entries, groups=7).count == 7


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.metadata.record.index.min.filegroup.count", "0"),
        ("hoodie.metadata.record.index.min.filegroup.count", "20000"),
        ("hoodie.metadata.record.index.growth.factor", "0.5"),
        ("hoodie.metadata.record.index.growth.factor", "x"),
        ("hoodie.metadata.record.index.enable", "yes"),
        ("hoodie.hfile.compression.algorithm", "LZ4"),
    ],
)
def test_options_that_cannot_be_used(key, value):
    with pytest.raises(OptionError, match=key.replace(".", r"\.")):
        group_count(0, {key: value})


def test_an_unknown_hash_is_refused():
    with pytest.raises(RecordIndexError, match="not registered"):
        new_layout({"hoodie.catalog.record.index.hash": "md5"})


def test_an_index_by_partition_has_apaches_hash():
    with pytest.raises(OptionError, match="java"):
        new_layout({**BY_PARTITION, "hoodie.catalog.record.index.hash": "xxhash64"}, 1, ["a"])


def test_families_of_partitions_are_added_behind(storage):
    layout = with_partitions(IndexLayout((("record-index-p%3Da-", 3),), PARTITION), ["p=b", "p=a", "p=b"], {})
    assert layout.families == (("record-index-p%3Da-", 3), ("record-index-p%3Db-", 1))
    assert with_partitions(IndexLayout((("record-index-", 3),)), ["p=b"], {}).count == 3
    assert new_layout(BY_PARTITION, 10**7, ["a", "b"]).families == (("record-index-a-", 7), ("record-index-b-", 7))
