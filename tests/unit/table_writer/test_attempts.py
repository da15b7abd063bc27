"""Writes that conflict with others, and those refused before they do anything."""

import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import create_table, open_table
from table_format.actions.avro_schemas import REQUESTED_REPLACE
from table_format.codecs.avro_file import write_avro_file
from table_format.errors import ConflictError, HudiError, OptionError, RecordError, TransactionError
from table_format.table.client import TableClient
from table_writer import write_job
from table_writer.commit.transaction import WriteTransaction
from table_writer.write_job import WriteJob
from tests.support.local_writes import LocalTable
from tests.support.reading import current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
BUCKETS = {"hoodie.bucket.index.num.buckets": "1"}
INDEX = {"hoodie.index.type": "RECORD_INDEX"}
CLUSTERING = "20990101000000000"


def rows(**values: int) -> pa.Table:
    """Rows by key; the partition is the key's first letter."""
    return pa.Table.from_pylist([{"id": key, "p": key[0], "v": value} for key, value in values.items()], SCHEMA)


def content(table: LocalTable) -> dict[str, int]:
    return {row["id"]: row["v"] for row in current_rows(TableClient.open(table.client.storage)).to_pylist()}


def make(folder: Path, **values: int) -> LocalTable:
    table = LocalTable.create(str(folder / "t"), SCHEMA, OPTIONS | BUCKETS)
    table.write("upsert", rows(**values))
    return table


def again(table: LocalTable, options: dict[str, str] = {}) -> LocalTable:  # noqa: B006
    return LocalTable(TableClient.open(table.client.storage.uri), {**table.options.texts, **options})


def overtaken(monkeypatch: pytest.MonkeyPatch, others: list[Callable[[], Any]]) -> None:
    """Before each of the next commits another writer does something."""
    plain = WriteJob._commit
    waiting = list(others)

    def commit(self: WriteJob, *args: Any) -> None:
        if waiting:
            waiting.pop(0)()
        plain(self, *args)

    def aside(act: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            monkeypatch.setattr(WriteJob, "_commit", plain)
            act()
            monkeypatch.setattr(WriteJob, "_commit", commit)

        return run

    waiting = [aside(act) for act in others]
    monkeypatch.setattr(WriteJob, "_commit", commit)
    monkeypatch.setattr(write_job, "_LONGEST_PAUSE", 0.0)


@pytest.mark.parametrize("index", [BUCKETS, INDEX], ids=["buckets", "record index"])
@pytest.mark.slow
def test_two_threads_lose_no_update(tmp_path: Path, index: dict[str, str]) -> None:
    """Different keys of one bucket, or of one small file; each writer has the table opened for itself."""
    table = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS | index)
    table.write("upsert", rows(a1=0, a2=0))
    for value in range(1, 6):
        batches = [rows(a1=value), rows(a2=value)]
        at_once([functools.partial(again(table).write, "upsert", batch) for batch in batches])
        assert content(table) == {"a1": value, "a2": value}


def at_once(works: list[Callable[[], Any]]) -> None:
    errors: list[BaseException] = []
    start = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "batch", "other", "expected"),
    [
        ("upsert", rows(a1=5), ("upsert", rows(a2=7)), {"a1": 5, "a2": 7, "b1": 3}),
        ("insert", rows(a3=5), ("upsert", rows(a2=7)), {"a1": 1, "a2": 7, "a3": 5, "b1": 3}),
        ("delete", rows(a1=0), ("upsert", rows(a2=7)), {"a2": 7, "b1": 3}),
        ("insert_overwrite", rows(a5=5), ("upsert", rows(a2=7)), {"a5": 5, "b1": 3}),
        ("insert_overwrite_table", rows(c1=5), ("upsert", rows(d1=7)), {"c1": 5}),
        ("upsert", rows(a1=5), ("insert_overwrite", rows(a5=7)), {"a1": 5, "a5": 7, "b1": 3}),
        ("upsert", rows(a1=5), ("delete_partition", None), {"a1": 5, "b1": 3}),
    ],
)
def test_the_later_to_commit_is_done_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    batch: pa.Table,
    other: tuple[str, pa.Table | None],
    expected: dict[str, int],
) -> None:
    table = make(tmp_path, a1=1, a2=2, b1=3)
    overtaken(monkeypatch, [lambda: again(table).write(*other, partitions=["a"] if other[1] is None else [])])
    table.write(operation, batch)
    assert content(table) == expected
    assert [i.action for i in table.client.timeline().completed].count("rollback") == 1


