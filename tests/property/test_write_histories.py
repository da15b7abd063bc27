"""Random histories of writes against a dictionary of what the table must hold."""

import tempfile
from collections.abc import Mapping
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from table_writer.execution import text_dictionaries
from tests.property.profile import examples
from tests.support.bucketed_tables import GROUPS
from tests.support.local_writes import EXECUTORS, LocalTable
from tests.support.reading import current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int32()), ("ts", pa.float64())])
Row = dict[str, Any]
State = dict[tuple[str, str], list[Row]]

KEYS = ["a", "b", "k:1", "x,y", "é", "日本", "𝄞", "\uffff", "0", "AA", "BB", "Aa"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "p": st.sampled_from(["p", "q"]),
            "v": st.integers(0, 9) | st.none(),
            "ts": st.sampled_from([None, -1.0, -0.0, 0.0, 2.0, float("inf"), float("nan")]),
            "_hoodie_is_deleted": st.booleans() | st.none(),
        }
    ),
    max_size=14,
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["upsert", "upsert", "upsert", "insert", "drop", "merge", "bulk_insert", "delete", "insert_overwrite"]
        ),
        ROWS,
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bucket.index.num.buckets": "3",
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
}
WRITES: Mapping[str, tuple[str, dict[str, str]]] = {
    "drop": ("insert", {"hoodie.datasource.insert.dup.policy": "drop"}),
    "merge": ("insert", {"hoodie.merge.allow.duplicate.on.inserts": "false"}),
}


def rank(row: Row) -> tuple[bool, bool, float, bool]:
    """Nulls, numbers with -0.0 before 0.0, NaN."""
    ts = row["ts"]
    if ts is None:
        return (False, False, 0.0, False)
    return (True, True, 0.0, False) if ts != ts else (True, False, ts, str(ts) == "0.0")


def place(row: Row, partitioned: bool) -> tuple[str, str]:
    return (row["p"] if partitioned else "", row["id"])


def winners(batch: list[Row], partitioned: bool) -> dict[tuple[str, str], Row]:
    best: dict[tuple[str, str], Row] = {}
    for row in batch:
        key = place(row, partitioned)
        if key not in best or rank(row) >= rank(best[key]):
            best[key] = row
    return best


def apply(state: State, step: str, batch: list[Row], partitioned: bool, event_time: bool) -> None:
    if step == "delete":
        for row in batch:
            state.pop(place(row, partitioned), None)
        return
    if step in ("upsert", "merge"):
        for key, row in winners(batch, partitioned).items():
            old = state.pop(key, [])
            if not old and not row.get("_hoodie_is_deleted"):
                state[key] = [row]
            remaining = []
            for other in old:
                if event_time and rank(row) < rank(other):
                    remaining.append(other)
                elif not row.get("_hoodie_is_deleted"):
                    remaining.append(row)
            if remaining:
                state[key] = remaining
        return
    alive = [row for row in batch if not row.get("_hoodie_is_deleted")]
    if step == "insert_overwrite":
        touched = {place(row, partitioned)[0] for row in alive}
        for key in [key for key in state if key[0] in touched]:
            del state[key]
    known = set(state) if step == "drop" else set()
    for row in alive:
        if place(row, partitioned) not in known:
            state.setdefault(place(row, partitioned), []).append(row)


@examples(80)
@given(
    STEPS,
    st.fixed_dictionaries({"partitioned": st.booleans(), "event time": st.booleans(), "on driver": st.booleans()}),
    st.sampled_from([*EXECUTORS]),
    st.sampled_from([0, 1 << 12]),
    st.sampled_from(GROUPS),
)
def test_a_table_holds_what_a_dictionary_does(
    steps: list[tuple[str, list[Row], bool]],
    kind: dict[str, bool],
    executor: str,
    encoded: int,
    groups: dict[str, str],
) -> None:
    options, partitioned, event_time = {**OPTIONS, **groups}, kind["partitioned"], kind["event time"]
    if partitioned:
        options["hoodie.datasource.write.partitionpath.field"] = "p"
    if not event_time:
        options["hoodie.record.merge.mode"] = "COMMIT_TIME_ORDERING"
    if not kind["on driver"]:
        options["hoodie.catalog.record.index.driver.rows"] = "0"
    state: State = {}
    # with 0 the rows of any batch get dictionaries in place of texts
    least = mock.patch.object(text_dictionaries, "_LEAST_ROWS", encoded)
    with tempfile.TemporaryDirectory() as folder, least:
        local = LocalTable.create(f"{folder}/t", SCHEMA, options, executor)
        for step, batch, with_flag in steps:
            schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_())) if with_flag else SCHEMA
            taken = [{name: row[name] for name in schema.names} for row in batch]
            operation, more = WRITES.get(step, (step, {}))
            local.write(operation, pa.Table.from_pylist(taken, schema), more)
            apply(state, step, taken, partitioned, event_time)
            check(local, state, partitioned)


def check(local: LocalTable, state: State, partitioned: bool) -> None:
    stored = current_rows(local.client).to_pylist()
    expected = sorted(shown(row) for rows in state.values() for row in rows)
    assert sorted(shown(row) for row in stored) == expected
    for row in stored:
        assert row["_hoodie_record_key"] == row["id"]
        assert row["_hoodie_partition_path"] == (row["p"] if partitioned else "")
    seqnos = [row["_hoodie_commit_seqno"] for row in stored]
    copies = sum(len(rows) - 1 for rows in state.values())
    assert len(seqnos) - len(set(seqnos)) <= copies


def shown(row: Row) -> str:
    return repr([row["id"], row["p"], row["v"], row["ts"]])
