import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from table_format.errors import LockError, StorageError
from table_format.storage import Storage
from table_writer.timeline import locks
from table_writer.timeline.locks import FileSystemLock
from table_writer.timeline.options import LockOptions
from tests.support.faults import FaultyStorage, dying

QUICK = LockOptions(retries=1, wait_ms=60)
PATH = ".hoodie/lock"


def test_it_is_hudis_file(storage):
    with FileSystemLock(storage, QUICK):
        content = json.loads(storage.read(PATH))
        assert {"lockCreateTime", "lockThreadName", "lockStacksInfo"} <= content.keys()
    assert not storage.exists(PATH)


def test_a_held_lock_is_waited_for_in_vain(storage):
    with FileSystemLock(storage, QUICK), pytest.raises(LockError, match=rf"process {os.getpid()} on"):
        FileSystemLock(storage, QUICK).acquire()
    FileSystemLock(storage, QUICK).acquire()


def test_apaches_empty_lock_file_is_respected(storage):
    storage.create(PATH, b"")
    with pytest.raises(LockError, match=r"left no name.*hoodie\.write\.lock\.filesystem\.expire"):
        FileSystemLock(storage, QUICK).acquire()


def test_an_expired_lock_is_broken(storage):
    storage.create(PATH, b"")
    old = time.time() - 90
    os.utime(storage.full_path(PATH), (old, old))
    with pytest.raises(LockError):
        FileSystemLock(storage, LockOptions(expire_minutes=2, retries=0)).acquire()
    FileSystemLock(storage, LockOptions(expire_minutes=1, retries=0)).acquire()


def test_a_fast_clock_expires_no_lock(storage, monkeypatch):
    storage.create(PATH, b"")
    now = time.time() + 3600
    monkeypatch.setattr(locks.time, "time", lambda: now)
    with pytest.raises(LockError):
        FileSystemLock(storage, LockOptions(expire_minutes=1, retries=0)).acquire()


def test_a_lock_that_this_process_holds_does_not_expire(storage):
    with FileSystemLock(storage, QUICK):
        old = time.time() - 90
        os.utime(storage.full_path(PATH), (old, old))
        with pytest.raises(LockError):
            FileSystemLock(storage, LockOptions(expire_minutes=1, retries=0)).acquire()


def test_the_lock_of_a_table_that_was_deleted_is_released(storage):
    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    storage.delete_dir(".hoodie")
    with pytest.raises(LockError, match="broke this lock"):
        lock.check()
    lock.release()
    assert not storage.exists(PATH)


