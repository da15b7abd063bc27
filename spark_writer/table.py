"""Hudi tables as objects that feel at home in Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as spark

from spark_writer.executor import FrameRows, SparkExecutor
from spark_writer.frames import get_record_locations, history_rows, snapshot
from spark_writer.session import table_place
from spark_writer.spark_types import arrow_schema, check_frame, check_session, is_condition, is_frame
from table_format.config.table_config import TableConfig
from table_format.errors import OptionError, TableNotFoundError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import new_table_properties
from table_writer.record_index.bootstrap import BootstrapReport
from table_writer.record_index.verify import VerifyReport
from table_writer.summary import WriteSummary
from table_writer.writer import TableWriter, creation_options

Options = Mapping[str, Any]


class HudiTable:
    """One table.

    Args:
        session: Spark's.
        client: the table.
        options: apply to every write of this object.
    """

    def __init__(self, session: SparkSession, client: TableClient, options: WriteOptions) -> None:
        self._session = session
        self._client = client
        self._options = options

    def __repr__(self) -> str:
        return f"HudiTable({self._client.config.name!r}, {self._client.storage.uri!r})"

    @classmethod
    def create(
        cls,
        session: SparkSession,
        path: str | os.PathLike[str],
        schema: DataFrame | spark.StructType | str | None = None,
        *,
        record_key: str | Sequence[str],
        buckets: int | None = None,
        index: str | None = None,
        name: str | None = None,
        partition_by: str | Sequence[str] = (),
        ordering: str | Sequence[str] = (),
        options: Options | None = None,
        storage_options: Options | None = None,
    ) -> HudiTable:
        """Make an empty table: copy-on-write, bucket or record index, metadata table with column statistics.

        Args:
            session: Spark's.
            path: base folder; a local path or a URI of S3, GCS or HDFS.
            schema: columns, as a DataFrame that has them, a struct type or DDL text; None leaves them to the first
                write.
            record_key: field or fields of the record key.
            buckets: file groups per partition, for the bucket index; fixed for good. Aim at 100 MB to 1 GB a file.
            index: `BUCKET`, which is the default, or `RECORD_INDEX`.
            name: the table's name; the last part of the path when None.
            partition_by: field or fields of the partition path.
            ordering: field or fields that order versions of a record: the greater value wins. Without them the later
                write wins.
            options: Apache's option keys, for all that has no argument here; they go with each write, too.
            storage_options: arguments for the `pyarrow.fs` file system.

        Raises:
            TableExistsError: there is a table already.
            OptionError: options that contradict each other.
            SchemaError: columns that a table cannot hold.
        """
        check_session(session, "HudiTable.create")
        merged = creation_options(
            path,
            record_key=record_key,
            buckets=buckets,
            index=index,
            name=name,
            partition_by=partition_by,
            ordering=ordering,
            options=options,
        )
        if not merged.given(registry.BUCKETS) and not merged.given(registry.INDEX_TYPE):
            raise OptionError("a new table needs buckets=… for the bucket index, or index='RECORD_INDEX'")
        return create(session, path, _arrow(schema), merged, storage_options)

    @classmethod
    def for_path(
        cls,
        session: SparkSession,
        path: str | os.PathLike[str],
        *,
        options: Options | None = None,
        storage_options: Options | None = None,
    ) -> HudiTable:
        """Open the table at a place.

        Args:
            session: Spark's.
            path: base folder.
            options: Apache's option keys for this object's writes. Tables that Apache wrote need
                `hoodie.bucket.index.num.buckets`.
            storage_options: arguments for the `pyarrow.fs` file system.

        Raises:
            TableNotFoundError: there is none.
            UnsupportedTableError: one of a version that is not written.
        """
        check_session(session, "HudiTable.for_path")
        given = WriteOptions.of_user(options)
        return cls(session, TableClient.open(path, dict(storage_options or {})), given)

    @classmethod
    def for_name(
        cls, session: SparkSession, name: str, *, options: Options | None = None, storage_options: Options | None = None
    ) -> HudiTable:
        """Open the table that an entry of the session's metastore names.

        With Apache Hudi's bundle Spark SQL reads such entries itself; this needs no jar.

        Args:
            session: a classic one whose catalog is the metastore.
            name: such as `shop.orders`.
            options: as for `for_path`.
            storage_options: arguments for the `pyarrow.fs` file system.

        Raises:
            OptionError: the session is of Spark Connect, or Spark cannot load the entry.
            TableNotFoundError: there is no such entry, or it is of no Hudi table.
            UnsupportedTableError: one of a version that is not written.
        """
        place = table_place(session, name)
        return cls.for_path(session, place, options=options, storage_options=storage_options)

    @property
    def client(self) -> TableClient:
        """The table's files, properties and timeline."""
        return self._client

    @property
    def name(self) -> str:
        """The table's name."""
        return self._client.config.name

    @property
    def config(self) -> TableConfig:
        """The table's properties as they are now."""
        return self._client.reload()

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, without Hudi's meta columns."""
        return self._client.table_schema()

    def upsert(self, df: DataFrame, options: Options | None = None) -> WriteSummary:
        """Insert rows with new keys and update those whose key the table has; `_hoodie_is_deleted` rows delete.

        Columns that the rows lack become null; new columns and wider types become part of the table.
        """
        return self._run(Operation.UPSERT, df, options)

    def insert(self, df: DataFrame, options: Options | None = None) -> WriteSummary:
        """Add rows; `hoodie.datasource.insert.dup.policy` and others say what happens to keys that are there."""
        return self._run(Operation.INSERT, df, options)

    def bulk_insert(self, df: DataFrame, options: Options | None = None) -> WriteSummary:
        """Add rows as they are; keys are taken for new."""
        return self._run(Operation.BULK_INSERT, df, options)

    def delete(self, rows: DataFrame | Column | str, options: Options | None = None) -> WriteSummary:
        """Delete records.

        Args:
            rows: a DataFrame with the key and partition columns of what goes, or a condition on the table's rows.
            options: for this write.
        """
        if not is_condition(rows):
            frame: Any = rows
            return self._run(Operation.DELETE, frame, options)
        condition: Any = rows

        def matching() -> FrameRows:
            config = self._client.config
            fields = dict.fromkeys((*config.record_key_fields, *config.partition_fields))
            names = dict.fromkeys(field.split(".", 1)[0] for field in fields)
            return FrameRows(self.to_df().where(condition).select(*names))

        return self._writer().write(Operation.DELETE, matching(), options, renew=matching)

    def insert_overwrite(self, df: DataFrame, options: Options | None = None) -> WriteSummary:
        """Replace the partitions that the rows fall into by these rows."""
        return self._run(Operation.INSERT_OVERWRITE, df, options)

    def insert_overwrite_table(self, df: DataFrame, options: Options | None = None) -> WriteSummary:
        """Replace all that the table holds by these rows."""
        return self._run(Operation.INSERT_OVERWRITE_TABLE, df, options)

    def delete_partitions(self, partitions: str | Sequence[str], options: Options | None = None) -> WriteSummary:
        """Empty partitions, named by their paths; `*` stands for any text."""
        return self._writer().delete_partitions(partitions, options)

    def clean(self, options: Options | None = None) -> int:
        """Delete files that only states need which are too old to be read; writes do so by themselves.

        Args:
            options: `hoodie.clean.policy`, `hoodie.cleaner.commits.retained` and so on.

        Returns:
            How many files went.
        """
        return self._writer().clean(options)

    def bootstrap_index(
        self, options: Options | None = None, *, groups: int | None = None, wait_seconds: float = 60.0
    ) -> BootstrapReport:
        """Build the table's record index from its data, in place of one that it has, while writers go on.

        A build that was interrupted goes on where it was when this is called again.

        Args:
            options: `hoodie.metadata.record.index.*` and those of the lock.
            groups: file groups of the index; None for as many as the number of keys asks for.
            wait_seconds: how long to wait at the end for writes that are under way.

        Raises:
            RecordIndexError: the table's files hold no record keys.
            TransactionError: a write is under way and does not end; what was read is kept for the next call.
        """
        return self._writer().bootstrap_index(options, groups=groups, wait_seconds=wait_seconds)

    def verify_index(
        self, options: Options | None = None, *, sample: float | None = None, repair: bool = False
    ) -> VerifyReport:
        """Compare the table's record index with its data.

        Args:
            options: for the commit that mends the index.
            sample: the share of file slices to read, such as 0.01; None for all.
            repair: mend the index; duplicate rows are the data's, and stay.

        Raises:
            RecordIndexError: the table has no record index.
            OptionError: a sample that is to be mended, or that is no share.
        """
        return self._writer().verify_index(options, sample=sample, repair=repair)

    def get_record_locations(self, keys: DataFrame, options: Options | None = None) -> DataFrame:
        """Where records are by the record index: partition, file group, instant.

        Args:
            keys: a column `key` with record keys as `_hoodie_record_key` has them, and `partition` in an index by
                partition.
            options: of look-ups.

        Raises:
            RecordIndexError: the table has no record index.
            SchemaError: there is no column `key`.
        """
        self._client.reload()
        return get_record_locations(keys, self._client, WriteOptions.of_user(options, self._options).texts)

    def to_df(self) -> DataFrame:
        """The table's rows as of now, with Hudi's meta columns in front."""
        return snapshot(self._session, self._client)

    def history(self) -> DataFrame:
        """The table's instants, newest first, with what each did."""
        rows, ddl = history_rows(self._client)
        return self._session.createDataFrame(rows, ddl)

    def _run(self, operation: Operation, df: DataFrame, options: Options | None) -> WriteSummary:
        check_frame(df, operation.value)
        return self._writer().write(operation, FrameRows(df), options)

    def _writer(self) -> TableWriter:
        return TableWriter(self._client, SparkExecutor(self._session), self._options)


