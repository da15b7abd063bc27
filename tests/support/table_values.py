"""Columns of all of Spark's types, and values that readers and writers have got wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC_MICROS = pa.timestamp("us", "UTC")
NAN, INF = float("nan"), float("inf")
_FLOATS = [0.0, -0.0, NAN, NAN, INF, -INF, 1.5, -1.5, 2.0, 16777216.0, 1e-45]
_DAY = 86_400_000_000
_TEXTS = ["", "a", "ab", "abc", "b", "B", "ä", "é", "\ue000", "\uffff", "😀", "\U0010ffff", "a%", "a_c", "a\\", "a\nb"]
_TEXTS += ["\x00", "'", "x" * 1200, "x" * 3000, "x" * 2999 + "y", "x" * 5000, "ä" * 2500, "\U0010ffff" * 1500]
_BYTES = [b"", b"\x00", b"a", b"a\x00", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"a" * 3000, b"\xff" * 2500]


@dataclass(frozen=True)
class Family:
    """Types among which a column may change from batch to batch, as the table allows, and values of each.

    Attributes:
        pools: by type, the values that a batch draws from.
        fixed: whether the table's type is the first one for good, so that the column must begin with it.
    """

    name: str
    pools: dict[pa.DataType, list[Any]]
    fixed: bool = False

    def column(self, chosen: int, rows: int, seed: int) -> pa.Array[Any]:
        """A batch's column: few distinct values, so that files often hold one value, or only nulls."""
        chance = random.Random(seed)
        kind = list(self.pools)[chosen % len(self.pools)]
        pool = _window(self.pools[kind], 6, chance)
        some = [chance.choice([None, *pool]) for _ in range(chance.randint(1, 6))]
        return _array([chance.choice(some) for _ in range(rows)], kind)


def _window(pool: list[Any], width: int, chance: random.Random) -> list[Any]:
    """Neighbours in a list of values, whose bounds and order are easily confused."""
    start = chance.randint(0, max(0, len(pool) - width))
    return pool[start : start + width]


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array[Any]:
    # Python has no dates beyond the year 9999, so that these are given by number.
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = Decimal(f"{'9' * precision}E-{scale}")
    unit = Decimal(f"1E-{scale}")
    return [most, most.copy_negate(), Decimal(0), unit, unit.copy_negate(), Decimal(1).quantize(unit)]


_Pools = dict[pa.DataType, list[Any]]
_INTS: _Pools = {
    pa.int8(): [-128, 127, 0, 1, 2, 5],
    pa.int16(): [-(2**15), 2**15 - 1, 0, 1, 2, 5],
    pa.int32(): [-(2**31), 2**31 - 1, 0, 1, 2, 5, 16777217],
    pa.int64(): [-(2**63), 2**63 - 1, 0, 1, 2, 2**53 + 1, 2**31],
}
_SINGLES: _Pools = {pa.float32(): [*_FLOATS, 1.100000023841858, 3.4028234663852886e38]}
_DOUBLES: _Pools = {pa.float64(): [*_FLOATS, 1.1, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**53 + 2]}
_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
_GROWN = pa.struct([("a", pa.int32()), ("b", pa.string()), ("c", pa.float64())])
_DATES = [-719162, 2932896, 0, -1, 18321, 18322, -719163, 2932897, 2**31 - 1, -(2**31)]
_TIMES = [-719162 * _DAY, 2932897 * _DAY - 1, 0, -1, 18321 * _DAY, 18321 * _DAY + 43_200_000_000, 2**63 - 1, -(2**63)]

FAMILIES = (
    Family("bool", {pa.bool_(): [True, False]}),
    Family("int", {kind: _INTS[kind] for kind in (pa.int8(), pa.int16(), pa.int32())}),
    Family("long", {pa.int64(): _INTS[pa.int64()]}),
    Family("float", _SINGLES),
    Family("double", _DOUBLES),
    Family("promoted", {pa.int32(): _INTS[pa.int32()], pa.int64(): _INTS[pa.int64()], **_SINGLES, **_DOUBLES}),
    Family("dec10_2", {pa.decimal128(10, 2): _decimals(10, 2), pa.decimal128(6, 1): _decimals(6, 1)}, fixed=True),
    Family("dec18", {pa.decimal128(18, 0): _decimals(18, 0)}),
    Family("dec30_15", {pa.decimal128(30, 15): _decimals(30, 15)}),
    Family("dec38_18", {pa.decimal128(38, 18): _decimals(38, 18)}),
    Family("dec38", {pa.decimal128(38, 0): [*_decimals(38, 0), Decimal(2**64), Decimal(10**15)]}),
    Family("string", {pa.string(): _TEXTS}),
    Family("binary", {pa.binary(): _BYTES}),
    Family("text_or_bytes", {pa.binary(): [b"", b"a", "ä".encode(), b"zz"], pa.string(): _TEXTS[:12]}),
    Family("date", {pa.date32(): _DATES}),
    Family("timestamp", {UTC_MICROS: _TIMES}),
    Family(
        "struct",
        {
            _STRUCT: [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"a": 7, "b": None}],
            _GROWN: [{"a": 1, "b": "x", "c": NAN}, {"a": 2, "b": None, "c": 0.0}],
        },
    ),
    Family("list", {pa.list_(pa.string()): [[], ["a", None], ["x" * 50]]}),
    Family("map", {pa.map_(pa.string(), pa.int64()): [[], [("k", 1), ("l", None)]]}),
)
BY_NAME = {family.name: family for family in FAMILIES}

PARTITION_VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (
        pa.string(),
        [
            "a",
            "b",
            "日本",
            "😀",
            "a b",
            "x=y",
            "50%",
            "%41",
            "a/b",
            "",
            None,
            "__HIVE_DEFAULT_PARTITION__",
            "2020-01-01",
            "a:b",
        ],
    ),
    "int": (pa.int32(), [0, 1, -1, 2**31 - 1, None]),
    "long": (pa.int64(), [0, 7, -(2**63), None]),
    "date": (pa.date32(), [0, 18321, 18322, -719162, 2932896, None]),
    "bool": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), None]),
    "double": (pa.float64(), [0.0, -0.0, 1.5, 1e300, NAN, None]),
    "timestamp": (UTC_MICROS, [0, 18321 * _DAY, 18321 * _DAY + 1, None]),
}


def partition_column(kind: str, rows: int, chance: random.Random) -> pa.Array[Any]:
    """A batch's partition column: at most three of the values."""
    type_, pool = PARTITION_VALUES[kind]
    some = _window(pool, 3, chance)
    return _array([chance.choice(some) for _ in range(rows)], type_)


def python_values(column: Any) -> list[Any]:
    """The distinct values of a column that Python has, without nulls."""
    values = []
    for value in column.unique():
        try:
            values.append(value.as_py())
        except (ValueError, OverflowError):
            continue
    return [value for value in values if value is not None]
