"""One write, from rows to a commit."""

from __future__ import annotations

import itertools
import logging
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import pyarrow as pa

from table_format.codecs.avro_schema import schema_text
from table_format.codecs.avro_schema_tree import columns_of_hudi_types
from table_format.config.table_config import TableConfig, require_writable
from table_format.errors import ConflictError, RecordError, SchemaError, UnsupportedTableError, did_you_mean
from table_format.metadata_table.record_index_layout import IndexLayout
from table_format.schema.evolution import merge_schemas, storage_schema
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.after_commit import AfterCommit
from table_writer.bucket_write import bucket_count_of_rows, write_by_buckets
from table_writer.commit.batches import Batch, CommittedBatchError
from table_writer.commit.conflicts import raise_if_overtaken
from table_writer.commit.table_properties import lost_properties
from table_writer.commit.transaction import WriteTransaction
from table_writer.early_checks import refuse_options, refuse_widened_keys
from table_writer.execution.executor import Executor, RowSource
from table_writer.execution.progress import WriteProgress
from table_writer.execution.sources import refuse_untyped, without_delete_flag
from table_writer.indexed_write import write_by_index
from table_writer.metadata.column_statistics import concat_statistics
from table_writer.plan import option_registry as registry
from table_writer.plan.merge_rule import adopted_rule
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions
from table_writer.plan.properties import (
    adopted_file_size,
    check_against_table,
    index_type,
    lacks_bucket_count,
    refuse_kinds,
)
from table_writer.rows.several_rows import Several, refuse_inexact
from table_writer.slots.checked_count import CheckedCount
from table_writer.slots.partition_files import PartitionFiles
from table_writer.summary import WriteSummary
from table_writer.write_plans import Outcome, WritePlans

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 1.0


