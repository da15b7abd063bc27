"""Rows of merge-on-read file slices: what Apache reads of its own tables, and each rule by hand."""

import datetime as dt
import json
import threading
import time

import pyarrow as pa
import pytest

from table_format import threads
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.log.blocks import BlockType, HeaderKey, read_log_blocks, surviving_blocks
from table_format.log.deletes import DeletedRecord
from table_format.merge.rules import MergeRules
from table_format.storage import Storage
from table_writer.encoding.log_blocks import write_delete_block, write_log_block, write_rollback_block
from tests.support import written_log_slices
from tests.support.golden_slices import NAMES, expected, read_table, unpack
from tests.support.written_log_slices import SCHEMA, avro_block, hfile_block, ordered_deletes, positioned, read, row


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("slices"))


def by_key(table):
    names = sorted(table.column_names)
    return sorted(table.select(names).to_pylist(), key=lambda one: (one["_hoodie_record_key"], repr(one)))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_that_apache_reads(folder, name):
    ours, theirs = read_table(folder, name), expected(folder, name)
    types = pa.schema([pa.field(name, ours.schema.field(name).type) for name in theirs.column_names])
    assert by_key(ours) == by_key(theirs.cast(types))


@pytest.mark.parametrize("name", NAMES)
def test_columns_alone_are_the_same(folder, name):
    whole = read_table(folder, name)
    for column in ("id", "_hoodie_commit_time"):
        assert read_table(folder, name, [column]).column(0).to_pylist() == whole[column].to_pylist()


EVENT = MergeRules(("ts",), logs_by_ordering=True, base_by_ordering=True)
COMMIT = MergeRules(("ts",))
PAYLOAD = MergeRules(("ts",), logs_by_ordering=True, deletes_forget=True)


def values(table):
    return {one["_hoodie_record_key"]: one["v"] for one in table.to_pylist()}


@pytest.mark.parametrize(("rules", "left"), [(EVENT, "base"), (COMMIT, "log"), (PAYLOAD, "log")])
def test_a_late_record_over_a_base_file(rules, left):
    assert values(read([row("a", 5, "base")], [avro_block("1", [row("a", 4, "log")])], rules)) == {"a": left}


@pytest.mark.parametrize(("rules", "left"), [(EVENT, "first"), (COMMIT, "second"), (PAYLOAD, "first")])
def test_a_late_record_in_the_logs(rules, left):
    blocks = [avro_block("1", [row("a", 5, "first")]), avro_block("2", [row("a", 4, "second")])]
    assert values(read([], blocks, rules)) == {"a": left}


def test_equal_ordering_values_take_the_later():
    blocks = [avro_block("1", [row("a", 5, "first")]), avro_block("2", [row("a", 5, "second")])]
    assert values(read([row("a", 5, "base")], blocks, EVENT)) == {"a": "second"}


@pytest.mark.parametrize("rules", [EVENT, COMMIT, PAYLOAD])
def test_deletes_without_ordering_value_win_and_rows_come_back(rules):
    gone = write_delete_block("2", "{}", [DeletedRecord("a", ""), DeletedRecord("b", "")])
    back = avro_block("3", [row("b", 6, "back")])
    base = [row("a", 5, "base"), row("b", 5, "base"), row("c", 5, "base")]
    first = avro_block("1", [row("a", 9, "log"), row("b", 9, "log")])
    assert values(read(base, [first, gone, back], rules)) == {"b": "back", "c": "base"}


def test_base_rows_keep_their_order_and_new_ones_follow():
    base = [row(key, 1, "base") for key in "dbca"]
    merged = read(base, [avro_block("1", [row("z", 1, "n"), row("c", 2, "u"), row("e", 1, "n")])], EVENT)
    assert merged["_hoodie_record_key"].to_pylist() == ["d", "b", "c", "a", "z", "e"]


