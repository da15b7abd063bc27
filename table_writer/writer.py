"""Writing a table: every operation, whoever runs its tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Self

import pyarrow as pa

from table_format.config.table_config import TableConfig
from table_format.errors import OptionError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.commit.create import create_table
from table_writer.execution.executor import Executor, RowSource
from table_writer.execution.local import LocalExecutor
from table_writer.execution.sources import ArrowData, ArrowRows, stored_schema
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import new_table_properties
from table_writer.record_index.bootstrap import BootstrapReport, bootstrap_index
from table_writer.record_index.verify import VerifyReport, verify_index
from table_writer.row_writes import Options, RowWrites
from table_writer.services.clean import clean
from table_writer.summary import WriteSummary
from table_writer.write_job import WriteJob

_SPOOLED = 8


class TableWriter(RowWrites[ArrowData]):
    """Writes one table.

    Args:
        client: the table.
        executor: runs the tasks of writes; None for this process, as the options `hoodie.catalog.executor.*` say.
        options: Apache's option keys, for every write of this object.

    Raises:
        OptionError: a value that its option does not take.
    """

    def __init__(
        self, client: TableClient, executor: Executor | None = None, options: Options | WriteOptions | None = None
    ) -> None:
        self.client = client
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
        partition_by: str | Sequence[str] = (),
        ordering: str | Sequence[str] = (),
        options: Options | None = None,
        storage_options: Options | None = None,
        executor: Executor | None = None,
    ) -> Self:
        """Make an empty table: copy-on-write, bucket or record index, metadata table with column statistics.

        Args:
            path: base folder; a local path or a URI of S3, GCS or HDFS.
            schema: columns; None leaves them to the first write.
            record_key: field or fields of the record key.
            buckets: file groups per partition, for the bucket index; fixed for good. None takes the number from the
                size of the first write and `hoodie.parquet.max.file.size`.
            index: `BUCKET`, which is the default, or `RECORD_INDEX`.
            name: the table's name; the last part of the path when None.
            partition_by: field or fields of the partition path.
            ordering: field or fields that order versions of a record: the greater value wins. Without them the later
                write wins.
            options: Apache's option keys, for all that has no argument here; they go with each write, too.
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
        if not merged.given(registry.BUCKETS):
            # the first write decides
            properties.pop(registry.BUCKETS.key, None)
        client = create_table(Storage(path, dict(storage_options or {})), properties, dict(merged.texts))
        return cls(client, executor, merged)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        options: Options | None = None,
        storage_options: Options | None = None,
        executor: Executor | None = None,
    ) -> Self:
        """Open the table at a place.

        Args:
            path: base folder.
            options: Apache's option keys for this object's writes. Tables that Apache wrote need
                `hoodie.bucket.index.num.buckets`.
            storage_options: arguments for the `pyarrow.fs` file system.
            executor: see `TableWriter`.

        Raises:
            TableNotFoundError: there is none.
            UnsupportedTableError: one of a version that is not written.
        """
        return cls(TableClient.open(path, dict(storage_options or {})), executor, options)

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

    def delete(self, rows: ArrowData, options: Options | None = None) -> WriteSummary:
        """Delete the records whose key and partition columns some rows hold."""
        return self._write(Operation.DELETE, rows, options)

    def delete_partitions(self, partitions: str | Sequence[str], options: Options | None = None) -> WriteSummary:
        """Empty partitions, named by their paths; `*` stands for any text."""
        names = [partitions] if isinstance(partitions, str) else list(partitions)
        return self.write(Operation.DELETE_PARTITION, None, options, names)

    def _write(self, operation: Operation, rows: ArrowData, options: Options | None) -> WriteSummary:
        return self.write(operation, rows, options)

    def write(
        self,
        operation: Operation | str,
        rows: ArrowData | None = None,
        options: Options | None = None,
        partitions: Sequence[str] = (),
        renew: Callable[[], RowSource] | None = None,
    ) -> WriteSummary:
        """Write rows and commit; nothing is visible unless all of it succeeds.

        Args:
            operation: what to do, or its name in Apache's options, such as `upsert`.
            rows: Arrow data, or a `RowSource` of the executor; see `ArrowData`.
            options: for this write.
            partitions: that `delete_partition` empties.
            renew: makes the rows anew from the table, on each attempt; for those that a condition chooses.

        Raises:
            AfterCommitError: the write is committed; what the options want done then failed.
            ConflictError: other writers were faster each time.
            HudiError: the rows, options or table do not allow it.
        """
        self.client.reload()
        merged = WriteOptions.of_user(options, self.options)
        executor = self.executor(merged)
        job = WriteJob(executor, self.client, Operation(operation), merged, partitions=partitions, renew=renew)
        if rows is None or isinstance(rows, RowSource):
            job.source = rows
            return job.run()
        local = executor if isinstance(executor, LocalExecutor) else LocalExecutor.of(merged)
        with ArrowRows(rows, memory=local.memory // _SPOOLED, folder=local.folder) as source:
            job.source = source
            return job.run()

    def clean(self, options: Options | None = None) -> int:
        """Delete files that only states need which are too old to be read; writes do so by themselves.

        Args:
            options: `hoodie.clean.policy`, `hoodie.cleaner.commits.retained` and so on.

        Returns:
            How many files went.
        """
        self.client.reload()
        done = clean(self.client, WriteOptions.of_user(options, self.options).texts)
        return done.total_files_deleted if done else 0

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
        merged = WriteOptions.of_user(options, self.options)
        executor = self.executor(merged)
        with executor.progress(merged.text(registry.PROGRESS) or "auto") as progress:
            return bootstrap_index(
                self.client,
                merged.texts,
                groups=groups,
                wait_seconds=wait_seconds,
                mapper=executor.map,
                progress=progress.phase,
            )

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
        merged = WriteOptions.of_user(options, self.options)
        executor = self.executor(merged)
        with executor.progress(merged.text(registry.PROGRESS) or "auto") as progress:
            return verify_index(
                self.client,
                merged.texts,
                sample=sample,
                repair=repair,
                mapper=executor.map,
                shared=not (isinstance(executor, LocalExecutor) and not executor.processes),
                progress=progress.phase,
            )

    def executor(self, options: WriteOptions) -> Executor:
        """What runs a write with some options."""
        return self._executor or LocalExecutor.of(options)


def creation_options(
    path: str | os.PathLike[str],
    *,
    record_key: str | Sequence[str],
    buckets: int | None,
    index: str | None,
    name: str | None,
    partition_by: str | Sequence[str],
    ordering: str | Sequence[str],
    options: Options | None,
) -> WriteOptions:
    """The options of a new table out of the arguments of `TableWriter.create`; an argument left out leaves its option.

    Raises:
        OptionError: an argument and an option say different things.
    """
    merged = WriteOptions.of_user(options)
    arguments = {
        "record_key": (registry.RECORD_KEY, _names(record_key)),
        "buckets": (registry.BUCKETS, "" if buckets is None else str(buckets)),
        "index": (registry.INDEX_TYPE, index or ""),
        "name": (registry.TABLE_NAME, name or ""),
        "partition_by": (registry.PARTITION_PATH, _names(partition_by)),
        "ordering": (registry.ORDERING, _names(ordering)),
    }
    values: dict[str, object] = {}
    for argument, (option, text) in arguments.items():
        if text and merged.given(option) and merged.text(option) != text:
            raise OptionError(
                f"{argument}={text!r} and the option {option.key}={merged.text(option)!r}: give one of them"
            )
        if text:
            values[option.key] = text
    if not name and not merged.given(registry.TABLE_NAME):
        values[registry.TABLE_NAME.key] = os.fspath(path).rstrip("/").rsplit("/", 1)[-1]
    return merged.with_values(values)


def _names(names: str | Sequence[str]) -> str:
    return names if isinstance(names, str) else ",".join(names)
