"""Savepoints, restores and rollbacks of completed writes: what goes, what is refused, and what runs beside them."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.table import open_table
from table_format.actions.avro_schemas import REQUESTED_REPLACE
from table_format.actions.restore import RestoreMetadata, RestorePlan, SavepointMetadata
from table_format.actions.rollback import RollbackMetadata, RollbackPlan, RollbackRequest
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import ConflictError, LockError, StorageError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.restore import restore_table, rollback_write
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.services import undo
from table_writer.services.clean import clean
from table_writer.services.savepoint import create_savepoint, delete_savepoint, list_savepoints
from table_writer.services.undo import UndoReport
from table_writer.timeline.instants import instant_path, request
from tests.property.profile import STRIDE
from tests.support import toy_table
from tests.support.faults import FaultyStorage, dying
from tests.support.toy_table import SCHEMA_JSON, assert_tidy, begin, rows_of, upsert, write_files

KEEP = {"hoodie.clean.automatic": "false"}
LEAST = {"hoodie.cleaner.commits.retained": "1"}
#: four writes, and the rows after each
CHANGES: list[Mapping[tuple[str, int], Mapping[str, int]]] = [
    {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}},
    {("p=a", 0): {"k1": 10}, ("p=b", 0): {"k3": 3}},
    {("p=b", 0): {"k3": 30}},
    {("p=a", 0): {"k4": 4}, ("p=c", 1): {"k5": 5}},
]


@pytest.fixture(params=["metadata table", "none"])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableClient:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    options = {"hoodie.metadata.enable": str(request.param != "none").lower()}
    return toy_table.make(Storage(str(tmp_path / "table")), options)


def write_all(client: TableClient, options: Mapping[str, str] = KEEP) -> tuple[list[str], list[toy_table.Rows]]:
    """The four writes, and the rows after each."""
    states = []
    for changes in CHANGES:
        upsert(client, changes, options)
        states.append(rows_of(client.storage.uri))
    return times(client), states


def times(client: TableClient) -> list[str]:
    return [write.time for write in client.timeline().writes]


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


def test_a_write_beside_another_tools_restore_does_not_commit(client: TableClient) -> None:
    instants, states = write_all(client)
    beside = begin(client, KEEP)
    beside.mark_inflight()
    stats, columns = write_files(beside, {("p=b", 0): {"k7": 7}})
    begin_as_apache(client, instants[1], instants[2:], 1)
    with pytest.raises(TransactionError, match="by another tool; finish it with the tool that began it"):
        beside.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(client.storage.uri) == states[1]


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


def test_another_tools_interrupted_restore_is_left_to_it(client: TableClient) -> None:
    """Apache's inflight files are empty; what its writer did so far is unknown."""
    instants, states = write_all(client)
    plan = RestorePlan(instants[1], [(time, "commit") for time in reversed(instants[2:])])
    restore = request(client, Action.RESTORE, plan.to_avro())
    client.storage.create(instant_path(restore.at(State.INFLIGHT)), b"")
    assert rows_of(client.storage.uri) == states[3]
    savepoint = instant_path(Instant(instants[3], Action.SAVEPOINT, State.COMPLETED))
    client.storage.create(savepoint, SavepointMetadata("", 0, "").to_avro())
    acts: list[Callable[[], object]] = [
        lambda: upsert(client, CHANGES[0]),
        lambda: rollback_failed_writes(client),
        # these would delete the files that it returns to, or save what it takes back
        lambda: clean(client, LEAST),
        lambda: create_savepoint(client),
        lambda: delete_savepoint(client, instants[3]),
    ]
    before = {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir}
    for act in acts:
        with pytest.raises(TransactionError, match="by another tool; finish it with the tool that began it"):
            act()
    assert {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir} == before


EAGER = {**KEEP, "hoodie.clean.failed.writes.policy": "EAGER"}


def begin_as_apache(client: TableClient, target: str, times: list[str], done: int) -> Instant:
    """A restore that dies in the rollback after so many whole ones, as Apache's jobs leave it."""
    plan = RestorePlan(target, [(time, "commit") for time in reversed(times)])
    restore = request(client, Action.RESTORE, plan.to_avro())
    client.storage.create(instant_path(restore.at(State.INFLIGHT)), b"")
    for number, time in enumerate(reversed(times)):
        if number > done:
            break
        rollback = request(client, Action.ROLLBACK, RollbackPlan(time, "commit", []).to_avro())
        client.storage.create(instant_path(rollback.at(State.INFLIGHT)), b"")
        write = Instant(time, "commit", State.COMPLETED)
        client.storage.delete(instant_path(write))
        [*_, last] = files = [path for path in client.storage.list(recursive=True) if f"_{time}.parquet" in path.name]
        for file in files if number < done else [last]:
            client.storage.delete(file.path)
        for state in (State.INFLIGHT, State.REQUESTED) if number < done else ():
            client.storage.delete(instant_path(write.at(state)))
    return restore


