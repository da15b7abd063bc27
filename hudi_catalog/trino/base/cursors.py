"""Partly read splits between two pages: each reader goes on from its own."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Final, Generic, Protocol, TypeVar

from catalog.concurrency.caches import LruCache

_READERS: Final = 8
_AFTER_SECONDS: Final = 0.05


class Cursor(Protocol):
    """A partly read split."""

    @property
    def memory(self) -> int:
        """Bytes in memory."""

    def close(self) -> None:
        """Close its files."""


C = TypeVar("C", bound=Cursor)


class Cursors(Generic[C]):
    """Cursors that wait for the next page. Thread-safe.

    Several wait at one place where a table is joined with itself: both scans read equal splits.

    Args:
        memory: bytes that all hold at most, a single larger one excepted; 0 keeps none.
        idle_seconds: time after which an unused one is closed.
    """

    def __init__(self, memory: int, idle_seconds: float) -> None:
        self._cursors: LruCache[tuple[Hashable, int], C] = LruCache(
            memory, lambda cursor: cursor.memory, idle_seconds=idle_seconds, on_evict=lambda cursor: cursor.close()
        )
        self._idle = idle_seconds
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def take(self, place: Hashable) -> C | None:
        """A cursor that waits there, which the caller goes on with or closes; None without one."""
        waiting = (self._cursors.pop((place, reader)) for reader in range(_READERS))
        return next((cursor for cursor in waiting if cursor is not None), None)

    def keep(self, place: Hashable, cursor: C) -> None:
        """Keep a cursor beside those that wait there; it is closed when it is evicted, or where too many wait."""
        places = ((place, reader) for reader in range(_READERS))
        if not any(self._cursors.setdefault(one, cursor) is cursor for one in places):
            cursor.close()
        self._watch()

    def _watch(self) -> None:
        """See to it that idle cursors are closed in a service that nobody asks, too."""
        with self._lock:
            if self._timer is None and len(self._cursors):
                self._timer = threading.Timer(self._idle + _AFTER_SECONDS, self._expire)
                self._timer.daemon = True
                self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            self._timer = None
        self._cursors.expire()
        self._watch()

    def clear(self) -> None:
        """Close all."""
        self._cursors.clear()
