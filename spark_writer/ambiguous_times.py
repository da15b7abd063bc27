"""Clock times that a change of clocks repeats."""

from __future__ import annotations

import datetime as dt

from pushdown.temporal import zone_of


def is_ambiguous(value: object, time_zone: str) -> bool:
    """Whether a value is a time without a zone that clocks in the zone show twice, or never."""
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        return False
    zone = zone_of(time_zone)
    return value.replace(tzinfo=zone, fold=0).utcoffset() != value.replace(tzinfo=zone, fold=1).utcoffset()
