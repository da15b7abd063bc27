"""Metadata tables of all versions against the data that they describe."""

import concurrent.futures
import datetime as dt
import os
import shutil
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from table_format.base_file.bloom import parse_bloom
from table_format.errors import CorruptFileError
from table_format.metadata_table import layout, record_index
from table_format.metadata_table.reader import MetadataTable
from table_format.table.client import TableClient
from tests.support import golden_newer as golden

UNTOLD_TRUTH = "v9up_1200__bkt_restore"  # Apache's raw reader shows files there that a restore took away
WITH_INDEX = [name for name in golden.NAMES if golden.facts(name)["locations"]]


@pytest.fixture(scope="module", params=golden.NAMES)
def table(request):
    return request.param, golden.facts(request.param), golden.open_table(golden.shared(request.param))


def test_the_listing_is_what_lies_on_disk(table):
    name, facts, metadata = table
    listed = sorted((row["partition"], row["file_name"], row["size"]) for row in metadata.files().to_pylist())
    orphans = {tuple(row) for row in facts["disk"]} - set(listed)
    assert set(listed) <= {tuple(row) for row in facts["disk"]}
    if "rollback" in name:  # of writes that did not complete
        assert orphans
        completed = {instant.time for instant in TableClient.open(golden.shared(name)).timeline().completed}
        assert not any(file.split("_")[-1].split(".")[0] in completed for _, file, _ in orphans)
    else:
        assert not orphans
    assert set(metadata.all_partitions()) == {partition for partition, _, _ in facts["disk"]}


def test_statistics_bound_the_data_of_base_and_log_files(table):
    name, facts, metadata = table
    client = TableClient.open(golden.shared(name))
    compared = bounded = logs = 0
    for field in client.table_schema(client.timeline()):
        if pa.types.is_nested(field.type):
            continue
        for row in metadata.column_stats(field.name, field.type).to_pylist():
            if row["file_name"] not in facts["truth"]:
                continue
            least, greatest, nulls, rows, nans = facts["truth"][row["file_name"]][field.name]
            assert row["value_count"] == rows
            assert row["null_count"] in (None, nulls)
            compared += 1
            logs += ".log." in row["file_name"]
            if nans:
                assert row["min"] is None or row["max"] is None, "finite bounds prove that there is no NaN"
            for side, true in (("min", least), ("max", greatest)):
                if row[side] is None or true is None:
                    continue
                bounded += 1
                bound, value = _ordered(row[side]), _value(true, field.type)
                assert bound <= value if side == "min" else bound >= value, (row, true)
                if pa.types.is_primitive(field.type) and not nans and not pa.types.is_floating(field.type):
                    assert bound == value
    assert compared
    assert bounded > compared
    assert logs or "mor" not in name


def test_statistics_are_those_that_apache_reads(table):
    name, facts, metadata = table
    if name == UNTOLD_TRUTH:
        return
    assert _counts(metadata.column_stats_raw()) == sorted(facts["column_stats"])
    assert _counts(metadata.partition_stats_raw()) == sorted(facts["partition_stats"])


def _counts(raw):
    return sorted(
        list(row.values()) for row in raw.select(["file_name", "column", "null_count", "value_count"]).to_pylist()
    )


@pytest.mark.parametrize("name", WITH_INDEX)
def test_the_record_index_finds_every_row(name):
    metadata = golden.open_table(golden.shared(name))
    expected = {key: (key, partition, file_id) for key, partition, file_id in golden.facts(name)["locations"]}
    locations = metadata.record_locations(pa.array([*expected, "no such key", None, ""]))
    assert sorted(tuple(row.values()) for row in locations.to_pylist()) == sorted(expected.values())
    for key in list(expected)[::7]:  # one at a time: other shards and blocks
        [row] = golden.open_table(golden.shared(name)).record_locations(pa.chunked_array([[key]])).to_pylist()
        assert tuple(row.values()) == expected[key]


def test_threads_look_up_at_the_same_time(monkeypatch):
    """All of them wait for one another in the middle of a look-up."""
    name = WITH_INDEX[0]
    metadata = golden.open_table(golden.shared(name))
    expected = [tuple(row) for row in golden.facts(name)["locations"]]
    meeting, plain = threading.Barrier(4, timeout=20), record_index.record_locations

    def look_up(*arguments):
        meeting.wait()
        return plain(*arguments)

    monkeypatch.setattr(record_index, "record_locations", look_up)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda row: metadata.record_locations(pa.array([row[0]])).to_pylist(), expected[:4])
    assert [tuple(row.values()) for [row] in found] == expected[:4]


def test_a_look_up_opens_the_shard_of_its_key_alone(tmp_path):
    name = "v9_1200__rli_archive"
    base = golden.lay_out(name, tmp_path)
    [key, *_] = golden.facts(name)["locations"][0]
    expected = golden.open_table(base).record_locations(pa.array([key])).to_pylist()
    groups = layout.list_file_groups(TableClient.open(base).storage, "record_index")
    readable = 0
    for group in groups:
        copy = shutil.copytree(base, tmp_path / group.file_id)
        for other in groups:
            if other is not group:
                for file in (*other.base_files, *other.log_files):
                    with open(os.path.join(copy, file.path), "wb") as stream:
                        stream.write(b"damaged")
        try:
            readable += golden.open_table(copy).record_locations(pa.array([key])).to_pylist() == expected
        except CorruptFileError:
            continue
    assert readable == 1


def test_tables_without_these_indexes_say_so():
    metadata = golden.open_table(golden.shared("v9_1200__edge_stats"))
    assert metadata.record_locations(pa.array(["1"])) is None
    assert metadata.bloom_filters(metadata.files()) is None
    assert metadata.partition_stats_raw().num_rows == 0


