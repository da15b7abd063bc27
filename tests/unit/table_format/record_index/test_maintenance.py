import contextlib
import json

import pyarrow as pa
import pytest

from table_format.errors import ConflictError, OptionError, RecordIndexError, TransactionError
from table_format.index_definitions import DEFAULT_PATH
from table_format.log.deletes import DeletedRecord, write_deletes, write_key_deletes
from table_format.log.format import BlockType
from table_format.log.reader import read_log_blocks
from table_format.mapping import in_threads
from table_format.meta_client import TableClient
from table_format.metadata_table import layout as names
from table_format.metadata_table.layout import list_file_groups
from table_format.metadata_table.writer import update_metadata_table
from table_format.record_index import commit, compaction
from table_format.record_index.growth import group_count, new_layout, with_partitions
from table_format.record_index.index import RecordIndex
from table_format.record_index.layout import GLOBAL, LAYOUT_KEY, MAINTAINED_KEY, PARTITION, IndexLayout
from table_format.record_index.publish import publish_index
from table_format.record_index.resize import make_room, resize
from table_format.storage import Storage
from tests.unit.table_format import golden_metadata as golden
from tests.unit.table_format.record_index.index_writes import (
    BY_PARTITION,
    PROPERTIES,
    begin,
    change,
    content,
    deltas,
    gone,
    layout_for,
    make,
    put,
    touched,
    twice_pickled,
)
from tests.unit.table_format.transaction.toy_table import SCHEMA_JSON, assert_tidy

SEVERAL_WRITERS = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
AT_ONCE = {"hoodie.metadata.compact.max.delta.commits": "1"}


@pytest.fixture
def storage(tmp_path) -> Storage:
    return Storage(str(tmp_path / "t"))


@pytest.fixture
def client(storage) -> TableClient:
    return make(storage)


def log_blocks(storage, group=None):
    groups = list_file_groups(storage, names.RECORD_INDEX)
    logs = [log for found in groups for log in found.log_files if group in (None, found.file_id)]
    return [block for log in logs for block in read_log_blocks(storage.read(log.path), log.path)]


# --- founding


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


def test_a_restore_puts_a_private_index_out_of_date(storage):
    client = make(storage, {"hoodie.catalog.record.index.hash": "xxhash64"})
    change(client, put("a"))
    time = str(int(client.timeline().writes[-1].time) + 1)
    for state in (".restore.requested", ".restore.inflight", ".restore"):
        storage.create(f".hoodie/{time}{state}", b"")
    assert IndexLayout.of(client) is None


def test_families_of_partitions_are_added_behind(storage):
    layout = with_partitions(IndexLayout((("record-index-p%3Da-", 3),), PARTITION), ["p=b", "p=a", "p=b"], {})
    assert layout.families == (("record-index-p%3Da-", 3), ("record-index-p%3Db-", 1))
    assert with_partitions(IndexLayout((("record-index-", 3),)), ["p=b"], {}).count == 3
    assert new_layout(BY_PARTITION, 10**7, ["a", "b"]).families == (("record-index-a-", 7), ("record-index-b-", 7))


# --- commits


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
    change(client, put("a"))  # rolls the dead write back
    assert not any(storage.exists(file.path) for file in files)
    [file] = deltas(tx, layout_for(client, []), [put("b")], tasks=1)  # its task outlives it
    assert storage.exists(file.path)
    change(client, put("c"))
    assert not storage.exists(file.path)


@pytest.mark.parametrize("options", [{}, AT_ONCE])
def test_workers_leave_logs_and_base_files_to_be_moved(client, storage, monkeypatch, options):
    monkeypatch.setattr(commit, "FEW_CHANGES", 0)
    monkeypatch.setattr(compaction, "_FEW_BYTES", 0)
    change(client, *(put(f"k{number}") for number in range(40)), mapper=twice_pickled, options=options)
    change(client, *(gone(f"k{number}") for number in range(30)), mapper=twice_pickled, options=options)
    change(client, put("more"), mapper=twice_pickled, options=options)
    assert content(storage.uri).keys() == {(f"k{number}", "") for number in range(30, 40)} | {("more", "")}
    assert storage.list(".hoodie/.catalog/writes") == []
    bases = [base for group in list_file_groups(storage, names.RECORD_INDEX) for base in group.base_files]
    assert bool(bases) == bool(options)
    assert_tidy(storage.uri)


def test_delete_blocks_of_many_keys_are_those_of_single_records():
    keys = ["", "a", "ü" * 100, "k" * 20_000]
    single = write_deletes([DeletedRecord(key, "record_index") for key in keys])
    assert write_key_deletes(pa.array(keys).cast(pa.binary()), "record_index") == single
    assert write_key_deletes(pa.array([], pa.binary()), "record_index") == write_deletes([])


