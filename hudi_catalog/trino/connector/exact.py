"""What statistics answer for certain: aggregates over whole files, and files that a limit or an order leaves out.

Everything here rests on exact numbers of rows: of slices without log files, of which every row passes the filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.planner import Plan
from catalog.row_summary import UNKNOWN_ROWS, exact_row_counts, without_logs
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.connector.requests import Body
from hudi_catalog.trino.connector.types import ConnectorColumn, plain_type
from pushdown.images.image import is_counted
from pushdown.kinds import Kind, domain_of, kind_of
from pushdown.verdict import CannotPrune
from table_format.errors import ServiceError

_EXACT = frozenset({Kind.INTEGER, Kind.DATE, Kind.DECIMAL})
"""Kinds whose bounds every writer keeps as they are: texts are cut, floats have NaN, times lose fractions."""


@dataclass(frozen=True, eq=False)
class _Column:
    """Statistics of a column in some files.

    Attributes:
        rows: of each file; -1 where not known for certain.
        nulls: among them, likewise.
        lower: least value, as a whole number; without meaning where `bounded` is false.
        upper: greatest value.
        bounded: there are both.
        empty: there are no values, only nulls.
    """

    rows: Any
    nulls: Any
    lower: Any
    upper: Any
    bounded: Any
    empty: Any


def answers(
    snapshot: Snapshot, plan: Plan, columns: Sequence[ConnectorColumn], aggregates: Sequence[Any]
) -> list[Any] | None:
    """Values of aggregates over all rows that pass a filter; None if statistics do not give all of them for certain.

    Args:
        snapshot: of the table.
        plan: of the filter.
        columns: of the table in Trino.
        aggregates: each an object with `function`, one of count, min and max, and, but for ``count(*)``, `column`.

    Returns:
        Numbers; a date in days, a decimal as text; None where there is no value.

    Raises:
        ServiceError: an aggregate is no such object.
    """
    if not bool(plan.fully_matching.all()):
        return None
    counts = exact_row_counts(snapshot, plan.rows)
    if (counts == UNKNOWN_ROWS).any():
        return None
    values: list[Any] = []
    by_name = {column.name: column for column in columns}
    for one in aggregates:
        if not isinstance(one, Mapping) or one.get("function") not in {"count", "min", "max"}:
            raise ServiceError("an aggregate has a function: count, min or max")
        if one.get("column") is None:
            values.append(int(counts.sum()))
            continue
        column = by_name.get(str(one["column"]))
        answer = None if column is None else _of_column(snapshot, plan, column, str(one["function"]))
        if answer is None:
            return None
        values.extend(answer)
    return values


def _of_column(snapshot: Snapshot, plan: Plan, column: ConnectorColumn, function: str) -> list[Any] | None:
    kind = plain_type(column.kind)
    known = _statistics(snapshot, plan, column)
    if known is None or (known.rows == UNKNOWN_ROWS).any():
        return None
    if function == "count":
        return None if (known.nulls == UNKNOWN_ROWS).any() else [int((known.rows - known.nulls).sum())]
    if not bool((known.bounded | known.empty).all()) or kind_of(kind) not in _EXACT:
        return None
    edges = (known.lower if function == "min" else known.upper)[~known.empty]
    if not len(edges):
        return [None]
    edge = int(edges.min() if function == "min" else edges.max())
    scale = domain_of(kind).scale if kind_of(kind) is Kind.DECIMAL else None
    return [edge if scale is None else _decimal_text(edge, scale)]


def _decimal_text(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return ("-" if number < 0 else "") + whole + (f".{fraction}" if scale else "")


def left_out(snapshot: Snapshot, plan: Plan, columns: Sequence[ConnectorColumn], body: Body) -> tuple[str, Any] | None:
    """Files of a plan that need not be read for the rows that a query takes.

    Args:
        snapshot: of the table.
        plan: of the filter.
        columns: of the table in Trino.
        body: of the request; member `limit` is how many rows are taken, `order` by which they are sorted before:
            `column`, `ascending`, `nulls_first`; others by which ties are sorted do not matter.

    Returns:
        Why, and a mask over the plan's files; None if all are read.
    """
    limit, order = body.number("limit", 0), body.object("order")
    if not limit or not len(plan.rows):
        return None
    if not order:
        counts = np.where(plan.fully_matching, np.maximum(exact_row_counts(snapshot, plan.rows), 0), 0)
        needless = np.cumsum(counts) - counts >= limit
        return "limit", needless
    column = next((one for one in columns if one.name == order.get("column")), None)
    known = None if column is None else _statistics(snapshot, plan, column)
    if known is None:
        return None
    ascending, nulls_first = order.get("ascending") is True, order.get("nulls_first") is True
    sure = plan.fully_matching & known.bounded & (known.rows != UNKNOWN_ROWS) & (known.nulls != UNKNOWN_ROWS)
    values = np.where(sure, known.rows - known.nulls, 0)
    # as many values as are wanted lie at or before this one
    ends = known.upper if ascending else known.lower
    places = np.argsort(ends[sure], kind="stable")
    places = places if ascending else places[::-1]
    reached = np.cumsum(values[sure][places]) >= limit
    if not reached.any():
        return None
    last = ends[sure][places][int(np.argmax(reached))]
    beyond = known.bounded & (known.lower > last if ascending else known.upper < last)
    if nulls_first:
        beyond &= known.nulls == 0
    else:
        beyond |= known.empty
    return "order", beyond


def _statistics(snapshot: Snapshot, plan: Plan, column: ConnectorColumn) -> _Column | None:
    kind = plain_type(column.kind)
    if not is_counted(kind):
        return None
    indexed = snapshot.indexed_column(column.source, column.kind)
    if isinstance(indexed, CannotPrune):
        return None
    part = indexed.take(plan.rows)
    believed = part.statistics.believed(kind)
    rows = without_logs(snapshot, plan.rows, part.row_count)
    null_count = part.statistics.null_count
    nulls = pc.fill_null(null_count.cast(pa.int64()), UNKNOWN_ROWS).to_numpy(zero_copy_only=False)
    nulls = np.where((nulls < 0) | (nulls > rows), UNKNOWN_ROWS, nulls)
    if believed.lower is None or believed.upper is None:
        return None
    bounded = ~(believed.no_lower | believed.no_upper) & believed.may_value
    lower, upper = (
        np.where(bounded, np.asarray(edge), 0).astype(np.int64) for edge in (believed.lower, believed.upper)
    )
    return _Column(rows, nulls, lower, upper, bounded, ~believed.may_value)
