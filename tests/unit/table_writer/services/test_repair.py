"""What a repair deletes, and above all what it leaves alone."""

import dataclasses
import shutil
import time

import pytest

from table_format.actions.rollback import RollbackMetadata
from table_format.errors import OptionError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.table.client import TableClient
from table_writer import repair as repairs
from table_writer.archive.archive import archive
from table_writer.repair import RepairReport, repair
from table_writer.services.clean import clean
from table_writer.services.orphans import Reason, all_base_files, find_orphans
from table_writer.timeline.markers import create_marker
from tests.support import toy_table
from tests.support.archived_tables import SHORT
from tests.support.faults import FaultyStorage, dying
from tests.support.toy_table import assert_tidy, begin, rows_of, upsert, write_files

NOW = {"hoodie.catalog.repair.minutes": "0"}
BY_HAND = {**SHORT, "hoodie.archive.automatic": "false", "hoodie.clean.automatic": "false"}


def stray(storage, instant: str, partition: str = "p=a", group: int = 9) -> str:
    """A file of an instant, as a task leaves it that outlives its write."""
    path = f"{partition}/{group:08d}-1111-1111-1111-111111111111-0_1-9-9_{instant}.parquet"
    storage.create(path, b"stray")
    return path


def grow(client, commits: int = 4) -> list[str]:
    for number in range(commits):
        upsert(client, {("p=a", 0): {"k": number}}, BY_HAND)
    return [write.time for write in client.timeline().writes]


def between(times: list[str]) -> str:
    return f"{int(times[-1]) - 1}"


def test_a_whole_table(client, storage):
    grow(client)
    before = {entry.path for entry in storage.list("", recursive=True) if not entry.is_dir}
    assert repair(client, NOW) == RepairReport()
    assert {entry.path for entry in storage.list("", recursive=True) if not entry.is_dir} == before


def test_files_of_no_instant_and_of_retried_tasks(client, storage):
    times = grow(client)
    paths = [stray(storage, between(times)), stray(storage, times[1], group=8)]
    planned = repair(client, NOW, dry_run=True)
    assert all(storage.exists(path) for path in paths)
    done = repair(client, NOW)
    assert planned == done
    assert {file.path: (file.reason, file.size) for file in done.files} == {
        paths[0]: (Reason.UNKNOWN, 5),
        paths[1]: (Reason.UNCOMMITTED, 5),
    }
    assert done.bytes == 10
    assert_tidy(storage.uri)


def test_young_files_stay(client, storage):
    path = stray(storage, between(grow(client)))
    assert repair(client) == RepairReport(young=1)
    storage.touch(path, time.time() - 61 * 60)
    assert [file.path for file in repair(client).files] == [path]


def test_writes_of_dead_writers_are_rolled_back(client, storage):
    grow(client)
    begin(client, BY_HAND)  # dropped, as by a process that ends
    writer = begin(client, BY_HAND)
    writer.mark_inflight()
    stats, _ = write_files(writer, {("p=b", 1): {"new": 1}})
    instant = writer.instant
    writer._give_up()
    planned, done = repair(client, dry_run=True), repair(client)
    assert planned == done
    assert instant in done.rolled_back
    assert [(file.path, file.reason, file.size) for file in done.files] == [
        (stats[0].path, Reason.DEAD, stats[0].file_size_in_bytes)
    ]
    assert_tidy(storage.uri)


def test_live_writers_keep_their_files(client, storage):
    grow(client)
    with begin(client, BY_HAND) as writer:
        writer.mark_inflight()
        stats, columns = write_files(writer, {("p=b", 1): {"new": 1}})
        assert repair(client, NOW) == RepairReport()
        writer.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns)
    assert repair(client, NOW) == RepairReport()
    assert rows_of(storage.uri)["p=b", "new"] == 1


def test_a_write_that_completes_while_files_are_listed_keeps_them(client, storage, monkeypatch):
    """The timeline is looked at again before anything is deleted."""
    grow(client)
    writer = begin(client, BY_HAND)
    writer.mark_inflight()
    stats, columns = write_files(writer, {("p=b", 1): {"new": 1}})
    times = [write.time for write in client.timeline().writes]
    path = stray(storage, between(times))
    plain = repairs.find_orphans

    def forgetful(client, files, *, timeline=None, **how):
        if timeline is not None:
            return plain(client, files, timeline=timeline, **how)
        then = client.timeline()
        others = tuple(instant for instant in then.instants if instant.time != writer.instant)
        known = dataclasses.replace(then, instants=others)
        search = plain(client, files, timeline=known, **{**how, "alive": ()})
        assert {orphan.path for orphan in search.orphans} == {path, stats[0].path}
        writer.commit(stats, schema_json=toy_table.SCHEMA_JSON, column_stats=columns)
        return search

    monkeypatch.setattr(repairs, "find_orphans", forgetful)
    assert [file.path for file in repair(client, NOW).files] == [path]
    assert rows_of(storage.uri)["p=b", "new"] == 1
    assert_tidy(storage.uri)


