"""Caches shared by threads.

`LruCache` bounds what is cached (statistics, footers), `SingleFlight` shares a load that must be fresh, `memoize` keeps
what is computed once from an object that never changes (a snapshot, the statistics of a column).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

K = TypeVar("K", bound=Hashable)

V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A cache that evicts the least recently used values; threads may share it.

    Args:
        capacity: greatest total weight. A single heavier value is kept until another one comes; 0 keeps none.
        weigh: weight of a value when it is put; None for 1 each, so that `capacity` is a number of values.
        idle_seconds: values unused for this long are evicted; None to keep them.
        on_evict: called with each value that is evicted or replaced, not under the lock; `pop` does not call it.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        capacity: int,
        weigh: Callable[[V], int] | None = None,
        *,
        idle_seconds: float | None = None,
        on_evict: Callable[[V], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.capacity = capacity
        self._weigh = weigh
        self._idle = idle_seconds
        self._on_evict = on_evict
        self._clock = clock
        self._weight = 0
        self._entries: OrderedDict[K, tuple[V, int, float]] = OrderedDict()  # value, weight, time of last use
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of values, idle ones evicted."""
        self.expire()
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        """Whether a value is cached, which does not count as a use of it."""
        return key in self._entries

    @property
    def weight(self) -> int:
        """Total weight of the values."""
        return self._weight

    def get(self, key: K) -> V | None:
        """The cached value, now the most recently used; None if there is none."""
        self.expire()
        with self._lock:
            return self._use(key)

    def put(self, key: K, value: V) -> None:
        """Cache a value, in place of another one of that key."""
        with self._lock:
            evicted = [self._remove(key)] if key in self._entries else []
            self._add(key, value)
            evicted += self._excess(self.capacity)
        self._close(evicted)

    def setdefault(self, key: K, value: V) -> V:
        """Cache a value unless there is one of that key; returns the one that is cached."""
        self.expire()
        with self._lock:
            if key in self._entries:
                return self._use(key)  # type: ignore[return-value]  # it is there
            self._add(key, value)
            evicted = self._excess(self.capacity)
        self._close(evicted)
        return value

    def pop(self, key: K, expected: V | None = None) -> V | None:
        """Remove a value and return it.

        Args:
            key: of the value.
            expected: remove the value only if it is this very one; None for any.
        """
        self.expire()
        with self._lock:
            if key not in self._entries or (expected is not None and self._entries[key][0] is not expected):
                return None
            return self._remove(key)

    def items(self) -> list[tuple[K, V]]:
        """Keys and values, the least recently used first."""
        self.expire()
        with self._lock:
            return [(key, entry[0]) for key, entry in self._entries.items()]

    def shrink(self, capacity: int) -> None:
        """Evict down to a lower total weight, this once."""
        with self._lock:
            evicted = self._excess(capacity)
        self._close(evicted)

    def expire(self) -> None:
        """Evict the values that were idle for too long."""
        if self._idle is None:
            return
        evicted: list[V] = []
        with self._lock:
            oldest = self._clock() - self._idle
            while self._entries and next(iter(self._entries.values()))[2] < oldest:
                evicted.append(self._remove(next(iter(self._entries))))
        self._close(evicted)

    def clear(self) -> None:
        """Evict all values."""
        with self._lock:
            evicted = [entry[0] for entry in self._entries.values()]
            self._entries.clear()
            self._weight = 0
        self._close(evicted)

    def _use(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._idle is not None:
            self._entries[key] = (entry[0], entry[1], self._clock())
        self._entries.move_to_end(key)
        return entry[0]

    def _add(self, key: K, value: V) -> None:
        weight = 1 if self._weigh is None else self._weigh(value)
        self._entries[key] = (value, weight, self._clock())
        self._weight += weight

    def _remove(self, key: K) -> V:
        value, weight, _ = self._entries.pop(key)
        self._weight -= weight
        return value

    def _excess(self, capacity: int) -> list[V]:
        """Values removed, least recently used first, until the rest fits."""
        least = 1 if capacity else 0
        removed: list[V] = []
        while self._weight > capacity and len(self._entries) > least:
            removed.append(self._remove(next(iter(self._entries))))
        return removed

    def _close(self, evicted: list[V]) -> None:
        if self._on_evict is not None:
            for value in evicted:
                self._on_evict(value)


class SingleFlight(Generic[V]):
    """A value that is loaded at each call; concurrent callers share one load.

    Args:
        load: loads the value.

    Attributes:
        last: the value loaded last; None before the first load.
    """

    def __init__(self, load: Callable[[], V]) -> None:
        self.last: V | None = None
        self._load = load
        self._lock = threading.Lock()
        self._began = float("-inf")

    def get(self, tolerance: float = 0.0) -> V:
        """The value as of this call, or later.

        Args:
            tolerance: a load that began at most this many seconds before this call is accepted.

        Raises:
            Exception: what `load` raises; the next caller loads again.
        """
        arrived = time.monotonic()
        with self._lock:
            # a load that began while this caller waited for the lock is new enough
            if self.last is None or self._began < arrived - tolerance:
                began = time.monotonic()
                self.last = self._load()
                self._began = began
            return self.last

    def invalidate(self) -> None:
        """Let the next call load again, whatever its tolerance."""
        self._began = float("-inf")


class _Result(Generic[V]):
    """A memoized result; concurrent callers wait for the one that computes it."""

    __slots__ = ("_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value: tuple[V] | None = None

    def get(self, make: Callable[[], V]) -> V:
        if self._value is None:
            with self._lock:
                if self._value is None:
                    self._value = (make(),)
        return self._value[0]


_MEMOIZED: WeakKeyDictionary[Any, dict[Hashable, _Result[Any]]] = WeakKeyDictionary()

_MEMOIZED_LOCK = threading.Lock()


def times_before(owner: Any, key: Hashable) -> int:
    """How often this was called for an owner and a key before, for what is worth making at a later use only."""
    return next(memoize(owner, ("times", key), itertools.count))


def memoize(owner: Any, key: Hashable, make: Callable[[], V]) -> V:
    """The result of one call of `make` for an owner and a key, in memory as long as the owner lives.

    Concurrent callers share one call.

    Args:
        owner: weakly referenced, and hashed by identity; the result must not refer to it.
        key: names the result among those of the owner.
        make: computes it, without asking for the same key; an error is raised and not memoized.
    """
    with _MEMOIZED_LOCK:
        result: _Result[V] = _MEMOIZED.setdefault(owner, {}).setdefault(key, _Result())
    return result.get(make)
