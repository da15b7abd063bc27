"""Texts that are not valid UTF-8: refused in rows to write, carried along in files of other writers."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import Table, create_table
from table_format.errors import RecordError
from table_writer.rows import slot_rows

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.string())])


def texts(*values: bytes, kind: pa.DataType | None = None) -> Any:
    """An array of texts, valid or not."""
    return pa.array(values, pa.binary()).view(pa.string()).cast(kind or pa.string(), safe=False)


BROKEN = texts(b"fine", b"a\xff")
COLUMNS = {
    "text": BROKEN,
    "large": texts(b"fine", b"a\xff", kind=pa.large_string()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1]), BROKEN, safe=False),
    "struct": pa.StructArray.from_arrays([BROKEN], ["x"]),
    "list": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BROKEN),
}


def made(folder: Path, schema: pa.Schema, index: str, statistics: str = "true") -> Table:
    options = {"hoodie.metadata.index.column.stats.enable": statistics, "hoodie.parquet.small.file.limit": "0"}
    return create_table(folder / "t", schema, record_key="k", index=index, options=options)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
@pytest.mark.parametrize("statistics", ["true", "false"])
def test_the_column_is_named_whatever_is_indexed(tmp_path: Path, index: str, statistics: str, kind: str) -> None:
    rows = pa.table({"k": ["a", "b"], "v": COLUMNS[kind]})
    table = made(tmp_path, rows.schema, index, statistics)
    for write in (table.upsert, table.bulk_insert):
        with pytest.raises(RecordError, match=r"column 'v' has a text that is not valid UTF-8"):
            write(rows)
    assert not table.history()[-1:] or table.scan().count() == 0
    table.upsert(rows.slice(0, 1))
    assert table.scan().count() == 1


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_keys_are_named_too(tmp_path: Path, index: str) -> None:
    with pytest.raises(RecordError, match=r"column 'k' has a text that is not valid UTF-8"):
        made(tmp_path, SCHEMA, index).upsert(pa.table({"k": BROKEN, "v": ["x", "y"]}))


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_those_of_another_writer_are_carried_along(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no statistics, so that no filter leaves it out."""
    table = made(tmp_path, SCHEMA, index)
    with monkeypatch.context() as patch:
        patch.setattr(slot_rows, "_refuse_broken_texts", lambda _: None)
        table.upsert(pa.table({"k": ["a", "b", "c"], "v": texts(b"fine", b"a\xff", b"z")}))
    table.upsert([{"k": "a", "v": "new"}])
    table.cluster("k")
    table.build_index("column_stats")
    assert len(table.scan("v = 'zz'").plan()) == 1
    rows = table.scan(columns=["k", "v"]).to_arrow().sort_by("k")
    assert rows["v"].combine_chunks().view(pa.binary()).to_pylist() == [b"new", b"a\xff", b"z"]
