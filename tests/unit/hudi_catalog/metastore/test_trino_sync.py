"""Tables registered for Trino."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from hudi_catalog.metastore.entries import symlink_entry
from hudi_catalog.metastore.file_metastore import FileMetastore
from hudi_catalog.metastore.metastore import HUDI_FORMAT, SYMLINK_FORMAT, HiveColumn, HiveTable
from hudi_catalog.metastore.sync_options import SyncOptions
from hudi_catalog.metastore.trino_sync import sync_to_trino
from table_format.errors import MetastoreError, OptionError, UnsupportedTableError
from table_format.meta_columns import META_COLUMNS
from tests.support.golden_renames import RELEASES, lay_out
from tests.support.local_writes import LocalTable
from tests.unit.hudi_catalog.metastore.conftest import rows

Opened = Callable[[], Table]


def listed(entry: HiveTable | None) -> list[str]:
    """Files that Trino reads for an entry on this machine."""
    assert entry is not None
    return Path(entry.location.removeprefix("file://"), "manifest").read_text().splitlines()


def files_of(table: Table) -> list[str]:
    return sorted(str(split.path).replace("file:", "file://", 1) for split in table.scan().plan().splits)


def test_the_entry_lists_exactly_the_snapshots_files(opened: Opened, metastore: FileMetastore) -> None:
    table = opened()
    done = sync_to_trino(table, metastore)
    assert (done.schema, done.name, done.instant) == ("db", "trips", table.snapshot().instant)
    entry = metastore.table("db", "trips")
    assert entry is not None
    assert sorted(listed(entry)) == files_of(table)
    assert all(Path(path.removeprefix("file://")).exists() for path in listed(entry))
    assert entry.format == SYMLINK_FORMAT
    assert entry.partition_columns == ()
    assert [(c.name, c.type) for c in entry.columns] == [
        *((name, "string") for name in META_COLUMNS),
        ("k", "bigint"),
        ("day", "string"),
        ("x", "double"),
    ]
    assert {c.name: c.comment for c in entry.columns}["k"] == "the key"


def test_nothing_is_left_to_do(opened: Opened, metastore: FileMetastore) -> None:
    for also_hudi in (False, True, True):
        sync_to_trino(opened(), metastore, also_hudi=also_hudi)
    assert sync_to_trino(opened(), metastore, also_hudi=True).changes == ()


def test_a_dry_run_changes_nothing(opened: Opened, metastore: FileMetastore, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    done = sync_to_trino(opened(), metastore, dry_run=True, also_hudi=True)
    changes = [str(change) for change in done.changes]
    assert changes[0] == "+ schema db"
    assert "+ column db.trips.k: bigint 'the key'" in changes
    assert any(text.startswith("+ partition day=d 0% of db.trips_hudi: file://") for text in changes)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_new_commit_moves_the_entry(written: LocalTable, opened: Opened, metastore: FileMetastore) -> None:
    sync_to_trino(opened(), metastore)
    first = metastore.table("db", "trips")
    written.write("upsert", rows(10, 30))
    done = sync_to_trino(opened(), metastore)
    second = metastore.table("db", "trips")
    assert first is not None
    assert second is not None
    assert sorted(listed(second)) == files_of(opened())
    assert [change.what for change in done.changes] == [
        "property hoodie.catalog.instant of db.trips",
        "location of db.trips",
    ]
    assert listed(first) != listed(second), "what queries of the older snapshot read stays as it was"


def test_added_columns_and_comments(written: LocalTable, opened: Opened, metastore: FileMetastore) -> None:
    sync_to_trino(opened(), metastore)
    entry = metastore.table("db", "trips")
    assert entry is not None
    columns = [HiveColumn(c.name, c.type, "by a user" if c.name in {"k", "x"} else c.comment) for c in entry.columns]
    metastore.put_table(symlink_entry(HiveTable(**{**vars(entry), "columns": tuple(columns)}), *snapshot_of(opened)))
    wider = rows(0, 5).append_column(pa.field("note", pa.list_(pa.string())), pa.array([["n"]] * 5))
    written.write("upsert", wider, {"hoodie.datasource.write.reconcile.schema": "true"})
    done = sync_to_trino(opened(), metastore)
    assert "+ column db.trips.note: array<string>" in map(str, done.changes)
    after = metastore.table("db", "trips")
    assert after is not None
    assert {c.name: c.comment for c in after.columns if c.comment} == {"k": "the key", "x": "by a user"}


def snapshot_of(opened: Opened) -> tuple[Any, str]:
    return opened().snapshot(), "file:///elsewhere"


def test_options(opened: Opened, metastore: FileMetastore, tmp_path: Path) -> None:
    options = SyncOptions.parse(
        {
            "hoodie.datasource.hive_sync.database": "Other",
            "hoodie.datasource.hive_sync.table": "T2",
            "hoodie.datasource.hive_sync.omit_metadata_fields": "true",
            "hoodie.catalog.sync.locations": f"{tmp_path}/warehouse=local:///w",
            "hoodie.catalog.sync.manifests": f"{tmp_path}/warehouse/lists",
        }
    )
    sync_to_trino(opened(), metastore, options)
    entry = metastore.table("other", "t2")
    assert entry is not None
    assert [c.name for c in entry.columns] == ["k", "day", "x"]
    assert re.fullmatch(r"local:///w/lists/[0-9a-f]{12}/[0-9]{17}__[0-9a-f]{16}", entry.location)
    manifest = Path(entry.location.replace("local:///w", f"{tmp_path}/warehouse"), "manifest").read_text()
    assert all(line.startswith("local:///w/db/trips/d ") for line in manifest.splitlines())
    assert sync_to_trino(opened(), metastore, options).changes == ()
    unsaid = replace(options, locations=None)
    assert sync_to_trino(opened(), metastore, unsaid).changes == (), "unless told otherwise, as the entry says"


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.catalog.sync.unknown": "1"},
        {"hoodie.catalog.sync.pins.retention": "5"},
        {"hoodie.catalog.sync.pins.retention": "nan"},
        {"hoodie.datasource.hive_sync.omit_metadata_fields": "perhaps"},
        {"hoodie.catalog.sync.locations": "x"},
        {"hoodie.catalog.sync.trino.hudi.name": "fixed"},
    ],
)
def test_options_that_fit_nothing(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        SyncOptions.parse(options)


def test_another_table_is_not_written_over(opened: Opened, metastore: FileMetastore, golden: Any) -> None:
    foreign = HiveTable("db", "trips", (HiveColumn("a", "int"),), "file:///x", SYMLINK_FORMAT, {})
    metastore.put_table(foreign)
    with pytest.raises(MetastoreError, match="a table that the sync did not make; drop it"):
        sync_to_trino(opened(), metastore)
    assert metastore.table("db", "trips") == foreign
    metastore.drop_table("db", "trips")
    sync_to_trino(opened(), metastore)
    with pytest.raises(MetastoreError, match=r"db.trips is the Hudi table file:"):
        sync_to_trino(golden("v6_0150__bkt_hive").open(), metastore, SyncOptions(database="db", table="trips"))


def test_a_lost_list_is_made_again(opened: Opened, metastore: FileMetastore) -> None:
    sync_to_trino(opened(), metastore)
    entry = metastore.table("db", "trips")
    assert entry is not None
    content = listed(entry)
    Path(entry.location.removeprefix("file://"), "manifest").unlink()
    sync_to_trino(opened(), metastore)
    assert listed(metastore.table("db", "trips")) == content


@pytest.mark.parametrize("name", ["v6_0150__mor_log", "v8_1020__mor_bkt", "v9_1200__mor_pending"])
def test_merge_on_read_tables_are_read_optimized(copied: Any, metastore: FileMetastore, name: str) -> None:
    table = Table.open(copied(name))
    done = sync_to_trino(table, metastore)
    assert done.name == f"{table.name}_ro"
    entry = metastore.table(done.schema, done.name)
    read = sum(pq.read_metadata(path.removeprefix("file://")).num_rows for path in listed(entry))
    assert read == table.scan(query_type="read_optimized").count()


def test_tables_whose_files_lack_columns_are_refused(copied: Any, metastore: FileMetastore) -> None:
    path = copied("v6_0150__bkt_hive", {"hoodie.datasource.write.drop.partition.columns": "true"})
    with pytest.raises(UnsupportedTableError, match=r"lack the partition columns part .*serve trino"):
        sync_to_trino(Table.open(path), metastore)
    assert metastore.schemas() == []


@pytest.mark.parametrize("release", RELEASES)
def test_renamed_columns_are_refused(release: str, tmp_path: Path, metastore: FileMetastore) -> None:
    base, _ = lay_out(release, str(tmp_path))
    with pytest.raises(UnsupportedTableError, match=r"was renamed, replaced or changed since files of [0-9]+"):
        sync_to_trino(Table.open(base), metastore)


def test_partitions_for_the_hudi_connector(written: LocalTable, opened: Opened, metastore: FileMetastore) -> None:
    sync_to_trino(opened(), metastore, also_hudi=True)
    entry = metastore.table("db", "trips_hudi")
    assert entry is not None
    assert entry.format == HUDI_FORMAT
    assert [c.name for c in entry.partition_columns] == ["day"]
    assert "day" not in [c.name for c in entry.columns]
    base = "file://" + opened().client.storage.base
    assert entry.location == base
    locations = {one.values: one.location for one in metastore.partitions(entry)}
    assert locations == {(f"d {n}%",): f"{base}/d {n}%" for n in range(3)}
    written.write("delete_partition", partitions=["d 1%"])
    done = sync_to_trino(opened(), metastore, also_hudi=True)
    assert [change.kind for change in done.changes if change.what.startswith("partition ")] == ["drop"]
    assert {one.values for one in metastore.partitions(entry)} == {("d 0%",), ("d 2%",)}


@pytest.mark.parametrize("name", ["v6_0150__bkt_slash", "v6_1200__rli_part"])
def test_partitions_of_unknown_values_are_refused(golden: Any, metastore: FileMetastore, name: str) -> None:
    with pytest.raises(UnsupportedTableError, match="cannot be registered for Trino's Hudi connector"):
        sync_to_trino(golden(name).open(), metastore, also_hudi=True, dry_run=True)
