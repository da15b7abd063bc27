import pytest

from table_format.errors import CorruptFileError, MissingFileError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.history import HISTORY_SCHEMA, completion_times, first_archived, load_history
from tests.support.golden_tables import NEW_NAMES, facts, lay_out
from tests.support.history_files import write_history

FOLDER = ".hoodie/timeline/history"
ARCHIVED = [name for name in NEW_NAMES if facts(name).get("completion_times")]


def test_there_are_archived_timelines_of_apache():
    assert {name[:2] for name in ARCHIVED} == {"v8", "v9"}


@pytest.mark.parametrize("name", ARCHIVED)
def test_completion_times_are_those_of_apache(name, tmp_path):
    client = TableClient.open(lay_out(name, tmp_path))
    timeline = client.timeline()
    assert timeline.history_folder == client.config.history_folder
    known = facts(name)["completion_times"]
    assert completion_times(client.storage, timeline.history_folder) == known
    assert first_archived(client.storage, timeline.history_folder) == min(known)
    rows = load_history(client.storage, timeline.history_folder)
    assert set(rows["action"].to_pylist()) >= {"deltacommit", "commit"}
    assert rows.schema == HISTORY_SCHEMA
    assert rows["instant"].to_pylist() == sorted(known)
    assert not set(known) & {instant.time for instant in timeline.instants}


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


def test_no_history(storage):
    assert load_history(storage, FOLDER) == HISTORY_SCHEMA.empty_table()
    assert first_archived(storage, FOLDER) is None


def test_a_range_reads_the_files_that_it_meets(storage):
    first = write_history(storage, FOLDER, [("10", "11"), ("20", "21")])
    write_history(storage, FOLDER, [("30", "31"), ("40", "41")], version=2, keep=[first])
    assert completion_times(storage, FOLDER, "20", "30") == {"20": "21", "30": "31"}
    storage.overwrite(f"{FOLDER}/{first}", b"damaged")
    assert completion_times(storage, FOLDER, "21") == {"30": "31", "40": "41"}
    with pytest.raises(CorruptFileError, match=first):
        completion_times(storage, FOLDER)


def test_the_manifest_in_force_counts(storage):
    first = write_history(storage, FOLDER, [("10", "11"), ("20", "21")])
    write_history(storage, FOLDER, [("30", "31"), ("40", "41")], version=2)
    assert list(completion_times(storage, FOLDER)) == ["30", "40"]
    storage.overwrite(f"{FOLDER}/_version_", b"1")
    assert list(completion_times(storage, FOLDER)) == ["10", "20"]
    for unusable in (b"", b"x", b"7"):
        storage.overwrite(f"{FOLDER}/_version_", unusable)
        assert list(completion_times(storage, FOLDER)) == ["30", "40"], "else the newest manifest"
    storage.delete(f"{FOLDER}/_version_")
    assert list(completion_times(storage, FOLDER)) == ["30", "40"]
    storage.overwrite(f"{FOLDER}/_version_", b"1")
    storage.delete(f"{FOLDER}/{first}")
    with pytest.raises(MissingFileError):
        completion_times(storage, FOLDER)


def test_an_instant_in_two_levels_counts_once(storage):
    first = write_history(storage, FOLDER, [("10", "11"), ("20", "21")])
    write_history(storage, FOLDER, [("10", "11"), ("20", "21"), ("30", "31")], version=2, level=1, keep=[first])
    assert completion_times(storage, FOLDER) == {"10": "11", "20": "21", "30": "31"}
    assert load_history(storage, FOLDER).num_rows == 3


def test_a_history_that_was_merged_meanwhile_is_looked_up_again(storage, monkeypatch):
    first = write_history(storage, FOLDER, [("10", "11")])
    opened = storage.open_input

    def merging(path):
        if path.endswith(first):
            write_history(storage, FOLDER, [("10", "11"), ("20", "21")], version=2, level=1)
            storage.delete(path)
        return opened(path)

    monkeypatch.setattr(storage, "open_input", merging)
    assert completion_times(storage, FOLDER) == {"10": "11", "20": "21"}


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"files": [{}]}', b'{"files": 7}', b"\xff"])
def test_damaged_manifests(storage, content):
    storage.overwrite(f"{FOLDER}/manifest_1", content)
    with pytest.raises(CorruptFileError, match="manifest_1"):
        load_history(storage, FOLDER)
