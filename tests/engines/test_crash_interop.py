"""Writers of ours that die, live or clean beside Apache Hudi: each clears up after the other, no row is lost."""

import contextlib
import io
import json
import posixpath
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.actions.commit import WriteStat
from table_format.codecs.avro_schema import arrow_to_avro
from table_format.config.properties import ensure_partition_metadata
from table_format.errors import ConflictError
from table_format.keys.java_hash import bucket_id_one
from table_format.meta_columns import META_COLUMNS, add_meta_columns
from table_format.slices.file_names import BaseFileName, bucket_of_file_id, new_bucket_file_id
from table_format.slices.file_slices import latest_base_files, list_data_files
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.column_statistics import collect_statistics, indexable_columns
from table_writer.services.clean import clean
from table_writer.timeline.markers import create_marker
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.faults import Faults, FaultyStorage, Frozen
from tests.support.toy_table import assert_tidy

pytestmark = [pytest.mark.engine]
BUCKETS = 2
SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
SCHEMA_JSON = json.dumps(arrow_to_avro(SCHEMA, "crashes"))
PROPERTIES = {
    "hoodie.table.name": "crashes",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.precombine.field": "v",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
}
APACHE = {
    "hoodie.table.name": "crashes",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "v",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.bucket.index.hash.field": "id",
    "hoodie.clean.automatic": "false",
}
OCC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
KEEP = {"hoodie.clean.automatic": "false"}
FIRST = {f"k{n}": ("ab"[n % 2], n) for n in range(40)}
SECOND = {f"k{n}": ("ab"[n % 2], 100 + n) for n in range(0, 40, 3)} | {"new": ("c", 1)}
THIRD = {f"k{n}": ("ab"[n % 2], 200 + n) for n in range(0, 40, 5)} | {"newer": ("c", 2)}
Rows = dict[str, tuple[str, int]]


def write_files(tx: WriteTransaction, rows: Rows) -> tuple[list[WriteStat], pa.Table]:
    timeline = tx.client.timeline()
    current = {
        (row["partition"], bucket_of_file_id(row["file_id"])): row
        for row in latest_base_files(list_data_files(Storage(tx.storage.uri)), timeline).to_pylist()
    }
    slots: dict[tuple[str, int], Rows] = {}
    for key, (partition, value) in rows.items():
        slots.setdefault((partition, bucket_id_one([key], BUCKETS)), {})[key] = (partition, value)
    stats, columns = [], []
    for (partition, bucket), mine in slots.items():
        known = current.get((partition, bucket))
        file_id = known["file_id"] if known else new_bucket_file_id(bucket)
        name = str(BaseFileName(file_id, f"{bucket}-0-0", tx.instant))
        create_marker(tx.storage, tx.instant, partition, name, "MERGE" if known else "CREATE")
        ensure_partition_metadata(tx.storage, partition, tx.instant)
        merged: Rows = {}
        if known:
            old = pq.read_table(io.BytesIO(tx.storage.read(known["path"]))).drop_columns(list(META_COLUMNS))
            merged = {row["id"]: (row["p"], row["v"]) for row in old.to_pylist()}
        merged |= mine
        keys = sorted(merged)
        values = pa.table([keys, [merged[k][0] for k in keys], [merged[k][1] for k in keys]], schema=SCHEMA)
        task = len(stats)
        table = add_meta_columns(
            values, instant=tx.instant, task=task, keys=pa.array(keys), partition=partition, file_name=name
        )
        table = table.cast(pa.schema([pa.field(n, pa.string()) for n in META_COLUMNS] + list(SCHEMA)))
        sink = io.BytesIO()
        pq.write_table(table, sink)
        data = sink.getvalue()
        tx.storage.create(posixpath.join(partition, name), data)
        stats.append(
            WriteStat(
                file_id=file_id,
                path=posixpath.join(partition, name),
                partition_path=partition,
                prev_commit=known["instant"] if known else "null",
                num_writes=len(keys),
                num_inserts=len(keys) if not known else 0,
                total_write_bytes=len(data),
                file_size_in_bytes=len(data),
            )
        )
        indexed = indexable_columns(SCHEMA, PROPERTIES)
        columns.append(collect_statistics(table, name, partition, indexed, pq.read_metadata(io.BytesIO(data))))
    return stats, pa.concat_tables(columns)


