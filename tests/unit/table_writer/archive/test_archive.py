import shutil
from pathlib import Path

import pytest

from catalog import Table
from table_format.actions.rollback import RollbackMetadata
from table_format.errors import LockError, MissingFileError, TransactionError
from table_format.instant import State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.archive_log import archive_files
from table_format.timeline.whole import with_archive
from table_writer.archive import archive as archive_module
from table_writer.archive.archive import ArchiveReport, _ArchivedTimeline, archive
from table_writer.archive.files import write_archive_file
from table_writer.commit.restore import restore_table, rollback_write
from table_writer.services.savepoint import create_savepoint, delete_savepoint
from tests.support.archived_tables import METADATA_ARCHIVE, SHORT, archived_times, check_archive
from tests.support.faults import Faults, FaultyStorage, Frozen, InjectedError, dying
from tests.support.toy_table import begin, overwrite, rows_of, upsert

BY_HAND = {**SHORT, "hoodie.archive.automatic": "false"}


def live(client: TableClient, options: dict[str, str], commits: int = 7) -> None:
    """Updates, with an overwritten partition and a write that is rolled back among them."""
    for number in range(commits):
        if number == 2:
            overwrite(client, {("p=b", 0): {"over": number}}, options)
            continue
        if number == 1:
            begin(client, options).abort()
        upsert(client, {("p=a", 0): {"k": number}, ("p=b", 1): {f"k{number}": number}}, options)


@pytest.mark.slow
def test_commits_archive_the_oldest_instants(client, storage):
    live(client, SHORT, 12)
    timeline = client.timeline()
    assert 2 <= len(timeline.writes) <= 3
    whole = with_archive(timeline)
    assert len(whole.writes) == 12
    assert max(archived_times(storage).values()) == 1
    assert archived_times(storage, METADATA_ARCHIVE)
    check_archive(storage.uri, [write.time for write in whole.writes])
    rows = rows_of(storage.uri)
    assert rows["p=a", "k"] == 11
    assert rows["p=b", "over"] == 2


@pytest.mark.slow
def test_the_archive_keeps_what_the_files_held(client, storage):
    live(client, BY_HAND, 9)
    before = client.timeline()
    contents = {i.file_name: before.read(i) for i in before.instants}
    metadata = {i.time: before.commit_metadata(i) for i in before.writes}
    undone, replaced = before.rolled_back, before.replaced
    report = archive(client, SHORT)
    whole = with_archive(client.timeline())
    assert [str(i) for i in whole.instants] == [str(i) for i in before.instants]
    assert report.instants == tuple(i.time for i in before.instants[: len(report.instants)])
    assert len(report.instants) > 9
    assert report.metadata_instants > 9
    for write in whole.writes:
        assert whole.commit_metadata(write) == metadata[write.time]
    for instant in whole.instants:
        if instant.action == "rollback":
            path = instant.file_name
            old, new = (RollbackMetadata.from_avro(data, path) for data in (contents[path], whole.read(instant)))
            assert old == new
    assert {a.time: a.action for a in whole.instants if a.action == "clean"}
    assert whole.rolled_back == undone
    assert whole.replaced == replaced
    requested = next(i for i in whole.writes if i.action == "replacecommit").at(State.REQUESTED)
    assert whole.read(requested)


@pytest.mark.slow
def test_a_timeline_loaded_before_reads_on(client, storage):
    live(client, BY_HAND, 9)
    before, read = client.timeline(), client.timeline()
    metadata = {i.time: read.commit_metadata(i) for i in read.writes}
    undone, replaced = read.rolled_back, read.replaced
    report = archive(client, SHORT)
    assert not any(storage.exists(before.path(i)) for i in before.instants[: len(report.instants)])
    assert {i.time: before.commit_metadata(i) for i in before.writes} == metadata
    assert before.rolled_back == undone
    assert undone
    assert before.replaced == replaced
    assert replaced
    storage.delete(before.path(before.instants[-1]))
    with pytest.raises(MissingFileError):
        before.read(before.instants[-1])


@pytest.mark.slow
def test_a_damaged_archive_does_not_hide_what_is_missing(client, storage):
    live(client, BY_HAND, 9)
    before = client.timeline()
    archive(client, SHORT)
    for file in archive_files(storage, ".hoodie/archived"):
        storage.overwrite(file.path, storage.read(file.path)[:-20])
    with pytest.raises(MissingFileError, match=before.instants[0].file_name):
        before.read(before.instants[0])


