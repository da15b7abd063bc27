"""The page check detects faults, so that its success is meaningful."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.codecs.thrift_compact import read_struct, write_struct
from tests.support.parquet_pages import check_pages


@pytest.fixture(scope="module")
def data():
    table = pa.table({"i": range(2000), "s": [f"t{i % 9}" for i in range(2000)], "l": [[i, i] for i in range(2000)]})
    sink = io.BytesIO()
    pq.write_table(
        table, sink, row_group_size=1000, data_page_size=500, write_page_index=True, write_page_checksum=True
    )
    return sink.getvalue()


def changed(data, change):
    """The file with something in its footer changed."""
    size = int.from_bytes(data[-8:-4], "little")
    footer, _ = read_struct(data[-8 - size : -8])
    change(footer)
    raw = write_struct(footer)
    return data[: -8 - size] + raw + len(raw).to_bytes(4, "little") + b"PAR1"


def chunk(footer, group=1, column=0):
    return footer[4][1][1][group][1][1][1][column]


def test_a_good_file(data):
    report = check_pages(data)
    assert (report.rows, report.groups, report.chunks, report.offset_indexes) == (2000, 2, 6, 6)
    assert report.checksums == report.pages + report.dictionary_pages > 10


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda footer: footer.update({3: (6, 1999)}), "rows of the file"),
        (lambda footer: footer[4][1][1][0].update({2: (6, 1)}), "total_byte_size"),
        (lambda footer: footer[4][1][1][0].update({5: (6, 5)}), "file_offset"),
        (lambda footer: footer[4][1][1][1].update({7: (4, 0)}), "ordinal"),
        (lambda footer: chunk(footer)[3][1].update({5: (6, 999)}), "num_values"),
        (lambda footer: chunk(footer)[3][1].update({6: (6, 999)}), "total_uncompressed_size"),
        (lambda footer: chunk(footer)[3][1].update({2: (9, (5, []))}), "encodings"),
        (lambda footer: chunk(footer)[3][1][12][1].update({3: (6, 5)}), "null_count"),
        (lambda footer: chunk(footer).update({4: chunk(footer, 0)[4], 5: chunk(footer, 0)[5]}), "offset index"),
        (lambda footer: chunk(footer).update({6: chunk(footer, 0)[6], 7: chunk(footer, 0)[7]}), "overlaps"),
    ],
)
def test_a_footer_that_lies(data, change, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_pages(changed(data, change))


def test_a_page_that_is_not_what_was_written(data):
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(1).column(0).data_page_offset
    broken = bytearray(data)
    broken[start + 60] ^= 1
    with pytest.raises(AssertionError, match="checksum"):
        check_pages(bytes(broken))
