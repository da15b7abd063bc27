"""Tables that are read and written from Python, with neither Spark nor a JVM."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

import catalog.catalog
import catalog.table
from catalog.explain import explain as explain_plan
from catalog.scan import Scan
from catalog.table import KEYS as TABLE_KEYS
from catalog.table import TableOptions
from pushdown.expression import HudiExpression
from table_format.errors import ArgumentError, SchemaError
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_writer.plan.operations import Operation
from table_writer.row_writes import Options, RowWrites

if TYPE_CHECKING:
    from table_format.metadata_table.record_index_layout import IndexLayout
    from table_writer.record_index.bootstrap import BootstrapReport
    from table_writer.record_index.verify import VerifyReport
    from table_writer.summary import WriteSummary
    from table_writer.writer import TableWriter

_WIDTH = 160


class Table(catalog.table.Table, RowWrites[Any]):
    """A Hudi table, to read and to write.

    It reads as `catalog.Table` does: `scan`, `snapshot`, `history`, `refresh`. Each writing call is one commit, of
    which all becomes visible or nothing; afterwards the table stands at that state.

    Rows are anything that Arrow can read: a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, a Polars or
    pandas DataFrame, a DuckDB relation, a `Scan` of a table, a list of dicts, or an iterator of any of these, which may
    give more than memory holds.

    Args:
        client: the table's files.
        options: of its reading.
        write_options: by Apache's option keys, for each write.
        time_zone: in which timestamps without one are taken; without it they are refused.
    """

    def __init__(
        self,
        client: TableClient,
        options: TableOptions | None = None,
        *,
        write_options: Options | None = None,
        time_zone: str | None = None,
    ) -> None:
        super().__init__(client, options)
        self._write_options = dict(write_options or {})
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
        place = uri if isinstance(uri, Storage) else os.fspath(uri)
        reading, writing = _divided(options)
        client = TableClient.open(place, storage_options)
        return cls(client, TableOptions.parse(reading), write_options=writing, time_zone=time_zone)

    @functools.cached_property
    def writer(self) -> TableWriter:
        """What carries out the writes, in this process."""
        from table_writer.writer import TableWriter

        return TableWriter(TableClient(self.client.storage, self.client.config), options=self._write_options)

    @property
    def columns(self) -> pa.Schema:
        """The table's own columns, without Hudi's meta columns; none in a table that was created without any."""
        try:
            return self.client.table_schema()
        except SchemaError:
            return pa.schema([])

    def explain(
        self,
        filter: str | HudiExpression | None = None,  # noqa: A002  # as `scan` names it
        columns: Sequence[str] | None = None,
        **question: Any,
    ) -> str:
        """How a scan's plan comes about: files that each stage drops, and why; the first files that are read.

        Args:
            filter: as for `scan`.
            columns: as for `scan`.
            question: what else `scan` takes.
        """
        console = Console(width=_WIDTH, markup=False, highlight=False, color_system=None, force_terminal=False)
        with console.capture() as captured:
            for part in explain_plan(self.scan(filter, columns, **question).plan()):
                console.print(part)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def delete(self, rows: Any, options: Options | None = None) -> WriteSummary:
        """Delete records.

        Args:
            rows: a condition, as SQL text or an expression of `pushdown.col`; or rows with the key and partition
                columns of what goes, in any form that the other writes take.
            options: for this write.
        """
        if isinstance(rows, (str, HudiExpression)):
            return self._delete_where(rows, options)
        return self._write(Operation.DELETE, rows, options)

    def delete_partitions(self, partitions: str | Sequence[str], options: Options | None = None) -> WriteSummary:
        """Empty partitions, named by their paths; `*` stands for any text."""
        summary = self.writer.delete_partitions(partitions, options)
        self.refresh()
        return summary

    def clean(self, options: Options | None = None) -> int:
        """Delete files that only states need which are too old to be read; writes do so by themselves.

        Args:
            options: `hoodie.clean.policy`, `hoodie.clean.commits.retained` and so on.

        Returns:
            How many files went.
        """
        removed = self.writer.clean(options)
        self.refresh()
        return removed

    def bootstrap_index(
        self, options: Options | None = None, *, groups: int | None = None, wait_seconds: float = 60.0
    ) -> BootstrapReport:
        """Build the record index from the data, in place of one that is there; an interrupted build goes on.

        Args:
            options: `hoodie.metadata.record.index.*` and those of the lock.
            groups: file groups of the index; None for as many as the number of keys asks for.
            wait_seconds: how long to wait at the end for writes that are under way.

        Raises:
            RecordIndexError: the table's files hold no record keys.
            TransactionError: a write is under way and does not end; the next call goes on from there.
        """
        report = self.writer.bootstrap_index(options, groups=groups, wait_seconds=wait_seconds)
        self.refresh()
        return report

    def verify_index(
        self, options: Options | None = None, *, sample: float | None = None, repair: bool = False
    ) -> VerifyReport:
        """Compare the record index with the data.

        Args:
            options: for the commit that repairs the index.
            sample: share of the file slices to read, such as 0.01; None for all.
            repair: correct the index; duplicate rows are in the data, and stay.

        Raises:
            RecordIndexError: the table has no record index.
            OptionError: `sample` is no share, or is given with `repair`.
        """
        report = self.writer.verify_index(options, sample=sample, repair=repair)
        self.refresh()
        return report

    def resize_index(self, groups: int, options: Options | None = None) -> IndexLayout:
        """Spread the record index over another number of file groups.

        Args:
            groups: file groups that it is to have.
            options: of the lock, and `hoodie.catalog.record.index.growth`.

        Raises:
            RecordIndexError: the table has no record index, or one by partition.
            TransactionError: a write is pending.
        """
        from table_writer.plan.options import WriteOptions
        from table_writer.record_index.resize import resize

        texts = WriteOptions.of_user(options, WriteOptions.of_user(self._write_options)).texts
        layout = resize(TableClient(self.client.storage, self.client.config), groups, options=texts)
        self.refresh()
        return layout

    def _write(self, operation: Operation, rows: Any, options: Options | None) -> WriteSummary:
        from hudi_catalog.sources.rows import RowsOfTable, arrow_rows

        self.client.reload()
        stream = arrow_rows(rows, self.columns, time_zone=self._time_zone)
        source = RowsOfTable(rows, stream) if isinstance(rows, Scan) else stream.stream
        summary = self.writer.write(operation, source, options)
        self.refresh()
        return summary

    def _delete_where(self, condition: str | HudiExpression, options: Options | None) -> WriteSummary:
        from hudi_catalog.sources.rows import RowsOfTable, arrow_rows

        def matching() -> RowsOfTable:
            """Keys of the rows that match now; called when the write begins, and when it is repeated."""
            config = self.writer.client.config
            fields = (*config.record_key_fields, *config.partition_fields)
            columns = dict.fromkeys(field.split(".", 1)[0] for field in fields)
            scan = catalog.table.Table(self.writer.client).scan(condition, columns)
            return RowsOfTable(scan, arrow_rows(scan))

        self.writer.client.reload()
        summary = self.writer.write("delete", matching(), options, renew=matching)
        self.refresh()
        return summary


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
        reading, writing = _divided(options)
        client = super().load(name).client
        return Table(client, TableOptions.parse(reading), write_options=writing, time_zone=time_zone)


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
            tables that Apache made need `hoodie.bucket.index.num.buckets`, or `hoodie.index.type=RECORD_INDEX`.
        storage_options: arguments for the `pyarrow.fs` file system.
        time_zone: in which timestamps without one are taken when they are written; without it they are refused.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedTableError: it is of a version or kind that is not read.
        OptionError: an option's value does not fit it.
    """
    return Table.open(path, storage_options, options=options, time_zone=time_zone)


