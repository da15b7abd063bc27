"""DataFrames of a table's history and files, and of the locations of its record keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit

from spark_writer.blocks import SPLIT_DDL, split_batches
from spark_writer.frame_rows import task_identity
from spark_writer.progress import default_parallelism
from spark_writer.received import slot_rows
from spark_writer.session import use_this_interpreter
from spark_writer.worker_errors import Batches, Worker, in_worker, workers_errors
from table_format.codecs.arrow_numpy import one_chunk
from table_format.errors import RecordError, SchemaError, did_you_mean
from table_format.instant import WRITE_ACTIONS, Instant, State
from table_format.metadata_table.record_index import RecordIndex
from table_format.metadata_table.record_index_entries import LOCATIONS_SCHEMA
from table_format.metadata_table.record_index_layout import PARTITION, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive
from table_writer.commit.transaction import WriteTransaction
from table_writer.encoding.record_index_entries import CHANGES_SCHEMA
from table_writer.execution.executor import SplitRows
from table_writer.metadata.index_deltas import DeltaFile, delta_folder, write_delta
from table_writer.rows.slot_rows import flushes

LOCATIONS_DDL = "key string, partition string, file_id string, instant_ms bigint, position bigint"

"""Columns of look-ups; see `table_format.metadata_table.record_index_entries`."""

_DELTA_DDL = "delta string"

_FLUSH_BYTES = 16 << 20

# A task costs more than looking up some thousand keys in one file group.
_TASKS_A_CORE = 8


@dataclass(frozen=True)
class _Spread:
    """How rows are sent to the task of their file group."""

    layout: IndexLayout
    by_partition: bool
    tasks: int


def get_record_locations(keys: DataFrame, client: TableClient, options: Mapping[str, str] | None = None) -> DataFrame:
    """Where records are (the RFC's `getRecordLocations`).

    Args:
        keys: a column `key` with record keys as the index has them, `field:value,…` for several key fields. For an
            index by partition also a column `partition`: without it keys are looked for in all partitions.
        client: the table.
        options: of look-ups, `hoodie.catalog.record.index.…`.

    Returns:
        Columns of `LOCATIONS_DDL`, computed lazily, by the index as it is now; one row per distinct key that has a
        record.

    Raises:
        RecordIndexError: the table has no record index, or it is out of date.
        SchemaError: there is no column `key`.
    """
    use_this_interpreter(keys.sparkSession)
    _require(keys, ("key",))
    index = RecordIndex.open(client, options=options)
    by_partition = index.layout.scope == PARTITION and "partition" in keys.columns
    names = ["key", "partition"] if by_partition else ["key"]
    rows = keys.select(*(F.col(name).cast("string") for name in names))
    spread = _spread(rows, index.layout, by_partition=by_partition, lazy=True)
    return spread.mapInArrow(_looker(index), LOCATIONS_DDL)


def insert_records(locations: DataFrame, transaction: WriteTransaction, layout: IndexLayout) -> list[DeltaFile]:
    """Put locations of records into the index (the RFC's `insertRecords`); they count once the transaction commits.

    Args:
        locations: columns `key`, `partition` and `file_id`; a row whose column `deleted` is true removes the key. Keys
            must be unique.
        transaction: the write that they belong to.
        layout: of the index.

    Returns:
        For the `index_changes` of the transaction's commit.

    Raises:
        SchemaError: a column is missing.
        RecordError: a key that is null or too long, or a location without partition or file id.
    """
    use_this_interpreter(locations.sparkSession)
    _require(locations, ("key", "partition", "file_id"))
    deleted = F.col("deleted").cast("boolean") if "deleted" in locations.columns else F.lit(False)
    texts = [F.col(name).cast("string") for name in ("key", "partition", "file_id")]
    rows = locations.select(*texts, deleted.alias("deleted"))
    spread = _spread(rows, layout, by_partition=layout.scope == PARTITION)
    keeper = _keeper(transaction.storage, delta_folder(transaction.instant), layout)
    with workers_errors():
        deltas = spread.mapInArrow(keeper, _DELTA_DDL).collect()
    return [_delta(row["delta"]) for row in deltas]


def _spread(rows: DataFrame, layout: IndexLayout, *, by_partition: bool, lazy: bool = False) -> DataFrame:
    tasks = max(1, min(layout.count, _TASKS_A_CORE * default_parallelism(rows.sparkSession)))
    plan = _Spread(layout, by_partition, tasks)

    def spread(batches: Batches) -> Iterator[pa.RecordBatch]:
        return split_batches(spread_keys(plan, batches, task_identity().number), tasks)

    return rows.mapInArrow(in_worker(spread, lazy=lazy), SPLIT_DDL).repartition(tasks, "slot")


def spread_keys(plan: _Spread, batches: Batches, task: int) -> Iterator[SplitRows]:
    """Rows with keys, and the task that has their file group.

    Raises:
        RecordError: a null key among rows to insert.
    """
    for number, pending in enumerate(flushes(batches, _FLUSH_BYTES)):
        rows = pa.Table.from_batches(pending).combine_chunks()
        if rows["key"].null_count:
            if "file_id" in rows.column_names:
                raise RecordError("a location without a key cannot be put into the record index")
            rows = rows.drop_null()
        keys = one_chunk(rows["key"])
        if plan.layout.scope == PARTITION and not plan.by_partition:
            # it may be in any partition: each task searches all
            groups = plan.layout.groups_of(keys)[0] if plan.layout.families else np.zeros(len(keys), np.int32)
        else:
            groups = plan.layout.group_of(keys, one_chunk(rows["partition"]) if plan.by_partition else None)
        yield SplitRows((task, number), rows, np.maximum(groups, 0).astype(np.int64) % plan.tasks)


def _looker(index: RecordIndex) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = _received(batches)
        if rows is None:
            return
        partitions = rows["partition"] if "partition" in rows.column_names else None
        locations = index.get_record_locations(rows["key"], partitions)
        yield from locations.select(LOCATIONS_SCHEMA.names).cast(LOCATIONS_SCHEMA).combine_chunks().to_batches()

    return in_worker(run, lazy=True)


def _keeper(storage: Storage, folder: str, layout: IndexLayout) -> Worker:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = _received(batches)
        if rows is None:
            return
        name = f"records-{task_identity().token}"
        delta = write_delta(storage, folder, name, layout, rows.cast(CHANGES_SCHEMA))
        if delta is not None:
            text = json.dumps({"path": delta.path, "rows": delta.rows, "groups": delta.groups})
            yield pa.record_batch([pa.array([text])], names=["delta"])

    return in_worker(run)


def _received(batches: Batches) -> pa.Table | None:
    for slot in slot_rows(batches):
        rows, _ = slot.whole("in the keys of one task", "; ask for fewer keys at a time")
        return rows
    return None


def _delta(text: str) -> DeltaFile:
    fields: dict[str, Any] = json.loads(text)
    groups = tuple((int(group), int(rows), int(where)) for group, rows, where in fields["groups"])
    return DeltaFile(str(fields["path"]), int(fields["rows"]), groups)


def _require(rows: DataFrame, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in rows.columns]
    if missing:
        hint = did_you_mean(missing[0], rows.columns)
        raise SchemaError(f"column {missing[0]!r} is missing{hint}; columns are {rows.columns}")


_DDL = (
    "instant string, action string, state string, operation string, files bigint, rows_inserted bigint, "
    "rows_updated bigint, rows_deleted bigint, bytes bigint"
)


def metadata_frame(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows of texts and 64-bit integers, such as a table's files, as a DataFrame."""
    ddl = ", ".join(
        f"`{field.name}` {'bigint' if pa.types.is_int64(field.type) else 'string'}" for field in rows.schema
    )
    return session.createDataFrame([tuple(row.values()) for row in rows.to_pylist()], ddl)


def history_rows(client: TableClient) -> tuple[list[tuple[Any, ...]], str]:
    """One row per instant, newest first, and their DDL schema; counts are null for instants without write stats."""
    timeline = with_archive(client.timeline())
    return [_row(timeline, instant) for instant in reversed(timeline.instants)], _DDL


def _row(timeline: Timeline, instant: Instant) -> tuple[Any, ...]:
    head = (instant.time, instant.action, instant.state.name)
    if instant.state is not State.COMPLETED or instant.action not in WRITE_ACTIONS:
        return (*head, None, None, None, None, None, None)
    metadata = timeline.commit_metadata(instant)
    stats = list(metadata.stats())
    return (
        *head,
        metadata.operation_type,
        len(stats),
        sum(stat.num_inserts for stat in stats),
        sum(stat.num_update_writes for stat in stats),
        sum(stat.num_deletes for stat in stats),
        sum(stat.file_size_in_bytes for stat in stats),
    )
