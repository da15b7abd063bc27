"""Checks that refuse a write before it costs anything or changes the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from table_format.config.table_config import TableConfig
from table_format.errors import OptionError, SchemaError
from table_format.keys.key_text import raw_column
from table_format.schema.evolution import storage_schema
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.commit.conflicts import check_services, clustered_slots
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.metadata.compaction import most_deltacommits
from table_writer.metadata.index_options import IndexOptions
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import KeyPlan
from table_writer.plan.properties import bucket_count, check_against_table, checked_rules, index_type
from table_writer.rows.slot_rows import keyed_rows
from table_writer.slots.checked_count import CheckedCount
from table_writer.slots.current import BucketFiles, refuse_other_count
from table_writer.slots.partition_files import PartitionFiles, matches_partition
from table_writer.slots.split import distinct_slots
from table_writer.timeline.options import ProtocolOptions
from table_writer.write_plans import WritePlans, key_plan


def refuse_widened_keys(table: pa.Schema, batch: pa.Schema, config: TableConfig) -> None:
    """Refuse a batch whose record keys or partitions have another type: their texts are not those of the table's rows.

    Integers of any width have one text, and those of 32 bits are as many numbers of 64 bits with a fraction.

    Args:
        table: the table's columns.
        batch: of the rows, or of keys to delete.
        config: of the table.

    Raises:
        SchemaError: such a column.
    """
    stored = storage_schema(batch)
    for fields, place in ((config.record_key_fields, "record keys"), (config.partition_fields, "partition paths")):
        for name in fields:
            of_table, of_batch = _type_of(table, name), _type_of(stored, name)
            if of_table is not None and of_batch is not None and not _keeps_texts(of_table, of_batch):
                raise SchemaError(
                    f"column {name!r} is {of_table} in the table and {of_batch} in the batch, and {place} are made of "
                    "it: those of the batch would not be those of the rows that are there; cast the batch's column to "
                    f"{of_table}"
                )


def _keeps_texts(of_table: pa.DataType, of_batch: pa.DataType) -> bool:
    """Whether values of the second type are the keys of equal values of the first one, each a key of its own."""
    types = pa.types
    if types.is_integer(of_table):
        return not types.is_floating(of_batch)
    if of_table == pa.float64():
        return of_batch != pa.int64()
    return of_table != pa.float32() or of_batch not in (pa.int32(), pa.int64(), pa.float64())


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column, or of a member of a struct by its path; None if it is not there."""
    try:
        kind: pa.DataType = raw_column(schema.empty_table(), name).type
    except SchemaError:
        return None
    return kind


def refuse_options(
    client: TableClient,
    options: WriteOptions,
    operation: Operation,
    *,
    batch: pa.Schema | None,
    schema: pa.Schema,
    partitions: Iterable[str],
    chooses: bool,
    timeline: Timeline,
) -> None:
    """Refuse options that cannot be followed, before files of dead writers are touched.

    Args:
        client: the table, with the properties that it will have when the write begins.
        options: of the job.
        operation: what to do.
        batch: columns of the rows; None without any.
        schema: the table's columns after the write.
        partitions: that delete_partition names.
        chooses: whether they are chosen after the write has begun.
        timeline: the table's.

    Raises:
        OptionError: such an option.
        SchemaError: a key or partition column is missing.
        UnsupportedTableError: the table's kind is not written.
    """
    config = client.config
    check_against_table(options, config)
    rules = checked_rules(options, client, timeline.is_committed)
    ProtocolOptions.parse(options.texts)
    IndexOptions.parse(options.texts)
    BaseFileOptions.of(options.texts)
    most_deltacommits(options.texts)
    indexable_columns(schema, {**options.texts, **config.raw})
    named = chooses or [*partitions, *options.names(registry.PARTITIONS_TO_DELETE)]
    if batch is None and not (operation is Operation.DELETE_PARTITION and named):
        rows = f"{registry.PARTITIONS_TO_DELETE.key} or rows" if operation is Operation.DELETE_PARTITION else "rows"
        raise OptionError(f"{operation.value} needs {rows}")
    buckets = bucket_count(options, config) if index_type(options, config) == "BUCKET" else 0
    keys = key_plan(client, options, (), buckets)
    if isinstance(named, list) and named and not keys.spec.is_partitioned:
        _refuse_partitions(operation, named)
    count = CheckedCount.of(options, config)
    if count is not None and not count.is_recorded(timeline):
        # their names show whether the job's count can be right
        listed = PartitionFiles(client, timeline)
        files = BucketFiles(listed, buckets, rules, several=config.bucket_file_size is not None)
        refuse_other_count(client.storage, files, count.fields)
    if batch is not None and buckets and operation is not Operation.DELETE_PARTITION:
        keyed_rows(keys, storage_schema(batch).empty_table(), ())


def _refuse_partitions(operation: Operation, named: Sequence[str]) -> None:
    """Refuse to delete partitions that a table without partitions cannot have."""
    if operation is Operation.DELETE_PARTITION and not any(matches_partition("", pattern) for pattern in named):
        raise OptionError(
            f"the table has no partitions, and so none of the path {named[0]!r}: delete rows by a condition or by keys"
        )


def refuse_clustered(plans: WritePlans, files: pa.Table, *, bucketed: bool) -> None:
    """Refuse to change or replace files that a pending clustering is about to replace, before anything is written.

    Args:
        plans: of the write.
        files: of `CURRENT_SCHEMA`.
        bucketed: whether the table has the bucket index.

    Raises:
        TransactionError: there is such a clustering.
    """
    column = "bucket" if bucketed else "file_id"
    slots = ((row["partition"], row[column]) for row in files.select(["partition", column]).to_pylist())
    check_services(plans.timeline, set(slots), bucketed=bucketed)


def refuse_clustered_buckets(plans: WritePlans, current: BucketFiles, keys: KeyPlan, target: pa.Schema) -> None:
    """`refuse_clustered` for a write of rows by buckets; rows are only scanned if a clustering is pending.

    Args:
        plans: of the write.
        current: base files of the table.
        keys: how keys are made.
        target: the rows' columns in the table's types.
    """
    if not clustered_slots(plans.timeline, bucketed=True):
        return
    if plans.operation is Operation.INSERT_OVERWRITE_TABLE:
        refuse_clustered(plans, current.of(), bucketed=True)
        return
    rows, _ = plans.rows()
    slots = distinct_slots(plans.executor, rows, keys, target)
    check_services(plans.timeline, slots, bucketed=True)
    if plans.operation is Operation.INSERT_OVERWRITE:
        partitions = sorted({partition for partition, _ in slots})
        refuse_clustered(plans, current.of(partitions), bucketed=True)
