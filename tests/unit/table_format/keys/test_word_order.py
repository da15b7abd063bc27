"""The order by words of eight bytes is that of comparing the texts."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.keys import key_order as module
from table_format.keys.key_order import sorted_order

PIECES = st.sampled_from(["", "a", "b", "\x00", "é", "日本", "𝄞", "id:", "12", ",part:", "abcdefgh", "abcdefg\x00"])
TEXTS = st.lists(PIECES, max_size=6).map("".join)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2000)


@pytest.fixture(autouse=True)
def _few_rows_are_ordered_by_words_too(monkeypatch):
    monkeypatch.setattr(module, "_FEW_ROWS", 1)


def _expected(texts):
    return sorted(range(len(texts)), key=lambda row: (texts[row].encode(), row))


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=30))
def test_any_texts(prefix, endings):
    texts = [prefix + ending for ending in endings]
    padded = pa.array(["zz", *texts, "0"], pa.string())
    assert sorted_order(padded.slice(1, len(texts))).tolist() == _expected(texts)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_keys_of_numbers(rows):
    texts = [f"order:{order},line:{line}" for order, line in rows]
    assert sorted_order(pa.array(texts)).tolist() == _expected(texts)


@pytest.mark.slow
@pytest.mark.parametrize("spread", [3, 1000, 10**9])
def test_many_composite_keys_in_any_order(spread):
    numbers = np.random.default_rng(spread).integers(0, spread, (20_000, 2))
    keys = pa.array([f"l_orderkey:{order},l_linenumber:{line}" for order, line in numbers.tolist()])
    assert sorted_order(keys).tolist() == pc.sort_indices(keys).to_pylist()


def test_texts_that_are_equal_for_long_and_nulls_are_ordered_by_comparison():
    texts = [f"{number % 3}{'x' * 200}{number % 7}" for number in range(50)]
    assert sorted_order(pa.array(texts)).tolist() == _expected(texts)
    assert sorted_order(pa.array(["b", None, "a"])).tolist() == [2, 0, 1]
    assert sorted_order(pa.array([], pa.string())).tolist() == []
