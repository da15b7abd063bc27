"""The filter tree that the filters of all engines are translated to.

A filter is And / Or / Not over predicates ``(op, column, values)``. What a translator cannot express is `Unknown`,
which may be true, false or null for any row: it weakens a plan and never makes it wrong. Truth is three-valued, as in
SQL.

Trees may be thousands of levels deep, so nothing here recurses: depth and hash are computed once per node from those of
its children, everything else walks with a stack of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from pushdown.computation import Term
from pushdown.functions import Function, function_sql
from pushdown.text import column_sql, literal_sql
from table_format.errors import ArgumentError

Values: TypeAlias = "tuple[Any, ...] | pa.Array[Any]"


class Op(enum.Enum):
    """Operators of a predicate; the value is the operator's SQL spelling."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "IN"
    NOT_IN = "NOT IN"
    IS_NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"
    STARTS_WITH = "STARTS WITH"
    NOT_STARTS_WITH = "NOT STARTS WITH"
    LIKE = "LIKE"
    NOT_LIKE = "NOT LIKE"
    NULL_SAFE_EQ = "<=>"
    NULL_SAFE_NE = "IS DISTINCT FROM"

    @property
    def negated(self) -> Op:
        """The operator that is true where this one is false, and null where this one is null."""
        return _NEGATED[self]

    @property
    def is_negative(self) -> bool:
        """Whether it says that something is not so; IS NOT NULL and the order of values count as positive."""
        return self in _NEGATIVE


_PAIRS = (
    (Op.EQ, Op.NE),
    (Op.LT, Op.GE),
    (Op.LE, Op.GT),
    (Op.IN, Op.NOT_IN),
    (Op.IS_NULL, Op.NOT_NULL),
    (Op.STARTS_WITH, Op.NOT_STARTS_WITH),
    (Op.LIKE, Op.NOT_LIKE),
    (Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE),
)
_NEGATED = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
_NEGATIVE = frozenset({Op.NE, Op.NOT_IN, Op.NOT_STARTS_WITH, Op.NOT_LIKE, Op.NULL_SAFE_NE})
_NO_VALUE = frozenset({Op.IS_NULL, Op.NOT_NULL})
_SETS = frozenset({Op.IN, Op.NOT_IN})
_PRINTED_VALUES = 20
_PRINTED_CHILDREN = 100
_PRINTED_TEXT = 10_000


class HudiExpression:
    """Base of all filters; combine them with ``&``, ``|`` and ``~``.

    Immutable and hashable. Two expressions are equal when they are the same tree over the same literals, where ``1``,
    ``1.0`` and ``True`` are different literals. A filter has no truth value: ``and``, ``or`` and ``not`` raise
    TypeError. Predicates need not be bound; `pushdown.bind` resolves their columns and literals by a schema.

    >>> from pushdown import col, parse_sql
    >>> (col("day") >= 17) & ~col("city").is_in(["Bern", None])
    day >= 17 AND NOT (city IN ('Bern', NULL))
    >>> parse_sql("day >= 17 AND city LIKE 'B%'") == (col("day") >= 17) & col("city").like("B%")
    True
    """

    __slots__ = ()
    children: tuple[HudiExpression, ...] = ()
    depth: int = 1
    _hash: int = 0

    def __and__(self, other: HudiExpression) -> HudiExpression:
        return all_of(self, other)

    def __or__(self, other: HudiExpression) -> HudiExpression:
        return any_of(self, other)

    def __invert__(self) -> HudiExpression:
        return Not(self)

    def __bool__(self) -> bool:
        raise ArgumentError("a filter has no truth value of its own: combine filters with & | ~, not and / or / not")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HudiExpression) and _same_tree(self, other)

    def __repr__(self) -> str:
        """The beginning of the SQL text: of long lists the first values, of wide branches the first children."""
        return _to_sql(self, _PRINTED_VALUES)

    def to_sql(self) -> str:
        """The filter as SQL text that `pushdown.parse_sql` reads back (an `Unknown` as a call of ``unknown``)."""
        return _to_sql(self, None)


