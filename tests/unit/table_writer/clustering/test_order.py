"""The order of rows: values of any type by rank, codes that rise with rows."""

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import SchemaError
from table_writer.clustering.order import Layout, RowOrder, Scale
from table_writer.rows.ordering import ordering_columns

RANDOM = np.random.default_rng(5)
NAN, INF = float("nan"), float("inf")
VALUES: dict[str, Any] = {
    "int": pa.array([3, None, -7, 3, 2**62, -(2**63), 0, 1]),
    "unsigned": pa.array([3, None, 2**64 - 1, 0], pa.uint64()),
    "double": pa.array([1.5, NAN, None, -0.0, 0.0, -INF, INF, 1.5]),
    "float": pa.array([1.5, NAN, None, -3.0], pa.float32()),
    "text": pa.array(["b", None, "", "ä", "a", "b", "\U0001f600", "aa"]),
    "coded": pa.array(["b", None, "a", "b"]).dictionary_encode(),
    "binary": pa.array([b"\xff", None, b"", b"\x00", b"a"]),
    "fixed": pa.array([b"ab", None, b"\xff\x00"], pa.binary(2)),
    "decimal": pa.array([decimal.Decimal("1.20"), None, decimal.Decimal("-99.99")], pa.decimal128(4, 2)),
    "date": pa.array([dt.date(2026, 1, 1), None, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "time": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
    "bool": pa.array([True, None, False, True]),
    "nulls": pa.array([None, None], pa.int64()),
    "none": pa.array([], pa.string()),
}


def ranks(values: Any) -> list[int]:
    """Rank of each value; nulls first."""
    comparable = ordering_columns(pa.table({"v": values}), ["v"])[0]
    distinct = pc.unique(comparable.drop_null())
    ordered = distinct.take(pc.sort_indices(distinct))
    return pc.fill_null(pc.index_in(comparable, value_set=ordered), -1).to_pylist()


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("layout", list(Layout))
def test_codes_rise_with_values_of_any_type(kind: str, layout: Layout) -> None:
    table = pa.table({"v": VALUES[kind]})
    order = RowOrder.of(["v"], layout, table)
    codes = order.codes(table)
    places = order.positions(table, codes)
    wanted = np.array(ranks(VALUES[kind]), np.int64)
    assert (np.diff(wanted[places]) >= 0).all()
    assert (np.diff(codes[places].astype(object)) >= 0).all()
    # what is in the sample is exact
    assert len(np.unique(codes)) == len(np.unique(wanted))


@pytest.mark.parametrize("kind", ["int", "text", "decimal"])
def test_values_between_those_of_the_sample(kind: str) -> None:
    numbers = pa.array(RANDOM.integers(-999, 999, 3000))
    kinds = {"int": pa.int64(), "text": pa.string(), "decimal": pa.decimal128(22, 0)}
    column = pc.cast(numbers, kinds[kind])
    comparable = one_chunk(pa.chunked_array([column]))
    cells = Scale.of(comparable.slice(0, 40)).cells(comparable)
    order = pc.sort_indices(comparable).to_numpy()
    assert (np.diff(cells[order]) >= 0).all()
    coordinates = Scale.of(comparable.slice(0, 2000)).coordinates(comparable, 4)
    assert coordinates.max() == 15
    assert np.bincount(coordinates).min() > 60, "each of 16 cells has about as many of 3000 rows"


def test_one_column_after_the_other() -> None:
    rows = pa.table({name: pa.array(RANDOM.integers(0, 6, 5000)) for name in "abcd"})
    rows = rows.append_column("_hoodie_record_key", pa.array([str(n) for n in range(5000)]))
    order = RowOrder.of(["b", "a", "d"], Layout.LINEAR, rows.slice(0, 100))
    codes = order.codes(rows)
    places = order.positions(rows, codes)
    wanted = rows.select(["b", "a", "d"]).take(places).to_pylist()
    assert wanted == sorted(wanted, key=lambda row: tuple(row.values()))
    assert (np.diff(codes[places].astype(object)) >= 0).all()


@pytest.mark.parametrize("layout", [Layout.Z_ORDER, Layout.HILBERT])
def test_a_curve_narrows_the_range_of_each_column(layout: Layout) -> None:
    rows = pa.table(
        {
            "skewed": pa.array(np.exp(RANDOM.normal(size=20_000) * 4)),
            "text": pa.array([f"{n:05d}" for n in RANDOM.integers(0, 90_000, 20_000)]),
            "few": pa.array(RANDOM.integers(0, 50, 20_000)),
        }
    )
    order = RowOrder.of(rows.column_names, layout, rows.slice(0, 4000))
    places = order.positions(rows, order.codes(rows))
    for name in rows.column_names:
        column = np.array(ranks(rows[name].combine_chunks()))[places]
        parts = np.array_split(column, 64)
        width = np.mean([(part.max() - part.min()) / column.max() for part in parts])
        assert width < 0.55, name


def test_columns_without_an_order_are_refused() -> None:
    table = pa.table({"v": pa.array([[1]])})
    with pytest.raises(SchemaError, match="no order"):
        RowOrder.of(["v"], Layout.LINEAR, table)
