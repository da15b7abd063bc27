"""One write from a DataFrame to a commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession

from spark_writer import option_registry as registry
from spark_writer.after_commit import AfterCommit
from spark_writer.current_files import current_files
from spark_writer.interpreter import use_this_interpreter
from spark_writer.operations import Duplicates, Operation
from spark_writer.options import WriteOptions
from spark_writer.plans import CURRENT_SCHEMA, FilePlan, KeyPlan, SplitPlan
from spark_writer.progress import WriteProgress, default_parallelism
from spark_writer.shuffle import distinct_partitions, write_files
from spark_writer.slot_writer import WrittenFile
from spark_writer.spark_types import arrow_schema, refuse_untyped
from spark_writer.summary import WriteSummary
from spark_writer.table_properties import bucket_count, check_against_table, hash_fields
from table_format.avro_schema import schema_text
from table_format.base_file import read_base_file
from table_format.bucket_index import BucketHashRule
from table_format.column_statistics import concat_statistics, indexable_columns
from table_format.errors import OptionError, SchemaError
from table_format.key_generator import KeySpec, SingleKeyForm, detect_single_field_form, key_spec_of_properties
from table_format.key_text import text_column
from table_format.meta_client import TableClient
from table_format.meta_columns import RECORD_KEY
from table_format.schema_evolution import merge_schemas, storage_schema
from table_format.table_config import EVENT_TIME
from table_format.transaction.transaction import WriteTransaction

pc: Any = compute  # the stubs lag behind the functions

_COLUMN_STATS = "column_stats"
# Without it Spark's readers refuse dates before 1582, lest they be of the calendar of Spark 2.
_SPARK_VERSION = "org.apache.spark.version"
_KEY_PREFIXES = (
    "hoodie.keygen.",
    "hoodie.deltastreamer.keygen.timebased.",
    "hoodie.write.complex.keygen.",
    "hoodie.datasource.write.keygenerator.consistent.",
    "hoodie.datasource.write.slash.separated.",
)


@dataclass
class WriteJob:
    """One write.

    Attributes:
        session: Spark's.
        client: the table, which is there.
        operation: what to do.
        options: the job's.
        df: rows; keys suffice for deletes. None for deleting named partitions.
        partitions: partition paths that delete_partition takes, `*` for any text.
    """

    session: SparkSession
    client: TableClient
    operation: Operation
    options: WriteOptions
    df: DataFrame | None = None
    partitions: Sequence[str] = ()
    started: float = field(default_factory=time.monotonic)

    def run(self) -> WriteSummary:
        """Write and commit; nothing is visible unless all of it succeeds.

        Raises:
            AfterCommitError: the write is committed; what the options want done then failed.
            HudiError: the rows, options or table do not allow it, or another writer was faster.
        """
        mode = self.options.text(registry.PROGRESS) or "auto"
        use_this_interpreter(self.session)
        check_against_table(self.options, self.client.config)
        batch = None if self.df is None else arrow_schema(self.df.schema)
        self._schema_after(batch)  # refuses before there is anything to undo
        after = AfterCommit.prepare(self.session, self.client, self.options)
        protocol = {**self.options.texts, "hoodie.index.type": "BUCKET"}
        with WriteProgress(self.session, mode) as progress:
            transaction = WriteTransaction.begin(
                self.client, self.operation.action, self.operation.commit_name, protocol
            )
            with transaction:
                # Again, like all that is read of the table: another writer may have added a column before the begin.
                schema = self._schema_after(batch)
                written, replaced = self._write(transaction, batch, schema, progress)
                progress.phase("committing")
                stats = [file.stat for file in written]
                tables = [file.statistics for file in written if file.statistics is not None]
                transaction.commit(
                    stats,
                    schema_json=self._schema_json(schema),
                    column_stats=concat_statistics(tables) if tables else None,
                    replaced=replaced if self.operation.replaces else None,
                )
        summary = WriteSummary.of(
            self.client.config.name,
            self.operation.value,
            transaction.instant,
            stats,
            replaced=sum(map(len, replaced.values())),
            seconds=time.monotonic() - self.started,
        )
        progress.finish(summary)
        progress.tell(after.run(transaction.instant))
        return summary

    def _schema_after(self, batch: pa.Schema | None) -> pa.Schema:
        """The table's columns once the write is through."""
        try:
            table = storage_schema(self.client.table_schema())
        except SchemaError:
            if batch is None or self.operation in (Operation.DELETE, Operation.DELETE_PARTITION):
                raise
            table = pa.schema([])
        changes = self.operation not in (Operation.DELETE, Operation.DELETE_PARTITION)
        if batch is None or not changes:
            return table
        merged = merge_schemas(table, batch)
        refuse_untyped(merged)
        schema_text(merged, self.client.config.name)  # refuses names and types that Avro cannot hold
        needed = (*self.client.config.record_key_fields, *self.client.config.ordering_fields)
        for name in needed:
            if name.split(".", 1)[0] not in merged.names:
                raise SchemaError(f"key or ordering column {name!r} is not in the data; columns are {batch.names}")
        return merged

    def _schema_json(self, schema: pa.Schema) -> str:
        # An unchanged schema keeps its text, in which other writers may have put defaults and documentation.
        text = self.client.table_schema_json()
        if text is not None and storage_schema(self.client.table_schema()) == schema:
            return text
        return schema_text(schema, self.client.config.name)

    def _write(
        self, transaction: WriteTransaction, batch: pa.Schema | None, schema: pa.Schema, progress: WriteProgress
    ) -> tuple[list[WrittenFile], dict[str, list[str]]]:
        progress.phase("looking up current files")
        buckets = bucket_count(self.options, self.client.config)
        # Loaded after the transaction began: a commit in between shows as a conflict rather than getting lost.
        current = current_files(self.client, self.client.timeline(), buckets)
        keys = self._key_plan(current, buckets)
        transaction.mark_inflight()
        if self.operation is Operation.DELETE_PARTITION:
            return [], _groups_of(current, self._doomed(current, keys, batch))
        if self.df is None or batch is None:
            raise OptionError(f"{self.operation.value} needs rows: give a DataFrame")
        progress.phase("writing files")
        target = self._batch_target(batch, schema)
        split = SplitPlan(
            keys=keys,
            schema=target,
            payload=() if self.operation is Operation.DELETE else tuple(target.names),
            slots=self._slots(keys),
            flush_bytes=self.options.number(registry.FLUSH_BYTES) or 1,
        )
        written = write_files(self.df, split, self._file_plan(transaction.instant, schema, current))
        replaced: dict[str, list[str]] = {}
        if self.operation is Operation.INSERT_OVERWRITE:
            replaced = _groups_of(current, {file.stat.partition_path for file in written})
        elif self.operation is Operation.INSERT_OVERWRITE_TABLE:
            replaced = _groups_of(current, None)
        return written, replaced

    def _batch_target(self, batch: pa.Schema, schema: pa.Schema) -> pa.Schema:
        """The batch's columns in the types that the table has after the write."""
        if self.operation is Operation.DELETE:
            schema = merge_schemas(schema, batch) if set(batch.names) & set(schema.names) else batch
        return pa.schema([schema.field(name) for name in storage_schema(batch).names])

    def _file_plan(self, instant: str, schema: pa.Schema, current: pa.Table) -> FilePlan:
        config = self.client.config
        unique, duplicates = self._duplicates()
        indexed = None
        if _COLUMN_STATS in config.metadata_partitions:
            # the table's own list of columns, where it has one, is that of all its files
            indexed = tuple(indexable_columns(schema, {**self.options.texts, **config.raw}))
        return FilePlan(
            storage=self.client.storage,
            instant=instant,
            schema=schema.remove_metadata(),
            footer_schema=schema_text(schema, config.name, meta_fields=True),
            current=CURRENT_SCHEMA.empty_table() if self.operation.replaces else current,
            unique=unique,
            duplicates=duplicates,
            delete=self.operation is Operation.DELETE,
            ordering=config.ordering_fields,
            event_time=config.merge_mode == EVENT_TIME,
            indexed=indexed,
            file_options=dict(self.options.texts),
            footer_texts={_SPARK_VERSION: __version__},
        )

    def _duplicates(self) -> tuple[bool, Duplicates]:
        """Whether keys are made unique in the batch, and what becomes of keys that the table has."""
        if self.operation in (Operation.UPSERT, Operation.DELETE):
            return True, Duplicates.MERGE
        combine = self.options.flag(registry.COMBINE_INSERT)
        if self.operation is not Operation.INSERT:
            return combine, Duplicates.ADD
        policy = self.options.text(registry.DUPLICATE_POLICY) or "none"
        if policy == "none" and self.options.flag(registry.DROP_DUPLICATES):
            policy = "drop"
        if policy != "none":
            return combine, Duplicates(policy)
        if self.options.flag(registry.ALLOW_DUPLICATES):
            return combine, Duplicates.ADD
        return True, Duplicates.MERGE

    def _key_plan(self, current: pa.Table, buckets: int) -> KeyPlan:
        config = self.client.config
        properties = dict(config.raw)
        properties |= {key: text for key, text in self.options.texts.items() if key.startswith(_KEY_PREFIXES)}
        if self.options.given(registry.PARTITION_PATH):
            # custom key generators of this version keep their fields' kinds in the job's options only
            properties["hoodie.table.partition.fields"] = ",".join(self.options.names(registry.PARTITION_PATH))
        spec = key_spec_of_properties(properties)
        if spec.generator == "COMPLEX" and len(spec.record_key_fields) == 1:
            spec = replace(spec, complex_single_field_form=self._single_field_form(current, spec))
        return KeyPlan(spec, BucketHashRule.of_properties(config.raw), hash_fields(self.options, config), buckets)

    def _single_field_form(self, current: pa.Table, spec: KeySpec) -> SingleKeyForm:
        """The form of keys of one field that the table's data has; releases differ, and a table must keep to one."""
        key_field = spec.record_key_fields[0]
        paths: list[Any] = current["path"].to_pylist()
        for path in paths:
            rows = read_base_file(self.client.storage, path, [RECORD_KEY, key_field.split(".", 1)[0]]).slice(0, 1)
            if rows.num_rows:
                key, value = rows[RECORD_KEY][0].as_py(), text_column(rows, key_field)[0].as_py()
                return detect_single_field_form(key, value, key_field) or spec.complex_single_field_form
        return spec.complex_single_field_form

    def _slots(self, keys: KeyPlan) -> int:
        wanted = self.options.number(registry.PARALLELISM)
        if wanted is not None:
            return wanted if keys.spec.is_partitioned else min(wanted, keys.buckets)
        if not keys.spec.is_partitioned:
            return keys.buckets
        return max(keys.buckets, 2 * default_parallelism(self.session))

    def _doomed(self, current: pa.Table, keys: KeyPlan, batch: pa.Schema | None) -> set[str]:
        """Partitions to delete, of those that hold files."""
        patterns = [*self.partitions, *self.options.names(registry.PARTITIONS_TO_DELETE)]
        present: list[str] = pc.unique(current["partition"]).to_pylist()
        if patterns:
            return {name for name in present if any(_matches(name, pattern) for pattern in patterns)}
        if self.df is None or batch is None:
            raise OptionError(f"delete_partition needs {registry.PARTITIONS_TO_DELETE.key} or rows")
        return set(present) & set(distinct_partitions(self.df, keys, storage_schema(batch)))


def _matches(name: str, pattern: str) -> bool:
    # only the star is special, as in Apache's option
    return fnmatchcase(name, pattern.strip("/").replace("[", "[[]").replace("?", "[?]"))


def _groups_of(current: pa.Table, partitions: set[str] | None) -> dict[str, list[str]]:
    """File groups by partition; of all partitions when None."""
    groups: dict[str, list[str]] = {}
    for row in current.select(["partition", "file_id"]).to_pylist():
        if partitions is None or row["partition"] in partitions:
            groups.setdefault(row["partition"], []).append(row["file_id"])
    return groups
