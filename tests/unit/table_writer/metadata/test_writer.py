import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.codecs.avro_file import read_avro_file
from table_format.config.table_config import create_table_config
from table_format.errors import OptionError, TransactionError
from table_format.log.blocks import read_log_blocks
from table_format.metadata_table import layout
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_writer.encoding.metadata_records import SCHEMA
from table_writer.metadata import instants, writer
from table_writer.metadata.compaction import MAX_DELTA_COMMITS_KEY, clean_metadata_table, compact_metadata_table
from table_writer.metadata.creation import add_column_stats, create_metadata_table
from table_writer.metadata.recovery import rollback_in_metadata_table
from table_writer.metadata.writer import drop_metadata_table, record_clean, update_metadata_table
from tests.support import golden_metadata as golden
from tests.support.golden_metadata import files, statistics


def instant(number):
    return f"20260101{number:09d}"


@pytest.fixture
def client(tmp_path):
    storage = Storage(str(tmp_path / "table"))
    values = {"hoodie.table.name": "t", "hoodie.table.version": "6", "hoodie.timeline.layout.version": "1"}
    create_table_config(storage, {**values, "hoodie.table.type": "COPY_ON_WRITE"})
    return golden.client_of(storage.uri)


@pytest.fixture
def table(client):
    create_metadata_table(client)
    return client


def begin(client, time):
    client.storage.create(f".hoodie/{time}.commit.requested", b"")
    client.storage.create(f".hoodie/{time}.inflight", b"")


def commit(client, number, *, options=None, **changes):
    time = instant(number)
    begin(client, time)
    update_metadata_table(client, time, options=options or {}, **changes)
    client.storage.create(f".hoodie/{time}.commit", b"{}")


def added(number, partition="p=a"):
    name = f"f{number}-0_0-0-0_{instant(number)}.parquet"
    return {
        "files_added": files((partition, name, 100 + number)),
        "column_stats": statistics((partition, name, "x", -number, number), (partition, name, "y", None, None)),
    }


def read(client):
    client.reload()
    return MetadataTable.open(client, client.timeline())


def names(client):
    return sorted(read(client).files()["file_name"].to_pylist())


def bounds(client, column="x"):
    rows = read(client).column_stats(column, pa.int64()).to_pylist()
    return sorted((row["file_name"].split("-")[0], row["min"], row["max"]) for row in rows)


def metadata_instants(client):
    return [str(each) for each in instants.load_metadata_timeline(client.storage).instants]


# creation


def test_a_new_table_gets_partitions_as_apache_makes_them(table):
    assert table.config.metadata_partitions == ("column_stats", "files")
    assert metadata_instants(table) == [
        "00000000000000010 deltacommit COMPLETED",
        "00000000000000011 deltacommit COMPLETED",
    ]
    log = table.storage.read(".hoodie/metadata/files/.files-0000-0_00000000000000010.log.1_0-0-0")
    assert log.hex() == (
        "2348554449230000000000000042000000010000000100000001000000000000001130303030303030303030303030303031300000"
        "00000000000900000003000000010000000000" + "0000000000000048"
    )
    folder = [entry.name for entry in table.storage.list(".hoodie/metadata/column_stats")]
    # No base file without records: Hudi's older readers fail on an empty one.
    assert folder == [
        ".col-stats-0000-0_00000000000000011.log.1_0-0-0",
        ".col-stats-0001-0_00000000000000011.log.1_0-0-0",
        ".hoodie_partition_metadata",
    ]
    metadata = read(table)
    assert metadata.all_partitions() == []
    assert metadata.files().num_rows == 0


def test_a_metadata_table_for_a_table_with_data(client):
    begin(client, instant(5))
    with pytest.raises(TransactionError, match="pending"):
        create_metadata_table(client)
    client.storage.create(f".hoodie/{instant(5)}.commit", b"{}")
    create_metadata_table(
        client,
        files=files(("p=a", "a.parquet", 7), ("p=b", "b.parquet", 8)),
        all_partitions=["p=a", "p=b", "p=empty"],
        column_stats=statistics(("p=a", "a.parquet", "x", 1, 2), ("p=b", "b.parquet", "x", 3, 4)),
        column_stats_shards=3,
    )
    metadata = read(client)
    assert golden.file_rows(metadata.files()) == [("p=a", "a.parquet", 7), ("p=b", "b.parquet", 8)]
    assert metadata.all_partitions() == ["p=a", "p=b", "p=empty"]
    assert bounds(client) == [("a.parquet", 1, 2), ("b.parquet", 3, 4)]
    assert len(layout.list_file_groups(client.storage, "column_stats")) == 3
    assert metadata_instants(client)[0] == f"{instant(5)}010 deltacommit COMPLETED"
    with pytest.raises(TransactionError, match="drop it first"):
        create_metadata_table(client)


