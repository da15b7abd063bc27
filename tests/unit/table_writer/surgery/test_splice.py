"""Files made of copied and encoded column chunks."""

import contextlib
import io
import math
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from table_format.base_file.footer import footer
from table_format.base_file.footer_fields import ChunkField, MetadataField, chunks_of
from table_format.errors import MissingFileError
from table_format.storage import Storage
from table_format.threads import within_threads
from table_writer.encoding import base_file
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.surgery.encode import encode_columns, rows_to_encode
from table_writer.surgery.footer import read_footer
from table_writer.surgery.policy import CannotSplice, why_not
from table_writer.surgery.source import open_source
from table_writer.surgery.splice import Dropped, FileEdit, NewColumns, splice
from tests.support.golden_base_files import DATA_FILES, FILES
from tests.support.parquet_pages import check_pages
from tests.support.whole_rewrite import check_splice, chunk_bytes

ROWS, GROUP = 3000, 500


def rows(count=ROWS, first=0):
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "_hoodie_file_name": ["old"] * count,
            "key": [f"k{i:06d}" for i in numbers],
            "v": pa.array(numbers),
            "few": [f"s{i % 7}" for i in numbers],
            "l": pa.array([[int(i), None] if i % 3 else None for i in numbers], pa.list_(pa.int64())),
            "m": pa.array([[(f"a{i % 5}", float(i))] for i in numbers], pa.map_(pa.string(), pa.float64())),
            "s": pa.array([{"x": int(i), "y": [str(i)]} if i % 5 else None for i in numbers]),
        }
    )


@pytest.fixture
def folder(tmp_path):
    pq.write_table(
        rows(),
        tmp_path / "old.parquet",
        row_group_size=GROUP,
        data_page_size=2000,
        write_batch_size=100,
        write_page_index=True,
        write_page_checksum=True,
        store_schema=False,
        compression="gzip",
        sorting_columns=[pq.SortingColumn(1)],
    )
    return str(tmp_path)


def test_chunks_that_nobody_touched_are_the_bytes_they_were(folder):
    table = pa.table({"v": np.arange(GROUP) * 7})
    edit = FileEdit({2: NewColumns(table)}, constants={"_hoodie_file_name": "new"}, texts={"k": "v"})
    result = check_splice(folder, edit)
    old, new = (os.path.join(folder, name) for name in ("old.parquet", "new.parquet"))
    encoded = [
        (group, result.metadata.row_group(group).column(column).path_in_schema)
        for group in range(6)
        for column in range(result.metadata.num_columns)
        if chunk_bytes(old, group, column) != chunk_bytes(new, group, column)
    ]
    assert encoded == sorted([*((group, "_hoodie_file_name") for group in range(6)), (2, "v")])
    assert result.chunks_encoded == 7
    assert result.groups_touched == 1
    assert result.metadata.metadata[b"k"] == b"v"
    assert result.metadata.row_group(1).sorting_columns == (pq.SortingColumn(1),)


def test_rows_go_and_come(folder):
    edit = FileEdit(
        {0: Dropped(), 3: NewColumns(rows(120, first=1500)), 5: Dropped()},
        [rows(10, first=9000), rows(3, first=9100)],
        {"_hoodie_file_name": "new"},
    )
    result = check_splice(folder, edit)
    assert result.groups_touched == 5
    assert result.chunks_encoded == 3 * 9 + 3
    assert result.metadata.row_group(3 - 1).sorting_columns == ()
    query = f"select count(*), sum(v), min(key) from '{folder}/new.parquet' where v >= 500"
    [values] = duckdb.execute(query).fetchall()
    total = sum(range(500, 1620)) + sum(range(2000, 2500)) + sum(range(9000, 9010)) + sum(range(9100, 9103))
    assert values == (1120 + 500 + 13, total, "k000500")


def test_a_file_is_the_same_by_any_number_of_threads(folder):
    edit = FileEdit(
        {group: NewColumns(pa.table({"v": np.arange(GROUP) * group})) for group in range(5)},
        [rows(10, first=9000)],
        {"_hoodie_file_name": "new"},
    )
    files = []
    for threads in (1, 4):
        with within_threads(threads):
            check_splice(folder, edit)
        files.append(Path(folder, "new.parquet").read_bytes())
    assert files[0] == files[1]


