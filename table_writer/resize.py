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
from table_format.config.table_config import TableConfig, require_writable, update_table_config
from table_format.errors import ArgumentError, HudiError, OptionError, TransactionError, UnsupportedTableError
from table_format.instant import WRITE_ACTIONS, Action, Instant
from table_format.keys.bucket_index import MOST_BUCKETS
from table_format.keys.partition_buckets import BucketRules, write_rules
from table_format.table.bucket_counts import COUNT, RECORD_KEY, Resize, RulesChange
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.clustering.report import ResizeReport
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
from table_writer.execution.executor import Executor
from table_writer.execution.progress import WriteProgress
from table_writer.files.file_change import EncodedWork, WrittenFile
from table_writer.metadata.index_files import IndexChanges
from table_writer.moved_rows import RowMoves, refuse_hudi_types
from table_writer.plan import option_registry as registry
from table_writer.plan.arguments import check_count
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import CurrentFile
from table_writer.plan.properties import (
    bucket_count,
    check_against_table,
    checked_rules,
    hash_fields,
    index_type,
    lacks_bucket_count,
)
from table_writer.slots.current import BucketFiles
from table_writer.slots.partition_files import PartitionFiles, matches_partition, refuse_unmatched_partitions
from table_writer.timeline.instants import table_lock
from table_writer.timeline.options import ProtocolOptions
from table_writer.write_job import with_retries
from table_writer.write_plans import groups_of

_LOG: Final = logging.getLogger(__name__)
#: Bytes of rows that a task may hold where its engine does not say.
_TASK_BYTES: Final = 1 << 30
#: Bytes of rows that are exchanged at once, beyond a single partition.
_EXCHANGED_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """What a caller asks for.

    Attributes:
        buckets: of each partition afterwards; None to choose by the target file size.
        partitions: only these, by path, `*` for any text; none for the whole table.
        acknowledged: the caller has seen to the other writers of the table.
    """

    buckets: int | None
    partitions: tuple[str, ...] = ()
    acknowledged: bool = False


def resize(
    client: TableClient, options: WriteOptions, executor: Executor, request: ResizeRequest, *, dry_run: bool = False
) -> ResizeReport:
    """Change the number of buckets; see `ClusterCalls.resize`."""
    started, timeline = time.monotonic(), client.timeline()
    _refuse_request(request)
    require_writable(client.config, client.storage.uri)
    refuse_hudi_types(client, timeline)
    settled = TableClient(
        client.storage, TableConfig({**client.config.raw, **lost_properties(client.config, timeline)})
    )
    rules = _rules(settled, timeline, options, request)
    listed = PartitionFiles(client, timeline)
    files = _asked_for(listed, request)
    several = settled.config.bucket_file_size is not None
    # refuses what are no buckets of these counts
    BucketFiles(listed, rules.default, rules, several=several).of(_partitions(files, request))
    planned = _planned(files, options, request, rules)
    if planned.state == "nothing" and not dry_run and settled.config.raw != client.config.raw:
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
            return _attempt(client, options, executor, replace(request, buckets=planned.after), progress)

        report = with_retries(attempt, retries, lambda: True)
    return replace(report, seconds=time.monotonic() - started)


class ResizeTransaction(WriteTransaction):
    """A resize; see `WriteTransaction`.

    Attributes:
        resize: the change; must be set before the commit.
        fields: that decide the bucket, for tables that do not record them.
    """

    resize: Resize | RulesChange
    fields: tuple[str, ...] = ()

    def _check(
        self,
        timeline: Timeline,
        own: Instant,
        metadata: CommitMetadata,
        changes: IndexChanges | None,
        cleared: Cleared | None,
        *,
        alone: bool,
    ) -> None:
        super()._check(timeline, own, metadata, changes, cleared, alone=alone)
        refuse_foreign_writes(self.client, timeline)
        # here, since the lock is checked again afterwards, just before the publication
        config = self.client.reload()
        update_table_config(self.storage, {**self.resize.announced(config), **self._fields()})
        if isinstance(self.resize, RulesChange):
            write_rules(self.storage, self.resize.rules, self.instant)
        self.client.reload()

    def _recorded_properties(self) -> str:
        config = self.client.config
        properties = {**config.raw, **self._fields(), **self.resize.completed(config)}
        return recorded_text(self._begun, TableConfig(properties))

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