def test_column_stats_are_added_later(client):
    create_metadata_table(client, with_column_stats=False)
    commit(client, 1, **added(1))
    assert client.config.metadata_partitions == ("files",)
    assert read(client).column_stats("x", pa.int64()).num_rows == 0
    name = names(client)[0]
    add_column_stats(client, statistics(("p=a", name, "x", 5, 6)))
    commit(client, 2, **added(2))
    assert bounds(client) == [("f1", 5, 6), ("f2", -2, 2)]
    assert f"{instant(1)}010 deltacommit COMPLETED" in metadata_instants(client)
    with pytest.raises(TransactionError, match="has none"):
        add_column_stats(client, None)


def test_dropping_unlists_before_it_deletes(table):
    drop_metadata_table(table)
    assert table.config.metadata_partitions == ()
    assert read(table) is None
    assert not table.storage.exists(".hoodie/metadata")
    commit(table, 1, **added(1))  # nothing to maintain, no error
    assert not table.storage.exists(".hoodie/metadata")


# updates


def test_an_update_is_one_block_in_one_log_file_for_each_shard_that_it_touches(table):
    commit(table, 1, **added(1))
    log = ".hoodie/metadata/files/.files-0000-0_00000000000000010.log.2_0-0-0"
    [block] = read_log_blocks(table.storage.read(log), log)
    assert block.instant == instant(1)
    assert json.loads(block.schema_json) == SCHEMA
    stats = json.loads(table.storage.read(f".hoodie/metadata/.hoodie/{instant(1)}.deltacommit"))
    [stat] = stats["partitionToWriteStats"]["files"]
    assert stat["path"] == "files/.files-0000-0_00000000000000010.log.2_0-0-0"
    assert stat["fileSizeInBytes"] == table.storage.entry(log).size
    assert (stat["logVersion"], stat["prevCommit"]) == (2, "00000000000000010")
    assert not table.storage.list(".hoodie/metadata/.hoodie/.temp")


def test_what_is_written_is_read(table):
    commit(table, 1, **added(1))
    commit(table, 2, **added(2, "p=b"))
    metadata = read(table)
    assert [row[2] for row in golden.file_rows(metadata.files())] == [101, 102]
    assert metadata.all_partitions() == ["p=a", "p=b"]
    assert bounds(table) == [("f1", -1, 1), ("f2", -2, 2)]
    [null, _] = read(table).column_stats("y", pa.int64()).to_pylist()
    assert (null["min"], null["max"], null["null_count"], null["value_count"]) == (None, None, 3, 3)


def test_the_root_of_a_table_without_partitions(table):
    commit(table, 1, **added(1, ""))
    metadata = read(table)
    assert metadata.all_partitions() == [""]
    assert metadata.files([""]).num_rows == 1
    assert bounds(table) == [("f1", -1, 1)]


def test_deleted_files_and_partitions_are_gone(table):
    commit(table, 1, **added(1))
    commit(table, 2, **added(2, "p=b"))
    gone = read(table).files(["p=a"]).select(["partition", "file_name"])
    commit(table, 3, files_deleted=gone, deleted_partitions=["p=a"])
    assert [name.split("-")[0] for name in names(table)] == ["f2"]
    assert read(table).all_partitions() == ["p=b"]


def test_deleted_files_lose_their_statistics(table):
    commit(table, 1, **added(1))
    time = instant(2)
    fields = [{"name": name, "type": ["null", "long"]} for name in ("x", "y")]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    begin(table, time)
    table.storage.create(f".hoodie/{time}.commit", json.dumps({"extraMetadata": {"schema": schema}}).encode())
    update_metadata_table(table, time)
    commit(table, 3, files_deleted=read(table).files().select(["partition", "file_name"]))
    assert read(table).column_stats_raw().num_rows == 0
    commit(table, 4, options={MAX_DELTA_COMMITS_KEY: "1"}, **added(4))
    assert bounds(table) == [("f4", -4, 4)]


