"""Random histories with savepoints, restores, rollbacks and cleans against a dictionary of what the table must hold."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_catalog.table import Table, create_table
from table_format.errors import RecordIndexError, TransactionError
from table_format.metadata_table.reader import MetadataTable
from tests.property.profile import examples
from tests.support.bucketed_tables import GROUPS

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
#: key → partition and value
State = dict[str, tuple[str, int]]
KEYS = [f"k{number}" for number in range(7)]
ROWS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from("abc"), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ROWS),
        st.tuples(st.just("upsert"), ROWS),
        st.tuples(st.just("delete"), ROWS),
        st.tuples(st.just("overwrite"), ROWS),
        st.tuples(st.sampled_from(["savepoint", "delete_savepoint", "restore"]), st.integers(0, 5)),
        st.tuples(st.sampled_from(["rollback", "clean"]), st.none()),
    ),
    min_size=3,
    max_size=12,
)
OPTIONS = {
    "hoodie.clean.automatic": "false",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


class History:
    """A table, the state after each of its writes, and those that savepoints keep."""

    def __init__(self, folder: str, *, indexed: bool, compaction: int, groups: Mapping[str, str]) -> None:
        options = {**OPTIONS, "hoodie.metadata.compact.max.delta.commits": str(compaction)}
        options |= {} if indexed else groups
        self.indexed = indexed
        self.table: Table = create_table(
            f"{folder}/t",
            SCHEMA,
            record_key="id",
            partition_by="p",
            ordering="v",
            index="RECORD_INDEX" if indexed else "BUCKET",
            buckets=None if indexed else 2,
            options=options,
        )
        self.states: list[tuple[str, State]] = []
        self.saved: set[str] = set()
        self.cleaned = False
        self.taken_back = False
        self.number = 0

    @property
    def state(self) -> State:
        return self.states[-1][1] if self.states else {}

    def run(self, step: str, value: Any) -> None:
        if step in ("upsert", "delete", "overwrite"):
            self._write(step, value)
        elif step == "clean":
            self.table.clean({"hoodie.clean.commits.retained": "1"})
            self.cleaned = True
        elif self.states and step != "delete_savepoint":
            self._service(step, self.states[-1 - (value or 0) % len(self.states)][0])
        elif self.saved:
            self.table.delete_savepoint(self.saved.pop())

    def _write(self, step: str, places: dict[str, str]) -> None:
        self.number += 1
        state = {} if step == "overwrite" else dict(self.state)
        if step == "delete":
            gone = [(key, state.pop(key)[0]) for key in places if key in state]
            if not gone:
                return
            rows = pa.table([[key for key, _ in gone], [p for _, p in gone]], names=["id", "p"])
            summary = self.table.delete(rows)
        else:
            # a bucket's table has a record in each partition; here each key stays where it was
            rows_of = {k: p if self.indexed else state.get(k, (p, 0))[0] for k, p in places.items()}
            state |= {key: (partition, self.number) for key, partition in rows_of.items()}
            rows = pa.table([list(rows_of), list(rows_of.values()), [self.number] * len(rows_of)], schema=SCHEMA)
            write = self.table.insert_overwrite_table if step == "overwrite" else self.table.upsert
            summary = write(rows)
        assert summary.instant is not None
        self.states.append((summary.instant, state))

    def _service(self, step: str, target: str) -> None:
        """A savepoint, restore or rollback; after a clean, the files of a state may be gone."""
        times = [time for time, _ in self.states]
        refused = contextlib.suppress(TransactionError) if self.cleaned else contextlib.nullcontext()
        if step == "savepoint" and target not in self.saved:
            with refused:
                self.table.savepoint(target)
                self.saved.add(target)
        elif step == "rollback" and times[-1] not in self.saved:
            with refused:
                assert self.table.rollback(times[-1]).undone == (times[-1],)
                self.states.pop()
                self.taken_back = bool(self.states)  # after the first of them
        elif step == "restore" and not any(time > target for time in self.saved):
            with refused:
                undone = self.table.restore(target).undone
                assert undone == tuple(reversed(times[times.index(target) + 1 :]))
                self.taken_back |= bool(undone)
                del self.states[times.index(target) + 1 :]

    def check(self) -> None:
        """What the table holds is the newest state; past states that are left are the earlier ones."""
        assert rows_of(self.table) == self.state
        assert [saved.instant for saved in self.table.savepoints()] == sorted(self.saved)
        self._check_indexes_of_files()
        if self.indexed:
            report = self.table.verify_index()
            assert report.is_right, report
        for time, state in self.states if not self.cleaned else []:
            assert rows_of(self.table, as_of=time) == state
        if len(self.states) > 1 and not self.cleaned:
            self._check_past_of_keys()

    def _check_indexes_of_files(self) -> None:
        """Each file has a bloom filter and statistics; files that are gone have none."""
        client = self.table.client
        client.reload()
        metadata = MetadataTable.open(client, client.timeline())
        assert metadata is not None
        files = metadata.files()
        filters = metadata.bloom_filters(files)
        assert filters is not None
        assert sorted(filters["file_name"].to_pylist()) == sorted(files["file_name"].to_pylist())
        assert set(metadata.column_stats_raw(["v"])["file_name"].to_pylist()) == set(files["file_name"].to_pylist())

    def _check_past_of_keys(self) -> None:
        """Entries of the index as of each state, and what changed between the first and the last."""
        (begin, old), (end, new) = self.states[0], self.states[-1]
        changes = {row["key"]: row for row in self.table.index_changes(begin, end).to_pylist()}
        if not self.indexed:
            return
        for time, state in self.states:
            entries = self.table.index_entries(KEYS, as_of=time).to_pylist()
            assert {entry["key"]: entry["partition"] for entry in entries} == {
                key: row[0] for key, row in state.items()
            }
        kinds = {key: row["change"] for key, row in changes.items()}
        assert {key for key, kind in kinds.items() if kind == "insert"} == new.keys() - old.keys()
        assert {key for key, kind in kinds.items() if kind == "delete"} == old.keys() - new.keys()
        moved = {key for key in old.keys() & new.keys() if old[key][0] != new[key][0]}
        assert moved <= {key for key, kind in kinds.items() if kind == "move"} <= old.keys() & new.keys()
        if self.taken_back:
            with pytest.raises(RecordIndexError, match="took writes back"):
                self.table.verify_index(since=begin)
        else:
            assert self.table.verify_index(since=begin).is_right


def rows_of(table: Table, **question: Any) -> State:
    if not table.client.timeline().writes:
        return {}
    rows = table.scan(columns=["id", "p", "v"], **question).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["p"], row["v"]) for row in rows}


@examples(25)
@given(STEPS, st.booleans(), st.sampled_from([1, 2, 10]), st.sampled_from(GROUPS))
def test_a_table_holds_what_a_dictionary_does(
    steps: list[tuple[str, Any]], indexed: bool, compaction: int, groups: dict[str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(folder, indexed=indexed, compaction=compaction, groups=groups)
        for step, value in steps:
            history.run(step, value)
            if step in ("restore", "rollback"):
                history.check()
        history.check()