def _refuse_request(request: ResizeRequest) -> None:
    if request.buckets is not None:
        check_count("buckets", request.buckets, MOST_BUCKETS)


def _rules(client: TableClient, timeline: Timeline, options: WriteOptions, request: ResizeRequest) -> BucketRules:
    """How many buckets each partition has.

    Raises:
        OptionError: options that the table contradicts.
        UnsupportedTableError: a table without buckets, or one that cannot be resized as asked for.
    """
    check_against_table(options, client.config)
    kind = index_type(options, client.config)
    if kind != "BUCKET":
        raise UnsupportedTableError(
            f"{client.storage.uri}: its index is {kind}, so it has no buckets; file sizes are set by "
            f"{registry.FILE_SIZE.key}, and changed by `hudi-catalog cluster`"
        )
    rules = checked_rules(options, client, timeline.is_committed, recorded=True)
    if rules is not None and not request.partitions:
        raise UnsupportedTableError(
            f"{client.storage.uri}: its partitions have their own bucket counts, by the rules {rules.expressions!r}; "
            "name those to resize: partitions=[…], or --partition on the command line"
        )
    if request.partitions and not client.config.partition_fields:
        raise UnsupportedTableError(f"{client.storage.uri}: a table without partitions is resized as a whole")
    if rules is None and lacks_bucket_count(options, client.config) and _has_no_files_yet(timeline):
        raise OptionError(
            f"{client.storage.uri}: the table has no rows yet, and its first write chooses its bucket count: give that "
            f"write {registry.BUCKETS.key}"
        )
    return rules or BucketRules((), bucket_count(options, client.config))


def _has_no_files_yet(timeline: Timeline) -> bool:
    """Whether no write has made a file, such as deletes from a new table."""
    stats = (stat for write in timeline.writes for stat in timeline.commit_metadata(write).stats())
    return not any(stat.path for stat in stats) and not timeline.archive.writes


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


def _planned(files: pa.Table, options: WriteOptions, request: ResizeRequest, rules: BucketRules) -> ResizeReport:
    """What is there, and the number that it becomes."""
    sizes = files.group_by("partition").aggregate([("size", "sum")])
    partitions: list[Any] = sizes["partition"].to_pylist()
    nbytes: list[Any] = sizes["size_sum"].to_pylist()
    counts = _counts(rules, partitions)
    after = request.buckets
    if after is None:
        if len(counts) > 1:
            raise ArgumentError(
                f"auto: these partitions have {', '.join(map(str, sorted(counts)))} buckets; resize those of one "
                "number at a time, or give the number"
            )
        after = advised_buckets(nbytes, max(counts), options.number(registry.FILE_SIZE) or 1)
    if request.partitions:
        resized = [name for name in partitions if rules.count_of(name) != after]
        files = files.filter(pc.is_in(files["partition"], pa.array(resized, pa.string())))
        counts = _counts(rules, resized) if resized else {after}
    return ResizeReport(
        instant=None,
        state="nothing" if counts == {after} else "dry run",
        before=max(counts),
        after=after,
        way=_way(counts, after),
        partitions=pc.count_distinct(files["partition"]).as_py(),
        files_before=files.num_rows,
        bytes_before=pc.sum(files["size"], min_count=0).as_py(),
        rules=rules.expressions,
    )


def _asked_for(listed: PartitionFiles, request: ResizeRequest) -> pa.Table:
    """The files of the partitions that a request names, of `BASE_FILES_SCHEMA`; of all where it names none.

    Raises:
        ArgumentError: there is no such partition.
    """
    if not request.partitions:
        return listed.of()
    names = sorted(listed.partitions())
    files = listed.of([name for name in names if any(matches_partition(name, one) for one in request.partitions)])
    refuse_unmatched_partitions(_partitions(files, request) or (), request.partitions)
    return files


def _partitions(files: pa.Table, request: ResizeRequest) -> list[str] | None:
    """The partitions of files that were asked for; None for all."""
    names: list[str] = sorted(pc.unique(files["partition"]).to_pylist())
    return names if request.partitions else None


