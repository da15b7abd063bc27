"""Blocks of every type, decoded by thriftpy2, against values converted one by one."""

import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.trino.types import BlockKind, TypeMapping, columns_of
from tests.property.profile import examples
from tests.support.trino_served import expected_value
from tests.support.trino_wire import block_values, decoded, encode_block

FLOATS = st.floats(allow_nan=False) | st.sampled_from([math.inf, -math.inf, -0.0])
TEXTS = st.text(max_size=6)
TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))  # noqa: DTZ001  # clock times
STAMPS = TIMES.map(lambda time: time.replace(tzinfo=dt.UTC))
DECIMALS = st.decimals(-999, 999, places=2)
RECORDS = st.fixed_dictionaries({"b": st.none() | TEXTS, "a": st.none() | DECIMALS, "t": st.none() | STAMPS})
RECORD = pa.struct([("b", pa.string()), ("a", pa.decimal128(5, 2)), ("t", pa.timestamp("us", "UTC"))])
MAPS = st.dictionaries(TEXTS, st.none() | st.integers(-9, 9), max_size=3).map(lambda entries: list(entries.items()))

CASES: list[tuple[pa.DataType, st.SearchStrategy[Any], dict[str, str]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1), {}),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1), {}),
    (pa.int8(), st.integers(-128, 127), {}),
    (pa.float64(), FLOATS, {}),
    (pa.float32(), st.floats(width=32, allow_nan=False), {}),
    (pa.bool_(), st.booleans(), {}),
    (pa.date32(), st.dates(), {}),
    (pa.string(), TEXTS, {}),
    (pa.large_string(), TEXTS, {}),
    (pa.string_view(), TEXTS | st.text("long" * 5, min_size=15), {}),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS, {}),
    (pa.timestamp("us"), TIMES, {"timestamp": "truncate"}),
    (pa.timestamp("us", "UTC"), STAMPS, {"timestamp": "truncate"}),
    (pa.timestamp("us", "UTC"), STAMPS, {"timestamp": "bigint"}),
    (pa.timestamp("us"), TIMES, {"timestamp": "bigint"}),
    (pa.time64("us"), st.times(), {}),
    (pa.decimal128(5, 2), DECIMALS, {}),
    (pa.decimal128(5, 2), DECIMALS, {"decimal": "double"}),
    (pa.decimal128(5, 2), DECIMALS, {"decimal": "bigint"}),
    (pa.decimal128(38, 12), st.decimals(-(10**20), 10**20, places=12), {}),
    (pa.decimal128(38, 12), st.decimals(-(10**20), 10**20, places=12), {"decimal": "double"}),
    (pa.binary(), st.binary(max_size=7), {}),
    (pa.binary(), st.binary(max_size=7), {"binary": "base64"}),
    (pa.binary(3), st.binary(min_size=3, max_size=3), {"binary": "base64"}),
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-9, 9), max_size=3), {}),
    (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=3), {}),
    (pa.list_(pa.float64()), st.lists(st.none() | FLOATS, max_size=3), {}),
    (pa.list_(RECORD), st.lists(st.none() | RECORDS, max_size=3), {}),
    (pa.map_(pa.string(), pa.int32()), MAPS, {}),
    (RECORD, RECORDS, {}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]}")
@examples(40)
@given(data=st.data())
def test_values_arrive(case: tuple[pa.DataType, st.SearchStrategy[Any], dict[str, str]], data: st.DataObject) -> None:
    kind, values, mapping = case
    rows = data.draw(st.lists((st.none() | values) if data.draw(st.booleans()) else values, max_size=12))
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    array: Any = (
        pa.array(rows, kind.value_type).cast(kind) if isinstance(kind, pa.DictionaryType) else pa.array(rows, kind)
    )
    if isinstance(kind, pa.StructType | pa.ListType) and len(rows):
        # The bytes at a null may be anything.
        hidden = pa.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
        array = pa.compute.if_else(hidden, pa.scalar(None, kind), array)
        rows = array.to_pylist()
    (column,) = columns_of(pa.schema([("c", kind)]), TypeMapping(**mapping))
    block = decoded(encode_block(array.slice(start, count), column), "TrinoThriftBlock")
    arrived = block_values(block)
    expected = [expected_value(value, column) for value in rows[start : start + count]]
    if column.block is BlockKind.JSON:  # a number may be written in several ways
        arrived, expected = ([text and json.loads(text) for text in texts] for texts in (arrived, expected))
    assert arrived == expected
