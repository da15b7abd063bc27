"""A scan: what is asked of a table. It plans lazily, and reads the planned files only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from catalog.planner import Plan, make_plan
from catalog.read import read_plan
from catalog.scan_options import ScanOptions
from catalog.snapshot import Snapshot
from pushdown.bind import bind
from pushdown.errors import InexactFilterError, UnknownColumnError
from pushdown.expression import HudiExpression
from pushdown.simplify import simplify
from pushdown.sql import parse_sql
from pushdown.walk import reasons_of


@dataclass(frozen=True, eq=False)
class Scan:
    """A question to a table at one instant.

    Attributes:
        snapshot: the table's state.
        filter: as given, not bound; None for all rows.
        columns: names of the columns wanted, in order; None for all.
        options: see `ScanOptions`.
        expression: the filter bound to the columns.
    """

    snapshot: Snapshot
    filter: HudiExpression | None
    columns: tuple[str, ...] | None
    options: ScanOptions
    expression: HudiExpression | None = field(init=False)

    def __post_init__(self) -> None:
        bound = None if self.filter is None else simplify(bind(self.filter, self.snapshot.schema))
        object.__setattr__(self, "expression", bound)
        _check_columns(self.columns, self.snapshot.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns that reading gives."""
        schema = self.snapshot.schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    def plan(self) -> Plan:
        """Which files may hold matching rows, and why."""
        return make_plan(self.snapshot, self.expression, self.options)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, file by file; only a few files are in memory at a time.

        Raises:
            InexactFilterError: a part of the filter was not understood, so rows cannot be selected.
            CorruptFileError: a data file cannot be read.
        """
        if self.expression is not None and (reasons := reasons_of(self.expression)):
            raise InexactFilterError(f"rows cannot be selected by a filter that is not understood: {reasons[0]}")
        return read_plan(self.plan(), self.columns, self.options.threads)

    def to_arrow(self) -> pa.Table:
        """The matching rows as one table, in the order of the plan."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)


def make_scan(
    snapshot: Snapshot,
    condition: str | HudiExpression | None,
    columns: Iterable[str] | None,
    options: Mapping[str, str] | None,
) -> Scan:
    """A scan from what callers give: filters as SQL text or as an expression, options by key."""
    expression: Any = parse_sql(condition) if isinstance(condition, str) else condition
    return Scan(snapshot, expression, None if columns is None else tuple(columns), ScanOptions.parse(options))


def _check_columns(columns: tuple[str, ...] | None, schema: pa.Schema) -> None:
    for position, name in enumerate(columns or ()):
        if name not in schema.names:
            raise UnknownColumnError(f"there is no column {name}; the columns are {', '.join(schema.names)}")
        if name in (columns or ())[:position]:
            raise UnknownColumnError(f"column {name} is asked for twice")
