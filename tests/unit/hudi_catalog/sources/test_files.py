"""Files of rows are read as DuckDB reads them."""

import datetime as dt
import gzip
import io
import json
import os
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from hudi_catalog.sources import files
from hudi_catalog.sources.files import file_rows
from table_format.errors import (
    ArgumentError,
    CorruptFileError,
    MissingFileError,
    OptionError,
    RecordError,
    SchemaError,
    StorageError,
)

QUOTE = '"'

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": ["a", None, 'with "quotes", and\ncomma'],
        "part": [0.1, None, -1e300],
        "sure": [True, None, False],
        "day": pa.array([dt.date(2026, 1, 31), None, dt.date(1969, 12, 31)]),
        "at": pa.array([0, None, 1_500_000], pa.timestamp("us", "UTC")),
    }
)


def read(path: object, columns: pa.Schema | None = None, **arguments) -> pa.Table:
    rows = file_rows([str(path)], columns=columns, **arguments)
    assert rows.repeatable
    first, again = rows.open().read_all(), rows.open().read_all()
    assert first.equals(again)
    assert first.schema == rows.schema
    return first


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    duckdb.sql("SET TimeZone='UTC'")
    rows = ROWS
    pa.parquet.write_table(rows, "rows.parquet")
    pa.feather.write_feather(rows, "rows.feather")
    with pa.ipc.new_stream("rows.arrows", rows.schema) as writer:
        writer.write_table(rows)
    duckdb.sql("FROM 'rows.parquet'").write_csv("rows.csv")
    duckdb.sql("COPY (FROM 'rows.parquet') TO 'rows.tsv' (DELIMITER '\t')")
    duckdb.sql("COPY (FROM 'rows.parquet') TO 'rows.jsonl' (FORMAT json)")
    Path("rows.csv.gz").write_bytes(gzip.compress(Path("rows.csv").read_bytes()))
    return tmp_path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.feather", "rows.arrows"])
def test_arrow_files(folder: Path, name: str) -> None:
    assert read(name).equals(ROWS)
    assert read(folder / name, ROWS.schema).equals(ROWS)
    assert read((folder / name).as_uri()).equals(ROWS)


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.csv.gz"])
@pytest.mark.parametrize("columns", [None, ROWS.schema])
def test_csv_of_duckdb(folder: Path, name: str, columns: pa.Schema | None) -> None:
    assert read(name, columns).equals(ROWS)


def test_json_of_duckdb(folder: Path) -> None:
    assert read("rows.jsonl").equals(ROWS)
    assert read("rows.jsonl", ROWS.schema).equals(ROWS)


def test_the_types_are_those_of_the_table(folder: Path) -> None:
    columns = pa.schema(
        [("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us", "UTC"))]
    )
    Path("a.csv").write_text("id,name,price,at\n1,007,1.5,2026-07-01 12:00:00\n")
    Path("a.json").write_text('{"id": 1, "name": "007", "price": "1.5", "at": "2026-07-01 12:00:00"}\n')
    wanted = [{"id": 1, "name": "007", "price": Decimal("1.50"), "at": dt.datetime(2026, 7, 1, 10, tzinfo=dt.UTC)}]
    for name in ("a.csv", "a.json"):
        rows = read(name, columns, time_zone="Europe/Vienna")
        assert (rows.schema, rows.to_pylist()) == (columns, wanted)
        with pytest.raises(SchemaError, match="'at' holds timestamps without a time zone"):
            read(name, columns)


def test_empty_columns_and_quoted_nothing(folder: Path) -> None:
    Path("a.csv").write_text('a,b,c\n,"",NA\n')
    assert read("a.csv").to_pylist() == [{"a": None, "b": "", "c": "NA"}]
    assert read("a.csv", pa.schema([("a", pa.int32())])).schema.field("a").type == pa.int32()
    Path("a.json").write_text('{"a": null, "b": "2026-01-31", "c": "10:00", "d": {"x": [1]}}\n')
    row = {"a": None, "b": dt.date(2026, 1, 31), "c": "10:00", "d": {"x": [1]}}
    assert read("a.json").to_pylist() == [row]


def test_several_files(folder: Path) -> None:
    Path("one.csv").write_text("id,name\n1,a\n")
    Path("two.json").write_text('{"id": 2, "seats": 100}\n')
    rows = file_rows(["one.csv", "two.json", "one.csv"]).open().read_all()
    assert rows.to_pylist() == [
        {"id": 1, "name": "a", "seats": None},
        {"id": 2, "name": None, "seats": 100},
        {"id": 1, "name": "a", "seats": None},
    ]
    Path("three.csv").write_text("id\nx\n")
    with pytest.raises(SchemaError, match="'id' is int64 in the table and string"):
        file_rows(["one.csv", "three.csv"])


