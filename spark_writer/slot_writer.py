"""Second stage: the rows of a slot become new versions of base files, one file group per bucket and partition."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import compute

from spark_writer.merge import MergedRows, merge_rows, sorted_rows
from spark_writer.operations import Duplicates
from spark_writer.ordering import ordering_columns
from spark_writer.plans import BUCKET_COLUMN, FilePlan, TaskIdentity
from table_format.actions.commit import NO_COMMIT, WriteStat
from table_format.arrow_numpy import from_numpy, to_numpy
from table_format.base_file import footer, read_base_file, write_base_file
from table_format.column_statistics import collect_statistics
from table_format.errors import SchemaError
from table_format.file_names import BaseFileName, new_bucket_file_id
from table_format.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    IS_DELETED,
    META_COLUMNS,
    META_FIELDS,
    PARTITION_PATH,
    RECORD_KEY,
    add_meta_columns,
    constant,
)
from table_format.partition_metadata import ensure_partition_metadata
from table_format.schema_evolution import conform
from table_format.storage import Storage
from table_format.transaction.markers import create_marker

pc: Any = compute  # the stubs lag behind the functions
Rows = npt.NDArray[np.int64]

_WRITTEN: dict[str, pa.DataType] = {"stat": pa.string(), "statistics": pa.binary()}
WRITTEN_SCHEMA = pa.schema(_WRITTEN)
"""What the second stage gives: one row a file, its write stat as JSON and its column statistics as an Arrow stream."""
WRITTEN_DDL = "stat string, statistics binary"
# Bytes of a value in a dictionary-encoded chunk, its share of the dictionary included: about 1000 distinct values.
_FEW_VALUES_BYTES = 1.5


@dataclass(frozen=True)
class WrittenFile:
    """One new base file.

    Attributes:
        stat: for the commit.
        statistics: its columns, as a table of the metadata table's exchange schema; None without them.
    """

    stat: WriteStat
    statistics: pa.Table | None

    def to_row(self) -> tuple[str, bytes | None]:
        """As texts, for the way to the driver."""
        if self.statistics is None:
            return json.dumps(self.stat.to_json()), None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.statistics.schema) as writer:
            writer.write_table(self.statistics)
        return json.dumps(self.stat.to_json()), sink.getvalue().to_pybytes()

    @classmethod
    def from_row(cls, stat: str, statistics: bytes | None) -> WrittenFile:
        """The other way."""
        table = None if statistics is None else pa.ipc.open_stream(bytes(statistics)).read_all()
        return cls(WriteStat.from_json(json.loads(stat)), table)


def write_blocks(plan: FilePlan, batches: Iterable[pa.RecordBatch], task: TaskIdentity) -> Iterator[pa.RecordBatch]:
    """Write the files of one slot out of its blocks (batches of the first stage).

    Yields:
        One batch of `WRITTEN_SCHEMA` a file.
    """
    blocks: list[tuple[int, int, Any]] = []
    for batch in batches:
        columns: Any = batch.columns
        _, tasks, numbers, payloads = columns
        places = zip(tasks.to_pylist(), numbers.to_pylist(), payloads, strict=True)
        blocks += [(source, number, payload.as_buffer()) for source, number, payload in places]
    if not blocks:
        return
    # The shuffle mixes blocks; their own order decides which of two equal versions is the later.
    blocks.sort(key=lambda block: block[:2])
    tables = [pa.ipc.open_stream(payload).read_all() for _, _, payload in blocks]
    blocks.clear()
    rows = _concatenated(tables)
    tables.clear()
    for written in write_slot(plan, rows, task):
        stat, statistics = written.to_row()
        yield pa.RecordBatch.from_arrays([pa.array([stat]), pa.array([statistics], pa.binary())], schema=WRITTEN_SCHEMA)


def write_slot(plan: FilePlan, rows: pa.Table, task: TaskIdentity) -> Iterator[WrittenFile]:
    """Write the files of all partitions and buckets that some keyed rows fall into; unchanged files stay."""
    first = 0
    for partition, bucket, positions in _groups(rows):
        written = _GroupWriter(plan, task, partition, bucket).write(rows, positions, first)
        first += rows.num_rows if positions is None else len(positions)
        if written is not None:
            yield written


def _concatenated(tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables).unify_dictionaries()
    for field in whole.schema:
        if whole.column(field.name).nbytes >= 1 << 31 and not pa.types.is_fixed_size_binary(field.type):
            raise SchemaError(
                f"column {field.name!r} has {whole.column(field.name).nbytes} bytes in one bucket of this write, more "
                "than 2 GiB; write the rows in several batches, or make the table with more buckets"
            )
    return whole.combine_chunks()


def _groups(rows: pa.Table) -> Iterator[tuple[str, int, Rows | None]]:
    """Partition, bucket and row positions of each group; None for all rows."""
    buckets = to_numpy(_piece(rows, BUCKET_COLUMN)).astype(np.int64)
    names = [""]
    codes = buckets
    if PARTITION_PATH in rows.column_names:
        partitions = _piece(rows, PARTITION_PATH)
        names = partitions.dictionary.to_pylist()
        codes = buckets * len(names) + to_numpy(partitions.indices)
    if codes.min() == codes.max():
        yield names[int(codes[0]) % len(names)], int(buckets[0]), None
        return
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        code = int(ordered[start])
        yield names[code % len(names)], code // len(names), order[start:end]


def _piece(rows: pa.Table, name: str) -> Any:
    column: Any = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class _GroupWriter:
    """One bucket of one partition in one write."""

    def __init__(self, plan: FilePlan, task: TaskIdentity, partition: str, bucket: int) -> None:
        self.plan = plan
        self.task = task
        self.partition = partition
        self.bucket = bucket
        self.started = time.monotonic()

    def write(self, rows: pa.Table, positions: Rows | None, first: int) -> WrittenFile | None:
        """Merge the group's rows (all when `positions` is None) into its file; None when nothing changes."""
        keys = _piece(rows, RECORD_KEY)
        if positions is not None:
            keys = keys.take(from_numpy(positions))
        unique = self.plan.unique or self.plan.delete
        order = sorted_rows(keys, unique=unique, ordering=[] if self.plan.delete else self._ordering(rows, positions))
        keys = keys.take(from_numpy(order))
        chosen = order if positions is None else positions[order]
        current = self._current()
        if current is None:
            return self._write_new(rows, chosen, keys, first)
        return self._write_merged(rows, chosen, keys, current, first)

    def _ordering(self, rows: pa.Table, positions: Rows | None) -> list[Any]:
        fields = [field for field in self.plan.ordering if field in rows.column_names]
        columns = ordering_columns(rows, fields)
        return columns if positions is None else [column.take(from_numpy(positions)) for column in columns]

    def _current(self) -> dict[str, str] | None:
        table = self.plan.current
        if table.num_rows == 0:
            return None
        mine = pc.and_(pc.equal(table["partition"], self.partition), pc.equal(table["bucket"], self.bucket))
        found: list[dict[str, str]] = table.filter(mine).to_pylist()
        return found[0] if found else None

    def _write_new(self, rows: pa.Table, chosen: Rows, keys: Any, first: int) -> WrittenFile | None:
        if self.plan.delete:
            return None
        deletes = _deletes(rows, chosen)
        if deletes is not None and deletes.any():
            chosen, keys = chosen[~deletes], keys.take(from_numpy(np.flatnonzero(~deletes)))
        if len(chosen) == 0:
            return None
        file_id = new_bucket_file_id(self.bucket)
        name = self._file_name(file_id)
        table = self._with_meta(_user_rows(rows, chosen, self.plan.schema), keys, name, first)
        return self._store(table, file_id, name, MergedRows(chosen, len(chosen), 0, 0), None)

    def _write_merged(
        self, rows: pa.Table, chosen: Rows, keys: Any, current: dict[str, str], first: int
    ) -> WrittenFile | None:
        plan = self.plan
        old = self._read(current["path"])
        if plan.delete:
            merged = merge_rows(_piece(old, RECORD_KEY), keys, deletes=np.ones(len(keys), np.bool_))
            new = None
        else:
            new = _user_rows(rows, chosen, plan.schema)
            by_value = plan.event_time and plan.duplicates is Duplicates.MERGE
            fields = plan.ordering if by_value else ()
            merged = merge_rows(
                _piece(old, RECORD_KEY),
                keys,
                deletes=_deletes(rows, chosen),
                duplicates=plan.duplicates,
                old_ordering=ordering_columns(old, fields),
                new_ordering=ordering_columns(new, fields),
            )
        if not merged.changed:
            return None
        name = self._file_name(current["file_id"])
        whole = old
        if new is not None:
            added = self._with_meta(new, keys, name, first).drop_columns([PARTITION_PATH, FILE_NAME])
            whole = pa.concat_tables([old, _encoded_as(added, old.schema)]).unify_dictionaries()
        table = _constants(_taken(whole, merged.rows), self.partition, name)
        return self._store(table, current["file_id"], name, merged, current["instant"])

    def _read(self, path: str) -> pa.Table:
        """The current rows in the table's schema, without the two columns that are one text in each file."""
        schema = pa.schema([*META_FIELDS, *self.plan.schema])
        names = [name for name in schema.names if name not in (PARTITION_PATH, FILE_NAME)]
        rows = read_base_file(self.plan.storage, path, names, schema, few_valued_columns(self.plan.storage, path))
        return rows.unify_dictionaries().combine_chunks()

    def _with_meta(self, user: pa.Table, keys: Any, name: str, first: int) -> pa.Table:
        return add_meta_columns(
            user,
            instant=self.plan.instant,
            task=self.task.number,
            keys=keys,
            partition=self.partition,
            file_name=name,
            first_row=first,
        )

    def _file_name(self, file_id: str) -> str:
        return str(BaseFileName(file_id, self.task.token, self.plan.instant))

    def _store(self, table: pa.Table, file_id: str, name: str, merged: MergedRows, previous: str | None) -> WrittenFile:
        plan, partition = self.plan, self.partition
        path = f"{partition}/{name}" if partition else name
        create_marker(plan.storage, plan.instant, partition, name, "MERGE" if previous else "CREATE")
        ensure_partition_metadata(plan.storage, partition, plan.instant)
        result = write_base_file(
            plan.storage, path, table, plan.footer_schema, plan.file_options, footer_texts=plan.footer_texts
        )
        statistics = None
        if plan.indexed is not None:
            statistics = collect_statistics(table, name, partition, plan.indexed, result.metadata)
        elapsed = int((time.monotonic() - self.started) * 1000)
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            prev_commit=previous or NO_COMMIT,
            num_writes=result.row_count,
            num_deletes=merged.deleted,
            num_update_writes=merged.updated,
            num_inserts=merged.inserted,
            total_write_bytes=result.size,
            file_size_in_bytes=result.size,
            runtime_stats={
                "totalScanTime": 0,
                "totalUpsertTime": elapsed if previous else 0,
                "totalCreateTime": 0 if previous else elapsed,
            },
        )
        return WrittenFile(stat, statistics)


