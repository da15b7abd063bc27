"""No plan loses a row: what planned files hold, filtered, is the whole table, filtered."""

import random
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from catalog import Plan, StageResult, Table
from pushdown import col, matches
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.support.filter_battery import random_filter
from tests.unit.conftest import GoldenTable


def stage_of(plan: Plan, name: str) -> StageResult:
    return next(stage for stage in plan.stages if stage.name == name)


FILTERS = 6


def check(table: Table, whole: pa.Table, options: dict[str, str], seed: int) -> int:
    """Compare pruned and whole reads under random filters; returns how many files were dropped."""
    chance = random.Random(seed)
    favourites = [*table.config.record_key_fields, *table.config.partition_fields]
    dropped = 0
    for _ in range(FILTERS):
        condition = random_filter(whole, favourites, chance)
        scan = table.scan(condition, options=options)
        plan = scan.plan()
        wanted = whole.filter(matches(condition, whole))
        assert sorted(map(repr, scan.to_arrow().to_pylist())) == sorted(map(repr, wanted.to_pylist())), condition
        check_sure_files(plan, whole)
        dropped += plan.files_total - len(plan)
    return dropped


def check_sure_files(plan: Plan, whole: pa.Table) -> None:
    if "_hoodie_file_name" not in whole.column_names:
        return
    for split in plan.splits:
        if split.log_files:
            continue
        rows = whole.filter(pc.equal(whole.column("_hoodie_file_name"), split.file_name))
        assert split.record_count in {None, rows.num_rows}
        if split.fully_matching and plan.expression is not None:
            assert pc.all(pc.fill_null(matches(plan.expression, rows), False), min_count=0).as_py()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_with_the_metadata_table(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    whole = table.scan().to_arrow()
    # more filters where those of a seed meet all files, as happens in tables of two
    dropped = (check(table, whole, golden_table.scan_options, seed) for seed in range(7, 17))
    assert any(dropped) or len(table.snapshot()) == 1


@pytest.mark.parametrize("name", NEWER_NAMES)
@pytest.mark.slow
def test_newer_tables(golden: Callable[[str], GoldenTable], copied: Callable[..., str], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    whole = table.scan().to_arrow()
    check(table, whole, golden_table.scan_options, seed=9)
    check(Table.open(copied(name, metadata_table=False)), whole, golden_table.scan_options, seed=10)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("nomdt")])
@pytest.mark.slow
def test_with_footers_alone(golden: Callable[[str], GoldenTable], copied: Callable[..., str], name: str) -> None:
    table = Table.open(copied(name, metadata_table=False))
    check(table, table.scan().to_arrow(), golden(name).scan_options, seed=8)


def test_without_any_statistics_every_file_stays(copied: Callable[..., str]) -> None:
    table = Table.open(copied("v6_0150__bkt_np_types", metadata_table=False))
    plan = table.scan("i > 2000000000", options={"hoodie.catalog.scan.footer.limit": "0"}).plan()
    assert len(plan) == plan.files_total
    assert not stage_of(plan, "column statistics").pruned
    assert "not read" in stage_of(plan, "column statistics").reason


@pytest.mark.parametrize(
    ("name", "condition", "partitions"),
    [
        ("v6_0150__bkt_hive", "part = 'eu'", {"part=eu"}),
        ("v6_0150__bkt_hive", "part IN ('日本', 'us west')", {"part=日本", "part=us west"}),
        ("v6_0150__bkt_hive", "part IS NULL", {"part=__HIVE_DEFAULT_PARTITION__"}),
        ("v6_0150__bkt_hive", "part = ''", {"part=__HIVE_DEFAULT_PARTITION__"}),
        ("v6_1200__bkt_urlenc", "part = 'a/b'", {"a%2Fb"}),
        ("v6_1200__bkt_urlenc", "part = '50%'", {"50%25"}),
        ("v6_1200__bkt_urlenc", "part = 'sp ace'", {"sp ace"}),
        ("v6_1200__bkt_datepart", "part >= DATE '2024-02-01'", {"part=2024-02-29"}),
        ("v6_0150__bkt_complex", "year = 2021 AND region <> 'eu'", {"apé/2021", "na/2021"}),
    ],
)
def test_partition_stage_keeps_exactly(
    copied: Callable[..., str], name: str, condition: str, partitions: set[str]
) -> None:
    plan = Table.open(copied(name, metadata_table=False)).scan(condition).plan()
    assert stage_of(plan, "partition").pruned
    assert stage_of(plan, "partition").files_out < stage_of(plan, "partition").files_in
    kept = {plan.snapshot.partitions[i] for i in plan.snapshot.partition_index[plan.dropped_by != 0]}
    assert kept == partitions


