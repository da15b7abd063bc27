"""Building the index of a table with data: its entries, restarts, and commits meanwhile."""

import logging
import os
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_catalog import create_table, open_table
from table_format.errors import (
    CorruptFileError,
    RecordError,
    RecordIndexError,
    TransactionError,
    UnsupportedTableError,
)
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.commit.transaction import WriteTransaction
from table_writer.record_index.bootstrap import bootstrap_index
from table_writer.record_index.resize import resize
from table_writer.record_index.verify import verify_index
from table_writer.services.clean import clean
from tests.support.faults import FaultyStorage, dying
from tests.support.indexed_tables import (
    BUCKETS,
    RECORD_INDEX,
    data_places,
    index_places,
    make,
    rows,
)
from tests.support.toy_table import assert_tidy

GOLDEN = Path(__file__).parents[3] / "golden" / "tables" / "tables.tar.xz"
APACHES = ("v6_0150__bkt_longkey", "v6_0150__nomdt", "v6_0150__bloom_replace", "v6_1200__cluster", "v6_1200__rli_part")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as tar:
        wanted = [member for member in tar if member.name.split("/")[0] in {*APACHES, "v6_0150__nometa"}]
        tar.extractall(folder, members=wanted, filter="data")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", APACHES)
def test_tables_that_apache_wrote(golden: Path, name: str) -> None:
    client = TableClient.open(str(golden / name / "table"))
    before = client.config.metadata_partitions
    report = bootstrap_index(client, {"hoodie.metadata.record.index.min.filegroup.count": "4"})
    assert index_places(client) == data_places(client)
    assert set(client.config.metadata_partitions) == {*before, "files", "record_index"}
    assert report.keys == report.keys_read == len(data_places(client)) > 0
    assert (report.groups, report.duplicates, report.examples) == (4, 0, ())
    assert not client.storage.exists(".hoodie/.catalog/record_index_build")
    assert verify_index(client).is_right


def test_tables_that_cannot_have_an_index_are_refused(golden: Path) -> None:
    with pytest.raises(RecordIndexError, match=r"hoodie\.populate\.meta\.fields=false"):
        bootstrap_index(TableClient.open(str(golden / "v6_0150__nometa" / "table")))


def test_data_that_an_index_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 3))
    table.write("upsert", rows(3, 4).set_column(0, "id", pa.array(["k" * 40_000])))
    with pytest.raises(RecordError, match=r"\.parquet: 1 row\(s\) have a record key that is too long"):
        bootstrap_index(table.client)
    assert IndexLayout.of(table.client, table.client.timeline()) is None

    table = make(tmp_path / "names", BUCKETS)
    most = os.pathconf(tmp_path, "PC_NAME_MAX")
    table.write("upsert", rows(0, 1).set_column(1, "p", pa.array(["p" * (most - 20)])))
    with pytest.raises(RecordError, match=r"gives files of the record index names of .* or give the table a global"):
        bootstrap_index(table.client, {"hoodie.metadata.record.level.index.enable": "true"})
    bootstrap_index(table.client)
    assert index_places(table.client) == data_places(table.client)


def test_an_empty_table_gets_an_index_without_entries(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    report = bootstrap_index(table.client, groups=2)
    assert (report.keys, report.groups, report.slices) == (0, 2, 0)
    assert index_places(table.client) == {}
    assert verify_index(table.client).is_right
    table.write("upsert", rows(0, 6))
    assert index_places(table.client) == data_places(table.client)


def test_the_writer_keeps_what_a_bootstrap_built(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 20))
    caplog.set_level(logging.INFO, "table_writer")
    bootstrap_index(table.client, groups=3)
    table.write("upsert", rows(10, 30))
    table.write("delete", rows(0, 5))
    places = index_places(table.client)
    assert len(places) == 25
    assert places == data_places(table.client)
    assert caplog.messages == []
    # and once more in place of the one that is there, with log files by now
    report = bootstrap_index(table.client, groups=2)
    [message] = caplog.messages
    assert "the record index is rebuilt, in 2 file groups" in message
    assert (report.keys, group_count(table.client)) == (25, 2)
    assert index_places(table.client) == places


def group_count(client: TableClient) -> int:
    client.reload()
    layout = IndexLayout.of(client)
    assert layout is not None
    return layout.count


def test_duplicates_are_told_and_the_newest_place_counts(tmp_path: Path) -> None:
    table = make(tmp_path, RECORD_INDEX)
    table.write("bulk_insert", rows(0, 4, partitions=1))
    old = {places.pop() for places in data_places(table.client).values()}
    table.write("bulk_insert", rows(2, 6, partitions=1))
    report = bootstrap_index(table.client)
    assert (report.keys, report.duplicates) == (6, 2)
    assert {key for key, _ in report.examples} == {"k002", "k003"}
    assert all(len(set(where)) == 2 for _, where in report.examples)
    data, index = data_places(table.client), index_places(table.client)
    assert {key: index[key] for key in ("k002", "k003")} == {key: data[key] - old for key in ("k002", "k003")}


