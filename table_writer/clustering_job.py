"""Clustering a table: a plan on the timeline, its run, and a report."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from table_format.actions.table_services import ClusteringPlan
from table_format.config.table_config import recover_table_config
from table_format.errors import UnsupportedTableError
from table_format.instant import Action, Instant
from table_format.schema.evolution import storage_schema
from table_format.slices.file_names import BaseFileName, bucket_of_file_id
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.clustering.cuts import Cuts
from table_writer.clustering.order import RowOrder
from table_writer.clustering.plan import SINGLE_FILE_STRATEGY, Sorting, plan_clustering
from table_writer.clustering.report import ClusteringReport
from table_writer.clustering.sizes import SAMPLED_A_FILE, GroupSize, MeasureTask, file_size, measured, parts_of
from table_writer.clustering.tasks import (
    ClusterPlan,
    GroupOrder,
    InputFile,
    SampleTask,
    sample_file,
    split_files,
    write_clusters,
)
from table_writer.commit.clustering import ClusteringTransaction, read_plan
from table_writer.commit.conflicts import clustered_slots
from table_writer.commit.rollback import settled_timeline
from table_writer.execution.executor import Executor
from table_writer.files.file_change import WrittenFile
from table_writer.moved_rows import RowMoves, refuse_hudi_types
from table_writer.plan import clustering_options as keys
from table_writer.plan import option_registry as registry
from table_writer.plan.options import WriteOptions
from table_writer.plan.plan import CurrentFile, FilePlan
from table_writer.slots.partition_files import PartitionFiles
from table_writer.timeline.instants import request, table_lock
from table_writer.timeline.options import ProtocolOptions

#: Rows that are sampled at least, and at most, of the files that are sorted together.
_SAMPLED: Final = 1 << 15
_MOST_SAMPLED: Final = 1 << 20
#: Rows that are exchanged at once, beyond a single group; small partitions go together.
_ROWS_AT_ONCE: Final = 1 << 22


def plan(
    client: TableClient, options: WriteOptions, partitions: Sequence[str] = (), *, dry_run: bool = False
) -> ClusteringReport:
    """Put a clustering on the timeline; from then on no writer may change its files until it has run.

    Args:
        client: the table.
        options: of the clustering.
        partitions: see `plan_clustering`.
        dry_run: report only.

    Raises:
        OptionError: an invalid option.
        SchemaError: a column to sort by is not there, or has no order.
        UnsupportedTableError: the table has buckets and no columns to sort by are given, or it cannot be written.
        LockError: the table lock could not be taken.
    """
    started, sorting = time.monotonic(), Sorting.of(options)
    if dry_run:
        planned, sizes = _planned(client, client.timeline(), options, partitions)
        return _report(planned, sorting, sizes, started)
    protocol = ProtocolOptions.parse(options.texts)
    with table_lock(client, protocol):
        if recover_table_config(client.storage):
            client.reload()
        timeline, _ = settled_timeline(client, protocol)
        planned, sizes = _planned(client, timeline, options, partitions)
        if not planned.groups:
            return _report(planned, sorting, sizes, started)
        content = planned.to_avro(client.storage.full_uri)
        instant = request(client, Action.REPLACECOMMIT, content, timeline)
    return _report(planned, sorting, sizes, started, instant.time)


def run(client: TableClient, instant: str, options: WriteOptions, executor: Executor) -> ClusteringReport:
    """Run a planned clustering, of this project's or Apache's; nothing is visible unless all of it succeeds.

    If it fails, the plan stays.

    Args:
        client: the table.
        instant: of the plan.
        options: of the table's writers.
        executor: runs the tasks.

    Raises:
        ConflictError: files of the plan were changed by a writer that does not respect plans.
        TransactionError: there is no such plan, or another writer runs it.
        HudiError: files cannot be read or written.
    """
    started = time.monotonic()
    refuse_hudi_types(client, client.timeline())
    return _run(client, ClusteringTransaction.begin_planned(client, instant, options.texts), options, executor, started)


def plan_and_run(
    client: TableClient, options: WriteOptions, executor: Executor, partitions: Sequence[str] = ()
) -> ClusteringReport:
    """Cluster in one write: if it fails or dies, no plan of it stays.

    Args:
        client: the table.
        options: of the clustering, and of the table's writers.
        executor: runs the tasks.
        partitions: see `plan_clustering`.

    Raises:
        HudiError: as for `plan` and `run`.
    """
    started, sorting = time.monotonic(), Sorting.of(options)
    transaction = ClusteringTransaction.begin_new(
        client, options.texts, lambda timeline: _planned(client, timeline, options, partitions)[0]
    )
    if transaction is None:
        return _report(ClusteringPlan(), sorting, {}, started)
    return _run(client, transaction, options, executor, started)


def _run(
    client: TableClient,
    transaction: ClusteringTransaction,
    options: WriteOptions,
    executor: Executor,
    started: float,
) -> ClusteringReport:
    with transaction:
        timeline = transaction.timeline
        sorting = Sorting.of_plan(transaction.plan, options)
        sorting.refuse_columns(storage_schema(client.table_schema(timeline)), client.storage.uri)
        with executor.progress(options.text(registry.PROGRESS) or "auto") as progress:
            moves = RowMoves.of(client, options, executor, transaction, progress)
            written = _rewrite(executor, transaction.plan, sorting, moves.files, progress.phase)
            progress.phase("committing")
            moves.commit(written, _by_partition(transaction.plan))
    report = _report(transaction.plan, sorting, {}, started, transaction.instant)
    stats = [file.stat for file in written]
    return replace(
        report,
        state="completed",
        bytes_before=_bytes_of(client, transaction.plan),
        files_after=len(stats),
        bytes_after=sum(stat.file_size_in_bytes for stat in stats),
        rows=sum(stat.num_writes for stat in stats),
    )


def planned_report(client: TableClient, instant: Instant, options: WriteOptions) -> ClusteringReport:
    """What the plan of a pending clustering would do, from the plan alone.

    Raises:
        TransactionError: it holds none.
    """
    planned = read_plan(client.timeline(), instant)
    return _report(planned, Sorting.of_plan(planned, options), {}, time.monotonic(), instant.time)


def _planned(
    client: TableClient, timeline: Timeline, options: WriteOptions, partitions: Sequence[str]
) -> tuple[ClusteringPlan, dict[tuple[str, str], int]]:
    """The plan, and the sizes of all files by partition and file id."""
    refuse_hudi_types(client, timeline)
    files = PartitionFiles(client, timeline).of()
    sorting = Sorting.of(options)
    if files.num_rows:
        sorting.refuse_columns(client.table_schema(timeline), client.storage.uri)
    busy = clustered_slots(timeline, bucketed=False)
    planned = plan_clustering(client, files, options, partitions, busy=busy.__contains__)
    rows = files.select(["partition", "file_id", "size"]).to_pylist()
    return planned, {(row["partition"], row["file_id"]): row["size"] for row in rows}


def _rewrite(
    executor: Executor, planned: ClusteringPlan, sorting: Sorting, files: FilePlan, phase: Callable[[str], None]
) -> list[WrittenFile]:
    """Write the new files, a few groups at a time."""
    inputs = [
        SampleTask(files, InputFile(number, _file_of(piece)), sorting.by)
        for number, group in enumerate(planned.groups)
        for piece in group
    ]
    phase("sampling the columns to sort by")
    sizes = GroupSize.of_groups([task.input.group for task in inputs], in_threads(file_size, inputs))
    sampled = [
        replace(task, input=replace(task.input, step=_step(planned, sizes, task.input.group))) for task in inputs
    ]
    written: list[WrittenFile] = []
    for groups in _at_once(sizes):
        tasks = [task for task in sampled if task.input.group in groups]
        samples: dict[int, list[pa.Table]] = {}
        for task, sample in zip(tasks, executor.map(sample_file, tasks), strict=True):
            samples.setdefault(task.input.group, []).append(sample)
        whole = {number: pa.concat_tables(samples[number]) for number in groups}
        orders = {number: RowOrder.of(sorting.by, sorting.layout, whole[number]) for number in groups}
        parts = _parts(executor, planned, tasks, orders, sizes)
        divided: dict[int, GroupOrder] = {}
        slots = 0
        for number, order in orders.items():
            within, cuts = order.divided(whole[number], parts[number])
            divided[number] = _divided(planned, number, within, cuts, slots)
            slots += cuts.parts
        phase(f"sorting and writing files: group {max(groups) + 1} of {len(planned.groups)}")
        plan_of_tasks = ClusterPlan(files, divided)
        source = executor.dealt([task.input for task in tasks])
        exchanged = executor.exchange(source, partial(split_files, plan_of_tasks), slots)
        written += executor.collect(exchanged, partial(write_clusters, plan_of_tasks))
    return written


def _step(planned: ClusteringPlan, sizes: dict[int, GroupSize], group: int) -> int:
    """Of how many rows of a group one is sampled."""
    wanted = min(_MOST_SAMPLED, max(_SAMPLED, SAMPLED_A_FILE * planned.outputs[group]))
    return max(1, sizes[group].rows // wanted)


def _parts(
    executor: Executor,
    planned: ClusteringPlan,
    tasks: Sequence[SampleTask],
    orders: dict[int, RowOrder],
    sizes: dict[int, GroupSize],
) -> dict[int, int]:
    """Into how many files the rows of each group go: by their size in the new order, or as many as planned.

    Plans of Apache's do not say how large files may become.
    """
    target = planned.parameters.get(keys.TARGET_BYTES.key, "")
    parts = {number: planned.outputs[number] for number in orders}
    if not target.isdigit() or planned.strategy == SINGLE_FILE_STRATEGY:
        return parts
    measures = []
    for number, order in orders.items():
        if sizes[number].may_exceed(int(target)):
            own = [task for task in tasks if task.input.group == number]
            measures.append(MeasureTask(own[0].files, [task.input for task in own], order, sizes[number]))
    for task, encoded in zip(measures, executor.map(measured, measures), strict=True):
        parts[task.inputs[0].group] = parts_of(task, encoded, int(target))
    return parts


def _divided(planned: ClusteringPlan, number: int, order: RowOrder, cuts: Cuts, first: int) -> GroupOrder:
    piece = planned.groups[number][0]
    bucket = bucket_of_file_id(piece.file_id) if planned.strategy == SINGLE_FILE_STRATEGY else None
    return GroupOrder(piece.partition, bucket, order, cuts, first)


def _at_once(sizes: dict[int, GroupSize]) -> Iterator[list[int]]:
    """Numbers of groups whose rows are exchanged together."""
    batch: list[int] = []
    count = 0
    for number, size in sizes.items():
        if batch and count + size.rows > _ROWS_AT_ONCE:
            yield batch
            batch, count = [], 0
        batch.append(number)
        count += size.rows
    if batch:
        yield batch


def _file_of(piece: Any) -> CurrentFile:
    name = BaseFileName.parse(piece.base_file or "")
    if name is None or piece.log_files:
        raise UnsupportedTableError(f"{piece.file_id}: log files are not clustered")
    return CurrentFile(piece.file_id, name.instant, posixpath.join(piece.partition, piece.base_file))


def _by_partition(planned: ClusteringPlan) -> dict[str, list[str]]:
    replaced: dict[str, list[str]] = {}
    for partition, file_id in planned.file_groups:
        replaced.setdefault(partition, []).append(file_id)
    return replaced


def _bytes_of(client: TableClient, planned: ClusteringPlan) -> int:
    paths = [posixpath.join(piece.partition, piece.base_file or "") for group in planned.groups for piece in group]
    entries = in_threads(client.storage.entry, paths)
    return sum(entry.size for entry in entries if entry is not None)


def _report(
    planned: ClusteringPlan,
    sorting: Sorting,
    sizes: dict[tuple[str, str], int],
    started: float,
    instant: str | None = None,
) -> ClusteringReport:
    groups = planned.file_groups
    return ClusteringReport(
        instant=instant,
        state="nothing" if not groups else "dry run" if instant is None else "planned",
        columns=sorting.columns,
        layout=sorting.layout.value,
        partitions=len({partition for partition, _ in groups}),
        groups=len(planned.groups),
        files_before=len(groups),
        bytes_before=sum(sizes.get(group, 0) for group in groups),
        files_after=sum(planned.outputs),
        seconds=time.monotonic() - started,
    )
