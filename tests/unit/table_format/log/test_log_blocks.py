import pytest

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.hfile.reader import HFileReader
from table_format.log.blocks import BlockType, HeaderKey, read_log_blocks
from table_format.log.deletes import DeletedRecord, read_deletes
from table_writer.encoding.log_blocks import (
    write_delete_block,
    write_deletes,
    write_empty_block,
    write_hfile_block,
    write_log_block,
    write_rollback_block,
)
from tests.support.golden_files import DATA_LOGS, WRITERS, golden, plain_entries

EMPTY = bytes.fromhex(
    "234855444923 0000000000000042 00000001 00000001 00000001 00000000 00000011 3030303030303030303030303030303130"
    "0000000000000009 00000003 00000001 00 00000000 0000000000000048"
)
ROLLBACK = (
    bytes.fromhex("234855444923000000000000005b 00000001 00000000 00000003 00000000 00000011")
    + b"20250126040936578"
    + bytes.fromhex("00000003 00000001 30 00000001 00000011")
    + b"20250126040826878"
    + bytes.fromhex("0000000000000000 00000000 0000000000000061")
)


def block(instant="20260101000000000", content=b"content"):
    return write_log_block(BlockType.AVRO_DATA, {HeaderKey.INSTANT_TIME: instant}, content)


def test_the_block_that_founds_a_file_group():
    assert len(EMPTY) == 80
    assert write_empty_block("00000000000000010") == EMPTY
    (block,) = read_log_blocks(EMPTY, "log")
    assert (block.type, block.instant, read_deletes(block)) == (BlockType.DELETE, "00000000000000010", [])


def test_rollback_block():
    assert len(ROLLBACK) == 105
    assert write_rollback_block("20250126040936578", "20250126040826878") == ROLLBACK
    (block,) = read_log_blocks(ROLLBACK, "log")
    assert (block.type, block.instant) == (BlockType.COMMAND, "20250126040936578")
    assert block.target_instant == "20250126040826878"


@pytest.mark.parametrize("writer", WRITERS)
def test_rollback_of_apache_hudi(writer):
    (block,) = read_log_blocks(golden(f"files_rollback_{writer}.log"), "log")
    assert block.type is BlockType.COMMAND
    assert block.target_instant is not None
    assert block.target_instant < block.instant
    assert write_rollback_block(block.instant, block.target_instant) in (
        golden(f"files_rollback_{writer}.log"),
        reordered(block),
    )


def reordered(block):
    """The same block with its header entries in the order in which we write them."""
    header = {key: block.header[key] for key in (0, 3, 1)}
    return write_log_block(block.type, header, b"")


@pytest.mark.parametrize("name", DATA_LOGS)
def test_data_blocks_of_apache_hudi(name):
    data = golden(name)
    blocks = read_log_blocks(data, name)
    assert b"".join(write_log_block(one.type, one.header, bytes(one.content)) for one in blocks) == data
    (block,) = [one for one in blocks if one.type is BlockType.HFILE_DATA]
    entries = HFileReader(block.content, name).entries()
    assert list(zip(entries.keys().to_pylist(), entries.values().to_pylist(), strict=True)) == plain_entries(
        bytes(block.content)
    )
    assert write_hfile_block(block.instant, block.schema_json, bytes(block.content)) == write_log_block(
        block.type, {0: block.header[0], 2: block.header[2]}, bytes(block.content)
    )


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", ["record_index_deletes", "data_deletes"])
def test_deletes_of_apache_hudi(writer, kind):
    blocks = read_log_blocks(golden(f"{kind}_{writer}.log"), "log")
    deletes = [one for one in blocks if one.type is BlockType.DELETE]
    assert deletes
    for one in deletes:
        records = read_deletes(one)
        assert records
        assert all(record.key and record.ordering is None for record in records)
        assert write_deletes(records) == one.content
        if kind == "record_index_deletes":
            assert {record.partition for record in records} == {"record_index"}


