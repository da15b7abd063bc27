"""Snapshots that several look-ups of one query share.

Trino asks an index many times for one query, with some of the keys each time, and nothing in a request says of which
query it is. Requests for the same columns of the same table under the same constraint share a snapshot as long as they
follow each other closely.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from catalog.snapshot.snapshot import Snapshot

_MOST = 1_000


@dataclass
class _Lease:
    snapshot: Snapshot
    begun: float
    used: float


class SnapshotLeases:
    """Lends snapshots; threads may share it.

    Args:
        idle_seconds: without a request for so long, the next one gets the newest snapshot.
        most_seconds: no snapshot is lent for longer than this.
        clock: monotonic seconds.
    """

    def __init__(self, idle_seconds: float, most_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._idle = idle_seconds
        self._most = most_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._leases: dict[Hashable, _Lease] = {}

    def take(self, key: Hashable, newest: Callable[[], Snapshot]) -> Snapshot:
        """The snapshot that is lent under a key, or the newest one, which then is.

        Args:
            key: what requests of one query have in common.
            newest: gives the newest snapshot.
        """
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None and self._is_good(lease):
                lease.used = self._clock()
                return lease.snapshot
        snapshot = newest()
        now = self._clock()
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None and self._is_good(lease):  # another thread was faster
                return lease.snapshot
            self._leases = {name: one for name, one in self._leases.items() if self._is_good(one)}
            if len(self._leases) < _MOST:
                self._leases[key] = _Lease(snapshot, now, now)
        return snapshot

    def renew(self, key: Hashable) -> None:
        """A request under the key ended just now: how long it took does not count as idle."""
        with self._lock:
            lease = self._leases.get(key)
            if lease is not None:
                lease.used = self._clock()

    def _is_good(self, lease: _Lease) -> bool:
        now = self._clock()
        return now - lease.used <= self._idle and now - lease.begun <= self._most
