"""Caches: what is evicted and when, and how often a value is loaded."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog.concurrency.caches import LruCache, SingleFlight, memoize


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_least_recently_used_value_is_evicted() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert cache.setdefault("c", 4) == 3
    cache.shrink(1)
    assert cache.items() == [("c", 3)]


def test_values_are_weighed_when_they_are_put() -> None:
    evicted: list[str] = []
    cache: LruCache[str, str] = LruCache(5, len, on_evict=evicted.append)
    cache.put("a", "one")
    cache.put("b", "12")
    assert (cache.weight, len(cache)) == (5, 2)
    cache.put("c", "much too long")
    assert evicted == ["one", "12"]
    assert cache.items() == [("c", "much too long")]
    cache.put("c", "x")
    assert evicted[2:] == ["much too long"]
    assert cache.weight == 1


def test_no_capacity_keeps_nothing() -> None:
    cache: LruCache[str, str] = LruCache(0, len)
    assert cache.setdefault("a", "one") == "one"
    assert len(cache) == cache.weight == 0


def test_idle_values_are_evicted() -> None:
    clock, evicted = Clock(), list[int]()
    cache: LruCache[str, int] = LruCache(9, idle_seconds=10, on_evict=evicted.append, clock=clock)
    cache.put("a", 1)
    cache.put("b", 2)
    clock.now = 8.0
    assert cache.get("a") == 1
    clock.now = 11.0
    assert (cache.get("b"), cache.get("a")) == (None, 1)
    assert evicted == [2]


def test_a_value_is_removed_by_whoever_holds_it() -> None:
    evicted: list[object] = []
    cache: LruCache[str, object] = LruCache(9, on_evict=evicted.append)
    first, second = object(), object()
    cache.put("a", first)
    assert cache.pop("a", second) is None
    assert cache.pop("a", first) is first
    assert cache.pop("a") is None
    assert evicted == []
    cache.put("a", second)
    cache.clear()
    assert evicted == [second]


def test_concurrent_callers_share_one_load() -> None:
    started, go = threading.Event(), threading.Event()
    loads: list[int] = []

    def load() -> int:
        loads.append(len(loads))
        started.set()
        assert go.wait(60)
        return len(loads)

    flight = SingleFlight(load)
    seen: list[int] = []
    callers = [threading.Thread(target=lambda: seen.append(flight.get(60.0))) for _ in range(3)]
    callers[0].start()
    assert started.wait(60)
    for caller in callers[1:]:
        caller.start()
    go.set()
    for caller in callers:
        caller.join()
    assert seen == [1, 1, 1]
    assert flight.get() == 2
    flight.invalidate()
    assert flight.get(60.0) == 3


def test_results_live_as_long_as_their_owner() -> None:
    class Owner: ...

    one, two = Owner(), Owner()
    assert [memoize(one, "a", lambda: 1), memoize(one, "a", lambda: 2), memoize(two, "a", lambda: 3)] == [1, 1, 3]


def test_concurrent_callers_share_one_computation() -> None:
    class Owner: ...

    owner = Owner()
    calls: list[int] = []
    barrier = threading.Barrier(4)

    def compute() -> int:
        calls.append(1)
        time.sleep(0.01)
        return len(calls)

    def call(_: int) -> int:
        barrier.wait()
        return memoize(owner, "a", compute)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(call, range(4))] == [1, 1, 1, 1]


def test_an_error_is_not_memoized() -> None:
    class Owner: ...

    owner = Owner()
    with pytest.raises(ZeroDivisionError):
        memoize(owner, "a", lambda: 1 // 0)
    assert memoize(owner, "a", lambda: 2) == 2
