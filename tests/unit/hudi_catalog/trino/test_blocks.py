"""Every type of a table as Trino's Thrift connector reads it."""

import base64
import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.trino.types import TypeMapping, columns_of
from table_format.codecs.arrow_numpy import nulls
from table_format.errors import ServiceError
from tests.support.trino_wire import block_field, block_values, decoded, encode_block

D = decimal.Decimal


def served(array: Any, **mapping: str) -> tuple[str, str, list[Any]]:
    """Trino type, name of the block, and values of a column."""
    (column,) = columns_of(pa.schema([pa.field("c", array.type)]), TypeMapping(**mapping))
    block = decoded(encode_block(array, column), "TrinoThriftBlock")
    return column.trino_type, block_field(block), block_values(block)


INTS = [0, None, -1, 2**31 - 1, -(2**31)]
LONGS = [2**63 - 1, None, -(2**63), 1]
TEXTS = ["", "a", None, "žluť €", "a\0b", "x" * 1000]


@pytest.mark.parametrize(
    ("array", "trino_type", "field", "values"),
    [
        (pa.array(INTS, pa.int32()), "integer", "integerData", INTS),
        (pa.array([1, None, -128], pa.int8()), "integer", "integerData", [1, None, -128]),
        (pa.array(LONGS, pa.int64()), "bigint", "bigintData", LONGS),
        (pa.array([1.5, None, -0.0, math.inf], pa.float64()), "double", "doubleData", [1.5, None, -0.0, math.inf]),
        (pa.array([0.5, None, -math.inf], pa.float32()), "double", "doubleData", [0.5, None, -math.inf]),
        (pa.array([True, None, False] * 5), "boolean", "booleanData", [True, None, False] * 5),
        (pa.array([dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]), "date", "dateData", [19782, None, -719162]),
        (pa.array([[1, None, 3], None, []], pa.list_(pa.int64())), "array(bigint)", "bigintArrayData",
         [[1, None, 3], None, []]),
        (pa.array([[1, 2], [3]], pa.large_list(pa.int32())), "array(bigint)", "bigintArrayData", [[1, 2], [3]]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), "array(bigint)", "bigintArrayData", [[1, 2], None]),
        (pa.nulls(3), "varchar", "varcharData", [None] * 3),
        (pa.nulls(3, pa.int64()), "bigint", "bigintData", [None] * 3),
    ],
)  # fmt: skip
def test_exact_types(array: Any, trino_type: str, field: str, values: list[Any]) -> None:
    assert served(array) == (trino_type, field, values)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_texts_of_every_layout(kind: pa.DataType) -> None:
    array: Any = pa.array(TEXTS, pa.string()).cast(kind)
    expected = [None if text is None else text.encode() for text in TEXTS]
    assert served(array) == ("varchar", "varcharData", expected)
    assert served(array.slice(2, 3))[2] == expected[2:5]


def test_nan_stays_nan() -> None:
    (value,) = served(pa.array([math.nan], pa.float32()))[2]
    assert math.isnan(value)


def test_bytes_behind_nulls_are_not_sent() -> None:
    """Trino takes the size of a null for 0, so that its bytes would become those of the next value."""
    buffers: Any = [pa.py_buffer(b"\x05"), pa.array([0, 1, 3, 4], pa.int32()).buffers()[1], pa.py_buffer(b"aXXb")]
    array: Any = pa.Array.from_buffers(pa.string(), 3, buffers)
    assert array.to_pylist() == ["a", None, "b"]
    assert served(array)[2] == [b"a", None, b"b"]


