import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pytest

from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.instant import parse_instant_file_name
from table_format.log.blocks import BlockType, HeaderKey, LogBlock, surviving_blocks
from table_format.metadata_table.slices import ValidInstants
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline, highest_states
from tests.support import golden_metadata as golden


@pytest.fixture(scope="module", params=golden.NAMES)
def table(request):
    return request.param, golden.facts(request.param), golden.open_table(golden.shared(request.param))


def test_files_are_those_that_apache_reads(table):
    _, facts, metadata = table
    assert golden.file_rows(metadata.files()) == sorted(map(tuple, facts["files"]))
    assert metadata.all_partitions() == facts["partitions"]


def test_latest_files_are_listed_with_their_true_size(table):
    _, facts, metadata = table
    sizes = {os.path.basename(path): size for path, size in facts["disk"]}
    listed = {row["file_name"]: row["size"] for row in metadata.files().to_pylist()}
    for file_slice in facts["file_slices"]:
        if file_slice["base_file"]:
            assert listed[file_slice["base_file"]] == sizes[file_slice["base_file"]]


def test_some_partitions_only(table):
    _, _, metadata = table
    chosen = metadata.all_partitions()[:2]
    expected = [row for row in golden.file_rows(metadata.files()) if row[0] in chosen]
    assert golden.file_rows(metadata.files(chosen)) == expected


