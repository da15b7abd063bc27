"""Sorting keys by words gives the order of their bytes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.keys import key_order
from table_format.keys.key_order import sorted_order

# few different bytes, zeros among them, so that keys share beginnings and differ after any word
KEYS = st.lists(st.text("\0ab\x7f", max_size=30).map(str.encode) | st.binary(max_size=12), max_size=40)


@pytest.fixture(autouse=True)
def _few_rows_are_ordered_by_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_order, "_FEW_ROWS", 1)


def expected(keys: list[bytes]) -> list[int]:
    return sorted(range(len(keys)), key=lambda row: keys[row])


@given(KEYS, st.binary(max_size=20))
def test_order_is_that_of_the_bytes_and_stable(keys: list[bytes], prefix: bytes) -> None:
    keys = [prefix + key for key in keys]
    assert sorted_order(pa.array(keys, pa.binary())).tolist() == expected(keys)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_slices_of_any_kind(kind: pa.DataType) -> None:
    keys = [f"order-{number * 7919 % 1000:04d},line:{number % 3}" for number in range(1000)]
    array = pa.array([key.encode() for key in keys], pa.binary()).cast(kind)
    assert sorted_order(array.slice(100, 700)).tolist() == expected([key.encode() for key in keys[100:800]])


def test_keys_that_differ_behind_many_words() -> None:
    rng = np.random.default_rng(7)
    keys = [b"x" * int(rng.integers(0, 4)) * 8 + bytes(rng.integers(97, 99, 20).tolist()) for _ in range(500)]
    assert sorted_order(pa.array(keys, pa.binary())).tolist() == expected(keys)
