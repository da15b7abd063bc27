# ruff: noqa: DTZ001 - clock times without a zone are what is tested
"""Random tables, files, damaged statistics and filters, and a plain-Python reading of what filters mean."""

import datetime as dt
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from pushdown import And, ColumnStatistics, Constant, HudiExpression, Not, Op, Or, Predicate, Unknown

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
MAX_DEC = Decimal("99999999.99")

_FLOATS = [0.0, -0.0, 1.5, -1.5, INF, -INF, NAN, 2.0, 3.0, 16777216.0]
_INSTANTS = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2020, 2, 29, 12)]
_INSTANTS += [dt.datetime(2020, 2, 29), dt.datetime(1970, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]
_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "ä",
    "\ue000",
    "😀",
    "a%",
    "a_c",
    "a\\",
    "x" * 3000,
    "x" * 2999 + "y",
    "\uffff",
    "a\n",
]

# Column name: its type and the values it is drawn from.
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.bool_(), [True, False]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, 1, 2, 3, 5, 8]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, 1, 2, 2**53, 2**53 + 1, 2**53 + 2, 2**53 - 1]),
    "f": (pa.float32(), [*_FLOATS, float(np.float32(1.1))]),
    "d": (pa.float64(), [*_FLOATS, 1.1, 5e-324, 1.7976931348623157e308, 2.0**53]),
    "dec": (
        pa.decimal128(10, 2),
        [-MAX_DEC, MAX_DEC, Decimal("0.00"), Decimal("1.50"), Decimal("1.49"), Decimal("2.00")],
    ),
    "wide": (
        pa.decimal128(38, 0),
        [Decimal(-(10**38) + 1), Decimal(10**38 - 1), Decimal(0), Decimal(1), Decimal(2**64)],
    ),
    "s": (pa.string(), _TEXTS),
    "bin": (pa.binary(), [b"", b"\x00", b"a", b"a\x00", b"ab", b"\xff", b"\xff\xff", b"\x7f"]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [x.replace(tzinfo=UTC) for x in _INSTANTS]),
    "local": (pa.timestamp("us"), _INSTANTS),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])