def test_logs_from_afar_are_fetched_side_by_side_and_apply_in_order(monkeypatch):
    together = threading.Barrier(2)
    fetched = Storage.read

    def fetch(self, path):
        together.wait(timeout=30)
        time.sleep(0.02 * path.endswith(".log.1_0-0-0"))
        return fetched(self, path)

    monkeypatch.setattr(threads._Cores, "most", 2)
    monkeypatch.setattr(Storage, "read", fetch)
    monkeypatch.setattr(written_log_slices, "Storage", Distant)
    blocks = [avro_block(str(number), [row("a", 1, str(number))]) for number in range(1, 5)]
    assert values(read([row("a", 1, "base")], blocks, COMMIT)) == {"a": "4"}


class Distant(Storage):
    """A local folder that counts as a remote storage."""

    def __init__(self, folder):
        super().__init__(folder)
        self.is_local = False


DOUBLE = [row("a", 1, "one"), row("b", 1, "one"), row("a", 5, "two"), row("a", 3, "three")]


def double(number, *versions, header=None):
    """Log records of one version for each of some rows of `DOUBLE`."""
    rows = [place for place, _, _ in versions]
    records = [row(DOUBLE[place]["_hoodie_record_key"], ts, v) for place, ts, v in versions]
    return avro_block(number, records, header=positioned(rows) if header is None else header)


@pytest.mark.parametrize("header", [{}, positioned([0], "1"), {**positioned([0]), HeaderKey.RECORD_POSITIONS: ""}])
def test_of_several_base_rows_of_a_key_the_first_is_merged_without_positions(header):
    new = avro_block("1", [row("a", 6, "new")], header=header)
    assert read(DOUBLE, [new], EVENT)["v"].to_pylist() == ["new", "one", "two", "three"]


def test_all_base_rows_that_have_positions_are_merged():
    one = double("1", (0, 4, "new"), (1, 4, "new"), (2, 4, "new"), (3, 4, "new"))
    assert read(DOUBLE, [one], EVENT)["v"].to_pylist() == ["new", "new", "two", "new"]
    assert read(DOUBLE, [one], COMMIT)["v"].to_pylist() == ["new"] * 4


def test_base_rows_without_positions_stay():
    one = double("1", (2, 9, "new"), (3, 9, "new"))
    assert read(DOUBLE, [one], EVENT)["v"].to_pylist() == ["one", "one", "new", "new"]


@pytest.mark.parametrize("rules", [EVENT, COMMIT])
def test_deletes_with_positions_delete_all_rows(rules):
    changed = double("1", (0, 6, "new"), (2, 6, "new"), (3, 6, "new"))
    gone = ordered_deletes("2", ["a", "a", "a"], "Int", 0, positioned([0, 2, 3]))
    assert read(DOUBLE, [changed, gone], rules)["v"].to_pylist() == ["one"]
    back = double("3", (0, 7, "back"), (3, 7, "back"))
    assert read(DOUBLE, [changed, gone, back], rules)["v"].to_pylist() == ["back", "one", "back"]


@pytest.mark.parametrize("last", [avro_block("2", [row("z", 1, "z")]), double("2", (1, 9, "b"), header={})])
def test_one_block_without_positions_has_all_merged_by_key(last):
    blocks = [double("1", (0, 6, "new"), (2, 6, "new"), (3, 6, "new")), last]
    merged = read(DOUBLE, blocks, EVENT)
    assert [one["v"] for one in merged.to_pylist() if one["_hoodie_record_key"] == "a"] == ["new", "two", "three"]


def test_partial_updates_with_positions_fill_each_row_from_its_own():
    fields = [field for field in SCHEMA["fields"] if field["name"] != "v"]
    partial = avro_block(
        "1",
        [row("a", 6, None, w=8), row("a", 6, None, w=9)],
        {**SCHEMA, "fields": fields},
        {HeaderKey.IS_PARTIAL: "true", **positioned([0, 2])},
    )
    merged = read(DOUBLE, [partial], EVENT)
    assert merged["v"].to_pylist() == ["one", "one", "two", "three"]
    assert merged["w"].to_pylist() == [8, None, 9, None]


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({HeaderKey.RECORD_POSITIONS: "AQ"}, "damaged record positions"),
        ({HeaderKey.RECORD_POSITIONS: "AQAAAAAAAAA="}, "cut off"),
        (positioned([0, 2, 3]), "3 numbers instead of 2|too many numbers"),
        (positioned([0]), "1 numbers instead of 2"),
        (positioned([0, 1]), "other keys"),
        (positioned([0, 4]), "other keys"),
    ],
)
def test_damaged_positions_are_refused_where_keys_do_not_do(header, reason):
    records = [row("a", 6, "new"), row("a", 6, "new")]
    block = avro_block("1", records, header={**positioned([0, 2]), **header})
    with pytest.raises(CorruptFileError, match=reason) as error:
        read(DOUBLE, [block], EVENT)
    assert ".f-0_1.log.1_0-0-0" in str(error.value)
    assert read(DOUBLE[:2], [block], EVENT)["v"].to_pylist() == ["new", "one"]


