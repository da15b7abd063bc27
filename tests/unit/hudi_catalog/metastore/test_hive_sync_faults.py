"""Syncs for Hive and Spark that die, or that the sync of a later commit overtakes."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog.metastore.hive_sync import sync_to_hive
from hudi_catalog.metastore.metastore import HivePartition, HiveTable
from table_format.errors import MetastoreError
from tests.support.local_writes import LocalTable
from tests.support.memory_metastore import MemoryMetastore
from tests.unit.hudi_catalog.metastore.conftest import rows
from tests.unit.hudi_catalog.metastore.test_hive_sync import EVOLVING, Opened, days, held, options


def state(store: MemoryMetastore) -> Any:
    return store.databases, store.held, store.parts


def kills(run: Callable[[MemoryMetastore], Any], start: MemoryMetastore) -> Iterator[tuple[int, bool, MemoryMetastore]]:
    """Metastores at which a sync died, at every step, before it and when it was done."""
    whole = copy.deepcopy(start)
    whole.steps = 0
    run(whole)
    for at in range(whole.steps):
        for half_done in (False, True):
            store = copy.deepcopy(start)
            store.steps, store.die_at, store.half_done = 0, at, half_done
            with pytest.raises(MetastoreError, match="memory:"):
                run(store)
            store.die_at = None
            yield at, half_done, store


@pytest.mark.parametrize("first", [None, "apache", "handler"])
@pytest.mark.parametrize("form", ["handler", "apache"])
@pytest.mark.slow
def test_a_sync_that_dies_anywhere_is_made_good_by_the_next(
    written: LocalTable, opened: Opened, store: MemoryMetastore, form: str, first: str | None
) -> None:
    if first:
        sync_to_hive(opened(), store, format=first)
        store.put_partitions(held(store), [HivePartition(("gone",), "file:///x")] if first == "apache" else [])
        written.write("delete_partition", partitions=["d 1%"])
        wider = rows(0, 5).append_column("note", pa.array(["n"] * 5))
        written.write("upsert", wider.set_column(1, "day", pa.array(["new"] * 5)), EVOLVING)
    whole, table = copy.deepcopy(store), opened()
    sync_to_hive(table, whole, format=form)
    tried = 0
    for at, half_done, broken in kills(lambda one: sync_to_hive(table, one, format=form), store):
        if form == "apache" and (entry := broken.held.get(("db", "trips"))) is not None:
            synced = entry.parameters.get("last_commit_time_sync") == table.snapshot().instant
            assert not synced or broken.parts == whole.parts, "it says that it is done, and is not"
        sync_to_hive(table, broken, format=form)
        assert state(broken) == state(whole), (at, half_done)
        assert sync_to_hive(table, broken, format=form).changes == ()
        tried += 1
    assert tried > 4


def test_partitions_lost_with_an_entry_that_is_made_anew_are_not_taken_for_dropped(
    written: LocalTable, opened: Opened, store: MemoryMetastore
) -> None:
    timed = rows(0, 3).append_column("at", pa.array([1, 2, 3], pa.timestamp("us", "UTC")))
    written.write("upsert", timed, EVOLVING)
    sync_to_hive(opened(), store, options(DROPPED="keep"), format="apache")
    store.drop_partitions(held(store), [("d 1%",)])
    table, keep = opened(), options(DROPPED="keep", TIMESTAMPS="true")
    for at, half_done, broken in kills(lambda one: sync_to_hive(table, one, keep), store):
        there = bool(broken.held)  # what goes with the entry is not known any more
        sync_to_hive(table, broken, keep, format="apache")
        assert days(broken) == ["d 0%", *([] if there else ["d 1%"]), "d 2%"], (at, half_done)


def test_a_sync_that_died_before_its_last_step_is_ended_also_where_nothing_else_changed(
    opened: Opened, store: MemoryMetastore
) -> None:
    table, conditional = opened(), options(CONDITIONAL="true")
    for at, half_done, broken in kills(lambda one: sync_to_hive(table, one, conditional, format="apache"), store):
        sync_to_hive(table, broken, conditional, format="apache")
        assert held(broken).parameters["hoodie.catalog.instant"] == table.snapshot().instant, (at, half_done)


class Overtaken(MemoryMetastore):
    """A later commit and its whole sync come between a sync's reading of the table and its first change."""

    later: Callable[[], object] | None = None

    def put_table(self, table: HiveTable) -> None:
        later, self.later = self.later, None
        if later is not None:
            later()
        super().put_table(table)


@pytest.mark.parametrize("form", ["handler", "apache"])
def test_a_sync_that_was_overtaken_leaves_nothing_older(written: LocalTable, opened: Opened, form: str) -> None:
    store = Overtaken()
    sync_to_hive(opened(), store, format=form)
    written.write("upsert", rows(0, 1))

    def later() -> None:
        wider = rows(0, 5).append_column("note", pa.array(["n"] * 5))
        written.write("upsert", wider.set_column(1, "day", pa.array(["new"] * 5)), EVOLVING)
        sync_to_hive(opened(), store)

    store.later = later
    done = sync_to_hive(opened(), store)
    assert done.instant == held(store).parameters["last_commit_time_sync"] == opened().snapshot().instant
    assert "note" in [column.name for column in held(store).columns]
    assert sync_to_hive(opened(), store).changes == ()
