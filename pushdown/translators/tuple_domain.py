"""Trino's and Presto's TupleDomain, as sent by their Thrift connectors, as `HudiExpression`.

A domain lists for each column which values pass, and whether null does. Trino applies its filter again, so a domain may
let more rows through than the query wants, and never fewer.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pushdown.errors import FilterSyntaxError
from pushdown.expression import Constant, HudiExpression, Op, Predicate, Unknown, all_of, any_of, negation

_EPOCH_DATE = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TYPE = re.compile(r"([a-z]+)\s*(?:\(\s*(\d{1,9})\s*\))?\Z")

_FIELDS = (
    "integerData",
    "bigintData",
    "doubleData",
    "varcharData",
    "booleanData",
    "dateData",
    "timestampData",
    "jsonData",
    "hyperLogLogData",
    "bigintArrayData",
)


class MalformedDomainError(ValueError):
    """A part of a domain that breaks the contract, or holds an unsupported value; the message says why."""


def column_type(name: object) -> str | None:
    """The base of a supported Trino type: ``varchar(20)`` is ``varchar``; None for any other type.

    Only times of milliseconds, and texts without padding, are carried.
    """
    match = _TYPE.match(name.strip().lower()) if isinstance(name, str) and len(name) < 100 else None
    if match is None or match[1] not in READERS:
        return None
    if match[1] == "timestamp":
        return match[1] if match[2] in {None, "3"} else None
    return match[1] if match[2] is None or match[1] == "varchar" else None


def block_value(block: Any, kind: str) -> Any:
    """The value of a one-row block.

    Args:
        block: the object; exactly one of its fields is set, that of the type.
        kind: as `column_type` gives it.

    Raises:
        MalformedDomainError: it has another field, not one row, a null, or a value that Python cannot hold.
    """
    values = block_values(block, kind)
    if len(values) != 1:
        raise MalformedDomainError("not one value")
    return values[0]


def block_values(block: Any, kind: str) -> list[Any]:
    """The values of a block of any number of rows; otherwise as `block_value`."""
    present = [name for name in _FIELDS if getattr(block, name, None) is not None]
    field, list_name, read = READERS[kind]
    if present != [field]:
        raise MalformedDomainError(f"a value of type {kind} as {', '.join(present) or 'nothing'}")
    data = getattr(block, field)
    items = getattr(data, list_name, None)
    if not isinstance(items, list | tuple):
        raise MalformedDomainError("not one value")
    nulls = getattr(data, "nulls", None)
    if nulls is not None and list(nulls) != [False] * len(items):
        raise MalformedDomainError("a null, or not one value")
    return _texts(items, getattr(data, "bytes", None)) if list_name == "sizes" else [read(value) for value in items]


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise MalformedDomainError(f"{ascii(value)[:40]} as a whole number")
    return value


def _integer(value: Any) -> int:
    if not -(2**31) <= _whole(value) < 2**31:
        raise MalformedDomainError(f"{value} as an integer")
    return int(value)


def _bigint(value: Any) -> int:
    if not -(2**63) <= _whole(value) < 2**63:
        raise MalformedDomainError(f"{value} as a bigint")
    return int(value)


def _double(value: Any) -> float:
    if type(value) not in {int, float} or math.isnan(value):
        raise MalformedDomainError(f"{ascii(value)[:40]} as the end of a range")
    return float(value)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise MalformedDomainError(f"{ascii(value)[:40]} as a boolean")
    return value


def _date(value: Any) -> dt.date:
    try:
        return _EPOCH_DATE + dt.timedelta(days=_whole(value))
    except OverflowError:
        raise MalformedDomainError(f"day {value} is beyond the years 1 to 9999") from None


def _timestamp(value: Any) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(milliseconds=_whole(value))
    except OverflowError:
        raise MalformedDomainError(f"millisecond {value} is beyond the years 1 to 9999") from None


def _texts(sizes: Sequence[Any], data: Any) -> list[str]:
    if any(_whole(size) < 0 for size in sizes):
        raise MalformedDomainError("a text of a size below zero")
    ends = list(itertools.accumulate(sizes))
    try:
        encoded = b"" if data is None else data.encode() if isinstance(data, str) else bytes(data)
        if len(encoded) != sum(sizes):
            raise MalformedDomainError("texts whose sizes do not add up to their bytes")
        return [encoded[end - size : end].decode() for end, size in zip(ends, sizes, strict=True)]
    except (UnicodeError, TypeError):
        raise MalformedDomainError("a text that is not UTF-8") from None


_NO_READER: Callable[[Any], Any] = _whole

# By type: the field of the block, the list in it, and what makes a value of its member.
READERS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "integer": ("integerData", "ints", _integer),
    "bigint": ("bigintData", "longs", _bigint),
    "double": ("doubleData", "doubles", _double),
    "varchar": ("varcharData", "sizes", _NO_READER),
    "boolean": ("booleanData", "booleans", _boolean),
    "date": ("dateData", "dates", _date),
    "timestamp": ("timestampData", "timestamps", _timestamp),
}

_BELOW, _EXACTLY, _ABOVE = 1, 2, 3  # bounds of markers, as the Thrift contract numbers them
# More ranges than these that are neither points nor all but points are joined to one.
_MANY_RANGES = 200
_MILLISECOND = dt.timedelta(milliseconds=1)


def from_tuple_domain(domain: Any, types: Mapping[str, str]) -> HudiExpression:
    """Translate a domain.

    Nothing is guessed: the condition of a column whose type is not known, or whose domain is malformed, is `Unknown`.
    Times of a domain have milliseconds: a stored time is compared after its fraction of a millisecond was cut off
    (towards the past), and rows must be served in the same way. Of json and other types that are not ordered as their
    texts, only conditions on null are understood.

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
            are not values.
        kind: type of the values.
    """
    values = block_values(ends, kind)
    if not closed:
        values = [None, *values, None]
    if len(values) % 2:
        raise MalformedDomainError("a range without both ends")
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