@pytest.mark.slow
def test_a_dry_run_tells_what_a_run_does(client, storage):
    live(client, BY_HAND, 8)
    before = [entry.path for entry in storage.list("", recursive=True)]
    planned = archive(client, SHORT, dry_run=True)
    assert [entry.path for entry in storage.list("", recursive=True)] == before
    assert planned.files
    assert archive(client, SHORT) == planned
    assert archive(client, SHORT) == ArchiveReport()


def test_off(client):
    live(client, {**SHORT, "hoodie.archive.automatic": "false"}, 6)
    assert len(client.timeline().writes) == 6


def copies(path: Path, target: Path) -> str:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target)
    return str(target)


@pytest.mark.parametrize(
    ("how", "when", "steps_of"),
    [
        # death after a change is death before the next one
        ("freeze", "before", range(1, 1000)),
        ("error", "before", range(1, 1000, 2)),
        ("error", "after", range(2, 1000, 2)),
    ],
)
@pytest.mark.slow
def test_a_run_that_breaks_off_anywhere_is_finished_by_the_next(client, storage, tmp_path, how, when, steps_of):
    live(client, BY_HAND, 6)
    rows, path = rows_of(storage.uri), Path(storage.uri.removeprefix("file://"))
    commits = [write.time for write in client.timeline().writes]
    done = copies(path, tmp_path / "done")
    archive(TableClient.open(Storage(done)), SHORT)
    check_archive(done, commits)
    wanted = sorted(entry.path for entry in Storage(done).list(".hoodie", recursive=True))
    steps = 0
    for at in steps_of:
        place = copies(path, tmp_path / "broken")
        FaultyStorage.faults = Faults(at, when, how)
        try:
            archive(TableClient.open(FaultyStorage(place)), SHORT)
        except (Frozen, InjectedError):
            pass
        finally:
            reached, FaultyStorage.faults = FaultyStorage.faults.count, Faults()
        if reached < at:
            break
        steps += 1
        Storage(place).delete(".hoodie/lock")
        assert rows_of(place) == rows
        assert [e.instant for e in Table.open(place).history() if e.action.endswith("commit")] == commits
        archive(TableClient.open(Storage(place)), SHORT)
        check_archive(place, commits)
        assert rows_of(place) == rows
        assert max(archived_times(Storage(place)).values()) == 1
        left = sorted(entry.path for entry in Storage(place).list(".hoodie", recursive=True))
        assert [path for path in left if "/archived" not in path] == [p for p in wanted if "/archived" not in p]
    assert steps * steps_of.step > 40


@pytest.mark.slow
def test_writes_after_a_run_that_broke_off_at_its_archive_lose_no_instant(client, storage, tmp_path):
    """Files are joined at the end of a run: later ones must not take the name of what was not written."""
    joining = {**SHORT, "hoodie.archive.merge.files.batch.size": "2"}
    live(client, BY_HAND, 5)
    archive(client, {**SHORT, "hoodie.archive.merge.enable": "false"})
    upsert(client, {("p=a", 0): {"k": 5}}, BY_HAND)
    upsert(client, {("p=a", 0): {"k": 6}}, BY_HAND)
    path = Path(storage.uri.removeprefix("file://"))
    place = copies(path, tmp_path / "broken")
    with dying(1000):
        archive(TableClient.open(FaultyStorage(place)), joining)
        log = list(FaultyStorage.faults.log)
    steps = [number for number, change in enumerate(log, 1) if "/archived/" in change]
    assert sum("mergeArchivePlan" in log[number - 1] for number in steps) == 4
    for at in steps:
        place = copies(path, tmp_path / "broken")
        with dying(at):
            archive(TableClient.open(FaultyStorage(place)), joining)
        Storage(place).delete(".hoodie/lock")
        again = TableClient.open(Storage(place))
        for number in range(7, 10):
            upsert(again, {("p=a", 0): {"k": number}}, joining)
        writes = with_archive(again.timeline()).writes
        assert len(writes) == 10
        check_archive(place, [write.time for write in writes])
        assert rows_of(place)["p=a", "k"] == 9
        [_] = archive_files(Storage(place), ".hoodie/archived")


