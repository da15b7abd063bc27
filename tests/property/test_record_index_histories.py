"""Random histories of a table with a record index on every executor, with deaths at any step, against a dictionary."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.errors import HudiError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.resize import resize
from table_writer.record_index.verify import verify_index
from tests.property.indexed_table import compare, create, write
from tests.property.profile import examples
from tests.support.faults import FaultyStorage, dying
from tests.support.indexed_rows import Rows, Step, apply
from tests.support.local_writes import EXECUTORS
from tests.support.toy_table import assert_tidy

KEYS = ["a", "b", "k:1", "x,y", "é", "日本", "𝄞", "\uffff", "AaAa", "BBBB", "AaBB", "polygenelubricants"]
PARTITIONS = ["p", "q=1", "s"]
MOVE = "hoodie.record.index.update.partition.path"


@dataclass(frozen=True)
class Event:
    """One thing that happens to the table.

    Attributes:
        operation: of a write; or `rollback`, `rebuild` and `grow` of the index.
        rows: the batch.
        partition: that `delete_partition` takes.
        move: a changed partition moves the record.
        compact: the metadata table is compacted by this write.
        clean: old files are cleaned by this write.
        fill: files that are there take new records; an index grows by further file groups.
        on_driver: the batch is looked up on the driver.
        death: the writer dies before its n-th change; 0 for one that lives.
        executor: runs the write.
    """

    operation: str
    rows: Rows
    partition: str
    move: bool
    compact: bool
    clean: bool
    fill: bool
    on_driver: bool
    death: int
    executor: str

    @property
    def step(self) -> Step:
        options = {
            MOVE: str(self.move).lower(),
            "hoodie.metadata.compact.max.delta.commits": "1" if self.compact else "100",
            "hoodie.clean.automatic": str(self.clean).lower(),
            "hoodie.cleaner.commits.retained": "1",
            "hoodie.parquet.small.file.limit": "1000000" if self.fill else "0",
            "hoodie.catalog.record.index.driver.rows": "1000" if self.on_driver else "0",
        }
        return Step(self.operation, self.rows, options, (self.partition,) * (self.operation == "delete_partition"))


OPERATIONS = ["upsert"] * 5 + ["delete"] * 2 + ["insert_overwrite", "delete_partition", "rollback", "rebuild", "grow"]
EVENTS = st.builds(
    Event,
    operation=st.sampled_from(OPERATIONS),
    rows=st.dictionaries(
        st.sampled_from(KEYS), st.tuples(st.sampled_from(PARTITIONS), st.integers(0, 9)), min_size=0, max_size=8
    ),
    partition=st.sampled_from(PARTITIONS),
    move=st.booleans(),
    compact=st.booleans(),
    clean=st.booleans(),
    fill=st.booleans(),
    on_driver=st.booleans(),
    death=st.just(0) | st.just(0) | st.integers(1, 60),
    executor=st.sampled_from([*EXECUTORS]),
)


@pytest.fixture(autouse=True, scope="module")
def quick_files() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@settings(examples(8))
@given(st.lists(EVENTS, min_size=1, max_size=7), st.sampled_from(["java", "java", "xxhash64"]))
def test_table_and_index_hold_what_a_dictionary_does(events: list[Event], hashed: str) -> None:
    options = {"hoodie.catalog.record.index.hash": hashed}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        create(path, options)
        rows: Rows = {}
        for number, event in enumerate(events):
            try:
                rows = happen(path, rows, event, options)
            except BaseException as error:
                error.add_note(f"at event {number}: {event}")
                raise
        # ends what died, also a clean, which no rollback touches
        last = Step("upsert", {"a": ("s", 50)}, {"hoodie.metadata.compact.max.delta.commits": "1"})
        write(Storage(path), last, options | {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"})
        compare(path, apply(rows, last, event_time=True), KEYS)
        assert verify_index(TableClient.open(Storage(path))).is_right
        assert_tidy(path)


def happen(path: str, rows: Rows, event: Event, options: dict[str, str]) -> Rows:
    """Let it happen; what the table holds after it."""
    if event.operation in ("rollback", "rebuild", "grow"):
        client = TableClient.open(Storage(path))
        rollback_failed_writes(client)
        if event.operation == "rebuild":
            bootstrap_index(TableClient.open(Storage(path)), options, wait_seconds=0)
        elif event.operation == "grow":
            way = {"hoodie.catalog.record.index.growth": "groups" if event.fill else "rehash"}
            resize(TableClient.open(Storage(path)), 1 + len(event.rows) % 4, options=way)
        compare(path, rows, KEYS)
        return rows
    after = apply(rows, event.step, event_time=True)
    if event.operation == "insert_overwrite" and elsewhere(rows, event.rows):
        with pytest.raises(HudiError, match="partition"):
            write(Storage(path), event.step, options, event.executor)
        after = rows
    elif event.death:
        before = commits(path)
        with dying(event.death):
            write(FaultyStorage(path), event.step, options, event.executor)
        # what counts is whether the commit appeared, and then all of it
        after = after if commits(path) > before else rows
    else:
        write(Storage(path), event.step, options, event.executor)
    compare(path, after, KEYS)
    return after


def elsewhere(rows: Rows, batch: Rows) -> bool:
    """Whether a batch that replaces partitions has keys that others hold."""
    touched = {partition for partition, _ in batch.values()}
    return any(key in rows and rows[key][0] not in touched for key in batch)


def commits(path: str) -> int:
    return len(TableClient.open(Storage(path)).timeline().writes)
