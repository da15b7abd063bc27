"""Bloom filters and column statistics: Apache Hudi finds keys by filters that we wrote, and both write on in turns."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_catalog.table import open_table
from table_format.base_file.bloom import parse_bloom
from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from tests.engines.apache_tables import record_index
from tests.support.apache_hudi_client import ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
BOTH = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.clean.automatic": "false",
}
THEIRS = {
    **BOTH,
    **{key: text for key, text in record_index(2).items() if key != "hoodie.index.type"},
    "hoodie.table.name": "it",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.index.type": "BLOOM",
    "hoodie.bloom.index.use.metadata": "true",
    "hoodie.bloom.index.prune.by.ranges": "false",
}
#: without filters in footers, those of the metadata table are all that there is
OURS = {
    **BOTH,
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.parquet.bloom.filter.enabled": "false",
    "hoodie.datasource.write.payload.class": THEIRS["hoodie.datasource.write.payload.class"],
    "hoodie.datasource.write.precombine.field": "v",
}
ALL = ("bloom_filters", "column_stats", "files", "record_index")
Rows = dict[str, tuple[str, int]]


class Table:
    """A table, and what it must hold."""

    def __init__(self, path: Path, apache: ApacheHudi) -> None:
        self.path, self.apache = path, apache
        self.rows: Rows = {}

    def batch(self, first: int, last: int, v: int, *, step: int = 1) -> pa.Table:
        new = {f"k{n:03d}": ("ab"[n % 2], v) for n in range(first, last, step)}
        self.rows |= new
        return pa.table([list(new), [p for p, _ in new.values()], [v] * len(new)], schema=SCHEMA)

    def by_apache(self, rows: pa.Table, options: Mapping[str, str] | None = None) -> None:
        mode = "append" if (self.path / ".hoodie").exists() else "overwrite"
        self.apache.write(self.path, rows, {**THEIRS, **(options or {})}, mode)

    def by_us(self, rows: pa.Table) -> None:
        open_table(self.path, options=OURS).upsert(rows)

    def check(self, *indexes: str) -> None:
        """We and Apache read what was written, and each file has a filter with its keys and statistics."""
        wanted = sorted((key, *row) for key, row in self.rows.items())
        assert tuples(open_table(self.path).scan(None, SCHEMA.names).to_arrow()) == wanted
        for options in ({}, {"hoodie.metadata.enable": "false"}):
            assert tuples(self.apache.read(self.path, options=options)) == wanted
        [found] = self.apache.read_each(self.path, ["v = 4 and id < 'k020'"])
        assert tuples(found) == [row for row in wanted if row[2] == 4 and row[0] < "k020"]
        client = TableClient.open(str(self.path))
        assert client.config.metadata_partitions == indexes
        metadata = MetadataTable.open(client, client.timeline())
        assert metadata is not None
        files = metadata.files()
        names = set(files["file_name"].to_pylist())
        if "bloom_filters" in indexes:
            filters = metadata.bloom_filters(files)
            assert filters is not None
            assert set(filters["file_name"].to_pylist()) == names
            for row in filters.to_pylist():
                assert parse_bloom(row["bloom"], row["type"], row["file_name"])
        known = metadata.column_stats_raw(["v"])
        assert set(known["file_name"].to_pylist()) == names


def tuples(table: pa.Table) -> list[tuple[str, str, int]]:
    return sorted((row["id"], row["p"], row["v"]) for row in table.to_pylist())


def test_apache_finds_keys_by_our_filters(apache: ApacheHudi, tmp_path: Path) -> None:
    table = Table(tmp_path / "it", apache)
    table.by_apache(table.batch(0, 40, 1))
    table.check(*ALL)
    # commits of ours keep the filters that Apache made
    table.by_us(table.batch(30, 60, 2))
    table.by_us(table.batch(0, 60, 3, step=7))
    table.check(*ALL)
    table.by_apache(table.batch(0, 70, 4, step=3))
    table.check(*ALL)
    # built anew
    ours = open_table(table.path)
    assert ours.build_index("bloom_filters").replaced
    assert ours.build_index("column_stats", groups=3).replaced
    table.check(*ALL)
    table.by_apache(table.batch(5, 90, 5, step=4))
    table.by_us(table.batch(2, 100, 6, step=5))
    table.by_apache(table.batch(0, 100, 7, step=9))
    table.check(*ALL)
    assert apache.validate_files(table.path)
    # and dropped
    ours.drop_index("bloom_filters")
    table.check(*ALL[1:])
    table.by_us(table.batch(0, 9, 8))
    without = {"hoodie.metadata.index.bloom.filter.enable": "false", "hoodie.index.type": "SIMPLE"}
    table.by_apache(table.batch(3, 12, 9), without)
    table.check(*ALL[1:])


NESTED = pa.schema([*SCHEMA, ("n", pa.struct([("a", pa.int32()), ("b", pa.string())]))])


def nested(v: int, keys: range) -> pa.Table:
    rows = [
        {"id": f"k{key}", "p": "xyz"[key % 3], "v": v, "n": None if key % 10 == 9 else {"a": 1000 * v + key, "b": "b"}}
        for key in keys
    ]
    return pa.Table.from_pylist(rows, NESTED)


@pytest.mark.in_turns(2)
def test_fields_of_structs_have_statistics(apache: ApacheHudi, tmp_path: Path) -> None:
    """The same options serve jobs of both in turns; Apache reads our statistics, and its data skipping loses no row."""
    path = tmp_path / "it"
    job = {key: text for key, text in THEIRS.items() if "bloom" not in key and "record.index" not in key} | {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.metadata.index.column.stats.column.list": "n.a,v",
    }
    apache.write(path, nested(1, range(30)), job, "overwrite")
    open_table(path).upsert(nested(2, range(0, 12, 3)), job)
    apache.write(path, nested(3, range(1, 13, 3)), job)
    open_table(path).upsert(nested(4, range(2, 14, 3)), job)
    table = open_table(path).scan().to_arrow()
    places = {row["_hoodie_file_name"]: row["_hoodie_partition_path"] for row in table.to_pylist()}
    stats = apache.column_stats(path, ["n.a", "v"], [(partition, name) for name, partition in places.items()])
    for name in places:
        rows = [row for row in table.to_pylist() if row["_hoodie_file_name"] == name]
        values = [row["n"]["a"] for row in rows if row["n"] is not None]
        record = stats["n.a"][name]
        assert (record["min"], record["max"]) == (min(values), max(values))
        assert (record["value_count"], record["null_count"]) == (len(rows), len(rows) - len(values))
    filters = ["n.a >= 4000", "n.a = 2003", "n.a < 1020 AND v < 4", "n.a > 3000 AND v = 3", "n.a IS NULL", "v = 4"]
    for where, found in zip(filters, apache.read_each(path, filters), strict=True):
        wanted = open_table(path).scan(where, columns=["id"]).to_arrow()["id"].to_pylist()
        assert wanted
        assert sorted(found["id"].to_pylist()) == sorted(wanted), where
    (kept,) = apache.planned_files(path, ["v = 4"])
    assert kept is None or {places[name] for name in kept} == {"z"}
    assert len(open_table(path).scan("n.a >= 4000").plan()) == 1
