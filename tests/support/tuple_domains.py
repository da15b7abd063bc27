"""Domains as Trino's Thrift connector sends them: objects with the attributes of the structs."""

import itertools
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

BELOW, EXACTLY, ABOVE = 1, 2, 3
FIELDS = {
    "integer": ("integerData", "ints"),
    "bigint": ("bigintData", "longs"),
    "double": ("doubleData", "doubles"),
    "boolean": ("booleanData", "booleans"),
    "date": ("dateData", "dates"),
    "timestamp": ("timestampData", "timestamps"),
}


Block = type("Block", (), dict.fromkeys((*(name for name, _ in FIELDS.values()), "varcharData", "jsonData")))
Block.__doc__ = "A block with no field set."


class Data:
    """The one row of a block."""

    nulls = None

    def __init__(self, name: str, values: list[Any]) -> None:
        setattr(self, name, values)


def block(kind: str, *values: Any) -> Any:
    made = Block()
    if kind in {"varchar", "json"}:
        encoded = [value.encode() for value in values]
        data = Data("sizes", [len(value) for value in encoded])
        data.bytes = b"".join(encoded)
        setattr(made, f"{kind}Data", data)
    else:
        field, name = FIELDS[kind]
        setattr(made, field, Data(name, list(values)))
    return made


def marker(kind: str, value: Any, bound: int) -> SimpleNamespace:
    return SimpleNamespace(value=None if value is None else block(kind, value), bound=bound)


def span(kind: str, text: str, low: Any = None, high: Any = None) -> SimpleNamespace:
    """A range; the text is the brackets: ``[]``, ``(]``, ``()`` or ``[)``."""
    below = marker(kind, low, EXACTLY if text[0] == "[" else ABOVE)
    return SimpleNamespace(low=below, high=marker(kind, high, EXACTLY if text[1] == "]" else BELOW))


def point(kind: str, value: Any) -> SimpleNamespace:
    end = marker(kind, value, EXACTLY)
    return SimpleNamespace(low=end, high=end)


def ranges(*members: SimpleNamespace, null: bool = False) -> SimpleNamespace:
    return _domain(null, rangeValueSet=SimpleNamespace(ranges=list(members)))


def without(kind: str, values: Sequence[Any], *, null: bool = False) -> SimpleNamespace:
    """All but some values, as NOT IN arrives."""
    edges = [None, *values, None]
    return ranges(*(span(kind, "()", a, b) for a, b in itertools.pairwise(edges)), null=null)


def equatable(blocks: Iterable[SimpleNamespace], *, inclusive: bool, null: bool = False) -> SimpleNamespace:
    return _domain(null, equatableValueSet=SimpleNamespace(inclusive=inclusive, values=list(blocks)))


def all_or_none(*, every: bool, null: bool) -> SimpleNamespace:
    return _domain(null, allOrNoneValueSet=SimpleNamespace(all=every))


def _domain(null: bool, **values: Any) -> SimpleNamespace:
    sets = dict.fromkeys(("allOrNoneValueSet", "equatableValueSet", "rangeValueSet")) | values
    return SimpleNamespace(valueSet=SimpleNamespace(**sets), nullAllowed=null)


def tuple_domain(**columns: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(domains=columns)
