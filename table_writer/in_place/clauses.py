"""The clauses of changes in place, whatever computes the rows: which rows each is for, and what happens to them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import NoneType
from typing import Any, Final

import pyarrow as pa

from table_format.errors import ArgumentError, SchemaError, did_you_mean
from table_format.meta_columns import COMMIT_TIME, META_COLUMNS
from table_writer.in_place.expressions import DIALECT, SOURCE, TARGET, Expressions, meant

#: Number of the clause that a row of the result fulfils.
CLAUSE: Final = "_hudi_catalog_clause"
#: Prefix of columns of the result that are the table's as they were.
OLD: Final = "_hudi_catalog_old_"
#: A column of the source that has a value in each of its rows.
PRESENT: Final = "_hudi_catalog_present"
#: Likewise of the table; its values are few, so that reading it costs little.
STORED: Final = COMMIT_TIME


class Kind(Enum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"

    @property
    def test(self) -> str:
        """The condition that a row is of the kind."""
        target, source = f"{TARGET}.{STORED} IS", f"{SOURCE}.{PRESENT} IS"
        return {
            Kind.MATCHED: f"{target} NOT NULL AND {source} NOT NULL",
            Kind.NOT_MATCHED: f"{target} NULL",
            Kind.NOT_MATCHED_BY_SOURCE: f"{source} NULL",
        }[self]


@dataclass(frozen=True)
class Clause:
    """What happens to some rows: they are updated or inserted with some values, or deleted.

    Attributes:
        kind: which rows.
        values: columns and the expressions of their values; None to delete.
        condition: an expression; None for all rows of the kind.
    """

    kind: Kind
    values: Mapping[str, str] | None
    condition: str | None = None

    @property
    def inserts(self) -> bool:
        """Whether rows are added."""
        return self.kind is Kind.NOT_MATCHED


def join_type(clauses: Sequence[Clause]) -> str:
    """The join of the table with the source, in this order, that gives the rows of the clauses' kinds, as SQL."""
    kinds = {clause.kind for clause in clauses}
    left, right = Kind.NOT_MATCHED_BY_SOURCE in kinds, Kind.NOT_MATCHED in kinds
    return {(False, False): "INNER", (True, False): "LEFT", (False, True): "RIGHT", (True, True): "FULL"}[left, right]


def assignments(
    values: Mapping[str, object], schema: pa.Schema, expressions: Expressions, *, sides: Sequence[str]
) -> dict[str, str]:
    """The columns that a clause sets, and the texts of their values.

    Args:
        values: SQL expressions as texts, other objects as they are, by column.
        schema: the table's columns, and new ones.
        expressions: resolves columns.
        sides: whose columns the values may name.

    Raises:
        ArgumentError: no value, or two of one column, or not a mapping.
        SchemaError: a column that the table lacks, or a time without a zone for a column of instants.
        ExpressionError: a text is no expression of these columns.
    """
    if not isinstance(values, Mapping) or not values:
        raise ArgumentError(f"values are a dict from columns to SQL expressions or values, not {values!r}")
    assigned = {}
    for name, value in values.items():
        column = meant(str(name).removeprefix(f"{TARGET}."), schema.names)
        if column is None or column in META_COLUMNS:
            hint = did_you_mean(str(name), schema.names)
            raise SchemaError(f"the table has no column {name!r}{hint}; columns are {schema.names}")
        if column in assigned:
            raise ArgumentError(f"column {column!r} is set twice, by {list(values)}: give it one value")
        if expressions.dialect == DIALECT:
            _refuse_clock_times(value, schema.field(column))
        assigned[column] = expressions.value(value, sides=sides)
    return assigned


def _refuse_clock_times(value: object, field: pa.Field[Any]) -> None:
    """Refuse a time without a zone for a column of instants: DuckDB takes it for one of UTC, as writes do not."""
    if not pa.types.is_timestamp(field.type) or field.type.tz is None:
        return
    if isinstance(value, dt.datetime) and value == value and value.tzinfo is None:  # noqa: PLR0124  pandas' NaT
        raise SchemaError(
            f"the value {value} of column {field.name!r} has no time zone, and Hudi tables hold instants: give it one, "
            "such as value.replace(tzinfo=datetime.UTC)"
        )


def clause_of(
    kind: Kind,
    expressions: Expressions,
    values: Mapping[str, str] | None,
    condition: object,
    *,
    sides: Sequence[str],
) -> Clause:
    """A clause whose condition is resolved."""
    if not isinstance(condition, (str, NoneType, *expressions.conditions)):
        raise ArgumentError(f"a condition is SQL text, not {condition!r}")
    return Clause(kind, values, None if condition is None else expressions.value(condition, sides=sides))
