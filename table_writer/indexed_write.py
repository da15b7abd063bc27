"""A write by the record index: the index locates known keys, and new keys go to files with free space."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from table_format.config.table_config import EVENT_TIME
from table_format.errors import OptionError, RecordError, RecordIndexError
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_layout import PARTITION
from table_writer.commit.conflicts import clustered_slots
from table_writer.early_checks import refuse_clustered
from table_writer.encoding.base_file import BaseFileOptions
from table_writer.execution.executor import RowSource
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Duplicates, Operation, SortMode
from table_writer.plan.options import WriteOptions
from table_writer.plan.path_limits import PathLimits
from table_writer.plan.plan import CURRENT_SCHEMA, FilePlan, KeyPlan, ListedFiles
from table_writer.record_index.resize import grow_empty_index
from table_writer.rows.key_identity import shared_fields
from table_writer.tagging.current_rows import CurrentRows
from table_writer.tagging.files import CurrentFiles, GroupPaths, average_record, refuse_buckets, sizing
from table_writer.tagging.passes import IndexedWrite
from table_writer.tagging.rows import Profile, RowPlan
from table_writer.tagging.tagging import Known, TagPlan
from table_writer.write_plans import Outcome, WritePlans, groups_of

# Blocks are held, for instance in Spark's cache, which keeps small ones more easily.
_BLOCK_BYTES = 32 << 20


@dataclass(frozen=True)
class Tagging:
    """How an operation uses the index.

    Attributes:
        known: what happens to known keys; None when all rows are inserted as they are.
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
    if plans.client.config.index_type is None:
        refuse_buckets(plans.files)
    keys = _keys(plans)
    plans.transaction.mark_inflight()
    if operation is Operation.DELETE_PARTITION:
        doomed = plans.doomed(keys)
        gone = CurrentFiles.of(plans.files, filter(doomed, plans.files.partitions())).table
        replaced = groups_of(gone)
        refuse_clustered(plans, gone, bucketed=False)
        return Outcome((), replaced, doomed, plans.index_changes((), gone), plans.layout)
    source, batch = plans.rows()
    plans.progress.phase("looking up records and writing files")
    target = plans.batch_target(batch)
    tagging = tagging_of(operation, options)
    known = average_record(plans.timeline)
    index = None
    if tagging.looked_up and plans.layout.count:
        index = RecordIndex.open(plans.client, plans.timeline, dict(options.texts))
    write = IndexedWrite(
        rows=row_plan(plans, keys, target, tagged=tagging.known is not None, measured=known is None),
        tags=None if tagging.known is None else _tag_plan(plans, tagging.known, keys, target),
        index=index,
        files=plans.files,
        placed=operation in (Operation.UPSERT, Operation.INSERT, Operation.DELETE),
        sizing=lambda measured: sizing(options, known, measured),
        partitioned=plans.key_plan((), 0).spec.is_partitioned,
        tasks=options.number(registry.PARALLELISM),
        driver_rows=options.number(registry.DRIVER_ROWS) or 0,
        sort=_sort_mode(operation, options),
        busy=[(partition, str(file_id)) for partition, file_id in clustered_slots(plans.timeline, bucketed=False)],
    )
    return outcome_of(
        plans, write, source, Finish(plans, Duplicates.ADD if tagging.known is None else Duplicates.MERGE)
    )


def outcome_of(plans: WritePlans, write: IndexedWrite, source: RowSource, finish: Finish) -> Outcome:
    """Run a write that looks keys up, and see what it did.

    Raises:
        HudiError: the rows, options or table do not allow it.
    """
    written = write.run(plans.executor, source, finish)
    gone = _replaced(plans, {file.stat.partition_path for file in written})
    replaced = groups_of(gone)
    whole = plans.operation is Operation.INSERT_OVERWRITE_TABLE
    changes = plans.index_changes(written, gone, whole=whole)
    return Outcome(written, replaced, plans.cleared(written), changes, finish.layout)


def row_plan(plans: WritePlans, keys: KeyPlan, target: pa.Schema, *, tagged: bool, measured: bool) -> RowPlan:
    """How the rows of a write that looks keys up are keyed.

    Args:
        plans: of the write.
        keys: how keys are made; with buckets where new records find a file group by them.
        target: the rows' columns in the table's types.
        tagged: see `RowPlan`.
        measured: likewise, where the job does not say it.
    """
    options, deletes = plans.options, plans.operation is Operation.DELETE
    return RowPlan(
        keys=keys,
        schema=target,
        payload=plans.payload(target),
        ordering=() if deletes else plans.client.config.ordering_fields,
        flush_bytes=min(options.number(registry.FLUSH_BYTES) or 1, _BLOCK_BYTES),
        tagged=tagged,
        thin_rows=options.number(registry.DRIVER_ROWS) or 0,
        measured=measured and not options.is_set(registry.RECORD_SIZE),
        file_options=BaseFileOptions.of(options.texts),
        shared=shared_fields(target, plans.client.config.record_key_fields) if tagged else (),
    )


def _replaced(plans: WritePlans, partitions: Iterable[str]) -> pa.Table:
    """The files that a write into some partitions replaces, of `CURRENT_SCHEMA`."""
    if plans.operation is Operation.INSERT_OVERWRITE_TABLE:
        return CurrentFiles.of(plans.files, None).table
    if plans.operation is Operation.INSERT_OVERWRITE:
        return CurrentFiles.of(plans.files, partitions).table
    return CURRENT_SCHEMA.empty_table()