def test_no_rows(folder: Path) -> None:
    Path("a.csv").write_text("id,name\n")
    assert read("a.csv", ROWS.schema).schema == ROWS.schema.empty_table().select(["id", "name"]).schema
    Path("a.json").write_text("")
    assert read("a.json", ROWS.schema).num_rows == 0


@pytest.mark.parametrize(
    ("name", "data"),
    [("rows.parquet", None), ("rows.feather", None), ("rows.arrows", None), ("a.json", b'{"id": 1}\n')],
)
def test_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes | None) -> None:
    content = Path(name).read_bytes() if data is None else data
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read("-").to_pylist() == (ROWS.to_pylist() if data is None else [{"id": 1}])


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="files are opened by their number on Linux only")
def test_no_copy_of_standard_input_can_stay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(Path("tmp").absolute()))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n1\n")))
    rows = file_rows(["-"], "csv")
    assert os.listdir("tmp") == []
    assert [rows.open().read_all().to_pylist() for _ in range(2)] == [[{"id": 1}]] * 2


@pytest.mark.parametrize("data", [b'{"id": 1}\n', b'{"id": 2}\n'])
def test_standard_input_where_files_have_names(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    exists = os.path.exists
    monkeypatch.setattr("os.path.exists", lambda path: "/proc/" not in str(path) and exists(path))
    assert read("-").to_pylist() == [json.loads(data)]


def test_standard_input_of_an_unknown_format(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n1\n")))
    with pytest.raises(OptionError, match="standard input: unknown format; give --format"):
        file_rows(["-"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id\n1\n")))
    assert file_rows(["-"], "csv").open().read_all().to_pylist() == [{"id": 1}]
    with pytest.raises(ArgumentError, match="name it once"):
        file_rows(["-", "-"], "csv")


@pytest.mark.parametrize(
    ("name", "content", "error", "reason"),
    [
        ("a.parquet", "no", CorruptFileError, "a.parquet: at byte 0: not a file of the format parquet"),
        ("a.arrow", "no", CorruptFileError, "not a file of the format arrow"),
        ("a.csv", "a,b\n1\n", RecordError, "a.csv: CSV parse error: Expected 2 columns, got 1"),
        ("a.csv", "", RecordError, "a.csv: Empty CSV file"),
        ("a.csv", "id,v,v\n1,2,3\n", SchemaError, "columns 'v' and 'v' have the same name; drop or rename one"),
        ("a.csv", "id;name\n1;x\n", RecordError, "a.csv: the only column is 'id;name': .* separated by ';'"),
        ("a.csv", "id,n\udce4me\n1,x\n", RecordError, "a.csv: the text is not UTF-8; convert it"),
        ("a.csv", "id,name\n1,n\udce4me\n", RecordError, "a.csv: the text is not UTF-8; convert it"),
        ("a.json", "[1]", RecordError, "a.json: JSON parse error.* is an array; JSON lines have one object per line"),
        ("a.json", "", RecordError, "a.json: Empty JSON"),
        ("a.json", "null\n", RecordError, "a.json: the first line is null; JSON lines have one object per line"),
        ("a.csv.gz", "id\n1\n", StorageError, "a.csv.gz cannot be read: zlib inflate failed"),
        ("a.xls", "", OptionError, "its ending is not that of a format"),
    ],
)
def test_files_that_cannot_be_read(folder: Path, name: str, content: str, error: type, reason: str) -> None:
    Path(name).write_text(content, errors="surrogateescape")
    with pytest.raises(error, match=reason):
        read(name)


def test_places_that_are_not_known() -> None:
    with pytest.raises(OptionError, match=r"s3x://bucket/a\.parquet: no file is read from there"):
        read("s3x://bucket/a.parquet")


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_is_not_closed(folder: Path, end: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_catalog.sources.files._BLOCK", 1 << 10)
    name = "a.csv.gz" if packed else "a.csv"

    def write(last: str) -> None:
        data = ("id,name\n" + "1,a\n" * 700 + f"2,{last}{end}").encode()
        Path(name).write_bytes(gzip.compress(data) if packed else data)

    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    for value in ("b\nc", "b\n", "\n", 'b\nc"', '"\n"', "b", '"', "\n\n"):
        write(f'"{value.replace(QUOTE, QUOTE * 2)}"')
        assert read(name, schema).to_pylist()[-1] == {"id": 2, "name": value}
    for text in ('"b\n3,c', '"b""\n3,c""', '"b\n3,c""', '"b\n', '"b\nc"d'):
        write(text)
        with pytest.raises(
            RecordError, match=rf"{name}: the quote before 'b.* is not closed; close it, or leave it out"
        ):
            read(name, schema)


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_an_empty_file_has_no_rows_for_a_table_that_has_columns(folder: Path, name: str) -> None:
    Path(name).touch()
    assert read(name, ROWS.schema).num_rows == 0


def test_a_late_value_of_another_type(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_catalog.sources.files._BLOCK", 1 << 10)
    Path("a.csv").write_text("id\n" + "1\n" * 5000 + "x\n")
    with pytest.raises(RecordError, match=r"a.csv: .*invalid value 'x'.*create the table first"):
        read("a.csv")
    assert read("a.csv", pa.schema([("id", pa.string())])).num_rows == 5001
    with pytest.raises(RecordError, match=r"invalid value 'x'[^.]*$"):  # nothing to create
        read("a.csv", pa.schema([("id", pa.int64())]))
    Path("a.json").write_text('{"id": "2026-01-31"}\n' * 500 + '{"id": "never"}\n')
    with pytest.raises(RecordError, match=r"a.json: .*never"):
        read("a.json")


@pytest.mark.parametrize("name", ["a.csv", "a.json"])
def test_a_compressed_file_without_the_ending(folder: Path, name: str) -> None:
    Path(name).write_bytes(gzip.compress(b"id\n1\n"))
    with pytest.raises(RecordError, match=rf"{name}: .*file is compressed: give it a name that ends in \.gz"):
        read(name)


def test_columns_that_text_cannot_hold(folder: Path) -> None:
    Path("a.csv").write_text("id\n1\n")
    for kind in (pa.binary(), pa.list_(pa.int32())):
        with pytest.raises(SchemaError, match=r"'id' is .*, which csv files cannot hold; use Parquet"):
            read("a.csv", pa.schema([("id", kind)]))


def test_a_missing_file(folder: Path) -> None:
    with pytest.raises(MissingFileError, match=r"nothing.parquet: there is no such file"):
        read("nothing.parquet")
    assert not os.path.exists("nothing.parquet")


@pytest.mark.parametrize("values", [["007", "7"], ["1", "01"], ["1.5", "01"], ["-01", "2"], ["00", ""]])
def test_numbers_with_leading_zeros_are_texts(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,code\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values)))
    rows = file_rows([str(path)]).open().read_all()
    assert rows["code"].to_pylist() == [value or None for value in values]
    assert rows.schema.field("id").type == pa.int64()
    known = pa.schema([("code", pa.float64())])
    assert file_rows([str(path)], columns=known).schema.field("code").type == pa.float64()


@pytest.mark.parametrize("values", [["0", "10"], ["0.5", "-0.25"], ["1e05", "0e1"], ["100", "-0"]])
def test_zeros_of_numbers_are_none_of_a_text(tmp_path: Path, values: list[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id\n" + "\n".join(values) + "\n")
    assert file_rows([str(path)]).open().read_all()["id"].to_pylist() == [float(value) for value in values]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1.1", "1.10"], pa.string()),
        (["0.1234567890123456789", "0.12345678901234567891"], pa.string()),
        (["nan", "NaN"], pa.string()),
        (["true", "True"], pa.string()),
        (["0", "-0"], pa.string()),
        (["16", "0x10"], pa.string()),
        (["true", "false"], pa.bool_()),
        (["7", " 8", "-9223372036854775808"], pa.int64()),
    ],
)
def test_texts_of_keys_stay_apart(tmp_path: Path, values: list[str], kind: pa.DataType) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("v,key\n" + "".join(f"{value},{value}\n" for value in values))
    rows = file_rows([str(path)], keys=["key", "other"]).open().read_all()
    assert rows.schema.field("key").type == kind
    assert len(set(rows["key"].to_pylist())) == len(values)
    known = pa.schema([("key", pa.float64())])
    if kind == pa.string() and "." in values[0]:
        assert file_rows([str(path)], columns=known, keys=["key"]).schema.field("key").type == pa.float64()


def test_a_key_beyond_the_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 1 << 10)
    path = tmp_path / "rows.csv"
    path.write_text("key,v\n" + "".join(f"{number},x\n" for number in range(1000)) + "0007,x\n")
    rows = file_rows([str(path)], keys=["key"])
    assert rows.schema.field("key").type == pa.string()
    assert len(set(rows.open().read_all()["key"].to_pylist())) == 1001


def test_a_column_of_texts_in_one_file_is_one_in_all(tmp_path: Path) -> None:
    contents = ["key,zip\n1,10115\n2,80331\n", "key,zip\n1.50,00701\n", "key\n7\n"]
    paths = [tmp_path / f"{number}.csv" for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content)
    rows = file_rows([str(path) for path in paths], keys=["key"]).open().read_all()
    assert rows["key"].to_pylist() == ["1", "2", "1.50", "7"]
    assert rows["zip"].to_pylist() == ["10115", "80331", "00701", None]
