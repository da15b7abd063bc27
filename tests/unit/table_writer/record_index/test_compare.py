"""Comparing any index with any data: the faults equal those of two dictionaries, and the repair corrects the index."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.metadata_table.record_index_entries import LOCATIONS_SCHEMA
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.storage import Storage
from table_writer.metadata.index_deltas import read_deltas
from table_writer.record_index.compare import DUPLICATE, EXTRA, KINDS, MISPLACED, MISSING, WRONG, Comparison
from table_writer.record_index.group_file import SliceLocations
from table_writer.record_index.runs import RunSet, save_run

PLACES = SliceLocations(("p", "p", "q", ""), ("f0", "f1", "f2", "f3"), (30, 10, 20, 20))
GONE = ("p", "f9")
KEYS = st.sampled_from([f"key-{number}" for number in range(9)])
DATA = st.lists(st.tuples(KEYS, st.integers(0, 3)), max_size=14)
INDEX = st.dictionaries(KEYS, st.integers(-1, 3), max_size=9)


@dataclass(frozen=True)
class FakeIndex:
    layout: IndexLayout
    entries: dict[int, dict[str, int]]

    def group_entries(self, group: int) -> pa.Table:
        rows = [
            {"key": key, "partition": place[0], "file_id": place[1], "instant_ms": 0, "position": None}
            for key, number in self.entries.get(group, {}).items()
            for place in [GONE if number < 0 else (PLACES.partitions[number], PLACES.file_ids[number])]
        ]
        return pa.Table.from_pylist(rows, schema=LOCATIONS_SCHEMA)


def runs_of(storage: Storage, layout: IndexLayout, data: list[tuple[str, int]], checked: int) -> RunSet:
    read = [(key, number) for key, number in data if number < checked]
    keys = pa.array([key.encode() for key, _ in read], pa.binary())
    numbers = np.array([number for _, number in read], dtype=np.int32)
    run = save_run(storage, "runs", list("0123"[:checked]), [(keys, numbers, layout.group_of(keys))])
    return RunSet((run,), (tuple(range(checked)),))


def spread(layout: IndexLayout, index: dict[str, int], shift: int = 0) -> dict[int, dict[str, int]]:
    """The entries by file group; shifted ones lie where nobody looks."""
    by_group: dict[int, dict[str, int]] = {}
    for key, number in index.items():
        group = (int(layout.group_of(pa.array([key]))[0]) + shift) % layout.count
        by_group.setdefault(group, {})[key] = number
    return by_group


def expected_faults(data: list[tuple[str, int]], index: dict[str, int], checked: int) -> dict[str, set[str]]:
    places: dict[str, list[int]] = {}
    for key, number in data:
        if number < checked:
            places.setdefault(key, []).append(number)
    return {
        MISSING: {key for key in places if key not in index},
        WRONG: {key for key in places if key in index and index[key] not in places[key]},
        EXTRA: {key for key in index if key not in places and index[key] < checked},
        DUPLICATE: {key for key, numbers in places.items() if len(numbers) > 1},
        MISPLACED: set(),
    }


@pytest.mark.slow
@given(data=DATA, index=INDEX, checked=st.sampled_from([1, 3, 4]), groups=st.integers(1, 3))
def test_faults_are_those_of_dictionaries_and_are_mended(
    tmp_path_factory: pytest.TempPathFactory,
    data: list[tuple[str, int]],
    index: dict[str, int],
    checked: int,
    groups: int,
) -> None:
    storage = Storage(str(tmp_path_factory.mktemp("scratch")))
    layout = IndexLayout((("record-index-", groups),))
    fake = FakeIndex(layout, spread(layout, index))
    runs = runs_of(storage, layout, data, checked)
    compare = Comparison(fake, storage, runs, None, PLACES, checked, (storage, "deltas"))  # type: ignore[arg-type]
    reports = [compare(group) for group in range(groups)]
    expected = expected_faults(data, index, checked)
    repeats = sum(number < checked for _, number in data) - len({key for key, number in data if number < checked})
    for kind in KINDS:
        count = sum(one.counts[kind] for one in reports)
        assert count == (repeats if kind == DUPLICATE else len(expected[kind])), kind
        examples = {example.key for one in reports for example in one.examples if example.kind == kind}
        assert examples <= expected[kind]
        assert len(examples) >= min(1, len(expected[kind]))

    mended = dict(index)
    for group, one in enumerate(reports):
        for row in read_deltas(storage, [one.delta] if one.delta else [], group).to_pylist():
            if row["deleted"]:
                del mended[row["key"]]
            else:
                mended[row["key"]] = list(zip(PLACES.partitions, PLACES.file_ids, strict=True)).index(
                    (row["partition"], row["file_id"])
                )
    left = expected_faults(data, mended, checked)
    assert not any(left[kind] for kind in (MISSING, WRONG, EXTRA))
    untouched = set().union(*(expected[kind] for kind in (MISSING, WRONG, EXTRA)))
    assert {key: number for key, number in mended.items() if key not in untouched} == {
        key: number for key, number in index.items() if key not in untouched
    }
    # of several places of a key the newest is put
    rank = {0: 3, 2: 1, 3: 2, 1: 0}
    for key in expected[MISSING] | expected[WRONG]:
        assert mended[key] == max((number for of, number in data if of == key and number < checked), key=rank.get)


def test_entries_that_nobody_finds_are_misplaced(tmp_path_factory: pytest.TempPathFactory) -> None:
    storage = Storage(str(tmp_path_factory.mktemp("scratch")))
    layout = IndexLayout((("record-index-", 3),))
    data = [(f"key-{number}", 0) for number in range(9)]
    fake = FakeIndex(layout, spread(layout, dict(data), shift=1))
    compare = Comparison(fake, storage, runs_of(storage, layout, data, 4), None, PLACES, 4)  # type: ignore[arg-type]
    reports = [compare(group) for group in range(3)]
    assert sum(one.counts[MISPLACED] for one in reports) == sum(one.counts[MISSING] for one in reports) == 9
    assert sum(one.counts[EXTRA] + one.counts[WRONG] for one in reports) == 0
