"""Column statistics and bloom filters: kept by each commit, built, rebuilt and dropped while others write."""

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_catalog.table import Table, create_table, open_table
from table_format.base_file.bloom import parse_bloom
from table_format.errors import CorruptFileError, MissingFileError, OptionError, TransactionError
from table_format.metadata_table import layout
from table_format.metadata_table.reader import MetadataTable
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer import indexing
from table_writer.indexing import FOLDER, build_file_index, drop_index
from table_writer.metadata.compaction import MAX_DELTA_COMMITS_KEY
from table_writer.metadata.file_contents import Place
from tests.support.faults import FaultyStorage, dying, overtaken

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64()), ("w", pa.float64())])
COLUMNS = "hoodie.metadata.index.column.stats.column.list"
WITH_FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
INDEXES = (layout.BLOOM_FILTERS, layout.COLUMN_STATS)


def rows(first: int, last: int, v: int = 0) -> pa.Table:
    numbers = range(first, last)
    columns = [
        [f"k{n:04d}" for n in numbers],
        [f"p{n % 2}" for n in numbers],
        [v] * len(numbers),
        [n / 2 for n in numbers],
    ]
    return pa.table(columns, schema=SCHEMA)


def make(path: Path, options: dict[str, str] | None = None) -> Table:
    table = create_table(path, SCHEMA, record_key="id", partition_by="p", buckets=2, options=options)
    table.upsert(rows(0, 40))
    return table


def indexed(client: TableClient) -> tuple[set[str], set[str], set[str]]:
    """Files of the listing, those with a right bloom filter, those with statistics of all indexed columns."""
    metadata = MetadataTable.open(client, client.timeline())
    assert metadata is not None
    files = metadata.files()
    filters = metadata.bloom_filters(files.select(["partition", "file_name"]))
    raw = metadata.column_stats_raw()
    columns = set(raw["column"].to_pylist())
    listed = set(files["file_name"].to_pylist())
    right = set()
    for row in [] if filters is None else filters.to_pylist():
        keys = pa.array(_keys(client, row["partition"], row["file_name"]), pa.string())
        if parse_bloom(row["bloom"], row["type"], row["file_name"]).may_contain(keys).all():
            right.add(row["file_name"])
    known: dict[str, set[str]] = {}
    for name, column in zip(raw["file_name"].to_pylist(), raw["column"].to_pylist(), strict=True):
        known.setdefault(name, set()).add(column)
    return listed, right, {name for name, names in known.items() if names == columns}


def _keys(client: TableClient, partition: str, name: str) -> list[str]:
    table = pq.read_table(client.storage.full_path(f"{partition}/{name}"), columns=["_hoodie_record_key"])
    return table["_hoodie_record_key"].to_pylist()


def assert_complete(client: TableClient, *indexes: str) -> None:
    client = TableClient.open(client.storage)
    listed, filtered, known = indexed(client)
    assert set(client.config.metadata_partitions) - {"record_index"} == {*indexes, layout.FILES}
    assert filtered == (listed if layout.BLOOM_FILTERS in indexes else set())
    assert known == (listed if layout.COLUMN_STATS in indexes else set())
    assert not [entry.path for entry in client.storage.list(FOLDER, recursive=True) if not entry.is_dir]


def test_each_commit_keeps_the_filters_that_a_table_has(tmp_path: Path) -> None:
    often = {MAX_DELTA_COMMITS_KEY: "2", "hoodie.clean.commits.retained": "1"}
    table = make(tmp_path / "t", {**WITH_FILTERS, **often})
    client = TableClient.open(tmp_path / "t")
    assert_complete(client, *INDEXES)
    for number in range(5):
        table.upsert(rows(number, number + 3, number))
    table.insert_overwrite(rows(0, 4, 9))
    target = table.savepoint().instant
    table.delete(rows(1, 2).select(["id", "p"]))
    assert_complete(client, *INDEXES)
    table.restore(target)
    table.upsert(rows(100, 130))
    assert_complete(client, *INDEXES)
    dropped = {stage.name: stage.files_in - stage.files_out for stage in table.scan("id = 'k0101'").plan().results}
    assert dropped["bloom filter"] > 0


@pytest.mark.parametrize("index", INDEXES)
def test_built_rebuilt_and_dropped(tmp_path: Path, index: str) -> None:
    table = make(tmp_path / "t")
    client = TableClient.open(tmp_path / "t")
    if index == layout.COLUMN_STATS:
        table.drop_index(index)
        assert_complete(client)
    others = [name for name in INDEXES if name in client.reload().metadata_partitions]
    assert others == ([] if index == layout.COLUMN_STATS else [layout.COLUMN_STATS])
    report = table.build_index(index)
    assert (report.files, report.replaced) == (4, False)
    assert_complete(client, *others, index)
    table.upsert(rows(35, 60))
    assert_complete(client, *others, index)
    report = table.build_index(index, groups=3)
    assert (report.files, report.groups, report.replaced) == (8, 3, True)
    assert_complete(client, *others, index)
    table.upsert(rows(50, 70))
    assert_complete(client, *others, index)
    table.drop_index(index)
    table.upsert(rows(60, 61))
    assert_complete(client, *others)
    with pytest.raises(OptionError, match="the table has no"):
        table.drop_index(index)


