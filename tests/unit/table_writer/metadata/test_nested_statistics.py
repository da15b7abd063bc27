"""Statistics of fields of structs that the column list names, through all paths by which files are written."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hudi_catalog
from table_format.errors import OptionError
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_writer.metadata.column_statistics import COLUMN_LIST, collect_statistics, indexable_columns
from table_writer.metadata.file_contents import statistics_of_file

INNER = pa.struct([("f", pa.float64()), ("d", pa.date32())])
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", INNER), ("l", pa.list_(pa.int32()))])
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("n", STRUCT)])
NAMES = ["n.a", "n.b", "n.c.f"]
LIST = {COLUMN_LIST: "v, n.a,n.b,n.c.f,n.l"}


def rows(keys: range, v: int) -> pa.Table:
    def struct(key: int) -> Any:
        if key % 5 == 0:
            return None
        inner = None if key % 3 == 0 else {"f": key / 4 + v, "d": None}
        return {"a": None if key % 7 == 0 else 100 * v + key, "b": f"b{key}", "c": inner, "l": [1]}

    data = [{"id": f"k{key:03d}", "p": "xy"[key % 2], "v": v, "n": struct(key)} for key in keys]
    return pa.Table.from_pylist(data, SCHEMA)


def check(path: Path) -> None:
    """Statistics of every file are those of its rows."""
    table = hudi_catalog.open_table(path)
    metadata = MetadataTable.open(table.client, table.client.timeline())
    assert metadata is not None
    paths = [str(split.path).removeprefix("file:") for split in table.scan().plan().splits]
    for name in ("v", *NAMES):
        root, *parts = name.split(".")
        kind: Any = SCHEMA.field(root).type
        for part in parts:
            kind = kind.field(part).type
        stats = {row["file_name"]: row for row in metadata.column_stats(name, kind).to_pylist()}
        for file in paths:
            column = pq.ParquetFile(file).read()[root]
            for part in parts:
                column = pc.struct_field(column, part)
            row, extremes = stats[Path(file).name], pc.min_max(column)
            assert (row["min"], row["max"]) == (extremes["min"].as_py(), extremes["max"].as_py()), name
            assert (row["null_count"], row["value_count"]) == (column.null_count, len(column)), name


@pytest.mark.parametrize("surgery", ["always", "never"])
@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_every_path_of_writing(tmp_path: Path, surgery: str, index: str) -> None:
    options = {
        **LIST,
        "hoodie.index.type": index,
        "hoodie.catalog.write.surgery": surgery,
        "hoodie.catalog.write.surgery.min.file.size": "1",
    }
    buckets = 2 if index == "BUCKET" else None
    path = tmp_path / "t"
    table = hudi_catalog.create_table(path, SCHEMA, record_key="id", partition_by="p", buckets=buckets, options=options)
    table.upsert(rows(range(100), 1))
    check(path)
    table.upsert(rows(range(40, 50), 2))
    check(path)
    table.delete(rows(range(10), 2))
    table.upsert(rows(range(98, 130), 3))
    check(path)
    assert table.cluster(["v"]).state == "completed"
    check(path)
    table.drop_index("column_stats")
    table.build_index("column_stats", LIST)
    check(path)
    table.upsert(rows(range(60, 64), 4))
    check(path)
    read = hudi_catalog.open_table(path)
    values = [(row["n"] or {}).get("a") or 0 for row in read.scan().to_arrow().to_pylist()]
    assert read.scan("n.a > 420").count() == sum(value > 420 for value in values) > 0


def test_footer_and_rows_give_the_same(tmp_path: Path) -> None:
    table = rows(range(50), 1)
    pq.write_table(table, tmp_path / "f", row_group_size=20)
    metadata = pq.read_metadata(tmp_path / "f")
    collected = collect_statistics(table, "f", "", ["v", *NAMES, "n.absent"], metadata)
    spliced = statistics_of_file(
        Storage(str(tmp_path)), "f", metadata, SCHEMA, ["v", *NAMES, "n.absent"], file_name="f", partition=""
    )
    assert collected.to_pylist() == spliced.to_pylist()
    assert collected["column"].to_pylist() == ["v", *NAMES]
    assert min(collected["total_size"].to_pylist()) > 0


def test_which_names_are_known() -> None:
    assert indexable_columns(SCHEMA, LIST) == ["v", *NAMES]
    for name in ("n.x", "n.a.x", "m.a", "n.c.g", "v.a"):
        with pytest.raises(OptionError, match="which are not columns of the table"):
            indexable_columns(SCHEMA, {COLUMN_LIST: f"v,{name}"})