def test_deletes_with_ordering_values():
    # Two records: key "a" with LongWrapper 7, key "b" with an ArrayWrapper of IntWrapper 3 and null.
    payload = bytes.fromhex("04 02 02 61 02 00 06 0e  02 02 62 00 18 02 04 04 06 00 00 00".replace(" ", ""))
    content = bytes.fromhex("00000003") + len(payload).to_bytes(4, "big") + payload
    (block,) = read_log_blocks(write_log_block(BlockType.DELETE, {0: "1"}, content), "log")
    assert read_deletes(block) == [DeletedRecord("a", "", 7), DeletedRecord("b", None, [3, None])]
    with pytest.raises(UnsupportedTableError):
        write_deletes([DeletedRecord("a", "", 7)])


@pytest.mark.parametrize("version", [1, 2])
def test_deletes_as_java_objects_are_refused(version):
    data = write_log_block(BlockType.DELETE, {0: "1"}, version.to_bytes(4, "big") + bytes(8))
    with pytest.raises(UnsupportedTableError, match=f"version {version}"):
        read_deletes(read_log_blocks(data, "log")[0])


def test_broken_deletes():
    good = write_delete_block("1", "{}", [DeletedRecord("key", "part")])
    (block,) = read_log_blocks(good, "log")
    for content in (bytes(block.content)[:-1], bytes(block.content) + b"\0", b"\0\0\0\3", b"\0\0\0\3\0\0\0\1\x08"):
        (broken,) = read_log_blocks(write_log_block(BlockType.DELETE, {0: "1"}, content), "x.log")
        with pytest.raises(CorruptFileError, match=r"x\.log"):
            read_deletes(broken)


def test_blocks_one_behind_the_other():
    data = block("1") + block("2", b"") + write_rollback_block("3", "1")
    blocks = read_log_blocks(data, "log")
    assert [one.instant for one in blocks] == ["1", "2", "3"]
    assert [one.offset for one in blocks] == [0, len(block("1")), len(block("1") + block("2", b""))]
    assert bytes(blocks[0].content) == b"content"
    assert data[blocks[0].content_offset :].startswith(b"content")
    assert read_log_blocks(b"", "log") == []


def test_every_torn_tail_is_one_corrupt_block():
    first, second = block("1"), block("2")
    for size in range(1, len(second)):
        blocks = read_log_blocks(first + second[:size], "log")
        assert [one.type for one in blocks] == [BlockType.AVRO_DATA, BlockType.CORRUPT]
        assert (blocks[0].instant, bytes(blocks[0].content)) == ("1", b"content")
        assert (blocks[1].offset, blocks[1].size) == (len(first), size)


def test_an_append_behind_a_torn_block_is_found():
    torn, after = block("2")[:-5], block("3")
    blocks = read_log_blocks(block("1") + torn + after, "log")
    assert [(one.type, one.instant) for one in blocks] == [
        (BlockType.AVRO_DATA, "1"),
        (BlockType.CORRUPT, "2"),
        (BlockType.AVRO_DATA, "3"),
    ]


def test_lengths_that_differ_make_a_block_corrupt():
    damaged = bytearray(block("1"))
    damaged[-1] ^= 1
    blocks = read_log_blocks(bytes(damaged) + block("2"), "log")
    assert [(one.type, one.instant) for one in blocks] == [(BlockType.CORRUPT, "1"), (BlockType.AVRO_DATA, "2")]


def test_what_is_no_log_file():
    with pytest.raises(CorruptFileError, match="at byte 0"):
        read_log_blocks(b"PAR1 and so on", "log")


def test_old_and_unknown_blocks():
    data = bytearray(block())
    data[17] = 0
    with pytest.raises(UnsupportedTableError, match="version 0"):
        read_log_blocks(bytes(data), "log")
    data[17] = 2
    with pytest.raises(CorruptFileError, match="unknown format version 2"):
        read_log_blocks(bytes(data), "log")
    data[17], data[21] = 1, 77
    with pytest.raises(CorruptFileError, match="unknown block type 77") as caught:
        read_log_blocks(bytes(data), "log")
    assert caught.value.offset == 18


def test_header_of_a_whole_block_that_makes_no_sense():
    data = bytearray(block())
    data[25] = 200  # header count
    with pytest.raises(CorruptFileError, match="header entries"):
        read_log_blocks(bytes(data), "log")
