"""A write by the bucket index: the hash of a row's key decides its file, or its bucket of several files.

Of several, keys are looked up in the files of their bucket; new records fill files up to the table's size, then get
file groups of their own (RFC-29, pattern 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from table_format.metadata_table.record_index_layout import PARTITION
from table_format.table.client import TableClient
from table_writer.early_checks import refuse_clustered, refuse_clustered_buckets
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.execution.executor import Executor, RowSource
from table_writer.files.file_change import WrittenFile
from table_writer.indexed_write import Finish, outcome_of, row_plan
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Duplicates, Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.path_limits import PathLimits
from table_writer.plan.plan import CURRENT_SCHEMA, BaseFiles, KeyPlan, ListedFiles, SplitPlan
from table_writer.plan.properties import bucket_count, bucket_rules, checked_rules, warn_of_other_count
from table_writer.slots.current import BucketFiles
from table_writer.slots.slot import write_slots
from table_writer.slots.split import distinct_partitions, split_rows
from table_writer.tagging.bucket_keys import BucketKeys
from table_writer.tagging.files import average_record, sizing
from table_writer.tagging.passes import IndexedWrite
from table_writer.tagging.placement import Sizing
from table_writer.tagging.rows import encoded_width
from table_writer.tagging.tagging import TagPlan
from table_writer.write_plans import Outcome, WritePlans, groups_of, key_plan

# Approximate encoded bytes of a row's meta columns: a record key and a sequence number.
_META_BYTES: Final = 10
_MOST_BUCKETS: Final = 10_000
#: Files filled beyond this share take no new records, since each time all of their rows are written anew.
_FULL: Final = 0.8


def write_by_buckets(plans: WritePlans) -> Outcome:
    """Write the files of a table with a bucket index.

    Raises:
        HudiError: the rows, options or table do not allow it.
    """
    plans.progress.phase("looking up current files")
    operation, options = plans.operation, plans.options
    buckets, rules = bucket_count(options, plans.client.config), None
    warn_of_other_count(options, plans.client.config)
    if bucket_rules(options, plans.client.config) is not None:
        rules = checked_rules(options, plans.client, plans.timeline.is_committed)  # they may have changed just now
        buckets = max(rules.counts) if rules is not None else buckets
    several = plans.client.config.bucket_file_size is not None
    current = BucketFiles(plans.files, buckets, rules, several=several)
    keys = replace(plans.key_plan(plans.files.paths(), buckets), rules=rules)
    plans.transaction.mark_inflight()
    if operation is Operation.DELETE_PARTITION:
        doomed = plans.doomed(keys)
        gone = current.of([name for name in plans.files.partitions() if doomed(name)])
        replaced = groups_of(gone)
        refuse_clustered(plans, gone, bucketed=True)
        return Outcome((), replaced, doomed, plans.index_changes((), gone), plans.layout)
    unique, duplicates = _duplicates(operation, options)
    if several:
        return _write_groups(plans, keys, current, duplicates, unique=unique)
    rows, batch = plans.rows()
    plans.progress.phase("writing files")
    target = plans.batch_target(batch)
    split = SplitPlan(
        keys=keys,
        schema=target,
        payload=plans.payload(target),
        slots=_slots(plans, keys),
        flush_bytes=_bounded(options.number(registry.FLUSH_BYTES) or 1, plans.executor),
        # keys to delete may be in partitions that cannot exist
        limits=None if operation is Operation.DELETE else PathLimits.of(plans.client.storage),
    )
    refuse_clustered_buckets(plans, current, keys, target)
    bases: BaseFiles = ListedFiles(CURRENT_SCHEMA.empty_table()) if operation.replaces else current
    layout = plans.layout
    if layout is not None and layout.scope == PARTITION and operation is not Operation.DELETE:
        layout = plans.grown_layout(distinct_partitions(plans.executor, rows, keys, target))
    plan = plans.file_plan(bases, unique=unique, duplicates=duplicates, bucketed=True, layout=layout)
    blocks = plans.executor.exchange(rows, partial(split_rows, split), split.slots)
    written = plans.executor.collect(blocks, partial(write_slots, plan))
    gone = _overwritten(operation, current, written)
    replaced = groups_of(gone)
    changes = plans.index_changes(written, gone)
    return Outcome(written, replaced, plans.cleared(written), changes, layout)


def _overwritten(operation: Operation, current: BucketFiles, written: Sequence[WrittenFile]) -> pa.Table:
    """The files that a write replaces, of `CURRENT_SCHEMA`."""
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return current.of()
    if operation is Operation.INSERT_OVERWRITE:
        return current.of(sorted({file.stat.partition_path for file in written}))
    return CURRENT_SCHEMA.empty_table()


def bucket_count_of_rows(
    executor: Executor, client: TableClient, options: WriteOptions, source: RowSource
) -> int | None:
    """File groups per partition for a new table, from the size of its first rows and the target file size.

    Args:
        executor: runs the tasks.
        client: the table.
        options: of the job.
        source: the rows.

    Returns:
        The number, 0 for no rows; None if the source's size is unknown.
    """
    size = source.size()
    if size is None:
        return None
    rows, sample = size
    if not rows:
        return 0
    most = options.number(registry.FILE_SIZE) or 1
    # a column of nulls, which may have no type, takes no space
    sample = sample.select([field.name for field in sample.schema if not pa.types.is_null(field.type)])
    width = encoded_width(sample, BaseFileOptions.of(options.texts)) + _META_BYTES
    files = -(-int(rows * width) // most)
    keys = key_plan(client, options, (), 1)
    if files > 1 and keys.spec.is_partitioned:
        files = -(-files // len(distinct_partitions(executor, source, keys, source.schema)))
    return min(files, _MOST_BUCKETS)


def _duplicates(operation: Operation, options: WriteOptions) -> tuple[bool, Duplicates]:
    """Whether keys are made unique in the batch, and what happens to keys that the table has."""
    if operation in (Operation.UPSERT, Operation.DELETE):
        return True, Duplicates.MERGE
    combine = options.flag(registry.COMBINE_INSERT)
    if operation is not Operation.INSERT:
        return combine, Duplicates.ADD
    policy = options.insert_policy()
    if policy != "none":
        return combine, Duplicates(policy)
    if options.flag(registry.ALLOW_DUPLICATES):
        return combine, Duplicates.ADD
    return True, Duplicates.MERGE


def _bounded(nbytes: int, executor: Executor) -> int:
    """A number of bytes, at most those that a task should hold."""
    return min(nbytes, executor.task_memory or nbytes)


def _slots(plans: WritePlans, keys: KeyPlan) -> int:
    wanted = plans.options.number(registry.PARALLELISM)
    if wanted is not None:
        return wanted if keys.spec.is_partitioned else min(wanted, keys.buckets)
    if not keys.spec.is_partitioned:
        return keys.buckets
    return max(keys.buckets, plans.executor.slots)


def _write_groups(
    plans: WritePlans, keys: KeyPlan, current: BucketFiles, duplicates: Duplicates, *, unique: bool
) -> Outcome:
    """Write the rows of a write into buckets of several file groups.

    Args:
        plans: of the write.
        keys: how keys and buckets are made.
        current: base files of the table.
        duplicates: what happens to keys that the table has.
        unique: keep one row per key of the batch.

    Raises:
        HudiError: the rows, options or table do not allow it.
    """
    source, batch = plans.rows()
    plans.progress.phase("looking up records and writing files")
    target = plans.batch_target(batch)
    refuse_clustered_buckets(plans, current, keys, target)
    looked_up = duplicates is not Duplicates.ADD
    average = average_record(plans.timeline)
    write = IndexedWrite(
        rows=row_plan(plans, keys, target, tagged=looked_up, measured=average is None),
        tags=TagPlan(delete=plans.operation is Operation.DELETE, selected=source.is_selected) if looked_up else None,
        index=BucketKeys(plans.client.storage, plans.files, keys.buckets) if looked_up else None,
        files=plans.files,
        placed=not plans.operation.replaces,
        sizing=lambda measured: _sizing(plans, average, measured),
        partitioned=keys.spec.is_partitioned,
        tasks=plans.options.number(registry.PARALLELISM),
        driver_rows=plans.options.number(registry.DRIVER_ROWS) or 0,
    )
    return outcome_of(plans, write, source, Finish(plans, duplicates, unique=unique, bucketed=True))


def _sizing(plans: WritePlans, average: float | None, measured: float | None) -> Sizing:
    most = plans.client.config.bucket_file_size or 1
    return replace(sizing(plans.options, average, measured), small=int(most * _FULL), most=most)
