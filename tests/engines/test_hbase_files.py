"""HFiles whose index has several levels, written by HBase's own classes, which Apache Hudi 0.15.0 uses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from table_format.hfile.reader import HFileReader
from tests.support.apache_hudi_client import ApacheHudi
from tests.support.hbase_entries import check_look_ups, pairs, texts

pytestmark = [pytest.mark.engine, pytest.mark.spark]


@pytest.fixture(scope="module")
def hudi(release: Callable[[str], ApacheHudi]) -> ApacheHudi:
    return release("0.15.0")


@pytest.mark.parametrize(
    ("shape", "levels"),
    [
        # keys that differ early have short entries in the index, those that differ late long ones
        ({"entries": (2500, 1000, "late"), "block_size": 16_000}, 2),
        ({"entries": (2500, 20, "early"), "block_size": 512, "index_size": 2048}, 2),
        ({"entries": (2500, 60, "late"), "block_size": 512, "index_size": 1024}, 3),
        ({"entries": (2500, 300, "mixed"), "block_size": 700, "index_size": 900, "codec": "NONE"}, 5),
    ],
)
def test_files_of_hbase_read_exactly(hudi: ApacheHudi, tmp_path: Path, shape: dict[str, Any], levels: int) -> None:
    entries = texts(*shape.pop("entries"))
    path = tmp_path / "file.hfile"
    assert hudi.write_hfile(path, entries, **shape) == levels
    expected = [(key.encode(), value.encode()) for key, value in entries]
    data = path.read_bytes()
    reads: list[tuple[int, int]] = []

    def read_range(offset: int, length: int) -> bytes:
        reads.append((offset, length))
        return data[offset : offset + length]

    reader = HFileReader.open(read_range, len(data), "file")
    assert reader.trailer.index_levels == levels
    check_look_ups(reader, expected)
    assert pairs(reader.entries()) == expected
    begun = len(reads)
    assert pairs(reader.get([expected[1234][0]])) == [expected[1234]]
    assert len(reads) == begun + 1, "one block, whose place the index tells"
