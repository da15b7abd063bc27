"""Which rows of a table those of a source can match, told by equalities of the join's condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from pushdown.builder import col
from pushdown.expression import HudiExpression, all_of
from table_writer.in_place.expressions import SOURCE, TARGET, Expressions
from table_writer.plan.arguments import names_of

#: Beyond so many values a range of them is looked for: each costs microseconds, and they hardly spare files any more.
MOST_VALUES = 5_000


def join_condition(on: str | Sequence[str], expressions: Expressions) -> exp.Expression:
    """The condition as a tree: of a text, or of names of columns that are equal on both sides.

    Raises:
        ExpressionError: it is no condition on columns of both.
    """
    if isinstance(on, str) and expressions.column(TARGET, on) is None:
        return expressions.parsed(on, sides=(TARGET, SOURCE))
    on = names_of("columns that are equal", on)
    tests = []
    for name in on:
        for side in (TARGET, SOURCE):
            expressions.parsed(expressions.named(side, name), sides=(side,))
        tests.append(f"{expressions.named(TARGET, name)} = {expressions.named(SOURCE, name)}")
    return expressions.parsed(" AND ".join(tests), sides=(TARGET, SOURCE))


def with_equal_keys(condition: exp.Expression, key: Sequence[str]) -> exp.Expression:
    """The condition with `=` for `<=>` on the record key, which matches the same rows: a key of one column is not null.

    A column of a key of several may be null, which `<=>` matches.
    """
    for test in conjuncts(condition):
        bare = test.unnest()
        sides = (bare.this, bare.expression) if isinstance(bare, exp.NullSafeEQ) else ()
        if any(isinstance(side, exp.Column) and (side.table, [side.name]) == (TARGET, [*key]) for side in sides):
            equal = exp.EQ(this=bare.this, expression=bare.expression)
            if bare is condition:
                return equal
            bare.replace(equal)
    return condition


def conjuncts(condition: Any) -> list[exp.Expression]:
    """The conditions that must all hold, however parentheses group them."""
    bare = condition.unnest()
    return [*conjuncts(bare.left), *conjuncts(bare.right)] if isinstance(bare, exp.And) else [condition]


def equalities(condition: exp.Expression, *, null_safe: bool = False) -> Iterator[tuple[str, exp.Expression]]:
    """Columns of the table that must equal an expression of the source.

    Args:
        condition: of the join.
        null_safe: `IS NOT DISTINCT FROM` counts, too.
    """
    kinds = (exp.EQ, exp.NullSafeEQ) if null_safe else (exp.EQ,)
    for test in conjuncts(condition):
        bare = test.unnest()
        if not isinstance(bare, kinds):
            continue
        for left, right in ((bare.this, bare.expression), (bare.expression, bare.this)):
            tables = {column.table for column in right.find_all(exp.Column)}
            if isinstance(left, exp.Column) and left.table == TARGET and tables <= {SOURCE}:
                yield left.name, right


def same_columns(condition: exp.Expression, names: Sequence[str]) -> bool:
    """Whether a condition is that these columns are equal on both sides, and nothing else."""
    tests = conjuncts(condition)
    pairs = [(name, value.name) for name, value in equalities(condition) if isinstance(value, exp.Column)]
    return len(tests) == len(names) and sorted(pairs) == sorted((name, name) for name in names)


def filter_of_source(condition: exp.Expression, table: pa.Schema, source: pa.Table) -> HudiExpression | None:
    """A condition that each row of the table fulfils which matches some row of the source; None for none.

    Args:
        condition: of the join.
        table: the table's columns.
        source: its rows.
    """
    tests = [_among(name, source[column]) for name, column in comparable_columns(condition, table, source.schema)]
    return all_of(*tests) if tests else None


def rows_to_join(rows: pa.RecordBatch, column: str, values: pa.Array[Any]) -> pa.RecordBatch:
    """The rows that can match one of the source: those with one of the values of `most_selective`."""
    present = rows.column(column)
    kind = pa.int64() if pa.types.is_integer(present.type) else present.type
    return rows.filter(pc.is_in(present.cast(kind), value_set=values))


def most_selective(condition: exp.Expression, table: pa.Schema, source: pa.Table) -> tuple[str, pa.Array[Any]] | None:
    """The column of the table which must equal one of the source, and its values there; of several the one with most.

    Whole numbers are of 64 bits. None where the condition has no such column.
    """
    sets = []
    for name, column in comparable_columns(condition, table, source.schema):
        values = pc.unique(source[column]).drop_null()
        sets.append((name, values.cast(pa.int64()) if pa.types.is_integer(values.type) else values))
    return max(sets, key=lambda one: len(one[1]), default=None)


def comparable_columns(condition: exp.Expression, table: pa.Schema, source: pa.Schema) -> Iterator[tuple[str, str]]:
    """Columns of the table, and those of the source that they equal, whose equality means the same everywhere."""
    for name, value in equalities(condition):
        known = isinstance(value, exp.Column) and name in table.names and value.name in source.names
        if known and _is_comparable(table.field(name).type, source.field(value.name).type):
            yield name, value.name


def _is_comparable(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether equality has one meaning in SQL and in plans: of whole numbers, texts, days and booleans."""
    types = pa.types
    if types.is_integer(kind):
        return bool(types.is_signed_integer(other))
    return kind == other and bool(types.is_string(kind) or types.is_date32(kind) or types.is_boolean(kind))


def _among(name: str, values: Any) -> HudiExpression:
    distinct = pc.unique(values).drop_null()
    if not len(distinct):
        return col(name).is_null() & col(name).is_not_null()
    if len(distinct) <= MOST_VALUES:
        return col(name).is_in(distinct.to_pylist())
    bounds = pc.min_max(distinct).as_py()
    return col(name).between(bounds["min"], bounds["max"])