def tagging_of(operation: Operation, options: WriteOptions) -> Tagging:
    """How an operation uses the index.

    Insert looks keys up unless `hoodie.merge.allow.duplicate.on.inserts` is given as true: the index has one location
    per key and would lose the other row of a duplicate. Bulk insert treats all keys as new.
    """
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation]
    policy = options.insert_policy()
    if operation is Operation.INSERT and policy != "none":
        return Tagging(Known(policy), looked_up=True)
    doubled = options.is_set(registry.ALLOW_DUPLICATES) and options.flag(registry.ALLOW_DUPLICATES)
    if operation is Operation.INSERT and not doubled:
        return Tagging(Known.MERGE, looked_up=True)
    return Tagging(Known.REPLACE if options.flag(registry.COMBINE_INSERT) else None, looked_up=False)


def _sort_mode(operation: Operation, options: WriteOptions) -> SortMode:
    return SortMode(options.text(registry.SORT_MODE)) if operation is Operation.BULK_INSERT else SortMode.GLOBAL_SORT


def _keys(plans: WritePlans) -> KeyPlan:
    """How record keys are made; deletes by an index of the whole table need no partition columns."""
    keys = plans.key_plan(plans.files.paths(), 0)
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


def _tag_plan(plans: WritePlans, known: Known, keys: KeyPlan, target: pa.Schema) -> TagPlan:
    config = plans.client.config
    by_partition = plans.layout is not None and plans.layout.scope == PARTITION and keys.spec.is_partitioned
    moving = plans.operation in (Operation.UPSERT, Operation.INSERT) and not by_partition
    move = moving and keys.spec.is_partitioned and plans.options.flag(registry.MOVE_PARTITION)
    if move and plans.options.flag(registry.PARTIAL_COLUMNS):
        raise OptionError(
            f"{registry.MOVE_PARTITION.key} and {registry.PARTIAL_COLUMNS.key} exclude each other: a record that moves "
            "to another partition needs all its columns"
        )
    computed = plans.source is not None and plans.source.is_computed  # from the current versions
    ordered = move and config.merge_mode == EVENT_TIME and not computed
    shared = shared_fields(target, config.record_key_fields)
    return TagPlan(
        known=known,
        by_partition=by_partition,
        move=move,
        delete=plans.operation is Operation.DELETE,
        moves=_current_rows(plans, config.ordering_fields) if ordered else None,
        selected=plans.source is not None and plans.source.is_selected,
        shared=shared,
        dropped=_current_rows(plans, shared) if shared and (ordered or known is Known.DROP) else None,
    )


def _current_rows(plans: WritePlans, fields: tuple[str, ...]) -> CurrentRows:
    schema = plans.schema.remove_metadata()
    return CurrentRows(plans.client.storage, GroupPaths(plans.files), schema, fields, plans.history())


class Finish:
    """Makes the plan of the files once the rows to write are known.

    Args:
        plans: of the write.
        duplicates: see `FilePlan`.
        unique: likewise.
        bucketed: the table has buckets; then what is busy was looked at before.

    Attributes:
        layout: of the record index after the write.
    """

    def __init__(
        self, plans: WritePlans, duplicates: Duplicates, *, unique: bool = False, bucketed: bool = False
    ) -> None:
        self._plans = plans
        self._duplicates = duplicates
        self._unique = unique
        self._bucketed = bucketed
        self.layout = plans.layout

    def __call__(self, profile: Profile, current: pa.Table) -> FilePlan:
        """The plan; see `passes.Finish`."""
        plans = self._plans
        if not self._bucketed:
            self._refuse_conflicts(profile, current)
        limits = PathLimits.of(plans.client.storage)
        if limits is not None:
            limits.refuse_long(pa.array(sorted(profile.partitions), pa.string()))
        self.layout = plans.grown_layout(profile.partitions)
        if self.layout is not None:
            inserted = sum(sample.rows for sample in profile.inserts.values())
            self.layout = grow_empty_index(plans.client, self.layout, inserted, plans.options.texts)
        return plans.file_plan(
            ListedFiles(current),
            unique=self._unique,
            duplicates=self._duplicates,
            bucketed=False,
            layout=self.layout,
        )

    def _refuse_conflicts(self, profile: Profile, current: pa.Table) -> None:
        plans = self._plans
        if plans.operation is Operation.INSERT_OVERWRITE:
            refuse_elsewhere(profile)
        if clustered_slots(plans.timeline, bucketed=False):
            changed = _replaced(plans, profile.partitions) if plans.operation.replaces else current
            refuse_clustered(plans, changed, bucketed=False)


def refuse_elsewhere(profile: Profile) -> None:
    """Refuse an overwrite with keys of records in partitions that it does not overwrite.

    Raises:
        RecordError: there would be two rows of one key.
    """
    foreign = {name: counted for name, counted in profile.elsewhere.items() if name not in profile.partitions}
    if foreign:
        partition, (_, key) = next(iter(foreign.items()))
        count = sum(rows for rows, _ in foreign.values())
        raise RecordError(
            f"{count} row(s) have a key that is in a partition which this write does not overwrite, such as {key!r} in "
            f"{partition!r}: the record index has one location per key. Delete them there first, or use upsert with "
            f"{registry.MOVE_PARTITION.key}=true"
        )
