import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.slices.file_slice import FileSlice
from hudi_catalog.server.security import Secret
from hudi_catalog.trino.split_id import ContentCache, Purpose, SplitCodec, TrinoSplit
from table_format.errors import SplitError

SECRET = Secret(b"secret")
SLICE = FileSlice(
    partition="city=São Paulo/day=1",
    file_id="00000001-aa",
    base="city=São Paulo/day=1/00000001-aa_0-1-2_20260101000000000.parquet",
    instant="20260101000000000",
    logs=(("city=São Paulo/day=1/.00000001-aa_20260101000000000.log.1_0-1-2", 17),),
    row_groups=(0, 3),
    record_count=17,
)
SPLIT = TrinoSplit(
    table="db.trips",
    pin="20260101000000000#ab",
    slices=(SLICE, FileSlice("", "00000002-bb", None, "20260101000000001")),
    constraint=b"\x00\xff domain",
    key_columns=("a", "b"),
    keys=b"\x01\x00 keys",
    scan="0123456789abcdef",
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_split_comes_back_as_it_went() -> None:
    codec = SplitCodec(SECRET)
    assert codec.unpack(codec.pack(SPLIT)) == SPLIT
    plain = TrinoSplit("t", "1")
    assert codec.unpack(codec.pack(plain)) == plain


def test_another_instance_with_the_secret_reads_it() -> None:
    assert SplitCodec(SECRET).unpack(SplitCodec(SECRET).pack(SPLIT)) == SPLIT


@pytest.mark.parametrize("other", [SplitCodec(Secret(b"another")), SplitCodec(None)])
def test_a_service_with_another_secret_does_not(other: SplitCodec) -> None:
    for codec in (SplitCodec(SECRET), SplitCodec(None)):
        with pytest.raises(SplitError, match="did not sign"):
            other.unpack(codec.pack(SPLIT))


CODEC = SplitCodec(SECRET)
SEALED = CODEC.pack(SPLIT)


@given(st.integers(0, len(SEALED) * 8 - 1))
def test_no_bit_can_be_changed(bit: int) -> None:
    forged = bytearray(SEALED)
    forged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(SplitError):
        CODEC.unpack(bytes(forged))


@given(st.binary(max_size=200) | st.integers(0, len(SEALED) - 1).map(lambda end: SEALED[:end]))
def test_garbage_is_refused(garbage: bytes) -> None:
    with pytest.raises(SplitError):
        CODEC.unpack(garbage)
    with pytest.raises(SplitError):
        CODEC.open(Purpose.PAGE_TOKEN, garbage)


@pytest.mark.parametrize("purpose", [Purpose.PAGE_TOKEN, Purpose.SPLITS_TOKEN])
def test_a_token_is_not_a_split_id(purpose: Purpose) -> None:
    payload = CODEC.open(Purpose.SPLIT, SEALED)
    with pytest.raises(SplitError, match="purpose"):
        CODEC.unpack(CODEC.seal(purpose, payload))
    with pytest.raises(SplitError, match="purpose"):
        CODEC.open(purpose, SEALED)
    assert CODEC.open(purpose, CODEC.seal(purpose, b"")) == b""


def test_old_ids_are_refused() -> None:
    clock = Clock()
    codec = SplitCodec(SECRET, 60, clock=clock)
    split_id = codec.pack(SPLIT)
    clock.now += 59
    assert codec.unpack(split_id) == SPLIT
    clock.now += 2
    with pytest.raises(SplitError, match=r"61 s ago; they are valid for 60 s \(hoodie.catalog.trino.split.lifetime\)"):
        codec.unpack(split_id)
    clock.now -= 1_000  # a clock that is far behind is another forgery
    with pytest.raises(SplitError):
        codec.unpack(split_id)


@pytest.mark.parametrize("path", ["../other/x.parquet", "/etc/passwd", "a/../../b.parquet", "a\0b"])
def test_no_signed_path_leaves_the_table(path: str) -> None:
    for split in (
        FileSlice("", "f", path, "1"),
        FileSlice("", "f", None, "1", logs=((path, 1),)),
    ):
        with pytest.raises(SplitError, match="not inside the table"):
            CODEC.unpack(CODEC.pack(TrinoSplit("t", "1", (SLICE, split))))


def test_long_constraints_are_not_repeated_in_each_id() -> None:
    split = TrinoSplit("t", "1", constraint=b"x" * 10_000)
    codec = SplitCodec(SECRET)
    split_id = codec.pack(split)
    assert len(split_id) < 300
    assert codec.unpack(split_id) == split
    # Trino filters again, so that an instance that never saw it may serve all rows.
    assert SplitCodec(SECRET).unpack(split_id).constraint == b""


def test_keys_are_never_left_out() -> None:
    split = TrinoSplit("t", "1", key_columns=("a",), keys=b"x" * 3_000_000)
    codec = SplitCodec(SECRET)
    split_id = codec.pack(split)
    assert len(split_id) < 300
    assert codec.unpack(split_id) == split
    with pytest.raises(SplitError, match="keys of this index look-up"):
        SplitCodec(SECRET).unpack(split_id)


def test_a_constraint_that_was_dropped_and_packed_again_is_kept_again() -> None:
    codec = SplitCodec(SECRET, held_bytes=25_000)
    splits = [TrinoSplit("t", "1", constraint=bytes([i]) * 10_000) for i in range(3)]
    ids = [codec.pack(split) for split in splits]
    assert codec.unpack(ids[0]).constraint == b""
    assert codec.unpack(codec.pack(splits[0])) == splits[0]


def test_what_is_held_is_bounded() -> None:
    held = ContentCache(100)
    first = held.put(b"a" * 60)
    assert held.put(b"a" * 60) == first
    second = held.put(b"b" * 30)
    assert held.get(first) == b"a" * 60  # used last
    third = held.put(b"c" * 40)
    assert held.get(second) is None
    assert held.get(first) is not None
    assert held.get(third) is not None
    huge = held.put(b"d" * 1_000)
    assert held.get(huge) == b"d" * 1_000
    assert held.get(first) is None
