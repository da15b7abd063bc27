"""The plans of one write, from its options and the table: how keys are made, and how files are written."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from table_format.base_file.reader import first_rows
from table_format.codecs.avro_schema import schema_text
from table_format.config.table_config import EVENT_TIME
from table_format.errors import OptionError
from table_format.keys.bucket_index import BucketHashRule
from table_format.keys.key_generator import KeySpec, SingleKeyForm, detect_single_field_form, key_spec_of_properties
from table_format.keys.key_text import columns_of_fields, text_column
from table_format.meta_columns import IS_DELETED, RECORD_KEY
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.schema.evolution import merge_schemas, storage_schema
from table_format.table.client import TableClient
from table_format.table.schema_history import SchemaHistory
from table_format.timeline.timeline import Timeline
from table_writer.commit.conflicts import Cleared
from table_writer.commit.schema import history_of_write
from table_writer.commit.transaction import WriteTransaction
from table_writer.execution.executor import Executor, RowSource
from table_writer.execution.progress import WriteProgress
from table_writer.files.file_change import WrittenFile
from table_writer.metadata.column_statistics import indexable_columns
from table_writer.metadata.index_deltas import DeltaFile, delta_folder
from table_writer.metadata.index_options import with_partitions
from table_writer.plan import option_registry as registry
from table_writer.plan.operations import Duplicates, Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.path_limits import PathLimits
from table_writer.plan.plan import FROM_COLUMN, BaseFiles, FilePlan, KeyPlan
from table_writer.plan.properties import hash_fields
from table_writer.rows.key_identity import shared_fields
from table_writer.slots.partition_files import PartitionFiles, matches_partition, unmatched_partitions
from table_writer.slots.split import distinct_partitions
from table_writer.tagging.files import forget_groups

_LOG = logging.getLogger(__name__)

_COLUMN_STATS = "column_stats"
_KEY_PREFIXES = (
    "hoodie.keygen.",
    "hoodie.deltastreamer.keygen.timebased.",
    "hoodie.write.complex.keygen.",
    "hoodie.datasource.write.keygenerator.consistent.",
    "hoodie.datasource.write.slash.separated.",
)


@dataclass(frozen=True)
class Outcome:
    """What a write did, as input for its commit.

    Attributes:
        files: new base files.
        replaced: replaced file groups, by partition.
        cleared: tells by path which partitions it replaces as a whole; None for none.
        index_changes: its changes to the record index; None in a table without one.
        index_layout: of the record index after the write.
    """

    files: Sequence[WrittenFile] = ()
    replaced: Mapping[str, list[str]] = field(default_factory=dict)
    cleared: Cleared | None = None
    index_changes: Sequence[DeltaFile] | None = None
    index_layout: IndexLayout | None = None


@dataclass(frozen=True)
class WritePlans:
    """One write, once its transaction has begun.

    Attributes:
        executor: runs the tasks.
        client: the table.
        operation: what to do.
        options: the job's.
        source: its rows, if it has any.
        partitions: see `WriteJob`.
        transaction: of the write.
        timeline: the transaction's.
        batch: columns of the rows.
        chosen: paths of partitions that delete_partition takes; None where names or rows say which.
        schema: the table's columns after the write.
        progress: for people.
        layout: of the record index; None where the table keeps none.
        files: of the table before the write.
    """

    executor: Executor
    client: TableClient
    operation: Operation
    options: WriteOptions
    source: RowSource | None
    partitions: Sequence[str]
    transaction: WriteTransaction
    timeline: Timeline
    batch: pa.Schema | None
    chosen: frozenset[str] | None
    schema: pa.Schema
    progress: WriteProgress
    layout: IndexLayout | None
    files: PartitionFiles

    def rows(self) -> tuple[RowSource, pa.Schema]:
        """The rows to write and their columns.

        Raises:
            OptionError: there are none.
        """
        if self.source is None or self.batch is None:
            raise OptionError(f"{self.operation.value} needs rows")
        return self.source, self.batch

    def batch_target(self, batch: pa.Schema) -> pa.Schema:
        """The batch's columns in the types that the table has after the write; those that are none of it are kept."""
        schema = self.schema
        for name in (IS_DELETED, FROM_COLUMN):
            if name in batch.names and name not in schema.names:
                schema = schema.append(batch.field(name))
        if self.operation is Operation.DELETE:
            schema = merge_schemas(schema, batch) if set(batch.names) & set(schema.names) else batch
        return pa.schema([schema.field(name) for name in storage_schema(batch).names])

    def payload(self, target: pa.Schema) -> tuple[str, ...]:
        """The columns that rows take to the files; of a delete those that show which record is meant."""
        if self.operation is not Operation.DELETE:
            return tuple(target.names)
        shared = shared_fields(target, self.client.config.record_key_fields)
        needed = (FROM_COLUMN, *columns_of_fields(target, shared))
        return tuple(name for name in target.names if name in needed)

    def key_plan(self, paths: Iterable[str], buckets: int) -> KeyPlan:
        """How keys, partitions and buckets come from rows; see the function of that name."""
        plan = key_plan(self.client, self.options, paths, buckets)
        # a key too long for the index cannot be in the table, so deleting it is allowed
        return replace(plan, indexed=self.layout is not None and self.operation is not Operation.DELETE)

    def grown_layout(self, partitions: Iterable[str]) -> IndexLayout | None:
        """The layout of the record index with file groups for some partitions, where it has them by partition.

        Raises:
            RecordError: a partition path that is too long to name them after it.
        """
        if self.layout is None or self.layout.scope != PARTITION:
            return self.layout
        grown = with_partitions(self.layout, sorted(partitions), self.options.texts)
        limits = PathLimits.of(self.client.storage)
        if limits is not None:
            limits.refuse_long_families(prefix for prefix, _ in grown.families[len(self.layout.families) :])
        return grown

    def file_plan(
        self,
        current: BaseFiles,
        *,
        unique: bool,
        duplicates: Duplicates,
        bucketed: bool,
        layout: IndexLayout | None,
    ) -> FilePlan:
        """The plan of how files are written.

        Args:
            current: base files that rows are merged into.
            unique: keep one row per key of the batch.
            duplicates: what happens to rows whose key is in the file.
            bucketed: see `FilePlan`.
            layout: of the record index after the write.
        """
        config, schema = self.client.config, self.schema
        indexed = None
        if _COLUMN_STATS in config.metadata_partitions:
            # the table's own list of columns, if it has one, holds for all its files
            indexed = tuple(indexable_columns(schema, {**self.options.texts, **config.raw}))
        return FilePlan(
            storage=self.client.storage,
            instant=self.transaction.instant,
            schema=schema.remove_metadata(),
            footer_schema=schema_text(schema, config.name, meta_fields=True),
            current=current,
            unique=unique,
            duplicates=duplicates,
            delete=self.operation is Operation.DELETE,
            ordering=config.ordering_fields,
            event_time=config.merge_mode == EVENT_TIME and not (self.source is not None and self.source.is_computed),
            indexed=indexed,
            file_options=dict(self.options.texts),
            footer_texts=self.executor.footer_texts,
            bucketed=bucketed,
            partial=self.options.flag(registry.PARTIAL_COLUMNS),
            index=layout,
            index_folder=delta_folder(self.transaction.instant),
            history=self.history(),
            key_fields=config.record_key_fields,
            shared=shared_fields(schema, config.record_key_fields),
        )

    def history(self) -> SchemaHistory | None:
        """Which columns files have, where the table's columns have ids."""
        return history_of_write(self.timeline, self.transaction.instant, self.schema)

    def doomed(self, keys: KeyPlan) -> Cleared:
        """Tells by path which partitions delete_partition deletes."""
        if self.chosen is not None:
            return self.chosen.__contains__
        patterns = [*self.partitions, *self.options.names(registry.PARTITIONS_TO_DELETE)]
        if patterns:
            for one in unmatched_partitions(self.files.partitions(), patterns):
                _LOG.warning("%s: there is no partition %s to delete", self.client.storage.uri, one)
            return lambda name: any(matches_partition(name, pattern) for pattern in patterns)
        if self.source is None or self.batch is None:
            raise OptionError(f"delete_partition needs {registry.PARTITIONS_TO_DELETE.key} or rows")
        return set(distinct_partitions(self.executor, self.source, keys, self.batch)).__contains__

    def index_changes(
        self, written: Sequence[WrittenFile], replaced: pa.Table, *, whole: bool = False
    ) -> list[DeltaFile] | None:
        """The write's changes to the record index; None for a table without one.

        Args:
            written: its files.
            replaced: base files of the file groups that it replaces; of `CURRENT_SCHEMA`.
            whole: these are all file groups of the table.
        """
        if self.layout is None:
            return None
        changes = [delta for file in written for delta in file.index_deltas]
        if not replaced.num_rows:
            return changes
        folder = delta_folder(self.transaction.instant)
        return changes + forget_groups(
            self.client,
            self.timeline,
            self.options.texts,
            folder,
            replaced,
            whole=whole,
            mapper=self.executor.map,
        )

    def cleared(self, written: Sequence[WrittenFile]) -> Cleared | None:
        """Tells by path which partitions an overwrite replaces; None for other writes."""
        if self.operation is Operation.INSERT_OVERWRITE:
            return {file.stat.partition_path for file in written}.__contains__
        if self.operation is Operation.INSERT_OVERWRITE_TABLE:
            return lambda _: True
        return None


