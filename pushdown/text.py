"""Columns and literals as SQL text, in the spelling that `pushdown.parse_sql` reads back."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import pyarrow as pa

from pushdown.functions import type_sql
from pushdown.spark_types import Typed

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_MAX_DECIMAL_DIGITS = 38
_SUFFIXES = {pa.int64(): "L", pa.int16(): "S", pa.int8(): "Y"}
# Words that the parser reads as a column only in backquotes.
_RESERVED = frozenset(
    re.findall(
        "[a-z_]+",
        """
        all and any between binary boolean both case cast current_date date decimal distinct div double else end escape
        exists false float from ilike in int interval is left like limit not null on or order r regexp right rlike
        select similar some string table then timestamp true union unknown using values when where with x
        """,
    )
)


def column_sql(column: str) -> str:
    """A column's name, its parts in backquotes where they need it."""
    return ".".join(_part(part) for part in column.split("."))


def _part(part: str) -> str:
    if _SIMPLE.match(part) and part.lower() not in _RESERVED:
        return part
    return "`" + part.replace("`", "``") + "`"


def literal_sql(value: Any) -> str:  # noqa: C901, PLR0911 - one line a type
    """One literal: a Python value or an Arrow scalar."""
    if isinstance(value, pa.Scalar):
        value = _from_scalar(value)
    if value is None:
        return "NULL"
    if isinstance(value, Typed):
        return _typed_sql(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return _float_sql(value)
    if isinstance(value, decimal.Decimal):
        return _decimal_sql(value)
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


def _typed_sql(literal: Typed) -> str:
    if literal.written and literal.type in _SUFFIXES:
        return f"{literal.value}{_SUFFIXES[literal.type]}"
    return f"CAST({literal_sql(literal.value)} AS {type_sql(literal.type)})"


def _float_sql(value: float) -> str:
    if not math.isfinite(value):
        return f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS DOUBLE)"
    text = repr(value)
    return text if "e" in text else text + "e0"


def _decimal_sql(value: decimal.Decimal) -> str:
    text = f"{value:f}"
    if "." in text:
        return text
    # Without a point it would be read as an integer.
    return text + "BD" if len(text.lstrip("-")) <= _MAX_DECIMAL_DIGITS else text + ".0"


def _from_scalar(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        # Beyond Python's years 1 to 9999; such a text cannot be parsed back.
        return str(scalar.value)
