"""Tables that Apache Hudi wrote, seen write by write: a refreshed snapshot equals a newly loaded one."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table
from catalog.snapshots.refresh import refreshed
from catalog.snapshots.snapshot import Snapshot
from catalog.statistics.indexed_column import IndexedColumn
from hudi_catalog import create_table, open_table
from table_format.instant import State
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.transaction import WriteTransaction
from tests.support.catalog_tables import NEWER_NAMES
from tests.support.local_writes import LocalTable

OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.bucket.index.num.buckets": "2",
}
LOGGED = [name for name in NEWER_NAMES if "__mor_" in name]


class Replay(TableClient):
    """A table as it was when its first writes had completed."""

    until = ""

    def timeline(self) -> Timeline:
        whole = super().timeline()
        kept = [
            i for i in whole.instants if (completed(whole, i) if i.state is State.COMPLETED else i.time) <= self.until
        ]
        return dataclasses.replace(whole, instants=tuple(kept))


def completed(timeline: Timeline, instant: Any) -> str:
    return timeline.completion_time(instant.time) or instant.time


def slices(snapshot: Snapshot) -> list[str]:
    return sorted(map(repr, snapshot.take_files(snapshot.live_rows).to_pylist()))


def columns(snapshot: Snapshot) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in snapshot.schema if not pa.types.is_nested(field.type)}


def statistics(snapshot: Snapshot, name: str, kind: pa.DataType) -> dict[Any, Any] | None:
    column = snapshot.indexed_column(name, kind)
    if not isinstance(column, IndexedColumn):
        return None
    part = column.take(snapshot.live_rows)
    stats = part.statistics
    values = [part.present.tolist()]
    values += [a.to_pylist() for a in (stats.lower, stats.upper, stats.null_count, stats.row_count, part.row_count)]
    files = snapshot.take_files(snapshot.live_rows)
    groups = zip(files["partition"].to_pylist(), files["file_id"].to_pylist(), strict=True)
    return dict(zip(groups, zip(*values, strict=True), strict=True))


@pytest.mark.parametrize("name", LOGGED)
@pytest.mark.slow
def test_a_refreshed_snapshot_is_a_fresh_one(golden, name: str) -> None:
    client = Replay.open(golden(name).path)
    client.until = "99999999"
    whole = client.timeline()
    moments = sorted({completed(whole, instant) for instant in whole.completed})
    client.until = moments[0]
    held = Snapshot(client, client.timeline())
    shared = compared = 0
    for number, client.until in enumerate(moments[1:]):
        if number % 2 == 0:
            for column, kind in columns(held).items():
                held.indexed_column(column, kind)
        newer = refreshed(held, client)
        fresh = Snapshot(client, client.timeline())
        assert slices(newer) == slices(fresh)
        shared += newer is held or newer.slices.main is held.slices.main
        known = [as_known(statistics(newer, c, kind), statistics(fresh, c, kind)) for c, kind in columns(fresh).items()]
        compared += sum(known)
        held = newer if any(known) else fresh
    assert shared
    assert compared


def as_known(cached: dict[Any, Any] | None, fresh: dict[Any, Any] | None) -> int:
    """Check statistics; how many of them are known.

    The metadata table is the one of the end, where a compaction has merged what was added at each moment. What it does
    not show as added is unknown after a refresh.
    """
    if cached is None or fresh is None:
        assert cached == fresh
        return 0
    assert cached.keys() == fresh.keys()
    known = {group: values for group, values in cached.items() if values[0]}
    assert known == {group: fresh[group] for group in known}
    return len(known)


def test_a_table_that_was_made_anew_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    """As Spark's mode("overwrite") does it; its properties may be the same."""
    path, schema = tmp_path / "trips", pa.schema([("k", pa.int64())])
    table: Any = None
    for keys in (range(10), range(100, 105)):
        LocalTable.create(str(path), schema, OPTIONS).write("insert", pa.table({"k": list(keys)}, schema))
        table = Table.open(str(path)) if table is None else table.refresh()
        assert sorted(table.scan().to_arrow()["k"].to_pylist()) == list(keys)
        shutil.rmtree(path)


ROWS = pa.table({"id": range(8), "day": [f"d{n}" for n in range(8)], "v": range(8)})
COMPACTING = {"hoodie.metadata.compact.max.delta.commits": "3"}


def compacted_table(path: Path) -> tuple[Any, Table]:
    """A writer whose metadata table is compacted at every third commit, and a reader that has planned."""
    create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1)
    writer = open_table(path, options=COMPACTING)
    writer.bulk_insert(ROWS)
    held = Table.open(str(path))
    assert held.scan("v = 3").count() == 1
    return writer, held


def compactions(path: Path) -> int:
    return len(list((path / ".hoodie/metadata/.hoodie").glob("*.commit")))


