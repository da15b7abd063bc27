"""One condition of a WHERE clause, as parsed by sqlglot, as predicates; what is not understood is `Unknown`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pushdown.computation import Term
from pushdown.expression import (
    Constant,
    HudiExpression,
    Op,
    Predicate,
    RowComputation,
    Unknown,
    all_of,
    any_of,
    negation,
)
from pushdown.functions import cast
from pushdown.like import canonical_pattern, quoted
from pushdown.spark_types import SPARK
from pushdown.sql.calls import literal_of
from pushdown.sql.computations import comparison, membership, read_computation
from pushdown.sql.constants import fold_constants, moved
from pushdown.sql.literal import NOT_A_LITERAL, literal_value
from pushdown.sql.operands import Operand, column_name, days_of, read_operand

NOT_UNDERSTOOD = " is not understood"
"""How the reason ends of a condition that no rule translates; before it is the condition's text."""

_COMPARISONS: dict[type[Any], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NE,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
    exp.NullSafeEQ: Op.NULL_SAFE_EQ,
    exp.NullSafeNEQ: Op.NULL_SAFE_NE,
}

_REGEX_PREFIX = re.compile(r"\^((?:[A-Za-z0-9_ /:=,@~'\"<>-]|\\[.\-/])+)(?:\.\*)?")
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_CAST = re.compile(r"::|\b(?:cast|tinyint|smallint|int|bigint)\s*\(", re.IGNORECASE)
_SHOWN = 120
_NO_LISTS: Mapping[str, tuple[Any, ...]] = {}
_MANY = 1_000


def translate_condition(
    tree: exp.Condition, source: str, dialect: str, lists: Mapping[str, tuple[Any, ...]] = _NO_LISTS
) -> HudiExpression:
    """Translate one parsed condition.

    Args:
        tree: the syntax tree; its constant expressions are folded in place.
        source: its text, for the reason of an `Unknown`.
        dialect: decides LIKE's default escape character.
        lists: literals of IN lists that were removed from the text, by their placeholders.
    """
    return _Translator(source, dialect, lists).translate(fold_constants(tree, dialect))


def in_list(tree: exp.Condition, values: tuple[Any, ...], source: str, dialect: str) -> HudiExpression:
    """Translate ``x [NOT] IN (…)`` for literals that were taken out of the text before parsing."""
    negative = isinstance(tree, exp.Not)
    test: Any = tree.this if negative else tree
    negative ^= bool(test.args.get("negate"))
    operand = read_operand(test.this, dialect) if isinstance(test, exp.In) else None
    made: HudiExpression = Unknown(_shown(source)) if operand is None else operand.predicate(Op.IN, *values)
    nested = not isinstance(test, exp.In) or test.this.find(exp.In) is not None  # whose list may be taken out, too
    if dialect == SPARK and not nested and (operand is None or operand.function is not None):
        suffixes = _CAST.search(source) is None
        made = _with_computation(made, membership(read_computation(test.this, suffixes=suffixes), values))
    return negation(made) if negative else made


def _with_computation(made: HudiExpression, term: Term | None) -> HudiExpression:
    """A condition by which rows are selected as computed, if it can be."""
    if term is None:
        return made
    if isinstance(made, Predicate):
        return replace(made, condition=term)
    return RowComputation(made.reason, term) if type(made) is Unknown else made


def _evaluated_once(end: HudiExpression) -> HudiExpression:
    """A comparison of BETWEEN, whose operand Spark evaluates alone: a cast to FLOAT is merged with no other cast."""
    if not isinstance(end, Predicate) or end.function is None or end.function.arguments != (pa.float32(),):
        return end
    return replace(end, function=cast(pa.float32()).of(end.function))


def _shown(source: str) -> str:
    text = " ".join(source.split())
    return (text if len(text) <= _SHOWN else text[:_SHOWN] + "…") + NOT_UNDERSTOOD


