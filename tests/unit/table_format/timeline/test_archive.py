"""Reading archived timelines, and timelines with gaps."""

import pytest

from table_format.actions.commit import CommitMetadata
from table_format.actions.table_services import CleanMetadata, CleanPartition
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import CorruptFileError, MissingFileError
from table_format.slices.file_slices import FILES_SCHEMA, latest_file_slices, replaced_file_groups
from table_format.storage import Storage
from table_format.timeline.archive import Archive
from table_format.timeline.timeline import load_timeline
from tests.support.history_files import write_history

FOLDER = ".hoodie/timeline/history"
REPLACED = CommitMetadata(partition_to_replace_file_ids={"p": ["a-0", "b-0"], "q": ["c-0"]}).to_json()
CLEAN = CleanMetadata(
    "30", 1, last_completed_commit="20", partitions={"p": CleanPartition("x", ["f"], ["f"])}
).to_avro()
CONTENTS = {"20": ("replacecommit", REPLACED), "30": ("clean", CLEAN)}


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


def _archive(storage, contents=None):
    write_history(storage, FOLDER, [("10", "11"), ("20", "25"), ("30", "31")], contents=CONTENTS | (contents or {}))
    return Archive(storage, FOLDER, 2)


def test_layout_2(storage):
    archive = _archive(storage)
    assert archive.writes == {"10": "11", "20": "25"}
    assert archive.replaced == {"20": (("p", "a-0"), ("p", "b-0"), ("q", "c-0"))}
    [(time, clean)] = archive.cleans()
    assert (time, clean.last_completed_commit, list(clean.partitions)) == ("30", "20", ["p"])


@pytest.mark.parametrize("layout", [1, 2])
def test_nothing_is_archived(storage, layout):
    for archive in (Archive(storage, FOLDER, layout), Archive(None, "", layout)):
        assert archive.writes == {}
        assert archive.replaced == {}
        assert list(archive.cleans()) == []


@pytest.mark.parametrize(
    "data",
    [b"", None, b"{", write_avro_file({"type": "record", "name": "r", "fields": []}, [])],
    ids=["empty", "none", "json", "avro"],  # an Avro file's random sync marker must not be in a test's name
)
def test_damaged_contents(storage, data):
    with pytest.raises(CorruptFileError, match=r"10_30_0\.parquet"):
        dict(_archive(storage, {"20": ("replacecommit", data)}).replaced)
    with pytest.raises(CorruptFileError, match=r"10_30_0\.parquet"):
        list(_archive(storage, {"30": ("clean", data)}).cleans())


def test_files_that_were_merged_meanwhile_are_looked_up_again(storage, monkeypatch):
    archive = _archive(storage)
    entries, tries = Archive.entries, []

    def stale(self):
        entries_before = entries(self)
        tries.append(entries_before)
        if len(tries) == 1:
            storage.move(entries_before[0].path, f"{FOLDER}/10_40_1.parquet")
            storage.overwrite(f"{FOLDER}/manifest_1", b'{"files": [{"fileName": "10_40_1.parquet", "fileLen": 1}]}')
        return entries_before

    monkeypatch.setattr(Archive, "entries", stale)
    assert archive.writes == {"10": "11", "20": "25"}
    assert len(tries) == 2
    storage.delete(f"{FOLDER}/10_40_1.parquet")
    with pytest.raises(MissingFileError):
        dict(Archive(Storage(storage.uri), FOLDER, 2).replaced)


def test_files_are_read_once(storage):
    first = _archive(storage)
    assert first.writes
    storage.overwrite(f"{FOLDER}/10_30_0.parquet", b"damaged")
    assert Archive(storage, FOLDER, 2).writes == first.writes
    with pytest.raises(CorruptFileError):
        dict(Archive(Storage(storage.uri), FOLDER, 2).writes)


def _timeline(storage, *names):
    for name in names:
        storage.overwrite(f".hoodie/timeline/{name}", b"")
    return load_timeline(storage, ".hoodie/timeline", 2)


def _files(*names):
    return FILES_SCHEMA.empty_table().from_pylist(
        [{"partition": "p", "file_name": n, "size": 1} for n in names], FILES_SCHEMA
    )


def test_a_gap_that_a_deleted_savepoint_left(storage):
    # 05 was saved when 10 and 20 were archived; they completed, 12 did not
    _archive(storage)
    timeline = _timeline(storage, "05_06.commit", "40_41.commit")
    assert not timeline.has_gaps
    files = _files("a-0_0-0-0_05.parquet", "d-0_0-0-0_10.parquet", "e-0_0-0-0_12.parquet", "f-0_0-0-0_40.parquet")
    slices = latest_file_slices(files, timeline)
    assert slices["file_id"].to_pylist() == ["d-0", "f-0"], "a-0 was replaced by 20"
    assert timeline.has_gaps
    assert timeline.first_unbroken == "40"
    assert replaced_file_groups(timeline)["replaced_at"].to_pylist() == ["20"] * 3
    assert replaced_file_groups(timeline, "19").num_rows == 0


def test_a_savepoint_alone_makes_gaps(storage):
    _archive(storage)
    timeline = _timeline(storage, "05_06.commit", "05_07.savepoint", "40_41.commit")
    assert timeline.has_gaps
    assert timeline.first_unbroken == "40"
    assert latest_file_slices(_files("a-0_0-0-0_05.parquet", "d-0_0-0-0_10.parquet"), timeline)[
        "file_id"
    ].to_pylist() == ["d-0"]


@pytest.mark.parametrize("later", ["a-0_0-0-0_40.parquet", ".a-0_40.log.1_0-0-0"])
def test_a_replaced_group_counts_again_from_a_later_write_on(storage, later):
    _archive(storage)
    timeline = _timeline(storage, "05_06.commit", "05_07.savepoint", "40_41.deltacommit")
    files = _files("a-0_0-0-0_05.parquet", later)
    assert latest_file_slices(files, timeline)["file_id"].to_pylist() == ["a-0"]
    assert latest_file_slices(files, timeline, as_of="39").num_rows == 0


def test_what_a_restore_undid_does_not_count(storage):
    _archive(storage)
    restored = {"instantsToRollback": [], "version": 2, "savepointToRestoreTimestamp": "05"}
    fields = [
        {"name": "instantsToRollback", "type": {"type": "array", "items": "string"}},
        {"name": "version", "type": "int"},
        {"name": "savepointToRestoreTimestamp", "type": ["null", "string"]},
    ]
    plan = write_avro_file({"type": "record", "name": "HoodieRestorePlan", "fields": fields}, [restored])
    storage.overwrite(".hoodie/timeline/35.restore.requested", plan)
    timeline = _timeline(storage, "05_06.commit", "05_07.savepoint", "35_36.restore", "40_41.commit")
    files = _files("a-0_0-0-0_05.parquet", "d-0_0-0-0_10.parquet", "f-0_0-0-0_40.parquet")
    assert latest_file_slices(files, timeline)["file_id"].to_pylist() == ["a-0", "f-0"]
    assert replaced_file_groups(timeline).num_rows == 0
