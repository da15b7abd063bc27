"""Whether a writer is alive: owners of locks and heartbeats, and the thread that touches their files."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import threading
import time
import uuid
from dataclasses import asdict, dataclass
from typing import Final, Self

from table_format.errors import StorageError
from table_format.storage import FileEntry, Storage

_LONGEST_PAUSE: Final = 15.0

"""Longest time in seconds between two touches; others may break a lock after a minute, by their own options."""

_CLOCK_FOLDER: Final = ".hoodie/.catalog"

_LIVE: Final[set[str]] = set()

"""Tokens of owners in this process that hold something, or are acquiring or releasing it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One lock or heartbeat of one process.

    Attributes:
        token: distinguishes owners of one process.
        host: name of the machine, for messages.
        machine: boot id and process namespace of the machine; empty where the system has neither.
        pid: process id.
        started: start time of the process, as the system writes it; empty where it is unknown.
        expires_ms: milliseconds without a touch after which it counts as dead; 0 for an owner that never touches.
    """

    token: str
    host: str
    machine: str
    pid: int
    started: str
    expires_ms: int = 0

    @classmethod
    def new(cls, expires_ms: int) -> Self:
        """A new owner in this process; it is alive until `forget`."""
        pid = os.getpid()
        owner = cls(uuid.uuid4().hex, socket.gethostname(), _machine(pid), pid, _own_start(pid), expires_ms)
        _LIVE.add(owner.token)
        return owner

    @classmethod
    def parse(cls, content: bytes) -> Owner | None:
        """The owner that a file names; None for files of other tools, which name none."""
        try:
            values = json.loads(content)["owner"]
            names = ("host", "machine", "started")
            texts = {name: str(values[name]) for name in names}
            return cls(str(values.get("token", "")), pid=int(values["pid"]), expires_ms=_expiry(values), **texts)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def to_json(self, **more: object) -> bytes:
        """Content of a file: the owner and further fields."""
        return json.dumps({**more, "owner": asdict(self)}).encode()

    def forget(self) -> None:
        """Mark it as ended: files of it that still exist are a dead writer's."""
        _LIVE.discard(self.token)

    @property
    def is_local(self) -> bool:
        """Whether it is of this machine, which can tell whether its process exists."""
        return self.host == socket.gethostname() and self.machine == _machine(os.getpid())

    @property
    def is_own(self) -> bool:
        """Whether it is of this process."""
        return self.is_local and self.pid == os.getpid() and self.started == _own_start(self.pid)

    @property
    def is_alive_here(self) -> bool:
        """Whether it is of this process and has not ended."""
        return self.is_own and self.token in _LIVE

    @property
    def is_known_dead(self) -> bool:
        """Whether it is of this machine, and its process has ended, or this process has ended it."""
        if not self.is_local:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        # the process id may have been reused, or the process may be a zombie
        if self.started and self.started != _start_of(self.pid):
            return True
        return self.pid == os.getpid() and self.token not in _LIVE


class Pulse:
    """Touches a file regularly, from `start` to `stop`.

    Args:
        storage: of the file.
        path: of the file.
        interval_ms: longest time between two touches, milliseconds; capped at 15 seconds.
    """

    def __init__(self, storage: Storage, path: str, interval_ms: int) -> None:
        self._storage = storage
        self._path = path
        self.pause = min(interval_ms / 1000, _LONGEST_PAUSE)
        self._stopped = False
        self._touching = threading.Lock()

    def start(self) -> None:
        """Begin, once."""
        _CLOCK.add(self)

    def stop(self) -> None:
        """Stop; the file is not touched after this returns."""
        self._stopped = True
        _CLOCK.remove(self)
        with self._touching:
            pass

    def held(self) -> threading.Lock:
        """The lock under which the file is touched: who holds it reads the file whole.

        Storages that are not local are touched by writing the file again, and not all of them do so at once.
        """
        return self._touching

    def beat(self) -> None:
        """Touch the file in a thread of its own, so that a storage that hangs delays no other pulse."""
        threading.Thread(target=self._touch, name=f"pulse of {self._path}", daemon=True).start()

    def _touch(self) -> None:
        if not self._touching.acquire(blocking=False):
            return  # the last touch is still running
        try:
            if not self._stopped:
                with contextlib.suppress(StorageError):  # others wait for several missed touches
                    self._storage.touch(self._path)
        finally:
            self._touching.release()


class _Clock:
    """The thread that schedules all pulses of a process; a thread for each write would cost more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Pulse, float] = {}
        self._wakes = 0.0
        self._thread: threading.Thread | None = None

    def add(self, pulse: Pulse) -> None:
        with self._changed:
            due = time.monotonic() + pulse.pause
            self._due[pulse] = due
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pulses", daemon=True)
                self._thread.start()
            elif due < self._wakes:
                self._changed.notify()

    def remove(self, pulse: Pulse) -> None:
        with self._changed:
            self._due.pop(pulse, None)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for pulse in [pulse for pulse, due in self._due.items() if due <= now]:
                    self._due[pulse] = now + pulse.pause
                    with contextlib.suppress(RuntimeError):  # no thread can start; the next beat tries again
                        pulse.beat()
                self._wakes = min(self._due.values(), default=now + _LONGEST_PAUSE)
                self._changed.wait(self._wakes - now)


_CLOCK = _Clock()


def _after_fork() -> None:
    """Reset a forked child, which has none of its parent's threads, locks and heartbeats."""
    global _CLOCK  # noqa: PLW0603
    _CLOCK = _Clock()
    _LIVE.clear()


os.register_at_fork(after_in_child=_after_fork)


def age_ms(storage: Storage, entry: FileEntry) -> float:
    """Milliseconds since a file last changed, by the clock of its file system if possible."""
    return storage_time_ms(storage) - entry.mtime_ms


def storage_time_ms(storage: Storage) -> float:
    """Milliseconds since the epoch by the clock of a file system, or this machine's if nothing can be written.

    Clocks of machines differ; a probe file on the same file system gets its time from the same clock.
    """
    probe = f"{_CLOCK_FOLDER}/clock-{uuid.uuid4().hex}"
    now = time.time() * 1000
    with contextlib.suppress(StorageError):
        storage.overwrite(probe, b"", synced=False)
        made = storage.entry(probe)
        storage.delete(probe)
        now = now if made is None else made.mtime_ms
    return now


def _expiry(values: dict[str, object]) -> int:
    value = values.get("expires_ms", 0)
    return value if isinstance(value, int) else 0


@functools.lru_cache(maxsize=1)
def _machine(pid: int) -> str:
    """Boot id and process namespace; cached by process id, since a forked child may have another namespace."""
    del pid
    parts = []
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as stream:
        parts.append(stream.read().strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "/".join(parts)


@functools.lru_cache(maxsize=1)
def _own_start(pid: int) -> str:
    return _start_of(pid)


def _start_of(pid: int) -> str:
    """Start time of a live process, as the system writes it; empty where it is unknown."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as stream:
        fields = stream.read().rsplit(")", 1)[1].split()
        # a zombie's first thread has ended; of a killed process another one may still be in a call that writes
        ended = fields[0] in "ZX" and len(os.listdir(f"/proc/{pid}/task")) < 2
        return "" if ended else fields[19]
    return ""
