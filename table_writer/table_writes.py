"""The operations that change a table, shared by all classes of writable tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from table_format.errors import ArgumentError, OptionError
from table_writer.cluster_calls import ClusterCalls
from table_writer.plan import option_registry as registry
from table_writer.plan.arguments import names_of
from table_writer.plan.operations import Operation
from table_writer.plan.options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from table_format.metadata_table.record_index_layout import IndexLayout
    from table_format.table.client import TableClient
    from table_writer.archive.archive import ArchiveReport
    from table_writer.execution.executor import Executor
    from table_writer.indexing import FileIndexReport
    from table_writer.maintain import MaintenanceReport
    from table_writer.partition_ttl import ExpiryReport
    from table_writer.record_index.bootstrap import BootstrapReport
    from table_writer.record_index.verify import VerifyReport
    from table_writer.repair import RepairReport
    from table_writer.services.clean import CleanReport
    from table_writer.services.savepoint import Savepoint
    from table_writer.services.undo import UndoReport
    from table_writer.summary import WriteSummary

Rows = TypeVar("Rows")
T = TypeVar("T")
Options = Mapping[str, Any]


class TableWrites(ClusterCalls, ABC, Generic[Rows]):
    """A table that can be changed; subclasses decide what rows may be, and run writes and services.

    Each call is one commit; all of it becomes visible or nothing.
    """

    @abstractmethod
    def _write(
        self, operation: Operation, rows: Rows | None, options: Options | None, partitions: Sequence[str] = ()
    ) -> WriteSummary:
        """Run an operation; the rows of a delete may be a condition."""

    @abstractmethod
    def run_service(self, service: Callable[[TableClient, WriteOptions, Executor], T], options: Options | None) -> T:
        """Run a service on the table's current state.

        Args:
            service: takes the table, the options of the object and of this call, and the executor.
            options: for this call.
        """

    def upsert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Insert rows with new keys and update those whose key the table has; `_hoodie_is_deleted` rows delete.

        Columns that the rows lack become null; new columns and wider types become part of the table.
        """
        return self._write(Operation.UPSERT, rows, options)

    def insert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Add rows; `hoodie.datasource.insert.dup.policy` and others decide what happens to keys that exist."""
        return self._write(Operation.INSERT, rows, options)

    def bulk_insert(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Add rows as they are; all keys are treated as new."""
        return self._write(Operation.BULK_INSERT, rows, options)

    def insert_overwrite(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Replace the partitions that the rows fall into by these rows."""
        return self._write(Operation.INSERT_OVERWRITE, rows, options)

    def insert_overwrite_table(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Replace the whole table by these rows."""
        return self._write(Operation.INSERT_OVERWRITE_TABLE, rows, options)

    def delete(self, rows: Rows, options: Options | None = None) -> WriteSummary:
        """Delete records.

        Args:
            rows: a condition on the table's rows, as SQL text or an expression of `pushdown.col`; or rows with the key
                and partition columns of the rows to delete, in any form that the other writes take.
            options: for this write.
        """
        return self._write(Operation.DELETE, rows, options)

    def stream_writer(
        self, app_id: str, operation: Operation | str = Operation.UPSERT, options: Options | None = None
    ) -> Callable[[Rows, int], WriteSummary]:
        """A function for `foreachBatch` that writes each batch of a stream exactly once.

        It takes rows and the batch's number. A batch that the stream replays, because it was killed after the commit,
        is not written again.

        Args:
            app_id: name of the stream, the same whenever it is started; its batches are numbered from its checkpoint
                on.
            operation: what to do with the rows.
            options: for each write.

        Raises:
            OptionError: the stream has no name, or there is no such operation.
        """
        if not app_id:
            raise OptionError("a stream needs a name of its own, by which its batches are told from those of others")
        chosen = Operation(operation)

        def write(rows: Rows, number: int) -> WriteSummary:
            batch = {registry.TXN_APP.key: app_id, registry.TXN_VERSION.key: str(number)}
            return self._write(chosen, rows, {**(options or {}), **batch})

        return write

    def delete_partitions(self, partitions: str | Sequence[str], options: Options | None = None) -> WriteSummary:
        """Delete partitions by path; `*` matches any text.

        Raises:
            ArgumentError: a path is empty, which in a table without partitions would be that of all rows.
        """
        names = names_of("paths of partitions", partitions)
        if any(not name.strip("/") for name in names):
            raise ArgumentError(
                "an empty text is no path of a partition; it would mean all rows of a table without partitions, which "
                'delete("true") deletes'
            )
        return self._write(Operation.DELETE_PARTITION, None, options, names)

    def clean(
        self,
        options: Options | None = None,
        *,
        commits: int | None = None,
        hours: int | None = None,
        versions: int | None = None,
        dry_run: bool = False,
    ) -> CleanReport:
        """Delete files that only expired states of the table need; writes do this automatically.

        Files of savepoints stay, and so does whatever a running write may still read.

        Args:
            options: `hoodie.clean.policy`, `hoodie.clean.commits.retained` and so on; they decide what is kept where
                none of the next three arguments does.
            commits: keep the states of the table after each of this many newest commits.
            hours: keep the states of this many hours.
            versions: keep this many versions of each file group.
            dry_run: report what would be deleted, and change nothing.

        Raises:
            ArgumentError: more than one of `commits`, `hours` and `versions`.
            OptionError: one of them, or an option, has no valid value.
        """
        from table_writer.services.clean import clean, policy_options

        policy = policy_options(commits=commits, hours=hours, versions=versions)
        return self.run_service(
            lambda client, merged, _: clean(client, {**merged.texts, **policy}, dry_run=dry_run), options
        )

    def repair(
        self, options: Options | None = None, *, minutes: int | None = None, dry_run: bool = False
    ) -> RepairReport:
        """Remove what crashes left: dead writers' writes, their markers, and data files that no instant knows.

        No row of the table changes, and writers may run meanwhile.

        Args:
            options: `hoodie.catalog.repair.minutes`, and those of heartbeats and the lock.
            minutes: least age of data files that are deleted because no instant knows them; None for the option's.
            dry_run: report what would be removed, and change nothing.

        Raises:
            OptionError: an invalid option.
            TransactionError: another tool takes writes back; or a restore is pending, in a dry run.
        """
        from table_writer.repair import repair
        from table_writer.timeline.options import REPAIR_MINUTES

        age = {} if minutes is None else {REPAIR_MINUTES: str(minutes)}
        return self.run_service(
            lambda client, merged, _: repair(client, {**merged.texts, **age}, dry_run=dry_run), options
        )

    def archive(self, options: Options | None = None, *, dry_run: bool = False) -> ArchiveReport:
        """Move the oldest instants from the active timeline to the archive, as writes do where that is automatic.

        Args:
            options: `hoodie.keep.min.commits`, `hoodie.keep.max.commits` and so on.
            dry_run: report what would be moved, and change nothing.
        """
        from table_writer.archive.archive import archive

        return self.run_service(lambda client, merged, _: archive(client, merged.texts, dry_run=dry_run), options)

    def expire_partitions(
        self, options: Options | None = None, *, days: int | None = None, dry_run: bool = False
    ) -> ExpiryReport:
        """Delete the partitions whose time to live is over, in one commit; nothing is committed where there is none.

        Args:
            options: `hoodie.partition.ttl.strategy.days.retain`, `hoodie.partition.ttl.management.strategy.type` and
                so on.
            days: time to live, 1 or more; None for the option's.
            dry_run: report what would be deleted, and change nothing.

        Raises:
            ArgumentError: neither `days` nor the option says how long partitions live.
            OptionError: an invalid option.
            ConflictError: other writers wrote to these partitions during every attempt.
        """
        from table_writer.partition_ttl import expire_partitions, with_days

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> ExpiryReport:
            return expire_partitions(client, with_days(merged, days), executor, dry_run=dry_run)

        return self.run_service(service, options)

    def maintain(
        self,
        options: Options | None = None,
        *,
        dry_run: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> MaintenanceReport:
        """Run the services that the table needs: whatever its options ask for, and nothing where nothing is due.

        What was interrupted is finished first, so that a run may be killed and repeated, or run beside another one.
        A service's failure is in the report, and the others run.

        Args:
            options: the policy, those of the table's writers, such as `hoodie.clean.commits.retained`, and
                `hoodie.catalog.maintain.services`.
            dry_run: report what would be done, and change nothing.
            progress: called with the name of each service as it begins.

        Raises:
            OptionError: an invalid option.
            UnsupportedTableError: a table of this kind can only be read.
        """
        from table_writer.maintain import maintain

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> MaintenanceReport:
            return maintain(client, merged, executor, dry_run=dry_run, progress=progress)

        return self.run_service(service, options)

    def savepoint(
        self, instant: str | None = None, *, user: str | None = None, comments: str = "", options: Options | None = None
    ) -> Savepoint:
        """Keep the table's state after a write: cleaning and archiving leave its files and instants.

        Args:
            instant: of a completed write; None for the newest.
            user: name to note; None for the user of this process.
            comments: free text to note.
            options: of the table's lock.

        Raises:
            TransactionError: there is no such write, it has a savepoint, or files of its state were cleaned.
        """
        from table_writer.services.savepoint import create_savepoint

        def service(client: TableClient, merged: WriteOptions, _: Executor) -> Savepoint:
            return create_savepoint(client, instant, user=user, comments=comments, options=merged.texts)

        return self.run_service(service, options)

    def savepoints(self) -> list[Savepoint]:
        """The table's savepoints, oldest first."""
        from table_writer.services.savepoint import list_savepoints

        return self.run_service(lambda client, *_: list_savepoints(client), None)

    def delete_savepoint(self, instant: str, options: Options | None = None) -> None:
        """Give up a savepoint; the next clean may delete its files.

        Raises:
            TransactionError: there is no such savepoint.
        """
        from table_writer.services.savepoint import delete_savepoint

        self.run_service(lambda client, merged, _: delete_savepoint(client, instant, merged.texts), options)

    def restore(self, to: str, options: Options | None = None, *, dry_run: bool = False) -> UndoReport:
        """Take back all writes after one, so that the table is as it was after that.

        Args:
            to: instant of a completed write, such as that of a savepoint.
            options: of the table's writers.
            dry_run: report what would go, and change nothing.

        Raises:
            TransactionError: there is no such write on the active timeline; files of its state were cleaned; a
                savepoint is newer; or another tool's write is under way.
        """
        from table_writer.commit.restore import restore_table

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> UndoReport:
            return restore_table(client, to, merged.texts, dry_run=dry_run, mapper=executor.map)

        return self.run_service(service, options)

    def rollback(self, instant: str, options: Options | None = None, *, dry_run: bool = False) -> UndoReport:
        """Roll back one write: a pending one, or the newest completed one.

        Args:
            instant: of the write.
            options: of the table's writers.
            dry_run: report what would go, and change nothing.

        Raises:
            TransactionError: there is no such write; newer ones follow it; a savepoint keeps it; files of the state
                before it were cleaned; or another tool's write is under way.
        """
        from table_writer.commit.restore import rollback_write

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> UndoReport:
            return rollback_write(client, instant, merged.texts, dry_run=dry_run, mapper=executor.map)

        return self.run_service(service, options)

    def bootstrap_index(
        self, options: Options | None = None, *, groups: int | None = None, wait_seconds: float = 60.0
    ) -> BootstrapReport:
        """Build the record index from the data, replacing an existing one, while writers continue.

        An interrupted build is resumed by the next call.

        Args:
            options: `hoodie.metadata.record.index.*` and those of the lock.
            groups: file groups of the index; None to choose by the number of keys.
            wait_seconds: seconds to wait at the end for running writes.

        Raises:
            RecordIndexError: the table's files hold no record keys.
            TransactionError: a running write did not end in time; the next call resumes.
        """
        from table_writer.record_index.bootstrap import bootstrap_index

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> BootstrapReport:
            with executor.progress(merged.text(registry.PROGRESS) or "auto") as progress:
                return bootstrap_index(
                    client,
                    merged.texts,
                    groups=groups,
                    wait_seconds=wait_seconds,
                    mapper=executor.map,
                    progress=progress.phase,
                )

        return self.run_service(service, options)

    def build_index(
        self, index: str, options: Options | None = None, *, groups: int | None = None, wait_seconds: float = 60.0
    ) -> FileIndexReport:
        """Build column statistics or bloom filters of all files, replacing existing ones, while writers continue.

        Args:
            index: `column_stats` or `bloom_filters`; `bootstrap_index` builds the record index.
            options: `hoodie.metadata.index.*` and those of the lock.
            groups: file groups of the index; None for a number by the options, or by the size of the filters.
            wait_seconds: seconds to wait at the end for running writes of other tools.

        Raises:
            OptionError: no such index, or columns that it cannot have.
            TransactionError: a write of another tool did not end in time.
        """
        from table_writer.indexing import build_file_index

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> FileIndexReport:
            with executor.progress(merged.text(registry.PROGRESS) or "auto") as progress:
                return build_file_index(
                    client,
                    index,
                    merged.texts,
                    groups=groups,
                    wait_seconds=wait_seconds,
                    mapper=executor.map,
                    progress=progress.phase,
                )

        return self.run_service(service, options)

    def drop_index(self, index: str, options: Options | None = None) -> None:
        """Delete an index of the metadata table, while writers continue.

        Args:
            index: `column_stats`, `bloom_filters` or `record_index`.
            options: of the table's lock.

        Raises:
            OptionError: the table has no such index, or its writers find records by it.
        """
        from table_writer.indexing import drop_index

        self.run_service(lambda client, merged, _: drop_index(client, index, merged.texts), options)

    def verify_index(
        self,
        options: Options | None = None,
        *,
        sample: float | None = None,
        since: str | None = None,
        repair: bool = False,
    ) -> VerifyReport:
        """Compare the record index with the data.

        Args:
            options: for the commit that repairs the index.
            sample: share of the file slices to read, such as 0.01; None for all.
            since: an instant or time: only what later writes touched is compared; None for all.
            repair: correct the index; duplicate rows are faults of the data, and stay.

        Raises:
            RecordIndexError: the table has no record index.
            OptionError: `sample` is not a share, or is given with `repair`.
        """
        from table_writer.execution.local import LocalExecutor
        from table_writer.record_index.verify import verify_index

        def service(client: TableClient, merged: WriteOptions, executor: Executor) -> VerifyReport:
            with executor.progress(merged.text(registry.PROGRESS) or "auto") as progress:
                return verify_index(
                    client,
                    merged.texts,
                    sample=sample,
                    since=since,
                    repair=repair,
                    mapper=executor.map,
                    shared=not (isinstance(executor, LocalExecutor) and not executor.processes),
                    progress=progress.phase,
                )

        return self.run_service(service, options)

    def index_entries(self, keys: Any, *, as_of: str | None = None) -> pa.Table:
        """Where records are by the record index, or were as of an instant.

        Args:
            keys: record keys: an Arrow array or a sequence of texts.
            as_of: an instant or time; None for now.

        Returns:
            Columns `key`, `partition`, `file_id`, by key; keys that the table does not have are left out.

        Raises:
            RecordIndexError: the table has no record index.
            OptionError: `as_of` is no time, or files of that state were cleaned.
        """
        from table_writer.record_index.key_changes import index_entries

        def service(client: TableClient, _: WriteOptions, executor: Executor) -> pa.Table:
            return index_entries(client, keys, as_of, mapper=executor.map)

        return self.run_service(service, None)

    def index_changes(self, begin: str, end: str | None = None) -> pa.Table:
        """Keys that writes of a range inserted, moved to other files, or deleted, by the files that they touched.

        Args:
            begin: an instant or time, not part of the range.
            end: likewise, part of the range; None for now.

        Returns:
            Columns `key`, `change` (`insert`, `move` or `delete`), `old_partition`, `old_file_id`, `partition`,
            `file_id`, by key.

        Raises:
            OptionError: a text is no time, or files of one of the two states were cleaned.
            UndoneWriteError: the range begins at a write that a rollback or a restore has taken back.
        """
        from table_writer.record_index.key_changes import changed_entries

        def service(client: TableClient, _: WriteOptions, executor: Executor) -> pa.Table:
            return changed_entries(client, begin, end, mapper=executor.map)

        return self.run_service(service, None)

    def resize_index(self, groups: int, options: Options | None = None) -> IndexLayout:
        """Change the number of file groups of the record index.

        Args:
            groups: new number of file groups.
            options: of the lock, and `hoodie.catalog.record.index.growth`.

        Raises:
            RecordIndexError: the table has no record index, or one by partition.
            TransactionError: a write is pending.
        """
        from table_writer.record_index.resize import resize

        return self.run_service(lambda client, merged, _: resize(client, groups, options=merged.texts), options)
