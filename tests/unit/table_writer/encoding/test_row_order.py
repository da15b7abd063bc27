"""The claim in a footer that rows are sorted by record key: made where it is true, whatever the parts are."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_schema import avro_to_arrow, schema_text
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_writer.encoding.base_file import BaseFileOptions, encode_parts
from table_writer.encoding.row_order import is_in_key_order

_KEYS = st.lists(st.sampled_from(["a", "b", "é", "\uffff", "𝄞", "ab"]), max_size=4)


def _part(keys: list[str], number: float) -> pa.Table:
    meta = {field.name: keys if field.name == RECORD_KEY else ["x"] * len(keys) for field in META_FIELDS}
    schema = pa.schema([*META_FIELDS, pa.field("f", pa.float64())])
    return pa.table({**meta, "f": [number] * len(keys)}, schema=schema)


@given(parts=st.lists(st.tuples(_KEYS, st.booleans(), st.booleans()), min_size=1, max_size=4))
def test_a_footer_claims_an_order_where_rows_have_it(parts: list[tuple[list[str], bool, bool]]) -> None:
    groups = [sorted(keys, key=str.encode) if in_order else keys for keys, in_order, _ in parts]
    tables = [_part(keys, math.nan if nan else 1.0) for keys, (_, _, nan) in zip(groups, parts, strict=True)]
    keys = [key for group in groups for key in group]
    text = schema_text(pa.schema([pa.field("f", pa.float64())]), "t", meta_fields=True)
    stream = pa.BufferOutputStream()
    several = len(tables) > 1
    result = encode_parts(stream, iter(tables), text, avro_to_arrow(text), BaseFileOptions(), several=several)
    data = stream.getvalue()
    metadata = pq.read_metadata(pa.BufferReader(data))
    assert result.metadata.equals(metadata)
    assert pq.read_table(pa.BufferReader(data)).column(RECORD_KEY).to_pylist() == keys
    claims = {metadata.row_group(number).sorting_columns for number in range(metadata.num_row_groups)}
    at_first = bool(groups[0]) or not keys  # a file whose first part is empty may go without
    ordered = keys == sorted(keys, key=str.encode)
    assert claims <= {(pq.SortingColumn(2),), ()}
    assert ordered or claims == {()}
    assert not (ordered and keys and at_first) or claims == {(pq.SortingColumn(2),)}


@pytest.mark.parametrize(
    ("column", "is_so"),
    [
        (pa.chunked_array([["a", "b"], ["b", "c"]]), True),
        (pa.chunked_array([["b"], ["a"]]), False),
        (pa.chunked_array([pa.array(["a", None])]), False),
        (pa.chunked_array([pa.array(["a", "b"]).dictionary_encode()]), False),
    ],
)
def test_order_of_keys(column: pa.ChunkedArray, is_so: bool) -> None:
    assert is_in_key_order(pa.table({RECORD_KEY: column})) is is_so
    assert not is_in_key_order(pa.table({"key": column}))
