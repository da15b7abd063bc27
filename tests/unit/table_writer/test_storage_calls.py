"""A write's calls to the storage depend on what it touches, neither on the table's size nor on its history."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import open_table
from table_format.actions.commit import CommitMetadata
from table_format.codecs.avro_schema import schema_text
from table_format.config.table_config import update_table_config
from table_format.errors import OptionError, RecordIndexError
from table_format.instant import Action, Instant, State
from table_format.metadata_table import record_index
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer import write_job
from table_writer.metadata.creation import create_metadata_table
from table_writer.metadata.writer import drop_metadata_table
from table_writer.slots.partition_files import PartitionFiles
from tests.support.local_writes import LocalTable

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.metadata.compact.max.delta.commits": "1000",
}
OLD = "20260101000000000"
MOVED = ("BUCKET", "move")  # keys by buckets are unique in each partition only
COUNTED = ("list", "read", "read_range", "create", "overwrite", "exists", "entry", "delete", "delete_dir", "open_input")


@contextmanager
def counted(local: LocalTable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[tuple[str, str]]]:
    """Calls to a table's storage by name and path; the threads that other tests left call others."""
    uri = local.client.storage.uri
    calls: Counter[tuple[str, str]] = Counter()

    def wrapped(name: str) -> Any:
        method = getattr(Storage, name)

        def call(self: Storage, path: str = "", *more: Any, **named: Any) -> Any:
            if self.uri == uri:
                calls[name, path] += 1
            return method(self, path, *more, **named)

        return call

    with monkeypatch.context() as patch:
        for name in COUNTED:
            patch.setattr(Storage, name, wrapped(name))
        yield calls


@contextmanager
def bytes_read(local: LocalTable, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Bytes of each read of a table's storage."""
    uri = local.client.storage.uri
    sizes: list[int] = []

    def wrapped(name: str) -> Any:
        method = getattr(Storage, name)

        def call(self: Storage, *arguments: Any) -> Any:
            answer = method(self, *arguments)
            if self.uri == uri:
                sizes.append(len(answer))
            return answer

        return call

    with monkeypatch.context() as patch:
        for name in ("read", "read_range"):
            patch.setattr(Storage, name, wrapped(name))
        yield sizes


def by_kind(calls: Counter[tuple[str, str]]) -> Counter[str]:
    """Calls by name and kind of file: ids and instants differ from table to table."""
    return Counter(f"{name} {re.sub('[0-9a-f]{8}-[-0-9a-f]+|[0-9]+', '#', path)}" for name, path in calls.elements())


def table(folder: Path, index: str) -> LocalTable:
    options = {key: text for key, text in OPTIONS.items() if index == "BUCKET" or "bucket" not in key}
    return LocalTable.create(str(folder / "t"), SCHEMA, options | {"hoodie.index.type": index})


def rows(numbers: Iterable[int], p: str, v: int = 0) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"{p}{n:04}", "p": p, "v": v} for n in numbers], schema=SCHEMA)


def newest_commit(local: LocalTable) -> str:
    timeline = local.client.timeline()
    return timeline.path(timeline.writes[-1])


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_a_write_lists_the_timeline_where_it_must_and_reads_a_commit_once(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, index)
    local.write("upsert", rows(range(4), "a"))
    commit = newest_commit(local)
    with counted(local, monkeypatch) as calls:
        local.write("upsert", rows(range(2), "a", v=1))
    # before anything is done, under the lock at the beginning, under it at the end, and just before the commit
    assert calls["list", ".hoodie"] == 4
    # one reads what commits carry on, the other how large records are
    assert calls["read", commit] == (1 if index == "BUCKET" else 2)
    # what others may change meanwhile: as the write is called, with each lock, and before the metadata table is written
    assert calls["read", ".hoodie/hoodie.properties"] <= (4 if index == "BUCKET" else 8)


@pytest.mark.parametrize("shards", [None, 3])
def test_opening_the_record_index_lists_it_before_and_after_its_timeline(
    shards: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, "RECORD_INDEX")
    local.write("upsert", rows(range(4), "a"))
    if shards is not None:
        open_table(tmp_path / "t").resize_index(shards)
    with counted(local, monkeypatch) as calls:
        index = RecordIndex.open(local.client)
    assert calls["list", ".hoodie/metadata/record_index"] == 2
    assert index.get_record_locations(pa.array(["a0000", "a0003", "b"])).num_rows == 2


