"""The query that computes the rows of a change in place, and its run by DuckDB in this process."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from catalog.table import Table
from pushdown.builder import col
from pushdown.expression import all_of
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import HudiError, RecordError, require
from table_format.meta_columns import FILE_NAME, IS_DELETED
from table_format.schema.evolution import conform, refuse_unknown_fields
from table_writer.execution.local import LocalExecutor
from table_writer.execution.sources import ComputedRows
from table_writer.execution.spill_folder import SpillFolder
from table_writer.in_place.change import Change
from table_writer.in_place.clauses import CLAUSE, OLD, PRESENT, Clause, join_type
from table_writer.in_place.expressions import SOURCE, TARGET, named, quoted, text
from table_writer.in_place.matching import filter_of_source, most_selective, rows_to_join
from table_writer.in_place.moves import Moves, Placing
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import FROM_COLUMN
from table_writer.plan.properties import index_type
from table_writer.rows.several_rows import numbered_schema, several_rows, with_numbers
from table_writer.write_plans import key_plan

Mask = npt.NDArray[np.bool_]

_SHARE = 4
#: DuckDB's types of the columns that tables store as whole numbers.
_WHOLE = ("INTEGER", "BIGINT")
#: Those to which a cast changes no value.
_EXACT = ("VARCHAR", "BLOB")
_TIMES = ("DATE", "TIMESTAMP")


@dataclass(frozen=True)
class ClauseQuery:
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
                tests = {}
                if name in self.kept and kind not in _EXACT:  # a rounded value would be another key
                    why = "is no whole number" if kind in _WHOLE else "would be rounded to it"
                    problem = f"column {name} is of a key or partition and a {kind}, and a value {why}"
                    tests[f"{value} IS DISTINCT FROM {clause.values[name]}"] = problem
                if kind.startswith(_TIMES):  # infinity is DuckDB's own, and a far day for others
                    tests[f"isinf({value})"] = f"column {name} is a {kind}, and a value is infinite"
                if tests:
                    wrong = " ".join(f"WHEN {test} THEN error({text(problem)})" for test, problem in tests.items())
                    value = f"CASE {wrong} ELSE {value} END"
            else:
                value = "NULL" if clause.inserts else named(TARGET, name)
            cases.append(f"WHEN {number} THEN {value}")
        return f"CASE {CLAUSE} {' '.join(cases)} END"

    def _tables(self) -> str:
        if self.on is None:
            return TARGET
        return f"{TARGET} {join_type(self.clauses)} JOIN {SOURCE} ON {self.on}"

    def run(
        self, target: pa.RecordBatchReader, source: pa.Table | None, memory: int, folder: SpillFolder
    ) -> Iterator[pa.RecordBatch]:
        """The rows.

        Args:
            target: rows of the table.
            source: rows of the source, `PRESENT` among its columns.
            memory: bytes that the join holds; beyond them it uses temporary files.
            folder: for these.

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

        config: dict[str, Any] = {"memory_limit": f"{max(memory, 64 << 20)}B", "temp_directory": folder.path}
        with contextlib.closing(duckdb.connect(config=config)) as connection:
            # timestamps without a zone are compared with instants as if they were of this one
            connection.execute("SET TimeZone = 'UTC'")
            connection.register(TARGET, pa.RecordBatchReader.from_batches(target.schema, watched()))
            if source is not None:
                connection.register(SOURCE, source)
            connection.register("shape", self.schema.empty_table())
            types = {name: str(kind) for name, kind, *_ in connection.execute("DESCRIBE shape").fetchall()}
            try:
                self._check_structs(connection, target.schema, None if source is None else source.schema)
                result = connection.sql(self.sql(types), params=dict(self.parameters) or None)
                yield from pa.RecordBatchReader.from_stream(result)
            except (duckdb.Error, pa.ArrowException, OSError) as error:  # the last one from a stream of several batches
                if failures:
                    raise failures[0] from error
                reason = str(error).partition("\n")[0]
                raise RecordError(f"the change cannot be computed: {reason}") from error

    def _check_structs(self, connection: Any, target: pa.Schema, source: pa.Schema | None) -> None:
        """Refuse structs with fields that their columns have not: DuckDB's cast leaves them out."""
        values = [
            (name, value)
            for clause in self.clauses
            for name, value in (clause.values or {}).items()
            if pa.types.is_nested(self.schema.field(name).type)
        ]
        if not values:
            return
        listed = ", ".join(f"{value} AS v{number}" for number, (_, value) in enumerate(values))
        parameters = {name: value for name, value in self.parameters.items() if re.search(rf"\${name}\b", listed)}
        with connection.cursor() as empty:
            empty.register(TARGET, target.empty_table())
            tables = TARGET
            if source is not None:
                empty.register(SOURCE, source.empty_table())
                tables = f"{TARGET}, {SOURCE}"
            result = empty.sql(f"SELECT {listed} FROM {tables}", params=parameters or None)  # noqa: S608 - resolved
            kinds = pa.RecordBatchReader.from_stream(result).schema.types
        for (name, _), kind in zip(values, kinds, strict=True):
            if not _is_row(kind):
                refuse_unknown_fields(name, kind, self.schema.field(name).type)


