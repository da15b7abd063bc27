"""What a query of Hive asks of rows, as a filter bound to a snapshot's columns."""

from __future__ import annotations

import bisect
import datetime as dt
import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.hive.columns import declared_right, plain_type
from pushdown.binding.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Predicate, Unknown
from pushdown.simplify import simplify
from pushdown.temporal import zone_of
from pushdown.translators.hive_tree import from_hive_tree
from pushdown.walk import fold, rebuilt
from table_format.errors import ServiceError

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


def bound_filter(snapshot: Snapshot, text: str | None, zone: str | None) -> HudiExpression | None:
    """The filter of a scan.

    Args:
        snapshot: of the table.
        text: Hive's expression tree as JSON; None for all rows.
        zone: the time zone of Hive's JVM, by `hive.zones`; None where it is not known: clock times mean nothing.

    Returns:
        None when all rows pass. What does not fit the table, and what Hive may take for something else, is unknown.

    Raises:
        ServiceError: the text is no expression tree.
    """
    if text is None:
        return None
    try:
        node = json.loads(text)
    except RecursionError:
        return Unknown("the filter is nested too deeply for JSON")
    except ValueError as error:
        raise ServiceError(f"the filter is no JSON: {error}") from error
    known = zone or "UTC"
    try:
        translated = from_hive_tree(node, time_zone=known)
        odd = _mistyped(node, snapshot) | ({} if zone else _instants(snapshot))
        bound = simplify(bind(_without(translated, odd), snapshot.schema, time_zone=known))
    except ExpressionError as error:
        return Unknown(f"the filter does not fit the table: {error}")
    return None if bound == Constant(value=True) else bound


def _without(expression: HudiExpression, columns: Mapping[str, str]) -> HudiExpression:
    """The filter with unknowns for comparisons of some columns."""

    def visit(node: HudiExpression, children: list[HudiExpression]) -> HudiExpression:
        if children:
            return rebuilt(node, children)
        if isinstance(node, Predicate) and (name := node.column.partition(".")[0].lower()) in columns:
            return Unknown(columns[name])
        return node

    return fold(expression, visit) if columns else expression


def _mistyped(node: Any, snapshot: Snapshot) -> dict[str, str]:
    """The columns that Hive was told to be of another type than the table's, each with the reason not to use it.

    Hive compares values of its own type then: numbers as texts have another order, and numbers that do not fit are
    null.
    """
    odd: dict[str, str] = {}
    fields = {field.name.lower(): field for field in snapshot.schema}
    for name, kind in {(name.lower(), kind) for name, kind in _columns(node)}:
        if name in fields and not declared_right(kind, fields[name]):
            odd[name] = f"{name} is {kind} in Hive and {fields[name].type} in the table"
    return odd


def _instants(snapshot: Snapshot) -> dict[str, str]:
    """The columns that hold instants, of which Hive makes clock times, with the reason not to use them."""
    why = "holds instants, and the clocks of Hive are not known here"
    return {field.name.lower(): f"{field.name} {why}" for field in snapshot.schema if ", tz=" in str(field.type)}


def _columns(node: Any) -> Iterator[tuple[str, str]]:
    """Names and types of the columns that a tree mentions, the types without spaces and in lower case."""
    pending = [node]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(one)
        elif isinstance(one, dict):
            if isinstance(one.get("c"), str):
                yield one["c"], plain_type(str(one.get("t")))
            pending.extend(value for value in one.values() if isinstance(value, list | dict))