def test_marked_records_delete():
    marked = avro_block("1", [{**row("a", 2, "x"), "_hoodie_is_deleted": True}, row("b", 2, "y")])
    late = avro_block("2", [{**row("b", 1, "x"), "_hoodie_is_deleted": True}])
    assert values(read([row("a", 1, "base")], [marked, late], EVENT)) == {"b": "y"}


def test_a_column_of_the_table_marks_deletes():
    rules = MergeRules(("ts",), delete_field="v", delete_marker="D")
    assert values(read([row("a", 1, "base")], [avro_block("1", [row("a", 2, "D")])], rules)) == {}


def test_operations_mark_deletes_though_no_column_of_the_table():
    fields = [*SCHEMA["fields"], {"name": "_hoodie_operation", "type": ["null", "string"], "default": None}]
    block = avro_block("1", [{**row("a", 2, "x"), "_hoodie_operation": "D"}], {**SCHEMA, "fields": fields})
    assert values(read([row("a", 1, "base"), row("b", 1, "base")], [block], COMMIT)) == {"b": "base"}


def test_nulls_and_markers_keep_older_values():
    base = [row("a", 1, "base")]
    null = avro_block("1", [row("a", 2, None)])
    assert values(read(base, [null], MergeRules(("ts",), nulls_keep=True))) == {"a": "base"}
    assert values(read(base, [null], COMMIT)) == {"a": None}
    marker = avro_block("1", [row("a", 2, "?")])
    assert values(read(base, [marker], MergeRules(("ts",), unavailable="?"))) == {"a": "base"}


def test_defaults_that_are_not_null_are_refused_where_they_would_be_left_out():
    fields = [
        {**field, "type": ["string", "null"], "default": "d"} if field["name"] == "v" else field
        for field in SCHEMA["fields"]
    ]
    block = avro_block("1", [row("a", 2, "d")], {**SCHEMA, "fields": fields})
    assert values(read([row("a", 1, "base")], [block], COMMIT)) == {"a": "d"}
    with pytest.raises(UnsupportedTableError, match=r"'v'.*IGNORE_DEFAULTS"):
        read([row("a", 1, "base")], [block], MergeRules(("ts",), nulls_keep=True))


@pytest.mark.parametrize("rules", [EVENT, COMMIT, PAYLOAD])
def test_hfile_blocks_hold_the_same_records_as_avro_blocks(rules):
    base = [row("a", 5, "base"), row("b", 5, "base"), row("c", 5, "base")]
    rows = [
        row("a", 9, "new", w=1),
        row("b", 3, "late"),
        {**row("c", 9, None), "_hoodie_is_deleted": True},
        row("d", 1, "x"),
    ]
    last = avro_block("2", [row("d", 2, "y")])
    merged = read(base, [hfile_block("1", rows), last], rules)
    assert merged.equals(read(base, [avro_block("1", rows), last], rules))
    assert len(merged) == 3
    assert values(merged)["a"] == "new"


def test_hfile_blocks_without_their_key_or_damaged_are_refused():
    fields = [*SCHEMA["fields"], {"name": "key", "type": ["null", "string"], "default": None}]
    with pytest.raises(UnsupportedTableError, match="'key'"):
        read([], [hfile_block("1", [row("a", 1, "x")], {**SCHEMA, "fields": fields})], COMMIT)
    whole = hfile_block("1", [row("a", 1, "x")])
    at = whole.index(b"DATABLK") + 48  # after the headers of block and gzip
    with pytest.raises(CorruptFileError):
        read([], [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]], COMMIT)


