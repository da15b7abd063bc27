"""Each kind of fault is found and repaired; a correct index has none."""

import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from table_format.errors import ConflictError, OptionError, RecordIndexError, TransactionError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_writer.commit.transaction import WriteTransaction
from table_writer.metadata.creation import publish_index
from table_writer.metadata.index_files import BuiltFile
from table_writer.metadata.key_source import current_sources
from table_writer.record_index.build import IndexBuild
from table_writer.record_index.compare import DUPLICATE, EXTRA, KINDS, MISPLACED, MISSING, WRONG
from table_writer.record_index.verify import VerifyReport, verify_index
from tests.support.indexed_tables import (
    RECORD_INDEX,
    change_index,
    data_places,
    index_places,
    make,
    rows,
)
from tests.support.local_writes import LocalTable

GOLDEN = Path(__file__).parents[3] / "golden" / "tables"


@pytest.fixture
def table(tmp_path: Path) -> LocalTable:
    made = make(tmp_path, RECORD_INDEX)
    made.write("upsert", rows(0, 20))
    made.write("upsert", rows(10, 30))
    made.write("delete", rows(5, 8))
    return made


def faults(report: VerifyReport) -> dict[str, set[str]]:
    """The keys of each kind of fault; that all are counted is checked, too."""
    keys_by_kind: dict[str, set[str]] = {}
    for example in report.examples:
        keys_by_kind.setdefault(example.kind, set()).add(example.key)
    assert {kind: len(keys) for kind, keys in keys_by_kind.items()} == {k: n for k, n in report.counts.items() if n}
    return keys_by_kind


def place_of(table: LocalTable, key: str) -> tuple[str, str]:
    return next(iter(data_places(table.client)[key]))


@pytest.mark.parametrize(
    ("archive", "name"),
    [("tables", "v6_1200__rli_part"), ("newer", "v6_1200__mor_rli"), ("newer", "v9_1200__mor_rli")],
)
def test_apaches_indexes_are_right(tmp_path: Path, archive: str, name: str) -> None:
    with tarfile.open(GOLDEN / f"{archive}.tar.xz") as tar:
        tar.extractall(tmp_path, members=[m for m in tar if m.name.split("/")[0] == name], filter="data")
    client = TableClient.open(str(tmp_path / name / "table"))
    report = verify_index(client)
    assert (report.is_right, report.examples) == (True, ())
    assert report.keys == report.entries == len(data_places(client)) > 50


def test_a_right_index(table: LocalTable) -> None:
    report = verify_index(table.client)
    assert report.is_right
    assert (report.keys, report.entries, report.repaired) == (27, 27, None)
    assert report.slices == report.slices_total == len(current_sources(table.client, table.client.timeline()))
    assert report.groups == 3


def test_faults_are_found_and_mended(table: LocalTable) -> None:
    partition, file_id = place_of(table, "k012")
    other, other_id = place_of(table, "k013")
    change_index(
        table.client,
        ("k001", "p1", None),
        ("k004", "p0", None),
        ("k011", other, "00000000-0000-0000-0000-000000000000-0"),  # a file group that never was
        ("k012", other, other_id),
        ("k013", partition, file_id),
        ("zzz", partition, file_id),
        ("k006", "p0", "no-uuid"),
    )
    expected = {MISSING: {"k001", "k004"}, WRONG: {"k011", "k012", "k013"}, EXTRA: {"zzz", "k006"}}
    report = verify_index(table.client)
    assert faults(report) == expected
    wrong = next(example for example in report.examples if example.key == "k012")
    assert (wrong.data, wrong.index) == ((f"{partition}/{file_id}",), f"{other}/{other_id}")
    gone = next(example for example in report.examples if example.key == "k006")
    assert (gone.data, gone.index) == ((), "a file group that is gone")
    assert verify_index(table.client, sample=1.0).counts == report.counts

    mended = verify_index(table.client, repair=True)
    assert faults(mended) == expected
    assert mended.repaired == "entries"
    assert mended.instant == table.client.timeline().writes[-1].time
    assert index_places(table.client) == data_places(table.client)
    assert verify_index(table.client).is_right
    writes = len(table.client.timeline().writes)
    assert verify_index(table.client, repair=True).repaired is None
    assert len(table.client.timeline().writes) == writes
    assert table.client.storage.list(".hoodie/.catalog/writes") == []
    table.write("upsert", rows(0, 40))
    assert index_places(table.client) == data_places(table.client)


def test_duplicates_are_the_datas(table: LocalTable) -> None:
    table.write("bulk_insert", rows(28, 32))
    report = verify_index(table.client, repair=True)
    assert faults(report) == {DUPLICATE: {"k028", "k029"}}
    assert all(len(example.data) == 2 for example in report.examples)
    assert (report.index_faults, report.repaired) == (0, None)


def test_an_entry_may_say_any_place_of_a_duplicate_but_no_other(table: LocalTable) -> None:
    table.write("bulk_insert", rows(28, 30))
    places = sorted(data_places(table.client)["k028"])
    assert len(places) == 2
    for partition, file_id in places:
        change_index(table.client, ("k028", partition, file_id))
        assert verify_index(table.client).index_faults == 0
    change_index(table.client, ("k028", *place_of(table, "k001")))
    assert verify_index(table.client).counts[WRONG] == 1


def swap_groups(client: TableClient) -> None:
    """An index whose file groups 0 and 1 hold each other's entries."""
    timeline = client.timeline()
    build = IndexBuild(client, IndexLayout((("record-index-", 3),)), in_threads, lambda _: None)
    built = build.run(timeline, current_sources(client, timeline))
    swapped = [BuiltFile({0: 1, 1: 0}.get(f.group, f.group), f.path, f.size, f.rows) for f in built.files]
    publish_index(client, build.layout, swapped)