def test_column_stats_are_those_that_apache_reads(table):
    name, facts, metadata = table
    rows = {(row["file_name"], row["column"]): row for row in metadata.column_stats_raw().to_pylist()}
    expected = {(row["fileName"], row["columnName"]): row for row in facts["column_stats"]}
    # Where Spark could not read the metadata table, Apache was asked for files that are still there.
    assert set(rows) == set(expected) if facts["all_column_stats"] else set(rows) >= set(expected), name
    for key, stats in expected.items():
        counts = [stats.get(field) for field in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")]
        if stats.get("valueCount") is not None:
            fields = ("value_count", "null_count", "total_size", "total_uncompressed_size")
            assert [rows[key][field] for field in fields][: len(counts)] == counts
        assert (rows[key]["min"] is None) == (stats.get("minValue") is None)
        assert (rows[key]["max"] is None) == (stats.get("maxValue") is None)


def test_bounds_have_the_values_that_apache_reads(table):
    _, facts, metadata = table
    types = {column: kind for column, kind in facts["column_types"] if kind in golden.SIMPLE_TYPES}
    compared = 0
    for column, kind in types.items():
        typed = metadata.column_stats(column, golden.SIMPLE_TYPES[kind])
        by_file = {row["file_name"]: row for row in typed.to_pylist()}
        for stats in facts["column_stats"]:
            if stats["columnName"] != column or stats["fileName"] not in by_file:
                continue
            for side, field in (("min", "minValue"), ("max", "maxValue")):
                value = by_file[stats["fileName"]][side]
                if value is None:
                    continue
                compared += 1
                assert value == _value(stats[field], kind) or kind == "string", (column, stats)
                if kind == "string":
                    assert _value(stats[field], kind).startswith(value)
    assert compared or not facts["column_stats"]


def _value(wrapped, kind):
    [value] = [inner["value"] if isinstance(inner, dict) else inner for inner in wrapped.values()]
    if kind == "date32[day]":
        return (
            dt.date(1970, 1, 1) + dt.timedelta(days=value) if isinstance(value, int) else dt.date.fromisoformat(value)
        )
    if kind == "float":  # Spark shows the shortest text of the 32 bits
        return float(np.float32(value))
    if kind == "double":
        return float(value)
    return value


@pytest.mark.parametrize("name", ["v6_1200__bkt_rollback", "v6_0150__rli_rollback"])
def test_what_the_data_table_has_not_completed_is_invisible(name, tmp_path):
    base = golden.lay_out(name, tmp_path)
    client = golden.client_of(base)
    [pending] = [instant for instant in client.timeline().pending if instant.action == "commit"]
    assert os.path.exists(f"{base}/.hoodie/metadata/.hoodie/{pending.time}.deltacommit")
    before = golden.open_table(base).files()
    assert not any(pending.time in file for file in before["file_name"].to_pylist())
    # Completing it shows that the blocks were there all along.
    client.storage.create(f".hoodie/{pending.time}.commit", b"")
    after = golden.open_table(base).files()
    assert any(pending.time in file for file in after["file_name"].to_pylist())


def test_no_metadata_table(tmp_path):
    base = golden.lay_out("v6_1200__bkt_restore", tmp_path)
    properties = f"{base}/.hoodie/hoodie.properties"
    with open(properties) as stream:
        text = stream.read()
    with open(properties, "w") as stream:
        stream.write(text.replace("column_stats,files", ""))
    assert golden.open_table(base) is None


def test_a_commit_that_the_metadata_table_does_not_know_makes_it_unusable(tmp_path, caplog):
    base = golden.lay_out("v6_1200__bkt_restore", tmp_path)
    golden.client_of(base).storage.create(".hoodie/20991231000000000.commit", b"{}")
    assert golden.open_table(base) is None
    assert "20991231000000000" in caplog.text


def test_a_listed_metadata_table_that_is_gone_is_not_used(tmp_path, caplog):
    base = golden.lay_out("v6_1200__bkt_restore", tmp_path)
    golden.client_of(base).storage.delete_dir(".hoodie/metadata")
    assert golden.open_table(base) is None
    assert "not used" in caplog.text


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_damaged_base_file_names_file_and_place(damage, tmp_path):
    base = golden.lay_out("v6_1200__bkt_archive", tmp_path)
    folder = f"{base}/.hoodie/metadata/files"
    hfiles = (name for name in os.listdir(folder) if name.endswith(".hfile"))
    newest = max(hfiles, key=lambda name: name.rsplit("_", 1)[1])
    with open(f"{folder}/{newest}", "r+b") as stream:
        data = stream.read()
        stream.seek(0)
        stream.truncate()
        stream.write(data[: len(data) // 2] if damage == "cut" else data[:60] + bytes([data[60] ^ 0xFF]) + data[61:])
    with pytest.raises(CorruptFileError, match=newest.split("_", maxsplit=1)[0]):
        golden.open_table(base).files()


def test_a_missing_shard_folder_is_an_error(tmp_path):
    base = golden.lay_out("v6_1200__bkt_restore", tmp_path)
    golden.client_of(base).storage.delete_dir(".hoodie/metadata/files")
    with pytest.raises(CorruptFileError, match="rebuild"):
        golden.open_table(base).files()


def test_reading_twice_gives_the_same_object(tmp_path):
    table = golden.open_table(golden.lay_out("v6_1200__bkt_restore", tmp_path))
    assert table.files() is table.files()
    assert table.column_stats("id", pa.string()).equals(table.column_stats("id", pa.string()))


def test_unknown_column_and_missing_index(tmp_path):
    table = golden.open_table(golden.lay_out("v6_1200__bkt_restore", tmp_path))
    assert table.column_stats("no such column", pa.int64()).num_rows == 0
    table.partitions = ("files",)
    assert table.column_stats("id", pa.int64()).num_rows == 0
    assert table.column_stats_raw().num_rows == 0


# which instants and blocks count


def valid(data, metadata):
    made = [
        Timeline(Storage("/nowhere"), highest_states(parse_instant_file_name(name) for name in names))
        for names in (data, metadata)
    ]
    return ValidInstants(*made)


T1, T2, T3 = "20260101000000001", "20260101000000002", "20260101000000003"


def test_an_instant_counts_when_both_timelines_completed_it():
    known = valid([f"{T1}.commit", f"{T2}.inflight"], [f"{T1}.deltacommit", f"{T2}.deltacommit"])
    assert T1 in known
    assert T2 not in known
    assert T3 not in known


def test_an_instant_that_only_the_data_table_completed_does_not_count():
    assert T2 not in valid([f"{T2}.commit"], [f"{T1}.deltacommit", f"{T2}.deltacommit.inflight"])


def test_archived_instants_count():
    assert T1 in valid([f"{T2}.commit"], [f"{T2}.deltacommit"])


@pytest.mark.parametrize("suffix", ["001", "004", "006", "010", "011", "123"])
def test_services_of_the_metadata_table_count(suffix):
    known = valid([f"{T1}.commit"], [f"{T1}.deltacommit", f"{T2}{suffix}.deltacommit"])
    assert f"{T2}{suffix}" in known


@pytest.mark.parametrize("suffix", ["000", "007", "009", "01", "0010"])
def test_other_suffixes_do_not(suffix):
    known = valid([f"{T1}.commit"], [f"{T1}.deltacommit", f"{T2}{suffix}.deltacommit"])
    assert f"{T2}{suffix}" not in known


def test_instants_of_an_empty_table_count():
    assert "00000000000000010" in valid([f"{T1}.commit"], ["00000000000000010.deltacommit", f"{T1}.deltacommit"])


def test_a_pending_clean_does_not_count_and_a_savepoint_is_no_obstacle():
    done = [f"{T1}.deltacommit", f"{T2}.deltacommit"]
    assert T2 not in valid([f"{T1}.commit", f"{T2}.clean.inflight"], done)
    assert T2 in valid([f"{T1}.commit", f"{T2}.commit", f"{T2}.savepoint.inflight"], done)


def block(kind, instant, **header):
    names = {HeaderKey[key.upper()]: value for key, value in header.items()}
    return LogBlock(kind, {HeaderKey.INSTANT_TIME: instant, **names}, memoryview(b""), 0, 0, "x.log", 0)


def rollback(instant, target):
    return block(BlockType.COMMAND, instant, target_instant_time=target, command_block_type="0")


EVERY = type("Every", (), {"__contains__": lambda self, time: True})()


def surviving(blocks, valid=EVERY):
    return surviving_blocks(blocks, valid.__contains__, in_metadata=True)


def times(blocks):
    return [block.instant for block in surviving(blocks)]


def test_a_rollback_drops_the_blocks_before_it_and_not_those_behind():
    data = [block(BlockType.HFILE_DATA, time) for time in (T1, T2)]
    again = block(BlockType.HFILE_DATA, T2)
    kept = surviving([*data, rollback(T3, T2), again])
    assert [each is again for each in kept] == [False, True]
    assert times([*data, rollback(T3, T1)]) == [T2]
    assert times([*data, rollback(T3, "20250101000000000")]) == [T1, T2]


def test_a_compacted_block_takes_the_place_of_those_that_it_holds():
    data = [block(BlockType.HFILE_DATA, time) for time in ("a", "b", "c", "d")]
    compacted = block(BlockType.HFILE_DATA, "x", compacted_block_times="b,c")
    assert times([*data, compacted]) == ["a", "x", "d"]


def test_a_torn_block_is_skipped_unless_its_instant_completed():
    torn = block(BlockType.CORRUPT, T2)
    none = type("Nothing", (), {"__contains__": lambda self, time: False})()
    assert surviving([torn], none) == []
    with pytest.raises(CorruptFileError, match=T2):
        surviving([torn])


def test_what_the_metadata_table_never_holds_is_refused_by_name():
    data = block(BlockType.HFILE_DATA, T1)
    unknown = block(BlockType.COMMAND, T2, target_instant_time=T1, command_block_type="7")
    with pytest.raises(UnsupportedTableError, match="other than a rollback, number 7; drop and rebuild"):
        surviving([data, unknown])
    with pytest.raises(UnsupportedTableError, match="names no instant"):
        surviving([data, block(BlockType.COMMAND, T2, command_block_type="0")])
    for kind in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.CDC_DATA):
        with pytest.raises(UnsupportedTableError, match=f"a {kind.name} block in the metadata table"):
            surviving([data, block(kind, T2)])
    with pytest.raises(CorruptFileError, match="no instant; drop and rebuild"):
        surviving([data, block(BlockType.HFILE_DATA, None)])