def test_partial_updates_leave_other_columns():
    fields = [field for field in SCHEMA["fields"] if field["name"] not in ("v", "w")]
    partial = {HeaderKey.IS_PARTIAL: "true"}
    v = {**SCHEMA, "fields": [*fields, next(f for f in SCHEMA["fields"] if f["name"] == "v")]}
    w = {**SCHEMA, "fields": [*fields, next(f for f in SCHEMA["fields"] if f["name"] == "w")]}
    blocks = [
        avro_block("1", [row("a", 3, "v3")], v, partial),
        avro_block("2", [row("a", 2, None, w=2), row("new", 1, None, w=7)], w, partial),
    ]
    merged = read([row("a", 1, "v1", w=1)], blocks, EVENT).to_pylist()
    # the second update is late: it only fills what the first one left open
    assert [(one["_hoodie_record_key"], one["ts"], one["v"], one["w"]) for one in merged] == [
        ("a", 3, "v3", 2),
        ("new", 1, None, 7),
    ]


def test_values_before_a_delete_are_filled_in_from_the_base_file_only():
    """As in Hudi: the log records are merged first, and their result with the base row."""
    gone = write_delete_block("2", "{}", [DeletedRecord("a", "")])
    fields = [field for field in SCHEMA["fields"] if field["name"] != "w"]
    part = avro_block("3", [row("a", 9, "new")], {**SCHEMA, "fields": fields}, {HeaderKey.IS_PARTIAL: "true"})
    null = avro_block("3", [row("a", 9, "new")])
    old = row("a", 1, "old", w=1)
    for rules, new in ((EVENT, part), (MergeRules(("ts",), nulls_keep=True), null)):
        assert read([old], [gone, new], rules)["w"].to_pylist() == [1]
        assert read([], [avro_block("1", [old]), gone, new], rules)["w"].to_pylist() == [None]
        assert read([old], [avro_block("1", [{**old, "w": 2}]), gone, new], rules)["w"].to_pylist() == [1]


def test_a_partial_update_needs_the_ordering_field():
    schema = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "ts"]}
    block = avro_block("1", [row("a", 1, "x")], schema, {HeaderKey.IS_PARTIAL: "true"})
    with pytest.raises(UnsupportedTableError, match="'ts'"):
        read([row("a", 1, "v1")], [block], EVENT)


def test_keys_of_files_without_meta_columns():
    fields = [field for field in SCHEMA["fields"] if field["name"] != "_hoodie_record_key"]
    schema = {**SCHEMA, "fields": [{"name": "id", "type": "long"}, {"name": "part", "type": "string"}, *fields]}
    table = config(
        hoodie__table__version="9",
        hoodie__table__recordkey__fields="id,part",
        hoodie__table__keygenerator__type="COMPLEX",
        hoodie__populate__meta__fields="false",
        hoodie__record__merge__mode="COMMIT_TIME_ORDERING",
    )
    base = [{"id": n, "part": "p", "ts": 1, "v": "base"} for n in range(3)]
    blocks = [
        avro_block("1", [{"id": 1, "part": "p", "v": "new"}, {"id": 9, "part": "p", "v": "new"}], schema),
        write_delete_block("2", "{}", [DeletedRecord("id:2,part:p", "")]),
    ]
    merged = read(base, blocks, MergeRules.of(table), avro_to_arrow(schema))
    assert [(one["id"], one["v"]) for one in merged.to_pylist()] == [(0, "base"), (1, "new"), (9, "new")]


@pytest.mark.parametrize(("version", "refused"), [("9", "2"), ("6", "id:2")])
def test_deleted_keys_of_another_form_are_refused(version, refused):
    schema = {**SCHEMA, "fields": [{"name": "id", "type": "long"}, *SCHEMA["fields"][1:]]}
    table = config(
        hoodie__table__version=version,
        hoodie__table__recordkey__fields="id",
        hoodie__table__partition__fields="p,q",
        hoodie__table__keygenerator__class="org.apache.hudi.keygen.ComplexKeyGenerator",
        hoodie__populate__meta__fields="false",
    )
    arrow = avro_to_arrow(schema)
    base = [{"id": 2, "ts": 1}]
    good = write_delete_block("2", "{}", [DeletedRecord("2" if version == "6" else "id:2", "")])
    assert read(base, [good], MergeRules.of(table), arrow).num_rows == 0
    with pytest.raises(UnsupportedTableError, match="another form"):
        read(base, [write_delete_block("2", "{}", [DeletedRecord(refused, "")])], MergeRules.of(table), arrow)