@pytest.mark.parametrize("done", [0, 1])
def test_another_tools_dead_restore_is_finished(client: TableClient, done: int) -> None:
    instants, states = write_all(client)
    restore = begin_as_apache(client, instants[1], instants[2:], done)
    listed = client.reload().metadata_partitions
    # readers see the writes that are left, whole; no wait
    assert rows_of(client.storage.uri) == states[2 - done]
    with pytest.raises(TransactionError, match=r"policy=EAGER now"):
        upsert(client, CHANGES[3])
    upsert(client, CHANGES[3], EAGER)
    assert rows_of(client.storage.uri) == states[1] | {("p=a", "k4"): 4, ("p=c", "k5"): 5}
    timeline = client.timeline()
    assert not timeline.pending
    assert [one.time for one in timeline.completed if one.action == Action.RESTORE] == [restore.time]
    assert not any(one.action == Action.ROLLBACK for one in timeline.instants)
    assert client.reload().metadata_partitions == listed
    assert_tidy(client.storage.uri)


def test_finishing_another_tools_restore_can_be_killed(client: TableClient, tmp_path: Path) -> None:
    instants, states = write_all(client)
    begin_as_apache(client, instants[1], instants[2:], 0)
    for at in range(1, 1000, STRIDE):
        path = tmp_path / "killed"
        shutil.copytree(tmp_path / "table", path)
        ended = False
        with dying(at, ("before", "after")[at % 2]):
            rollback_failed_writes(TableClient.open(FaultyStorage(str(path))), EAGER)
            ended = True
        assert rows_of(str(path)) in (states[1], states[2]), at
        again = TableClient.open(str(path))
        rollback_failed_writes(again, EAGER)
        assert rows_of(str(path)) == states[1], at
        upsert(again, CHANGES[3], EAGER)
        assert rows_of(str(path)) == states[1] | {("p=a", "k4"): 4, ("p=c", "k5"): 5}
        shutil.rmtree(path)
        if ended:
            break
    assert at > 10


def test_another_tools_restore_that_never_began_is_cancelled(client: TableClient) -> None:
    instants, states = write_all(client)
    request(client, Action.RESTORE, RestorePlan(instants[1], [(instants[3], "commit")]).to_avro())
    assert rows_of(client.storage.uri) == states[3]
    upsert(client, CHANGES[2])
    assert rows_of(client.storage.uri) == states[3]
    assert_tidy(client.storage.uri)


def test_a_dead_restore_that_somebody_wrote_beside_is_refused(client: TableClient) -> None:
    instants, _ = write_all(client)
    restore = begin_as_apache(client, instants[1], instants[2:3], 0)
    content = client.storage.read(instant_path(Instant(instants[0], "commit", State.COMPLETED)))
    later = Instant(str(int(restore.time) + 5), "commit", State.COMPLETED)
    client.storage.create(instant_path(later), content)
    with pytest.raises(TransactionError, match=f"{later.time}.*came beside it"):
        upsert(client, CHANGES[0], EAGER)


def test_a_dead_restore_whose_plan_is_damaged_is_refused(client: TableClient) -> None:
    instants, _ = write_all(client)
    restore = begin_as_apache(client, instants[1], instants[2:], 0)
    client.storage.overwrite(instant_path(restore), b"Obj")
    with pytest.raises(TransactionError, match=r"restore.requested"):
        upsert(client, CHANGES[0], EAGER)


def test_another_tools_interrupted_rollback_of_a_completed_write_is_left_to_it(client: TableClient) -> None:
    instants, states = write_all(client)
    requests = [RollbackRequest("p=b", [client.storage.full_uri("p=b/x.parquet")])]
    rollback = request(client, Action.ROLLBACK, RollbackPlan(instants[1], "commit", requests).to_avro())
    client.storage.create(instant_path(rollback.at(State.INFLIGHT)), b"")
    assert rows_of(client.storage.uri) == states[3]
    for act in (lambda: upsert(client, CHANGES[0]), lambda: clean(client, LEAST), lambda: create_savepoint(client)):
        with pytest.raises(TransactionError, match="finish it with the tool that began it"):
            act()


def test_readers_that_are_open_notice(client: TableClient) -> None:
    instants, _ = write_all(client)
    table = open_table(client.storage.uri)
    before = table.scan().to_arrow().num_rows
    restore_table(client, instants[0])
    table.refresh()
    assert table.scan().to_arrow().num_rows == 2 < before
    assert [one.time for one in table.client.timeline().writes] == instants[:1]
