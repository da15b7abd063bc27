"""Hashes, keys, partition paths, schemas, statistics and base files of arbitrary values."""

import decimal
import math
import tempfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from table_format.base_file.bloom import dynamic_bloom, murmur, parse_bloom, simple_bloom
from table_format.base_file.footer import footer, footer_statistics
from table_format.base_file.reader import read_base_file
from table_format.codecs.avro_schema import arrow_to_avro, avro_text, avro_to_arrow, schema_text
from table_format.errors import RecordError
from table_format.keys.bucket_index import BucketHashRule, bucket_ids_of_keys, hash_parts
from table_format.keys.java_hash import bucket_id_one, java_string_hash, java_string_hash_one, list_hash, list_hash_one
from table_format.keys.joda_time import format_time, parse_time
from table_format.keys.key_generator import KeyGenerator, KeySpec
from table_format.keys.key_text import java_float_text, key_text
from table_format.keys.partition_values import escape_path_name, parse_partition_path, path_segment, unescape_path_name
from table_format.schema.evolution import conform, merge_schemas, storage_schema
from table_format.storage import Storage
from table_writer.encoding.base_file import write_base_file
from table_writer.metadata.column_statistics import bytes_above, column_bounds, cut_text, text_above
from tests.support.wrapped_bounds import decoded

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
MAYBE_TEXT = st.none() | TEXT
KEY_TEXT = st.text(st.sampled_from("ab:,_é日\U0001f642"), max_size=8)


def _reference_hash(text):
    """`String.hashCode` as its documentation writes it."""
    units = text.encode("utf-16-be")
    total = sum(
        int.from_bytes(units[i : i + 2], "big") * 31 ** (len(units) // 2 - 1 - i // 2) for i in range(0, len(units), 2)
    )
    return (total + 2**31) % 2**32 - 2**31


@given(st.lists(MAYBE_TEXT, max_size=40), st.integers(0, 5))
@example(["\U0001d4b3", "\uffff", ""], 0)
def test_hashes_equal_the_definition(texts, start):
    array = pa.array(["x"] * start + texts, pa.string()).slice(start)
    expected = [0 if text is None else _reference_hash(text) for text in texts]
    assert java_string_hash(array).tolist() == expected
    assert java_string_hash(array.cast(pa.large_string())).tolist() == expected
    assert [0 if text is None else java_string_hash_one(text) for text in texts] == expected


@given(st.lists(st.tuples(MAYBE_TEXT, MAYBE_TEXT, MAYBE_TEXT), min_size=1, max_size=10))
def test_list_hashes_equal_the_definition(rows):
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    assert list_hash(columns).tolist() == [list_hash_one(row) for row in rows]


@given(
    st.lists(KEY_TEXT | TEXT, max_size=20), st.sampled_from(list(BucketHashRule)), st.sampled_from([["a"], ["b", "a"]])
)
@example([":,:"], BucketHashRule.NAMED, ["a"])
def test_buckets_of_keys_equal_those_one_by_one(keys, rule, fields):
    keys = [*keys, "a:1,b:2", "a:__null__,b:__empty__"]
    expected = [bucket_id_one(hash_parts(key, fields, rule), 31) for key in keys]
    assert bucket_ids_of_keys(pa.array(keys), fields, 31, rule).tolist() == expected


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.none() | KEY_TEXT), min_size=1, max_size=12),
    st.sampled_from(list(BucketHashRule)),
    st.sampled_from([[], ["a"], ["b"], ["b", "a"]]),
)
def test_buckets_from_columns_equal_those_of_the_key_text(rows, rule, fields):
    batch = pa.table({"a": pa.array([a for a, _ in rows]), "b": pa.array([b for _, b in rows], pa.string())})
    generator = KeyGenerator(KeySpec(("a", "b"), generator="COMPLEX"), rule)
    keys = generator.record_keys(batch).to_pylist()
    for (a, b), key in zip(rows, keys, strict=True):
        assert key == f"a:{a},b:{'__null__' if b is None else b or '__empty__'}"
    expected = [bucket_id_one(hash_parts(key, fields or ["a", "b"], rule), 31) for key in keys]
    assert generator.bucket_ids(batch, 31, fields).tolist() == expected


@given(st.text())
def test_escaping_comes_back(text):
    escaped = escape_path_name(text)
    assert unescape_path_name(escaped) == text
    assert not set(escaped) & set("\"#'*/:=?\\{[]^\x7f")