@dataclass(frozen=True, eq=False, repr=False)
class _Branch(HudiExpression):
    """A filter made of filters; depth and hash are computed once, from those of the children."""

    children: tuple[HudiExpression, ...]
    depth: int = field(init=False)
    _hash: int = field(init=False)

    def __init__(self, children: Iterable[HudiExpression]) -> None:
        sealed = tuple(children)
        for child in sealed:
            if not isinstance(child, HudiExpression):
                raise TypeError(f"a filter is made of filters, not of {type(child).__name__}")
        object.__setattr__(self, "children", sealed)
        object.__setattr__(self, "depth", 1 + max((child.depth for child in sealed), default=0))
        object.__setattr__(self, "_hash", hash((type(self), *(child._hash for child in sealed))))  # noqa: SLF001


class And(_Branch):
    """True when all children are; false when one is; null otherwise. No children: true."""


class Or(_Branch):
    """True when one child is; false when all are; null otherwise. No children: false."""


class Not(_Branch):
    """True becomes false, false becomes true, null stays null."""

    def __init__(self, child: HudiExpression) -> None:
        super().__init__((child,))

    @property
    def child(self) -> HudiExpression:
        """The negated filter."""
        return self.children[0]


@dataclass(frozen=True, eq=False, repr=False)
class Constant(HudiExpression):
    """The same truth value for every row: True, False, or None for SQL's NULL."""

    value: bool | None
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((Constant, self.value)))


@dataclass(frozen=True, eq=False, repr=False)
class Unknown(HudiExpression):
    """A part of an engine's filter that cannot be expressed here: it may be true, false or null for any row."""

    reason: str
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((Unknown, self.reason)))


@dataclass(frozen=True, eq=False, repr=False)
class Predicate(HudiExpression):
    """One operator over one column.

    Attributes:
        op: the operator.
        column: the column's name; a field of a struct by its dotted path.
        values: Python literals (None is SQL's NULL) as the filter's author wrote them or, once bound, an Arrow array.
            One value, except any number for IN / NOT IN and none for IS NULL / IS NOT NULL. The value of LIKE is a
            pattern whose escape character is the backslash.
        column_type: the column's Arrow type once `bind` has resolved it, else None. Bound values have the
            column's type, except that those of a 32-bit float column stay 64-bit floats: rounding them would move them.
        function: the function of the column that is compared, instead of the column itself; a bound predicate has none.
        rules: the engine whose casts bring column and literals to one type: ``spark``, or empty for a comparison that
            is `Unknown` where engines differ. A bound predicate has none. Equality of filters ignores it.
        condition: the comparison of a function as a computation, by which rows are selected where statistics only
            narrow it. Equality of filters ignores it.
    """

    op: Op
    column: str
    values: Values = ()
    column_type: pa.DataType | None = None
    function: Function | None = None
    rules: str = ""
    condition: Term | None = None
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        if self.function is not None and self.column_type is not None:
            raise ValueError(f"{self.function.name} of column {self.column} cannot be bound")
        if not isinstance(self.values, pa.Array):
            object.__setattr__(self, "values", tuple(self.values))
        expected = None if self.op in _SETS else 0 if self.op in _NO_VALUE else 1
        if expected is not None and self.column_type is None and len(self.values) != expected:
            raise ValueError(
                f"{self.op.value} on column {self.column} takes {expected} value(s), got {len(self.values)}"
            )
        first = str([literal_sql(value) for value in self.values[:4]])
        object.__setattr__(self, "_hash", hash((self.op, self.column, self.function, len(self.values), first)))

    @property
    def bound(self) -> bool:
        """Whether the column is resolved and the literals have its type."""
        return self.column_type is not None

    def replaced(self, op: Op) -> Predicate:
        """The same column and values under another operator."""
        condition = _replaced(self.condition, self.op, op)
        return Predicate(op, self.column, self.values, self.column_type, self.function, self.rules, condition)