@pytest.mark.slow
def test_statistics_are_kept_where_the_metadata_table_is_compacted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer, held = compacted_table(path)
    before = compactions(path)
    with mock.patch.object(MetadataTable, "column_stats", side_effect=AssertionError("loaded afresh")):
        for number in range(10):
            row = number % 8
            writer.upsert(ROWS.slice(row, 1).set_column(2, "v", pa.array([100 + number])))
            if number % 3 != 1:  # some refreshes find several commits
                held.refresh()
                assert held.scan(f"v = {100 + number}").plan().files_total == 8
                assert len(held.scan(f"v = {100 + number}").plan()) == 1
                assert len(held.scan(f"v = {row}").plan()) == 0
    assert compactions(path) >= before + 3
    held.refresh()
    fresh = Table.open(str(path))
    for name, kind in columns(fresh.snapshot()).items():
        assert statistics(held.snapshot(), name, kind) == statistics(fresh.snapshot(), name, kind)


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["base", "log"])
def test_statistics_are_loaded_where_files_before_the_compaction_are_gone(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "t"
    writer, held = compacted_table(path)
    writer.upsert(ROWS.slice(0, 1).set_column(2, "v", pa.array([100])))
    held.refresh()
    assert len(held.scan("v = 100").plan()) == 1
    folder, before = path / ".hoodie/metadata/column_stats", compactions(path)
    bases, written = set(folder.glob("*.hfile")), 0
    while compactions(path) == before:
        written += 1
        writer.upsert(ROWS.slice(written, 1).set_column(2, "v", pa.array([100 + written])))
    if gone == "base":
        for base in bases:
            base.unlink()
    else:
        newest = [log for log in folder.glob(".col-stats*.log*") if log.stat().st_size]
        max(newest, key=lambda log: log.stat().st_mtime_ns).unlink()
    loads = MetadataTable.column_stats
    with mock.patch.object(MetadataTable, "column_stats", autospec=True, side_effect=loads) as loaded:
        held.refresh()
        for number in range(written + 1):
            assert len(held.scan(f"v = {100 + number}").plan()) == 1
            assert len(held.scan(f"v = {number}").plan()) == 0
    assert loaded.called


def test_a_refresh_reads_the_file_of_each_commit_once(tmp_path: Path) -> None:
    writer, held = compacted_table(tmp_path / "t")
    writer.upsert(ROWS.slice(0, 1).set_column(2, "v", pa.array([100])))
    reads = Storage.read
    with mock.patch.object(Storage, "read", autospec=True, side_effect=reads) as read:
        held.refresh()
        assert len(held.scan("v = 100").plan()) == 1
    paths = [call.args[1] for call in read.call_args_list]
    assert sum(path.endswith(".commit") and not path.startswith(".hoodie/metadata") for path in paths) == 1
    assert len(set(paths)) == len(paths)


ARCHIVING = {
    "hoodie.keep.max.commits": "5",
    "hoodie.keep.min.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.enable": "false",
}


def test_a_write_that_was_pending_and_is_archived_is_not_lost(tmp_path: Path) -> None:
    """It was slow: a newer write had completed before the last refresh, and is still active."""
    path = tmp_path / "t"
    writer = create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1, options=ARCHIVING)
    instants = [writer.insert(ROWS.slice(number, 1)).instant for number in range(4)]
    slow, aside = path / f".hoodie/{instants[1]}.commit", tmp_path / "aside"
    slow.rename(aside)
    held = Table.open(str(path))
    assert held.scan().count() == 3
    aside.rename(slow)
    for number in range(4, 8):
        if slow.exists():
            writer.insert(ROWS.slice(number, 1))
    assert not slow.exists()
    assert (path / f".hoodie/{instants[2]}.commit").exists()
    assert slices(held.refresh().snapshot()) == slices(Table.open(str(path)).snapshot())


def test_an_empty_commit_file_is_not_taken_for_a_write_of_nothing(tmp_path: Path) -> None:
    """Between another tool's creation and closing of the file it has no content."""
    path = tmp_path / "t"
    writer = create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1, options=ARCHIVING)
    writer.insert(ROWS.slice(0, 1))
    held = Table.open(str(path))
    assert held.scan().count() == 1
    more = ROWS.append_column("w", pa.array(range(8)))
    commit = path / f".hoodie/{writer.insert(more.slice(1, 1)).instant}.commit"
    content = commit.read_bytes()
    commit.write_bytes(b"")
    assert held.refresh().scan().count() == 2
    assert "w" not in held.schema.names
    assert held.refresh().scan().count() == 2
    commit.write_bytes(content)
    assert sorted(held.refresh().scan().to_arrow()["w"].to_pylist(), key=str) == [1, None]
    snapshot = held.snapshot()
    assert held.refresh().snapshot() is snapshot


def test_a_refresh_reads_no_rollback_nor_replacement_that_was_read_before(tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1)
    writer.insert(ROWS.slice(0, 3))
    writer.insert_overwrite(ROWS.slice(0, 1))
    WriteTransaction.begin(TableClient.open(str(path)), "commit", "UPSERT").abort()
    held = Table.open(str(path))
    assert held.scan().count() == 3
    reads = Storage.read
    with mock.patch.object(Storage, "read", autospec=True, side_effect=reads) as read:
        for number in range(3, 5):
            writer.insert(ROWS.slice(number, 1))
            read.reset_mock()
            assert held.refresh().scan().count() == number + 1
            paths = [call.args[1] for call in read.call_args_list]
            assert not [path for path in paths if path.endswith((".rollback", ".replacecommit"))]
