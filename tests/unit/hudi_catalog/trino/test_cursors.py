"""Cursors of partly read splits: taken once, and closed where nobody comes for them."""

import threading

from hudi_catalog.trino.base.cursors import Cursors


class Read:
    """A partly read split of ten bytes."""

    memory = 10

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_each_reader_takes_one() -> None:
    cursors: Cursors[Read] = Cursors(1_000, 60.0)
    kept = [Read() for _ in range(9)]
    for cursor in kept:
        cursors.keep("page 1", cursor)
    assert [cursor.closed.is_set() for cursor in kept] == [False] * 8 + [True]
    taken = [cursors.take("page 1") for _ in range(9)]
    assert {id(cursor) for cursor in taken[:8]} == {id(cursor) for cursor in kept[:8]}
    assert taken[8] is None
    assert cursors.take("page 2") is None


def test_one_that_nobody_comes_for_is_closed() -> None:
    cursors: Cursors[Read] = Cursors(1_000, 0.05)
    for _ in range(2):  # the watch goes on
        left = Read()
        cursors.keep("page 1", left)
        assert left.closed.wait(30)


def test_what_is_too_large_together_is_closed() -> None:
    cursors: Cursors[Read] = Cursors(15, 60.0)
    first, second = Read(), Read()
    cursors.keep("page 1", first)
    cursors.keep("page 2", second)
    assert (first.closed.is_set(), second.closed.is_set()) == (True, False)
    cursors.clear()
    assert second.closed.is_set()
