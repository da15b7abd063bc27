"""A scan: a query on a table. It plans lazily, and reads only the planned files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from catalog.planner import Plan, make_plan
from catalog.read import count_plan, read_plan
from catalog.snapshots.incremental import InstantRange
from catalog.snapshots.scan_options import ScanOptions
from catalog.snapshots.snapshot import Snapshot
from pushdown.binding.bind import bind
from pushdown.columns import unknown_column
from pushdown.errors import InexactFilterError, UnknownColumnError
from pushdown.expression import HudiExpression, all_of
from pushdown.simplify import simplify
from pushdown.walk import reasons_of
from table_format.errors import MissingPackageError, require


@dataclass(frozen=True, eq=False)
class Scan:
    """A query on a table at one instant.

    Attributes:
        snapshot: the table's state.
        filter: as given, not bound; None for all rows.
        columns: names of the columns wanted, in order; None for all.
        options: see `ScanOptions`.
        instants: the writes whose rows are wanted; None for all.
        case_sensitive: whether columns of the filter that differ in case are different ones.
        time_zone: of the filter's dates and clock times where they meet instants.
        expression: what rows must meet: the filter bound to the columns, and that they are of those writes.
    """

    snapshot: Snapshot
    filter: HudiExpression | None
    columns: tuple[str, ...] | None
    options: ScanOptions
    instants: InstantRange | None = None
    case_sensitive: bool = False
    time_zone: str = "UTC"
    expression: HudiExpression | None = field(init=False)

    def __post_init__(self) -> None:
        conditions = [self.filter] if self.instants is None else [self.filter, self.instants.predicate()]
        schema = self.snapshot.schema
        bound = [
            bind(one, schema, case_sensitive=self.case_sensitive, time_zone=self.time_zone)
            for one in conditions
            if one is not None
        ]
        object.__setattr__(self, "expression", simplify(all_of(*bound)) if bound else None)
        _check_columns(self.columns, schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        schema = self.snapshot.schema
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    def plan(self) -> Plan:
        """Which files may hold matching rows, and why."""
        return make_plan(self.snapshot, self.expression, self.options, self.instants)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The matching rows, file by file; only a few files are in memory at a time.

        Raises:
            InexactFilterError: a part of the filter was not understood, so rows cannot be selected.
            CorruptFileError: a data file cannot be read.
        """
        self._check_understood()
        return read_plan(self.plan(), self.columns, self.options.threads)

    def to_batch_reader(self) -> pa.RecordBatchReader:
        """The same as a reader, which other libraries take as a stream; it is read once."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """The matching rows as one table, in the order of the plan."""
        return pa.Table.from_batches(list(self.to_batches()), self.schema)

    def to_pandas(self, **arguments: Any) -> Any:
        """The matching rows as a pandas DataFrame.

        Args:
            arguments: for `pyarrow.Table.to_pandas`.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        require("to_pandas", "spark", "pandas", how="pip install pandas, or take to_arrow()")
        return self.to_arrow().to_pandas(**arguments)

    def to_duckdb(self, name: str = "hudi", connection: Any = None) -> Any:
        """The matching rows as a table of DuckDB, held in memory.

        Args:
            name: of the table there.
            connection: a connection of DuckDB; a new one in memory when None.

        Returns:
            The connection.

        Raises:
            MissingPackageError: DuckDB is not installed.
        """
        try:
            duckdb: Any = importlib.import_module("duckdb")
        except ImportError as error:
            raise MissingPackageError("to_duckdb needs duckdb: pip install duckdb, or take to_arrow()") from error
        target = duckdb.connect(":memory:") if connection is None else connection
        target.register(name, self.to_arrow())
        return target

    def count(self) -> int:
        """How many rows match; where statistics and footers tell it exactly, no row is read.

        Raises:
            InexactFilterError: a part of the filter was not understood, so rows cannot be selected.
            CorruptFileError: a data file cannot be read.
        """
        self._check_understood()
        return count_plan(self.plan(), self.options.threads)

    def _check_understood(self) -> None:
        if self.expression is not None and (reasons := reasons_of(self.expression)):
            raise InexactFilterError(f"rows cannot be selected by a filter that is not understood: {reasons[0]}")


def _check_columns(columns: tuple[str, ...] | None, schema: pa.Schema) -> None:
    for position, name in enumerate(columns or ()):
        if name not in schema.names:
            raise unknown_column(name, schema)
        if name in (columns or ())[:position]:
            raise UnknownColumnError(f"column {name} is asked for twice")
