"""Files that are open for surgery: their columns as pyarrow itself reads them."""

import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.storage import Storage
from table_writer.surgery.opened import decimals_of, open_file


@pytest.mark.parametrize("width", range(1, 17))
def test_unscaled_numbers_of_any_width_are_decimals(width):
    ends = [-(1 << 8 * width - 1), (1 << 8 * width - 1) - 1]
    numbers = [0, -1, 1, *ends, None, *(end // 3 for end in ends), 5]
    most = 10**38
    numbers = [None if number is None or abs(number) >= most else number for number in numbers]
    stored = [None if number is None else number.to_bytes(width, "big", signed=True) for number in numbers]
    expected = pa.array([None if number is None else decimal.Decimal(number) for number in numbers], pa.decimal128(38))
    array = pa.array(stored, pa.binary(width))
    assert decimals_of(array, pa.decimal128(38)).equals(expected)
    assert decimals_of(array.slice(3, 4), pa.decimal128(38)).equals(expected.slice(3, 4))
    assert decimals_of(array.slice(0, 0), pa.decimal128(38)).equals(expected.slice(0, 0))


def test_decimals_are_read_as_pyarrow_reads_them(tmp_path):
    texts = ["-0.01", None, "0", "12.34", "-99.99", "99.99"]
    numbers = [None if text is None else decimal.Decimal(text) for text in texts]
    kinds = {"narrow": (4, 2), "middle": (18, 2), "wide": (19, 4), "widest": (38, 10), "only_nulls": (9, 2)}
    columns = {name: pa.array(numbers, pa.decimal128(*kind)) for name, kind in kinds.items()}
    columns["only_nulls"] = pa.nulls(len(numbers), pa.decimal128(9, 2))
    # members of the same name as a column, and decimals within others
    columns["within"] = pa.array([{"narrow": number, "x": number} for number in numbers])
    columns["list"] = pa.array([[number] for number in numbers])
    columns["text"] = pa.array(texts).dictionary_encode()
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=4, store_schema=False)
    plain = pq.read_table(tmp_path / "f.parquet")
    with open_file(Storage(str(tmp_path)), "f.parquet", plain.schema) as opened:
        assert opened.read([0, 1], plain.column_names).equals(plain.combine_chunks())
        assert opened.read([1], ["text", "wide"]).equals(plain.select(["text", "wide"]).slice(4).combine_chunks())


def test_other_forms_of_decimals_are_read(tmp_path):
    table = pa.table({"d": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-2.5")], pa.decimal128(9, 1))})
    pq.write_table(table, tmp_path / "f.parquet", store_decimal_as_integer=True, store_schema=False)
    with open_file(Storage(str(tmp_path)), "f.parquet", table.schema) as opened:
        assert opened.read([0], ["d"]).equals(table)
