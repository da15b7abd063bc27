"""Random filters as Trino's connector sends them, domains and conditions, and for which rows of a table they are true.

Truth is found in plain Python by Trino's rules: NaN lies in no range and equals nothing, both zeros are one number.
"""

from __future__ import annotations

import base64
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_catalog.trino.connector.types import plain_type, trino_type

types = pa.types
Truth = bool | None
_COMPARABLE = (
    *(types.is_boolean, types.is_signed_integer, types.is_floating, types.is_decimal128, types.is_string),
    *(types.is_binary, types.is_date32, types.is_timestamp),
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$equal": lambda a, b: a == b,
    "$not_equal": lambda a, b: a != b,
    "$less_than": lambda a, b: a < b,
    "$less_than_or_equal": lambda a, b: a <= b,
    "$greater_than": lambda a, b: a > b,
    "$greater_than_or_equal": lambda a, b: a >= b,
}
_MOST_PICOS = 10**6


def ordered(value: Any) -> Any:
    """A value by which Trino sorts: texts by their bytes."""
    return value.encode() if isinstance(value, str) else value


def in_json(value: Any, kind: Any) -> Any:
    """A value as `docs/reference/connector.md` says; dates and times are numbers here."""
    if value is None:
        return None
    if types.is_floating(kind):
        return value if math.isfinite(value) else f"{'-' if value < 0 else ''}Infinity"
    if types.is_decimal(kind):
        return format(value, "f")
    if types.is_binary(kind):
        return base64.b64encode(value).decode()
    return str(value * _MOST_PICOS) if types.is_timestamp(kind) else value


@dataclass(frozen=True, eq=False)
class Column:
    """A column, or a field of a row.

    Attributes:
        name: of the column, in Trino.
        kind: of the values.
        values: of all rows; dates in days, times in microseconds.
        path: of the field.
    """

    name: str
    kind: Any
    values: Sequence[Any] = field(repr=False)
    path: tuple[int, ...] = ()

    @cached_property
    def pool(self) -> list[Any]:
        """Values that literals are made of."""
        return [value for value in self.values if value is not None and value == value]

    @property
    def node(self) -> dict[str, Any]:
        node: dict[str, Any] = {"column": self.name}
        for number in self.path:
            node = {"field": number, "of": node | {"type": "row"}}
        return node | {"type": trino_type(self.kind)}

    def literal(self, chance: random.Random) -> Any:
        """A value of the table, or one near it."""
        value = chance.choice(self.pool)
        return self._near(value, chance) if chance.random() < 1 / 3 else value

    def _near(self, value: Any, chance: random.Random) -> Any:
        kind = self.kind
        if types.is_boolean(kind):
            return not value
        if types.is_string(kind):
            return chance.choice(["", value[:-1], value[:3], value + "a", value + "\U0010ffff"])
        if types.is_binary(kind):
            return chance.choice([b"", value[:-1], value + b"\0"])
        if types.is_floating(kind):
            return chance.choice([0.0, -0.0, math.inf, -math.inf, value + 1])
        if types.is_decimal(kind):
            return value + chance.choice([-1, 1]) * Decimal(1).scaleb(-kind.scale)
        if types.is_integer(kind):
            most = 2 ** (kind.bit_width - 1)
            return max(-most, min(most - 1, value + chance.choice([-1, 1])))
        return value + chance.choice([-1, 1])

    def literals(self, most: int, chance: random.Random) -> list[Any]:
        """Literals, sorted, each once."""
        some = {ordered(value): value for value in (self.literal(chance) for _ in range(chance.randint(1, most)))}
        return [some[one] for one in sorted(some)]


def columns_of_rows(rows: pa.Table) -> list[Column]:
    """The columns of a table, and the fields of its structs, that Trino compares."""
    columns = []
    for name in rows.column_names:
        whole: Any = rows[name].combine_chunks()
        kind = plain_type(whole.type)
        if types.is_struct(kind):
            for number, one in enumerate(kind):
                values = pc.struct_field(whole, number)
                columns += [Column(name.lower(), one.type, _plain(values), (number,))] if _compares(one.type) else []
        elif _compares(kind):
            columns.append(Column(name.lower(), kind, _plain(whole)))
    return columns


def _compares(kind: pa.DataType) -> bool:
    return any(test(kind) for test in _COMPARABLE)


def _plain(array: Any) -> list[Any]:
    if types.is_date32(array.type):
        array = array.cast(pa.int32())
    if types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


@dataclass
class Filter:
    """A filter of a request, and which rows pass it."""

    rows: list[bool]
    domains: dict[str, Any] = field(default_factory=dict)
    conditions: list[Any] = field(default_factory=list)

    @property
    def members(self) -> dict[str, Any]:
        """The request's."""
        return {"domains": [{"columns": self.domains}] if self.domains else [], "conditions": self.conditions}

    def of_rows(self, values: Sequence[Any]) -> list[Any]:
        """Those of the rows that pass."""
        return [value for value, passes in zip(values, self.rows, strict=True) if passes]


