"""Every golden table reads as Apache Hudi reads it, with its metadata table and without."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from catalog.rows.json_rows import json_lines
from tests.support.catalog_tables import NAMES, NEWER_NAMES
from tests.unit.conftest import GoldenTable


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("name", [*NAMES, *NEWER_NAMES])
def test_rows_are_those_that_apache_reads(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name)
    read = [json.loads(line) for line in json_lines(table.open().scan().to_arrow())]
    assert _sorted(read) == _sorted(table.rows)


@pytest.mark.parametrize("name", [name for name in (*NAMES, *NEWER_NAMES) if not name.endswith("nomdt")])
def test_rows_are_the_same_by_listing(
    golden: Callable[[str], GoldenTable], copied: Callable[..., str], name: str
) -> None:
    from catalog import Table

    table = Table.open(copied(name, metadata_table=False))
    read = [json.loads(line) for line in json_lines(table.scan().to_arrow())]
    assert _sorted(read) == _sorted(golden(name).rows)


@pytest.mark.parametrize("name", NAMES)
def test_splits_are_the_latest_file_slices(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name)
    planned = {(split.partition, split.file_id, split.file_name) for split in table.open().scan().plan().splits}
    wanted = {(one["partition"], one["file_id"], one["base_file"]) for one in table.file_slices if one["base_file"]}
    assert planned == wanted


@pytest.mark.parametrize("name", NEWER_NAMES)
def test_read_optimized_queries_read_base_files_alone(golden: Callable[[str], GoldenTable], name: str) -> None:
    table = golden(name)
    scan = table.open().scan(query_type="read_optimized")
    assert scan.count() == scan.to_arrow().num_rows == table.rows_of_base_files
    assert all(split.path and not split.log_files for split in scan.plan().splits)
