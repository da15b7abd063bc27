"""Writing a table file by file, so that a benchmark decides which rows share one."""

from __future__ import annotations

import posixpath
from typing import Any

import pyarrow as pa

from table_format.actions.commit import WriteStat
from table_format.codecs.avro_schema import schema_text
from table_format.config.properties import ensure_partition_metadata
from table_format.slices.file_names import BaseFileName, new_file_id
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.base_file import write_base_file
from table_writer.encoding.meta_columns import add_meta_columns
from table_writer.metadata.column_statistics import collect_statistics, indexable_columns
from table_writer.timeline.markers import create_marker


def commit_file(
    transaction: WriteTransaction, rows: pa.Table, keys: pa.Array[Any], number: int, partition: str = ""
) -> tuple[WriteStat, pa.Table]:
    """Write rows as a separate file group; what the commit and the column statistics say of it.

    Args:
        transaction: inflight.
        rows: without meta columns.
        keys: record key of each.
        number: of the file, for its name.
        partition: path of its partition.
    """
    table_name = transaction.client.config.name
    name = str(BaseFileName(new_file_id(), f"{number}-0-0", transaction.instant))
    path = posixpath.join(partition, name)
    create_marker(transaction.storage, transaction.instant, partition, name, "CREATE")
    ensure_partition_metadata(transaction.storage, partition, transaction.instant)
    table = add_meta_columns(
        rows, instant=transaction.instant, task=number, keys=keys, partition=partition, file_name=name
    )
    result = write_base_file(transaction.storage, path, table, schema_text(rows.schema, table_name, meta_fields=True))
    stat = WriteStat(
        file_id=name.split("_", 1)[0],
        path=path,
        partition_path=partition,
        num_writes=rows.num_rows,
        num_inserts=rows.num_rows,
        total_write_bytes=result.size,
        file_size_in_bytes=result.size,
    )
    indexed = indexable_columns(rows.schema, transaction.client.config.raw)
    return stat, collect_statistics(table, name, partition, indexed, result.metadata)
