"""Merging rows into a base file in key order, one batch of the file at a time, so that neither is in memory whole."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.base_file.footer import footer
from table_format.base_file.reader import base_file_batches
from table_format.codecs.arrow_numpy import from_numpy, one_chunk
from table_format.keys.key_order import is_sorted, sorted_order
from table_format.meta_columns import META_FIELDS, RECORD_KEY
from table_format.schema.evolution import conform
from table_format.table.schema_history import SchemaHistory
from table_writer.execution.slot_rows import MemoryShare, some_in_one_piece
from table_writer.files.file_change import FileChange, WrittenFile
from table_writer.files.rewrite import ChangedKeys, current_schema, store_parts, written_in_parts
from table_writer.plan.plan import CurrentFile, FilePlan
from table_writer.rows.merge import merged_rows, merged_values, positions_after, with_constants
from table_writer.rows.several_rows import Several
from table_writer.rows.slot_rows import Incoming

_KEY: Final = pa.schema([META_FIELDS[2]])
_LEAST_ROWS: Final = 256
_BUFFER: Final = 128 << 10
_SAMPLES: Final = 4096
_VALUE_BYTES: Final = 4
_WHERE: Final = "in a range of record keys of one file"


@dataclass
class _Counts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    several: Several = field(default_factory=Several)


def rows_size(plan: FilePlan, path: str) -> int:
    """Bytes that the rows of a base file take in memory, estimated from its footer."""
    foot = footer(plan.storage, path)
    groups = [foot.metadata.row_group(number) for number in range(foot.metadata.num_row_groups)]
    return sum(group.total_byte_size for group in groups) + foot.row_count * _VALUE_BYTES * len(foot.schema)


def merge_in_order(
    change: FileChange, parts: Iterable[Incoming], share: MemoryShare, changed_keys: ChangedKeys
) -> WrittenFile | None:
    """Merge rows into a base file; None when nothing changes.

    A file whose rows are not sorted by key is first divided into temporary files by key ranges.

    Args:
        change: of the file, without rows.
        parts: rows by ranges of record keys, the ranges disjoint and rising.
        share: of the task.
        changed_keys: called with each range's changed keys, which the result does not have.

    Raises:
        HudiError: as for `rewrite_whole`.
    """
    current = change.previous
    assert current is not None, "a new file group has nothing to merge with"  # noqa: S101
    counts = _Counts()
    batches = _whole_keys(_sorted_batches(change.plan, current, share))
    merged = _merged(change, _aligned(iter(parts), batches), counts, changed_keys)
    result, statistics = store_parts(change, _collected(merged, share.nbytes // 2))
    if not (counts.inserted or counts.updated or counts.deleted):
        change.plan.storage.delete(change.target)
        return None
    return written_in_parts(
        change,
        result,
        statistics,
        inserted=counts.inserted,
        updated=counts.updated,
        deleted=counts.deleted,
        several=counts.several,
    )


def _merged(
    change: FileChange, pairs: Iterable[tuple[Incoming | None, pa.Table]], counts: _Counts, changed_keys: ChangedKeys
) -> Iterator[pa.Table]:
    """The new version's rows, range by range."""
    for incoming, old in pairs:
        if incoming is None:
            yield with_constants(old, change.partition, change.name)
            continue
        part = replace(change, incoming=incoming)
        old_keys = one_chunk(old[RECORD_KEY])
        changes = part.row_changes(old, old_keys)
        counts.inserted += len(changes.inserted)
        counts.updated += len(changes.replaced)
        counts.deleted += len(changes.gone)
        gone = old_keys.take(from_numpy(changes.gone))
        deleted = pc.unique(gone)
        counts.several = Several.total((counts.several, Several.of(incoming.keys, changes.by, gone, deleted)))
        changed_keys(part.keys_to_put(changes), deleted)
        merged = merged_rows(old_keys, incoming.keys, changes)
        added = old.slice(0, 0) if change.plan.delete else part.added
        rows = merged_values(old, added, merged.rows, merged.places, incoming.kept_columns)
        del part, old, added, incoming, old_keys  # before the rows are encoded
        yield with_constants(rows, change.partition, change.name)
        del rows


def _aligned(parts: Iterator[Incoming], batches: Iterator[pa.Table]) -> Iterator[tuple[Incoming | None, pa.Table]]:
    """Rows to merge and rows of the file whose keys are in the same range, the ranges ascending.

    Args:
        parts: rows to merge, by disjoint rising ranges of keys.
        batches: likewise of the file; at least one batch, which may be empty.
    """
    old = next(batches)
    nothing = old.slice(0, 0)
    left: pa.Table | None = old
    for part in parts:
        start = 0
        while start < len(part.keys):
            if left is None or not len(left):
                left = next(batches, None)
            if left is None:
                yield part.between(start, len(part.keys)), nothing
                break
            keys = one_chunk(left[RECORD_KEY])
            end = int(positions_after(part.keys, keys.slice(len(keys) - 1))[0]) if len(keys) else start
            if end < len(part.keys):
                yield (part.between(start, end) if end > start else None), left
                left, start = None, end
                continue
            # the next part's rows may belong before the last rows of this batch
            cut = int(positions_after(keys, part.keys.slice(len(part.keys) - 1))[0])
            yield part.between(start, end), left.slice(0, cut)
            left = left.slice(cut)
            break
    if left is not None:
        yield None, left
    for batch in batches:
        yield None, batch


