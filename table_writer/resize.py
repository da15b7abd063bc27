"""Changing the number of a table's buckets: one commit, of which readers and writers see one of the two sides.

See `table_format.table.bucket_counts` for the order in which the count changes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from catalog.table_stats import advised_buckets
from table_format.actions.commit import CommitMetadata
from table_format.config.table_config import TableConfig, update_table_config
from table_format.errors import ArgumentError, HudiError, OptionError, TransactionError, UnsupportedTableError
from table_format.instant import WRITE_ACTIONS, Action
from table_format.keys.bucket_index import partition_bucket_rules
from table_format.keys.partition_buckets import EXPRESSIONS
from table_format.table.bucket_counts import COUNT, RECORD_KEY, RESIZES, Resize, with_resize
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_writer.clustering.rescale import (
    BucketClass,
    BucketFile,
    ExchangePlan,
    RescalePlan,
    bucket_classes,
    rescale_classes,
    split_by_bucket,
)
from table_writer.clustering.sizes import GroupSize, file_size
from table_writer.clustering.tasks import InputFile, SampleTask, write_clusters
from table_writer.commit.clustering import OPERATION
from table_writer.commit.conflicts import Cleared, foreign_writes
from table_writer.commit.table_properties import lost_properties, recorded_text, settle_counts
from table_writer.commit.transaction import WriteTransaction
from table_writer.early_checks import refuse_clustered
from table_writer.execution.executor import Executor, in_threads
from table_writer.execution.progress import WriteProgress
from table_writer.files.file_change import EncodedWork, WrittenFile
from table_writer.metadata.index_files import IndexChanges
from table_writer.moved_rows import RowMoves, refuse_hudi_types
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import CurrentFile
from table_writer.plan.properties import bucket_count, check_against_table, hash_fields, index_type
from table_writer.slots.current import BucketFiles
from table_writer.slots.partition_files import PartitionFiles
from table_writer.timeline.instants import table_lock
from table_writer.timeline.options import ProtocolOptions
from table_writer.write_job import with_retries
from table_writer.write_plans import groups_of

_LOG: Final = logging.getLogger(__name__)
#: A bucket's number has eight digits in file ids.
_MOST_BUCKETS: Final = 99_999_999
#: Bytes of rows that a task may hold where its engine does not say.
_TASK_BYTES: Final = 1 << 30
#: Bytes of rows that are exchanged at once, beyond a single partition.
_EXCHANGED_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """What a caller asks for.

    Attributes:
        buckets: of each partition afterwards; None to choose by the target file size.
        partitions: only these; refused, since the table has one count.
        acknowledged: the caller has seen to the other writers of the table.
    """

    buckets: int | None
    partitions: tuple[str, ...] = ()
    acknowledged: bool = False


@dataclass(frozen=True)
class ResizeReport:
    """What a change of the number of buckets did, or would.

    Attributes:
        instant: of the commit; None where nothing was changed.
        state: `nothing`, `dry run` or `completed`.
        before: buckets of each partition before.
        after: buckets of each partition afterwards.
        way: `split` (each file group by itself), `merge` (several into one) or `overwrite` (all rows exchanged).
        partitions: number of partitions with files.
        files_before: number of files that are replaced.
        bytes_before: their sizes.
        files_after: number of files written; 0 where nothing was written, as in the next fields.
        bytes_after: their sizes.
        rows: written.
        bytes_encoded: of column chunks that were encoded for it.
        seconds: from start to end.
    """

    instant: str | None
    state: str
    before: int
    after: int
    way: str
    partitions: int = 0
    files_before: int = 0
    bytes_before: int = 0
    files_after: int = 0
    bytes_after: int = 0
    rows: int = 0
    bytes_encoded: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.state == "nothing":
            return f"nothing to do: {self.before:,} buckets"
        counts = f"{self.before:,} to {self.after:,} buckets by {self.way}"
        files = f"{self.files_before:,} files ({self.bytes_before / 1e6:,.1f} MB) of {self.partitions:,} partitions"
        if self.state == "dry run":
            return f"would resize {counts}: {files}"
        return (
            f"resized {counts}: {files} into {self.files_after:,} files ({self.bytes_after / 1e6:,.1f} MB), "
            f"{self.rows:,} rows, instant {self.instant}, {self.seconds:.1f} s"
        )


def resize(
    client: TableClient, options: WriteOptions, executor: Executor, request: ResizeRequest, *, dry_run: bool = False
) -> ResizeReport:
    """Change the number of buckets; see `ClusterCalls.resize`."""
    started, timeline = time.monotonic(), client.timeline()
    _refuse_request(client, request)
    refuse_hudi_types(client, timeline)
    config = TableConfig({**client.config.raw, **lost_properties(client.config, timeline)})
    _refuse_table(client, config, options)
    before = bucket_count(options, config)
    planned = _planned(client, timeline, options, request, before)
    if planned.state == "nothing" and not dry_run and config.raw != client.config.raw:
        with table_lock(client, ProtocolOptions.parse(options.texts)):  # a resize to this number had died
            settle_counts(client, client.timeline())
    if planned.state == "nothing" or dry_run:
        return replace(planned, seconds=time.monotonic() - started)
    if not request.acknowledged:
        _refuse_other_writers(client, timeline, planned)
    retries = options.number(registry.RETRIES) or 0
    with executor.progress(options.text(registry.PROGRESS) or "auto") as progress:

        def attempt(number: int) -> ResizeReport:
            if number > 1:
                progress.phase(f"another writer was faster: attempt {number} of {retries + 1}")
            return _attempt(client, options, executor, planned.after, progress)

        report = with_retries(attempt, retries, lambda: True)
    return replace(report, seconds=time.monotonic() - started)


class ResizeTransaction(WriteTransaction):
    """A resize; see `WriteTransaction`.

    Attributes:
        resize: the change; must be set before the commit.
        fields: that decide the bucket, for tables that do not record them.
    """

    resize: Resize
    fields: tuple[str, ...] = ()

    def _check(
        self,
        timeline: Timeline,
        metadata: CommitMetadata,
        changes: IndexChanges | None,
        cleared: Cleared | None,
        *,
        alone: bool,
    ) -> None:
        super()._check(timeline, metadata, changes, cleared, alone=alone)
        refuse_foreign_writes(self.client, timeline)
        # here, since the lock is checked again afterwards, just before the publication
        announced = replace(self.resize, confirmed=False)
        update_table_config(self.storage, {RESIZES: with_resize(self.client.reload(), announced), **self._fields()})
        self.client.reload()

    def _recorded_properties(self) -> str:
        config = self.client.config
        resized = {COUNT: str(self.resize.after), RESIZES: with_resize(config, self.resize)}
        return recorded_text(self._begun, TableConfig({**config.raw, **self._fields(), **resized}))

    def _publish(self, metadata: CommitMetadata) -> None:
        super()._publish(metadata)
        try:
            self.client.reload()
            settle_counts(self.client, self.client.timeline())
        except (HudiError, OSError) as error:
            # readers and writers go by the replacecommit meanwhile
            _LOG.warning("%s: the next write puts the new bucket count into place: %s", self.storage.uri, error)

    def _fields(self) -> dict[str, str]:
        return {} if self.client.config.bucket_hash_fields else {registry.HASH_FIELDS.key: ",".join(self.fields)}


def refuse_foreign_writes(client: TableClient, timeline: Timeline) -> None:
    """Refuse to go on beside a write that would put rows into buckets by the old count.

    Raises:
        TransactionError: a write of another tool is pending.
    """
    for one in foreign_writes(timeline):
        if one.comparable_action in WRITE_ACTIONS:
            raise TransactionError(
                f"{client.storage.uri}: {one} of another tool is pending, which would not notice that the number of "
                "buckets changes. Nothing was changed; wait until it has ended. If its writer is dead, "
                "hoodie.clean.failed.writes.policy=EAGER rolls it back now"
            )


def _refuse_request(client: TableClient, request: ResizeRequest) -> None:
    if request.partitions:
        raise UnsupportedTableError(
            f"{client.storage.uri}: --partition {request.partitions[0]}: this table has one number of buckets for all "
            "partitions, and tables with numbers by partition (.hoodie/.bucket_index/partition_bucket_index_meta) "
            "are not resized; leave --partition out"
        )
    if request.buckets is not None and not 1 <= request.buckets <= _MOST_BUCKETS:
        raise ArgumentError(f"buckets={request.buckets}: give a number from 1 to {_MOST_BUCKETS:,}")


def _refuse_table(client: TableClient, config: TableConfig, options: WriteOptions) -> None:
    rules = partition_bucket_rules(client.storage) or config.raw.get(EXPRESSIONS)
    if rules:
        raise UnsupportedTableError(
            f"{client.storage.uri}: bucket counts differ between partitions by the rules {rules}; such tables are "
            "not resized"
        )
    check_against_table(options, config)
    kind = index_type(options, config)
    if kind != "BUCKET":
        raise UnsupportedTableError(
            f"{client.storage.uri}: its index is {kind}, so it has no buckets; file sizes are set by "
            f"{registry.FILE_SIZE.key}, and changed by `hudi-catalog cluster`"
        )


def _refuse_other_writers(client: TableClient, timeline: Timeline, planned: ResizeReport) -> None:
    """Refuse to resize a table that other tools write, unless somebody has seen to them.

    Raises:
        OptionError: the table shows such writes.
    """
    strange = next((one for one in timeline.writes if RECORD_KEY not in timeline.extra_metadata(one)), None)
    if strange is None and client.config.bucket_count is not None:
        return
    reason = f"{strange} is of another tool" if strange else f"it does not record {COUNT}, as Apache Hudi's do not"
    raise OptionError(
        f"{client.storage.uri}: other tools may write this table ({reason}), and a job of Apache Hudi's takes {COUNT} "
        f"from its own options: left at {planned.before}, it would put a second row of a changed key into another "
        f"bucket, and nothing in the table surely stops it. Stop such jobs, set them to {planned.after}, then resize "
        "with --acknowledge-fixed-writers (acknowledge_fixed_writers=True)"
    )


def _planned(
    client: TableClient, timeline: Timeline, options: WriteOptions, request: ResizeRequest, before: int
) -> ResizeReport:
    """What is there, and the number that it becomes."""
    listed = PartitionFiles(client, timeline)
    BucketFiles(listed, before).of()  # refuses what are no buckets of this count
    files = listed.of()
    sizes = files.group_by("partition").aggregate([("size", "sum")])
    nbytes: list[Any] = sizes["size_sum"].to_pylist()
    after = request.buckets
    if after is None:
        after = advised_buckets(nbytes, before, options.number(registry.FILE_SIZE) or 1)
    return ResizeReport(
        instant=None,
        state="nothing" if after == before else "dry run",
        before=before,
        after=after,
        way=_way(before, after),
        partitions=sizes.num_rows,
        files_before=files.num_rows,
        bytes_before=sum(nbytes),
    )


def _way(before: int, after: int) -> str:
    return "split" if after % before == 0 else "merge" if before % after == 0 else "overwrite"


def _attempt(
    client: TableClient, options: WriteOptions, executor: Executor, after: int, progress: WriteProgress
) -> ResizeReport:
    protocol = {**options.texts, "hoodie.index.type": "BUCKET"}
    with ResizeTransaction.begin(client, Action.REPLACECOMMIT, OPERATION, protocol) as transaction:
        before = bucket_count(options, client.config)
        if before == after:  # another resize was faster
            return ResizeReport(None, "nothing", before, after, _way(before, after))
        refuse_foreign_writes(client, transaction.timeline)
        transaction.resize = Resize(transaction.instant, before, after)
        transaction.fields = hash_fields(options, client.config)
        moves = RowMoves.of(client, options, executor, transaction, progress)
        plans = moves.plans
        current = BucketFiles(plans.files, before).of()
        paths: list[Any] = current["path"].to_pylist()
        refuse_clustered(plans, current, bucketed=True)
        transaction.mark_inflight()
        keys = plans.key_plan(paths, before)
        plan = RescalePlan(moves.files, keys, after, executor.task_memory)
        written = _rewritten(executor, plan, _bucket_files(current), progress.phase)
        progress.phase("committing")
        moves.commit(written, groups_of(current), extra=transaction.resize.note, cleared=lambda _: True)
    listed = plans.files.of()
    stats = [file.stat for file in written]
    return ResizeReport(
        instant=transaction.instant,
        state="completed",
        before=before,
        after=after,
        way=_way(before, after),
        partitions=len(set(current["partition"].to_pylist())),
        files_before=current.num_rows,
        bytes_before=pc.sum(listed["size"], min_count=0).as_py(),
        files_after=len(stats),
        bytes_after=sum(stat.file_size_in_bytes for stat in stats),
        rows=sum(stat.num_writes for stat in stats),
        bytes_encoded=EncodedWork.total(file.work for file in written).bytes_encoded,
    )


def _bucket_files(current: pa.Table) -> list[BucketFile]:
    rows = current.to_pylist()
    return [
        BucketFile(row["partition"], row["bucket"], CurrentFile(row["file_id"], row["instant"], row["path"]))
        for row in rows
    ]


def _rewritten(
    executor: Executor, plan: RescalePlan, files: Sequence[BucketFile], phase: Callable[[str], None]
) -> list[WrittenFile]:
    """Write the new files: of classes by themselves where that is possible, else by an exchange."""
    before, after = plan.keys.buckets, plan.after
    classes: list[BucketClass] = bucket_classes(files, after, before)
    sizes = _decoded_sizes(plan, classes)
    apart = _way(before, after) != "overwrite"
    most = min(plan.memory or _TASK_BYTES, _TASK_BYTES) if apart else -1
    alone = [members for members, size in zip(classes, sizes, strict=True) if size <= most]
    left = [(members, size) for members, size in zip(classes, sizes, strict=True) if size > most]
    written: list[WrittenFile] = []
    if alone:
        phase(f"rewriting {sum(map(len, alone)):,} files, without an exchange of rows")
        written += executor.collect(executor.dealt(alone), partial(rescale_classes, plan))
    for number, members in enumerate(_at_once(left), 1):
        phase(f"exchanging rows of {len(members):,} files, part {number:,}")
        exchange = ExchangePlan.of(plan, dict.fromkeys(file.partition for file in members))
        rows = executor.exchange(executor.dealt(members), partial(split_by_bucket, exchange), exchange.slots)
        written += executor.collect(rows, partial(write_clusters, exchange))
    return written


def _decoded_sizes(plan: RescalePlan, classes: Sequence[BucketClass]) -> list[int]:
    """Bytes that the rows of each class take in memory, estimated from footers."""
    files = [
        SampleTask(plan.files, InputFile(number, one.file), ())
        for number, members in enumerate(classes)
        for one in members
    ]
    sizes = GroupSize.of_groups([task.input.group for task in files], in_threads(file_size, files))
    return [sizes[number].decoded for number in range(len(classes))]


def _at_once(classes: Iterable[tuple[BucketClass, int]]) -> Iterator[list[BucketFile]]:
    """Files whose rows are exchanged together."""
    batch: list[BucketFile] = []
    size = 0
    for members, nbytes in classes:
        if batch and size + nbytes > _EXCHANGED_BYTES:
            yield batch
            batch, size = [], 0
        batch += members
        size += nbytes
    if batch:
        yield batch
