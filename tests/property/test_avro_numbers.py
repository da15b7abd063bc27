"""Numbers of Avro that are decoded side by side equal those of fastavro, whatever their lengths and neighbours."""

import io

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.avro_values import BadValueError, read_long

LONG = fastavro.parse_schema("long")
# Numbers of every length in bytes, those of a few bytes most often.
NUMBERS = st.integers(0, 63).flatmap(lambda bits: st.integers(-(1 << bits), (1 << bits) - 1))
BETWEEN = st.binary(max_size=3) | st.sampled_from([b"\xff" * 8, b"\x80" * 9])


def encoded(number: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, LONG, number)
    return stream.getvalue()


@given(
    numbers=st.lists(st.tuples(NUMBERS, BETWEEN), min_size=1, max_size=60),
    repeat=st.integers(1, 20),
    tail=st.binary(max_size=9),
    order=st.randoms(use_true_random=False),
)
def test_numbers_equal_those_of_fastavro(numbers, repeat, tail, order):
    content, places, expected = b"", [], []
    for number, before in numbers * repeat:
        content += before
        places.append(len(content))
        content += encoded(number)
        expected.append((number, len(content)))
    rows = list(range(len(places)))
    order.shuffle(rows)
    buffer = np.frombuffer(content + tail, np.uint8)
    values, after = read_long(buffer, np.array(places, np.int64)[rows])
    assert list(zip(values.tolist(), after.tolist(), strict=True)) == [expected[row] for row in rows]


@given(st.lists(NUMBERS, min_size=1, max_size=20), st.integers(0, 30))
def test_a_number_that_does_not_end_is_refused(numbers, behind):
    content = b"".join(map(encoded, numbers))
    places = np.cumsum([0, *(len(encoded(number)) for number in numbers)])
    with pytest.raises(IndexError):
        read_long(np.frombuffer(content + b"\x80" * 7, np.uint8), places)
    with pytest.raises(BadValueError):
        read_long(np.frombuffer(content + b"\x80" * 11 + bytes(behind), np.uint8), places)
