"""The one-row blocks of Trino's and Presto's Thrift connector as Python values.

Blocks are objects with the attributes of the Thrift structs (``TrinoThriftBlock``, ``PrestoThriftBlock``); the structs
themselves are not imported.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

_EPOCH_DATE = dt.date(1970, 1, 1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TYPE = re.compile(r"([a-z]+)\s*(?:\(\s*(\d{1,9})\s*\))?\Z")
_FIELDS = (
    "integerData",
    "bigintData",
    "doubleData",
    "varcharData",
    "booleanData",
    "dateData",
    "timestampData",
    "jsonData",
    "hyperLogLogData",
    "bigintArrayData",
)


class MalformedDomainError(ValueError):
    """A part of a domain that breaks the contract, or holds an unsupported value; the message says why."""


def column_type(name: object) -> str | None:
    """The base of a supported Trino type: ``varchar(20)`` is ``varchar``; None for any other type.

    Only times of milliseconds, and texts without padding, are carried.
    """
    match = _TYPE.match(name.strip().lower()) if isinstance(name, str) and len(name) < 100 else None
    if match is None or match[1] not in READERS:
        return None
    if match[1] == "timestamp":
        return match[1] if match[2] in {None, "3"} else None
    return match[1] if match[2] is None or match[1] == "varchar" else None


def block_value(block: Any, kind: str) -> Any:
    """The value of a one-row block.

    Args:
        block: the object; exactly one of its fields is set, that of the type.
        kind: as `column_type` gives it.

    Raises:
        MalformedDomainError: it has another field, not one row, a null, or a value that Python cannot hold.
    """
    values = block_values(block, kind)
    if len(values) != 1:
        raise MalformedDomainError("not one value")
    return values[0]


def block_values(block: Any, kind: str) -> list[Any]:
    """The values of a block of any number of rows; otherwise as `block_value`."""
    present = [name for name in _FIELDS if getattr(block, name, None) is not None]
    field, list_name, read = READERS[kind]
    if present != [field]:
        raise MalformedDomainError(f"a value of type {kind} as {', '.join(present) or 'nothing'}")
    data = getattr(block, field)
    items = getattr(data, list_name, None)
    if not isinstance(items, list | tuple):
        raise MalformedDomainError("not one value")
    nulls = getattr(data, "nulls", None)
    if nulls is not None and list(nulls) != [False] * len(items):
        raise MalformedDomainError("a null, or not one value")
    return _texts(items, getattr(data, "bytes", None)) if list_name == "sizes" else [read(value) for value in items]


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise MalformedDomainError(f"{ascii(value)[:40]} as a whole number")
    return value


def _integer(value: Any) -> int:
    if not -(2**31) <= _whole(value) < 2**31:
        raise MalformedDomainError(f"{value} as an integer")
    return int(value)


def _bigint(value: Any) -> int:
    if not -(2**63) <= _whole(value) < 2**63:
        raise MalformedDomainError(f"{value} as a bigint")
    return int(value)


def _double(value: Any) -> float:
    if type(value) not in {int, float} or math.isnan(value):
        raise MalformedDomainError(f"{ascii(value)[:40]} as the end of a range")
    return float(value)


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise MalformedDomainError(f"{ascii(value)[:40]} as a boolean")
    return value


def _date(value: Any) -> dt.date:
    try:
        return _EPOCH_DATE + dt.timedelta(days=_whole(value))
    except OverflowError:
        raise MalformedDomainError(f"day {value} is beyond the years 1 to 9999") from None


def _timestamp(value: Any) -> dt.datetime:
    try:
        return _EPOCH + dt.timedelta(milliseconds=_whole(value))
    except OverflowError:
        raise MalformedDomainError(f"millisecond {value} is beyond the years 1 to 9999") from None


def _texts(sizes: Sequence[Any], data: Any) -> list[str]:
    if any(_whole(size) < 0 for size in sizes):
        raise MalformedDomainError("a text of a size below zero")
    ends = list(itertools.accumulate(sizes))
    try:
        encoded = b"" if data is None else data.encode() if isinstance(data, str) else bytes(data)
        if len(encoded) != sum(sizes):
            raise MalformedDomainError("a text of another length than is said")
        return [encoded[end - size : end].decode() for end, size in zip(ends, sizes, strict=True)]
    except (UnicodeError, TypeError):
        raise MalformedDomainError("a text that is not UTF-8") from None


_NO_READER: Callable[[Any], Any] = _whole
# By type: the field of the block, the list in it, and what makes a value of its member.
READERS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "integer": ("integerData", "ints", _integer),
    "bigint": ("bigintData", "longs", _bigint),
    "double": ("doubleData", "doubles", _double),
    "varchar": ("varcharData", "sizes", _NO_READER),
    "boolean": ("booleanData", "booleans", _boolean),
    "date": ("dateData", "dates", _date),
    "timestamp": ("timestampData", "timestamps", _timestamp),
}
