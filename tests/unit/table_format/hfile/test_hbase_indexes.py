"""HFiles of HBase (see tests/golden/README.md) whose index has more than one level."""

import io
import struct
import tarfile
from pathlib import Path

import pytest

from table_format.errors import CorruptFileError
from table_format.hfile.index import read_lower_level
from table_format.hfile.reader import HFileReader
from tests.support.hbase_entries import check_look_ups, pairs, texts

ARCHIVE = Path(__file__).parents[3] / "golden/hbase_indexes.tar.xz"
LEVELS = {"defaults_3000_2000_late": 2, "shortened_1500_20_early": 2, "three_1500_60_late": 3, "deep_400_100_mixed": 4}


@pytest.fixture(scope="module")
def files():
    with tarfile.open(ARCHIVE) as archive:
        return {Path(member.name).stem: archive.extractfile(member).read() for member in archive}


@pytest.mark.parametrize("name", LEVELS)
def test_files_of_hbase_read_exactly(files, name):
    _, count, length, differing = name.split("_")
    expected = [(key.encode(), value.encode()) for key, value in texts(int(count), int(length), differing)]
    reader = HFileReader(files[name], name)
    assert reader.trailer.index_levels == LEVELS[name]
    check_look_ups(reader, expected)
    assert pairs(reader.entries()) == expected


def test_a_look_up_reads_one_data_block(files):
    data, reads = files["deep_400_100_mixed"], []

    def read_range(offset, length):
        reads.append((offset, length))
        return io.BytesIO(data[offset : offset + length]).read()

    reader = HFileReader.open(read_range, len(data), "deep")
    key = texts(400, 100, "mixed")[200][0].encode()
    assert len(reader.block_index) > 100
    begun = len(reads)
    assert len(reader.get([key])) == 1
    assert len(reads) == begun + 1


def leaf(*entries, count=None, starts=None):
    """An index block with (place, size, row) entries."""
    parts = [
        struct.pack(">qiH", place, size, len(row)) + row + b"\0" + b"\x7f" + b"\xff" * 7 + b"\4"
        for place, size, row in entries
    ]
    ends = [sum(map(len, parts[:number])) for number in range(len(parts) + 1)] if starts is None else starts
    return struct.pack(f">{len(ends) + 1}i", len(parts) if count is None else count, *ends) + b"".join(parts)


GOOD = [(0, 50, b"a"), (50, 60, b"b")]


def test_an_index_block():
    index = read_lower_level(leaf(*GOOD), 7, "file")
    assert (index.offsets, index.sizes, index.first_keys) == ([0, 50], [50, 60], [b"a", b"b"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        leaf(),
        leaf(*GOOD)[:-1],
        leaf(*GOOD) + b"\0",
        leaf(*GOOD, count=3),
        leaf(*GOOD, count=-1),
        leaf(*GOOD, count=2**31 - 1),
        leaf(*GOOD, starts=[1, 25, 50]),
        leaf(*GOOD, starts=[0, 8, 50]),
        leaf(*GOOD, starts=[0, 60, 50]),
        leaf(*GOOD, starts=[0, -5, 50]),
        leaf((-1, 50, b"a")),
        leaf((0, 0, b"a")),
        leaf((0, 51, b"a"), (50, 60, b"b")),
        leaf((0, 50, b"b"), (50, 60, b"a")),
    ],
)
def test_a_broken_index_block_is_named(content):
    with pytest.raises(CorruptFileError) as caught:
        read_lower_level(content, 7, "file")
    assert (caught.value.path, caught.value.offset) == ("file", 7)