@pytest.fixture
def interrupted(client, monkeypatch):
    """Seven writes, of which the first five are archived and still on the timeline: that run was interrupted."""
    for number in range(7):
        upsert(client, {("p=a", 0): {f"k{number}": number}}, {**BY_HAND, "hoodie.clean.automatic": "false"})
    with monkeypatch.context() as patched, dying(1000):
        patched.setattr(_ArchivedTimeline, "_delete", freeze)
        archive(client, SHORT)
    client.storage.delete(".hoodie/lock")
    writes = client.timeline().writes
    assert len(writes) == 7
    assert [write.time for write in writes[:5]] == sorted(client.timeline().archive.writes)
    return writes


def freeze(*_):
    raise Frozen


@pytest.mark.parametrize("number", [0, 4])
def test_what_an_interrupted_run_has_archived_is_not_restored(client, interrupted, number):
    with pytest.raises(TransactionError, match="archived"):
        restore_table(client, interrupted[number].time)
    assert client.timeline().writes == interrupted[5:]
    check_archive(client.storage.uri, [write.time for write in interrupted])
    assert len(rows_of(client.storage.uri)) == 7


def test_a_restore_finishes_an_interrupted_run(client, interrupted):
    restore_table(client, interrupted[5].time, SHORT)
    assert client.timeline().writes == interrupted[5:6]
    for _ in range(2):
        archive(client, SHORT)
        assert len(rows_of(client.storage.uri)) == 6
    check_archive(client.storage.uri, [write.time for write in interrupted[:6]])


def test_a_rollback_finishes_an_interrupted_run(client, interrupted):
    rollback_write(client, interrupted[6].time)
    with pytest.raises(TransactionError, match="the write before"):
        rollback_write(client, interrupted[5].time)
    assert len(rows_of(client.storage.uri)) == 6


@pytest.mark.parametrize("number", [0, 1, 4])
def test_finishing_a_run_after_another_tools_restore_leaves_writes(client, interrupted, number, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("table_writer.commit.restore.finish_archiving", lambda _: False)
        restore_table(client, interrupted[number].time)
    rows = rows_of(client.storage.uri)
    assert len(rows) == number + 1
    for _ in range(2):
        archive(client, SHORT)
        assert client.timeline().writes == interrupted[max(0, number - 1) : number + 1], "hoodie.keep.min.commits"
        assert rows_of(client.storage.uri) == rows
    for value in range(5):
        upsert(client, {("p=a", 0): {"k0": value}}, SHORT)
    assert rows_of(client.storage.uri) == rows | {("p=a", "k0"): 4}


def test_finishing_a_run_leaves_what_a_savepoint_keeps(client, interrupted):
    create_savepoint(client, interrupted[2].time)
    archive(client, SHORT)
    assert client.timeline().writes == interrupted[2:]
    delete_savepoint(client, interrupted[2].time)
    archive(client, SHORT)
    check_archive(client.storage.uri, [write.time for write in interrupted])


def test_a_torn_archive_of_another_tool_does_not_stop_archiving(client, storage):
    live(client, BY_HAND, 6)
    torn = write_archive_file(storage, ".hoodie/archived", [b"x"])
    storage.overwrite(torn, storage.read(torn)[:-5])
    assert archive(client, SHORT).instants
    assert len(client.timeline().writes) == 2


@pytest.mark.parametrize("step", ["data_instants", "write_archive_file"])
def test_an_archiving_that_lost_the_lock_deletes_nothing(client, storage, monkeypatch, step):
    """As after a pause of its machine: others break the lock, and write."""
    live(client, BY_HAND)
    times = [write.time for write in client.timeline().writes]
    done = getattr(archive_module, step)

    def paused(*values):
        result = done(*values)
        storage.delete(".hoodie/lock")
        monkeypatch.undo()
        upsert(TableClient.open(storage), {("p=a", 0): {"k": 99}}, BY_HAND)
        return result

    monkeypatch.setattr(archive_module, step, paused)
    with pytest.raises(LockError, match="broke this lock"):
        archive(client, SHORT)
    assert [write.time for write in client.timeline().writes][: len(times)] == times
    assert rows_of(storage.uri)["p=a", "k"] == 99
