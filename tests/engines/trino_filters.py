"""Filters drawn at random, in SQL that Trino and DuckDB read alike, and the table that they query."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 4000
REGIONS = ("east", "north", "south", "west a b", "west%")
_WORDS = ("alpha", "beta", "Gamma", "delta 1", "", "été", "zeta_x", "100%")
_DAY = dt.date(2024, 1, 1)
_MOMENT = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def table_of_kinds() -> pa.Table:
    """Rows of every kind of column that both engines compare alike, a tenth of the values null.

    Days and moments go with the region, so that statistics and partitions leave files out.
    """
    draw = np.random.default_rng(5)
    region = np.sort(draw.integers(0, len(REGIONS), ROWS))

    def holes(values: list[object], kind: pa.DataType) -> Any:
        hidden = draw.random(ROWS) < 0.1
        return pa.array([None if hide else value for value, hide in zip(values, hidden, strict=True)], kind)

    days = region * 60 + draw.integers(0, 70, ROWS)
    return pa.table(
        {
            "id": pa.array(draw.permutation(ROWS), pa.int64()),
            "small": holes([int(v) for v in draw.integers(-20, 20, ROWS)], pa.int32()),
            "big": holes([int(v) << 55 for v in draw.integers(-64, 64, ROWS)], pa.int64()),
            "ratio": holes([float(v) / 4 for v in draw.integers(-400, 400, ROWS)], pa.float64()),
            "price": holes([Decimal(int(v)).scaleb(-2) for v in draw.integers(-5000, 5000, ROWS)], pa.decimal128(9, 2)),
            "name": holes([_WORDS[v] + str(v) * (v % 3) for v in draw.integers(0, len(_WORDS), ROWS)], pa.string()),
            "flag": holes([bool(v) for v in draw.integers(0, 2, ROWS)], pa.bool_()),
            "day": holes([_DAY + dt.timedelta(int(v)) for v in days], pa.date32()),
            "moment": holes(
                [_moment_of(int(v)) for v in days],
                pa.timestamp("us", "UTC"),
            ),
            "region": pa.array([REGIONS[v] for v in region]),
        }
    )


class Filters:
    """Draws filters; the same seed draws the same ones."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def draw(self, depth: int = 2) -> str:
        """One filter."""
        choice = self._draw.random()
        if depth == 0 or choice < 0.3:
            return self._leaf()
        if choice < 0.6:
            return f"({self.draw(depth - 1)} AND {self.draw(depth - 1)})"
        if choice < 0.88:
            return f"({self.draw(depth - 1)} OR {self.draw(depth - 1)})"
        return f"NOT ({self.draw(depth - 1)})"

    def _leaf(self) -> str:
        column, literal = self._draw.choice(tuple(_LITERALS.items()))
        values = [literal(self._draw) for _ in range(4)]
        shape = self._draw.randrange(12)
        first, second = sorted(values[:2]) if column in {"small", "id"} else values[:2]
        plain = {
            0: f"{column} IS NULL",
            1: f"{column} IS NOT NULL",
            2: f"{column} IN ({', '.join(values)})",
            3: f"{column} NOT IN ({', '.join(values[:2])})",
            4: f"{column} BETWEEN {first} AND {second}",
            5: f"{column} IS DISTINCT FROM {first}",
            6: f"{column} IS NOT DISTINCT FROM {first}",
            7: f"coalesce({column}, {first}) = {second}",
            8: self._function(column, first),
        }
        return plain.get(shape) or f"{column} {self._draw.choice(('=', '<>', '<', '<=', '>', '>='))} {first}"

    def _function(self, column: str, literal: str) -> str:
        return {
            "name": self._draw.choice(("name LIKE 'al%'", "name LIKE '%a%'", f"upper(name) = upper({literal})")),
            "day": self._draw.choice(("year(day) = 2024", "month(day) = 3", f"day + INTERVAL '3' DAY > {literal}")),
            "moment": self._draw.choice(
                (f"date_trunc('day', moment) = {literal}", "CAST(moment AS DATE) >= DATE '2024-04-01'")
            ),
            "small": f"small + 1 > {literal}",
            "flag": self._draw.choice(("flag", "NOT flag")),
        }.get(column, f"{literal} < {column}")


def _moment_of(day: int) -> dt.datetime:
    return _MOMENT + dt.timedelta(day, milliseconds=day * 77_777)


def _moment(draw: random.Random) -> str:
    day = draw.randrange(330)
    clock = f"{_moment_of(day):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return f"TIMESTAMP '{draw.choice((clock, clock, f'{_DAY + dt.timedelta(day)} 00:00:00'))}'"


_LITERALS: dict[str, Callable[[random.Random], str]] = {
    "id": lambda draw: str(draw.randrange(ROWS + 100)),
    "small": lambda draw: str(draw.randrange(-22, 22)),
    "big": lambda draw: str(draw.randrange(-66, 66) << 55),
    "ratio": lambda draw: f"{draw.randrange(-420, 420) / 4:.2f}e0",
    "price": lambda draw: f"{draw.randrange(-5100, 5100) / 100:.2f}",
    "name": lambda draw: f"'{draw.choice((*_WORDS, 'beta1', 'm'))}'",
    "flag": lambda draw: draw.choice(("true", "false")),
    "day": lambda draw: f"DATE '{_DAY + dt.timedelta(draw.randrange(-5, 330))}'",
    "moment": _moment,
    "region": lambda draw: f"'{draw.choice((*REGIONS, 'nowhere'))}'",
}
