"""File names looked up among others: the rows that a dictionary gives, whatever their number and likeness."""

from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.slices import name_table
from catalog.slices.name_table import NameTable
from catalog.statistics.aggregate import statistics_of_slices
from tests.unit.catalog.slices.test_slice_set import LONG, entries, slices

# Alike up to one place, and of a few lengths, so that hashes of parts are equal.
NAME = st.tuples(st.sampled_from("abc"), st.integers(0, 45), st.sampled_from(["", "x", "yz"])).map(
    lambda one: "0" * one[1] + one[0] + "0" * (50 - one[1]) + one[2]
)
SHORT = st.text("ab", max_size=4)


def rows_by_dictionary(names: list[str | None], others: list[str | None]) -> list[int]:
    places = {name: row for row, name in enumerate(names) if name is not None}
    return [-1 if name is None else places.get(name, -1) for name in others]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(NAME | SHORT | st.none(), max_size=60), st.lists(NAME | SHORT | st.none(), max_size=60), st.booleans())
def test_rows_are_those_of_a_dictionary(names: list[str | None], others: list[str | None], only_long: bool) -> None:
    names = list(dict.fromkeys(name for name in names if not only_long or (name is not None and len(name) > 36)))
    array = pa.array([None, *names, *others], pa.string())  # a slice of a larger one, as after a read
    with mock.patch.object(name_table, "_FEW", 2), mock.patch.object(name_table, "_AT_ONCE", 7):
        table = NameTable(array.slice(1, len(names)))
        rows = table.rows_of(array.slice(1 + len(names)))
    assert rows.tolist() == rows_by_dictionary(names, others)


def test_names_that_look_alike_to_the_hash() -> None:
    """The hash leaves out the middle of long names."""
    names = [f"{'a' * 40}{number:08d}{'b' * 40}" for number in range(50)]
    with mock.patch.object(name_table, "_FEW", 2):
        table = NameTable(pa.array(names[:40]))
        assert table.rows_of(pa.array(names[::-1])).tolist() == rows_by_dictionary(names[:40], names[::-1])


@pytest.mark.parametrize("count", [10_000, 70_000])
def test_many_names(count: int) -> None:
    names = [f"{number:08x}-0000-4000-8000-{number:012x}-0_0-0-0_20260101000000000.parquet" for number in range(count)]
    table = NameTable(pa.array(names[1::2]))
    assert table.proves_unique
    assert table.rows_of(pa.array(names)).tolist() == [n // 2 if n % 2 else -1 for n in range(count)]
    assert not NameTable(pa.array([*names, names[7]])).proves_unique


def test_two_entries_of_one_name_are_of_files_in_other_partitions() -> None:
    """An older file of another partition may have the name: which statistics are the slice's is not known."""
    known = pa.concat_tables([entries(a_1=(1, 2, 0, 9), b_1=(3, 4, 0, 9)), entries(b_1=(7, 8, 0, 9))])
    joined = statistics_of_slices(slices(("p", "a", "1", []), ("p", "b", "1", [])), known, LONG)
    assert joined.present.tolist() == [True, False]
    assert joined.statistics.lower.to_pylist() == [1, None]
    assert np.asarray(joined.row_count.is_valid()).tolist() == [True, False]
