"""Log records as they are read for a merge: ordering values and keys of delete blocks, marks of deletes."""

import datetime as dt
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.table_config import TableConfig
from table_format.errors import CorruptFileError, RecordError, UnsupportedTableError
from table_format.log.blocks import BlockType, HeaderKey, read_log_blocks
from table_format.log.deletes import DeletedRecord
from table_format.merge.log_rows import BlockReader
from table_format.merge.rules import MergeRules
from table_writer.encoding.log_blocks import write_delete_block, write_log_block
from tests.support.written_log_slices import SCHEMA, avro_block, ordered_deletes, read, row

EVENT = MergeRules(("ts",), logs_by_ordering=True, base_by_ordering=True)
SECOND = 1_700_000_000
UNITS = {"millis": 10**3, "micros": 10**6}


def retyped(name, kind):
    """The schema with a column of another type."""
    changed = {"name": name, "type": ["null", kind], "default": None}
    return {**SCHEMA, "fields": [changed if field["name"] == name else field for field in SCHEMA["fields"]]}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("wrapper", ["Long", "TimestampMicros", "Array"])
def test_deletes_by_timestamps_of_any_unit(unit, local, wrapper):
    """A Long counts in the column's unit, a TimestampMicros in microseconds, of which the column's values lose some."""
    schema = retyped("ts", {"type": "long", "logicalType": f"{'local-' * local}timestamp-{unit}"})
    micros = UNITS[unit] if wrapper == "Long" else 10**6
    odd = 0 if wrapper == "Long" else 123

    def at(second):
        return dt.datetime.fromtimestamp(second, dt.UTC).replace(tzinfo=None if local else dt.UTC)

    rows = [row("before", at(SECOND - 1), "x"), row("same", at(SECOND), "x"), row("after", at(SECOND + 1), "x")]
    value = SECOND * micros + (odd if unit == "millis" else 0)
    keys = [one["_hoodie_record_key"] for one in rows]
    if wrapper == "Array":
        member = ("org.apache.hudi.avro.model.TimestampMicrosWrapper", {"value": value})
        gone = ordered_deletes("2", keys, wrapper, [member])
    else:
        gone = ordered_deletes("2", keys, wrapper, value)
    arrow = avro_to_arrow(schema)
    for base, blocks in ((rows, [gone]), ([], [avro_block("1", rows, schema), gone])):
        assert read(base, blocks, EVENT, arrow)["_hoodie_record_key"].to_pylist() == ["after"]


def without_meta_columns(**values):
    named = {
        "hoodie.table.name": "t",
        "hoodie.table.version": "9",
        "hoodie.table.keygenerator.type": "NON_PARTITION",
        "hoodie.populate.meta.fields": "false",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    }
    return MergeRules.of(TableConfig({**named, **{key.replace("__", "."): value for key, value in values.items()}}))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("fields", ["id", "id,w"])
def test_deleted_keys_of_timestamps_are_in_the_columns_unit(unit, fields):
    kind = {"type": "long", "logicalType": f"timestamp-{unit}"}
    schema = retyped("_hoodie_record_key", kind)
    schema["fields"][0]["name"] = "id"
    rules = without_meta_columns(
        hoodie__table__recordkey__fields=fields,
        hoodie__table__keygenerator__type="NON_PARTITION" if fields == "id" else "COMPLEX",
    )
    rows = [{**row(None, 1, "x", w=7), "id": dt.datetime.fromtimestamp(SECOND + n, dt.UTC)} for n in range(3)]
    new = avro_block("1", [{**rows[0], "v": "new"}], schema)
    value = (SECOND + 2) * UNITS[unit]
    gone = write_delete_block("2", "{}", [DeletedRecord(str(value) if fields == "id" else f"id:{value},w:7", "")])
    assert read(rows, [new, gone], rules, avro_to_arrow(schema))["v"].to_pylist() == ["new", "x"]


def test_a_nested_record_key_is_read_whatever_columns_are():
    inner = {"type": "record", "name": "inner", "fields": [{"name": "id", "type": ["null", "long"]}]}
    fields = [{"name": "s", "type": ["null", inner]}, {"name": "v", "type": ["null", "string"], "default": None}]
    schema = {"type": "record", "name": "row", "fields": fields}
    rules = without_meta_columns(hoodie__table__recordkey__fields="s.id")
    base = [{"s": {"id": number}, "v": "base"} for number in range(3)]
    blocks = [avro_block("1", [{"s": {"id": 1}, "v": "new"}], schema)]
    blocks.append(write_delete_block("2", "{}", [DeletedRecord("2", "")]))
    for columns in (None, ["v"], ["s", "v"]):
        merged = read(base, blocks, rules, avro_to_arrow(schema), columns)
        assert merged["v"].to_pylist() == ["base", "new"]
    assert read(base, blocks, rules, avro_to_arrow(schema), ["s"])["s"].to_pylist() == [{"id": 0}, {"id": 1}]


