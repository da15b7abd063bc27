"""Comparisons of functions that are no ranges of their column: plans against Spark's own answers for every row.

Of each file, the truth values that its rows have in Spark must be among those that its statistics leave.
"""

from __future__ import annotations

import datetime as dt
import os
import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from pushdown import bind, evaluate, parse_sql, simplify
from tests.property.spark_differential import file_statistics
from tests.property.spark_oracle import Oracle, Refused, settings
from tests.property.spark_rows import ROW

pytestmark = [pytest.mark.spark]
_NIGHTLY = hypothesis_settings.get_current_profile_name() == "nightly"
_COUNT = int(os.environ.get("HUDI_CATALOG_FUNCTION_FILTERS", "20000" if _NIGHTLY else "600"))
_FILES, _ROWS = 60, 5
_SESSIONS = [(zone, ansi) for zone in ("UTC", "America/New_York", "Asia/Kolkata") for ansi in (True, False)]
_MICROS = 1_000_000
# Files that each hold times of some minutes to some months, many around the changes of clocks of New York.
_STARTS = ["2020-03-08 06:30", "2020-11-01 05:30", "2020-11-01 04:10", "1969-12-31 22:00", "2021-12-31 18:40"]
_STARTS += ["1883-11-18 17:00", "1582-10-14 00:00", "1500-02-28 12:00", "2024-02-29 03:00", "2101-05-05 05:00"]
_WIDTHS = [0, 60, 1800, 7200, 80_000, 86_400 * 3, 86_400 * 40, 86_400 * 400]
_WORDS = ["", " ", "Berlin", "BERLIN", "berlin", "Bern", "bingen", "IZMIR", "Izmir", "zürich", "Zürich", "ÄRGER", "ß"]
_WORDS += [
    "  ab",
    "ab  ",
    "ab\t",
    "\tab",
    "ab\u3000",
    "abc",
    "abd",
    "abD",
    "aBc%",
    "a_b",
    "a\\b",
    "ΑΣ",
    "K\u212a",
    "😀x",
]
_WORDS += [
    "order-0001",
    "order-0002",
    "order-0017",
    "ORDER-9",
    "A1",
    "a1",
    "Z",
    "~",
    "i",
    "I",
    "\u0130",
    "\u0131",
    "x" * 300,
]
_INTS = [-(2**31), -(2**31) + 1, -100, -7, -3, -1, 0, 1, 2, 3, 6, 7, 50, 99, 100, 365, 2**31 - 2, 2**31 - 1]
_PARTS = {"hour": 24, "minute": 60, "second": 60}
_DAY_PARTS = {"year": 2022, "quarter": 5, "month": 13, "day": 32, "dayofmonth": 32, "dayofyear": 367}
_DAY_PARTS |= {"weekofyear": 54, "dayofweek": 8, "weekday": 7}
_OPS = ["=", "=", "=", "<>", "<", "<=", ">", ">=", "<=>"]


def _instants(chance: random.Random) -> list[int]:
    start = dt.datetime.fromisoformat(chance.choice(_STARTS)).replace(tzinfo=dt.UTC)
    first = int(start.timestamp()) + chance.choice([0, 0, 60, 3600, 86_400 * 30])
    width = chance.choice(_WIDTHS)
    return [(first + chance.randint(0, width)) * _MICROS + chance.choice([0, 0, 1, 999_999]) for _ in range(_ROWS)]


def _near(chance: random.Random, pool: list[Any]) -> list[Any]:
    ordered = sorted(pool)
    start, size = chance.randrange(len(ordered)), chance.choice([1, 1, 2, 3])
    return [chance.choice(ordered[start : start + size]) for _ in range(_ROWS)]


