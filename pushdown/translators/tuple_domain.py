"""Trino's and Presto's TupleDomain, as sent by their Thrift connectors, as `HudiExpression`.

A domain lists for each column which values pass, and whether null does. Trino applies its filter again, so a domain may
let more rows through than the query wants, and never fewer.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pushdown.errors import FilterSyntaxError
from pushdown.expression import Constant, HudiExpression, Op, Predicate, Unknown, all_of, any_of, negation
from pushdown.translators.tuple_blocks import MalformedDomainError, block_value, block_values, column_type

_BELOW, _EXACTLY, _ABOVE = 1, 2, 3
# More ranges than these that are neither points nor all but points are joined to one.
_MANY_RANGES = 200
_MILLISECOND = dt.timedelta(milliseconds=1)


def from_tuple_domain(domain: Any, types: Mapping[str, str]) -> HudiExpression:
    """Translate a domain.

    Nothing is guessed: the condition of a column whose type is not known, or whose domain is malformed, is `Unknown`.
    Times have milliseconds there: a stored time is compared after what is below the millisecond was cut off (towards
    the past), so the rows must be served so, too. Json and other types that are not ordered as their texts are: only
    conditions on null are understood.

    Args:
        domain: an object with the attributes of ``TrinoThriftTupleDomain`` or ``PrestoThriftTupleDomain``.
        types: the Trino type of each column, as the connector declared it, e.g. ``varchar(20)``.

    Raises:
        FilterSyntaxError: the root is no such object.
    """
    if not hasattr(domain, "domains"):
        raise FilterSyntaxError(f"a TupleDomain has domains; {type(domain).__name__} has none")
    domains = domain.domains
    if domains is None:
        return Constant(value=False)
    if not isinstance(domains, Mapping):
        raise FilterSyntaxError(f"the domains of a TupleDomain are a map by column, not {type(domains).__name__}")
    by_lower = {name.lower(): type_name for name, type_name in types.items()}
    parts = [_column(name, one, types.get(name) or by_lower.get(str(name).lower())) for name, one in domains.items()]
    wanted = [part for part in parts if part != Constant(value=True)]
    return all_of(*wanted) if wanted else Constant(value=True)


def _column(name: Any, domain: Any, type_name: str | None) -> HudiExpression:
    if not isinstance(name, str) or not name:
        return Unknown("a column without a name")
    try:
        values = _value_set(name, domain, column_type(type_name), type_name)
    except MalformedDomainError as error:
        return Unknown(f"{name}: {error}")
    null_allowed = domain.nullAllowed
    if isinstance(values, Constant):
        if values.value:
            return values if null_allowed else Predicate(Op.NOT_NULL, name)
        return Predicate(Op.IS_NULL, name) if null_allowed else values
    return any_of(values, Predicate(Op.IS_NULL, name)) if null_allowed else values


def _value_set(name: str, domain: Any, kind: str | None, type_name: str | None) -> HudiExpression:
    """The condition on values that are not null; a constant if it holds for all of them or for none."""
    if type(getattr(domain, "nullAllowed", None)) is not bool:
        raise MalformedDomainError("a domain that does not say whether null passes")
    value_set = getattr(domain, "valueSet", None)
    sets = {
        field: getattr(value_set, field, None) for field in ("allOrNoneValueSet", "equatableValueSet", "rangeValueSet")
    }
    present = [field for field, value in sets.items() if value is not None]
    if len(present) != 1:
        raise MalformedDomainError("a domain without exactly one set of values")
    values = sets[present[0]]
    if present[0] == "allOrNoneValueSet":
        everything = getattr(values, "all", None)
        if type(everything) is not bool:
            raise MalformedDomainError("an all-or-none set that does not say which")
        return Constant(everything)
    if present[0] == "equatableValueSet":
        return _equatable(name, values, kind, type_name)
    return _ranges(name, values, kind, type_name)


def _equatable(name: str, values: Any, kind: str | None, type_name: str | None) -> HudiExpression:
    inclusive, blocks = getattr(values, "inclusive", None), getattr(values, "values", None)
    if type(inclusive) is not bool or not isinstance(blocks, list | tuple):
        raise MalformedDomainError("a set of values that does not say what is in it")
    if not blocks:
        return Constant(value=not inclusive)
    if kind is None:
        return Unknown(f"{name} is of type {type_name}, whose values are not compared")
    members = _points(name, [block_value(block, kind) for block in blocks], kind)
    return members if inclusive else negation(members)


class _Range(NamedTuple):
    """From low to high; None is no limit."""

    low: Any
    low_exact: bool
    high: Any
    high_exact: bool

    @property
    def is_point(self) -> bool:
        return self.low is not None and self.low == self.high


def _ranges(name: str, values: Any, kind: str | None, type_name: str | None) -> HudiExpression:
    listed = getattr(values, "ranges", None)
    ends = getattr(listed, "ends", None)
    if ends is None and not isinstance(listed, list | tuple):
        raise MalformedDomainError("a set of ranges without them")
    if not listed:
        return Constant(value=False)
    if len(listed) == 1 and _is_unlimited(listed[0]):
        return Constant(value=True)
    if kind is None:
        return Unknown(f"{name} is of type {type_name}, whose values are not compared")
    ranges = [_range(one, kind) for one in listed] if ends is None else _packed(ends, closed=listed.closed, kind=kind)
    _check_order(ranges)
    points = [one.low for one in ranges if one.is_point]
    joined = _without_holes([one for one in ranges if not one.is_point])
    parts = [_points(name, points, kind)] if points else []
    if len(joined) > _MANY_RANGES:
        hull = _Range(joined[0][0].low, joined[0][0].low_exact, joined[-1][0].high, joined[-1][0].high_exact)
        parts.append(all_of(_between(name, hull, kind), Unknown(f"{len(joined):,} ranges of {name}")))
    else:
        for one, holes in joined:
            inside = _between(name, one, kind)
            parts.append(all_of(inside, negation(_points(name, holes, kind))) if holes else inside)
    return any_of(*parts)


def _is_unlimited(one: Any) -> bool:
    low, high = getattr(one, "low", None), getattr(one, "high", None)
    return (
        low is not None
        and high is not None
        and getattr(low, "value", 0) is None
        and getattr(high, "value", 0) is None
        and _bound(low) == _ABOVE
        and _bound(high) == _BELOW
    )


def _bound(marker: Any) -> int:
    bound = getattr(marker, "bound", None)
    if isinstance(bound, int) and not isinstance(bound, bool) and bound in {_BELOW, _EXACTLY, _ABOVE}:
        return int(bound)
    raise MalformedDomainError("a marker without a bound")


def _range(one: Any, kind: str) -> _Range:
    low, low_exact = _end(getattr(one, "low", None), kind, _ABOVE)
    high, high_exact = _end(getattr(one, "high", None), kind, _BELOW)
    return _Range(low, low_exact, high, high_exact)


def _packed(ends: Any, *, closed: bool, kind: str) -> list[_Range]:
    """Ranges whose low and high ends alternate in one block.

    Args:
        ends: the block.
        closed: whether all ranges include their ends; otherwise none does, and the first low and the last high end
            are no values.
        kind: type of the values.
    """
    values = block_values(ends, kind)
    if not closed:
        values = [None, *values, None]
    return [_Range(low, closed, high, closed) for low, high in zip(values[::2], values[1::2], strict=True)]


def _end(marker: Any, kind: str, open_bound: int) -> tuple[Any, bool]:
    if marker is None or not hasattr(marker, "value"):
        raise MalformedDomainError("a range without both ends")
    bound = _bound(marker)
    if bound not in {_EXACTLY, open_bound}:
        raise MalformedDomainError("a range that ends on the wrong side of its value")
    if marker.value is None:
        if bound == _EXACTLY:
            raise MalformedDomainError("a range that ends exactly at no value")
        return None, False
    return block_value(marker.value, kind), bound == _EXACTLY


def _check_order(ranges: Sequence[_Range]) -> None:
    """Check that ranges are sorted, not empty and disjoint, as the code below requires.

    Python orders texts by code points, which is the order of their UTF-8 bytes.
    """
    for one in ranges:
        if one.low is None or one.high is None:
            continue
        if one.low > one.high or (one.low == one.high and not (one.low_exact and one.high_exact)):
            raise MalformedDomainError("a range that ends before it begins")
    for left, right in itertools.pairwise(ranges):
        if left.high is None or right.low is None or left.high > right.low:
            raise MalformedDomainError("ranges that overlap or are not sorted")
        if left.high == right.low and left.high_exact and right.low_exact:
            raise MalformedDomainError("ranges that overlap")


def _without_holes(ranges: Sequence[_Range]) -> list[tuple[_Range, list[Any]]]:
    """Join ranges that leave out a single value between them, as those of ``NOT IN``; with the values left out."""
    joined: list[tuple[_Range, list[Any]]] = []
    for one in ranges:
        if joined and joined[-1][0].high == one.low and not joined[-1][0].high_exact and not one.low_exact:
            before, holes = joined[-1]
            holes.append(one.low)
            joined[-1] = (_Range(before.low, before.low_exact, one.high, one.high_exact), holes)
        elif joined and joined[-1][0].high == one.low:
            before, holes = joined[-1]
            joined[-1] = (_Range(before.low, before.low_exact, one.high, one.high_exact), holes)
        else:
            joined.append((one, []))
    return joined


def _points(name: str, values: Sequence[Any], kind: str) -> HudiExpression:
    if kind != "timestamp":
        return Predicate(Op.EQ, name, (values[0],)) if len(values) == 1 else Predicate(Op.IN, name, tuple(values))
    if len(values) > _MANY_RANGES:
        hull = _Range(min(values), True, max(values), True)
        return all_of(_between(name, hull, kind), Unknown(f"{len(values):,} times of {name}"))
    return any_of(*(_between(name, _Range(value, True, value, True), kind) for value in values))


def _between(name: str, one: _Range, kind: str) -> HudiExpression:
    parts = []
    if one.low is not None:
        op = Op.GE if one.low_exact else Op.GT
        parts.append(_low_time(name, op, one.low) if kind == "timestamp" else Predicate(op, name, (one.low,)))
    if one.high is not None:
        op = Op.LE if one.high_exact else Op.LT
        parts.append(_high_time(name, op, one.high) if kind == "timestamp" else Predicate(op, name, (one.high,)))
    return all_of(*parts) if parts else Predicate(Op.NOT_NULL, name)


def _low_time(name: str, op: Op, value: dt.datetime) -> HudiExpression:
    """After a millisecond is from the next one on."""
    return Predicate(Op.GE, name, (value,)) if op is Op.GE else _shifted(Op.GE, name, value)


def _high_time(name: str, op: Op, value: dt.datetime) -> HudiExpression:
    """Up to a millisecond is before the next one."""
    return Predicate(Op.LT, name, (value,)) if op is Op.LT else _shifted(Op.LT, name, value)


def _shifted(op: Op, name: str, value: dt.datetime) -> HudiExpression:
    try:
        return Predicate(op, name, (value + _MILLISECOND,))
    except OverflowError:
        raise MalformedDomainError("the last millisecond of the year 9999") from None
