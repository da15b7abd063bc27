"""Copies of file slices for Hive: when they are made, what they hold, and when they are deleted."""

import os
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import Table
from catalog.rows.slice_rows import slice_batches, slice_rows
from catalog.table import READ_OPTIMIZED, SNAPSHOT
from hudi_catalog.hive import materialization, materialized_files
from hudi_catalog.hive.materialization import Materializer, SliceNames, folder_name
from hudi_catalog.hive.materialized_files import MaterializedFile, MaterializedFiles
from table_format.errors import StorageError
from table_format.storage import Storage
from table_writer.encoding.base_file import BaseFileOptions
from tests.support.golden_renames import RELEASES, lay_out
from tests.support.hive_client import Asking, RefusedError, read
from tests.support.paths import GOLDEN
from tests.unit.conftest import GoldenTable

MERGED = ("v6_0150__mor_bkt", "v6_1200__mor_pending", "v8_1020__mor_log", "v9_1200__mor_bkt", "v9_1200__mor_pending")
WITH_PAST = ("v6_0150__mor_log", "v6_1200__mor_pending", "v8_1020__mor_pending", "v9_1200__mor_log")
QUERY_TYPE, MATERIALIZE = "hoodie.catalog.hive.query.type", "hoodie.catalog.hive.materialize"
AS_SNAPSHOT = {QUERY_TYPE: "snapshot"}
NOT = {MATERIALIZE: "false"}
Copied = Callable[..., str]
FOLDER = ".hoodie/.catalog/hive"


def row_texts(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, table.to_pylist()))


def asked(path: str, **fields: Any) -> pa.Table:
    """What Hive reads by names: columns that a file lacks are null."""
    folder, schema = Path(path), Table.open(path).schema
    splits = Asking(folder.parent).splits(folder.name, **fields).splits
    tables = [read([split], schema.names) for split in splits]
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default").select(schema.names)


