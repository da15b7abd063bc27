"""Stages against tables that Apache wrote with each kind of index: every row's file is kept, and few others."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog import Plan, StageResult, Table
from pushdown import col
from tests.support.paths import GOLDEN

ARCHIVE = os.path.join(os.path.dirname(__file__), "../../golden/tables/indexes.tar.xz")
NO_FOOTERS = {"hoodie.catalog.scan.footer.limit": "0"}
RINGS = ["v6_ring", "v9_ring"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("indexes")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(target, filter="data")
    return target


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Callable[[str], Path]:
    def make(name: str) -> Path:
        return Path(shutil.copytree(folder / name, tmp_path / name))

    return make


def stage_of(plan: Plan, name: str) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == name)


def rows_of_files(path: Path, table: Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """The position of each base file of the table, and its rows."""
    files = table.scan().plan().snapshot.files
    for position, name in enumerate(files["path"].to_pylist()):
        if name is not None:
            for row in pq.ParquetFile(path / name).read().to_pylist():
                yield position, row


def check(path: Path, column: str, stage: str) -> float:
    """How many files the stage keeps for the value of each row; the row's own is among them."""
    table = Table.open(str(path))
    kept: list[int] = []
    for position, row in rows_of_files(path, table):
        plan = table.scan(col(column) == row[column], options=NO_FOOTERS).plan()
        assert stage_of(plan, stage).pruned, stage_of(plan, stage).reason
        assert plan.dropped_by[position] == -1, row
        kept.append(stage_of(plan, stage).files_out)
    assert len(kept) > 30
    return sum(kept) / len(kept)


@pytest.mark.parametrize("name", RINGS)
def test_consistent_hashing_after_a_resize(folder: Path, name: str) -> None:
    files = len(Table.open(str(folder / name)).scan().plan().snapshot.files)
    # Both versions of each ring count: one group of three partitions, or the group that it was split from.
    assert check(folder / name, "id", "bucket") <= 6 < files


@pytest.mark.parametrize("name", RINGS)
def test_groups_that_no_ring_knows_are_kept(copy: Callable[[str], Path], name: str) -> None:
    path = copy(name)
    before = len(Table.open(str(path)).scan("id = 'k00003'").plan())
    shutil.rmtree(path / ".hoodie/.bucket_index/consistent_hashing_metadata/part=x")
    plan = Table.open(str(path)).scan("id = 'k00003'", options=NO_FOOTERS).plan()
    assert stage_of(plan, "bucket").pruned
    assert stage_of(plan, "bucket").files_out > before
    of_x = sum(partition == "part=x" for partition in plan.snapshot.files["partition"].to_pylist())
    assert sum(split.partition == "part=x" for split in plan.splits) == of_x


def test_a_ring_that_is_torn_is_not_used(copy: Callable[[str], Path]) -> None:
    path = copy("v9_ring")
    ring = path / ".hoodie/.bucket_index/consistent_hashing_metadata/part=x/00000000000000.hashing_meta"
    ring.write_bytes(ring.read_bytes()[:100])
    stage = stage_of(Table.open(str(path)).scan("id = 'k00003'").plan(), "bucket")
    assert not stage.pruned
    assert "hashing_meta" in stage.reason


def test_rows_without_meta_columns_may_lie_anywhere(copy: Callable[[str], Path]) -> None:
    """Apache 1.0.2's bulk insert put a row of partition b into a file of partition a, of another bucket."""
    path = copy("v9_ring")
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.populate.meta.fields=false\n")
    plan = Table.open(str(path)).scan("id = 'k00003' AND part = 'x'").plan()
    for name in ("partition", "bucket"):
        assert not stage_of(plan, name).pruned
        assert "may put rows without meta columns into files of other" in stage_of(plan, name).reason


