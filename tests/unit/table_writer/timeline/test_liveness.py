"""Which writers count as dead: by default none that may be alive."""

import gc
import json
import os
import subprocess
import sys
import time

import pytest

from table_format.errors import ConflictError, LockError, StorageError
from table_format.instant import Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.services.clean import clean
from table_writer.timeline.liveness import Owner
from table_writer.timeline.markers import create_marker
from tests.support.toy_table import SCHEMA_JSON, assert_tidy, begin, rows_of, upsert, write_files

FIRST = {("p=a", 0): {"k1": 1}, ("p=a", 1): {"k2": 2}}
FIRST_ROWS = {("p=a", "k1"): 1, ("p=a", "k2"): 2}
DEATH = """
import os, sys
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support import toy_table
tx = toy_table.begin(TableClient.open(Storage(sys.argv[1])))
tx.mark_inflight()
toy_table.write_files(tx, {("p=a", 0): {"k1": 5}})
print(tx.instant)
sys.stdout.flush()
os._exit(0)
"""


def die_in_a_write(storage: Storage) -> str:
    done = subprocess.run([sys.executable, "-c", DEATH, storage.uri], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def heartbeat_of(storage: Storage, instant: str) -> str:
    return f".hoodie/.heartbeat/{instant}"


@pytest.mark.slow
def test_a_process_that_died_on_this_machine_is_rolled_back_at_once(client, storage):
    upsert(client, FIRST)
    instant = die_in_a_write(storage)
    assert [i.time for i in client.timeline().pending] == [instant]
    assert rollback_failed_writes(client) == [instant]
    assert rows_of(storage.uri) == FIRST_ROWS
    assert_tidy(storage.uri)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the start of a process is not known")
def test_a_process_ends_with_its_last_thread():
    """A process that is killed is a zombie once its first thread ended; others may be in a call that writes."""
    script = """
import ctypes, sys, threading
from table_writer.timeline.liveness import Owner

owner = Owner.new(0)
threading.Thread(target=sys.stdin.read).start()
print(owner.to_json().decode(), flush=True)
ctypes.CDLL(None).syscall(ctypes.c_long({number}), ctypes.c_int(0))  # exit of this thread alone
"""
    number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    command = [sys.executable, "-c", script.replace("{number}", str(number))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        owner = Owner.parse(process.stdout.readline())
        assert owner is not None
        try:
            while _state(process.pid) != "Z":
                time.sleep(0.001)
            assert not owner.is_known_dead
        finally:
            process.kill()
        process.wait()
        assert owner.is_known_dead


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stream:
        return stream.read().rsplit(")", 1)[1].split()[0]


def test_a_live_write_of_the_same_process_is_left_alone(client, storage):
    live = begin(client)
    live.mark_inflight()
    stats, columns = write_files(live, {("p=a", 0): {"k1": 1}})
    beat = json.loads(storage.read(heartbeat_of(storage, live.instant)))
    assert beat["owner"]["pid"] == os.getpid()
    old = time.time() - 3600  # however long the process was stopped
    os.utime(storage.full_path(heartbeat_of(storage, live.instant)), (old, old))
    upsert(TableClient.open(Storage(storage.uri)), {("p=a", 1): {"k2": 2}})
    live.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == FIRST_ROWS
    assert_tidy(storage.uri)


def test_a_write_that_was_dropped_without_an_end_is_dead(client):
    dropped = begin(client)
    dropped.mark_inflight()
    instant = dropped.instant
    assert rollback_failed_writes(client) == []
    del dropped
    gc.collect()
    assert rollback_failed_writes(client) == [instant]


def test_a_fork_that_ends_does_not_end_its_parents_write(client, storage):
    tx = begin(client)
    tx.mark_inflight()
    child = os.fork()
    if child == 0:
        tx._dropped()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert storage.entry(heartbeat_of(storage, tx.instant)).mtime_ms > 0
    assert rollback_failed_writes(TableClient.open(Storage(storage.uri))) == []
    tx.abort()


def test_a_write_that_could_not_be_undone_is_rolled_back_by_the_next_writer(client, storage, monkeypatch):
    tx = begin(client)
    tx.mark_inflight()
    write_files(tx, FIRST)
    import table_writer.commit.transaction as module

    def away(*_):
        raise StorageError("the storage is away for a moment")

    with monkeypatch.context() as patch:
        patch.setattr(module, "roll_back", away)
        with pytest.raises(StorageError):
            tx.abort()
    assert storage.entry(heartbeat_of(storage, tx.instant)).mtime_ms == 0, "expired for Apache's writers, too"
    assert rollback_failed_writes(client) == [tx.instant]
    assert_tidy(storage.uri)


@pytest.mark.parametrize(("age", "dead"), [(110, False), (130, True)])
def test_a_writer_of_another_machine_is_dead_when_its_heartbeat_expires(client, storage, age, dead):
    tx = begin(client)
    tx.mark_inflight()
    tx._heartbeat._pulse.stop()
    path = heartbeat_of(storage, tx.instant)
    content = json.loads(storage.read(path))
    content["owner"] |= {"host": "elsewhere"}
    storage.overwrite(path, json.dumps(content).encode())
    then = time.time() - age
    os.utime(storage.full_path(path), (then, then))
    assert rollback_failed_writes(client) == ([tx.instant] if dead else [])
    impatient = {"hoodie.client.heartbeat.interval_in_ms": "1000"}
    if not dead:
        assert rollback_failed_writes(client, impatient) == [], "its own patience counts as well"
        patient = {"hoodie.client.heartbeat.interval_in_ms": "3600000"}
        os.utime(storage.full_path(path), (then - 100, then - 100))
        assert rollback_failed_writes(client, patient) == []
        assert rollback_failed_writes(client) == [tx.instant]


def pending_of_apache(client: TableClient, storage: Storage, minutes: float) -> str:
    """A write in flight as Apache's single writers leave it: without a heartbeat."""
    time_ = "20260101000000000"
    paths = [f".hoodie/{Instant(time_, 'commit', state).file_name}" for state in (State.REQUESTED, State.INFLIGHT)]
    for path in paths:
        storage.create(path, b"")
    create_marker(storage, time_, "p=a", "00000000-x_0-0-0_20260101000000000.parquet", "CREATE")
    then = time.time() - minutes * 60
    for entry in storage.list(".hoodie", recursive=True):
        if time_ in entry.path:
            os.utime(storage.full_path(entry.path), (then, then))
    return time_


def test_a_write_of_apache_without_a_heartbeat_may_be_alive(client, storage, caplog):
    upsert(client, FIRST)
    instant = pending_of_apache(client, storage, 50)
    upsert(client, {("p=a", 0): {"k1": 7}})
    assert "has no heartbeat" in caplog.text
    assert "If its writer is dead, hoodie.clean.failed.writes.policy=EAGER rolls it back now" in caplog.text
    assert [i.time for i in client.timeline().pending] == [instant]
    assert rollback_failed_writes(client, {"hoodie.catalog.write.silent.minutes": "40"}) == [instant]
    assert_tidy(storage.uri)


@pytest.mark.parametrize("torn", [b"p=a/00000000-x_0", "p=日".encode()[:-1]])
def test_a_torn_list_of_markers_stops_nobody(client, storage, torn):
    """As a timeline server leaves it that dies while it writes the list anew."""
    upsert(client, FIRST)
    instant = pending_of_apache(client, storage, 50)
    storage.create(f".hoodie/.temp/{instant}/MARKERS0", torn)
    path = f"p=a/00000000-x_0-0-0_{instant}.parquet"
    storage.create(path, b"PAR1")
    upsert(client, {("p=a", 0): {"k1": 7}})
    assert [i.time for i in client.timeline().pending] == [instant], "it changed files just now"
    assert rollback_failed_writes(client, {"hoodie.clean.failed.writes.policy": "EAGER"}) == [instant]
    assert not storage.exists(path)
    assert_tidy(storage.uri)


def test_a_torn_list_of_an_ended_write_is_deleted(client, storage):
    upsert(client, FIRST)
    [write] = client.timeline().writes
    late = f"p=a/00000000-x_0-0-9_{write.time}.parquet"
    storage.create(late, b"PAR1")
    storage.create(f".hoodie/.temp/{write.time}/MARKERS0", b"p=a/00000000-x_0")
    upsert(client, {("p=a", 1): {"k2": 7}})
    assert not storage.exists(late)
    assert rows_of(storage.uri) == FIRST_ROWS | {("p=a", "k2"): 7}
    assert_tidy(storage.uri)


def test_a_data_file_that_grows_shows_that_apache_is_alive(client, storage):
    instant = pending_of_apache(client, storage, 200)
    path = "p=a/00000000-x_0-0-0_20260101000000000.parquet"
    storage.create(path, b"PAR1")
    assert rollback_failed_writes(client) == []
    os.utime(storage.full_path(path), (1, 1))
    assert rollback_failed_writes(client) == [instant]
    assert not storage.exists(path)


def test_eager_takes_all_that_is_pending_for_dead(client, storage):
    live = begin(client)
    live.mark_inflight()
    stats, columns = write_files(live, FIRST)
    assert rollback_failed_writes(client, {"hoodie.clean.failed.writes.policy": "EAGER"}) == [live.instant]
    with pytest.raises(ConflictError, match=rf"{live.instant}.*considered this one dead.*rollback"):
        live.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert rows_of(storage.uri) == {}


def test_a_lock_that_cannot_be_taken_leaves_a_dead_write(client, storage, monkeypatch):
    tx = begin(client, {"hoodie.write.lock.client.num_retries": "0"})
    tx.mark_inflight()
    storage.create(".hoodie/lock", b"")
    with pytest.raises(LockError) as raised:
        tx.commit([], schema_json=SCHEMA_JSON)
    assert "stays pending" in raised.value.__notes__[0]
    storage.delete(".hoodie/lock")
    assert rollback_failed_writes(client) == [tx.instant]
    assert_tidy(storage.uri)


def test_cleaning_leaves_what_a_live_writer_began_with(client, storage):
    """The writes that supersede its files have earlier times, and complete after it has begun."""
    keep, one = {"hoodie.clean.automatic": "false"}, {"hoodie.clean.commits.retained": "1"}
    upsert(client, FIRST, keep)
    first = {entry.path for entry in storage.list("p=a") if entry.name.endswith(".parquet")}
    older = []
    for changes in ({("p=a", 0): {"k1": 10}, ("p=a", 1): {"k2": 20}}, {("p=c", 0): {"k4": 4}}):
        tx = begin(client, keep)
        tx.mark_inflight()
        older.append((tx, *write_files(tx, changes)))
    time.sleep(0.02)  # more than a tick of the file system's clock
    reader = begin(client, keep)
    for tx, stats, columns in older:
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    upsert(client, {("p=b", 0): {"k3": 3}}, keep)
    upsert(client, {("p=b", 0): {"k3": 4}}, keep)
    clean(client, one)
    assert first <= {entry.path for entry in storage.list("p=a")}
    reader.abort()
    clean(client, one)
    assert not first & {entry.path for entry in storage.list("p=a")}