def test_a_file_can_be_spliced_again_and_again(folder):
    for turn in range(4):
        table = pa.table({"few": [f"t{turn}"] * GROUP})
        check_splice(folder, FileEdit({turn: NewColumns(table)}, [rows(5)], {"_hoodie_file_name": f"f{turn}"}))
        os.replace(os.path.join(folder, "new.parquet"), os.path.join(folder, "old.parquet"))
    assert pq.read_metadata(os.path.join(folder, "old.parquet")).num_row_groups == 10


def test_sorting_columns_go_with_the_column_that_rows_are_sorted_by(folder):
    keys = pa.table({"key": [f"z{-i}" for i in range(GROUP)]})
    result = check_splice(folder, FileEdit({1: NewColumns(keys)}))
    assert [len(result.metadata.row_group(group).sorting_columns) for group in range(3)] == [1, 0, 1]


def test_encoded_row_groups_claim_the_order_of_record_keys_that_they_have(tmp_path):
    def keyed(keys):
        return pa.table({"_hoodie_file_name": ["f"] * len(keys), "_hoodie_record_key": keys, "v": range(len(keys))})

    pq.write_table(keyed([f"k{n}" for n in range(6)]), tmp_path / "old.parquet", row_group_size=2, store_schema=False)
    groups = {1: NewColumns(keyed(["k2", "k2x", "k3"])), 2: NewColumns(pa.table({"v": [7, 8]}))}
    edit = FileEdit(groups, [keyed(["a", "b"]), keyed(["b", "a"])], {"_hoodie_file_name": "new"})
    result = check_splice(str(tmp_path), edit)
    claim, none = (pq.SortingColumn(1),), ()
    claims = [result.metadata.row_group(number).sorting_columns for number in range(5)]
    assert claims == [none, claim, none, claim, none]


def test_all_rows_can_go(folder):
    result = check_splice(folder, FileEdit(dict.fromkeys(range(6), Dropped())))
    assert result.row_count == result.metadata.num_row_groups == 0
    assert pq.read_table(os.path.join(folder, "new.parquet")).num_rows == 0


