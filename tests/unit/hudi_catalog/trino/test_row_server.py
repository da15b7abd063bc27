"""Pages of one large file: filters, keys, tokens whose state was evicted, faults."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog import Table
from catalog.rows import slice_rows
from hudi_catalog.trino import rows as rows_module
from hudi_catalog.trino.index_keys import key_bytes
from hudi_catalog.trino.options import TrinoOptions
from hudi_catalog.trino.rows import RowServer
from hudi_catalog.trino.split_id import TrinoSplit
from hudi_catalog.trino.wire import struct_bytes
from table_format.errors import CorruptFileError, HudiError, ServiceError, SplitError
from tests.support.local_writes import LocalTable
from tests.support.trino_calls import between, domain, points, ranges
from tests.support.trino_served import Pinned, pages, rows_of, splits_of
from tests.unit.conftest import GoldenTable

Golden = Callable[[str], GoldenTable]
ROWS = 6_000
FIELDS: list[tuple[str, pa.DataType]] = [
    ("n", pa.int64()),
    ("x", pa.float64()),
    ("s", pa.string()),
    ("t", pa.timestamp("us", "UTC")),
    ("d", pa.decimal128(9, 2)),
    ("odd", pa.list_(pa.string())),
]
SCHEMA = pa.schema(FIELDS)


def contents() -> pa.Table:
    numbers = range(ROWS)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "x": pa.array([number / 4 for number in numbers]),
            "s": pa.array([None if number % 7 == 0 else "x" * (number % 13) for number in numbers]),
            "t": pa.array([number * 500 for number in numbers], pa.timestamp("us", "UTC")),
            "d": pa.array(numbers, pa.int32()).cast(pa.decimal128(12, 2)).cast(pa.decimal128(9, 2)),
            "odd": pa.array([[str(number)] for number in numbers]),
        },
        SCHEMA,
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("rows") / "numbers")
    options = {
        "hoodie.table.name": "numbers",
        "hoodie.datasource.write.recordkey.field": "n",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.parquet.block.size": "60000",
    }
    LocalTable.create(folder, SCHEMA, options).write("bulk_insert", contents())
    return folder


class Served:
    """The table behind a server, its one split, and the rows in the order of the file."""

    def __init__(self, path: str, **options: Any) -> None:
        self.table = Table.open(path)
        self.snapshot = self.table.snapshot()
        self.server = RowServer(Pinned(self.snapshot), TrinoOptions(**options))
        (self.split,) = splits_of(self.table, self.snapshot)
        self.file = Path(path) / str(self.split.slices[0].base)

    def order(self) -> list[int]:
        numbers: list[Any] = pq.read_table(self.file, columns=["n"])["n"].to_pylist()
        return numbers

    def numbers(self, split: TrinoSplit | None = None, max_bytes: int = 1 << 20) -> list[int]:
        return [row[0] for row in rows_of(self.server, split or self.split, ["n"], max_bytes)]


@pytest.fixture(scope="module")
def served(path: str) -> Served:
    return Served(path)


def constrained(split: TrinoSplit, **columns: Any) -> TrinoSplit:
    return replace(split, constraint=struct_bytes(domain(**columns)))


def test_the_file_has_row_groups(served: Served) -> None:
    """What the other tests count on."""
    assert pq.ParquetFile(served.file).num_row_groups > 5
    assert served.numbers() == served.order()


def test_rows_meet_the_constraint(served: Served) -> None:
    split = constrained(served.split, n=ranges(between("bigint", 100, 1_200)), x=points("double", 30.0, 31.0, 9999.0))
    assert served.numbers(split) == [number for number in served.order() if number in {120, 124}]
    assert rows_of(served.server, split, ["s", "n"]) == [(b"x" * (n % 13), n) for n in served.numbers(split)]
    assert rows_of(served.server, split, []) == [()] * 2


def test_row_groups_are_left_out_by_the_constraint(served: Served) -> None:
    read: list[int] = []
    wrapped = pq.ParquetFile.iter_batches

    def counted(file: Any, *arguments: Any, **named: Any) -> Any:
        read.extend(named["row_groups"])
        return wrapped(file, *arguments, **named)

    split = constrained(served.split, n=points("bigint", 3_000))
    with mock.patch.object(pq.ParquetFile, "iter_batches", counted):
        assert served.numbers(split) == [3_000]
    assert 1 <= len(read) < pq.ParquetFile(served.file).num_row_groups


def test_only_the_columns_asked_for_and_filtered_are_read(served: Served) -> None:
    asked: list[list[str]] = []
    wrapped = pq.ParquetFile.iter_batches

    def noted(file: Any, *arguments: Any, **named: Any) -> Any:
        asked.append(named["columns"])
        return wrapped(file, *arguments, **named)

    with mock.patch.object(pq.ParquetFile, "iter_batches", noted):
        rows_of(served.server, constrained(served.split, n=points("bigint", 5)), ["s"])
    assert {tuple(columns) for columns in asked} == {("n", "s")}


def test_a_constraint_that_is_not_understood_filters_nothing(served: Served) -> None:
    split = constrained(served.split, d=ranges(between("varchar", "1", "2")), gone=points("bigint", 1))
    assert served.numbers(split) == served.order()


def test_counts_need_no_column(served: Served) -> None:
    with mock.patch.object(rows_module, "slice_batches", side_effect=AssertionError("rows were read")):
        assert len(rows_of(served.server, served.split, [])) == ROWS


def test_some_row_groups(served: Served) -> None:
    metadata = pq.ParquetFile(served.file).metadata
    counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    (split,) = splits_of(served.table, served.snapshot, row_groups=(1, 4))
    expected = served.order()
    wanted = expected[counts[0] : sum(counts[:2])] + expected[sum(counts[:4]) : sum(counts[:5])]
    for most in (1 << 20, 900):
        assert served.numbers(split, most) == wanted
    assert len(rows_of(served.server, split, [])) == len(wanted)
    wrong = constrained(split, n=points("bigint", wanted[3], next(n for n in expected if n not in wanted)))
    assert served.numbers(wrong) == [wanted[3]]


@pytest.mark.slow
@settings(max_examples=40)
@given(
    most=st.integers(400, 4_000), batch=st.sampled_from([1, 7, 100, 5_000]), keep=st.booleans(), narrow=st.booleans()
)
def test_pages_do_not_depend_on_what_is_kept(served: Served, most: int, batch: int, keep: bool, narrow: bool) -> None:
    options = TrinoOptions(batch_rows=batch) if keep else TrinoOptions(batch_rows=batch, cursor_memory=0)
    few = constrained(served.split, n=ranges(between("bigint", 900, 950), between("bigint", 3_100, 3_105)))
    split = few if narrow else replace(served.split, slices=(replace(served.split.slices[0], row_groups=(3,)),))
    rows = rows_of(RowServer(Pinned(served.snapshot), options), split, ["n", "s"], most)
    assert rows == rows_of(served.server, split, ["n", "s"])
    assert rows


def test_a_page_can_be_asked_for_twice(served: Served) -> None:
    seals: list[int] = []

    def seal(after: int) -> bytes:
        seals.append(after)
        return b"t"

    def page(position: int) -> bytes:
        return b"".join(served.server.page(served.split, ["n"], 5_000, position, seal).parts)

    first = page(0)
    second = page(seals[0])
    assert (page(0), page(seals[0])) == (first, second)
    assert first != second
    served.server.close()
    assert page(seals[0]) == second


def test_readers_of_equal_splits_read_each_row_once(served: Served) -> None:
    read = 0

    def noted(*arguments: Any, **named: Any) -> Iterator[tuple[int, pa.Table]]:
        nonlocal read
        for first, table in slice_rows.slice_batches(*arguments, **named):
            read += table.num_rows
            yield first, table

    server = RowServer(Pinned(served.snapshot), TrinoOptions(batch_rows=100))
    with mock.patch.object(rows_module, "slice_batches", noted):
        readers = [pages(server, served.split, ["n"], 5_000) for _ in range(3)]
        taken = [list(together) for together in zip(*readers, strict=True)]
    assert len(taken) > 5
    assert read == 3 * ROWS


def test_a_row_that_is_larger_than_a_frame_is_refused_with_the_remedy(served: Served) -> None:
    server = RowServer(Pinned(served.snapshot), TrinoOptions(frame_size=300))
    with pytest.raises(ServiceError, match=r"a row of \d+ bytes is larger than a frame .* 300 bytes: .*max-frame-size"):
        list(pages(server, served.split, ["n", "s"], 1))


def test_files_are_closed(served: Served) -> None:
    def open_files() -> int:
        return sum(
            "numbers" in os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)
        )

    served.server.close()
    assert open_files() == 0
    server = RowServer(Pinned(served.snapshot))
    for _ in range(20):  # scans of one query that read equal splits
        server.page(served.split, ["n"], 5_000, 0, lambda _: b"t")
    assert open_files() == 8
    server.close()
    assert open_files() == 0
    server.page(served.split, ["n"], 1 << 20, 0, lambda _: b"t")
    assert open_files() == 0
    with pytest.raises(ServiceError):
        server.page(served.split, ["n", "t"], 1 << 20, 0, lambda _: b"t")
    assert open_files() == 0


def _is_link(fd: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{fd}")


def test_a_page_in_which_nothing_matches_does_not_take_forever(served: Served) -> None:
    server = RowServer(Pinned(served.snapshot), TrinoOptions(batch_rows=300))
    split = constrained(served.split, s=points("varchar", "never"))
    split = replace(split, slices=split.slices * 2)
    assert [count for count, _ in pages(server, split, ["n"])] == [0]
    everything = constrained(served.split, x=ranges(between("double", -1.0, 1e9)))
    forgetful = RowServer(Pinned(served.snapshot), TrinoOptions(batch_rows=300, cursor_memory=0))
    with mock.patch.object(rows_module, "_PAGE_SECONDS", 0.0):
        assert len(list(pages(server, replace(everything, slices=split.slices), ["n"]))) > 2 * ROWS // 300
        for one in (server, forgetful):
            assert [row[0] for row in rows_of(one, everything, ["n"])] == served.order()


def test_several_slices(served: Served) -> None:
    both = replace(served.split, slices=served.split.slices * 2)
    assert served.numbers(both, 3_000) == served.order() * 2
    forgetful = RowServer(Pinned(served.snapshot), TrinoOptions(cursor_memory=0))
    assert [row[0] for row in rows_of(forgetful, both, ["n"], 20_000)] == served.order() * 2
    split = constrained(both, n=points("bigint", 5, 4_000))
    assert served.numbers(split, 300) == served.numbers(split)
    assert sorted(served.numbers(split)) == [5, 5, 4_000, 4_000]


def keyed(split: TrinoSplit, **columns: pa.Array[Any]) -> TrinoSplit:
    keys = pa.table(dict(columns))
    return replace(split, key_columns=tuple(columns), keys=key_bytes(keys))


def test_rows_with_keys(served: Served) -> None:
    split = keyed(served.split, n=pa.array([5, 17, 4_242, -1], pa.int64()))
    assert sorted(served.numbers(split)) == [5, 17, 4_242]
    assert sorted(rows_of(served.server, split, ["d"])) == [(5.0,), (17.0,), (4242.0,)]
    assert len(rows_of(served.server, split, [])) == 3
    pairs = keyed(served.split, n=pa.array([5, 17], pa.int64()), d=pa.array([5.0, 5.0]))
    assert served.numbers(pairs) == [5]
    both = constrained(split, n=ranges(between("bigint", 10, 100)))
    assert served.numbers(both) == [17]
    assert served.numbers(keyed(served.split, s=pa.array([], pa.string()))) == []


@contextlib.contextmanager
def row_groups_read() -> Iterator[list[int]]:
    """Ordinals of the row groups that a block reads, as it does."""
    read: list[int] = []
    wrapped = pq.ParquetFile.iter_batches

    def counted(file: Any, *arguments: Any, **named: Any) -> Any:
        read.extend(named["row_groups"])
        return wrapped(file, *arguments, **named)

    with mock.patch.object(pq.ParquetFile, "iter_batches", counted):
        yield read


def test_row_groups_are_left_out_by_keys(served: Served) -> None:
    metadata = pq.ParquetFile(served.file).metadata
    split = keyed(served.split, n=pa.array([-5, 3_000], pa.int64()))
    with row_groups_read() as read:
        assert served.numbers(split) == [3_000]
        assert 1 <= len(read) < metadata.num_row_groups
        read.clear()
        assert served.numbers(keyed(served.split, n=pa.array([-5], pa.int64()))) == []
        assert not read


@pytest.mark.parametrize("column", ["gone", "N", ""])
def test_a_column_that_is_not_there(served: Served, column: str) -> None:
    with pytest.raises(ServiceError, match=f"no column {column} "):
        rows_of(served.server, served.split, ["n", column])


def test_a_column_that_cannot_be_served(served: Served) -> None:
    with pytest.raises(ServiceError, match=r"column 't' .*type\.timestamp"):
        rows_of(served.server, served.split, ["t"])
    options = TrinoOptions.parse({"hoodie.catalog.trino.type.nested": "error"})
    server = RowServer(Pinned(served.snapshot), options)
    with pytest.raises(ServiceError, match=r"column 'odd' cannot be read: .*type\.nested"):
        rows_of(server, served.split, ["n", "odd"])
    assert len(rows_of(server, served.split, ["n"])) == ROWS


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../numbers2/x.parquet", "a/../../x.parquet", "./x.parquet", "a//b", "..", "a\0b"]
)
def test_no_file_outside_the_table_is_opened(served: Served, name: str) -> None:
    piece = served.split.slices[0]
    storage = served.snapshot.client.storage
    with mock.patch.object(type(storage), "open_input", side_effect=AssertionError("a file was opened")):
        for bad in (replace(piece, base=name), replace(piece, logs=((name, 1),))):
            with pytest.raises(SplitError, match="not inside the table"):
                rows_of(served.server, replace(served.split, slices=(bad,)), ["n"])


def test_a_file_that_is_gone(path: str, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "numbers")
    served = Served(str(tmp_path / "numbers"))
    served.file.unlink()
    for columns in (["n"], []):
        with pytest.raises(SplitError, match=r"numbers: .*no such file.*run it again"):
            rows_of(served.server, served.split, columns)


def test_a_damaged_file(path: str, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "numbers")
    served = Served(str(tmp_path / "numbers"))
    data = bytearray(served.file.read_bytes())
    data[len(data) // 3 : len(data) // 2] = bytes(len(data) // 2 - len(data) // 3)
    served.file.write_bytes(data)
    with pytest.raises(HudiError):
        rows_of(served.server, served.split, ["n", "x", "s"])
    served.file.write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptFileError, match="not a whole Parquet file"):
        rows_of(served.server, served.split, ["n"])


def test_threads(served: Served) -> None:
    server = RowServer(Pinned(served.snapshot), TrinoOptions(batch_rows=500))
    expected = rows_of(served.server, served.split, ["n", "s"])
    start = threading.Barrier(6)

    def read(number: int) -> bool:
        start.wait()
        return rows_of(server, served.split, ["n", "s"], 2_000 + 10 * (number % 2)) == expected

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(read, range(6)))


def test_merged_slices_with_a_constraint(golden: Golden) -> None:
    table = golden("v9_1200__mor_log").open()
    snapshot = table.snapshot()
    server = RowServer(Pinned(snapshot), TrinoOptions.parse({"hoodie.catalog.trino.type.timestamp": "truncate"}))
    keys: list[Any] = table.scan(columns=["_hoodie_record_key"]).to_arrow()["_hoodie_record_key"].to_pylist()
    assert any(snapshot.has_logs)
    rows: list[Any] = []
    for split in splits_of(table, snapshot):
        chosen = constrained(split, hoodie_record_key=points("varchar", *keys[:5]))
        rows += rows_of(server, chosen, ["hoodie_record_key"], 350)
    assert sorted(rows) == sorted((key.encode(),) for key in keys if key in set(keys[:5]))


def test_merged_slices_are_read_in_pieces(golden: Golden) -> None:
    table = golden("v9_1200__mor_log").open()
    snapshot = table.snapshot()
    (row,) = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]][:1].tolist()
    files = snapshot.file_slice(row)
    whole = slice_rows.slice_rows(snapshot, row, snapshot.schema.names)
    pieces = list(slice_rows.slice_batches(snapshot, files, snapshot.schema.names, start=1, batch_rows=3))
    assert [at for at, _ in pieces] == list(range(1, len(whole), 3))
    assert pa.concat_tables(piece for _, piece in pieces).equals(whole.slice(1))


def test_positions_are_those_of_all_rows(served: Served) -> None:
    """A page may be asked for when the constraint of its scan is no longer known."""
    order = served.order()
    files = served.snapshot.file_slice(int(served.snapshot.live_rows[0]))
    for groups in (None, (0, 3), (5,), (1, 2, 4)):
        part = replace(files, row_groups=groups)
        pieces = slice_rows.slice_batches(served.snapshot, part, ["n"], start=7, batch_rows=50)
        numbered = [(at, piece.column("n").to_pylist()) for at, piece in pieces]
        assert numbered
        assert all(order[at : at + len(numbers)] == numbers for at, numbers in numbered)
        assert numbered[0][0] >= 7


def test_row_groups_of_a_part_are_left_out_by_the_constraint(served: Served) -> None:
    metadata = pq.ParquetFile(served.file).metadata
    counts = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
    third = served.order()[sum(counts[:3]) : sum(counts[:4])]
    names = constrained(served.split, hoodie_record_key=points("varchar", str(third[1])))
    part = replace(names, slices=(replace(names.slices[0], row_groups=(0, 3, 5)),))
    with row_groups_read() as read:
        assert served.numbers(part) == [third[1]]
    assert read == [3]
