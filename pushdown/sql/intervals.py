"""Sums of literal dates and times with intervals, where every zone's clocks give the same."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Any

from sqlglot import exp

from pushdown.sql.operands import days_of, whole_number

_MONTHS = {"MONTH": 1, "MONTHS": 1, "YEAR": 12, "YEARS": 12, "QUARTER": 3, "QUARTERS": 3}
_SECONDS = {"HOUR": 3600, "HOURS": 3600, "MINUTE": 60, "MINUTES": 60, "SECOND": 1, "SECONDS": 1}


def moved(moment: Any, interval: Any, sign: int, dialect: str) -> dt.date | None:  # noqa: PLR0911
    """A date or clock time so much later; None where engines or zones differ on it, or it is out of Python's years.

    Spark's timestamps are instants, whose sum with an interval depends on the session's zone.
    """
    is_time = isinstance(moment, dt.datetime)
    if not isinstance(moment, dt.date) or not isinstance(interval, exp.Interval):
        return None
    if is_time and (dialect == "spark" or getattr(moment, "tzinfo", None) is not None):
        return None
    unit = interval.args.get("unit")
    number = whole_number(interval.this)
    if number is None or type(unit) is not exp.Var:
        return None
    name = str(unit.name).upper()
    days = days_of(interval.this, unit)
    try:
        if days is not None:
            return moment + dt.timedelta(days=sign * days)
        if name in _MONTHS:
            return _months_later(moment, sign * number * _MONTHS[name])
        if is_time and name in _SECONDS:
            return moment + dt.timedelta(seconds=sign * number * _SECONDS[name])
    except (OverflowError, ValueError):
        return None
    return None


def _months_later(moment: dt.date, months: int) -> dt.date:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return moment.replace(year=year, month=month + 1, day=min(moment.day, last))
