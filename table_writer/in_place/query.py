"""The query that computes the rows of a change in place, and its run by DuckDB."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import pyarrow as pa

from table_format.errors import RecordError, require
from table_format.meta_columns import IS_DELETED, RECORD_KEY
from table_writer.in_place.expressions import SOURCE, TARGET, named, quoted

#: Number of the clause that a row of the result fulfils.
CLAUSE: Final = "_hudi_catalog_clause"
#: Prefix of columns of the result that are the table's as they were.
OLD: Final = "_hudi_catalog_old_"
#: A column of the source that has a value in each of its rows.
PRESENT: Final = "_hudi_catalog_present"


class Kind(Enum):
    """Which rows a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"

    @property
    def test(self) -> str:
        """The condition that a row is of the kind."""
        target, source = f"{named(TARGET, RECORD_KEY)} IS", f"{named(SOURCE, PRESENT)} IS"
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


@dataclass(frozen=True)
class Query:
    """A query over the rows of the table, and those of a source.

    Attributes:
        schema: columns of its rows, without those that it adds: whether the row is deleted, the number of its clause,
            and `old`.
        kept: of these, those whose values deleted rows have too.
        clauses: the first one that a row fulfils decides.
        on: which rows match; None for an update, which has no source.
        old: columns of the table that are returned as they were.
        parameters: see `Expressions`.
    """

    schema: pa.Schema
    kept: Sequence[str]
    clauses: Sequence[Clause]
    on: str | None = None
    old: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def sql(self, types: Mapping[str, str]) -> str:
        """The text, for tables that are called `target` and `source`.

        Args:
            types: DuckDB's types of the columns.
        """
        columns = [f"CASE {' '.join(self._cases())} END AS {CLAUSE}"]
        columns += [f"{self._value(name, types[name])} AS {quoted(name)}" for name in self.schema.names]
        gone = [str(number) for number, clause in enumerate(self.clauses) if clause.values is None]
        columns.append(f"{CLAUSE} IN ({', '.join(gone)}) AS {IS_DELETED}" if gone else f"FALSE AS {IS_DELETED}")
        columns += [f"{named(TARGET, name)} AS {quoted(OLD + name)}" for name in self.old]
        return f"SELECT {', '.join(columns)} FROM {self._tables()} WHERE {CLAUSE} IS NOT NULL"  # noqa: S608 - resolved

    def _cases(self) -> Iterator[str]:
        for number, clause in enumerate(self.clauses):
            tests = [] if self.on is None else [clause.kind.test]
            tests += [] if clause.condition is None else [f"({clause.condition})"]
            yield f"WHEN {' AND '.join(tests) or 'TRUE'} THEN {number}"

    def _value(self, name: str, kind: str) -> str:
        cases = []
        for number, clause in enumerate(self.clauses):
            if clause.values is None:
                value = named(TARGET, name) if name in self.kept else "NULL"
            elif name in clause.values:
                value = f"CAST({clause.values[name]} AS {kind})"
            else:
                value = "NULL" if clause.inserts else named(TARGET, name)
            cases.append(f"WHEN {number} THEN {value}")
        return f"CASE {CLAUSE} {' '.join(cases)} END"

    def _tables(self) -> str:
        if self.on is None:
            return TARGET
        kinds = {clause.kind for clause in self.clauses}
        left, right = Kind.NOT_MATCHED_BY_SOURCE in kinds, Kind.NOT_MATCHED in kinds
        side = {(False, False): "INNER", (True, False): "LEFT", (False, True): "RIGHT", (True, True): "FULL"}
        return f"{TARGET} {side[left, right]} JOIN {SOURCE} ON {self.on}"

    def run(self, target: pa.RecordBatchReader, source: pa.Table | None, memory: int) -> Iterator[pa.RecordBatch]:
        """The rows.

        Args:
            target: rows of the table.
            source: rows of the source, `PRESENT` among its columns.
            memory: bytes that the join holds; beyond them it uses temporary files.

        Raises:
            MissingPackageError: DuckDB is not installed.
            RecordError: a value that its column cannot hold, or an expression that DuckDB refuses.
        """
        require("a change in place", "sql", "duckdb")
        import duckdb

        failures: list[BaseException] = []

        def watched() -> Iterator[pa.RecordBatch]:
            try:
                yield from target
            except BaseException as error:
                failures.append(error)  # DuckDB would raise its own, with the text of this one
                raise

        with contextlib.closing(duckdb.connect(config={"memory_limit": f"{max(memory, 64 << 20)}B"})) as connection:
            # timestamps without a zone are compared with instants as if they were of this one
            connection.execute("SET TimeZone = 'UTC'")
            connection.register(TARGET, pa.RecordBatchReader.from_batches(target.schema, watched()))
            if source is not None:
                connection.register(SOURCE, source)
            connection.register("shape", self.schema.empty_table())
            types = {name: str(kind) for name, kind, *_ in connection.execute("DESCRIBE shape").fetchall()}
            try:
                result = connection.sql(self.sql(types), params=dict(self.parameters) or None)
                yield from pa.RecordBatchReader.from_stream(result)
            except (duckdb.Error, pa.ArrowException) as error:
                if failures:
                    raise failures[0] from error
                reason = str(error).partition("\n")[0]
                raise RecordError(f"the change cannot be computed: {reason}") from error
