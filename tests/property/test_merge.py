"""Merging of random log files against a plain loop over their records, and Avro columns against fastavro."""

import contextlib
import dataclasses
import io

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_schema import avro_to_arrow
from table_format.codecs.avro_schema_tree import parse
from table_format.errors import HudiError
from table_format.log import deletes
from table_format.log.blocks import BlockType, HeaderKey
from table_format.log.records import decode_records
from table_format.merge.rules import MergeRules
from table_format.schema.evolution import conform
from table_writer.encoding.log_blocks import write_log_block
from tests.support.written_log_slices import avro_block, positioned, read, row

RULES = {
    "commit": MergeRules(("ts",)),
    "event": MergeRules(("ts",), logs_by_ordering=True, base_by_ordering=True),
    "event, before 1.0": MergeRules(("ts",), logs_by_ordering=True, base_by_ordering=True, deletes_forget=True),
    "latest, before 1.0": MergeRules(("ts",), logs_by_ordering=True, deletes_forget=True),
}
NAMESPACE = "org.apache.hudi.avro.model"
TIMES = st.integers(1, 4)
KEYS = st.sampled_from("abcde")
RECORDS = st.builds(lambda key, ts, gone: ("record", key, ts, gone), KEYS, TIMES, st.sampled_from([None, False, True]))
DELETES = st.builds(lambda key, ts: ("delete", key, ts, True), KEYS, st.none() | TIMES)
BLOCKS = st.lists(st.one_of(st.lists(RECORDS, max_size=6), st.lists(DELETES, max_size=4)), max_size=8)


def delete_block(instant, records, header=None):
    """A delete block whose ordering values are longs; none is written as Java does it, as an int 0."""
    listed = []
    for _, key, ts, _ in records:
        name, value = ("Int", 0) if ts is None else ("Long", ts)
        listed.append(
            {"recordKey": key, "partitionPath": "", "orderingVal": (f"{NAMESPACE}.{name}Wrapper", {"value": value})}
        )
    out = io.BytesIO()
    fastavro.schemaless_writer(out, deletes.SCHEMA, {"deleteRecordList": listed})
    content = (3).to_bytes(4, "big") + len(out.getvalue()).to_bytes(4, "big") + out.getvalue()
    return write_log_block(BlockType.DELETE, {0: instant, 2: "{}", **(header or {})}, content)


def wins(new, old, rules):
    """Whether a log record takes the place of an older one."""
    if not rules.logs_by_ordering or new["natural"] or old["natural"]:
        return not (rules.logs_by_ordering and not rules.deletes_forget and old["natural"] and new["block"])
    if rules.deletes_forget and old["block"]:
        return True
    return new["ts"] >= old["ts"]


def merged(base, blocks, rules):
    """What is left, by key: the loop that Hudi's readers run."""
    logs = {}
    for number, records in enumerate(blocks):
        for place, (kind, key, ts, gone) in enumerate(records):
            block = kind == "delete"
            new = {"ts": ts, "gone": bool(gone), "block": block, "natural": block and ts is None}
            new["v"] = f"{number}.{place}"
            if key not in logs or wins(new, logs[key], rules):
                logs[key] = new
    left = dict.fromkeys(base, "base")
    for key, new in logs.items():
        older = base.get(key)
        stays = rules.base_by_ordering and older is not None and not new["natural"] and older > new["ts"]
        if stays and not (rules.deletes_forget and new["block"]):
            continue
        left.pop(key, None)
        if not new["gone"]:
            left[key] = new["v"]
    return left


@given(st.dictionaries(KEYS, TIMES, max_size=4), BLOCKS, st.sampled_from(sorted(RULES)))
def test_merging_is_the_plain_loop(base, blocks, name):
    written = []
    for number, records in enumerate(blocks):
        if records and records[0][0] == "delete":
            written.append(delete_block(str(number), records))
        else:
            rows = [
                {**row(key, ts, f"{number}.{place}"), "_hoodie_is_deleted": gone}
                for place, (_, key, ts, gone) in enumerate(records)
            ]
            written.append(avro_block(str(number), rows))
    result = read([row(key, ts, "base") for key, ts in base.items()], written, RULES[name])
    keys = result["_hoodie_record_key"].to_pylist()
    assert len(keys) == len(set(keys))
    assert dict(zip(keys, result["v"].to_pylist(), strict=True)) == merged(base, blocks, RULES[name])


PLACES = st.lists(st.tuples(KEYS, TIMES), min_size=1, max_size=7)
CHANGES = st.lists(
    st.tuples(st.booleans(), st.dictionaries(st.integers(0, 6), TIMES, min_size=1, max_size=4), st.booleans()),
    max_size=5,
)


