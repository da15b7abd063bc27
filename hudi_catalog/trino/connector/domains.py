"""Filters as Trino's connector sends them: a TupleDomain as JSON, whose values are those of the table's own types.

``{"none": true}`` passes no row; ``{"columns": {name: domain}}`` those that every domain lets pass. A domain is
``{"null": flag, "in": [value, …]}`` or ``{"null": flag, "ranges": [[low, inclusive, high, inclusive], …]}``, an end of
null without limit, or ``{"null": flag, "all": true}``; with ``"path": [number, …]`` it is of a field of the column.
`docs/reference/connector.md` says how values are written.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.base.scans import bound_filter
from hudi_catalog.trino.connector.types import ConnectorColumn, plain_type
from pushdown.expression import Constant, HudiExpression, Op, Predicate, Unknown, all_of, any_of
from table_format.errors import ServiceError

types = pa.types
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # clock times have no zone
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_DAY = dt.date(1970, 1, 1)
_MIDNIGHT = dt.datetime(2000, 1, 1)  # noqa: DTZ001
_MANY_RANGES = 200


class NotUnderstoodError(ValueError):
    """A value that is not compared here; the message says why."""


def connector_filter(
    snapshot: Snapshot,
    columns: Sequence[ConnectorColumn],
    domains: Sequence[Any],
    conditions: Sequence[HudiExpression] = (),
) -> HudiExpression | None:
    """The filter that some domains and conditions make together, bound to a snapshot's columns.

    It is true, or unknown, for every row that passes all of them: what is not understood is `Unknown`.

    Args:
        snapshot: of the table.
        columns: of the table in Trino.
        domains: as described above, from JSON; not validated.
        conditions: not bound.

    Returns:
        None when all rows pass.

    Raises:
        ServiceError: a domain is no such object.
    """
    parts: list[HudiExpression] = []
    by_name = {column.name: column for column in columns}
    for domain in domains:
        if not isinstance(domain, Mapping) or not isinstance(domain.get("columns", {}), Mapping):
            raise ServiceError("a filter is an object with columns or none")
        if domain.get("none"):
            parts.append(Constant(value=False))
        for name, one in domain.get("columns", {}).items():
            # each on its own: one that does not fit the table must not make the others unknown
            bound = bound_filter(snapshot, _column(str(name), one, by_name))
            parts.extend([] if bound is None else [bound])
    for condition in conditions:
        bound = bound_filter(snapshot, condition)
        parts.extend([] if bound is None else [bound])
    return bound_filter(snapshot, all_of(*parts)) if parts else None


def _column(name: str, domain: Any, columns: Mapping[str, ConnectorColumn]) -> HudiExpression:
    column = columns.get(name)
    if column is None:
        return Unknown(f"there is no column {name}")
    try:
        for number in domain.get("path", ()):
            column = field_of(column, number)
        null_passes = _flag(domain["null"], None)
        values = _values(column, domain)
    except (NotUnderstoodError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        return Unknown(f"{name}: {error}")
    if isinstance(values, Constant):
        if values.value:
            return values if null_passes else Predicate(Op.NOT_NULL, column.source)
        return Predicate(Op.IS_NULL, column.source) if null_passes else values
    return any_of(values, Predicate(Op.IS_NULL, column.source)) if null_passes else values


def field_of(column: ConnectorColumn, number: Any) -> ConnectorColumn:
    """A field of a row, by its number from 0 on, as a column whose source is a dotted path.

    Raises:
        NotUnderstoodError: it has no such field.
    """
    kind: Any = plain_type(column.kind)
    if type(number) is not int or not types.is_struct(kind) or not 0 <= number < kind.num_fields:
        raise NotUnderstoodError(f"{column.source} has no field {number!r:.20}")
    field = kind.field(number)
    return replace(column, source=f"{column.source}.{field.name}", kind=field.type)


def _values(column: ConnectorColumn, domain: Mapping[str, Any]) -> HudiExpression:
    """The condition on values that are not null; a constant if it holds for all of them or for none."""
    if domain.get("all"):
        return Constant(value=True)
    read = value_reader(column.kind)
    if "in" in domain:
        return _points(column.source, [read(value) for value in domain["in"]])
    ranges = [_range(one, read) for one in domain["ranges"]]
    if not ranges:
        return Constant(value=False)
    if len(ranges) > _MANY_RANGES:  # sorted by Trino
        hull = (*ranges[0][:2], *ranges[-1][2:])
        return all_of(_between(column.source, hull), Unknown(f"{len(ranges):,} ranges of {column.source}"))
    points = [one[0] for one in ranges if one[0] is not None and one[0] == one[2]]
    wide = [one for one in ranges if one[0] is None or one[0] != one[2]]
    parts = [_points(column.source, points)] if points else []
    return any_of(*parts, *(_between(column.source, one) for one in wide))


def _points(name: str, values: Sequence[Any]) -> HudiExpression:
    if not values:
        return Constant(value=False)
    return Predicate(Op.EQ, name, (values[0],)) if len(values) == 1 else Predicate(Op.IN, name, tuple(values))


_Range = tuple[Any, bool, Any, bool]


def _range(one: Any, read: Callable[[Any], Any]) -> _Range:
    low, low_exact, high, high_exact = one
    if not isinstance(low_exact, bool) or not isinstance(high_exact, bool):
        raise NotUnderstoodError("a range that does not say whether its ends are in it")
    return None if low is None else read(low), low_exact, None if high is None else read(high), high_exact


def _between(name: str, one: _Range) -> HudiExpression:
    low, low_exact, high, high_exact = one
    parts = []
    if low is not None:
        parts.append(Predicate(Op.GE if low_exact else Op.GT, name, (low,)))
    if high is not None:
        parts.append(Predicate(Op.LE if high_exact else Op.LT, name, (high,)))
    return all_of(*parts) if parts else Predicate(Op.NOT_NULL, name)


def value_reader(kind: Any) -> Callable[[Any], Any]:
    """What reads values of a type of the table.

    Raises:
        NotUnderstoodError: values of the type are not compared; what is returned raises it, or another ValueError, for
            a value that Python does not have.
    """
    kind = plain_type(kind)
    for test, read in _READERS:
        if test(kind):
            return lambda value: read(value, kind)
    raise NotUnderstoodError(f"values of type {kind} are not compared")


def _whole(value: Any, kind: Any) -> int:  # noqa: ARG001
    if type(value) is not int:
        raise NotUnderstoodError(f"{ascii(value)[:40]} as a whole number")
    return value


def _flag(value: Any, kind: Any) -> bool:  # noqa: ARG001
    if type(value) is not bool:
        raise NotUnderstoodError(f"{ascii(value)[:40]} as a flag")
    return value


def _double(value: Any, kind: Any) -> float:  # noqa: ARG001
    number = float(value)
    if math.isnan(number):
        raise NotUnderstoodError("NaN")
    return number


def _text(value: Any, kind: Any) -> str:  # noqa: ARG001
    if not isinstance(value, str):
        raise NotUnderstoodError(f"{ascii(value)[:40]} as text")
    return value


def _bytes(value: Any, kind: Any) -> bytes:  # noqa: ARG001
    return base64.b64decode(value, validate=True)


def _decimal(value: Any, kind: Any) -> decimal.Decimal:
    number = decimal.Decimal(_text(value, kind))
    if not number.is_finite():
        raise NotUnderstoodError("no finite decimal")
    return number


def _date(value: Any, kind: Any) -> dt.date:
    return _EPOCH_DAY + dt.timedelta(days=_whole(value, kind))


def _moment(value: Any, kind: Any) -> dt.datetime:
    """Picoseconds since 1970 as text, since they exceed 64 bits."""
    epoch = _EPOCH if kind.tz is None else _EPOCH_UTC
    return epoch + dt.timedelta(microseconds=_micros(value))


def _time(value: Any, kind: Any) -> dt.time:  # noqa: ARG001
    return (_MIDNIGHT + dt.timedelta(microseconds=_micros(value))).time()


def _micros(value: Any) -> int:
    micros, rest = divmod(int(_text(value, None)), 1_000_000)
    if rest:
        raise NotUnderstoodError("fractions of a microsecond are not compared")
    return micros


_READERS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[Any, Any], Any]]] = (
    (types.is_boolean, _flag),
    (types.is_signed_integer, _whole),
    (types.is_floating, _double),
    (types.is_string, _text),
    (types.is_binary, _bytes),
    (types.is_decimal, _decimal),
    (types.is_date, _date),
    (types.is_timestamp, _moment),
    (types.is_time, _time),
)
