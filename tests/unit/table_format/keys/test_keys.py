"""Record keys, partition paths and buckets against what Apache Hudi wrote."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from table_format.errors import OptionError, RecordError, SchemaError
from table_format.keys.bucket_index import BucketHashRule, bucket_ids_of_keys, hash_parts, possible_buckets
from table_format.keys.java_hash import bucket_id_one
from table_format.keys.joda_time import parse_time, parse_zone
from table_format.keys.key_generator import KeyGenerator, KeySpec, detect_single_field_form, key_spec_of_properties
from table_format.keys.key_text import key_text, key_texts
from table_format.keys.partition_values import parse_partition_path, parse_partition_paths, path_segment
from tests.support.golden_base_files import KEY_TABLES, keys_of, options_of, properties_of


def _generator(name):
    properties, rows = properties_of(name), keys_of(name)
    fields = properties["hoodie.table.recordkey.fields"].split(",")
    form = None
    if name.endswith("complex1"):
        form = detect_single_field_form(rows["_hoodie_record_key"][0].as_py(), rows[fields[0]][0].as_py(), fields[0])
    spec = key_spec_of_properties(properties, single_field_form=form)
    return KeyGenerator(spec, BucketHashRule.of_properties(properties))


@pytest.mark.parametrize("name", KEY_TABLES)
def test_keys_and_paths_equal_apaches(name):
    generator, rows = _generator(name), keys_of(name)
    assert generator.record_keys(rows).to_pylist() == rows["_hoodie_record_key"].to_pylist()
    assert generator.partition_paths(rows).to_pylist() == rows["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize("name", [name for name in KEY_TABLES if "bkt" in name])
def test_buckets_equal_apaches(name):
    generator, rows, options = _generator(name), keys_of(name), options_of(name)
    count = int(options["hoodie.bucket.index.num.buckets"])
    fields = options["hoodie.bucket.index.hash.field"].split(",")
    written = [int(file[:8]) for file in rows["_hoodie_file_name"].to_pylist()]
    assert generator.bucket_ids(rows, count, fields).tolist() == written
    keys = rows["_hoodie_record_key"].combine_chunks()
    assert bucket_ids_of_keys(keys, fields, count, generator.hash_rule).tolist() == written
    for key, bucket in zip(keys.to_pylist()[:20], written, strict=False):
        assert bucket in possible_buckets(key, fields, count)


@pytest.mark.parametrize(
    "name", [name for name in KEY_TABLES if properties_of(name).get("hoodie.table.partition.fields")]
)
def test_paths_parse_back_to_the_columns_values(name):
    spec, rows = _generator(name).spec, keys_of(name)
    kinds = [rows.schema.field(field).type for field in spec.partition_fields]
    paths = rows["_hoodie_partition_path"].to_pylist()
    parsed = parse_partition_paths(
        paths, spec.partition_fields, kinds, hive_style=spec.hive_style, url_encode=spec.url_encode
    )
    assert all(parsed["known"].to_pylist())
    for position, field in enumerate(spec.partition_fields):
        # the empty string reads back as null: both are the default partition
        expected = [value if value != "" else None for value in rows[field].to_pylist()]
        assert parsed.column(position).to_pylist() == expected


# What KeyGenUtils.extractRecordKeysByFields and BucketIdentifier.getBucketId of the releases gave, for 1000 buckets.
SPLIT = [
    ("id:5", "id", ["5"], 84),
    ("5", "id", ["5"], 84),
    ("a:1,b:x,y", "b", ["x", "y"], 802),
    ("a:1,b:x,y", "a", ["1", "y"], 601),
    ("a:1,b:x:y", "a,b", ["1", "x:y"], 719),
    ("2014-10-22 13:50:42", "id", [], 1),
    ("x,y:z", "id", ["x"], 151),
    ("x:y,z", "id", ["z"], 153),
    ("a:1,b:x,", "a,b", ["1", "x"], 600),
    ("a:1,b:,", "b", [""], 31),
    ("a:__null__,b:__empty__", "a,b", [None, ""], 961),
    (",a:1", "a", ["", "1"], 10),
    ("a:1,,b:2", "a,b", ["1", "", "2"], 930),
    ("a:b,a:c,b:1", "a,b", ["b", "c", "1"], 87),
    (":,", "x", [], 1),
]
NAMED = [
    ("id:5", "id", ["id:5"], 37),
    ("5", "id", ["5"], 84),
    ("a:1,b:x,y", "b", ["x,y"], 836),
    ("a:1,b:x,y", "a", ["1"], 80),
    ("a:1,b:x:y", "a,b", ["1", "x:y"], 719),
    ("a:x,y:z,b:1", "a,b", ["x", "1"], 730),
    ("2014-10-22 13:50:42", "id", ["2014-10-22 13:50:42"], 466),
    ("x,y:z", "id", ["x,y:z"], 556),
    ("a:1,b:x,", "a,b", ["1", "x,"], 244),
    ("a:1,b:,", "b", [","], 75),
    ("a:__null__,b:__empty__", "a,b", [None, ""], 961),
    (",a:1", "a", [",a:1"], 899),
    ("a:1,,b:2", "a,b", ["1,", "2"], 464),
    ("a:1,b:,b:2", "a,b", ["1", "", "2"], 930),
    (":,", "x", [":,"], 873),
    ("a:1,b:x,y:", "b", ["x"], 151),
]


@pytest.mark.parametrize(
    ("rule", "key", "fields", "parts", "bucket"),
    [(BucketHashRule.SPLIT, *case) for case in SPLIT] + [(BucketHashRule.NAMED, *case) for case in NAMED],
)
def test_both_generations_split_keys_as_they_do(rule, key, fields, parts, bucket):
    names = fields.split(",")
    assert hash_parts(key, names, rule) == parts
    assert bucket_id_one(parts, 1000) == bucket
    # between plain keys, so that the column path is taken for those and the slow one for this
    keys = pa.array(["a:1,b:2", key, "a:3,b:4"])
    assert bucket_ids_of_keys(keys, names, 1000, rule)[1] == bucket


def test_buckets_from_columns_are_those_of_the_text():
    spec = KeySpec(("a", "b"), generator="COMPLEX")
    batch = pa.table({"b": ["x", "y,z", "", None, "u:v", "p,b:q"], "a": [1, 2, 3, 4, 5, 6]})
    for rule in BucketHashRule:
        generator = KeyGenerator(spec, rule)
        keys = generator.record_keys(batch).to_pylist()
        for fields in (["a"], ["b"], ["b", "a"], []):
            expected = [bucket_id_one(hash_parts(key, fields or ["a", "b"], rule), 97) for key in keys]
            assert generator.bucket_ids(batch, 97, fields).tolist() == expected
            clean = batch.slice(0, 1)
            assert generator.bucket_ids(clean, 97, fields).tolist() == expected[:1]


# What the Avro key generators of 0.15.0 made of these values.
@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (-5, pa.int64(), "-5"),
        (1e10, pa.float32(), "1.0E10"),
        (0.1, pa.float64(), "0.1"),
        (True, pa.bool_(), "true"),
        (-1, pa.date32(), "1969-12-31"),
        (1285001107105678, pa.timestamp("us", "UTC"), "1285001107105678"),
        (b"\x01\x02", pa.binary(), "0102"),
        ("x/y=z %é", pa.string(), "x/y=z %é"),
        (None, pa.string(), None),
    ],
)
def test_text_of_values(value, kind, text):
    assert key_text(value, kind) == text


def test_text_of_decimals_is_that_of_java():
    texts = ["5482526.45", "-0.07", "7E-8", "0", "100.00"]
    unscaled = [(548252645, 2), (-7, 2), (7, 8), (0, 0), (10000, 2)]
    for text, (number, scale) in zip(texts, unscaled, strict=True):
        array = pa.array([number]).cast(pa.decimal128(19, 0)).view(pa.decimal128(19, 0))
        raw = pa.Array.from_buffers(pa.decimal128(19, scale), 1, array.buffers())
        assert key_texts(raw, "d").to_pylist() == [text]


def test_timestamps_of_any_unit_count_microseconds():
    array = pa.array([1], pa.timestamp("ms"))
    assert key_texts(array, "t").to_pylist() == ["1000"]


def test_a_list_has_no_text():
    with pytest.raises(SchemaError, match="'tags' is list"):
        key_texts(pa.array([["a"]]), "tags")


@pytest.mark.parametrize(
    ("spec", "rows", "keys"),
    [
        (KeySpec(("l",), generator="NON_PARTITION"), {"l": [-5]}, ["-5"]),
        (KeySpec(("l",), generator="COMPLEX"), {"l": [-5]}, ["-5"]),
        (KeySpec(("l",), generator="COMPLEX", complex_single_field_form="field:value"), {"l": [-5]}, ["l:-5"]),
        (KeySpec(("l",), generator="GLOBAL_DELETE"), {"l": [-5]}, ["l:-5"]),
        (
            KeySpec(("s", "e", "n"), generator="COMPLEX"),
            {"s": ["x"], "e": [""], "n": pa.nulls(1, pa.string())},
            ["s:x,e:__empty__,n:__null__"],
        ),
        (KeySpec(("s.a",), generator="NON_PARTITION"), {"s": [{"a": 3}]}, ["3"]),
    ],
)
def test_forms_of_record_keys(spec, rows, keys):
    assert KeyGenerator(spec).record_keys(pa.table(rows)).to_pylist() == keys


@pytest.mark.parametrize("generator", ["NON_PARTITION", "COMPLEX"])
@pytest.mark.parametrize("missing", [None, ""])
def test_rows_without_a_key_are_refused(generator, missing):
    batch = pa.table({"k": pa.array(["a", missing, "b"]), "j": pa.array(["a", missing, None])})
    with pytest.raises(RecordError, match=r"1 row.* row 1 "):
        KeyGenerator(KeySpec(("k",), generator=generator)).record_keys(batch)
    with pytest.raises(RecordError, match=r"1 row.* row 1 "):
        KeyGenerator(KeySpec(("k", "j"), generator=generator)).record_keys(batch)


def test_a_missing_key_column_is_named():
    with pytest.raises(SchemaError, match="'id' is not in the data"):
        KeyGenerator(KeySpec(("id",), generator="NON_PARTITION")).record_keys(pa.table({"x": [1]}))


def test_hash_fields_must_be_key_fields():
    with pytest.raises(OptionError, match=r"hoodie\.bucket\.index\.hash\.field"):
        KeyGenerator(KeySpec(("id",), generator="NON_PARTITION")).bucket_ids(pa.table({"id": ["a"]}), 2, ["x"])


def test_hive_style_and_encoded_paths():
    batch = pa.table({"id": ["a"] * 4, "s": ["x/y=z %é", "", None, "p"], "n": [{"a": 3}] * 4})
    encoded = KeySpec(("id",), ("s",), hive_style=True, url_encode=True)
    assert KeyGenerator(encoded).partition_paths(batch).to_pylist() == [
        "s=x%2Fy%3Dz %25é",
        "s=__HIVE_DEFAULT_PARTITION__",
        "s=__HIVE_DEFAULT_PARTITION__",
        "s=p",
    ]
    several = KeySpec(("id",), ("s", "n.a"), "COMPLEX", hive_style=True)
    assert KeyGenerator(several).partition_paths(batch).to_pylist()[0] == "s=x/y=z %é/n.a=3"


def test_dates_with_slashes():
    spec = KeySpec(("id",), ("d",), slash_dates=True)
    batch = pa.table({"id": ["a"], "d": pa.array([-1], pa.date32())})
    assert KeyGenerator(spec).partition_paths(batch).to_pylist() == ["1969/12/31"]


ENCODE, HIVE = "partitionpath.urlencode", "hive_style_partitioning"


@pytest.mark.parametrize(
    ("value", "remedies"),
    [("..", [HIVE]), (".", [HIVE]), (".hoodie", [HIVE]), ("a\0b", [])]
    + [(value, [ENCODE]) for value in ("a/../b", "/etc", "a//b", "a/", ".hoodie/x")],
)
def test_values_that_would_leave_their_folder(value, remedies):
    with pytest.raises(RecordError, match="cannot be a folder name; change the value") as raised:
        path_segment(value, "p", hive_style=False, url_encode=False)
    assert [remedy for remedy in (ENCODE, HIVE) if remedy in str(raised.value)] == remedies
    for url_encode in (False, True):
        if HIVE in remedies:
            with pytest.raises(RecordError, match=HIVE):
                path_segment(value, "p", hive_style=False, url_encode=url_encode)
            assert path_segment(value, "p", hive_style=True, url_encode=url_encode) == f"p={value}"
    if ENCODE in remedies:
        for hive_style in (False, True):
            assert "/" not in path_segment(value, "p", hive_style=hive_style, url_encode=True)


@pytest.mark.parametrize(
    ("path", "fields", "kinds", "hive", "values"),
    [
        ("x=1/y=a", ["x", "y"], [pa.int32(), pa.string()], True, (1, "a")),
        ("x=a/b/y=c", ["x", "y"], [pa.string(), pa.string()], True, ("a/b", "c")),
        ("x=a/y=b/y=c", ["x", "y"], [pa.string(), pa.string()], True, None),
        ("1/a", ["x", "y"], [pa.int32(), pa.string()], True, None),
        ("1/a/b", ["x", "y"], [pa.int32(), pa.string()], False, None),
        ("abc", ["x"], [pa.int32()], False, None),
        ("1", ["x"], [pa.bool_()], False, None),
        ("true", ["x"], [pa.bool_()], False, (True,)),
        ("__HIVE_DEFAULT_PARTITION__", ["x"], [pa.int32()], False, (None,)),
        ("0102", ["x"], [pa.binary()], False, None),
        ("", [], [], False, ()),
        ("99999999999", ["x"], [pa.int32()], False, None),
    ],
)
def test_values_of_paths(path, fields, kinds, hive, values):
    assert parse_partition_path(path, fields, kinds, hive_style=hive, url_encode=False) == values


def test_an_unknown_generator_is_named():
    with pytest.raises(OptionError, match="MyKeyGenerator"):
        key_spec_of_properties(
            {"hoodie.table.keygenerator.class": "a.b.MyKeyGenerator", "hoodie.table.recordkey.fields": "a"}
        )


def test_timestamps_by_the_zone_of_a_machine_are_refused():
    key = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
    with pytest.raises(OptionError, match="time zone"):
        key_spec_of_properties({"hoodie.table.recordkey.fields": "a", key: "true"})


@pytest.mark.parametrize(
    ("properties", "generator"),
    [
        ({}, "NON_PARTITION"),
        ({"hoodie.table.partition.fields": "p"}, "SIMPLE"),
        ({"hoodie.table.partition.fields": "p,q"}, "COMPLEX"),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexAvroKeyGenerator"}, "COMPLEX"),
        ({"hoodie.table.keygenerator.type": "non_partition"}, "NON_PARTITION"),
    ],
)
def test_generators_by_their_properties(properties, generator):
    assert key_spec_of_properties({"hoodie.table.recordkey.fields": "id", **properties}).generator == generator


def test_golden_tables_are_there():
    assert len(KEY_TABLES) == 21
    assert sum(len(keys_of(name)) for name in KEY_TABLES) > 1000
    assert np.int32(bucket_id_one([], 8)) == 1


@pytest.mark.parametrize("rule", BucketHashRule)
@pytest.mark.parametrize("fields", [("s", "n"), ("s",)])
def test_a_bucket_does_not_depend_on_the_other_rows(rule: BucketHashRule, fields: tuple[str, ...]) -> None:
    texts = [None, "", "a", "__null__", "__empty__", "null", "a:b", "a,b", "x,n:1", "__null__,n:2", ":", ","]
    if len(fields) == 1:  # of which none is null or empty
        texts = texts[2:]
    generator = KeyGenerator(KeySpec(fields, generator="COMPLEX" if len(fields) > 1 else "NON_PARTITION"), rule)
    batch = pa.table({"s": pa.array(texts, pa.string()), "n": list(range(len(texts)))})
    for hashed in (fields, fields[:1]):
        together = generator.bucket_ids(batch, 1009, hashed).tolist()
        for row, (key, bucket) in enumerate(zip(generator.record_keys(batch).to_pylist(), together, strict=True)):
            assert generator.bucket_ids(batch.slice(row, 1), 1009, hashed).tolist() == [bucket]
            assert bucket_ids_of_keys(pa.array([key]), hashed, 1009, rule).tolist() == [bucket]
            assert bucket_id_one(hash_parts(key, hashed, rule), 1009) == bucket
            assert bucket in possible_buckets(key, hashed, 1009)


@pytest.mark.parametrize("name", ["+25:00", "GMT-99", "+24"])
def test_offsets_of_a_day_or_more_are_no_time_zones(name):
    with pytest.raises(OptionError, match="is not a known time zone"):
        parse_zone(name)
    assert parse_zone("+14:00").utcoffset(None) == dt.timedelta(hours=14)
    assert parse_time("2024-01-02 +2500", "yyyy-MM-dd Z", None) is None
