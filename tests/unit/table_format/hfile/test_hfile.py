import base64
import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

from table_format.base_file.bloom import dynamic_bloom
from table_format.codecs.varint import BadEncodingError, read_hadoop_vint, write_hadoop_vint
from table_format.errors import CorruptFileError, OptionError, RecordError, UnsupportedTableError
from table_format.hfile import block, entries
from table_format.hfile.block import CHUNK
from table_format.hfile.entries import SUFFIX, find_entries
from table_format.hfile.index import write_entry
from table_format.hfile.reader import HFileReader
from table_format.hfile.sorted_keys import KeySpans
from table_format.hfile.trailer import SIZE, Trailer, write_file_info
from table_writer.encoding.hfile import data_blocks, write_hfile
from tests.support.golden_files import HFILES, golden, plain_entries

SCHEMA = '{"type": "string"}'

# The one-entry file that Hudi 1.2.0 was seen to read, up to its file info; without its trailer.
TINY = bytes.fromhex(
    "44415441424c4b2a 0000001b 00000017 ffffffffffffffff 00 00004000 00000038 0000000d 00000001 0001 6b 00"
    "7fffffffffffffff 04 76 00 00000000"
    "494458524f4f5432 0000001e 0000001a ffffffffffffffff 00 00004000 0000003b 0000000000000000 0000003c 0d 0001 6b"
    "007fffffffffffffff04 00000000"
    "494458524f4f5432 00000004 00000000 ffffffffffffffff 00 00004000 00000021 00000000"
)


def pairs(entries):
    return list(zip(entries.keys().to_pylist(), entries.values().to_pylist(), strict=True))


def many(count, size=20):
    return [b"key-%06d" % number for number in range(count)], [b"%d" % number * size for number in range(count)]


@pytest.mark.parametrize("name", HFILES)
def test_files_of_apache_hudi_read_like_the_plain_parser(name):
    data = golden(name)
    reader = HFileReader(data, name)
    entries = reader.entries()
    assert pairs(entries) == plain_entries(data)
    assert len(entries) == reader.entry_count > 0
    assert '"HoodieMetadataRecord"' in reader.schema_json
    assert reader.file_info[b"minRecordKey"] == entries.key(0)
    assert reader.file_info[b"maxRecordKey"] == entries.key(len(entries) - 1)
    assert len(base64.b64decode(reader.meta_block("bloomFilter"))) > 8
    assert reader.meta_block("nothing") is None


@pytest.mark.parametrize("name", HFILES)
def test_look_ups_equal_the_full_scan(name):
    reader = HFileReader(golden(name), name)
    everything = dict(pairs(reader.entries()))
    wanted = [*list(everything)[::3], b"", b"not there", b"~"]
    assert dict(pairs(reader.get(wanted))) == {key: everything[key] for key in wanted if key in everything}
    for prefix in {key[:size] for key in everything for size in (0, 1, 12, 24)} | {b"nowhere"}:
        expected = [(key, value) for key, value in everything.items() if key.startswith(prefix)]
        assert pairs(reader.prefix(prefix)) == expected


def test_tiny_file_is_written_byte_by_byte_as_hudi_takes_it():
    written = write_hfile([b"k"], [b"v"], schema_json=SCHEMA, codec="NONE")
    assert written[: len(TINY)] == TINY
    assert written[-SIZE:].startswith(b'TRABLK"$')
    assert written[-4:] == bytes.fromhex("03000003")
    trailer = written[-SIZE:]
    # The documented trailer with this file's own sizes of index and total.
    assert bytes.fromhex("08a001 103c") in trailer
    assert bytes.fromhex("2801 3000 3801 4001 4800 5000 5a32") in trailer
    assert b"org.apache.hudi.io.storage.HoodieHBaseKVComparator\x60\x02" in trailer
    assert pairs(HFileReader(written, "tiny").entries()) == [(b"k", b"v")]


@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_many_blocks(codec):
    keys, values = many(5000)
    data = write_hfile(keys, values, schema_json=SCHEMA, codec=codec, block_size=4096)
    reader = HFileReader(data, "many")
    assert len(reader.block_index) > 30
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    assert pairs(reader.prefix(b"key-0012")) == list(zip(keys, values, strict=True))[1200:1300]
    assert reader.get([b"key-004999", b"key-000000", b"key-9"]).keys().to_pylist() == [b"key-000000", b"key-004999"]


