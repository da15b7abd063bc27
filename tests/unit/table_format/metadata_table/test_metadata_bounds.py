import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from table_format.codecs.arrow_numpy import spans_of
from table_format.codecs.avro_columns import UnionColumn, decode_columns
from table_format.codecs.avro_schema_tree import parse
from table_format.metadata_table import bounds
from table_writer.encoding.avro import encode_union
from table_writer.encoding.metadata_records import SCHEMA, WRAPPERS

UNION = parse(SCHEMA).child("ColumnStatsMetadata").optional.child("minValue")


def wrapped(wrapper, values):
    encoded = encode_union(UNION, WRAPPERS.index(wrapper) + 1, values)
    column = decode_columns(*spans_of(encoded), UNION, [""])[""]
    assert isinstance(column, UnionColumn)
    return column


def typed(wrapper, values, kind):
    return bounds.typed_bounds(wrapped(wrapper, values), kind).to_pylist()


SOUND = [
    ("BooleanWrapper", pa.array([True, None, False]), pa.bool_(), [True, None, False]),
    ("IntWrapper", pa.array([1, None, -5], pa.int32()), pa.int32(), [1, None, -5]),
    ("IntWrapper", pa.array([1, None], pa.int32()), pa.int64(), [1, None]),
    ("IntWrapper", pa.array([16777217], pa.int32()), pa.float32(), [16777216.0]),
    ("LongWrapper", pa.array([2**53 + 1, None]), pa.float64(), [float(2**53), None]),
    ("FloatWrapper", pa.array([0.1], pa.float32()), pa.float64(), [float(np.float32(0.1))]),
    ("StringWrapper", pa.array(["é", None]), pa.string(), ["é", None]),
    ("StringWrapper", pa.array(["é"]), pa.binary(), ["é".encode()]),
    ("BytesWrapper", pa.array([b"ab"]), pa.string(), ["ab"]),
    ("DateWrapper", pa.array([-1, None], pa.int32()), pa.date32(), [dt.date(1969, 12, 31), None]),
    ("TimestampMicrosWrapper", pa.array([7]), pa.timestamp("us", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 0, 7, dt.UTC)]),
    ("LongWrapper", pa.array([7]), pa.timestamp("ms", "UTC"), [dt.datetime(1970, 1, 1, 0, 0, 0, 7000, dt.UTC)]),
    (
        "DecimalWrapper",
        pa.array([Decimal("1.5"), None], pa.decimal128(30, 15)),
        pa.decimal128(10, 2),
        [Decimal("1.50"), None],
    ),
]


@pytest.mark.parametrize(("wrapper", "values", "kind", "expected"), SOUND)
def test_wrappers_that_mean_the_same_in_the_type(wrapper, values, kind, expected):
    assert typed(wrapper, values, kind) == expected


def test_longs_are_micros_in_a_zoned_timestamp():
    [value] = typed("LongWrapper", pa.array([7]), pa.timestamp("us", "UTC"))
    assert value == dt.datetime(1970, 1, 1, 0, 0, 0, 7, dt.UTC)


@pytest.mark.parametrize(
    ("wrapper", "values", "kind"),
    [
        ("IntWrapper", pa.array([1], pa.int32()), pa.string()),
        ("LongWrapper", pa.array([2**40]), pa.int32()),
        ("DoubleWrapper", pa.array([1.5]), pa.float32()),
        ("DoubleWrapper", pa.array([1.5]), pa.int64()),
        ("StringWrapper", pa.array(["1"]), pa.int64()),
        ("BytesWrapper", pa.array([b"\xff"]), pa.string()),
        ("IntWrapper", pa.array([1], pa.int32()), pa.date32()),
        ("LongWrapper", pa.array([1]), pa.timestamp("ns")),
        ("DateWrapper", pa.array([1], pa.int32()), pa.timestamp("us")),
        ("DecimalWrapper", pa.array([Decimal("1.005")], pa.decimal128(30, 15)), pa.decimal128(10, 2)),
        ("DecimalWrapper", pa.array([Decimal("1.5")], pa.decimal128(30, 15)), pa.decimal128(38, 18)),
        ("BooleanWrapper", pa.array([True]), pa.int32()),
        ("IntWrapper", pa.array([1], pa.int32()), pa.list_(pa.int32())),
    ],
)
def test_what_may_mean_something_else_is_unknown(wrapper, values, kind):
    assert typed(wrapper, values, kind) == [None]


def test_a_column_whose_type_was_promoted_has_bounds_of_both_types():
    old = encode_union(UNION, WRAPPERS.index("IntWrapper") + 1, pa.array([1, None], pa.int32()))
    new = encode_union(UNION, WRAPPERS.index("LongWrapper") + 1, pa.array([2**40]))
    column = decode_columns(*spans_of(pa.concat_arrays([old, new])), UNION, [""])[""]
    assert bounds.typed_bounds(column, pa.int64()).to_pylist() == [1, None, 2**40]


# "ｱ" (U+FF71) sorts after "😀" in UTF-16, and before it in UTF-8.
@pytest.mark.parametrize(
    ("stored", "lower", "upper"),
    [
        ("abc", "abc", "abc"),
        ("日本", "日本", "日本"),
        ("ab😀", "ab", None),
        ("ｱz", "", None),
        (None, None, None),
    ],
)
def test_text_bounds_hold_in_both_orders(stored, lower, upper):
    column = pa.array(["x", stored], pa.string())
    assert bounds.sound_lower(column).to_pylist() == ["x", lower]
    assert bounds.sound_upper(column).to_pylist() == ["x", upper]


def test_binary_bounds_hold_in_both_orders():
    column = pa.array([b"ab", b"a\x80b", b"\xff", None])
    assert bounds.sound_lower(column).to_pylist() == [b"ab", b"a", b"", None]
    assert bounds.sound_upper(column).to_pylist() == [None] * 4


def test_bounds_of_other_types_stay_as_they_are():
    column = pa.array([1.5, None])
    assert bounds.sound_lower(column) is column
    assert bounds.sound_upper(column) is column


@pytest.mark.parametrize(
    ("nulls", "rows", "size", "kind", "expected"),
    [
        (5, 5, 40, pa.string(), 5),
        (5, 5, 5000, pa.string(), None),  # Hudi counts values without Parquet statistics as nulls
        (5, 5, 0, pa.binary(), None),
        (5, 5, None, pa.string(), None),
        (5, 5, 5000, pa.int64(), 5),
        (4, 5, 5000, pa.string(), 4),
        (-1, -1, -1, pa.int64(), None),
        (None, 5, 40, pa.int64(), None),
    ],
)
def test_null_counts_that_only_look_like_all_null(nulls, rows, size, kind, expected):
    columns = [pa.array([value], pa.int64()) for value in (nulls, rows, size)]
    assert bounds.trusted_null_counts(*columns, kind).to_pylist() == [expected]
