"""Thrift's compact protocol: bytes that are no struct are refused, however they go wrong."""

import pytest

from table_format.codecs.thrift_compact import CompactError, read_struct, read_varint

LIST_FIELD, OF_ONE_LIST, MAP_FIELD = b"\x19", b"\x19", b"\x1b"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(LIST_FIELD + OF_ONE_LIST * 5_000, id="lists in lists"),
        pytest.param(MAP_FIELD + b"\x01\x3b\x00" * 5_000, id="maps in maps"),
        pytest.param(b"\x1c" * 5_000, id="structs in structs"),
    ],
)
def test_what_is_nested_too_deeply(data: bytes) -> None:
    with pytest.raises(CompactError, match="nested more than 64 deep"):
        read_struct(data)


def test_a_number_has_at_most_ten_bytes() -> None:
    assert read_varint(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)
    with pytest.raises(CompactError, match="more than ten bytes"):
        read_varint(b"\xff" * 10 + b"\x01", 0)


def test_a_struct_that_is_cut_off() -> None:
    with pytest.raises(CompactError, match="cut off"):
        read_struct(b"\x15")
