"""The record index in time: what verification since an instant finds and reads, entries of the past, changes."""

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from table_format.errors import ArgumentError, OptionError, RecordIndexError, UndoneWriteError, UnsupportedTableError
from table_format.table.client import TableClient
from table_writer.commit.restore import restore_table
from table_writer.metadata.key_source import KeyReader
from table_writer.record_index.compare import DUPLICATE, EXTRA, MISSING, WRONG
from table_writer.record_index.key_changes import changed_entries, index_entries
from table_writer.record_index.verify import VerifyReport, verify_index
from tests.support.indexed_tables import BUCKETS, RECORD_INDEX, change_index, data_places, make, rows
from tests.support.local_writes import LocalTable


@pytest.fixture
def table(tmp_path: Path) -> LocalTable:
    made = make(tmp_path, RECORD_INDEX)
    made.write("upsert", rows(0, 20))
    made.write("upsert", rows(100, 110, partitions=1))
    made.write("delete", rows(5, 8))
    return made


def instants(table: LocalTable) -> list[str]:
    return [write.time for write in table.client.timeline().writes]


def faults(report: VerifyReport) -> dict[str, set[str]]:
    keys: dict[str, set[str]] = {}
    for example in report.examples:
        keys.setdefault(example.kind, set()).add(example.key)
    assert {kind: len(of) for kind, of in keys.items()} == {kind: n for kind, n in report.counts.items() if n}
    return keys


def place_of(table: LocalTable, key: str) -> tuple[str, str]:
    [place] = data_places(table.client)[key]
    return place


def read_files(table: LocalTable, since: str) -> tuple[VerifyReport, set[str]]:
    """The report, and the paths of the data files whose keys were read."""
    read: set[str] = set()
    plain = KeyReader.batches

    def batches(self, source):
        read.add(source.base)
        return plain(self, source)

    with mock.patch.object(KeyReader, "batches", batches):
        return verify_index(table.client, since=since, mapper=lambda f, items: [*map(f, items)]), read


def test_only_what_later_writes_touched_is_read(table: LocalTable) -> None:
    first, second, third = instants(table)
    report, read = read_files(table, second)
    assert report.is_right
    assert (report.since, report.verified_to) == (second, third)
    # the deletion touched both files of the first write
    assert {name.rsplit("_", 1)[-1].removesuffix(".parquet") for name in read} <= {first, second, third}
    assert (report.slices, report.slices_total, len(read)) == (2, 2, 4)
    report, read = read_files(table, third)
    assert report.is_right
    assert (report.keys, report.entries, report.slices, read) == (0, 0, 0, set())


def test_faults_of_what_later_writes_touched(table: LocalTable) -> None:
    second = instants(table)[1]
    partition, file_id = place_of(table, "k002")
    other, other_id = place_of(table, "k003")
    change_index(
        table.client,
        ("k002", partition, None),  # missing
        ("k006", partition, file_id),  # deleted since, in the data
        ("k004", other, other_id),  # wrong
    )
    table.write("upsert", rows(0, 2))
    report = verify_index(table.client, since=second)
    assert faults(report) == {MISSING: {"k002"}, EXTRA: {"k006"}, WRONG: {"k004"}}
    assert faults(verify_index(table.client)) == faults(report)
    newest = instants(table)[-2]
    assert faults(verify_index(table.client, since=newest)) == {MISSING: {"k002"}, WRONG: {"k004"}}


def test_keys_that_are_twice(table: LocalTable) -> None:
    newest = instants(table)[-1]
    table.write("insert", rows(10, 12))
    report = verify_index(table.client, since=newest)
    assert set(faults(report)) <= {DUPLICATE}


def test_what_is_refused(table: LocalTable) -> None:
    first, _, third = instants(table)
    with pytest.raises(OptionError, match="takes no sample, and repairs nothing"):
        verify_index(table.client, since=first, repair=True)
    with pytest.raises(OptionError, match="yyyyMMddHHmmssSSS"):
        verify_index(table.client, since="yesterday")
    with pytest.raises(OptionError, match="before it begins"):
        changed_entries(table.client, third, first)
    restore_table(table.client, instants(table)[1])
    table.write("upsert", rows(0, 1))
    with pytest.raises(RecordIndexError, match="took writes back since"):
        verify_index(table.client, since=first)
    assert verify_index(table.client, since=instants(table)[-1]).is_right


