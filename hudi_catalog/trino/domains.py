"""Translation of Trino's TupleDomain, which is about served values, to a filter on the table's columns.

A served value may differ from the table's, such as a decimal served as text. A condition on it becomes the equivalent
condition on the table's value, a wider one, or `Unknown`; never a narrower one.
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from catalog.rows.json_rows import base64_texts, decimal_texts, hex_texts
from catalog.snapshots.snapshot import Snapshot
from hudi_catalog.trino.base.scans import bound_filter
from hudi_catalog.trino.types import Form, ServedColumn
from hudi_catalog.trino.values import time_texts
from pushdown.binding.bind import bind
from pushdown.errors import ExpressionError
from pushdown.expression import Constant, HudiExpression, Op, Predicate, Unknown, all_of, any_of, never
from pushdown.ordering import sorted_distinct
from pushdown.translators.tuple_domain import from_tuple_domain
from pushdown.walk import fold, rebuilt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_POINTS = frozenset({Op.EQ, Op.IN})
_NOT_POINTS = frozenset({Op.NE, Op.NOT_IN})
_NULL_CHECKS = frozenset({Op.IS_NULL, Op.NOT_NULL})
_MAX_TEXTS = 10_000
_MAX_DOUBLES = 200


class _AmbiguousError(ValueError):
    """A served value does not determine the table's value."""


def expression_of(domain: Any, columns: Sequence[ServedColumn], schema: pa.Schema) -> HudiExpression:
    """The filter on the table's columns equivalent to a domain, or wider.

    It is true, or unknown, for every row whose served values are in the domain.

    Args:
        domain: an object with the attributes of ``TrinoThriftTupleDomain``.
        columns: the result of `types.columns_of` for the schema.
        schema: of the table's snapshot; the filter is bound to it.

    Raises:
        FilterSyntaxError: the domain is malformed.
    """
    by_name = {column.name: column for column in columns}
    domains = getattr(domain, "domains", None)
    if not isinstance(domains, Mapping):
        return from_tuple_domain(domain, {})
    parts = [_column(name, one, by_name.get(str(name).lower()), schema) for name, one in domains.items()]
    conditions = [part for part in parts if part != Constant(value=True)]
    return all_of(*conditions) if conditions else Constant(value=True)


def _column(name: str, domain: Any, column: ServedColumn | None, schema: pa.Schema) -> HudiExpression:
    if column is None:
        return Unknown(f"there is no column {name}")
    served = from_tuple_domain(SimpleNamespace(domains={column.source: domain}), {column.source: column.trino_type})
    try:
        return bind(fold(served, lambda node, children: _visit(node, children, column)), schema, case_sensitive=True)
    except ExpressionError as error:
        return Unknown(f"{column.source}: {error}")


def _visit(node: HudiExpression, children: list[HudiExpression], column: ServedColumn) -> HudiExpression:
    if children:
        return rebuilt(node, children)
    if not isinstance(node, Predicate) or node.op in _NULL_CHECKS or column.form in _SAME:
        return node
    try:
        return _TRANSLATORS[column.form](node, column)
    except (_AmbiguousError, KeyError, ValueError, ArithmeticError, pa.ArrowException):
        return Unknown(f"{column.source} is served as {column.form.value}, and {node.op.value} is not translated")


_SAME = frozenset({Form.PLAIN, Form.MILLIS, Form.MILLIS_CUT})


def _numbers(predicate: Predicate, value: Callable[[Any], Any]) -> HudiExpression:
    """For numbers in the order of the table's values, and one-to-one with them."""
    return Predicate(predicate.op, predicate.column, tuple(value(one) for one in predicate.values))


def _unscaled(predicate: Predicate, column: ServedColumn) -> HudiExpression:
    kind: Any = column.kind
    return _numbers(predicate, lambda value: decimal.Decimal(value).scaleb(-kind.scale))


def _micros(predicate: Predicate, column: ServedColumn) -> HudiExpression:  # noqa: ARG001
    return _numbers(predicate, lambda value: _EPOCH + dt.timedelta(microseconds=value))