@pytest.mark.parametrize("listed", ["true", "false"])
def test_files_of_archived_writes_stay(storage, listed):
    client = toy_table.make(storage, {"hoodie.metadata.enable": listed})
    grow(client, 8)
    archive(client, SHORT)
    assert client.timeline().archive.writes
    assert repair(client, NOW) == RepairReport()
    times = sorted(client.timeline().archive.writes)
    path = stray(storage, times[1])
    assert [file.path for file in repair(client, NOW).files] == [path]
    assert_tidy(storage.uri)


def test_what_is_older_than_all_that_is_known_stays(client, storage):
    grow(client)
    path = stray(storage, "20000101000000000")
    assert repair(client, NOW) == RepairReport(unclear=1)
    assert storage.exists(path)


def test_files_of_savepoints_stay(client, storage, monkeypatch):
    path = stray(storage, between(grow(client)))
    monkeypatch.setattr("table_writer.services.orphans.savepointed_files", lambda _: {path.split("/")[1]})
    assert repair(client, NOW) == RepairReport()


def test_other_files_and_tables_within_the_table_stay(client, storage):
    times = grow(client)
    storage.create("p=a/notes.txt", b"")
    storage.create("p=a/report_1_2024.parquet", b"")
    storage.create(f"backup/{9:08d}-1111-1111-1111-111111111111-0_1-9-9_{between(times)}.parquet", b"")
    shutil.copytree(storage.full_path("p=a"), storage.full_path("inner/p=a"))
    shutil.copytree(storage.full_path(".hoodie"), storage.full_path("inner/.hoodie"))
    stray(storage, between(times), "inner/p=a")
    assert repair(client, NOW) == RepairReport()


def test_copies_of_the_tables_own_files_stay(client, storage):
    grow(client)
    shutil.copytree(storage.full_path("p=a"), storage.full_path("copy/p=a"))
    assert repair(client, NOW) == RepairReport()


def test_files_of_rolled_back_writes_go_even_without_their_partition(client, storage):
    grow(client)
    writer = begin(client, BY_HAND)
    instant = writer.instant
    writer.abort()
    assert instant in client.timeline().rolled_back
    path = stray(storage, instant, "p=z")
    [orphan] = repair(client, NOW).files
    assert (orphan.path, orphan.reason) == (path, Reason.UNDONE)


def test_the_rollback_of_an_instant_that_completed_later_does_not_count(client, storage):
    """Apache rolls a clustering back and runs it again under its time."""
    times = grow(client)
    content = RollbackMetadata(times[-1], 0, [(times[1], Action.COMMIT)]).to_avro()
    later = Instant(f"{int(times[-1]) + 5}", Action.ROLLBACK, State.COMPLETED)
    storage.create(f".hoodie/{later.file_name}", content)
    search = find_orphans(client, all_base_files(storage), before_ms=float("inf"), timeline=client.timeline())
    assert search.orphans == ()


def test_what_a_clean_failed_to_delete(client, storage):
    grow(client)
    kept = {entry.path: storage.read(entry.path) for entry in storage.list("p=a") if entry.path.endswith(".parquet")}
    clean(client, {"hoodie.clean.commits.retained": "1"})
    [path, _] = sorted(set(kept) - {entry.path for entry in storage.list("p=a")})
    storage.create(path, kept[path])
    [orphan] = repair(client, NOW).files
    assert (orphan.path, orphan.reason) == (path, Reason.CLEANED)
    assert_tidy(storage.uri)


def test_an_interrupted_clean_is_finished(client, storage):
    grow(client)
    with dying(4):
        clean(TableClient.open(FaultyStorage(storage.uri)), {"hoodie.clean.commits.retained": "1"})
    [pending] = client.timeline().pending
    planned, done = repair(client, NOW, dry_run=True), repair(client, NOW)
    assert planned == done == RepairReport(cleans=(pending.time,))
    assert_tidy(storage.uri)


def test_markers_of_ended_writes(client, storage):
    times = grow(client)
    create_marker(storage, times[1], "p=a", "x_1-0-1_1.parquet", "CREATE")
    planned, done = repair(client, dry_run=True), repair(client)
    assert planned == done == RepairReport(leftovers=(times[1],))
    assert_tidy(storage.uri)


def test_a_pending_restore_is_finished_first(client, storage):
    times = grow(client)
    restore = Instant(f"{int(times[-1]) + 5}", Action.RESTORE, State.REQUESTED)
    storage.create(f".hoodie/{restore.file_name}", b"")
    with pytest.raises(TransactionError, match="restore"):
        repair(client, NOW, dry_run=True)
    assert repair(client, NOW) == RepairReport()
    assert_tidy(storage.uri)


def test_a_wrong_age(client):
    with pytest.raises(OptionError, match=r"hoodie\.catalog\.repair\.minutes"):
        repair(client, {"hoodie.catalog.repair.minutes": "-1"})
