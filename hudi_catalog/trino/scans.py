"""Scans that are under way: what is planned and not yet handed out, and what is handed out and not yet read."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class _Progress:
    """How far a scan is.

    Attributes:
        unread: splits that were handed out and not read to their end.
        all_out: whether all splits were handed out.
        touched: when it was last asked for something.
    """

    unread: int
    all_out: bool
    touched: float


class OpenScans:
    """Counts the scans that are not read to their end, so that a service can let them finish before it stops.

    A query with LIMIT leaves splits unread, and tells nobody: a scan that nobody asks for anything for some time counts
    as ended.

    Args:
        idle_seconds: that time.
        limit: scans that are followed; the oldest are forgotten.
        clock: monotonic seconds.
    """

    def __init__(
        self, idle_seconds: float = 10.0, limit: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle = idle_seconds
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._scans: OrderedDict[str, _Progress] = OrderedDict()

    def handed_out(self, scan: str, splits: int, *, all_out: bool) -> None:
        """More splits of a scan, the last ones or not."""
        with self._lock:
            found = self._scans.setdefault(scan, _Progress(0, all_out, 0.0))
            found.unread += splits
            found.all_out = all_out
            self._touch(scan, found)

    def asked(self, scan: str, *, finished: bool) -> None:
        """A page of a split was asked for, the last one or not."""
        with self._lock:
            found = self._scans.get(scan)
            if found is None:
                return
            found.unread -= finished
            self._touch(scan, found)

    def count(self) -> int:
        """How many are under way."""
        with self._lock:
            oldest = self._clock() - self._idle
            while self._scans and next(iter(self._scans.values())).touched < oldest:
                self._scans.popitem(last=False)
            return len(self._scans)

    def _touch(self, scan: str, found: _Progress) -> None:
        found.touched = self._clock()
        self._scans.move_to_end(scan)
        if found.all_out and found.unread <= 0:
            del self._scans[scan]
        while len(self._scans) > self._limit:
            self._scans.popitem(last=False)
