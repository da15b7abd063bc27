"""A write into buckets of several file groups: keys are looked up in the files of their bucket.

New records fill files of their bucket up to the table's size, then get file groups of their own (RFC-29, pattern 2).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from table_writer.early_checks import refuse_clustered_buckets
from table_writer.indexed_write import Finish, outcome_of, row_plan
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Duplicates, Operation
from table_writer.plan.plan import KeyPlan
from table_writer.slots.current import BucketFiles
from table_writer.tagging.bucket_keys import BucketKeys
from table_writer.tagging.files import average_record, sizing
from table_writer.tagging.passes import IndexedWrite
from table_writer.tagging.placement import Sizing
from table_writer.tagging.tagging import TagPlan
from table_writer.write_plans import Outcome, WritePlans

#: Files filled beyond this share take no new records, since each time all of their rows are written anew.
_FULL: Final = 0.8


def write_groups_of_buckets(
    plans: WritePlans, keys: KeyPlan, current: BucketFiles, duplicates: Duplicates, *, unique: bool
) -> Outcome:
    """Write the rows of a write.

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
