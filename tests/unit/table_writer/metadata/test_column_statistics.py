import base64
import decimal
import math
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.footer import footer, footer_statistics
from table_format.base_file.reader import read_base_file
from table_format.errors import OptionError
from table_format.meta_columns import META_COLUMNS
from table_format.storage import Storage
from table_writer.metadata.column_statistics import (
    STATISTICS_SCHEMA,
    bytes_above,
    collect_statistics,
    column_bounds,
    concat_statistics,
    indexable_columns,
    text_above,
)
from tests.support.golden_base_files import (
    DATA_FILES,
    FILES,
    lay_out,
    options_of,
    properties_of,
    statistics_of,
)
from tests.support.whole_rewrite import statistics_by_values
from tests.support.wrapped_bounds import decoded

INFINITE = (-math.inf, math.inf)


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("golden"))


def _apaches(wrapped, kind):
    if wrapped is None:
        return None
    ((member, inner),) = wrapped.items()
    value = inner["value"]
    if pa.types.is_decimal(kind):
        if member == "member5":  # 0.15.0 stores the bytes
            return decimal.Decimal(int.from_bytes(base64.b64decode(value), "big", signed=True)).scaleb(-15)
        return decimal.Decimal(value)
    if kind == pa.binary():
        return base64.b64decode(value)
    if pa.types.is_floating(kind):
        return pa.scalar(float(value), kind).as_py()
    assert member.startswith("member")
    return value


@pytest.mark.parametrize("name", DATA_FILES)
def test_statistics_equal_apaches(golden, name):
    file, statistics = FILES[name], statistics_of(name)
    if not statistics:
        pytest.skip("Apache's index has no rows of this file")
    table, parsed = read_base_file(golden, name), footer(golden, name)
    columns = indexable_columns(table.schema, {**properties_of(file.table), **options_of(file.table)})
    his = {row["columnName"]: row for row in statistics}
    assert set(columns) == set(his)
    rows = collect_statistics(table, name, file.partition, columns, parsed.metadata)
    assert rows.schema == STATISTICS_SCHEMA
    for row in rows.to_pylist():
        apache, kind = his[row["column"]], table.schema.field(row["column"]).type
        assert row["null_count"] == apache["nullCount"]
        assert row["value_count"] == apache["valueCount"]
        assert row["total_size"] == apache["totalSize"]
        assert row["total_uncompressed_size"] == apache["totalUncompressedSize"]
        bounds = [bound and decoded(bound)[1] for bound in (row["min"], row["max"])]
        other = [_apaches(apache.get(side), kind) for side in ("minValue", "maxValue")]
        if pa.types.is_floating(kind) and tuple(bounds) == INFINITE and other == [0.0, 0.0]:
            continue  # there is NaN in the file, for which Apache keeps 0 .. 0
        if row["null_count"] == row["value_count"] and kind == pa.timestamp("us", "UTC") and other == [0, 0]:
            continue  # Apache's reader shows zeros for timestamps that are all null
        assert bounds == other, row["column"]


@pytest.mark.parametrize("name", DATA_FILES)
def test_footers_tell_the_true_bounds(golden, name):
    table, parsed = read_base_file(golden, name), footer(golden, name)
    columns = 0
    for field in table.schema:
        values = [value for value in table[field.name].to_pylist() if value is not None]
        statistics = footer_statistics(parsed, field.name, field.type)
        assert statistics.row_count == len(table)
        if statistics.null_count is not None:
            assert statistics.null_count == len(table) - len(values)
        if pa.types.is_floating(field.type) or pa.types.is_nested(field.type):
            assert (statistics.lower, statistics.upper) == (None, None)
        elif statistics.lower is not None:
            assert (statistics.lower.as_py(), statistics.upper.as_py()) == (min(values), max(values))
            columns += 1
    assert columns > 3


def test_footers_of_narrower_and_missing_columns(tmp_path):
    pq.write_table(pa.table({"a": pa.array([3, None, 1], pa.int32())}), tmp_path / "f.parquet", row_group_size=1)
    parsed = footer(Storage(str(tmp_path)), "f.parquet")
    narrow = footer_statistics(parsed, "a", pa.int64())
    assert (narrow.lower, narrow.upper) == (pa.scalar(1), pa.scalar(3))
    assert (narrow.null_count, narrow.row_count) == (1, 3)
    assert footer_statistics(parsed, "a", pa.float64()).upper is None
    absent = footer_statistics(parsed, "b", pa.string())
    assert (absent.null_count, absent.row_count) == (3, 3)
    of_other_case = footer_statistics(parsed, "A", pa.int64())
    assert (of_other_case.lower, of_other_case.null_count, of_other_case.row_count) == (None, None, 3)


def test_a_footer_without_statistics(tmp_path):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "f.parquet", write_statistics=False)
    statistics = footer_statistics(footer(Storage(str(tmp_path)), "f.parquet"), "a", pa.int64())
    assert (statistics.lower, statistics.null_count, statistics.row_count) == (None, None, 2)


