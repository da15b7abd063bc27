"""Tables registered for Hive and Spark."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.metastore import sync_options as keys
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.metastore import (
    HANDLER_FORMAT,
    HUDI_FORMAT,
    HUDI_REAL_TIME_FORMAT,
    ROW_HANDLER_FORMAT,
    HiveColumn,
    HivePartition,
    HiveTable,
)
from hudi_catalog.metastore.sync_options import SyncOptions
from table_format.errors import MetastoreError, OptionError, UnsupportedTableError
from table_format.meta_columns import META_COLUMNS
from table_writer.metadata.writer import drop_metadata_table
from tests.support.golden_renames import RELEASES, lay_out
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import MemoryMetastore
from tests.unit.hudi_catalog.metastore.conftest import rows

Opened = Callable[[], Table]
EVOLVING = {"hoodie.datasource.write.reconcile.schema": "true"}


def options(**values: str) -> SyncOptions:
    return SyncOptions.parse({getattr(keys, name): value for name, value in values.items()})


def held(store: MemoryMetastore, name: str = "trips", schema: str = "db") -> HiveTable:
    entry = store.table(schema, name)
    assert entry is not None
    return entry


def days(store: MemoryMetastore, name: str = "trips") -> list[str]:
    return sorted(one.values[0] for one in store.partitions(held(store, name)))


def test_an_entry_for_the_handler(opened: Opened, store: MemoryMetastore) -> None:
    done = sync_to_hive(opened(), store, options(SERVICE="planner:9790"))
    assert (done.schema, done.names, done.instant) == ("db", ("trips",), opened().snapshot().instant)
    entry = held(store)
    assert replace(entry.format, serde_parameters={}) == HANDLER_FORMAT
    assert entry.partition_columns == ()
    assert [(c.name, c.type) for c in entry.columns] == [
        *((name, "string") for name in META_COLUMNS),
        ("k", "bigint"),
        ("day", "string"),
        ("x", "double"),
    ]
    assert {c.name: c.comment for c in entry.columns if c.comment} == {"k": "the key"}
    base = "file://" + opened().client.storage.base
    assert (entry.location, entry.table_type) == (base, "EXTERNAL_TABLE")
    properties = entry.parameters
    assert properties["storage_handler"] == "hudicatalog.hive.HudiStorageHandler"
    assert properties["EXTERNAL"] == "TRUE"
    assert properties["hoodie.catalog.hive.service"] == "planner:9790"
    assert properties["last_commit_time_sync"] == done.instant
    assert properties["last_commit_completion_time_sync"] >= done.instant
    assert "hoodie.catalog.hive.query.type" not in properties
    assert entry.format.serde_parameters == {"path": base, "hoodie.query.as.ro.table": "false"}


@pytest.mark.parametrize("by", ["handler", "apache", "symlink"])
def test_what_hive_would_delete_the_table_with_is_warned_of(opened: Opened, store: MemoryMetastore, by: str) -> None:
    base = "file://" + opened().client.storage.base
    store.folders["db"] = ["s3://lake/db.db", "file:/elsewhere"]
    assert sync_to_hive(opened(), store, format=by).warnings == ()
    store.folders["db"] = ["s3://lake/db.db", f"file:{Path(opened().client.storage.base).parent}"]
    (danger,) = sync_to_hive(opened(), store, format=by).warnings
    assert danger.startswith(f"{base} lies inside file:/")
    assert "DROP DATABASE db deletes the table's files" in danger
    assert "ALTER DATABASE … SET LOCATION" in danger
    store.folders["db"] = [f"{base[:-1]}"]
    assert sync_to_hive(opened(), store, format=by).warnings == (), "another folder, with a shorter name"
    entry = held(store)
    store.put_table(replace(entry, parameters={**entry.parameters, "external.table.purge": "TRUE"}))
    (danger,) = sync_to_hive(opened(), store).warnings
    assert danger.startswith("db.trips has external.table.purge=true: DROP TABLE deletes the table's files")


def test_an_entry_tells_how_large_the_table_is(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    """Else Hive lists the table's folder while it compiles a query."""
    sync_to_hive(opened(), store)
    first = held(store).parameters["totalSize"]
    assert int(first) == opened().snapshot().live_bytes > 0
    counted = {key: int(held(store).parameters[key]) for key in ("numRows", "numFiles")}
    assert counted == {"numRows": opened().scan().to_arrow().num_rows, "numFiles": opened().snapshot().live_rows.size}
    written.write("insert", rows(100, 50))
    sync_to_hive(opened(), store)
    assert int(held(store).parameters["totalSize"]) == opened().snapshot().live_bytes > int(first)
    # what somebody else counted is believed for as long as the commit is the same
    entry = held(store)
    store.put_table(replace(entry, parameters={**entry.parameters, "totalSize": "7"}))
    assert sync_to_hive(opened(), store).changes == ()
    sync_to_hive(opened(), store, format="apache")
    assert not {"totalSize", "numRows", "numFiles"} & set(held(store).parameters)