def draw_filter(columns: Sequence[Column], favourites: Sequence[Column], rows: int, chance: random.Random) -> Filter:
    """A filter of up to three domains and two conditions; `favourites` are chosen more often."""
    made = Filter([True] * rows)
    chosen = chance.sample(columns, min(len(columns), chance.randint(0, 2)))
    chosen += [chance.choice(favourites)] if favourites and chance.random() < 1 / 2 else []
    for column in chosen:
        if column.name not in made.domains:
            domain, contains = _domain(column, chance)
            made.domains[column.name] = domain | ({"path": [*column.path]} if column.path else {})
            made.rows = [passes and contains(value) for passes, value in zip(made.rows, column.values, strict=True)]
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        node, truths = _condition(columns, chance, 2)
        made.conditions.append(node)
        made.rows = [passes and truth is True for passes, truth in zip(made.rows, truths, strict=True)]
    return made


def _domain(column: Column, chance: random.Random) -> tuple[dict[str, Any], Callable[[Any], bool]]:
    """A domain, and whether it contains a value."""
    null = chance.random() < 1 / 3
    shape = chance.randrange(6) if column.pool else 0
    if shape == 0:
        return {"null": null, "all": True}, lambda value: null if value is None else True
    if shape == 1:
        return {"null": null, "ranges": []}, lambda value: null if value is None else False
    if shape <= 3:
        values = column.literals(4, chance)
        domain = {"null": null, "in": [in_json(value, column.kind) for value in values]}
        return domain, lambda value: null if value is None else value in values
    ranges = _ranges(column.literals(5, chance), chance)
    domain = {
        "null": null,
        "ranges": [[in_json(low, column.kind), a, in_json(high, column.kind), b] for low, a, high, b in ranges],
    }
    return domain, lambda value: null if value is None else any(_is_between(value, one) for one in ranges)


_Range = tuple[Any, bool, Any, bool]


def _ranges(ends: list[Any], chance: random.Random) -> list[_Range]:
    """Ranges that do not touch, of some ends in their order."""
    ranges: list[_Range] = []
    if chance.random() < 1 / 3:
        ranges.append((None, False, ends.pop(0), chance.random() < 1 / 2))
    while ends:
        low = ends.pop(0)
        if chance.random() < 1 / 3:
            ranges.append((low, True, low, True))
        else:
            high = ends.pop(0) if ends else None
            ranges.append((low, chance.random() < 1 / 2, high, high is not None and chance.random() < 1 / 2))
    return ranges


def _is_between(value: Any, one: _Range) -> bool:
    low, low_exact, high, high_exact = (ordered(end) for end in one)
    if value != value:
        return False
    value = ordered(value)
    above = low is None or value > low or (low_exact and value == low)
    return above and (high is None or value < high or (high_exact and value == high))


def _condition(columns: Sequence[Column], chance: random.Random, depth: int) -> tuple[dict[str, Any], list[Truth]]:
    """A tree, and its truth for each row."""
    if not depth or chance.random() < 1 / 3:
        return _leaf(chance.choice(columns), chance)
    name = chance.choice(["$and", "$or", "$or", "$not"])
    parts = [_condition(columns, chance, depth - 1) for _ in range(1 if name == "$not" else chance.randint(2, 3))]
    node = _call(name, *(part for part, _ in parts))
    if name == "$not":
        return node, [None if truth is None else not truth for truth in parts[0][1]]
    decisive = name == "$or"
    rows = zip(*(truths for _, truths in parts), strict=True)
    return node, [decisive if decisive in row else None if None in row else not decisive for row in rows]


def _call(name: str, *arguments: Any, kind: str = "boolean") -> dict[str, Any]:
    return {"call": name, "args": [*arguments], "type": kind}


def _leaf(column: Column, chance: random.Random) -> tuple[dict[str, Any], list[Truth]]:
    def literal(value: Any) -> dict[str, Any]:
        return {"value": in_json(value, column.kind), "type": trino_type(column.kind)}

    def truths(test: Callable[[Any], Truth]) -> list[Truth]:
        return [None if value is None else test(value) for value in column.values]

    shape = chance.randrange(7) if column.pool else 0
    if shape == 0:
        return _call("$is_null", column.node), [value is None for value in column.values]
    if shape == 1:
        values = [column.literal(chance) for _ in range(chance.randint(1, 3))]
        null = chance.random() < 1 / 4
        array = _call("$array", *map(literal, [*values, *([None] if null else [])]), kind="array")
        return _call("$in", column.node, array), truths(lambda value: value in values or (None if null else False))
    value = column.literal(chance)
    if shape == 2:
        node = _call("$identical", column.node, literal(value))
        return node, [one is not None and one == value for one in column.values]
    if shape == 3 and types.is_string(column.kind):
        prefix = value[: chance.randint(0, 3)]
        node = _call("starts_with", column.node, {"value": prefix, "type": "varchar"})
        return node, truths(lambda one: bool(one.startswith(prefix)))
    name = chance.choice([*_COMPARISONS])
    compare = _COMPARISONS[name]
    return _call(name, column.node, literal(value)), truths(lambda one: compare(ordered(one), ordered(value)))
