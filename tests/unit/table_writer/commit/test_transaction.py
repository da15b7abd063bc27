import json

import pytest

from table_format.config.table_config import update_table_config
from table_format.errors import (
    ConflictError,
    MissingFileError,
    OptionError,
    TableExistsError,
    TransactionError,
    UnsupportedTableError,
)
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.commit.transaction import WriteTransaction
from table_writer.timeline.markers import read_markers
from tests.support import toy_table
from tests.support.toy_table import (
    PROPERTIES,
    SCHEMA_JSON,
    assert_tidy,
    begin,
    rows_of,
    upsert,
    write_files,
)

FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}}
FIRST_ROWS = {("p=a", "k1"): 1, ("p=a", "k2"): 2}
EAGER = {"hoodie.clean.failed.writes.policy": "EAGER"}


def names(storage: Storage, folder: str = ".hoodie") -> set[str]:
    return {entry.name for entry in storage.list(folder) if not entry.is_dir}


def test_a_commit_leaves_the_three_states_and_hudis_json(client, storage):
    upsert(client, FIRST)
    [instant] = client.timeline().instants
    assert {n for n in names(storage) if n.startswith("2")} == {
        f"{instant.time}.commit.requested",
        f"{instant.time}.inflight",
        f"{instant.time}.commit",
    }
    assert storage.read(f".hoodie/{instant.time}.commit.requested") == b""
    commit = json.loads(storage.read(f".hoodie/{instant.time}.commit"))
    assert commit["operationType"] == "UPSERT"
    assert commit["extraMetadata"].keys() == {"schema", "hoodie.catalog.table.properties"}
    assert commit["extraMetadata"]["schema"] == SCHEMA_JSON
    kept = json.loads(commit["extraMetadata"]["hoodie.catalog.table.properties"])
    assert kept.items() <= client.config.raw.items()
    assert kept["hoodie.bucket.index.num.buckets"] == client.config.raw["hoodie.bucket.index.num.buckets"]
    [stat, _] = commit["partitionToWriteStats"]["p=a"]
    assert stat["fileSizeInBytes"] == storage.entry(stat["path"]).size
    assert rows_of(storage.uri) == FIRST_ROWS
    assert_tidy(storage.uri)


def test_markers_precede_files_and_go_with_the_commit(client, storage):
    with begin(client) as tx:
        tx.mark_inflight()
        stats, columns = write_files(tx, FIRST)
        assert {marker.path for marker in read_markers(storage, tx.instant)} == {stat.path for stat in stats}
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert not storage.exists(f".hoodie/.temp/{tx.instant}")


def test_a_file_without_a_marker_is_not_published(client, storage):
    tx = begin(client)
    tx.mark_inflight()
    stats, columns = write_files(tx, FIRST)
    storage.delete_dir(f".hoodie/.temp/{tx.instant}")
    with pytest.raises(TransactionError, match="no marker for p=a/"):
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == {}
    assert_tidy(storage.uri)  # without markers the files are found by listing


def test_files_of_retried_tasks_are_deleted(client, storage):
    upsert(client, FIRST, retried=True)
    assert rows_of(storage.uri) == FIRST_ROWS
    assert_tidy(storage.uri)


def test_an_error_in_the_block_rolls_back(client, storage):
    upsert(client, FIRST)

    def write_and_fail() -> None:
        with tx:
            tx.mark_inflight()
            write_files(tx, {("p=z", 0): {"k1": 5}})
            raise RuntimeError("a task failed")

    tx = begin(client)
    with pytest.raises(RuntimeError, match="a task failed"):
        write_and_fail()
    assert rows_of(storage.uri) == FIRST_ROWS
    assert [i.action for i in client.timeline().instants] == ["commit", "rollback"]
    assert_tidy(storage.uri)  # nor is p=z a partition any more
    with pytest.raises(TransactionError, match="has ended"):
        tx.commit([], schema_json=SCHEMA_JSON)


def test_leaving_the_block_without_commit_rolls_back(client, storage):
    with begin(client) as tx:
        tx.mark_inflight()
        write_files(tx, FIRST)
    assert rows_of(storage.uri) == {}
    assert_tidy(storage.uri)


def test_an_empty_commit_is_a_commit(client, storage):
    upsert(client, FIRST)
    upsert(client, {})
    assert [i.action for i in client.timeline().writes] == ["commit", "commit"]
    assert rows_of(storage.uri) == FIRST_ROWS
    upsert(client, {("p=a", 0): {"k1": 7}})
    assert rows_of(storage.uri) == FIRST_ROWS | {("p=a", "k1"): 7}
    assert_tidy(storage.uri)


def test_replacecommit(client, storage):
    upsert(client, FIRST)
    toy_table.overwrite(client, {("p=a", 1): {"k9": 9}})
    assert rows_of(storage.uri) == {("p=a", "k9"): 9}
    assert_tidy(storage.uri)
    with pytest.raises(TransactionError, match="only a replacecommit"), begin(client) as tx:
        tx.commit([], schema_json=SCHEMA_JSON, replaced={"p=a": ["x"]})