def test_rows_that_are_only_estimated_are_not_recorded(opened: Opened, store: MemoryMetastore) -> None:
    """Whoever reads the entry takes them for a count."""
    drop_metadata_table(opened().client)
    sync_to_hive(opened(), store)
    parameters = held(store).parameters
    assert "numRows" not in parameters
    assert int(parameters["numFiles"]) == opened().snapshot().live_rows.size


@pytest.mark.parametrize("form", ["handler", "apache", "symlink"])
def test_nothing_is_left_to_do(written: LocalTable, opened: Opened, store: MemoryMetastore, form: str) -> None:
    assert sync_to_hive(opened(), store, format=form).changes
    assert sync_to_hive(opened(), store, format=form).changes == ()
    written.write("upsert", rows(0, 3))
    changes = [str(change) for change in sync_to_hive(opened(), store, format=form).changes]
    assert any("hoodie.catalog.instant" in text for text in changes)
    assert not any("column" in text for text in changes)
    before = store.steps
    assert sync_to_hive(opened(), store).changes == (), "without a format, the entry's own"
    assert store.steps - before < 7


@pytest.mark.parametrize("form", ["handler", "apache", "symlink"])
def test_a_dry_run_changes_nothing(opened: Opened, store: MemoryMetastore, form: str) -> None:
    changes = list(map(str, sync_to_hive(opened(), store, format=form, dry_run=True).changes))
    assert changes[:2] == ["+ schema db", changes[1]]
    assert "+ column db.trips.k: bigint 'the key'" in changes
    assert (store.databases, store.held) == ({"default"}, {})
    if form != "symlink":
        assert list(map(str, sync_to_hive(opened(), store, format=form).changes)) == changes


def test_spark_reads_the_entry_as_apaches_sync_lets_it(opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store, options(SCHEMA_PART="100", SPARK_VERSION="3.5.0"))
    properties = held(store).parameters
    count = int(properties["spark.sql.sources.schema.numParts"])
    parts = [properties[f"spark.sql.sources.schema.part.{number}"] for number in range(count)]
    assert {len(part) for part in parts[:-1]} == {100}
    schema = json.loads("".join(parts))
    assert schema["type"] == "struct"
    assert [field["name"] for field in schema["fields"]] == [*META_COLUMNS, "k", "x", "day"]
    assert schema["fields"][5] == {"name": "k", "type": "long", "nullable": True, "metadata": {"comment": "the key"}}
    assert properties["spark.sql.sources.provider"] == "hudi"
    assert (properties["spark.sql.sources.schema.numPartCols"], properties["spark.sql.sources.schema.partCol.0"]) == (
        "1",
        "day",
    )
    assert properties["spark.sql.create.version"] == "3.5.0"
    sync_to_hive(opened(), store, options(AS_DATASOURCE="false"), format="apache")
    assert not [key for key in held(store).parameters if key.startswith("spark.sql.sources")]