@pytest.mark.parametrize("blocks", [1, 5, 40])
def test_a_length_that_leads_out_of_a_block(blocks):
    keys, values = many(60 * blocks)
    data = bytearray(write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=4096))
    place = data.index(keys[-1]) - 6  # the last of the four bytes of the value's length, after the one of the key
    data[place - 1 : place + 1] = (int.from_bytes(data[place - 1 : place + 1], "big") + 1).to_bytes(2, "big")
    with pytest.raises(CorruptFileError):
        HFileReader(bytes(data), "long").entries()


def test_range_reads_touch_only_the_blocks_of_a_prefix():
    keys, values = many(20000)
    data = write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=16384)
    reads = []

    def read_range(offset, length):
        reads.append((offset, length))
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "remote")
    assert len(reads) == 1
    assert len(reader.prefix(b"key-0100")) == 100
    assert len(reads) == 2
    assert reads[1][1] < 4 * 16384
    assert len(reader.get([b"key-000001", b"key-019999"])) == 2
    assert len(reads) == 4


def test_a_small_file_is_read_once():
    keys, values = many(60)
    data = write_hfile(keys, values, schema_json=SCHEMA, block_size=500)
    reads = []

    def read_range(offset, length):
        reads.append((offset, length))
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "remote")
    assert pairs(reader.get(keys[5:30:5])) == [(key, values[keys.index(key)]) for key in keys[5:30:5]]
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    assert reads == [(0, len(data))]


def test_blocks_are_chained_and_counted():
    keys, values = many(3000)
    data = write_hfile(keys, values, schema_json=SCHEMA, block_size=4096)
    reader = HFileReader(data, "chained")
    offsets = reader.block_index.offsets
    previous = [struct.unpack(">q", data[offset + 16 : offset + 24])[0] for offset in offsets]
    assert previous == [-1, *offsets[:-1]]
    assert reader.trailer.data_index_count == len(offsets)
    assert reader.trailer.last_data_offset == offsets[-1]
    assert reader.file_info[b"hfile.LASTKEY"] == b"\x00\x0akey-002999" + SUFFIX
    assert reader.file_info[b"MAX_MEMSTORE_TS_KEY"] == bytes(8)


@pytest.mark.parametrize("levels", [2, 3])
def test_multi_level_index(levels):
    keys, values = many(4000)
    flat = write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=1024)
    reader = HFileReader(with_levels(flat, levels), "levels")
    assert reader.trailer.index_levels == levels
    assert len(reader.block_index) == len(HFileReader(flat, "flat").block_index) > 100
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    assert len(reader.prefix(b"key-0012")) == 100


def with_levels(flat, levels):
    """Put the index of a one-level file into lower levels, as HBase does with large indexes."""
    source = HFileReader(flat, "flat")
    index, old = source.block_index, source.trailer
    data = flat[: old.root_index_offset]
    entries = list(zip(index.offsets, index.sizes, index.first_keys, strict=True))
    for magic in [block.LEAF_INDEX, block.INTERMEDIATE_INDEX][: levels - 1]:
        above = []
        for at in range(0, len(entries), 10):
            # without the lengths of the keys, unlike the root
            parts = [struct.pack(">qi", place, size) + hbase_key(row) for place, size, row in entries[at : at + 10]]
            ends = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)]
            content = struct.pack(f">{len(ends) + 1}i", len(parts), *ends) + b"".join(parts)
            packed = block.write_block(magic, content, -1, "NONE")
            above.append((len(data), len(packed), entries[at][2]))
            data += packed
        entries = above
    root = b"".join(write_entry(place, size, hbase_key(row)) for place, size, row in entries)
    root_offset = len(data)
    # After the entries of such a root comes its middle key.
    data += block.write_block(block.ROOT_INDEX, root + bytes(16), -1, "NONE")
    data += block.write_block(block.ROOT_INDEX, b"", -1, "NONE")
    info_offset = len(data)
    data += block.write_block(block.FILE_INFO, write_file_info(source.file_info), -1, "NONE")
    counts = (len(root), old.uncompressed_size, len(entries), 0, old.entry_count, levels)
    return data + Trailer(info_offset, root_offset, *counts, 0, old.last_data_offset, old.codec).to_bytes()


def hbase_key(row):
    return len(row).to_bytes(2, "big") + row + SUFFIX


