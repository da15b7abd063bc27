"""Tables that Python reads and writes, with neither Spark nor a JVM."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from rich.console import Console

import catalog.catalog
import catalog.table
from catalog.explain import explain as explain_plan
from catalog.layout import ColumnLayout, column_layouts
from catalog.metadata_tables import files_table, history_table, partitions_table
from catalog.scan import Scan
from catalog.snapshots.scan_options import BUCKET_KEYS
from catalog.table import TableOptions
from catalog.table_stats import SMALL_FILE, TableStats, table_stats
from hudi_catalog.option_groups import divided_options
from hudi_catalog.sources.types import check_zone
from pushdown.expression import HudiExpression
from table_format.errors import ArgumentError, SchemaError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.table_writes import Options, TableWrites

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hudi_catalog.merge import Merge
    from spark_writer.spark_types import Column, DataFrame, SparkSession
    from table_format.timeline.timeline import Timeline
    from table_writer.execution.executor import Executor, RowSource
    from table_writer.in_place.change import Change
    from table_writer.summary import WriteSummary
    from table_writer.writer import TableWriter

T = TypeVar("T")

_WIDTH = 160


class Table(catalog.table.Table, TableWrites[Any]):
    """A Hudi table, to read and to write.

    It reads as `catalog.Table` does: `scan`, `snapshot`, `history`, `refresh`. Each writing call is one commit: all of
    it becomes visible or nothing. Afterwards the table is at that commit's state.

    Rows are anything that Arrow can read: a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Polars or
    pandas DataFrame, a DuckDB relation, a `Scan` of a table, a list of dicts, or an iterator of any of these, which may
    be larger than memory.

    Args:
        client: the table's files.
        options: for reading.
        write_options: Apache's option keys, for each write.
        time_zone: zone of timestamps that have none; without it they are refused.
    """

    def __init__(
        self,
        client: TableClient,
        options: TableOptions | None = None,
        *,
        write_options: Options | WriteOptions | None = None,
        time_zone: str | None = None,
    ) -> None:
        checked = write_options if isinstance(write_options, WriteOptions) else WriteOptions.of_user(write_options)
        buckets = {key: text for key, text in checked.texts.items() if key in BUCKET_KEYS}
        super().__init__(client, options, bucket_options=buckets)
        check_zone(time_zone)
        self._write_options = checked
        self._time_zone = time_zone

    @classmethod
    def open(
        cls,
        uri: str | os.PathLike[str] | Storage,
        storage_options: Options | None = None,
        *,
        options: Options | None = None,
        time_zone: str | None = None,
    ) -> Table:
        """Open the table in a folder; see `open_table`."""
        place = os.fspath(uri) if isinstance(uri, os.PathLike) else uri
        reading, writing = divided_options(options)
        client = TableClient.open(place, storage_options)
        return cls(client, TableOptions.parse(reading), write_options=writing, time_zone=time_zone)

    @property
    def writer(self) -> TableWriter:
        """The writer of this table."""
        from table_writer.writer import TableWriter

        client = TableClient(self.client.storage, self.client.config)
        return TableWriter(client, self._executor(), self._write_options, self)

    def _executor(self) -> Executor | None:
        """The executor of writes; None for this process, by each write's options."""
        return None

    @property
    def columns(self) -> pa.Schema:
        """The table's own columns, without Hudi's meta columns; empty for a table created without a schema."""
        return self._columns(self.client.timeline())

    def _columns(self, timeline: Timeline) -> pa.Schema:
        try:
            return self.client.table_schema(timeline)
        except SchemaError:
            return pa.schema([])

    def explain(
        self,
        filter: str | HudiExpression | None = None,  # noqa: A002  # as `scan` names it
        columns: Sequence[str] | None = None,
        **question: Any,
    ) -> str:
        """Explain a scan's plan: the files that each stage drops, and why; the first files to read.

        Args:
            filter: as for `scan`.
            columns: as for `scan`.
            question: further arguments of `scan`.
        """
        console = Console(width=_WIDTH, markup=False, highlight=False, color_system=None, force_terminal=False)
        with console.capture() as captured:
            for part in explain_plan(self.scan(filter, columns, **question).plan()):
                console.print(part)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def to_spark(
        self,
        session: SparkSession,
        where: Column | str | None = None,
        *,
        as_of: str | None = None,
        incremental: tuple[str, str | None] | None = None,
        read_optimized: bool = False,
        sample: str | None = None,
        options: Options | None = None,
    ) -> DataFrame:
        """The table's rows as a lazy DataFrame of Spark, Hudi's meta columns first: of the state that scans see.

        Each query on the DataFrame is planned by the table's index, whether its filter comes by `where`, SQL on a view,
        a join or a subquery; Spark's own Parquet reader reads the files that are left, and applies the whole filter.
        Slices with log files are read by workers of Python, and chosen when the DataFrame is made.

        Args:
            session: Spark's. Over Spark Connect files are chosen when the DataFrame is made.
            where: a condition that holds for all queries on the DataFrame; files are chosen by it at once. Over Spark
                Connect a text, whose functions are Spark's own.
            as_of: an instant or a time, as for `scan`.
            incremental: the rows that were written after a time and up to another, as for `scan`.
            read_optimized: base files without the log files that changed them since.
            sample: whole buckets, as for `scan`.
            options: see `catalog.snapshots.scan_options.ScanOptions`.

        Raises:
            OptionError: a time or an option cannot be used, or is combined with one that excludes it.
            PendingWriteError: a write of the incremental range is pending.
            UndoneWriteError: the incremental range begins at a write that a rollback or restore took back.
            SchemaError: the table has no columns yet.
            UnsupportedTableError: the table is of a kind that is not read.
        """
        from spark_writer.read.dataframe import scan_frame

        return scan_frame(
            session, question_scan(self, as_of, incremental, options, read_optimized, sample=sample), where
        )

    def stats(self, *, small_limit: int = SMALL_FILE, orphans: bool = False) -> TableStats:
        """Statistics of the table as it is now, from its metadata: files, timelines, services.

        Args:
            small_limit: bytes below which a file group counts as small.
            orphans: list the storage, too, for data files that no instant knows; see `repair`.

        Raises:
            CorruptFileError: the timeline, the archive or the metadata table is damaged.
        """
        client = TableClient(self.client.storage, self.client.config)
        client.reload()
        statistics = table_stats(client, small_limit=small_limit)
        if not orphans:
            return statistics
        from table_writer.repair import with_orphans

        return with_orphans(client, statistics, self._write_options.texts)

    def files(self, *, as_of: str | None = None) -> pa.Table:
        """The table's file groups: partition, file id, instant, path, number of log files, and bytes.

        Args:
            as_of: an instant or a time, as for `snapshot`; the state that the table is held at when None.
        """
        return files_table(self.snapshot(as_of))

    def partitions(self, *, as_of: str | None = None) -> pa.Table:
        """The table's partitions: path, numbers of file groups and log files, bytes, and the newest instant.

        Args:
            as_of: as for `files`.
        """
        return partitions_table(self.snapshot(as_of))

    def history_table(self, *, archived: bool = True) -> pa.Table:
        """The table's history as rows, oldest first: instant, time, action, state, operation, rows, files and bytes.

        Args:
            archived: as for `history`.
        """
        return history_table(self.history(archived=archived), self.config.timeline_timezone)

    def layout(
        self, columns: Sequence[str] | None = None, *, share: float = 0.01, as_of: str | None = None
    ) -> list[ColumnLayout]:
        """How well columns prune: the share of the files that a random range of each one's values keeps.

        Args:
            columns: their names; None for all with statistics in the metadata table.
            share: of the rows that a range holds.
            as_of: as for `files`.

        Raises:
            SchemaError: there is no such column.
            ArgumentError: `share` is not between 0 and 1.
        """
        return column_layouts(self.snapshot(as_of), columns, share=share)

    def run_service(self, service: Callable[[TableClient, WriteOptions, Executor], T], options: Options | None) -> T:
        """Run a service on the table's current state; see `TableWrites`."""
        result = self.writer.run_service(service, options)
        self.refresh()
        return result

    def _write(
        self, operation: Operation, rows: Any, options: Options | None, partitions: Sequence[str] = ()
    ) -> WriteSummary:
        source, timeline = self._source(operation, rows)
        summary = self.writer.write(operation, source, options, partitions, timeline=timeline)
        self.refresh()
        return summary

    def update(
        self, values: Mapping[str, Any], where: str | HudiExpression | None = None, options: Options | None = None
    ) -> WriteSummary:
        """Change columns of the rows that fulfil a condition, in one commit.

        Only files that may hold such rows are read, and of these the columns that are needed. Ordering columns have no
        say: the rows are the table's own.

        Args:
            values: the new value of each column: a text is an SQL expression of the row's columns in DuckDB's dialect,
                such as `"price * 2"` or `"'sold'"`; any other object is the value itself.
            where: the rows, as for `scan`; None for all.
            options: for this write.

        Raises:
            MissingPackageError: DuckDB is not installed.
            SchemaError: the table has no such column, or a time without a zone is to be an instant.
            ExpressionError: an expression or the condition does not parse, or does not fit the columns.
            RecordError: a value that its column cannot hold, a new record key, or a partition that has the key.
        """
        from hudi_catalog.merge import update_of

        return self._change(update_of(self.client, values, where), options)

    def merge(self, source: Any, on: str | Sequence[str]) -> Merge:
        """Begin a merge of rows into the table: clauses follow, and `execute` commits it.

        Args:
            source: the rows, in any form that writes take; they are held in memory.
            on: names of columns that are equal in matching rows, or a condition as SQL text in DuckDB's dialect, which
                calls the sides `target` and `source`.

        Raises:
            ExpressionError: the condition does not parse, or names columns that are not there.
        """
        from hudi_catalog.merge import Merge
        from hudi_catalog.sources.rows import arrow_rows

        self.client.reload()
        rows = arrow_rows(source, self._columns(self.client.timeline()), time_zone=self._time_zone)
        table = rows.open().read_all()
        return Merge(self.client, table, on, self._change, columns=table.schema)

    def _change(self, change: Change, options: Options | None) -> WriteSummary:
        """Write the rows of a change in place; they are computed again where another writer was faster."""
        from table_writer.in_place.moves import OPTIONS

        writer = self.writer
        merged = WriteOptions.of_user(options, self._write_options)
        values = {}
        if change.is_partial:  # whose records stay where they are, since their partition columns are not set
            values = {registry.PARTIAL_COLUMNS.key: "true", registry.MOVE_PARTITION.key: "false"}
        elif change.moves:
            values = OPTIONS
        with contextlib.ExitStack() as held:

            def rows() -> RowSource:
                held.close()  # those of the attempt before
                return held.enter_context(self._computed(change, merged))

            summary = writer.write(Operation.UPSERT, options={**(options or {}), **values}, renew=rows)
        self.refresh()
        return summary

    def _computed(self, change: Change, options: WriteOptions) -> AbstractContextManager[RowSource]:
        """The rows of a change in place."""
        from table_writer.in_place.computed import computed_rows

        return computed_rows(change, options, self)

    def _source(self, operation: Operation, rows: Any) -> tuple[Any, Timeline | None]:
        """Rows in the form that the writer takes, and the timeline whose columns they were converted for."""
        from hudi_catalog.sources.rows import arrow_rows
        from table_writer.writer import ScannedRows

        is_condition = operation is Operation.DELETE and isinstance(rows, (str, HudiExpression))
        if is_condition or operation is Operation.DELETE_PARTITION:
            return rows, None
        self.client.reload()
        timeline = self.client.timeline()
        stream = arrow_rows(rows, self._columns(timeline), time_zone=self._time_zone).stream
        return ScannedRows(rows, stream) if isinstance(rows, Scan) else stream, timeline


