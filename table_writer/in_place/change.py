"""A change in place: which rows of the table it reads, and the rows that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from catalog.table import Table
from pushdown.expression import HudiExpression
from table_format.codecs.arrow_numpy import one_chunk
from table_format.config.table_config import TableConfig
from table_format.errors import ArgumentError, RecordError, SchemaError, did_you_mean
from table_format.meta_columns import IS_DELETED, META_COLUMNS, RECORD_KEY
from table_format.schema.evolution import conform
from table_format.table.client import TableClient
from table_writer.execution.local import LocalExecutor
from table_writer.execution.sources import ComputedRows
from table_writer.in_place.expressions import SOURCE, TARGET, Expressions, named
from table_writer.in_place.matching import same_columns, text_of
from table_writer.in_place.query import CLAUSE, OLD, PRESENT, Clause, Kind, Query
from table_writer.plan.options import WriteOptions

Filter = str | HudiExpression | None

_SHARE = 4


def identity_columns(config: TableConfig) -> list[str]:
    """The columns of the record key and the partition path, which a change leaves as they are."""
    fields = (*config.record_key_fields, *config.partition_fields)
    return list(dict.fromkeys(field.split(".", 1)[0] for field in fields))


@dataclass(frozen=True)
class Change:
    """An update or a merge.

    Attributes:
        client: the table.
        schema: its columns, and new ones that the change adds.
        clauses: what happens to which rows.
        expressions: those of the clauses.
        filter: rows of the table that it concerns, or may concern.
        condition: which rows match; None for an update.
        source: the rows that are merged.
    """

    client: TableClient
    schema: pa.Schema
    clauses: Sequence[Clause]
    expressions: Expressions
    filter: Filter = None
    condition: exp.Expression | None = None
    source: pa.Table | None = None

    @property
    def on(self) -> str | None:
        """The condition as SQL."""
        return None if self.condition is None else text_of(self.condition)

    @property
    def is_partial(self) -> bool:
        """Whether only some columns of records are written."""
        return self.is_upsert or not any(clause.inserts for clause in self.clauses)

    @property
    def written(self) -> pa.Schema:
        """The columns that are written."""
        if not self.is_partial:
            return self.schema
        values = [clause.values or {} for clause in self.clauses]
        names = {*self._identity, *(name for assigned in values for name in assigned)}
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
        wanted = {*self._identity, *used, *left}
        return [RECORD_KEY, *(name for name in self.expressions.columns[TARGET] if name in wanted)]

    @property
    def _identity(self) -> list[str]:
        return identity_columns(self.client.config)

    @property
    def is_upsert(self) -> bool:
        """Whether an upsert of the source does the same: rows match by key and partition, all their columns are set."""
        if self.source is None or self.condition is None:
            return False
        config = self.client.config
        if config.partition_fields and "record_index" in config.metadata_partitions:
            return False  # an upsert finds keys in other partitions, too
        names = [name for name in self.source.column_names if name != PRESENT]
        every = {name: named(SOURCE, name) for name in names}
        updates, inserts = Clause(Kind.MATCHED, every), Clause(Kind.NOT_MATCHED, every)
        clauses = list(self.clauses)
        return same_columns(self.condition, self._identity) and clauses in ([updates, inserts], [inserts, updates])

    def rows(self, options: WriteOptions) -> ComputedRows:
        """The rows to upsert, of the table as it is when they are read first.

        Args:
            options: of the write: its memory in this process, of which the join takes a quarter, and the folder for
                temporary files.

        Raises:
            HudiError: when they are read; see `Query.run`.
        """
        executor = LocalExecutor.of(options)
        memory = executor.memory // _SHARE
        if self.is_upsert:
            return self._source_rows(memory, executor.folder)
        written = self.written.append(pa.field(IS_DELETED, pa.bool_()))

        def batches(rows: ComputedRows) -> Iterator[pa.RecordBatch]:
            query = Query(
                self.written, self._identity, self.clauses, self.on, self._identity, self.expressions.parameters
            )
            identities: list[pa.Table] = []
            rows.new_keys = 0
            scan = Table(self.client).scan(self.filter, self.read)
            for batch in query.run(scan.to_batch_reader(), self.source, memory):
                table = pa.Table.from_batches([batch])
                rows.new_keys += self._count_new(table)
                self._check_identity(table)
                changed = conform(table.select(written.names), written)
                identities.append(changed.select(self._identity))
                yield from changed.combine_chunks().to_batches()
            if self.source is not None:
                _refuse_repeated(identities)

        return ComputedRows(written, batches, memory=memory, folder=executor.folder, uri=self.client.storage.uri)

    def _source_rows(self, memory: int, folder: str | None) -> ComputedRows:
        """The rows of the source, to be upserted as they are."""
        assert self.source is not None  # noqa: S101 - see `is_upsert`
        table = self.source.drop_columns([PRESENT])
        written = pa.schema([field for field in self.schema if field.name in table.column_names])

        def batches(_: ComputedRows) -> Iterator[pa.RecordBatch]:
            rows = conform(table, written)
            _refuse_repeated([rows.select(self._identity)])
            yield from rows.to_batches()

        return ComputedRows(written, batches, memory=memory, folder=folder, uri=self.client.storage.uri)

    def _count_new(self, rows: pa.Table) -> int:
        inserting = [number for number, clause in enumerate(self.clauses) if clause.inserts]
        return int(pc.sum(pc.is_in(rows[CLAUSE], value_set=pa.array(inserting, rows[CLAUSE].type))).as_py() or 0)

    def _check_identity(self, rows: pa.Table) -> None:
        """Refuse updates that give a record another key or partition."""
        updating = [
            number for number, clause in enumerate(self.clauses) if clause.values is not None and not clause.inserts
        ]
        updates = rows.filter(pc.is_in(rows[CLAUSE], value_set=pa.array(updating, rows[CLAUSE].type)))
        for name in self._identity:
            new, old = one_chunk(updates[name]), one_chunk(updates[OLD + name])
            if new.equals(old):
                continue
            moved = pc.fill_null(pc.not_equal(new, old), True)
            row = pc.index(moved, True).as_py()
            raise RecordError(
                f"column {name!r} of the record key or partition path would change from {old[row].as_py()!r} to "
                f"{new[row].as_py()!r}; delete the record, and insert it anew"
            )


def _refuse_repeated(identities: Sequence[pa.Table]) -> None:
    """Refuse rows of the source that change or insert one record several times."""
    if not identities:
        return
    rows = pa.concat_tables(identities)
    counts = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if repeated.num_rows:
        record = repeated.slice(0, 1).drop_columns(["count_all"]).to_pylist()[0]
        raise RecordError(
            f"{repeated.num_rows} record(s) have several rows in the source, such as {record}: which one is meant is "
            "not known; leave one row of each"
        )


def assignments(
    values: Mapping[str, object], schema: pa.Schema, expressions: Expressions, *, sides: Sequence[str]
) -> dict[str, str]:
    """The columns that a clause sets, and the texts of their values.

    Args:
        values: SQL expressions as texts, other objects as they are, by column.
        schema: the table's columns.
        expressions: resolves columns.
        sides: whose columns the values may name.

    Raises:
        ArgumentError: no value, or not a mapping.
        SchemaError: a column that the table lacks.
        ExpressionError: a text is no expression of these columns.
    """
    if not isinstance(values, Mapping) or not values:
        raise ArgumentError(f"values are a dict from columns to SQL expressions or values, not {values!r}")
    assigned = {}
    for name, value in values.items():
        column = expressions.column(TARGET, str(name).removeprefix(f"{TARGET}."))
        if column is None or column in META_COLUMNS:
            hint = did_you_mean(str(name), schema.names)
            raise SchemaError(f"the table has no column {name!r}{hint}; columns are {schema.names}")
        assigned[column] = expressions.value(value, sides=sides)
    return assigned


def clause_of(
    kind: Kind,
    expressions: Expressions,
    values: Mapping[str, str] | None,
    condition: str | None,
    *,
    sides: Sequence[str],
) -> Clause:
    """A clause whose condition is resolved."""
    if condition is not None and not isinstance(condition, str):
        raise ArgumentError(f"a condition is SQL text, not {condition!r}")
    return Clause(kind, values, None if condition is None else expressions.text(condition, sides=sides))