def test_partitions_for_apaches_input_formats(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    done = sync_to_hive(opened(), store, format="apache")
    entry = held(store)
    assert replace(entry.format, serde_parameters={}) == HUDI_FORMAT
    assert [c.name for c in entry.partition_columns] == ["day"]
    assert "day" not in [c.name for c in entry.columns]
    assert "storage_handler" not in entry.parameters
    base = "file://" + opened().client.storage.base
    locations = {one.values: one.location for one in store.partitions(entry)}
    assert locations == {(f"d {n}%",): f"{base}/d {n}%" for n in range(3)}
    assert any(str(change).startswith("+ partition day=d 0% of db.trips: file:") for change in done.changes)
    written.write("delete_partition", partitions=["d 1%"])
    dropped = [str(c) for c in sync_to_hive(opened(), store).changes if c.what.startswith("partition")]
    assert dropped == [f"- partition day=d 1% of db.trips: {base}/d 1%"]
    assert days(store) == ["d 0%", "d 2%"]
    written.write("insert_overwrite", rows(1, 1))
    sync_to_hive(opened(), store)
    assert days(store) == ["d 0%", "d 1%", "d 2%"]
    written.write("insert_overwrite_table", rows(2, 1))
    sync_to_hive(opened(), store)
    assert days(store) == ["d 2%"]


def test_upserts_and_a_dropped_partition_between_two_syncs(
    written: LocalTable, opened: Opened, store: MemoryMetastore
) -> None:
    sync_to_hive(opened(), store, format="apache")
    written.write("upsert", rows(0, 30))
    written.write("delete_partition", partitions=["d 2%"])
    written.write("upsert", rows(0, 1))
    sync_to_hive(opened(), store)
    assert days(store) == ["d 0%", "d 1%"]


def test_a_missed_partition_is_repaired_though_the_instant_is_newer(opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store, format="apache")
    entry = held(store)
    store.drop_partitions(entry, [("d 1%",)])
    ahead = {**entry.parameters, "last_commit_time_sync": "99990101000000000"}
    store.put_table(replace(entry, parameters=ahead))
    changes = sync_to_hive(opened(), store).changes
    assert [c.kind for c in changes if c.what == "partition day=d 1% of db.trips"] == ["create"]
    assert days(store) == ["d 0%", "d 1%", "d 2%"]
    assert held(store).parameters["last_commit_time_sync"] == opened().snapshot().instant


def test_partitions_that_were_dropped_on_purpose_stay_dropped(
    written: LocalTable, opened: Opened, store: MemoryMetastore
) -> None:
    keep = options(DROPPED="keep")
    sync_to_hive(opened(), store, keep, format="apache")
    store.drop_partitions(held(store), [("d 1%",)])
    assert sync_to_hive(opened(), store, keep).changes == ()
    written.write("upsert", pa.concat_tables([rows(0, 30), rows(100, 1).set_column(1, "day", pa.array(["new"]))]))
    sync_to_hive(opened(), store, keep)
    assert days(store) == ["d 0%", "d 2%", "new"], "what is new is registered, also beside a write to the dropped one"
    sync_to_hive(opened(), store, keep)
    assert days(store) == ["d 0%", "d 2%", "new"]
    sync_to_hive(opened(), store)
    assert days(store) == ["d 0%", "d 1%", "d 2%", "new"]
    store.drop_partitions(held(store), [("d 1%",)])
    written.write("delete_partition", partitions=["d 1%"])
    sync_to_hive(opened(), store, keep)
    written.write("upsert", rows(1, 1))
    sync_to_hive(opened(), store, keep)
    assert days(store) == ["d 0%", "d 1%", "d 2%", "new"], "made anew, after the table had dropped it too"


def test_a_wrong_place_of_a_partition_is_put_right_with_the_next_commit(
    written: LocalTable, opened: Opened, store: MemoryMetastore
) -> None:
    sync_to_hive(opened(), store, format="apache")
    entry = held(store)
    written.write("upsert", rows(0, 1))
    store.put_partitions(entry, [HivePartition(("d 1%",), "file:///elsewhere"), HivePartition(("gone",), "file:///x")])
    changes = {c.what: c.kind for c in sync_to_hive(opened(), store).changes if c.what.startswith("partition")}
    assert changes == {"partition day=d 1% of db.trips": "alter", "partition day=gone of db.trips": "drop"}
    assert {one.location for one in store.partitions(entry)} == {f"{entry.location}/d {n}%" for n in range(3)}


@pytest.mark.parametrize("form", ["handler", "apache"])
def test_added_and_nested_columns(written: LocalTable, opened: Opened, store: MemoryMetastore, form: str) -> None:
    sync_to_hive(opened(), store, format=form)
    wider = rows(0, 5).append_column(
        pa.field("Note", pa.list_(pa.struct([("A", pa.string())]))), pa.array([[{"A": "n"}]] * 5)
    )
    written.write("upsert", wider, EVOLVING)
    changes = list(map(str, sync_to_hive(opened(), store).changes))
    assert "+ column db.trips.note: array<struct<a:string>>" in changes
    entry = held(store)
    if form == "handler":
        assert replace(entry.format, serde_parameters={}) == ROW_HANDLER_FORMAT
        assert entry.parameters["storage_handler"] == "hudicatalog.hive.HudiRowStorageHandler"
    else:
        assert {one.columns for one in store.partitions(entry)} == {entry.columns}, "partitions have the column too"
    assert sync_to_hive(opened(), store).changes == ()


def promoted(written: LocalTable) -> None:
    wide = rows(0, 3).set_column(1, "day", pa.array(["d 0%", "d 1%", "d 2%"]))
    written.write("upsert", wide.append_column("n", pa.array([1, 2, 3], pa.int32())), EVOLVING)
    written.write("upsert", wide.append_column("n", pa.array([1, 2, 3], pa.int64())).slice(0, 1), EVOLVING)


def test_promoted_columns(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store)
    promoted(written)
    sync_to_hive(opened(), store)
    assert {c.name: c.type for c in held(store).columns}["n"] == "bigint"
    with pytest.raises(UnsupportedTableError, match=r"column n is int64 now, and was int32.*handler format"):
        sync_to_hive(opened(), store, format="apache")


@pytest.mark.parametrize("release", RELEASES)
def test_renamed_columns(release: str, tmp_path: Path, store: MemoryMetastore) -> None:
    base, _ = lay_out(release, str(tmp_path))
    message = r"column \w+ was renamed, replaced or changed since files of .*Hive, .*storage handler \(handler format\)"
    with pytest.raises(UnsupportedTableError, match=message):
        sync_to_hive(Table.open(base), store, format="apache")
    assert store.databases == {"default"}
    assert sync_to_hive(Table.open(base), store).changes, "the handler's service reads them"


STRATEGIES = [
    ({}, {"_ro": "read_optimized", "_rt": "snapshot", "": "snapshot"}),
    ({"STRATEGY": "ro"}, {"": "read_optimized"}),
    ({"STRATEGY": "RT"}, {"": "snapshot"}),
    ({"SNAPSHOT_NAME": "false"}, {"_ro": "read_optimized", "_rt": "snapshot"}),
    ({"SKIP_RO_SUFFIX": "true"}, {"": "read_optimized", "_rt": "snapshot"}),
]


@pytest.mark.parametrize(("strategy", "wanted"), STRATEGIES)
@pytest.mark.parametrize("name", ["v6_0150__mor_log", "v8_1020__mor_bkt", "v9_1200__mor_pending"])
def test_merge_on_read_tables(
    golden: Any, store: MemoryMetastore, name: str, strategy: dict[str, str], wanted: dict[str, str]
) -> None:
    table = golden(name).open()
    done = sync_to_hive(table, store, options(**strategy))
    assert sorted(done.names) == sorted(f"{table.name}{suffix}" for suffix in wanted)
    for suffix, query_type in wanted.items():
        entry = held(store, f"{table.name}{suffix}", "default")
        assert entry.parameters["hoodie.catalog.hive.query.type"] == query_type
        read_optimized = entry.format.serde_parameters["hoodie.query.as.ro.table"]
        assert read_optimized == str(query_type == "read_optimized").lower()
    sync_to_hive(table, store, options(**strategy), format="apache")
    for suffix, query_type in wanted.items():
        form = replace(held(store, f"{table.name}{suffix}", "default").format, serde_parameters={})
        assert form == (HUDI_FORMAT if query_type == "read_optimized" else HUDI_REAL_TIME_FORMAT)
        assert "hoodie.catalog.hive.query.type" not in held(store, f"{table.name}{suffix}", "default").parameters


def of_apache(entry: HiveTable) -> HiveTable:
    """An entry as Apache's sync leaves it: without a word of ours, and with a path without a scheme."""
    ours = {k: v for k, v in entry.parameters.items() if not k.startswith("hoodie.catalog.")}
    serde = {
        **entry.format.serde_parameters,
        "path": entry.location.removeprefix("file://"),
        "serialization.format": "1",
    }
    return replace(entry, parameters=ours, format=replace(entry.format, serde_parameters=serde), owner="spark")


def test_an_entry_of_apaches_sync_is_taken_over(opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store, format="apache")
    theirs = of_apache(held(store))
    store.held["db", "trips"] = replace(theirs, parameters={**theirs.parameters, "hudi_writer_version": "1.2.0"})
    changes = sync_to_hive(opened(), store).changes
    assert all("property hoodie.catalog." in change.what for change in changes)
    entry = held(store)
    assert entry.owner == "spark"
    assert entry.format == theirs.format
    assert entry.parameters["hudi_writer_version"] == "1.2.0"
    assert sync_to_hive(opened(), store).changes == ()
    sync_to_hive(opened(), store, format="handler")
    assert held(store).partition_columns == ()
    assert store.partitions(held(store)) == []
    sync_to_hive(opened(), store, format="apache")
    assert len(store.partitions(held(store))) == 3


def test_what_others_said_stays(opened: Opened, store: MemoryMetastore) -> None:
    sync_to_hive(opened(), store, options(SERVICE="a:1"))
    entry = held(store)
    columns = tuple(HiveColumn(c.name, c.type, "by a user" if c.name in {"k", "x"} else None) for c in entry.columns)
    parameters = {**entry.parameters, "mine": "1", "COLUMN_STATS_ACCURATE": "{}", "hoodie.catalog.hive.as.of": "2024"}
    store.put_table(replace(entry, columns=columns, parameters=parameters))
    sync_to_hive(opened(), store, options(TABLE_PROPERTIES="b=2\nc=x=y"))
    entry = held(store)
    assert {c.name: c.comment for c in entry.columns if c.comment} == {"k": "the key", "x": "by a user"}
    parameters = dict(entry.parameters)
    assert (parameters["mine"], parameters["b"], parameters["c"], parameters["hoodie.catalog.hive.as.of"]) == (
        "1",
        "2",
        "x=y",
        "2024",
    )
    assert parameters["hoodie.catalog.hive.service"] == "a:1"
    assert "COLUMN_STATS_ACCURATE" not in parameters, "Hive would answer counts by what it counted before"


def test_other_tables_are_not_written_over(opened: Opened, store: MemoryMetastore, golden: Any) -> None:
    foreign = HiveTable("db", "trips", (HiveColumn("a", "int"),), "file:///x", HUDI_FORMAT, {})
    store.databases.add("db")
    store.put_table(foreign)
    for form in ("handler", "apache", "symlink"):
        with pytest.raises(MetastoreError, match="a table that the sync did not make; drop it"):
            sync_to_hive(opened(), store, format=form)
    assert store.held == {("db", "trips"): foreign}
    store.drop_table("db", "trips")
    sync_to_hive(opened(), store, format="symlink")
    with pytest.raises(MetastoreError, match="this table's entry for trino"):
        sync_to_hive(opened(), store, format="handler")
    store.drop_table("db", "trips")
    sync_to_hive(opened(), store)
    with pytest.raises(MetastoreError, match=r"db.trips is the Hudi table file:"):
        sync_to_hive(golden("v6_0150__bkt_hive").open(), store, options(DATABASE="db", TABLE="trips"))


REFUSED: list[tuple[dict[str, str], type[Exception], str]] = [
    ({"PARTITION_FIELDS": "x"}, OptionError, "Trips is partitioned by day"),
    ({"EXTRACTOR": "org.apache.hudi.hive.NonPartitionedExtractor"}, OptionError, r"derives \[\] from partition 'd 0%'"),
    ({"EXTRACTOR": "a.b.SlashEncodedDayPartitionValueExtractor"}, OptionError, r"no values .*\[d 0%\]"),
    ({"EXTRACTOR": "my.Own"}, OptionError, "my.Own is unknown"),
    ({"CREATE_DATABASE": "false"}, MetastoreError, "no database db"),
    ({"CREATE_DATABASE": "false", "FORMAT": "symlink"}, MetastoreError, "no database db"),
    ({"AS_DATASOURCE": "false", "FORMAT": "handler"}, OptionError, "sync_as_datasource=false goes with .*=apache only"),
    ({"AS_DATASOURCE": "false", "FORMAT": "symlink"}, OptionError, "sync_as_datasource=false goes with .*=apache only"),
    ({"TIMESTAMPS": "false", "FORMAT": "handler"}, OptionError, "goes with hoodie.catalog.sync.format=apache only"),
]


@pytest.mark.parametrize(("wrong", "error", "message"), REFUSED)
def test_options_that_do_not_fit(
    opened: Opened, store: MemoryMetastore, wrong: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sync_to_hive(opened(), store, options(**{"FORMAT": "apache", **wrong}))
    assert store.held == {}


def test_extractors_that_fit(opened: Opened, store: MemoryMetastore) -> None:
    for name in ("MultiPartKeysValueExtractor", "SinglePartPartitionValueExtractor"):
        sync_to_hive(
            opened(), store, options(EXTRACTOR=f"org.apache.hudi.hive.{name}", PARTITION_FIELDS="Day"), format="apache"
        )
    assert len(days(store)) == 3


def test_only_when_something_else_changed(written: LocalTable, opened: Opened, store: MemoryMetastore) -> None:
    conditional = options(CONDITIONAL="true")
    for form in ("handler", "apache"):
        first = sync_to_hive(opened(), store, conditional, format=form).instant
        written.write("upsert", rows(0, 1))
        assert sync_to_hive(opened(), store, conditional).changes == ()
        assert held(store).parameters["last_commit_time_sync"] == first


def test_spelling_of_places(opened: Opened, store: MemoryMetastore, tmp_path: Path) -> None:
    there = options(LOCATIONS=f"{tmp_path}/warehouse=hdfs://nn/w")
    sync_to_hive(opened(), store, there, format="apache")
    assert held(store).location == "hdfs://nn/w/db/trips"
    assert {one.location for one in store.partitions(held(store))} == {f"hdfs://nn/w/db/trips/d {n}%" for n in range(3)}
    assert held(store).format.serde_parameters["path"] == "hdfs://nn/w/db/trips"
    assert sync_to_hive(opened(), store).changes == (), "unless told otherwise, as the entry says"
    sync_to_hive(opened(), store, format="handler")
    assert held(store).location == "hdfs://nn/w/db/trips"
    sync_to_hive(opened(), store, options(LOCATIONS=f"{tmp_path}/warehouse=hdfs://other/w"))
    assert held(store).location == "hdfs://other/w/db/trips"
    sync_to_hive(opened(), store, options(LOCATIONS=""))
    assert held(store).location == f"file://{tmp_path}/warehouse/db/trips"
    assert sync_to_hive(opened(), store).changes == ()


def test_a_table_without_commits(tmp_path: Path, store: MemoryMetastore) -> None:
    schema = pa.schema([("k", pa.int64()), ("day", pa.string())])
    new_table = {
        "hoodie.table.name": "new",
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.partitionpath.field": "day",
    }
    LocalTable.create(str(tmp_path / "new"), schema, new_table)
    for form in ("apache", "handler"):
        done = sync_to_hive(Table.open(str(tmp_path / "new")), store, format=form)
        assert done.instant == ""
        assert "last_commit_time_sync" not in held(store, "new", "default").parameters
        assert sync_to_hive(Table.open(str(tmp_path / "new")), store).changes == ()


def test_paths_that_do_not_tell_the_values(golden: Any, store: MemoryMetastore) -> None:
    table = golden("v6_0150__bkt_slash").open()
    with pytest.raises(UnsupportedTableError, match=r"values of partition '[0-9/]+'; register it with the storage"):
        sync_to_hive(table, store, format="apache")
    assert sync_to_hive(table, store, format="handler").changes


@pytest.mark.parametrize(("support", "expected"), [("true", "timestamp"), ("false", "bigint")])
def test_nested_timestamps_stay_as_the_entry_has_them(
    written: LocalTable, opened: Opened, store: MemoryMetastore, support: str, expected: str
) -> None:
    kind = pa.struct([("timestamp", pa.timestamp("us", "UTC"))])
    value = pa.array([{"timestamp": 1}] * 3, pa.struct([("timestamp", pa.int64())])).cast(kind)
    written.write("upsert", rows(0, 3).append_column("at", value), EVOLVING)
    sync_to_hive(opened(), store, options(TIMESTAMPS=support), format="apache")
    sync_to_hive(opened(), store)
    assert {c.name: c.type for c in held(store).columns}["at"] == f"struct<timestamp:{expected}>"


def test_an_entry_whose_drop_would_delete_the_files_becomes_one_whose_drop_does_not(
    opened: Opened, store: MemoryMetastore
) -> None:
    sync_to_hive(opened(), store)
    store.held["db", "trips"] = replace(held(store), table_type="MANAGED_TABLE")
    assert "~ type of db.trips: MANAGED_TABLE → EXTERNAL_TABLE" in map(str, sync_to_hive(opened(), store).changes)
    assert held(store).table_type == "EXTERNAL_TABLE"
