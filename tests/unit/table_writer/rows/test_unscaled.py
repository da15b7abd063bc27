"""Decimals that arrive as longs."""

import decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_writer.blocks import restored

LONGS = st.integers(-(10**18) + 1, 10**18 - 1)


@given(st.lists(st.none() | LONGS), st.integers(0, 18), st.integers(0, 5))
def test_the_decimals_of_longs(values: list[int | None], scale: int, skip: int) -> None:
    kind = pa.decimal128(18, scale)
    longs = pa.chunked_array([pa.array(values, pa.int64()).slice(skip), pa.array(values[:skip], pa.int64())])
    table = pa.table({"x": longs, "d": longs})
    decimals = restored(table, pa.schema([("d", kind)]))
    exact = decimal.Context(prec=40)
    wanted = [None if v is None else decimal.Decimal(v).scaleb(-scale, exact) for v in values[skip:] + values[:skip]]
    assert decimals.schema == pa.schema([("x", pa.int64()), ("d", kind)])
    assert decimals["d"].to_pylist() == wanted
    decimals.validate(full=True)
