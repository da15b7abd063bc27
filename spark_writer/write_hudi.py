"""Writing by Apache's own options, so that a job migrates by changing one line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_writer.executor import SparkExecutor
from spark_writer.frame_rows import FrameRows
from spark_writer.spark_types import arrow_schema, check_frame
from table_format.errors import OptionError, TableExistsError, TableNotFoundError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.execution.sources import refuse_untyped, without_delete_flag
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import new_table_properties
from table_writer.summary import WriteSummary
from table_writer.write_job import WriteJob
from table_writer.writer import creation_options

_MODES = ("append", "overwrite", "error", "errorifexists", "ignore")


def write_hudi(
    df: DataFrame,
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    mode: str = "errorifexists",
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> WriteSummary | None:
    """Write a DataFrame, as `df.write.format("hudi").options(**options).mode(mode).save(path)` does with Apache's jar.

    Args:
        df: rows; keys suffice for the delete operation.
        path: base folder of the table.
        options: Apache's keys, e.g. `hoodie.datasource.write.operation`; those of other parts of Hudi are ignored, and
            unknown keys cause warnings.
        mode: `append` writes into the table and creates it if there is none; `overwrite` replaces all its rows in one
            commit (insert_overwrite_table), unlike Apache, which deletes the folder first; `errorifexists` and `ignore`
            only create a new table.
        storage_options: arguments for the `pyarrow.fs` file system.

    Returns:
        Summary of the write; None if `ignore` found a table.

    Raises:
        TableExistsError: there is a table, and the mode is errorifexists.
        TableNotFoundError: there is nothing to delete from.
        OptionError: an option that cannot be used, or that contradicts the table.
        SchemaError: columns that the table cannot hold.
    """
    check_frame(df, "write_hudi")
    chosen = WriteOptions.of_user(options)
    kind = mode.lower()
    if kind not in _MODES:
        raise OptionError(f"mode={mode!r}: give one of {', '.join(_MODES)}")
    operation = Operation(chosen.text(registry.OPERATION))
    client = _open_if_there(path, storage_options)
    if client is not None and kind == "ignore":
        return None
    if client is not None and kind in ("error", "errorifexists"):
        raise TableExistsError(f"{path}: there is a Hudi table already; use mode append or overwrite")
    if client is None:
        if operation in (Operation.DELETE, Operation.DELETE_PARTITION):
            raise TableNotFoundError(f"{path}: no Hudi table here, so there is nothing to delete")
        schema = without_delete_flag(arrow_schema(df.schema), None)
        refuse_untyped(schema)
        client = _created(path, schema, chosen, storage_options, joining=kind in ("append", "overwrite"))
        if client is None:
            return write_hudi(df, path, options, mode, storage_options=storage_options)
    elif kind == "overwrite" and not operation.replaces:
        operation = Operation.INSERT_OVERWRITE_TABLE
    executor = SparkExecutor(df.sparkSession).with_options(chosen)
    return WriteJob(executor, client, operation, chosen, FrameRows(df)).run()


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    operation: str = "upsert",
    *,
    record_key: str | Sequence[str] = (),
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    buckets: int | None = None,
    index: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> WriteSummary:
    """Write a DataFrame into the table in a folder, which is made if there is none and `record_key` is given.

    Args:
        df: rows.
        path: base folder of the table.
        operation: `upsert`, `insert`, `bulk_insert`, `delete`, `insert_overwrite` or `insert_overwrite_table`.
        record_key: column or columns of the record key; of a table that exists, these must be its own, as what the
            next four arguments say.
        partition_by: column or columns of the partition path.
        ordering: column or columns that order versions of a record.
        buckets: file groups per partition.
        index: `BUCKET` or `RECORD_INDEX`.
        options: Apache's option keys, for this write.
        storage_options: arguments for the `pyarrow.fs` file system.

    Raises:
        ArgumentError: `df` is no DataFrame of Spark.
        TableNotFoundError: there is no table, and no record key to make one; or nothing to delete from.
        OptionError: the operation is unknown, or an argument contradicts the table or another one.
        SchemaError: columns that the table cannot hold.
    """
    check_frame(df, "hudi_catalog.write")
    with_operation = {**(options or {}), registry.OPERATION.key: operation}
    exists = _open_if_there(path, storage_options) is not None
    if not exists and not record_key and registry.RECORD_KEY.key not in with_operation:
        raise TableNotFoundError(f"{path}: no Hudi table here; give record_key=… to make one")
    merged = creation_options(
        path,
        record_key=record_key,
        buckets=buckets,
        index=index,
        name=None,
        partition_by=partition_by,
        ordering=ordering,
        options=with_operation,
    )
    chosen = dict(merged.texts)
    if exists and registry.TABLE_NAME.key not in with_operation:
        del chosen[registry.TABLE_NAME.key]  # its folder may have another name
    summary = write_hudi(df, path, chosen, "append", storage_options=storage_options)
    if summary is None:  # of mode `ignore` only
        raise TableNotFoundError(f"{path}: nothing was written")
    return summary


def _open_if_there(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None) -> TableClient | None:
    try:
        return TableClient.open(path, storage_options)
    except TableNotFoundError:
        return None


def _created(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    options: WriteOptions,
    storage_options: Mapping[str, Any] | None,
    *,
    joining: bool,
) -> TableClient | None:
    """A new table; None if another writer has just made it and this one may join."""
    properties = new_table_properties(options, schema)
    try:
        return create_table(Storage(path, storage_options), properties, dict(options.texts))
    except TableExistsError:
        if joining:
            return None
        raise