class Killed(BaseException):
    pass


class KilledAfter:
    """A mapper that dies after some items."""

    def __init__(self, items: int) -> None:
        self.left = items

    def __call__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        results = []
        for item in items:
            if not self.left:
                raise Killed
            self.left -= 1
            results.append(function(item))
        return results


def test_killed_at_any_step_and_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_writer.metadata.key_source._RUN_SOURCES", 1)
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 20))
    expected = data_places(table.client)
    kills = 0
    while True:
        mapper = KilledAfter(1)
        try:
            report = bootstrap_index(table.client, groups=3, mapper=mapper)
        except Killed:
            kills += 1
            assert "record_index" not in table.client.reload().metadata_partitions
            continue
        break
    assert kills == 6  # four slices and three file groups, the last of which is not a kill
    assert report.keys_read == 0
    assert index_places(table.client) == expected


def test_killed_while_it_is_taken_into_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 20))
    moved: list[str] = []
    move = type(table.client.storage).move

    def fails_on_the_second(storage: Any, path: str, target: str) -> None:
        if len(moved) == 1:
            raise Killed
        moved.append(path)
        move(storage, path, target)

    with monkeypatch.context() as patched:
        patched.setattr(type(table.client.storage), "move", fails_on_the_second)
        with pytest.raises(Killed):
            bootstrap_index(table.client, groups=3)
    with pytest.raises(RecordIndexError):
        index_places(table.client)
    table.write("upsert", rows(15, 25))
    report = bootstrap_index(table.client, groups=3)
    assert index_places(table.client) == data_places(table.client)
    assert report.keys == 25


def test_an_interrupted_build_keeps_its_layout(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 20))
    with pytest.raises(Killed):
        bootstrap_index(table.client, {"hoodie.metadata.record.index.min.filegroup.count": "7"}, mapper=KilledAfter(2))
    report = bootstrap_index(table.client, {"hoodie.metadata.record.index.min.filegroup.count": "5"})
    assert (report.groups, group_count(table.client)) == (7, 7)


class Meanwhile:
    """A mapper beside which writes go on."""

    def __init__(self, *writes: Callable[[], Any]) -> None:
        self.writes = list(writes)

    def __call__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        results = in_threads(function, items)
        if self.writes:
            self.writes.pop(0)()
        return results


@pytest.mark.slow
def test_commits_that_come_meanwhile(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 20))
    messages: list[str] = []
    mapper = Meanwhile(
        lambda: table.write("upsert", rows(15, 25)),
        lambda: table.write("delete", rows(0, 3)),
        lambda: table.write("insert_overwrite", rows(40, 44, partitions=1)),
        lambda: table.write("upsert", rows(50, 55)),
        lambda: table.write("upsert", rows(53, 60)),
    )
    report = bootstrap_index(table.client, groups=3, mapper=mapper, progress=messages.append)
    assert mapper.writes == []
    assert any("commits came meanwhile" in text for text in messages)
    assert index_places(table.client) == data_places(table.client)
    assert report.keys == len(data_places(table.client))


@pytest.mark.slow
def test_the_last_round_keeps_the_lock(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 4))
    locked: list[bool] = []

    def mapper(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        held = table.client.storage.exists(".hoodie/lock")
        locked.append(held)
        if not held:
            table.write("upsert", rows(len(locked), len(locked) + 2, x=len(locked)))
        return in_threads(function, items)

    bootstrap_index(table.client, groups=1, mapper=mapper)
    assert locked[-1]
    assert index_places(table.client) == data_places(table.client)
    assert not table.client.storage.exists(".hoodie/lock")


def test_a_write_under_way_is_waited_for(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 4))
    with WriteTransaction.begin(table.client, "commit", "UPSERT") as transaction:
        with pytest.raises(TransactionError, match=f"{transaction.instant} commit REQUESTED is pending"):
            bootstrap_index(table.client, groups=1, wait_seconds=0)
        assert "record_index" not in table.client.reload().metadata_partitions
        messages: list[str] = []

        def tell(text: str) -> None:
            messages.append(text)
            if text.startswith("waiting"):
                schema = table.client.table_schema_json()
                assert schema
                transaction.commit([], schema_json=schema)

        report = bootstrap_index(table.client, groups=1, progress=tell)
    assert report.keys_read == 0  # the attempt that gave up had read them
    assert index_places(table.client) == data_places(table.client)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "job"), [(3, bootstrap_index), (5, bootstrap_index), (3, resize)])
