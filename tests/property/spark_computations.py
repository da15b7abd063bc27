"""Random conditions on computed operands, each by its number, over rows with a column of every type."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.property.spark_rows import NAN, ROW

ROWS = 160
_DAY = 86_400_000_000
_WORDS = [
    "",
    " ",
    "a",
    "A",
    "ab",
    "Ab",
    " ab ",
    "abc",
    "ABC",
    "b%",
    "x_y",
    "a\\b",
    "Straße",
    "STRASSE",
    "ΑΣ",
    "ας",
    "İz",
    "\u0131zmir",
]
_WORDS += ["ŉx", "ǆ", "ǅ", "ﬁn", "😀", "e\u0301", "\u212a", "tab\t", "\u3000w", "12", "-7", "0.5", "1e3", "2020-02-29"]
_DAYS = [-719162, -171499, -141428, -141427, -1, 0, 1, 58, 59, 60, 10956, 18320, 18321, 18322, 18627, 2932896]
_TIMES = [day * _DAY for day in (-719162, -141427, -1, 0, 18321, 18322)]
_TIMES += [18321 * _DAY - 1, 18321 * _DAY + 43_200_000_000, 1, 1583631000000000, 1583650800000000, 1604206800000000]
_TIMES += [1604212200000000, 1604212200000001, 2932896 * _DAY + _DAY - 1, -2_717_640_000_000_000]
_POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [False, True]),
    "flag2": (pa.bool_(), [False, True]),
    "i8": (pa.int8(), [-7, -1, 0, 1, 2, 3, 5, 7]),
    "i16": (pa.int16(), [-30, -7, -1, 0, 1, 2, 5, 28]),
    "i": (pa.int32(), [-1000, -7, -3, -1, 0, 1, 2, 3, 5, 7, 100, 365]),
    "k": (pa.int32(), [-9, -2, -1, 1, 2, 3, 4, 10]),
    "l": (pa.int64(), [-(10**9), -12, -1, 0, 1, 2, 3, 10, 10**9]),
    "j": (pa.int32(), [-(2**31), -(2**31) + 1, -1, 0, 1, 2, 2**31 - 1]),
    "m": (pa.int64(), [-(2**63), -(2**63) + 1, -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "b8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "f32": (pa.float32(), [-1.5, -0.0, 0.0, 0.5, 1.0, 1.100000023841858, 2.0, 16777216.0, 3.4e38, NAN, float("inf")]),
    "f": (pa.float64(), [-float("inf"), -2.5, -0.0, 0.0, 0.1, 0.5, 1.0, 1.1, 1.100000023841858, 3.0, 1e300, NAN]),
    "g": (pa.float64(), [-1.0, 0.5, 1.0, 2.0, 7.5, 9.3e18, NAN, float("inf")]),
    "d5_0": (pa.decimal128(5, 0), [Decimal(v) for v in (-99999, -7, -1, 0, 1, 2, 5, 12345)]),
    "d9_2": (
        pa.decimal128(9, 2),
        [Decimal(v) for v in ("-9999999.99", "-2.50", "-0.05", "0.00", "0.01", "1.50", "2.25", "3.00")],
    ),
    "e9_2": (pa.decimal128(9, 2), [Decimal(v) for v in ("-3.00", "-0.50", "0.01", "1.50", "2.00", "3.33", "7.00")]),
    "d18_6": (
        pa.decimal128(18, 6),
        [Decimal(v) for v in ("-1.500000", "0.000000", "0.000001", "1.500000", "2.250000", "123456789012.123456")],
    ),
    "d38_4": (pa.decimal128(38, 4), [Decimal(v) for v in ("-1.5000", "0.0000", "2.2500", "9" * 34 + ".9999")]),
    "s": (pa.string(), _WORDS),
    "t": (pa.string(), _WORDS),
    "n": (pa.string(), ["0", "1", "-7", " 5 ", "12"]),
    "day": (pa.date32(), _DAYS),
    "day2": (pa.date32(), _DAYS),
    "at": (pa.timestamp("us", "UTC"), _TIMES),
    "at2": (pa.timestamp("us", "UTC"), _TIMES),
    "clock": (pa.timestamp("us"), _TIMES),
    "clock2": (pa.timestamp("us"), _TIMES),
}
_SMALL = ["i8", "i16", "i", "k", "l", "i", "k"]
_WIDE = ["j", "m", "b8"]
_COMPARE = ["=", "=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM"]
_PARTS = ["year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekday", "weekofyear"]


def rows() -> pa.Table:
    """The rows."""
    chance = random.Random(71)
    columns: dict[str, Any] = {ROW: pa.array(range(ROWS), pa.int32())}
    for name, (kind, pool) in _POOLS.items():
        values = [None if chance.random() < 0.12 else chance.choice(pool) for _ in range(ROWS)]
        number = pa.int32() if pa.types.is_date(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind
        columns[name] = pa.array(values, number).cast(kind)
    return pa.table(columns)


def make_condition(number: int) -> str:
    """The condition of that number."""
    return _Maker(random.Random(number)).condition(2)


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def one(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    def condition(self, depth: int) -> str:
        shape = self.chance.random()
        if depth and shape < 0.12:
            return f"({self.condition(depth - 1)}) {self.one('AND', 'OR')} ({self.condition(depth - 1)})"
        if depth and shape < 0.17:
            return f"NOT ({self.condition(depth - 1)})"
        if shape < 0.22:
            return self.boolean(depth)
        if shape < 0.28:
            return f"{self.any(depth)} IS {self.one('', 'NOT ')}NULL"
        if shape < 0.36:
            return self.text_test(depth)
        make = self.one(
            self.number, self.number, self.number, self.number, self.text, self.text, self.day, self.time, self.time
        )
        if make == self.time:
            kind = self.one("at", "clock")
            return self.tested([self.time(depth, kind) for _ in range(3)])
        return self.tested([make(depth), make(self.one(0, depth)), make(0)])

    def tested(self, operands: list[str]) -> str:
        a, b, c = operands
        shape = self.chance.random()
        if shape < 0.7:
            return f"{a} {self.one(*_COMPARE)} {b}"
        if shape < 0.85:
            return f"{a} {self.one('', 'NOT ')}BETWEEN {b} AND {c}"
        return f"{a} {self.one('', 'NOT ')}IN ({b}, {c}{self.one('', ', NULL', '', '')})"

    def any(self, depth: int) -> str:
        return str(self.one(self.number, self.text, self.day, self.time)(depth))

    def number(self, depth: int) -> str:
        shape = self.chance.random()
        if not depth or shape < 0.2:
            return self.plain_number()
        a = self.number(depth - 1)
        if shape < 0.45:
            return f"({a} {self.one('+', '-', '*')} {self.number(depth - 1)})"
        if shape < 0.56:
            divisor = self.one(
                "k", "e9_2", "3", "2.5BD", "nullif(i, 0)", "-4", "7L", "4e0", "nullif(f, 0e0)", self.number(0)
            )
            return f"({a} {self.one('%', '/', 'div', '%')} {divisor})"
        if shape < 0.64:
            return f"{self.one('abs', '-', 'floor', 'ceil', 'round')}({a})"
        if shape < 0.68:
            return f"round({a}, {self.one(0, 1, 2)})"
        if shape < 0.72:
            return f"{self.one('pmod', 'mod')}({a}, {self.one('k', '3', '-4', 'i16')})"
        if shape < 0.8:
            return self.choice(a, self.number(depth - 1), depth)
        if shape < 0.86:
            return f"{self.one('length', 'char_length')}({self.text(depth - 1)})"
        if shape < 0.94:
            return f"{self.one(*_PARTS)}({self.one(self.day, self.time)(depth - 1)})"
        if shape < 0.97:
            return f"{self.one('hour', 'minute', 'second')}({self.time(depth - 1)})"
        kind = self.one("BIGINT", "DOUBLE", "DECIMAL(12, 3)", "INT")
        return f"CAST({self.one('n', 'flag', 'i', 'd9_2', 'g', 'l')} AS {kind})"

    def plain_number(self) -> str:
        shape = self.chance.random()
        if shape < 0.5:
            return str(self.one(*_SMALL))
        if shape < 0.62:
            return str(self.one("f", "g", "f32", "f"))
        if shape < 0.75:
            return str(self.one("d5_0", "d9_2", "e9_2", "d18_6", "d38_4", "d9_2"))
        if shape < 0.79:
            return str(self.one(*_WIDE))
        return str(
            self.one(
                "0",
                "1",
                "-3",
                "5",
                "2L",
                "1.5",
                "-0.25BD",
                "2e0",
                "0.1",
                "100",
                "7S",
                "12.340",
                "CAST('1.1' AS FLOAT)",
                "CAST(2 AS BIGINT)",
            )
        )

    def choice(self, a: str, b: str, depth: int) -> str:
        shape = self.one(0, 1, 2, 3, 4, 5, 6, 7)
        if shape == 0:
            return f"{self.one('coalesce', 'nvl', 'ifnull')}({a}, {b})"
        if shape == 1:
            return f"nullif({a}, {b})"
        if shape == 2:
            return f"if({self.condition(0)}, {a}, {b})"
        if shape == 3:
            return f"CASE WHEN {self.condition(0)} THEN {a} WHEN {self.condition(0)} THEN {b} END"
        if shape == 4:
            return f"CASE WHEN {self.condition(max(0, depth - 2))} THEN {a} ELSE {b} END"
        if shape == 5:
            return f"nvl2({a}, {b}, {a})"
        if shape == 6:
            return f"coalesce(NULL, {a}, {b})"
        return f"{self.one('greatest', 'least')}({a}, {b})"

    def text(self, depth: int) -> str:
        shape = self.chance.random()
        if not depth or shape < 0.15:
            literal = self.one("a", "ab", "strasse", "", "ας", "AB ", "x")
            return str(self.one("s", "t", "s", "t", f"'{literal}'"))
        a = self.text(depth - 1)
        if shape < 0.4:
            return f"{self.one('lower', 'upper', 'lcase', 'trim', 'ltrim', 'rtrim', 'reverse')}({a})"
        if shape < 0.55:
            return f"({a} || {self.text(depth - 1)})"
        if shape < 0.6:
            return f"concat({a}, {self.text(0)}, 'x')"
        if shape < 0.75:
            return f"substring({a}, {self.one(-3, -1, 0, 1, 2, 5)}{self.one('', ', 1', ', 2', ', 0', ', -1')})"
        if shape < 0.83:
            return f"{self.one('left', 'right')}({a}, {self.one(-1, 0, 1, 2)})"
        if shape < 0.88:
            return f"replace({a}, '{self.one('a', 'b', '')}', 'zz')"
        if shape < 0.92:
            return f"CAST({self.one('i', 'l', 'day', 'd9_2', 'flag')} AS STRING)"
        return self.choice(a, self.text(depth - 1), depth)

    def text_test(self, depth: int) -> str:
        text = self.text(max(1, depth))
        shape = self.chance.random()
        if shape < 0.5:
            pattern = self.one("a%", "%b", "%a%", "_b%", "ab", "%x\\\\_y")
            return f"{text} {self.one('', 'NOT ')}LIKE '{pattern}'"
        return f"{self.one('startswith', 'endswith', 'contains')}({text}, '{self.one('a', 'B', 'x', '')}')"

    def day(self, depth: int) -> str:
        shape = self.chance.random()
        if not depth or shape < 0.3:
            return str(self.one("day", "day2", "day", "DATE '2020-02-29'", "DATE '1969-12-31'"))
        if shape < 0.65:
            return f"{self.one('to_date', 'date')}({self.time(depth - 1)})"
        return self.choice(self.day(depth - 1), self.day(depth - 1), depth)

    def time(self, depth: int, kind: str | None = None) -> str:
        kind = kind or self.one("at", "clock")
        if not depth or self.chance.random() < 0.5:
            literals = {"at": "TIMESTAMP '2020-02-29 12:00:00'", "clock": "TIMESTAMP_NTZ '2020-02-29 12:00:00'"}
            return str(self.one(kind, kind + "2", kind, literals[kind]))
        return self.choice(self.time(depth - 1, kind), self.time(depth - 1, kind), depth)

    def boolean(self, depth: int) -> str:
        a, b = self.one("flag", "flag2"), self.one("flag2", "TRUE", "FALSE", f"({self.condition(0)})")
        call = f"{self.one('coalesce', 'nvl')}({a}, {b})"
        made = self.one(call, f"if({a}, {b}, NOT {a})", f"CASE WHEN {self.condition(0)} THEN {a} ELSE {b} END")
        return str(self.one(made, f"{made} = {b}", f"{a} <> flag2", f"{a} < flag2", f"{made} IS TRUE", f"NOT {made}"))