def key_plan(client: TableClient, options: WriteOptions, paths: Iterable[str], buckets: int) -> KeyPlan:
    """How keys, partitions and buckets come from rows.

    Args:
        client: the table.
        options: of the job.
        paths: of the table's base files; only a few are read.
        buckets: file groups per partition; 0 for a table without buckets.

    Raises:
        OptionError: a key generator that is not supported.
    """
    config = client.config
    properties = dict(config.raw)
    properties |= {key: text for key, text in options.texts.items() if key.startswith(_KEY_PREFIXES)}
    if options.is_set(registry.PARTITION_PATH):
        # only the job's options record the kinds of a custom key generator's fields in this table version
        properties["hoodie.table.partition.fields"] = ",".join(options.names(registry.PARTITION_PATH))
    spec = key_spec_of_properties(properties)
    if spec.generator == "COMPLEX" and len(spec.record_key_fields) == 1:
        spec = replace(spec, complex_single_field_form=_single_field_form(client, paths, spec))
    fields = hash_fields(options, config) if buckets else ()
    return KeyPlan(spec, BucketHashRule.of_properties(config.raw), fields, buckets)


def groups_of(current: pa.Table) -> dict[str, list[str]]:
    """File groups by partition."""
    groups: dict[str, list[str]] = {}
    for row in current.select(["partition", "file_id"]).to_pylist():
        groups.setdefault(row["partition"], []).append(row["file_id"])
    return groups


def _single_field_form(client: TableClient, paths: Iterable[str], spec: KeySpec) -> SingleKeyForm:
    """The form of single-field keys in the table's data; releases differ, and a table must have only one."""
    key_field = spec.record_key_fields[0]
    for path in paths:
        rows = first_rows(client.storage, path, [RECORD_KEY, key_field.split(".", 1)[0]], 1)
        if rows.num_rows:
            key, value = rows[RECORD_KEY][0].as_py(), text_column(rows, key_field)[0].as_py()
            return detect_single_field_form(key, value, key_field) or spec.complex_single_field_form
    return spec.complex_single_field_form
