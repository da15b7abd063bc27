"""Look-ups in HFiles equal a dictionary, whatever the keys."""

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.arrow_numpy import binary_array
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.hfile import entries as hfile_entries
from table_format.hfile.reader import HFileReader
from table_format.hfile.sorted_keys import KeySpans, matches
from table_writer.encoding.hfile import write_hfile

# Keys with much in common, of many lengths, with zeros and with the bytes that end keys in the file.
PARTS = st.sampled_from([b"", b"\x00", b"a", b"b", b"abcdefgh", b"\x7f\xff\xff\xff\xff\xff\xff\xff\x04", b"\xee", b"7"])
KEYS = st.lists(PARTS, max_size=6).map(b"".join)
TEXTS = st.binary(max_size=20) | st.just(hfile_entries.SUFFIX) | st.just(b"\xff" * 9)


def spans(keys):
    return KeySpans.of(pa.array(sorted(keys), pa.binary()))


@given(
    content=st.dictionaries(KEYS, TEXTS, min_size=1, max_size=60),
    others=st.sets(KEYS, max_size=30),
    block_size=st.sampled_from([1, 100, 600, 1 << 20]),
    codec=st.sampled_from(["GZ", "NONE"]),
    scan=st.booleans(),
)
def test_found_values_are_those_written(content, others, block_size, codec, scan):
    keys = sorted(content)
    data = write_hfile(keys, [content[key] for key in keys], schema_json="{}", codec=codec, block_size=block_size)
    reader = HFileReader(data, "any")
    wanted = sorted(others | set(keys[::2]))
    rows, values = reader.find(spans(wanted), scan=scan)
    read = {wanted[row]: value for row, value in zip(rows.tolist(), values.to_pylist(), strict=True)}
    assert len(read) == len(rows)
    assert read == {key: content[key] for key in wanted if key in content}


@given(entries=st.lists(KEYS, max_size=60), wanted=st.sets(KEYS, max_size=30), in_order=st.booleans())
def test_the_last_entry_of_a_key_is_found_in_any_order(entries, wanted, in_order):
    given_keys = sorted(entries) if in_order else entries
    lookups = sorted(wanted | set(entries[::3]))
    rows, places = matches(KeySpans.of(pa.array(given_keys, pa.binary())), spans(lookups))
    last = {key: place for place, key in enumerate(given_keys)}
    entries_read = {lookups[row]: place for row, place in zip(rows.tolist(), places.tolist(), strict=True)}
    assert entries_read == {key: last[key] for key in lookups if key in last}


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=20),
    values=st.lists(TEXTS, min_size=1, max_size=5),
    blocks=st.integers(1, 4),
    damage=st.none() | st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)),
    repeat=st.integers(1, 40),
)
def test_entries_are_found_where_a_walk_finds_them(sizes, values, blocks, damage, repeat):
    entries = []
    for number in range(len(sizes) * repeat):
        key, value = b"k" * sizes[number % len(sizes)], values[number % len(values)]
        lengths = hfile_entries.LENGTHS.pack(len(key) + hfile_entries.KEY_OVERHEAD, len(value))
        entries.append(lengths + len(key).to_bytes(2, "big") + key + hfile_entries.SUFFIX + value + b"\x00")
    bounds = np.linspace(0, len(entries), blocks + 1).astype(int)
    content = bytearray(b"".join(entries))
    ends = np.cumsum([sum(map(len, entries[a:b])) for a, b in itertools.pairwise(bounds)]).astype(np.int64)
    if damage is not None:
        content[damage[0] % len(content)] ^= damage[1]
    buffer = np.frombuffer(bytes(content), np.uint8)
    begins = np.append(0, ends[:-1]).astype(np.int64)
    starts, wrong = hfile_entries.find_entries(buffer, begins, ends)
    expected, expected_wrong = hfile_entries._one_by_one(buffer, begins, ends)
    assert wrong == expected_wrong
    if wrong is None:
        assert starts.tolist() == expected.tolist()


def test_spans_of_a_slice():
    keys = pa.array([b"", b"a", b"bc", b"bcd"], pa.binary()).slice(1, 2)
    key_spans = KeySpans.of(keys)
    assert [key_spans.key(row) for row in range(len(key_spans))] == [b"a", b"bc"]
    assert (
        key_spans.to_arrow().to_pylist()
        == binary_array(key_spans.buffer, key_spans.starts, key_spans.lengths).to_pylist()
    )
    assert key_spans.first_from(b"b") == 1
    assert len(KeySpans.of(keys.slice(0, 0))) == 0


@given(
    content=st.dictionaries(KEYS, TEXTS, min_size=1, max_size=30),
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=3),
    codec=st.sampled_from(["GZ", "NONE"]),
    scan=st.sampled_from([None, True, False]),
)
def test_damage_is_an_error_of_ours_or_harmless(content, flips, codec, scan):
    keys = sorted(content)
    values = [content[key] for key in keys]
    data = bytearray(write_hfile(keys, values, schema_json="{}", codec=codec, block_size=200, bloom=True))
    for place, bits in flips:
        data[place % len(data)] ^= bits
    try:
        reader = HFileReader(bytes(data), "damaged")
        rows, values_read = reader.find(spans(set(keys) | {b"absent", b"\xef"}), scan=scan, bloom=True)
        assert len(rows) == len(values_read) <= len(keys) + 2
        reader.entries().values()
    except (CorruptFileError, UnsupportedTableError):
        pass
