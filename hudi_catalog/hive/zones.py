"""Whether a time zone is the same one to Hive and to this service.

A filter's clock times become instants by the rules of a zone. Those of a JDK may be older than those known here, or
packed from other sources; where they differ, files would be left out that hold rows which Hive wants.
"""

from __future__ import annotations

import bisect
import datetime as dt
import functools
import re
from typing import Final

from pushdown.errors import ExpressionError
from pushdown.temporal import zone_of

# What Java calls a zone that it knows by its offset alone.
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-]\d{2}:\d{2})\Z")
_FIXED: Final = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "ETC/GMT", "UCT", "ZULU"})
_RULES = re.compile(r"(-?\d{1,6})((?:;-?\d{1,12}:-?\d{1,6}){0,5000})\Z", re.ASCII)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = dt.datetime(1800, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
_DAY = 86_400


@functools.lru_cache(maxsize=64)
def agreed_zone(name: str | None, rules: str | None) -> str | None:
    """A zone of Hive's JVM under a name by which it is known here; None when it is not the same, or not known.

    Args:
        name: that Java has for it.
        rules: seconds that it was ahead of UTC in 1800, then `;instant:seconds` for each change of that up to the year
            2100, instants in seconds since 1970; None when Hive does not say, which is enough for UTC and for fixed
            offsets.
    """
    if name is None:
        return None
    if name.upper() in _FIXED:
        return "UTC"
    fixed = _OFFSET.match(name)
    if fixed is not None:
        return fixed[1]
    if rules is None or not _is_same(name, rules):
        return None
    return name


def _is_same(name: str, rules: str) -> bool:
    try:
        zone = zone_of(name)
    except ExpressionError:
        return False
    match = _RULES.match(rules)
    if match is None:
        return False
    changes = [(int(at), int(offset)) for at, _, offset in (part.partition(":") for part in match[2].split(";")[1:])]
    instants = [at for at, _ in changes]
    offsets = [int(match[1]), *(offset for _, offset in changes)]
    first, last = _seconds(_FIRST), _seconds(_LAST)
    if instants != sorted(instants) or any(not first <= at < last for at in instants):
        return False
    # No clocks are changed and changed back within a day.
    looked_at = [*range(first, last, _DAY), *instants, *(at - 1 for at in instants)]
    return all(offsets[bisect.bisect_right(instants, at)] == _offset(zone, at) for at in looked_at)


def _seconds(moment: dt.datetime) -> int:
    return int((moment - _EPOCH).total_seconds())


def _offset(zone: dt.tzinfo, instant: int) -> int:
    """How many seconds a zone is ahead of UTC at an instant."""
    ahead = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(zone).utcoffset()
    return 0 if ahead is None else int(ahead.total_seconds())