def test_a_deleted_file_that_comes_back_counts_with_its_new_size(table):
    commit(table, 1, **added(1))
    row = read(table).files().to_pylist()[0]
    commit(table, 2, files_deleted=files((row["partition"], row["file_name"], 0)).select(["partition", "file_name"]))
    commit(table, 3, files_added=files((row["partition"], row["file_name"], 50)))
    assert read(table).files()["size"].to_pylist() == [50]


def test_an_instant_counts_only_when_the_data_table_completes_it(table):
    begin(table, instant(1))
    update_metadata_table(table, instant(1), **added(1))
    assert names(table) == []
    table.storage.create(f".hoodie/{instant(1)}.commit", b"{}")
    assert len(names(table)) == 1


def test_statistics_without_such_an_index_are_dropped(client):
    create_metadata_table(client, with_column_stats=False)
    commit(client, 1, **added(1))
    assert not client.storage.exists(".hoodie/metadata/column_stats")
    assert len(names(client)) == 1


# crashes and rollbacks


def test_a_dead_writers_instant_is_rolled_back_by_the_next(table):
    commit(table, 1, **added(1))
    begin(table, instant(2))
    update_metadata_table(table, instant(2), **added(2))
    table.storage.delete(f".hoodie/metadata/.hoodie/{instant(2)}.deltacommit")  # died before completing
    for state in (".inflight", ".commit.requested"):
        table.storage.delete(f".hoodie/{instant(2)}{state}")
    commit(table, 3, **added(3))
    assert f"{instant(3)}006 rollback COMPLETED" in metadata_instants(table)
    assert not any(instant(2) in text for text in metadata_instants(table))
    assert bounds(table) == [("f1", -1, 1), ("f3", -3, 3)]
    log = next(e for e in table.storage.list(".hoodie/metadata/files") if e.name.endswith("_1-0-1"))
    [block] = read_log_blocks(table.storage.read(log.path), log.path)
    assert (block.target_instant, log.size) == (instant(2), 108)


def test_an_instant_that_is_tried_again_is_rolled_back_first(table):
    begin(table, instant(1))
    update_metadata_table(table, instant(1), **added(7))
    update_metadata_table(table, instant(1), **added(1))
    table.storage.create(f".hoodie/{instant(1)}.commit", b"{}")
    assert bounds(table) == [("f1", -1, 1)]


def test_rollback_of_an_instant_that_the_metadata_table_completed(table):
    commit(table, 1, **added(1))
    begin(table, instant(2))
    update_metadata_table(table, instant(2), **added(2))
    update_metadata_table(table, instant(3))
    assert rollback_in_metadata_table(table.storage, instant(2), instant(3))
    assert not rollback_in_metadata_table(table.storage, instant(2), instant(3))
    # Even were the data table to complete it now, nothing of it would show.
    table.storage.create(f".hoodie/{instant(2)}.commit", b"{}")
    timeline = table.timeline()
    assert MetadataTable.open(table, timeline) is None
    assert instant(2) not in json.dumps(metadata_instants(table))
    content = table.storage.read(f".hoodie/metadata/.hoodie/{instant(3)}006.rollback")
    [record] = read_avro_file(content, "rollback")
    assert record["commitsRollback"] == [instant(2)]
    assert set(record["partitionMetadata"]) == {"files", "column_stats"}


def test_a_rollback_that_broke_off_is_finished(table):
    begin(table, instant(1))
    update_metadata_table(table, instant(1), **added(1))
    rollback_in_metadata_table(table.storage, instant(1), instant(2))
    table.storage.delete(f".hoodie/metadata/.hoodie/{instant(2)}006.rollback")
    for state in (".inflight", ".commit.requested"):
        table.storage.delete(f".hoodie/{instant(1)}{state}")
    commit(table, 3, **added(3))
    assert f"{instant(2)}006 rollback COMPLETED" in metadata_instants(table)
    assert bounds(table) == [("f3", -3, 3)]


def test_a_partition_that_was_half_built_is_removed(table):
    time = "00000000000000012"
    instants.start(table.storage, time, "deltacommit")
    path = layout.log_file_path("bloom_filters", "bloom-filters-0000-0", time, 1)
    table.storage.create(path, b"")
    commit(table, 1, **added(1))
    assert not table.storage.exists(path)
    assert not any(time in text for text in metadata_instants(table))


# compaction and cleaning


def every_commit(limit):
    return {MAX_DELTA_COMMITS_KEY: str(limit)}


