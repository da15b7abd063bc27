"""The columnar copy of an HFile's keys: the same answers as from its data blocks, and none where it does not pay."""

import json
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.codecs.arrow_numpy import spans_of
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.hfile.packed_keys import LONGEST, NAME, KeyPacking, PackedKeys
from table_format.hfile.reader import HFileReader
from table_format.hfile.sorted_keys import KeySpans
from table_writer.encoding.hfile import write_hfile

PACKED = PackedKeys.to_bytes
VALUES = [b"first", b"", b"the third"]
# What a key is made of; `wide` has more than sixteen bytes at a position, `odd` such as no packing takes.
DIGITS, LETTERS, WIDE = (
    st.text(alphabet, max_size=12) for alphabet in ("0123456789", "ab", "abcdefghijklmnopqrstuvwxyz")
)
KINDS = {
    "digits": DIGITS,
    "letters": LETTERS,
    "wide": WIDE,
    "uuids": st.uuids(version=4).map(str),
    "padded": st.integers(0, 10**9).map("order-{:012d}-x".format),
    "composite": st.tuples(DIGITS, WIDE).map(lambda parts: f"id:{parts[0]},name:{parts[1]}"),
    "odd": st.text(alphabet="a\0\uee00é\ue000", max_size=5),
}
FILES = st.sampled_from(list(KINDS)).flatmap(
    lambda kind: st.tuples(
        st.lists(KINDS[kind], min_size=2, max_size=80, unique=True),
        st.lists(KINDS[kind] | st.text(max_size=4), max_size=30),
    )
)


def spans(keys):
    return KeySpans.of(pa.array(sorted(set(keys)), pa.binary()))


def hfile(keys, codec="GZ", **options):
    values = [VALUES[number % 3] for number in range(len(keys))]
    return write_hfile(keys, values, schema_json="{}", codec=codec, block_size=100, packed_keys=True, **options)


def values_of(reader, keys, **options):
    asked = spans(keys)
    rows, values = reader.find(asked, **options)
    return {asked.key(row): value for row, value in zip(rows.tolist(), values.to_pylist(), strict=True)}


@pytest.mark.slow
@given(file=FILES, codec=st.sampled_from(["GZ", "NONE"]), scan=st.sampled_from([None, True, False]))
def test_answers_are_those_of_the_data_blocks(file, codec, scan):
    keys = sorted(key.encode() for key in file[0])
    content = {key: VALUES[number % 3] for number, key in enumerate(keys)}
    others = [key.encode() for key in file[1]]
    reader = HFileReader(hfile(keys, codec, bloom=scan is None), "any")
    wanted = [*keys[::2], *others, b"", b"\0", *(key + b"\0" for key in keys[:3]), *(key[:-1] for key in keys[:9])]
    assert values_of(reader, wanted, scan=scan) == {key: content[key] for key in wanted if key in content}
    assert dict(zip(reader.entries().keys().to_pylist(), reader.entries().values().to_pylist(), strict=True)) == content


@given(keys=st.lists(st.text(max_size=9).map(str.encode), min_size=1, max_size=60, unique=True))
def test_packed_keys_compare_as_the_keys_do(keys):
    keys.sort()
    made = KeyPacking.of(*spans_of(pa.array(keys, pa.binary())))
    if made is not None:
        rows = [row.tobytes() for row in made[1]]
        assert rows == sorted(set(rows))
        assert len(rows) == len(keys)


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ([str(uuid.UUID(int=number**7 * 0x9E3779B97F4A7C15 % (1 << 128), version=4)) for number in range(1, 900)], 16),
        ([f"customer-{number:010d}" for number in range(900)], 2),
        ([str(number) for number in range(900)], 2),
        (["only one"], 1),
        ([f"{chr(65 + number % 20)}{chr(97 + number // 20)}" for number in range(400)], 2),
    ],
)
def test_width_of_packed_keys(keys, width):
    packing, packed = KeyPacking.of(*spans_of(pa.array(sorted(keys), pa.binary())))
    assert packing.width == width
    assert packed.shape == (len(keys), width)


