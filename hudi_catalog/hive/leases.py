"""Which snapshot a query of Hive reads, for queries that do not bring what was pinned when they were compiled."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

_MOST = 10_000


@dataclass
class _Lease:
    pin: str
    used: float


class QueryLeases:
    """Remembers pins by query and table; threads may share it.

    Args:
        idle_seconds: a pin that nobody asked for so long is forgotten.
        most: pins that are kept; those that were not asked for longest go first.
        clock: monotonic seconds.
    """

    def __init__(self, idle_seconds: float, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = idle_seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: OrderedDict[Hashable, _Lease] = OrderedDict()  # the one asked for last at the end

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._leases)

    def take(self, key: Hashable, newest: Callable[[], str]) -> str:
        """The pin that is kept under a key, or a new one, which then is.

        Args:
            key: what all requests of a query for a table have in common.
            newest: gives a pin.
        """
        with self._lock:
            found = self._use(key)
        if found is not None:
            return found
        pin = newest()
        with self._lock:
            found = self._use(key)
            if found is not None:  # another thread was faster
                return found
            self._leases[key] = _Lease(pin, self._clock())
            while len(self._leases) > self._most:
                self._leases.popitem(last=False)
            return pin

    def _use(self, key: Hashable) -> str | None:
        now = self._clock()
        while self._leases and now - next(iter(self._leases.values())).used > self._idle:
            self._leases.popitem(last=False)
        lease = self._leases.get(key)
        if lease is None:
            return None
        lease.used = now
        self._leases.move_to_end(key)
        return lease.pin
