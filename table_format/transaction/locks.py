"""Hudi's file-system lock: one file that only its holder could create."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import os
import random
import socket
import threading
import time
import uuid
from types import TracebackType
from typing import Any, Final, Self

from table_format.errors import AlreadyExistsError, LockError, MissingFileError
from table_format.storage import Storage
from table_format.transaction.options import LockOptions

DEFAULT_FOLDER: Final = ".hoodie"
FILE_NAME: Final = "lock"
_FIRST_WAIT: Final = 0.02
_SETTLE: Final = 0.05
_TELL_AFTER: Final = 5.0
_TELL_EVERY: Final = 60.0
_LOG = logging.getLogger(__name__)
_HELD: Final[set[str]] = set()
"""Tokens of the locks that this process holds, or is about to take or to release."""


class FileSystemLock:
    """The table lock, as Apache's FileSystemBasedLockProvider keeps it, so that both exclude each other.

    A lock older than `hoodie.write.lock.filesystem.expire` minutes is broken. So is one of ours whose process, on this
    machine, is no longer there, for the file says whose it is; and one of this process that nothing in it holds any
    more, because the storage failed when it was to be released. A wait of some seconds is told by a warning.

    Args:
        storage: rooted at the table's base folder.
        options: where the lock lies and how long to wait for it.
    """

    def __init__(self, storage: Storage, options: LockOptions) -> None:
        if options.path is None:
            self._storage, self._path = storage, f"{DEFAULT_FOLDER}/{FILE_NAME}"
        else:
            self._storage, self._path = type(storage)(options.path, storage.options), FILE_NAME
        self._options = options
        self._content: bytes | None = None
        self._token = ""

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            LockError: somebody else held it all the time that the options allow.
        """
        begun = time.monotonic()
        deadline = begun + self._options.retries * self._options.wait_ms / 1000
        telling = begun + _TELL_AFTER
        wait = _FIRST_WAIT
        while not self._try_acquire():
            now = time.monotonic()
            if now >= deadline:
                raise LockError(
                    f"{self._storage.full_uri(self._path)}: held by {self._holder()}. If that writer is dead, delete "
                    "the file, or set hoodie.write.lock.filesystem.expire to the minutes after which a lock is void"
                )
            if now >= telling:
                _LOG.warning(
                    "%s: waiting up to %.0f s for this lock, held by %s. If that writer is dead, delete the file",
                    self._storage.full_uri(self._path),
                    deadline - now,
                    self._holder(),
                )
                telling = now + _TELL_EVERY
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the tries of several writers
            wait = min(wait * 2, self._options.wait_ms / 1000)

    def release(self) -> None:
        """Give the lock back, unless somebody broke it meanwhile."""
        if self._content is None:
            return
        try:
            with contextlib.suppress(MissingFileError):
                if self._storage.read(self._path) == self._content:
                    self._storage.delete(self._path)
        finally:
            # not before the file is gone: nobody else may break it meanwhile
            _HELD.discard(self._token)
            self._content = None

    def check(self) -> None:
        """Make sure, before publishing anything, that the lock was not broken.

        Raises:
            LockError: it was, having expired.
        """
        try:
            held = self._content is not None and self._storage.read(self._path) == self._content
        except MissingFileError:
            held = False
        if not held:
            raise LockError(
                f"{self._storage.full_uri(self._path)}: another writer broke this lock as expired; raise "
                "hoodie.write.lock.filesystem.expire above the time that a commit takes"
            )

    def _try_acquire(self) -> bool:
        broken = self._break_if_dead()
        token = uuid.uuid4().hex
        content = _describe(token)
        taken = False
        _HELD.add(token)
        try:
            taken = self._create(content, broken=broken)
        finally:
            if not taken:
                _HELD.discard(token)
        if taken:
            self._content, self._token = content, token
        return taken

    def _create(self, content: bytes, *, broken: bool) -> bool:
        try:
            self._storage.create(self._path, content)
        except AlreadyExistsError:
            return False
        if broken:
            # another writer that found the same dead lock may be about to delete ours for it
            time.sleep(_SETTLE)
            try:
                return self._storage.read(self._path) == content
            except MissingFileError:
                return False
        return True

    def _break_if_dead(self) -> bool:
        entry = self._storage.entry(self._path)
        if entry is None:
            return False
        try:
            content = self._storage.read(self._path)
            age = time.time() - entry.mtime_ms / 1000
            expire = self._options.expire_minutes * 60
            if not (expire and age > expire) and not _is_dead(content):
                return False
            if self._storage.read(self._path) == content:
                self._storage.delete(self._path)
        except MissingFileError:
            return False
        return True

    def _holder(self) -> str:
        try:
            owner, entry = _owner(self._storage.read(self._path)), self._storage.entry(self._path)
        except MissingFileError:
            entry = None
        if entry is None:
            return "a writer that has just released it"
        age = max(0.0, time.time() - entry.mtime_ms / 1000)
        name = f"process {owner['pid']} on {owner['host']}" if owner else "a writer that left no name"
        return f"{name}, taken {age:.0f} s ago"


def _describe(token: str) -> bytes:
    """What the lock file says: Hudi's fields, which are for people, and whose it is."""
    values = {
        "lockCreateTime": dt.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        "lockThreadName": threading.current_thread().name,
        "lockStacksInfo": [],
        "owner": {
            "token": token,
            "host": socket.gethostname(),
            "machine": _machine(),
            "pid": os.getpid(),
            "started": _start_of(os.getpid()),
        },
    }
    return json.dumps(values).encode()


def _owner(content: bytes) -> dict[str, Any] | None:
    try:
        owner = json.loads(content)["owner"]
        return owner if {"host", "machine", "pid", "started"} <= owner.keys() else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_dead(content: bytes) -> bool:
    owner = _owner(content)
    if owner is None or owner["host"] != socket.gethostname() or owner["machine"] != _machine():
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    # the process number may have been given to another process since, or its parent has not taken note of its end
    if bool(owner["started"]) and owner["started"] != _start_of(owner["pid"]):
        return True
    return bool(owner["pid"] == os.getpid() and owner.get("token") not in _HELD)


def _machine() -> str:
    """This boot of this machine and the namespace of its process numbers, as far as the system tells."""
    parts = []
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as stream:
        parts.append(stream.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


def _start_of(pid: int) -> str:
    """When a live process started, in a form to compare; empty where the system does not tell."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as stream:
        fields = stream.read().rsplit(")", 1)[1].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""
