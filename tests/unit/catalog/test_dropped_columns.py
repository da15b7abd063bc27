"""Tables whose files lack the partition columns: paths give their values, or the column is refused."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import Table
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
