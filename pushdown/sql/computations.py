"""Conditions of Spark's dialect as computations: what `pushdown.computed` can compute for rows, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pushdown.computation import COLUMN, LITERAL, MOST_DEEP, Term
from pushdown.like import canonical_pattern, quoted
from pushdown.sql.literal import NOT_A_LITERAL, literal_value, spark_literal, spark_type_of
from pushdown.sql.operands import column_name

_BINARY: dict[type[Any], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "mod",
    exp.And: "and",
    exp.Or: "or",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.DPipe: "concat",
}
_UNARY: dict[type[Any], str] = {
    exp.Abs: "abs",
    exp.Ceil: "ceil",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfYear: "dayofyear",
    exp.Floor: "floor",
    exp.Hour: "hour",
    exp.Length: "length",
    exp.Lower: "lower",
    exp.Minute: "minute",
    exp.Month: "month",
    exp.Neg: "negative",
    exp.Not: "not",
    exp.Quarter: "quarter",
    exp.Reverse: "reverse",
    exp.Second: "second",
    exp.Upper: "upper",
    exp.WeekOfYear: "weekofyear",
    exp.Year: "year",
}
_SEVERAL: dict[type[Any], str] = {
    exp.Coalesce: "coalesce",
    exp.Concat: "concat",
    exp.Greatest: "greatest",
    exp.Least: "least",
}
# Functions that sqlglot does not know, by how many arguments they take.
_NAMED = {"trim": 1, "ltrim": 1, "rtrim": 1, "weekday": 1, "pmod": 2, "isnull": 1, "isnotnull": 1}
_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
_FIELDS = frozenset({"YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE"})
# Arguments with which sqlglot marks how dialects differ.
_MARKS = frozenset({"safe", "typed", "ignore_nulls", "coalesce", "negate"})
_MOST_ARGUMENTS = 200
_MOST_LISTED = 1_000
_MOST_DIGITS = 38


class _UnreadError(ValueError):
    """A node that is not computed."""


def read_computation(node: Any, *, suffixes: bool) -> Term | None:
    """A condition or operand in Spark's dialect as a computation without types; None if it is not on the list.

    Args:
        node: of sqlglot's tree.
        suffixes: see `pushdown.sql.literal.spark_literal`.
    """
    try:
        return _Reader(suffixes=suffixes).read(node)
    except _UnreadError:
        return None


def comparison(operator: str, left: Term | None, right: Term | None) -> Term | None:
    """Two operands compared; ``<>`` and IS DISTINCT FROM are what other operators negate."""
    if left is None or right is None:
        return None
    positive = {"<>": "=", "IS DISTINCT FROM": "<=>"}.get(operator)
    return Term(operator, (left, right)) if positive is None else Term(positive, (left, right)).negated()


def membership(operand: Term | None, values: tuple[Any, ...]) -> Term | None:
    """An operand in a list of literals."""
    if operand is None or len(values) > _MOST_LISTED:
        return None
    return Term("in", (operand, *(Term(LITERAL, value=value) for value in values)))


class _Reader:
    def __init__(self, *, suffixes: bool) -> None:
        self._suffixes = suffixes

    def read(self, node: Any, depth: int = 0) -> Term:
        """The term of a node; `_UnreadError` if it is not computed."""
        if depth > MOST_DEEP:
            raise _UnreadError
        while isinstance(node, exp.Paren):
            node = node.this
        term = self._leaf(node)
        if term is None:
            read = _READERS.get(type(node))
            if read is None:
                raise _UnreadError
            term = read(self, node, depth + 1)
        # IN, LIKE and BETWEEN may carry their NOT
        return term.negated() if node.args.get("negate") else term

    def _leaf(self, node: Any) -> Term | None:
        if isinstance(node, exp.Column | exp.Dot):
            name = column_name(node)
            if name is None:
                raise _UnreadError
            return Term(COLUMN, value=name)
        value = spark_literal(node, suffixes=self._suffixes)
        if value is NOT_A_LITERAL or (value is None and not isinstance(node, exp.Null)):
            return None  # NULL of a type is a cast
        return Term(LITERAL, value=value)

    def all(self, nodes: list[Any], depth: int) -> tuple[Term, ...]:
        if not 0 < len(nodes) <= _MOST_ARGUMENTS:
            raise _UnreadError
        return tuple(self.read(node, depth) for node in nodes)

    def binary(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression")
        return Term(_BINARY[type(node)], self.all([node.this, node.expression], depth))

    def different(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression")
        name = "=" if isinstance(node, exp.NEQ) else "<=>"
        return Term(name, self.all([node.this, node.expression], depth)).negated()

    def unary(self, node: Any, depth: int) -> Term:
        _check(node, "this")
        name = _UNARY[type(node)]
        argument = self.read(node.this, depth)
        return argument.negated() if name == "not" else Term(name, (argument,))

    def several(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expressions")
        first = [] if isinstance(node, exp.Concat) else [node.this]
        return Term(_SEVERAL[type(node)], self.all([*first, *node.expressions], depth))

    def named(self, node: Any, depth: int) -> Term:
        name = str(node.this).lower()
        if _NAMED.get(name) != len(node.expressions):
            raise _UnreadError
        arguments = self.all(node.expressions, depth)
        if name in {"isnull", "isnotnull"}:
            null = Term("is_null", arguments)
            return null if name == "isnull" else null.negated()
        return Term(name, arguments)

    def choice(self, node: Any, depth: int) -> Term:
        """CASE, `if`."""
        _check(node, "this", "ifs", "default", "true", "false")
        if isinstance(node, exp.If):
            ifs, default, of = [node], node.args.get("false"), None
        else:
            ifs, default, of = node.args["ifs"], node.args.get("default"), node.this
        operand = None if of is None else self.read(of, depth)
        arguments: list[Term] = []
        for one in ifs:
            test = self.read(one.this, depth)
            arguments += [test if operand is None else Term("=", (operand, test)), self.read(one.args["true"], depth)]
        arguments.append(Term(LITERAL) if default is None else self.read(default, depth))
        if len(arguments) > _MOST_ARGUMENTS:
            raise _UnreadError
        return Term("case", tuple(arguments))

    def null_if(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression")
        first, second = self.all([node.this, node.expression], depth)
        return Term("case", (Term("=", (first, second)), Term(LITERAL), first))

    def unless_null(self, node: Any, depth: int) -> Term:
        _check(node, "this", "true", "false")
        first, other, default = self.all([node.this, node.args["true"], node.args["false"]], depth)
        return Term("case", (Term("is_null", (first,)), default, other))

    def between(self, node: Any, depth: int) -> Term:
        _check(node, "this", "low", "high")
        operand, low, high = self.all([node.this, node.args["low"], node.args["high"]], depth)
        return Term("and", (Term(">=", (operand, low)), Term("<=", (operand, high))))

    def member(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expressions")
        if not node.expressions:
            raise _UnreadError  # an empty list is no SQL of Spark's
        return Term("in", self.all([node.this, *node.expressions], depth))

    def test(self, node: Any, depth: int) -> Term:
        """IS NULL, IS TRUE."""
        _check(node, "this", "expression")
        operand = self.read(node.this, depth)
        if isinstance(node.expression, exp.Null):
            return Term("is_null", (operand,))
        if isinstance(node.expression, exp.Boolean):
            return Term("<=>", (operand, Term(LITERAL, value=bool(node.expression.this))))
        raise _UnreadError

    def like(self, node: Any, depth: int) -> Term:
        escape, negative = "\\", False
        if isinstance(node, exp.Escape):
            escape, node = literal_value(node.expression), node.this
            negative = bool(node.args.get("negate"))
        _check(node, "this", "expression")
        pattern = literal_value(node.expression)
        if type(node) is not exp.Like or not isinstance(escape, str) or not isinstance(pattern, str):
            raise _UnreadError
        try:
            canonical = canonical_pattern(pattern, escape)
        except ValueError:
            raise _UnreadError from None
        term = Term("like", (self.read(node.this, depth), Term(LITERAL, value=canonical)))
        return term.negated() if negative else term

    def holds(self, node: Any, depth: int) -> Term:
        """startswith, endswith, contains."""
        _check(node, "this", "expression")
        part = literal_value(node.expression)
        if not isinstance(part, str):
            raise _UnreadError
        before = "" if isinstance(node, exp.StartsWith) else "%"
        after = "" if isinstance(node, exp.EndsWith) else "%"
        pattern = f"{before}{quoted(part)}{after}"
        return Term("like", (self.read(node.this, depth), Term(LITERAL, value=pattern)))

    def cast(self, node: Any, depth: int) -> Term:
        _check(node, "this", "to", "_type")
        target = spark_type_of(node.to)
        if target is None:
            raise _UnreadError
        name = "try_cast" if node.args.get("safe") else "cast"
        return Term(name, (self.read(node.this, depth),), target)

    def date(self, node: Any, depth: int) -> Term:
        """`to_date`, which sqlglot also puts around the arguments of functions of dates."""
        _check(node, "this")
        return Term("cast", (self.read(node.this, depth),), pa.date32())

    def substring(self, node: Any, depth: int) -> Term:
        _check(node, "this", "start", "length")
        numbers = [literal_value(node.args[key]) for key in ("start", "length") if node.args.get(key) is not None]
        return self._cut(node.this, numbers, depth)

    def left(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression")
        return self._cut(node.this, [1, literal_value(node.expression)], depth)

    def right(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression")
        count = literal_value(node.expression)
        whole = type(count) is int and count > 0
        return self._cut(node.this, [-count] if whole else [1, 0 if type(count) is int else count], depth)

    def _cut(self, text: Any, numbers: list[Any], depth: int) -> Term:
        if not numbers or any(type(number) is not int or abs(number) >= 2**31 for number in numbers):
            raise _UnreadError
        return Term("substring", (self.read(text, depth),), tuple(numbers))

    def round(self, node: Any, depth: int) -> Term:
        _check(node, "this", "decimals")
        decimals = node.args.get("decimals")
        places = 0 if decimals is None else literal_value(decimals)
        if type(places) is not int or not 0 <= places <= _MOST_DIGITS:
            raise _UnreadError
        return Term("round", (self.read(node.this, depth),), (places,))

    def replace(self, node: Any, depth: int) -> Term:
        _check(node, "this", "expression", "replacement")
        texts = (literal_value(node.expression), literal_value(node.args.get("replacement")))
        if not all(isinstance(text, str) for text in texts):
            raise _UnreadError
        return Term("replace", (self.read(node.this, depth),), texts)

    def trim(self, node: Any, depth: int) -> Term:
        _check(node, "this", "position")
        name = _TRIMS.get(str(node.args.get("position") or "").upper())
        if name is None:
            raise _UnreadError
        return Term(name, (self.read(node.this, depth),))

    def extract(self, node: Any, depth: int) -> Term:
        field = node.name.upper()
        if field not in _FIELDS:
            raise _UnreadError
        return Term(field.lower(), (self.read(node.expression, depth),))


def _check(node: Any, *known: str) -> None:
    """Refuse arguments that are not known."""
    arguments = {key for key, value in node.args.items() if value not in (None, False, [], "")}
    if not arguments <= {*_MARKS, *known}:
        raise _UnreadError


_READERS: dict[type[Any], Callable[[_Reader, Any, int], Term]] = {
    **dict.fromkeys(_BINARY, _Reader.binary),
    **dict.fromkeys(_UNARY, _Reader.unary),
    **dict.fromkeys(_SEVERAL, _Reader.several),
    exp.Anonymous: _Reader.named,
    exp.Between: _Reader.between,
    exp.Case: _Reader.choice,
    exp.Cast: _Reader.cast,
    exp.Contains: _Reader.holds,
    exp.Date: _Reader.date,
    exp.EndsWith: _Reader.holds,
    exp.Escape: _Reader.like,
    exp.Extract: _Reader.extract,
    exp.If: _Reader.choice,
    exp.In: _Reader.member,
    exp.Is: _Reader.test,
    exp.Left: _Reader.left,
    exp.Like: _Reader.like,
    exp.NEQ: _Reader.different,
    exp.NullSafeNEQ: _Reader.different,
    exp.Nullif: _Reader.null_if,
    exp.Nvl2: _Reader.unless_null,
    exp.Replace: _Reader.replace,
    exp.Right: _Reader.right,
    exp.Round: _Reader.round,
    exp.StartsWith: _Reader.holds,
    exp.Substring: _Reader.substring,
    exp.Trim: _Reader.trim,
    exp.TryCast: _Reader.cast,
    exp.TsOrDsToDate: _Reader.date,
}
