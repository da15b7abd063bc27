import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.rows.json_rows import json_lines
from table_format.base_file.footer import footer, footer_statistics
from table_format.base_file.reader import first_rows, read_base_file
from table_format.codecs.avro_schema import schema_text
from table_format.errors import CorruptFileError, MissingFileError, SchemaError
from table_format.storage import Storage
from table_writer.encoding.base_file import key_range, write_base_file
from tests.support.golden_base_files import DATA_FILES, FILES, LIVE, expected, lay_out, table_schema


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("golden"))


def _record_key(row):
    return row["_hoodie_record_key"]


@pytest.mark.parametrize("name", LIVE)
def test_apaches_files_read_to_the_tables_rows(golden, name):
    schema = table_schema(FILES[name].table)
    rows = read_base_file(golden, name, schema=schema)
    rows.validate(full=True)
    assert rows.schema == schema
    read = [json.loads(line) for line in json_lines(rows)]
    apaches = [row for row in expected(FILES[name].table)["rows"] if row["_hoodie_file_name"] == name]
    assert len(rows) > 0
    assert sorted(read, key=_record_key) == sorted(apaches, key=_record_key)


@pytest.mark.parametrize("name", DATA_FILES)
def test_footers_of_apache(golden, name):
    parsed = footer(golden, name)
    keys = read_base_file(golden, name, columns=["_hoodie_record_key"])["_hoodie_record_key"]
    assert parsed.row_count == len(keys)
    assert parsed.size == os.path.getsize(os.path.join(golden.base, name))
    assert (parsed.min_key, parsed.max_key) == key_range(keys)
    assert parsed.bloom is None or parsed.bloom.may_contain(keys.combine_chunks()).all()


@pytest.mark.parametrize(
    ("days", "bounds"),
    [
        ([-719_528, 0], ("0000-01-01", "1970-01-01")),
        ([0, 2_932_896], ("1970-01-01", "9999-12-31")),
        ([-719_529, 0], (None, None)),
        ([0, 2_932_897], (None, None)),
    ],
)
def test_dates_that_are_texts_now_have_bounds_where_both_have_one_order(tmp_path, days, bounds):
    dates = pa.array([days[0], None, days[1]], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"d": dates}), tmp_path / "f.parquet")
    parsed = footer(Storage(str(tmp_path)), "f.parquet")
    text = footer_statistics(parsed, "d", pa.string())
    assert tuple(bound if bound is None else bound.as_py() for bound in (text.lower, text.upper)) == bounds
    assert (text.null_count, text.row_count) == (1, 3)
    assert footer_statistics(parsed, "d", pa.date32()).lower == dates[0]


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


def test_the_first_rows_are_read_without_the_rest(tmp_path):
    rows = pa.table(
        {"n": range(300_000), "s": [f"key {n}" for n in range(300_000)], "t": [{"x": n} for n in range(300_000)]}
    )
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=100_000)
    path, data = tmp_path / "f.parquet", bytearray((tmp_path / "f.parquet").read_bytes())
    storage = Storage(str(tmp_path))
    assert (
        first_rows(storage, "f.parquet", ["s", "absent", "t"], 2).to_pylist() == rows.select(["s", "t"]).to_pylist()[:2]
    )
    assert first_rows(storage, "f.parquet", ["n"], 100_001).equals(rows.select(["n"]).slice(0, 100_001))
    assert first_rows(storage, "f.parquet", ["n"], 1_000_000).num_rows == 300_000
    later = pq.read_metadata(path).row_group(1).column(1)
    start = later.dictionary_page_offset or later.data_page_offset
    data[start : start + later.total_compressed_size] = bytes(later.total_compressed_size)
    path.write_bytes(data)
    assert first_rows(storage, "f.parquet", ["s"], 1).to_pylist() == [{"s": "key 0"}]
    pq.write_table(rows.slice(0, 0), path)
    assert first_rows(storage, "f.parquet", ["n"], 5).num_rows == 0


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -1, -9])
def test_files_that_are_cut_off(tmp_path, golden, keep):
    data = golden.read(DATA_FILES[0])[:keep]
    (tmp_path / "cut.parquet").write_bytes(data)
    storage = Storage(str(tmp_path))
    for read in (read_base_file, footer, lambda *file: first_rows(*file, ["n"], 1)):
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