def create(
    session: SparkSession,
    path: str | os.PathLike[str],
    schema: pa.Schema | None,
    options: WriteOptions,
    storage_options: Options | None = None,
) -> HudiTable:
    """Make an empty table out of options."""
    properties = new_table_properties(options, schema)
    client = create_table(Storage(path, dict(storage_options or {})), properties, dict(options.texts))
    return HudiTable(session, client, options)


def open_if_there(
    session: SparkSession, path: str | os.PathLike[str], options: WriteOptions, storage_options: Options | None = None
) -> HudiTable | None:
    """The table at a place, or None."""
    try:
        return HudiTable(session, TableClient.open(path, dict(storage_options or {})), options)
    except TableNotFoundError:
        return None


def _arrow(schema: Any) -> pa.Schema | None:
    if schema is None:
        return None
    if is_frame(schema):
        schema = schema.schema
    if isinstance(schema, str):
        parsed = spark._parse_datatype_string(schema)  # noqa: SLF001  # PySpark's only DDL parser in both versions
        if not isinstance(parsed, spark.StructType):
            parsed = spark.StructType([spark.StructField("value", parsed)])
        schema = parsed
    if not isinstance(schema, spark.StructType):
        check_frame(schema, "HudiTable.create")
    return arrow_schema(schema)