def few_valued_columns(storage: Storage, path: str) -> list[str]:
    """String columns of a base file whose values are few, as its footer's sizes tell.

    Read as dictionaries they need not be spelled out, moved and looked up again to be written.
    """
    found = footer(storage, path)
    strings = {field.name for field in found.schema if pa.types.is_string(field.type)} - {RECORD_KEY}
    if found.metadata.num_row_groups == 0:
        return []
    group = found.metadata.row_group(0)
    chunks = [group.column(index) for index in range(group.num_columns)]
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in strings
        and not {"RLE_DICTIONARY", "PLAIN_DICTIONARY"}.isdisjoint(chunk.encodings)
        and chunk.total_uncompressed_size < _FEW_VALUES_BYTES * max(1, chunk.num_values)
    ]


def _deletes(rows: pa.Table, chosen: Rows) -> npt.NDArray[np.bool_] | None:
    """Where `_hoodie_is_deleted` is true."""
    if IS_DELETED not in rows.column_names:
        return None
    flags = _piece(rows, IS_DELETED).take(from_numpy(chosen))
    if not pa.types.is_boolean(flags.type):
        raise SchemaError(f"column {IS_DELETED} is {flags.type}; it must be boolean")
    return to_numpy(flags.fill_null(fill_value=False)).astype(np.bool_)


