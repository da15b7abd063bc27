"""Apache Hudi and we archive a table's timeline in turns, and each reads what the other archived."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from hudi_catalog.table import create_table, open_table
from table_format.metadata_table import layout
from table_format.table.client import TableClient
from table_format.timeline.archive import Archive
from table_writer.record_index.verify import verify_index
from tests.engines.apache_tables import bucket_index, record_index
from tests.support.apache_hudi_client import ApacheHudi

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
SHORT = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.archive.merge.enable": "true",
    "hoodie.archive.merge.files.batch.size": "3",
    # 0.15.0 does not leave it in the table's properties
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
JOB = {
    "hoodie.table.name": "it",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "true",
}
KINDS = {"bucket": bucket_index(2), "record_index": record_index(2)}
Model = dict[str, tuple[str, int]]


class Life:
    """A table that several writers change, and what it must hold."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, KINDS[kind]
        self.options = {**SHORT, **({} if kind == "bucket" else self.kind)}
        self.model: Model = {}
        self.commits: list[str] = []
        self._numbers = itertools.count()
        create_table(
            path,
            SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="v",
            name="it",
            buckets=2 if kind == "bucket" else None,
            options=self.options,
        )

    def batch(self) -> pa.Table:
        """Some records that are there, and a new one."""
        number = next(self._numbers)
        keys = [f"k{n % 17}" for n in range(number, number + 5)] + [f"new{number}"]
        rows = [{"id": key, "p": self.model.get(key, ("ab"[number % 2], 0))[0], "v": number} for key in keys]
        self.model |= {row["id"]: (row["p"], row["v"]) for row in rows}
        return pa.Table.from_pylist(rows, SCHEMA)

    def by_us(self, count: int) -> None:
        for number in range(count):
            table = open_table(self.path, options=self.options)
            if number == count // 2:
                gone = sorted(key for key in self.model if key.startswith("new"))[:2]
                table.delete(f"id in ('{gone[0]}', '{gone[1]}')")
                self.model = {key: row for key, row in self.model.items() if key not in gone}
            elif number == count - 2:
                rows = [{"id": f"over{number}", "p": "a", "v": number}]
                table.insert_overwrite(pa.Table.from_pylist(rows, SCHEMA))
                self.model = {key: row for key, row in self.model.items() if row[0] != "a"}
                self.model[f"over{number}"] = ("a", number)
            else:
                table.upsert(self.batch())
            self._note()

    def by(self, apache: ApacheHudi, count: int, options: dict[str, str]) -> None:
        for _ in range(count):
            apache.write(self.path, self.batch(), {**JOB, **SHORT, **self.kind, **options})
            self._note()

    def _note(self) -> None:
        self.commits.append(self.client.timeline().writes[-1].time)

    @property
    def client(self) -> TableClient:
        return TableClient.open(str(self.path))

    def check(self) -> None:
        rows = Table.open(str(self.path)).scan(None, ["id", "p", "v"]).to_arrow().to_pylist()
        assert sorted((row["id"], row["p"], row["v"]) for row in rows) == self.wanted
        client = self.client
        active = {write.time for write in client.timeline().writes}
        archived = client.timeline().archive.writes
        assert set(self.commits) == active | set(archived)
        if self.kind["hoodie.index.type"] == "RECORD_INDEX":
            assert not any(verify_index(client, {}).counts.values())

    @property
    def wanted(self) -> list[tuple[str, str, int]]:
        return sorted((key, *row) for key, row in self.model.items())


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["p"], row["v"]) for row in table.to_pylist())


@pytest.fixture(params=KINDS)
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Life:
    return Life(tmp_path / "it", request.param)


def shown(apache: ApacheHudi, path: Path) -> set[str]:
    """The instants that this release's procedure shows of the archive."""
    apache.sql("DROP TABLE IF EXISTS it")
    apache.sql(f"CREATE TABLE it USING hudi LOCATION '{path}'")
    try:
        rows = apache.sql(
            "CALL show_archived_commits(table => 'it', limit => 1000, start_ts => '2000', end_ts => '9999')"
        )
    finally:
        apache.sql("DROP TABLE IF EXISTS it")
    return {row["commit_time"] for row in rows}


@pytest.mark.in_turns(2)
@pytest.mark.parametrize(("version", "kind"), [("0.15.0", "record_index"), ("1.2.0", "bucket")])
def test_archives_in_turns(release: Callable[[str], ApacheHudi], tmp_path: Path, version: str, kind: str) -> None:
    """The other kind of each release is in the tests below."""
    apache, life = release(version), Life(tmp_path / "it", kind)
    life.by_us(30)
    life.check()
    archived = set(life.client.timeline().archive.writes)
    assert len(archived) >= 22
    assert len(Archive(life.client.storage, f"{layout.TIMELINE_FOLDER}/archived", 1).writes) >= 40
    assert rows_of(apache.read(life.path)) == life.wanted
    assert rows_of(apache.read(life.path, options={"hoodie.metadata.enable": "false"})) == life.wanted
    assert shown(apache, life.path) >= archived
    life.by(apache, 14, {})
    life.check()
    # 0.15.0 keeps what follows a replacecommit until a clean has come to it
    assert set(life.client.timeline().archive.writes) > archived
    assert rows_of(apache.read(life.path)) == life.wanted
    life.by_us(14)
    life.check()
    assert set(life.client.timeline().archive.writes) >= set(life.commits[:50])
    assert rows_of(apache.read(life.path)) == life.wanted
    for row in apache.validate_files(life.path):
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row


@pytest.mark.in_turns(2)
def test_an_index_whose_keys_were_all_deleted(apache: ApacheHudi, tmp_path: Path) -> None:
    """Its file groups are made anew, or archiving would end; Apache goes on with them."""
    life = Life(tmp_path / "it", "record_index")
    life.options |= {"hoodie.metadata.compact.max.delta.commits": "1"}
    first = life.batch()
    open_table(life.path, options=life.options).upsert(first)
    life._note()
    open_table(life.path, options=life.options).delete("v >= 0")
    life._note()
    for number in range(5):
        table = open_table(life.path, options=life.options)
        table.upsert(pa.Table.from_pylist([{"id": "only", "p": "a", "v": number}], SCHEMA))
        life._note()
    life.model = {"only": ("a", 4)}
    groups = layout.list_file_groups(life.client.storage, layout.RECORD_INDEX)
    assert sorted(len(group.base_files) > 0 for group in groups) == [False, True]
    life.check()
    assert life.client.timeline().archive.writes
    assert rows_of(apache.read(life.path)) == life.wanted
    life.by(apache, 1, {})
    life.check()
    assert rows_of(apache.read(life.path)) == life.wanted
    life.by_us(4)
    life.by(apache, 3, {})
    life.check()
    assert rows_of(apache.read(life.path)) == life.wanted


@pytest.mark.in_turns(2)
def test_an_upgrade_takes_our_archive_along(release: Callable[[str], ApacheHudi], life: Life) -> None:
    life.by_us(20)
    life.by(release("1.2.0"), 2, {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"})
    assert life.client.config.layout_version == 2
    life.check()


@pytest.mark.in_turns(2)
def test_hudi_rs_reads_past_our_archive(life: Life) -> None:
    hudi = pytest.importorskip("hudi")
    life.by_us(20)
    batches = hudi.HudiTableBuilder.from_base_uri(str(life.path)).build().read()
    assert rows_of(pa.Table.from_batches(batches)) == life.wanted
