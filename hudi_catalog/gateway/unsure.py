"""Conditions that mean something else in Trino than in the engines whose rules `pushdown.sql` reads by.

They are replaced by a call of a function that nobody knows, so that they count as not understood:

- Trino brings both bounds of BETWEEN, and the members of a list of rows, to one type before it compares them. Where one
  of them is a double, or has a time zone, the others change with it.
- A decimal or an integer is compared with a REAL as REAL, which many numbers share.
- `CAST(… AS timestamp(p))` rounds; more than what is allowed for where p is less than 3.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pushdown.sql.literal import literal_value

_Type = exp.DataType.Type
_TIMES = frozenset({_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPNTZ})
_NAME = "not_understood"
_LEAST_PRECISION = 3
_FRACTION = re.compile(r"\A[^.]*(?:\.([0-9]+))?")
# What joins conditions, or holds one.
_AROUND_CONDITIONS = (exp.And, exp.Or, exp.Not, exp.Paren, exp.Where, exp.Join, exp.Query)


def take_unsure_out(tree: Any, schemas: Iterable[pa.Schema]) -> None:
    """Replace what is not sure in a parsed query, in place.

    Args:
        tree: as sqlglot parsed it.
        schemas: the columns of the tables that are planned for.
    """
    floats = _names_of_floats(schemas)
    unsure = [*_casts(tree, floats), *_mixed(tree)]
    for node in unsure:
        node.replace(exp.Anonymous(this=_NAME, expressions=[column.copy() for column in node.find_all(exp.Column)]))


def _names_of_floats(schemas: Iterable[pa.Schema]) -> frozenset[str]:
    """Names in lower case that stand for floating-point columns and nothing else in these tables, at any level."""
    fields = [field for schema in schemas for top in schema for field in _nested(top)]
    others = {field.name.lower() for field in fields if not pa.types.is_floating(field.type)}
    return frozenset(field.name.lower() for field in fields) - others


def _nested(field: Any) -> Iterator[Any]:
    yield field
    if pa.types.is_struct(field.type):
        for member in field.type:
            yield from _nested(member)


def _casts(tree: Any, floats: frozenset[str]) -> Iterator[Any]:
    for node in tree.find_all(exp.Cast, exp.TryCast):
        target = node.to.this
        if (target in _TIMES and _is_coarse(node)) or (target is _Type.FLOAT and not _is_among(node, floats)):
            yield node


def _is_coarse(node: Any) -> bool:
    """Whether a cast to a timestamp may round by more than a millisecond; TIMESTAMP '…' is a cast that does not."""
    if not node.to.expressions:
        return False
    precision = literal_value(node.to.expressions[0].this)
    if type(precision) is int and precision >= _LEAST_PRECISION:
        return False
    digits = _FRACTION.search(node.this.name) if isinstance(node.this, exp.Literal) and node.this.is_string else None
    return digits is None or type(precision) is not int or len(digits[1] or "") > precision


def _is_among(node: Any, floats: frozenset[str]) -> bool:
    """Whether only floating-point columns stand in the condition around a node."""
    while node.parent is not None and not isinstance(node.parent, _AROUND_CONDITIONS):
        node = node.parent
    return all(column.name.lower() in floats for column in node.find_all(exp.Column))


def _mixed(tree: Any) -> Iterator[Any]:
    for node in tree.find_all(exp.Between, exp.In):
        if isinstance(node, exp.Between):
            if _is_mixed([node.args.get("low"), node.args.get("high")]):
                yield node
        elif isinstance(node.this, exp.Tuple):
            rows = [member.expressions for member in node.expressions if isinstance(member, exp.Tuple)]
            if len({len(row) for row in rows}) != 1 or any(_is_mixed(column) for column in zip(*rows, strict=True)):
                yield node


def _is_mixed(nodes: Iterable[Any]) -> bool:
    kinds = {_kind(node) for node in nodes if node is not None}
    return len(kinds - {""}) > 1


def _kind(node: Any) -> str:
    """Literals of one kind are not changed when they are brought to one type."""
    while isinstance(node, exp.Paren) or (isinstance(node, exp.Add | exp.Sub) and _adds_interval(node)):
        node = node.this
    value = literal_value(node)
    if value is None:
        return ""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return "instant"
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return "exact"
    if isinstance(value, dt.date):
        return "time"
    return type(value).__name__


def _adds_interval(node: Any) -> bool:
    return isinstance(node.expression, exp.Interval)
