import numpy as np
import pyarrow as pa
import pytest

from table_format.errors import OptionError, RecordError
from table_format.keys.java_hash import (
    bucket_id_one,
    bucket_ids,
    java_string_hash,
    java_string_hash_one,
    list_hash,
    list_hash_one,
)


def test_the_hash_is_javas():
    texts = ["", "a", "abc", "polygenelubricants", "日本", "x\U0001d4b3y", "\uffff"]
    # String.hashCode of JDK 17
    assert java_string_hash(pa.array(texts)).tolist() == [0, 97, 96354, -2147483648, 835047, 58516899, 65535]


@pytest.mark.parametrize(
    ("parts", "bucket"),
    [(["abc"], 1), (["5"], 4), (["id:5"], 5), (["5", "x"], 4), (["x"], 7), ([None, ""], 1), (["日本"], 6)],
)
def test_buckets_are_those_of_hudi(parts, bucket):
    columns = [pa.array([part], pa.string()) for part in parts]
    assert bucket_ids(columns, 8).tolist() == [bucket]
    assert bucket_id_one(parts, 8) == bucket


def test_list_hash_counts_nulls_as_zero():
    assert list_hash([pa.array([None], pa.string()), pa.array([""])]).tolist() == [961]
    assert list_hash_one([]) == 1


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_slices_and_chunks_of_any_string_type(kind):
    texts = ["first", None, "", "日本 🙂", "last"]
    array = pa.array(["left out", *texts, "left out"]).cast(kind).slice(1, len(texts))
    expected = [0 if text is None else java_string_hash_one(text) for text in texts]
    assert java_string_hash(array).tolist() == expected
    assert java_string_hash(pa.chunked_array([array.slice(0, 2), array.slice(2)])).tolist() == expected


def test_strings_longer_than_a_step():
    texts = ["é" * 100_000, "", "x" * 70_000, "y"]
    assert java_string_hash(pa.array(texts)).tolist() == [java_string_hash_one(text) for text in texts]


def test_nothing_to_hash():
    assert java_string_hash(pa.array([], pa.string())).dtype == np.int32
    assert len(java_string_hash(pa.chunked_array([], pa.string()))) == 0


def test_bytes_that_are_no_text():
    broken = pa.array([b"\xff\xfe"]).view(pa.string())
    with pytest.raises(RecordError, match="UTF-8"):
        java_string_hash(broken)


def test_a_bucket_count_must_be_positive():
    with pytest.raises(OptionError, match=r"hoodie\.bucket\.index\.num\.buckets"):
        bucket_ids([pa.array(["a"])], 0)