@dataclass
class WriteJob:
    """One write.

    Attributes:
        executor: runs its tasks.
        client: the table, which exists.
        operation: what to do.
        options: the job's.
        source: rows; keys suffice for deletes. None for deleting named partitions.
        partitions: partition paths that delete_partition takes, `*` for any text.
        renew: makes `source` from the table after the write has begun, on each attempt that finds another state than
            `timeline`; for writes whose rows a condition selects from the table itself.
        timeline: of the table before the write, if it is loaded; with `renew` as it was before `source` was made.
        choose: on each attempt, after the write has begun, names the partitions that delete_partition takes; instead of
            `partitions`.
    """

    executor: Executor
    client: TableClient
    operation: Operation
    options: WriteOptions
    source: RowSource | None = None
    partitions: Sequence[str] = ()
    renew: Callable[[], RowSource] | None = None
    timeline: Timeline | None = None
    choose: Callable[[Timeline], Collection[str]] | None = None
    started: float = field(default_factory=time.monotonic)
    _buckets: int | None = None
    _timeline: Timeline = field(init=False, repr=False)
    _checked: Timeline = field(init=False, repr=False)

    def run(self) -> WriteSummary:
        """Write and commit; nothing is visible unless all of it succeeds.

        A write that conflicts with another one is tried again on the table's new state.

        Raises:
            AfterCommitError: the write is committed, but a step that the options ask for after it failed.
            ConflictError: every attempt conflicted with another writer.
            HudiError: the rows, options or table do not allow it.
        """
        require_writable(self.client.config, self.client.storage.uri)
        mode = self.options.text(registry.PROGRESS) or "auto"
        self._timeline = self._checked = self.timeline or self.client.timeline()
        refuse_kinds(self._config())
        self._decide_bucket_count()
        batch = self._refuse_early()
        after = AfterCommit.prepare(self.executor.setting, self.client, self.options)
        with self.executor.progress(mode) as progress:
            retries = self.options.number(registry.RETRIES) or 0

            def attempt(number: int) -> tuple[str, Outcome]:
                if number > 1:
                    progress.phase(f"another writer was faster: attempt {number} of {retries + 1}")
                return self._attempt(batch, progress)

            try:
                instant, outcome = with_retries(attempt, retries, self._is_repeatable)
            except CommittedBatchError as committed:
                return self._replayed(committed.instant, progress)
        summary = WriteSummary.of(
            self.client.config.name,
            self.operation.value,
            instant,
            [file.stat for file in outcome.files],
            replaced=sum(map(len, outcome.replaced.values())),
            seconds=time.monotonic() - self.started,
            works=[file.work for file in outcome.files],
        )
        progress.finish(summary)
        progress.print_lines(after.run(instant))
        return summary

    @property
    def begun(self) -> Timeline:
        """The table's timeline as the last attempt began."""
        return self._timeline

    def _replayed(self, instant: str, progress: WriteProgress) -> WriteSummary:
        summary = WriteSummary(self.client.config.name, self.operation.value, instant, replayed=True)
        progress.finish(summary)
        return summary

    def _decide_bucket_count(self) -> None:
        """Find the bucket count of a table that has none yet, because this is its first write of rows."""
        if not lacks_bucket_count(self.options, self._config()):
            return
        if PartitionFiles(self.client, self._timeline).of().num_rows:
            return  # somebody took the number away: only the user knows it
        if self.source is not None and self.operation not in (Operation.DELETE, Operation.DELETE_PARTITION):
            self._buckets = bucket_count_of_rows(self.executor, self.client, self.options, self.source)
            if self._buckets != 0:
                return
        # nothing to delete or no rows: the number stays undecided
        self._buckets = None
        self.options = self.options.with_values({registry.BUCKETS.key: 1})

    def _refuse_early(self) -> pa.Schema | None:
        """Check what can be checked before there is anything to undo. Returns the columns of the rows."""
        config = self._config()
        config = TableConfig({**config.raw, **self._adopt(config)})
        batch = self._batch()
        refuse_options(
            TableClient(self.client.storage, config),
            self.options,
            self.operation,
            batch=batch,
            schema=self._schema_after(batch),
            partitions=self.partitions,
            chooses=self.choose is not None,
            timeline=self._timeline,
        )
        return batch

    def _batch(self) -> pa.Schema | None:
        """Columns of the rows, without new ones that have no type since all their values are null.

        A table without columns gets its own from these rows: there such a column is refused later on.
        """
        if self.source is None:
            return None
        batch = self.source.schema
        try:
            known = self.client.table_schema(self._timeline).names
        except SchemaError:
            return batch
        config = self.client.config
        fields = (*config.record_key_fields, *config.partition_fields, *config.ordering_fields)
        needed = {*known, *(name.split(".", 1)[0] for name in fields)}
        untyped = {field.name for field in batch if pa.types.is_null(field.type)} - needed
        if untyped and self.operation is not Operation.DELETE:
            names = ", ".join(sorted(untyped))
            _LOG.warning("new columns that hold nulls only have no type: %s left out until a write has values", names)
        return pa.schema([field for field in batch if field.name not in untyped])

    def _attempt(self, batch: pa.Schema | None, progress: WriteProgress) -> tuple[str, Outcome]:
        numbered = Batch.of(self.options)
        if numbered is not None:
            self._timeline = self.client.timeline(self._timeline)
            numbered.refuse_committed(self._timeline)
        protocol = {**self.options.texts, "hoodie.index.type": index_type(self.options, self._config())}
        with WriteTransaction.begin(
            self.client,
            self.operation.action,
            self.operation.commit_name,
            protocol,
            self._adopt,
            known=self._timeline,
        ) as transaction:
            self._timeline = transaction.timeline
            if numbered is not None:
                numbered.refuse_committed(self._timeline)
            if self.renew is not None and self._timeline.completed != self._checked.completed:
                # the rows of a condition are those of the table as it is now
                self.source = self.renew()
            # Again, like all that is read of the table: another writer may have added a column before the begin.
            schema = self._schema_after(batch)
            try:
                outcome = self._write(transaction, batch, schema, progress)
                self._check_rows(outcome)
            except RecordError as error:
                raise_if_overtaken(self.client, transaction.timeline, transaction.instant, error)
                raise
            progress.phase("committing")
            self._commit(transaction, outcome, schema, numbered)
        return transaction.instant, outcome

    def _check_rows(self, outcome: Outcome) -> None:
        """Rows that were read from the table must be in it under the keys that are made of them, and they alone."""
        if self.source is None:
            return
        stats = [file.stat for file in outcome.files]
        deleted, matched = sum(stat.num_deletes for stat in stats), self.source.matched
        if self.operation is Operation.DELETE and matched is not None and deleted < matched:
            raise RecordError(
                f"{self.client.storage.uri}: {matched} rows match, and {deleted} would be deleted: either the record "
                "keys that the table's properties give for its rows are not those that they have, or a key has rows "
                "where its index does not say"
            )
        inserted, new = sum(stat.num_inserts for stat in stats), self.source.new_keys
        if new is not None and inserted != new:
            raise RecordError(
                f"{self.client.storage.uri}: {inserted} rows would be inserted, and {new} are new: "
                "either the table has the record key of a new row, or of one that moves to another partition, already; "
                "or the record keys that the table's properties give for its rows are not those that they have"
            )
        if matched is not None:
            changed = deleted + sum(stat.num_update_writes for stat in stats)
            refuse_inexact(matched, changed, Several.total(file.several for file in outcome.files))
        gone = self.source.gone_keys
        if gone is not None and deleted != gone:
            raise RecordError(
                f"{self.client.storage.uri}: {deleted} rows would be deleted, and {gone} are to go or to move: "
                "the table has the record key of a new row already, or rows are not where their values say"
            )

    def _is_repeatable(self) -> bool:
        if self.source is None or self.renew is not None:
            return True
        return not self.source.reads_table(self.client.storage, self.client.config.name)

    def _config(self) -> TableConfig:
        """The table's properties, and those that another tool removed and the next write restores."""
        config = self.client.config
        return TableConfig({**config.raw, **lost_properties(config, self._timeline)})

    def _adopt(self, config: TableConfig) -> dict[str, str]:
        """The properties that the job adds to the table's, once it is checked against them."""
        adopted = adopted_rule(self.options, config, self.operation)
        if self._buckets is not None and lacks_bucket_count(self.options, config):
            adopted = {**adopted, registry.BUCKETS.key: str(self._buckets)}
        adopted = {**adopted, **adopted_file_size(self.options, config)}
        check_against_table(self.options, TableConfig({**config.raw, **adopted}))
        return adopted

    def _write(
        self, transaction: WriteTransaction, batch: pa.Schema | None, schema: pa.Schema, progress: WriteProgress
    ) -> Outcome:
        timeline = transaction.timeline
        plans = WritePlans(
            executor=self.executor,
            client=self.client,
            operation=self.operation,
            options=self.options,
            source=self.source,
            partitions=self.partitions,
            transaction=transaction,
            timeline=timeline,
            batch=batch,
            chosen=None if self.choose is None else frozenset(self.choose(timeline)),
            schema=schema,
            progress=progress,
            layout=IndexLayout.of(self.client, timeline),
            files=PartitionFiles(self.client, timeline, open_metadata=transaction.open_metadata),
        )
        bucketed = index_type(self.options, self.client.config) == "BUCKET"
        return write_by_buckets(plans) if bucketed else write_by_index(plans)

    def _commit(
        self, transaction: WriteTransaction, outcome: Outcome, schema: pa.Schema, batch: Batch | None = None
    ) -> None:
        count = CheckedCount.of(self.options, self.client.config)
        tables = [file.statistics for file in outcome.files if file.statistics is not None]
        transaction.commit(
            [file.stat for file in outcome.files],
            schema_json=self._schema_json(schema),
            column_stats=concat_statistics(tables) if tables else None,
            replaced=outcome.replaced if self.operation.replaces else None,
            extra=None if count is None else count.record(self._checked),
            index_changes=outcome.index_changes,
            index_layout=outcome.index_layout,
            mapper=self.executor.map,
            cleared=outcome.cleared,
            batch=batch,
        )

    def _schema_after(self, batch: pa.Schema | None) -> pa.Schema:
        """The table's columns after this write."""
        self._refuse_hudi_types()
        try:
            table = storage_schema(self.client.table_schema(self._timeline))
        except SchemaError:
            if batch is None or self.operation in (Operation.DELETE, Operation.DELETE_PARTITION):
                raise
            table = pa.schema([])
        changes = self.operation not in (Operation.DELETE, Operation.DELETE_PARTITION)
        if batch is not None and self.operation is not Operation.INSERT_OVERWRITE_TABLE:
            refuse_widened_keys(table, batch, self.client.config)
        if batch is None or not changes:
            return table
        self._refuse_lost_columns(table)
        merged = merge_schemas(table, without_delete_flag(batch, table))
        refuse_untyped(merged)
        schema_text(merged, self.client.config.name)  # refuses names and types that Avro cannot hold
        needed = (*self.client.config.record_key_fields, *self.client.config.ordering_fields)
        for name in needed:
            if name.split(".", 1)[0] not in merged.names:
                hint = did_you_mean(name, batch.names)
                raise SchemaError(
                    f"key or ordering column {name!r} is not in the data{hint}; columns are {batch.names}"
                )
        return merged

    def _refuse_hudi_types(self) -> None:
        columns = columns_of_hudi_types(self.client.table_schema_json(self._timeline))
        if columns:
            raise UnsupportedTableError(
                f"{self.client.storage.uri}: {', '.join(columns)}: columns of Hudi 1.2's types VECTOR, VARIANT and "
                "BLOB are not written; write this table with Apache Hudi"
            )

    def _refuse_lost_columns(self, table: pa.Schema) -> None:
        """Refuse a table that no longer has a column by which its properties find or order rows."""
        config = self.client.config
        for name in (*config.record_key_fields, *config.partition_fields, *config.ordering_fields):
            if table.names and name.split(".", 1)[0] not in table.names:
                raise SchemaError(
                    f"key, partition or ordering column {name!r} is no longer a column of the table; columns are "
                    f"{table.names}. Rename it back, or put its new name into hoodie.properties"
                )

    def _schema_json(self, schema: pa.Schema) -> str:
        # An unchanged schema keeps its text, in which other writers may have put defaults and documentation.
        text = self.client.table_schema_json(self._timeline)
        if text is not None and storage_schema(self.client.table_schema(self._timeline)) == schema:
            return text
        return schema_text(schema, self.client.config.name)


