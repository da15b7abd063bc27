"""What a write does with each row of a batch, by the location of its key in the index."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from table_format.codecs.avro_schema import schema_text
from table_format.errors import RecordError, RecordIndexError, SchemaError
from table_format.meta_columns import IS_DELETED, PARTITION_PATH, RECORD_KEY
from table_format.metadata_table.record_index_entries import PLACES_SCHEMA
from table_format.metadata_table.record_index_shard import Found
from table_format.slices.file_names import group_keys
from table_format.storage import Storage
from table_writer.encoding.base_file import write_base_file
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.tagging.current_rows import CurrentRows
from table_writer.tagging.files import CurrentFiles
from table_writer.tagging.rows import Profile
from table_writer.tagging.tagging import NEW, Known, TagPlan, Tags, place_of, slim_rows, tag_rows

PARTITIONS = pa.array(["p", "q", "q"])
FILES = group_keys(PARTITIONS, pa.array(["f0", "f1", "f2"]))
HOMES = {"a": ("p", "f0"), "b": ("q", "f1"), "c": ("q", "f2")}


def lookup(keys: Any, partitions: Any) -> Found:
    """An index that has `HOMES`."""
    asked = enumerate(keys.to_pylist())
    homes = {row: HOMES[key] for row, key in asked if key in HOMES}
    if partitions is not None:
        homes = {row: place for row, place in homes.items() if place[0] == partitions[row].as_py()}
    rows = list(reversed(homes))
    places = [{"partition": homes[row][0], "file_id": homes[row][1], "instant_ms": 1} for row in rows]
    return Found(np.array(rows, np.int64), np.arange(len(rows)), pa.Table.from_pylist(places, schema=PLACES_SCHEMA))


def batch(
    keys: str, partitions: str | None = None, ts: list[Any] | None = None, deleted: list[Any] | None = None
) -> pa.Table:
    columns: dict[str, Any] = {RECORD_KEY: list(keys)}
    if partitions is not None:
        columns[PARTITION_PATH] = pa.array(list(partitions)).dictionary_encode()
    if ts is not None:
        columns["ts"] = pa.array(ts, pa.int64())
    if deleted is not None:
        columns[IS_DELETED] = pa.array(deleted, pa.bool_())
    return slim_rows(pa.table(columns), ("ts", "tie"))


def tagged(rows: pa.Table, **plan: Any) -> set[tuple[int, int, bool]]:
    return entries(tag_rows(rows, lookup, TagPlan(**plan)))


def entries(tags: Tags) -> set[tuple[int, int, bool]]:
    """Rows with the place of their file group in `FILES`."""
    places = [FILES.to_pylist().index(name) for name in tags.groups.to_pylist()]
    numbers = [NEW if number == NEW else places[number] for number in tags.numbers.tolist()]
    tagged = list(zip(tags.rows.tolist(), numbers, tags.gone.tolist(), strict=True))
    assert len(set(tagged)) == len(tagged)
    return set(tagged)


def test_known_keys_go_to_their_files_and_others_are_new() -> None:
    assert tagged(batch("cxab", "pppp")) == {(0, 2, False), (1, NEW, False), (2, 0, False), (3, 1, False)}
    assert tagged(batch("cx")) == {(0, 2, False), (1, NEW, False)}
    assert tagged(batch("")) == set()


def test_without_an_index_all_rows_are_new_but_unique() -> None:
    tags = tag_rows(batch("aba", "pqr"), None, TagPlan(known=Known.REPLACE))
    assert entries(tags) == {(1, NEW, False), (2, NEW, False)}


def test_one_row_a_key_of_the_whole_table_is_left() -> None:
    # the last one, also over partitions; with ordering values the greatest, of equal ones the last
    assert tagged(batch("xyx", "pqr")) == {(1, NEW, False), (2, NEW, False)}
    assert tagged(batch("xxxx", "pqpq", [2, 3, 3, None])) == {(2, NEW, False)}


def test_an_index_by_partition_has_a_place_in_each() -> None:
    rows = batch("aab", "pqp")
    assert tagged(rows, by_partition=True) == {(0, 0, False), (1, NEW, False), (2, NEW, False)}
    assert tagged(batch("bb", "qq"), by_partition=True) == {(1, 1, False)}


def test_a_changed_partition_moves_the_record_if_asked() -> None:
    rows = batch("abx", "qqq")
    assert tagged(rows) == {(0, 0, False), (1, 1, False), (2, NEW, False)}
    assert tagged(rows, move=True) == {(0, 0, True), (0, NEW, False), (1, 1, False), (2, NEW, False)}


def test_deletes_follow_the_record_wherever_it_is() -> None:
    rows = batch("axb", "qqq", deleted=[True, True, None])
    assert tagged(rows, move=True) == {(0, 0, False), (2, 1, False)}
    assert tagged(batch("axb"), delete=True) == {(0, 0, False), (2, 1, False)}


def test_of_deletes_by_key_the_ordering_says_nothing() -> None:
    assert tagged(batch("aa", ts=[9, 1]), delete=True) == {(1, 0, False)}


def test_known_keys_can_be_dropped_or_refused() -> None:
    assert tagged(batch("axb"), known=Known.DROP) == {(1, NEW, False)}
    assert tagged(batch("xy"), known=Known.FAIL) == {(0, NEW, False), (1, NEW, False)}
    with pytest.raises(RecordError, match=r"2 row\(s\).* 'a'.*dup\.policy is fail"):
        tagged(batch("axb"), known=Known.FAIL)


def test_what_is_inserted_has_nothing_to_delete() -> None:
    rows = batch("axb", deleted=[True, False, True])
    for known in (Known.DROP, Known.FAIL, Known.REPLACE):
        assert tagged(rows, known=known) == {(1, NEW, False)}


def test_overwrites_insert_all_and_tell_where_their_keys_lie() -> None:
    tags = tag_rows(batch("abxc", "qqqq"), lookup, TagPlan(known=Known.REPLACE))
    assert entries(tags) == {(0, NEW, False), (1, NEW, False), (2, NEW, False), (3, NEW, False)}
    assert tags.elsewhere == {"p": (1, "a"), "q": (2, "b")}


def test_rows_that_are_left_out_rely_on_their_file_groups() -> None:
    for known in (Known.DROP, Known.REPLACE):
        tags = tag_rows(batch("xca"), lookup, TagPlan(known=known))
        assert tags.relied == {FILES[0].as_py(), FILES[2].as_py()}
        assert Profile.of(batch("xca"), tags).relied == tags.relied
    assert tag_rows(batch("xca"), lookup, TagPlan()).relied == set()


def test_a_profile_names_the_file_groups_of_its_rows() -> None:
    rows = batch("xcab")
    profile = Profile.of(rows, tag_rows(rows, lookup, TagPlan()))
    assert profile.updates == dict.fromkeys(FILES.to_pylist(), 1)
    assert Profile.total([profile, profile]).updates == dict.fromkeys(FILES.to_pylist(), 2)


def test_an_index_of_other_files_is_an_error() -> None:
    files = pa.table({"partition": ["p"], "bucket": [0], "file_id": ["f0"], "instant": ["1"], "path": ["p/f0"]})
    present = CurrentFiles(files, pa.array([1]))
    assert present.numbers_of([FILES[0].as_py()]).tolist() == [0]
    with pytest.raises(RecordIndexError, match=r"file group f2 of partition 'q'.*index bootstrap"):
        present.numbers_of(FILES.to_pylist()[::2])


def test_partition_and_file_id_are_not_mixed_up() -> None:
    names = group_keys(pa.array(["a", "ab"]), pa.array(["bc", "c"])).to_pylist()
    assert len(set(names)) == 2


def test_deletion_marks_are_booleans() -> None:
    with pytest.raises(SchemaError, match="must be boolean"):
        slim_rows(pa.table({RECORD_KEY: ["a"], IS_DELETED: [1]}), ())


class NamedAsGroups:
    """Files whose paths are the ids of their groups."""

    def paths_of(self, groups: Any) -> list[str]:
        return [place_of(name)[1] for name in groups.to_pylist()]


@pytest.fixture
def moves(tmp_path: Path) -> CurrentRows:
    """Files in which a has ts 5, b has none and c is missing."""
    schema = pa.schema([("ts", pa.int64()), ("tie", pa.float64())])
    for name, key, ts in (("f0", "a", 5), ("f1", "b", None), ("f2", "z", 1)):
        rows = pa.table({"ts": [ts], "tie": [0.5]}, schema=schema)
        arguments: dict[str, Any] = {"instant": "1", "task": 0, "partition": "", "file_name": name, "first_row": 0}
        table = add_meta_columns(rows, keys=pa.array([key]), **arguments)
        write_base_file(Storage(str(tmp_path)), name, table, schema_text(schema, "t", meta_fields=True), {})
    return CurrentRows(Storage(str(tmp_path)), NamedAsGroups(), schema, ("ts", "tie"))


def test_an_older_row_moves_nothing(moves: CurrentRows) -> None:
    def moved(keys: str, ts: list[Any] | None) -> set[tuple[int, int, bool]]:
        return tagged(batch(keys, "r" * len(keys), ts), move=True, moves=moves)

    assert moved("a", [4]) == set()
    assert moved("a", [6]) == {(0, 0, True), (0, NEW, False)}
    # the batch lacks the second field, which is null then and so less than 0.5
    assert moved("a", [5]) == set()
    assert moved("b", [None]) == set()
    assert moved("abx", [9, 9, 1]) == {
        (0, 0, True),
        (0, NEW, False),
        (1, 1, True),
        (1, NEW, False),
        (2, NEW, False),
    }
    with pytest.raises(RecordIndexError, match=r"f2: key 'c' is not in this file.*index verify"):
        moved("c", [1])


def test_rows_keep_their_positions_when_some_go() -> None:
    rows = batch("dcba", "qqqq", deleted=[True, False, False, False])
    tags = tag_rows(rows, lookup, TagPlan())
    assert entries(tags) == {(1, 2, False), (2, 1, False), (3, 0, False)}
    assert tags.numbers.dtype == np.int32