_NUMBERS = [
    0,
    1,
    2,
    3,
    -1,
    2**31,
    2**53,
    2**53 + 1,
    2**63,
    Decimal("1.5"),
    Decimal("1.495"),
    Decimal("0.00"),
    Decimal(10) ** 40,
]
_DOUBLES = [1.5, 0.0, -0.0, 1.1, 2.0**53, 2.0**63, 1e300, -1e300, INF, -INF, 16777217.0]
_TIMES = [dt.date(2020, 2, 29), dt.date(1970, 1, 1), dt.datetime(2020, 2, 29, 12, tzinfo=UTC), dt.datetime(2020, 2, 29)]
_LITERALS: dict[str, list[Any]] = {
    "b": [True, False],
    **{name: [*COLUMNS[name][1], *_NUMBERS, *_DOUBLES] for name in ("i", "l", "dec", "wide")},
    **{name: [*COLUMNS[name][1], *_NUMBERS, *_DOUBLES] for name in ("f", "d")},
    "s": _TEXTS,
    "bin": COLUMNS["bin"][1],
    "day": [*COLUMNS["day"][1], *_TIMES],
    "at": [*COLUMNS["at"][1], *_TIMES],
    "local": [*COLUMNS["local"][1], *_TIMES],
}
_PATTERNS = ["a%", "%", "", "a_c", "_", "%b", "a\\%", "a\\\\", "x%y", "\ue000%", "😀%", "%\n", "a%c%"]
_COMPARE = [Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.NULL_SAFE_EQ, Op.NULL_SAFE_NE]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Up to three columns, so that the conditions of a filter meet on one."""
    rows = draw(st.integers(1, 12))
    arrays = {}
    for name in draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True)):
        type_, pool = COLUMNS[name]
        # Few distinct values, so that files often hold one value, or only nulls.
        some = draw(st.lists(st.sampled_from([None, *pool]), min_size=1, max_size=4))
        arrays[name] = pa.array(draw(st.lists(st.sampled_from(some), min_size=rows, max_size=rows)), type_)
    return pa.table(arrays)


@st.composite
def predicates(draw: st.DrawFn, table: pa.Table | None) -> HudiExpression:
    name = draw(st.sampled_from(list(COLUMNS) if table is None else table.column_names))
    literals = st.sampled_from([None, *_LITERALS[name]])
    if table is not None:
        present = [value for value in table.column(name).to_pylist() if value is not None]
        # Mostly values of the table itself: at the bounds is where mistakes show.
        literals = st.one_of(literals, *[st.sampled_from(present)] * 3) if present else literals
    shape = draw(st.integers(0, 9))
    if shape == 0:
        return Predicate(draw(st.sampled_from([Op.IS_NULL, Op.NOT_NULL])), name)
    if shape <= 3:
        values = draw(st.lists(literals, min_size=1, max_size=4))
        return Predicate(draw(st.sampled_from([Op.IN, Op.NOT_IN])), name, tuple(values))
    if name == "s" and shape <= 7:
        if draw(st.booleans()):
            return Predicate(draw(st.sampled_from([Op.LIKE, Op.NOT_LIKE])), name, (draw(st.sampled_from(_PATTERNS)),))
        prefix = draw(literals)
        op = draw(st.sampled_from([Op.STARTS_WITH, Op.NOT_STARTS_WITH]))
        return Predicate(op, name, (None if prefix is None else prefix[: draw(st.integers(0, 3))],))
    return Predicate(draw(st.sampled_from(_COMPARE)), name, (draw(literals),))


def filters(table: pa.Table | None = None, max_leaves: int = 6) -> st.SearchStrategy[HudiExpression]:
    leaves = predicates(table)
    constants = st.sampled_from([Constant(True), Constant(False), Constant(None)])

    def branch(inner: st.SearchStrategy[HudiExpression]) -> st.SearchStrategy[HudiExpression]:
        several = st.lists(inner | constants, min_size=0, max_size=3)
        return several.map(And) | several.map(Or) | inner.map(Not)

    return leaves | st.recursive(leaves, branch, max_leaves=max_leaves)


@st.composite
def questions(draw: st.DrawFn) -> tuple[pa.Table, HudiExpression]:
    """A table and a filter on its columns."""
    table = draw(tables())
    return table, draw(filters(table))


@dataclass(frozen=True)
class Files:
    table: pa.Table
    starts: list[int]
    ends: list[int]
    statistics: dict[str, ColumnStatistics]

    def __len__(self) -> int:
        return len(self.starts)


@st.composite
def files(draw: st.DrawFn) -> Files:
    """A table cut into files, with statistics that are sound as far as our rules believe them."""
    table = draw(tables())
    cuts = sorted(draw(st.sets(st.integers(1, max(1, table.num_rows - 1)), max_size=5)) - {table.num_rows})
    starts, ends = [0, *cuts], [*cuts, table.num_rows]
    statistics = {}
    for name in table.column_names:
        type_ = COLUMNS[name][0]
        if draw(st.integers(0, 19)) == 0:
            continue  # a column without any statistics
        cover_nan = draw(st.booleans())
        column = table.column(name).to_pylist()
        each = [draw(_one(column[a:b], type_, cover_nan)) for a, b in zip(starts, ends, strict=True)]
        low, high, nulls, rows = zip(*each, strict=True)
        statistics[name] = ColumnStatistics(
            pa.array(low, type_),
            pa.array(high, type_),
            pa.array(nulls, pa.int64()),
            pa.array(rows, pa.int64()),
            cover_nan,
        )
    return Files(table, starts, ends, statistics)


@st.composite
def _one(draw: st.DrawFn, values: list[Any], type_: pa.DataType, cover_nan: bool) -> tuple[Any, Any, Any, Any]:
    present = [x for x in values if x is not None]
    floats = pa.types.is_floating(type_)
    has_nan = floats and any(math.isnan(x) for x in present)
    ordered = sorted((x for x in present if not (floats and math.isnan(x))), key=_sort_key)
    low, high = (ordered[0], ordered[-1]) if ordered else (None, None)
    if has_nan and cover_nan:
        low, high = draw(st.sampled_from([(-INF, INF), (0.0, 0.0), (None, None), (NAN, NAN), (low, NAN)]))
    nulls, rows = len(values) - len(present), len(values)
    damage = draw(st.integers(0, 19))
    if damage == 0:
        low = None
    elif damage == 1:
        high = None
    elif damage == 2:
        low = high = None
        nulls = draw(st.sampled_from([None, -1]))
    elif damage == 3:
        nulls = draw(st.sampled_from([None, -1, rows + 1]))
    elif damage == 4:
        rows = draw(st.sampled_from([None, 0, -1]))
    elif damage == 5 and isinstance(low, str) and isinstance(high, str):
        low, high = low[:1], high[:1] + "\U0010ffff"
    elif damage == 6 and isinstance(low, bytes) and isinstance(high, bytes):
        low, high = low[:1], high + b"\xff"
    elif damage == 7 and isinstance(low, int) and isinstance(high, int) and not isinstance(low, bool):
        low, high = max(low - 1, -(2**31)) if low > -(2**31) else low, high + 1 if high < 2**31 - 1 else high
    elif damage == 8 and (pa.types.is_string(type_) or pa.types.is_binary(type_)):
        low, high, nulls = None, None, rows  # what Apache Hudi records when Parquet left a long value out
    elif damage == 9 and low is not None and _sort_key(low) < _sort_key(high):
        low, high = high, low
    return low, high, nulls, rows


def _sort_key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@st.composite
def file_questions(draw: st.DrawFn) -> tuple[Files, HudiExpression]:
    """Files and a filter on their columns."""
    split = draw(files())
    return split, draw(filters(split.table))


# What filters mean, row by row, in plain Python, in three engines' order of floating-point numbers.
ENGINES = ("spark", "trino", "hive")


def row_truth(expression: HudiExpression, row: dict[str, Any], engine: str) -> bool | None:
    if isinstance(expression, Not):
        inner = row_truth(expression.child, row, engine)
        return None if inner is None else not inner
    if isinstance(expression, And | Or):
        decisive = isinstance(expression, Or)
        results = [row_truth(child, row, engine) for child in expression.children]
        if decisive in results:
            return decisive
        return None if None in results else not decisive
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Unknown):
        raise TypeError("an unknown part has no meaning")
    return _predicate_truth(expression, row, engine)


_POSITIVE = {Op.NE: Op.EQ, Op.NOT_IN: Op.IN, Op.NOT_LIKE: Op.LIKE, Op.NOT_STARTS_WITH: Op.STARTS_WITH}
_POSITIVE |= {Op.NULL_SAFE_NE: Op.NULL_SAFE_EQ, Op.NOT_NULL: Op.IS_NULL}


def _predicate_truth(predicate: Any, row: dict[str, Any], engine: str) -> bool | None:
    op, value, literals = predicate.op, row[predicate.column], list(predicate.values)
    if op in _POSITIVE:
        positive = _predicate_truth(Predicate(_POSITIVE[op], predicate.column, predicate.values), row, engine)
        return None if positive is None else not positive
    if op is Op.IS_NULL:
        return value is None
    type_ = COLUMNS[predicate.column][0]
    if op is Op.NULL_SAFE_EQ:
        if value is None or literals[0] is None:
            return value is literals[0]
        return _order(value, literals[0], type_, engine) == 0
    if op is Op.IN:
        if value is None:
            return None
        whole = pa.types.is_integer(type_) or pa.types.is_decimal(type_)
        if whole and any(isinstance(x, float) for x in literals):
            literals = [None if x is None else float(x) for x in literals]
        if any(x is not None and _order(value, x, type_, engine) == 0 for x in literals):
            return True
        return None if None in literals else False
    if value is None or literals[0] is None:
        return None
    if op is Op.STARTS_WITH:
        return value.startswith(literals[0])
    if op is Op.LIKE:
        return _like(value, literals[0])
    order = _order(value, literals[0], type_, engine)
    wanted = {Op.EQ: {0}, Op.LT: {-1}, Op.LE: {-1, 0}, Op.GT: {1}, Op.GE: {0, 1}}[op]
    return order in wanted


def _order(value: Any, literal: Any, type_: pa.DataType, engine: str) -> int | None:
    """-1, 0, 1, or None when the engine finds them unordered."""
    if pa.types.is_floating(type_):
        other = float(literal)
        if engine == "trino" and pa.types.is_float32(type_):
            with np.errstate(over="ignore"):
                other = float(np.float32(other))
        return _float_order(value, other, engine)
    if isinstance(literal, float):
        return _float_order(float(value), literal, "spark" if math.isnan(literal) else engine if value else "spark")
    if isinstance(value, bool | bytes):
        return (value > literal) - (value < literal)
    if isinstance(value, int | Decimal):
        left, right = Fraction(value), Fraction(literal)
        return (left > right) - (left < right)
    if isinstance(value, str):
        return (value.encode() > literal.encode()) - (value.encode() < literal.encode())
    left, right = _micros(value), _micros(literal)
    return (left > right) - (left < right)


def _micros(moment: Any) -> int:
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time.min)
    return (moment.replace(tzinfo=UTC) - EPOCH) // dt.timedelta(microseconds=1)


def _float_order(left: float, right: float, engine: str) -> int | None:
    if math.isnan(left) or math.isnan(right):
        if engine == "trino":
            return None
        return math.isnan(left) - math.isnan(right)
    if left == right == 0 and engine == "hive":
        return int(math.copysign(1, left) > math.copysign(1, right)) - int(
            math.copysign(1, left) < math.copysign(1, right)
        )
    return (left > right) - (left < right)


def _like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    head, rest = pattern[0], pattern[1:]
    if head == "%":
        return any(_like(text[i:], rest) for i in range(len(text) + 1)) if rest else True
    if head == "_":
        return bool(text) and _like(text[1:], rest)
    if head == "\\":
        head, rest = rest[0], rest[1:]
    return text[:1] == head and _like(text[1:], rest)
