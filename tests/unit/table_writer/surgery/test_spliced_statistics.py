"""Statistics from a footer that lacks some or has too little."""

import decimal
import math
import os

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.metadata import file_contents
from table_writer.metadata.file_contents import statistics_of_file
from table_writer.surgery.splice import FileEdit, splice
from tests.support.golden_base_files import DATA_FILES, FILES
from tests.support.whole_rewrite import check_statistics


def check(folder, table, **arguments):
    pq.write_table(table, os.path.join(folder, "f"), row_group_size=2, **arguments)
    check_statistics(Storage(str(folder)), "f", pq.read_metadata(os.path.join(folder, "f")))


@pytest.mark.parametrize(
    "values",
    [[math.nan, 1.0, 2.0, None], [-0.0, 0.0, 0.0, 0.0], [None] * 4, [math.nan] * 4, [math.inf, 1.0, -math.inf, 3.0]],
)
def test_numbers_with_a_point_are_read(tmp_path, values):
    for kind in (pa.float32(), pa.float64()):
        check(tmp_path, pa.table({"x": pa.array(values, kind)}))


def test_long_texts_have_no_statistics_and_are_read(tmp_path):
    check(tmp_path, pa.table({"s": ["a", "b" * 6000, "c", "d" * 3000], "y": [b"1", b"2" * 5000, b"", None]}))


def test_files_without_statistics_are_read(tmp_path):
    check(tmp_path, pa.table({"i": [1, None, 3, 2], "s": ["b", None, "", "a"]}), write_statistics=False)


def test_texts_of_writers_that_may_cut_them_are_read(tmp_path, monkeypatch):
    duckdb.execute("create or replace table cut as select repeat('x', 300) || range as s, range as i from range(10)")
    duckdb.execute(f"copy cut to '{tmp_path}/f' (format parquet)")
    check_statistics(Storage(str(tmp_path)), "f", pq.read_metadata(tmp_path / "f"))
    read = []
    monkeypatch.setattr(file_contents.GrowingBounds, "add_rows", lambda self, column: read.append(self.name))
    metadata = pq.read_metadata(tmp_path / "f")
    schema = pa.schema({"s": pa.string(), "i": pa.int64()})
    storage = Storage(str(tmp_path))
    statistics_of_file(storage, "f", metadata, schema, ["s", "i"], file_name="f", partition="")
    assert read == ["s"]


def test_times_beyond_those_of_python(tmp_path):
    numbers = pa.array([2**62, 5, -(2**62), None])
    check(tmp_path, pa.table({"t": numbers.cast(pa.timestamp("us")), "d": pa.array([2**30, 1, 2, 3], pa.date32())}))


def test_decimals_of_more_digits_than_python_takes_by_itself(tmp_path):
    values = [decimal.Decimal("123456789012345.678901234567891"), decimal.Decimal("-1e-15"), None]
    check(tmp_path, pa.table({"n": pa.array(values, pa.decimal128(30, 15))}))


def test_a_bound_that_is_no_text_is_not_taken_from_the_footer(tmp_path):
    """Writers cut bounds within a character."""
    pq.write_table(pa.table({"s": ["a", "\x7f"]}), tmp_path / "f")
    with open(tmp_path / "f", "rb") as stream:
        data = stream.read()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    with open(tmp_path / "f", "wb") as stream:
        stream.write(data[:start] + data[start:].replace(b"\x7f", b"\xff"))
    check_statistics(Storage(str(tmp_path)), "f", pq.read_metadata(tmp_path / "f"))


def test_a_file_of_no_rows(tmp_path):
    check(tmp_path, pa.table({"i": pa.array([], pa.int64())}))


def test_only_what_the_footer_does_not_tell_is_read(tmp_path, monkeypatch):
    """One row group has a text that is too long for its statistics; of the others the footer is enough."""
    table = pa.table({"i": range(6), "s": ["a", "b", "c" * 5000, "d", "e", "f"]})
    pq.write_table(table, tmp_path / "f", row_group_size=2)
    read = []
    plain = file_contents.GrowingBounds.add_rows
    monkeypatch.setattr(
        file_contents.GrowingBounds,
        "add_rows",
        lambda self, column: (read.append((self.name, len(column))), plain(self, column)),
    )
    check_statistics(Storage(str(tmp_path)), "f", pq.read_metadata(tmp_path / "f"))
    assert read == [("s", 2)]


@pytest.mark.parametrize("name", DATA_FILES[::9])
def test_files_of_apache_hudi(tmp_path, name):
    with open(tmp_path / "old", "wb") as stream:
        stream.write(FILES[name].data)
    storage = Storage(str(tmp_path))
    edit = FileEdit(texts={"a": "b"})
    check_statistics(storage, "new", splice(storage, "old", "new", edit, BaseFileOptions()).metadata)