@given(st.lists(MAYBE_TEXT, min_size=1, max_size=3), st.booleans(), st.booleans())
@example(["a/b=c"], True, False)
@example(["x", "a/f1=b"], True, False)
def test_partition_paths_come_back_or_are_unknown(values, hive_style, url_encode):
    fields = [f"f{index}" for index in range(len(values))]
    try:
        segments = [
            path_segment(v, f, hive_style=hive_style, url_encode=url_encode)
            for v, f in zip(values, fields, strict=True)
        ]
    except RecordError:
        return
    path = "/".join(segments)
    kinds = [pa.string()] * len(values)
    parsed = parse_partition_path(path, fields, kinds, hive_style=hive_style, url_encode=url_encode)
    expected = tuple(None if value in ("", "__HIVE_DEFAULT_PARTITION__") else value for value in values)
    ambiguous = not url_encode and any("/" in (value or "") for value in values) and len(values) > 1
    assert parsed == expected or (ambiguous and parsed is None) or (ambiguous and not hive_style)


@given(
    st.one_of(
        st.tuples(st.floats(allow_nan=False), st.just(False)),
        st.tuples(st.floats(allow_nan=False, width=32), st.just(True)),
    )
)
def test_float_texts_come_back(value):
    number, single = value
    text = java_float_text(number, single=single)
    back = float(text.replace("Infinity", "inf"))
    with np.errstate(over="ignore"):
        assert (np.float32(back) if single else back) == number
    assert math.copysign(1, back) == math.copysign(1, number)
    assert "Infinity" in text or "." in text


@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20))
def test_decimal_texts_are_those_of_big_decimal(value):
    # Python's decimals print by the rules of java.math.BigDecimal.
    assert key_text(value, pa.decimal128(38, 9)) == str(value)


@given(st.integers(-60_000_000_000_000, 250_000_000_000_000))
def test_times_come_back(epoch_ms):
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSSZ"
    from table_format.keys.joda_time import parse_zone

    for zone in ("UTC", "GMT+8:00", "-03:30"):
        text = format_time(epoch_ms, pattern, parse_zone(zone))
        assert parse_time(text, pattern, None).epoch_ms == epoch_ms


# schemas

NAME = st.sampled_from(["a", "b", "c", "größe", "_x", "d1"])
LEAF = st.sampled_from(
    [
        pa.bool_(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.decimal128(5, 2),
        pa.decimal128(38, 18),
    ]
)


def _struct(kinds):
    return st.lists(
        st.tuples(NAME, kinds, st.booleans()), min_size=1, max_size=3, unique_by=lambda member: member[0]
    ).map(lambda members: pa.struct([pa.field(name, kind, nullable=nullable) for name, kind, nullable in members]))


KIND = st.recursive(
    LEAF,
    lambda kinds: st.one_of(
        _struct(kinds),
        st.tuples(kinds, st.booleans()).map(lambda k: pa.list_(pa.field("element", k[0], nullable=k[1]))),
        st.tuples(kinds, st.booleans()).map(lambda k: pa.map_(pa.string(), pa.field("value", k[0], nullable=k[1]))),
    ),
    max_leaves=5,
)
SCHEMA = _struct(KIND).map(lambda kind: pa.schema([kind.field(index) for index in range(kind.num_fields)]))


@given(SCHEMA)
def test_schemas_come_back_from_avro(schema):
    import json

    import fastavro

    avro = arrow_to_avro(schema, "some-table")
    assert avro_to_arrow(avro) == schema
    assert avro_to_arrow(avro_text(avro)) == schema
    fastavro.parse_schema(json.loads(avro_text(avro)))


@given(SCHEMA)
def test_a_schema_merged_with_itself_is_itself(schema):
    table = storage_schema(schema)
    assert merge_schemas(table, schema) == table


# columns

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): TEXT | TEXT.map(lambda text: text * 700),
    pa.binary(): st.binary() | st.sampled_from([b"\xff" * 2001, b"\xff" * 1999 + b"\xfe\xff", b"a" * 5000]),
    pa.date32(): st.integers(-(2**31), 2**31 - 1),
    pa.timestamp("us", "UTC"): st.integers(-(2**62), 2**62),
    pa.decimal128(38, 20): st.decimals(-(10**15) + 1, 10**15 - 1, places=20, allow_nan=False),
    pa.decimal128(12, 3): st.decimals(-(10**8), 10**8, places=3, allow_nan=False),
}
COLUMN = st.sampled_from(list(VALUES)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind], max_size=12))
)


def _array(kind, values):
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)


@given(COLUMN, st.booleans())
def test_bounds_are_sound(column, as_dictionary):
    kind, values = column
    array = _array(kind, values)
    present = [value for value in values if value is not None]
    bounds = column_bounds(
        pa.chunked_array(
            [array.dictionary_encode() if as_dictionary else array],
            array.dictionary_encode().type if as_dictionary else kind,
        )
    )
    assert (bounds.lower is None) == (bounds.upper is None) == (not present)
    if not present:
        return
    lower, upper = decoded(bounds.lower)[1], decoded(bounds.upper)[1]
    for value in present:
        if isinstance(value, float) and math.isnan(value):
            assert (lower, upper) == (-math.inf, math.inf)
        elif isinstance(value, str):
            assert lower.encode() <= value.encode() <= upper.encode()
        else:
            assert lower <= value <= upper
    assert all(len(str(bound)) < 5000 or kind == pa.binary() for bound in (lower, upper))


