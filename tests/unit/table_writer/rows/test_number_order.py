"""Record keys of whole numbers are ordered as their texts are."""

import itertools
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.arrow_numpy import to_numpy
from table_format.keys import number_texts
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_writer.rows.number_order import number_order

NUMBERS = st.integers(0, 9) | st.integers(0, 120) | st.sampled_from([10**power for power in range(7)])


def text_order(columns: list[pa.Array], generator: str) -> list[int]:
    names = [f"f{number}" for number in range(len(columns))]
    spec = KeySpec(tuple(names), generator=generator, complex_single_field_form="field:value")
    keys = KeyGenerator(spec).record_keys(pa.table(columns, names=names)).to_pylist()
    return sorted(range(len(keys)), key=lambda row: keys[row].encode())


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=40), st.sampled_from([1, 2]))
def test_any_numbers_are_in_the_order_of_their_keys(rows: list[tuple[int, int]], fields: int) -> None:
    columns = [pa.array([row[field] for row in rows], pa.int64()) for field in range(fields)]
    with mock.patch.object(number_texts, "_LEAST_ROWS", 1):
        order = number_order(columns)
    assert order is not None
    for generator in ("COMPLEX", "NON_PARTITION"):
        assert order.rows.tolist() == text_order(columns, generator)
    ordered = [tuple(column[row].as_py() for column in columns) for row in order.rows.tolist()]
    assert order.same.tolist() == [False, *(left == right for left, right in itertools.pairwise(ordered))]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()])
def test_any_type_of_whole_numbers_and_many_rows(kind: pa.DataType) -> None:
    numbers = np.random.default_rng(0).integers(0, 128, 5000)
    order = number_order([pa.array(numbers).cast(kind)])
    assert order is not None
    assert order.rows.tolist() == text_order([pa.array(numbers)], "NON_PARTITION")


def test_the_greatest_numbers_that_fit() -> None:
    # 12 digits and 12 bits of row numbers: 13 * 10**12 takes 44 bits
    numbers = np.random.default_rng(0).integers(0, 10**12, 4000)
    order = number_order([pa.array(numbers)])
    assert order is not None
    assert order.rows.tolist() == text_order([pa.array(numbers)], "NON_PARTITION")


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([-1] + [5] * 1000)],
        [pa.array([None] + [5] * 1000)],
        [pa.array(["a"] * 1000)],
        [pa.array([True] * 1000)],
        [pa.array([1.0] * 1000)],
        [pa.array([10**19] * 1000, pa.uint64())],
        [pa.array([10**17] * 1000)],
        [pa.array([10**10] * 1000), pa.array([10**8] * 1000)],
        [pa.array([1] * 100)],
    ],
)
def test_other_columns_are_left_to_their_texts(columns: list[pa.Array]) -> None:
    assert number_order(columns) is None


@pytest.mark.parametrize("runs", [1, 7, 500])
def test_rows_that_come_in_ascending_runs(runs: int) -> None:
    numbers = np.tile(np.arange(3000), 2)
    numbers = np.concatenate(
        [np.sort(part) for part in np.array_split(np.random.default_rng(0).permutation(numbers), runs)]
    )
    order = number_order([pa.array(numbers)])
    assert order is not None
    assert order.rows.tolist() == text_order([pa.array(numbers)], "NON_PARTITION")


def test_slices_are_ordered_by_their_own_rows() -> None:
    column = pa.array([*range(1000), *([0] * 1000)]).slice(1000)
    order = number_order([column])
    assert order is not None
    assert order.same.tolist() == [False] + [True] * 999
    assert to_numpy(column)[order.rows].max() == 0