def test_dictionary_columns_are_written_as_their_values(folder):
    table = pa.table({"few": pa.array(["x", None] * (GROUP // 2)).dictionary_encode()})
    check_splice(folder, FileEdit({1: NewColumns(table)}))


def test_nothing_to_do_copies_all(folder):
    result = check_splice(folder, FileEdit())
    assert (result.bytes_encoded, result.chunks_encoded, result.groups_touched) == (0, 0, 0)


def test_parquet_bloom_filters_are_copied_and_those_of_new_chunks_gone(tmp_path):
    duckdb.execute(
        "create or replace table t as select range % 300 as i, (range % 200)::varchar as s from range(20000)"
    )
    duckdb.execute(f"copy t to '{tmp_path}/old.parquet' (row_group_size 4096)")
    with open(tmp_path / "old.parquet", "rb") as stream:
        before = check_pages(stream.read())
    count = pq.read_metadata(tmp_path / "old.parquet").row_group(1).num_rows
    check_splice(str(tmp_path), FileEdit({1: NewColumns(pa.table({"i": np.zeros(count, np.int64)}))}))
    with open(tmp_path / "new.parquet", "rb") as stream:
        after = check_pages(stream.read())
    assert (before.blooms, after.blooms) == (2 * before.groups, 2 * before.groups - 1)
    query = f"select count(*) from '{tmp_path}/new.parquet' where"
    assert duckdb.execute(f"{query} s = '150'").fetchall() == [(100,)]
    assert duckdb.execute(f"{query} s = '200'").fetchall() == [(0,)]


@pytest.mark.parametrize("name", DATA_FILES[::6])
def test_files_of_apache_hudi_are_spliced(name, tmp_path):
    """Among them lists of two levels."""
    with open(tmp_path / "old.parquet", "wb") as stream:
        stream.write(FILES[name].data)
    table = pq.ParquetFile(tmp_path / "old.parquet").read_row_group(0)
    half = len(table) // 2 or 1
    constants = {"_hoodie_file_name": "new"} if "_hoodie_file_name" in table.column_names else {}
    kept = {0: NewColumns(table.slice(0, half))}
    check_splice(str(tmp_path), FileEdit(kept, [table.slice(len(table) - half)], constants))


def test_lists_of_two_levels_take_no_nulls(tmp_path):
    two = (name for name in DATA_FILES if b"arr.array" in _leaves(FILES[name].data))
    with open(tmp_path / "old.parquet", "wb") as stream:
        stream.write(FILES[next(two)].data)
    table = pq.ParquetFile(tmp_path / "old.parquet").read_row_group(0)
    values = pa.array([[None]] * len(table), pa.list_(table.schema.field("arr").type.value_type))
    edit = FileEdit({0: NewColumns(pa.table({"arr": values}))})
    with pytest.raises(CannotSplice, match="has nulls inside"):
        splice(Storage(str(tmp_path)), "old.parquet", "new.parquet", edit, BaseFileOptions())


def _leaves(data):
    schema = pq.ParquetFile(io.BytesIO(data)).schema
    return [schema.column(leaf).path.encode() for leaf in range(len(schema))]


def refused(folder, edit, source="old.parquet"):
    with pytest.raises(CannotSplice) as caught:
        splice(Storage(folder), source, "new.parquet", edit, BaseFileOptions())
    assert not os.path.exists(os.path.join(folder, "new.parquet"))
    return caught.value.reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (FileEdit({6: Dropped()}), "no row groups"),
        (FileEdit(constants={"x": "y"}), "lacks columns"),
        (FileEdit({0: NewColumns(pa.table({"v": pa.array([1])}))}), "rows lack columns"),
        (FileEdit(appended=[rows(3).drop_columns(["key"])]), "rows lack columns"),
        (FileEdit(appended=[rows(0)]), "no rows"),
        (FileEdit({0: NewColumns(pa.table({"w": np.arange(GROUP)}))}), "no column 'w'"),
        (FileEdit({0: NewColumns(pa.table({"v": np.arange(GROUP, dtype=np.int32)}))}), "in the file int64"),
        (FileEdit({4: NewColumns(pa.table({"v": pa.array(["x"] * GROUP)}))}), "in the file int64"),
        (FileEdit(constants={"v": "y"}), "in the file int64"),
    ],
)
def test_edits_that_do_not_fit_are_refused(folder, edit, reason):
    assert reason in refused(folder, edit)


def test_a_file_is_not_written_over_itself(folder):
    with pytest.raises(CannotSplice, match="name of the old one"):
        splice(Storage(folder), "old.parquet", "old.parquet", FileEdit(), BaseFileOptions())
    assert pq.read_table(os.path.join(folder, "old.parquet")).num_rows == ROWS


@pytest.mark.slow
def test_damage_is_refused(folder):
    with open(os.path.join(folder, "old.parquet"), "rb") as stream:
        data = stream.read()
    edit = FileEdit(appended=[rows(3)])
    for changed in (b"", data[:100], data[:-4], data[:-4] + b"PARE", data[:-8] + b"\xff\xff\xff\x7fPAR1", data[:9000]):
        with open(os.path.join(folder, "cut.parquet"), "wb") as stream:
            stream.write(changed)
        refused(folder, edit, "cut.parquet")
    size = int.from_bytes(data[-8:-4], "little")
    for at in range(0, size, 83):
        broken = bytearray(data)
        broken[len(data) - 8 - size + at] ^= 0x41
        with open(os.path.join(folder, "cut.parquet"), "wb") as stream:
            stream.write(broken)
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, "new.parquet"))
        try:  # a changed statistic or name is damage that does not show
            splice(Storage(folder), "cut.parquet", "new.parquet", edit, BaseFileOptions())
        except CannotSplice:
            assert not os.path.exists(os.path.join(folder, "new.parquet"))


