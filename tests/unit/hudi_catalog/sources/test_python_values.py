"""Python's values become Arrow arrays as the table's type has them."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog import create_table, open_table
from hudi_catalog.sources.python_values import array_of, needs_type
from hudi_catalog.sources.rows import arrow_rows
from table_format.errors import SchemaError
from table_format.schema.evolution import conform

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=3),
    pa.int64(): st.integers(-5, 5),
    pa.decimal128(9, 2): st.integers(-9, 9) | st.decimals(-99, 99, places=2),
    pa.date32(): st.dates(dt.date(2000, 1, 1), dt.date(2001, 1, 1)),
}


def kinds() -> st.SearchStrategy[Any]:
    leaves = st.sampled_from(list(LEAVES))
    return st.recursive(
        leaves,
        lambda inner: (
            inner.map(lambda kind: pa.map_(pa.string(), kind))
            | inner.map(pa.list_)
            | st.lists(inner, min_size=1, max_size=2).map(
                lambda members: pa.struct([(f"m{number}", one) for number, one in enumerate(members)])
            )
        ),
        max_leaves=4,
    )


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values in the forms that users write them in."""
    if kind in LEAVES:
        return st.none() | LEAVES[kind]
    if pa.types.is_map(kind):
        entries = st.dictionaries(LEAVES[pa.string()], values_of(kind.item_type), max_size=3)
        return st.none() | entries | entries.map(lambda one: list(one.items()))
    if pa.types.is_list(kind):
        return st.none() | st.lists(values_of(kind.value_type), max_size=3)
    members = {kind.field(at).name: values_of(kind.field(at).type) for at in range(kind.num_fields)}
    return st.none() | st.fixed_dictionaries({}, optional=members)


