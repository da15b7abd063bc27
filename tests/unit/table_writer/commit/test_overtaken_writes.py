"""A slow write, which others overtake: they begin after it, by later instants, and complete before it."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hudi_catalog
from hudi_catalog import Table
from table_writer.plan import option_registry as registry

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
WIDER = SCHEMA.append(pa.field("c", pa.int64()))
FEW = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}


def rows(*values: tuple[int, int, str], schema: pa.Schema = SCHEMA, **more: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "v": v, "p": p, **more} for i, v, p in values], schema=schema)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = hudi_catalog.create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="p", buckets=1)
    table.upsert(rows((1, 0, "a"), (2, 0, "a"), (9, 0, "b")))
    return table


@contextmanager
def slow(table: Table, batch: pa.Table, options: Mapping[str, str] | None = None) -> Iterator[Callable[[], Any]]:
    """A write of another opening that has begun, and goes on when the function is called, which waits for it."""
    begun, may_go_on, outcome = threading.Event(), threading.Event(), []

    class Source:
        def __call__(self) -> pa.RecordBatchReader:
            def batches() -> Iterator[pa.RecordBatch]:
                begun.set()
                assert may_go_on.wait(60)
                yield from batch.to_batches()

            return pa.RecordBatchReader.from_batches(batch.schema, batches())

    def write() -> None:
        other = hudi_catalog.open_table(table.writer.client.storage.uri)
        outcome.append(other.writer.insert(Source(), options=options) if options else other.writer.upsert(Source()))

    thread = threading.Thread(target=write)
    thread.start()

    def finish() -> Any:
        may_go_on.set()
        thread.join(60)
        return outcome[0]

    try:
        assert begun.wait(60)
        yield finish
    finally:
        may_go_on.set()
        thread.join(60)


def values(table: Table, **question: Any) -> dict[int, int]:
    read = table.scan(columns=["id", "v"], **question).to_arrow()
    assert len(set(read["id"].to_pylist())) == len(read)
    return dict(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True))


def test_an_update_is_not_lost_once_its_write_is_archived(table: Table) -> None:
    """The second slow write began while the first was under way, and did not see it."""
    with slow(table, rows((1, 1, "a"))) as finish_first:
        for number in range(3):
            table.upsert(rows((9, number, "b")), FEW)
        with slow(table, rows((2, 2, "a"))) as finish_second:
            finish_first()
            for number in range(6):
                table.upsert(rows((9, number, "b")), FEW)
            finish_second()
    assert values(table.refresh() or table) == {1: 1, 2: 2, 9: 5}


def test_a_new_column_stays(table: Table) -> None:
    with slow(table, rows((1, 1, "a"), schema=WIDER, c=42)) as finish:
        table.upsert(rows((9, 7, "b")))
        finish()
    table.upsert(rows((9, 8, "b")))
    table = hudi_catalog.open_table(table.writer.client.storage.uri)
    assert table.columns.names == ["id", "v", "p", "c"]
    assert table.scan("id = 1", columns=["v", "c"]).to_arrow().to_pylist() == [{"v": 1, "c": 42}]


def test_a_batch_is_not_written_twice(table: Table) -> None:
    def batch(app: str, version: int) -> dict[str, str]:
        numbers = {registry.TXN_APP.key: app, registry.TXN_VERSION.key: str(version)}
        return {**numbers, "hoodie.merge.allow.duplicate.on.inserts": "true"}

    table.insert(rows((3, 0, "a")), batch("A", 4))
    with slow(table, rows((4, 0, "a")), batch("A", 5)) as finish:
        table.insert(rows((5, 0, "b")), batch("B", 7))
        first = finish()
    again = table.insert(rows((4, 0, "a")), batch("A", 5))
    assert again.replayed
    assert again.instant == first.instant
    assert sorted(values(table)) == [1, 2, 3, 4, 5, 9]


def test_a_savepoint_stays_restorable(table: Table) -> None:
    with slow(table, rows((1, 1, "a"))) as finish:
        table.upsert(rows((9, 5, "b")))
        saved = table.savepoint().instant
        finish()
    for number in range(4):
        table.upsert(rows((1, 10 + number, "a")), {"hoodie.clean.commits.retained": "1"})
    assert values(table, as_of=saved) == {1: 0, 2: 0, 9: 5}
    table.restore(saved)
    assert values(hudi_catalog.open_table(table.writer.client.storage.uri)) == {1: 0, 2: 0, 9: 5}


def test_what_it_superseded_just_now_is_not_cleaned(table: Table) -> None:
    """By its instant the slow write is older than the states that are kept, by its end it is the newest of them."""
    keeping = {"hoodie.clean.commits.retained": "2"}
    with slow(table, rows((1, 1, "a")), None) as finish:
        for number in range(4):
            table.upsert(rows((9, number, "b")), keeping)
            time.sleep(0.01)  # file systems count in milliseconds
        reader = hudi_catalog.open_table(table.writer.client.storage.uri)
        planned = reader.scan("id = 1", columns=["v"])
        assert len(planned.plan().splits) == 1
        finish()
    table.clean(keeping)
    assert planned.to_arrow().to_pylist() == [{"v": 0}]
