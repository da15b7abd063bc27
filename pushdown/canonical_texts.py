"""Texts that spell a value as engines do when they cast it to text."""

from __future__ import annotations

import re

import pyarrow as pa

from pushdown.kinds import Kind, kind_of

_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def is_canonical(text: str, type_: pa.DataType) -> bool:
    """Whether comparing spellings with this text decides as comparing values of the type does."""
    kind = kind_of(type_)
    if kind is Kind.INTEGER:
        return _INTEGER.fullmatch(text) is not None
    if kind is Kind.DATE:
        return _DATE.fullmatch(text) is not None
    return kind in {Kind.STRING, Kind.BINARY}