def test_a_large_file_group_waits_for_more_and_a_full_one_is_told(client, storage, monkeypatch, caplog):
    monkeypatch.setattr(compaction, "_LARGE", 10)
    monkeypatch.setattr(compaction, "_FULL", 10)
    change(client, *(put(f"k{number}") for number in range(240)), options=AT_ONCE)
    change(client, put("k1", "q", "g"), options=AT_ONCE)
    assert "index resize" in caplog.text
    for _ in range(3):
        change(client, gone("k1"), put("new"), options=AT_ONCE)
    groups = list_file_groups(storage, names.RECORD_INDEX)
    assert [len(group.base_files) for group in groups] == [1, 1, 1]
    change(client, *(gone(f"k{number}") for number in range(30)), options=AT_ONCE)
    change(client, options=AT_ONCE)
    assert sum(len(group.base_files) for group in list_file_groups(storage, names.RECORD_INDEX)) > 3
    assert content(storage.uri).keys() == {(f"k{number}", "") for number in range(30, 240)} | {("new", "")}


def test_entries_of_another_schema_are_encoded_anew(client, storage, monkeypatch):
    change(client, *(put(f"k{number}", "p", f"f{number % 3}") for number in range(9)), options=AT_ONCE)
    change(client, put("k1", "q", "g"), options=AT_ONCE)
    before = content(storage.uri)
    monkeypatch.setattr(compaction, "_is_ours", lambda schema: False)
    change(client, put("k2", "r", "h"), options=AT_ONCE)
    before["k2", ""] = ("r", "h")
    assert content(storage.uri) == before
    rows = [put(key, *place) for (key, _), place in before.items()]
    change(client, *rows, options=AT_ONCE)  # nothing of the base files is left
    change(client, options=AT_ONCE)
    assert content(storage.uri) == before


def _base_files(storage):
    return {base.path for group in list_file_groups(storage, names.RECORD_INDEX) for base in group.base_files}


@pytest.mark.parametrize("name", [name for name in golden.NAMES if "rli" in name and name.startswith("v6")])
def test_an_index_of_apaches_is_compacted_continued_and_spread(name, tmp_path):
    location = golden.lay_out(name, tmp_path)
    before = content(location)
    assert before
    client = golden.client_of(location)
    layout = IndexLayout.of(client)
    bases = _base_files(client.storage)
    for number in range(1, 4):
        time = f"20991231{number:09d}"
        for state in (".commit.requested", ".inflight"):
            client.storage.create(f".hoodie/{time}{state}", b"")
        update_metadata_table(client, time, index_changes=commit.UNCHANGED, options=AT_ONCE)
        client.storage.create(f".hoodie/{time}.commit", b"{}")
    if not client.timeline().pending:  # else nothing may be compacted
        assert _base_files(client.storage) - bases
    assert content(location) == before
    if layout.scope == GLOBAL and not client.timeline().pending:
        resize(client, layout.count + 3)
        assert content(location) == before


# --- several writers


def test_two_writers_cannot_insert_the_same_key(client, storage):
    change(client, put("a"), options=SEVERAL_WRITERS)
    one = begin(client, SEVERAL_WRITERS)
    layout = layout_for(client, [])
    two = begin(TableClient.open(storage), SEVERAL_WRITERS)
    theirs, mine = deltas(two, layout, [put("b", "p", "g2")]), deltas(one, layout, [put("b", "p", "g1"), put("c")])
    two.commit(touched(("p", "g2")), schema_json=SCHEMA_JSON, index_changes=theirs)
    with pytest.raises(ConflictError, match=r"same keys \('b'\)"):
        one.commit(touched(("p", "g1")), schema_json=SCHEMA_JSON, index_changes=mine)
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
    with pytest.raises(ConflictError, match="built anew"):
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=deltas(tx, other, [put("a")]), index_layout=other)
    tx = begin(client)
    many = [put(f"k{number}") for number in range(50)]
    with pytest.raises(RecordIndexError, match="file group 4 of 3"):
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=deltas(tx, other, many))
    assert content(storage.uri) == {}


# --- by partition


def test_an_index_by_partition_founds_groups_with_the_first_commit_of_a_partition(storage):
    client = make(storage, properties=BY_PARTITION)
    assert "record_index" in client.config.metadata_partitions
    change(client, put("a", "p=1"), put("a", "p=2", "g"))
    change(client, put("a", "p=3", "h"), gone("a", "p=1"), options=AT_ONCE)
    assert content(storage.uri) == {("a", "p=2"): ("p=2", "g"), ("a", "p=3"): ("p=3", "h")}
    groups = [group.file_id for group in list_file_groups(storage, names.RECORD_INDEX)]
    assert groups == [f"record-index-p%3D{p}-000{n}-0" for p in (1, 2, 3) for n in (0, 1)]
    assert_tidy(storage.uri)


# --- layouts that Apache cannot read


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
        assert make_room(client, small, 20, options) == small
        grown = make_room(client, small, 70, options)
        assert (small.count, grown.count) == (3, 10)
        assert IndexLayout.of(client) == grown
        rows = [put(f"k{number}") for number in range(70)]
        files = deltas(tx, grown, rows)
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=files, index_layout=grown)
    assert len(content(storage.uri)) == 70
    with begin(client) as tx:
        assert make_room(client, grown, 1000, options) == grown  # it has entries
        with pytest.raises(ConflictError, match="built anew"):
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
        patch.setattr("table_format.record_index.founding.instants.complete", dies)
        with pytest.raises(KeyboardInterrupt):
            make_room(client, small, 70, options)
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
