"""Writing a table: every operation, on any executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Self, TypeVar

import pyarrow as pa

from catalog.scan import Scan
from catalog.table import Table
from pushdown.expression import HudiExpression
from table_format.config.table_config import TableConfig, require_writable
from table_format.errors import ArgumentError, OptionError
from table_format.meta_columns import FILE_NAME
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.after_commit import warn_of_needs
from table_writer.cluster import cluster_after_write, finish_inline
from table_writer.commit.create import create_table
from table_writer.execution.executor import Executor, RowSource
from table_writer.execution.local import LocalExecutor
from table_writer.execution.sources import ArrowData, ArrowRows, stored_schema
from table_writer.partition_ttl import expire_after_write
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import index_type, new_table_properties
from table_writer.record_index.touched import retried_after_cleans
from table_writer.rows.several_rows import numbered_schema, with_numbers
from table_writer.summary import WriteSummary
from table_writer.table_writes import Options, TableWrites
from table_writer.write_job import WriteJob

T = TypeVar("T")

_SPOOLED = 8


class TableWriter(TableWrites[ArrowData]):
    """Writes one table.

    Args:
        client: the table.
        executor: runs the tasks of writes; None for this process, as the options `hoodie.catalog.executor.*` say.
        options: Apache's option keys, for every write of this object.
        reader: the same table, held open: what a condition selects is planned by it, once it is refreshed. None opens
            the table anew each time.

    Raises:
        OptionError: a value that its option does not take.
    """

    def __init__(
        self,
        client: TableClient,
        executor: Executor | None = None,
        options: Options | WriteOptions | None = None,
        reader: Table | None = None,
    ) -> None:
        self.client = client
        self._reader = reader
        self.options = options if isinstance(options, WriteOptions) else WriteOptions.of_user(options)
        self._executor = executor

    def __repr__(self) -> str:
        return f"TableWriter({self.name!r}, {self.client.storage.uri!r})"

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: pa.Schema | None = None,
        *,
        record_key: str | Sequence[str],
        buckets: int | None = None,
        index: str | None = None,
        name: str | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        options: Options | None = None,
        storage_options: Options | None = None,
        executor: Executor | None = None,
    ) -> Self:
        """Make an empty table: copy-on-write, bucket or record index, metadata table with column statistics.

        Args:
            path: base folder; a local path or a URI of S3, GCS or HDFS.
            schema: columns; None leaves them to the first write.
            record_key: field or fields of the record key.
            buckets: file groups per partition, for the bucket index; `resize` changes them. None derives their number
                from the size of the first write and `hoodie.parquet.max.file.size`.
            index: `BUCKET`, which is the default, or `RECORD_INDEX`.
            name: the table's name; the last part of the path when None.
            partition_by: field or fields of the partition path.
            ordering: field or fields that order versions of a record: the greater value wins. Without them the later
                write wins.
            options: Apache's option keys, for everything without an argument here; they apply to each write too.
            storage_options: arguments for the `pyarrow.fs` file system.
            executor: see `TableWriter`.

        Raises:
            TableExistsError: there is a table already.
            OptionError: options that contradict each other.
            SchemaError: columns that a table cannot hold.
        """
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
        columns = None if schema is None else stored_schema(schema)
        properties = new_table_properties(merged, columns)
        if not merged.is_set(registry.BUCKETS):
            # the first write decides
            properties.pop(registry.BUCKETS.key, None)
        client = create_table(Storage(path, storage_options), properties, dict(merged.texts))
        return cls(client, executor, merged)

    # arguments are spelled out for help() and editors
    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        options: Options | None = None,
        storage_options: Options | None = None,
        executor: Executor | None = None,
    ) -> Self:
        """Open an existing table.

        Args:
            path: base folder.
            options: Apache's option keys for this object's writes. Tables that Apache wrote need
                `hoodie.bucket.index.num.buckets`.
            storage_options: arguments for the `pyarrow.fs` file system.
            executor: see `TableWriter`.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedTableError: its version can only be read.
        """
        return cls(TableClient.open(path, storage_options), executor, options)

    @property
    def name(self) -> str:
        """The table's name."""
        return self.client.config.name

    @property
    def config(self) -> TableConfig:
        """The table's properties as they are now."""
        return self.client.reload()

    @property
    def schema(self) -> pa.Schema:
        """The table's columns, without Hudi's meta columns."""
        return self.client.table_schema()

    def _write(
        self, operation: Operation, rows: ArrowData, options: Options | None, partitions: Sequence[str] = ()
    ) -> WriteSummary:
        return self.write(operation, rows, options, partitions)

    def write(
        self,
        operation: Operation | str,
        rows: ArrowData | None = None,
        options: Options | None = None,
        partitions: Sequence[str] = (),
        renew: Callable[[], RowSource] | None = None,
        *,
        timeline: Timeline | None = None,
    ) -> WriteSummary:
        """Write rows and commit; nothing is visible unless all of it succeeds.

        Args:
            operation: what to do, or its name in Apache's options, such as `upsert`.
            rows: a `RowSource` of the executor, or Arrow data, which this process writes on any executor; see
                `ArrowData`. Those of a delete may be a condition, as SQL text or an expression.
            options: for this write.
            partitions: those that `delete_partition` deletes.
            renew: computes the rows from the table, once more on each attempt that finds another state of it; instead
                of `rows`.
            timeline: the table's, as loaded for this write; None to load it.

        Raises:
            AfterCommitError: the write is committed, but a step after the commit failed.
            ConflictError: every attempt conflicted with another writer.
            HudiError: the rows, options or table do not allow it.
        """
        require_writable(self.client.reload(), self.client.storage.uri)
        merged = WriteOptions.of_user(options, self.options)
        executor = self.executor(merged)
        operation = Operation(operation)
        if operation is Operation.DELETE and isinstance(rows, (str, HudiExpression)):
            renew = partial(self._matching, rows, merged)
        if renew is not None:
            timeline, rows = self._computed(renew)
        local = executor if isinstance(executor, LocalExecutor) else LocalExecutor.of(merged)
        if isinstance(rows, ArrowRows):
            executor = local
        finish_inline(self.client, merged, executor)
        job = WriteJob(executor, self.client, operation, merged, partitions=partitions, renew=renew, timeline=timeline)
        summary = self._run(job, rows, local)
        warn_of_needs(self.client, job.begun, summary, merged)
        if operation is not Operation.DELETE_PARTITION:
            expire_after_write(self.client, merged, executor)
        cluster_after_write(self.client, merged, executor)
        return summary

    def _computed(self, renew: Callable[[], RowSource]) -> tuple[Timeline, RowSource]:
        """Rows that are computed from the table, and its timeline before: they are of this state, or of a later one."""
        return retried_after_cleans(lambda: (self.client.timeline(), renew()), lambda _: None)

    def _run(self, job: WriteJob, rows: ArrowData | None, local: LocalExecutor) -> WriteSummary:
        if rows is None or isinstance(rows, RowSource):
            job.source = rows
            return job.run()
        job.executor = local
        with ArrowRows(rows, memory=local.memory // _SPOOLED, folder=local.folder) as source:
            job.source = source
            return job.run()

    def _matching(self, condition: str | HudiExpression, options: WriteOptions) -> ScannedRows:
        """Keys of the rows that match now."""
        table = Table(self.client) if self._reader is None else self._reader.refresh()
        return MatchingRows(table.scan(condition, selected_columns(self.client.config, options)))

    def run_service(self, service: Callable[[TableClient, WriteOptions, Executor], T], options: Options | None) -> T:
        """Run a service on the table's current state; see `TableWrites`."""
        self.client.reload()
        merged = WriteOptions.of_user(options, self.options)
        return service(self.client, merged, self.executor(merged))

    def executor(self, options: WriteOptions) -> Executor:
        """The executor for a write with these options."""
        return LocalExecutor.of(options) if self._executor is None else self._executor.with_options(options)


class ScannedRows(ArrowRows):
    """Rows that are a scan of a table, perhaps of the one being written.

    Args:
        scan: what reads them.
        rows: the rows to write if they differ from the scan's; see `ArrowData`.
    """

    def __init__(self, scan: Scan, rows: ArrowData | None = None) -> None:
        super().__init__(scan.to_batch_reader if rows is None else rows, memory=0)  # a scan can be read again
        self._uri = scan.snapshot.client.storage.uri

    def reads_table(self, storage: Storage, name: str) -> bool:  # noqa: ARG002  # a location is more exact
        """Whether the scanned table is the one being written, whose state a retry finds changed."""
        return self._uri == storage.uri


class MatchingRows(ScannedRows):
    """Keys of the rows that a delete takes away, which are counted as they are read.

    Args:
        scan: what reads them.
    """

    is_selected = True

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        super().__init__(scan, self._counted)

    def _counted(self) -> pa.RecordBatchReader:
        reader = self._scan.to_batch_reader()
        schema = numbered_schema(reader.schema)

        def batches() -> Iterator[pa.RecordBatch]:
            count = 0
            for batch in reader:
                count += batch.num_rows
                yield with_numbers(batch)
            self.matched = count

        return pa.RecordBatchReader.from_batches(schema, batches())


def selected_columns(config: TableConfig, options: WriteOptions) -> list[str]:
    """The columns that are read of rows which a change selects: their keys, and their file where an index finds them.

    Args:
        config: of the table.
        options: of the change.
    """
    columns = config.identity_columns
    return [*columns, FILE_NAME] if index_type(options, config) != "BUCKET" else columns


def creation_options(
    path: str | os.PathLike[str],
    *,
    record_key: str | Sequence[str],
    buckets: int | None,
    index: str | None,
    name: str | None,
    partition_by: str | Sequence[str] | None,
    ordering: str | Sequence[str] | None,
    options: Options | None,
) -> WriteOptions:
    """The options of a new table from the arguments of `TableWriter.create`; omitted arguments change no option.

    Raises:
        ArgumentError: an argument that is no column, nor columns.
        OptionError: an argument and an option contradict each other.
    """
    merged = WriteOptions.of_user(options)
    arguments = {
        "record_key": (registry.RECORD_KEY, _names("record_key", record_key)),
        "buckets": (registry.BUCKETS, "" if buckets is None else str(buckets)),
        "index": (registry.INDEX_TYPE, index or ""),
        "name": (registry.TABLE_NAME, name or ""),
        "partition_by": (registry.PARTITION_PATH, _names("partition_by", partition_by)),
        "ordering": (registry.ORDERING, _names("ordering", ordering)),
    }
    values: dict[str, object] = {}
    for argument, (option, text) in arguments.items():
        if text and merged.is_set(option) and merged.text(option) != text:
            raise OptionError(
                f"{argument}={text!r} and the option {option.key}={merged.text(option)!r}: give one of them"
            )
        if text:
            values[option.key] = text
    if not name and not merged.is_set(registry.TABLE_NAME):
        values[registry.TABLE_NAME.key] = os.fspath(path).rstrip("/").rsplit("/", 1)[-1]
    return merged.with_values(values)


def _names(argument: str, names: str | Sequence[str] | None) -> str:
    if names is None or isinstance(names, str):
        return names or ""
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"{argument}={names!r}: give the name of a column, or a list of names")
    return ",".join(names)