@pytest.mark.parametrize(
    ("kind", "value", "marker"),
    [
        ("double", 1.0, "1.0"),
        ("float", 1e10, "1.0E10"),
        ("long", -1, "-1"),
        ("boolean", True, "true"),
        ("string", "D", "D"),
    ],
)
def test_marks_of_deletes_compare_as_javas_text(kind, value, marker):
    schema = retyped("v", kind)
    rules = MergeRules(("ts",), delete_field="v", delete_marker=marker)
    rows = [row("a", 2, value), row("b", 2, None)]
    assert read([], [avro_block("1", rows, schema)], rules, avro_to_arrow(schema))["ts"].to_pylist() == [2]


INNER = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]}


@pytest.mark.parametrize(
    ("kind", "value"), [("bytes", b"\xff"), (INNER, {"x": 1}), ({"type": "int", "logicalType": "date"}, 1)]
)
def test_marks_of_deletes_that_readers_take_otherwise_are_refused(kind, value):
    schema = retyped("v", kind)
    rules = MergeRules(("ts",), delete_field="v", delete_marker="D")
    with pytest.raises(UnsupportedTableError, match=r"hoodie.payload.delete.field.*'v'"):
        read([], [avro_block("1", [row("a", 2, value)], schema)], rules, avro_to_arrow(schema))


@pytest.mark.parametrize("text", ["{", "[]", '{"fields": [1]}', '{"fields": [{"default": 1}]}'])
def test_a_damaged_schema_of_a_parquet_block_is_named(text):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row("a", 2, "x")], avro_to_arrow(SCHEMA)), out)
    header = {HeaderKey.INSTANT_TIME: "1", HeaderKey.SCHEMA: text}
    block = write_log_block(BlockType.PARQUET_DATA, header, out.getvalue())
    with pytest.raises(CorruptFileError, match=r"\.f-0_1\.log\.1_0-0-0.*not an Avro schema"):
        read([], [block], MergeRules(("ts",), nulls_keep=True))


def deleted(block):
    """The keys and masks of a delete block as it is read for a merge."""
    (one,) = read_log_blocks(block, "x.log")
    rows = BlockReader(avro_to_arrow(SCHEMA), EVENT).read([one])
    assert rows.table.num_rows == rows.table["ts"].null_count == rows.by_block.sum()
    return rows.keys.to_pylist(), rows.natural.tolist()


def test_plain_deletes_are_read_without_their_records(monkeypatch):
    records = [DeletedRecord(key, "p=é") for key in ("a", "ключ", "", "x" * 9000)]
    expected = [record.key for record in records], [True] * 4
    assert deleted(write_delete_block("1", "{}", [*records[:3], DeletedRecord("x" * 9000, "q")])) == expected
    monkeypatch.setattr("table_format.merge.log_rows.read_deletes", None)
    assert deleted(write_delete_block("1", "{}", records)) == expected


def test_deleted_keys_that_are_no_text_are_named():
    block = write_delete_block("1", "{}", [DeletedRecord("aéa", "")]).replace("é".encode(), b"\xff\xff")
    with pytest.raises(CorruptFileError, match=r"x\.log.*does not follow its Avro schema"):
        deleted(block)


def test_a_required_column_is_null_where_a_file_lacks_it():
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "c", "type": "string", "default": "x"}]}
    arrow = avro_to_arrow(schema)
    assert not arrow.field("c").nullable
    base = [row("a", 1, "base"), row("b", 1, "base")]
    new, old = avro_block("1", [{**row("a", 2, "new"), "c": "set"}], schema), avro_block("1", [row("a", 2, "old")])
    gone = write_delete_block("2", "{}", [DeletedRecord("b", "")])
    for blocks, expected in (([], [None, None]), ([new], ["set", None]), ([old], [None, None]), ([new, gone], ["set"])):
        merged = read(base, blocks, EVENT, arrow, base_schema=avro_to_arrow(SCHEMA))
        assert (merged["c"].to_pylist(), merged.schema.field("c")) == (expected, arrow.field("c"))


def test_nulls_in_a_required_column_that_a_file_has_are_refused():
    schema = {**SCHEMA, "fields": [{**field} for field in SCHEMA["fields"]]}
    schema["fields"][3]["type"] = "int"
    arrow = avro_to_arrow(schema)
    with pytest.raises(RecordError, match="'w' holds 1 nulls"):
        read(
            [row("a", 1, "base")],
            [avro_block("1", [row("b", 2, "x", w=1)])],
            EVENT,
            arrow,
            base_schema=avro_to_arrow(SCHEMA),
        )
    with pytest.raises(RecordError, match="'w' holds 1 nulls"):
        read([row("a", 1, "base", w=1)], [avro_block("1", [row("b", 2, "x")])], EVENT, arrow)
