"""One condition of a WHERE clause, as sqlglot parsed it, to predicates; what is not understood is Unknown."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from pushdown.expression import Constant, HudiExpression, Not, Op, Predicate, Unknown, all_of, any_of
from pushdown.like import canonical_pattern
from pushdown.sql.literal import NOT_A_LITERAL, literal_value

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
_FLIPPED = {Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_SHOWN = 120


def translate_condition(tree: exp.Condition, source: str, dialect: str) -> HudiExpression:
    """Translate one parsed condition.

    Args:
        tree: the syntax tree.
        source: its text, for the reasons of what is unknown.
        dialect: tells LIKE's default escape character.
    """
    return _Translator(source, dialect).translate(tree)


def in_list(tree: exp.Condition, values: tuple[Any, ...], source: str) -> HudiExpression:
    """Translate ``x [NOT] IN (…)`` for literals that were read apart from the tree."""
    negative = isinstance(tree, exp.Not)
    test: Any = tree.this if negative else tree
    negative ^= bool(test.args.get("negate"))
    column = _column(test.this) if isinstance(test, exp.In) else None
    if column is None:
        return Unknown(_shown(source))
    return Predicate(Op.NOT_IN if negative else Op.IN, column, values)


def _shown(source: str) -> str:
    text = " ".join(source.split())
    return (text if len(text) <= _SHOWN else text[:_SHOWN] + "…") + " is not understood"


class _Translator:
    """Translates the nodes of one condition; the parser bounds their depth."""

    def __init__(self, source: str, dialect: str) -> None:
        self.source = source
        self.escape = "\\" if dialect in {"spark", "hive"} else None

    def translate(self, node: Any) -> HudiExpression:
        """Translate a node; some releases of sqlglot mark a negation on the node, others wrap it in Not."""
        plain = self._plain(node)
        return _not(plain) if node.args.get("negate") and not isinstance(node, exp.Like | exp.Escape) else plain

    def _plain(self, node: Any) -> HudiExpression:  # noqa: PLR0911
        if isinstance(node, exp.Paren):
            return self.translate(node.this)
        if isinstance(node, exp.And):
            return all_of(self.translate(node.left), self.translate(node.right))
        if isinstance(node, exp.Or):
            return any_of(self.translate(node.left), self.translate(node.right))
        if isinstance(node, exp.Not):
            return _not(self.translate(node.this))
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
        return self._bare(node)

    def _unknown(self) -> Unknown:
        return Unknown(_shown(self.source))

    def _bare(self, node: Any) -> HudiExpression:
        column = _column(node)
        if column is not None:
            return Predicate(Op.EQ, column, (True,))
        if isinstance(node, exp.StartsWith):
            column, prefix = _column(node.this), literal_value(node.expression)
            if column is not None and (prefix is None or isinstance(prefix, str)):
                return Predicate(Op.STARTS_WITH, column, (prefix,))
        if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
            return self._called(str(node.this).lower(), node.expressions[0])
        value = literal_value(node)
        if value is None or isinstance(value, bool):
            return Constant(value)
        return self._unknown()

    def _called(self, function: str, argument: Any) -> HudiExpression:
        column = _column(argument)
        if column is not None and function in {"isnull", "isnotnull"}:
            return Predicate(Op.IS_NULL if function == "isnull" else Op.NOT_NULL, column)
        reason = literal_value(argument)
        if function == "unknown" and isinstance(reason, str):
            # As `HudiExpression.to_sql` writes it.
            return Unknown(reason)
        return self._unknown()

    def _compare(self, op: Op, left: Any, right: Any) -> HudiExpression:
        column, value = _column(left), literal_value(right)
        if column is None or value is NOT_A_LITERAL:
            column, value = _column(right), literal_value(left)
            op = _FLIPPED.get(op, op)
        if column is not None and value is not NOT_A_LITERAL:
            return Predicate(op, column, (value,))
        return self._of_literals(op, literal_value(left), literal_value(right))

    def _of_literals(self, op: Op, left: Any, right: Any) -> HudiExpression:
        """``1 = 1`` and ``1 = 0``, with which tools write "all" and "nothing"."""
        if type(left) is int and type(right) is int and op in {Op.EQ, Op.NE}:
            return Constant((left == right) == (op is Op.EQ))
        return self._unknown()

    def _between(self, node: Any) -> HudiExpression:
        if node.args.get("symmetric"):
            return self._unknown()
        low = self._compare(Op.GE, node.this, node.args["low"])
        return all_of(low, self._compare(Op.LE, node.this, node.args["high"]))

    def _in(self, node: Any) -> HudiExpression:
        column = _column(node.this)
        if column is None or not node.expressions or any(node.args.get(k) for k in ("query", "unnest", "field")):
            return self._unknown()
        values = [literal_value(member) for member in node.expressions]
        if any(value is NOT_A_LITERAL for value in values):
            return self._unknown()
        return Predicate(Op.IN, column, tuple(values))

    def _is(self, node: Any) -> HudiExpression:
        column = _column(node.this)
        if column is None:
            return self._unknown()
        if isinstance(node.expression, exp.Null):
            return Predicate(Op.IS_NULL, column)
        if isinstance(node.expression, exp.Boolean):
            return Predicate(Op.NULL_SAFE_EQ, column, (bool(node.expression.this),))
        return self._unknown()

    def _like(self, node: Any) -> HudiExpression:
        escape = self.escape
        negative = bool(node.args.get("negate"))
        if isinstance(node, exp.Escape):
            character = literal_value(node.expression)
            if not isinstance(character, str):
                return self._unknown()
            escape, node = character, node.this
            negative ^= bool(node.args.get("negate"))
        column = _column(node.this)
        pattern = literal_value(node.expression) if type(node) is exp.Like else NOT_A_LITERAL
        if column is None or not (pattern is None or isinstance(pattern, str)):
            return self._unknown()
        try:
            canonical = None if pattern is None else canonical_pattern(pattern, escape)
        except ValueError:
            return self._unknown()
        return Predicate(Op.NOT_LIKE if negative else Op.LIKE, column, (canonical,))


def _not(expression: HudiExpression) -> HudiExpression:
    return expression.replaced(expression.op.negated) if isinstance(expression, Predicate) else Not(expression)


def _column(node: Any) -> str | None:
    """The dotted name of a column, or None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    tail: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return None
        tail.append(node.expression.name)
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    return ".".join([part.name for part in node.parts] + tail[::-1])
