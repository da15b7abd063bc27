"""Merges with random clauses equal those of delta-rs."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import event, given
from hypothesis import strategies as st

from hudi_catalog import create_table
from tests.property.profile import examples

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("n", pa.int64()), ("s", pa.string())])
ROW = st.fixed_dictionaries(
    {"p": st.just("a"), "n": st.integers(-3, 3) | st.none(), "s": st.sampled_from([None, "", "x", "é"])}
)
ROWS = st.dictionaries(st.integers(0, 12), ROW, max_size=10)
VALUES = {
    (True, True): [{"n": "target.n + source.n"}, {"s": "source.s", "n": "0"}, {"s": "target.s || source.s"}],
    (True, False): [{"n": "target.n * 2"}, {"s": "'old'"}],
}
CONDITIONS = {
    (True, True): [None, "target.n < source.n", "source.s IS NULL", "target.s = source.s AND target.n > 0"],
    (True, False): ["target.n > 0", "target.s = 'x'", None],
    (False, True): [None, "source.n IS NOT NULL", "source.s <> ''"],
}
BOTH, TARGET, SOURCE = (True, True), (True, False), (False, True)


@dataclass(frozen=True)
class Step:
    """A clause, by the name of the method that both builders have for it."""

    name: str
    condition: str | None
    values: Mapping[str, str] | None = None


def steps(name: str, sides: tuple[bool, bool]) -> st.SearchStrategy[Step]:
    values = st.sampled_from(VALUES[sides]) if name.endswith("update") else st.none()
    return st.builds(Step, st.just(name), st.sampled_from(CONDITIONS[sides]), values)


MATCHED = [steps(f"when_matched_{kind}", BOTH) for kind in ("update", "update_all", "delete")]
INSERTS = steps("when_not_matched_insert_all", SOURCE)
BY_SOURCE = [steps(f"when_not_matched_by_source_{kind}", TARGET) for kind in ("update", "delete")]
CLAUSES = st.tuples(
    st.lists(st.one_of(MATCHED), max_size=2), st.lists(INSERTS, max_size=1), st.lists(st.one_of(BY_SOURCE), max_size=2)
).map(lambda parts: [*parts[0], *parts[1], *parts[2]])


def table_of(rows: Mapping[int, Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, **row} for key, row in rows.items()], SCHEMA)


def merged(builder: Any, clauses: Sequence[Step], *, values: str) -> Any:
    """Add the clauses; the builders differ in the name of their first argument."""
    for step in clauses:
        arguments = {} if step.values is None else {values: step.values}
        condition = "condition" if values == "values" else "predicate"
        builder = getattr(builder, step.name)(**arguments, **{condition: step.condition})
    return builder


@examples(25)
@given(ROWS, ROWS, CLAUSES.filter(bool), st.sampled_from(["", "p"]), st.sampled_from(["BUCKET", "RECORD_INDEX"]))
def test_a_merge_equals_that_of_delta(
    target: dict[int, Any], source: dict[int, Any], clauses: list[Step], partition: str, index: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_deltalake(str(folder / "delta"), table_of(target))
        delta = DeltaTable(str(folder / "delta"))
        builder = delta.merge(table_of(source), "target.id = source.id", source_alias="source", target_alias="target")
        merged(builder, clauses, values="updates").execute()

        ours = create_table(folder / "ours", SCHEMA, record_key="id", partition_by=partition or (), index=index)
        ours.upsert(table_of(target))
        summary = merged(ours.merge(table_of(source), "id"), clauses, values="values").execute()
        event(f"{summary.rows_inserted > 0} {summary.rows_updated > 0} {summary.rows_deleted > 0}")

        columns = SCHEMA.names
        rows, expected = ours.scan(columns=columns).to_arrow(), delta.to_pyarrow_table(columns=columns)
        assert sorted(rows.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