def test_a_file_that_is_not_there_is_an_error_of_storage(folder):
    with pytest.raises(MissingFileError):
        splice(Storage(folder), "none.parquet", "new.parquet", FileEdit(), BaseFileOptions())


def test_timestamps_of_96_bits_are_copied_but_not_written(folder):
    times = pa.array([1, 2, 3], pa.timestamp("us"))
    pq.write_table(
        pa.table({"t": times, "v": [1, 2, 3]}),
        os.path.join(folder, "old.parquet"),
        use_deprecated_int96_timestamps=True,
    )
    check_splice(folder, FileEdit({0: NewColumns(pa.table({"v": [4, 5, 6]}))}))
    os.remove(os.path.join(folder, "new.parquet"))
    assert refused(folder, FileEdit({0: NewColumns(pa.table({"t": pa.array([1, 2, 3], pa.timestamp("ns"))}))}))


def test_files_of_old_writers_are_refused(folder):
    with open(os.path.join(folder, "old.parquet"), "rb") as stream:
        data = stream.read()
    name = pq.read_metadata(os.path.join(folder, "old.parquet")).created_by
    old = "parquet-mr version 1.7.0".ljust(len(name)).encode()
    with open(os.path.join(folder, "old.parquet"), "wb") as stream:
        stream.write(data.replace(name.encode(), old))
    assert "differently" in refused(folder, FileEdit(appended=[rows(3)]))
    assert "differently" in why_not(footer(Storage(folder), "old.parquet"))


def test_encrypted_files_are_refused(folder):
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Client(encryption.KmsClient):
        def wrap_key(self, key_bytes, master_key_identifier):
            return key_bytes.hex()

        def unwrap_key(self, wrapped_key, master_key_identifier):
            return bytes.fromhex(wrapped_key)

    for plaintext in (True, False):
        factory = encryption.CryptoFactory(lambda _: Client())
        config = encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["v"]}, plaintext_footer=plaintext
        )
        properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
        with pq.ParquetWriter(
            os.path.join(folder, "old.parquet"), pa.schema({"v": pa.int64()}), encryption_properties=properties
        ) as writer:
            writer.write_table(pa.table({"v": [1, 2]}))
        assert "encrypt" in refused(folder, FileEdit())


class Remote(Storage):
    """Local files as if they were elsewhere."""

    def __init__(self, uri, options=None):
        super().__init__(uri, options)
        self.filesystem = fs.SubTreeFileSystem("/", fs.LocalFileSystem())
        self.is_local = False


def test_other_storages_get_the_same_bytes(folder):
    edit = FileEdit({2: NewColumns(rows(77)), 4: Dropped()}, [rows(9)], {"_hoodie_file_name": "new"})
    splice(Storage(folder), "old.parquet", "local.parquet", edit, BaseFileOptions())
    splice(Remote(folder), "old.parquet", "remote.parquet", edit, BaseFileOptions())
    with open(os.path.join(folder, "local.parquet"), "rb") as one, open(f"{folder}/remote.parquet", "rb") as other:
        assert one.read() == other.read()
    with pytest.raises(CannotSplice):
        splice(Remote(folder), "old.parquet", "gone.parquet", FileEdit({9: Dropped()}), BaseFileOptions())
    assert not os.path.exists(os.path.join(folder, "gone.parquet"))


