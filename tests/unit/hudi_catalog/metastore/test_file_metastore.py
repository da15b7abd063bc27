"""Trino's file metastore."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import HUDI_FORMAT, SYMLINK_FORMAT, HiveColumn, HivePartition, HiveTable
from table_format.errors import MetastoreError

TABLE = HiveTable(
    "s",
    "t",
    (HiveColumn("a", "bigint", "what it is for, 価"), HiveColumn("b", "array<struct<x:int>>")),
    "file:///a b/%25",
    SYMLINK_FORMAT,
    {"EXTERNAL": "TRUE", "k": "ä=\n"},
)

# What Trino 476 wrote for: create table pt (a bigint comment 'c', p varchar) with (partitioned_by = array['p'])
BY_TRINO = {
    "writerVersion": "476",
    "owner": "t",
    "tableType": "MANAGED_TABLE",
    "dataColumns": [{"name": "a", "type": "bigint", "comment": "c", "properties": {}}],
    "partitionColumns": [{"name": "p", "type": "string", "properties": {}}],
    "parameters": {"trino_version": "476", "transactional": "false", "auto.purge": "false"},
    "storageFormat": "PARQUET",
    "serdeParameters": {},
    "columnStatistics": {},
}


@pytest.fixture
def metastore(tmp_path: Path) -> FileMetastore:
    return FileMetastore(str(tmp_path))


def put_json(folder: Path, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".trinoSchema").write_text(value if isinstance(value, str) else json.dumps(value))


def test_schemas(metastore: FileMetastore, tmp_path: Path) -> None:
    assert metastore.schemas() == []
    assert metastore.create_schema("Sales__snapshots")
    assert not metastore.create_schema("sales__snapshots")
    assert metastore.schemas() == ["sales__snapshots"]
    assert json.loads((tmp_path / ".sales__snapshots.trinoSchema").read_text())["writerVersion"] == "476"
    assert (tmp_path / "sales__snapshots").is_dir()


def test_a_table_comes_back_as_it_was_put(metastore: FileMetastore) -> None:
    metastore.create_schema("s")
    assert metastore.table("s", "t") is None
    metastore.put_table(TABLE)
    assert metastore.table("S", "T") == TABLE
    assert metastore.tables("s") == ["t"]
    assert metastore.tables("other") == []


def test_what_trino_wrote_is_read(metastore: FileMetastore, tmp_path: Path) -> None:
    put_json(tmp_path / "s/pt", BY_TRINO)
    table = metastore.table("s", "pt")
    assert table is not None
    assert table.columns == (HiveColumn("a", "bigint", "c"),)
    assert table.partition_columns == (HiveColumn("p", "string"),)
    assert table.table_type == "MANAGED_TABLE"
    assert (table.location, table.format.input_format) == ("", "")


def test_a_stale_checksum_goes_before_the_file_is_replaced(metastore: FileMetastore, tmp_path: Path) -> None:
    metastore.put_table(TABLE)
    checksum = tmp_path / "s/t/..trinoSchema.crc"
    checksum.write_bytes(b"crc\0")
    metastore.put_table(TABLE)
    assert not checksum.exists()


def test_dropping_leaves_what_else_lies_there(metastore: FileMetastore, tmp_path: Path) -> None:
    metastore.put_table(TABLE)
    assert metastore.drop_table("s", "t")
    assert not (tmp_path / "s/t").exists()
    assert not metastore.drop_table("s", "t")
    put_json(tmp_path / "s/managed", BY_TRINO)
    (tmp_path / "s/managed/data.parquet").write_bytes(b"rows")
    assert metastore.drop_table("s", "managed")
    assert (tmp_path / "s/managed/data.parquet").exists()
    assert metastore.tables("s") == []


@pytest.mark.parametrize("content", ["{", "[]", '{"tableType": 1}', '{"dataColumns": [{}], "tableType": "x"}'])
def test_a_damaged_table_is_named(metastore: FileMetastore, tmp_path: Path, content: str) -> None:
    put_json(tmp_path / "s/t", content)
    with pytest.raises(MetastoreError, match=r"s/t/\.trinoSchema"):
        metastore.table("s", "t")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a\0b"])
def test_names_stay_inside_the_folder(metastore: FileMetastore, name: str) -> None:
    for act in (metastore.table, metastore.drop_table):
        with pytest.raises(MetastoreError, match="cannot be the name"):
            act("s", name)


def test_partitions(metastore: FileMetastore, tmp_path: Path) -> None:
    columns = (HiveColumn("p", "string"), HiveColumn("d", "date"))
    table = HiveTable("s", "t", TABLE.columns, "file:///t", HUDI_FORMAT, {}, columns)
    metastore.put_table(table)
    one = HivePartition(("a b/c%=x", "2020-01-01"), "file:///t/one")
    two = HivePartition(("__HIVE_DEFAULT_PARTITION__", "2020-01-02"), "file:///t/two")
    metastore.put_partitions(table, [one, two])
    # the folder that Trino 476 itself made for these values
    assert (tmp_path / "s/t/p=a b%2Fc%25%3Dx/d=2020-01-01/.trinoSchema").exists()
    assert sorted(metastore.partitions(table), key=lambda p: p.location) == [one, two]
    moved = HivePartition(two.values, "file:///t/three")
    metastore.put_partitions(table, [moved])
    metastore.drop_partitions(table, [one.values, ("never", "2020-01-01")])
    assert metastore.partitions(table) == [moved]


def test_readers_never_see_half_a_table(metastore: FileMetastore) -> None:
    """Readers, writers and droppers at once: a reader sees a whole table or none."""
    versions = [
        HiveTable("s", "t", TABLE.columns * n, f"file:///{n}", SYMLINK_FORMAT, {"n": str(n)}) for n in range(1, 30)
    ]
    problems: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                table = metastore.table("s", "t")
                assert table is None or table in versions
        except BaseException as error:
            problems.append(error)

    def write() -> None:
        try:
            for version in versions * 3:
                metastore.put_table(version)
                if version.parameters["n"].endswith("5"):
                    metastore.drop_table("s", "t")
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write) for _ in range(2)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert problems == []
