"""Bounds of version 9 tables, whose records name the type of their values."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from table_format.codecs.arrow_numpy import spans_of
from table_format.codecs.avro_columns import decode_columns
from table_format.codecs.avro_schema_tree import parse
from table_format.metadata_table import bounds
from table_format.metadata_table.bounds import ValueTypes
from table_writer.encoding.avro import encode_union
from table_writer.encoding.metadata_records import SCHEMA, WRAPPERS

UNION = parse(SCHEMA).child("ColumnStatsMetadata").optional.child("minValue")
UTC = "UTC"


def typed(wrapper, values, number, kind, parameters=None):
    encoded = encode_union(UNION, WRAPPERS.index(f"{wrapper}Wrapper") + 1, values)
    column = decode_columns(*spans_of(encoded), UNION, [""])[""]
    numbers = pa.array(number if isinstance(number, list) else [number] * len(values), pa.int32())
    texts = pa.array(parameters if isinstance(parameters, list) else [parameters] * len(values), pa.string())
    return bounds.typed_bounds(column, kind, ValueTypes(numbers, texts)).to_pylist()


def ints(*values):
    return pa.array(values, pa.int32())


def longs(*values):
    return pa.array(values, pa.int64())


NOON = dt.datetime(1970, 1, 1, 12, tzinfo=dt.UTC)

KNOWN = [
    ("Boolean", pa.array([True, None]), 2, pa.bool_(), [True, None]),
    ("Int", ints(-5, None), 3, pa.int32(), [-5, None]),
    ("Int", ints(-5), 3, pa.int64(), [-5]),
    ("Long", longs(2**40), 4, pa.int64(), [2**40]),
    ("Long", longs(7), 4, pa.float64(), [7.0]),
    ("Float", pa.array([0.5], pa.float32()), 5, pa.float64(), [0.5]),
    ("Double", pa.array([0.25]), 6, pa.float64(), [0.25]),
    ("String", pa.array(["é"]), 7, pa.string(), ["é"]),
    ("Bytes", pa.array([b"a"]), 8, pa.binary(), [b"a"]),
    ("Int", ints(-1), 12, pa.date32(), [dt.date(1969, 12, 31)]),
    ("Int", ints(43_200_000), 13, pa.time32("ms"), [dt.time(12)]),
    ("Long", longs(43_200_000_000), 14, pa.time64("us"), [dt.time(12)]),
    ("Long", longs(43_200_000), 15, pa.timestamp("ms", UTC), [NOON]),
    ("Long", longs(43_200_000), 15, pa.timestamp("us", UTC), [NOON]),
    ("Long", longs(43_200_000_000), 16, pa.timestamp("us", UTC), [NOON]),
    ("Long", longs(43_200_000), 18, pa.timestamp("us"), [NOON.replace(tzinfo=None)]),
    ("Long", longs(43_200_000_000), 19, pa.timestamp("us"), [NOON.replace(tzinfo=None)]),
    ("Date", ints(-1), 0, pa.date32(), [dt.date(1969, 12, 31)]),
    ("Date", ints(-1), None, pa.date32(), [dt.date(1969, 12, 31)]),
]


@pytest.mark.parametrize(("wrapper", "values", "number", "kind", "expected"), KNOWN)
def test_a_value_is_what_its_record_says(wrapper, values, number, kind, expected):
    assert typed(wrapper, values, number, kind) == expected


UNKNOWN = [
    ("Int", ints(1), 3, pa.date32()),  # a column of ints that became dates
    ("Int", ints(1), 12, pa.int32()),
    ("Long", longs(1), 4, pa.timestamp("us", UTC)),
    ("Long", longs(1), 16, pa.int64()),
    ("Long", longs(1), 16, pa.timestamp("ms", UTC)),  # the fraction would be lost
    ("Long", longs(1), 17, pa.timestamp("us", UTC)),
    ("Long", longs(2**62), 15, pa.timestamp("us", UTC)),  # too large in microseconds
    ("Int", ints(1), 4, pa.int64()),  # wrapper and type contradict each other
    ("Long", longs(1), 12, pa.date32()),
    ("Bytes", pa.array([b"ab"]), 9, pa.binary()),
    ("String", pa.array(["ab"]), 11, pa.string()),
    ("Int", ints(1), 99, pa.int32()),
    ("Int", ints(1), -1, pa.int32()),
    ("Int", ints(1), 1, pa.int32()),
]


@pytest.mark.parametrize(("wrapper", "values", "number", "kind"), UNKNOWN)
def test_what_may_mean_something_else_is_unknown(wrapper, values, number, kind):
    assert typed(wrapper, values, number, kind) == [None]


def unscaled(number):
    return number.to_bytes(max(1, (number.bit_length() + 8) // 8), "big", signed=True)


@pytest.mark.parametrize("text", ["0.00", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "12345678901234567890123456.78"])
def test_decimals_are_unscaled_numbers(text):
    stored = pa.array([unscaled(int(Decimal(text).scaleb(2)))])
    assert typed("Bytes", stored, 10, pa.decimal128(30, 2), "30,2") == [Decimal(text)]
    assert typed("Bytes", stored, 10, pa.decimal128(38, 4), "30,2") == [Decimal(text)]


def test_decimals_of_several_scales():
    stored = pa.array([unscaled(150), unscaled(1500), None, unscaled(15)])
    parameters = ["10,2", "10,3", "10,3", "10,1"]
    assert typed("Bytes", stored, 10, pa.decimal128(12, 3), parameters) == [
        Decimal("1.5"),
        Decimal("1.5"),
        None,
        Decimal("1.5"),
    ]
    # What a scale cannot hold is unknown, and takes no other value with it.
    assert typed("Bytes", pa.array([unscaled(1501), unscaled(15)]), 10, pa.decimal128(12, 2), ["10,3", "10,1"]) == [
        None,
        Decimal("1.5"),
    ]


@pytest.mark.parametrize("parameters", [None, "", "ten,2", "10;2", "10", "1,0"])
def test_decimals_without_sound_parameters_are_unknown(parameters):
    assert typed("Bytes", pa.array([unscaled(1500)]), 10, pa.decimal128(12, 2), parameters) == [None]


def test_bytes_are_no_decimal_and_empty_bytes_no_number():
    assert typed("Bytes", pa.array([b"\x05"]), 8, pa.decimal128(12, 2)) == [None]
    assert typed("Bytes", pa.array([b""]), 10, pa.decimal128(12, 2), "10,2") == [None]


def test_a_promoted_column_has_values_of_both_types():
    encoded = [
        encode_union(UNION, WRAPPERS.index("IntWrapper") + 1, ints(1, 2)),
        encode_union(UNION, WRAPPERS.index("LongWrapper") + 1, longs(2**40, 5)),
    ]
    column = decode_columns(*spans_of(pa.concat_arrays(encoded)), UNION, [""])[""]
    types = ValueTypes(pa.array([3, 12, 4, 16], pa.int32()), pa.nulls(4, pa.string()))
    assert bounds.typed_bounds(column, pa.int64(), types).to_pylist() == [1, None, 2**40, None]


def test_bounds_that_may_hide_nan_are_none():
    lower = pa.array([0.0, 0.0, -0.0, 1.0, float("nan"), 0.0, None])
    upper = pa.array([0.0, 2.0, 0.0, float("nan"), float("nan"), None, 0.0])
    low, high = bounds.without_nan_traps(lower, upper)
    assert low.to_pylist() == [None, 0.0, None, 1.0, None, 0.0, None]
    assert high.to_pylist() == [None, 2.0, None, None, None, None, 0.0]
    zeros = longs(0, 1)
    assert bounds.without_nan_traps(zeros, zeros) == (zeros, zeros)