def test_entries_in_the_wrong_file_group_need_a_new_index(table: LocalTable) -> None:
    swap_groups(table.client)
    report = verify_index(table.client)
    assert report.counts[MISPLACED] == report.counts[MISSING] > 0
    assert report.counts[EXTRA] == report.counts[WRONG] == 0
    mended = verify_index(table.client, repair=True)
    assert (mended.repaired, mended.instant) == ("rebuilt", None)
    assert verify_index(table.client).is_right
    assert index_places(table.client) == data_places(table.client)


@pytest.mark.slow
def test_samples_read_some_slices(table: LocalTable) -> None:
    change_index(table.client, *((f"k{number:03d}", f"p{number % 2}", None) for number in range(5)))
    total = len(current_sources(table.client, table.client.timeline()))
    whole = verify_index(table.client).counts[MISSING]
    counts = set()
    for _ in range(20):
        report = verify_index(table.client, sample=0.01)
        assert (report.slices, report.slices_total) == (1, total)
        assert report.counts[EXTRA] == report.counts[WRONG] == 0  # entries of other slices are no fault
        counts.add(report.counts[MISSING])
    assert whole == 5
    assert max(counts) <= whole
    assert len(counts) > 1 or total == 1


def test_entries_of_a_sampled_slice_that_it_lacks(table: LocalTable) -> None:
    place = place_of(table, "k012")
    change_index(table.client, ("zzz", *place), ("yyy", "p0", "gone-for-good"))
    assert verify_index(table.client, sample=1.0).counts[EXTRA] == 2
    assert all(verify_index(table.client, sample=0.01).counts[EXTRA] in (1, 2) for _ in range(5))


@pytest.mark.slow
def test_writes_that_come_while_it_is_mended(table: LocalTable) -> None:
    change_index(table.client, ("k001", "p1", None), ("zzz", *place_of(table, "k012")))
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.clean.failed.writes.policy": "LAZY",
    }
    busy = make_busy(table, options, writes=1)
    report = verify_index(table.client, options, repair=True, mapper=busy)
    assert report.repaired == "entries"
    assert index_places(table.client) == data_places(table.client)
    change_index(table.client, ("k001", "p1", None))
    with pytest.raises(ConflictError):
        verify_index(table.client, options, repair=True, mapper=make_busy(table, options, writes=9))
    assert verify_index(table.client).counts[MISSING] == 1


def test_a_repair_does_not_take_live_writers_for_dead(table: LocalTable) -> None:
    change_index(table.client, ("k001", "p1", None))
    with WriteTransaction.begin(table.client, "commit", "UPSERT") as transaction:
        with pytest.raises(TransactionError, match=f"{transaction.instant} .* is pending"):
            verify_index(table.client, {"hoodie.clean.failed.writes.policy": "EAGER"}, repair=True)
        assert verify_index(table.client, repair=True).repaired == "entries"
        assert [instant.time for instant in table.client.timeline().pending] == [transaction.instant]
    assert verify_index(table.client).is_right


def make_busy(table: LocalTable, options: dict[str, str], writes: int) -> Any:
    """A mapper beside which another writer commits, once the mending has begun."""
    done: list[int] = []

    def run(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        if table.client.timeline().pending and len(done) < writes:
            done.append(1)
            number = 100 + len(done) + int(table.client.timeline().instants[-1].time[-6:])
            other = LocalTable(TableClient.open(table.client.storage.uri), dict(table.options.texts))
            key = pa.table([[f"n{number}"], ["p5"], [1]], schema=rows(0, 0).schema)
            other.write("upsert", key, options)
        return in_threads(function, items)

    return run


def test_families_of_file_groups_are_compared_as_one_index(tmp_path: Path) -> None:
    table = make(tmp_path, RECORD_INDEX)
    table.write("upsert", rows(0, 20))
    layout = IndexLayout((("record-index-", 2), ("record-index-b-", 3)))
    place_two_families(table.client, layout)
    assert index_places(table.client) == data_places(table.client)
    assert verify_index(table.client).is_right
    change_index(table.client, ("k001", "p1", None), ("zzz", *place_of(table, "k012")))
    assert faults(verify_index(table.client)) == {MISSING: {"k001"}, EXTRA: {"zzz"}}
    assert verify_index(table.client, repair=True).repaired == "entries"
    assert verify_index(table.client).is_right
    assert index_places(table.client) == data_places(table.client)


def place_two_families(client: TableClient, layout: IndexLayout) -> None:
    """All entries in the older family."""
    timeline = client.timeline()
    older = IndexLayout(layout.families[:1])
    built = IndexBuild(client, older, in_threads, lambda _: None).run(timeline, current_sources(client, timeline))
    publish_index(client, layout, [BuiltFile(f.group, f.path, f.size, f.rows) for f in built.files if f.path])
    client.reload()


def test_questions_that_make_no_sense(table: LocalTable, tmp_path: Path) -> None:
    for share in (0.0, -1.0, 1.5):
        with pytest.raises(OptionError, match="share of file slices"):
            verify_index(table.client, sample=share)
    with pytest.raises(OptionError, match="complete comparison"):
        verify_index(table.client, sample=0.5, repair=True)
    plain = make(tmp_path / "plain", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"})
    with pytest.raises(RecordIndexError, match="index bootstrap"):
        verify_index(plain.client)


def test_workers_that_share_only_the_tables_storage(table: LocalTable) -> None:
    report = verify_index(table.client, shared=True)
    assert report.is_right
    assert set(report.counts) == set(KINDS)
    assert not list(Path(table.client.storage.base).rglob("*.arrow"))