def test_instants_rise_even_when_the_clock_stands_still(client, storage, monkeypatch):
    import table_writer.timeline.instants as module

    real = module.next_instant_time
    import datetime as dt

    monkeypatch.setattr(
        module, "next_instant_time", lambda last, zone, now: real(last, zone, dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
    )
    for value in range(3):
        upsert(client, {("p=a", 0): {"k1": value}})
    times = [i.time for i in client.timeline().instants]
    assert times == sorted(set(times))
    assert rows_of(storage.uri) == {("p=a", "k1"): 2}


def test_a_writer_taken_for_dead_publishes_nothing(client, storage):
    first = begin(client)
    first.mark_inflight()
    stats, columns = write_files(first, FIRST)
    upsert(client, {("p=b", 0): {"k3": 3}}, EAGER)  # a second writer rolls the first one back
    write_files(first, {("p=c", 0): {"k4": 4}})  # a task of the first goes on all the same
    with pytest.raises(TransactionError, match="considered this one dead"):
        first.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == {("p=b", "k3"): 3}
    upsert(client, {})
    data = {e.path for e in storage.list("", recursive=True) if e.path.endswith(".parquet")}
    assert len(data) == 1


def test_a_writer_taken_for_dead_before_it_is_inflight_publishes_nothing(client, storage):
    first = begin(client)
    assert rollback_failed_writes(client, EAGER) == [first.instant]
    with pytest.raises(ConflictError, match="considered this one dead"), first:
        first.mark_inflight()
    assert not client.timeline().pending
    second = begin(client)
    path = f".hoodie/{second.instant}.commit.requested"
    second.mark_inflight()
    stats, columns = write_files(second, FIRST)
    storage.delete(path)  # by a rollback that had read the timeline before
    with pytest.raises(ConflictError, match="is no longer pending"):
        second.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == {}
    assert_tidy(storage.uri)


def test_rollback_of_a_foreign_write_without_markers_lists_the_files(client, storage):
    upsert(client, FIRST)
    tx = begin(client)
    tx.mark_inflight()
    write_files(tx, {("p=a", 0): {"k1": 5}})
    storage.delete_dir(f".hoodie/.temp/{tx.instant}")
    assert rollback_failed_writes(client) == []
    assert rollback_failed_writes(client, EAGER) == [tx.instant]
    assert_tidy(storage.uri)


def test_the_policy_never_leaves_dead_writes(client, storage):
    tx = begin(client)
    tx.mark_inflight()
    upsert(client, FIRST, {"hoodie.clean.failed.writes.policy": "NEVER"})
    assert [i.time for i in client.timeline().pending] == [tx.instant]


def test_create_refuses_a_second_table(client, storage):
    with pytest.raises(TableExistsError):
        toy_table.make(storage)


def test_create_needs_a_name(storage):
    with pytest.raises(OptionError, match=r"hoodie\.table\.name"):
        create_table(storage, {})
    with pytest.raises(MissingFileError):
        storage.read(".hoodie/hoodie.properties")


def test_tables_without_metadata_table(storage):
    client = toy_table.make(storage, {"hoodie.metadata.enable": "false"})
    upsert(client, FIRST, {"hoodie.metadata.enable": "false"})
    assert client.reload().metadata_partitions == ()
    upsert(client, {("p=a", 0): {"k1": 3}})  # a table with data is left as it is
    assert client.reload().metadata_partitions == ()
    assert rows_of(storage.uri) == FIRST_ROWS | {("p=a", "k1"): 3}


def test_merge_on_read_is_refused(client, storage):
    update_table_config(storage, {"hoodie.table.type": "MERGE_ON_READ"})
    with pytest.raises(UnsupportedTableError, match="MERGE_ON_READ"):
        WriteTransaction.begin(TableClient.open(storage), "commit", "UPSERT")


def test_a_failed_clean_does_not_fail_the_commit(client, storage, monkeypatch, caplog):
    import table_writer.commit.transaction as module

    def failing(*_, **__):
        raise MissingFileError("gone")

    monkeypatch.setattr(module, "clean_locked", failing)
    upsert(client, FIRST)
    assert rows_of(storage.uri) == FIRST_ROWS
    assert "cleaning failed" in caplog.text


def test_what_fails_after_the_commit_by_an_error_of_another_kind_does_not_fail_it(client, monkeypatch, caplog):
    def failing(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr("table_writer.commit.transaction.clean_locked", failing)
    upsert(client, FIRST)
    assert rows_of(client.storage.uri) == FIRST_ROWS
    assert "is committed; tidying up failed: no room" in caplog.text


def test_a_write_that_cannot_begin_is_a_dead_ones(client, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(type(client), "table_schema_json", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            begin(client)
    [begun] = client.timeline().pending
    upsert(client, FIRST)
    assert begun.time not in {instant.time for instant in client.timeline().instants}


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("part-0.parquet", "holds part-0.parquet"),
        ("2024/01/x.csv", "holds 2024/01/x.csv"),
        ("_delta_log/00000000000000000000.json", "holds _delta_log/"),
        ("metadata/v1.metadata.json", "holds metadata/v1"),
        (".hoodie/20240101000000000.commit", "hoodie.properties is gone"),
    ],
)
def test_a_folder_with_files_of_something_else_is_refused(tmp_path, file, message):
    storage = Storage(str(tmp_path / "t"))
    storage.create(file, b"x")
    with pytest.raises(TableExistsError, match=message):
        create_table(storage, PROPERTIES)
    assert not storage.exists(".hoodie/hoodie.properties")
    assert storage.read(file) == b"x"


def test_a_creation_that_broke_off_and_hidden_files_are_no_obstacle(tmp_path):
    storage = Storage(str(tmp_path / "t"))
    for folder in (".hoodie/archived", ".hoodie/.schema", "empty/folder"):
        storage.make_dir(folder)
    for file in (".DS_Store", ".x.parquet.crc"):
        storage.create(file, b"x")
    assert create_table(storage, PROPERTIES).config.name