def test_the_schema_is_that_of_the_metadata_table():
    assert concat_statistics([]).schema == STATISTICS_SCHEMA


@pytest.mark.parametrize(
    ("values", "kind", "lower", "upper"),
    [
        ([True, None], pa.bool_(), (1, True), (1, True)),
        ([5, -3, None], pa.int32(), (2, -3), (2, 5)),
        ([-(1 << 63), (1 << 63) - 1], pa.int64(), (3, -(1 << 63)), (3, (1 << 63) - 1)),
        ([1.5, -2.5], pa.float32(), (4, -2.5), (4, 1.5)),
        ([1.5, math.nan, None], pa.float64(), (5, -math.inf), (5, math.inf)),
        ([math.nan], pa.float32(), (4, -math.inf), (4, math.inf)),
        ([math.inf], pa.float64(), (5, math.inf), (5, math.inf)),
        ([b"\xff", b""], pa.binary(), (6, b""), (6, b"\xff")),
        (["b", "\uffff", "\U0001d4b3", ""], pa.string(), (7, ""), (7, "\U0001d4b3")),
        ([-1, 0], pa.date32(), (8, -1), (8, 0)),
        ([0, 253402300799999999], pa.timestamp("us", "UTC"), (3, 0), (3, 253402300799999999)),
        ([1], pa.timestamp("ms"), (3, 1000), (3, 1000)),
        ([None, None], pa.string(), None, None),
        ([], pa.int32(), None, None),
    ],
)
def test_bounds_and_their_wrappers(values, kind, lower, upper):
    bounds = column_bounds(pa.chunked_array([pa.array(values, kind)]))
    assert (decoded(bounds.lower), decoded(bounds.upper)) == (lower, upper)


def test_zeros_hold_both_signs():
    bounds = column_bounds(pa.array([0.0, 0.0]))
    lower, upper = decoded(bounds.lower)[1], decoded(bounds.upper)[1]
    assert math.copysign(1, lower) == -1
    assert math.copysign(1, upper) == 1


def test_dictionary_columns_count_only_values_in_use():
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int32()), pa.array(["a", "m", "z"]))
    bounds = column_bounds(pa.chunked_array([column, column.slice(0, 0)]))
    assert (decoded(bounds.lower), decoded(bounds.upper)) == ((7, "m"), (7, "m"))
    assert column_bounds(pa.chunked_array([column.slice(1, 1)])).lower is None


def test_decimals_are_rounded_outwards():
    kind = pa.decimal128(38, 20)
    value = decimal.Decimal("-1.00000000000000000001")
    bounds = column_bounds(pa.array([value], kind))
    lower, upper = decoded(bounds.lower)[1], decoded(bounds.upper)[1]
    assert lower < value < upper
    assert upper == -1
    exact = column_bounds(pa.array([decimal.Decimal("12345.678")], pa.decimal128(12, 3)))
    assert decoded(exact.lower) == (9, decimal.Decimal("12345.678"))


def test_a_decimal_that_no_bound_holds_leaves_the_file_without_statistics(tmp_path):
    kind = pa.decimal128(38, 0)
    fits, too_long = decimal.Decimal(10**15 - 1), decimal.Decimal(10**15)
    for value, count in ((fits, 2), (too_long, 0)):
        table = pa.table({"a": [1], "d": pa.array([value], kind)})
        pq.write_table(table, tmp_path / "f.parquet")
        rows = collect_statistics(table, "f", "", ["a", "d"], pq.read_metadata(tmp_path / "f.parquet"))
        assert len(rows) == count
        assert rows.schema == STATISTICS_SCHEMA


def test_long_strings_are_cut_soundly(tmp_path):
    long = "é" * 5000
    table = pa.table({"s": [long], "b": [b"\xff" * 3000 + b"a"]})
    pq.write_table(table, tmp_path / "f.parquet")
    rows = collect_statistics(table, "f", "p", ["s", "b"], pq.read_metadata(tmp_path / "f.parquet")).to_pylist()
    lower, upper = decoded(rows[0]["min"])[1], decoded(rows[0]["max"])[1]
    assert len(lower.encode()) <= 2000
    assert len(upper.encode()) <= 2000
    assert lower < long < upper
    assert decoded(rows[1]["max"])[1] == b"\xff" * 3000 + b"a"


@pytest.mark.parametrize(
    ("text", "limit", "above"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "abd"),
        ("ab\U0010ffff", 6, "ab\U0010ffff"),
        ("ab\U0010ffffx", 6, "ac"),
        ("a\ud7ffx", 4, "a\ue000"),
        ("\U0010ffff\U0010ffff", 4, "\U0010ffff\U0010ffff"),
        ("aé", 2, "b"),
    ],
)
def test_texts_above(text, limit, above):
    assert text_above(text, limit) == above
    assert above.encode() >= text.encode()