def test_an_index_that_gets_file_groups_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, "RECORD_INDEX")
    local.write("upsert", rows(range(4), "a"))
    opened = record_index.open_complete_timeline

    def meanwhile(client: TableClient, timeline: Timeline) -> Timeline | str:
        monkeypatch.undo()
        open_table(tmp_path / "t").resize_index(3)
        return opened(client, timeline)

    monkeypatch.setattr(record_index, "open_complete_timeline", meanwhile)
    with pytest.raises(RecordIndexError, match="try again"):
        RecordIndex.open(local.client)
    assert RecordIndex.open(local.client).get_record_locations(pa.array(["a0000", "b"])).num_rows == 1


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_a_table_that_reads_and_writes_lists_the_timeline_no_more_often(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, index)
    local.write("upsert", rows(range(4), "a"))
    commit = newest_commit(local)
    opened = open_table(tmp_path / "t")
    with counted(local, monkeypatch) as calls:
        opened.upsert(rows(range(2), "a", v=1))
    # as the writer alone does; afterwards the table, which was not read yet, has nothing to refresh
    assert calls["list", ".hoodie"] == 4
    assert calls["read", commit] == (1 if index == "BUCKET" else 2)
    assert sorted(opened.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [0, 0, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_the_calls_of_a_write_do_not_depend_on_the_other_partitions(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls_with(partitions: int) -> Counter[str]:
        local = table(tmp_path / str(partitions), index)
        others = [rows(range(8), f"p{number:03}") for number in range(partitions)]
        local.write("upsert", pa.concat_tables([rows(range(8), "a"), *others]))
        with counted(local, monkeypatch) as calls:
            local.write("upsert", rows(range(1), "a", v=1))
        return by_kind(calls)

    assert calls_with(1) == calls_with(40)


def with_others(folder: Path, index: str, others: int) -> LocalTable:
    """A table with rows in partitions a and b, and others whose files exist in the metadata table only."""
    local = table(folder, index)
    layout = IndexLayout.of(local.client)
    schema = {"schema": schema_text(SCHEMA, "t")}
    for state in State:
        content = CommitMetadata(operation_type="BULK_INSERT", extra_metadata=schema).to_json()
        instant = Instant(OLD, Action.COMMIT, state)
        content = content if state is State.COMPLETED else b""
        local.client.storage.create(f".hoodie/{instant.file_name}", content)
    drop_metadata_table(local.client)
    names = [f"{number % 2:08d}-0000-4000-8000-{number:012d}-0_0-0-0_{OLD}.parquet" for number in range(2 * others)]
    partitions = [f"p{number // 2:06}" for number in range(2 * others)]
    files = pa.table({"partition": partitions, "file_name": names, "size": [1 << 20] * len(names)})
    create_metadata_table(local.client, files=files, record_index=layout)
    local.write("upsert", pa.concat_tables([rows(range(8), "a"), rows(range(8), "b")]))
    return local


JOBS: dict[str, tuple[str, pa.Table, dict[str, str]]] = {
    "update": ("upsert", rows(range(1), "a", v=1), {}),
    "insert": ("upsert", rows(range(8, 9), "a"), {}),
    "delete": ("delete", rows(range(2, 3), "a"), {}),
    "move": (
        "upsert",
        rows(range(3, 4), "a").set_column(1, "p", pa.array(["b"])),
        {"hoodie.record.index.update.partition.path": "true"},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "job"), [(index, job) for index in ("BUCKET", "RECORD_INDEX") for job in JOBS if (index, job) != MOVED]
)
def test_ten_thousand_other_partitions_cost_a_write_no_call_and_few_bytes(
    index: str, job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, batch, options = JOBS[job]

    def cost(others: int) -> tuple[Counter[str], int]:
        local = with_others(tmp_path / str(others), index, others)
        with counted(local, monkeypatch) as calls, bytes_read(local, monkeypatch) as sizes:
            local.write(operation, batch, options)
        return by_kind(calls), sum(sizes)

    few, some = cost(2_000)
    many, more = cost(10_000)
    assert many == few
    # of an HFile its end is read first, and then one block, of a size that does not depend on the table's
    assert more - some < 16 << 10


@pytest.mark.parametrize("index", ["BUCKET", "RECORD_INDEX"])
def test_cleaning_reads_of_the_listing_only_what_the_write_has_not(
    index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, index)
    options = {"hoodie.clean.commits.retained": "1"}
    for value in range(3):
        local.write("upsert", rows(range(4), "a", v=value), options)
    with counted(local, monkeypatch) as calls:
        local.write("upsert", rows(range(1), "a", v=9), options)
    assert sum(count for (name, path), count in calls.items() if name == "delete" and path.startswith("a/")) >= 1
    of_listing = {at: count for at, count in calls.items() if at[1].startswith(".hoodie/metadata/files/")}
    reads = {path: count for (name, path), count in of_listing.items() if name.startswith("read")}
    assert reads
    assert set(reads.values()) == {1}, reads


def test_a_count_that_only_jobs_tell_is_checked_once_and_after_writes_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = table(tmp_path, "BUCKET")
    client = local.client
    local.write("upsert", pa.concat_tables([rows(range(8), f"p{number}") for number in range(3)]))
    client.config = update_table_config(client.storage, {"hoodie.bucket.index.num.buckets": None})
    commit = newest_commit(local)
    text = client.storage.read(commit).decode()
    # as one of Apache's, which records nothing
    client.storage.overwrite(commit, text.replace("hoodie.catalog.table.properties", "of.somebody").encode())
    asked: list[Any] = []
    whole = PartitionFiles.of

    def of(self: PartitionFiles, partitions: Any = None) -> pa.Table:
        asked.append(partitions)
        return whole(self, partitions)

    monkeypatch.setattr(PartitionFiles, "of", of)
    local.write("upsert", rows(range(2), "p0", v=1))
    assert None in asked
    asked.clear()
    for v in (2, 3):
        local.write("upsert", rows(range(2), "p0", v=v))
    assert None not in asked
    # another count is checked, and refused by the keys
    with pytest.raises(OptionError, match=r"num\.buckets"):
        local.write("upsert", rows(range(2), "p0"), {"hoodie.bucket.index.num.buckets": "3"})
    # a write of another tool that completed meanwhile makes the check due again, though ours are newer
    asked.clear()
    unrecorded = text.replace("hoodie.catalog.table.properties", "of.somebody").encode()
    client.storage.create(".hoodie/20200101000000000.commit", unrecorded)
    local.write("upsert", rows(range(2), "p0", v=4))
    assert None in asked
    # nor is one known that completed between the check and the begin
    checked = write_job.refuse_options

    def overtaken(*arguments: Any, **named: Any) -> None:
        checked(*arguments, **named)
        client.storage.create(".hoodie/20200101000000001.commit", unrecorded)

    monkeypatch.setattr(write_job, "refuse_options", overtaken)
    local.write("upsert", rows(range(2), "p0", v=5))
    monkeypatch.setattr(write_job, "refuse_options", checked)
    asked.clear()
    local.write("upsert", rows(range(2), "p0", v=6))
    assert None in asked
