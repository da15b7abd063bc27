"""Tables whose files lack the partition columns: paths give their values, or the column is refused."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog.table import create_table
from table_format.errors import UnsupportedTableError
from tests.unit.conftest import GoldenTable

DROPPED = {"hoodie.datasource.write.drop.partition.columns": "true"}
Copied = Callable[..., str]


def without(path: str, column: str, partition: str = "**") -> None:
    """The column taken out of the table's files."""
    for file in Path(path).glob(f"{partition}/*.parquet"):
        if ".hoodie" not in file.parts:
            table = pq.read_table(file, partitioning=None)
            pq.write_table(table.drop_columns([column]), file)


@pytest.fixture
def dropped(copied: Copied) -> str:
    path = copied("v6_0150__bkt_hive", DROPPED, metadata_table=False)
    (column,) = Table.open(path).config.partition_fields
    without(path, column)
    return path


def rows(table: Any, columns: list[str]) -> Counter[Any]:
    return Counter(map(repr, table.scan(columns=columns).to_arrow().to_pylist()))


def test_paths_tell_them(dropped: str, golden: Callable[[str], GoldenTable]) -> None:
    table, whole = Table.open(dropped), golden("v6_0150__bkt_hive").open()
    assert rows(table, whole.schema.names) == rows(whole, whole.schema.names)
    assert sum(rows(table, list(table.config.partition_fields)).values()) > 10


def test_a_column_that_nothing_tells_is_refused(copied: Copied) -> None:
    path = copied(
        "v6_0150__bkt_hive", {**DROPPED, "hoodie.table.keygenerator.class": "org.example.Own"}, metadata_table=False
    )
    table = Table.open(path)
    (column,) = table.config.partition_fields
    whole = rows(table, table.schema.names)  # the files still have it
    without(path, column)
    table = Table.open(path)
    with pytest.raises(UnsupportedTableError, match=f"partition .*{column}.*leave this column out"):
        table.scan().to_arrow()
    others = [name for name in table.schema.names if name != column]
    assert sum(rows(table, others).values()) == sum(whole.values())


def test_values_that_the_files_have_stay(copied: Copied, golden: Callable[[str], GoldenTable]) -> None:
    path = copied(
        "v6_0150__bkt_hive", {**DROPPED, "hoodie.table.keygenerator.class": "org.example.Own"}, metadata_table=False
    )
    table, whole = Table.open(path), golden("v6_0150__bkt_hive").open()
    assert rows(table, table.schema.names) == rows(whole, whole.schema.names)


def test_values_that_only_some_rows_have_are_refused(copied: Copied) -> None:
    """As Apache 0.15's upserts leave them: rows that they carry over from a file without the column are null."""
    path = copied(
        "v6_0150__bkt_hive", {**DROPPED, "hoodie.table.keygenerator.class": "org.example.Own"}, metadata_table=False
    )
    (column,) = Table.open(path).config.partition_fields
    for file in Path(path).glob("**/*.parquet"):
        if ".hoodie" not in file.parts:
            stored = pq.read_table(file, partitioning=None)
            at, held = stored.column_names.index(column), stored[column].to_pylist()
            values = pa.array([None, *held[1:]], stored.schema.field(at).type)
            pq.write_table(stored.set_column(at, column, values), file)
    with pytest.raises(UnsupportedTableError, match=f"partition .*{column}.*leave this column out"):
        Table.open(path).scan().to_arrow()


def without_in_schemas(path: str, column: str) -> None:
    """The column taken out of the schemas of the table's commits, as Apache's writes of DataFrames leave it out."""
    for commit in Path(path, ".hoodie").glob("*commit"):
        metadata = json.loads(commit.read_text())
        schema = json.loads(metadata["extraMetadata"]["schema"])
        schema["fields"] = [field for field in schema["fields"] if field["name"] != column]
        metadata["extraMetadata"]["schema"] = json.dumps(schema)
        commit.write_text(json.dumps(metadata))


@pytest.mark.parametrize("index", [{}, {"hoodie.table.metadata.partitions": "record_index"}])
def test_columns_that_no_schema_names_are_text_of_the_paths(
    copied: Copied, golden: Callable[[str], GoldenTable], index: dict[str, str]
) -> None:
    path = copied("v6_0150__bkt_hive", {**DROPPED, **index}, metadata_table=False)
    (column,) = Table.open(path).config.partition_fields
    without(path, column)
    without_in_schemas(path, column)
    table, whole = Table.open(path), golden("v6_0150__bkt_hive").open()
    assert table.schema.field(column) == pa.field(column, pa.string())
    assert table.schema.names[-1] == column
    assert rows(table, whole.schema.names) == rows(whole, whole.schema.names)
    value = next(value for value in whole.scan(columns=[column]).to_arrow()[column].unique().to_pylist() if value)
    of_value = table.scan(f"{column} = '{value}'")
    assert of_value.to_arrow().num_rows == whole.scan(f"{column} = '{value}'").to_arrow().num_rows == of_value.count()
    assert len(of_value.plan()) < len(table.scan().plan())


def test_statistics_of_values_that_paths_replace_are_not_used(tmp_path: Path) -> None:
    """Null and the empty text have one path, which gives null; files and statistics may know the other."""
    columns = pa.schema([("id", pa.int64()), ("p", pa.string())])
    made = create_table(tmp_path / "t", columns, record_key="id", partition_by="p", buckets=1)
    made.upsert([{"id": 1, "p": ""}, {"id": 2, "p": "x"}])
    made.upsert([{"id": 3, "p": ""}])
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "checksum" not in line and "drop.part" not in line]
    properties.write_text("\n".join([*lines, *(f"{key}={value}" for key, value in DROPPED.items()), ""]))
    table = Table.open(str(tmp_path / "t"))
    for where, ids in {"p IS NULL": [1, 3], "p = ''": [], "p IS NOT NULL": [2], "p < 'y'": [2]}.items():
        scan = table.scan(where)
        assert sorted(scan.to_arrow()["id"].to_pylist()) == ids, where
        assert scan.count() == len(ids), where


@pytest.mark.parametrize("left_out", [[], ["hoodie.keygen.timebased.timestamp.type"]], ids=["", "0.15"])
def test_patterns_of_times_are_text_of_the_paths(copied: Copied, left_out: list[str]) -> None:
    """As in Spark: what the pattern left out of a value is gone. Apache 0.15 does not write down the type of times."""
    times = {
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyyMM",
        "hoodie.keygen.timebased.timezone": "UTC",
    }
    times = {key: value for key, value in times.items() if key not in left_out}
    path = copied("v6_0150__bkt_hive", {**DROPPED, **times}, metadata_table=False)
    (column,) = Table.open(path).config.partition_fields
    without(path, column)
    table = Table.open(path)
    by_path = Counter(row[column] for row in table.scan(columns=[column]).to_arrow().to_pylist())
    folders = {name.partition("=")[2] for name in table.snapshot().partitions}
    assert {value for value in by_path if value is not None} <= folders
    assert None in by_path
    assert sum(by_path.values()) == table.scan().count()
