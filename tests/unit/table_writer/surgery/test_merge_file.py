"""Upserts and deletes by surgery: what is touched, what is counted, and when a file is rewritten instead."""

from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from table_format.base_file.footer import footer
from table_format.base_file.reader import read_base_file
from table_format.codecs.arrow_numpy import from_numpy
from table_format.errors import SchemaError
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.metadata_table.record_index_layout import IndexLayout
from table_writer.encoding import base_file
from table_writer.metadata.index_deltas import read_deltas
from table_writer.plan.plan import GONE_COLUMN
from table_writer.surgery.locate import KeyRange, candidate_groups, key_ranges
from table_writer.surgery.opened import OpenedFile, open_file
from table_writer.surgery.policy import loose_share
from tests.support.surgery_files import ALWAYS, NEVER, Slot, differences, rows_per_group

FIELDS = [("id", pa.string()), ("v", pa.int64()), ("w", pa.float64()), ("s", pa.string())]
SCHEMA = pa.schema(FIELDS)
ROWS, GROUP = 1000, 100
COLUMNS = 9
META = {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"}
AUTO = {
    "hoodie.catalog.write.surgery.min.file.size": "1",
    "hoodie.catalog.write.surgery.max.cost.percent": "100000",
    "hoodie.parquet.block.size": str(8 * GROUP * 80),
}


def rows_of(numbers, **columns):
    """Rows with even keys, which leave places between them."""
    numbers = np.asarray(numbers)
    defaults = {
        "id": pa.array([f"k{number:05d}" for number in numbers]),
        "v": from_numpy(numbers * 3),
        "w": from_numpy(numbers / 7),
        "s": pa.array([f"s{number % 5}" for number in numbers]),
    }
    return pa.table({name: columns.get(name, column) for name, column in defaults.items()}, schema=SCHEMA)


@pytest.fixture
def slot(tmp_path):
    with rows_per_group(GROUP):
        made = Slot(tmp_path / "t", SCHEMA)
        made.write(rows_of(np.arange(0, 2 * ROWS, 2)), {})
        yield made


def touched(slot, before):
    """Which chunks of the current file are not bytes of the one before, by group and column."""
    old = set(before.values())
    return {place for place, pages in slot.chunks().items() if pages not in old}


def test_only_changed_columns_of_touched_row_groups_are_encoded(slot):
    before = slot.chunks()
    made = slot.write(rows_of([210, 212, 640], v=pa.array([1, 2, 3])), ALWAYS)
    places = touched(slot, before)
    names = [(group, "_hoodie_file_name") for group in range(10)]
    changed = [(group, name) for group in (1, 3) for name in ("_hoodie_commit_time", "_hoodie_commit_seqno", "v")]
    assert places == {*names, *changed}
    sizes = {place: len(pages) for place, pages in slot.chunks().items()}
    work = made.work
    assert (work.spliced, work.groups_touched, work.chunks_encoded) == (1, 2, 16)
    assert work.bytes_encoded == sum(sizes[place] for place in places)
    assert work.bytes_copied == sum(sizes.values()) - work.bytes_encoded
    assert (made.stat.num_update_writes, made.stat.num_inserts, made.stat.num_writes) == (3, 0, ROWS)


def test_rows_written_again_as_they_were_get_the_commit_only(slot):
    before = slot.chunks()
    slot.write(rows_of([210]), ALWAYS)
    assert {name for _, name in touched(slot, before)} == META


def test_a_delete_touches_its_row_groups_and_drops_empty_ones(slot):
    before = slot.chunks()
    made = slot.write(rows_of([0, *range(600, 800, 2)]), ALWAYS, delete=True)
    assert slot.group_rows() == [99, *[100] * 8]
    assert {group for group, name in touched(slot, before) if name != "_hoodie_file_name"} == {0}
    assert (made.work.groups_touched, made.work.chunks_encoded) == (2, COLUMNS + 8)
    assert made.stat.num_deletes == 101


def test_inserts_are_row_groups_of_their_own_and_small_ones_join(slot):
    slot.write(rows_of([1, 801, 3001]), ALWAYS)
    assert slot.group_rows() == [*[100] * 10, 3]
    slot.write(rows_of([3, 5]), ALWAYS)
    assert slot.group_rows() == [*[100] * 10, 5]
    slot.write(rows_of(np.arange(3003, 3503, 2)), ALWAYS)
    assert slot.group_rows() == [*[100] * 10, 5, 125, 125]
    keys = read_base_file(slot.storage, slot.path, ["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
    assert keys[1000:1005] == ["k00001", "k00003", "k00005", "k00801", "k03001"]
    assert (footer(slot.storage, slot.path).min_key, footer(slot.storage, slot.path).max_key) == ("k00000", "k03501")


def test_inserts_go_among_rows_of_a_group_that_is_encoded_anyway(slot):
    rows = rows_of([201, 203, 300, 999]).append_column(GONE_COLUMN, pa.array([False, False, True, False]))
    slot.write(rows, ALWAYS)
    assert slot.group_rows() == [100, 101, *[100] * 8, 1]


def test_the_policy_writes_a_file_anew(slot):
    slot.write(rows_of([1]), {**AUTO, "hoodie.catalog.write.surgery.min.file.size": "100000000"})
    assert slot.group_rows() == [*[100] * 10, 1]


def test_a_file_that_becomes_loose_is_put_in_order(slot):
    options = {**AUTO, "hoodie.catalog.write.surgery.max.loose.percent": "20"}
    first = slot.write(rows_of(np.arange(1, 2000, 14)), options)
    second = slot.write(rows_of(np.arange(3, 2000, 14)), options)
    assert (first.work.spliced, second.work.spliced) == (1, 0)
    keys = read_base_file(slot.storage, slot.path, ["_hoodie_record_key"])["_hoodie_record_key"].to_pylist()
    assert keys == sorted(keys)


def test_too_much_is_written_anew(slot):
    some = np.arange(0, 2 * ROWS, 50)
    few = slot.write(rows_of(some, v=pa.array(some)), AUTO)
    assert few.work.spliced == 1
    most = slot.write(rows_of(some), {**AUTO, "hoodie.catalog.write.surgery.max.touched.percent": "30"}, delete=True)
    assert most.work.spliced == 0
    assert most.work.groups_touched == 10
    assert most.work.bytes_copied == 0


def test_a_file_that_does_not_pay_is_rewritten_from_what_was_compared(slot, tmp_path):
    whole = slot.copy(tmp_path / "whole")
    every = np.arange(0, 2 * ROWS, 20)
    rows = rows_of(every, v=from_numpy(every), w=from_numpy(every / 3), s=pa.array(["new"] * len(every)))
    refused = {**AUTO, "hoodie.catalog.write.surgery.max.touched.percent": "50"}
    with mock.patch.object(OpenedFile, "whole", autospec=True, side_effect=OpenedFile.whole) as rest:
        made = slot.write(rows, refused)
    (_, known, group, sample), _ = rest.call_args
    assert (known.column_names, group, len(sample.rows)) == ([RECORD_KEY], 0, GROUP)
    assert made.work.spliced == 0
    assert differences((slot, made), (whole, whole.write(rows, NEVER))) == []
    assert footer(slot.storage, slot.path).key_values == footer(whole.storage, whole.path).key_values


def test_the_bloom_filter_of_the_same_keys_is_copied(slot):
    add = base_file.FittingBloom.add
    with mock.patch.object(base_file.FittingBloom, "add", autospec=True, side_effect=add) as hashed:
        slot.write(rows_of([10], v=pa.array([1])), NEVER)
        assert not hashed.called
        slot.write(rows_of([11]), NEVER)
        assert hashed.called
    before = footer(slot.storage, slot.path).bloom
    for other in ({"hoodie.index.bloom.fpp": "0.5"}, {"hoodie.index.bloom.num_entries": "9"}):
        slot.write(rows_of([10]), {**NEVER, **other})
        assert footer(slot.storage, slot.path).bloom.bits != before.bits


def test_nothing_is_written_where_nothing_changes(slot):
    path = slot.path
    assert slot.write(rows_of([1, 3]), ALWAYS, delete=True) is None
    assert slot.path == path
    assert len(list(slot.folder.glob("*.parquet"))) == 1


def test_a_new_column_of_the_table_is_a_whole_rewrite(slot):
    wider = pa.schema([*SCHEMA, ("n", pa.int32())])
    rows = rows_of([10]).append_column("n", pa.array([1], pa.int32()))
    made = slot.write(rows, ALWAYS, schema=wider)
    assert made.work.spliced == 0
    values = {row["id"]: row["n"] for row in read_base_file(slot.storage, slot.path).to_pylist()}
    assert (values["k00010"], values["k00012"]) == (1, None)


@pytest.mark.parametrize("mode", [ALWAYS, NEVER])
def test_a_batch_of_some_columns_leaves_the_others(slot, mode):
    rows = rows_of([10, 11]).select(["id", "s"])
    before = slot.chunks()
    made = slot.write(rows.set_column(1, "s", pa.array(["new", None])), mode, partial=True)
    stored = {row["id"]: row for row in read_base_file(slot.storage, slot.path).to_pylist()}
    assert (stored["k00010"]["v"], stored["k00010"]["s"]) == (30, "new")
    assert (stored["k00011"]["v"], stored["k00011"]["s"]) == (None, None)
    if mode == ALWAYS:
        assert made.work.spliced == 1
        touched_names = {name for group, name in touched(slot, before) if group == 0}
        assert touched_names == {*META, "s"}


def test_a_batch_of_some_columns_needs_the_ordering_columns(slot):
    rows = rows_of([10]).select(["id", "s"])
    with pytest.raises(SchemaError, match="ordering column 'v'"):
        slot.write(rows, ALWAYS, partial=True, ordering=("v",), event_time=True)


@pytest.mark.parametrize("mode", [ALWAYS, NEVER])
def test_index_changes_are_keys_that_came_and_went(slot, mode):
    layout = IndexLayout((("record-index-", 3),), "global")
    rows = rows_of([10, 11, 12]).append_column(GONE_COLUMN, pa.array([None, False, True]))
    made = slot.write(rows, mode, index=layout, index_folder=".hoodie/x")
    deltas = [row for group in range(3) for row in read_deltas(slot.storage, made.index_deltas, group).to_pylist()]
    place = {"partition": "", "file_id": made.stat.file_id, "deleted": False}
    assert sorted(deltas, key=lambda row: row["key"]) == [
        {"key": "k00011", **place},
        {"key": "k00012", "partition": "", "file_id": None, "deleted": True},
    ]
    assert slot.write(rows_of([14]), mode, index=layout, index_folder=".hoodie/x").index_deltas == ()


def test_candidates_are_few(slot):
    file = footer(slot.storage, slot.path)
    ranges = key_ranges(file.metadata)
    assert candidate_groups(file, ranges, pa.array(["k00200"])) == [1]
    assert candidate_groups(file, ranges, pa.array(["a", "k00198", "k00400", "z"])) == [0, 2]
    # between two groups, and within one but in no row, as the bloom filter knows
    assert candidate_groups(file, ranges, pa.array(["k00199"])) == []
    assert candidate_groups(file, ranges, pa.array(["k00201"])) == []
    assert candidate_groups(file, [KeyRange(100, None, None), *ranges[1:]], pa.array(["k00200"])) == [0, 1]


def test_pages_tell_of_keys_between_them(tmp_path):
    numbers = np.concatenate([np.arange(3072), np.arange(5000, 8000)])  # a page has 1,024 rows
    slot = Slot(tmp_path / "t", SCHEMA)
    options = {"hoodie.parquet.page.size": "1", "hoodie.parquet.bloom.filter.enabled": "false"}
    slot.write(rows_of(numbers), options)
    assert slot.group_rows() == [6072]
    with open_file(slot.storage, slot.path, pa.schema([*META_FIELDS, *SCHEMA])) as opened:
        assert [page.first for page in opened.key_pages(0)][2:4] == ["k02048", "k05000"]
        asked = {}
        for key in ("k00000", "k03071", "k04000", "k05000", "k07999", "k08000"):
            asked[key] = candidate_groups(opened.footer, opened.ranges, pa.array([key]), opened.key_pages)
    assert asked == {"k00000": [0], "k03071": [0], "k04000": [], "k05000": [0], "k07999": [0], "k08000": []}


def test_very_long_keys_are_found(tmp_path):
    slot = Slot(tmp_path / "t", SCHEMA)
    long = "z" * 5000
    with rows_per_group(3):
        slot.write(rows_of(range(6), id=pa.array(["a", "b", long, "y", long + "x", long + "y"])), {})
    made = slot.write(rows_of([0, 1], id=pa.array([long, long + "x"])), ALWAYS)
    assert (made.stat.num_inserts, made.stat.num_update_writes) == (0, 2)


def test_an_empty_bound_is_no_bound():
    class Chunk:
        path_in_schema = RECORD_KEY
        statistics = SimpleNamespace(has_min_max=True, min="a", max="")

    group = SimpleNamespace(num_rows=3, num_columns=1, column=lambda _: Chunk)
    assert key_ranges(SimpleNamespace(num_row_groups=1, row_group=lambda _: group)) == [KeyRange(3, None, None)]


def test_loose_rows_are_those_whose_keys_lie_among_others():
    ranges = [KeyRange(30, "a", "f"), KeyRange(40, "m", "n"), KeyRange(10, "h", "k"), KeyRange(20, "b", "z")]
    assert loose_share(ranges) == pytest.approx(0.2)
    assert loose_share([*ranges, KeyRange(100, None, None)]) == pytest.approx(0.6)
