"""Scans of few partitions of a table whose files were not listed: the same result with fewer reads."""

import random
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from catalog import Table, narrow
from catalog.explain import plan_json
from hudi_catalog import MissingFileError, create_table, open_table
from pushdown import matches
from table_format.hfile import reader, trailer
from table_format.metadata_table.reader import MetadataTable
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.filter_battery import random_filter
from tests.unit.conftest import GoldenTable

DAYS = 40
ROWS = pa.table({"id": range(DAYS), "day": [f"2026-01-{n:02}" for n in range(DAYS)], "v": range(DAYS)})


@pytest.fixture
def days(tmp_path: Path) -> Path:
    """A table of 40 partitions with a row each."""
    path = tmp_path / "days"
    create_table(path, ROWS.schema, record_key="id", partition_by="day", buckets=1).bulk_insert(ROWS)
    return path


@pytest.mark.parametrize("name", [*NAMES, *NEWER_NAMES])
@pytest.mark.slow
def test_rows_and_stages_are_those_of_the_whole_listing(
    golden: Callable[[str], GoldenTable], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow, "_ONE_OF", 1)
    made = golden(name)
    held = made.open()
    rows = held.scan(options=made.scan_options).to_arrow()
    chance = random.Random(11)
    for _ in range(2):
        condition = random_filter(rows, [*held.config.partition_fields, *held.config.record_key_fields], chance)
        plan = made.open().scan(condition, options=made.scan_options).plan()
        whole = held.scan(condition, options=made.scan_options).plan()
        assert sorted(split.path for split in plan.splits) == sorted(split.path for split in whole.splits)
        assert (plan.files_total, plan.bytes_total) == (whole.files_total, whole.bytes_total)
        assert [(stage.name, stage.files_out) for stage in plan.stages] == [
            (stage.name, stage.files_out) for stage in whole.stages
        ]
        read = made.open().scan(condition, options=made.scan_options).to_arrow()
        wanted = rows.filter(matches(condition, rows))
        assert sorted(map(repr, read.to_pylist())) == sorted(map(repr, wanted.to_pylist())), condition


def test_only_the_partition_s_files_are_listed(days: Path) -> None:
    scan = Table.open(str(days)).scan("day = '2026-01-07' AND v >= 0")
    plan = scan.plan()
    assert (len(plan.snapshot), len(plan.splits)) == (1, 1)
    assert scan.to_arrow()["id"].to_pylist() == [7]
    # what is shown of a plan counts the whole table
    assert (plan.files_total, plan_json(plan)["stages"][0]["files_in"]) == (DAYS, DAYS)
    assert plan.bytes_total > plan.bytes_kept


def test_statistics_of_that_partition_only_are_read(days: Path) -> None:
    read = MetadataTable.column_stats
    with mock.patch.object(MetadataTable, "column_stats", autospec=True, side_effect=read) as statistics:
        plan = Table.open(str(days)).scan("day = '2026-01-07' AND v > 7").plan()
    assert not plan.splits
    assert [call.args[3] for call in statistics.call_args_list] == [("2026-01-07",)] * len(statistics.call_args_list)
    table = MetadataTable.open(plan.snapshot.client, plan.snapshot.timeline)
    assert table is not None
    assert table.column_stats("v", pa.int64(), ["2026-01-07", "2026-01-09"])["min"].to_pylist() == [7, 9]


@pytest.mark.parametrize("text", ["v = 7", "day >= '2026-01-03'", "day = '2026-01-07' OR v = 8"])
def test_a_filter_that_leaves_many_partitions_takes_the_listing(days: Path, text: str) -> None:
    assert Table.open(str(days)).scan(text).plan().snapshot.whole is None


def test_all_scans_see_one_state_until_the_refresh(days: Path) -> None:
    table = Table.open(str(days))
    assert table.scan("day = '2026-01-07'").count() == 1
    open_table(days).upsert(ROWS.slice(7, 1).set_column(0, "id", pa.array([1007])))
    assert table.scan("day = '2026-01-07'").count() == 1
    assert table.scan().count() == DAYS
    assert table.refresh().scan("day = '2026-01-07'").count() == 2
    assert table.scan().count() == DAYS + 1


def test_a_state_that_is_gone_asks_for_a_refresh(days: Path) -> None:
    table = Table.open(str(days))
    with mock.patch.object(reader, "_SHORT_TAIL", trailer.SIZE):  # as if the HFile were large: not read whole
        table.scan("day = '2026-01-07'").plan()
    for log in (days / ".hoodie/metadata/files").glob(".files-*.log*"):
        log.unlink()
    for base in (days / ".hoodie/metadata/files").glob("*.hfile"):
        base.unlink()
    with pytest.raises(MissingFileError, match="refresh the table"):
        table.scan().plan()


def test_partition_paths_are_read_for_filters_of_partition_columns_only(days: Path) -> None:
    with mock.patch.object(MetadataTable, "partition_paths", side_effect=AssertionError("not asked for")):
        assert Table.open(str(days)).scan("v = 7").count() == 1
    with (
        pytest.raises(AssertionError, match="not asked for"),
        mock.patch.object(MetadataTable, "partition_paths", side_effect=AssertionError("not asked for")),
    ):
        Table.open(str(days)).scan("day = '2026-01-07'")
