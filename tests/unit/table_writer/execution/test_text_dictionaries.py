"""Texts of few values become dictionaries that hold the same texts."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_writer.execution.text_dictionaries import encoders, with_dictionary

TEXTS = st.sampled_from(["A", "N", "", "é", "\0", "DELIVER IN PERSON", "日本", None])


@given(st.lists(TEXTS, max_size=40), st.integers(0, 5), st.integers(0, 5))
def test_any_texts_stay_the_same(texts: list[str | None], front: int, behind: int) -> None:
    column = pa.array(texts, pa.string()).slice(front, max(0, len(texts) - front - behind))
    encoded = with_dictionary(column)
    encoded.validate(full=True)
    assert encoded.to_pylist() == column.to_pylist()
    assert isinstance(encoded, pa.DictionaryArray) == (column.null_count < len(column))


@given(st.lists(st.sampled_from("ANR"), min_size=1, max_size=40), st.integers(0, 5))
def test_letters_stay_the_same(letters: list[str], front: int) -> None:
    column = pa.array(letters, pa.string()).slice(front)
    assert with_dictionary(column).to_pylist() == column.to_pylist()


@pytest.mark.parametrize("rare", ["Z", "zz", None])
def test_a_value_that_the_sample_lacks_is_kept(rare: str | None) -> None:
    texts = ["A", "B"] * 50_000
    texts[12_345] = rare
    encoded = with_dictionary(pa.array(texts, pa.string()))
    assert isinstance(encoded, pa.DictionaryArray)
    assert encoded.to_pylist() == texts


@pytest.mark.parametrize("step", [1, 9])
def test_many_values_stay_texts(step: int) -> None:
    """Where the sample, every ninth row, shows them, and where it does not."""
    column = pa.array(["A" if row % 9 == 0 and step == 9 else str(row % 1000) for row in range(40_000)])
    assert with_dictionary(column) is column


def test_only_texts_besides_the_record_key_are_asked_about() -> None:
    rows = pa.table({name: ["a"] * 5000 for name in ("_hoodie_record_key", "t")} | {"n": [1] * 5000})
    assert list(encoders(rows)) == ["t"]
    assert list(encoders(rows.slice(0, 100))) == []
