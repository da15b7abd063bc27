"""Savepoints, restores and rollbacks of completed writes: what goes, what is refused, and what runs beside them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.table import open_table
from table_format.actions.avro_schemas import REQUESTED_REPLACE
from table_format.actions.restore import RestoreMetadata, RestorePlan
from table_format.actions.rollback import RollbackMetadata
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import ConflictError, LockError, StorageError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.restore import restore_table, rollback_write
from table_writer.services import undo
from table_writer.services.clean import clean
from table_writer.services.savepoint import create_savepoint, delete_savepoint, list_savepoints
from table_writer.services.undo import UndoReport
from table_writer.timeline.instants import instant_path, request
from tests.support import toy_table
from tests.support.four_writes import CHANGES, EAGER, KEEP, LEAST, times, write_all
from tests.support.toy_table import SCHEMA_JSON, assert_tidy, begin, rows_of, upsert, write_files


@pytest.fixture(params=["metadata table", "none"])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableClient:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    options = {"hoodie.metadata.enable": str(request.param != "none").lower()}
    return toy_table.make(Storage(str(tmp_path / "table")), options)


def test_a_restore_takes_writes_back(client: TableClient) -> None:
    instants, states = write_all(client)
    planned = restore_table(client, instants[1], dry_run=True)
    assert times(client) == instants, "nothing happened yet"
    report = restore_table(client, instants[1])
    assert rows_of(client.storage.uri) == states[1]
    assert report.undone == planned.undone == (instants[3], instants[2])
    assert (report.files, report.partitions) == (planned.files, planned.partitions) == (3, ("p=c",))
    assert report.bytes == planned.bytes > 1000
    assert (report.target, planned.instant) == (instants[1], None)
    [restore] = [one for one in client.timeline().completed if one.action == Action.RESTORE]
    assert restore.time == report.instant
    assert_tidy(client.storage.uri)
    upsert(client, CHANGES[3], KEEP)
    assert rows_of(client.storage.uri) == states[1] | {("p=a", "k4"): 4, ("p=c", "k5"): 5}
    assert_tidy(client.storage.uri)


def test_what_a_restore_leaves_on_the_timeline(client: TableClient) -> None:
    """As Apache's: the plan names the savepoint, the result each instant and its files, newest first."""
    instants, _ = write_all(client)
    report = restore_table(client, instants[1])
    assert report.instant is not None
    timeline = client.timeline()
    done = Instant(report.instant, Action.RESTORE, State.COMPLETED)
    requested = done.at(State.REQUESTED)
    plan = RestorePlan.from_avro(timeline.read(requested), "plan")
    assert (plan.savepoint, plan.instants) == (instants[1], [(instants[3], "commit"), (instants[2], "commit")])
    result = RestoreMetadata.from_avro(timeline.read(done), "result")
    assert result.commits == instants[2:]
    files = {one.commits[0]: {p: len(part.deleted) for p, part in one.partitions.items()} for one in result.rollbacks}
    assert files == {instants[3]: {"p=a": 1, "p=c": 1}, instants[2]: {"p=b": 1}}
    assert timeline.rolled_back == frozenset(instants[2:])


def test_a_rollback_takes_the_newest_write_back(client: TableClient) -> None:
    instants, states = write_all(client)
    with pytest.raises(TransactionError, match=f"1 write.s. follow {instants[2]}, up to {instants[3]}"):
        rollback_write(client, instants[2])
    assert rollback_write(client, instants[3], dry_run=True).files == 2
    assert rows_of(client.storage.uri) == states[3]
    report = rollback_write(client, instants[3])
    assert rows_of(client.storage.uri) == states[2]
    assert report.instant is not None
    content = client.timeline().read(Instant(report.instant, Action.ROLLBACK, State.COMPLETED))
    assert RollbackMetadata.from_avro(content, "result").commits == [instants[3]]
    assert_tidy(client.storage.uri)
    with pytest.raises(TransactionError, match="was rolled back"):
        rollback_write(client, instants[3])


def test_the_only_write_can_be_rolled_back(client: TableClient) -> None:
    upsert(client, CHANGES[0])
    report = rollback_write(client, times(client)[0])
    assert report.target is None
    assert rows_of(client.storage.uri) == {}
    upsert(client, CHANGES[0])
    assert rows_of(client.storage.uri) == {("p=a", "k1"): 1, ("p=a", "k2"): 2}
    assert_tidy(client.storage.uri)


def test_replaced_file_groups_come_back(client: TableClient) -> None:
    instants, states = write_all(client)
    toy_table.overwrite(client, {("p=a", 0): {"k9": 9}}, KEEP)
    assert restore_table(client, instants[3]).files == 1
    assert rows_of(client.storage.uri) == states[3]
    assert_tidy(client.storage.uri)


def test_restoring_to_the_newest_write_does_nothing(client: TableClient) -> None:
    instants, states = write_all(client)
    before = client.timeline().instants
    report = restore_table(client, instants[3])
    assert (report.instant, report.undone) == (None, ())
    assert client.timeline().instants == before
    assert rows_of(client.storage.uri) == states[3]


