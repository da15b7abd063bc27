"""Changes of tables as text: statements of Spark SQL that methods of `HudiTable` carry out."""

from __future__ import annotations

from typing import Any, cast

from hudi_catalog.option_groups import divided_options
from hudi_catalog.spark_table import HudiTable
from spark_writer.in_place.column_values import inserted_rows, values_held
from spark_writer.read.shuffle_free import without_shuffle
from spark_writer.read.statement_names import StatementNames
from spark_writer.spark_types import DataFrame, SparkSession
from table_format.errors import ArgumentError, OptionError
from table_writer.in_place.clauses import Kind
from table_writer.in_place.expressions import SOURCE, TARGET
from table_writer.in_place.statements import (
    DeleteFrom,
    InsertInto,
    MergeInto,
    Query,
    UpdateSet,
    When,
    statement_of,
)
from table_writer.plan.operations import Operation
from table_writer.summary import WriteSummary
from table_writer.table_writes import Options

_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


def sql(
    session: SparkSession,
    text: str,
    *,
    options: Options | None = None,
    storage_options: Options | None = None,
) -> DataFrame | WriteSummary:
    """Carry out one statement of Spark SQL: `MERGE INTO`, `UPDATE`, `DELETE FROM`, `INSERT`, or a query.

    A table is named as ``hudi_catalog.`/path` ``, by a temporary view that `Catalog.register` made, or by an entry of
    provider `hudi` in the session's catalog, which queries here read without `register`, too. A change is one commit,
    by the rules of `HudiTable.merge`, `update`, `delete`, `insert`, `insert_overwrite` or `insert_overwrite_table`.
    Joins and group-bys of a query work bucket by bucket where they can; see `without_shuffle`.

    Args:
        session: a classic one with pinned threads, which is the default.
        text: the statement.
        options: for reading and writing, as for `HudiTable.for_path`.
        storage_options: arguments for the `pyarrow.fs` file system of paths and entries.

    Returns:
        A lazy DataFrame of a query; a change's summary.

    Raises:
        FilterSyntaxError: no statement, several, or a part that is not understood; the message shows where.
        ExpressionError: a condition or value cannot be used.
        TableNotFoundError: no Hudi table has the name.
        SchemaError: a column that the table lacks, or another number of columns.
        RecordError: a value that its column cannot hold; a source with several rows for a record; or a new record key
            or partition.
        OptionError: an option is unknown, or cannot be used.
        UnsupportedTableError: the session is of Spark Connect, or its threads are not pinned.
        AnalysisException: Spark refuses a query, a condition or a value.
    """
    if not isinstance(text, str):
        raise ArgumentError(f"sql takes a text: {text!r}")
    statement = statement_of(text)
    names = StatementNames(session, divided_options(options)[0], storage_options)
    if isinstance(statement, Query):
        return without_shuffle(names.query(statement.text))
    place = names.written(statement.target.parts)
    table = HudiTable.open(place, storage_options, options=options, session=session)
    if isinstance(statement, (DeleteFrom, UpdateSet)):
        where = statement.where and names.answered(statement.where)
        if isinstance(statement, UpdateSet):
            return table.update(statement.values, where)
        return table.delete(cast("Any", where or "TRUE"))
    if isinstance(statement, MergeInto):
        return _merge(table, statement, names.query(statement.source))
    return _insert(table, statement, names.query(statement.query), session)


def _merge(table: HudiTable, statement: MergeInto, source: DataFrame) -> WriteSummary:
    called = {TARGET: statement.target.called, SOURCE: statement.source_called}
    merge = table.merge(source, statement.on, names=called)
    if statement.evolves:
        merge.with_schema_evolution()
    for when in statement.whens:
        _add_clause(merge, when)
    return merge.execute()


def _add_clause(merge: Any, when: When) -> None:
    start = {
        Kind.MATCHED: "when_matched",
        Kind.NOT_MATCHED: "when_not_matched",
        Kind.NOT_MATCHED_BY_SOURCE: "when_not_matched_by_source",
    }[when.kind]
    if when.action == "delete":
        getattr(merge, f"{start}_delete")(when.condition)
    elif when.values is None:
        getattr(merge, f"{start}_{when.action}_all")(when.condition)
    else:
        getattr(merge, f"{start}_{when.action}")(when.values, when.condition)


def _insert(table: HudiTable, statement: InsertInto, rows: DataFrame, session: SparkSession) -> WriteSummary:
    if statement.overwrite and statement.partition:
        raise OptionError(
            f"INSERT OVERWRITE {statement.target} PARTITION: give the partition's value as a column of the rows, with "
            f"{_OVERWRITE_MODE}=dynamic; or delete by a condition, and insert"
        )
    values = inserted_rows(rows, table.columns, statement.columns, statement.partition, by_name=statement.by_name)
    operation = Operation.INSERT
    if statement.overwrite:
        dynamic = str(session.conf.get(_OVERWRITE_MODE, "static")).lower() == "dynamic"
        operation = Operation.INSERT_OVERWRITE if dynamic else Operation.INSERT_OVERWRITE_TABLE
    with values_held():
        summary: WriteSummary = getattr(table, operation.value)(values)
    return summary
