"""Writes that put a table's rows into other files and change none: clusterings and resizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from table_format.codecs.avro_schema import schema_text
from table_format.codecs.avro_schema_tree import columns_of_hudi_types
from table_format.errors import UnsupportedTableError
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.schema.evolution import storage_schema
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.conflicts import Cleared
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.executor import Executor
from table_writer.execution.progress import WriteProgress
from table_writer.files.file_change import WrittenFile
from table_writer.metadata.column_statistics import concat_statistics
from table_writer.plan.operations import Duplicates, Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import CURRENT_SCHEMA, FilePlan, ListedFiles
from table_writer.slots.partition_files import PartitionFiles
from table_writer.write_plans import WritePlans


@dataclass(frozen=True)
class RowMoves:
    """Rows of a table on the way to other files, once the transaction has begun.

    Attributes:
        plans: of the write.
        files: how files are read and written.
    """

    plans: WritePlans
    files: FilePlan

    @classmethod
    def of(
        cls,
        client: TableClient,
        options: WriteOptions,
        executor: Executor,
        transaction: WriteTransaction,
        progress: WriteProgress,
    ) -> Self:
        """The plans of a transaction that has begun."""
        timeline = transaction.timeline
        layout = IndexLayout.of(client, timeline)
        plans = WritePlans(
            executor=executor,
            client=client,
            operation=Operation.BULK_INSERT,
            options=options,
            source=None,
            partitions=(),
            chosen=None,
            transaction=transaction,
            timeline=timeline,
            batch=None,
            schema=storage_schema(client.table_schema(timeline)),
            progress=progress,
            layout=layout,
            files=PartitionFiles(client, timeline, open_metadata=transaction.open_metadata),
        )
        files = plans.file_plan(
            ListedFiles(CURRENT_SCHEMA.empty_table()),
            unique=False,
            duplicates=Duplicates.ADD,
            bucketed=False,
            layout=layout,
        )
        return cls(plans, files)

    def commit(
        self,
        written: Sequence[WrittenFile],
        replaced: Mapping[str, Sequence[str]],
        *,
        extra: Mapping[str, str] | None = None,
        cleared: Cleared | None = None,
    ) -> None:
        """Commit the new files; the record index gets the new place of each key, and no deletions.

        Args:
            written: the new files.
            replaced: file groups whose rows are in them, by partition.
            extra: see `WriteTransaction.commit`, as for the next one.
            cleared: likewise.

        Raises:
            HudiError: as for `WriteTransaction.commit`.
        """
        plans = self.plans
        text = plans.client.table_schema_json(plans.timeline)
        tables = [file.statistics for file in written if file.statistics is not None]
        deltas = [delta for file in written for delta in file.index_deltas]
        plans.transaction.commit(
            [file.stat for file in written],
            schema_json=text or schema_text(plans.schema, plans.client.config.name),
            column_stats=concat_statistics(tables) if tables else None,
            replaced=replaced,
            extra=extra,
            index_changes=None if plans.layout is None else deltas,
            index_layout=plans.layout,
            mapper=plans.executor.map,
            cleared=cleared,
        )


def refuse_hudi_types(client: TableClient, timeline: Timeline) -> None:
    """Refuse tables with columns of types that are not written.

    Raises:
        UnsupportedTableError: the table has some.
    """
    columns = columns_of_hudi_types(client.table_schema_json(timeline))
    if columns:
        raise UnsupportedTableError(
            f"{client.storage.uri}: {', '.join(columns)}: columns of Hudi 1.2's types VECTOR, VARIANT and BLOB are not "
            "written; cluster or resize this table with Apache Hudi"
        )
