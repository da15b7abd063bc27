"""Whether a writer lives: whose a lock or a heartbeat is, and how its file is kept young meanwhile."""

from __future__ import annotations

import contextlib
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
        owner = cls(uuid.uuid4().hex, socket.gethostname(), _machine(), pid, _start_of(pid), expires_ms)
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
        return self.host == socket.gethostname() and self.machine == _machine()

    @property
    def is_alive_here(self) -> bool:
        """Whether it is one of this very process that has not ended."""
        own = self.is_local and self.pid == os.getpid() and self.started == _start_of(self.pid)
        return own and self.token in _LIVE

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
    """A thread that keeps a file young.

    Args:
        storage: of the file.
        path: of the file.
        interval_ms: milliseconds between two signs, at most; they are given more often where that is long.
    """

    def __init__(self, storage: Storage, path: str, interval_ms: int) -> None:
        self._storage = storage
        self._path = path
        self._pause = min(interval_ms / 1000, _LONGEST_PAUSE)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"pulse of {path}", daemon=True)

    def start(self) -> None:
        """Begin, once."""
        self._thread.start()

    def stop(self) -> None:
        """End; nothing is touched any more when this returns."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._pause):
            with contextlib.suppress(StorageError):  # the next sign may do; others wait for several
                self._storage.touch(self._path)


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


def _machine() -> str:
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