def made(path: str) -> list[Path]:
    return sorted(Path(path, FOLDER).glob("*/*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("name", MERGED)
def test_rows_of_log_files(name: str, copied: Copied, golden: Callable[[str], GoldenTable]) -> None:
    path = copied(name)
    table = Table.open(path)
    assert row_texts(asked(path, settings=AS_SNAPSHOT)) == row_texts(table.scan().to_arrow())
    assert len(asked(path, settings=AS_SNAPSHOT)) == len(golden(name).rows)
    snapshot = table.snapshot()
    assert len(made(path)) == int(snapshot.has_logs[snapshot.live_rows].sum()) > 0
    # rows were nowhere written to but there
    assert row_texts(asked(path)) == row_texts(table.scan(query_type=READ_OPTIMIZED).to_arrow())


def test_without_copies_the_reason_is_told(copied: Copied) -> None:
    path = copied("v9_1200__mor_log")
    with pytest.raises(RefusedError, match=r"log files change .*read_optimized.*hive.materialize=true"):
        asked(path, settings=AS_SNAPSHOT | NOT)
    assert made(path) == []
    asked(path, settings=NOT)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PAST)
def test_a_name_stands_for_one_content(name: str, golden: Callable[[str], GoldenTable]) -> None:
    """Over the states that a table had: a file that one of them made must be right for any other that takes it."""
    table = golden(name).open()
    names = SliceNames()
    content: dict[tuple[str, str], Counter[str]] = {}
    states = [write.time for write in table.snapshot().timeline.writes]
    snapshots = [table.snapshot()]
    for when in states:
        for kind in (SNAPSHOT, READ_OPTIMIZED):
            try:
                snapshots.append(table.snapshot(when, kind))
            except ValueError:
                continue  # cleaned away
    seen = 0
    for snapshot in snapshots:
        for row in snapshot.live_rows.tolist():
            key = (folder_name(snapshot), names.name(snapshot, snapshot.file_slice(row)))
            rows = row_texts(slice_rows(snapshot, row, snapshot.schema.names))
            assert content.setdefault(key, rows) == rows
            seen += 1
    assert len(content) < seen


def test_blocks_that_count_later_change_the_name(copied: Copied) -> None:
    """In table version 6 a log file may hold blocks of a write that is not complete yet."""
    table = Table.open(copied("v6_0150__mor_log"))
    snapshot = table.snapshot()
    row = next(row for row in snapshot.live_rows.tolist() if snapshot.has_logs[row])
    files = snapshot.file_slice(row)
    earlier = table.snapshot(files.instant)
    assert SliceNames().name(earlier, files) != SliceNames().name(snapshot, files)


@pytest.mark.parametrize("release", RELEASES)
def test_a_name_that_was_given_again_since(release: str, tmp_path: Path) -> None:
    """`name` became `title`, whose older files keep the old name; later there was another `name`."""
    path, _ = lay_out(release, str(tmp_path / "warehouse"))
    table = Table.open(path)
    between = next(
        write.time
        for write in table.snapshot().timeline.writes
        if not {"name", "old"} <= set(table.snapshot(write.time).schema.names)
    )
    past = {"hoodie.catalog.hive.as.of": between}
    entry = {"hoodie.catalog.hive.columns": "id,name", "hoodie.catalog.hive.columns.types": "bigint:string"}
    asking = Asking(Path(path).parent)
    with pytest.raises(RefusedError, match=rf"column name is not in .* {between}, but older files hold another one"):
        asking.splits(Path(path).name, settings=past | entry, columns=["id", "name"])
    assert asking.splits(Path(path).name, settings=past | entry, columns=["id"]).splits


@pytest.mark.parametrize("release", RELEASES)
def test_renamed_columns(release: str, tmp_path: Path) -> None:
    path, _ = lay_out(release, str(tmp_path / "warehouse"))
    table = Table.open(path)
    assert row_texts(asked(path)) == row_texts(table.scan().to_arrow())
    before = made(path)
    assert 0 < len(before) <= len(table.snapshot().live_rows)
    with pytest.raises(RefusedError, match="have it otherwise"):
        asked(path, settings=NOT)
    folder = Path(path)
    whole = Asking(folder.parent).splits(folder.name, settings=NOT, columns=["id"])
    assert set(read(whole.splits, ["id"])["id"].to_pylist()) == {1, 2, 3, 4}


def test_partition_columns_that_files_lack(copied: Copied) -> None:
    path = copied("v6_0150__bkt_hive", {"hoodie.datasource.write.drop.partition.columns": "true"}, metadata_table=False)
    (column,) = Table.open(path).config.partition_fields
    for file in Path(path).glob("**/*.parquet"):
        if ".hoodie" not in file.parts:
            pq.write_table(pq.read_table(file, partitioning=None).drop_columns([column]), file)
    with pytest.raises(RefusedError, match=f"partition column .*{column}"):
        asked(path, settings=NOT)
    assert row_texts(asked(path)) == row_texts(Table.open(path).scan().to_arrow())


@pytest.mark.parametrize("name", ["blb_mor", "vec_mor"])
def test_structs_that_are_null_and_whose_fields_are_required(name: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "hudi_types.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = str(tmp_path / name)
    read_by_hive = asked(path, settings=AS_SNAPSHOT)
    assert read_by_hive["x"].null_count == 1
    assert row_texts(read_by_hive) == row_texts(Table.open(path).scan().to_arrow())


def test_a_column_that_is_not_read_does_no_harm(copied: Copied) -> None:
    path = copied("v6_0150__bkt_hive", metadata_table=False)
    names = Table.open(path).snapshot().data_schema
    column = next(field.name for field in names if field.type == pa.float64())
    for file in Path(path).glob("**/*.parquet"):
        if ".hoodie" not in file.parts:
            table = pq.read_table(file, partitioning=None)
            place = table.column_names.index(column)
            whole = table.column(column).cast(pa.int32(), safe=False)
            pq.write_table(table.set_column(place, column, whole), file)
    folder = Path(path)
    asking = Asking(folder.parent)
    for columns in ([], ["_hoodie_record_key"]):
        splits = asking.splits(folder.name, columns=columns, settings=NOT).splits
        assert all(FOLDER not in split.path for split in splits)
    with pytest.raises(RefusedError, match=rf"have it as int32 \(column {column.lower()}\)"):
        asking.splits(folder.name, columns=[column.lower()], settings=NOT)
    splits = asking.splits(folder.name, columns=[column.lower()]).splits
    assert all(FOLDER in split.path for split in splits)
    assert row_texts(read(splits, [column])) == row_texts(Table.open(path).scan(columns=[column]).to_arrow())


def test_files_that_cannot_be_looked_at_are_not_taken_for_right(copied: Copied) -> None:
    path = copied("v6_0150__bkt_hive", metadata_table=False)
    for file in Path(path).glob("**/*.parquet"):
        if ".hoodie" not in file.parts:
            file.write_bytes(b"damaged")
    folder = Path(path)
    with pytest.raises(RefusedError, match="not a whole Parquet file"):
        Asking(folder.parent).splits(folder.name)
    assert made(path) == []


def test_a_slice_without_rows(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied("v9_1200__mor_log")
    batches = slice_batches
    monkeypatch.setattr(
        materialization, "slice_batches", lambda *a: ((at, rows.slice(0, 0)) for at, rows in batches(*a))
    )
    splits = asked(path, settings=AS_SNAPSHOT)
    snapshot = Table.open(path).snapshot()
    plain = sum(
        len(slice_rows(snapshot, row, ["_hoodie_record_key"]))
        for row in snapshot.live_rows.tolist()
        if not snapshot.has_logs[row]
    )
    assert len(splits) == plain


def test_large_slices_have_several_row_groups(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied("v6_0150__mor_log")
    small = BaseFileOptions(block_size=2000)
    monkeypatch.setattr(materialization, "_OPTIONS", small)
    batches = slice_batches
    monkeypatch.setattr(materialization, "slice_batches", lambda *a: batches(*a, batch_rows=10))
    assert row_texts(asked(path, settings=AS_SNAPSHOT)) == row_texts(Table.open(path).scan().to_arrow())
    assert max(pq.ParquetFile(file).num_row_groups for file in made(path)) > 1
    footer: Any = pq.ParquetFile(made(path)[0]).metadata
    assert footer.metadata[b"writer.date.proleptic"] == b"true"
    assert footer.row_group(0).column(0).statistics.has_min_max


@pytest.fixture
def log_table(copied: Copied) -> str:
    return copied("v9_1200__mor_bkt")


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the files that were written."""
    paths: list[str] = []
    write = materialization.write_slice

    def slowly(snapshot: Any, files: Any, path: str) -> int:
        paths.append(path)
        time.sleep(0.05)
        return write(snapshot, files, path)

    monkeypatch.setattr(materialization, "write_slice", slowly)
    return paths


@pytest.fixture
def making() -> Iterator[Callable[..., Materializer]]:
    begun: list[Materializer] = []

    def begin(retention: float = 1000.0, threads: int = 2) -> Materializer:
        begun.append(Materializer(retention, threads))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def test_many_queries_and_services_make_a_copy_once(
    log_table: str, writes: list[str], making: Callable[..., Materializer]
) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    services = [making(), making(), making()]
    with ThreadPoolExecutor(9) as pool:
        copies = list(pool.map(lambda number: services[number % 3].of(snapshot, rows), range(27)))
    paths = [[one.path for one in several] for several in copies]
    assert all(one == paths[0] for one in paths)
    assert len(writes) == len(set(paths[0])) == len(made(log_table)) > 1
    later = making().of(Table.open(log_table).snapshot(), rows)
    assert [one.path for one in later] == paths[0]
    assert sorted(path.suffix for path in Path(log_table, FOLDER).glob("*/*")) == [".parquet"] * len(rows)


def test_new_commits_leave_other_slices_copies(
    log_table: str, writes: list[str], making: Callable[..., Materializer]
) -> None:
    table = Table.open(log_table)
    copies_ = making()
    times = [write.time for write in table.snapshot().timeline.writes]
    for when in [*times[-2:], None]:
        snapshot = table.snapshot(when)
        copies_.of(snapshot, snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]])
    assert len(writes) == len({path.split("/")[-1].split(".")[0] for path in writes})


def aged(path: str | Path, seconds: float) -> None:
    when = time.time() - seconds
    os.utime(path, (when, when))


def test_what_nobody_uses_goes(log_table: str, making: Callable[..., Materializer]) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    making().of(snapshot, rows)
    kept, used, dying, gone = made(log_table)[:4]
    aged(used, 2000)
    Path(f"{used}.used").write_bytes(b"")
    for path, age in ((dying, 900), (gone, 1100)):
        aged(path, age)
        Path(f"{path}.used").write_bytes(b"")
        aged(f"{path}.used", age)
    leftovers = [kept.with_suffix(".00.parquet.writing"), kept.with_suffix(".making")]
    for path in leftovers:
        path.write_bytes(b"")
        aged(path, 100_000)
    busy = kept.with_suffix(".11.parquet.writing")
    busy.write_bytes(b"")
    assert MaterializedFiles(snapshot.client.storage, 1000.0).clean() == 1
    assert [path.exists() for path in (kept, used, dying, gone, busy, *leftovers)] == [
        *(True, True, True, False, True),
        *(False, False),
    ]
    assert not Path(f"{gone}.used").exists()
    # one that may go soon is used by nobody any more, so no query finds it gone
    again = {one.path for one in making().of(snapshot, rows)}
    assert str(dying.relative_to(log_table)) not in again
    assert str(used.relative_to(log_table)) in again
    assert len(again) == len(rows)


def test_use_is_told_to_other_processes(log_table: str, making: Callable[..., Materializer]) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    making().of(snapshot, rows)
    for path in made(log_table):
        aged(path, 300)
    service = making()
    service.of(snapshot, rows)
    service.close()
    assert all(Path(f"{path}.used").exists() for path in made(log_table))
    for path in made(log_table):
        aged(path, 3000)
    assert MaterializedFiles(snapshot.client.storage, 1000.0).clean() == 0


def test_a_service_cleans_up_by_itself(log_table: str, making: Callable[..., Materializer]) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    making().of(snapshot, rows)
    (one, *_) = made(log_table)
    aged(one, 2000)
    service = making()
    service.of(snapshot, rows[:0])
    service.close()
    assert not one.exists()


def test_one_whose_maker_died_is_made_by_another(log_table: str, making: Callable[..., Materializer]) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]][:1]
    claim = Path(
        log_table,
        FOLDER,
        folder_name(snapshot),
        SliceNames().name(snapshot, snapshot.file_slice(rows[0])) + ".making",
    )
    claim.parent.mkdir(parents=True)
    claim.write_bytes(b"")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(making().of, snapshot, rows)
        time.sleep(0.3)
        assert not waiting.done()
        aged(claim, 100)
        assert Path(log_table, waiting.result(10)[0].path).exists()
    assert not claim.exists()


def test_a_copy_that_fails_leaves_nothing(
    log_table: str, making: Callable[..., Materializer], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    service = making()

    class FullDisk:
        def __init__(self, *_args: Any, **_more: Any) -> None: ...

        def __enter__(self) -> Any:
            raise OSError(28, "No space left on device")

        def __exit__(self, *_args: object) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(materialization.parquet, "ParquetWriter", FullDisk)
        with pytest.raises(StorageError, match=r"\.writing: cannot be written: .*No space left"):
            service.of(snapshot, rows)
        service.close()
    assert [*Path(log_table, FOLDER).glob("*/*")] == []
    assert len(making().of(snapshot, rows)) == len(rows)


def test_a_folder_that_cannot_be_written(copied: Copied) -> None:
    path = copied("v9_1200__mor_bkt")
    Path(path, ".hoodie/.catalog").write_bytes(b"no folder")
    with pytest.raises(RefusedError, match=r"materialized files for Hive.*let the service write to the table's folder"):
        asked(path, settings=AS_SNAPSHOT)


def test_a_file_that_is_gone_is_an_error(log_table: str, making: Callable[..., Materializer]) -> None:
    snapshot = Table.open(log_table).snapshot()
    rows = snapshot.live_rows[snapshot.has_logs[snapshot.live_rows]]
    Path(log_table, snapshot.file_slice(rows[0]).logs[0][0]).unlink()
    with pytest.raises(StorageError, match="no such file"):
        making().of(snapshot, rows)


def test_finding_takes_the_one_used_last(tmp_path: Path) -> None:
    storage = Storage(str(tmp_path))
    folder = tmp_path / FOLDER / "f"
    folder.mkdir(parents=True)
    for number, age in (("0", 90), ("1", 10), ("2", 200)):
        (folder / f"s.{number}.parquet").write_bytes(b"")
        aged(folder / f"s.{number}.parquet", age)
    (folder / "s.3.parquet.writing").write_bytes(b"")
    (folder / "t.0.parquet").write_bytes(b"")
    aged(folder / "t.0.parquet", 600)
    files = MaterializedFiles(storage, 1000.0).find("f")
    assert [(name, one.path) for name, one in files.items()] == [("s", f"{FOLDER}/f/s.1.parquet")]
    assert MaterializedFiles(storage, 1000.0).find("g") == {}
    assert materialized_files.FOLDER == FOLDER
    assert isinstance(files["s"], MaterializedFile)
