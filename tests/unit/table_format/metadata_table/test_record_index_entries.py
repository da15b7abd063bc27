"""Entries of the record index: what is written can be read, in the shape that Apache Hudi gives it."""

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_schema_tree import parse
from table_format.errors import CorruptFileError, RecordIndexError
from table_format.metadata_table.record_index_entries import decode_values
from table_writer.encoding.metadata_records import SCHEMA
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA, encode_locations, encode_places
from tests.support.avro_rows import encoded

NODE = parse(SCHEMA)
UUID = "12345678-9abc-4def-8123-456789abcdef"
HIGH, LOW = 0x123456789ABC4DEF, 0x8123456789ABCDEF - (1 << 64)


def changes(*rows):
    return pa.Table.from_pylist(
        [{"key": key, "partition": p, "file_id": f, "deleted": False} for key, p, f in rows], CHANGES_SCHEMA
    )


def info(**fields):
    known = {"partitionName": "p", "fileIdHighBits": -1, "fileIdLowBits": -1, "fileIndex": -1, "fileId": ""}
    return {**known, "instantTime": 5, "fileIdEncoding": 0, **fields}


@pytest.mark.parametrize(
    ("file_id", "fields"),
    [
        (f"{UUID}-0", {"fileIdHighBits": HIGH, "fileIdLowBits": LOW, "fileIndex": 0}),
        (f"{UUID}-12", {"fileIdHighBits": HIGH, "fileIdLowBits": LOW, "fileIndex": 12}),
        (UUID, {"fileIdHighBits": HIGH, "fileIdLowBits": LOW}),
        ("group", {"fileId": "group", "fileIdEncoding": 1}),
        # Java would read these as UUIDs and give them back in another form
        (f"{UUID.upper()}-0", {"fileId": f"{UUID.upper()}-0", "fileIdEncoding": 1}),
        (f"{UUID}-00", {"fileId": f"{UUID}-00", "fileIdEncoding": 1}),
        (f"{UUID}--1", {"fileId": f"{UUID}--1", "fileIdEncoding": 1}),
        (f"{UUID}-99999999999", {"fileId": f"{UUID}-99999999999", "fileIdEncoding": 1}),
    ],
)
def test_a_file_id_is_stored_by_its_numbers_or_as_text(file_id, fields):
    records = encode_locations(changes(("k", "p", file_id)), 5)
    row = {"key": "", "type": 5, "recordIndexMetadata": info(**fields)}
    assert records.values.to_pylist() == encoded(SCHEMA, [row])
    [entry] = decode_values(records.values, NODE, "f").to_pylist()
    assert entry == {"partition": "p", "file_id": file_id, "instant_ms": 5, "position": None}


FILE_IDS = st.sampled_from([f"{uuid.UUID(int=n)}-{n % 3}" for n in (0, 1, 2**127, 2**128 - 1)]) | st.text(max_size=5)
PLACES = st.tuples(st.text(max_size=4), FILE_IDS)


@given(places=st.lists(PLACES, min_size=1, max_size=4), picks=st.lists(st.integers(0, 99), max_size=40))
def test_what_is_encoded_is_decoded(places, picks):
    rows = [(f"k{number}", *places[pick % len(places)]) for number, pick in enumerate(picks)]
    table = changes(*rows)
    halves = pa.concat_tables([table.slice(0, len(rows) // 2), table.slice(len(rows) // 2)])
    records = encode_locations(halves, 1767225600123)
    assert records.keys.to_pylist() == [key.encode() for key, _, _ in rows]
    entries = decode_values(records.values, NODE, "f")
    assert [(row["partition"], row["file_id"]) for row in entries.to_pylist()] == [row[1:] for row in rows]
    assert set(entries["instant_ms"].to_pylist()) <= {1767225600123}


def test_each_place_has_an_instant_of_its_own():
    values = encode_places(["a", "b"], ["f", "g"], [1, 2])
    assert decode_values(pa.chunked_array([values, values]), NODE, "f")["instant_ms"].to_pylist() == [1, 2, 1, 2]


def test_a_record_without_a_place_is_refused():
    with pytest.raises(RecordIndexError, match="without"):
        encode_locations(changes(("k", "p", None)), 5)


def test_later_schemas_tell_the_position():
    fields = [dict(field) for field in SCHEMA["fields"]]
    index = fields[-1]
    record = {**index["type"][1]}
    record["fields"] = [*record["fields"], {"name": "position", "type": ["null", "long"], "default": None}]
    later = {**SCHEMA, "fields": [*fields[:-1], {**index, "type": ["null", record]}]}
    rows = [{"key": "", "type": 5, "recordIndexMetadata": {**info(fileId="f", fileIdEncoding=1), "position": 7}}]
    values = pa.array(encoded(later, rows), pa.binary())
    assert decode_values(values, parse(later), "f")["position"].to_pylist() == [7]


def test_damaged_values_are_an_error():
    values = encode_places(["a"], ["f"], [1])
    cut = pa.array([values[0].as_py()[:-1]], pa.binary())
    with pytest.raises(CorruptFileError):
        decode_values(cut, NODE, "f")
