"""Files that are read in part: what is kept, and what is closed."""

from hudi_catalog.trino.rows import Cursors


class Fake:
    def __init__(self, memory: int = 10) -> None:
        self.memory = memory
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_a_cursor_is_with_whoever_took_it() -> None:
    cursors: Cursors[Fake] = Cursors(100, 10)
    one = Fake()
    cursors.put("a", one)
    assert cursors.memory == 10
    assert cursors.take("a") is one
    assert cursors.take("a") is None
    assert not one.closed
    assert cursors.memory == len(cursors) == 0


def test_the_oldest_go_when_memory_is_short() -> None:
    cursors: Cursors[Fake] = Cursors(25, 10)
    fakes = [Fake() for _ in range(4)]
    for number, fake in enumerate(fakes):
        cursors.put(number, fake)
    assert [fake.closed for fake in fakes] == [True, True, False, False]
    assert cursors.memory == 20
    big = Fake(1000)
    cursors.put("big", big)
    assert all(fake.closed for fake in fakes)
    assert not big.closed  # what is larger than all the room is kept alone
    assert (cursors.memory, len(cursors)) == (1000, 1)
    cursors.put("small", Fake(1))
    assert big.closed
    assert (cursors.memory, len(cursors)) == (1, 1)


def test_none_is_kept_without_memory() -> None:
    cursors: Cursors[Fake] = Cursors(0, 10)
    one = Fake()
    cursors.put("a", one)
    assert one.closed
    assert cursors.memory == len(cursors) == 0


def test_another_one_under_the_same_key() -> None:
    cursors: Cursors[Fake] = Cursors(25, 10)
    one, two = Fake(), Fake(7)
    cursors.put("a", one)
    cursors.put("a", two)
    assert one.closed
    assert cursors.memory == 7
    assert cursors.take("a") is two


def test_idle_ones_are_closed() -> None:
    now = 0.0
    cursors: Cursors[Fake] = Cursors(100, 10, clock=lambda: now)
    one, two = Fake(), Fake()
    cursors.put("a", one)
    now = 8.0
    cursors.put("b", two)
    now = 11.0
    assert cursors.take("c") is None
    assert one.closed
    assert not two.closed
    assert cursors.take("a") is None
    cursors.clear()
    assert two.closed