def _texts(
    predicate: Predicate, column: ServedColumn, parse: Callable[[list[str], pa.DataType], Any]
) -> HudiExpression:
    """For texts one-to-one with the table's values, but possibly in another order.

    Args:
        predicate: on the texts.
        column: of the table.
        parse: the values of some texts, null or none for texts that no value is served as.
    """
    if predicate.op in _NOT_POINTS:
        return ~_texts(predicate.replaced(predicate.op.negated), column, parse)
    if predicate.op not in _POINTS or len(predicate.values) > _MAX_TEXTS:
        raise _AmbiguousError
    parsed = parse([str(text) for text in predicate.values], column.kind)
    values = sorted_distinct(parsed.drop_null())
    if not len(values):
        return never(column.source, column.kind)
    if values.type != column.kind:
        return Predicate(Op.IN, column.source, tuple(values.to_pylist()))
    return Predicate(Op.IN if len(values) > 1 else Op.EQ, column.source, values, column.kind)


def _decimal_texts(predicate: Predicate, column: ServedColumn) -> HudiExpression:
    return _texts(predicate, column, _decimals)


def _decimals(texts: list[str], kind: Any) -> Any:
    values: list[decimal.Decimal | None] = []
    for text in texts:
        try:
            value = decimal.Decimal(text)
            fits = value.is_finite() and -value.as_tuple().exponent == kind.scale  # type: ignore[operator]
            digits = len(value.as_tuple().digits)
        except decimal.InvalidOperation:
            fits, digits = False, 0
        values.append(value if fits and digits <= kind.precision else None)
    return _as_written(pa.array(values, kind), texts, decimal_texts)


def _time_texts(predicate: Predicate, column: ServedColumn) -> HudiExpression:
    kind: Any = column.kind
    if kind.unit == "ns":
        raise _AmbiguousError  # Python's datetime has no nanoseconds
    return _texts(predicate, column, _times)


def _times(texts: list[str], kind: Any) -> Any:
    # A text that Python cannot parse may have a year that Python does not support: ValueError makes it unknown.
    parsed = (dt.datetime.fromisoformat(text.removesuffix(" UTC")) for text in texts)
    values = [value.replace(tzinfo=dt.UTC) if kind.tz else value for value in parsed]
    return _as_written(pa.array(values, kind), texts, time_texts)


def _byte_texts(predicate: Predicate, column: ServedColumn) -> HudiExpression:
    return _texts(predicate, column, _hex if column.form is Form.HEX else _base64)


def _hex(texts: list[str], kind: pa.DataType) -> Any:  # noqa: ARG001
    values = [_bytes(text, bytes.fromhex) for text in texts]
    return _as_written(pa.array(values, pa.binary()), texts, hex_texts)


def _base64(texts: list[str], kind: pa.DataType) -> Any:  # noqa: ARG001
    values = [_bytes(text, binascii.a2b_base64) for text in texts]
    return _as_written(pa.array(values, pa.binary()), texts, base64_texts)


def _bytes(text: str, parse: Callable[[str], bytes]) -> bytes | None:
    try:
        return parse(text)
    except ValueError:
        return None


def _as_written(values: Any, texts: list[str], write: Callable[[Any], Any]) -> Any:
    """The values whose text equals the given one; no row is served as any other text."""
    same = [written == text for written, text in zip(write(values).to_pylist(), texts, strict=True)]
    return values.filter(pa.array(same, pa.bool_()))


def _doubles(predicate: Predicate, column: ServedColumn) -> HudiExpression:
    """Decimals served as the nearest double lie between the neighbours of that double."""
    name, op = column.source, predicate.op
    if op in _POINTS and len(predicate.values) <= _MAX_DOUBLES:
        wide = any_of(*(all_of(_above(name, value), _below(name, value)) for value in predicate.values))
    elif op in _POINTS:
        wide = all_of(_above(name, min(predicate.values)), _below(name, max(predicate.values)))
    elif op in {Op.LT, Op.LE}:
        wide = _below(name, predicate.values[0])
    elif op in {Op.GT, Op.GE}:
        wide = _above(name, predicate.values[0])
    else:
        raise _AmbiguousError
    return all_of(wide, Unknown(f"{name} is served as {Form.DECIMAL_DOUBLE.value}"))