@given(TEXT, st.integers(1, 8))
def test_cut_texts_are_sound(text, limit):
    assert text.startswith(cut_text(text, limit))
    assert len(cut_text(text, limit).encode()) <= limit
    assert text_above(text, limit).encode() >= text.encode()


@given(st.binary(max_size=12), st.integers(1, 8))
def test_cut_bytes_are_sound(data, limit):
    assert bytes_above(data, limit) >= data


@settings(max_examples=60)
@given(st.lists(COLUMN, min_size=1, max_size=4), st.integers(1, 4))
def test_base_files_come_back_and_their_footers_are_sound(columns, parts):
    count = max(len(values) for _, values in columns)
    arrays = [_array(kind, values + [None] * (count - len(values))) for kind, values in columns]
    names = [f"c{index}" for index in range(len(arrays))]
    keys = pa.array([f"k{row}" for row in range(count)], pa.string())
    table = pa.table([keys, *arrays], ["_hoodie_record_key", *names])
    text = schema_text(table.schema, "t").replace(
        '"fields":[', '"fields":[{"name":"_hoodie_record_key","type":["null","string"]},', 1
    )
    with tempfile.TemporaryDirectory() as folder:
        storage = Storage(folder)
        write_base_file(storage, "f", table, text, {"hoodie.parquet.block.size": str(max(1, table.nbytes // parts))})
        back = read_base_file(storage, "f")
        read_footer = footer(storage, "f")
    assert back.schema == table.schema
    for name in table.column_names:
        written, his = table[name].combine_chunks(), back[name].combine_chunks()
        if pa.types.is_floating(written.type):
            assert np.array_equal(
                written.to_numpy(zero_copy_only=False), his.to_numpy(zero_copy_only=False), equal_nan=True
            )
        else:
            assert written == his
        statistics = footer_statistics(read_footer, name, written.type)
        if statistics.lower is not None:
            scalars = pa.array([statistics.lower, statistics.upper], written.type)
            least = pa.compute.min_max(written)
            bounds = pa.compute.min_max(
                pa.concat_arrays(
                    [scalars, written.combine_chunks() if isinstance(written, pa.ChunkedArray) else written]
                )
            )
            assert least["min"].is_valid
            assert bounds["min"] == scalars[0]
            assert bounds["max"] == scalars[1]


@given(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | TEXT), max_size=10))
def test_narrow_and_partial_rows_are_conformed(rows):
    table = pa.table(
        {
            "a": pa.array([a for a, _ in rows], pa.int32()),
            "s": pa.array([{"t": t} for _, t in rows], pa.struct([("t", pa.string())])),
        }
    )
    schema = pa.schema(
        [("new", pa.binary()), ("s", pa.struct([("u", pa.int32()), ("t", pa.string())])), ("a", pa.int64())]
    )
    expected = [{"new": None, "s": {"u": None, "t": t}, "a": a} for a, t in rows]
    assert conform(table, schema).to_pylist() == expected


# bloom filters


def _reference_murmur(data, seed):
    """Hadoop's MurmurHash, line by line."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    state = (seed ^ len(data)) & mask
    for start in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        state = (state * m & mask) ^ k
    left = len(data) % 4
    if left:
        signed = [byte - 256 if byte > 127 else byte for byte in data]
        if left >= 3:
            state ^= signed[len(data) - 3] << 16
        if left >= 2:
            state ^= signed[len(data) - 2] << 8
        state ^= signed[len(data) - 1]
        state = (state & mask) * m & mask
    state = (state ^ state >> 13) * m & mask
    return state ^ state >> 15


@given(st.lists(TEXT, max_size=12), st.integers(0, 2**32 - 1))
def test_murmur_equals_the_definition(texts, seed):
    seeds = np.full(len(texts), seed, np.uint32)
    assert murmur(pa.array(texts, pa.string()), seeds).tolist() == [
        _reference_murmur(text.encode(), seed) for text in texts
    ]


@given(st.lists(TEXT, max_size=20), st.integers(1, 200), st.integers(1, 9), st.integers(1, 6), st.integers(1, 20))
def test_filters_hold_their_keys_and_come_back(texts, bits, hashes, per_vector, most):
    keys = pa.array(texts, pa.string())
    for bloom in (simple_bloom(keys, bits, hashes), dynamic_bloom(keys, bits, hashes, per_vector, most)):
        again = parse_bloom(bloom.to_text(), bloom.type_code, "f")
        assert again.to_text() == bloom.to_text()
        assert again.may_contain(keys).all()


def test_reference_hash_is_javas():
    assert _reference_hash("polygenelubricants") == -(2**31)
    with pytest.raises(decimal.InvalidOperation):
        decimal.Decimal("x")
