"""Updates and merges: the clauses that Delta's users know, as a change that the writer takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from table_format.errors import ArgumentError, SchemaError
from table_format.meta_columns import META_COLUMNS
from table_format.schema.evolution import merge_schemas, refuse_duplicates, storage_schema
from table_format.table.client import TableClient
from table_writer.early_checks import refuse_widened_keys
from table_writer.in_place.change import Change
from table_writer.in_place.clauses import Clause, Kind, assignments, clause_of
from table_writer.in_place.expressions import SOURCE, TARGET, Expressions
from table_writer.in_place.matching import equalities, join_condition, with_equal_keys

if TYPE_CHECKING:
    from table_writer.summary import WriteSummary
    from table_writer.table_writes import Options

Values = Mapping[str, Any]
#: Makes the expressions of sides that have these columns.
Dialect = Callable[[Mapping[str, Sequence[str]]], Expressions]


def update_of(client: TableClient, values: Values, where: Any, dialect: Dialect | None = None) -> Change:
    """The change that `Table.update` makes."""
    schema = _columns_of(client)
    expressions = (dialect or Expressions)({TARGET: schema.names})
    assigned = assignments(values, schema, expressions, sides=(TARGET,))
    clauses = [Clause(Kind.MATCHED, assigned)]
    return Change(client, schema, clauses, expressions, filter=where)


class Merge:
    """A merge of rows into a table; made by `Table.merge`.

    Of each kind of row the first clause whose condition it fulfils is used; a row that fulfils none stays as it is, or
    is left out. Values and conditions are SQL in DuckDB's dialect, which calls the sides `target` and `source`; a value
    that is no text stands for itself.

    Args:
        client: the table.
        source: the rows, in a form that the one who computes the change takes.
        on: see `Table.merge`.
        commit: makes a change, with the options of a write.
        columns: the source's.
        dialect: of the texts; DuckDB's by default.
    """

    def __init__(
        self,
        client: TableClient,
        source: Any,
        on: str | Sequence[str],
        commit: Callable[[Change, Options | None], WriteSummary],
        *,
        columns: pa.Schema,
        dialect: Dialect = Expressions,
    ) -> None:
        self._client = client
        self._commit = commit
        self._schema = _columns_of(client)
        self._source = source
        self._columns = pa.schema([field for field in columns if field.name not in META_COLUMNS])
        refuse_duplicates(columns.names)
        self._expressions = dialect({TARGET: self._schema.names, SOURCE: columns.names})
        self._on = with_equal_keys(join_condition(on, self._expressions), client.config.record_key_fields)
        self._clauses: list[Clause] = []
        self._evolves = False

    def with_schema_evolution(self) -> Self:
        """Let clauses add columns of the source that the table lacks: `…_all` clauses all of them, others by name."""
        if self._clauses:
            raise ArgumentError("with_schema_evolution comes before the clauses")
        self._evolves = True
        refuse_widened_keys(self._schema, self._columns, self._client.config)
        self._schema = merge_schemas(self._schema, storage_schema(self._columns))
        return self

    def when_matched_update(self, values: Values, condition: Any = None) -> Self:
        """Set columns of rows that match."""
        sides = (TARGET, SOURCE)
        return self._add(Kind.MATCHED, self._assigned(values, sides), condition, sides)

    def when_matched_update_all(self, condition: Any = None) -> Self:
        """Set all columns that the source has."""
        return self._add(Kind.MATCHED, self._all(), condition, (TARGET, SOURCE))

    def when_matched_delete(self, condition: Any = None) -> Self:
        """Delete rows that match."""
        return self._add(Kind.MATCHED, None, condition, (TARGET, SOURCE))

    def when_not_matched_insert(self, values: Values, condition: Any = None) -> Self:
        """Insert rows of the source that match none; columns without a value are null."""
        return self._add_insert(self._assigned(values, (SOURCE,)), condition)

    def when_not_matched_insert_all(self, condition: Any = None) -> Self:
        """Insert rows of the source that match none, with all their columns."""
        return self._add_insert(self._all(), condition)

    def when_not_matched_by_source_update(self, values: Values, condition: Any = None) -> Self:
        """Set columns of the table's rows that no row of the source matches; the whole table is read."""
        return self._add(Kind.NOT_MATCHED_BY_SOURCE, self._assigned(values, (TARGET,)), condition, (TARGET,))

    def when_not_matched_by_source_delete(self, condition: Any = None) -> Self:
        """Delete the table's rows that no row of the source matches; the whole table is read."""
        return self._add(Kind.NOT_MATCHED_BY_SOURCE, None, condition, (TARGET,))

    def execute(self, options: Options | None = None) -> WriteSummary:
        """Make the change, in one commit.

        Args:
            options: for this write.

        Raises:
            ArgumentError: there is no clause.
            MissingPackageError: DuckDB is not installed.
            RecordError: a record has several rows in the source; a value that its column cannot hold; or a record
                would get another key, or move to a partition that has its key.
            ConflictError: every attempt conflicted with another writer.
        """
        if not self._clauses:
            raise ArgumentError("a merge needs a clause, such as when_matched_update_all()")
        return self._commit(self._change(), options)

    def _change(self) -> Change:
        old = self._expressions.columns[TARGET]
        assigned = {name for clause in self._clauses for name in clause.values or ()}
        new = [name for name in self._schema.names if name in assigned and name not in old]
        return Change(
            self._client,
            pa.schema([field for field in self._schema if field.name in old or field.name in new]),
            [_with_nulls(clause, new) for clause in self._clauses],
            self._expressions,
            condition=self._on,
            source=self._source,
        )

    def _assigned(self, values: Values, sides: Sequence[str]) -> dict[str, str]:
        return assignments(values, self._schema, self._expressions, sides=sides)

    def _all(self) -> dict[str, str]:
        columns = {name: self._expressions.column(TARGET, name) for name in self._columns.names}
        unknown = [name for name, column in columns.items() if column is None]
        if unknown and not self._evolves:
            raise SchemaError(
                f"the table has no column {unknown[0]!r} of the source; columns are {self._schema.names}. "
                "with_schema_evolution(), or --schema-evolution, adds it"
            )
        return {column or name: self._expressions.named(SOURCE, name) for name, column in columns.items()}

    def _add_insert(self, values: dict[str, str], condition: Any) -> Self:
        equal = {name for name, _ in equalities(self._on, null_safe=True)}
        missing = [name for name in self._client.config.record_key_fields if name not in equal]
        if missing:
            on = self._expressions.sql(self._on)
            raise ArgumentError(
                f"rows that match none may have a key that the table has: the condition {on!r} must say "
                f"that the record key's column {missing[0]!r} equals a value of the source"
            )
        return self._add(Kind.NOT_MATCHED, values, condition, (SOURCE,))

    def _add(self, kind: Kind, values: Values | None, condition: Any, sides: Sequence[str]) -> Self:
        self._clauses.append(clause_of(kind, self._expressions, values, condition, sides=sides))
        return self


def _with_nulls(clause: Clause, new: Sequence[str]) -> Clause:
    """A clause; if it updates rows, with null in the new columns that it does not set, which rows do not have yet."""
    if clause.values is None or clause.inserts:
        return clause
    return replace(clause, values={**clause.values, **{name: "NULL" for name in new if name not in clause.values}})


def _columns_of(client: TableClient) -> pa.Schema:
    """The columns that the table has now."""
    client.reload()
    return client.table_schema()
