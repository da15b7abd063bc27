"""Apache Hudi and we clean a table in turns: each reads, honours and finishes the other's cleans and savepoints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_catalog.table import create_table, open_table
from table_format.actions.table_services import CleanMetadata
from table_format.instant import Action, State
from table_format.table.client import TableClient
from table_writer.services.clean import clean
from tests.engines.apache_tables import record_index
from tests.support.apache_hudi_client import ALL_VERSIONS, STAY_ON_SIX, ApacheError, ApacheHudi
from tests.support.toy_table import assert_tidy

pytestmark = [pytest.mark.engine, pytest.mark.spark]
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
BY_HAND = {"hoodie.clean.automatic": "false"}
JOB = {
    "hoodie.table.name": "it",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "true",
}
POLICIES = [{"commits": 1}, {"versions": 1}, {"hours": 0}]
BY_CREATION = {"hoodie.partition.ttl.management.strategy.type": "KEEP_BY_CREATION_TIME"}


def make(path: Path, commits: int) -> None:
    create_table(path, SCHEMA, record_key="id", partition_by="p", ordering="v", name="it", buckets=1, options=BY_HAND)
    for number in range(commits):
        upsert(path, number)


def upsert(path: Path, number: int) -> None:
    rows = [{"id": f"k{n}", "p": "ab"[n % 2], "v": number} for n in range(4)]
    open_table(path, options=BY_HAND).upsert(pa.Table.from_pylist(rows, SCHEMA))


def age(folder: Path) -> None:
    """Date a partition back to 2020."""
    (folder / ".hoodie_partition_metadata").write_text("commitTime=20200101000000000\npartitionDepth=1\n")
    (folder / "..hoodie_partition_metadata.crc").unlink(missing_ok=True)


def values(table: pa.Table) -> set[int]:
    return set(table["v"].to_pylist())


def call(apache: ApacheHudi, path: Path, procedure: str) -> list[dict]:
    apache.sql("DROP TABLE IF EXISTS it")
    apache.sql(f"CREATE TABLE it USING hudi LOCATION '{path}'")
    try:
        return apache.sql(f"CALL {procedure}")
    finally:
        apache.sql("DROP TABLE IF EXISTS it")


@pytest.mark.in_turns(2)
@pytest.mark.parametrize("version", ALL_VERSIONS)
def test_cleans_in_turns(release: Callable[[str], ApacheHudi], tmp_path: Path, version: str) -> None:
    apache = release(version)
    for number, policy in enumerate(POLICIES):
        path = tmp_path / f"it{number}"
        make(path, 4)
        saved = open_table(path).savepoint().instant
        upsert(path, 4)
        upsert(path, 5)
        report = open_table(path).clean(**policy)
        assert report.files >= 4, policy
        assert values(apache.read(path)) == {5}
        timeline = TableClient.open(str(path)).timeline()
        [ours] = [instant for instant in timeline.completed if instant.action == Action.CLEAN]
        assert CleanMetadata.from_avro(timeline.read(ours), "x").savepoints == [saved]
        # the oldest release also cleans what we have cleaned, and we after it
        if version == ALL_VERSIONS[0]:
            upsert(path, 6)
            upsert(path, 7)
            call(apache, path, "run_clean(table => 'it', retain_commits => 1)")
            timeline = TableClient.open(str(path)).timeline()
            [_, theirs] = [instant for instant in timeline.completed if instant.action == Action.CLEAN]
            metadata = CleanMetadata.from_avro(timeline.read(theirs), "x")
            assert metadata.total_files_deleted >= 2
            assert metadata.savepoints == [saved]
            assert open_table(path).clean(commits=1).files == 0
            open_table(path).delete_savepoint(saved)
            assert open_table(path).clean(commits=1).files == 2
            assert values(apache.read(path)) == {7}
            for row in apache.validate_files(path):
                assert row["is_present_in_fs"], row
                assert row["is_present_in_metadata"], row
        assert values(open_table(path).scan().to_arrow()) == values(apache.read(path))


@pytest.mark.parametrize("states", [[State.REQUESTED], [State.REQUESTED, State.INFLIGHT]])
def test_an_interrupted_clean_of_apache_is_finished(
    release: Callable[[str], ApacheHudi], tmp_path: Path, states: list[State]
) -> None:
    apache, path, broken_off = release(ALL_VERSIONS[0]), tmp_path / "it", tmp_path / "broken_off"
    make(path, 5)
    shutil.copytree(path, broken_off)
    call(apache, path, "run_clean(table => 'it', retain_commits => 1)")
    timeline = TableClient.open(str(path)).timeline()
    [theirs] = [instant for instant in timeline.completed if instant.action == Action.CLEAN]
    metadata = CleanMetadata.from_avro(timeline.read(theirs), "x")
    client = TableClient.open(str(broken_off))
    for state in states:
        client.storage.create(f".hoodie/{theirs.at(state).file_name}", timeline.read(theirs.at(state)))
    options = {"hoodie.clean.commits.retained": "1"}
    planned = clean(client, options, dry_run=True)
    assert planned.instants == (theirs.time,)
    done = clean(client, options)
    assert done == planned
    assert done.files == metadata.total_files_deleted > 0
    assert sorted(p.name for p in broken_off.rglob("[ab]/*.parquet")) == sorted(
        p.name for p in path.rglob("[ab]/*.parquet")
    )
    assert_tidy(str(broken_off))
    assert values(apache.read(broken_off)) == {4}


def test_an_expiry_of_apache_that_died(release: Callable[[str], ApacheHudi], tmp_path: Path) -> None:
    """1.2.0's `run_ttl` fails, on its own tables too, when it has written to the metadata table already."""
    apache, path = release("1.2.0"), tmp_path / "it"
    create_table(path, SCHEMA, record_key="id", partition_by="p", ordering="v", name="it", buckets=1)
    open_table(path).insert([{"id": name, "p": name, "v": 1} for name in "abc"])
    for name in "ac":
        age(path / name)
    options = ",".join(f"{key}={value}" for key, value in {**STAY_ON_SIX, **BY_CREATION}.items())
    with pytest.raises(ApacheError, match=r"replacecommit\.inflight does not exist"):
        call(apache, path, f"run_ttl(table => 'it', retain_days => 30, options => '{options}')")
    [theirs] = TableClient.open(str(path)).timeline().pending
    assert (path / f".hoodie/metadata/.hoodie/{theirs.time}.deltacommit").exists()
    assert sorted(open_table(path).scan().to_arrow()["id"].to_pylist()) == ["a", "b", "c"]
    report = open_table(path).expire_partitions(BY_CREATION, days=30)
    assert sorted(report.partitions) == ["a", "c"]
    open_table(path).upsert([{"id": name, "p": name, "v": 2} for name in "ad"])
    for rows in (apache.read(path), open_table(path).scan().to_arrow()):
        assert sorted(rows["id"].to_pylist()) == ["a", "b", "d"]


def test_expired_partitions(release: Callable[[str], ApacheHudi], tmp_path: Path) -> None:
    """Apache reads the table without them, and goes on writing into them."""
    apache, path = release("1.2.0"), tmp_path / "it"
    create_table(path, SCHEMA, record_key="id", partition_by="p", ordering="v", name="it", index="RECORD_INDEX")
    open_table(path).insert([{"id": name, "p": name, "v": 1} for name in "abc"])
    for name in "ac":
        age(path / name)
    report = open_table(path).expire_partitions(BY_CREATION, days=30)
    assert sorted(report.partitions) == ["a", "c"]
    assert apache.read(path)["id"].to_pylist() == ["b"]
    batch = pa.Table.from_pylist([{"id": name, "p": "a", "v": 2} for name in "ad"], SCHEMA)
    apache.write(path, batch, {**JOB, **record_index(1)})
    for rows in (apache.read(path), open_table(path).scan().to_arrow()):
        assert sorted(rows["id"].to_pylist()) == ["a", "b", "d"]
