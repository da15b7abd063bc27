"""A write by the record index: the index tells the file of a known key, and new keys go where there is room."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import compute

from table_format.base_file.writer import BaseFileOptions
from table_format.config.table_config import EVENT_TIME
from table_format.errors import OptionError, RecordError, RecordIndexError
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION
from table_writer.early_checks import refuse_clustered
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Duplicates, Operation, SortMode
from table_writer.plan.options import WriteOptions
from table_writer.plan.path_limits import PathLimits
from table_writer.plan.plan import FilePlan, KeyPlan
from table_writer.record_index.resize import make_room
from table_writer.tagging.files import CurrentFiles, average_record, indexed_files, refuse_buckets, sizing
from table_writer.tagging.moves import MovePlan
from table_writer.tagging.passes import IndexedWrite
from table_writer.tagging.rows import Profile, RowPlan
from table_writer.tagging.tagging import Known, TagPlan, file_names_of
from table_writer.write_plans import Outcome, WritePlans, groups_of, in_partitions

pc: Any = compute  # the stubs lag behind the functions

# Blocks are held, in Spark's cache for one, which takes small ones more easily.
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class Tagging:
    """What an operation asks of the index.

    Attributes:
        known: what becomes of known keys; None when all rows are inserted as they are.
        looked_up: keys are looked up; else they are only made unique.
    """

    known: Known | None
    looked_up: bool


_BY_OPERATION = {
    Operation.UPSERT: Tagging(Known.MERGE, looked_up=True),
    Operation.DELETE: Tagging(Known.MERGE, looked_up=True),
    Operation.INSERT_OVERWRITE: Tagging(Known.REPLACE, looked_up=True),
    Operation.INSERT_OVERWRITE_TABLE: Tagging(Known.REPLACE, looked_up=False),
}


def write_by_index(plans: WritePlans) -> Outcome:
    """Write the files of a table with a record index.

    Raises:
        RecordIndexError: the table's index is gone or out of date.
        HudiError: the rows, options or table do not allow it.
    """
    plans.progress.phase("looking up current files")
    if plans.layout is None:
        raise RecordIndexError(
            f"{plans.client.storage.uri}: the table has no record index, or one that another writer left out of date: "
            "build it by `hudi-catalog index bootstrap`"
        )
    operation, options = plans.operation, plans.options
    files = indexed_files(plans.client, plans.timeline)
    if plans.client.config.index_type is None:
        refuse_buckets(files)
    keys = _keys(plans, files)
    plans.transaction.mark_inflight()
    if operation is Operation.DELETE_PARTITION:
        doomed = plans.doomed(keys)
        gone = in_partitions(files.table, doomed)
        replaced = groups_of(gone)
        refuse_clustered(plans, gone, bucketed=False)
        return Outcome((), replaced, doomed, plans.index_changes((), files.table, replaced), plans.layout)
    source, batch = plans.rows()
    plans.progress.phase("looking up records and writing files")
    target = plans.batch_target(batch)
    asked = tagging_of(operation, options)
    known = average_record(plans.timeline)
    index = None
    if asked.looked_up and plans.layout.count:
        index = RecordIndex.open(plans.client, plans.timeline, dict(options.texts))
    rows = RowPlan(
        keys=keys,
        schema=target,
        payload=() if operation is Operation.DELETE else tuple(target.names),
        ordering=() if operation is Operation.DELETE else plans.client.config.ordering_fields,
        flush_bytes=min(options.number(registry.FLUSH_BYTES) or 1, _BLOCK_BYTES),
        tagged=asked.known is not None,
        thin_rows=options.number(registry.DRIVER_ROWS) or 0,
        measured=known is None and not options.given(registry.RECORD_SIZE),
        file_options=BaseFileOptions.of(options.texts),
    )
    write = IndexedWrite(
        rows=rows,
        tags=None if asked.known is None else _tag_plan(plans, files, asked.known, keys),
        index=index,
        files=files,
        placed=operation in (Operation.UPSERT, Operation.INSERT, Operation.DELETE),
        sizing=lambda measured: sizing(options, known, measured),
        partitioned=plans.key_plan(files.table.slice(0, 0), 0).spec.is_partitioned,
        tasks=options.number(registry.PARALLELISM),
        driver_rows=options.number(registry.DRIVER_ROWS) or 0,
        sort=_sort_mode(operation, options),
    )
    finish = _Finish(plans, files.table)
    written = write.run(plans.executor, source, finish)
    cleared = plans.cleared(written)
    replaced = groups_of(in_partitions(files.table, cleared))
    return Outcome(written, replaced, cleared, plans.index_changes(written, files.table, replaced), finish.layout)


def tagging_of(operation: Operation, options: WriteOptions) -> Tagging:
    """What an operation asks of the index.

    Insert looks keys up unless `hoodie.merge.allow.duplicate.on.inserts` is given as true: the index has one place for
    each key, so that it could not find both rows of one again. Bulk insert takes its keys for new.
    """
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation]
    policy = options.insert_policy()
    if operation is Operation.INSERT and policy != "none":
        return Tagging(Known(policy), looked_up=True)
    doubled = options.given(registry.ALLOW_DUPLICATES) and options.flag(registry.ALLOW_DUPLICATES)
    if operation is Operation.INSERT and not doubled:
        return Tagging(Known.MERGE, looked_up=True)
    return Tagging(Known.REPLACE if options.flag(registry.COMBINE_INSERT) else None, looked_up=False)


def _sort_mode(operation: Operation, options: WriteOptions) -> SortMode:
    return SortMode(options.text(registry.SORT_MODE)) if operation is Operation.BULK_INSERT else SortMode.GLOBAL_SORT


def _keys(plans: WritePlans, files: CurrentFiles) -> KeyPlan:
    """How keys come about; deletes from an index of the whole table need no partition columns."""
    keys = plans.key_plan(files.table, 0)
    layout, batch = plans.layout, plans.batch
    if plans.operation is not Operation.DELETE or batch is None or layout is None or layout.scope == PARTITION:
        return keys
    roots = {name.split(".", 1)[0] for name in keys.spec.partition_fields}
    if roots <= set(batch.names):
        return keys
    generator = "NON_PARTITION" if keys.spec.generator in ("SIMPLE", "TIMESTAMP") else keys.spec.generator
    spec = dataclasses.replace(
        keys.spec, generator=generator, partition_fields=(), timestamp_fields=(), timestamp_format=None
    )
    return dataclasses.replace(keys, spec=spec)


def _tag_plan(plans: WritePlans, files: CurrentFiles, known: Known, keys: KeyPlan) -> TagPlan:
    config = plans.client.config
    by_partition = plans.layout is not None and plans.layout.scope == PARTITION and keys.spec.is_partitioned
    moving = plans.operation in (Operation.UPSERT, Operation.INSERT) and not by_partition
    move = moving and keys.spec.is_partitioned and plans.options.flag(registry.MOVE_PARTITION)
    if move and plans.options.flag(registry.PARTIAL_COLUMNS):
        raise OptionError(
            f"{registry.MOVE_PARTITION.key} and {registry.PARTIAL_COLUMNS.key} do not go together: a record that moves "
            "to another partition needs all its columns"
        )
    moves = None
    if move and config.merge_mode == EVENT_TIME:
        paths: Any = files.table["path"].combine_chunks()
        moves = MovePlan(
            plans.client.storage,
            paths,
            plans.schema.remove_metadata(),
            config.ordering_fields,
            plans.history(files.table),
        )
    partitions: Any = files.table["partition"].combine_chunks()
    return TagPlan(
        files=file_names_of(files.table["partition"], files.table["file_id"]),
        partitions=partitions,
        known=known,
        by_partition=by_partition,
        move=move,
        delete=plans.operation is Operation.DELETE,
        moves=moves,
    )


class _Finish:
    """The plan of the files, once it is known what is to be written.

    Attributes:
        layout: of the record index after the write.
    """

    def __init__(self, plans: WritePlans, files: pa.Table) -> None:
        self._plans = plans
        self._files = files
        self.layout = plans.layout

    def __call__(self, profile: Profile, current: pa.Table) -> FilePlan:
        plans = self._plans
        if plans.operation is Operation.INSERT_OVERWRITE:
            refuse_elsewhere(profile)
            refuse_clustered(plans, in_partitions(self._files, profile.inserts.__contains__), bucketed=False)
        else:
            refuse_clustered(plans, self._files if plans.operation.replaces else current, bucketed=False)
        limits = PathLimits.of(plans.client.storage)
        if limits is not None:
            limits.refuse_long(pa.array([*profile.inserts], pa.string()))
        self.layout = plans.grown_layout(profile.inserts)
        if self.layout is not None:
            inserted = sum(sample.rows for sample in profile.inserts.values())
            self.layout = make_room(plans.client, self.layout, inserted, plans.options.texts)
        tagged = tagging_of(plans.operation, plans.options).known is not None
        duplicates = Duplicates.MERGE if tagged else Duplicates.ADD
        return plans.file_plan(current, unique=False, duplicates=duplicates, bucketed=False, layout=self.layout)


def refuse_elsewhere(profile: Profile) -> None:
    """Refuse an overwrite with keys of records in partitions that it does not overwrite.

    Raises:
        RecordError: there would be two rows of one key.
    """
    foreign = {name: found for name, found in profile.elsewhere.items() if name not in profile.inserts}
    if foreign:
        partition, (_, key) = next(iter(foreign.items()))
        count = sum(rows for rows, _ in foreign.values())
        raise RecordError(
            f"{count} row(s) have a key that is in a partition which this write does not overwrite, such as {key!r} in "
            f"{partition!r}: the record index has one place for each key. Delete them there first, or use upsert with "
            f"{registry.MOVE_PARTITION.key}=true"
        )
