"""`current_date`, `now()` and the like, and these moved by an interval, as times that are sure to a day or two.

What the engine takes them for depends on the session's time zone and on when it begins with the query. They become
literals with a time zone, which are compared within two days.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlglot import exp

from hudi_catalog.gateway.parsing import DIALECT
from pushdown.sql.intervals import moved
from pushdown.sql.operands import days_of

_FUNCTIONS = tuple(
    getattr(exp, name) for name in ("CurrentDate", "CurrentTimestamp", "Localtimestamp") if hasattr(exp, name)
)
# Months are of different lengths: a day more or less before may be several behind.
_EVEN = frozenset({"DAY", "DAYS", "WEEK", "WEEKS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS"})


def put_current_times(tree: Any, now: dt.datetime) -> None:
    """Replace the functions in a parsed query, in place.

    Args:
        tree: as sqlglot parsed it.
        now: the time, of UTC.
    """
    for node in list(tree.find_all(*_FUNCTIONS)):
        whole, moment = _moved(node, now.astimezone(dt.UTC).replace(tzinfo=None, microsecond=0))
        text = f"{moment.isoformat(' ')}+00:00"
        whole.replace(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("TIMESTAMP")))


def _moved(node: Any, moment: dt.datetime) -> tuple[Any, dt.datetime]:
    """The sum or difference that begins with a node, and its value."""
    while True:
        around = node.parent
        if isinstance(around, exp.Paren):
            node = around
            continue
        found = _sum(around, moment) if getattr(around, "this", None) is node else None
        if found is None:
            return node, moment
        node, moment = around, found


def _sum(around: Any, moment: dt.datetime) -> dt.datetime | None:
    """The value of a node whose left side has a value; None where that is not even for all days."""
    if isinstance(around, exp.Add | exp.Sub) and isinstance(around.expression, exp.Interval):
        unit = around.expression.args.get("unit")
        if unit is None or str(unit.name).upper() not in _EVEN:
            return None
        found = moved(moment, around.expression, -1 if isinstance(around, exp.Sub) else 1, DIALECT)
        return found if isinstance(found, dt.datetime) else None
    days = days_of(around.expression, around.args.get("unit")) if isinstance(around, exp.DateAdd) else None
    try:
        return None if days is None else moment + dt.timedelta(days=days)
    except OverflowError:
        return None
