"""Hudi's file-system lock: a file that exactly one writer can create."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from table_format.errors import AlreadyExistsError, LockError, MissingFileError
from table_format.storage import FileEntry, Storage, storage_errors
from table_writer.timeline.liveness import Owner, Pulse, age_ms
from table_writer.timeline.options import LockOptions

DEFAULT_FOLDER: Final = ".hoodie"

FILE_NAME: Final = "lock"

_FIRST_WAIT: Final = 0.02

_LONGEST_WAIT: Final = 0.5

_SETTLE: Final = 0.05

_WARN_AFTER: Final = 5.0

_WARN_EVERY: Final = 60.0

_LOG = logging.getLogger(__name__)


class FileSystemLock:
    """The table lock, compatible with Apache's FileSystemBasedLockProvider, so that both exclude each other.

    The holder touches the file as long as it holds the lock. The file names its owner: a lock of a process of this
    machine that has ended is broken at once, and so is one of this process that is no longer held, because the storage
    failed at its release. A lock of another machine is broken when it has not changed for as long as its holder's
    heartbeats allow, and any lock, Apache's too, after `hoodie.write.lock.filesystem.expire` minutes. A wait of some
    seconds logs a warning.

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
        self._owner: Owner | None = None
        self._pulse: Pulse | None = None
        self._seen: tuple[bytes, int] | None = None
        self._seen_at = 0.0

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
            LockError: another writer held it for as long as the options allow to wait.
        """
        begun = time.monotonic()
        deadline = begun + self._options.retries * self._options.wait_ms / 1000
        warn_at = begun + _WARN_AFTER
        wait = _FIRST_WAIT
        while not self._try_acquire():
            now = time.monotonic()
            if now >= deadline:
                raise LockError(
                    f"{self._storage.full_uri(self._path)}: held by {self._holder()}. If that writer is dead, delete "
                    "the file, or set hoodie.write.lock.filesystem.expire to the minutes after which a lock that does "
                    "not change is void"
                )
            if now >= warn_at:
                _LOG.warning(
                    "%s: waiting up to %.0f s for this lock, held by %s. If that writer is dead, delete the file",
                    self._storage.full_uri(self._path),
                    deadline - now,
                    self._holder(),
                )
                warn_at = now + _WARN_EVERY
            time.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the tries of several writers
            wait = min(wait * 2, _LONGEST_WAIT, self._options.wait_ms / 1000)

    def release(self) -> None:
        """Release the lock, unless another writer broke it meanwhile, or the table was deleted."""
        if self._content is None or self._owner is None:
            return
        try:
            if self._pulse is not None:
                self._pulse.stop()
            self._delete(self._content)
        finally:
            # only after the file is deleted: until then nobody else may break it
            self._owner.forget()
            self._content = self._owner = self._pulse = None

    def check(self) -> None:
        """Make sure, before publishing anything, that the lock was not broken.

        Raises:
            LockError: another writer broke it as expired.
        """
        with self._pulse.held() if self._pulse is not None else contextlib.nullcontext():
            ours = self._content is not None and self._is_ours(self._content)
        if not ours:
            raise LockError(
                f"{self._storage.full_uri(self._path)}: another writer broke this lock as expired; raise "
                "hoodie.write.lock.filesystem.expire above the time that a commit takes"
            )

    def _try_acquire(self) -> bool:
        broken = self._break_if_dead()
        owner = Owner.new(self._options.silence_ms)
        content = _describe(owner)
        taken = False
        try:
            taken = self._create(content, broken=broken)
        finally:
            if not taken:
                owner.forget()
        if taken:
            self._content, self._owner = content, owner
            self._pulse = Pulse(self._storage, self._path, self._options.silence_ms // 4 or 1)
            self._pulse.start()
        return taken

    def _create(self, content: bytes, *, broken: bool) -> bool:
        try:
            self._storage.create(self._path, content)
        except AlreadyExistsError:
            return False
        if self._storage.is_local:
            return True
        # object stores do not create exclusively: the last writer has the lock
        if broken:
            # another writer that saw the same dead lock may be about to delete this one instead
            time.sleep(_SETTLE)
        return self._is_ours(content)

    def _break_if_dead(self) -> bool:
        entry = self._storage.entry(self._path)
        if entry is None:
            return False
        try:
            content = self._storage.read(self._path)
            if not self._is_dead(content, entry):
                return False
        except MissingFileError:
            return False
        return self._delete(content)

    def _delete(self, content: bytes) -> bool:
        """Delete the lock file if it has this content; returns whether it did."""
        try:
            with self._guarded():
                if not self._is_ours(content):
                    return False
                self._storage.delete(self._path)
                return True
        except MissingFileError:  # the folder is gone
            return False

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Exclude other processes between reading a lock file and deleting it, lest they delete a newer one.

        This is an advisory lock of the operating system on the folder, which ends with its process.
        """
        if not self._storage.is_local:
            yield
            return
        with storage_errors(self._path):
            folder = os.open(os.path.dirname(self._storage.full_path(self._path)), os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # some network file systems do not lock folders
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _is_dead(self, content: bytes, entry: FileEntry) -> bool:
        owner = Owner.parse(content)
        if owner is not None and owner.is_alive_here:
            return False
        expire_ms = self._options.expire_minutes * 60_000
        # a file is made to read the storage's clock: only if this machine's does not say that the lock is young
        distant = abs(time.time() * 1000 - entry.mtime_ms) > expire_ms
        if expire_ms and distant and age_ms(self._storage, entry) > expire_ms:
            return True
        if owner is None:
            return False
        if owner.is_known_dead:
            return True
        if not owner.expires_ms:
            return False
        if (content, entry.mtime_ms) != self._seen:
            self._seen, self._seen_at = (content, entry.mtime_ms), time.monotonic()
        watched = (time.monotonic() - self._seen_at) * 1000
        # A process of this machine may have been suspended with it: only time during which this one watched counts.
        old = not owner.is_local and time.time() * 1000 - entry.mtime_ms > owner.expires_ms
        return watched > owner.expires_ms or (old and age_ms(self._storage, entry) > owner.expires_ms)

    def _is_ours(self, content: bytes) -> bool:
        try:
            return self._storage.read(self._path) == content
        except MissingFileError:
            return False

    def _holder(self) -> str:
        try:
            owner, entry = Owner.parse(self._storage.read(self._path)), self._storage.entry(self._path)
        except MissingFileError:
            entry = None
        if entry is None:
            return "a writer that has just released it"
        age = max(0.0, time.time() - entry.mtime_ms / 1000)
        name = f"process {owner.pid} on {owner.host}" if owner else "a writer that left no name"
        return f"{name}, who last touched it {age:.0f} s ago"


def _describe(owner: Owner) -> bytes:
    """Content of the lock file: Hudi's fields, which are informative, and the owner."""
    return owner.to_json(
        lockCreateTime=dt.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        lockThreadName=threading.current_thread().name,
        lockStacksInfo=[],
    )
