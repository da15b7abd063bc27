import itertools
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.footer import BLOOM, footer
from table_format.base_file.reader import read_base_file
from table_format.base_file.writer import key_range, write_base_file
from table_format.codecs.avro_schema import avro_to_arrow, schema_text, without_meta_columns
from table_format.errors import CorruptFileError, MissingFileError, OptionError, SchemaError
from table_format.meta_columns import META_COLUMNS, META_FIELDS, add_meta_columns, sequence_numbers
from table_format.schema.evolution import conform, storage_schema
from table_format.storage import Storage
from tests.support.golden_base_files import DATA_FILES, FACTS, lay_out, rows_of

LIVE = [name for name in DATA_FILES if FACTS["files"][name]["live"]]


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("golden"))


def _table_schema(table):
    user = without_meta_columns(avro_to_arrow(FACTS["tables"][table]["schema"]))
    return pa.schema([*META_FIELDS, *user])


def _texts(table):
    """Rows as texts, so that NaN equals itself."""
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.parametrize("name", LIVE)
def test_apaches_files_read_to_the_tables_rows(golden, name):
    table = FACTS["files"][name]["table"]
    schema = _table_schema(table)
    rows = read_base_file(golden, name, schema=schema)
    rows.validate(full=True)
    assert rows.schema == schema
    expected = rows_of(table)
    expected = conform(expected.filter(pa.compute.equal(expected["_hoodie_file_name"], name)), schema)
    assert len(rows) > 0
    assert _texts(rows.sort_by("_hoodie_record_key")) == _texts(expected.sort_by("_hoodie_record_key"))


@pytest.mark.parametrize("name", DATA_FILES)
def test_footers_of_apache(golden, name):
    found = footer(golden, name)
    keys = read_base_file(golden, name, columns=["_hoodie_record_key"])["_hoodie_record_key"]
    assert found.row_count == len(keys)
    assert found.size == os.path.getsize(os.path.join(golden.base, name))
    assert (found.min_key, found.max_key) == key_range(keys)
    assert found.bloom is None or found.bloom.may_contain(keys.combine_chunks()).all()


@pytest.mark.parametrize("table", ["v6_1200__bkt_np_bulk", "v6_0150__edge_stats", "v6_0150__bkt_complex"])
def test_rows_of_all_types_come_back(tmp_path, table):
    storage, schema = Storage(str(tmp_path)), _table_schema(table)
    rows = conform(rows_of(table), schema)
    text = schema_text(schema, "some_table", meta_fields=True)
    result = write_base_file(storage, "p/new.parquet", rows, text)
    assert _texts(read_base_file(storage, "p/new.parquet", schema=schema)) == _texts(rows)
    found = footer(storage, "p/new.parquet")
    assert (result.size, result.row_count) == (found.size, len(rows))
    assert found.key_values["parquet.avro.schema"] == text
    assert found.key_values["writer.model.name"] == "avro"
    assert "ARROW:schema" not in found.key_values
    keys = rows["_hoodie_record_key"]
    assert (found.min_key, found.max_key) == key_range(keys)
    assert found.bloom.may_contain(keys.combine_chunks()).all()


def test_the_files_columns_have_the_forms_that_readers_take(tmp_path):
    kinds = {
        "l": pa.list_(pa.int32()),
        "d": pa.decimal128(5, 2),
        "t": pa.timestamp("us", "UTC"),
        "m": pa.map_(pa.string(), pa.int64()),
        "dt": pa.date32(),
    }
    schema = pa.schema(kinds)
    rows = pa.schema([*META_FIELDS, *schema]).empty_table()
    write_base_file(Storage(str(tmp_path)), "f.parquet", rows, schema_text(schema, "t", meta_fields=True))
    text = str(pq.ParquetFile(tmp_path / "f.parquet").schema)
    for part in (
        "optional group field_id=-1 l (List) {\n    repeated group field_id=-1 list {\n",
        "      optional int32 field_id=-1 element;",
        "optional fixed_len_byte_array(3) field_id=-1 d (Decimal(precision=5, scale=2))",
        "optional int64 field_id=-1 t (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds",
        "repeated group field_id=-1 key_value {\n      required binary field_id=-1 key (String);",
        "optional int32 field_id=-1 dt (Date)",
        "optional binary field_id=-1 _hoodie_commit_time (String)",
    ):
        assert part in text
    assert "required" not in text.replace("required group field_id=-1 schema", "").replace(
        "required binary field_id=-1 key", ""
    )


