"""Synced entries in Spark SQL with Apache Hudi's bundle, and Apache's own sync beside ours, over a Hive Metastore."""

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.hive.handler import handler_jar
from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.metastore import HiveTable, Metastore
from hudi_catalog.metastore.open_metastore import open_metastore
from hudi_catalog.metastore.sync_options import SyncOptions
from table_format.errors import ServiceError, UnsupportedTableError
from tests.conftest import skip_or_fail
from tests.engines.kinds import Kind, kinds
from tests.engines.model import comparable
from tests.support.apache_hudi_client import VERSIONS, ApacheError, ApacheHudi, missing
from tests.support.local_writes import LocalTable
from tests.support.scripts import printed
from tools.engines.metastore import MetastoreServer

pytestmark = [pytest.mark.engine, pytest.mark.spark]
KINDS = kinds()
# What Apache's input formats would misread, and why the sync does not register it for them.
REFUSED = {"evolved": "column i ", "timestamped": "paths do not give the values of partition column ts_ms"}
HIVE_SYNC = "hoodie.datasource.hive_sync."


@dataclass(frozen=True)
class Shop:
    """A metastore, and a release of Apache Hudi whose Spark finds its tables there."""

    apache: ApacheHudi
    metastore: Metastore
    folder: Path

    @property
    def database(self) -> str:
        return f"hudi_{self.apache.version.replace('.', '_')}"

    def job(self, **options: str) -> dict[str, str]:
        """Options of a job, of Apache's or ours, that syncs after each write."""
        return job(self.metastore.uri, self.database, **options)

    def entry(self, name: str) -> HiveTable:
        table = self.metastore.table(self.database, name)
        assert table is not None
        return table

    def rows(self, name: str, where: str = "true") -> pa.Table:
        self.apache.sql(f"REFRESH TABLE {self.database}.{name}")
        return self.apache.query(f"SELECT * FROM {self.database}.{name} WHERE {where}")

    def partitions(self, name: str) -> set[tuple[str, ...]]:
        return {partition.values for partition in self.metastore.partitions(self.entry(name))}


def job(uri: str, database: str, **options: str) -> dict[str, str]:
    keys = {"enable": "true", "mode": "hms", "metastore.uris": uri, "database": database, **options}
    return {HIVE_SYNC + key: value for key, value in keys.items()}