@pytest.mark.parametrize(
    ("kind", "wrapper", "value", "later", "earlier"),
    [
        ({"type": "int", "logicalType": "date"}, "Date", 20000, dt.date(2024, 10, 5), dt.date(2024, 10, 3)),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            "TimestampMicros",
            1_000_000,
            dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC),
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
        ),
        ("string", "String", "b", "c", "a"),
        ("double", "Double", 0.0, 0.5, -0.5),
        ("long", "Long", 0, 1, -1),
    ],
)
def test_ordering_values_of_deletes(kind, wrapper, value, later, earlier):
    ordering = {"name": "ts", "type": ["null", kind], "default": None}
    schema = {**SCHEMA, "fields": [ordering if field["name"] == "ts" else field for field in SCHEMA["fields"]]}
    block = avro_block("1", [row("a", later, "x"), row("b", earlier, "x")], schema)
    gone = ordered_deletes("2", ["a", "b"], wrapper, value)
    assert values(read([], [block, gone], EVENT, avro_to_arrow(schema))) == {"a": "x"}


def of_kind(kind):
    """The schema with ordering values of another type."""
    ordering = {"name": "ts", "type": ["null", kind], "default": None}
    return {**SCHEMA, "fields": [ordering if field["name"] == "ts" else field for field in SCHEMA["fields"]]}


DATE = {"type": "int", "logicalType": "date"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}


@pytest.mark.parametrize(
    ("kind", "before", "zero", "after"),
    [
        ("int", -1, 0, 1),
        ("long", -1, 0, 1),
        ("double", -0.5, 0.0, 0.5),
        (DATE, dt.date(1934, 2, 23), dt.date(1970, 1, 1), dt.date(2000, 1, 1)),
    ],
)
def test_a_null_ordering_value_counts_as_zero(kind, before, zero, after):
    """As in Hudi 1.2.0 for ints and dates; it fails for the others."""
    schema = of_kind(kind)
    for old, new, wins in [
        (before, None, True),
        (zero, None, True),
        (after, None, False),
        (None, before, False),
        (None, zero, True),
        (None, after, True),
        (None, None, True),
    ]:
        blocks = [avro_block("1", [row("a", old, "old")], schema), avro_block("2", [row("a", new, "new")], schema)]
        left = {"a": "new" if wins else "old"}
        assert values(read([], blocks, EVENT, avro_to_arrow(schema))) == left
        assert values(read([row("a", old, "old")], blocks[1:], EVENT, avro_to_arrow(schema))) == left


@pytest.mark.parametrize(
    ("kind", "least"),
    [(MICROS, dt.datetime(1934, 2, 23, tzinfo=dt.UTC)), ("string", ""), ("boolean", False)],
)
def test_where_hudi_fails_with_a_null_ordering_value_it_is_the_least(kind, least):
    schema = of_kind(kind)
    blocks = [avro_block("1", [row("a", least, "some")], schema), avro_block("2", [row("a", None, "null")], schema)]
    assert values(read([], blocks, EVENT, avro_to_arrow(schema))) == {"a": "some"}
    assert values(read([], blocks[::-1], EVENT, avro_to_arrow(schema))) == {"a": "some"}


def test_ordering_values_of_deletes_that_do_not_fit_are_refused():
    with pytest.raises(UnsupportedTableError, match="deletes ordered by"):
        read([], [ordered_deletes("1", ["a"], "String", "x")], EVENT)


def blocks_of(*parts):
    return read_log_blocks(b"".join(parts), "x.log")


def instants(blocks):
    return [block.instant for block in blocks]


def test_which_blocks_count():
    one, two, three = (avro_block(time, [row("a", 1, time)]) for time in "123")
    assert instants(surviving_blocks(blocks_of(one, two, three), lambda time: time != "2")) == ["1", "3"]
    assert instants(surviving_blocks(blocks_of(one, two, write_rollback_block("3", "1")), lambda _: True)) == ["2"]
    again = blocks_of(one, write_rollback_block("2", "1"), one)
    assert instants(surviving_blocks(again, lambda _: True)) == ["1"]