def _rows() -> pa.Table:
    chance = random.Random(45)
    columns: dict[str, list[Any]] = {name: [] for name in "iljxfstnd"}
    for file in range(_FILES):
        wide = [number * chance.choice([1, 1, 5]) for number in range(-20, 40)]
        made: dict[str, list[Any]] = {
            "i": _near(chance, wide),
            "l": _near(chance, [number * 10**9 for number in range(-9, 9)]),
            "j": _near(chance, _INTS),
            "x": _near(chance, [Decimal(number).scaleb(-2) for number in range(-900, 900, 37)]),
            "f": _near(chance, [-float("inf"), -1e300, -2.5, -0.0, 0.0, 0.1, 1.5, 3.0, 1e300, float("inf")]),
            "s": sorted(chance.choice(_WORDS) for _ in range(40))[file % 35 :][:_ROWS],
            "t": _instants(chance),
            "n": _instants(chance),
            "d": [micros // (86_400 * _MICROS) for micros in _instants(chance)],
        }
        if file % 3 == 0:
            made["s"] = [chance.choice(_WORDS)] * _ROWS
        for name, values in made.items():
            nulls = chance.choice([_ROWS, 1, 1, 0, 0, 0, 0, 0, 0, 0])
            columns[name] += [None] * nulls + values[nulls:]
    kinds = {"i": pa.int32(), "l": pa.int64(), "j": pa.int32(), "x": pa.decimal128(9, 2), "f": pa.float64()}
    arrays: dict[str, Any] = {name: pa.array(columns[name], kind) for name, kind in kinds.items()}
    arrays["s"] = pa.array(columns["s"], pa.string())
    arrays["t"] = pa.array(columns["t"], pa.int64()).cast(pa.timestamp("us", "UTC"))
    arrays["n"] = pa.array(columns["n"], pa.int64()).cast(pa.timestamp("us"))
    arrays["d"] = pa.array(columns["d"], pa.int32()).cast(pa.date32())
    return pa.table({ROW: pa.array(range(_FILES * _ROWS), pa.int32()), **arrays})


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _of_time(chance: random.Random) -> tuple[str, str, str]:
    name = chance.choice([*_PARTS, *_DAY_PARTS])
    column = chance.choice("tn" if name in _PARTS else "tnd")
    most = (_PARTS | _DAY_PARTS)[name]
    literal = chance.randint(1960, 2022) if name == "year" else chance.randrange(most + 1)
    call = f"{name}({column})"
    if name in _DAY_PARTS and chance.random() < 0.2:
        call = f"{name}(CAST({column} AS DATE))"
    return name, call, chance.choice([str(literal), f"{literal}L", f"{literal}.0", f"'{literal}'"])


def _of_number(chance: random.Random) -> tuple[str, str, str]:
    name, form = chance.choice(
        [
            ("%", "{c} % {n}"),
            ("%", "mod({c}, {n})"),
            ("%", "CAST({c} AS BIGINT) % {n}"),
            ("pmod", "pmod({c}, {n})"),
            ("+", "{c} + {n}"),
            ("-", "{n} - {c}"),
            ("-", "{c} - {n}"),
            ("*", "{c} * {n}"),
            ("div", "{c} div {n}"),
            ("negative", "-{c}"),
            ("abs", "abs({c})"),
            ("%", "abs({c}) % {n}"),
            ("*", "({c} + 1) * {n}"),
        ]
    )
    column = chance.choice("iiillxxjf" if name in "+-*" else "iiillxxj")
    number = chance.choice(["2", "3", "7", "-3", "1", "-1", "10", "100", "5L", "1.5", "2.0", "2147483647"])
    if column == "x" and name == "div":
        column = "i"
    literal = chance.choice(
        ["0", "1", "-1", "2", "3", "5", "-2", "6L", "2.5", "1e0", "'2'", "300", "9223372036854775808"]
    )
    return name, form.format(c=column, n=number), literal


def _of_text(chance: random.Random) -> tuple[str, str, str]:
    name, form = chance.choice(
        [
            ("lower", "lower(s)"),
            ("upper", "upper(s)"),
            ("lower", "lower(trim(s))"),
            ("trim", "trim(s)"),
            ("ltrim", "ltrim(s)"),
            ("rtrim", "rtrim(s)"),
            ("substring", "substring(s, 2, 3)"),
            ("substring", "substring(s, 3)"),
            ("substring", "substring(s, 7, 2)"),
            ("left", "left(upper(s), 2)"),
            ("soundex", "soundex(s)"),
            ("reverse", "reverse(s)"),
            ("replace", "replace(s, 'a', 'b')"),
        ]
    )
    word = chance.choice(_WORDS)
    return (
        name,
        form,
        _quoted(chance.choice([word, word.lower(), word.upper(), word.strip(), word[1:4], word[2:], "B631"])),
    )


def _filter(number: int) -> tuple[str, str]:
    """The function's name and the text, made by the filter's number alone."""
    chance = random.Random(number)
    kind = chance.randrange(10)
    if kind == 0:
        name = chance.choice(["contains", "endswith", "startswith"])
        call = f"{name}({chance.choice(['s', 's', 'lower(s)', 'upper(s)'])}, {_quoted(chance.choice(_WORDS)[1:4])})"
    elif kind == 1:
        name = "length"
        call = f"length(s) {chance.choice(_OPS)} {chance.randrange(12)}"
    else:
        name, function, literal = chance.choice([_of_time, _of_time, _of_number, _of_number, _of_text])(chance)
        call = f"{function} {chance.choice(_OPS)} {literal}"
        if chance.random() < 0.15:
            other = _filter_literals(literal)
            call = f"{function} {chance.choice(['', 'NOT '])}IN ({', '.join(other)})"
        elif chance.random() < 0.1:
            call = f"{function} BETWEEN {literal} AND {literal}"
        elif chance.random() < 0.05:
            call = f"{function} IS {chance.choice(['', 'NOT '])}NULL"
    return name, f"NOT ({call})" if chance.random() < 0.2 else call


def _filter_literals(literal: str) -> list[str]:
    return [literal, "NULL"] if len(literal) % 2 else [literal, literal]


@pytest.fixture(scope="module")
def functions_rows() -> pa.Table:
    return _rows()


@pytest.mark.parametrize(("session", "zone", "ansi"), [(at, *one) for at, one in enumerate(_SESSIONS)])
def test_no_row_that_spark_keeps_is_in_a_file_that_is_pruned(
    spark: SparkSession, tmp_path: Path, functions_rows: pa.Table, session: int, zone: str, ansi: bool
) -> None:
    statistics = {
        name: replace(
            file_statistics(functions_rows.column(name).combine_chunks(), _FILES, _ROWS), all_null_is_certain=True
        )
        for name in functions_rows.column_names
    }
    count = _COUNT // len(_SESSIONS)
    filters = dict(_filter(number)[::-1] for number in range(session * count, (session + 1) * count))
    pruned: Counter[str] = Counter()
    refused, wrong = 0, []
    with settings(spark, zone, ansi=ansi):
        truths = Oracle(spark, functions_rows, str(tmp_path / "rows.parquet")).truths(list(filters))
    for text, name in filters.items():
        truth = truths[text]
        if isinstance(truth, Refused):
            refused += 1
            continue
        bound = simplify(bind(parse_sql(text), functions_rows.schema, time_zone=zone))
        outcomes = evaluate(bound, statistics, _FILES)
        masks = {True: outcomes.can_true, False: outcomes.can_false, None: outcomes.can_null}
        for row, answer in truth.items():
            if not masks[answer][row // _ROWS]:
                value = functions_rows.slice(row, 1).to_pylist()
                wrong.append(f"{text}: {answer} in row {value}   bound: {bound!r}")
                break
        pruned[name] += int((~outcomes.can_true).sum())
    print(f"\n{zone}, ANSI {ansi}: {len(filters)} filters, {refused} refused by Spark; files pruned {dict(pruned)}")
    assert not wrong, "\n".join(wrong[:20])
    assert refused < len(filters) // 3
    if count >= 80:
        assert {
            name for name in ("hour", "month", "%", "+", "lower", "contains", "length") if not pruned[name]
        } == set()
