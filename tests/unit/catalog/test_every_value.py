"""Each value of each column of Apache's tables is found, by every comparison, through plans."""

from collections.abc import Callable

import pytest

from catalog import Table
from tests.support.catalog_tables import NAMES
from tests.support.lost_rows import FullScan, check_filter
from tests.support.value_battery import battery
from tests.unit.conftest import GoldenTable

MOST_VALUES = 4


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_every_value_is_found(golden: Callable[[str], GoldenTable], name: str) -> None:
    golden_table = golden(name)
    table = golden_table.open()
    full = FullScan.of(table)
    dropped = 0
    for condition in battery(full, MOST_VALUES):
        plan = check_filter(table, full, condition, golden_table.scan_options)
        dropped += plan.files_total - len(plan)
    assert dropped > 0


@pytest.mark.parametrize("name", ["v6_0150__edge_stats", "v6_1200__edge_stats", "v6_0150__bkt_evolve"])
@pytest.mark.slow
def test_every_value_is_found_by_footers(copied: Callable[..., str], name: str) -> None:
    table = Table.open(copied(name, metadata_table=False))
    full = FullScan.of(table)
    for condition in battery(full, MOST_VALUES):
        check_filter(table, full, condition)
