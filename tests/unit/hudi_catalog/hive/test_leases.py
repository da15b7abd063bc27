from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier

import pytest

from hudi_catalog.hive.planning import QueryLeases


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def pins() -> Iterator[str]:
    return map(str, count())


def test_a_query_keeps_its_pin_as_long_as_it_asks(clock: Clock) -> None:
    leases, made = QueryLeases(10, clock=clock), pins()
    assert leases.take("q", lambda: next(made)) == "0"
    for _ in range(5):
        clock.now += 9
        assert leases.take("q", lambda: next(made)) == "0"
    clock.now += 11
    assert leases.take("q", lambda: next(made)) == "1"
    assert leases.take("other", lambda: next(made)) == "2"


def test_idle_and_old_ones_are_forgotten(clock: Clock) -> None:
    leases, made = QueryLeases(10, most=3, clock=clock), pins()
    for name in "abcd":
        leases.take(name, lambda: next(made))
        assert len(leases) <= 3
    assert leases.take("b", lambda: "new") == "1"
    assert leases.take("a", lambda: "new") == "new"
    clock.now += 11
    leases.take("z", lambda: next(made))
    assert len(leases) == 1


def test_who_fails_leaves_nothing(clock: Clock) -> None:
    leases = QueryLeases(10, clock=clock)
    with pytest.raises(ZeroDivisionError):
        leases.take("q", lambda: str(1 // 0))
    assert leases.take("q", lambda: "good") == "good"


def test_scans_that_ask_at_once_get_the_same(clock: Clock) -> None:
    leases, made, together = QueryLeases(10, clock=clock), pins(), Barrier(8, timeout=20)

    def newest() -> str:
        together.wait()
        return next(made)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: leases.take("q", newest), range(8)))) == 1
