"""Incremental scans that end before archived replacecommits, whose groups' files may have been cleaned away."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import Table
from catalog.snapshots.incremental import instant_range
from hudi_catalog.table import create_table
from table_format.errors import OptionError
from table_format.instant import Instant, State
from tests.support.layout_2_tables import to_layout_2

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.metadata.compact.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.index.type": "RECORD_INDEX",
}
REPLACED_BY = 4
Model = dict[str, int]


def rows(number: int) -> pa.Table:
    return pa.Table.from_pylist([{"id": f"k{number}", "p": "x", "v": number}], SCHEMA)


def written(path: Path, replaced: str) -> dict[str, Model]:
    """A table of one row a write, of which the fifth also replaces file groups; its rows after each write.

    Where nothing is replaced, all files are kept in another folder, too.
    """
    table = create_table(path, SCHEMA, record_key="id", partition_by="p", options=OPTIONS)
    states: dict[str, Model] = {}
    model: Model = {}
    for number in range(11):
        if number == REPLACED_BY and replaced == "insert_overwrite":
            table.insert_overwrite(rows(number))
            model = {f"k{number}": number}
        elif number == REPLACED_BY and replaced == "delete_partition":
            table.delete_partitions("x")
            model = {}
        else:
            table.upsert(rows(number))
            model = {**model, f"k{number}": number}
        states[table.client.timeline().writes[-1].time] = model
        if number == REPLACED_BY and replaced == "cluster":
            assert table.cluster(["v"]).state == "completed"
            states[table.client.timeline().writes[-1].time] = model
        if replaced == "nothing":
            shutil.copytree(path / "x", path.with_name("files"), dirs_exist_ok=True)
    return states


def answers(table: Table, **arguments: Any) -> Model | str:
    try:
        rows = table.scan(columns=["id", "v"], **arguments).to_arrow().to_pylist()
    except OptionError as error:
        return str(error)
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("replaced", ["cluster", "insert_overwrite", "delete_partition"])
def test_ranges_of_layout_2_that_end_before_an_archived_replacement(tmp_path: Path, replaced: str) -> None:
    """Each is answered in full, or refused where the state at its end is."""
    states = written(tmp_path / "one", replaced)
    done = to_layout_2(tmp_path / "one", tmp_path / "two")
    assert list(done) == list(states)
    refused = []
    table = Table.open(str(tmp_path / "two"))
    timeline = table.snapshot().timeline
    times = [*states]
    assert timeline.writes[0].time > times[REPLACED_BY + 1]
    assert len(timeline.archive.replaced) == 1
    for number, (end, state) in enumerate(states.items()):
        as_of = answers(table, as_of=end)
        if isinstance(as_of, str):
            refused.append(end)
            assert "cleaned away" in as_of
        else:
            assert as_of == state
        for begin in ["earliest", *times[:number]]:
            old = states.get(begin, {})
            changed = {key: value for key, value in state.items() if key not in old}
            answer = answers(table, incremental=(done.get(begin, begin), done[end]))
            if end in refused:
                assert "cleaned away" in str(answer)
            else:
                assert answer == changed
    assert times[REPLACED_BY - 1] in refused
    assert len(refused) < len(states)
    for begin in times:
        changed = {key: value for key, value in states[times[-1]].items() if key not in states[begin]}
        assert answers(table, incremental=(done[begin], None)) == changed


@pytest.mark.slow
def test_an_archived_write_that_completed_after_the_end_is_not_in_the_state(tmp_path: Path) -> None:
    """It began before all active writes and completed after them."""
    states = written(tmp_path / "one", "nothing")
    first = next(iter(states))
    done = to_layout_2(tmp_path / "one", tmp_path / "two", slow=first)
    # no state is cleaned away
    shutil.copytree(tmp_path / "files", tmp_path / "two/x", dirs_exist_ok=True)
    table = Table.open(str(tmp_path / "two"))
    active = [write.time for write in table.snapshot().timeline.writes]
    begin, end = done[active[0]], done[active[-1]]
    of_range = answers(table, incremental=(begin, end))
    assert of_range == {f"k{number}": number for number in range(11 - len(active) + 1, 11)}
    assert answers(table, incremental=(begin, None)) == {**of_range, "k0": 0}
    span = table.scan(incremental=(begin, end)).instants
    assert span is not None
    assert not span.timeline.is_committed(first)


@pytest.mark.slow
def test_a_clustering_that_was_archived_beyond_a_savepoint_is_of_the_range(tmp_path: Path) -> None:
    states = list(written(tmp_path / "one", "cluster"))
    client = Table.open(str(tmp_path / "one")).client
    timeline = client.timeline()
    saved = [Instant(states[0], action, State.COMPLETED) for action in ("commit", "savepoint")]
    gapped = dataclasses.replace(timeline, instants=(*saved, *timeline.instants))
    assert gapped.writes[1].time > states[REPLACED_BY + 1]
    assert instant_range(states[0], None, client, gapped).rewrites == {states[REPLACED_BY + 1]}