class Catalog(catalog.catalog.Catalog):
    """The Hudi tables under a folder, to read and to write; see `catalog.Catalog` for the arguments."""

    def load(self, name: str, *, options: Options | None = None, time_zone: str | None = None) -> Table:
        """Open a table.

        Args:
            name: `database.table`, `table`, or the path of its folder in the warehouse.
            options: as for `open_table`.
            time_zone: as for `open_table`.

        Raises:
            TableNotFoundError: the warehouse has no table of that name, or more than one.
        """
        reading, writing = divided_options(options)
        client = super().load(name).client
        return Table(client, TableOptions.parse(reading), write_options=writing, time_zone=time_zone)

    def register(self, session: SparkSession, names: Mapping[str, str] | Sequence[str] | None = None) -> dict[str, str]:
        """Make a temporary view of each table in a Spark session, which SQL then names.

        Each query reads the state that is the newest when it begins, one state for all mentions, and is planned by the
        table's index. A view has the columns that its table has now: register again when they change. Views take no
        rows; write by `HudiTable`.

        Args:
            session: a classic one with pinned threads, which is the default.
            names: the tables, as `load` takes them, or a dict from the name of each view to its table; None for all,
                each named like its table, with `_` in place of dots: `shop.orders` becomes `shop_orders`.

        Returns:
            The name of each view, and the folder of its table.

        Raises:
            TableNotFoundError: the warehouse has no such table.
            ArgumentError: two tables would get the same view.
            UnsupportedTableError: the session is of Spark Connect, its threads are not pinned, or a table cannot be
                read; earlier views are made.
        """
        from spark_writer.read.names import session_names

        views = session_names(session)
        if isinstance(names, str):
            raise ArgumentError(f"register takes a list of names, or a dict from views to tables: [{names!r}]")
        tables = [entry.name for entry in self.tables()] if names is None else names
        pairs = (
            list(tables.items())
            if isinstance(tables, Mapping)
            else [(name.strip("/").replace("/", ".").replace(".", "_"), name) for name in tables]
        )
        chosen: dict[str, str] = {}
        for view, name in pairs:
            if view.lower() in chosen:
                raise ArgumentError(
                    f"{chosen[view.lower()]} and {name} would both be the view {view}: give names as a dict from views "
                    "to tables"
                )
            chosen[view.lower()] = name
        made = {}
        for view, name in pairs:
            table = super().load(name)
            views.add_view(view, table)
            made[view] = table.client.storage.uri
        return made