def plain(value: Any, kind: Any) -> Any:
    """A value as Arrow gives it back."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(key, plain(item, kind.item_type)) for key, item in pairs]
    if pa.types.is_list(kind):
        return [plain(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return {field.name: plain(value.get(field.name), field.type) for field in fields}
    return Decimal(value) if pa.types.is_decimal(kind) else value


@given(st.data())
def test_any_depth_of_maps_lists_structs_and_decimals(data: st.DataObject) -> None:
    kind = data.draw(kinds())
    values = data.draw(st.lists(values_of(kind), max_size=5))
    array = array_of(values, kind)
    array.validate(full=True)
    stored = conform(pa.table({"c": array}), pa.schema([("c", kind)]))["c"]
    assert stored.to_pylist() == [plain(value, kind) for value in values]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], pa.map_(pa.string(), pa.int64())),
        (["ab"], pa.map_(pa.string(), pa.int64())),
        ([1.5], pa.decimal128(9, 2)),
        ([True], pa.decimal128(9, 2)),
        ([Decimal("1.234")], pa.decimal128(9, 2)),
        ([12345678], pa.decimal128(9, 2)),
        (["1.5"], pa.decimal128(9, 2)),
        ([{"a": 1}], pa.list_(pa.decimal128(9, 2))),
    ],
)
def test_other_values_are_what_arrow_finds(values: list[Any], kind: Any) -> None:
    assert array_of(values, kind).equals(pa.array(values))


def test_only_maps_and_decimals_need_the_tables_type() -> None:
    assert needs_type(pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.string()))])))
    assert not needs_type(pa.list_(pa.struct([("a", pa.string())])))
    assert array_of([1, None]).type == pa.int64()


COLUMNS = "id bigint, counts map<string,int>, price decimal(9,2), nested struct<prices:map<string,decimal(5,1)>>"
ROWS = [
    {"id": 1, "counts": {"a": 1, "b": None}, "price": 7, "nested": {"prices": {"x": Decimal("2.5"), "y": 3}}},
    {"id": 2, "counts": None, "price": Decimal("1.50"), "nested": None},
    {"id": 3, "counts": [("c", 3)], "price": None, "nested": {"prices": None}},
]


FORMS: list[Any] = [
    list,
    pd.DataFrame,
    lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    lambda rows: iter([rows[:1], pd.DataFrame(rows[1:])]),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_table_takes_them_and_keeps_its_types(tmp_path: Path, form: Any) -> None:
    table = create_table(tmp_path / "t", COLUMNS, record_key="id", buckets=1)
    before = open_table(tmp_path / "t").schema
    table.upsert(form(ROWS))
    assert open_table(tmp_path / "t").schema == before
    found = open_table(tmp_path / "t").scan(columns=["id", "counts", "price", "nested"]).to_arrow().to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [
        {
            "id": 1,
            "counts": [("a", 1), ("b", None)],
            "price": Decimal("7.00"),
            "nested": {"prices": [("x", Decimal("2.5")), ("y", Decimal("3.0"))]},
        },
        {"id": 2, "counts": None, "price": Decimal("1.50"), "nested": None},
        {"id": 3, "counts": [("c", 3)], "price": None, "nested": {"prices": None}},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": "x"}, "column 'counts.value' is int32 in the table and string in the batch"),
        ({None: 1}, "a key of a map is None"),
        ({"a": 1, 2: 3}, "column 'counts' of the dicts has no one type"),
        (5, "column 'counts' is map<string, int32> in the table and int64 in the batch"),
    ],
)
def test_what_is_no_such_map_is_refused(tmp_path: Path, value: Any, reason: str) -> None:
    table = create_table(tmp_path / "t", COLUMNS, record_key="id", buckets=1)
    with pytest.raises(SchemaError, match=reason):
        table.upsert([{"id": 1, "counts": value}])
    with pytest.raises(SchemaError, match=r"column 't' .* has no time zone inside"):
        create_table(tmp_path / "u", "id bigint, t map<string,timestamp>", record_key="id").upsert(
            [{"id": 1, "t": {"a": dt.datetime(2026, 1, 1)}}]  # noqa: DTZ001  # without a zone on purpose
        )


def test_a_frame_whose_names_repeat_is_refused(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", COLUMNS, record_key="id", buckets=1)
    frame = pd.DataFrame([[1, {"a": 1}, {"b": 2}]], columns=["id", "counts", "counts"])
    with pytest.raises(SchemaError, match="Duplicate column names found"):
        table.upsert(frame)


def test_columns_of_a_frame_keep_their_order(tmp_path: Path) -> None:
    rows = arrow_rows(pd.DataFrame(ROWS)[["counts", "id", "price"]], open_schema(tmp_path))
    assert rows.schema.names == ["counts", "id", "price"]


def open_schema(folder: Path) -> pa.Schema:
    create_table(folder / "t", COLUMNS, record_key="id", buckets=1)
    return open_table(folder / "t").schema


def test_arrays_of_numpy_are_lists() -> None:
    kind = pa.list_(pa.decimal128(5, 1))
    assert array_of([np.array([Decimal("1.5"), None])], kind).to_pylist() == [[Decimal("1.5"), None]]


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
FORMS_OF_A_COLUMN: list[Any] = [
    lambda values: [{"id": at, "x": value} for at, value in enumerate(values)],
    lambda values: {"id": list(range(len(values))), "x": values},
    lambda values: {"id": list(range(len(values))), "x": pd.Series(values, dtype=object)},
    lambda values: pd.DataFrame({"id": range(len(values)), "x": pd.Series(values, dtype=object)}),
]


@pytest.mark.parametrize("form", FORMS_OF_A_COLUMN)
@pytest.mark.parametrize("nested", [lambda value: value, lambda value: [value], lambda value: {"a": value}])
@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (NOON.date(), NOON, "has a time of day, and the first value is a date"),
        (NOON.date(), NOON.replace(tzinfo=None), "has a time of day, and the first value is a date"),
        (NOON, NOON.replace(tzinfo=None), "has no time zone, and the first value has one"),
        (NOON, pd.Timestamp("2026-01-01 00:00:00.123456789", tz="UTC"), "has parts of microseconds"),
    ],
)
def test_times_that_arrow_would_change_are_refused(
    tmp_path: Path, form: Any, nested: Any, first: Any, second: Any, reason: str
) -> None:
    rows = form([None, nested(first), nested(second)])
    with pytest.raises(SchemaError, match=reason):
        create_table(tmp_path / "t", rows, record_key="id")
    kind: Any = pa.date32() if type(first) is dt.date else pa.timestamp("us", "UTC")
    shape: Any = {list: pa.list_, dict: lambda one: pa.struct([("a", one)])}.get(type(nested(first)), lambda one: one)
    columns = pa.schema([("id", pa.int64()), ("x", shape(kind))])
    table = create_table(tmp_path / "t", columns, record_key="id", time_zone="Europe/Vienna")
    with pytest.raises(SchemaError, match=reason):
        table.upsert(rows)


@pytest.mark.parametrize("form", FORMS_OF_A_COLUMN)
def test_times_that_arrow_does_not_change_are_taken(form: Any) -> None:
    midnight = NOON.replace(hour=0, tzinfo=None)
    assert arrow_rows(form([NOON.date(), midnight])).schema.field("x").type == pa.date32()
    tokyo = NOON.astimezone(dt.timezone(dt.timedelta(hours=9)))
    assert arrow_rows(form([NOON, tokyo])).open().read_all()["x"].to_pylist() == [NOON, NOON]
    if isinstance(form([None]), pd.DataFrame):
        assert arrow_rows(form([NOON, pd.NaT])).open().read_all()["x"].to_pylist() == [NOON, None]
        assert arrow_rows(form([[NOON], float("nan")])).open().read_all()["x"].to_pylist() == [[NOON], None]
