import pyarrow as pa
import pytest

from table_format.slices.file_names import (
    BaseFileName,
    LogFileName,
    bucket_of_file_id,
    new_bucket_file_id,
    new_file_id,
    parse_base_file_names,
)
from tests.support.golden_tables import NAMES, facts

GOOD = {
    "00000000-7a78-4d4f-ba1b-577fc9f4cafa-0_0-1340-3864_20261121080659117.parquet": (
        "00000000-7a78-4d4f-ba1b-577fc9f4cafa-0",
        "0-1340-3864",
        "20261121080659117",
        "parquet",
    ),
    "files-0000-0_0-5-8_00000000000000010.hfile": ("files-0000-0", "0-5-8", "00000000000000010", "hfile"),
}
BAD = [
    "",
    ".hoodie_partition_metadata",
    "a_b.parquet",
    "a_b_c_1.parquet",
    "a_b_1.parquet.crc",
    "a_b_1.parquet\n",
    "a_b_1x.parquet",
    "a.b_c_1.parquet",
    "é_b_1.parquet",
    "a_b_٣.parquet",
    ".a_1.log.1_0-0-0",
]


@pytest.mark.parametrize(("name", "parts"), GOOD.items())
def test_base_files(name, parts):
    parsed = BaseFileName.parse(name)
    assert (parsed.file_id, parsed.write_token, parsed.instant, parsed.extension) == parts
    assert str(parsed) == name


@pytest.mark.parametrize("name", BAD)
def test_other_names_are_no_base_files(name):
    assert BaseFileName.parse(name) is None


def test_columns_agree_with_single_names():
    names = [*GOOD, *BAD, None]
    for array in (pa.array(names), pa.chunked_array([names[:3], names[3:]]), pa.chunked_array([], pa.string())):
        parsed = parse_base_file_names(array)
        assert parsed.column_names == ["file_id", "write_token", "instant", "extension"]
        expected = [BaseFileName.parse(name) if name is not None else None for name in array.to_pylist()]
        rows = [tuple(row.values()) for row in parsed.to_pylist()]
        assert rows == [
            (e.file_id, e.write_token, e.instant, e.extension) if e else (None, None, None, None) for e in expected
        ]


@pytest.mark.parametrize("name", ["a-{}0_1-2-3_2026.parquet", "a-0_1-{}2_2026.parquet", "a-0_1_2{}6.orc", "a_1_2.p{}q"])
def test_columns_agree_with_single_names_for_each_character(name):
    for character in map(chr, range(256)):
        text = name.format(character)
        (file_id,) = parse_base_file_names(pa.array([text])).column("file_id").to_pylist()
        parsed = BaseFileName.parse(text)
        assert file_id == (parsed and parsed.file_id), text


@pytest.mark.parametrize("table", NAMES)
def test_names_that_apache_gave(table):
    names = [path.rsplit("/", 1)[-1] for path in facts(table)["files"]]
    data = [name for name in names if name != ".hoodie_partition_metadata"]
    assert data
    for name in data:
        parsed = BaseFileName.parse(name)
        assert parsed is not None
        assert str(parsed) == name
        if "__bkt_" in table:
            assert bucket_of_file_id(parsed.file_id) in range(64)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            ".145a2f21-4073-48f8-8ced-8188aac7490b-0_20261121080051751.log.1_0-0-0",
            ("145a2f21-4073-48f8-8ced-8188aac7490b-0", "20261121080051751", 1, "0-0-0", False),
        ),
        (".files-0000-0_00000000000000010.log.12_1-0-1", ("files-0000-0", "00000000000000010", 12, "1-0-1", False)),
        (".a-0_5.log.3", ("a-0", "5", 3, None, False)),
        (".a-0_5.log.3_0-1-2.cdc", ("a-0", "5", 3, "0-1-2", True)),
    ],
)
def test_log_files(name, expected):
    parsed = LogFileName.parse(name)
    assert (parsed.file_id, parsed.instant, parsed.version, parsed.write_token, parsed.is_cdc) == expected
    assert str(parsed) == name


@pytest.mark.parametrize(
    "name", ["", "a-0_5.log.3", ".a-0_5.log", ".a-0_5.log.x", ".a-0_5.log.1_0-0", ".a-0_5.log.1\n", ".a_5.log.٣"]
)
def test_other_names_are_no_log_files(name):
    assert LogFileName.parse(name) is None


def test_version_numbers_of_absurd_length():
    assert LogFileName.parse(".a-0_5.log." + "1" * 5000) is None


def test_bucket_file_ids():
    ids = {new_bucket_file_id(7) for _ in range(50)}
    assert len(ids) == 50
    for file_id in ids:
        assert file_id.startswith("00000007-")
        assert file_id.endswith("-0")
        assert len(file_id) == 38
        assert bucket_of_file_id(file_id) == 7
        assert BaseFileName.parse(f"{file_id}_0-0-0_1.parquet").file_id == file_id
    assert new_file_id(3).endswith("-3")
    assert len(new_file_id()) == 38


@pytest.mark.parametrize("file_id", ["", "00000003", "0000003-x", "000000003-x", "0000000a-x", "٠٠٠٠٠٠٠٣-x"])
def test_file_ids_without_a_bucket(file_id):
    assert bucket_of_file_id(file_id) is None


def test_file_ids_of_bulk_inserts_in_later_releases_have_no_suffix():
    assert bucket_of_file_id("00000012-7a78-4d4f-ba1b-577fc9f4cafa") == 12