def with_retries(attempt: Callable[[int], _T], retries: int, repeatable: Callable[[], bool]) -> _T:
    """Retry a write while it conflicts with other writers.

    Args:
        attempt: does the whole write, given the attempt's number from 1 on; a failed one leaves nothing behind.
        retries: most attempts after the first.
        repeatable: asked at the first conflict: whether a retry gives what a later first attempt would.

    Raises:
        ConflictError: of the last attempt.
        RecordError: the last attempt failed by its rows; that others wrote meanwhile need not be the reason.
    """
    for number in itertools.count(1):
        started = time.monotonic()
        try:
            return attempt(number)
        except ConflictError as error:
            if number > retries:
                if isinstance(error.__cause__, RecordError):
                    raise error.__cause__ from None
                error.add_note(f"given up after {number} attempt(s): hoodie.catalog.write.retries={retries}")
                raise
            if number == 1 and not repeatable():
                error.add_note(
                    "not retried: the rows come from an earlier state of this table; read it again, then write"
                )
                raise
            _LOG.info("trying again, attempt %d of %d: %s", number + 1, retries + 1, error)
            # without a random pause the same writers would meet again
            pause = min(_LONGEST_PAUSE, time.monotonic() - started)
            time.sleep(random.uniform(0, pause))  # noqa: S311 - no secret
    raise AssertionError  # not reached