@pytest.mark.parametrize("version", ["0.15.0", "1.0.2", "1.2.0"])
def test_rings_need_no_keys_of_base_files(tmp_path: Path, version: str) -> None:
    """They stand in the table's metadata, unlike a bucket count that only options give."""
    with tarfile.open(GOLDEN / f"apache_tables/{version}.tar.xz") as archive:
        members = [member for member in archive if "mor_consistent_hashing" in member.name]
        archive.extractall(tmp_path, members, filter="data")
    (path,) = tmp_path.glob("*/table")
    table = Table.open(str(path))
    for key in table.scan().to_arrow()["_hoodie_record_key"].to_pylist()[:5]:
        scan = table.scan(col("_hoodie_record_key") == key)
        stage = stage_of(scan.plan(), "bucket")
        assert stage.files_out < stage.files_in, stage.reason
        assert scan.count() == 1


def test_keys_that_lie_in_other_groups_contradict_a_ring(copy: Callable[[str], Path]) -> None:
    path = copy("v9_ring")
    for ring in (path / ".hoodie/.bucket_index/consistent_hashing_metadata").rglob("*.hashing_meta"):
        metadata = json.loads(ring.read_text())
        prefixes = [node["fileIdPrefix"] for node in metadata["nodes"]]
        for node, prefix in zip(metadata["nodes"], prefixes[1:] + prefixes[:1], strict=True):
            node["fileIdPrefix"] = prefix
        ring.write_text(json.dumps(metadata))
    stage = stage_of(Table.open(str(path)).scan("id = 'k00003'").plan(), "bucket")
    assert not stage.pruned
    assert "contradicts" in stage.reason


def test_bucket_counts_by_partition_keep_all_buckets(folder: Path) -> None:
    stage = stage_of(Table.open(str(folder / "v9_counts")).scan("id = 'k00003'").plan(), "bucket")
    assert not stage.pruned
    assert "bucket counts differ between partitions" in stage.reason


def test_a_rescale_that_is_not_done_keeps_all_buckets(copy: Callable[[str], Path]) -> None:
    path = copy("v9_counts")
    folder = path / ".hoodie/.bucket_index/partition_bucket_index_meta/configs"
    (stored,) = folder.glob("*.hashing_config")
    shutil.copy(stored, folder / "29990101000000000.hashing_config")
    stage = stage_of(Table.open(str(path)).scan("id = 'k00003'").plan(), "bucket")
    assert not stage.pruned
    assert "bucket counts differ between partitions" in stage.reason


def test_bucket_counts_tell_nothing_of_the_past(folder: Path) -> None:
    table = Table.open(str(folder / "v9_counts"))
    first = table.scan().plan().snapshot.timeline.completed[0].time
    stage = stage_of(table.scan("id = 'k00003'", as_of=first).plan(), "bucket")
    assert not stage.pruned


def test_paths_of_the_timestamp_key_generator(folder: Path) -> None:
    assert check(folder / "v9_time", "t", "partition") == 1
    table = Table.open(str(folder / "v9_time"))
    assert len(table.scan("t < -2000000000000").plan()) == 0
    times: list[Any] = table.scan().to_arrow()["t"].to_pylist()
    for value in times[::7]:
        below = value - 9_000_000
        expected_times = {
            f"t <= {value}": [t for t in times if t <= value],
            f"t > {value}": [t for t in times if t > value],
            f"NOT (t BETWEEN {below} AND {value})": [t for t in times if not below <= t <= value],
        }
        for condition, expected in expected_times.items():
            scan = table.scan(condition)
            assert stage_of(scan.plan(), "partition").pruned
            assert scan.to_arrow().sort_by("t")["t"].to_pylist() == sorted(expected)


@pytest.mark.slow
def test_bloom_filters(folder: Path) -> None:
    assert check(folder / "v6_blooms", "id", "bloom filter") == 1
    plan = Table.open(str(folder / "v6_blooms")).scan("id = 'k99999'", options=NO_FOOTERS).plan()
    assert len(plan) == 0