def test_a_drop_that_died_is_finished_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "delete_dir", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            table.drop_index(layout.COLUMN_STATS)
    left = tmp_path / "t" / layout.FOLDER / layout.COLUMN_STATS
    assert left.is_dir()
    table = open_table(tmp_path / "t")
    table.drop_index(layout.COLUMN_STATS)
    assert not left.exists()
    assert_complete(TableClient.open(tmp_path / "t"))
    with pytest.raises(OptionError, match="the table has no"):
        table.drop_index(layout.COLUMN_STATS)


def test_statistics_of_the_columns_that_options_name(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    report = table.build_index(layout.COLUMN_STATS, {COLUMNS: "v, _hoodie_record_key"})
    assert report.columns == ("_hoodie_record_key", "v")
    table = open_table(tmp_path / "t")
    table.upsert(rows(0, 5))
    client = TableClient.open(tmp_path / "t")
    assert_complete(client, layout.COLUMN_STATS)
    metadata = MetadataTable.open(client, client.timeline())
    assert metadata is not None
    assert set(metadata.column_stats_raw()["column"].to_pylist()) == {"_hoodie_record_key", "v"}
    with pytest.raises(OptionError, match=r"names \['x'\], which are not columns"):
        table.build_index(layout.COLUMN_STATS, {COLUMNS: "x"})


def test_a_table_without_metadata_table_gets_one(tmp_path: Path) -> None:
    table = make(tmp_path / "t", {"hoodie.metadata.enable": "false"})
    client = TableClient.open(tmp_path / "t")
    assert client.config.metadata_partitions == ()
    table.build_index(layout.BLOOM_FILTERS)
    table.upsert(rows(0, 3))
    assert_complete(client, layout.BLOOM_FILTERS)


@pytest.mark.parametrize("index", INDEXES)
def test_writes_that_began_before_add_their_files(tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t", {"hoodie.metadata.index.column.stats.enable": "false"})
    client = TableClient.open(tmp_path / "t")
    overtaken(monkeypatch, lambda: build_file_index(TableClient.open(tmp_path / "t"), index, wait_seconds=0))
    table.upsert(rows(30, 50))
    assert_complete(client, index)
    # columns change while a write is under way
    overtaken(monkeypatch, lambda: build_file_index(TableClient.open(tmp_path / "t"), index, {COLUMNS: "w"}))
    table.upsert(rows(40, 60))
    assert_complete(client, index)
    overtaken(monkeypatch, lambda: drop_index(TableClient.open(tmp_path / "t"), index))
    table.upsert(rows(50, 70))
    assert_complete(client)


def test_writes_of_other_tools_are_waited_for(tmp_path: Path) -> None:
    make(tmp_path / "t")
    client = TableClient.open(tmp_path / "t")
    for name in ("20990101000000000.commit.requested", "20990101000000000.inflight"):
        client.storage.create(f".hoodie/{name}", b"")
    with pytest.raises(TransactionError, match="20990101000000000 commit INFLIGHT is pending"):
        build_file_index(client, layout.BLOOM_FILTERS, wait_seconds=0)
    assert_complete(client, layout.COLUMN_STATS)


def test_an_index_that_apache_builds_meanwhile_gets_our_files(tmp_path: Path) -> None:
    table = make(tmp_path / "t", WITH_FILTERS)
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    listed = text.replace("bloom_filters,column_stats,files", "files")
    properties.write_text(listed + "hoodie.table.metadata.partitions.inflight=bloom_filters,column_stats\n")
    table = open_table(tmp_path / "t")
    table.upsert(rows(0, 10))
    properties.write_text(text)
    assert_complete(TableClient.open(tmp_path / "t"), *INDEXES)


def test_what_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    with pytest.raises(OptionError, match="did you mean bloom_filters"):
        table.build_index("bloom_filter")
    with pytest.raises(OptionError, match="index bootstrap"):
        table.build_index("record_index")
    with pytest.raises(OptionError, match="one bloom filter a file, of its record keys"):
        table.build_index(layout.BLOOM_FILTERS, {"hoodie.metadata.index.bloom.filter.column.list": "v"})
    with pytest.raises(OptionError, match="one bloom filter a file, of its record keys"):
        make(tmp_path / "u", {"hoodie.metadata.index.bloom.filter.column.list": "v"})


def test_a_write_that_wants_filters_says_how_to_make_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make(tmp_path / "t").upsert(rows(0, 1), WITH_FILTERS)
    assert "`hudi-catalog index build` or `maintain` makes them" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("index", INDEXES)
def test_death_at_any_change(tmp_path: Path, index: str) -> None:
    make(tmp_path / "template").build_index(layout.BLOOM_FILTERS)
    for at in range(1, 1000, 3):
        path = tmp_path / str(at)
        shutil.copytree(tmp_path / "template", path)
        died = True
        with dying(at, "before" if at % 2 else "after"):
            client = TableClient.open(FaultyStorage(str(path)))
            build_file_index(client, index, {COLUMNS: "v"}, mapper=lambda f, items: [*map(f, items)])
            died = False
        (path / ".hoodie" / "lock").unlink(missing_ok=True)  # its process is no more
        client = TableClient.open(Storage(str(path)))
        state = [name for name in INDEXES if name in client.config.metadata_partitions]
        assert set(INDEXES) - set(state) <= {index}, at
        listed, filtered, known = indexed(client)
        assert filtered == (listed if layout.BLOOM_FILTERS in state else set()), at
        assert known == (listed if layout.COLUMN_STATS in state else set()), at
        open_table(path).upsert(rows(0, 3))
        open_table(path).build_index(index)
        assert_complete(client, *INDEXES)
        shutil.rmtree(path)
        if not died:
            break
    assert at > 15


@pytest.mark.slow
def test_beside_writers_nothing_is_lost(tmp_path: Path) -> None:
    """Two writers, of a partition each, while indexes are built, rebuilt and dropped."""
    make(tmp_path / "t")
    failures: list[BaseException] = []

    def write(part: int) -> None:
        try:
            often = {"hoodie.clean.commits.retained": "3", MAX_DELTA_COMMITS_KEY: "3"}
            table = open_table(tmp_path / "t", options=often)
            for number in range(8):
                batch = rows(0, 60, number).filter(pc.field("p") == f"p{part}")
                table.upsert(batch)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(part,)) for part in range(2)]
    for thread in threads:
        thread.start()
    table = open_table(tmp_path / "t")
    while any(thread.is_alive() for thread in threads):
        for index in INDEXES:
            table.build_index(index, {COLUMNS: "v"} if index == layout.COLUMN_STATS else None)
        table.drop_index(layout.BLOOM_FILTERS)
    for thread in threads:
        thread.join()
    assert not failures
    table.build_index(layout.BLOOM_FILTERS)
    assert_complete(TableClient.open(tmp_path / "t"), *INDEXES)
    assert set(open_table(tmp_path / "t").scan().to_arrow()["v"].to_pylist()) == {7}


