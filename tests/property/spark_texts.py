"""Filters as Spark's SQL text: each column beside literals of its own type and of all others, under every operator.

A filter is made by its number alone, so that one that went wrong can be looked at again.
"""

from __future__ import annotations

import datetime as dt
import decimal
import random
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.property.spark_rows import COLUMNS

_WHOLE = ["0", "1", "-1", "2", "5", "10", "127", "128", "-129", "32768", "16777217", "20200229", "2147483647"]
_WHOLE += ["2147483648", "-2147483649", "9007199254740993", "9223372036854775807", "-9223372036854775808"]
_WHOLE += ["9223372036854775808", "-9223372036854775809", "18446744073709551616", "9" * 38, f"-{'9' * 38}"]
_WHOLE += ["1L", "127L", "-5L", "9007199254740993L", "1S", "5Y", "-1Y", "128S"]
_DECIMAL = ["0.0", "0.5", "1.0", "1.1", "1.10", "1.5", "-1.5", "2.000", "1.4995", "1.49950", "0.0000001", "0.1234565"]
_DECIMAL += ["126.99", "9223372036854775807.5", "9223372036854775808.0", "-9223372036854775808.5", "1.5BD", "2.", ".5"]
_DECIMAL += ["1.4999999999999999999999999999999999999", "1234567890123456789012345678901.1234567", "9999999.9995"]
_DECIMAL += ["CAST(1.5 AS DECIMAL(38, 6))", "CAST(1 AS DECIMAL(38, 0))", "CAST(0.5 AS DECIMAL(38, 38))", "-0.001"]
_DECIMAL += ["CAST(1.1 AS DECIMAL(3, 1))", "CAST('1.5' AS DECIMAL(10, 3))", f"0.{'1' * 38}", f"{'9' * 30}.5"]
_DOUBLE = ["0e0", "-0.0D", "1e0", "1.5D", "1.1D", "-1.5e0", "1e300", "-1e300", "9.007199254740993E15", "1.1E0", "0.1D"]
_DOUBLE += ["9.223372036854775807E18", "2e0", "127D", "1.7976931348623157E308", "5e-324", "16777217D", "1.49e0"]
_DOUBLE += ["CAST('NaN' AS DOUBLE)", "double('NaN')", "CAST('Infinity' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)"]
_DOUBLE += ["1.5F", "1.1F", "0.1F", "16777216F", "3.4028234E38F", "CAST('NaN' AS FLOAT)", "CAST(1.1 AS FLOAT)"]
_TEXT = [
    "",
    " ",
    "a",
    "ab",
    "abc",
    "a%b",
    "a\\\\b",
    "1",
    "10",
    "2",
    "true",
    "ä",
    "😀",
    "abc%",
    "a_b",
    "A",
    "2020-02-29",
]
_WHOLE_TEXT = ["1", " 1 ", "01", "+1", "-1", "0", "-0", "2", "10", "127", "128", "20200229", "9007199254740993"]
_WHOLE_TEXT += ["9223372036854775807", "-9223372036854775808", "-129", "2147483648", "00", "1\\t"]
_NUMBER_TEXT = [
    *_WHOLE_TEXT,
    "1.0",
    "1.5",
    "1.1",
    "1.10",
    "1e0",
    "NaN",
    "Infinity",
    "inf",
    "-Infinity",
    "9223372036854775808",
]
_NUMBER_TEXT += [
    "1.1000000238418579",
    "16777217",
    "0.1",
    "1.5d",
    "0.5",
    "1.499999",
    ".5",
    "1.",
    "1E400",
    "-1.5f",
    "5e-324",
]
_DAY_TEXT = [
    "2020",
    "2020-02",
    "2020-02-29",
    "2020-2-29",
    "1582-10-04",
    "1500-02-28",
    "0001-01-01",
    "9999-12-31",
    "1970-01-01",
]
_DAY_TEXT += ["2020-02-29 12:00:00", "2020-02-29T12:00:00Z", " 2020-02-29 ", "2020-02-29 00:00:00", "1582-10-10"]
_AT_TEXT = [*_DAY_TEXT, "2020-02-29 12:00:00.5+02:00", "1969-12-31 23:59:59.999999", "2020-02-29 12:00:00 UTC"]
_AT_TEXT += [
    "2020-02-29 12:00",
    "2020-2-29 1:2:3",
    "2020-03-08 02:30:00",
    "2020-11-01 01:30:00",
    "2020-02-29 12:00:00.5",
]
_FLAG_TEXT = ["true", "TRUE", "false", "t", "f", "yes", "No", "y", "n", "0", "1", " true "]
_DAY = ["DATE '2020-02-29'", "DATE '1970-01-01'", "DATE '1582-10-04'", "DATE '1582-10-15'", "DATE '0001-01-01'"]
_DAY += [
    "DATE '1500-06-01'",
    "DATE '9999-12-31'",
    "DATE '2020-3-1'",
    "CAST('2020-02-29' AS DATE)",
    "date('2000-01-01')",
]
_AT = ["TIMESTAMP '2020-02-29 00:00:00'", "TIMESTAMP '2020-02-29 12:00:00.5'", "TIMESTAMP '2020-02-29 12:00:00+02:00'"]
_AT += ["TIMESTAMP '1970-01-01'", "TIMESTAMP '1582-10-04 00:00:00'", "TIMESTAMP '0001-01-01 00:00:00'"]
_AT += [
    "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "TIMESTAMP_LTZ '2020-03-08 07:00:00'",
    "TIMESTAMP '1969-12-31 23:59:59'",
]
_CLOCK = ["TIMESTAMP_NTZ '2020-02-29 00:00:00'", "TIMESTAMP_NTZ '2020-02-29 12:00:00.5'", "TIMESTAMP_NTZ '1970-01-01'"]
_CLOCK += [
    "TIMESTAMP_NTZ '1582-10-04 00:00:00'",
    "TIMESTAMP_NTZ '2020-11-01 01:30:00'",
    "TIMESTAMP_NTZ '2020-03-08 02:30:00'",
]
_RAW = ["X''", "X'61'", "X'6162'", "X'00'", "X'80'", "X'FF'", "X'31'", "X'c3a4'", "X'1'", "CAST('ab' AS BINARY)"]
_FLAG = ["TRUE", "FALSE", "true", "CAST('true' AS BOOLEAN)"]
_PATTERNS = [
    "a%",
    "%",
    "",
    "a_c",
    "_",
    "%b",
    "a\\\\%",
    "1%",
    "%1%",
    "2020%",
    "%-02-%",
    "1_",
    "x%",
    "t%",
    "%\\\\_b",
    "😀",
]

