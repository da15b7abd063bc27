"""HFiles whose untouched data blocks are copied hold what files that are written whole do, round after round."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from table_format.errors import RecordError
from table_format.hfile.block import HEADER_SIZE
from table_format.hfile.reader import HFileReader
from table_writer.encoding.hfile import internal_key, write_hfile
from table_writer.encoding.merged_hfile import BlockwiseHFile
from tests.property.profile import examples
from tests.support.hbase_entries import check_look_ups, pairs

SCHEMA = '{"type": "bytes"}'
# `check_look_ups` takes keys with these signs for absent ones
KEYS = st.binary(min_size=1, max_size=3).filter(lambda key: not set(key) & set(b"!~"))
# None deletes a key
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=40), max_size=12)


def binary(values: object) -> pa.BinaryArray:
    array: pa.BinaryArray = pa.array(list(values), pa.binary())  # type: ignore[call-overload]
    return array


def written(entries: dict[bytes, bytes], size: int) -> bytes:
    keys = sorted(entries)
    return write_hfile(binary(keys), binary(entries[key] for key in keys), schema_json=SCHEMA, block_size=size)


def merged(file: BlockwiseHFile, changes: dict[bytes, bytes | None]) -> tuple[bytes, int] | None:
    touched = file.touched(list(changes))
    old = file.entries(touched)
    new = {key: value for key, value in {**dict(pairs(old)), **changes}.items() if value is not None}
    return file.with_entries(touched, len(old), binary(sorted(new)), binary(new[key] for key in sorted(new)))


@examples(150)
@given(st.dictionaries(KEYS, st.binary(max_size=40), min_size=1, max_size=80), st.lists(CHANGES, max_size=4), st.data())
def test_a_merged_file_has_the_entries_of_a_whole_one(
    entries: dict[bytes, bytes], rounds: list[dict[bytes, bytes | None]], data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from([1, 60, 200, 4000]))
    content = written(entries, size)
    for changes in rounds:
        file = BlockwiseHFile.open(content, "f", SCHEMA, size)
        assert file is not None
        made = merged(file, changes)
        entries = {key: value for key, value in {**entries, **changes}.items() if value is not None}
        if not entries:
            assert made is None
            return
        assert made is not None
        content, count = made
        reader, whole = HFileReader(content, "f"), HFileReader(written(entries, size), "whole")
        assert count == reader.entry_count == len(entries)
        assert pairs(reader.entries()) == sorted(entries.items())
        check_look_ups(reader, sorted(entries.items()))
        info = reader.file_info
        assert info.keys() == whole.file_info.keys()
        assert info[b"hfile.LASTKEY"] == internal_key(max(entries))
        uncompressed = sum(block.content_size for block in BlockwiseHFile(content, reader, size).blocks)
        assert reader.trailer.uncompressed_size > uncompressed
        # neither crumbs nor giants: of two neighbours that were written together one is of a good size
        assert len(reader.block_index) <= 2 * (uncompressed // size + 1) + len(whole.block_index)


@settings(max_examples=100, deadline=None)
@given(st.lists(KEYS, min_size=30, max_size=80, unique=True), st.data())
def test_blocks_without_changes_are_copied(keys: list[bytes], data: st.DataObject) -> None:
    content = written(dict.fromkeys(keys, b"v" * 9), 60)
    file = BlockwiseHFile.open(content, "f", SCHEMA, 60)
    assert file is not None
    changed = data.draw(st.sampled_from(keys))
    touched = file.touched([changed])
    made = merged(file, {changed: b"w" * 9})
    assert made is not None
    new = BlockwiseHFile.open(made[0], "f", SCHEMA, 60)
    assert new is not None
    bodies = [bytes(block.written[HEADER_SIZE:]) for block in new.blocks]
    for number, block in enumerate(file.blocks):
        if number not in touched:
            assert bytes(block.written[HEADER_SIZE:]) in bodies


def test_averages_of_a_file_stay_what_they_are() -> None:
    entries = {b"%08d" % number: b"v" * 11 for number in range(400)}
    content, whole = written(entries, 500), HFileReader(written(entries, 500), "whole").file_info
    for number in range(40):
        file = BlockwiseHFile.open(content, "f", SCHEMA, 500)
        assert file is not None
        made = merged(file, {b"%08d" % (number * 10): b"w" * 11})
        assert made is not None
        content, _ = made
    info = HFileReader(content, "f").file_info
    for name in (b"hfile.AVG_KEY_LEN", b"hfile.AVG_VALUE_LEN"):
        assert abs(int.from_bytes(info[name], "big") - int.from_bytes(whole[name], "big")) <= 1


def test_files_of_others_are_not_copied() -> None:
    entries = {b"%03d" % number: b"v" for number in range(50)}
    keys, values = binary(entries), binary(entries.values())
    assert BlockwiseHFile.open(write_hfile(keys, values, schema_json="{}", block_size=60), "f", SCHEMA) is None
    assert BlockwiseHFile.open(write_hfile(keys, values, schema_json=SCHEMA, codec="NONE"), "f", SCHEMA) is None
    assert BlockwiseHFile.open(write_hfile(keys, values, schema_json=SCHEMA, bloom=True), "f", SCHEMA) is None
    content = bytearray(written(entries, 60))
    content[24] = 2  # the first block has checksums by its header
    assert BlockwiseHFile.open(bytes(content), "f", SCHEMA) is None


def test_entries_of_blocks_that_are_copied_are_refused() -> None:
    file = BlockwiseHFile.open(written({b"%03d" % number: b"v" for number in range(50)}, 60), "f", SCHEMA, 60)
    assert file is not None
    touched = file.touched([b"020"])
    for key in (b"000", b"021", b"049"):
        if key not in [entry for entry, _ in pairs(file.entries(touched))]:
            with pytest.raises(RecordError, match="copied"):
                file.with_entries(touched, 0, binary([key]), binary([b"w"]))