def test_compacted_blocks_take_the_place_of_theirs():
    one, two, three = (avro_block(time, [row("a", 1, time)]) for time in "123")
    merged = avro_block("4", [row("a", 1, "m")], SCHEMA, {HeaderKey.COMPACTED_BLOCK_TIMES: "1,2"})
    assert instants(surviving_blocks(blocks_of(one, two, three, merged), lambda _: True)) == ["4", "3"]


def test_broken_blocks_are_passed_over_only_if_nobody_completed_them():
    one = avro_block("1", [row("a", 1, "x")])
    torn = blocks_of(one, avro_block("2", [row("b", 1, "y")])[:-20])
    assert instants(surviving_blocks(torn, lambda time: time == "1")) == ["1"]
    with pytest.raises(CorruptFileError, match="instant 2 is broken"):
        surviving_blocks(torn, lambda _: True)


def test_what_cannot_be_read_is_refused():
    old = write_log_block(BlockType.AVRO_DATA, {0: "1", 2: json.dumps(SCHEMA)}, bytes([0, 0, 0, 2] * 2))
    with pytest.raises(UnsupportedTableError, match="content version 2"):
        read([], [old], EVENT)
    with pytest.raises(CorruptFileError, match="no schema"):
        read([], [write_log_block(BlockType.AVRO_DATA, {0: "1"}, bytes([0, 0, 0, 3, 0, 0, 0, 0]))], EVENT)
    with pytest.raises(CorruptFileError, match="no instant"):
        read([], [write_log_block(BlockType.DELETE, {}, b"")], EVENT)
    with pytest.raises(CorruptFileError, match="record key"):
        read([], [avro_block("1", [row(None, 1, "x")])], EVENT)


def test_change_data_is_no_row():
    change = write_log_block(BlockType.CDC_DATA, {0: "1", 2: "{}"}, b"")
    assert values(read([row("a", 1, "base")], [change], EVENT)) == {"a": "base"}


def config(**values):
    return TableConfig({"hoodie.table.name": "t", **{key.replace("__", "."): value for key, value in values.items()}})


DEFAULT = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


def test_rules_of_tables():
    old = {"hoodie__table__version": "6", "hoodie__table__precombine__field": "ts"}
    event = MergeRules.of(config(**old, hoodie__compaction__payload__class=DEFAULT))
    assert (event.logs_by_ordering, event.base_by_ordering, event.deletes_forget) == (True, True, True)
    latest = MergeRules.of(config(**old, hoodie__compaction__payload__class=LATEST))
    assert (latest.logs_by_ordering, latest.base_by_ordering, latest.deletes_forget) == (True, False, True)
    new = {"hoodie__table__version": "9", "hoodie__table__keygenerator__type": "SIMPLE"}
    new["hoodie__table__ordering__fields"] = "a,b"
    mode = {"hoodie__record__merge__mode": "EVENT_TIME_ORDERING"}
    rules = MergeRules.of(config(**new, **mode))
    assert (rules.ordering_fields, rules.by_ordering, rules.deletes_forget) == (("a", "b"), True, False)
    assert not MergeRules.of(config(**new, hoodie__record__merge__mode="COMMIT_TIME_ORDERING")).by_ordering
    assert MergeRules.of(config(**new, **mode, hoodie__table__partial__update__mode="IGNORE_DEFAULTS")).nulls_keep


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"hoodie__record__merge__mode": "CUSTOM"}, "CUSTOM"),
        ({"hoodie__compaction__payload__class": "a.b.PartialUpdateAvroPayload"}, "PartialUpdateAvroPayload"),
        ({"hoodie__record__merge__mode": "EVENT_TIME_ORDERING", "hoodie__table__partial__update__mode": "NEW"}, "NEW"),
    ],
)
def test_unknown_rules_are_refused_by_name(properties, named):
    with pytest.raises(UnsupportedTableError, match=named):
        MergeRules.of(config(hoodie__table__version="9", **properties))
