"""The file groups of new records."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.errors import TransactionError
from table_format.slices.file_names import group_keys
from table_writer.tagging.placement import Home, Homes, Placement, Sample, Sizing, place_inserts, slot_targets
from table_writer.tagging.tagging import NEW

SIZING = Sizing(small=100, most=120, record=10.0)


def sample(keys: list[str], rows: int | None = None) -> Sample:
    count = len(keys) if rows is None else rows
    return Sample(count, pa.array(keys, pa.string()), np.full(len(keys), count / max(1, len(keys))))


def counts(places: Placement, keys: list[str], partition: str = "") -> dict[int, int]:
    numbers = places.homes[Home(partition)].numbers_of(pa.array(keys, pa.string()))
    return {int(n): int(c) for n, c in zip(*np.unique(numbers, return_counts=True), strict=True)}


def keys_of(count: int) -> list[str]:
    return [f"k{n:04}" for n in range(count)]


def test_new_files_take_equal_ranges() -> None:
    places = place_inserts({Home(""): sample(keys_of(30)[::-1])}, {}, SIZING, 5)
    assert places.created == (Home(""),) * 3
    assert counts(places, keys_of(30)) == {5: 10, 6: 10, 7: 10}
    numbers = places.homes[Home("")].numbers_of(pa.array(keys_of(30)))
    assert (np.diff(numbers) >= 0).all(), "ranges of keys"


def test_small_files_come_first_and_those_that_change_anyway_before_others() -> None:
    files = {Home(""): [(0, 60), (1, 20), (2, 100), (3, 90)]}
    # room: 6 in file 0, 10 in file 1, none in the large file 2, 3 in file 3, which is updated
    assert counts(place_inserts({Home(""): sample(keys_of(2))}, files, SIZING, 4, {3: 1}), keys_of(2)) == {3: 2}
    places = place_inserts({Home(""): sample(keys_of(25))}, files, SIZING, 4, {2: 9, 3: 1})
    assert counts(places, keys_of(25)) == {3: 3, 1: 10, 0: 6, 4: 6}


def test_sizes_by_count_and_without_small_files() -> None:
    sizing = Sizing(small=0, most=120, record=10.0, split=4)
    places = place_inserts({Home(""): sample(keys_of(9))}, {Home(""): [(0, 1)]}, sizing, 1)
    assert counts(places, keys_of(9)) == {1: 3, 2: 3, 3: 3}


def test_partitions_have_files_of_their_own() -> None:
    inserts = {Home("p"): sample(keys_of(13)), Home("q"): sample(["x"]), Home("none"): sample([])}
    places = place_inserts(inserts, {Home("p"): [(0, 110)], Home("q"): [(1, 10)]}, SIZING, 2)
    assert places.created == (Home("p"), Home("p"))
    partitions = pa.array(["p"] * 13 + ["q"]).dictionary_encode()
    numbers = places.numbers_of(pa.array([*keys_of(13), "x"]), Homes.of(14, partitions, None))
    assert set(numbers[:13].tolist()) == {2, 3}
    assert numbers[13] == 1
    with pytest.raises(KeyError):
        places.numbers_of(pa.array(["y"]), Homes.of(1, pa.array(["none"]).dictionary_encode(), None))


@settings(max_examples=100)
@given(
    st.lists(st.text("abé", max_size=3), min_size=1, max_size=60),
    st.integers(1, 200),
    st.lists(st.integers(0, 130), max_size=4),
)
def test_every_key_has_a_file_and_equal_keys_the_same(keys: list[str], rows: int, sizes: list[int]) -> None:
    places = place_inserts(
        {Home(""): sample(keys, max(rows, len(keys)))}, {Home(""): list(enumerate(sizes))}, SIZING, len(sizes)
    )
    ranges = places.homes[Home("")]
    asked = sorted([*keys, "", "zz"])
    numbers = ranges.numbers_of(pa.array(asked))
    allowed = {number for number, size in enumerate(sizes) if size < 100}
    assert set(numbers.tolist()) <= allowed | {len(sizes) + n for n in range(len(places.created))}
    order = [ranges.numbers.tolist().index(number) for number in numbers.tolist()]
    assert order == sorted(order), "files take ranges of keys in their order"
    assert all(a == b for x, y, a, b in zip(asked, asked[1:], numbers, numbers[1:], strict=False) if x == y)


def test_targets_are_shared_out_among_tasks() -> None:
    current = pa.table({"partition": ["p", "q", "p"], "file_id": ["f0", "f1", "f2"]})
    places = place_inserts(
        {Home("r"): sample(keys_of(20)), Home("q"): sample(["z"])}, {Home("q"): [(1, 10)]}, SIZING, 3
    )
    targets = slot_targets({2: 4}, places, current, 3)
    assert targets.numbers.tolist() == [1, 2, 3, 4]
    assert [targets.names[code] for code in targets.partitions] == ["q", "p", "r", "r"]
    assert targets.slots.tolist() == [0, 1, 2, 0]
    assert targets.positions(np.array([4, 1, 1], np.int32)).tolist() == [3, 0, 0]
    tagged = pa.array([group_keys(pa.array(["p"]), pa.array(["f2"]))[0].as_py(), None]).dictionary_encode()
    assert targets.numbers_of(tagged).tolist() == [2, NEW]
    others = pa.array([group_keys(pa.array(["p"]), pa.array(["f0"]))[0].as_py()]).dictionary_encode()
    assert targets.numbers_of(others.slice(0, 0)).tolist() == []
    with pytest.raises(TransactionError, match="second time"):
        targets.numbers_of(others)
    for unknown in (0, 5):
        with pytest.raises(TransactionError, match="second time"):
            targets.positions(np.array([1, unknown], np.int32))