def test_targets_that_are_refused(client: TableClient) -> None:
    instants, states = write_all(client)
    create_savepoint(client, instants[2])
    with pytest.raises(TransactionError, match=f"{instants[2]} has a savepoint, and is newer than {instants[1]}"):
        restore_table(client, instants[1])
    for service in (restore_table, rollback_write, create_savepoint):
        with pytest.raises(TransactionError, match="20200101000000000 is no write of this table"):
            service(client, "20200101000000000")
    with pytest.raises(TransactionError, match="is no write of this table"):
        restore_table(client, instants[3][:-1] + "~")
    restore_table(client, instants[2])
    with pytest.raises(TransactionError, match="a savepoint keeps"):
        rollback_write(client, instants[2])
    assert rows_of(client.storage.uri) == states[2]


def test_a_state_whose_files_were_cleaned_is_refused(client: TableClient) -> None:
    instants, states = write_all(client)
    upsert(client, {("p=a", 0): {"k4": 44}}, KEEP)
    assert clean(client, LEAST).files
    with pytest.raises(TransactionError, match=r"the state after \d+ is gone: .* were cleaned away, such as p=a/"):
        restore_table(client, instants[0])
    with pytest.raises(TransactionError, match="were cleaned away"):
        create_savepoint(client, instants[0])
    restore_table(client, instants[3])
    assert rows_of(client.storage.uri) == states[3]


def test_a_state_whose_files_are_missing_is_refused(client: TableClient) -> None:
    instants, states = write_all(client)
    lost = next(e.path for e in client.storage.list("p=b") if instants[1] in e.name)
    content = client.storage.read(lost)
    client.storage.delete(lost)
    with pytest.raises(TransactionError, match=f"1 of its files are missing, such as {lost}"):
        restore_table(client, instants[1])
    client.storage.create(lost, content)
    restore_table(client, instants[1])
    assert rows_of(client.storage.uri) == states[1]


def test_a_savepoint_keeps_its_state(client: TableClient) -> None:
    instants, states = write_all(client)
    saved = create_savepoint(client, instants[1], user="me", comments="before the migration")
    assert (saved.instant, saved.user, saved.files, saved.partitions) == (instants[1], "me", 3, 2)
    with pytest.raises(TransactionError, match="has a savepoint already"):
        create_savepoint(client, instants[1])
    upsert(client, {("p=a", 0): {"k4": 44}}, KEEP)
    clean(client, LEAST)
    assert list_savepoints(client) == [saved]
    restore_table(client, instants[1])
    assert rows_of(client.storage.uri) == states[1]
    delete_savepoint(client, instants[1])
    assert list_savepoints(client) == []
    with pytest.raises(TransactionError, match=f"no savepoint {instants[1]}; it has none"):
        delete_savepoint(client, instants[1])
    with pytest.raises(TransactionError, match="were cleaned away"):
        restore_table(client, instants[0])
    assert_tidy(client.storage.uri)


def test_archiving_leaves_what_a_savepoint_keeps(client: TableClient) -> None:
    short = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", **LEAST}
    upsert(client, CHANGES[0], short)
    saved = create_savepoint(client).instant
    for number in range(8):
        upsert(client, {("p=a", 0): {"k1": number}}, short)
    assert times(client)[0] == saved
    restore_table(client, saved)
    assert rows_of(client.storage.uri) == {("p=a", "k1"): 1, ("p=a", "k2"): 2}
    assert_tidy_beside(client, saved)


def assert_tidy_beside(client: TableClient, saved: str) -> None:
    """`assert_tidy`, after the savepoint, which has no requested state, is deleted."""
    delete_savepoint(client, saved)
    assert_tidy(client.storage.uri)


def test_an_archived_target_is_refused(client: TableClient) -> None:
    short = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", **LEAST}
    upsert(client, CHANGES[0], short)
    [first] = times(client)
    for number in range(6):
        upsert(client, {("p=a", 0): {"k1": number}}, short)
    assert first not in times(client)
    with pytest.raises(TransactionError, match=f"{first} is not on the active timeline, which begins at"):
        restore_table(client, first)


@pytest.mark.parametrize("service", [restore_table, rollback_write])
def test_a_write_beside_them_conflicts(client: TableClient, service) -> None:
    instants, states = write_all(client)
    with begin(client, KEEP) as beside:
        beside.mark_inflight()
        stats, columns = write_files(beside, {("p=b", 0): {"k7": 7}})
        service(client, instants[2] if service is restore_table else instants[3])
        with pytest.raises(ConflictError, match=r"took .* back"):
            beside.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(client.storage.uri) == states[2]
    assert_tidy(client.storage.uri)