def test_null_is_kept_for_a_text_partition_only_where_it_can_be(copied: Callable[..., str]) -> None:
    plan = Table.open(copied("v6_0150__bkt_hive", metadata_table=False)).scan("part IS NOT NULL").plan()
    # An empty text also lies in the default partition, so that it stays.
    assert stage_of(plan, "partition").files_out == stage_of(plan, "partition").files_in


@pytest.mark.parametrize("value", ["2023/12/31", "2023-12-31"])
def test_slashes_in_paths_may_be_dashes_of_values(golden: Callable[[str], GoldenTable], value: str) -> None:
    plan = golden("v6_0150__bkt_slash").open().scan(col("part").is_in([value])).plan()
    assert stage_of(plan, "partition").pruned
    assert stage_of(plan, "partition").files_out == 2


def test_slashes_in_values_are_values(golden: Callable[[str], GoldenTable]) -> None:
    plan = golden("v6_0150__bkt_slash").open().scan("part = '2023/12/31'").plan()
    assert {split.partition for split in plan.splits} == {"2023/12/31"}


def test_a_global_index_leaves_partitions_to_statistics(golden: Callable[[str], GoldenTable]) -> None:
    plan = golden("v6_1200__rli_part").open().scan("part = 'moved'").plan()
    assert not stage_of(plan, "partition").pruned
    assert "record index" in stage_of(plan, "partition").reason
    assert {split.partition for split in plan.splits} == {"part=moved"}


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
        {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"},
        {"hoodie.table.keygenerator.class": "com.example.OurGenerator"},
        {"hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS"},
    ],
)
def test_other_key_generators_do_not_prune_by_path(copied: Callable[..., str], properties: dict[str, str]) -> None:
    plan = Table.open(copied("v6_0150__bkt_hive", properties)).scan("part = 'eu'").plan()
    assert not stage_of(plan, "partition").pruned
    assert "key generator" in stage_of(plan, "partition").reason


def test_files_without_a_statistics_row_stay(copied: Callable[..., str]) -> None:
    # bkt_complex has statistics of listed columns only; `l` is not among them.
    table = Table.open(copied("v6_1200__bkt_complex"))
    plan = table.scan(
        "l > 900000000000000 AND i > 2000000000", options={"hoodie.catalog.scan.footer.limit": "0"}
    ).plan()
    assert "column_stats has no column l" in stage_of(plan, "column statistics").reason


def test_unknown_parts_keep_files_and_refuse_rows(golden: Callable[[str], GoldenTable]) -> None:
    from pushdown import InexactFilterError

    scan = golden("v6_0150__bkt_hive").open().scan("part = 'eu' AND soundex(id) > id")
    assert {split.partition for split in scan.plan().splits} == {"part=eu"}
    with pytest.raises(InexactFilterError):
        scan.to_arrow()


def test_a_sure_file_is_told(golden: Callable[[str], GoldenTable]) -> None:
    plan = golden("v6_0150__bkt_complex").open().scan("region = 'eu'").plan()
    assert len(plan) > 0
    assert plan.fully_matching.all()


@pytest.mark.parametrize(
    ("condition", "kept", "sure"),
    [("1 = 0", False, False), ("null", False, False), ("1 = 1", True, True), ("rand() > 0.5", True, False)],
)
def test_a_filter_without_columns_keeps_all_files_or_none(
    golden: Callable[[str], GoldenTable], condition: str, *, kept: bool, sure: bool
) -> None:
    table = golden(NAMES[0]).open()
    plan = table.scan(condition).plan()
    assert len(plan) == (plan.files_total if kept else 0)
    assert plan.fully_matching.all() == (sure or not kept)
    assert stage_of(plan, "column statistics").pruned == (condition != "rand() > 0.5")