def test_a_clean_that_a_dead_writer_began_is_finished(tmp_path: Path, change: int, job: Callable[..., Any]) -> None:
    table = make(tmp_path, RECORD_INDEX | {"hoodie.clean.automatic": "false"})
    for x in range(3):
        table.write("upsert", rows(0, 6, partitions=1, x=x))
    with dying(change):
        clean(TableClient.open(FaultyStorage(table.client.storage.uri)), {"hoodie.cleaner.commits.retained": "1"})
    (tmp_path / "things/.hoodie/lock").unlink()  # its process is no more
    assert [instant.action for instant in table.client.timeline().pending] == ["clean"]
    job(table.client, groups=1, **({"wait_seconds": 0} if job is bootstrap_index else {}))
    assert not table.client.timeline().pending
    assert index_places(table.client) == data_places(table.client)
    assert_tidy(table.client.storage.uri)


@pytest.mark.slow
def test_files_that_are_cleaned_while_they_are_read(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 6, partitions=1))
    times: list[int] = []

    def mapper(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        times.append(1)
        if len(times) == 1:
            for x in range(3):
                table.write("upsert", rows(0, 8, partitions=1, x=x), {"hoodie.cleaner.commits.retained": "1"})
        return in_threads(function, items)

    messages: list[str] = []
    report = bootstrap_index(table.client, groups=1, mapper=mapper, progress=messages.append)
    assert any("cleaned meanwhile" in text for text in messages)
    assert report.keys == 8
    assert index_places(table.client) == data_places(table.client)
    times.clear()
    assert verify_index(table.client, mapper=mapper).is_right


def test_two_builds_at_once_both_succeed(tmp_path: Path) -> None:
    """The one that ends first takes the other one's files, and clears away what it has built."""
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 6))
    times: list[int] = []

    def mapper(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        made = in_threads(function, items)
        times.append(1)
        if len(times) == 2:
            bootstrap_index(TableClient.open(table.client.storage), groups=1)
        return made

    assert bootstrap_index(table.client, groups=1, mapper=mapper).keys == 6
    assert len(times) > 2
    assert index_places(table.client) == data_places(table.client)
    assert verify_index(table.client).is_right
    assert not table.client.storage.exists(".hoodie/.catalog/record_index_build")


def test_codec_and_bloom_filters_are_options(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 200, partitions=1))
    plain = bootstrap_index(table.client, groups=1).size
    options = {"hoodie.hfile.compression.algorithm": "NONE"}
    large = bootstrap_index(table.client, options, groups=1).size
    assert large > plain
    assert bootstrap_index(table.client, {**options, "hoodie.metadata.bloom.filter.enable": "true"}).size > large
    assert verify_index(table.client).is_right


def test_other_kinds_of_tables_are_refused(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    path = tmp_path / "things" / ".hoodie" / "hoodie.properties"
    text = path.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ")
    path.write_text("".join(line for line in text.splitlines(keepends=True) if "checksum" not in line))
    with pytest.raises(UnsupportedTableError, match="MERGE_ON_READ"):
        bootstrap_index(TableClient.open(table.client.storage.uri))


def test_a_partition_scoped_index_stays_one(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 10))
    same = pa.table([["k000"], ["p1"], [7]], schema=rows(0, 0).schema)
    table.write("upsert", same)  # the key is in another partition, too
    report = bootstrap_index(table.client, {"hoodie.metadata.record.level.index.enable": "true"})
    assert (report.keys, report.duplicates) == (11, 0)
    assert index_places(table.client) == data_places(table.client)
    assert len(index_places(table.client)["k000"]) == 2
    assert bootstrap_index(table.client).keys == 11
    layout = IndexLayout.of(table.client)
    assert layout is not None
    assert layout.scope == "partition"
    assert verify_index(table.client).is_right


@pytest.mark.slow
def test_a_partition_that_comes_while_an_index_by_partition_is_built(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 9, partitions=2))
    with pytest.raises(Killed):
        bootstrap_index(table.client, {"hoodie.metadata.record.level.index.enable": "true"}, mapper=KilledAfter(1))
    table.write("upsert", rows(0, 9, partitions=3))
    meanwhile = Meanwhile(lambda: table.write("upsert", rows(0, 9, partitions=5)))
    report = bootstrap_index(table.client, {"hoodie.metadata.record.level.index.enable": "true"}, mapper=meanwhile)
    assert index_places(table.client) == data_places(table.client)
    assert report.groups == 5
    assert verify_index(table.client).is_right


def test_a_record_index_whose_files_are_lost_is_built_anew(tmp_path) -> None:
    table = create_table(tmp_path / "t", "id bigint, n bigint", record_key="id", index="RECORD_INDEX")
    table.insert([{"id": 1, "n": 1}])
    shutil.rmtree(tmp_path / "t/.hoodie/metadata/record_index")
    table = open_table(tmp_path / "t")
    with pytest.raises(CorruptFileError, match="`hudi-catalog index bootstrap` builds it anew"):
        table.upsert([{"id": 1, "n": 2}])
    assert table.bootstrap_index().keys == 1
    open_table(tmp_path / "t").upsert([{"id": 1, "n": 2}])
    assert open_table(tmp_path / "t").scan(columns=["n"]).to_arrow().to_pylist() == [{"n": 2}]