@pytest.mark.parametrize(
    "keys",
    [
        [b""],
        [b"a", b"a\0"],
        [b"\0a", b"\0b"],
        ["\ue000".encode(), b"a"],
        [bytes([number]) for number in range(1, 256)],
        [b"k" * (LONGEST + 1)],
        [bytes([number]) * 40 for number in range(50, 100)],
    ],
)
def test_keys_that_are_not_packed(keys):
    assert KeyPacking.of(*spans_of(pa.array(keys, pa.binary()))) is None
    assert PackedKeys.of(pa.array(keys, pa.binary()), pa.array([b"v"] * len(keys), pa.binary())) is None


def test_values_that_hardly_repeat_are_not_copied():
    keys = pa.array([b"%04d" % number for number in range(1000)], pa.binary())
    assert PackedKeys.of(keys, keys) is None
    assert (
        len(PackedKeys.of(keys, pa.array([b"%d" % (number // 4) for number in range(1000)], pa.binary())).values) == 250
    )


@pytest.mark.slow
def test_a_byte_that_is_rare_is_packed_all_the_same():
    keys = [b"key-%06d" % number for number in range(20_000)]
    keys[11_111] = b"key-01111X"
    reader = HFileReader(hfile(sorted(keys)), "rare")
    assert set(values_of(reader, keys)) == set(keys)
    assert values_of(reader, [b"key-011111", b"key-01111Y"], scan=True) == {}


def test_ties_of_the_first_numbers():
    """Keys of several numbers that have the first ones in common."""
    keys = sorted(b"%016d%016d%08d" % (number // 500, number // 7 % 9, number % 7) for number in range(3000))
    packing, _ = KeyPacking.of(*spans_of(pa.array(sorted(set(keys)), pa.binary())))
    assert packing.width <= 8
    wide = sorted(
        {bytes(65 + (number * step) % 20 for step in (0, 0, 1, 3, 7, 1, 2, 5, 11, 3)) for number in range(20)}
    )
    wide += [b"Z" * 8 + key for key in wide] + [b"Z" * 8 + key[:1] for key in wide[:1]]
    wide = sorted(set(wide + [b"MMMMMMMM" + bytes([65 + number % 20, 65 + number // 20]) for number in range(400)]))
    reader = HFileReader(hfile(wide), "ties")
    assert reader._packed_keys().packing.width > 8
    assert set(values_of(reader, wide)) == set(wide)
    assert values_of(reader, [b"MMMMMMMMA", b"MMMMMMMMAZ", b"MMMMMMMM", b"ZZZZZZZZZ"]) == {}


@pytest.mark.slow
def test_many_keys_touch_no_data_block():
    keys = [b"key-%06d" % number for number in range(3000)]
    data, reads = hfile(keys), []

    def read_range(offset, length):
        reads.append((offset, length))
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "reads")
    place, size = reader._find_meta(NAME)
    del reads[:]
    assert len(values_of(reader, keys[::3])) == 1000
    assert reads == [(place, size)]
    assert place > reader.trailer.last_data_offset
    del reads[:]
    assert len(values_of(reader, keys[:3])) == 3
    assert len(values_of(reader, keys[::3], scan=False)) == 1000
    assert all(offset < place for offset, _ in reads)


def test_a_file_of_one_block_has_no_copy():
    data = write_hfile([b"a", b"b"], [b"v", b"v"], schema_json="{}", packed_keys=True)
    assert HFileReader(data, "small").trailer.meta_index_count == 0


def test_the_block_is_not_compressed_yet_a_gzip_stream():
    keys = [b"key-%06d" % number for number in range(3000)]
    reader = HFileReader(hfile(keys, bloom=True), "stored")
    assert reader.trailer.meta_index_count == 2
    content = reader.meta_block(NAME)
    assert len(content) <= reader._find_meta(NAME)[1] <= len(content) + 100
    assert len(content) < 3000 * 5


def replaced(keys, monkeypatch, change):
    """A file whose packed keys were changed before they were written."""
    whole = PackedKeys.to_bytes
    with monkeypatch.context() as patched:
        patched.setattr(PackedKeys, "to_bytes", lambda packed: change(whole(packed)))
        return HFileReader(hfile(keys), "changed")


def with_head(content, **fields):
    size = int.from_bytes(content[:4], "big")
    head = json.dumps(json.loads(content[4 : 4 + size]) | fields).encode()
    begin, padded = -(-(4 + size) // 8) * 8, -(-(4 + len(head)) // 8) * 8
    return (len(head).to_bytes(4, "big") + head).ljust(padded, b"\0") + content[begin:]


def test_a_copy_of_a_later_release_is_passed_over(monkeypatch):
    keys = [b"key-%06d" % number for number in range(300)]
    reader = replaced(keys, monkeypatch, lambda content: with_head(content, version=2))
    assert len(values_of(reader, keys)) == 300


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:40],
        lambda content: with_head(content, entries=299),
        lambda content: with_head(content, entries=-1),
        lambda content: with_head(content, values=2),
        lambda content: with_head(content, values=1 << 40),
        lambda content: with_head(content, shortest=11),
        lambda content: with_head(content, alphabets=[]),
        lambda content: with_head(content, alphabets=["zz"]),
        lambda content: with_head(content, alphabets=["3130"] * 10),
        lambda content: with_head(content, alphabets="text"),
        lambda content: with_head(content, alphabets=[None] * 10),
        lambda content: b"\0\0\0\2[]" + content[6:],
    ],
)
def test_a_broken_copy_is_an_error_that_names_the_file(monkeypatch, change):
    keys = [b"key-%06d" % number for number in range(300)]
    with pytest.raises(CorruptFileError, match=r"changed.*packed keys are broken"):
        values_of(replaced(keys, monkeypatch, change), keys)


def test_a_copy_of_other_entries_is_told(monkeypatch):
    keys = [b"key-%06d" % number for number in range(300)]
    right = HFileReader(hfile(keys), "right")
    right.check_packed_keys(right.entries())
    other = keys[:150] + [b"key-%06d" % number for number in range(550, 700)]
    swapped = [VALUES[number % 3] for number in range(1, 301)]
    for wrong in (PackedKeys.of(pa.array(other), pa.array(swapped)), PackedKeys.of(pa.array(keys), pa.array(swapped))):
        reader = replaced(keys, monkeypatch, lambda _, wrong=wrong: PACKED(wrong))
        with pytest.raises(CorruptFileError, match=r"changed.*packed keys are not those of its entries"):
            reader.check_packed_keys(reader.entries())


@pytest.mark.slow
@given(
    flips=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=3),
    codec=st.sampled_from(["GZ", "NONE"]),
)
def test_damage_is_an_error_of_ours_or_harmless(flips, codec):
    keys = [b"key-%03d" % number for number in range(60)]
    data = bytearray(hfile(keys, codec))
    for place, bits in flips:
        data[place % len(data)] ^= bits
    try:
        rows = values_of(HFileReader(bytes(data), "damaged"), [*keys, b"absent"])
        assert len(rows) <= len(keys) + 1
    except (CorruptFileError, UnsupportedTableError):
        pass


def test_wanted_keys_beside_a_buffers_end_and_of_doubtful_order():
    keys = [b"key-%06d" % number for number in range(300)]
    reader = HFileReader(hfile(keys), "file")
    assert values_of(reader, [keys[-1], "\ue000".encode(), b"k", b"key-0000000"], scan=True) == {
        keys[-1]: VALUES[299 % 3]
    }
    asked = spans(keys).take(np.array([0, 299]))
    assert reader.find(asked, scan=True)[0].tolist() == [0, 1]
    rows, values = reader.find(spans([]), scan=True)
    assert len(rows) == len(values) == 0