def _many_rows(count=30_000):
    keys = pa.array([f"key{number:08d}" for number in range(count)])
    user = pa.table({"id": keys, "few": ["a", "b"] * (count // 2), "x": pa.array(range(count), pa.int64())})
    return add_meta_columns(
        user, instant="20260101000000000", task=3, keys=keys, partition="p=1", file_name="f.parquet"
    )


def test_meta_columns_are_in_front():
    table = _many_rows(4)
    assert tuple(table.column_names[:5]) == META_COLUMNS
    assert table.slice(1, 1).to_pylist()[0] | {"x": 1} == {
        "_hoodie_commit_time": "20260101000000000",
        "_hoodie_commit_seqno": "20260101000000000_3_1",
        "_hoodie_record_key": "key00000001",
        "_hoodie_partition_path": "p=1",
        "_hoodie_file_name": "f.parquet",
        "id": "key00000001",
        "few": "b",
        "x": 1,
    }
    again = add_meta_columns(table, instant="2", task=0, keys=table["id"], partition="", file_name="h", first_row=7)
    assert again.column_names == table.column_names
    assert again["_hoodie_commit_seqno"].to_pylist()[0] == "2_0_7"
    assert sequence_numbers("1", 0, 0).to_pylist() == []


@pytest.mark.parametrize(("first", "count"), [(0, 12), (98, 905), (4_294_967_290, 12), (99_999_999_999, 2)])
def test_sequence_numbers_count_on_where_digits_are_added(first, count):
    expected = [f"20260101000000000_41_{row}" for row in range(first, first + count)]
    assert sequence_numbers("20260101000000000", 41, count, first).to_pylist() == expected


def test_row_groups_and_encodings(tmp_path):
    storage, table = Storage(str(tmp_path)), _many_rows()
    text = schema_text(storage_schema(table.schema), "t", meta_fields=True)
    options = {"hoodie.parquet.block.size": "400000", "hoodie.parquet.compression.codec": "GZIP"}
    result = write_base_file(storage, "f.parquet", table, text, options)
    metadata = pq.ParquetFile(tmp_path / "f.parquet").metadata
    assert metadata.num_row_groups > 2
    chunks = {c.path_in_schema: c for c in (metadata.row_group(0).column(i) for i in range(metadata.num_columns))}
    assert all(chunk.compression == "GZIP" for chunk in chunks.values())
    for name in ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "few"):
        assert chunks[name].total_compressed_size < 3000
        assert chunks[name].has_dictionary_page
    for name in ("_hoodie_commit_seqno", "_hoodie_record_key"):
        assert "DELTA_BYTE_ARRAY" in chunks[name].encodings
    assert not chunks["id"].has_dictionary_page
    # Spark 3.5's vectorised reader fails on it
    assert all("DELTA_LENGTH_BYTE_ARRAY" not in chunk.encodings for chunk in chunks.values())
    bounds = [metadata.row_group(i).column(2).statistics for i in range(metadata.num_row_groups)]
    assert all(a.max < b.min for a, b in itertools.pairwise(bounds))
    assert result.metadata.num_row_groups == metadata.num_row_groups
    assert len(footer(storage, "f.parquet").key_values[BLOOM]) < 60_000
    assert storage.read("f.parquet")[-4:] == b"PAR1"


def test_the_bloom_filter_follows_apaches_options(tmp_path):
    storage, table = Storage(str(tmp_path)), _many_rows(100)
    text = schema_text(storage_schema(table.schema), "t", meta_fields=True)
    options = {"hoodie.index.bloom.num_entries": "50", "hoodie.index.bloom.fpp": "0.001"}
    write_base_file(storage, "dynamic.parquet", table, text, options)
    found = footer(storage, "dynamic.parquet")
    assert found.key_values["hoodie_bloom_filter_type_code"] == "DYNAMIC_V0"
    assert (found.bloom.records_per_vector, len(found.bloom.vectors)) == (50, 2)
    write_base_file(storage, "simple.parquet", table, text, options | {"hoodie.bloom.index.filter.type": "SIMPLE"})
    assert footer(storage, "simple.parquet").bloom.type_code == "SIMPLE"
    write_base_file(storage, "none.parquet", table, text, {"hoodie.parquet.bloom.filter.enabled": "false"})
    assert footer(storage, "none.parquet").bloom is None
    assert footer(storage, "none.parquet").min_key == "key00000000"


def test_higher_levels_of_zstd_make_smaller_files(tmp_path):
    storage, table = Storage(str(tmp_path)), _many_rows()
    text = schema_text(storage_schema(table.schema), "t", meta_fields=True)
    levels = [{}, *({"hoodie.catalog.write.zstd.level": level} for level in ("1", "19"))]
    default, lowest, high = (write_base_file(storage, "f.parquet", table, text, options).size for options in levels)
    assert default == lowest > high


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.parquet.compression.codec", "lzma"),
        ("hoodie.catalog.write.zstd.level", "23"),
        ("hoodie.parquet.block.size", "0"),
        ("hoodie.parquet.page.size", "big"),
        ("hoodie.index.bloom.fpp", "2"),
        ("hoodie.parquet.bloom.filter.enabled", "yes"),
    ],
)
def test_options_that_cannot_be_used(tmp_path, key, value):
    table = _many_rows(2)
    with pytest.raises(OptionError, match=key):
        write_base_file(
            Storage(str(tmp_path)), "f", table, schema_text(storage_schema(table.schema), "t"), {key: value}
        )
    assert not os.listdir(tmp_path)