class _Translator:
    """Translates the nodes of one condition; the parser bounds their depth."""

    def __init__(self, source: str, dialect: str, lists: Mapping[str, tuple[Any, ...]]) -> None:
        self.source = source
        self.dialect = dialect
        self.lists = lists
        self.suffixes = _CAST.search(source) is None
        self.escape = "\\" if dialect in {"spark", "hive"} else None

    def translate(self, node: Any) -> HudiExpression:
        """Translate a node; some releases of sqlglot mark a negation on the node, others wrap it in Not."""
        plain = self._plain(node)
        return negation(plain) if node.args.get("negate") and not isinstance(node, exp.Like | exp.Escape) else plain

    def _plain(self, node: Any) -> HudiExpression:
        made = self._translated(node)
        if not _is_computed(made) or not self._computes:
            return made
        term = self._term(node)
        if term is not None and node.args.get("negate") and not isinstance(node, exp.Like | exp.Escape):
            term = term.negated()  # by `translate`
        return _with_computation(made, term)

    @property
    def _computes(self) -> bool:
        """Whether rows can be computed; with lists that were taken out of the text, others stand in their place."""
        return self.dialect == SPARK and not self.lists

    def _term(self, node: Any) -> Term | None:
        return read_computation(node, suffixes=self.suffixes)

    def _translated(self, node: Any) -> HudiExpression:  # noqa: C901, PLR0911 - one line a node
        if isinstance(node, exp.Paren):
            return self.translate(node.this)
        if isinstance(node, exp.And):
            return all_of(self.translate(node.left), self.translate(node.right))
        if isinstance(node, exp.Or):
            return any_of(self.translate(node.left), self.translate(node.right))
        if isinstance(node, exp.Not):
            return negation(self.translate(node.this))
        if type(node) in _COMPARISONS:
            return self._compare(_COMPARISONS[type(node)], node.left, node.right)
        if isinstance(node, exp.Between):
            return self._between(node)
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node)
        if isinstance(node, exp.RegexpLike):
            return self._regexp(node)
        return self._bare(node)

    def _operand(self, node: Any) -> Operand | None:
        return read_operand(node, self.dialect)

    def _literal(self, node: Any) -> Any:
        """The value of a literal, or of a literal date or time moved by an interval."""
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Add | exp.Sub):
            shifted = moved(
                self._literal(node.this), node.expression, -1 if isinstance(node, exp.Sub) else 1, self.dialect
            )
            return NOT_A_LITERAL if shifted is None else shifted
        if isinstance(node, exp.TsOrDsAdd | exp.DateAdd):
            return self._days_later(node)
        return literal_of(node, self.dialect, suffixes=self.suffixes)

    def _days_later(self, node: Any) -> Any:
        day, days = self._literal(node.this), days_of(node.expression, node.args.get("unit"))
        if type(day) is not dt.date or days is None:
            return NOT_A_LITERAL
        try:
            return day + dt.timedelta(days=days)
        except OverflowError:
            return NOT_A_LITERAL

    def _unknown(self) -> Unknown:
        return Unknown(_shown(self.source))

    def _bare(self, node: Any) -> HudiExpression:
        column = column_name(node)
        if column is not None:
            return Predicate(Op.EQ, column, (True,))
        if isinstance(node, exp.StartsWith):
            operand, prefix = self._operand(node.this), literal_value(node.expression)
            if operand is not None and (prefix is None or isinstance(prefix, str)):
                return operand.predicate(Op.STARTS_WITH, prefix)
        if isinstance(node, exp.Contains | exp.EndsWith) and self.dialect == "spark":
            return self._holds(node)
        if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            return self._called(str(node.this).lower(), node.expressions[0])
        value = literal_value(node)
        if value is None or isinstance(value, bool):
            return Constant(value)
        return self._unknown()

    def _holds(self, node: Any) -> HudiExpression:
        """Spark's contains and endswith, as LIKE."""
        operand, part = self._operand(node.this), literal_value(node.expression)
        if operand is None or not (part is None or isinstance(part, str)):
            return self._unknown()
        pattern = None if part is None else "%" + quoted(part) + ("" if isinstance(node, exp.EndsWith) else "%")
        return operand.predicate(Op.LIKE, pattern)

    def _called(self, function: str, argument: Any) -> HudiExpression:
        operand = self._operand(argument)
        if operand is not None and function in {"isnull", "isnotnull"}:
            return operand.predicate(Op.IS_NULL if function == "isnull" else Op.NOT_NULL)
        reason = literal_value(argument)
        if function == "unknown" and isinstance(reason, str):
            # As `HudiExpression.to_sql` writes it.
            return Unknown(reason)
        return self._unknown()

    def _compare(self, op: Op, left: Any, right: Any) -> HudiExpression:
        if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
            members = row_members(left, [right], self.dialect) if op is Op.EQ else None
            return self._unknown() if members is None else members
        operand, value = self._operand(left), self._literal(right)
        if operand is None or value is NOT_A_LITERAL:
            operand, value = self._operand(right), self._literal(left)
            op = _FLIPPED.get(op, op)
        if operand is not None and value is not NOT_A_LITERAL:
            return operand.predicate(op, value)
        return self._of_literals(op, literal_value(left), literal_value(right))

    def _of_literals(self, op: Op, left: Any, right: Any) -> HudiExpression:
        """``1 = 1`` and ``1 = 0``, which tools write for "all" and "nothing"."""
        if type(left) is int and type(right) is int and op in {Op.EQ, Op.NE}:
            return Constant((left == right) == (op is Op.EQ))
        return self._unknown()

    def _between(self, node: Any) -> HudiExpression:
        if node.args.get("symmetric"):
            return self._unknown()
        ends = (self._end(Op.GE, node.this, node.args["low"]), self._end(Op.LE, node.this, node.args["high"]))
        return all_of(*(_evaluated_once(end) for end in ends))

    def _end(self, op: Op, left: Any, right: Any) -> HudiExpression:
        made = self._compare(op, left, right)
        if not _is_computed(made) or not self._computes:
            return made
        return _with_computation(made, comparison(op.value, self._term(left), self._term(right)))

    def _in(self, node: Any) -> HudiExpression:
        if not node.expressions or any(node.args.get(key) for key in ("query", "unnest", "field")):
            return self._unknown()
        if isinstance(node.this, exp.Tuple):
            members = row_members(node.this, node.expressions, self.dialect)
            return self._unknown() if members is None else members
        operand = self._operand(node.this)
        taken = self.lists.get(node.expressions[0].name)
        values = [self._literal(member) for member in node.expressions] if taken is None else taken
        if operand is None or any(value is NOT_A_LITERAL for value in values):
            return self._unknown()
        return operand.predicate(Op.IN, *values)

    def _is(self, node: Any) -> HudiExpression:
        operand = self._operand(node.this)
        if operand is None:
            return self._unknown()
        if isinstance(node.expression, exp.Null):
            return operand.predicate(Op.IS_NULL)
        if isinstance(node.expression, exp.Boolean) and operand.function is None:
            return operand.predicate(Op.NULL_SAFE_EQ, bool(node.expression.this))
        return self._unknown()

    def _regexp(self, node: Any) -> HudiExpression:
        """A Java pattern that is only a prefix; in Trino ``^`` may be the start of a line."""
        operand, pattern = self._operand(node.this), literal_value(node.expression)
        match = _REGEX_PREFIX.fullmatch(pattern) if isinstance(pattern, str) else None
        if operand is None or match is None or self.escape is None:
            return self._unknown()
        return operand.predicate(Op.STARTS_WITH, match[1].replace("\\", ""))

    def _like(self, node: Any) -> HudiExpression:
        escape = self.escape
        negative = bool(node.args.get("negate"))
        if isinstance(node, exp.Escape):
            character = literal_value(node.expression)
            if not isinstance(character, str):
                return self._unknown()
            escape, node = character, node.this
            negative ^= bool(node.args.get("negate"))
        operand = self._operand(node.this)
        pattern = literal_value(node.expression) if type(node) is exp.Like else NOT_A_LITERAL
        if operand is None or not (pattern is None or isinstance(pattern, str)):
            return self._unknown()
        try:
            canonical = None if pattern is None else canonical_pattern(pattern, escape)
        except ValueError:
            return self._unknown()
        return operand.predicate(Op.NOT_LIKE if negative else Op.LIKE, canonical)


