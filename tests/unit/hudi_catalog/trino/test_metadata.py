"""Schemas, tables and columns as the connectors list them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_catalog.trino.types import TypeMapping, columns_of
from tests.support.trino_calls import T
from tests.support.trino_client import NAMES, ROWS, FailedError, served


@pytest.mark.parametrize("name", NAMES)
def test_what_there_is(warehouse: Path, name: str) -> None:
    service = served(warehouse)
    assert service.ask("ListSchemaNames", name=name) == ["db", "default"]
    listed = service.ask("ListTables", T.TrinoThriftNullableSchemaName(None), name=name)
    assert [(one.schemaName, one.tableName) for one in listed] == [("db", "trips_1")]  # and not the broken one
    assert service.ask("ListTables", T.TrinoThriftNullableSchemaName("default"), name=name) == []
    metadata = service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", "trips_1"), name=name).tableMetadata
    assert [(one.name, one.type, one.hidden) for one in metadata.columns] == [
        ("hoodie_commit_time", "varchar", True),
        ("hoodie_commit_seqno", "varchar", True),
        ("hoodie_record_key", "varchar", True),
        ("hoodie_partition_path", "varchar", True),
        ("hoodie_file_name", "varchar", True),
        ("k", "bigint", False),
        ("day", "varchar", False),
        ("grou00dfe", "double", False),
        ("price", "double", False),
    ]
    assert metadata.columns[5].comment == "the key"
    assert "Größe" in metadata.columns[7].comment
    assert metadata.comment.startswith("Hudi table, copy on write, version ")
    assert metadata.indexableKeys is None


@pytest.mark.parametrize("table", ["nothing", "trips_2", "trips_1__at_2026", "trips-1"])
def test_a_table_that_is_not_there(warehouse: Path, table: str) -> None:
    answer = served(warehouse).ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", table))
    assert answer.tableMetadata is None


def test_a_table_that_cannot_be_read_says_why(warehouse: Path) -> None:
    with pytest.raises(FailedError, match="version") as caught:
        served(warehouse).ask("GetTableMetadata", T.TrinoThriftSchemaTableName("default", "broken"))
    assert not caught.value.struct.retryable


def test_a_new_table_is_found_at_once(warehouse: Path, tmp_path: Path) -> None:
    shutil.copytree(warehouse / "Db", tmp_path / "db")
    service = served(tmp_path)
    name = T.TrinoThriftSchemaTableName("db", "later")
    assert service.ask("GetTableMetadata", name).tableMetadata is None
    shutil.copytree(tmp_path / "db" / "Trips-1", tmp_path / "db" / "later")
    time.sleep(0.6)  # the warehouse is not listed more often than each half second
    assert service.ask("GetTableMetadata", name).tableMetadata is not None
    shutil.rmtree(tmp_path / "db" / "later")
    assert service.ask("GetTableMetadata", name).tableMetadata is None


def test_a_table_as_of_a_time(warehouse: Path) -> None:
    service = served(warehouse)
    instant = min(one[0] for one in service.rows(service.splits(), ["hoodie_commit_time"])).decode()
    table = f"trips_1__at_{instant}"
    metadata = service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", table)).tableMetadata
    assert (metadata.schemaTableName.tableName, len(metadata.columns)) == (table, 9)
    assert metadata.comment.endswith(str(warehouse / "Db" / "Trips-1"))
    assert f"as of {instant}" in metadata.comment
    assert len(service.rows(service.splits(table=table), ["k"])) == ROWS - 10
    with pytest.raises(FailedError, match="oldest commit"):
        service.ask("GetTableMetadata", T.TrinoThriftSchemaTableName("db", "trips_1__at_20010101"))


def test_indexable_keys_are_told_where_it_is_asked_for(warehouse: Path) -> None:
    name = T.TrinoThriftSchemaTableName("db", "trips_1")
    for pattern, listed in (("*", True), ("other.*,db.TRIPS*", True), ("db.other", False), ("trips_1", False)):
        keys = served(warehouse, index_joins=pattern).ask("GetTableMetadata", name).tableMetadata.indexableKeys
        assert (keys is not None) == listed
        if listed:
            sets = [set(one) for one in keys]
            assert sets == [{"k"}, {"k", "day"}, {"hoodie_record_key"}, {"hoodie_record_key", "day"}]


def test_a_decimal_that_is_text_says_so_in_its_comment() -> None:
    price = pa.field("Price €", pa.decimal128(20, 2), metadata={"comment": "net"})
    (column,) = columns_of(pa.schema([price]), TypeMapping())
    assert column.trino_type == "varchar"
    assert column.comment == "Price € in the table: net; decimal(20, 2) as text: cast it to compare or add"
    assert columns_of(pa.schema([price.with_type(pa.decimal128(15, 2))]), TypeMapping())[0].trino_type == "double"
