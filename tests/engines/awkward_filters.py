"""A table of values at the edges of what types hold and round, and filters with literals at the same edges."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

PARTITIONS = 60
_MOMENTS = tuple(
    dt.datetime.fromisoformat(f"{text}Z")
    for text in (
        "1969-12-31T23:59:59",
        "1970-01-01T00:00:00",
        "2023-12-31T23:59:59",
        "2024-01-01T00:00:00",
        "2024-03-31T01:00:00",
    )
)
_MICROS = (0, 1, 2, 400, 499, 500, 501, 999, 1000, 1001, 1499, 1500, 999_000, 999_499, 999_500, 999_501, 999_999)
_REALS = (0.1, 1 / 3, 16_777_216.0, 16_777_218.0, -0.0, 0.0, math.nan, math.inf, -math.inf, 1e-45, 3.4e38, 0.3, -2.5)
_DOUBLES = (
    0.1,
    0.30000000000000004,
    0.3,
    2.0**53,
    2.0**53 + 2,
    -0.0,
    0.0,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    5e-324,
)
_BIGS = (2**53, 2**53 + 1, 2**53 - 1, 2**24, 2**24 + 1, 0, -1, 1, 2**63 - 1, -(2**63), 10**15, 255)
_EXACTS = ("0.10", "0.11", "123456789012345.67", "123456789012345.68", "9007199254740993.00", "-0.01", "0.00", "2.50")
_LONGS = ("0.100000", "123456789012345678901234.567890", "-1.000001", "0.000000", "9007199254740993.000001", "2.500000")
_TEXTS = (
    "",
    " ",
    "a",
    "a ",
    "a\0",
    "ab",
    "abé",
    "ab%",
    "a_c",
    "A",
    "z\U0010ffff",
    "é",
    "\ue000",
    "'quoted'",
    "1",
    "01",
)


def awkward_table(seed: int = 7) -> pa.Table:
    """Rows whose values lie close together in each partition, a few of them null."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        moment = draw.choice(_MOMENTS)
        for _ in range(draw.choice((1, 1, 2, 4))):
            time = moment + dt.timedelta(microseconds=draw.choice(_MICROS))
            real, double = draw.choice(_REALS), draw.choice(_DOUBLES)
            row = {
                "at": time,
                "day": time.date() + dt.timedelta(draw.choice((-1, 0, 1))),
                "r": float(np.nextafter(np.float32(real), np.float32(draw.choice((-1e30, real, 1e30))))),
                "d": draw.choice((double, math.nextafter(double, 0.0), math.nextafter(double, math.inf))),
                "big": draw.choice(_BIGS),
                "small": draw.choice((0, 1, -1, 255, 2**31 - 1, -(2**31), 5, 6)),
                "exact": Decimal(draw.choice(_EXACTS)),
                "long": Decimal(draw.choice(_LONGS)),
                "s": draw.choice(_TEXTS),
                "flag": draw.random() < 0.5,
                "bytes": draw.choice((b"", b"\0", b"\xff", b"ab")),
            }
            hidden = draw.random() < 0.2
            part = {name: None if hidden and draw.random() < 0.4 else value for name, value in row.items()}
            st = None if draw.random() < 0.1 else {"at": part["at"], "n": part["small"]}
            rows.append({"id": len(rows), "part": f"p{partition}", "st": st, **part})
    return pa.Table.from_pylist(rows, pa.schema(_COLUMNS))


_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "part": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "r": pa.float32(),
    "d": pa.float64(),
    "big": pa.int64(),
    "small": pa.int32(),
    "exact": pa.decimal128(18, 2),
    "long": pa.decimal128(30, 6),
    "s": pa.string(),
    "flag": pa.bool_(),
    "bytes": pa.binary(),
    "st": pa.struct([pa.field("at", pa.timestamp("us", "UTC")), pa.field("n", pa.int32())]),
}


