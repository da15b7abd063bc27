import itertools
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.base_file.footer import BLOOM, footer
from table_format.base_file.reader import read_base_file
from table_format.codecs.avro_schema import avro_to_arrow, schema_text
from table_format.errors import OptionError
from table_format.meta_columns import META_COLUMNS, META_FIELDS
from table_format.schema.evolution import storage_schema
from table_format.storage import Storage
from table_writer.encoding.base_file import key_range, write_base_file
from table_writer.encoding.meta_columns import add_meta_columns, sequence_numbers
from tests.support.golden_base_files import FILES, LIVE, lay_out, table_schema


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("golden"))


def _texts(table):
    """Rows as texts, so that NaN equals itself."""
    return [repr(row) for row in table.to_pylist()]


@pytest.mark.parametrize("table", ["v6_0150__bkt_np_bulk", "v6_0150__edge_stats", "v6_0150__bkt_complex"])
def test_rows_of_all_types_come_back(golden, tmp_path, table):
    storage, schema = Storage(str(tmp_path)), table_schema(table)
    names = [name for name in LIVE if FILES[name].table == table]
    rows = pa.concat_tables(read_base_file(golden, name, schema=schema) for name in names)
    text = schema_text(schema, "some_table", meta_fields=True)
    result = write_base_file(storage, "p/new.parquet", rows, text)
    assert _texts(read_base_file(storage, "p/new.parquet", schema=schema)) == _texts(rows)
    parsed = footer(storage, "p/new.parquet")
    assert (result.size, result.row_count) == (parsed.size, len(rows))
    assert parsed.key_values["parquet.avro.schema"] == text
    assert parsed.key_values["writer.model.name"] == "avro"
    assert "ARROW:schema" not in parsed.key_values
    keys = rows["_hoodie_record_key"]
    assert (parsed.min_key, parsed.max_key) == key_range(keys)
    assert parsed.bloom.may_contain(keys.combine_chunks()).all()


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


@pytest.mark.parametrize(
    ("first", "count"), [(0, 12), (98, 905), (9_990, 10_020), (4_294_967_290, 12), (99_999_999_999, 2)]
)
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
    assert "DELTA_BYTE_ARRAY" in chunks["_hoodie_record_key"].encodings
    assert not chunks["_hoodie_commit_seqno"].has_dictionary_page
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
    parsed = footer(storage, "dynamic.parquet")
    assert parsed.key_values["hoodie_bloom_filter_type_code"] == "DYNAMIC_V0"
    assert (parsed.bloom.records_per_vector, len(parsed.bloom.vectors)) == (50, 2)
    write_base_file(storage, "simple.parquet", table, text, options | {"hoodie.bloom.index.filter.type": "SIMPLE"})
    assert footer(storage, "simple.parquet").bloom.type_code == "SIMPLE"
    write_base_file(storage, "none.parquet", table, text, {"hoodie.parquet.bloom.filter.enabled": "false"})
    assert footer(storage, "none.parquet").bloom is None
    assert footer(storage, "none.parquet").min_key == "key00000000"


@pytest.mark.slow
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
    parsed = footer(storage, "f.parquet")
    assert (result.row_count, parsed.row_count, parsed.min_key, parsed.max_key) == (0, 0, None, None)
    assert read_base_file(storage, "f.parquet", schema=avro_to_arrow(text)).num_rows == 0


def test_a_table_without_meta_columns(tmp_path):
    storage, rows = Storage(str(tmp_path)), pa.table({"a": [1, 2]})
    write_base_file(storage, "f.parquet", rows, schema_text(rows.schema, "t"))
    assert set(footer(storage, "f.parquet").key_values) == {"parquet.avro.schema", "writer.model.name"}
    assert read_base_file(storage, "f.parquet").equals(rows)


def test_key_ranges_are_in_the_order_of_utf_16():
    assert key_range(pa.array(["a", "￿", "𝒳"])) == ("a", "￿")  # noqa: RUF001
    assert key_range(pa.array(["b", "a"]).dictionary_encode()) == ("a", "b")
    assert key_range(pa.array([], pa.string())) is None