def test_dropping_partitions_takes_those_that_came_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, a1=1)
    overtaken(monkeypatch, [lambda: again(table).write("upsert", rows(b1=7))])
    table.write("delete_partition", partitions=["*"])
    assert content(table) == {}


def test_conflicts_end_after_some_retries_with_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, a1=1)
    done: list[str] = []

    def other() -> None:
        done.append(again(table).write("upsert", rows(a2=len(done))).instant)

    overtaken(monkeypatch, [other] * 5)
    with pytest.raises(ConflictError) as raised:
        table.write("upsert", rows(a1=5), {"hoodie.catalog.write.retries": "1"})
    assert len(done) == 2
    own = str(raised.value)[:17]
    assert own.isdigit()
    assert own not in done
    assert done[1] in str(raised.value)
    assert "given up after 2 attempt(s)" in raised.value.__notes__[-1]
    assert raised.value.__context__ is None
    assert content(table) == {"a1": 1, "a2": 1}


def test_a_row_that_no_attempt_can_write_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, a1=1)
    plain, done = WriteJob._write, []

    def write(self: WriteJob, *args: Any) -> Any:
        if not done or done[-1] != self.begun:
            monkeypatch.setattr(WriteJob, "_write", plain)
            again(table).write("upsert", rows(a2=len(done)))
            done.append(self.begun)
            monkeypatch.setattr(WriteJob, "_write", write)
        return plain(self, *args)

    monkeypatch.setattr(WriteJob, "_write", write)
    monkeypatch.setattr(write_job, "_LONGEST_PAUSE", 0.0)
    nameless = pa.Table.from_pylist([{"id": None, "p": "a", "v": 5}], SCHEMA)
    with pytest.raises(RecordError, match="null"):
        table.write("upsert", nameless, {"hoodie.catalog.write.retries": "1"})
    assert len(done) == 2
    assert content(table) == {"a1": 1, "a2": 1}


def test_rows_that_failed_once_are_not_taken_for_all_of_them(tmp_path: Path) -> None:
    """The conflict is tried again, and an iterator that raised has no more rows."""
    table = create_table(tmp_path / "t", "id bigint, v int", record_key="id", buckets=1)
    table.upsert([{"id": 1, "v": 1}])

    def chunks() -> Iterator[Any]:
        yield [{"id": 2, "v": 2}]
        open_table(tmp_path / "t").upsert([{"id": 100, "v": 3}])
        yield pa.table({"id": [3], "v": [1 << 40]})
        yield [{"id": 4, "v": 4}]

    with pytest.raises(RecordError, match="chunk 1 of the rows differs"):
        table.upsert(chunks())
    assert sorted(table.refresh().scan().to_arrow()["id"].to_numpy()) == [1, 100]


def test_the_schema_of_another_writer_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, a1=1, b1=2)
    wider = rows(b1=7).append_column("w", pa.array([9]))
    overtaken(monkeypatch, [lambda: again(table).write("upsert", wider)])
    table.write("upsert", rows(a1=5))
    assert "w" in table.client.table_schema().names
    assert content(table) == {"a1": 5, "b1": 7}