def test_bloom_filters_hold_the_keys_of_their_files():
    name = "v9_1200__bloom_replace"
    metadata = golden.open_table(golden.shared(name))
    keys = golden.facts(name)["keys"]
    filters = metadata.bloom_filters(metadata.files()).to_pylist()
    assert {row["file_name"] for row in filters} == set(keys)
    for row in filters:
        bloom = parse_bloom(row["bloom"], row["type"], row["file_name"])
        assert bloom.may_contain(pa.array(keys[row["file_name"]])).all()
        assert not bloom.may_contain(pa.array([f"other {n}" for n in range(50)])).all()
    some = metadata.files().slice(2, 3)
    unknown = pa.table({"partition": ["nowhere"], "file_name": ["x.parquet"]})
    asked = pa.concat_tables([some.select(["partition", "file_name"]), unknown])
    assert sorted(metadata.bloom_filters(asked)["file_name"].to_pylist()) == sorted(some["file_name"].to_pylist())
    assert metadata.bloom_filters(asked.slice(0, 0)).num_rows == 0


def test_a_pending_instant_of_the_data_table_is_invisible(tmp_path):
    base = golden.lay_out("v8_1020__rli_rollback", tmp_path)
    timeline = TableClient.open(base).timeline()
    [pending] = [instant.time for instant in timeline.pending if instant.action == "commit"]
    own = f"{base}/.hoodie/metadata/.hoodie/timeline"
    [completed] = [name for name in os.listdir(own) if name.startswith(f"{pending}_")]
    assert not any(pending in name for name in golden.open_table(base).files()["file_name"].to_pylist())
    completion = completed.removeprefix(f"{pending}_").split(".")[0]
    later = f"{int(completion) + 5}"
    with open(f"{base}/.hoodie/timeline/{pending}_{later}.commit", "wb"):
        pass
    assert any(pending in name for name in golden.open_table(base).files()["file_name"].to_pylist())


def test_what_began_after_the_timeline_was_read_is_invisible(tmp_path):
    name = "v9_1200__mor_bkt"
    base = golden.lay_out(name, tmp_path)
    client = TableClient.open(base)
    now = golden.open_table(base).files().num_rows
    folder = f"{base}/.hoodie/timeline"
    last = client.timeline().completed[-1]
    for file in os.listdir(folder):
        if file.startswith(last.time):
            os.remove(f"{folder}/{file}")
    before = client.timeline()
    assert not before.find(last.time)
    files = MetadataTable.open(client, before).files()
    assert files.num_rows < now
    assert not any(last.time in file for file in files["file_name"].to_pylist())


def test_a_commit_unknown_to_the_metadata_table_makes_it_unusable(tmp_path, caplog):
    base = golden.lay_out("v9_1200__edge_stats", tmp_path)
    with open(f"{base}/.hoodie/timeline/20991231000000000_20991231000001000.commit", "wb"):
        pass
    assert golden.open_table(base) is None
    assert "20991231000000000" in caplog.text


def test_commits_from_before_the_metadata_table_was_made_are_in_its_first_listing(tmp_path):
    base = golden.lay_out("v9_1200__edge_stats", tmp_path)
    with open(f"{base}/.hoodie/timeline/20200101000000000_20200101000001000.commit", "wb"):
        pass
    assert golden.open_table(base) is not None


@pytest.mark.parametrize("damage", ["properties", "folder", "layout"])
def test_a_metadata_table_in_pieces_is_not_used(damage, tmp_path):
    base = golden.lay_out("v8_1020__mor_rli", tmp_path)
    properties = f"{base}/.hoodie/metadata/.hoodie/hoodie.properties"
    if damage == "folder":
        shutil.rmtree(f"{base}/.hoodie/metadata")
    elif damage == "properties":
        os.remove(properties)
    else:  # an upgrade that broke off
        with open(properties) as stream:
            text = stream.read()
        with open(properties, "w") as stream:
            stream.write(text.replace("hoodie.timeline.layout.version=2", "hoodie.timeline.layout.version=1"))
        folder = f"{base}/.hoodie/metadata/.hoodie"
        for name in os.listdir(f"{folder}/timeline"):
            if "_" in name:
                shutil.copy(f"{folder}/timeline/{name}", f"{folder}/{name.split('_')[0]}.{name.split('.')[1]}")
    assert golden.open_table(base) is None


def test_archived_completion_times_tell_what_a_base_file_holds(tmp_path):
    """Logs older than the compaction do not apply twice, and the one that was under way during it does apply."""
    base = golden.lay_out("v9_1200__rli_archive", tmp_path)
    metadata = golden.open_table(base)
    sources = metadata._open("files")
    [file_slice] = sources.slices
    logs = sorted({block.path.split("_")[1].split(".")[0] for block in file_slice.blocks})
    assert logs[0] < file_slice.base.instant < metadata._valid._done[logs[0]]
    assert len(logs) < len(sources.groups[0].log_files)
    # The same when the log's deltacommit is in the history only.
    archived = metadata._valid._archived
    assert archived
    assert all(completion > requested for requested, completion in archived.items())


def _value(stored, kind):
    if pa.types.is_decimal(kind):
        return Decimal(stored)
    if pa.types.is_string(kind):
        return stored.encode()
    return bytes.fromhex(stored) if pa.types.is_binary(kind) else stored


def _ordered(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dt.datetime):
        return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return value.toordinal() - dt.date(1970, 1, 1).toordinal()
    return value
