"""Whether a writer lives: whose a lock or a heartbeat is, and how its file is kept young meanwhile."""

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

"""Seconds between two signs of life at most: others may break a lock after a minute, whatever its holder's options."""

_CLOCK_FOLDER: Final = ".hoodie/.catalog"

_LIVE: Final[set[str]] = set()

"""Tokens of what this process holds, or is about to take or to give back."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One lock or heartbeat of one process.

    Attributes:
        token: tells it from others of the same process.
        host: name of the machine, for people.
        machine: the machine's boot and the namespace of its process numbers; empty where the system tells neither.
        pid: process number.
        started: when the process started, in the system's own form; empty where it is unknown.
        expires_ms: milliseconds without a sign after which it counts as dead; 0 where signs are not given.
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
        """The owner that a file names; None for files of other writers, which name none."""
        try:
            values = json.loads(content)["owner"]
            names = ("host", "machine", "started")
            texts = {name: str(values[name]) for name in names}
            return cls(str(values.get("token", "")), pid=int(values["pid"]), expires_ms=_expiry(values), **texts)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def to_json(self, **more: object) -> bytes:
        """As the content of a file, beside other fields."""
        return json.dumps({**more, "owner": asdict(self)}).encode()

    def forget(self) -> None:
        """It holds nothing any more: whatever file of it is still there is a dead one's."""
        _LIVE.discard(self.token)

    @property
    def is_local(self) -> bool:
        """Whether this machine can tell if its process is there."""
        return self.host == socket.gethostname() and self.machine == _machine(os.getpid())

    @property
    def is_own(self) -> bool:
        """Whether it is of this very process."""
        return self.is_local and self.pid == os.getpid() and self.started == _own_start(self.pid)

    @property
    def is_alive_here(self) -> bool:
        """Whether it is one of this very process that has not ended."""
        return self.is_own and self.token in _LIVE

    @property
    def is_known_dead(self) -> bool:
        """Whether it is of this machine and gone: its process, or what it held in this one."""
        if not self.is_local:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            return False
        # the process number may have been given to another process since, or its parent has not taken note of its end
        if self.started and self.started != _start_of(self.pid):
            return True
        return self.pid == os.getpid() and self.token not in _LIVE


class Pulse:
    """Keeps a file young, from `start` to `stop`.

    Args:
        storage: of the file.
        path: of the file.
        interval_ms: milliseconds between two signs, at most; they are given more often where that is long.
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
        """End; nothing is touched any more when this returns."""
        self._stopped = True
        _CLOCK.remove(self)
        with self._touching:
            pass

    def beat(self) -> None:
        """Touch the file in a thread of its own: a storage that hangs holds up no other pulse."""
        threading.Thread(target=self._touch, name=f"pulse of {self._path}", daemon=True).start()

    def _touch(self) -> None:
        if not self._touching.acquire(blocking=False):
            return  # the last one is not through
        try:
            if not self._stopped:
                with contextlib.suppress(StorageError):  # the next sign may do; others wait for several
                    self._storage.touch(self._path)
        finally:
            self._touching.release()


class _Clock:
    """The one thread of a process that knows when which pulse is due: starting one for each write would cost more."""

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
                    pulse.beat()
                self._wakes = min(self._due.values(), default=now + _LONGEST_PAUSE)
                self._changed.wait(self._wakes - now)


_CLOCK = _Clock()


def _after_fork() -> None:
    """A child has none of its parent's threads, and holds nothing of what its parent holds."""
    global _CLOCK  # noqa: PLW0603
    _CLOCK = _Clock()
    _LIVE.clear()


os.register_at_fork(after_in_child=_after_fork)


def age_ms(storage: Storage, entry: FileEntry) -> float:
    """Milliseconds since a file last changed, by the clock of its file system where that can be had.

    Clocks of machines differ; a new file on the same file system gets its time from the same clock.
    """
    probe = f"{_CLOCK_FOLDER}/clock-{uuid.uuid4().hex}"
    now = time.time() * 1000
    with contextlib.suppress(StorageError):
        storage.overwrite(probe, b"", synced=False)
        made = storage.entry(probe)
        storage.delete(probe)
        now = now if made is None else made.mtime_ms
    return now - entry.mtime_ms


def _expiry(values: dict[str, object]) -> int:
    value = values.get("expires_ms", 0)
    return value if isinstance(value, int) else 0


@functools.lru_cache(maxsize=1)
def _machine(pid: int) -> str:
    """The machine of this process, whose number is given, lest a fork keep what its parent knew."""
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
    """When a live process started, in a form to compare; empty where the system does not tell."""
    with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as stream:
        fields = stream.read().rsplit(")", 1)[1].split()
        return "" if fields[0] in "ZX" else fields[19]
    return ""
