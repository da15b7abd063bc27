"""The executor of this process: its limit of memory, its temporary files, its tasks' errors, the data that it takes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from table_format.base_file.footer import footer
from table_format.base_file.reader import read_base_file
from table_format.errors import (
    ArgumentError,
    CorruptFileError,
    HudiError,
    NoSpaceError,
    OptionError,
    RecordError,
    SchemaError,
)
from table_format.threads import _Cores, compute_threads
from table_writer.execution import local
from table_writer.execution.executor import Failure
from table_writer.execution.local import LocalExecutor
from table_writer.execution.sources import ArrowRows, stored_schema
from table_writer.writer import TableWriter
from tests.support.reading import current_paths, current_rows

LIMIT = 16 << 20
OPTIONS = {"hoodie.catalog.write.progress": "false", "hoodie.table.name": "t"}
ROWS = 10_000


def part(number: int, width: int = 200) -> pa.Table:
    ids = np.random.default_rng(number).permutation(ROWS).astype(np.int64) + number * ROWS
    texts = pa.array([f"{n:0{width}}" for n in ids])
    floats = pa.array(np.where(ids % 7 == 0, np.nan, ids / 3), mask=ids % 5 == 0)
    return pa.table({"id": ids, "p": pa.array(np.array(["a", "é/b", ""])[ids % 3]), "x": floats, "t": texts})


def table(folder: Path, executor: LocalExecutor, name: str = "t", **arguments: Any) -> TableWriter:
    settings = {"record_key": "id", "options": OPTIONS} | arguments
    if "index" not in settings:
        settings["buckets"] = 2
    return TableWriter.create(folder / name, None, executor=executor, **settings)


@pytest.fixture
def spills(tmp_path: Path) -> Path:
    folder = tmp_path / "spills"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_rows_beyond_the_limit_wait_in_files_and_memory_stays_near_it(tmp_path: Path, spills: Path) -> None:
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        executor = LocalExecutor(2, memory=LIMIT, folder=str(spills))
        writer = table(tmp_path, executor)
        count = 10 * LIMIT // part(0).nbytes
        summary = writer.bulk_insert(map(part, range(count)), {"hoodie.catalog.write.retries": "0"})
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() <= 1.5 * LIMIT
    assert summary.rows_inserted == count * ROWS
    assert os.listdir(spills) == []
    for path in current_paths(writer.client):
        keys = read_base_file(writer.client.storage, path, ["_hoodie_record_key"])["_hoodie_record_key"]
        whole = keys.combine_chunks()
        assert pc.all(pc.less(whole[:-1], whole[1:])).as_py()
        foot = footer(writer.client.storage, path)
        assert (foot.min_key, foot.max_key) == (whole[0].as_py(), whole[-1].as_py())
        assert foot.bloom is not None
        assert foot.bloom.may_contain(whole.slice(0, 1000)).all()


@pytest.mark.parametrize("tasks", [1, 2, 3, 9])
def test_tasks_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    monkeypatch.setattr(local, "_cores", lambda: 4)
    monkeypatch.setattr(_Cores, "most", 8)
    threads = LocalExecutor(4, memory=1 << 30).map(lambda _: compute_threads(), range(tasks))
    assert threads == [4 // min(4, tasks)] * tasks
    assert compute_threads() == 8


@pytest.mark.parametrize("kind", ["buckets", "RECORD_INDEX"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.slow
def test_what_is_written_does_not_depend_on_the_limit(
    tmp_path: Path, spills: Path, kind: str, partitioned: bool
) -> None:
    arguments = {"index": kind} if kind != "buckets" else {}
    tables = []
    for name, limit in (("small", LIMIT), ("large", 1 << 30)):
        executor = LocalExecutor(2, memory=limit, folder=str(spills))
        writer = table(tmp_path, executor, name, partition_by="p" if partitioned else (), ordering="x", **arguments)
        # one winner a key over the whole batch, the parts of which overlap
        writer.upsert(lambda: pa.RecordBatchReader.from_batches(part(0).schema, _overlapping()))
        writer.upsert(part(1).slice(0, 3000).set_column(3, "t", pa.array(["new"] * 3000)))
        tables.append(
            current_rows(writer.client).select(["id", "p", "x", "t"]).sort_by([("id", "ascending"), ("p", "ascending")])
        )
    assert os.listdir(spills) == []
    assert tables[0].num_rows
    assert tables[0].to_pylist().__repr__() == tables[1].to_pylist().__repr__()  # NaN


def _overlapping() -> Iterator[pa.RecordBatch]:
    for number in range(4):
        yield from part(number).to_batches()
        again = part(number).slice(0, ROWS // 2)
        yield from again.set_column(3, "t", pa.array(["again"] * len(again))).to_batches()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 1])
def test_temporary_files_go_after_an_error(tmp_path: Path, spills: Path, processes: int) -> None:
    writer = table(tmp_path, LocalExecutor(2, memory=LIMIT, folder=str(spills), processes=processes))
    bad = part(40).set_column(0, "id", pa.nulls(ROWS, pa.int64()))
    with pytest.raises(RecordError, match="id must not be null"):
        writer.upsert(part(number) if number < 20 else bad for number in range(21))
    assert os.listdir(spills) == []
    assert current_paths(writer.client) == []


def test_a_full_disk_for_temporary_files_is_named(
    tmp_path: Path, spills: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = table(tmp_path, LocalExecutor(2, memory=LIMIT, folder=str(spills)))

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("table_writer.execution.exchange.pa.ipc.new_stream", full)
    with pytest.raises(NoSpaceError, match="no space left") as raised:
        writer.upsert(map(part, range(20)))
    assert any("hoodie.catalog.executor.folder" in note for note in raised.value.__notes__)
    assert os.listdir(spills) == []


def fails(error: HudiError) -> None:
    raise error


def squared(number: int) -> int:
    return number * number


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.slow
def test_a_tasks_error_keeps_its_class_and_fields(processes: int) -> None:
    executor = LocalExecutor(2, processes=processes)
    assert executor.map(squared, range(5)) == [0, 1, 4, 9, 16]
    error = CorruptFileError("a.parquet", 7, "cut off")
    with pytest.raises(CorruptFileError) as raised:
        executor.map(fails, [error])
    assert str(raised.value) == str(error)
    assert raised.value.__dict__ == error.__dict__


def test_an_error_whose_fields_do_not_pickle_keeps_its_message() -> None:
    error = RecordError("a row")
    error.row = lambda: None  # type: ignore[attr-defined]
    again = Failure.of(error).error()
    assert type(again) is HudiError
    assert "a row" in str(again)


@pytest.mark.slow
def test_processes_write_the_same(tmp_path: Path) -> None:
    writer = table(tmp_path, LocalExecutor(1, processes=2))
    assert writer.upsert(part(0)).rows_inserted == ROWS
    assert current_rows(writer.client).num_rows == ROWS


@pytest.mark.slow
def test_the_writer_does_not_import_pyspark() -> None:
    code = "import sys, table_writer.writer; assert not [m for m in sys.modules if m.startswith(('pyspark', 'py4j'))]"
    subprocess.run([sys.executable, "-c", code], check=True)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "reader": pa.Table.to_reader,
    "generator": lambda rows: (batch for batch in rows.to_batches(max_chunksize=3)),
    "list": lambda rows: rows.to_batches(max_chunksize=3),
    "function": lambda rows: rows.to_reader,
    "stream": lambda rows: _Stream(rows=rows),
    "dataset": pa.dataset.dataset,
    "large and view types": lambda rows: rows.cast(
        pa.schema([("id", pa.large_string()), ("v", pa.int64()), ("d", pa.dictionary(pa.int8(), pa.string()))])
    ),
}


class _Stream:
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", KINDS)
def test_arrow_data_of_every_kind_is_read_again(kind: str) -> None:
    rows = pa.table({"id": [f"k{n}" for n in range(10)], "v": range(10), "d": ["x", "y"] * 5})
    with ArrowRows(KINDS[kind](rows), memory=40) as source:
        assert source.schema == pa.schema([("id", pa.string()), ("v", pa.int64()), ("d", pa.string())])
        for _ in range(2):
            read = [row for chunk in source.chunks(100) for batch in chunk for row in batch.to_pylist()]
            assert read == rows.to_pylist()
        count, sample = source.size()
        assert count == 10
        assert sample.to_pylist() == rows.to_pylist()


@pytest.mark.parametrize(
    ("rows", "remedy"),
    [
        ([{"id": 1}], r"from_pylist"),
        ({"id": [1]}, r"pyarrow.table"),
        ("a.parquet", "dataset"),
        (7, "RecordBatchReader"),
    ],
)
def test_other_data_is_refused_with_what_to_do(rows: Any, remedy: str) -> None:
    with pytest.raises(ArgumentError, match=remedy):
        ArrowRows(rows, memory=1)


def test_times_without_a_zone_are_refused_wherever_they_are() -> None:
    kind = pa.struct([("at", pa.list_(pa.timestamp("us")))])
    with pytest.raises(SchemaError, match=r"'s.at.element'.*time zone"):
        stored_schema(pa.schema([("s", kind)]))


@pytest.mark.parametrize("arguments", [{"threads": 0}, {"processes": -1}, {"memory": 1000}])
def test_numbers_that_are_too_small_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ArgumentError):
        LocalExecutor(**arguments)


def created(folder: Path, **arguments: Any) -> TableWriter:
    return TableWriter.create(folder / "t", part(0).schema, **{"record_key": "id", "options": OPTIONS} | arguments)


def test_three_rows_make_one_file_and_the_number_is_recorded(tmp_path: Path) -> None:
    writer = created(tmp_path)
    assert writer.delete(part(0).select(["id"])).rows_deleted == 0
    assert writer.config.bucket_count is None
    assert writer.upsert(part(0).slice(0, 3).to_reader()).files_written == 1
    assert writer.config.bucket_count == 1
    assert writer.upsert(part(0)).rows_inserted == ROWS - 3
    assert writer.config.bucket_count == 1


@pytest.mark.parametrize(("partition_by", "partitions"), [((), 1), ("p", 3)])
def test_the_first_write_decides_how_many_files_there_are(
    tmp_path: Path, partition_by: tuple[str, ...] | str, partitions: int
) -> None:
    most = 40_000
    writer = created(tmp_path, partition_by=partition_by, options=OPTIONS | {"hoodie.parquet.max.file.size": str(most)})
    summary = writer.bulk_insert(part(0))
    assert writer.config.bucket_count is not None
    assert summary.files_written == partitions * writer.config.bucket_count > partitions
    assert 0.25 < summary.bytes_written / summary.files_written / most < 1.5


def test_a_count_that_was_taken_away_is_not_guessed_anew(tmp_path: Path) -> None:
    writer = created(tmp_path, options=OPTIONS | {"hoodie.metadata.enable": "false"})
    writer.upsert(part(0).slice(0, 3))
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    for path in properties.parent.glob("hoodie.properties*"):
        path.write_text("".join(line for line in path.open() if "num.buckets" not in line and "checksum" not in line))
    for commit in properties.parent.glob("*.commit"):
        commit.write_text(commit.read_text().replace("hoodie.bucket.index.num.buckets", "hoodie.bucket.index.lost"))
    with pytest.raises(OptionError, match=r"hoodie\.bucket\.index\.num\.buckets"):
        TableWriter.open(tmp_path / "t", options=OPTIONS).upsert(part(0))


def test_arrow_keeps_freed_pages_during_writes_only(tmp_path: Path) -> None:
    before = pa.default_memory_pool().backend_name
    writer = table(tmp_path, LocalExecutor(2))
    within = []

    def batches() -> Iterator[pa.Table]:
        yield part(0)  # it is read ahead of the write, for the columns
        within.append(pa.default_memory_pool().backend_name)
        table(tmp_path, LocalExecutor(2), "another").upsert(part(1))
        within.append(pa.default_memory_pool().backend_name)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.upsert(batches())
    assert within == ["jemalloc", "jemalloc"]
    assert pa.default_memory_pool().backend_name == before == "mimalloc"
