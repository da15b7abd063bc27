"""Checks that a plan loses no row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog import Plan, Scan, Table
from pushdown import Constant, HudiExpression, Unknown, matches
from pushdown.walk import fold, reasons_of, rebuilt
from table_format.base_file.reader import read_base_file


@dataclass(frozen=True)
class FullScan:
    """All rows of a table at an instant, and the position of the file that holds each."""

    rows: pa.Table
    file_of_row: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table, as_of: str | None = None) -> FullScan:
        """Read every file, without a plan."""
        snapshot = table.snapshot(as_of)
        storage = snapshot.client.storage
        paths: list[Any] = snapshot.files.column("path").to_pylist()
        tables = [read_base_file(storage, path, schema=snapshot.schema) for path in paths]
        counts = [one.num_rows for one in tables]
        rows = pa.concat_tables(tables) if tables else snapshot.schema.empty_table()
        return cls(rows, np.repeat(np.arange(len(paths)), counts).astype(np.int64))


def check_scan(scan: Scan, full: FullScan, meant: HudiExpression | None = None) -> Plan:
    """The planned files hold every matching row, and files said to match as a whole do.

    Args:
        scan: what to plan.
        full: all rows of its table.
        meant: the bound filter that rows must match, where it is not the scan's own.
    """
    plan = scan.plan()
    meant = scan.expression if meant is None else meant
    if meant is None:
        assert len(plan) == plan.files_total
        return plan
    for value in (None, False, True) if reasons_of(meant) else (None,):
        # What is not understood may be true, false or null.
        truth = matches(_decided(meant, value), full.rows)
        yes = np.asarray(truth.fill_null(False))
        needed = set(full.file_of_row[yes].tolist())
        lost = needed - set(plan.rows.tolist())
        assert not lost, f"files lost: {[plan.snapshot.files['path'][i].as_py() for i in lost]}; {plan.stages}"
        for row in plan.rows[plan.fully_matching].tolist():
            assert yes[full.file_of_row == row].all(), f"not all rows match in {plan.snapshot.files['path'][row]}"
    for split, row in zip(plan.splits, plan.rows.tolist(), strict=True):
        assert split.record_count in {None, int((full.file_of_row == row).sum())}
    return plan


def check_filter(
    table: Table,
    full: FullScan,
    condition: str | HudiExpression,
    options: Mapping[str, str] | None = None,
    as_of: str | None = None,
) -> Plan:
    """See `check_scan`."""
    return check_scan(table.scan(condition, options=options, as_of=as_of), full)


def check_read(table: Table, full: FullScan, condition: HudiExpression) -> None:
    """The rows that a scan gives are those of the full scan, filtered."""
    read = table.scan(condition).to_arrow()
    assert same_rows(read, full.rows.filter(matches(condition, full.rows)))


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Whether two tables hold the same rows in any order; NaN is itself."""
    return left.schema.equals(right.schema) and sorted(_texts(left)) == sorted(_texts(right))


def _texts(table: pa.Table) -> list[str]:
    columns = [[str(value) for value in column] for column in map(_plain, table.columns)]
    return ["\x01".join(row) for row in zip(*columns, strict=True)]


def _plain(column: Any) -> Any:
    # Python has no dates beyond the year 9999.
    if pa.types.is_date(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _decided(expression: HudiExpression, value: bool | None) -> HudiExpression:
    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if isinstance(node, Unknown):
            return Constant(value)
        return rebuilt(node, children) if children else node

    return fold(expression, visit)