@pytest.mark.parametrize("service", [restore_table, rollback_write])
def test_a_write_beside_unfinished_ones_conflicts(
    client: TableClient, monkeypatch: pytest.MonkeyPatch, service: Callable[..., UndoReport]
) -> None:
    """In effect, but what was taken back could not be removed."""
    instants, states = write_all(client)

    def failing(*_: object) -> None:
        raise StorageError("the storage is away for a moment")

    with begin(client, KEEP) as beside:
        beside.mark_inflight()
        stats, columns = write_files(beside, {("p=b", 0): {"k7": 7}})
        with monkeypatch.context() as patch:
            patch.setattr(undo, "_finish", failing)
            service(client, instants[2] if service is restore_table else instants[3])
        assert [one.instant.action for one in client.timeline().undoing], "left to the next writer"
        with pytest.raises(ConflictError, match=r"took .* back"):
            beside.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(client.storage.uri) == states[2]
    assert_tidy(client.storage.uri)


def test_a_write_conflicts_if_an_earlier_one_is_gone(client: TableClient) -> None:
    """However that came about: no restore or rollback tells of it."""
    instants, _ = write_all(client)
    with begin(client, KEEP) as beside:
        beside.mark_inflight()
        stats, columns = write_files(beside, {("p=b", 0): {"k7": 7}})
        for state in State:
            client.storage.delete(instant_path(Instant(instants[3], Action.COMMIT, state)))
        with pytest.raises(ConflictError, match=f"{instants[3]} left the timeline while this write was under way"):
            beside.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)


@pytest.mark.parametrize("service", [restore_table, rollback_write])
def test_a_restore_that_lost_the_lock_has_no_effect(
    client: TableClient, monkeypatch: pytest.MonkeyPatch, service: Callable[..., UndoReport]
) -> None:
    """As after a pause of its machine: others break the lock, and write."""
    instants, states = write_all(client)
    record = undo._record

    def paused(*values: Any, **named: Any) -> None:
        record(*values, **named)
        client.storage.delete(".hoodie/lock")
        upsert(TableClient.open(client.storage), {("p=b", 0): {"k7": 7}}, KEEP)

    monkeypatch.setattr(undo, "_record", paused)
    with pytest.raises(LockError, match="broke this lock"):
        service(client, instants[2] if service is restore_table else instants[3])
    assert rows_of(client.storage.uri) == states[3] | {("p=b", "k7"): 7}
    assert_tidy(client.storage.uri)


def test_a_restore_that_another_tool_wrote_beside_has_no_effect(
    client: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a lock, as Apache's single writers do."""
    instants, states = write_all(client)
    record = undo._record

    def beside(*values: Any, **named: Any) -> None:
        record(*values, **named)
        client.storage.create(instant_path(Instant("20990101000000000", Action.COMMIT, State.REQUESTED)), b"")

    with monkeypatch.context() as patch:
        patch.setattr(undo, "_record", beside)
        with pytest.raises(ConflictError, match=r"20990101000000000 .commit. came or went while restore"):
            restore_table(client, instants[2])
    assert rows_of(client.storage.uri) == states[3]
    restore_table(client, instants[2], EAGER)
    assert rows_of(client.storage.uri) == states[2]
    assert_tidy(client.storage.uri)


def test_a_write_of_another_tool_is_not_undermined(client: TableClient) -> None:
    instants, states = write_all(client)
    client.storage.create(".hoodie/20990101000000000.commit.requested", b"")
    with pytest.raises(TransactionError, match="20990101000000000 commit REQUESTED of another tool is pending"):
        restore_table(client, instants[1])
    with pytest.raises(TransactionError, match="of another tool is pending"):
        rollback_write(client, instants[3])
    restore_table(client, instants[1], {"hoodie.clean.failed.writes.policy": "EAGER"})
    assert rows_of(client.storage.uri) == states[1]


def test_a_clustering_that_was_planned_later_goes_with_a_restore(client: TableClient) -> None:
    instants, states = write_all(client)
    plan = request(client, Action.REPLACECOMMIT, clustering_plan())
    with pytest.raises(TransactionError, match="a clustering, was planned after"):
        rollback_write(client, instants[3])
    report = restore_table(client, instants[3])
    assert report.undone == (plan.time,)
    assert rows_of(client.storage.uri) == states[3]
    assert_tidy(client.storage.uri)


def clustering_plan() -> bytes:
    return write_avro_file(REQUESTED_REPLACE, [{"operationType": "CLUSTER", "clusteringPlan": None, "version": 1}])


def test_a_pending_write_is_rolled_back_by_its_instant(client: TableClient) -> None:
    _, states = write_all(client)
    dead = begin(client, KEEP)
    dead.mark_inflight()
    write_files(dead, {("p=b", 0): {"k7": 7}})
    assert rollback_write(client, dead.instant, dry_run=True).files == 1
    assert rollback_write(client, dead.instant).undone == (dead.instant,)
    assert rows_of(client.storage.uri) == states[3]


def test_readers_that_are_open_notice(client: TableClient) -> None:
    instants, _ = write_all(client)
    table = open_table(client.storage.uri)
    before = table.scan().to_arrow().num_rows
    restore_table(client, instants[0])
    table.refresh()
    assert table.scan().to_arrow().num_rows == 2 < before
    assert [one.time for one in table.client.timeline().writes] == instants[:1]