def _collected(tables: Iterator[pa.Table], least: int) -> Iterator[pa.Table]:
    """Tables of at least `least` bytes, since each becomes a row group."""
    pending: list[pa.Table] = []
    size = 0
    for table in tables:
        pending.append(table)
        size += table.nbytes
        if size >= least:
            yield _one_table(pending)
            pending, size = [], 0
    if pending:
        yield _one_table(pending)


def _one_table(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _sorted_batches(plan: FilePlan, file: CurrentFile, share: MemoryShare) -> Iterator[pa.Table]:
    """The rows of a base file in key order, in the table's schema, without the constant meta columns."""
    count = footer(plan.storage, file.path).row_count
    size = rows_size(plan, file.path)
    most = max(_LEAST_ROWS, share.nbytes // 4 * count // max(1, size))
    in_order, sample = _key_order(plan, file, most)
    schema = current_schema(plan)
    batches = file_batches(plan, file, schema, most)
    empty = schema.empty_table()
    if in_order:
        yield from itertools.chain(batches, () if count else (empty,))
        return
    sample = sample.take(pc.sort_indices(sample))
    places = np.linspace(0, len(sample), 4 * size // max(1, share.nbytes) + 2).astype(np.int64)[1:-1]
    bounds = sample.take(from_numpy(np.unique(places))).unique()
    numbered = ((table, positions_after(bounds, one_chunk(table[RECORD_KEY]))) for table in batches)
    for source in share.divider(numbered, len(bounds) + 1):
        rows = some_in_one_piece(source.tables(), _WHERE, "")
        if rows is not None:
            ordered = rows.take(from_numpy(sorted_order(one_chunk(rows[RECORD_KEY]))))
            del rows
            yield ordered
            del ordered


def _key_order(plan: FilePlan, file: CurrentFile, most: int) -> tuple[bool, Any]:
    """Whether the rows of a base file are sorted by key, and a sample of the keys."""
    in_order = True
    last = None
    sample: list[Any] = []
    step = max(1, footer(plan.storage, file.path).row_count // _SAMPLES)
    for batch in file_batches(plan, file, _KEY, most):
        keys = one_chunk(batch[RECORD_KEY])
        if not len(keys):
            continue
        joined = keys if last is None else pa.concat_arrays([last, keys])
        in_order = in_order and is_sorted(joined)
        # copied, since a slice would keep the batch in memory
        last = keys.take(pa.array([len(keys) - 1]))
        sample.append(keys.take(from_numpy(np.arange(0, len(keys), step))))
    return in_order, pa.concat_arrays(sample) if sample else pa.array([], pa.string())


def file_batches(plan: FilePlan, file: CurrentFile, schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """Rows of a base file in file order, with the table's columns.

    Args:
        plan: of the write.
        file: the file.
        schema: the columns.
        most: rows of a batch at most.
    """
    names, shape = list(schema.names), None
    if plan.history is not None:
        stored = plan.history.physical_names(file.instant, names)
        names = list(dict.fromkeys(name for name in stored.values() if name is not None))
        shape = functools.partial(_renamed, plan.history, file.instant, schema)
    for _, rows in base_file_batches(
        plan.storage, file.path, names, schema, shape=shape, batch_rows=most, buffer_bytes=_BUFFER
    ):
        yield rows.combine_chunks()


def _renamed(history: SchemaHistory, instant: str, schema: pa.Schema, rows: pa.Table) -> pa.Table:
    return conform(history.renamed(instant, rows), schema)


def _whole_keys(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Sorted batches cut so that all rows of a key are in one of them."""
    left: pa.Table | None = None
    for batch in batches:
        rows = batch if left is None else pa.concat_tables([left, batch]).combine_chunks()
        keys = one_chunk(rows[RECORD_KEY])
        if not len(keys):
            continue
        last = keys.slice(len(keys) - 1)
        cut = int(pc.index(keys, last[0]).as_py())
        if cut:
            yield rows.slice(0, cut)
        left = rows.slice(cut)
        if len(left) < len(batch):
            # copied, since a slice would keep the batch in memory
            left = left.take(from_numpy(np.arange(len(left))))
    if left is None:
        left = batch
    yield left
