"""A change in place: which rows of the table it reads, and the rows that it writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from table_format.meta_columns import META_COLUMNS
from table_format.metadata_table.layout import RECORD_INDEX
from table_format.metadata_table.record_index import is_private
from table_format.table.client import TableClient
from table_writer.in_place.clauses import STORED, Clause, Kind
from table_writer.in_place.expressions import SOURCE, TARGET, Expressions
from table_writer.in_place.matching import equalities, same_columns


def negative_zero(column: str) -> str:
    """An SQL expression of every dialect: whether a column's value is -0.0."""
    return f"({column} = CAST(0 AS DOUBLE) AND CAST({column} AS STRING) LIKE '-%')"


@dataclass(frozen=True)
class Change:
    """An update or a merge.

    Attributes:
        client: the table.
        schema: its columns, and new ones that the change adds.
        clauses: what happens to which rows.
        expressions: those of the clauses.
        filter: rows of the table that an update concerns, in a form that the one who computes it takes.
        condition: which rows match; None for an update.
        source: the rows that are merged, in a form that the one who computes them takes.
    """

    client: TableClient
    schema: pa.Schema
    clauses: Sequence[Clause]
    expressions: Expressions
    filter: Any = None
    condition: exp.Expression | None = None
    source: Any = None

    @property
    def on(self) -> str | None:
        """The condition as SQL."""
        if self.condition is None:
            return None
        text, signs = self.expressions.sql(self.condition), self.signs
        return " AND ".join([f"({text})", *signs]) if signs else text

    @property
    def signs(self) -> list[str]:
        """Conditions that belong to the equalities of key and partition: that zeros have the same sign.

        -0.0 and 0.0 are equal in SQL, and Hudi makes two keys of them. As equations, a join hashes them, too.
        """
        if self.condition is None:
            return []
        numbers = set(self.floating_identity)
        pairs = ((name, of.name) for name, of in equalities(self.condition) if isinstance(of, exp.Column))
        named = self.expressions.named
        return [
            f"{negative_zero(named(TARGET, name))} = {negative_zero(named(SOURCE, column))}"
            for name, column in pairs
            if name in numbers
        ]

    @property
    def floating_identity(self) -> list[str]:
        """The columns of key and partition that are floating-point numbers."""
        return [name for name in self.identity if pa.types.is_floating(self.schema.field(name).type)]

    @property
    def is_partial(self) -> bool:
        """Whether only some columns of records are written."""
        return self.is_upsert or not (self.moves or any(clause.inserts for clause in self.clauses))

    @property
    def written(self) -> pa.Schema:
        """The columns that are written."""
        if not self.is_partial:
            return self.schema
        values = [clause.values or {} for clause in self.clauses]
        names = {*self.identity, *(name for assigned in values for name in assigned)}
        return pa.schema([field for field in self.schema if field.name in names])

    @property
    def read(self) -> list[str]:
        """The columns of the table that are read."""
        used = {name for side, name in self.expressions.used if side == TARGET}
        left = {
            name
            for clause in self.clauses
            if clause.values is not None and not clause.inserts
            for name in self.written.names
            if name not in clause.values
        }
        wanted = {*self.identity, *used, *left}
        return list(dict.fromkeys([STORED, *(name for name in self.expressions.columns[TARGET] if name in wanted)]))

    @property
    def identity(self) -> list[str]:
        """The columns of the record key, which a change leaves as it is, and of the partition path."""
        return self.client.config.identity_columns

    @property
    def is_upsert(self) -> bool:
        """Whether an upsert of the source does the same: rows match by key and partition, all their columns are set."""
        if self.source is None or self.condition is None:
            return False
        config = self.client.config
        if config.partition_fields and (RECORD_INDEX in config.metadata_partitions or is_private(config)):
            return False  # an upsert finds keys in other partitions, too
        every = {name: self.expressions.named(SOURCE, name) for name in self.expressions.columns[SOURCE]}
        every = {name: value for name, value in every.items() if name not in META_COLUMNS}
        updates, inserts = Clause(Kind.MATCHED, every), Clause(Kind.NOT_MATCHED, every)
        clauses = list(self.clauses)
        return same_columns(self.condition, self.identity) and clauses in ([updates, inserts], [inserts, updates])

    @property
    def moves(self) -> bool:
        """Whether a record may get another partition; then all its columns are written."""
        partition = set(self.identity) - set(self.client.config.key_columns)
        pairs = () if self.condition is None else equalities(self.condition)
        equal = {(name, self.expressions.named(SOURCE, of.name)) for name, of in pairs if isinstance(of, exp.Column)}
        assigned = (item for number in self.updating for item in (self.clauses[number].values or {}).items())
        return any(name in partition and (name, text) not in equal for name, text in assigned)

    @property
    def reads_all(self) -> bool:
        """Whether rows of the table count that no row of the source matches."""
        return any(clause.kind is Kind.NOT_MATCHED_BY_SOURCE for clause in self.clauses)

    @property
    def inserting(self) -> list[int]:
        """Numbers of the clauses that insert."""
        return [number for number, clause in enumerate(self.clauses) if clause.inserts]

    @property
    def updating(self) -> list[int]:
        """Numbers of the clauses that update."""
        clauses = enumerate(self.clauses)
        return [number for number, clause in clauses if clause.values is not None and not clause.inserts]