def test_files_that_go_on_being_cleaned_are_read_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path / "t")
    extend = indexing._Build.extend
    rounds: list[int] = []

    def cleaned(build: indexing._Build, places: Sequence[Place]) -> None:
        rounds.append(len(places))
        if len(rounds) <= indexing._ROUNDS:
            raise MissingFileError("p0/gone.parquet: no such file")
        extend(build, places)  # under the lock, where nothing is cleaned

    monkeypatch.setattr(indexing._Build, "extend", cleaned)
    table.build_index(layout.BLOOM_FILTERS)
    assert len(rounds) == indexing._ROUNDS + 1
    assert_complete(TableClient.open(tmp_path / "t"), *INDEXES)


def test_a_table_that_is_held_open_while_statistics_are_built_anew(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    assert table.scan("w > 3").count() == 33  # statistics of w are loaded
    for value in range(8):
        table.upsert(rows(0, 1, value))
    assert table.refresh().scan("v = 7").count() == 1  # of a state for which w is not
    open_table(tmp_path / "t").build_index(layout.COLUMN_STATS)
    for _ in range(2):
        assert table.refresh().scan("w = 5").count() == 1
    assert next(stage for stage in table.scan("w = 5").plan().stages if stage.name == "column statistics").pruned


@pytest.mark.parametrize("built", [False, True])
def test_a_plan_does_without_statistics_that_go_while_it_is_made(tmp_path: Path, *, built: bool) -> None:
    table = make(tmp_path / "t")
    scan = table.scan("w = 5")  # by an index that is there
    other = open_table(tmp_path / "t")
    other.drop_index(layout.COLUMN_STATS)
    if built:
        other.build_index(layout.COLUMN_STATS)
    stage = next(stage for stage in scan.plan().stages if stage.name == "column statistics")
    assert built or "dropped or built anew" in stage.reason
    assert scan.count() == 1


def test_statistics_whose_files_are_lost_are_an_error(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for file in (tmp_path / "t/.hoodie/metadata/column_stats").iterdir():
        file.unlink()
    with pytest.raises(CorruptFileError, match="drop and rebuild it"):
        table.refresh().scan("w = 5").plan()
