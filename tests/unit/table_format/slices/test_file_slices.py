import random
import re

import pyarrow as pa
import pytest

from table_format.errors import UnsupportedTableError
from table_format.instant import Instant, State
from table_format.slices.file_slices import (
    BASE_FILES_SCHEMA,
    FILES_SCHEMA,
    REPLACED_SCHEMA,
    latest_base_files,
    latest_file_slices,
    list_data_files,
    read_optimized_slices,
    replaced_file_groups,
)
from table_format.storage import Storage
from table_format.timeline.timeline import Timeline, load_timeline
from tests.support.golden_tables import NAMES, facts, lay_out
from tests.support.work import function_calls

NONE_REPLACED = REPLACED_SCHEMA.empty_table()


def _listing(*rows):
    return pa.Table.from_pylist([dict(zip(FILES_SCHEMA.names, row, strict=True)) for row in rows], FILES_SCHEMA)


def _timeline(*times, pending=()):
    done = [Instant(t, "commit", State.COMPLETED) for t in times]
    return Timeline(None, tuple(sorted([*done, *(Instant(t, "commit", State.INFLIGHT) for t in pending)])))


def _names(files):
    return files["file_name"].to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_slices_are_those_of_apache(name, tmp_path):
    storage = Storage(lay_out(name, tmp_path))
    known = facts(name)
    listed = list_data_files(storage)
    files = latest_base_files(listed, load_timeline(storage))
    columns = ("partition", "file_id", "instant", "file_name")
    slices = [[*(row[column] for column in columns), []] for row in files.to_pylist()]
    assert sorted(slices) == sorted(known["slices"])
    assert files.schema == BASE_FILES_SCHEMA
    assert (
        dict(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True)).items() <= known["files"].items()
    )
    partitions = sorted(set(listed["partition"].to_pylist()))
    assert list_data_files(storage, partitions).sort_by("file_name") == listed.sort_by("file_name")


@pytest.mark.parametrize("name", ["v6_0150__bloom_replace", "v6_1200__bloom_replace", "v6_0150__cluster"])
def test_replaced_groups_are_there_before_they_were_replaced(name, tmp_path):
    storage = Storage(lay_out(name, tmp_path))
    timeline = load_timeline(storage)
    replaced = replaced_file_groups(timeline)
    first = min(replaced["replaced_at"].to_pylist())
    before = max(i.time for i in timeline.writes if i.time < first)
    gone = {row["file_id"] for row in replaced.to_pylist() if row["replaced_at"] == first}
    listed = list_data_files(storage)
    assert gone <= set(latest_base_files(listed, timeline, as_of=before)["file_id"].to_pylist())
    assert not gone & set(latest_base_files(listed, timeline, as_of=first)["file_id"].to_pylist())


def test_the_newest_committed_version_wins():
    files = _listing(
        ("p", "a-0_0-1-1_3.parquet", 1),
        ("p", "a-0_0-2-1_5.parquet", 2),
        ("p", "a-0_0-3-1_7.parquet", 3),
        ("q", "a-0_0-1-1_3.parquet", 4),
    )
    timeline = _timeline("3", "5", pending=["7"])
    assert latest_base_files(files, timeline, replaced=NONE_REPLACED)["path"].to_pylist() == [
        "p/a-0_0-2-1_5.parquet",
        "q/a-0_0-1-1_3.parquet",
    ]
    assert _names(latest_base_files(files, timeline, as_of="4", replaced=NONE_REPLACED)) == ["a-0_0-1-1_3.parquet"] * 2
    assert latest_base_files(files, timeline, as_of="2", replaced=NONE_REPLACED).num_rows == 0


@pytest.mark.parametrize("width", [3, 12])
def test_slices_are_in_the_order_of_partitions_and_file_ids(width):
    groups = [
        (partition, f"{number:0{width}x}{tail}")
        for partition in ("", "b", "a", "a/c", "a b", "é")
        for number in (7, 1, 0xABC, 3)
        for tail in ("", "-2", "-10", "-1")
    ]
    listing = _listing(*((partition, f"{group}_0-0-0_1.parquet", 1) for partition, group in groups))
    slices = latest_base_files(listing, _timeline("1"), replaced=NONE_REPLACED)
    assert [*zip(slices["partition"].to_pylist(), slices["file_id"].to_pylist(), strict=True)] == sorted(groups)


def test_other_files_in_a_partition_are_passed_over():
    files = _listing(
        ("", "_SUCCESS", 0), ("", "a.parquet", 1), ("", "a-0_0-0-0_3.parquet", 2), ("", "a-0_0-0-0_3.tmp", 1)
    )
    assert _names(latest_base_files(files, _timeline("3"), replaced=NONE_REPLACED)) == ["a-0_0-0-0_3.parquet"]


def test_no_files_at_all():
    slices = latest_base_files(FILES_SCHEMA.empty_table(), _timeline("3"), replaced=NONE_REPLACED)
    assert slices.schema == BASE_FILES_SCHEMA
    assert slices.num_rows == 0


@pytest.mark.parametrize("name", [".a-0_3.log.1_0-1-2", ".a-0_3.log.2", ".a-0_3.log.1_0-1-2.cdc"])
def test_log_files_are_refused_by_name(name):
    files = _listing(("p", "a-0_0-0-0_3.parquet", 2), ("p", name, 9))
    with pytest.raises(UnsupportedTableError, match=f"^p/{name}"):
        latest_base_files(files, _timeline("3"), replaced=NONE_REPLACED)


