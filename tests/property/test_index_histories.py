"""Random histories of the record index, with crashes at any change of a file, equal a dictionary."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.rollback import rollback_failed_writes
from table_writer.metadata import index_compaction, index_files
from table_writer.metadata.creation import publish_index
from tests.property.profile import STRIDE, examples
from tests.support.crashed_jobs import publishes
from tests.support.faults import Faults, FaultyStorage, Frozen, InjectedError
from tests.support.index_writes import (
    BY_PARTITION,
    PROPERTIES,
    begin,
    change,
    content,
    deltas,
    expected,
    gone,
    layout_for,
    make,
    put,
    twice_pickled,
)
from tests.support.toy_table import SCHEMA_JSON, assert_tidy

COMPACTING = {"hoodie.metadata.compact.max.delta.commits": "2", "hoodie.cleaner.commits.retained": "1"}
TWO_FAMILIES = IndexLayout((("record-index-", 2), ("record-index-g1-", 3)))


def _global(storage: Storage) -> None:
    make(storage)


def _by_partition(storage: Storage) -> None:
    make(storage, properties=BY_PARTITION)


def _by_other_hash(storage: Storage) -> None:
    make(storage, {"hoodie.catalog.record.index.hash": "xxhash64"})


def _in_two_families(storage: Storage) -> None:
    publish_index(make(storage, properties={**PROPERTIES, "hoodie.index.type": "BUCKET"}), TWO_FAMILIES, [])


MAKERS = {"global": _global, "partition": _by_partition, "hash": _by_other_hash, "families": _in_two_families}

KEYS = st.sampled_from([f"k{number}" for number in range(12)])
PARTITIONS = st.sampled_from(["p=1", "p=2"])
ROWS = st.lists(
    st.one_of(
        st.builds(put, KEYS, PARTITIONS, st.sampled_from(["f", "9c7d1f1e-8a3f-4a53-9b0e-0d9c3c1f0a11-0"])),
        st.builds(gone, KEYS, PARTITIONS),
    ),
    max_size=8,
    unique_by=lambda row: (row[0], row[1], row[3]),
)
FAULT = st.one_of(st.just((0, "error")), st.tuples(st.integers(1, 60), st.sampled_from(["error", "freeze"])))


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(index_files, "FEW_CHANGES", 4)
    monkeypatch.setattr(index_compaction, "_FEW_BYTES", 4096)
    FaultyStorage.faults = Faults()
    yield tmp_path
    FaultyStorage.faults = Faults()


@pytest.mark.parametrize("kind", MAKERS)
@examples(8)
@given(history=st.lists(st.tuples(ROWS, FAULT), min_size=1, max_size=6))
def test_histories_equal_a_dictionary(tmp_path_factory, kind, history) -> None:
    location = str(tmp_path_factory.mktemp("history") / "t")
    MAKERS[kind](Storage(location))
    by_partition = kind == "partition"
    known: dict = {}
    for drawn, (at, how) in history:
        # a write puts a key into one place, and in an index by partition does not delete it there as well
        rows = list({row[:2] if by_partition else (row[0], row[3]): row for row in drawn}.values())
        FaultyStorage.faults = Faults(at=at, how=how)
        client = TableClient.open(FaultyStorage(location))
        with contextlib.suppress(Frozen, InjectedError):
            _write(client, rows, frozen=how == "freeze" and at > 0)
        FaultyStorage.faults = Faults()
        stored = content(location)
        after = expected(known, rows, by_partition=by_partition)
        assert stored in (known, after) if at else stored == after
        known = stored
    rollback_failed_writes(TableClient.open(Storage(location)))
    assert content(location) == known
    change(TableClient.open(Storage(location)), options=COMPACTING)
    assert content(location) == known
    assert_tidy(location)


def _write(client: TableClient, rows: list, *, frozen: bool) -> None:
    tx = begin(client, COMPACTING)
    if frozen:
        tx._abort_because = lambda error: None  # the process has died
    try:
        tx.mark_inflight()
        layout = layout_for(client, rows)
        files = deltas(tx, layout, rows)
        tx.commit([], schema_json=SCHEMA_JSON, index_changes=files, index_layout=layout, mapper=twice_pickled)
    except InjectedError as error:
        tx._abort_because(error)
        raise


@pytest.mark.parametrize(
    ("kind", "how", "when"),
    [("global", "freeze", "before"), ("global", "error", "after"), ("partition", "error", "before")],
)
def test_a_fault_at_any_change_leaves_all_or_nothing(kind: str, how: str, when: str, place: Path) -> None:
    template = place / "template"
    MAKERS[kind](Storage(str(template)))
    client = TableClient.open(Storage(str(template)))
    for number in range(3):
        change(client, *(put(f"k{number}{key}", f"p={key % 2}") for key in range(4)))
    before = content(str(template))
    turn = [("freeze", "before"), ("error", "after"), ("error", "before")].index((how, when))
    rows = [gone("k00", "p=0"), gone("k11", "p=1"), put("k12", "p=5", "moved"), gone("k12", "p=0"), put("new", "p=1")]
    after = expected(before, rows, by_partition=kind == "partition")
    whole = shutil.copytree(template, place / "whole")
    FaultyStorage.faults = Faults()
    _write(TableClient.open(FaultyStorage(str(whole))), rows, frozen=False)
    steps = FaultyStorage.faults.log
    assert content(str(whole)) == after
    assert len(steps) > 20
    for at, step in enumerate(steps, 1):
        if not publishes(step) and at % STRIDE != turn % STRIDE:
            continue
        location = place / f"{at}"
        shutil.copytree(template, location)
        FaultyStorage.faults = Faults(at=at, how=how, when=when)
        with contextlib.suppress(Frozen, InjectedError):
            _write(TableClient.open(FaultyStorage(str(location))), rows, frozen=how == "freeze")
        assert FaultyStorage.faults.count >= at
        FaultyStorage.faults = Faults()
        stored = content(str(location))
        assert stored in (before, after), at
        change(TableClient.open(Storage(str(location))), put("next", "p=7"), options=COMPACTING)
        assert content(str(location)) == expected(stored, [put("next", "p=7")], by_partition=kind == "partition")
        assert_tidy(str(location))
        shutil.rmtree(location)
