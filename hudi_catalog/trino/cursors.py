"""File slices that are read in part, kept for the next page within a bound of memory and time."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class Cursor(Protocol):
    """Something that was read in part."""

    @property
    def memory(self) -> int:
        """Bytes that it holds."""

    def close(self) -> None:
        """Let go of files and memory."""


C = TypeVar("C", bound=Cursor)


class Cursors(Generic[C]):
    """Cursors by key; those that were put away longest are closed first. Threads may share it.

    A cursor is with whoever took it until it is put back, so that no two threads use one.

    Args:
        memory: bytes that they hold together at most, a single larger one excepted: of merged log files all rows are
            held, and to merge them anew for each page would take the square of the time; 0 to keep none.
        idle: seconds after which one is closed.
        clock: seconds of any beginning.
    """

    def __init__(self, memory: int, idle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = memory
        self._idle = idle
        self._clock = clock
        self._held: OrderedDict[Hashable, tuple[C, int, float]] = OrderedDict()
        self._memory = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def memory(self) -> int:
        """Bytes that they hold together."""
        return self._memory

    def take(self, key: Hashable) -> C | None:
        """The cursor of a key, if it is still there."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is not None:
                self._memory -= found[1]
        self.expire()
        return None if found is None else found[0]

    def put(self, key: Hashable, cursor: C) -> None:
        """Keep a cursor; another one under the key is closed."""
        size = cursor.memory
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = (cursor, size, self._clock())
            self._memory += size - (before[1] if before else 0)
            gone = [before[0]] if before else []
            while self._memory > self._limit and len(self._held) > (1 if self._limit else 0):
                gone.append(self._drop_oldest())
        _close(gone)

    def expire(self) -> None:
        """Close what nobody came back for."""
        gone = []
        with self._lock:
            while self._held and self._clock() - next(iter(self._held.values()))[2] > self._idle:
                gone.append(self._drop_oldest())
        _close(gone)

    def clear(self) -> None:
        """Close all."""
        with self._lock:
            gone = [self._drop_oldest() for _ in range(len(self._held))]
        _close(gone)

    def _drop_oldest(self) -> C:
        _, (cursor, size, _) = self._held.popitem(last=False)
        self._memory -= size
        return cursor


def _close(cursors: list[C]) -> None:
    for cursor in cursors:
        cursor.close()
