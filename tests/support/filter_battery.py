"""Random filters over the values of a table."""

import random
from typing import Any

import pyarrow as pa

from pushdown import HudiExpression, col


def random_filter(table: pa.Table, favourites: list[str], chance: random.Random, depth: int = 2) -> HudiExpression:
    """A filter on primitive columns; `favourites` (keys, partition columns) are chosen more often."""
    if depth == 0 or chance.random() < 0.4:
        return _leaf(table, favourites, chance)
    left = random_filter(table, favourites, chance, depth - 1)
    kind = chance.random()
    if kind < 0.15:
        return ~left
    right = random_filter(table, favourites, chance, depth - 1)
    return left & right if kind < 0.6 else left | right


def _leaf(table: pa.Table, favourites: list[str], chance: random.Random) -> HudiExpression:
    primitive = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    name = chance.choice(primitive + favourites * 4)
    column = table.column(name)
    drawn = [column[chance.randrange(len(column))].as_py() for _ in range(4)]
    values = [value for value in drawn if value is not None]
    if not values or chance.random() < 0.15:
        return chance.choice([col(name).is_null(), ~col(name).is_null()])
    value: Any = values[0]
    if isinstance(value, str) and chance.random() < 0.2:
        return col(name).starts_with(value[: chance.randrange(3)])
    return chance.choice(
        [
            col(name) == value,
            col(name) == value,
            col(name) != value,
            col(name) < value,
            col(name) <= value,
            col(name) > value,
            col(name) >= value,
            col(name).is_in(values),
            col(name).is_in(values),
            col(name).not_in(values),
            col(name).eq_null_safe(value),
        ]
    )