@pytest.mark.parametrize("slices", [latest_base_files, read_optimized_slices, latest_file_slices])
@pytest.mark.parametrize(
    ("name", "instants"),
    [
        ("a-0_0-0-0_3.orc", ["3"]),
        ("a-0_0-0-0_3.lance", ["3"]),
        ("a-0_0-0-0_1.hfile", ["3"]),  # archived
        ("a-0_0-0-0_20240101000000.vortex", ["20240101000000"]),
        ("a-0_0-0-0_20240101000000000.PARQUET", ["20240101000000000"]),
    ],
)
def test_other_base_formats_are_refused_by_name(name, instants, slices):
    """Also where the newest file of each group is Parquet: an older one may be that of the query's instant."""
    files = _listing(("p", name, 2), ("q", f"b-0_0-0-0_{instants[0]}.parquet", 2))
    with pytest.raises(UnsupportedTableError, match=f"^p/{re.escape(name)}: base files are read in Parquet only"):
        slices(files, _timeline(*instants), replaced=NONE_REPLACED)


@pytest.mark.parametrize(
    "name",
    ["report_1_2024.csv", "a-0_0-0-0_7.lance", "a-0_0-0-0_70240101000000.vortex", "x_y_2.txt", "README", "a_b_c.orc"],
)
def test_files_of_others_and_of_failed_writes_are_passed_over(name):
    files = _listing(("p", name, 2), ("p", "b-0_0-0-0_3.parquet", 2))
    slices = latest_base_files(files, _timeline("3", pending=["7"]), replaced=NONE_REPLACED)
    assert _names(slices) == ["b-0_0-0-0_3.parquet"]


def test_a_retried_task_leaves_two_files_and_the_commit_tells_which(tmp_path):
    base = tmp_path / ".hoodie"
    base.mkdir()
    (base / "3.commit").write_text(
        '{"partitionToWriteStats": {"p": [{"fileId": "a-0", "path": "p/a-0_0-1-1_3.parquet", "partitionPath": "p"}]}}'
    )
    timeline = load_timeline(Storage(str(tmp_path)))
    files = _listing(("p", "a-0_0-1-1_3.parquet", 1), ("p", "a-0_0-1-9_3.parquet", 2))
    assert _names(latest_base_files(files, timeline)) == ["a-0_0-1-1_3.parquet"]


def test_folders_without_a_metadata_file_are_no_partitions(tmp_path):
    for folder in ("a", "a/b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x-0_0-0-0_3.parquet").write_bytes(b"1")
    for folder in ("a/b", "c"):
        (tmp_path / folder / ".hoodie_partition_metadata").write_bytes(b"")
    storage = Storage(str(tmp_path))
    assert list_data_files(storage)["partition"].to_pylist() == ["a/b", "c"]
    assert list_data_files(storage, ["c", "a", "missing"])["partition"].to_pylist() == ["c"]


def test_no_function_is_called_for_each_of_a_hundred_thousand_files():
    count = 100_000
    names = [
        f"{i:08d}-b357-4fbc-a6e6-074972b72bab-0_{i}-13-23_2026112108{i % 50:02d}00000.parquet" for i in range(count)
    ]
    files = pa.table({"partition": [f"p={i // 5000}" for i in range(count)], "file_name": names, "size": [1] * count})
    timeline = _timeline(*(f"2026112108{i:02d}00000" for i in range(50)))
    slices = latest_base_files(files, timeline, replaced=NONE_REPLACED)
    assert slices.num_rows == count
    assert function_calls(lambda: latest_base_files(files, timeline, replaced=NONE_REPLACED)) < 10_000


@pytest.mark.parametrize("seed", range(6))
def test_slices_come_by_partition_and_file_id_whatever_the_order_of_the_listing(seed):
    """Ids with a common start of more than eight bytes, of several lengths, in partitions of like names."""
    chance = random.Random(seed)
    heads = ("00000001-0000-4000", "00000001-0000", "0", "a")
    ids = [f"{chance.choice(heads)}{chance.choice(['', '-8', '-8000-0'])}-{n}" for n in range(40)]
    groups = {(chance.choice(["", "p", "p=1", "p=10", "p/é"]), file_id) for file_id in ids for _ in range(3)}
    rows = [(partition, f"{file_id}_0-0-0_{time}.parquet") for partition, file_id in groups for time in (1, 3)]
    expected = sorted(groups, key=lambda group: (group[0].encode(), group[1]))
    for order in (sorted(rows), chance.sample(rows, len(rows))):
        partitions, names = zip(*order, strict=True)
        files = pa.table({"partition": partitions, "file_name": names, "size": [1] * len(rows)}, FILES_SCHEMA)
        newest = latest_base_files(files, _timeline("1", "3"), replaced=NONE_REPLACED)
        assert list(zip(newest["partition"].to_pylist(), newest["file_id"].to_pylist(), strict=True)) == expected
        assert set(newest["instant"].to_pylist()) == {"3"}
        assert newest["path"].to_pylist() == [
            f"{partition}/{file_id}_0-0-0_3.parquet".lstrip("/") for partition, file_id in expected
        ]
