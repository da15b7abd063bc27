"""A Hive query's filter, bound to a snapshot's columns, and the time zone in which its clock times are read.

Clock times become instants by the rules of a zone. A JDK's rules may be older than ours or packaged differently; where
they differ, files with matching rows would be skipped, so a zone is used only if both have the same rules.
"""

from __future__ import annotations

import bisect
import datetime as dt
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.columns import normalized_type, type_matches
from pushdown.binding.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Predicate, Unknown
from pushdown.simplify import simplify
from pushdown.temporal import zone_of
from pushdown.translators.hive_tree import from_hive_tree
from pushdown.walk import fold, rebuilt
from table_format.errors import ServiceError

# Java's names of zones with a fixed offset.
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-]\d{2}:\d{2})\Z")

_FIXED: Final = frozenset({"UTC", "GMT", "Z", "ETC/UTC", "ETC/GMT", "UCT", "ZULU"})

_RULES = re.compile(r"(-?\d{1,6})((?:;-?\d{1,12}:-?\d{1,6}){0,5000})\Z", re.ASCII)

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_FIRST, _LAST = dt.datetime(1800, 1, 1, tzinfo=dt.UTC), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)

_DAY = 86_400


@functools.lru_cache(maxsize=64)
def agreed_zone(name: str | None, rules: str | None) -> str | None:
    """A time zone of Hive's JVM by the name under which Python knows it; None if its rules differ or are unknown.

    Args:
        name: Java's name of the zone.
        rules: offset from UTC in 1800 in seconds, then `;instant:seconds` for each change until the year 2100, instants
            in seconds since 1970; None if Hive sends none, which suffices for UTC and fixed offsets.
    """
    if name is None:
        return None
    if name.upper() in _FIXED:
        return "UTC"
    fixed = _OFFSET.match(name)
    if fixed is not None:
        return fixed[1]
    if rules is None or not _same_rules(name, rules):
        return None
    return name


def _same_rules(name: str, rules: str) -> bool:
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
    # No zone changes its offset twice within a day.
    looked_at = [*range(first, last, _DAY), *instants, *(at - 1 for at in instants)]
    return all(offsets[bisect.bisect_right(instants, at)] == _offset(zone, at) for at in looked_at)


def _seconds(moment: dt.datetime) -> int:
    return int((moment - _EPOCH).total_seconds())


def _offset(zone: dt.tzinfo, instant: int) -> int:
    """A zone's offset from UTC at an instant, in seconds."""
    ahead = (_EPOCH + dt.timedelta(seconds=instant)).astimezone(zone).utcoffset()
    return 0 if ahead is None else int(ahead.total_seconds())


def bound_filter(snapshot: Snapshot, text: str | None, zone: str | None) -> HudiExpression | None:
    """The filter of a scan.

    Args:
        snapshot: of the table.
        text: Hive's expression tree as JSON; None for all rows.
        zone: the time zone of Hive's JVM, see `agreed_zone`; None if unknown: clock times are not compared then.

    Returns:
        None if all rows pass. Conditions that do not fit the table, or that Hive may evaluate differently, are unknown.

    Raises:
        ServiceError: the text is not JSON.
    """
    if text is None:
        return None
    try:
        node = json.loads(text)
    except RecursionError:
        return Unknown("the filter is nested too deeply for JSON")
    except ValueError as error:
        raise ServiceError(f"the filter is not JSON: {error}") from error
    known = zone or "UTC"
    try:
        translated = from_hive_tree(node, time_zone=known)
        incomparable = _mistyped(node, snapshot) | ({} if zone else _instants(snapshot))
        bound = simplify(bind(_without(translated, incomparable), snapshot.schema, time_zone=known))
    except ExpressionError as error:
        return Unknown(f"the filter does not fit the table: {error}")
    return None if bound == Constant(value=True) else bound


def _without(expression: HudiExpression, columns: Mapping[str, str]) -> HudiExpression:
    """The filter with comparisons of some columns replaced by unknowns."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, Predicate) and (name := node.column.partition(".")[0].lower()) in columns:
            return Unknown(columns[name])
        return node

    return fold(expression, visit) if columns else expression


def _mistyped(node: Any, snapshot: Snapshot) -> dict[str, str]:
    """Columns whose type in Hive differs from the table's, each with the reason not to compare it.

    Hive then compares values of its own type: strings sort differently from numbers, and numbers that do not
    fit are null.
    """
    reasons: dict[str, str] = {}
    fields = {field.name.lower(): field for field in snapshot.schema}
    for name, kind in {(name.lower(), kind) for name, kind in _columns(node)}:
        if name in fields and not type_matches(kind, fields[name]):
            reasons[name] = f"{name} is {kind} in Hive and {fields[name].type} in the table"
    return reasons


def _instants(snapshot: Snapshot) -> dict[str, str]:
    """Columns that hold instants, which Hive converts to clock times, each with the reason not to compare it."""
    why = "holds instants, and the clocks of Hive are not known here"
    return {field.name.lower(): f"{field.name} {why}" for field in snapshot.schema if ", tz=" in str(field.type)}


def _columns(node: Any) -> Iterator[tuple[str, str]]:
    """Names and types of the columns in an expression tree; types are lower-case without spaces."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, dict):
            if isinstance(one.get("c"), str):
                yield one["c"], normalized_type(str(one.get("t")))
            pending.extend(value for value in one.values() if isinstance(value, list | dict))
