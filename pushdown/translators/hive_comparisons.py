r"""Comparisons of one Hive column with literals.

A column that Hive declares ``varchar(n)`` or ``char(n)`` is compared after its stored text was cut to n characters, a
char without its trailing spaces too. What was stored begins with what is compared, so equality needs that beginning,
and "less" is the same before and after (nothing lies between a text and itself with spaces added but texts with
characters below the space).
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Sequence
from typing import Any

from pushdown.expression import HudiExpression, Op, Predicate, Unknown, all_of, any_of, negation
from pushdown.like import canonical_pattern, shape_of
from pushdown.translators.hive_literals import LiteralNotUnderstoodError, check_clock_time
from pushdown.translators.hive_types import HiveType

# More texts than these that only a beginning is known of are not worth a term each.
_MANY = 100
_NEGATED = frozenset({Op.NE, Op.GT, Op.GE, Op.NULL_SAFE_NE})


def compared(op: Op, column: str, kind: HiveType, literal: Any, time_zone: str) -> HudiExpression:
    """``column op literal``; None is NULL.

    Args:
        op: a comparison.
        column: the column's dotted name.
        kind: its type after casts.
        literal: a value as `hive_literal` reads it.
        time_zone: as for `hive_literal`.
    """
    if literal is None:
        return Predicate(op, column, (None,))
    reason = _incomparable(column, kind, literal, time_zone)
    if reason is not None:
        return Unknown(reason)
    if not kind.limited:
        return Predicate(op, column, (literal,))
    if op in _NEGATED:
        return negation(_limited(op.negated, column, kind, literal))
    return _limited(op, column, kind, literal)


def is_in(column: str, kind: HiveType, literals: Sequence[Any], time_zone: str) -> HudiExpression:
    """``column IN (…)``; None among the literals is NULL."""
    for literal in _one_of_each_type(literals, kind):
        reason = _incomparable(column, kind, literal, time_zone)
        if reason is not None:
            return Unknown(reason)
    if not kind.limited:
        return Predicate(Op.IN, column, tuple(literals))
    if kind.base == "varchar":
        exact = [text for text in literals if text is None or len(text) < kind.first]
        vague = [text for text in literals if text is not None and len(text) >= kind.first]
    else:
        exact = [text for text in literals if text is None]
        vague = [text for text in literals if text is not None]
    if len(vague) > _MANY:
        return Unknown(f"{column} is a {kind.base} in Hive and compared with {len(vague):,} texts")
    parts = [Predicate(Op.IN, column, tuple(exact))] if exact else []
    return any_of(*parts, *(_equal(column, kind, text) for text in dict.fromkeys(vague)))


def like(column: str, kind: HiveType, pattern: str | None) -> HudiExpression:
    r"""``column LIKE pattern``.

    Before ``%`` and ``_`` the backslash escapes; elsewhere releases of Hive differ on it.
    """
    if kind.family != "text":
        return Unknown(f"{column} is a {kind.base} in Hive: LIKE is for text")
    if pattern is None:
        return Predicate(Op.LIKE, column, (None,))
    plain = pattern.split("\\")
    if all(rest[:1] in {"%", "_"} for rest in plain[1:]):
        canonical = canonical_pattern(pattern, "\\")
        shape = shape_of(canonical)
        cut = kind.limited and not (shape.is_prefix and len(shape.prefix) <= kind.first and kind.base == "varchar")
        if not cut:
            return Predicate(Op.LIKE, column, (canonical,))
        beginning = shape.prefix
    else:
        beginning = shape_of(plain[0]).prefix
    return _begins(column, kind, beginning, "is matched by a pattern")


def _one_of_each_type(literals: Sequence[Any], kind: HiveType) -> list[Any]:
    """Literals to check; where the check looks at the value, all of them."""
    present = [literal for literal in literals if literal is not None]
    return present if kind.base == "timestamp" else list({type(literal): literal for literal in present}.values())


def _incomparable(column: str, kind: HiveType, literal: Any, time_zone: str) -> str | None:
    family = _family(literal)
    if kind.family is None or family != kind.family or (kind.rounded and not isinstance(literal, float)):
        return f"{column} is a {kind.base} in Hive and compared with a {type(literal).__name__}"
    if kind.base == "timestamp" and type(literal) is dt.date:
        try:
            check_clock_time(dt.datetime.combine(literal, dt.time.min), time_zone)
        except LiteralNotUnderstoodError as error:
            return str(error)
    return None


def _family(literal: Any) -> str | None:
    if isinstance(literal, bool):
        return "boolean"
    if isinstance(literal, int | float | decimal.Decimal):
        return "number"
    if isinstance(literal, dt.date):
        return "time"
    return "text" if isinstance(literal, str) else "binary" if isinstance(literal, bytes) else None


def _limited(op: Op, column: str, kind: HiveType, text: str) -> HudiExpression:
    if op is Op.EQ:
        return _equal(column, kind, text)
    if op is Op.NULL_SAFE_EQ:
        equal = _equal(column, kind, text)
        if isinstance(equal, Predicate):
            return equal.replaced(Op.NULL_SAFE_EQ)
        return all_of(Predicate(Op.NOT_NULL, column), equal)
    less = _less(column, kind, text)
    return less if op is Op.LT else any_of(less, _equal(column, kind, text))


def _equal(column: str, kind: HiveType, text: str) -> HudiExpression:
    if kind.base == "varchar" and len(text) < kind.first:
        return Predicate(Op.EQ, column, (text,))
    return _begins(column, kind, text, f"is compared with {text!r}")


def _less(column: str, kind: HiveType, text: str) -> HudiExpression:
    bare = text.rstrip(" ") if kind.base == "char" else text
    lost = kind.stripped and bare != text
    below_space = kind.base == "char" and bool(bare) and min(bare) < " "
    if lost or below_space or len(bare) > kind.first:
        return Unknown(f"{column} is a {kind.base} in Hive and compared with {text!r}")
    return Predicate(Op.LT, column, (bare,))


def _begins(column: str, kind: HiveType, beginning: str, what: str) -> HudiExpression:
    """A condition that fails where the stored text does not begin so, and is unknown elsewhere."""
    unknown = Unknown(f"{column}, a {kind.base} in Hive, {what}")
    if kind.base == "char":
        beginning = beginning.rstrip(" ")
    return all_of(Predicate(Op.STARTS_WITH, column, (beginning,)), unknown) if beginning else unknown
