"""Random histories with resizes that may die, against a dictionary of what the table must hold.

After each step all rows are found by plans that prune by bucket, also by a reader that opened the table before it, and
also in past states.
"""

from __future__ import annotations

import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.table import Table, open_table
from table_format.errors import UnsupportedTableError
from table_format.keys.partition_buckets import EXPRESSIONS
from table_format.table.bucket_counts import RESCALE_KEY, settled_rules
from table_format.table.client import TableClient
from table_writer.execution.local import LocalExecutor
from table_writer.plan.options import WriteOptions
from table_writer.resize import ResizeRequest, resize
from tests.property.profile import examples
from tests.property.test_restored_histories import KEYS, OPTIONS, ROWS, History, rows_of
from tests.support.bucketed_tables import GROUPS
from tests.support.faults import FaultyStorage, dying

EAGER = {**OPTIONS, "hoodie.clean.failed.writes.policy": "EAGER", "hoodie.catalog.write.progress": "false"}
#: the change of a file at which it dies; most runs have about 50
DEATHS = st.one_of(st.none(), st.integers(1, 70))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ROWS),
        st.tuples(st.sampled_from(["delete", "overwrite"]), ROWS),
        st.tuples(st.just("resize"), st.tuples(st.integers(1, 9), DEATHS, st.just(""))),
        st.tuples(st.just("resize"), st.tuples(st.sampled_from([2, 4, 8]), DEATHS, st.sampled_from("abc*"))),
        st.tuples(st.just("restore"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["rollback", "clean"]), st.none()),
    ),
    min_size=3,
    max_size=9,
)


class ResizedHistory(History):
    def __init__(self, folder: str, groups: dict[str, str]) -> None:
        super().__init__(folder, indexed=False, compaction=10, groups=groups)
        self.path = f"{folder}/t"

    def run(self, step: str, value: Any) -> None:
        self.table = open_table(self.path, options=EAGER)
        if step != "resize":
            super().run(step, value)
            return
        if not self.states:
            return
        count, death, partition = value
        config = self.table.config
        by_rules = {**config.raw, **settled_rules(config, self.table.client.timeline())}.get(EXPRESSIONS)
        if partition in "abc" and not any(p == partition for p, _ in self.state.values()):
            partition = "*" if by_rules and self.state else ""
        if by_rules and not partition:
            with pytest.raises(UnsupportedTableError, match="own bucket counts"):
                self.table.resize(count, options=EAGER)
            return
        client = TableClient.open(FaultyStorage(self.path))
        with dying(death or 0):
            resize(client, WriteOptions.of(EAGER), LocalExecutor(1), ResizeRequest(count, tuple(partition)))
        timeline = self.table.client.timeline()
        newest = timeline.writes[-1]
        if newest.time != self.states[-1][0]:
            assert RESCALE_KEY in timeline.extra_metadata(newest)
            self.states.append((newest.time, self.state))
        else:
            assert death is not None or partition or self.table.config.bucket_count == count

    def check_keys(self, table: Table, **question: Any) -> None:
        state = rows_of(table, **question)
        for key in KEYS:
            rows = table.scan(f"id = '{key}'", columns=["id", "p", "v"], **question).to_arrow().to_pylist()
            assert [(row["p"], row["v"]) for row in rows] == ([state[key]] if key in state else [])


@examples(15)
@given(STEPS, st.sampled_from(GROUPS))
def test_a_table_holds_what_a_dictionary_does(steps: list[tuple[str, Any]], groups: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = ResizedHistory(folder, groups)
        for step, value in steps:
            opened = open_table(history.path)
            history.run(step, value)
            for table in (opened, open_table(history.path)):
                assert rows_of(table) == history.state
                if history.states:
                    history.check_keys(table)
        for time, state in [] if history.cleaned else history.states:
            table = open_table(history.path)
            assert rows_of(table, as_of=time) == state
            history.check_keys(table, as_of=time)
