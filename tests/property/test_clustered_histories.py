"""Random histories with clusterings, restores and rollbacks against a dictionary of what the table must hold."""

from __future__ import annotations

import tempfile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.property.profile import examples
from tests.property.test_restored_histories import ROWS, History
from tests.support.bucketed_tables import GROUPS

COLUMNS = st.lists(st.sampled_from(["id", "p", "v"]), min_size=1, max_size=3, unique=True)
CLUSTER = st.tuples(COLUMNS, st.sampled_from(["linear", "z-order", "hilbert"]), st.integers(1, 3), st.booleans())
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ROWS),
        st.tuples(st.sampled_from(["delete", "overwrite"]), ROWS),
        st.tuples(st.just("cluster"), CLUSTER),
        st.tuples(st.just("cluster"), CLUSTER),
        st.tuples(st.just("restore"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["rollback", "clean"]), st.none()),
    ),
    min_size=3,
    max_size=10,
)


class ClusteredHistory(History):
    def run(self, step: str, value: Any) -> None:
        if step != "cluster":
            super().run(step, value)
            return
        columns, layout, files, apart = value
        if not self.states:
            return
        size = max(1, sum(self.table.files()["bytes"].to_pylist()) // files)
        options = {"hoodie.clustering.plan.strategy.target.file.max.bytes": str(size)}
        report = self.table.cluster(columns, layout, options=options, plan_only=apart)
        if apart and report.instant is not None:
            [report] = self.table.run_clustering()
        if report.instant is not None:
            self.states.append((report.instant, self.state))


@examples(20)
@given(STEPS, st.booleans(), st.sampled_from([1, 10]), st.sampled_from(GROUPS))
def test_a_table_holds_what_a_dictionary_does(
    steps: list[tuple[str, Any]], indexed: bool, compaction: int, groups: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = ClusteredHistory(folder, indexed=indexed, compaction=compaction, groups=groups)
        for step, value in steps:
            history.run(step, value)
        history.check()