def _is_computed(made: HudiExpression) -> bool:
    """Whether a condition may be one that only a computation decides for rows."""
    return type(made) is Unknown or (isinstance(made, Predicate) and made.function is not None and not made.condition)


def row_members(row: exp.Tuple, members: Sequence[Any], dialect: str) -> HudiExpression | None:
    """Whether a row of columns equals one of some rows of literals; None if that is not understood.

    In Trino a row with a null is equal to none or perhaps to one; in Spark structs are compared, whose nulls are equal
    to nulls. In Hive such rows are unknown, as are literal nulls outside Spark.
    """
    operands = [read_operand(node, dialect) for node in row.expressions]
    columns = [operand for operand in operands if operand is not None]
    if len(columns) < len(operands) or not columns or len(members) > _MANY:
        return None
    cases = []
    for member in members:
        values = [literal_of(node, dialect) for node in member.expressions] if isinstance(member, exp.Tuple) else []
        unclear = any(value is NOT_A_LITERAL or (value is None and dialect != "spark") for value in values)
        if len(values) != len(columns) or unclear:
            return None
        cases.append(_equal(columns, values, Op.NULL_SAFE_EQ if dialect == "spark" else Op.EQ))
    any_member = any_of(*cases)
    if dialect != "hive":
        return any_member
    has_null = any_of(*(column.predicate(Op.IS_NULL) for column in columns))
    return any_of(all_of(any_member, ~has_null), all_of(has_null, Unknown("rows with a null are compared")))


def _equal(columns: Sequence[Operand], values: Sequence[Any], op: Op) -> HudiExpression:
    return all_of(*(column.predicate(op, value) for column, value in zip(columns, values, strict=True)))
