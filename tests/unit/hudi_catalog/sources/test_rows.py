"""Rows in every supported form become the same batches."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from hudi_catalog import create_table
from hudi_catalog.sources.rows import arrow_rows
from table_format.errors import ArgumentError, OptionError, RecordError, SchemaError
from table_format.schema.evolution import conform, merge_schemas
from table_writer.writer import TableWriter

CLOCK = dt.datetime(2026, 7, 1, 12)  # noqa: DTZ001  # without a zone on purpose
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", None, "ü"],
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2026, 1, 31), None, dt.date(1969, 12, 31)]),
        "at": pa.array([NOON, None, NOON], pa.timestamp("us", "UTC")),
        "tags": pa.array([["x"], [], None], pa.list_(pa.string())),
    }
)


def read(rows, columns=TABLE.schema, **arguments) -> list[dict]:
    return arrow_rows(rows, columns, **arguments).open().read_all().to_pylist()


class Stream:
    """An object of a library that nobody here knows."""

    def __arrow_c_stream__(self, requested_schema=None):
        return TABLE.__arrow_c_stream__(requested_schema)


class Array:
    def __arrow_c_array__(self, requested_schema=None):
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


def parquet_dataset(folder):
    pa.parquet.write_table(TABLE, folder / "rows.parquet")
    return pa.dataset.dataset(folder / "rows.parquet")


FORMS = {
    "table": lambda _: TABLE,
    "batch": lambda _: TABLE.to_batches()[0],
    "reader": lambda _: TABLE.to_reader(),
    "dataset": parquet_dataset,
    "polars": lambda _: pl.from_arrow(TABLE),
    "pandas": lambda _: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    "stream": lambda _: Stream(),
    "array": lambda _: Array(),
    "dicts": lambda _: TABLE.to_pylist(),
    "columns": lambda _: {name: TABLE.column(name) for name in TABLE.column_names},
    "generator of batches": lambda _: (TABLE.slice(start, 1).to_batches()[0] for start in range(3)),
    "generator of frames": lambda _: (pl.from_arrow(TABLE.slice(start, 1)) for start in range(3)),
    "generator of lists": lambda _: ([row] for row in TABLE.to_pylist()),
    "list of tables": lambda _: [TABLE.slice(0, 2), TABLE.slice(2)],
}
ONCE = ("reader", "stream", "generator of batches", "generator of frames", "generator of lists", "list of tables")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_rows(form: str, tmp_path) -> None:
    rows = arrow_rows(FORMS[form](tmp_path), TABLE.schema)
    assert rows.schema.names == TABLE.column_names
    assert rows.repeatable == (form not in ONCE)
    for _ in range(2 if rows.repeatable else 1):
        assert rows.open().read_all().to_pylist() == TABLE.to_pylist()


def test_a_relation_of_duckdb() -> None:
    connection = duckdb.connect()
    connection.register("rows", TABLE)
    assert read(connection.sql("SELECT * FROM rows")) == TABLE.to_pylist()


def test_categories() -> None:
    for kind in (pl.Categorical, pl.Enum(["a", "b"])):
        frame = pl.DataFrame({"id": [1, 2, 3], "kind": pl.Series(["a", None, "b"], dtype=kind)})
        assert read(frame, None) == frame.to_dicts()
    frame = pd.DataFrame({"id": [1, 2], "kind": pd.Categorical(["a", None])})
    assert read(frame, None) == [{"id": 1, "kind": "a"}, {"id": 2, "kind": None}]


def test_pandas_index_and_missing_values() -> None:
    columns = pa.schema([("id", pa.int32()), ("seats", pa.int32()), ("part", pa.float32())])
    frame = pd.DataFrame({"id": [1, 2, 3], "seats": [5, None, 7], "part": [0.5, 0.1, None]})
    narrow = arrow_rows(frame[frame.id > 1].set_index("id"), columns)
    # a missing value made fractions of whole numbers; pandas has 32-bit fractions, so these are meant to be wide
    assert narrow.schema == pa.schema([("id", pa.int32()), ("seats", pa.int32()), ("part", pa.float64())])
    assert narrow.open().read_all().to_pylist() == [
        {"id": 2, "seats": None, "part": 0.1},
        {"id": 3, "seats": 7, "part": None},
    ]
    assert arrow_rows(frame[frame.id > 1], columns).schema.names == ["id", "seats", "part"]
    assert arrow_rows(pd.DataFrame({"seats": [2.5]}), columns).schema == pa.schema([("seats", pa.float64())])


def test_numbers_of_python_take_the_width_of_the_table() -> None:
    inner = pa.struct([("n", pa.int32()), ("many", pa.list_(pa.int32()))])
    columns = pa.schema([("id", pa.int32()), ("part", pa.float32()), ("inner", inner)])
    record = {"id": 1, "part": 0.5, "inner": {"n": 2, "many": [3]}}
    assert arrow_rows([record], columns).schema == columns
    wide = arrow_rows([{**record, "id": 1 << 40, "extra": 1}], columns).schema
    assert wide.field("id").type == wide.field("extra").type == pa.int64()
    assert read([{"id": 1}, {"part": 1.5}], columns) == [{"id": 1, "part": None}, {"id": None, "part": 1.5}]
    assert arrow_rows(pa.table({"id": [1]}), columns).schema.field("id").type == pa.int64()  # said outright


INNER = pa.struct([("x", pa.int32()), ("y", pa.string()), ("f", pa.float32())])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INNER, {"x": 1, "y": None, "f": 0.5}),
        (INNER, {"x": 1}),
        (INNER, {"f": 0.1, "x": None}),
        (INNER, {}),
        (pa.list_(INNER), [{"x": 1, "y": None}]),
        (pa.list_(INNER), []),
        (pa.list_(pa.list_(pa.int32())), [[], None]),
        (pa.map_(pa.string(), INNER), {"k": {"x": 1, "y": None}}),
        (pa.map_(pa.string(), INNER), {}),
        (pa.struct([("s", INNER), ("n", pa.int32())]), {"s": None, "n": 1}),
        (pa.struct([("s", pa.list_(INNER)), ("n", pa.int32())]), {"s": [], "n": 1}),
        (pa.struct([("s", pa.list_(pa.string())), ("n", pa.int32())]), {"s": [None], "n": 1}),
    ],
)
def test_nested_numbers_beside_missing_ones_take_the_width_of_the_table(kind: Any, value: Any) -> None:
    columns = pa.schema([("id", pa.int64()), ("c", kind)])
    for rows in ([{"id": 1, "c": value}], {"id": [1], "c": [value]}, pd.DataFrame({"id": [1], "c": [value]})):
        stream = arrow_rows(rows, columns)
        assert merge_schemas(columns, stream.schema) == columns
        assert conform(stream.open().read_all(), merge_schemas(columns, stream.schema)).num_rows == 1


def test_only_the_numbers_that_do_not_fit_are_wider() -> None:
    kind = pa.struct([("x", pa.int32()), ("n", pa.int32()), ("f", pa.float32())])
    columns = pa.schema([("c", kind)])
    wide = arrow_rows([{"c": {"x": 1 << 40, "n": 2, "f": 0.5}}, {"c": None}], columns)
    assert wide.schema.field("c").type == pa.struct([("x", pa.int64()), ("n", pa.int32()), ("f", pa.float32())])
    assert wide.open().read_all().to_pylist() == [{"c": {"x": 1 << 40, "n": 2, "f": 0.5}}, {"c": None}]


@pytest.mark.parametrize("large", [1e300, {"f": -1e300}, [1e300, None], {"m": {"k": 1e300}}])
def test_a_number_too_large_for_32_bits_does_not_become_infinite(large: Any) -> None:
    number: Any = pa.float32()
    kinds = {float: number, list: pa.list_(number)}
    inner = pa.struct([("f", number), ("m", pa.map_(pa.string(), number))])
    columns = pa.schema([("c", kinds.get(type(large), inner))])
    fits = {float: float("inf"), list: [float("inf")]}.get(type(large), {"f": float("inf"), "m": {"k": 0.1}})
    assert arrow_rows([{"c": fits}], columns).schema == columns
    rows = arrow_rows([{"c": large}, {"c": None}], columns)
    assert "inf" not in str(conform(rows.open().read_all(), merge_schemas(columns, rows.schema)).to_pylist())


def test_timestamps_without_a_zone() -> None:
    naive = pa.table({"at": pa.array([CLOCK, None])})
    with pytest.raises(SchemaError, match=r"'at' holds timestamps without a time zone.*time_zone='UTC'"):
        arrow_rows(naive)
    vienna = arrow_rows(naive, time_zone="Europe/Vienna")
    assert vienna.schema == pa.schema([("at", pa.timestamp("us", "UTC"))])
    assert vienna.open().read_all().to_pylist() == [{"at": dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)}, {"at": None}]
    assert arrow_rows(naive, naive.schema).schema == naive.schema  # the table's column has none either
    with pytest.raises(OptionError, match="'Nowhere'"):
        arrow_rows(naive, time_zone="Nowhere")
    with pytest.raises(OptionError, match="Nowhere"):
        arrow_rows(pa.table({"id": [1]}), time_zone="Nowhere")
    with pytest.raises(SchemaError, match=r"inside: cast it"):
        arrow_rows(pa.table({"a": pa.array([[CLOCK]])}), time_zone="UTC")
    fine = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(SchemaError, match="parts of microseconds"):
        arrow_rows(fine, time_zone="UTC").open().read_all()
    rows = arrow_rows([{"at": CLOCK}], pa.schema([("at", pa.timestamp("us", "UTC"))]), time_zone="UTC")
    assert rows.open().read_all().to_pylist() == [{"at": dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC)}]


def test_chunks_take_the_types_of_the_table() -> None:
    columns = pa.schema([("id", pa.int64()), ("seats", pa.float64())])
    chunks = [
        pd.DataFrame({"id": [1], "seats": [2]}),
        pd.DataFrame({"id": [2], "seats": [None]}),
        pd.DataFrame({"id": [3]}),
    ]
    assert read(iter(chunks), columns) == [
        {"id": 1, "seats": 2.0},
        {"id": 2, "seats": None},
        {"id": 3, "seats": None},
    ]
    assert read(iter([]), columns) == []
    assert read([], columns) == []


def test_chunks_that_differ() -> None:
    with pytest.raises(SchemaError, match="chunk 1 of the rows has a column 'b'"):
        arrow_rows(iter([pa.table({"a": [1]}), pa.table({"a": [1], "b": [1]})])).open().read_all()
    with pytest.raises(SchemaError, match=r"chunk 1 of the rows differs.*'a' is string in the data and int64"):
        arrow_rows(iter([pa.table({"a": [1]}), pa.table({"a": ["x"]})])).open().read_all()
    with pytest.raises(ArgumentError, match="item 1 of the rows is of the type dict"):
        arrow_rows(iter([pa.table({"a": [1]}), {"a": 1}])).open().read_all()


def test_a_generator_is_read_chunk_by_chunk() -> None:
    made = []

    def chunks():
        for number in range(5):
            made.append(number)
            yield pa.record_batch({"id": [number]})

    reader = arrow_rows(chunks()).open()
    assert made == [0]
    reader.read_next_batch()
    reader.read_next_batch()
    assert made == [0, 1]


def test_an_error_of_a_generator_stays_what_it_is() -> None:
    def chunks():
        yield pa.record_batch({"id": [1]})
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        arrow_rows(chunks()).open().read_all()


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        ("rows.parquet", r"pyarrow.dataset.dataset\('rows.parquet'\)"),
        (None, "of the type NoneType, which holds no Arrow data"),
        (7, "a list of dicts"),
        (pl.DataFrame({"a": [1]}).lazy(), r"rows.collect\(\)"),
        (pl.Series("a", [1]), r"rows.to_frame\(\)"),
        (pd.Series([1]), r"rows.to_frame\(\)"),
        ([1, 2], "item 0 of the rows is of the type int"),
        (["id1"], "item 0 of the rows is of the type str"),
    ],
)
def test_what_is_not_arrow_like_is_refused(rows: object, remedy: str) -> None:
    with pytest.raises(ArgumentError, match=remedy):
        arrow_rows(rows)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"a": 1}, {"a": "x"}], "column 'a' of the dicts has no one type"),
        ([{1: 1}], "the key 1"),
        ([], "no rows, and so no columns"),
        (pd.DataFrame({"a": [1, "x"]}), "a column that Arrow cannot hold"),
        ({"a": [1], "b": [1, 2]}, "not columns that Arrow can hold"),
        ({"a": [1 << 70]}, "not columns that Arrow can hold"),
        (pd.DataFrame({"a": [1, 1 << 70]}), "a column that Arrow cannot hold"),
        (pd.DataFrame({"a": ["\ud800"]}), "surrogates not allowed; convert it"),
        (pd.DataFrame({"a": [1]}, index=pd.Index([7], name="a")), r"both named 'a': .* reset_index\(drop=True\)"),
        ([{}], "the dicts of the rows are empty"),
        (iter([[{}, {}]]), "the dicts of the rows are empty"),
    ],
)
def test_columns_that_arrow_cannot_hold(rows: object, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        arrow_rows(rows)


@pytest.mark.parametrize("make", [list, iter])
def test_a_missing_item_is_not_the_end_of_the_rows(tmp_path: Path, make: Callable[[list[Any]], Any]) -> None:
    table = create_table(tmp_path / "t", "id bigint", record_key="id")
    table.upsert([{"id": 1}])
    for rows in ([None, pa.table({"id": [9]})], [None], [pa.table({"id": [9]}), None]):
        with pytest.raises(ArgumentError, match="of the rows is None"):
            table.insert_overwrite_table(make(rows))
    for rows in ([None, {"id": 9}], [{"id": 9}, None]):
        with pytest.raises(ArgumentError, match="of the rows is None"):
            table.insert_overwrite_table(rows)
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    with pytest.raises(ArgumentError, match="item 1 of the rows is of the type int, and those before it are dicts"):
        table.upsert([{"id": 2}, 3])


def test_polars_objects_are_refused_by_name(tmp_path):
    frame = pl.DataFrame({"id": [1], "v": pl.Series([{"x"}], dtype=pl.Object)})
    with pytest.raises(SchemaError, match=r"column 'v' holds Python objects.*give the column a type"):
        create_table(tmp_path / "t", frame, record_key="id")
    table = create_table(tmp_path / "t", "id bigint, v binary", record_key="id")
    for rows in (frame, iter([frame])):
        with pytest.raises(SchemaError, match="column 'v' holds Python objects"):
            table.upsert(rows)
    with pytest.raises(SchemaError, match="column 'v' holds Python objects"):
        TableWriter.open(tmp_path / "t").upsert(frame)


@pytest.mark.parametrize("day", [dt.date(2024, 3, 31), dt.date(2024, 10, 27)])
def test_clock_times_that_clocks_show_never_or_twice(tmp_path: Path, day: dt.date) -> None:
    table = create_table(tmp_path / "t", "id bigint, at timestamp", record_key="id", time_zone="Europe/Berlin")
    table.insert([{"id": 0, "at": dt.datetime.combine(day, dt.time(4))}])
    changed = dt.datetime.combine(day, dt.time(2, 30))
    with pytest.raises(RecordError, match=r"column 'at' has a time that clocks of Europe/Berlin show twice or never"):
        table.insert([{"id": 1, "at": changed}])
