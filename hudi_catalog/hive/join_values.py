"""The values of one side of a join that constant conditions choose, which prune the other side before it is read."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.concurrency.caches import LruCache, memoize
from catalog.planner import make_plan
from catalog.scan import read_plan
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from pushdown.errors import RowCastError
from pushdown.expression import And, HudiExpression, all_of
from pushdown.translators.hive_literals import FIRST_COMMON_DATE
from pushdown.walk import inexact_part

MOST_BYTES: Final = 64 << 20
"""Bytes of planned files that are read while a query is compiled; a larger side is left to the engine."""

MOST_VALUES: Final = 4_096
_MOST_KEPT: Final = 64


def join_values(
    snapshot: Snapshot, expression: HudiExpression | None, name: str, options: ScanOptions
) -> list[str] | None:
    """Values of a column in the rows that pass a filter; nulls, which no join finds, are left out.

    Args:
        snapshot: of the table.
        expression: the filter, bound to it; a part that rows cannot be selected by is left out, for more values.
        name: of the column, in any case: of whole numbers, dates or texts.
        options: how files are planned and read.

    Returns:
        Distinct values as texts. None where they are not told: there are too many, the files are too large, the column
        has another type, Hive may read one of them as another date, or a row's result cannot be computed. Kept with the
        snapshot.
    """
    kept: LruCache[Any, tuple[list[str] | None]] = memoize(snapshot, "join values", lambda: LruCache(_MOST_KEPT))
    known = kept.get((expression, name))
    if known is None:
        known = kept.setdefault((expression, name), (_read(snapshot, expression, name, options),))
    return known[0]


def _read(snapshot: Snapshot, expression: HudiExpression | None, name: str, options: ScanOptions) -> list[str] | None:
    field = next((field for field in snapshot.schema if field.name.lower() == name.lower()), None)
    if field is None or not _has_texts(field.type):
        return None
    plan = make_plan(snapshot, _exact(expression), options)
    if plan.bytes_kept > MOST_BYTES:
        return None
    values = pa.array([], field.type)
    try:
        for batch in read_plan(plan, (field.name,), options.threads):
            values = pa.concat_arrays([values, batch.column(0)]).unique().drop_null()
            if len(values) > MOST_VALUES:
                return None
    except RowCastError:
        return None
    return None if _has_displaced_dates(values) else [str(value) for value in values.to_pylist()]


def _has_texts(type_: pa.DataType) -> bool:
    types = pa.types
    whole = types.is_signed_integer(type_) or types.is_date32(type_)
    return whole or types.is_string(type_) or types.is_large_string(type_)


def _has_displaced_dates(values: pa.Array[Any]) -> bool:
    """Whether Hive may read one of the values as another date, or a reader of our own none at all."""
    if not pa.types.is_date32(values.type):
        return False
    common = pc.and_(pc.greater_equal(values, FIRST_COMMON_DATE), pc.less_equal(values, dt.date.max))
    return not pc.all(common).as_py()


def _exact(expression: HudiExpression | None) -> HudiExpression | None:
    """The filter without those of its conjuncts that rows cannot be selected by; None if nothing is left."""
    if expression is None:
        return None
    conjuncts = expression.children if isinstance(expression, And) else (expression,)
    exact = [one for one in conjuncts if inexact_part(one) is None]
    return all_of(*exact) if exact else None