def open_table(
    path: str | os.PathLike[str],
    *,
    options: Options | None = None,
    storage_options: Options | None = None,
    time_zone: str | None = None,
) -> Table:
    """Open the table in a folder.

    Args:
        path: its base folder; a local path or a URI of S3, GCS or HDFS.
        options: `hoodie.catalog.statistics.memory` for reading, and Apache's option keys for each write. Writes to
            tables that Apache made need `hoodie.bucket.index.num.buckets`, or `hoodie.index.type=RECORD_INDEX`; scans
            of them plan by that number, too.
        storage_options: arguments for the `pyarrow.fs` file system.
        time_zone: zone of written timestamps that have none; without it they are refused.

    Raises:
        TableNotFoundError: the folder has no table.
        UnsupportedTableError: its version or kind is not supported.
        OptionError: an invalid value of an option.
    """
    return Table.open(path, storage_options, options=options, time_zone=time_zone)


def create_table(
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    buckets: int | None = None,
    index: str | None = None,
    name: str | None = None,
    options: Options | None = None,
    storage_options: Options | None = None,
    time_zone: str | None = None,
) -> Table:
    """Make an empty copy-on-write table, with a metadata table and column statistics.

    Args:
        path: base folder, new or empty; a local path or a URI of S3, GCS or HDFS.
        schema: its columns: a pyarrow schema, an object with `__arrow_c_schema__`, text like Spark's DDL, or rows whose
            columns are used (rows are not written). None leaves them to the first write.
        record_key: column or columns of the record key.
        partition_by: column or columns of the partition path.
        ordering: column or columns that order versions of a record: the greatest value wins. Without them the later
            write wins.
        buckets: file groups per partition, which `resize` changes; None derives the number from the size of the first
            write.
        index: `BUCKET`, the default, or `RECORD_INDEX`.
        name: the table's name; the last part of the path when None.
        options: Apache's option keys, for everything without an argument here; they apply to each write too.
        storage_options: arguments for the `pyarrow.fs` file system.
        time_zone: zone of written timestamps that have none; without it they are refused.

    Raises:
        ArgumentError: there is no record key, or the schema has an unsupported type.
        TableExistsError: there is a table already, or the folder holds other files.
        SchemaError: columns that a table cannot hold, or a key, partition or ordering column that is not among them.
        OptionError: options that contradict each other, an unknown time zone, or a name that no table can have.
    """
    from hudi_catalog.sources.schemas import arrow_schema
    from table_writer.writer import TableWriter

    if not record_key:
        raise ArgumentError("create_table needs record_key: a column, or a list of columns, that identifies a row")
    check_zone(time_zone)
    reading, writing = divided_options(options)
    columns = None if schema is None else arrow_schema(schema, time_zone=time_zone)
    writer = TableWriter.create(
        path,
        columns,
        record_key=record_key,
        buckets=buckets,
        index=index,
        name=name,
        partition_by=partition_by,
        ordering=ordering,
        options=writing,
        storage_options=storage_options,
    )
    return Table(writer.client, TableOptions.parse(reading), write_options=writing, time_zone=time_zone)


def question_scan(
    table: catalog.table.Table,
    as_of: str | None,
    incremental: tuple[str, str | None] | None,
    options: Options | None,
    read_optimized: bool,  # as `to_spark` passes it on
    *,
    sample: str | None,
) -> Scan:
    """The scan of all rows that `to_spark` and `to_df` ask for."""
    texts = {key: str(value) for key, value in (options or {}).items()}
    kind = catalog.table.READ_OPTIMIZED if read_optimized else catalog.table.SNAPSHOT
    return table.scan(as_of=as_of, incremental=incremental, query_type=kind, sample=sample, options=texts)
