"""Texts of whole numbers from tables equal those that Arrow makes, and their hashes Java's."""

import operator
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.keys import number_texts
from table_format.keys.java_hash import java_string_hash
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_format.keys.number_texts import digit_counts, joined_numbers, number_hashes, numbers_of

BORDERS = sorted({10**power + off for power in range(20) for off in (-1, 0, 1)} | {2**32 - 1, 2**32, 2**63, 2**64 - 1})
NUMBERS = st.sampled_from(BORDERS) | st.integers(0, 2**64 - 1) | st.integers(0, 99_999)


def column(numbers: list[int]) -> pa.Array:
    return pa.array(numbers, pa.uint64())


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=60), st.sampled_from([1, 2, 7]))
def test_any_numbers_have_arrows_texts_and_javas_hashes(rows: list[tuple[int, int]], block: int) -> None:
    columns = [column(list(numbers)) for numbers in zip(*rows, strict=True)]
    texts = [pc.cast(numbers, pa.string()) for numbers in columns]
    with mock.patch.multiple(number_texts, _LEAST_ROWS=1, BLOCK_ROWS=block, _MOST_LENGTHS=1000):
        values = [numbers_of(numbers) for numbers in columns]
        assert all(numbers is not None for numbers in values)
        for numbers, text in zip(values, texts, strict=True):
            assert digit_counts(numbers).tolist() == pc.binary_length(text).to_pylist()
            assert number_hashes(numbers).view(np.int32).tolist() == java_string_hash(text).tolist()
        for labels in (["a:", ",日本:"], ["", ""]):
            joined = joined_numbers(values, labels)
            joined.validate(full=True)
            assert joined.equals(pc.binary_join_element_wise(labels[0], texts[0], labels[1], texts[1], ""))
        assert joined_numbers(values[:1], [""]).equals(texts[0])


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint16(), pa.int64(), pa.uint64()])
@pytest.mark.parametrize("ordered", [True, False])
def test_slices_of_any_type_over_several_blocks(kind: pa.DataType, ordered: bool) -> None:
    numbers = np.random.default_rng(0).integers(0, 128 if kind.bit_width == 8 else 30_000, 40_000)
    whole = pa.array(np.sort(numbers) if ordered else numbers).cast(kind)
    part = whole.slice(5, 39_000)
    values = numbers_of(part)
    assert values is not None
    assert joined_numbers([values], ["id:"]).equals(pc.binary_join_element_wise("id:", part.cast(pa.string()), ""))
    assert (number_hashes(values).view(np.int32) == java_string_hash(part.cast(pa.string()))).all()


@pytest.mark.parametrize(
    "other",
    [
        pa.array([-1] + [5] * 1000),
        pa.array([None] + [5] * 1000),
        pa.array(["5"] * 1000),
        pa.array([True] * 1000),
        pa.array([5.0] * 1000),
        pa.array([5] * 100),
        pa.array([], pa.int64()),
    ],
)
def test_other_columns_have_texts_only(other: pa.Array) -> None:
    assert numbers_of(other) is None


def test_many_lengths_are_left_to_arrow() -> None:
    numbers = numbers_of(column([10 ** (row % 20) for row in range(1000)]))
    assert numbers is not None
    assert joined_numbers([numbers, numbers[::-1].copy()], ["a:", ",b:"]) is not None
    assert joined_numbers([numbers, np.roll(np.sort(numbers), 7)], ["a:", ",b:"]) is None


@pytest.mark.parametrize(
    ("fields", "generator"), [(("a",), "SIMPLE"), (("a",), "COMPLEX"), (("a", "b"), "COMPLEX"), (("b", "s"), "COMPLEX")]
)
def test_keys_and_buckets_of_numbers_are_those_of_their_texts(fields: tuple[str, ...], generator: str) -> None:
    draw = np.random.default_rng(0)
    whole = pa.table({"a": draw.integers(0, 10**12, 2000), "b": draw.integers(0, 12, 2000), "s": ["x:,y", "z"] * 1000})
    spec = KeySpec(fields, ("s",), generator, complex_single_field_form="field:value")
    keys = KeyGenerator(spec)
    # few rows take the way of texts
    parts = [whole.slice(start, 100) for start in range(0, 2000, 100)]
    assert keys.record_keys(whole).to_pylist() == [key for part in parts for key in keys.record_keys(part).to_pylist()]
    buckets = [keys.bucket_ids(part, 97).tolist() for part in parts]
    assert keys.bucket_ids(whole, 97).tolist() == list(map(operator.index, np.concatenate(buckets)))