def _counts(rules: BucketRules, partitions: Sequence[str]) -> set[int]:
    return set(rules.counts_of(partitions)) or {rules.default}


def _way(counts: Iterable[int], after: int) -> str:
    ways = {_way_of(before, after) for before in counts}
    return ways.pop() if len(ways) == 1 else "mixed"


def _way_of(before: int, after: int) -> str:
    return "split" if after % before == 0 else "merge" if before % after == 0 else "overwrite"


def _attempt(
    client: TableClient, options: WriteOptions, executor: Executor, request: ResizeRequest, progress: WriteProgress
) -> ResizeReport:
    protocol, after = {**options.texts, "hoodie.index.type": "BUCKET"}, request.buckets or 0
    with ResizeTransaction.begin(client, Action.REPLACECOMMIT, OPERATION, protocol) as transaction:
        rules = _rules(client, transaction.timeline, options, request)
        listed = PartitionFiles(client, transaction.timeline, open_metadata=transaction.open_metadata)
        asked = _asked_for(listed, request)
        planned = _planned(asked, options, request, rules)
        if planned.state == "nothing":  # another resize was faster
            return planned
        refuse_foreign_writes(client, transaction.timeline)
        transaction.fields = hash_fields(options, client.config)
        moves = RowMoves.of(client, options, executor, transaction, progress)
        plans = moves.plans
        several = client.config.bucket_file_size is not None
        current = BucketFiles(plans.files, rules.default, rules, several=several).of(_partitions(asked, request))
        files = [file for file in _bucket_files(current, rules) if file.before != after]
        partitions = sorted({file.partition for file in files})
        if request.partitions:
            changed = rules.with_count(partitions, after)
            transaction.resize = RulesChange(transaction.instant, changed)
            current = current.filter(pc.is_in(current["partition"], pa.array(partitions, pa.string())))
        else:
            changed = BucketRules((), after)
            transaction.resize = Resize(transaction.instant, rules.default, after)
        refuse_clustered(plans, current, bucketed=True)
        transaction.mark_inflight()
        keys = plans.key_plan([file.file.path for file in files], planned.before)
        plan = RescalePlan(moves.files, keys, after, executor.task_memory, apart=several)
        written = _rewritten(executor, plan, files, progress.phase)
        progress.phase("committing")
        cleared = set(partitions) if request.partitions else None
        moves.commit(
            written,
            groups_of(current),
            extra=transaction.resize.note,
            cleared=lambda path: cleared is None or path in cleared,
        )
    stats = [file.stat for file in written]
    return replace(
        planned,
        instant=transaction.instant,
        state="completed",
        files_after=len(stats),
        bytes_after=sum(stat.file_size_in_bytes for stat in stats),
        rows=sum(stat.num_writes for stat in stats),
        bytes_encoded=EncodedWork.total(file.work for file in written).bytes_encoded,
        rules=changed.expressions,
    )


def _bucket_files(current: pa.Table, rules: BucketRules) -> list[BucketFile]:
    rows = current.to_pylist()
    counts = rules.counts_of(row["partition"] for row in rows)
    return [
        BucketFile(row["partition"], row["bucket"], before, CurrentFile(row["file_id"], row["instant"], row["path"]))
        for row, before in zip(rows, counts, strict=True)
    ]


def _rewritten(
    executor: Executor, plan: RescalePlan, files: Sequence[BucketFile], phase: Callable[[str], None]
) -> list[WrittenFile]:
    """Write the new files: of classes by themselves where that is possible, else by an exchange."""
    classes: list[BucketClass] = [(file,) for file in files] if plan.apart else bucket_classes(files, plan.after)
    most = min(plan.memory or _TASK_BYTES, _TASK_BYTES)
    alone: list[BucketClass] = []
    left: list[tuple[BucketClass, int]] = []
    for one, size in zip(classes, _decoded_sizes(plan, classes), strict=True):
        if size <= most and (plan.apart or _way_of(one[0].before, plan.after) != "overwrite"):
            alone.append(one)
        else:
            left.append((one, size))
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
