"""Texts of the timeline: they round-trip, and damage is always a clear error."""

import contextlib
import datetime as dt
import json

import pyarrow as pa
from hypothesis import assume, example, given
from hypothesis import strategies as st

from table_format.actions.commit import CommitMetadata, WriteStat
from table_format.actions.restore import RestoreMetadata, SavepointMetadata
from table_format.actions.rollback import RollbackMetadata, RollbackPlan
from table_format.actions.table_services import CleanerPlan, CleanMetadata, ClusteringPlan, CompactionPlan
from table_format.codecs.avro_schema import avro_to_arrow
from table_format.config.properties import format_properties, parse_properties
from table_format.config.table_config import parse_table_config
from table_format.errors import HudiError
from table_format.instant import next_instant_time, parse_as_of, parse_instant_file_name
from table_format.schema.internal_schema import parse_schema_history
from table_format.slices.file_names import (
    BaseFileName,
    LogFileName,
    bucket_of_file_id,
    parse_base_file_names,
    parse_log_file_names,
)
from table_writer.timeline.instants import RequestedReplaceMetadata
from tests.support.golden_tables import FILES

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
AVRO = {
    ".clean.requested": CleanerPlan,
    ".clean": CleanMetadata,
    ".rollback.requested": RollbackPlan,
    ".rollback": RollbackMetadata,
    ".restore": RestoreMetadata,
    ".savepoint": SavepointMetadata,
    ".replacecommit.requested": RequestedReplaceMetadata,
    ".compaction.requested": CompactionPlan,
    ".clustering.requested": ClusteringPlan,
}
SAMPLES = {
    ending: next(data for path, data in sorted(FILES.items()) if path.endswith(ending) and data) for ending in AVRO
}
COMMIT = next(data for path, data in sorted(FILES.items()) if path.endswith(".replacecommit") and data)
SCHEMAS = b"""{"schemas": [{"max_column_id": 9, "version_id": 20261121135142003, "type": "record", "fields": [
    {"id": 5, "name": "id", "optional": true, "type": "long"},
    {"id": 6, "name": "s", "optional": true, "type": {"type": "record", "fields": [
        {"id": 7, "name": "d", "optional": true, "type": "decimal(10, 2)"}]}},
    {"id": 8, "name": "l", "optional": true, "type": {
        "type": "array", "element_id": 9, "element": "string", "element_optional": true}}]}]}"""
AVRO_SCHEMA = CommitMetadata.from_json(COMMIT, "p").extra_metadata["schema"].encode()
PROPERTIES = next(data for path, data in sorted(FILES.items()) if path.endswith("hoodie.properties"))


