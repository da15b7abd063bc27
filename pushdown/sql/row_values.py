"""``(a, b) IN ((1, 2), (3, 4))``: rows of values compared as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from pushdown.expression import HudiExpression, Op, Unknown, all_of, any_of
from pushdown.sql.literal import NOT_A_LITERAL, literal_value
from pushdown.sql.operands import Operand, read_operand

_MANY = 1_000


def row_members(row: exp.Tuple, members: Sequence[Any], dialect: str) -> HudiExpression | None:
    """Whether a row of columns equals one of some rows of literals; None when that is not understood.

    In Trino a row with a null is equal to none or perhaps to one; in Spark structs are compared, whose nulls are equal
    to nulls. In Hive such rows are unknown, as are literal nulls outside Spark.
    """
    operands = [read_operand(node, dialect) for node in row.expressions]
    columns = [operand for operand in operands if operand is not None]
    if len(columns) < len(operands) or not columns or len(members) > _MANY:
        return None
    cases = []
    for member in members:
        values = [literal_value(node) for node in member.expressions] if isinstance(member, exp.Tuple) else []
        unclear = any(value is NOT_A_LITERAL or (value is None and dialect != "spark") for value in values)
        if len(values) != len(columns) or unclear:
            return None
        cases.append(_equal(columns, values, Op.NULL_SAFE_EQ if dialect == "spark" else Op.EQ))
    found = any_of(*cases)
    if dialect != "hive":
        return found
    has_null = any_of(*(column.asked(Op.IS_NULL) for column in columns))
    return any_of(all_of(found, ~has_null), all_of(has_null, Unknown("rows with a null are compared")))


def _equal(columns: Sequence[Operand], values: Sequence[Any], op: Op) -> HudiExpression:
    return all_of(*(column.asked(op, value) for column, value in zip(columns, values, strict=True)))
