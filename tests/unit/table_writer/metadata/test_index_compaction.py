"""File groups of the index after compaction of the metadata table."""

import pyarrow as pa
import pytest

from table_format.metadata_table import layout as names
from table_format.metadata_table.layout import list_file_groups
from table_format.metadata_table.reader import MetadataTable
from table_format.metadata_table.record_index_layout import GLOBAL, IndexLayout
from table_format.metadata_table.slices import ValidInstants
from table_format.metadata_table.sources import PartitionSources
from table_writer.metadata import index_compaction, index_files
from table_writer.metadata.instants import last_compaction, load_metadata_timeline
from table_writer.metadata.writer import update_metadata_table
from table_writer.record_index.resize import resize
from tests.support import golden_metadata as golden
from tests.support.golden_metadata import files, statistics
from tests.support.index_writes import AT_ONCE, change, content, gone, put, twice_pickled
from tests.support.toy_table import assert_tidy


def base_files(storage):
    return {base.path for group in list_file_groups(storage, names.RECORD_INDEX) for base in group.base_files}


@pytest.mark.parametrize("options", [{}, AT_ONCE])
def test_workers_leave_logs_andbase_files_to_be_moved(client, storage, monkeypatch, options):
    monkeypatch.setattr(index_files, "FEW_CHANGES", 0)
    monkeypatch.setattr(index_compaction, "_FEW_BYTES", 0)
    change(client, *(put(f"k{number}") for number in range(40)), mapper=twice_pickled, options=options)
    change(client, *(gone(f"k{number}") for number in range(30)), mapper=twice_pickled, options=options)
    change(client, put("more"), mapper=twice_pickled, options=options)
    assert content(storage.uri).keys() == {(f"k{number}", "") for number in range(30, 40)} | {("more", "")}
    assert storage.list(".hoodie/.catalog/writes") == []
    assert bool(base_files(storage)) == bool(options)
    assert_tidy(storage.uri)


def test_a_large_file_group_waits_for_more_and_a_full_one_is_told(client, storage, monkeypatch, caplog):
    monkeypatch.setattr(index_compaction, "_LARGE", 10)
    monkeypatch.setattr(index_compaction, "_FULL", 10)
    change(client, *(put(f"k{number}") for number in range(240)), options=AT_ONCE)
    change(client, put("k1", "q", "g"), options=AT_ONCE)
    assert "index resize" in caplog.text
    for _ in range(3):
        change(client, gone("k1"), put("new"), options=AT_ONCE)
    groups = list_file_groups(storage, names.RECORD_INDEX)
    assert [len(group.base_files) for group in groups] == [1, 1, 1]
    change(client, *(gone(f"k{number}") for number in range(30)), options=AT_ONCE)
    change(client, options=AT_ONCE)
    assert sum(len(group.base_files) for group in list_file_groups(storage, names.RECORD_INDEX)) > 3
    assert content(storage.uri).keys() == {(f"k{number}", "") for number in range(30, 240)} | {("new", "")}


@pytest.mark.slow
def test_no_log_block_is_older_than_the_writes_that_archiving_leaves(client, storage, monkeypatch):
    monkeypatch.setattr(index_compaction, "_LARGE", 10)
    change(client, *(put(f"k{number}") for number in range(240)), options=AT_ONCE)
    change(client, options=AT_ONCE)
    waited = 0
    for number in range(45):
        change(client, put(f"new{number}"))
        data = client.timeline()
        times, compacted = unmerged(client, data)
        assert all(time >= data.writes[-min(20, len(data.writes))].time for time in times)
        waited = max(waited, sum(time < compacted for time in times))
    assert waited > 0, "compactions leave some blocks to the next one"
    assert len(content(storage.uri)) == 285


def test_statistics_of_many_files_wait_for_more_log_blocks_and_no_longer_than_archiving_allows(client, monkeypatch):
    monkeypatch.setattr(index_compaction, "_LARGE", 10)
    bases, sizes = set(), {}
    waited = compacted = 0
    for number in range(45):
        count = 40 if not number else 1
        time = f"20260102{number:09d}"
        added = [("", f"{number:03d}-{place}.parquet", 1 + number + place) for place in range(count)]
        for state in (".commit.requested", ".inflight"):
            client.storage.create(f".hoodie/{time}{state}", b"")
        rows = statistics(*((partition, name, "x", 0, size) for partition, name, size in added))
        update_metadata_table(client, time, files_added=files(*added), column_stats=rows, options={})
        client.storage.create(f".hoodie/{time}.commit", b"{}")
        sizes |= {name: size for _, name, size in added}
        data = client.timeline()
        times, last = unmerged(client, data, names.COLUMN_STATS)
        assert all(one >= data.writes[-min(20, len(data.writes))].time for one in times if one.startswith("20260102"))
        waited = max(waited, sum(one < last for one in times))
        compacted += len(statistics_files(client.storage) - bases)
        bases |= statistics_files(client.storage)
        read = MetadataTable.open(client, data).column_stats("x", pa.int64())
        assert dict(zip(read["file_name"].to_pylist(), read["max"].to_pylist(), strict=True)) == sizes
    assert waited > 0, "compactions leave some blocks to the next one"
    assert compacted > 2, "and not for ever"


def statistics_files(storage):
    return {base.path for group in list_file_groups(storage, names.COLUMN_STATS) for base in group.base_files}


def unmerged(client, data, partition=names.RECORD_INDEX):
    """Instants of the log blocks of an index, and the last compaction of the metadata table."""
    metadata = load_metadata_timeline(client.storage)
    slices = PartitionSources(client.storage, partition, ValidInstants(data, metadata)).slices
    times = [block.instant for file_slice in slices for block in file_slice.blocks]
    return [time for time in times if time is not None], last_compaction(metadata)


def test_entries_of_another_schema_are_encoded_anew(client, storage, monkeypatch):
    change(client, *(put(f"k{number}", "p", f"f{number % 3}") for number in range(9)), options=AT_ONCE)
    change(client, put("k1", "q", "g"), options=AT_ONCE)
    before = content(storage.uri)
    monkeypatch.setattr(index_compaction, "_is_ours", lambda schema: False)
    change(client, put("k2", "r", "h"), options=AT_ONCE)
    before["k2", ""] = ("r", "h")
    assert content(storage.uri) == before
    rows = [put(key, *place) for (key, _), place in before.items()]
    change(client, *rows, options=AT_ONCE)  # nothing of the base files is left
    change(client, options=AT_ONCE)
    assert content(storage.uri) == before


@pytest.mark.parametrize("name", [name for name in golden.NAMES if "rli" in name and name.startswith("v6")])
def test_an_index_of_apaches_is_compacted_continued_and_spread(name, tmp_path):
    location = golden.lay_out(name, tmp_path)
    before = content(location)
    assert before
    client = golden.client_of(location)
    layout = IndexLayout.of(client)
    bases = base_files(client.storage)
    for number in range(1, 4):
        time = f"20991231{number:09d}"
        for state in (".commit.requested", ".inflight"):
            client.storage.create(f".hoodie/{time}{state}", b"")
        update_metadata_table(client, time, index_changes=index_files.UNCHANGED, options=AT_ONCE)
        client.storage.create(f".hoodie/{time}.commit", b"{}")
    if not client.timeline().pending:  # else nothing may be compacted
        assert base_files(client.storage) - bases
    assert content(location) == before
    if layout.scope == GLOBAL and not client.timeline().pending:
        resize(client, layout.count + 3)
        assert content(location) == before