def test_bytes_above():
    assert bytes_above(b"a\xffbc", 2) == b"b"
    assert bytes_above(b"\xff\xff\xff", 2) == b"\xff\xff\xff"


class TestIndexedColumns:
    SCHEMA = pa.schema(
        [
            ("_hoodie_commit_time", pa.string()),
            *((f"c{number}", pa.int32()) for number in range(40)),
            ("dec", pa.decimal128(38, 18)),
            ("small", pa.decimal128(30, 15)),
            ("nested", pa.struct([("a", pa.int32())])),
            ("list", pa.list_(pa.int32())),
        ]
    )

    def test_releases_before_1_0_index_all(self):
        columns = indexable_columns(self.SCHEMA)
        assert columns[:5] == list(META_COLUMNS)
        assert columns[-2:] == ["dec", "small"]
        assert len(columns) == 5 + 42

    def test_later_releases_index_the_first_32(self):
        newer = {"hoodie.table.keygenerator.type": "SIMPLE"}
        columns = indexable_columns(self.SCHEMA, newer)
        assert columns[:3] == ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]
        assert columns[3:] == [f"c{number}" for number in range(32)]
        more = newer | {"hoodie.metadata.index.column.stats.max.columns.to.index": "100"}
        assert indexable_columns(self.SCHEMA, more)[-2:] == ["c39", "small"]
        for wrong in ("abc", "-1"):
            with pytest.raises(OptionError, match=r"max\.columns\.to\.index"):
                indexable_columns(
                    self.SCHEMA, {**more, "hoodie.metadata.index.column.stats.max.columns.to.index": wrong}
                )

    def test_a_list_of_columns(self):
        key = "hoodie.metadata.index.column.stats.column.list"
        assert indexable_columns(self.SCHEMA, {key: "c3, c1,nested,_hoodie_record_key"}) == [
            "_hoodie_record_key",
            "c1",
            "c3",
        ]
        with pytest.raises(OptionError, match="c99"):
            indexable_columns(self.SCHEMA, {key: "c99"})

    def test_without_meta_columns(self):
        columns = indexable_columns(self.SCHEMA, {"hoodie.populate.meta.fields": "false"})
        assert columns[0] == "c0"


def test_absent_columns_are_left_out(tmp_path):
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=1)
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    (row,) = collect_statistics(table, "f", "p", ["_hoodie_commit_time", "a"], metadata).to_pylist()
    assert (row["partition"], row["file_name"], row["column"], row["type"]) == ("p", "f", "a", "int64")
    assert row["total_size"] == sum(metadata.row_group(i).column(0).total_compressed_size for i in range(2))
    assert os.path.getsize(tmp_path / "f.parquet") > row["total_size"]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int32(), [5, -7, None, 2**31 - 1, 0]),
        (pa.int64(), [None] * 5),
        (pa.float64(), [0.0, math.nan, 3.5, -0.0, None]),
        (pa.float32(), [0.0, -0.0, 0.0, None, -0.0]),
        (pa.bool_(), [True, None, True, True, True]),
        (pa.string(), ["", "é", "\uffff", "𝄞", None]),
        (pa.string(), ["a" * 3000, "b", "c" * 9000, None, "d"]),
        (pa.binary(), [b"\xff", b"", b"\x00", None, b"a"]),
        (pa.date32(), [-800_000, 0, None, 3_000_000, 1]),
        (pa.timestamp("us", "UTC"), [-(2**62), 2**62, None, 0, 1]),
        (pa.timestamp("ns"), [1_000, 2_000, None, 0, -3_000]),
        (
            pa.decimal128(15, 2),
            [
                decimal.Decimal("-9999999999999.99"),
                decimal.Decimal("0.01"),
                None,
                decimal.Decimal(1),
                decimal.Decimal(0),
            ],
        ),
        (pa.dictionary(pa.int32(), pa.string()), ["b", "a", None, "b", "c"]),
    ],
)
def test_bounds_out_of_the_footer_are_those_of_the_values(tmp_path, kind, values):
    # times by their numbers: Python has none beyond the year 9999
    plain = {"date32[day]": pa.int32(), "timestamp[us, tz=UTC]": pa.int64(), "timestamp[ns]": pa.int64()}
    table = pa.table({"x": pa.array(values, plain.get(str(kind), kind)).cast(kind)})
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=2)
    metadata = pq.read_metadata(tmp_path / "f.parquet")
    by_footer = collect_statistics(table, "f", "p", ["x"], metadata)
    assert by_footer.to_pylist() == statistics_by_values(table, "f", "p", ["x"], metadata).to_pylist()
    unused = table.set_column(0, "x", table["x"].dictionary_encode())
    assert collect_statistics(unused, "f", "p", ["x"], metadata).to_pylist() == by_footer.to_pylist()