def test_compaction_is_due_after_so_many_deltacommits(table):
    for number in range(1, 9):
        commit(table, number, **added(number))
    # with the two that built the partitions there are ten; the next instant finds them
    assert not any(" commit COMPLETED" in text for text in metadata_instants(table))
    commit(table, 9, **added(9))
    assert f"{instant(8)}001 commit COMPLETED" in metadata_instants(table)
    commit(table, 10, **added(10))
    assert sum(" commit COMPLETED" in text for text in metadata_instants(table)) == 1
    assert len(bounds(table)) == len(names(table)) == 10


def test_compaction_keeps_everything(table):
    expected = []
    for number in range(1, 8):
        commit(table, number, options=every_commit(2), **added(number, f"p={number % 3}"))
        expected.append((f"f{number}", -number, number))
        assert bounds(table) == expected
        assert len(names(table)) == number
    assert read(table).all_partitions() == ["p=0", "p=1", "p=2"]
    [null, *_] = read(table).column_stats("y", pa.int64()).to_pylist()
    assert (null["min"], null["null_count"], null["value_count"]) == (None, 3, 3)


def test_logs_after_a_compaction_belong_to_its_slice(table):
    for number in range(1, 5):
        commit(table, number, options=every_commit(3), **added(number))
    # two instants built the partitions, and count
    time = f"{instant(1)}001"
    listed = [entry.name for entry in table.storage.list(".hoodie/metadata/files")]
    assert f"files-0000-0_0-0-0_{time}.hfile" in listed
    assert f".files-0000-0_{time}.log.1_0-0-0" in listed
    [record] = read_avro_file(table.storage.read(f".hoodie/metadata/.hoodie/{time}.compaction.requested"), "plan")
    operation = next(each for each in record["operations"] if each["fileId"] == "files-0000-0")
    assert operation["baseInstantTime"] == "00000000000000010"
    assert len(operation["deltaFilePaths"]) == 2


def test_no_compaction_past_a_pending_instant(table):
    begin(table, instant(1))
    for number in range(2, 6):
        commit(table, number, options=every_commit(1), **added(number))
    # what was there before it could be compacted
    compactions = [text.split()[0] for text in metadata_instants(table) if " commit COMPLETED" in text]
    assert compactions == ["00000000000000011001"]
    update_metadata_table(table, instant(1), **added(1))
    table.storage.create(f".hoodie/{instant(1)}.commit", b"{}")
    commit(table, 7, options=every_commit(1), **added(7))
    assert f"{instant(5)}001 commit COMPLETED" in metadata_instants(table)
    assert len(bounds(table)) == 6


def test_cleans_and_rollbacks_leave_compaction_to_writes(table):
    """The writes alone know when it is due."""
    for number in range(1, 13):
        commit(table, number, options=every_commit(100), **added(number))
    record_clean(table, instant(13), {"p=a": [f"f1-0_0-0-0_{instant(1)}.parquet"]})
    assert not [text for text in metadata_instants(table) if " commit " in text]
    commit(table, 14, **added(14))
    assert [text.split()[1] for text in metadata_instants(table) if " commit " in text] == ["commit"]


def test_uncommitted_blocks_are_not_compacted(table):
    commit(table, 1, **added(1))
    begin(table, instant(2))
    update_metadata_table(table, instant(2), **added(2))
    for state in (".inflight", ".commit.requested"):
        table.storage.delete(f".hoodie/{instant(2)}{state}")
    commit(table, 3, **added(3))
    commit(table, 4, options=every_commit(1), **added(4))
    assert [name.split("-")[0] for name in names(table)] == ["f1", "f3", "f4"]


def test_a_compaction_that_broke_off_is_done_again(table):
    commit(table, 1, **added(1))
    commit(table, 2, **added(2))
    time = compact_metadata_table(table, every_commit(1))
    table.storage.delete(f".hoodie/metadata/.hoodie/{time}.commit")
    assert bounds(table) == [("f1", -1, 1), ("f2", -2, 2)]  # the base files do not count yet
    table.storage.overwrite(f".hoodie/metadata/files/files-0000-0_0-0-0_{time}.hfile", b"torn")
    commit(table, 3, **added(3))
    assert f"{time} commit COMPLETED" in metadata_instants(table)
    assert bounds(table) == [("f1", -1, 1), ("f2", -2, 2), ("f3", -3, 3)]


