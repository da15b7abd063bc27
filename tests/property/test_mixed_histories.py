"""Random histories of every service, any of them cut off at a random change, against a dictionary of the rows.

After each step the table has the rows of before or, where the step took effect, those after it; at the end the past,
ranges of changes and the record index are what the dictionary's history says.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hudi_catalog.table import Table, create_table, open_table
from table_format.errors import OptionError, TransactionError
from table_writer import partition_ttl
from table_writer.commit.clustering import pending_clusterings
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from tests.property.profile import examples
from tests.property.test_restored_histories import ROWS, SCHEMA, State, rows_of
from tests.support.bucketed_tables import GROUPS
from tests.support.faults import FaultyStorage, dying
from tests.support.toy_table import assert_tidy

WEEK = {"hoodie.partition.ttl.strategy.days.retain": "7"}
EIGHT_DAYS = 8 * 24 * 60 * 60
LAYOUTS = st.sampled_from(["linear", "z-order", "hilbert"])
PLACES = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["upsert", "upsert", "upsert", "delete", "overwrite"]), ROWS),
    st.tuples(st.just("cluster"), st.tuples(LAYOUTS, st.integers(1, 3), st.booleans())),
    st.tuples(st.sampled_from(["savepoint", "unsave", "restore"]), PLACES),
    st.tuples(st.sampled_from(["expire", "expire", "drop"]), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["statistics", "filters", "unfilter", "records"]), st.none()),
    st.tuples(st.sampled_from(["clean", "archive", "rollback", "maintain", "repair", "run"]), st.none()),
)
#: A step, and the number of the change at which it dies; 0 for none.
STEPS = st.lists(st.tuples(ACTIONS, st.one_of(st.just(0), st.just(0), st.integers(1, 60))), min_size=4, max_size=12)
#: What refuses a service on a table of such a past: files cleaned, writes archived, savepoints in the way.
REFUSED = (TransactionError, OptionError)


class Life:
    """A table, and the state after each of its writes that counts.

    Args:
        folder: of the table.
        indexed: found by a record index, else by buckets.
        kept: number of commits that archiving leaves; cleaning retains one less.
        groups: options of file groups of a bucket.
    """

    def __init__(self, folder: str, *, indexed: bool, kept: int, groups: dict[str, str]) -> None:
        self.path, self.indexed, self.number = f"{folder}/t", indexed, 0
        self.options = {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.clean.commits.retained": str(kept - 1),
            "hoodie.keep.min.commits": str(kept),
            "hoodie.keep.max.commits": str(kept + 1),
            "hoodie.record.index.update.partition.path": "true",
            "hoodie.metadata.compact.max.delta.commits": "2",
            "hoodie.metadata.index.bloom.filter.enable": "true",
            "hoodie.parquet.small.file.limit": "0",
            **({} if indexed else groups),
        }
        create_table(
            self.path,
            SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="v",
            index="RECORD_INDEX" if indexed else "BUCKET",
            buckets=None if indexed else 2,
            options=self.options,
        )
        self.states: list[tuple[str, State]] = []

    @property
    def state(self) -> State:
        return self.states[-1][1] if self.states else {}

    def open(self) -> Table:
        return open_table(self.path, options=self.options)

    def step(self, action: str, value: Any, dies_at: int) -> None:
        """Do something, die in it or not, and see what the table holds."""
        call, after = self.plan(action, value)
        before = self.state
        table = Table.open(FaultyStorage(self.path), options=self.options)
        with dying(dies_at):
            faults = FaultyStorage.faults
            try:
                call(table)
            except REFUSED:
                if action in ("upsert", "delete", "overwrite") and not self.plans():
                    raise  # only where a clustering is planned is a write refused
                after = before
        died = faults.count >= dies_at > 0
        rows = rows_of(self.open())
        place = f"{action} {value}, {'died at ' + str(dies_at) if died else 'whole'}"
        assert rows == after or (died and rows == before), place
        if died:
            report = self.open().maintain({"hoodie.catalog.maintain.services": "settle"})
            assert not report.failed, (place, report)
            assert rows_of(self.open()) == rows, place
        self.learn(rows, place)

    def learn(self, rows: State, place: str) -> None:
        """Which writes count now, by the table's own history: those of before, and one more at most.

        Only clusterings may be several, of plans that dead runs left. They change no row, and may be older than the
        newest write.
        """
        entries = self.open().history()
        writes = [e.instant for e in entries if e.action.endswith("commit") and e.state == "COMPLETED"]
        known, before = dict(self.states), self.state
        newest = max(known.keys() & set(writes), default="")
        assert len([write for write in writes if write not in known]) <= 1 or rows == before, place
        self.states = []
        for write in writes:
            self.states.append((write, known.get(write, rows if write > newest else self.state)))
        assert self.state == rows, place

    def plans(self) -> list[str]:
        """Clusterings that are planned: dead runs go back to their plans, which stay until they are run."""
        return [pending.time for pending in pending_clusterings(self.open().client.timeline())]

    def plan(self, action: str, value: Any) -> tuple[Callable[[Table], Any], State]:
        """A call, and the rows after it."""
        state, times = self.state, [write for write, _ in self.states]
        if action in ("upsert", "overwrite", "delete"):
            return self.write(action, value)
        if action in ("expire", "drop"):
            left = {key: row for key, row in state.items() if row[0] != value}
            if action == "drop":
                return (lambda table: table.delete_partitions(value)) if times else nothing, left
            return lambda table: expire(table, value), left
        if action == "cluster":
            return lambda table: cluster(table, *value), state
        calls: dict[str, Callable[[Table], Any]] = {
            "statistics": lambda table: table.build_index("column_stats", wait_seconds=0),
            "filters": lambda table: table.build_index("bloom_filters", wait_seconds=0),
            "unfilter": lambda table: table.drop_index("bloom_filters"),
            "clean": lambda table: table.clean(),
            "archive": lambda table: table.archive(),
            "maintain": maintain,
            "run": lambda table: table.run_clustering(),
            "repair": lambda table: table.repair({"hoodie.catalog.repair.minutes": "0"}),
        }
        if action in calls and times:
            return calls[action], state
        if action == "records" and times and self.indexed:
            return lambda table: table.bootstrap_index(wait_seconds=0), state
        if action == "unsave":
            return unsave, state
        if not times or action == "records":
            return nothing, state
        if action == "rollback":
            return lambda table: table.rollback(times[-1]), self.states[-2][1] if len(times) > 1 else {}
        target, past = self.states[-1 - value % len(times)]
        if action == "savepoint":
            return lambda table: table.savepoint(target), state
        return lambda table: table.restore(target), past

    def write(self, action: str, places: dict[str, str]) -> tuple[Callable[[Table], Any], State]:
        self.number += 1
        after = {} if action == "overwrite" else dict(self.state)
        if action == "delete":
            gone = [(key, after.pop(key)[0]) for key in places if key in after]
            rows = pa.table([[key for key, _ in gone], [p for _, p in gone]], names=["id", "p"])
            return (lambda table: table.delete(rows)) if gone else nothing, after
        # a bucket's table has a record in each partition; here each key stays where it was
        homes = {k: p if self.indexed else self.state.get(k, (p, 0))[0] for k, p in places.items()}
        after |= {key: (partition, self.number) for key, partition in homes.items()}
        table_rows = pa.table([list(homes), list(homes.values()), [self.number] * len(homes)], schema=SCHEMA)
        if action == "overwrite":
            return lambda table: table.insert_overwrite_table(table_rows), after
        return lambda table: table.upsert(table_rows), after

    def check(self) -> None:
        """The past and ranges are what they were, or refused by name; indexes are right, and nothing is left over."""
        table = self.open()
        for write, state in self.states:
            past = answer(lambda write=write: rows_of(table, as_of=write))
            assert past in (None, state), write
            wanted = {key: row for key, row in self.state.items() if state.get(key) != row}
            changed = answer(lambda write=write: rows_of(table, incremental=(write, None)))
            assert changed in (None, wanted), write
        if self.states and self.indexed and "record_index" in table.config.metadata_partitions:
            report = table.verify_index()
            assert report.is_right, report
        table.run_clustering()
        table.upsert(pa.table([["last"], ["a"], [-1]], schema=SCHEMA))
        assert rows_of(self.open()) == {**self.state, "last": ("a", -1)}
        assert not self.open().client.timeline().pending
        assert_tidy(self.path)


def answer(question: Callable[[], State]) -> State | None:
    """Rows, or None where the files that they need were cleaned."""
    try:
        return question()
    except OptionError as error:
        if "cleaned" not in str(error):
            raise
        return None


def nothing(_: Table) -> None:
    return


def expire(table: Table, partition: str) -> None:
    """As if the partition had been left alone for eight days."""
    merged = WriteOptions.of_user({**WEEK, "hoodie.partition.ttl.strategy.partition.selected": partition})
    partition_ttl.expire_partitions(table.client, merged, LocalExecutor.of(merged), now=time.time() + EIGHT_DAYS)


def cluster(table: Table, layout: str, files: int, apart: bool) -> None:
    size = max(1, sum(table.files()["bytes"].to_pylist()) // files)
    options = {"hoodie.clustering.plan.strategy.target.file.max.bytes": str(size)}
    table.cluster(["v", "id"], layout, options=options, plan_only=apart)
    if apart:
        table.run_clustering()


def maintain(table: Table) -> None:
    report = table.maintain({"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "2"})
    assert not report.failed, report


def unsave(table: Table) -> None:
    for saved in table.savepoints():
        table.delete_savepoint(saved.instant)


#: Shrinking a history would take minutes; the failing one is reported as it is, of twelve steps at most.
UNSHRUNK = settings(examples(10), phases=[Phase.reuse, Phase.generate])


@UNSHRUNK
@given(STEPS, st.booleans(), st.sampled_from([2, 3, 20]), st.sampled_from(GROUPS))
@pytest.mark.slow
def test_a_table_holds_what_a_dictionary_does(
    steps: list[tuple[tuple[str, Any], int]], indexed: bool, kept: int, groups: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(folder, indexed=indexed, kept=kept, groups=groups)
        for (action, value), dies_at in steps:
            life.step(action, value, dies_at)
        life.check()