def _is_row(kind: pa.DataType) -> bool:
    """Whether a type is that of `row(1, 'a')`, whose fields DuckDB casts by their order."""
    names = [field.name for field in kind.fields] if isinstance(kind, pa.StructType) else []
    return bool(names) and names == [f"element{number}" for number in range(1, len(names) + 1)]


def computed_rows(change: Change, options: WriteOptions, reader: Table | None = None) -> ComputedRows:
    """The rows to upsert, of the table as it is when they are read first.

    Args:
        change: its source is an Arrow table.
        options: of the write: its memory in this process, of which the join takes a quarter, and the folder for
            temporary files.
        reader: see `TableWriter`.

    Raises:
        HudiError: when they are read; see `ClauseQuery.run`.
    """
    executor = LocalExecutor.of(options)
    written = written_schema(change, options)
    indexed = FROM_COLUMN in written.names

    def batches(rows: ComputedRows) -> Iterator[pa.RecordBatch]:
        if change.is_upsert:
            yield from _source_rows(change)
            return
        if change.moves:
            yield from _moving_rows(change, options, rows, written, _tables(change, executor, reader, indexed=indexed))
            return
        identities: list[pa.Table] = []
        rows.new_keys = rows.matched = 0
        for table in _tables(change, executor, reader, indexed=indexed):
            new = count_new(change, table)
            rows.new_keys, rows.matched = rows.new_keys + new, rows.matched + len(table) - new
            refuse_moved(change, table, change.identity)
            changed = conform(table.select(written.names), written)
            if change.source is not None:
                identities.append(changed.select(change.identity))
            yield from changed.combine_chunks().to_batches()
        refuse_repeated(identities, Table(change.client) if reader is None else reader)

    return ComputedRows(
        written,
        batches,
        memory=executor.memory // _SHARE,
        folder=executor.folder,
        uri=change.client.storage.uri,
        selected=not change.is_upsert,
    )


def written_schema(change: Change, options: WriteOptions) -> pa.Schema:
    """The columns of the rows to upsert: those that are written, and what else the write needs to know of them."""
    if change.is_upsert:
        return change.written
    written = change.written.append(pa.field(IS_DELETED, pa.bool_()))
    if index_type(options, change.client.config) == "BUCKET":
        return written
    return written.append(pa.field(FROM_COLUMN, pa.int64()))


