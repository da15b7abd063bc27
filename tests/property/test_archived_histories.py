"""Random histories with archiving: rows, history, past states and ranges are what they were, or are clearly refused."""

import tempfile
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Table
from hudi_catalog.table import create_table
from table_format.errors import OptionError
from table_writer.metadata.instants import load_metadata_timeline
from tests.property.profile import examples
from tests.support.archived_tables import check_archive, timeline_files

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
Model = dict[tuple[str, str], int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "upsert", "upsert", "delete", "overwrite", "drop", "archive", "clean", "held"]),
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.sampled_from(["k1", "k2", "k3", "k4", "k5"]), min_size=1, max_size=3, unique=True),
    ),
    min_size=8,
    max_size=18,
)


def rows_of(table: pa.Table) -> Model:
    rows = table.to_pylist()
    assert len({(row["p"], row["id"]) for row in rows}) == len(rows)
    return {(row["p"], row["id"]): row["v"] for row in rows}


def settings_of(retained: int, metadata: bool, index: str) -> dict[str, Any]:
    return {
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.automatic": str(retained < 20).lower(),
        "hoodie.clean.commits.retained": str(min(retained, 2)),
        "hoodie.metadata.enable": str(metadata).lower(),
        "hoodie.metadata.compact.max.delta.commits": "2",
        "hoodie.archive.merge.files.batch.size": "3",
        "hoodie.metadata.record.index.min.filegroup.count": "2",
        **({"hoodie.index.type": index} if index == "RECORD_INDEX" else {}),
    }


@examples(8)
@given(STEPS, st.sampled_from([1, 2, 20]), st.booleans(), st.sampled_from(["BUCKET", "RECORD_INDEX"]))
@pytest.mark.slow
def test_histories(steps: list[tuple[str, str, list[str]]], retained: int, metadata: bool, index: str) -> None:
    options = settings_of(retained, metadata or index == "RECORD_INDEX", index)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        buckets = 2 if index == "BUCKET" else None
        table = create_table(path, SCHEMA, record_key="id", partition_by="p", buckets=buckets, options=options)
        held = Table.open(path)
        model: Model = {}
        states: dict[str, Model] = {}
        for number, (step, partition, names) in enumerate(steps):
            keys = [partition + name for name in names]  # with a record index a key is in one partition of the table
            rows = pa.Table.from_pylist([{"id": key, "p": partition, "v": number} for key in keys], SCHEMA)
            new = {(partition, key): number for key in keys}
            if step == "archive":
                table.archive()
                continue
            if step == "clean":
                table.clean({"hoodie.clean.commits.retained": str(min(retained, 2))})
                continue
            if step == "held":
                assert rows_of(held.refresh().scan(columns=SCHEMA.names).to_arrow()) == model
                continue
            model = dict(model)
            if step == "upsert":
                table.upsert(rows)
                model |= new
            elif step == "delete":
                table.delete(f"id = '{keys[0]}'")
                model = {place: value for place, value in model.items() if place[1] != keys[0]}
            elif step == "overwrite":
                table.insert_overwrite(rows)
                model = {place: value for place, value in model.items() if place[0] != partition} | new
            else:
                table.delete_partitions(partition)
                model = {place: value for place, value in model.items() if place[0] != partition}
            last = Table.open(path).snapshot().timeline.writes[-1].time
            states[last] = model
        assert rows_of(held.refresh().scan(columns=SCHEMA.names).to_arrow()) == model
        check(path, states, model, everything=retained >= 20 and "clean" not in {step for step, _, _ in steps})
        assert timeline_files(table.client.timeline()) < 90
        if metadata:
            assert timeline_files(load_metadata_timeline(table.client.storage)) < 120


def check(path: str, states: dict[str, Model], model: Model, *, everything: bool) -> None:
    table = Table.open(path)
    assert rows_of(table.scan(columns=SCHEMA.names).to_arrow()) == model
    check_archive(path, [*states])
    times = [*states]
    refused = answered = 0
    for time, state in states.items():
        try:
            rows = table.scan(columns=SCHEMA.names, as_of=time).to_arrow()
        except OptionError as error:
            refused += "cleaned away" in str(error)
        else:
            assert rows_of(rows) == state
            answered += 1
    assert answered + refused == len(states)
    assert not (everything and refused), "nothing was cleaned, so no state is gone"
    for begin in ["earliest", *times[:: max(1, len(times) // 4)]]:
        written = table.scan(columns=["id", "p", "v", "_hoodie_commit_time"], incremental=(begin, None)).to_arrow()
        rows = {(row["p"], row["id"]): row["v"] for row in written.to_pylist()}
        before = (
            set()
            if begin == "earliest"
            else {place for place, value in states[begin].items() if value == model.get(place)}
        )
        assert rows == {place: value for place, value in model.items() if place not in before}
