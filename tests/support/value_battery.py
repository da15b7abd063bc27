"""Filters for every column of a table: each of its values equal, less, greater, in lists, and null."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from pushdown import HudiExpression, col
from tests.support.lost_rows import FullScan
from tests.support.table_values import python_values


def leaf_columns(rows: pa.Table) -> Iterator[tuple[str, Any]]:
    """Columns that are compared, fields of structs too."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        kind = column.type
        if pa.types.is_struct(kind):
            whole: Any = column.combine_chunks()
            fields = [field.name for field in kind]
            yield from leaf_columns(pa.table([whole.field(f) for f in fields], names=[f"{name}.{f}" for f in fields]))
        elif not pa.types.is_nested(kind):
            yield name, column


def battery(full: FullScan, most_values: int, seed: int = 0) -> Iterator[HudiExpression]:
    """Filters over all values of each column, of many values so many at random."""
    chance = random.Random(seed)
    for name, column in leaf_columns(full.rows):
        column_filter = col(name)
        yield column_filter.is_null()
        yield column_filter.is_not_null()
        yield column_filter.eq_null_safe(None)
        values = python_values(column)
        if len(values) > most_values:
            values = [min(values), max(values), *chance.sample(values, most_values - 2)]
        for value in values:
            yield column_filter == value
            yield column_filter.eq_null_safe(value)
            yield column_filter < value
            yield column_filter > value
            yield ~(column_filter <= value)
            yield column_filter.is_in([value, None])
            yield column_filter.not_in([value])
            if isinstance(value, str):
                yield column_filter.starts_with(value[:1])
                yield ~column_filter.starts_with(value[:2])
        yield column_filter.is_in(values)
        yield column_filter.is_in(values[::2])
        yield column_filter.not_in(values[1:])
