"""Whole jobs with row-group surgery: the summary, and options."""

import io
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from table_format.errors import OptionError
from table_writer.files.file_change import EncodedWork
from table_writer.record_index.verify import verify_index
from table_writer.summary import WriteSummary
from tests.support.local_writes import LocalTable
from tests.support.reading import current_paths, current_rows
from tests.support.surgery_files import ALWAYS, rows_per_group

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
}
INDEXES = {"BUCKET": {"hoodie.bucket.index.num.buckets": "2"}, "RECORD_INDEX": {"hoodie.index.type": "RECORD_INDEX"}}
ROWS = pa.table(
    {
        "id": [f"k{number:02d}" for number in range(60)],
        "p": [f"p{number % 2}" for number in range(60)],
        "a": list(range(60)),
        "b": ["b"] * 60,
    }
)


@pytest.fixture(params=sorted(INDEXES))
def table(request, tmp_path):
    with rows_per_group(5):
        made = LocalTable.create(str(tmp_path / "t"), ROWS.schema, OPTIONS | INDEXES[request.param])
        made.write("upsert", ROWS)
        yield made


def chunks(path: pathlib.Path) -> list[bytes]:
    metadata, data = pq.read_metadata(path), path.read_bytes()
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    return [data[at : at + column.total_compressed_size] for at, column in zip(starts, columns, strict=True)]


def test_the_summary_tells_what_was_encoded(table):
    folder = pathlib.Path(table.client.storage.full_path(""))
    before = {path: set(chunks(folder / path)) for path in current_paths(table.client)}
    some = ROWS.slice(10, 4).set_column(2, "a", pa.array([1, 2, 3, 4]))
    summary = table.write("upsert", some, ALWAYS)
    old = set().union(*before.values())
    touched = [path for path in current_paths(table.client) if path not in before]
    pages = [page for path in touched for page in chunks(folder / path)]
    encoded = [page for page in pages if page not in old]
    assert summary.files_spliced == summary.files_written == len(touched)
    assert summary.chunks_encoded == len(encoded)
    assert summary.bytes_encoded == sum(map(len, encoded))
    assert summary.bytes_copied == sum(map(len, pages)) - summary.bytes_encoded
    assert f"({summary.bytes_encoded / 1e6:,.1f} MB of it encoded, {len(encoded)} column chunks" in str(summary)


@pytest.mark.slow
def test_histories_of_both_indexes(table):
    expected = {row["id"]: row for row in ROWS.to_pylist()}
    fresh = pa.Table.from_pylist([{"id": f"k{n}", "p": f"p{n % 2}", "a": n, "b": "new"} for n in (55, 70, 71)])
    table.write("upsert", fresh, ALWAYS)
    expected |= {row["id"]: row for row in fresh.to_pylist()}
    table.write("delete", ROWS.slice(0, 7).select(["id", "p"]), ALWAYS)
    expected = {key: row for key, row in expected.items() if key >= "k07"}
    some = pa.table({"id": ["k20", "k90"], "p": ["p0", "p0"], "b": ["only", "these"]})
    table.write("upsert", some, {**ALWAYS, "hoodie.catalog.write.partial.columns": "true"})
    expected["k20"]["b"] = "only"
    expected["k90"] = {"id": "k90", "p": "p0", "a": None, "b": "these"}
    stored = current_rows(table.client).select(["id", "p", "a", "b"]).to_pylist()
    assert sorted(stored, key=lambda row: row["id"]) == [expected[key] for key in sorted(expected)]
    if "hoodie.index.type" in table.options.texts:
        assert verify_index(table.client).is_right


def test_wrong_options_are_refused(table):
    with pytest.raises(OptionError, match=r"hoodie.catalog.write.surgery='never ever'"):
        table.write("upsert", ROWS.slice(0, 1), {"hoodie.catalog.write.surgery": "never ever"})


def test_the_table_of_the_summary():
    work = EncodedWork.total([EncodedWork(1_500_000, 8_000_000, 7, 2, 1), EncodedWork(500_000, 0, 9, 1, 0)])
    summary = WriteSummary.of("t", "upsert", "1", [], replaced=0, seconds=1.0, works=[])
    assert "encoded" not in str(summary)
    summary = WriteSummary("t", "upsert", "1", files_spliced=1, bytes_encoded=work.bytes_encoded, chunks_encoded=16)
    console = Console(file=io.StringIO(), width=200)
    console.print(summary)
    text = console.file.getvalue()
    assert "MB encoded" in text
    assert " 2.0 " in text
    assert " 16 " in text