class AwkwardFilters:
    """Draws filters of Trino's SQL; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def draw(self, depth: int = 2) -> str:
        """One filter."""
        choice = self._draw.random()
        if depth == 0 or choice < 0.4:
            return self._leaf()
        if choice < 0.6:
            return f"({self.draw(depth - 1)} AND {self.draw(depth - 1)})"
        if choice < 0.8:
            return f"({self.draw(depth - 1)} OR {self.draw(depth - 1)})"
        return f"NOT ({self.draw(depth - 1)})"

    def _leaf(self) -> str:
        column, literal = self._draw.choice(tuple(_LITERALS.items()))
        first, second, third = (literal(self._draw) for _ in range(3))
        op = self._draw.choice(("=", "<>", "<", "<=", ">", ">="))
        shapes = (
            f"{column} {op} {first}",
            f"{first} {op} {column}",
            f"{column} {op} {first}",
            f"{column} IN ({first}, {second}, {third})",
            f"{column} NOT IN ({first}, {second})",
            f"{column} IN ({first}, NULL)",
            f"{column} BETWEEN {first} AND {second}",
            f"{column} NOT BETWEEN {first} AND {second}",
            f"{column} IS DISTINCT FROM {first}",
            f"{column} IS NOT DISTINCT FROM {first}",
            f"{column} IS NULL",
            f"{column} = NULL",
            self._draw.choice(_FUNCTIONS.get(column, _FUNCTIONS["id"])).replace("?", first).replace("@", op),
            f"(part, {column}) IN (('p{self._draw.randrange(PARTITIONS)}', {first}), ('p1', {second}))",
        )
        return self._draw.choice(shapes)


_FUNCTIONS: dict[str, Sequence[str]] = {
    "at": (
        "year(at) @ 2024",
        "CAST(at AS date) @ DATE '2024-01-01'",
        "date(at) @ DATE '1970-01-01'",
        "date_trunc('year', at) @ ?",
        "date_trunc('second', at) @ ?",
        "date_trunc('millisecond', at) @ ?",
        "CAST(at AS timestamp(0)) @ ?",
        "at + INTERVAL '1' SECOND @ ?",
        "at @ ? - INTERVAL '1' SECOND",
        "extract(YEAR FROM at) IN (1969, 2024)",
        "at AT TIME ZONE 'America/New_York' @ TIMESTAMP '2024-01-01 00:00:00 UTC'",
        "at @ current_timestamp",
        "at @ DATE '2024-01-01'",
    ),
    "day": (
        "year(day) @ 2024",
        "day + INTERVAL '1' DAY @ ?",
        "day @ date_add('day', -1, DATE '2024-01-01')",
        "date_trunc('month', day) @ ?",
        "CAST(day AS timestamp(6)) @ TIMESTAMP '2024-01-01 00:00:00.000001'",
        "day @ current_date - INTERVAL '3' DAY",
    ),
    "s": (
        "s LIKE 'a%'",
        "s NOT LIKE 'ab%'",
        "s LIKE 'a#%' ESCAPE '#'",
        r"s LIKE 'a\_%'",
        "s LIKE '_'",
        "starts_with(s, 'ab')",
        "substring(s, 1, 1) @ 'a'",
        "substr(s, 1, 2) @ ?",
        "CAST(s AS char(5)) @ 'a'",
        "s @ CAST('a' AS char(3))",
        "lower(s) @ ?",
        "length(s) @ 1",
        "regexp_like(s, '^a')",
        "s || 'b' @ ?",
    ),
    "exact": ("CAST(exact AS double) @ 0.1", "CAST(exact AS bigint) @ 2", "floor(exact) @ 0", "ceiling(exact) @ 1"),
    "long": ("CAST(long AS double) @ 0.1", "CAST(long AS decimal(38,6)) @ 0.1", "round(long) @ 2", "-long @ 1"),
    "d": ("CAST(d AS real) @ REAL '0.1'", "floor(d) @ 0", "is_nan(d)", "NOT is_nan(d)", "abs(d) @ 0", "d @ d"),
    "r": ("CAST(r AS double) @ 0.1", "r @ DOUBLE '0.1'", "r + 0e0 @ ?", "is_nan(r)"),
    "big": ("CAST(big AS double) @ 9007199254740992e0", "big % 2 = 1", "big @ small", "CAST(big AS real) @ REAL '0'"),
    "small": ("CAST(small AS bigint) @ 255", "-small @ ?", "small @ 2147483648", "abs(small) = 1"),
    "flag": ("flag", "NOT flag", "coalesce(flag, true)"),
    "id": ("id % 7 = 1", "CASE WHEN id > 5 THEN true END", "id IN (SELECT 3)"),
}


def _time(draw: random.Random) -> str:
    moment = draw.choice(_MOMENTS) + dt.timedelta(microseconds=draw.choice((*_MICROS, -1, -500, -501)))
    text = f"{moment:%Y-%m-%d %H:%M:%S}"
    micros = f"{moment.microsecond:06}"
    return draw.choice(
        (
            f"TIMESTAMP '{text}'",
            f"TIMESTAMP '{text}.{micros[:3]}'",
            f"TIMESTAMP '{text}.{micros}'",
            f"TIMESTAMP '{text}.{micros}'",
            f"TIMESTAMP '{text}.{micros}500'",
            f"CAST('{text}.{micros}' AS timestamp)",
            f"CAST('{text}.{micros}' AS timestamp(0))",
            f"CAST('{text}.{micros}' AS timestamp(6))",
            f"TIMESTAMP '{text}.{micros} UTC'",
            f"TIMESTAMP '{text} +05:30'",
            f"TIMESTAMP '{text} Europe/Berlin'",
        )
    )


def _real(draw: random.Random) -> str:
    plain = ("0.1", "0.3", "16777216", "16777217", "0", "1e-1", "DOUBLE '0.1'", "REAL '0.1'", "3.4e38", "0.333333343")
    odd = ("REAL 'NaN'", "nan()", "infinity()", "-infinity()", "DOUBLE '-0.0'", "0.10000000149011612", "1e-45", "1e300")
    return draw.choice(plain + odd)


def _double(draw: random.Random) -> str:
    plain = ("0.1", "0.3", "0.30000000000000004", "9007199254740993", "0", "-0.0", "1e-1", "REAL '0.1'", "5e-324")
    odd = ("DOUBLE 'NaN'", "nan()", "infinity()", "DOUBLE 'Infinity'", "9007199254740993.0", "1e308", "DECIMAL '0.3'")
    return draw.choice(plain + odd)


def _number(draw: random.Random) -> str:
    plain = [str(value) for value in (*_BIGS[:9], *_BIGS[10:], 5, 2**31)]
    odd = [
        "9007199254740992e0",
        "9007199254740993.5",
        "0.5",
        "REAL '16777217'",
        "1e0",
        "BIGINT '1'",
        "9.3e18",
        "1.0",
        "0xFF",
    ]
    return draw.choice(plain + odd)


def _decimal(draw: random.Random) -> str:
    odd = ("0.105", "1e-1", "0.1e0", "REAL '0.1'", "123456789012345.67e0", "2", "9007199254740993", "2.5e0", "1e30")
    return draw.choice((*_EXACTS, *_LONGS, *(f"DECIMAL '{text}'" for text in _EXACTS), *odd))


def _text(draw: random.Random) -> str:
    text = draw.choice((*_TEXTS, "aa", "b", "z", "\U0001f600")).replace("\0", "").replace("'", "''")
    return draw.choice((f"'{text}'", f"VARCHAR '{text}'", f"CAST('{text}' AS varchar(1))", f"'{text}'"))


_LITERALS: dict[str, Callable[[random.Random], str]] = {
    "id": lambda draw: str(draw.randrange(120)),
    "at": _time,
    "st.at": _time,
    "st.n": lambda draw: draw.choice(("0", "1", "5", "2147483648")),
    "day": lambda draw: draw.choice(
        (f"DATE '{(draw.choice(_MOMENTS) + dt.timedelta(draw.randrange(-2, 3))):%Y-%m-%d}'", _time(draw))
    ),
    "r": _real,
    "d": _double,
    "big": _number,
    "small": _number,
    "exact": _decimal,
    "long": _decimal,
    "s": _text,
    "flag": lambda draw: draw.choice(("true", "false", "BOOLEAN 'true'")),
    "bytes": lambda draw: draw.choice(("X''", "X'00'", "X'FF'", "X'6162'", "to_utf8('ab')")),
    "part": lambda draw: f"'p{draw.randrange(PARTITIONS)}'",
}