def test_keys_that_another_writer_inserted_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both writers take the key for new, and would write it into separate files."""
    table = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS | INDEX)
    table.write("upsert", rows(b1=0))
    overtaken(monkeypatch, [lambda: again(table).write("upsert", rows(a1=1))])
    table.write("upsert", rows(a1=2))
    assert content(table) == {"b1": 0, "a1": 2}
    overtaken(monkeypatch, [lambda: again(table).write("upsert", rows(c1=1))])
    with pytest.raises(ConflictError, match=r"^\d{17}: instant \d{17} put records of the same keys \('c1'\)"):
        table.write("upsert", rows(c1=2), {"hoodie.catalog.write.retries": "0"})


def dead_instant(table: LocalTable) -> str:
    transaction = WriteTransaction.begin(TableClient.open(table.client.storage), "commit", "UPSERT")
    transaction._give_up()
    return transaction.instant


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.parquet.compression.codec": "LZMA"},
        {"hoodie.clean.commits.retained": "0"},
        {"hoodie.metadata.compact.max.delta.commits": "none"},
        {"hoodie.write.lock.provider": "ZookeeperBasedLockProvider"},
        {"hoodie.datasource.write.recordkey.field": "v"},
        {"hoodie.datasource.write.precombine.field": "v"},
        {"hoodie.metadata.index.column.stats.column.list": "nowhere"},
    ],
)
def test_refused_options_leave_a_dead_writers_instant_alone(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path, a1=1)
    dead = dead_instant(table)
    with pytest.raises(OptionError):
        table.write("upsert", rows(a1=2), options)
    with pytest.raises(OptionError, match="needs rows"):
        table.write("upsert")
    with pytest.raises(OptionError, match="or rows"):
        table.write("delete_partition")
    assert [instant.time for instant in table.client.timeline().pending] == [dead]
    table.write("upsert", rows(a1=2))
    assert not table.client.timeline().pending


def test_rows_without_a_key_column_leave_it_alone_as_well(tmp_path: Path) -> None:
    table = make(tmp_path, a1=1)
    dead = dead_instant(table)
    with pytest.raises(HudiError, match="id"):
        table.write("delete", rows(a1=2).drop_columns(["id"]))
    assert [instant.time for instant in table.client.timeline().pending] == [dead]


def plan_clustering(table: LocalTable, partition: str) -> None:
    timeline = table.client.timeline()
    [file_id] = {
        stat.file_id
        for instant in timeline.writes
        for stat in timeline.commit_metadata(instant).stats()
        if stat.partition_path == partition
    }
    part = {"fileId": file_id, "partitionPath": partition, "version": 1}
    clustering = {"inputGroups": [{"slices": [part], "version": 1}], "version": 1}
    record = {"operationType": "CLUSTER", "clusteringPlan": clustering, "version": 1}
    data = write_avro_file(REQUESTED_REPLACE, [record])
    table.client.storage.create(f".hoodie/{CLUSTERING}.replacecommit.requested", data)


@pytest.mark.slow
@pytest.mark.parametrize("index", [BUCKETS, INDEX], ids=["buckets", "record index"])
@pytest.mark.parametrize("operation", ["upsert", "delete", "insert_overwrite", "insert_overwrite_table"])
def test_a_clustering_that_was_pending_is_told_before_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: dict[str, str], operation: str
) -> None:
    table = LocalTable.create(str(tmp_path / "t"), SCHEMA, OPTIONS | index)
    table.write("upsert", rows(a1=1, b1=2))
    plan_clustering(table, "a")
    monkeypatch.setattr("table_writer.timeline.markers.create_marker", lambda *_: pytest.fail("a file is written"))
    with pytest.raises(TransactionError, match=rf"{CLUSTERING} .* planned before this write began") as raised:
        table.write(operation, rows(a1=5))
    assert not isinstance(raised.value, ConflictError)
    with pytest.raises(TransactionError, match="planned before this write began"):
        table.write("delete_partition", partitions=["a"])
    monkeypatch.undo()
    table.write("upsert", rows(b1=7))
    assert content(table) == {"a1": 1, "b1": 7}


def test_a_clustering_that_is_planned_meanwhile_is_a_conflict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, a1=1)
    overtaken(monkeypatch, [lambda: plan_clustering(table, "a")])
    with pytest.raises(ConflictError, match=rf"{CLUSTERING} .*while this write was under way"):
        table.write("upsert", rows(a1=5), {"hoodie.catalog.write.retries": "0"})