def test_shortened_index_keys():
    """HBase may index a block by a made-up key between the block before and its first entry."""
    keys, values = many(2000)
    flat = write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=1024)
    reader = HFileReader(flat, "short")
    firsts = list(reader.block_index.first_keys)
    number = 5
    made_up = firsts[number][:-1] + bytes([firsts[number][-1] - 1]) + b"~"
    reader.block_index.first_keys[number] = made_up
    for key in (keys[0], firsts[number], firsts[number - 1], keys[-1]):
        assert reader.get([key]).keys().to_pylist() == [key]
        assert reader.prefix(key).keys().to_pylist() == [key]
    assert len(reader.prefix(b"key-")) == 2000


def bitwise_crc32c(data):
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(("kind", "checksum"), [(1, zlib.crc32), (2, bitwise_crc32c)])
def test_checksums_are_verified(kind, checksum):
    keys, values = many(3000)
    data = bytearray(write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=65536))
    offset = HFileReader(bytes(data), "crc").block_index.offsets[0]
    header = block.read_header(memoryview(data)[offset:], offset, "crc")
    data[offset + 24] = kind
    end = offset + header.checked_size
    sums = [checksum(data[at : min(at + CHUNK, end)]) for at in range(offset, end, CHUNK)]
    data[end : end + 4 * len(sums)] = struct.pack(f">{len(sums)}I", *sums)
    assert len(HFileReader(bytes(data), "crc").entries()) == 3000
    data[offset + 40000] ^= 1
    with pytest.raises(CorruptFileError, match="checksum") as caught:
        HFileReader(bytes(data), "crc").entries()
    assert (caught.value.path, caught.value.offset) == ("crc", offset)


def test_hadoop_vint():
    assert write_hadoop_vint(200) == bytes.fromhex("8fc8")
    assert write_hadoop_vint(13) == b"\x0d"
    for value in (0, 127, 128, 255, 256, 3000, 2**31 - 1):
        coded = write_hadoop_vint(value)
        assert read_hadoop_vint(coded, 0) == (value, len(coded))
    with pytest.raises(BadEncodingError):
        read_hadoop_vint(b"\x8f", 0)
    with pytest.raises(BadEncodingError):
        read_hadoop_vint(b"\xff", 0)  # -1


def test_keys_with_characters_beyond_the_basic_plane_are_found():
    """Java may have ordered them by UTF-16 units, another order than that of their bytes."""
    keys = sorted([b"a", "\U0001f600".encode(), "\uffee".encode(), "é".encode()])
    reader = HFileReader(write_hfile(keys, keys, schema_json=SCHEMA, block_size=1), "planes")
    index = reader.block_index
    for row in (index.offsets, index.sizes, index.first_keys):
        row[-1], row[-2] = row[-2], row[-1]
    for key in keys:
        assert reader.get([key]).keys().to_pylist() == [key]
        assert reader.prefix(key).keys().to_pylist() == [key]


@pytest.mark.parametrize(
    ("keys", "message"),
    [([], "at least one"), ([b"b", b"a"], "ascend"), ([b"a", b"a"], "ascend"), ([b"x" * 32768], "too long")],
)
def test_what_cannot_be_written(keys, message):
    with pytest.raises(RecordError, match=message):
        write_hfile(keys, keys, schema_json=SCHEMA)


def test_other_codecs_are_refused_by_name():
    with pytest.raises(OptionError, match="SNAPPY"):
        write_hfile([b"a"], [b"b"], schema_json=SCHEMA, codec="SNAPPY")
    data = write_hfile([b"a"], [b"b"], schema_json=SCHEMA, codec="NONE")
    at = data.rindex(b"\x60\x02")
    with pytest.raises(UnsupportedTableError, match="SNAPPY"):
        HFileReader(data[: at + 1] + b"\x03" + data[at + 2 :], "other.hfile")


def test_other_versions_are_refused():
    data = write_hfile([b"a"], [b"b"], schema_json=SCHEMA)
    with pytest.raises(UnsupportedTableError, match="version 2"):
        HFileReader(data[:-1] + b"\x02", "old.hfile")


def test_wrong_entry_count_is_no_shortened_result():
    keys, values = many(10)
    data = write_hfile(keys, values, schema_json=SCHEMA)
    # Field 7 of the trailer.
    at = data.rindex(b"\x38\x0a\x40\x01")
    with pytest.raises(CorruptFileError, match="counts 11 entries, the blocks hold 10"):
        HFileReader(data[: at + 1] + b"\x0b" + data[at + 2 :], "count").entries()