@st.composite
def damaged(draw, data):
    """The bytes with some changed, cut out or put in."""
    out = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(out) - 1)))
        match draw(st.sampled_from(["change", "cut", "insert", "drop"])):
            case "change" if out:
                out[at] = draw(st.integers(0, 255))
            case "cut":
                del out[at:]
            case "insert":
                out[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "drop":
                del out[at : at + draw(st.integers(1, 30))]
    return bytes(out)


@given(st.dictionaries(TEXTS, TEXTS), TEXTS)
@example({"#a": " b", "": "", "a\\": "\\", "k=:": "\r\n\t\f", "é日😀": "\x00\x7f\x85\u2028"}, "")
def test_properties_come_back(values, comment):
    data = format_properties(values, comment)
    assert parse_properties(data, "p") == values
    assert data.isascii()


@given(st.binary())
def test_any_bytes_are_properties_or_refused(data):
    try:
        values = parse_properties(data, "p")
    except HudiError:
        return
    assert parse_properties(format_properties(values), "p") == values


@given(damaged(PROPERTIES))
def test_damaged_table_properties(data):
    with contextlib.suppress(HudiError):
        config = parse_table_config(data, "p")
        for name in dir(type(config)):
            getattr(config, name)


@given(st.sampled_from(sorted(AVRO)), st.data())
def test_damaged_plans_and_results(ending, data):
    broken = data.draw(damaged(SAMPLES[ending]))
    with contextlib.suppress(HudiError):
        AVRO[ending].from_avro(broken, "p")


@given(damaged(SCHEMAS))
def test_damaged_schemas_of_columns_with_ids(data):
    with contextlib.suppress(HudiError):
        for schema in parse_schema_history(data.decode("utf-8", "replace"), "p"):
            assert all(isinstance(column.name, str) for column in schema.columns)


@given(damaged(COMMIT))
def test_damaged_commits(data):
    try:
        read = CommitMetadata.from_json(data, "p")
    except HudiError:
        return
    assert all(isinstance(stat.file_name, str) for stat in read.stats())
    assert CommitMetadata.from_json(read.to_json(), "p") == read


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["partitionToWriteStats", "extraMetadata", "partitionToReplaceFileIds", "path", "fileId", "p"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(JSON)
def test_any_json_is_a_commit_or_refused(value):
    try:
        read = CommitMetadata.from_json(json.dumps(value).encode(), "p")
    except HudiError:
        return
    assert CommitMetadata.from_json(read.to_json(), "p") == read


COUNTS = st.integers(0, 2**63 - 1)
STATS = st.builds(
    WriteStat,
    file_id=TEXTS,
    path=TEXTS,
    partition_path=TEXTS,
    prev_commit=TEXTS,
    num_writes=COUNTS,
    num_inserts=COUNTS,
    file_size_in_bytes=COUNTS,
    runtime_stats=st.none() | st.dictionaries(TEXTS, COUNTS),
)


@given(
    st.builds(
        CommitMetadata,
        partition_to_write_stats=st.dictionaries(TEXTS, st.lists(STATS, max_size=3), max_size=3),
        operation_type=st.sampled_from(["INSERT", "UPSERT"]),
        extra_metadata=st.dictionaries(TEXTS, TEXTS),
        compacted=st.booleans(),
        partition_to_replace_file_ids=st.none() | st.dictionaries(TEXTS, st.lists(TEXTS)),
    )
)
def test_commits_come_back(commit):
    assert CommitMetadata.from_json(commit.to_json(), "p") == commit


ID = st.from_regex(r"[a-zA-Z0-9-]+", fullmatch=True)
DIGITS = st.from_regex(r"[0-9]{1,20}", fullmatch=True)


@given(
    st.builds(BaseFileName, file_id=ID, write_token=ID, instant=DIGITS, extension=st.sampled_from(["parquet", "orc"]))
)
def test_base_file_names_come_back(name):
    assert BaseFileName.parse(str(name)) == name


TOKENS = st.from_regex(r"[0-9]{1,4}-[0-9]{1,4}-[0-9]{1,4}", fullmatch=True)


@given(ID, DIGITS, st.integers(1, 10**9), st.none() | TOKENS, st.booleans())
def test_log_file_names_come_back(file_id, instant, version, token, cdc):
    assume(token is not None or not cdc)
    name = LogFileName(file_id, instant, version, token, cdc)
    assert LogFileName.parse(str(name)) == name


PIECES = st.lists(
    st.sampled_from([*"_.-a0٣é\n ", "parquet", ".log.", "1-2-3", "commit", ".inflight", "requested", ".cdc"])
)
NEAR_NAMES = PIECES.map("".join) | TEXTS


@given(st.lists(NEAR_NAMES))
def test_any_names_parse_alike_one_by_one_and_by_columns(names):
    rows = parse_base_file_names(pa.array(names, pa.string())).to_pylist()
    for name, row in zip(names, rows, strict=True):
        parsed = BaseFileName.parse(name)
        assert row["file_id"] == (parsed.file_id if parsed else None)
        assert row["instant"] == (parsed.instant if parsed else None)


BASE_PIECES = st.tuples(
    st.sampled_from(["a-0", "b", "0", "_", "é"]) | st.just("c-1"),
    st.just("_"),
    st.sampled_from(["0-1-2", "1-", ""]) | st.just("0-0-0"),
    st.sampled_from(["_", "_", "_", "-"]),
    st.sampled_from(["1", "20260101000000000", "1a", "-", "", "1_2"]) | st.just("12"),
    st.sampled_from([".", ".", ".", "_"]),
    st.sampled_from(["parquet", "orc", "p-q", "", "a.b"]) | st.just("parquet"),
)


@given(st.lists(BASE_PIECES.map("".join), min_size=1, max_size=3))
def test_names_of_nearly_one_shape_parse_alike_one_by_one_and_by_columns(names):
    rows = parse_base_file_names(pa.array(["x_y", *names], pa.string()).slice(1)).to_pylist()
    parsed = [BaseFileName.parse(name) for name in names]
    assert [tuple(row.values()) for row in rows] == [
        (one.file_id, one.write_token, one.instant, one.extension) if one else (None,) * 4 for one in parsed
    ]


LOG_PIECES = st.tuples(
    st.sampled_from([".", "", ".a.", "._"]),
    st.sampled_from(["a-0", "a_b", "", "é-1"]),
    st.sampled_from(["_3", "_", "_3_4", "_3.5", ""]),
    st.sampled_from([".log.", ".archive.", ".logs.", ".log"]),
    st.sampled_from(["1", "012", "9" * 18, "9" * 19, "", "٣"]),
    st.sampled_from(["", "_0-1-2", "_0-1", "_0-1-2-3", "_"]),
    st.sampled_from(["", ".cdc", "\n", "xcdc", ".cdc.cdc"]),
)


@given(st.lists(NEAR_NAMES | LOG_PIECES.map("".join) | st.none()))
def test_any_log_names_parse_alike_one_by_one_and_by_columns(names):
    rows = parse_log_file_names(pa.array(names, pa.string())).to_pylist()
    for name, row in zip(names, rows, strict=True):
        parsed = LogFileName.parse(name or "")
        expected = (None,) * 5
        if parsed:
            expected = (parsed.file_id, parsed.instant, parsed.version, parsed.write_token or "", parsed.is_cdc)
        assert tuple(row.values()) == expected


@given(NEAR_NAMES)
def test_any_name_is_taken_whole_or_not_at_all(name):
    base, log, instant = BaseFileName.parse(name), LogFileName.parse(name), parse_instant_file_name(name)
    assert base is None or str(base) == name
    assert log is None or log.file_id in name
    assert instant is None or instant.time in name
    bucket_of_file_id(name)


@given(
    NEAR_NAMES | st.datetimes().map(str) | st.from_regex(r"[0-9]{14}([0-9]{3})?", fullmatch=True),
    st.sampled_from(["UTC", "LOCAL"]),
)
def test_any_moment_is_an_instant_or_refused(text, timezone):
    try:
        time = parse_as_of(text, timezone)
    except HudiError:
        return
    assert len(time) == 17
    assert time.isdecimal()


@given(st.none() | st.from_regex(r"[0-9]{14,20}", fullmatch=True), st.datetimes(), st.sampled_from(["UTC", "LOCAL"]))
def test_the_next_instant_is_later(last, now, timezone):
    assume(2 < now.year < 9998)
    try:
        time = next_instant_time(last, timezone, now.replace(tzinfo=dt.UTC))
    except HudiError:
        assert last is not None
        assert last >= "9" * 14
        return
    assert len(time) == 17
    assert last is None or time > last


@given(JSON.map(json.dumps) | damaged(AVRO_SCHEMA).map(lambda data: data.decode("latin-1")))
@example('{"type": "record", "name": "a", "fields": [{"name": "b", "type": {"type": null}}]}')
@example('{"type": "record", "name": "a", "fields": [{"name": "b", "type": []}]}')
def test_any_schema_is_columns_or_refused(text):
    with contextlib.suppress(HudiError):
        avro_to_arrow(text)