def test_cleaning_leaves_two_slices(table):
    for number in range(1, 8):
        commit(table, number, options=every_commit(1), **added(number))
    bases = [e.name for e in table.storage.list(".hoodie/metadata/files") if e.name.endswith(".hfile")]
    assert len(bases) == 2
    assert clean_metadata_table(table) is None
    cleans = [text.split()[0] for text in metadata_instants(table) if " clean COMPLETED" in text]
    assert cleans
    [record] = read_avro_file(table.storage.read(f".hoodie/metadata/.hoodie/{cleans[0]}.clean"), "clean")
    deleted = record["partitionMetadata"]["files"]["deletePathPatterns"]
    assert deleted
    assert not any(table.storage.exists(f".hoodie/metadata/files/{name}") for name in deleted)
    assert len(bounds(table)) == 7


def test_a_held_table_survives_a_compaction_and_its_cleaning(table):
    commit(table, 1, options=every_commit(1), **added(1))
    held = read(table)
    commit(table, 2, options=every_commit(1), **added(2))
    assert held.files().num_rows == 1
    assert held.column_stats("x", pa.int64()).num_rows == 1


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_a_bad_option_is_named(table, text):
    with pytest.raises(OptionError, match=MAX_DELTA_COMMITS_KEY):
        compact_metadata_table(table, {MAX_DELTA_COMMITS_KEY: text})


# going on in tables of Apache's


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("v6_1200__rli_part", "record_index"),
        ("v6_0150__bloom_replace", None),
        ("v6_1200__bkt_archive", None),
        ("v6_0150__bkt_complex", None),
    ],
)
def test_apaches_metadata_table_is_continued_and_compacted(name, removed, tmp_path, caplog):
    client = golden.client_of(golden.lay_out(name, tmp_path))
    before = read(client)
    rows, statistics_before = golden.file_rows(before.files()), before.column_stats_raw().num_rows
    filtered = before.bloom_filters(before.files())
    partition = before.all_partitions()[0]
    for number in range(1, 4):
        time = f"20991231{number:09d}"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"_hoodie_record_key": [f"k{number}"]}), sink)
        client.storage.create(f"{partition}/new{number}.parquet", sink.getvalue().to_pybytes())
        begin(client, time)
        update_metadata_table(
            client,
            time,
            files_added=files((partition, f"new{number}.parquet", number)),
            column_stats=statistics((partition, f"new{number}.parquet", "id", 1, 2)),
            options=every_commit(2),
        )
        client.storage.create(f".hoodie/{time}.commit", b"{}")
    after = read(client)
    expected = rows + [(partition, f"new{number}.parquet", number) for number in range(1, 4)]
    assert golden.file_rows(after.files()) == sorted(expected)
    assert after.column_stats_raw().num_rows == statistics_before + 3
    assert any("20991231" in text and " commit COMPLETED" in text for text in metadata_instants(client))
    filters = after.bloom_filters(after.files())
    if filtered is not None:
        assert filters.num_rows == filtered.num_rows + 3
        assert client.config.metadata_partitions == ("bloom_filters", "column_stats", "files")
    else:
        assert filters is None
        assert client.config.metadata_partitions == ("column_stats", "files")
    if removed:
        assert removed in caplog.text
        assert not client.storage.exists(f".hoodie/metadata/{removed}")


def test_index_definitions_of_a_removed_index_go_with_it(tmp_path):
    client = golden.client_of(golden.lay_out("v6_1200__rli_part", tmp_path))
    path = ".hoodie/.index_defs/index.json"
    content = json.loads(client.storage.read(path))
    content["indexDefinitions"]["record_index"] = {"indexName": "record_index"}
    client.storage.overwrite(path, json.dumps(content).encode())
    writer.ready_partitions(client)
    left = json.loads(client.storage.read(path))["indexDefinitions"]
    assert "record_index" not in left
    assert "column_stats" in left


def test_a_listed_metadata_table_that_is_gone_is_taken_out_of_use(table, caplog):
    table.storage.delete_dir(".hoodie/metadata")
    commit(table, 1, **added(1))
    assert table.config.metadata_partitions == ()
    assert "taken out of use" in caplog.text
    assert not os.path.exists(table.storage.full_path(".hoodie/metadata"))


def test_files_cannot_be_removed_alone(table):
    with pytest.raises(TransactionError, match="whole"):
        writer.remove_indexes(table, ["files"])
