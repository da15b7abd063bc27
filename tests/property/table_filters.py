"""Random filters on the columns of a table, with literals near its values and far from them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pushdown import And, Constant, HudiExpression, Not, Op, Or, Predicate
from tests.support.table_values import INF, NAN, python_values

_COMPARE = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE]
_NUMBERS: list[Any] = [0, 1, -1, 2, 5, 2**31, -(2**31) - 1, 2**53 + 1, 2**63, -(2**63), 10**20, -(10**40)]
_NUMBERS += [
    Decimal("1.5"),
    Decimal("1.495"),
    Decimal("0.00"),
    Decimal("-0.5"),
    Decimal("99999999.995"),
    Decimal("1E-20"),
]
_NUMBERS += [1.5, 0.0, -0.0, 1.1, 1e300, -1e300, INF, -INF, NAN, 2.0**63, 16777217.0, 9007199254740993.0]
_TEXTS = [
    "",
    "a",
    "a%",
    "ab",
    "x",
    "x" * 1199,
    "x" * 3000,
    "x" * 3001,
    "ä",
    "\ue000",
    "\uffff",
    "😀",
    "\U0010ffff",
    "zz",
]
_PATTERNS = [
    "%",
    "",
    "a%",
    "x%",
    "_",
    "%b",
    "a\\%",
    "a\\\\",
    "ä%",
    "\ue000%",
    "😀%",
    "\U0010ffff%",
    "%\n%",
    "a%c%",
    "x%y",
]
_BYTES = [b"", b"\x00", b"a", b"\x7f", b"\x80", b"\xff", b"\xff" * 2501, b"a" * 2999]
_TIMES: list[Any] = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 2, 29)]
_TIMES += [dt.datetime(2020, 2, 29, 12, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]
_TIMES += [dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC), "2020-02-29", "1970-01-01"]


class Filters:
    """Filters for one table.

    Args:
        table: its rows.
        mixed: also compare numbers with texts and the like, which planning answers by keeping files.
    """

    def __init__(self, table: pa.Table, *, mixed: bool = True) -> None:
        self._columns = [
            (name, kind, python_values(values), _others(kind, mixed=mixed)) for name, kind, values in _leaves(table)
        ]

    def __repr__(self) -> str:  # else Hypothesis prints all the values
        return f"Filters({len(self._columns)} columns)"

    def trees(self, most_leaves: int = 6) -> st.SearchStrategy[HudiExpression]:
        """Filters of any shape."""
        leaves = _predicate(self)
        constants = st.sampled_from([Constant(True), Constant(False), Constant(None)])

        def branch(inner: st.SearchStrategy[HudiExpression]) -> st.SearchStrategy[HudiExpression]:
            several = st.lists(inner, min_size=1, max_size=3) | st.lists(inner | constants, max_size=3)
            return several.map(And) | several.map(Or) | inner.map(Not)

        return leaves | leaves | st.recursive(leaves, branch, max_leaves=most_leaves)

    def predicate(self, draw: st.DrawFn) -> HudiExpression:
        """A filter of one predicate."""
        name, kind, present, others = self._columns[draw(st.integers(0, len(self._columns) - 1))]
        shape = draw(st.integers(0, 9))
        if others is None or shape == 0:
            return Predicate(draw(st.sampled_from([Op.IS_NULL, Op.NOT_NULL])), name)
        if shape <= 3:
            values = [
                None if draw(st.integers(0, 9)) == 9 else _literal(draw, present, others)
                for _ in range(draw(st.integers(1, 4)))
            ]
            return Predicate(draw(st.sampled_from([Op.IN, Op.NOT_IN])), name, tuple(values))
        if pa.types.is_string(kind) and shape <= 6:
            if draw(st.booleans()):
                pattern = draw(st.sampled_from(_PATTERNS))
                return Predicate(draw(st.sampled_from([Op.LIKE, Op.NOT_LIKE])), name, (pattern,))
            prefix = str(_literal(draw, present, others))[: draw(st.sampled_from([0, 1, 2, 1199, 2000, 2999]))]
            return Predicate(draw(st.sampled_from([Op.STARTS_WITH, Op.NOT_STARTS_WITH])), name, (prefix,))
        value = None if draw(st.integers(0, 19)) == 19 else _literal(draw, present, others)
        return Predicate(draw(st.sampled_from(_COMPARE)), name, (value,))


@st.composite
def _predicate(draw: st.DrawFn, filters: Filters) -> HudiExpression:
    return filters.predicate(draw)


def _literal(draw: st.DrawFn, present: list[Any], others: list[Any]) -> Any:
    # Mostly values of the table itself: at the bounds is where mistakes show.
    pool = present if present and draw(st.integers(0, 3)) < 3 else others
    return pool[draw(st.integers(0, len(pool) - 1))]


def _leaves(table: pa.Table) -> list[tuple[str, pa.DataType, Any]]:
    """Columns, and for structs their fields."""
    leaves = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        leaves.append((name, column.type, column if not pa.types.is_nested(column.type) else pa.nulls(0)))
        if pa.types.is_struct(column.type):
            whole: Any = column.combine_chunks()
            fields = pa.table(
                [whole.field(number) for number in range(column.type.num_fields)], schema=pa.schema(list(column.type))
            )
            leaves += [(f"{name}.{path}", kind, values) for path, kind, values in _leaves(fields)]
    return leaves


def _others(kind: pa.DataType, *, mixed: bool) -> list[Any] | None:
    """Literals that a column of the type is compared with; None for a type that is not compared."""
    types = pa.types
    if types.is_boolean(kind):
        return [True, False, *(["true"] if mixed else [])]
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return [*_NUMBERS, *(["5", "x"] if mixed else [])]
    if types.is_string(kind):
        return [*_TEXTS, *([5, 1.5] if mixed else [])]
    if types.is_binary(kind):
        return [*_BYTES, *(["a"] if mixed else [])]
    return _TIMES if types.is_date(kind) or types.is_timestamp(kind) else None