@dataclass(frozen=True, eq=False, repr=False)
class RowTest(HudiExpression):
    """A bound comparison of a column after casts, which rows decide and statistics of the column do not.

    Attributes:
        op: the operator.
        column: the column's bound name.
        column_type: its type.
        function: the casts.
        values: the literals, an Arrow array of the type that the casts end in.
        time_zone: of the session, for casts between texts, clock times and instants.
    """

    op: Op
    column: str
    column_type: pa.DataType
    function: Function
    values: pa.Array[Any]
    time_zone: str
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((RowTest, self.op, self.column, self.function, str(self.values))))

    def replaced(self, op: Op) -> RowTest:
        """The same comparison under another operator."""
        return replace(self, op=op)


@dataclass(frozen=True, eq=False, repr=False)
class ImageTest(Unknown):
    """A bound comparison of a function of a column, which statistics narrow.

    Attributes:
        reason: why rows are not selected by it, unless it has a condition.
        op: the operator.
        column: the column's bound name.
        column_type: its type.
        function: of the column.
        values: the literals, an Arrow array of the type of the function's results; of any type where that is None.
        result_type: of the function's results; None if all that is known is that null has the result null.
        time_zone: of the session.
        condition: what decides rows, with types; None if they are not computed.
    """

    op: Op
    column: str
    column_type: pa.DataType
    function: Function
    values: Values
    result_type: pa.DataType | None
    time_zone: str
    condition: Term | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((ImageTest, self.op, self.column, self.function, str(self.values))))

    def replaced(self, op: Op) -> ImageTest:
        """The same comparison under another operator."""
        return replace(self, op=op, condition=_replaced(self.condition, self.op, op))


@dataclass(frozen=True, eq=False, repr=False)
class RowComputation(Unknown):
    """A condition that no statistics narrow, and that is computed for each row.

    Attributes:
        reason: why a plan does not use it.
        condition: what is computed; its terms have types once it is bound.
        time_zone: of the session; None until it is bound.
    """

    condition: Term
    time_zone: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((RowComputation, self.condition)))

    def negated(self) -> RowComputation:
        """NOT of it."""
        return replace(self, condition=self.condition.negated())


def _replaced(condition: Term | None, op: Op, other: Op) -> Term | None:
    """The computation of a comparison under another operator."""
    if condition is None or other is op:
        return condition
    return condition.negated() if other is op.negated else None


def all_of(*parts: HudiExpression) -> HudiExpression:
    """And of the parts, flattened; of one part, the part itself."""
    return _joined(And, parts)


def any_of(*parts: HudiExpression) -> HudiExpression:
    """Or of the parts, flattened; of one part, the part itself."""
    return _joined(Or, parts)


def negation(part: HudiExpression) -> HudiExpression:
    """Not of the part; of a predicate, the predicate with the opposite operator."""
    return part.replaced(part.op.negated) if isinstance(part, Predicate | RowTest | ImageTest) else Not(part)


def never(column: str, column_type: pa.DataType) -> HudiExpression:
    """False where the column has a value, null where it is null: what a comparison that can't be true yields."""
    return And((Predicate(Op.IS_NULL, column, _no_values(), column_type), Constant(value=None)))


def always(column: str, column_type: pa.DataType) -> HudiExpression:
    """True where the column has a value, null where it is null: what a comparison that can't be false yields."""
    return Or((Predicate(Op.NOT_NULL, column, _no_values(), column_type), Constant(value=None)))


def _no_values() -> pa.Array[Any]:
    return pa.nulls(0)


def _joined(kind: type[And | Or], parts: tuple[HudiExpression, ...]) -> HudiExpression:
    flat: list[HudiExpression] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.children)
        else:
            flat.append(part)
    return flat[0] if len(flat) == 1 else kind(flat)


def _same_tree(left: HudiExpression, right: HudiExpression) -> bool:
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if type(a) is not type(b) or hash(a) != hash(b) or len(a.children) != len(b.children):
            return False
        if not a.children and not _same_leaf(a, b):
            return False
        pending.extend(zip(a.children, b.children, strict=True))
    return True