def test_large_copies_start_where_memory_pages_lie_alike(tmp_path):
    """There are gaps between chunks then, which copies of copies do not add up."""
    numbers = np.random.default_rng(1).integers(0, 2**62, 200_000)
    table = pa.table({"_hoodie_file_name": ["old"] * len(numbers), "v": numbers})
    pq.write_table(pa.concat_tables([table] * 2), tmp_path / "old.parquet", row_group_size=len(numbers))
    sizes = []
    for turn in range(3):
        edit = FileEdit(constants={"_hoodie_file_name": f"new{turn}"})
        result = splice(Storage(str(tmp_path)), "old.parquet", "new.parquet", edit, BaseFileOptions())
        with open(tmp_path / "new.parquet", "rb") as stream:
            check_pages(stream.read())
        copied = pq.read_table(tmp_path / "new.parquet")
        assert copied["v"].equals(pa.chunked_array([numbers, numbers]))
        assert copied["_hoodie_file_name"].unique().to_pylist() == [f"new{turn}"]
        if turn == 0:
            for group in range(2):
                old, new = (
                    pq.read_metadata(tmp_path / name).row_group(group).column(1).dictionary_page_offset
                    for name in ("old.parquet", "new.parquet")
                )
                assert (old - new) % 4096 == 0
        os.replace(tmp_path / "new.parquet", tmp_path / "old.parquet")
        sizes.append(result.size - result.bytes_copied)
    assert max(sizes) < 2 * 4096 + 6000


def test_without_the_kernel_the_bytes_are_the_same(folder, monkeypatch):
    edit = FileEdit({2: Dropped()}, constants={"_hoodie_file_name": "new"})
    splice(Storage(folder), "old.parquet", "one.parquet", edit, BaseFileOptions())
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    splice(Storage(folder), "old.parquet", "other.parquet", edit, BaseFileOptions())
    with open(os.path.join(folder, "one.parquet"), "rb") as one, open(f"{folder}/other.parquet", "rb") as other:
        assert one.read() == other.read()


def test_indices_of_one_byte_are_encoded_to_the_same_bytes(tmp_path, monkeypatch):
    texts = [None, "a", "b", "", "a"] * 300
    rows = pa.table(
        {
            "few": pa.array(texts).dictionary_encode(),
            "one_more": pa.array([f"{n % 129:03}" for n in range(1500)]).dictionary_encode(),
            "most": pa.array([f"{n % 128:03}" for n in range(1500)]).dictionary_encode(),
            "nulls": pa.nulls(1500, pa.string()).dictionary_encode(),
        }
    )
    pq.write_table(rows, tmp_path / "f", store_schema=False)
    with open_source(Storage(str(tmp_path)), "f") as source:
        footer = read_footer(source)
    narrow = encode_columns(rows_to_encode(rows, footer, BaseFileOptions(), {}), footer, indexed=True)
    monkeypatch.setattr(base_file, "_MOST_SMALL", -1)
    wide = encode_columns(rows_to_encode(rows, footer, BaseFileOptions(), {}), footer, indexed=True)
    assert narrow.source.buffer.equals(wide.source.buffer)
    assert pq.read_table(pa.BufferReader(narrow.source.buffer)).equals(pq.read_table(tmp_path / "f"))


def test_bounds_of_changed_columns_hold_nan(tmp_path):
    old = pa.table({"n": range(6), "f": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "z": [0.5] * 6})
    pq.write_table(old, tmp_path / "old", row_group_size=2, write_page_index=True, store_schema=False)
    new = NewColumns(pa.table({"f": [math.nan, 3.0], "z": [-0.0, -0.0]}))
    appended = pa.table({"n": [7], "f": [math.nan], "z": [0.0]})
    storage = Storage(str(tmp_path))
    metadata = splice(storage, "old", "new", FileEdit({1: new}, [appended]), BaseFileOptions()).metadata
    chunks = [metadata.row_group(group).column(1) for group in range(4)]
    bounds = [(chunk.statistics.min, chunk.statistics.max) for chunk in chunks]
    assert bounds == [(1.0, 2.0), (-math.inf, math.inf), (5.0, 6.0), (-math.inf, math.inf)]
    assert [chunk.has_column_index for chunk in chunks] == [True, False, True, False]
    with open_source(storage, "new") as source:
        groups = read_footer(source).groups
    metadatas = [chunks_of(group)[2][ChunkField.METADATA][1] for group in groups]
    assert [MetadataField.ENCODING_STATISTICS in one for one in metadatas] == [True, False, True, True]
    assert str(pq.read_table(tmp_path / "new")["f"].to_pylist()) == str([1.0, 2.0, math.nan, 3.0, 5.0, 6.0, math.nan])