@pytest.mark.parametrize("name", HFILES[:3])
@pytest.mark.parametrize("size", [0, 1, 100, 4095, 4096])
def test_cut_off_files(name, size):
    data = golden(name)
    for part in (data[:size], data[: len(data) - size - 1], data[-max(size, 1) :]):
        with pytest.raises(CorruptFileError) as caught:
            HFileReader(part, "cut.hfile").entries()
        assert str(caught.value).startswith("cut.hfile: at byte ")


def test_columns_in_chunks_and_as_strings():
    keys = pa.chunked_array([["a", "b"], ["c"]])
    data = write_hfile(keys, keys, schema_json=SCHEMA)
    assert pairs(HFileReader(data, "chunks").entries()) == [(b"a", b"a"), (b"b", b"b"), (b"c", b"c")]


def spans(keys):
    return KeySpans.of(pa.array(sorted(keys), pa.binary()))


@pytest.mark.parametrize("name", HFILES)
@pytest.mark.parametrize("scan", [None, True, False])
def test_sorted_look_ups_in_files_of_apache_equal_the_plain_parser(name, scan):
    entries = dict(plain_entries(golden(name)))
    wanted = sorted({*list(entries)[::2], b"", b"not there", b"~", *(key + b"0" for key in entries)})
    rows, values = HFileReader(golden(name), name).find(spans(wanted), scan=scan, bloom=scan is not True)
    values_by_key = {wanted[row]: value for row, value in zip(rows.tolist(), values.to_pylist(), strict=True)}
    assert values_by_key == {key: entries[key] for key in wanted if key in entries}


@pytest.mark.parametrize("name", HFILES)
def test_the_bloom_filters_of_apache_know_the_keys_of_their_files(name):
    reader = HFileReader(golden(name), name)
    keys = reader.entries().keys()
    assert len(reader._possible(KeySpans.of(keys))) == len(keys)
    assert len(reader._possible(spans([b"absent %d" % number for number in range(1000)]))) == 0


@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_a_bloom_filter_spares_the_blocks_of_absent_keys(codec):
    keys, values = many(20000)
    data = write_hfile(keys, values, schema_json=SCHEMA, codec=codec, block_size=4096, bloom=True)
    reads = []

    def read_range(offset, length):
        reads.append(offset)
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "bloom")
    assert reader.file_info[b"minRecordKey"] == keys[0]
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    absent = spans([b"key-%06d-" % number for number in range(0, 20000, 400)])
    del reads[:]
    assert len(reader.find(absent, bloom=True)[0]) == 0
    assert len(reads) == 1  # the filter
    asked = [b"key-%06d-" % number for number in range(0, 20000, 400)] + keys[:3]
    rows, matches = reader.find(spans(asked), bloom=True)
    assert sorted(matches.to_pylist()) == sorted(values[:3])
    assert [sorted(asked)[row] for row in rows] == keys[:3]
    del reads[:]
    assert len(reader.find(absent, bloom=False)[0]) == 0
    assert reads


def test_an_overfull_bloom_filter_is_not_asked(monkeypatch):
    keys, values = many(3000)
    monkeypatch.setattr(
        "table_writer.encoding.hfile._bloom", lambda keys: dynamic_bloom(keys, 64, 3, 10, 10).to_text().encode()
    )
    reader = HFileReader(write_hfile(keys, values, schema_json=SCHEMA, bloom=True), "full")
    assert reader._bloom is None
    assert len(reader._possible(spans([b"absent"]))) == 1


def test_blocks_that_lie_apart_are_read_by_themselves():
    keys, values = many(60000, 4)
    data = write_hfile(keys, values, schema_json=SCHEMA, codec="NONE", block_size=65536)
    reads = []

    def read_range(offset, length):
        reads.append((offset, length))
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "remote")
    del reads[:]
    _, matches = reader.find(spans([keys[5], keys[59990], b"key-000005x"]))
    assert sorted(matches.to_pylist()) == sorted([values[5], values[59990]])
    assert len(reads) == 2
    assert sum(size for _, size in reads) < 3 * 65536
    del reads[:]
    reader.find(spans([keys[5]]), scan=True)
    assert reads == [(0, reader.trailer.root_index_offset)]
    del reads[:]
    reader.find(spans(keys[::50]))
    assert len(reads) == 1


