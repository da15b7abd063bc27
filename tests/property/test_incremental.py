"""Incremental scans of random tables: the model's rows that were written in a range and exist at its end."""

from typing import Any

from hypothesis import given

from catalog import Table
from table_format.errors import OptionError
from tests.property.profile import examples
from tests.property.whole_tables import ROW, TablePlan, Written, table_plans


def histories(plan: TablePlan, written: Written) -> list[tuple[str, set[int]]]:
    """After each write its instant, and the numbers of the rows that the table held then."""
    states = []
    for commit in plan.commits:
        plan.write(written, commit)
        writes = written.table.client.timeline().writes
        states.append((writes[-1].time if writes else "", set(written.rows.values())))
    return states


@given(table_plans(most_commits=5))
@examples(20)
def test_rows_of_a_range_are_those_written_in_it(plan: TablePlan) -> None:
    with plan.empty() as written:
        states = histories(plan, written)
        table = Table.open(written.path)
        for last, (end, rows) in enumerate(states):
            if not end:
                continue
            for first in range(-1, last + 1):
                begin = states[first][0] if first >= 0 else "earliest"
                wanted = {number for number in rows if number // 1000 > first}
                try:
                    scan = table.scan(columns=[ROW], incremental=(begin or "earliest", end))
                except OptionError:  # cleaned away
                    assert last < len(states) - 1
                    continue
                changed: list[Any] = scan.to_arrow()[ROW].to_pylist()
                assert sorted(changed) == sorted(wanted)
                assert scan.count() == len(wanted)
