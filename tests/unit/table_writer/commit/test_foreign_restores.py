"""Restores and rollbacks of completed writes that another tool began: left to it, or finished once it has died."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from table_format.actions.restore import RestorePlan, SavepointMetadata
from table_format.actions.rollback import RollbackPlan, RollbackRequest
from table_format.errors import StorageError, TransactionError
from table_format.instant import Action, Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.archive.archive import archive
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.services import undo
from table_writer.services.clean import clean
from table_writer.services.savepoint import create_savepoint, delete_savepoint
from table_writer.timeline.instants import instant_path, request
from tests.property.profile import STRIDE
from tests.support import toy_table
from tests.support.faults import FaultyStorage, dying
from tests.support.four_writes import CHANGES, EAGER, KEEP, LEAST, write_all
from tests.support.toy_table import SCHEMA_JSON, assert_tidy, begin, rows_of, upsert, write_files

FEW = {**LEAST, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}


@pytest.fixture(params=["metadata table", "none"])
def client(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TableClient:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    options = {"hoodie.metadata.enable": str(request.param != "none").lower()}
    return toy_table.make(Storage(str(tmp_path / "table")), options)


def test_a_write_beside_another_tools_restore_does_not_commit(client: TableClient) -> None:
    instants, states = write_all(client)
    beside = begin(client, KEEP)
    beside.mark_inflight()
    stats, columns = write_files(beside, {("p=b", 0): {"k7": 7}})
    begin_as_apache(client, instants[1], instants[2:], 1)
    with pytest.raises(TransactionError, match="by another tool; finish it with the tool that began it"):
        beside.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(client.storage.uri) == states[1]


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
        lambda: archive(client, FEW),
    ]
    before = {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir}
    for act in acts:
        with pytest.raises(TransactionError, match="by another tool; finish it with the tool that began it"):
            act()
    assert {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir} == before


def test_nothing_is_cleaned_before_another_tools_restore_that_is_about_to_begin(client: TableClient) -> None:
    instants, states = write_all(client)
    plan = RestorePlan(instants[1], [(time, "commit") for time in reversed(instants[2:])])
    restore = request(client, Action.RESTORE, plan.to_avro())
    before = {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir}
    acts: list[Callable[[], object]] = [
        lambda: clean(client, LEAST),
        lambda: create_savepoint(client),
        lambda: archive(client, FEW),
    ]
    for act in acts:
        with pytest.raises(TransactionError, match=rf"{restore.time}.*about to begin; let its tool go on"):
            act()
    assert {entry.path for entry in client.storage.list(recursive=True) if not entry.is_dir} == before
    rollback_failed_writes(client)
    assert clean(client, LEAST).files
    archive(client, FEW)
    assert rows_of(client.storage.uri) == states[3]


def test_nothing_is_cleaned_before_another_tools_rollback_of_a_completed_write(client: TableClient) -> None:
    instants, _ = write_all(client)
    request(client, Action.ROLLBACK, RollbackPlan(instants[3], "commit", []).to_avro())
    with pytest.raises(TransactionError, match="a rollback of completed writes that is about to begin"):
        clean(client, LEAST)


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


@pytest.mark.slow
def test_finishing_another_tools_restore_can_be_killed(client: TableClient, tmp_path: Path) -> None:
    instants, states = write_all(client)
    begin_as_apache(client, instants[1], instants[2:], 0)
    listed = client.reload().metadata_partitions
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
        assert TableClient.open(str(path)).config.metadata_partitions == listed, at
        assert_tidy(str(path))
        shutil.rmtree(path)
        if ended:
            break
    assert at > 10


def failing(*_: Any) -> bool:
    raise StorageError("no answer")


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


def test_the_metadata_table_of_a_restore_that_was_finished_waits_for_pending_writes(
    client: TableClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants, states = write_all(client)
    begin_as_apache(client, instants[1], instants[2:], 0)
    listed = client.reload().metadata_partitions
    with monkeypatch.context() as patch:
        patch.setattr(undo, "rebuild_noted", failing)
        with pytest.raises(StorageError):
            rollback_failed_writes(client, EAGER)
    assert client.reload().metadata_partitions == ()
    others = request(client, "commit", b"")
    client.storage.create(f".hoodie/.temp/{instants[0]}/x.parquet.marker.CREATE", b"")
    rollback_failed_writes(client)
    assert client.reload().metadata_partitions == ()
    assert not client.storage.exists(f".hoodie/.temp/{instants[0]}"), "other remains do not wait"
    client.storage.delete(instant_path(others))
    upsert(client, CHANGES[3])
    assert rows_of(client.storage.uri) == states[1] | {("p=a", "k4"): 4, ("p=c", "k5"): 5}
    assert client.reload().metadata_partitions == listed
    assert_tidy(client.storage.uri)


def test_another_tools_restore_that_never_began_is_cancelled(client: TableClient) -> None:
    instants, states = write_all(client)
    request(client, Action.RESTORE, RestorePlan(instants[1], [(instants[3], "commit")]).to_avro())
    assert rows_of(client.storage.uri) == states[3]
    upsert(client, CHANGES[2])
    assert rows_of(client.storage.uri) == states[3]
    assert_tidy(client.storage.uri)
