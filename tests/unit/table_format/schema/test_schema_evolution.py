import decimal

import pyarrow as pa
import pytest

from table_format.errors import RecordError, SchemaError
from table_format.schema.evolution import conform, merge_schemas, storage_schema

LONG_LIST = pa.list_(pa.struct([("k", pa.int64()), ("j", pa.float32())]))


def test_columns_are_added_at_the_end_and_widened():
    table = pa.schema(
        [
            ("a", pa.int32()),
            ("s", pa.struct([("x", pa.int32())])),
            ("l", pa.list_(pa.struct([("k", pa.int32())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("keep", pa.string()),
        ]
    )
    batch = pa.schema(
        [
            ("new", pa.int16()),
            ("a", pa.float64()),
            ("s", pa.struct([("y", pa.string()), ("x", pa.int64())])),
            ("l", pa.large_list(pa.struct([("k", pa.int64()), ("j", pa.float32())]))),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    )
    merged = merge_schemas(table, batch)
    assert merged.names == ["a", "s", "l", "m", "keep", "new"]
    assert merged.field("a").type == pa.float64()
    assert merged.field("s").type == pa.struct([("x", pa.int64()), ("y", pa.string())])
    assert merged.field("l").type.value_type == LONG_LIST.value_type
    assert merged.field("m").type == pa.map_(pa.string(), pa.int64())
    assert merged.field("new").type == pa.int32()
    rows = pa.table(
        {
            "a": pa.array([1, None, 3], pa.int32()),
            "s": pa.array([{"x": 1}, None, {"x": None}], table.field("s").type),
            "l": pa.array([[{"k": 1}, None], None, []], table.field("l").type),
            "m": pa.array([[("a", 1)], None, [("b", None), ("c", 2)]], table.field("m").type),
        }
    )
    whole = conform(rows, merged)
    whole.validate(full=True)
    assert whole.to_pylist() == [
        {
            "a": 1.0,
            "s": {"x": 1, "y": None},
            "l": [{"k": 1, "j": None}, None],
            "m": [("a", 1)],
            "keep": None,
            "new": None,
        },
        {"a": None, "s": None, "l": None, "m": None, "keep": None, "new": None},
        {"a": 3.0, "s": {"x": None, "y": None}, "l": [], "m": [("b", None), ("c", 2)], "keep": None, "new": None},
    ]
    assert conform(rows.slice(1, 2), merged).equals(whole.slice(1, 2))
    chunked = pa.concat_tables([rows.slice(2), rows.slice(0, 2)])
    assert conform(chunked, merged).to_pylist() == [whole.to_pylist()[2], *whole.to_pylist()[:2]]


def test_a_narrower_batch_leaves_the_table_as_it_is():
    table = pa.schema([("a", pa.int64()), ("d", pa.decimal128(12, 3)), ("s", pa.string())])
    batch = pa.schema([("s", pa.null()), ("d", pa.decimal128(10, 2)), ("a", pa.int32())])
    assert merge_schemas(table, batch) == table
    rows = pa.table(
        {
            "a": pa.array([1], pa.int32()),
            "d": pa.array([decimal.Decimal("1.25")], pa.decimal128(10, 2)),
            "s": pa.nulls(1),
        }
    )
    assert conform(rows, table).to_pylist() == [{"a": 1, "d": decimal.Decimal("1.250"), "s": None}]


@pytest.mark.parametrize(
    ("table", "batch"),
    [
        (pa.int32(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.binary(), pa.int32()),
        (pa.date32(), pa.int32()),
        (pa.decimal128(10, 2), pa.decimal128(12, 2)),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        (pa.bool_(), pa.int32()),
        (pa.struct([("a", pa.int32())]), pa.list_(pa.int32())),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
    ],
)
def test_other_changes_of_type_are_refused(table, batch):
    with pytest.raises(SchemaError, match="column 'c"):
        merge_schemas(pa.schema([("c", table)]), pa.schema([("c", batch)]))
    rows = pa.table({"c": pa.array([], batch)})
    if table == pa.string():  # in files, not in batches
        assert conform(pa.table({"c": _one(batch)}), pa.schema([("c", table)])).to_pylist() == [{"c": "1"}]
    elif table != pa.decimal128(10, 2):
        with pytest.raises(SchemaError):
            conform(pa.concat_tables([rows, pa.table({"c": _one(batch)})]), pa.schema([("c", table)]))


@pytest.mark.parametrize(
    ("stored", "texts"),
    [
        (pa.array([-7, None, 0], pa.int64()), ["-7", None, "0"]),
        (pa.array([0.75, 1e10, -0.0], pa.float32()), ["0.75", "1.0E10", "-0.0"]),
        (pa.array([-1.3333333333333333, float("nan"), None], pa.float64()), ["-1.3333333333333333", "NaN", None]),
        (pa.array([decimal.Decimal("-0.375"), None], pa.decimal128(12, 3)), ["-0.375", None]),
        (pa.array([-7014, None, 0], pa.int32()).cast(pa.date32()), ["1950-10-19", None, "1970-01-01"]),
    ],
)
def test_numbers_and_dates_in_files_are_text_where_the_table_has_text(stored, texts):
    schema = pa.schema([("c", pa.string()), ("l", pa.list_(pa.field("element", pa.string())))])
    lists = pa.ListArray.from_arrays([0, len(stored)], stored)
    assert conform(pa.table({"c": stored}), schema)["c"].to_pylist() == texts
    assert conform(pa.table({"l": lists}), schema)["l"].to_pylist() == [texts]
    with pytest.raises(SchemaError, match="column 'c'"):
        merge_schemas(schema, pa.schema([("c", stored.type)]))


@pytest.mark.parametrize(
    "stored", [pa.array([True]), pa.array([0], pa.timestamp("us", "UTC")), pa.array([0], pa.time64("us"))]
)
def test_what_is_not_text_in_a_table_of_texts_is_refused(stored):
    with pytest.raises(SchemaError, match="which is not converted"):
        conform(pa.table({"c": stored}), pa.schema([("c", pa.string())]))


def _one(kind):
    values = {"string": "1", "int32": 1, "timestamp[us]": 0, "timestamp[us, tz=UTC]": 0, "list<item: string>": ["x"]}
    value = values.get(str(kind), [1])
    return pa.array([value], kind)


def test_letter_case_does_not_make_another_column():
    with pytest.raises(SchemaError, match="letter case"):
        merge_schemas(pa.schema([("Id", pa.int32())]), pa.schema([("id", pa.int32())]))
    with pytest.raises(SchemaError, match="same name"):
        storage_schema(pa.schema([("Id", pa.int32()), ("id", pa.int32())]))


def test_values_that_do_not_fit():
    with pytest.raises(RecordError, match="column 'a'"):
        conform(pa.table({"a": pa.array([1 << 40])}), pa.schema([("a", pa.int32())]))
    with pytest.raises(RecordError, match="column 's'"):
        conform(pa.table({"s": pa.array([b"\xff"])}), pa.schema([("s", pa.string())]))
    with pytest.raises(RecordError, match="holds 1 nulls"):
        conform(pa.table({"a": pa.array([None, 1])}), pa.schema([pa.field("a", pa.int64(), nullable=False)]))


def test_arrows_variants_become_what_tables_hold():
    schema = storage_schema(
        pa.schema(
            [
                ("_hoodie_commit_time", pa.string()),
                ("v", pa.string_view()),
                ("u", pa.uint8()),
                ("t", pa.timestamp("ns", "Asia/Tokyo")),
                ("d", pa.dictionary(pa.int8(), pa.large_string())),
                pa.field("n", pa.float16(), nullable=False, metadata={"PARQUET:field_id": "1"}),
                ("l", pa.large_list(pa.large_binary())),
            ]
        )
    )
    assert schema.names == ["v", "u", "t", "d", "n", "l"]
    assert schema.types == [
        pa.string(),
        pa.int32(),
        pa.timestamp("us", "UTC"),
        pa.string(),
        pa.float32(),
        pa.list_(pa.field("element", pa.binary())),
    ]
    assert schema.field("n").nullable
    assert not schema.field("n").metadata
    rows = pa.table(
        {
            "d": pa.array(["x", None, "x"]).dictionary_encode(),
            "t": pa.array([1_000, None, 2_000], pa.timestamp("ns", "Asia/Tokyo")),
        }
    )
    assert conform(rows, schema)["d"].to_pylist() == ["x", None, "x"]
    assert conform(rows, schema)["t"].cast(pa.int64()).to_pylist() == [1, None, 2]


def _encoded(values):
    return pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), values)


_VIEWS_BY_NAME = pa.map_(pa.string(), pa.binary_view())


@pytest.mark.parametrize(
    "column",
    [
        _encoded(pa.array(["a", "b"], pa.string_view())),
        _encoded(pa.array([b"a", b"b"], pa.binary_view())),
        _encoded(_encoded(pa.array(["a", "b"], pa.string_view()))),
        _encoded(pa.StructArray.from_arrays([_encoded(pa.array(["a", "b"], pa.string_view()))], ["x"])),
        _encoded(pa.array([["a", None], ["b"]], pa.large_list(pa.string_view()))),
        pa.StructArray.from_arrays([_encoded(pa.array(["a", "b"], pa.string_view()))], ["x"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 3]), _encoded(pa.array(["a", "b"], pa.string_view()))),
        pa.FixedSizeListArray.from_arrays(_encoded(pa.array(["a", "b"], pa.string_view())), 3),
        pa.MapArray.from_arrays([0, 1, 3], pa.array(list("pqr")), _encoded(pa.array(["a", "b"], pa.string_view()))),
        pa.array([[("p", "a")], None, [("q", None), ("r", "b")]], pa.map_(pa.string_view(), pa.string_view())),
        pa.array([[("p", [("q", b"a")])], [("r", None)], None], pa.map_(pa.string(), _VIEWS_BY_NAME)),
        pa.array([[("p", {"x": "a"})], [], [("q", None)]], pa.map_(pa.string(), pa.struct([("x", pa.string_view())]))),
    ],
    ids=lambda column: str(column.type),
)
def test_views_and_dictionaries_of_them_are_decoded_at_any_depth(column):
    for rows in (pa.table({"c": column}), pa.table({"c": column.slice(1)})):
        stored = conform(rows, storage_schema(rows.schema))
        stored.validate(full=True)
        assert stored["c"].to_pylist() == rows["c"].to_pylist()


def test_an_unused_value_of_a_dictionary_need_not_fit():
    column = pa.DictionaryArray.from_arrays(pa.array([1, None]), pa.array([1 << 40, 7]))
    assert conform(pa.table({"c": column}), pa.schema([("c", pa.int32())]))["c"].to_pylist() == [7, None]


def test_promotions_of_numbers_round_as_avro_does():
    rows = pa.table({"a": pa.array([(1 << 53) + 1, 7])})
    assert conform(rows, pa.schema([("a", pa.float64())]))["a"].to_pylist() == [float(1 << 53), 7.0]