def test_files_that_were_cleaned(table: LocalTable) -> None:
    first = instants(table)[0]
    table.write("upsert", rows(0, 4), {"hoodie.clean.commits.retained": "1"})
    for look in (
        lambda: verify_index(table.client, since=first),
        lambda: changed_entries(table.client, first),
        lambda: index_entries(table.client, ["k001"], first),
    ):
        with pytest.raises(OptionError, match="was cleaned; give a later instant"):
            look()
    # of an untouched partition nothing is needed
    assert verify_index(table.client, since=instants(table)[-1]).is_right


def test_entries_of_the_past(table: LocalTable) -> None:
    first, second, third = instants(table)
    keys = pa.array(["k001", "k006", "k104", "never", None, "k001"])
    there = {time: index_entries(table.client, keys, time)["key"].to_pylist() for time in (first, second, third)}
    assert there == {first: ["k001", "k006"], second: ["k001", "k006", "k104"], third: ["k001", "k104"]}
    now = index_entries(table.client, keys)
    assert now.equals(index_entries(table.client, keys, third))
    assert {(row["partition"], row["file_id"]) for row in now.to_pylist()} == {
        place_of(table, "k001"),
        place_of(table, "k104"),
    }


def test_changes_of_a_table_without_index(tmp_path: Path) -> None:
    table = make(tmp_path, BUCKETS)
    table.write("upsert", rows(0, 6))
    table.write("upsert", rows(4, 8))
    table.write("delete", rows(1, 2))
    first = instants(table)[0]
    changes = changed_entries(table.client, first).to_pylist()
    assert [(row["change"], row["key"]) for row in changes] == [
        ("delete", "k001"),
        ("insert", "k006"),
        ("insert", "k007"),
    ]
    with pytest.raises(RecordIndexError, match="no record index"):
        index_entries(table.client, ["k001"])


def test_changes_follow_an_overwrite(table: LocalTable) -> None:
    newest = instants(table)[-1]
    table.write("insert_overwrite_table", rows(0, 3, partitions=1))
    changes = changed_entries(table.client, newest)
    kinds = {row["key"]: row["change"] for row in changes.to_pylist()}
    assert {key for key, kind in kinds.items() if kind == "move"} == {"k000", "k001", "k002"}
    assert {kinds[key] for key in ("k003", "k008", "k104")} == {"delete"}
    assert verify_index(table.client, since=newest).is_right


def test_a_merge_on_read_table_is_refused(table: LocalTable) -> None:
    properties = Path(table.client.storage.full_path(".hoodie/hoodie.properties"))
    properties.write_text(properties.read_text().replace("COPY_ON_WRITE", "MERGE_ON_READ"))
    client = TableClient.open(table.client.storage.uri)
    with pytest.raises(UnsupportedTableError, match="merge-on-read"):
        changed_entries(client, instants(table)[0])


def test_changes_since_a_write_that_was_taken_back_are_refused(table: LocalTable) -> None:
    first, second, third = instants(table)
    restore_table(table.client, second)
    table.write("upsert", rows(200, 201))
    with pytest.raises(UndoneWriteError, match="took this write back"):
        changed_entries(table.client, third)
    assert "200" in changed_entries(table.client, second)["key"].to_pylist()[0]
    assert changed_entries(table.client, first).num_rows == 11


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("101", r"give an array or a list of record keys, such as \['101'\]"),
        ([1], r"record keys are texts, which 1 is not: give str\(1\)"),
        ([None], "which None is not"),
        (pa.array([1, 2]), "the array is of int64: cast it to string"),
    ],
)
def test_keys_that_are_no_texts(table: LocalTable, keys: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        index_entries(table.client, keys)
    empty = index_entries(table.client, [])
    assert empty.num_rows == 0
    assert index_entries(table.client, pa.array(["none"]).dictionary_encode()).equals(empty)