def _above(name: str, value: float) -> HudiExpression:
    return Predicate(Op.GE, name, (_exact(math.nextafter(value, -math.inf)),))


def _below(name: str, value: float) -> HudiExpression:
    return Predicate(Op.LE, name, (_exact(math.nextafter(value, math.inf)),))


def _exact(value: float) -> decimal.Decimal:
    if not math.isfinite(value):
        raise _AmbiguousError
    return decimal.Decimal(value)


_TRANSLATORS: Mapping[Form, Callable[[Predicate, ServedColumn], HudiExpression]] = {
    Form.MICROS: _micros,
    Form.TIME_TEXT: _time_texts,
    Form.DECIMAL_TEXT: _decimal_texts,
    Form.DECIMAL_DOUBLE: _doubles,
    Form.DECIMAL_UNSCALED: _unscaled,
    Form.HEX: _byte_texts,
    Form.BASE64: _byte_texts,
}


def bound_domain(snapshot: Snapshot, columns: Sequence[ServedColumn], constraint: Any) -> HudiExpression | None:
    """The filter of a TupleDomain on a snapshot's columns; None when all rows pass."""
    return bound_filter(snapshot, expression_of(constraint, tuple(columns), snapshot.schema))


_SHOWN = 19  # followed by an item with the number of others
_BELOW, _EXACTLY, _ABOVE = 1, 2, 3


def domain_text(domain: Any) -> Any:
    """A domain for the query log: by column the first ranges or values as text, and whether null passes.

    Args:
        domain: a ``TrinoThriftTupleDomain``, not validated.
    """
    domains = getattr(domain, "domains", None)
    if domains is None:
        return "nothing"
    return {str(name): _column_text(one) for name, one in itertools.islice(domains.items(), _SHOWN)}


def _column_text(domain: Any) -> dict[str, Any]:
    values = domain.valueSet
    fields: dict[str, Any] = {}
    if values.rangeValueSet is not None:
        fields["ranges"] = _shown_list(
            [_range_text(one) for one in values.rangeValueSet.ranges[:_SHOWN]], values.rangeValueSet.ranges
        )
    if values.equatableValueSet is not None:
        kind = "values" if values.equatableValueSet.inclusive else "all_but"
        listed = values.equatableValueSet.values
        fields[kind] = _shown_list([_value_text(one) for one in listed[:_SHOWN]], listed)
    if values.allOrNoneValueSet is not None:
        fields["values"] = "all" if values.allOrNoneValueSet.all else "none"
    fields["null"] = bool(domain.nullAllowed)
    return fields


def _shown_list(shown: list[str], listed: list[Any]) -> list[str]:
    return [*shown, f"{len(listed) - len(shown):,} more"] if len(listed) > len(shown) else shown


def _range_text(one: Any) -> str:
    low, high = one.low, one.high
    if low.value is not None and low.bound == high.bound == _EXACTLY and low.value == high.value:
        return _value_text(low.value)
    begin = "(-inf" if low.value is None else ("[" if low.bound == _EXACTLY else "(") + _value_text(low.value)
    end = "+inf)" if high.value is None else _value_text(high.value) + ("]" if high.bound == _EXACTLY else ")")
    return f"{begin}, {end}"


def _value_text(block: Any) -> str:
    """The value of a block of one row, of any kind."""
    for data in vars(block).values():
        if data is None:
            continue
        fields = vars(data)
        if fields.get("nulls") and fields["nulls"][0]:
            return "null"
        if "bytes" in fields:
            text = fields["bytes"] or b""
            return repr(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
        for values in fields.values():
            if isinstance(values, list) and values and values is not fields.get("nulls"):
                return str(values[0])
    return "?"