def _same_leaf(a: HudiExpression, b: HudiExpression) -> bool:  # noqa: PLR0911 - one case a class
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.value is b.value
    if isinstance(a, ImageTest) and isinstance(b, ImageTest):
        alike = (a.op, a.column, a.column_type, a.function) == (b.op, b.column, b.column_type, b.function)
        zoned = (a.result_type, a.time_zone) == (b.result_type, b.time_zone)
        return alike and zoned and a.condition == b.condition and _same_values(a.values, b.values)
    if isinstance(a, RowComputation) and isinstance(b, RowComputation):
        return a.condition == b.condition and a.time_zone == b.time_zone
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return a.reason == b.reason
    if isinstance(a, Predicate) and isinstance(b, Predicate):
        return (
            a.op is b.op
            and a.column == b.column
            and a.column_type == b.column_type
            and a.function == b.function
            and _same_values(a.values, b.values)
        )
    if isinstance(a, RowTest) and isinstance(b, RowTest):
        alike = (a.op, a.column, a.column_type, a.function) == (b.op, b.column, b.column_type, b.function)
        return alike and a.time_zone == b.time_zone and _same_values(a.values, b.values)
    return True  # And or Or without children


def _same_values(a: Values, b: Values) -> bool:
    if isinstance(a, pa.Array) or isinstance(b, pa.Array):
        return isinstance(a, pa.Array) and isinstance(b, pa.Array) and a.type == b.type and a.equals(b)
    return len(a) == len(b) and all(type(x) is type(y) and repr(x) == repr(y) for x, y in zip(a, b, strict=True))


def _to_sql(root: HudiExpression, limit: int | None) -> str:
    out: list[str] = []
    length = 0
    pending: list[HudiExpression | str] = [root]
    while pending:
        item = pending.pop()
        if limit is not None and length > _PRINTED_TEXT:
            out.append(" …")
            break
        if isinstance(item, str):
            out.append(item)
            length += len(item)
        elif isinstance(item, Not):
            pending += [")", item.child, "NOT ("]
        elif isinstance(item, And | Or) and item.children:
            word = " AND " if isinstance(item, And) else " OR "
            parts: list[HudiExpression | str] = []
            shown = item.children if limit is None else item.children[:_PRINTED_CHILDREN]
            for child in shown:
                wrap = isinstance(child, And | Or)
                parts += [word, "(", child, ")"] if wrap else [word, child]
            if len(shown) < len(item.children):
                parts.append(f"{word}… {len(item.children) - len(shown):,} more")
            pending.extend(reversed(parts[1:]))
        else:
            out.append(_leaf_sql(item, limit))
            length += len(out[-1])
    return "".join(out)


def _leaf_sql(leaf: HudiExpression, limit: int | None) -> str:
    if isinstance(leaf, Predicate | RowTest | ImageTest):
        return _predicate_sql(leaf, limit)
    if isinstance(leaf, RowComputation):
        return leaf.condition.sql()
    if isinstance(leaf, Unknown):
        return f"unknown({literal_sql(leaf.reason)})"
    if isinstance(leaf, Constant):
        return literal_sql(leaf.value)
    return "TRUE" if isinstance(leaf, And) else "FALSE"


def _predicate_sql(predicate: Predicate | RowTest | ImageTest, limit: int | None) -> str:
    column = column_sql(predicate.column)
    if predicate.function is not None:
        column = function_sql(predicate.function, column, literal_sql)
    op = predicate.op
    if op in _NO_VALUE:
        return f"{column} {op.value}"
    shown = predicate.values if limit is None else predicate.values[:limit]
    texts = [literal_sql(value) for value in shown]
    if op in _SETS:
        hidden = len(predicate.values) - len(texts)
        more = [f"… {hidden:,} more"] if hidden else []
        return f"{column} {op.value} ({', '.join(texts + more)})"
    if op in {Op.STARTS_WITH, Op.NOT_STARTS_WITH}:
        call = f"startswith({column}, {texts[0]})"
        return call if op is Op.STARTS_WITH else f"NOT ({call})"
    return f"{column} {op.value} {texts[0]}"
