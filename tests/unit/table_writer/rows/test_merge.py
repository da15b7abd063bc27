import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.errors import RecordError, SchemaError
from table_format.keys.key_order import is_sorted
from table_writer.plan.operations import Duplicates
from table_writer.rows.merge import merge_rows, positions_after, sorted_rows
from table_writer.rows.ordering import not_older, ordering_columns

KEYS = st.lists(st.sampled_from(["a", "b", "c", "", "é", "日本", "𝄞", "\uffff", "aa", "ab"]), max_size=12)


def strings(values: list[str]) -> Any:
    return pa.array(values, pa.string())


def rank(value: int | None) -> tuple[bool, int]:
    return (value is not None, value or 0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 3)), max_size=15), st.booleans())
def test_one_row_a_key_is_kept_by_ordering_and_then_by_place(
    rows: list[tuple[str, int | None]], by_order: bool
) -> None:
    expected: dict[str, int] = {}
    for number, (key, value) in enumerate(rows):
        if key not in expected or not by_order or rank(value) >= rank(rows[expected[key]][1]):
            expected[key] = number
    ordering = [pa.array([value for _, value in rows], pa.int64())] if by_order else []
    kept = sorted_rows(strings([key for key, _ in rows]), unique=True, ordering=ordering)
    assert kept.tolist() == [expected[key] for key in sorted(expected)]


@given(KEYS)
def test_without_uniqueness_all_rows_stay_in_stable_key_order(keys: list[str]) -> None:
    expected = sorted(range(len(keys)), key=lambda i: (keys[i].encode(), i))
    assert sorted_rows(strings(keys), unique=False).tolist() == expected


@given(KEYS, KEYS)
def test_binary_search_for_all_keys_at_once(ordered: list[str], keys: list[str]) -> None:
    ordered = sorted(ordered, key=str.encode)
    expected = [sum(other.encode() <= key.encode() for other in ordered) for key in keys]
    assert positions_after(strings(ordered), strings(keys)).tolist() == expected
    assert is_sorted(strings(ordered))


@given(KEYS, st.sets(st.sampled_from("abcdé"), max_size=5), st.data())
def test_merge_equals_a_dictionary(old: list[str], new_keys: set[str], data: Any) -> None:
    new = sorted(new_keys, key=str.encode)
    deletes = np.array(data.draw(st.lists(st.booleans(), min_size=len(new), max_size=len(new))), np.bool_)
    old_order = data.draw(st.lists(st.none() | st.integers(0, 2), min_size=len(old), max_size=len(old)))
    new_order = data.draw(st.lists(st.none() | st.integers(0, 2), min_size=len(new), max_size=len(new)))
    by_value = data.draw(st.booleans())
    expected: list[tuple[bytes, int]] = []
    inserted = updated = deleted = 0
    for position, key in enumerate(old):
        source = position
        if key in new:
            other = new.index(key)
            if not by_value or rank(new_order[other]) >= rank(old_order[position]):
                if deletes[other]:
                    deleted += 1
                    continue
                updated += 1
                source = len(old) + other
        expected.append((key.encode(), source))
    for other, key in enumerate(new):
        if key not in old and not deletes[other]:
            inserted += 1
            expected.append((key.encode(), len(old) + other))
    merged = merge_rows(
        strings(old),
        strings(new),
        deletes=deletes,
        old_ordering=[pa.array(old_order, pa.int64())] if by_value else [],
        new_ordering=[pa.array(new_order, pa.int64())] if by_value else [],
    )
    whole = [*old, *new]
    assert [whole[row].encode() for row in merged.rows] == sorted(key for key, _ in expected)
    assert sorted(merged.rows.tolist()) == sorted(source for _, source in expected)
    assert (merged.inserted, merged.updated, merged.deleted) == (inserted, updated, deleted)
    assert merged.changed == bool(inserted or updated or deleted)


def test_inserts_may_add_drop_or_fail_on_known_keys() -> None:
    old, new = strings(["a", "b"]), strings(["b", "b", "c"])
    added = merge_rows(old, new, duplicates=Duplicates.ADD)
    assert added.rows.tolist() == [0, 1, 2, 3, 4]
    dropped = merge_rows(old, new, duplicates=Duplicates.DROP)
    assert dropped.rows.tolist() == [0, 1, 4]
    assert dropped.inserted == 1
    with pytest.raises(RecordError, match=r"2 row\(s\).*'b'.*dup.policy"):
        merge_rows(old, new, duplicates=Duplicates.FAIL)


@pytest.mark.parametrize(
    "values",
    [
        [None, -math.inf, -1.5, -0.0, 0.0, 1.0, math.inf, math.nan],
        [None, False, True],
        [None, Decimal("-1.50"), Decimal("0.00"), Decimal("99.99")],
        [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
        [None, "", "a", "é", "日"],
        [None, b"", b"\x00", b"\xff"],
    ],
)
def test_ordering_values_are_totally_ordered_nulls_first(values: list[Any]) -> None:
    count = len(values)
    pairs = [(i, j) for i in range(count) for j in range(count)]
    left = pa.table({"o": pa.array([values[i] for i, _ in pairs])})
    right = pa.table({"o": pa.array([values[j] for _, j in pairs])})
    wins = not_older(ordering_columns(left, ["o"]), ordering_columns(right, ["o"]), len(pairs))
    assert wins.tolist() == [i >= j for i, j in pairs]
    keys = strings(["k"] * count)
    shuffled = pa.table({"o": pa.array(values[::-1])})
    assert sorted_rows(keys, unique=True, ordering=ordering_columns(shuffled, ["o"])).tolist() == [0]


def test_several_ordering_fields_compare_in_turn() -> None:
    new = ordering_columns(pa.table({"x": [1, 1, 2, None], "y": [5, 3, 0, 9]}), ["x", "y"])
    old = ordering_columns(pa.table({"x": [1, 1, 1, 1], "y": [4, 4, 4, 4]}), ["x", "y"])
    assert not_older(new, old, 4).tolist() == [True, False, True, False]


def test_nested_columns_have_no_order() -> None:
    with pytest.raises(SchemaError, match="'o' is list"):
        ordering_columns(pa.table({"o": [[1]]}), ["o"])
