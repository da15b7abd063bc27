"""No plan loses a row of a whole table: random tables, written commit by commit, and random filters on them.

The rows of the planned files, filtered, are all rows, filtered, whatever statistics there are: those of the metadata
table, none for some files, those that Apache Hudi's writers get wrong, those of footers.
"""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from catalog import Table
from catalog.snapshots.scan_options import FOOTER_LIMIT
from pushdown import HudiExpression
from pushdown.errors import ExpressionError, RowCastError
from table_format.errors import OptionError
from tests.property.profile import examples
from tests.property.table_filters import Filters
from tests.property.whole_tables import ROW, TablePlan, Written, table_plans
from tests.support import damaged_statistics as damaged
from tests.support.lost_rows import FullScan, check_filter, check_read, check_scan
from tests.support.table_values import BY_NAME

FILTERS = 12
# Not Hypothesis' own: a table takes thousands of these choices.
chances = st.integers(0, 2**32).map(random.Random)


def filters_of(data: st.DataObject, full: FullScan) -> list[HudiExpression]:
    """Filters for a table."""
    trees = Filters(full.rows).trees()
    drawn: list[HudiExpression] = data.draw(st.lists(trees, min_size=FILTERS, max_size=FILTERS), label="filters")
    return drawn


def check_all(table: Table, full: FullScan, conditions: list[HudiExpression], **scan: Any) -> None:
    """Check each filter, less those that no engine takes."""
    for condition in conditions:
        note(repr(condition))
        try:
            check_filter(table, full, condition, **scan)
        except ExpressionError:
            continue


def full_scan(written: Written) -> tuple[Table, FullScan]:
    table = written.open()
    full = FullScan.of(table)
    numbers: list[Any] = full.rows.column(ROW).to_pylist()
    assert sorted(numbers) == sorted(written.rows.values())
    return table, full


@examples(16)
@given(table_plans(), st.data())
def test_with_all_statistics(plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        table, full = full_scan(written)
        conditions = filters_of(data, full)
        check_all(table, full, conditions)
        for condition in conditions[:2]:
            try:
                check_read(table, full, condition)
            except ExpressionError:
                continue
        damaged.without_metadata_table(written.path)
        check_all(written.open(), full, conditions)


@examples(8)
@given(table_plans(), st.data(), chances)
def test_with_statistics_missing(plan: TablePlan, data: st.DataObject, chance: random.Random) -> None:
    with plan.written() as written:
        _, full = full_scan(written)
        conditions = filters_of(data, full)
        for change in (damaged.without_some_files(chance), damaged.without_some_rows(chance)):
            damaged.rebuilt_statistics(written.path, full, change)
            for limit in ("1000", "0"):
                options = {FOOTER_LIMIT: limit}
                check_all(written.open(), full, conditions, options=options)


@examples(8)
@given(
    table_plans(families=("float", "double", "promoted", "string", "binary", "text_or_bytes")),
    st.data(),
    chances,
)
def test_with_statistics_as_apache_gets_them_wrong(plan: TablePlan, data: st.DataObject, chance: random.Random) -> None:
    with plan.written() as written:
        _, full = full_scan(written)
        conditions = filters_of(data, full)
        check_all(written.open(), full, conditions)
        for _ in range(3):
            damaged.rebuilt_statistics(written.path, full, damaged.as_apache_writes(chance))
            check_all(written.open(), full, conditions)


@examples(7)
@given(table_plans(most_commits=5), st.data())
def test_at_earlier_instants(plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        table = written.open()
        for instant in table.snapshot().timeline.writes:
            try:
                full = FullScan.of(table, instant.time)
            except OptionError:  # cleaned away
                continue
            check_all(table, full, filters_of(data, full), as_of=instant.time)


@examples(7)
@given(table_plans(), st.data())
def test_by_sql_text(plan: TablePlan, data: st.DataObject) -> None:
    with plan.written() as written:
        table, full = full_scan(written)
        for condition in filters_of(data, full):
            text = condition.to_sql()
            note(text)
            try:
                table.scan(condition)
                scan = table.scan(text)  # binds by Spark's rules, which a tree of one's own does not
            except ExpressionError:
                continue
            with suppress(RowCastError):  # a row on which Spark's cast fails, and so the query
                check_scan(scan, full)


@pytest.mark.parametrize("family", BY_NAME)
@examples(2)
@given(data=st.data())
def test_each_type(family: str, data: st.DataObject) -> None:
    plan = data.draw(table_plans(families=(family,), most_commits=3))
    with plan.written() as written:
        table, full = full_scan(written)
        check_all(table, full, filters_of(data, full))