def test_a_scan_proves_the_number_of_entries():
    keys, values = many(10)
    data = write_hfile(keys, values, schema_json=SCHEMA)
    at = data.rindex(b"\x38\x0a\x40\x01")
    broken = HFileReader(data[: at + 1] + b"\x0b" + data[at + 2 :], "count")
    with pytest.raises(CorruptFileError, match="entries"):
        broken.find(spans([b"any"]), scan=True)


def test_blocks_of_another_size_than_promised_are_refused():
    def made(body, size):
        checked = block.HEADER_SIZE + len(body)
        return block.HEADER.pack(block.DATA, len(body) + 4, size, -1, 0, CHUNK, checked) + body + bytes(4)

    whole = zlib.compress(bytes(1000), wbits=31)
    assert block.read_block(memoryview(made(whole, 1000)), 0, "f", 1, (block.DATA,)) == bytes(1000)
    for body, size in (
        (whole, 999),
        (whole, 1001),
        (whole[:-4], 1000),
        (whole + b"x", 1000),
        (whole * 2, 1000),
        (b"", 0),
    ):
        with pytest.raises(CorruptFileError):
            block.read_block(memoryview(made(body, size)), 0, "f", 1, (block.DATA,))


def test_a_length_that_leads_out_of_a_large_block():
    keys, values = many(3000)
    [whole] = data_blocks(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), 1 << 20, "NONE")
    content = bytearray(whole.written[block.HEADER_SIZE :][: whole.content_size])
    place = content.index(keys[1500]) - 6
    content[place - 1] ^= 1
    _, wrong = find_entries(np.frombuffer(bytes(content), np.uint8), np.zeros(1, np.int64), np.array([len(content)]))
    assert wrong == 0


def test_large_blocks_are_walked_by_the_ends_of_keys(monkeypatch):
    monkeypatch.setattr(entries, "_one_by_one", lambda *_: pytest.fail("entry by entry"))
    for keys, values in (many(3000), ([b"%d" % number for number in sorted(range(3000), key=str)], many(3000)[1])):
        data = write_hfile(keys, values, schema_json=SCHEMA)
        assert pairs(HFileReader(data, "large").entries()) == list(zip(keys, values, strict=True))


def test_entries_of_one_size_are_told_by_their_lengths(monkeypatch):
    monkeypatch.setattr(entries, "_by_key_ends", lambda *_: pytest.fail("by the ends of keys"))
    keys = many(3000)[0]
    values = [SUFFIX[number % 3 :].ljust(10, b"v") for number in range(3000)]
    for block_size in (1 << 20, 20_000):
        data = write_hfile(keys, values, schema_json=SCHEMA, block_size=block_size)
        reader = HFileReader(data, "even")
        assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
        rows, matches = reader.find(spans(keys[::7]))
        assert [values[row * 7] for row in rows] == matches.to_pylist()


def test_entries_of_two_sizes_that_fill_a_block_as_one_would():
    keys = many(3000)[0]
    values = [b"12345", *([b"1234", b"123456"] * 1499), b"12345"]
    reader = HFileReader(write_hfile(keys, values, schema_json=SCHEMA), "uneven")
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))


def test_values_that_look_like_ends_of_keys_are_walked_over():
    keys, _ = many(3000)
    values = [SUFFIX * (number % 4) + b"\xff" * (number % 23) for number in range(3000)]
    reader = HFileReader(write_hfile(keys, values, schema_json=SCHEMA), "odd")
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    rows, matches = reader.find(spans(keys[::7]))
    assert [values[row * 7] for row in rows] == matches.to_pylist()


@pytest.mark.parametrize("at", [0, 7, 19])
def test_an_entry_that_fills_a_block_has_it_alone(at):
    keys, values = many(20, size=2)
    values[at] = b"large" * 100
    made = data_blocks(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), 500, "NONE")
    firsts = [one.first_key for one in made]
    assert keys[at] in firsts
    assert at == len(keys) - 1 or keys[at] + b"\x00" in firsts
    data = write_hfile(keys, values, schema_json=SCHEMA, block_size=500)
    reader = HFileReader(data, "with a large entry")
    large = reader.block_index.block_of(keys[at])
    assert pairs(reader.entries_of([large])) == [(keys[at], values[at])]
    assert at == len(keys) - 1 or reader.block_index.block_of(keys[at] + b"!") == large + 1
    assert pairs(reader.entries()) == list(zip(keys, values, strict=True))
    assert pairs(reader.get([keys[at - 1]])) == [(keys[at - 1], values[at - 1])]