@given(PLACES, CHANGES, st.sampled_from(["commit", "event"]), st.booleans())
def test_merging_by_position_is_the_plain_loop_over_rows(base, changes, name, all_positioned):
    """Rows of a base file with several of some keys, each changed by the log records that have its position."""
    blocks, written, positioned_too = [], [], True
    for number, (deletes_rows, times, has_positions) in enumerate(changes):
        places = sorted({place % len(base): ts for place, ts in times.items()}.items())
        header = positioned([place for place, _ in places]) if has_positions or all_positioned else {}
        positioned_too &= bool(header)
        kind = "delete" if deletes_rows else "record"
        records = [(kind, base[place][0], ts, deletes_rows) for place, ts in places]
        blocks.append([(place, *record) for (place, _), record in zip(places, records, strict=True)])
        if deletes_rows:
            written.append(delete_block(str(number), records, header))
        else:
            rows = [row(key, ts, f"{number}.{at}") for at, (_, key, ts, _) in enumerate(records)]
            written.append(avro_block(str(number), rows, header=header))
    result = read([row(key, ts, "base") for key, ts in base], written, RULES[name])
    first = {key: place for place, (key, _) in reversed(list(enumerate(base)))}
    # what stands for the row: its position, or the first row of its key
    loop = [
        [(kind, place if positioned_too else first[key], ts, gone) for place, kind, key, ts, gone in records]
        for records in blocks
    ]
    left = merged({place: ts for place, (_, ts) in enumerate(base)}, loop, RULES[name])
    assert result["v"].to_pylist() == [left[place] for place in sorted(left)]


ONE_EACH = st.one_of(
    st.lists(RECORDS, max_size=5, unique_by=lambda one: one[1]),
    st.lists(DELETES, max_size=4, unique_by=lambda one: one[1]),
)


@given(
    st.dictionaries(KEYS, TIMES, max_size=4),
    st.lists(st.tuples(ONE_EACH, st.integers(1, 3)), max_size=6),
    st.sampled_from(sorted(RULES)),
    st.booleans(),
)
def test_blocks_that_a_retried_task_wrote_again_change_nothing(base, blocks, name, nulls_keep):
    """Every record of a write stands in one block only, so that its copy follows it as the next version of its key.

    Blocks may be numbered by attempt and sequence (`BLOCK_IDENTIFIER`); readers of Apache 0.15.0 and 1.2.0 ignore that.
    """

    def written(number, records, attempt):
        if records and records[0][0] == "delete":
            return delete_block(str(number), records)
        rows = [
            {**row(key, ts, None if ts == 2 else f"{number}.{key}"), "_hoodie_is_deleted": gone}
            for _, key, ts, gone in records
        ]
        return avro_block(str(number), rows, header={HeaderKey.BLOCK_IDENTIFIER: f"{attempt},0"})

    rules = dataclasses.replace(RULES[name], nulls_keep=nulls_keep)
    rows = [row(key, ts, "base") for key, ts in base.items()]
    once = [written(number, records, 0) for number, (records, _) in enumerate(blocks)]
    again = [
        written(number, records, attempt) for number, (records, times) in enumerate(blocks) for attempt in range(times)
    ]
    assert read(rows, again, rules).equals(read(rows, once, rules))


PLAIN = st.sampled_from(["int", "long", "string", "bytes", "boolean", "double"])


TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        inner.map(lambda kind: kind if isinstance(kind, list) else ["null", kind]),
        inner.map(lambda kind: {"type": "array", "items": kind}),
        inner.map(lambda kind: {"type": "map", "values": kind}),
    ),
    max_leaves=4,
)
VALUES = {
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
}


def values_of(kind):
    if isinstance(kind, str):
        return VALUES[kind]
    if isinstance(kind, list):
        return st.none() | values_of(kind[1])
    if kind["type"] == "array":
        return st.lists(values_of(kind["items"]), max_size=4)
    if kind["type"] == "map":
        return st.dictionaries(st.text(max_size=3), values_of(kind["values"]), max_size=4)
    return st.fixed_dictionaries({field["name"]: values_of(field["type"]) for field in kind["fields"]})


@st.composite
def records(draw):
    kinds = draw(st.lists(TYPES, min_size=1, max_size=4))
    schema = {"type": "record", "name": "root", "fields": [{"name": f"c{i}", "type": k} for i, k in enumerate(kinds)]}
    inner = {"type": "record", "name": "inner", "fields": [{"name": f"m{i}", "type": k} for i, k in enumerate(kinds)]}
    if draw(st.booleans()):
        schema["fields"].append({"name": "nested", "type": ["null", {"type": "array", "items": ["null", inner]}]})
    fields = {field["name"]: values_of(field["type"]) for field in schema["fields"]}
    return schema, draw(st.lists(st.fixed_dictionaries(fields), max_size=6))


def encoded(schema, rows):
    parsed, parts = fastavro.parse_schema(schema), []
    for one in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, one)
        parts.append(out.getvalue())
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    return np.frombuffer(b"".join(parts), dtype=np.uint8), starts, lengths


@given(records(), st.data())
def test_avro_columns_are_what_fastavro_reads(case, data):
    schema, rows = case
    buffer, starts, lengths = encoded(schema, rows)
    names = [field["name"] for field in schema["fields"]]
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    table = decode_records(buffer, starts, lengths, parse(schema), set(wanted), path="x")
    arrow = avro_to_arrow(schema)
    assert table.column_names == [name for name in names if name in wanted]
    table = conform(table, pa.schema([arrow.field(name) for name in wanted]))
    for name in wanted:
        expected = pa.array([one[name] for one in rows], arrow.field(name).type)
        assert table[name].to_pylist() == expected.to_pylist()


@given(records(), st.data())
def test_damaged_records_are_never_another_error(case, data):
    schema, rows = case
    buffer, starts, lengths = encoded(schema, rows)
    changed = buffer.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        if changed.size:
            changed[data.draw(st.integers(0, changed.size - 1))] ^= data.draw(st.integers(1, 255))
    names = {field["name"] for field in schema["fields"]}
    with contextlib.suppress(HudiError):
        assert len(decode_records(changed, starts, lengths, parse(schema), names, path="x")) == len(rows)