def upsert(storage: Storage, rows: Rows, options: dict[str, str] = KEEP) -> None:
    with WriteTransaction.begin(TableClient.open(storage), "commit", "UPSERT", options) as tx:
        tx.mark_inflight()
        stats, columns = write_files(tx, rows)
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)


def ours(path: Path) -> Rows:
    client = TableClient.open(Storage(str(path)))
    found: Rows = {}
    for file in latest_base_files(list_data_files(client.storage), client.timeline())["path"].to_pylist():
        for row in pq.read_table(io.BytesIO(client.storage.read(file))).to_pylist():
            assert row["id"] not in found
            found[row["id"]] = (row["p"], row["v"])
    return found


def theirs(apache: ApacheHudi, path: Path) -> Rows:
    table = apache.read(path)
    found = {row["id"]: (row["p"], row["v"]) for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def batch(rows: Rows) -> pa.Table:
    return pa.table([list(rows), [p for p, _ in rows.values()], [v for _, v in rows.values()]], schema=SCHEMA)


def assert_valid(apache: ApacheHudi, path: Path) -> None:
    for row in apache.validate_files(path):
        assert row["is_present_in_fs"], row
        assert row["is_present_in_metadata"], row
        assert row["fs_size"] == row["metadata_size"], row


def stray_files(path: Path) -> set[str]:
    client = TableClient.open(Storage(str(path)))
    timeline = client.timeline()
    counted = {s.path for i in timeline.writes for s in timeline.commit_metadata(i).stats()}
    return {e.path for e in client.storage.list("", recursive=True) if e.path.endswith(".parquet")} - counted


def make(path: Path) -> Storage:
    storage = Storage(str(path))
    create_table(storage, PROPERTIES)
    upsert(storage, FIRST)
    return storage


def die(path: Path, act: Callable[[Storage], Any], at: int) -> str:
    """Let a writer of ours die before its n-th change; 0 counts from the end."""
    if at <= 0:
        trial = Path(shutil.copytree(path, path.with_name(f"{path.name}-trial")))
        FaultyStorage.faults = Faults()
        act(FaultyStorage(str(trial)))
        at += len(FaultyStorage.faults.log)
        shutil.rmtree(trial)
    FaultyStorage.faults = Faults(at, "before", "freeze")
    with contextlib.suppress(Frozen):
        act(FaultyStorage(str(path)))
    step = FaultyStorage.faults.log[at - 1]
    FaultyStorage.faults = Faults()
    return step


def publication(path: Path, act: Callable[[Storage], Any], suffix: str) -> int:
    """The number of the change that publishes."""
    trial = Path(shutil.copytree(path, path.with_name(f"{path.name}-trial")))
    FaultyStorage.faults = Faults()
    act(FaultyStorage(str(trial)))
    steps = FaultyStorage.faults.log
    FaultyStorage.faults = Faults()
    shutil.rmtree(trial)
    return next(n for n, s in enumerate(steps, 1) if s.endswith(suffix) and s.startswith("create .hoodie/2"))


@pytest.mark.parametrize("before_publication", [0, 2, 9])
def test_apache_clears_up_after_our_dead_writer(apache: ApacheHudi, tmp_path: Path, before_publication: int) -> None:
    path = tmp_path / "t"
    make(path)
    step = publication(path, lambda s: upsert(s, SECOND), ".commit") - before_publication
    die(path, lambda s: upsert(s, SECOND), step)
    assert TableClient.open(Storage(str(path))).timeline().pending
    assert ours(path) == theirs(apache, path) == FIRST
    apache.write(path, batch(THIRD), APACHE)
    assert ours(path) == theirs(apache, path) == FIRST | THIRD
    assert not stray_files(path)
    assert_valid(apache, path)
    upsert(Storage(str(path)), SECOND)
    assert ours(path) == theirs(apache, path) == FIRST | THIRD | SECOND
    assert_valid(apache, path)


def test_apache_goes_on_after_our_rollback_and_our_clean(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    storage = make(path)
    die(path, lambda s: upsert(s, SECOND), publication(path, lambda s: upsert(s, SECOND), ".commit"))
    assert rollback_failed_writes(TableClient.open(storage))
    assert_tidy(str(path))
    assert ours(path) == theirs(apache, path) == FIRST
    assert_valid(apache, path)
    upsert(storage, SECOND)
    upsert(storage, THIRD)
    assert clean(TableClient.open(storage), {"hoodie.cleaner.commits.retained": "1"}).total_files_deleted
    assert_tidy(str(path))
    assert ours(path) == theirs(apache, path) == FIRST | SECOND | THIRD
    assert_valid(apache, path)
    apache.write(
        path, batch(FIRST), APACHE | {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    )
    assert ours(path) == theirs(apache, path) == FIRST | {"new": ("c", 1), "newer": ("c", 2)}
    assert_valid(apache, path)
    upsert(storage, SECOND, {"hoodie.cleaner.commits.retained": "1"})
    assert ours(path) == theirs(apache, path)
    assert_valid(apache, path)


@pytest.mark.parametrize("from_the_end", [0, -3, -6])
def test_apache_finishes_our_rollback(apache: ApacheHudi, tmp_path: Path, from_the_end: int) -> None:
    path = tmp_path / "t"
    make(path)
    die(path, lambda s: upsert(s, SECOND), publication(path, lambda s: upsert(s, SECOND), ".commit"))
    die(path, lambda s: rollback_failed_writes(TableClient.open(s)), from_the_end)
    assert ours(path) == theirs(apache, path) == FIRST
    apache.write(path, batch(THIRD), APACHE)
    assert ours(path) == theirs(apache, path) == FIRST | THIRD
    assert not stray_files(path)
    assert_valid(apache, path)
    upsert(Storage(str(path)), SECOND)
    assert not TableClient.open(Storage(str(path))).timeline().pending
    assert ours(path) == theirs(apache, path) == FIRST | THIRD | SECOND
    assert_valid(apache, path)


def test_apache_finishes_our_clean(apache: ApacheHudi, tmp_path: Path) -> None:
    path = tmp_path / "t"
    storage = make(path)
    upsert(storage, SECOND)
    upsert(storage, THIRD)
    one = {"hoodie.cleaner.commits.retained": "1"}
    die(path, lambda s: clean(TableClient.open(s), one), 4)
    assert [i.action for i in TableClient.open(storage).timeline().pending] == ["clean"]
    assert theirs(apache, path) == FIRST | SECOND | THIRD
    apache.write(path, batch(FIRST), APACHE | one | {"hoodie.clean.automatic": "true"})
    assert not TableClient.open(storage).timeline().pending
    assert ours(path) == theirs(apache, path) == FIRST | {"new": ("c", 1), "newer": ("c", 2)}
    assert_valid(apache, path)


def test_apache_and_a_live_writer_of_ours(apache: ApacheHudi, tmp_path: Path) -> None:
    """Both under optimistic concurrency control, in different partitions; then in the same one."""
    path = tmp_path / "t"
    storage = make(path)
    with WriteTransaction.begin(TableClient.open(storage), "commit", "UPSERT", OCC | KEEP) as tx:
        tx.mark_inflight()
        stats, columns = write_files(tx, {"mine": ("m", 1)})
        apache.write(path, batch({"yours": ("y", 2)}), APACHE | OCC)
        assert ours(path) == theirs(apache, path) == FIRST | {"yours": ("y", 2)}
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    both = FIRST | {"yours": ("y", 2), "mine": ("m", 1)}
    assert ours(path) == theirs(apache, path) == both
    assert_tidy(str(path))
    tx = WriteTransaction.begin(TableClient.open(storage), "commit", "UPSERT", OCC | KEEP)
    tx.mark_inflight()
    stats, columns = write_files(tx, {"mine": ("m", 3)})
    apache.write(path, batch({"mine": ("m", 4)}), APACHE | OCC)
    with pytest.raises(ConflictError, match="changed the same file groups"):
        tx.commit(stats, schema_json=SCHEMA_JSON, column_stats=columns)
    assert ours(path) == theirs(apache, path) == both | {"mine": ("m", 4)}
    assert_tidy(str(path))
    assert_valid(apache, path)