LITERALS = {
    "whole": _WHOLE,
    "decimal": _DECIMAL,
    "double": _DOUBLE,
    "text": _TEXT,
    "whole text": _WHOLE_TEXT,
    "number text": _NUMBER_TEXT,
    "day text": _DAY_TEXT,
    "at text": _AT_TEXT,
    "flag text": _FLAG_TEXT,
    "day": _DAY,
    "at": _AT,
    "clock": _CLOCK,
    "raw": _RAW,
    "flag": _FLAG,
}
_DECIMALS = {"d1", "d2", "d3", "d5"}
_TIMES = ("day", "at", "clock", "at text")
# What Spark compares a column with; texts mostly spell what they are compared with, or Spark stops at them.
_BESIDE = {
    "flag": ("flag", "flag", "flag text"),
    **dict.fromkeys(("i8", "i16", "i32", "i64"), ("whole", "decimal", "double", "whole text")),
    **{name: ("whole", "decimal", "double", "number text") for name in COLUMNS if name[:2] in _DECIMALS | {"f3", "f6"}},
    "text": ("text", "text", "text", "raw"),
    "wholes": ("whole", "whole", "text", "decimal", "double"),
    "numbers": ("decimal", "double", "number text"),
    "days": ("day", "day", "day text"),
    "moments": ("at", "at", "at text", "clock"),
    "truths": ("flag", "flag", "flag text"),
    "day": ("day", "at", "clock", "day text"),
    "at": _TIMES,
    "clock": _TIMES,
    "raw": ("raw", "raw", "text"),
}
# To which types columns are cast, without most rows being refused by Spark.
_CASTS = {
    "flag": ("STRING", "INT", "DOUBLE"),
    "text": ("STRING", "BINARY"),
    "wholes": ("BIGINT", "DOUBLE", "DECIMAL(20, 0)", "FLOAT", "STRING"),
    "numbers": ("DOUBLE", "FLOAT"),
    "days": ("DATE", "TIMESTAMP"),
    "moments": ("TIMESTAMP", "DATE", "TIMESTAMP_NTZ"),
    "truths": ("BOOLEAN",),
    "day": ("TIMESTAMP", "STRING", "TIMESTAMP_NTZ", "DATE"),
    "at": ("DATE", "STRING", "TIMESTAMP_NTZ", "BIGINT"),
    "clock": ("DATE", "STRING", "TIMESTAMP"),
    "raw": ("BINARY",),
    **dict.fromkeys(
        ("i8", "i16"), ("SMALLINT", "INT", "BIGINT", "DOUBLE", "FLOAT", "STRING", "DECIMAL(20, 0)", "BOOLEAN")
    ),
    **dict.fromkeys(
        ("i32", "i64"), ("BIGINT", "DOUBLE", "FLOAT", "STRING", "DECIMAL(38, 18)", "DECIMAL(20, 0)", "BOOLEAN")
    ),
    **dict.fromkeys(("f32", "f64"), ("DOUBLE", "FLOAT", "STRING")),
    **{
        name: ("DOUBLE", "FLOAT", "STRING", "DECIMAL(38, 0)", "DECIMAL(38, 2)")
        for name in COLUMNS
        if name[:2] in _DECIMALS
    },
}
_CAST_FAMILY = {"STRING": "text", "INT": "whole", "SMALLINT": "whole", "BIGINT": "whole", "DOUBLE": "double"}
_CAST_FAMILY |= {"FLOAT": "double", "DATE": "day", "TIMESTAMP": "at", "TIMESTAMP_NTZ": "clock", "BOOLEAN": "flag"}
_CAST_FAMILY |= {"BINARY": "raw"}
# Functions that never go down, and the families of their results.
_FUNCTIONS = {
    "year({})": ("whole", ("day", "at", "clock")),
    "to_date({})": ("day", ("at", "clock", "day")),
    "date_trunc('month', {})": ("at", ("at",)),
    "trunc({}, 'month')": ("day", ("day",)),
    "date_add({}, 3)": ("day", ("day",)),
    "floor({})": ("whole", ("i32", "i64", "d10_3", "d18_9", "d3_3", "d38_6")),
    "ceil({})": ("whole", ("i8", "d10_3", "d38_30", "d5_0")),
    "substring({}, 1, 2)": ("text", ("text", "wholes")),
}
_ROWS = ("i32", "text", "day", "d10_3")
_COMPARE = ["=", "=", "<>", "!=", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
_FAMILIES = list(LITERALS)
# How far 64-bit integers reach from the middle between -1 and 0.
_HALF, _LONGS = decimal.Decimal("0.5"), decimal.Decimal(2**63) - decimal.Decimal("0.5")
_MARK = re.compile("«(.*?)»")
_PLAIN = re.compile(r"-?(\d+\.?\d*|\.\d+)(BD)?")


@dataclass(frozen=True)
class Filter:
    """A condition.

    Attributes:
        text: for Spark and us.
        standard: where the text compares an integer with a decimal beyond all integers, the same in standard SQL: Spark
            takes that for TRUE or FALSE though the integer is null.
    """

    text: str
    standard: str


def make_filter(number: int, columns: tuple[str, ...] = tuple(COLUMNS)) -> Filter:
    """The filter of that number."""
    chance = random.Random(number)
    marked = _condition(chance, columns, 3 if chance.random() < 0.2 else 1)
    return Filter(_MARK.sub(r"\1", marked), _MARK.sub(r"CAST(\1 AS DECIMAL(38, 0))", marked))


def _condition(chance: random.Random, columns: tuple[str, ...], depth: int) -> str:
    if depth > 1 and chance.random() < 0.8:
        shape = chance.randrange(4)
        inner = [_condition(chance, columns, depth - 1) for _ in range(2)]
        if shape == 0:
            return f"NOT ({inner[0]})"
        return f"({inner[0]}) {chance.choice(['AND', 'OR'])} ({inner[1]})"
    if chance.random() < 0.1:
        return f"NOT {_test(chance, chance.choice(columns))}"
    return _test(chance, chance.choice(columns))


def _test(chance: random.Random, column: str) -> str:
    operand, families = _operand(chance, column)
    shape = chance.random()
    if column in _ROWS and operand == column and shape > 0.98:
        other = chance.choice(_ROWS)
        members = [
            f"({_row_value(chance, column)}, {_row_value(chance, other)})" for _ in range(chance.choice([1, 2, 4]))
        ]
        return f"({column}, {other}) {chance.choice(['', 'NOT '])}IN ({', '.join(members)})"
    if shape < 0.04:
        return f"{operand} IS {chance.choice(['', 'NOT '])}NULL"
    if shape < 0.10 and (column in {"text", "wholes", "numbers", "days"} or shape < 0.06):
        return f"{operand} {chance.choice(['', 'NOT '])}LIKE '{chance.choice(_PATTERNS)}'"
    if column == "flag" and operand == column and shape < 0.2:
        return chance.choice(["flag", "flag IS TRUE", "flag IS NOT FALSE", "flag IS NOT TRUE"])
    if shape < 0.35:
        size = chance.choice([1, 2, 2, 3, 4, 12])
        # Most lists are of one family.
        some = [chance.choice(families)] if chance.random() < 0.6 else families
        members = ", ".join(_literal(chance, column, some) for _ in range(size))
        return f"{operand} {chance.choice(['', '', 'NOT '])}IN ({members})"
    if shape < 0.48:
        some = [chance.choice(families)] if chance.random() < 0.7 else families
        low, high = (_literal(chance, column, some) for _ in range(2))
        if _is_beyond(low) or _is_beyond(high):
            return f"{_marked(operand, low)} >= {low} AND {_marked(operand, high)} <= {high}"
        return f"{operand} {chance.choice(['', '', 'NOT '])}BETWEEN {low} AND {high}"
    literal = _literal(chance, column, families)
    operator = chance.choice(_COMPARE)
    if operator in {"<", "<=", ">", ">="}:
        operand = _marked(operand, literal)
    if chance.random() < 0.1 and not operator.startswith("IS"):
        return f"{literal} {operator} {operand}"
    return f"{operand} {operator} {literal}"


def _is_beyond(literal: str) -> bool:
    """Whether a literal is a decimal beyond all integers."""
    return _PLAIN.fullmatch(literal) is not None and abs(decimal.Decimal(literal.removesuffix("BD")) + _HALF) > _LONGS


def _marked(operand: str, literal: str) -> str:
    integer = operand.startswith(("i", "year(", "floor(i", "ceil(i")) or operand.endswith("INT)")
    return f"«{operand}»" if integer and _is_beyond(literal) else operand


def _operand(chance: random.Random, column: str) -> tuple[str, list[str]]:
    families = list(_BESIDE[column])
    if chance.random() < 0.03:
        families = _FAMILIES
    if chance.random() < 0.12:
        to = chance.choice(_CASTS[column])
        word = "TRY_CAST" if chance.random() < 0.3 else "CAST"
        return f"{word}({column} AS {to})", [_CAST_FAMILY.get(to, "decimal")] * 3 + families[:1]
    fitting = [call for call, (_, columns) in _FUNCTIONS.items() if column in columns]
    if fitting and chance.random() < 0.1:
        call = chance.choice(fitting)
        return call.format(column), [_FUNCTIONS[call][0]] * 4 + families[:1]
    return column, families


def _row_value(chance: random.Random, column: str) -> str:
    return _literal(chance, column, {"text": ["text"], "day": ["day"]}.get(column, ["whole", "decimal"]))


def _literal(chance: random.Random, column: str, families: list[str]) -> str:
    if chance.random() < 0.03:
        return "NULL"
    family = chance.choice(families)
    if chance.random() < 0.35:
        own = _own_value(chance, column, family)
        if own is not None:
            return own
    literal = chance.choice(LITERALS[family])
    return f"'{literal}'" if family.endswith("text") else literal


def _own_value(chance: random.Random, column: str, family: str) -> str | None:
    """A value of the column, spelled as a literal of the family."""
    kind, pool = COLUMNS[column]
    value: Any = chance.choice(pool)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        per_day = 1 if pa.types.is_date(kind) else 86_400_000_000
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(days=value // per_day, microseconds=value % per_day)  # noqa: DTZ001
        text = moment.date().isoformat() if family == "day" or per_day == 1 else moment.isoformat(sep=" ")
        word = {"day": "DATE", "at": "TIMESTAMP", "clock": "TIMESTAMP_NTZ", "day text": "", "at text": ""}.get(family)
        return None if word is None else f"{word} '{text}'".strip()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\")
        return f"'{escaped}'" if family.endswith("text") else None
    if isinstance(value, bytes):
        return f"X'{value.hex()}'" if family == "raw" else None
    if isinstance(value, bool):
        return {"flag": str(value).upper(), "flag text": f"'{value}'"}.get(family)
    return _own_number(value, family)


def _own_number(value: float | decimal.Decimal, family: str) -> str | None:
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return (
                None
                if family not in {"double", "number text"}
                else f"CAST('{value}' AS DOUBLE)"
                if family == "double"
                else f"'{value}'"
            )
        texts = {
            "double": f"{value!r}D",
            "number text": f"'{value!r}'",
            "whole": f"{int(value)}" if abs(value) < 1e18 else None,
        }
        return texts.get(family)
    texts = {
        "whole": f"{int(value)}",
        "decimal": f"{value:f}",
        "double": f"{float(value)!r}D",
        "number text": f"'{value:f}'",
        "whole text": f"'{int(value)}'",
    }
    own = texts.get(family)
    return f"{own}.0" if own is not None and family == "decimal" and "." not in own else own
