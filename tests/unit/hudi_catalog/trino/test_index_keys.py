"""Rows with one of the keys of an index look-up, against a comparison of tuples."""

import math
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.trino.index_keys import KeySet

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int32(), st.integers(-2, 2)),
    "l": (pa.int64(), st.integers(-2, 2)),
    "d": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    "s": (pa.string(), st.sampled_from(["", "a", "b", "é"])),
    "b": (pa.bool_(), st.booleans()),
}


@given(st.data(), st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
def test_rows(data: st.DataObject, names: list[str]) -> None:
    def drawn(most: int, *, nulls: bool) -> pa.Table:
        size = data.draw(st.integers(0, most))
        columns: dict[str, Any] = {}
        for name in names:
            kind, values = COLUMNS[name]
            one = st.none() | values if nulls else values
            columns[name] = pa.array(data.draw(st.lists(one, min_size=size, max_size=size)), kind)
        return pa.table(columns)

    keys, rows = drawn(6, nulls=False), drawn(12, nulls=True)
    # Python compares as SQL does: -0.0 equals 0.0, and NaN nothing.
    tuples = {key for key in zip(*keys.to_pydict().values(), strict=True) if all(value == value for value in key)}
    expected = [
        None not in row and all(value == value for value in row) and row in tuples
        for row in zip(*rows.to_pydict().values(), strict=True)
    ]
    served = {name: rows.column(name).combine_chunks() for name in names}
    assert KeySet(keys).rows(served).tolist() == expected


def test_days_are_numbers_in_keys() -> None:
    keys = pa.table({"d": pa.array([19782], pa.int32())})
    days: Any = pa.array([19782, 19783, None], pa.int32()).cast(pa.date32())
    assert KeySet(keys).rows({"d": days}).tolist() == [True, False, False]


def test_many_wide_keys() -> None:
    """More combinations of values than 64 bits count."""
    names = [f"c{i}" for i in range(8)]
    values = pa.array(range(300), pa.int64())
    keys = pa.table(dict.fromkeys(names, values))
    served: dict[str, Any] = dict.fromkeys(names, values)
    assert KeySet(keys).rows(served).all()
    served = {**served, "c7": pa.array(range(1, 301), pa.int64())}
    assert not KeySet(keys).rows(served).any()