@pytest.fixture(scope="module", params=VERSIONS)
def shop(
    request: pytest.FixtureRequest, hive_metastore: MetastoreServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    reason = missing(request.param)
    if reason:
        skip_or_fail(reason)
    try:
        jar = Path(handler_jar())
    except ServiceError as error:
        skip_or_fail(str(error))
    folder = Path(tmp_path_factory.mktemp("shop"))
    store = open_metastore(hive_metastore.uri)
    # Spark's client loads the class of an entry's storage handler, though its data source does without it
    apache = ApacheHudi(request.param, folder, hive_metastore.uri, [jar], lasting=False)
    yield Shop(apache, store, folder)
    apache.close()
    store.close()


@pytest.fixture(scope="module")
def written(hive_metastore: MetastoreServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every kind of table by our writer, each in an entry of both formats, synced after each commit."""
    folder = Path(tmp_path_factory.mktemp("written"))
    for kind in KINDS.values():
        table = LocalTable.create(str(folder / kind.name), kind.schema, kind.all_options())
        for step in kind.steps:
            rows = step.table(kind.schema) if step.rows else None
            table.write(step.operation, rows, job(hive_metastore.uri, "handler"), step.partitions)
        if kind.name not in REFUSED:
            by_apaches_formats(hive_metastore.uri, folder / kind.name)
    return {name: folder / name for name in KINDS}


def by_apaches_formats(uri: str, path: Path) -> None:
    store = open_metastore(uri)
    sync_to_hive(Table.open(str(path)), store, SyncOptions(database="apache"), format="apache")
    store.close()


def same(kind: Kind, ours: pa.Table, theirs: pa.Table) -> None:
    names = [name for name in ours.column_names if name != kind.path_column]
    assert sorted(theirs.column_names) == sorted(ours.column_names)
    assert comparable(theirs.to_pylist(), names) == comparable(ours.to_pylist(), names)


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("form", ["handler", "apache"])
@pytest.mark.parametrize("name", KINDS)
def test_spark_sql_reads_the_entries(shop: Shop, written: dict[str, Path], name: str, form: str) -> None:
    if form == "apache" and name in REFUSED:
        with pytest.raises(UnsupportedTableError, match=REFUSED[name]):
            by_apaches_formats(shop.metastore.uri, written[name])
        return
    kind, table = KINDS[name], Table.open(str(written[name]))
    same(kind, table.scan().to_arrow(), shop.apache.query(f"SELECT * FROM {form}.{name}"))
    where = kind.filters[-1]
    same(kind, table.scan(where).to_arrow(), shop.apache.query(f"SELECT * FROM {form}.{name} WHERE {where}"))


@pytest.mark.parametrize("form", ["handler", "apache"])
def test_spark_prunes_partitions(shop: Shop, written: dict[str, Path], form: str) -> None:
    where = "part = 'eu'"
    plan = shop.apache.sql(f"EXPLAIN SELECT id FROM {form}.hive WHERE {where}")[0]["plan"]
    assert "PartitionFilters: [isnotnull(part" in plan
    assert "HoodieFileIndex" in plan
    files = shop.apache.query(f"SELECT DISTINCT input_file_name() f FROM {form}.hive WHERE {where}")["f"].to_pylist()
    assert files
    assert all("/part=eu/" in file for file in files)


def test_pyspark_alone(hive_metastore: MetastoreServer, written: dict[str, Path]) -> None:
    """Without Apache's bundle Spark refuses the entries, whatever their format; our reading by name needs none."""
    store = open_metastore(hive_metastore.uri)
    table = Table.open(str(written["hive"]))
    sync_to_hive(table, store, SyncOptions(database="listed"), format="symlink")
    store.create_schema("plain")
    entry = store.table("apache", "hive")
    assert entry is not None
    parameters = {key: value for key, value in entry.parameters.items() if not key.startswith("spark.sql.")}
    store.put_table(replace(entry, schema="plain", parameters=parameters, partition_columns=()))
    store.close()
    names = ["apache.hive", "listed.hive", "handler.hive", "plain.hive", "apache.nothing"]
    script = Path(__file__).with_name("names_script.py")
    lines = printed(script, hive_metastore.uri, *names, seconds=300)
    results = {line["name"]: line for line in map(json.loads, lines)}
    for name in ("apache.hive", "listed.hive"):
        assert results[name]["ours"] == {"rows": table.scan().count()}
        assert "Failed to find the data source: hudi" in results[name]["theirs"]["message"]
    refused = [results[name]["ours"] for name in ("handler.hive", "plain.hive", "apache.nothing")]
    assert [one["error"] for one in refused] == ["OptionError", "TableNotFoundError", "TableNotFoundError"]
    assert "hudi-catalog hive-jar" in refused[0]["message"]
    assert "not a Hudi table's entry" in refused[1]["message"]
    assert "storage handler" in results["handler.hive"]["theirs"]["message"]


def rows(first: int, count: int, part: str | None = None, *, note: bool = False) -> pa.Table:
    numbers = range(first, first + count)
    moment = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    columns = {
        "k": [f"k{n}" for n in numbers],
        "v": pa.array(numbers, pa.int64()),
        "at": pa.array([moment] * count, pa.timestamp("us", "UTC")),
        "part": [part or f"p{n % 3}" for n in numbers],
    }
    return pa.table(columns | ({"note": ["new"] * count} if note else {}))


def options(name: str, database: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.database.name": database,
        "hoodie.datasource.write.recordkey.field": "k",
        "hoodie.datasource.write.precombine.field": "v",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
    }


DELETE = {
    "hoodie.datasource.write.operation": "delete_partition",
    "hoodie.datasource.write.partitions.to.delete": "p1",
}


def sync_changes(shop: Shop, path: Path, *, dry_run: bool = False) -> list[str]:
    """What our sync changes, or would."""
    done = sync_to_hive(Table.open(str(path)), shop.metastore, SyncOptions(database=shop.database), dry_run=dry_run)
    return [change.what for change in done.changes]


def settled(shop: Shop, path: Path, name: str) -> None:
    """After Apache's sync there is nothing for ours to do but to note the commit, and after ours nothing at all."""
    newest = Table.open(str(path)).snapshot().instant
    assert shop.entry(name).parameters["last_commit_time_sync"] == newest
    left = [what for what in sync_changes(shop, path, dry_run=True) if not what.startswith("property ")]
    assert left == []
    sync_changes(shop, path)
    assert sync_changes(shop, path) == []
    assert shop.entry(name).parameters["last_commit_time_sync"] == newest


def counted(shop: Shop, path: Path, name: str) -> int:
    ours, theirs = Table.open(str(path)).scan().to_arrow(), shop.rows(name)
    names = ours.column_names
    assert sorted(theirs.column_names) == sorted(names)
    assert comparable(theirs.to_pylist(), names) == comparable(ours.to_pylist(), names)
    return ours.num_rows


def test_apaches_sync_goes_on_from_our_entry_and_we_from_theirs(shop: Shop) -> None:
    """The same options of the job for both writers; columns and partitions come and go under either."""
    path, name = shop.folder / "turns", "turns"
    with_sync = options(name, shop.database) | shop.job() | {"hoodie.catalog.sync.format": "apache"}
    ours = LocalTable.create(str(path), rows(0, 1).schema, with_sync)
    ours.write("insert", rows(0, 9))
    made = shop.entry(name)
    assert [column.name for column in made.partition_columns] == ["part"]

    shop.apache.write(path, rows(5, 9, "p9", note=True), with_sync)
    assert shop.partitions(name) == {("p0",), ("p1",), ("p2",), ("p9",)}
    assert shop.entry(name).columns[:-1] == made.columns
    settled(shop, path, name)
    assert counted(shop, path, name) == 18

    ours.write("upsert", rows(0, 3, note=True).append_column("more", [[1, 2, 3]]))
    ours.write("delete_partition", None, None, ["p2"])
    assert shop.partitions(name) == {("p0",), ("p1",), ("p9",)}
    batch = rows(30, 3, "p7", note=True).append_column("more", [[1, 2, 3]])
    shop.apache.write(path, batch, with_sync)
    settled(shop, path, name)
    shop.apache.write(path, None, with_sync | DELETE)
    assert shop.partitions(name) == {("p0",), ("p7",), ("p9",)}
    settled(shop, path, name)
    assert counted(shop, path, name) == 15


def test_we_go_on_from_an_entry_of_apaches_sync(shop: Shop) -> None:
    path, name = shop.folder / "theirs", "theirs"
    # one of the releases by the default, which registers them as numbers
    timestamps = {} if shop.apache.version == VERSIONS[0] else {"support_timestamp": "true"}
    with_sync = options(name, shop.database) | shop.job(**timestamps)
    shop.apache.write(path, rows(0, 9), with_sync)
    theirs = shop.entry(name)
    settled(shop, path, name)
    entry = shop.entry(name)
    assert (entry.columns, entry.partition_columns, entry.format) == (
        theirs.columns,
        theirs.partition_columns,
        theirs.format,
    )
    spark = {key: value for key, value in theirs.parameters.items() if key.startswith("spark.sql.sources.")}
    assert spark.items() <= entry.parameters.items(), "Spark's schema is not what Apache's sync writes"
    if shop.apache.version == VERSIONS[0]:
        # its tables do not record by which rule they merge: a job has to
        rule = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
        with_sync |= {"hoodie.datasource.write.payload.class": rule}
    LocalTable(Table.open(str(path)).client, with_sync).write("insert", rows(20, 4, "p5", note=True))
    assert shop.partitions(name) == {("p0",), ("p1",), ("p2",), ("p5",)}
    assert counted(shop, path, name) == 13


def test_merge_on_read(shop: Shop) -> None:
    """Apache's three entries of such a table stay what they are, and read what they should."""
    path, name = shop.folder / "merged", "merged"
    with_sync = options(name, shop.database) | shop.job()
    with_sync |= {"hoodie.datasource.write.table.type": "MERGE_ON_READ", "hoodie.compact.inline": "false"}
    shop.apache.write(path, rows(0, 9), with_sync)
    shop.apache.write(path, rows(0, 3).set_column(1, "v", [[100, 101, 102]]), with_sync)
    before = {ending: shop.entry(name + ending) for ending in ("", "_ro", "_rt")}
    for entry in before.values():
        settled(shop, path, entry.name)
        assert shop.entry(entry.name).format == entry.format
    expected = {"": 303 + sum(range(3, 9)), "_rt": 303 + sum(range(3, 9)), "_ro": sum(range(9))}
    sums = {ending: sum(shop.rows(name + ending)["v"].to_pylist()) for ending in expected}
    assert sums == expected
    sync_to_hive(Table.open(str(path)), shop.metastore, SyncOptions(database=shop.database), format="handler")
    assert {ending: sum(shop.rows(name + ending)["v"].to_pylist()) for ending in expected} == expected


def test_apaches_sync_on_an_entry_of_our_handler(shop: Shop) -> None:
    """It cannot go on from that one, and says so; the next sync of ours brings the entry back, whatever was done."""
    path, name = shop.folder / "handled", "handled"
    with_sync: dict[str, Any] = options(name, shop.database) | shop.job()
    ours = LocalTable.create(str(path), rows(0, 1).schema, with_sync)
    ours.write("insert", rows(0, 9))
    made = shop.entry(name)
    assert made.parameters["storage_handler"] == "hudicatalog.hive.HudiStorageHandler"
    with pytest.raises(ApacheError, match="HoodieMetaSyncException"):
        shop.apache.write(path, rows(9, 3), with_sync)
    ours.write("insert", rows(20, 3))
    entry = shop.entry(name)
    assert (entry.columns, entry.partition_columns, entry.format) == (
        made.columns,
        made.partition_columns,
        made.format,
    )
    assert counted(shop, path, name) == 15
