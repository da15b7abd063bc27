"""`Table` bound to a Spark session: DataFrames in and out."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import catalog.table
from catalog.table import TableOptions
from hudi_catalog.merge import Merge, update_of
from hudi_catalog.option_groups import divided_options
from hudi_catalog.table import Table, question_scan
from pushdown.expression import HudiExpression
from spark_writer.executor import SparkExecutor
from spark_writer.frame_rows import FrameRows
from spark_writer.frames import get_record_locations, history_rows, metadata_frame
from spark_writer.in_place.changed_rows import ChangedFrame, SelectedKeys
from spark_writer.in_place.join_conditions import SPARK, join_of, spark_expressions
from spark_writer.read.dataframe import scan_frame
from spark_writer.read.shuffle_free import BucketGroups, as_condition, without_shuffle
from spark_writer.session import table_place
from spark_writer.spark_types import (
    Column,
    DataFrame,
    SparkSession,
    StructType,
    arrow_schema,
    check_frame,
    check_session,
    is_condition,
    is_frame,
    schema_columns,
)
from table_format.errors import ArgumentError, OptionError
from table_format.meta_columns import META_COLUMNS
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.execution.executor import RowSource
from table_writer.in_place.change import Change
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.summary import WriteSummary
from table_writer.table_writes import Options
from table_writer.writer import TableWriter, creation_options


class HudiTable(Table):
    """A `Table` that also writes Spark DataFrames, and returns its rows as one by `to_df`.

    Spark's tasks write DataFrames, and run services such as `bootstrap_index`. Rows of other kinds that `Table` takes,
    such as pyarrow's, pandas' and Polars', are written by this process, as by `Table`. A condition of `delete` given as
    text or as a Column is evaluated by Spark; an expression of `pushdown.col` is evaluated here.

    Args:
        session: Spark's.
        client: the table's files.
        write_options: Apache's option keys, for each write.
        options: for reading.
        time_zone: zone of timestamps that have none, in rows other than DataFrames; None refuses them.
    """

    def __init__(
        self,
        session: SparkSession,
        client: TableClient,
        write_options: Options | WriteOptions | None = None,
        options: TableOptions | None = None,
        *,
        time_zone: str | None = None,
    ) -> None:
        super().__init__(client, options, write_options=write_options, time_zone=time_zone)
        self._session = session
        # for `to_df`, which gives the newest state; `scan` stays at the state of its first use
        current = TableClient(client.storage, client.config)
        self._current = catalog.table.Table(current, options, bucket_options=self._bucket_options)

    def __repr__(self) -> str:
        return f"HudiTable({self.name!r}, {self.client.storage.uri!r})"

    # arguments are spelled out for help() and editors
    @classmethod
    def create(
        cls,
        session: SparkSession,
        path: str | os.PathLike[str],
        schema: DataFrame | StructType | str | None = None,
        *,
        record_key: str | Sequence[str],
        buckets: int | None = None,
        index: str | None = None,
        name: str | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        options: Options | None = None,
        storage_options: Options | None = None,
        time_zone: str | None = None,
    ) -> HudiTable:
        """Make an empty copy-on-write table, with a metadata table and column statistics.

        Args:
            session: Spark's.
            path: base folder; a local path or a URI of S3, GCS or HDFS.
            schema: columns, as a DataFrame that has them, a struct type or DDL text; None leaves them to the first
                write.
            record_key: column or columns of the record key.
            buckets: file groups per partition, which `resize` changes; aim at 100 MB to 1 GB per file. Needed with the
                bucket index, since Spark does not know the size of a DataFrame.
            index: `BUCKET`, the default, or `RECORD_INDEX`.
            name: the table's name; the last part of the path when None.
            partition_by: column or columns of the partition path.
            ordering: column or columns that order versions of a record: the greatest value wins. Without them the later
                write wins.
            options: Apache's option keys, for everything without an argument here; they apply to each write too.
            storage_options: arguments for the `pyarrow.fs` file system.
            time_zone: see `HudiTable`.

        Raises:
            TableExistsError: there is a table already.
            OptionError: options that contradict each other.
            SchemaError: columns that a table cannot hold.
        """
        check_session(session, "HudiTable.create")
        reading, writing = divided_options(options)
        arguments: dict[str, Any] = {
            "record_key": record_key,
            "buckets": buckets,
            "index": index,
            "name": name,
            "partition_by": partition_by,
            "ordering": ordering,
            "options": writing,
        }
        merged = creation_options(path, **arguments)
        if not merged.is_set(registry.BUCKETS) and not merged.is_set(registry.INDEX_TYPE):
            raise OptionError("a new table needs buckets=… for the bucket index, or index='RECORD_INDEX'")
        writer = TableWriter.create(path, schema_columns(schema), storage_options=storage_options, **arguments)
        return cls(session, writer.client, writing, TableOptions.parse(reading), time_zone=time_zone)

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str] | Storage,
        storage_options: Options | None = None,
        *,
        options: Options | None = None,
        time_zone: str | None = None,
        session: SparkSession | None = None,
    ) -> HudiTable:
        """Open the table in a folder.

        Args:
            uri: path or URI of the table's folder, or its storage.
            storage_options: arguments for the `pyarrow.fs` file system.
            options: as for `hudi_catalog.open_table`.
            time_zone: see `HudiTable`.
            session: Spark's; None for the active one.

        Raises:
            ArgumentError: there is no active session.
            TableNotFoundError: there is no table.
            UnsupportedTableError: its version is not supported.
            OptionError: an invalid value of an option.
        """
        session = SparkSession.getActiveSession() if session is None else session
        if session is None:
            raise ArgumentError("HudiTable.open: there is no active Spark session; give session=…")
        reading, writing = divided_options(options)
        client = TableClient.open(uri, storage_options)
        return cls(session, client, writing, TableOptions.parse(reading), time_zone=time_zone)

    @classmethod
    def for_path(
        cls,
        session: SparkSession,
        path: str | os.PathLike[str],
        *,
        options: Options | None = None,
        storage_options: Options | None = None,
        time_zone: str | None = None,
    ) -> HudiTable:
        """Open the table in a folder; as `open`, with the session first."""
        check_session(session, "HudiTable.for_path")
        return cls.open(path, storage_options, options=options, time_zone=time_zone, session=session)

    @classmethod
    def for_name(
        cls,
        session: SparkSession,
        name: str,
        *,
        options: Options | None = None,
        storage_options: Options | None = None,
        time_zone: str | None = None,
    ) -> HudiTable:
        """Open the table that an entry of the session's metastore names.

        With Apache Hudi's bundle Spark SQL reads such entries itself; this needs no jar.

        Args:
            session: a classic session whose catalog is the metastore.
            name: such as `shop.orders`.
            options: as for `open`.
            storage_options: arguments for the `pyarrow.fs` file system.
            time_zone: see `HudiTable`.

        Raises:
            OptionError: the session is of Spark Connect, or Spark cannot load the entry.
            TableNotFoundError: there is no such entry, or it is not a Hudi table's.
            UnsupportedTableError: the table's version can only be read.
        """
        place = table_place(session, name)
        return cls.for_path(session, place, options=options, storage_options=storage_options, time_zone=time_zone)

    def to_df(
        self,
        where: Column | str | None = None,
        *,
        as_of: str | None = None,
        incremental: tuple[str, str | None] | None = None,
        read_optimized: bool = False,
        sample: str | None = None,
        options: Options | None = None,
    ) -> DataFrame:
        """The table's rows as a lazy DataFrame, Hudi's meta columns first: those of its newest state by default.

        The DataFrame stays at one state. Each query on it is planned by the table's index, and Spark's own Parquet
        reader reads the files that are left; see `Table.to_spark` for the arguments and errors.
        """
        current = self._current.refresh()
        scan = question_scan(current, as_of, incremental, options, read_optimized, sample=sample)
        return scan_frame(self._session, scan, where)

    def join(
        self,
        other: Table | DataFrame,
        on: str | Sequence[str] | Column,
        how: str = "inner",
        *,
        columns: Sequence[str | Column] | None = None,
        where: Column | str | None = None,
        as_of: str | None = None,
    ) -> DataFrame:
        """Join with another table, bucket by bucket where both are bucketed by the key: without an exchange or a sort.

        Where that is not possible it is Spark's ordinary join, and `explain_scan` says why. The plan is made now:
        conditions belong in `where` and the columns that are needed in `columns`, which spares the others' reading.

        Args:
            other: a `HudiTable`, at its newest state; a `Table`, at the state that its scans see; or a DataFrame such
                as `lines.to_df("price > 3", as_of=…)`.
            on: columns of both sides that are equal, or a condition as text or as a Column, in which a side is called
                by its table's name. All hash fields of both tables have to be equal.
            how: as for Spark's `join`.
            columns: of the result; None for those of both sides but Hudi's meta columns.
            where: a condition on this table's rows.
            as_of: an instant or a time of this table, as for `to_df`.

        Raises:
            OptionError: a time cannot be used.
            AnalysisException: Spark refuses the condition, a column or `how`.
        """
        rows: Any = other
        if isinstance(other, Table):
            rows = other.to_df() if isinstance(other, HudiTable) else other.to_spark(self._session)
        check_frame(rows, "HudiTable.join")
        condition: Any = on
        if isinstance(on, str) and not on.isidentifier():
            condition = as_condition(on)
        joined = self.to_df(where, as_of=as_of).drop(*META_COLUMNS).join(rows.drop(*META_COLUMNS), condition, how)
        return without_shuffle(joined if columns is None else joined.select(*columns))

    def group_by(
        self, *keys: str | Column, where: Column | str | None = None, as_of: str | None = None
    ) -> BucketGroups:
        """Group rows, bucket by bucket where the keys hold the table's hash fields: without an exchange.

        Where that is not possible it is Spark's ordinary group-by, and `explain_scan` says why.

        Args:
            keys: columns, or expressions beside them.
            where: a condition on rows.
            as_of: an instant or a time, as for `to_df`.

        Raises:
            OptionError: a time cannot be used.
            AnalysisException: Spark refuses a key or the condition.
        """
        return BucketGroups(self.to_df(where, as_of=as_of).groupBy(*keys))

    def history_df(self) -> DataFrame:
        """The table's current instants, newest first, with what each did."""
        rows, ddl = history_rows(self.client)
        return self._session.createDataFrame(rows, ddl)

    def files_df(self, *, as_of: str | None = None) -> DataFrame:
        """The table's file groups as a DataFrame; see `files`."""
        return metadata_frame(self._session, self.files(as_of=as_of))

    def partitions_df(self, *, as_of: str | None = None) -> DataFrame:
        """The table's partitions as a DataFrame; see `partitions`."""
        return metadata_frame(self._session, self.partitions(as_of=as_of))

    def get_record_locations(self, keys: DataFrame, options: Options | None = None) -> DataFrame:
        """Locations of records by the record index: partition, file group, instant.

        Args:
            keys: a column `key` with record keys like `_hoodie_record_key`, and a column `partition` for an index by
                partition.
            options: of look-ups.

        Raises:
            RecordIndexError: the table has no record index.
            SchemaError: there is no column `key`.
        """
        self.client.reload()
        return get_record_locations(keys, self.client, WriteOptions.of_user(options, self._write_options).texts)

    def update(self, values: Any, where: Any = None, options: Options | None = None) -> WriteSummary:
        """Change columns of the rows that fulfil a condition, in one commit; computed by Spark.

        Only files that may hold such rows are read. Ordering columns have no say: the rows are the table's own.

        Args:
            values: the new value of each column: a text is an expression of Spark SQL, a Column is one, too; any other
                object is the value itself.
            where: the rows, as text or Column; None for all. With an expression of `pushdown.col`, all is computed
                here, as by `Table.update`.
            options: for this write.

        Raises:
            SchemaError: the table has no such column.
            ExpressionError: an expression does not parse, or names columns that are not there.
            RecordError: a value that its column cannot hold, or a new record key, or a partition that has the key.
            AnalysisException: Spark refuses an expression or the condition.
        """
        if isinstance(where, HudiExpression):
            return super().update(values, where, options)
        return self._change(update_of(self.client, values, where, spark_expressions()), options)

    def merge(self, source: Any, on: Any, *, names: Mapping[str, Sequence[str]] | None = None) -> Merge:
        """Begin a merge of rows into the table: clauses follow, and `execute` commits it.

        Spark computes the merge of a DataFrame, and this process that of other rows, as by `Table.merge`.

        Args:
            source: the rows; a DataFrame is kept in Spark's cache until the merge is committed.
            on: names of columns that are equal in matching rows, or a condition as text of Spark SQL or as a Column.
                Sides are called `target` and `source`.
            names: what texts call the sides of a DataFrame's merge instead: `{"target": ["t"], "source": ["s"]}`; of a
                name of several parts, such as `["shop", "orders"]`, its end is enough.

        Raises:
            ExpressionError: the condition does not parse, or names columns that are not there.
            AnalysisException: Spark refuses the condition.
        """
        if not is_frame(source):
            if names is not None:
                raise ArgumentError("names are for merges of DataFrames; other texts call the sides target and source")
            return super().merge(source, on)
        self.client.reload()
        text, parameters = join_of(on, source, self.client.table_schema())
        columns = arrow_schema(source.schema)
        dialect = spark_expressions(parameters, names)
        return Merge(self.client, source, text, self._change, columns=columns, dialect=dialect)

    def _computed(self, change: Change, options: WriteOptions) -> AbstractContextManager[RowSource]:
        if change.expressions.dialect == SPARK:
            return ChangedFrame(self._session, change, self._current, options)
        return super()._computed(change, options)

    def _executor(self) -> SparkExecutor:
        return SparkExecutor(self._session)

    def _source(self, operation: Operation, rows: Any) -> tuple[Any, Timeline | None]:
        if is_frame(rows):
            return FrameRows(rows), None
        if type(rows).__module__.startswith("pyspark."):
            check_frame(rows, operation.value)  # an RDD, or a DataFrame of pandas on Spark
        return super()._source(operation, rows)

    def _write(
        self, operation: Operation, rows: Any, options: Options | None, partitions: Sequence[str] = ()
    ) -> WriteSummary:
        if operation is not Operation.DELETE or not is_condition(rows):
            return super()._write(operation, rows, options, partitions)
        condition: Column | str = rows
        merged = WriteOptions.of_user(options, self._write_options)
        self.client.reload()
        with contextlib.ExitStack() as stack:

            def matching() -> RowSource:
                return stack.enter_context(SelectedKeys(lambda: self.to_df(condition), self, merged))

            summary = self.writer.write(operation, options=options, renew=matching)
        self.refresh()
        return summary
