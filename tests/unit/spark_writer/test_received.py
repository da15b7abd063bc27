"""The rows of a task's slots: one slot after another, and within a bound of memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_writer.blocks import split_batches
from spark_writer.received import slot_rows
from table_writer.execution.executor import SplitRows

MIB = 1 << 20
SLOTS = 3


def parts(sizes: list[int], width: int) -> Iterator[SplitRows]:
    """Rows of about `width` bytes, numbered; each goes to the slot of its number."""
    first = 0
    for number, size in enumerate(sizes):
        numbers = np.arange(first, first + size)
        rows = pa.table({"n": numbers, "text": [f"{n:0{width}}" for n in numbers]})
        yield SplitRows((7, number), rows, numbers % SLOTS)
        first += size


def numbers(tables: Iterator[pa.Table]) -> list[Any]:
    return [number for table in tables for number in table["n"].to_pylist()]


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.sampled_from([4, 3000]),
    st.sampled_from([None, 1, MIB, 64 * MIB]),
    st.sampled_from([None, 0, 5000]),
    st.randoms(use_true_random=False),
)
def test_each_slot_has_its_rows_in_order(
    sizes: list[int], width: int, memory: int | None, waiting: int | None, random: Any
) -> None:
    batches = list(split_batches(parts(sizes, width), SLOTS, 1))
    random.shuffle(batches)  # as Spark's shuffle may
    rows_seen = []
    for slot in slot_rows(batches, memory, waiting):
        seen = numbers(slot.pieces(["n"]))
        assert seen == sorted(seen)
        assert seen == numbers(slot.pieces()) == slot.whole("in a slot", "")[0]["n"].to_pylist()
        assert len({number % SLOTS for number in seen}) == 1
        assert slot.nbytes >= width * len(seen)
        rows_seen += seen
    assert sorted(rows_seen) == list(range(sum(sizes)))


@pytest.mark.parametrize("waiting", [None, 0], ids=["in memory", "in a file"])
def test_a_slot_above_the_bound_is_put_aside_in_parts(waiting: int | None) -> None:
    batches = list(split_batches(parts([9000], 400), SLOTS, 1))
    assert [slot.fits for slot in slot_rows(batches, MIB, waiting)] == [False] * SLOTS
    assert [slot.fits for slot in slot_rows(batches, 16 * MIB, waiting)] == [True] * SLOTS


def test_parts_keep_the_order_of_the_rows() -> None:
    for slot in slot_rows(split_batches(parts([4000, 4000], 400), SLOTS, 1), MIB, 0):
        whole = numbers(slot.pieces())
        divided = slot.divided(lambda table: table["n"].to_numpy() // 1000, 8)
        assert [numbers(part.tables()) for part in divided] == [
            [n for n in whole if n // 1000 == part] for part in range(8)
        ]