def create_table(
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] = (),
    ordering: str | Sequence[str] = (),
    buckets: int | None = None,
    index: str | None = None,
    name: str | None = None,
    options: Options | None = None,
    storage_options: Options | None = None,
    time_zone: str | None = None,
) -> Table:
    """Make an empty copy-on-write table, with a metadata table and column statistics.

    Args:
        path: base folder, which is new or empty; a local path or a URI of S3, GCS or HDFS.
        schema: its columns: a pyarrow schema, what has `__arrow_c_schema__`, text as Spark's DDL has it, or rows to
            take them from, which are not written. None leaves them to the first write.
        record_key: column or columns of the record key.
        partition_by: column or columns of the partition path.
        ordering: column or columns that order versions of a record: the greatest value wins. Without them the later
            write wins.
        buckets: file groups of a partition, fixed for good; None takes the number from the size of the first write.
        index: `BUCKET`, the default, or `RECORD_INDEX`.
        name: the table's name; the last part of the path when None.
        options: Apache's option keys, for all that has no argument here; they go with each write, too.
        storage_options: arguments for the `pyarrow.fs` file system.
        time_zone: in which timestamps without one are taken when they are written; without it they are refused.

    Raises:
        ArgumentError: there is no record key, or the schema is something else.
        TableExistsError: there is a table already, or the folder holds other files.
        SchemaError: columns that a table cannot hold, or a key, partition or ordering column that is not among them.
        OptionError: options that contradict each other.
    """
    from hudi_catalog.sources.schemas import arrow_schema
    from table_writer.writer import TableWriter

    if not record_key:
        raise ArgumentError("create_table needs record_key: a column, or a list of columns, that identifies a row")
    reading, writing = _divided(options)
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


def _divided(options: Options | None) -> tuple[dict[str, str], dict[str, Any]]:
    """Options of reading, and those of writing."""
    if options is not None and not isinstance(options, Mapping):
        raise ArgumentError(f"options are a dict from keys to values, not {options!r}")
    reading = {key: str(value) for key, value in (options or {}).items() if key in TABLE_KEYS}
    return reading, {key: value for key, value in (options or {}).items() if key not in TABLE_KEYS}