def test_items_behind_null_lists_are_not_sent() -> None:
    items: Any = pa.array([1, 8, 9, 2], pa.int64())
    array = pa.ListArray.from_arrays(pa.array([0, 1, 3, 4], pa.int32()), items, mask=pa.array([False, True, False]))
    assert served(array)[2] == [[1], None, [2]]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times(zone: str | None) -> None:
    micros = [0, -1000, None, 1_700_000_000_123_000]
    array: Any = pa.array(micros, pa.timestamp("us", zone))
    assert served(array) == ("timestamp(3)", "timestampData", [0, -1, None, 1_700_000_000_123])
    assert served(array, timestamp="bigint") == ("bigint", "bigintData", micros)
    end = b" UTC" if zone else b""
    texts = [b"1970-01-01 00:00:00.000000", b"1969-12-31 23:59:59.999000", None, b"2023-11-14 22:13:20.123000"]
    expected = [None if text is None else text + end for text in texts]
    assert served(array, timestamp="varchar") == ("varchar", "varcharData", expected)
    assert served(array.cast(pa.timestamp("ms", zone)))[2] == [0, -1, None, 1_700_000_000_123]


def test_times_between_milliseconds() -> None:
    array: Any = pa.array([1, -1, 999, None], pa.timestamp("us"))
    with pytest.raises(ServiceError, match=r"column 'c' .*type\.timestamp"):
        served(array)
    assert served(array, timestamp="truncate")[2] == [0, -1, 0, None]
    assert served(array, timestamp="bigint")[2] == [1, -1, 999, None]
    nanos: Any = pa.array([1_500], pa.timestamp("ns"))
    with pytest.raises(ServiceError, match=r"type\.timestamp"):
        served(nanos, timestamp="bigint")
    assert served(nanos, timestamp="varchar")[2] == [b"1970-01-01 00:00:00.000001500"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_time_that_has_no_text_is_refused(inside: bool) -> None:
    """Arrow would write "<value out of range ...>" in its place, which no reader could tell from a value."""
    times: Any = pa.array([0, 2**62, None], pa.int64()).cast(pa.timestamp("us"))
    array: Any = pa.StructArray.from_arrays([times], ["t"]) if inside else times
    with pytest.raises(ServiceError, match=r"column 'c': .* beyond the years"):
        served(array, timestamp="varchar")
    assert served(times, timestamp="bigint")[2] == [0, 2**62, None]


def test_a_time_behind_a_null_is_no_error() -> None:
    data: Any = pa.array([1], pa.int64()).buffers()[1]
    array: Any = pa.Array.from_buffers(pa.timestamp("us"), 1, [pa.py_buffer(b"\0"), data])
    assert served(array)[2] == [None]


def test_times_beyond_64_bits() -> None:
    with pytest.raises(ServiceError, match="column 'c'"):
        served(pa.array([2**62], pa.timestamp("s")), timestamp="bigint")


def test_times_of_day() -> None:
    array: Any = pa.array([dt.time(1, 2, 3, 4), None])
    assert served(array) == ("varchar", "varcharData", [b"01:02:03.000004", None])
    assert served(array, time="bigint") == ("bigint", "bigintData", [3_723_000_004, None])
    assert served(array.slice(0, 1).cast(pa.time32("ms"), safe=False), time="bigint")[2] == [3_723_000_000]


DECIMALS = ["0.07", "-123456.78", None, "0.00", "9999999.99"]


def test_decimals() -> None:
    array: Any = pa.array([None if text is None else D(text) for text in DECIMALS], pa.decimal128(9, 2))
    doubles = ("double", "doubleData", [text and float(text) for text in DECIMALS])
    texts = ("varchar", "varcharData", [text and text.encode() for text in DECIMALS])
    assert served(array) == doubles
    assert served(array, decimal="double") == doubles
    assert served(array, decimal="varchar") == texts
    assert served(array.cast(pa.decimal128(15, 2))) == doubles
    assert served(array.cast(pa.decimal128(16, 2))) == texts
    units = [7, -12345678, None, 0, 999999999]
    assert served(array, decimal="bigint") == ("bigint", "bigintData", units)
    assert served(array.slice(1, 2), decimal="bigint")[2] == units[1:3]


def test_wide_decimals() -> None:
    texts = ["0.00000000000000000001", "123456789012345678.12345678901234567890"]
    array: Any = pa.array([D(text) for text in texts], pa.decimal128(38, 20))
    expected = ("varchar", "varcharData", [text.encode() for text in texts])
    assert served(array) == expected
    assert served(array, decimal="bigint") == expected
    assert served(array, decimal="double")[2] == [float(text) for text in texts]
    wide: Any = pa.array([D(10) ** 60], pa.decimal256(70, 2))
    assert served(wide)[2] == [b"1" + b"0" * 60 + b".00"]


BYTES = [b"", b"\0", None, b"\xff\xfe", b"abc", b"abcd", bytes(range(256))]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_binary(kind: pa.DataType) -> None:
    array: Any = pa.array(BYTES, kind)
    hexed = [None if value is None else value.hex().upper().encode() for value in BYTES]
    assert served(array) == ("varchar", "varcharData", hexed)
    coded = [None if value is None else base64.b64encode(value) for value in BYTES]
    assert served(array, binary="base64")[2] == coded
    assert served(array.slice(2, 3), binary="base64")[2] == coded[2:5]
    assert served(array.slice(7), binary="base64")[2] == []


def test_fixed_binary() -> None:
    array: Any = pa.array([b"abcd", None, b"\0\0\0\1"], pa.binary(4))
    assert served(array)[2] == [b"61626364", None, b"00000001"]


def test_json() -> None:
    kind = pa.struct(
        [
            ("z", pa.int32()),
            ("a", pa.decimal128(5, 2)),
            ("m", pa.map_(pa.string(), pa.list_(pa.float64()))),
            ("n", pa.map_(pa.int32(), pa.binary())),
            ("s", pa.struct([("t", pa.timestamp("us", "UTC"))])),
        ]
    )
    time = dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    row = {
        "z": 1,
        "a": D("1.50"),
        "m": {'k"é\n': [0.1, None, math.nan], "b": []},
        "n": {2: b"ab", 1: None},
        "s": {"t": time},
    }
    trino_type, field, values = served(pa.array([row, None, {"z": None}], kind))
    assert (trino_type, field, values[1]) == ("json", "jsonData", None)
    assert json.loads(values[0]) == {
        "a": "1.50",
        "m": {"b": [], 'k"é\n': [0.1, None, "NaN"]},
        "n": [[1, None], [2, "YWI="]],
        "s": {"t": "2024-01-02T03:04:05.000006Z"},
        "z": 1,
    }
    assert values[0].startswith(b'{"a":"1.50","m":{"b":[],"k')
    assert json.loads(values[2]) == {"a": None, "m": None, "n": None, "s": None, "z": None}


def test_json_lists() -> None:
    assert served(pa.array([["a", None], None, []], pa.list_(pa.string()))) == (
        "json", "jsonData", [b'["a",null]', None, b"[]"],
    )  # fmt: skip
    assert served(pa.array([[0.5]], pa.list_(pa.float32(), 1)))[2] == [b"[0.5]"]


def test_a_column_without_a_form_is_declared_and_refused() -> None:
    array: Any = pa.array([1], pa.uint64())
    (column,) = columns_of(pa.schema([("odd", array.type)]), TypeMapping())
    assert column.trino_type == "varchar"
    with pytest.raises(ServiceError, match=r"column 'odd' cannot be read: .*uint64"):
        encode_block(array, column)


@pytest.mark.parametrize(
    ("kind", "option"),
    [(pa.decimal128(5, 2), "decimal"), (pa.timestamp("us"), "timestamp"), (pa.time64("us"), "time"),
     (pa.binary(), "binary"), (pa.list_(pa.string()), "nested")],
)  # fmt: skip
def test_what_is_switched_off_is_refused(kind: pa.DataType, option: str) -> None:
    (column,) = columns_of(pa.schema([("c", kind)]), TypeMapping(**{option: "error"}))
    assert column.trino_type == "varchar"
    with pytest.raises(ServiceError, match=rf"column 'c' .*hoodie\.catalog\.trino\.type\.{option}"):
        encode_block(nulls(1, kind), column)


def test_empty() -> None:
    for kind in (pa.int32(), pa.string(), pa.list_(pa.int64()), pa.bool_(), pa.decimal128(4, 1), pa.list_(pa.string())):
        assert served(pa.array([], kind))[2] == []