def test_a_file_without_rows(tmp_path):
    storage, table = Storage(str(tmp_path)), _many_rows(2).slice(0, 0)
    text = schema_text(storage_schema(table.schema), "t", meta_fields=True)
    result = write_base_file(storage, "f.parquet", table, text)
    found = footer(storage, "f.parquet")
    assert (result.row_count, found.row_count, found.min_key, found.max_key) == (0, 0, None, None)
    assert read_base_file(storage, "f.parquet", schema=avro_to_arrow(text)).num_rows == 0


def test_a_table_without_meta_columns(tmp_path):
    storage, rows = Storage(str(tmp_path)), pa.table({"a": [1, 2]})
    write_base_file(storage, "f.parquet", rows, schema_text(rows.schema, "t"))
    assert set(footer(storage, "f.parquet").key_values) == {"parquet.avro.schema", "writer.model.name"}
    assert read_base_file(storage, "f.parquet").equals(rows)


def test_columns_that_a_file_lacks_or_holds_narrower(tmp_path):
    storage, rows = Storage(str(tmp_path)), pa.table({"a": pa.array([1, None], pa.int32()), "s": ["x", None]})
    write_base_file(storage, "f.parquet", rows, schema_text(rows.schema, "t"))
    schema = pa.schema([("new", pa.string()), ("a", pa.int64()), ("s", pa.string())])
    read = read_base_file(storage, "f.parquet", columns=["a", "new"], schema=schema)
    assert read.to_pylist() == [{"a": 1, "new": None}, {"a": None, "new": None}]
    only_new = read_base_file(storage, "f.parquet", columns=["new"], schema=schema)
    assert only_new.to_pylist() == [{"new": None}, {"new": None}]
    shared = read_base_file(storage, "f.parquet", schema=schema, dictionary_columns=["s"])
    assert isinstance(shared["s"].type, pa.DictionaryType)
    assert shared["s"].to_pylist() == ["x", None]
    digits = read_base_file(storage, "f.parquet", schema=pa.schema([("a", pa.string())]))
    assert digits["a"].to_pylist() == ["1", None]
    with pytest.raises(SchemaError, match="'a' is int32"):
        read_base_file(storage, "f.parquet", schema=pa.schema([("a", pa.date32())]))


def test_key_ranges_are_in_the_order_of_utf_16():
    assert key_range(pa.array(["a", "￿", "𝒳"])) == ("a", "￿")  # noqa: RUF001
    assert key_range(pa.array(["b", "a"]).dictionary_encode()) == ("a", "b")
    assert key_range(pa.array([], pa.string())) is None


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -1, -9])
def test_files_that_are_cut_off(tmp_path, golden, keep):
    data = golden.read(DATA_FILES[0])[:keep]
    (tmp_path / "cut.parquet").write_bytes(data)
    storage = Storage(str(tmp_path))
    for read in (read_base_file, footer):
        with pytest.raises(CorruptFileError, match=r"cut\.parquet: at byte") as caught:
            read(storage, "cut.parquet")
        assert caught.value.path == "cut.parquet"


def test_files_that_are_damaged_never_give_other_errors(tmp_path, golden):
    data = golden.read(DATA_FILES[0])
    storage = Storage(str(tmp_path))
    failed = 0
    for position in range(4, len(data), len(data) // 60):
        damaged = bytearray(data)
        damaged[position : position + 40] = bytes(40)
        (tmp_path / "f.parquet").write_bytes(damaged)
        try:
            read_base_file(storage, "f.parquet").validate(full=True)
        except (CorruptFileError, pa.ArrowInvalid):
            failed += 1
    assert failed > 20


def test_a_missing_file(tmp_path):
    with pytest.raises(MissingFileError):
        read_base_file(Storage(str(tmp_path)), "no.parquet")
