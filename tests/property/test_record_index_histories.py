"""Random histories of a table with a record index, with deaths at any step, against a dictionary."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
from tests.support.faults import Faults, FaultyStorage, Frozen
from tests.support.indexed_rows import Rows, Step, apply
from tests.support.toy_table import assert_tidy

KEYS = ["a", "b", "k:1", "x,y", "é", "日本", "𝄞", "\uffff", "AaAa", "BBBB", "AaBB", "polygenelubricants"]
PARTITIONS = ["p", "q=1", "s"]
MOVE = "hoodie.record.index.update.partition.path"
#: more changes than a write makes
_LONG = 250
#: every change only where there is time for many examples
_STRIDE = 3 if settings.get_current_profile_name() == "default" else 1


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
            bootstrap_index(TableClient.open(Storage(path)), options)
        elif event.operation == "grow":
            way = {"hoodie.catalog.record.index.growth": "groups" if event.fill else "rehash"}
            resize(TableClient.open(Storage(path)), 1 + len(event.rows) % 4, options=way)
        compare(path, rows, KEYS)
        return rows
    after = apply(rows, event.step, event_time=True)
    if event.operation == "insert_overwrite" and elsewhere(rows, event.rows):
        with pytest.raises(HudiError, match="partition"):
            write(Storage(path), event.step, options)
        after = rows
    elif event.death:
        before = commits(path)
        died(path, event.step, options, event.death)
        # what counts is whether the commit appeared, and then all of it
        after = after if commits(path) > before else rows
    else:
        write(Storage(path), event.step, options)
    compare(path, after, KEYS)
    return after


def elsewhere(rows: Rows, batch: Rows) -> bool:
    """Whether a batch that replaces partitions has keys that others hold."""
    touched = {partition for partition, _ in batch.values()}
    return any(key in rows and rows[key][0] not in touched for key in batch)


def commits(path: str) -> int:
    return len(TableClient.open(Storage(path)).timeline().writes)


def died(path: str, done: Step, options: dict[str, str], at: int) -> list[str] | None:
    """Let a writer die before its n-th change; all its changes if it made fewer."""
    FaultyStorage.faults = Faults(at, "before", "freeze")
    try:
        with contextlib.suppress(Frozen):
            write(FaultyStorage(path), done, options)
            return FaultyStorage.faults.log
        return None
    finally:
        FaultyStorage.faults = Faults()


def test_a_death_at_any_change_leaves_all_or_nothing_of_data_and_index(tmp_path: Path) -> None:
    """A change of one write that updates, inserts, moves and brings back, after a delete."""
    template = tmp_path / "template"
    options = {"hoodie.clean.automatic": "false", "hoodie.metadata.compact.max.delta.commits": "1"}
    create(str(template), options)
    first = Step("upsert", {key: (PARTITIONS[n % 3], n) for n, key in enumerate(KEYS[:9])}, {})
    gone = Step("delete", dict.fromkeys(KEYS[:2], ("p", 0)), {})
    change = Step("upsert", {key: ("p", 20 + n) for n, key in enumerate(KEYS)}, {MOVE: "true"})
    later = Step("upsert", {"a": ("s", 50), KEYS[5]: ("q=1", 50)}, {})
    rows: Rows = {}
    for done in (first, gone):
        write(Storage(str(template)), done, options)
        rows = apply(rows, done, event_time=True)
    for at in range(1, _LONG, _STRIDE):
        spot = tmp_path / str(at)
        shutil.copytree(template, spot)
        before = commits(str(spot))
        log = died(str(spot), change, options, at)
        found = apply(rows, change, event_time=True) if commits(str(spot)) > before else rows
        try:
            compare(str(spot), found, KEYS)
            write(Storage(str(spot)), later, options)
            compare(str(spot), apply(found, later, event_time=True), KEYS)
            assert_tidy(str(spot))
        except BaseException as error:
            error.add_note(f"died before change {at}")
            raise
        shutil.rmtree(spot)
        if log is not None:
            assert at > len(log) > 30
            return
    pytest.fail("the write never ends")
