"""The JSON encoding of rows."""

import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.rows.json_rows import json_lines, json_values
from table_format.errors import SchemaError

CASES: list[tuple[pa.DataType, Any, str]] = [
    (pa.int32(), -(2**31), "-2147483648"),
    (pa.int64(), 2**63 - 1, "9223372036854775807"),
    (pa.bool_(), True, "true"),
    (pa.float64(), -0.0, "-0.0"),
    (pa.float64(), 1e308, "1e+308"),
    (pa.float64(), 5e-324, "5e-324"),
    (pa.float64(), 3.0, "3.0"),
    (pa.float64(), math.nan, '"NaN"'),
    (pa.float64(), math.inf, '"Infinity"'),
    (pa.float32(), -math.inf, '"-Infinity"'),
    (pa.float32(), 0.10000000149011612, "0.10000000149011612"),
    (pa.string(), 'a"b\\c\n\x01é🙂\u2028', '"a\\"b\\\\c\\n\\u0001é🙂\u2028"'),
    (pa.string(), "", '""'),
    (pa.large_string(), "x", '"x"'),
    (pa.string_view(), "x", '"x"'),
    (pa.decimal128(38, 18), decimal.Decimal("0E-18"), '"0.000000000000000000"'),
    (pa.decimal128(30, 15), decimal.Decimal("-1E-15"), '"-0.000000000000001"'),
    (pa.decimal128(5, 0), decimal.Decimal(12300), '"12300"'),
    (pa.binary(), b"\xff\x80", '"/4A="'),
    (pa.binary(), b"", '""'),
    (pa.date32(), dt.date(1, 1, 1), '"0001-01-01"'),
    (pa.date32(), dt.date(9999, 12, 31), '"9999-12-31"'),
    (pa.timestamp("us", "UTC"), dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC), '"9999-12-31T23:59:59.999999Z"'),
    (pa.timestamp("us", "UTC"), dt.datetime(1901, 1, 1, tzinfo=dt.UTC), '"1901-01-01T00:00:00.000000Z"'),
    (pa.timestamp("ms", "UTC"), dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC), '"1969-12-31T23:59:59.999000Z"'),
    (pa.timestamp("us"), dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.UTC), '"2020-01-02T03:04:05.000006"'),
    (pa.list_(pa.int32()), [1, None, 3], "[1, null, 3]"),
    (pa.list_(pa.list_(pa.string())), [["a"], [], None], '[["a"], [], null]'),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": None, "b": "x"}, '{"a": null, "b": "x"}'),
    (pa.map_(pa.string(), pa.int64()), [("b", 1), ("a", None)], '[["a", null], ["b", 1]]'),
    (pa.map_(pa.int32(), pa.string()), [(10, "x"), (9, "y")], '[[9, "y"], [10, "x"]]'),
    (pa.dictionary(pa.int32(), pa.string()), "x", '"x"'),
    (pa.null(), None, "null"),
]


@pytest.mark.parametrize(("kind", "value", "text"), CASES)
def test_each_type(kind: pa.DataType, value: Any, text: str) -> None:
    array = pa.array([None, value, None, value], kind)
    assert json_values(array).to_pylist() == ["null", text, "null", text]
    # A slice starts inside the buffers.
    assert json_values(array[1:]).to_pylist() == [text, "null", text]
    json.loads(text)


def test_empty_and_chunked_columns() -> None:
    table = pa.table(
        {
            "a": pa.chunked_array([pa.array([1]), pa.array([2, 3])]),
            "m": pa.array([None, [], [("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    assert list(json_lines(table)) == ['{"a": 1, "m": null}', '{"a": 2, "m": []}', '{"a": 3, "m": [["k", 1]]}']
    assert list(json_lines(table.slice(0, 0))) == []


def test_names_are_escaped_and_ordered() -> None:
    assert list(json_lines(pa.table({'b"': [1], "a": [2]}))) == ['{"b\\"": 1, "a": 2}']


def test_a_type_without_encoding_is_named() -> None:
    with pytest.raises(SchemaError, match="duration"):
        json_values(pa.array([1], pa.duration("s")))


nested = st.recursive(
    st.just(st.integers(-(2**63), 2**63 - 1))
    | st.just(st.text())
    | st.just(st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: inner.map(lambda strategy: st.lists(strategy | st.none(), max_size=3)),
    max_leaves=3,
)


@given(st.data())
def test_json_gives_the_values_back(data: st.DataObject) -> None:
    values = data.draw(st.lists(data.draw(nested) | st.none(), max_size=8))
    array = pa.array(values)
    texts = json_values(array).to_pylist()
    assert repr([json.loads(text) for text in texts]) == repr(array.to_pylist())