def _tables(change: Change, executor: LocalExecutor, reader: Table | None, *, indexed: bool) -> Iterator[pa.Table]:
    """The result of the query, in parts; where an index finds records, with numbers of the rows' file groups."""
    old, parameters = [*change.identity, *([FROM_COLUMN] if indexed else [])], change.expressions.parameters
    query = ClauseQuery(change.written, change.identity, change.clauses, change.on, old, parameters)
    source, wanted, values = change.source, change.filter, None
    if source is not None and change.condition is not None:
        if not change.reads_all:
            wanted = filter_of_source(change.condition, change.schema, source)
            values = most_selective(change.condition, change.schema, source)
        source = source.append_column(PRESENT, from_numpy(np.ones(len(source), np.bool_)))
    table = Table(change.client) if reader is None else reader.refresh()
    target = table.scan(wanted, [*change.read, *([FILE_NAME] if indexed else [])]).to_batch_reader()
    if indexed:
        target = pa.RecordBatchReader.from_batches(numbered_schema(target.schema), map(with_numbers, target))
    if values is not None:
        # most rows of the files that are read match none, and DuckDB would take a second for a few million
        batches = (rows_to_join(batch, *values) for batch in target)
        target = pa.RecordBatchReader.from_batches(target.schema, batches)
    with SpillFolder(executor.folder) as folder:
        for batch in query.run(target, source, executor.memory // _SHARE, folder):
            rows = pa.Table.from_batches([batch])
            names = [FROM_COLUMN if name == OLD + FROM_COLUMN else name for name in rows.column_names]
            yield rows.rename_columns(names)


def _moving_rows(
    change: Change, options: WriteOptions, rows: ComputedRows, schema: pa.Schema, tables: Iterator[pa.Table]
) -> Iterator[pa.RecordBatch]:
    """The rows of a change that may move records to other partitions; those that delete records come last."""
    moves = moves_of(change, options)
    for table in tables:
        refuse_moved(change, table, change.client.config.key_columns)
        changed = conform(moves.rows_to_write(table).select(schema.names), schema)
        yield from changed.combine_chunks().to_batches()
    left = moves.rows_to_delete()
    if left.num_rows:
        left = left.append_column(IS_DELETED, from_numpy(np.ones(len(left), np.bool_)))
        columns = {
            field: left[field.name] if field.name in left.column_names else pa.nulls(len(left), field.type)
            for field in schema
        }
        deleting = pa.table(list(columns.values()), names=schema.names)
        yield from conform(deleting, schema).combine_chunks().to_batches()
    rows.new_keys, rows.gone_keys, rows.matched = moves.new_keys, moves.gone_keys, moves.matched


def moves_of(change: Change, options: WriteOptions) -> Moves:
    """What sorts out the rows of a change that may move records."""
    plan = key_plan(change.client, options, (), 0)
    placing = Placing(
        plan.generator, pa.schema([change.schema.field(name) for name in change.identity]), change.inserting
    )
    return Moves(placing, by_index=index_type(options, change.client.config) == "RECORD_INDEX")


def _source_rows(change: Change) -> Iterator[pa.RecordBatch]:
    """The rows of the source, to be upserted as they are."""
    for column in change.written:
        refuse_unknown_fields(column.name, change.source.schema.field(column.name).type, column.type)
    rows = conform(change.source, change.written)
    refuse_repeated([rows.select(change.identity)], None)
    yield from rows.to_batches()


def count_new(change: Change, rows: pa.Table) -> int:
    """How many rows of a change are of clauses that insert."""
    inserting = pa.array(change.inserting, rows[CLAUSE].type)
    return int(pc.sum(pc.is_in(rows[CLAUSE], value_set=inserting)).as_py() or 0)


def refuse_moved(change: Change, rows: pa.Table, names: Sequence[str]) -> None:
    """Refuse updates that change columns of the key or the partition.

    Args:
        change: whose rows they are.
        rows: with the number of their clause, and these columns as they were.
        names: the columns.

    Raises:
        RecordError: a value is another one.
    """
    updates = rows.filter(pc.is_in(rows[CLAUSE], value_set=pa.array(change.updating, rows[CLAUSE].type)))
    for name in names:
        new, old = one_chunk(updates[name]), one_chunk(updates[OLD + name])
        moved = np.flatnonzero(~same_keys(new, old))
        if len(moved):
            row = int(moved[0])
            raise moved_record(name, old[row].as_py(), new[row].as_py())


def same_keys(values: Any, others: Any) -> Mask:
    """Where values of two arrays of one type make the same key: NaN is one value, and -0.0 another one than 0.0."""
    kind = values.type
    if not pa.types.is_floating(kind) and not pa.types.is_nested(kind) and values.equals(others):
        return np.ones(len(values), np.bool_)
    valid = valid_mask(values)
    same: Mask = valid == valid_mask(others)
    if pa.types.is_struct(kind):
        for number in range(kind.num_fields):
            same &= same_keys(values.field(number), others.field(number)) | ~valid
        return same
    if pa.types.is_nested(kind):  # beside a field of the key, within its struct
        return np.array([value.equals(other) for value, other in zip(values, others, strict=True)], np.bool_)
    if pa.types.is_floating(kind):
        values, others = (_bits(column) for column in (values, others))
    return same & (to_numpy(pc.fill_null(pc.equal(values, others), True)).astype(np.bool_))


def _bits(column: Any) -> Any:
    numbers = to_numpy(pc.fill_null(column, 0))
    one_nan = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return from_numpy(one_nan.view(f"i{numbers.dtype.itemsize}"), valid_mask(column))


def moved_record(column: str, old: object, new: object) -> RecordError:
    """The refusal of an update that gives a record another key, or one that no move was planned for."""
    return RecordError(
        f"column {column!r} of the record key or partition path would change from {old!r} to {new!r}; delete the "
        "record, and insert it anew"
    )


def refuse_repeated(identities: Sequence[pa.Table], reader: Table | None) -> None:
    """Refuse several rows for one record.

    Args:
        identities: columns of key and partition of all rows, in parts.
        reader: the table where the rows are those of a join with its rows.

    Raises:
        RecordError: a record has several rows.
    """
    if not identities:
        return
    rows = pa.concat_tables(identities)
    counts = rows.group_by(rows.column_names).aggregate([([], "count_all")])
    repeated = counts.filter(pc.greater(counts["count_all"], 1))
    if repeated.num_rows:
        record = repeated.slice(0, 1).to_pylist()[0]
        rows_of_it = record.pop("count_all")
        raise repeated_record(repeated.num_rows, record, in_table=in_table(reader, record, rows_of_it))


def in_table(reader: Table | None, record: Mapping[str, Any], count: int) -> bool:
    """Whether it is the table that has several rows of a record.

    Args:
        reader: the table; None if none of its rows were joined.
        record: values of the columns of key and partition.
        count: rows of the record in the join: as many as the table's where one of the source matches.
    """
    if reader is None:
        return False
    try:
        same = (col(name).is_null() if value is None else col(name) == value for name, value in record.items())
        stored = reader.scan(all_of(*same), list(record)).count()
    except HudiError:
        return False  # such as a struct, which has no comparison
    return count <= stored > 1


def repeated_record(count: int, record: object, *, in_table: bool = False) -> RecordError:
    """The refusal of a merge with several rows for a record, of which one is shown; see `in_table`."""
    if in_table:
        return several_rows(count, record, "several of them match one row of the source")
    return RecordError(
        f"{count} record(s) have several rows in the source, such as {record}, or get several from clauses that give "
        "rows one key: which one is meant is not known; leave one row of each"
    )
