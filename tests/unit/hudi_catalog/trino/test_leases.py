from typing import Any

import pytest

from hudi_catalog.trino.planning import SnapshotLeases


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Versions:
    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Any:
        self.made += 1
        return self.made


def test_a_snapshot_is_lent_as_long_as_requests_follow_closely() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)
    assert leases.take("q", newest) == 1
    for _ in range(20):
        clock.now += 1
        assert leases.take("q", newest) == 1
    clock.now += 1.1
    assert leases.take("q", newest) == 2


def test_a_lease_ends() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)
    for _ in range(31):
        assert leases.take("q", newest) == 1
        clock.now += 1
    assert leases.take("q", newest) == 2


def test_other_queries_have_their_own() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)
    assert [leases.take(key, newest) for key in ("a", "b", "a", "b")] == [1, 2, 1, 2]


def test_the_time_that_a_look_up_takes_is_not_idle() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)
    leases.take("q", newest)
    clock.now += 5
    leases.renew("q")
    clock.now += 0.9
    assert leases.take("q", newest) == 1
    leases.renew("unknown")


def test_the_faster_of_two_lends_to_both() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)

    def slow() -> Any:
        assert leases.take("q", newest) == 1
        return 99

    assert leases.take("q", slow) == 1


@pytest.mark.slow
def test_leases_are_bounded() -> None:
    clock, newest = Clock(), Versions()
    leases = SnapshotLeases(1.0, 30.0, clock)
    for key in range(3_000):
        leases.take(key, newest)
    assert len(leases._leases) == 1_000
    clock.now += 2
    leases.take("q", newest)
    assert len(leases._leases) == 1