def _user_rows(rows: pa.Table, chosen: Rows, schema: pa.Schema) -> pa.Table:
    """Some rows in the table's columns; those that the batch lacks are null."""
    user = rows.drop_columns([n for n in (RECORD_KEY, PARTITION_PATH, BUCKET_COLUMN) if n in rows.column_names])
    return conform(_taken(user, chosen), schema)


def _encoded_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same columns, dictionary-encoded where the schema says so and nowhere else."""
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
            columns.append(pc.dictionary_encode(column))
        else:
            columns.append(column if column.type == field.type else pc.cast(column, field.type))
    return pa.table(columns, schema=schema)


def _taken(table: pa.Table, positions: Rows) -> pa.Table:
    return table.take(from_numpy(positions))


def _constants(table: pa.Table, partition: str, name: str) -> pa.Table:
    """Put partition path and file name back to their places among the meta columns."""
    position = len((COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY))
    for column, text in ((PARTITION_PATH, partition), (FILE_NAME, name)):
        values = constant(text, len(table))
        table = table.add_column(position, pa.field(column, values.type), values)
        position += 1
    if table.column_names[: len(META_COLUMNS)] != list(META_COLUMNS):
        raise SchemaError(f"meta columns are out of place: {table.column_names[: len(META_COLUMNS)]}")
    return table
