"""Random histories of whole write jobs on tables with a record index, against a dictionary."""

import tempfile
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.errors import RecordError
from table_writer.record_index.verify import verify_index
from tests.property.profile import examples
from tests.support.local_writes import EXECUTORS, LocalTable
from tests.support.reading import current_rows

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int32()), ("ts", pa.int64())])
MOVE = "hoodie.record.index.update.partition.path"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
    # two rows a file, and no file takes new rows but those of one
    "hoodie.copyonwrite.insert.auto.split": "false",
    "hoodie.copyonwrite.insert.split.size": "2",
    "hoodie.catalog.write.surgery": "always",
}
KEYS = ["a", "b", "k:1", "x,y", "é", "日本", "𝄞", "\uffff", "AaAa", "BBBB"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(KEYS),
            "p": st.sampled_from(["p", "q", "r"]),
            "v": st.integers(0, 9),
            "ts": st.sampled_from([None, 1, 2, 3]),
            "_hoodie_is_deleted": st.sampled_from([False, False, False, None, True]),
        }
    ),
    max_size=10,
)
BULK = {
    mode: {"hoodie.bulkinsert.sort.mode": mode, "hoodie.combine.before.insert": "true"}
    for mode in ("NONE", "PARTITION_SORT", "GLOBAL_SORT")
}
OPERATIONS = (
    "upsert",
    "upsert",
    "upsert",
    "insert",
    "drop",
    "fail",
    "delete",
    "overwrite",
    "table",
    "partition",
    *BULK,
)
STEPS = st.lists(st.tuples(st.sampled_from(OPERATIONS), ROWS, st.booleans(), st.booleans()), min_size=2, max_size=5)
WRITES: Mapping[str, tuple[str, dict[str, str]]] = {
    "drop": ("insert", {"hoodie.datasource.insert.dup.policy": "drop"}),
    "fail": ("insert", {"hoodie.datasource.insert.dup.policy": "fail"}),
    "overwrite": ("insert_overwrite", {}),
    "table": ("insert_overwrite_table", {}),
    **{mode: ("bulk_insert", values) for mode, values in BULK.items()},
}
Row = dict[str, Any]
State = dict[str, Row]
"""Rows by key; `home` is the partition in which a row lies."""


def rank(row: Row) -> int:
    return -1 if row["ts"] is None else int(row["ts"])


def unique(rows: list[Row], ordered: bool) -> State:
    winners: State = {}
    for row in rows:
        if row["id"] not in winners or not ordered or rank(row) >= rank(winners[row["id"]]):
            winners[row["id"]] = {**row, "home": row["p"]}
    return winners


def merged(state: State, rows: State, ordered: bool, move: bool) -> State:
    result = dict(state)
    for key, row in rows.items():
        old = state.get(key)
        if old is not None and ordered and rank(row) < rank(old):
            continue
        if row["_hoodie_is_deleted"]:
            result.pop(key, None)
        else:
            result[key] = {**row, "home": row["p"] if move or old is None else old["home"]}
    return result


def expected(state: State, operation: str, rows: list[Row], ordered: bool, move: bool) -> State | None:
    """The table after an operation; None if it must be refused."""
    batch = unique(rows, ordered)
    fresh = {key: row for key, row in batch.items() if not row["_hoodie_is_deleted"]}
    if operation in ("upsert", "insert"):
        return merged(state, batch, ordered, move)
    if operation == "delete":
        return {key: row for key, row in state.items() if key not in {row["id"] for row in rows}}
    if operation in ("drop", *BULK):
        return {key: row for key, row in fresh.items() if key not in state} | state
    if operation == "fail":
        return None if any(key in state for key in fresh) else state | fresh
    if operation == "table":
        return fresh
    homes = {row["home"] for row in fresh.values()}
    if any(state[key]["home"] not in homes for key in fresh if key in state):
        return None
    return {key: row for key, row in state.items() if row["home"] not in homes} | fresh


def contents(local: LocalTable) -> State:
    rows = current_rows(local.client).to_pylist()
    by_key = {row["id"]: row for row in rows}
    assert len(by_key) == len(rows), "two rows of one key"
    assert all(row["_hoodie_record_key"] == row["id"] for row in rows)
    return {key: {"home": row["_hoodie_partition_path"], **user(row)} for key, row in by_key.items()}


def user(row: Row) -> Row:
    return {name: row[name] for name in SCHEMA.names}


@pytest.mark.parametrize("ordered", [False, True])
@examples(6)
@given(steps=STEPS, executor=st.sampled_from([*EXECUTORS]))
def test_histories_equal_a_dictionary(
    ordered: bool, steps: list[tuple[str, list[Row], bool, bool]], executor: str
) -> None:
    options = OPTIONS | ({"hoodie.datasource.write.precombine.field": "ts"} if ordered else {})
    flagged = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with tempfile.TemporaryDirectory() as folder:
        indexed = options | {"hoodie.index.type": "RECORD_INDEX"}
        local = LocalTable.create(f"{folder}/t", SCHEMA, indexed, executor)
        state: State = {}
        for operation, rows, move, on_driver in steps:
            given_options = {MOVE: str(move), "hoodie.catalog.record.index.driver.rows": "9999" if on_driver else "0"}
            if operation == "partition":
                state = {key: row for key, row in state.items() if row["home"] != "p"}
                local.write("delete_partition", None, given_options, partitions=["p"])
            else:
                name, more = WRITES.get(operation, (operation, {}))
                # a bulk insert takes its keys for new
                taken = [row for row in rows if operation not in BULK or row["id"] not in state]
                after = expected(state, operation, taken, ordered, move)
                batch = pa.Table.from_pylist(taken, schema=flagged)
                batch = batch.select(["id"]) if operation == "delete" else batch
                if after is None:
                    with pytest.raises(RecordError, match="key"):
                        local.write(name, batch, given_options | more)
                else:
                    local.write(name, batch, given_options | more)
                    state = after
            assert contents(local) == {key: {"home": row["home"], **user(row)} for key, row in state.items()}
            assert verify_index(local.client).is_right
