"""Splits of random tables: the row groups that they name, less what their residual drops, are the matching rows."""

from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st

from catalog import FileSplit, Scan
from catalog.snapshots.scan_options import SPLIT_SIZE
from pushdown import matches
from pushdown.errors import ExpressionError
from pushdown.walk import reasons_of
from table_format.base_file.reader import read_base_file
from tests.property.profile import examples
from tests.property.test_whole_tables import filters_of
from tests.property.whole_tables import ROW, TablePlan, table_plans
from tests.support.lost_rows import FullScan


def row_numbers(scan: Scan, split: FileSplit) -> list[int]:
    """What an engine finds that reads the split by the letter."""
    storage = scan.snapshot.client.storage
    assert split.path is not None
    path = split.path.removeprefix(storage.full_uri("")).lstrip("/")
    rows = read_base_file(storage, path, schema=scan.snapshot.schema, choose=lambda _: split.row_groups or ())
    if split.residual is not None:
        rows = rows.filter(matches(split.residual, rows))
    elif split.record_count is not None:
        assert rows.num_rows == split.record_count
    numbers: list[Any] = rows[ROW].to_pylist()
    return numbers


@examples(15)
@given(table_plans(), st.data())
def test_splits_hold_the_matching_rows(plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        table = written.open()
        full = FullScan.of(table)
        for condition in filters_of(data, full):
            note(repr(condition))
            try:
                scan = table.scan(condition, options={SPLIT_SIZE: "1"})
                if scan.expression is None or reasons_of(scan.expression):
                    continue
                wanted: list[Any] = full.rows.filter(matches(scan.expression, full.rows))[ROW].to_pylist()
            except ExpressionError:
                continue
            splits = list(scan.plan().splits)
            numbers = [number for split in splits for number in row_numbers(scan, split)]
            assert sorted(numbers) == sorted(wanted)
            assert scan.count() == len(wanted)
            for split in splits:
                assert split.fully_matching <= (split.residual is None)