def test_the_lock_of_a_dead_process_is_broken(storage):
    code = (
        "import os, sys; from table_format.storage import Storage\n"
        "from table_writer.timeline.locks import FileSystemLock\n"
        "from table_writer.timeline.options import LockOptions\n"
        "FileSystemLock(Storage(sys.argv[1]), LockOptions()).acquire(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, storage.uri], check=True)
    assert storage.exists(PATH)
    FileSystemLock(storage, LockOptions(retries=0)).acquire()


def test_a_lock_that_could_not_be_given_back_is_broken(storage, monkeypatch):
    def away(*_, **__):
        raise StorageError("the storage is away for a moment")

    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", away)
        with pytest.raises(StorageError):
            lock.release()
    assert storage.exists(PATH)
    with FileSystemLock(storage, LockOptions(retries=0)), pytest.raises(LockError):
        FileSystemLock(storage, LockOptions(retries=0)).acquire()
    assert not storage.exists(PATH)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_lock_that_is_cut_off_at_any_change_stands_in_nobodys_way(storage, at, when):
    with dying(at, when):
        lock = FileSystemLock(FaultyStorage(storage.uri), QUICK)
        lock.acquire()
        lock.release()
    with FileSystemLock(storage, LockOptions(retries=0)):
        pass


def test_a_wait_logs_warnings(storage, caplog, monkeypatch):
    monkeypatch.setattr(locks, "_WARN_AFTER", 0.05)
    monkeypatch.setattr(locks, "_WARN_EVERY", 0.05)
    patient = LockOptions(retries=5, wait_ms=60)
    with caplog.at_level(logging.WARNING), FileSystemLock(storage, QUICK), pytest.raises(LockError):
        FileSystemLock(storage, patient).acquire()
    assert len(caplog.messages) > 1
    assert all(storage.full_uri(PATH) in text for text in caplog.messages)
    assert f"held by process {os.getpid()} on" in caplog.messages[0]
    caplog.clear()
    with FileSystemLock(storage, patient):
        assert not caplog.messages


def test_a_process_number_given_to_another_process(storage):
    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    content = json.loads(storage.read(PATH))
    content["owner"]["started"] = "1"
    storage.overwrite(PATH, json.dumps(content).encode())
    FileSystemLock(storage, LockOptions(retries=0)).acquire()


def test_the_lock_of_another_machine_is_respected(storage):
    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    content = json.loads(storage.read(PATH))
    content["owner"] |= {"host": "elsewhere", "pid": 999999999}
    storage.overwrite(PATH, json.dumps(content).encode())
    with pytest.raises(LockError, match="on elsewhere"):
        FileSystemLock(storage, QUICK).acquire()
    old = time.time() - 119
    os.utime(storage.full_path(PATH), (old, old))
    with pytest.raises(LockError, match="on elsewhere"):
        FileSystemLock(storage, QUICK).acquire()
    os.utime(storage.full_path(PATH), (old - 10, old - 10))
    FileSystemLock(storage, QUICK).acquire()  # it has shown no sign of life for two minutes


def test_a_clock_that_is_fast_here_breaks_no_lock(storage, monkeypatch):
    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    content = json.loads(storage.read(PATH))
    content["owner"] |= {"host": "elsewhere"}
    storage.overwrite(PATH, json.dumps(content).encode())
    now = time.time() + 3600
    monkeypatch.setattr(locks.time, "time", lambda: now)
    with pytest.raises(LockError, match="on elsewhere"):
        FileSystemLock(storage, QUICK).acquire()


def test_a_lock_that_is_held_stays_young(storage):
    options = LockOptions(retries=0, silence_ms=40)
    with FileSystemLock(storage, options) as lock:
        old = time.time() - 3600
        os.utime(storage.full_path(PATH), (old, old))
        for _ in range(1000):
            if storage.entry(PATH).mtime_ms > (old + 1800) * 1000:
                break
            time.sleep(0.005)
        assert storage.entry(PATH).mtime_ms > (old + 1800) * 1000
        lock.check()


def test_a_lock_that_its_live_process_never_gave_back_expires(storage):
    """The process on this machine lives, but no longer holds the lock."""
    content = {"owner": {"token": "x", "host": socket.gethostname(), "machine": "", "pid": os.getppid(), "started": ""}}
    with FileSystemLock(storage, QUICK):
        content["owner"]["machine"] = json.loads(storage.read(PATH))["owner"]["machine"]
    content["owner"]["expires_ms"] = 200
    storage.create(PATH, json.dumps(content).encode())
    with pytest.raises(LockError):
        FileSystemLock(storage, LockOptions(retries=0)).acquire()
    FileSystemLock(storage, LockOptions(retries=1000, wait_ms=50)).acquire()


def test_a_broken_lock_is_noticed_and_not_released_for_others(storage):
    lock = FileSystemLock(storage, QUICK)
    lock.acquire()
    lock.check()
    storage.overwrite(PATH, b"somebody else's")
    with pytest.raises(LockError, match="broke this lock"):
        lock.check()
    lock.release()
    assert storage.read(PATH) == b"somebody else's"


def test_a_folder_of_its_own(storage, tmp_path):
    options = LockOptions(path=str(tmp_path / "locks"), retries=0)
    with FileSystemLock(storage, options):
        assert (tmp_path / "locks" / "lock").exists()
        assert not storage.exists(PATH)


def test_one_at_a_time(storage):
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(10):
            with FileSystemLock(Storage(storage.uri), LockOptions(retries=3000, wait_ms=20)):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside, most) == (0, 1)


class ObjectStore(Storage):
    """Creates without excluding others, as `pyarrow.fs` does on object stores."""

    def __init__(self, uri, options=None, within=None):
        super().__init__(uri, options, within)
        self.is_local = False


def test_on_an_object_store_the_last_to_write_the_lock_has_it(tmp_path, monkeypatch):
    store = ObjectStore(str(tmp_path))
    first, second = FileSystemLock(store, QUICK), FileSystemLock(store, LockOptions(retries=0))
    first.acquire()
    with pytest.raises(LockError):
        second.acquire()
    with monkeypatch.context() as patch:  # both looked before either wrote
        patch.setattr(ObjectStore, "exists", lambda *_: False)
        patch.setattr(FileSystemLock, "_break_if_dead", lambda _: False)
        second.acquire()
    with pytest.raises(LockError, match="broke this lock"):
        first.check()
    first.release()
    second.check()
    second.release()
    assert not store.exists(PATH)


def test_an_object_stores_lock_stays_young_as_well(tmp_path):
    store = ObjectStore(str(tmp_path))
    with FileSystemLock(store, LockOptions(silence_ms=40)) as lock:
        first = store.entry(PATH).mtime_ms
        for _ in range(1000):
            if store.entry(PATH).mtime_ms > first:
                break
            time.sleep(0.005)
        assert store.entry(PATH).mtime_ms > first
        lock.check()


class SlowStore(ObjectStore):
    """Writes a file anew in two steps, as HDFS does: between them it is empty."""

    def overwrite(self, path, data, *, synced=True):
        super().overwrite(path, b"", synced=synced)
        EMPTIED.set()
        time.sleep(0.05)
        super().overwrite(path, data, synced=synced)


EMPTIED = threading.Event()


def test_a_lock_that_is_being_touched_is_not_taken_for_broken(tmp_path):
    EMPTIED.clear()
    with FileSystemLock(SlowStore(str(tmp_path)), LockOptions(silence_ms=40)) as lock:
        assert EMPTIED.wait(30)
        lock.check()
