"""Reading a merge-on-read file slice: a base file and the log files over it, as one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from table_format.base_file.reader import footer, read_base_file
from table_format.codecs.arrow_numpy import Mask, from_numpy, to_numpy, valid_mask
from table_format.codecs.byte_spans import Positions
from table_format.errors import CorruptFileError
from table_format.log.format import LogBlock
from table_format.log.reader import read_log_blocks
from table_format.log.scan import surviving_blocks
from table_format.merge.log_rows import OPERATION, BlockReader, LogRows, has_operations, merge_columns, record_keys
from table_format.merge.ordering import ranks
from table_format.merge.rules import MergeRules
from table_format.merge.versions import Versions, choose_logs, choose_with_base
from table_format.meta_columns import RECORD_KEY
from table_format.schema.evolution import conform
from table_format.slices.file_names import BaseFileName
from table_format.slices.log_cuts import is_cut, seems_cut
from table_format.storage import Storage
from table_format.table.schema_history import SchemaHistory
from table_format.timeline.timeline import Timeline

pc: Any = compute  # the stubs lag behind the functions
arrow: Any = pa
_UNMERGED_LAYOUT = 1


def read_file_slice(
    storage: Storage,
    base_path: str | None,
    log_paths: Sequence[str],
    *,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    rules: MergeRules,
    timeline: Timeline,
    as_of: str | None = None,
    history: SchemaHistory | None = None,
    log_sizes: Sequence[int | None] | None = None,
) -> pa.Table:
    """The rows of a file slice as a query sees them (Hudi format, merging).

    Base rows keep their order, records that only logs have follow them.

    Args:
        storage: rooted at the table's base folder.
        base_path: the base file, or None for a slice of logs only.
        log_paths: log files in merge order.
        schema: the table's columns, meta columns included where its files have them.
        columns: names wanted, in this order; None for all.
        rules: how versions of a record are merged.
        timeline: the table's; tells which blocks count.
        as_of: instant of the query, or None for the newest.
        history: the table's renamed columns, if any.
        log_sizes: bytes that each log file has according to a listing; a log file may have grown since.

    Raises:
        CorruptFileError: a file breaks the format or is cut off, or a completed instant lost its log block.
        MissingFileError: a file is not there.
        UnsupportedTableError: blocks or merge rules that are not known.
    """
    wanted = schema.names if columns is None else list(columns)
    result = pa.schema([schema.field(name) for name in wanted])
    blocks = _read_logs(storage, log_paths, log_sizes, timeline)

    def counts(instant: str) -> bool:
        # from layout 2 on whole files of other instants were left out
        done = timeline.layout != _UNMERGED_LAYOUT or timeline.is_committed(instant)
        return done and (as_of is None or instant <= as_of)

    blocks = surviving_blocks(blocks, counts)
    if has_operations(blocks) and OPERATION not in schema.names:
        schema = schema.append(pa.field(OPERATION, pa.string()))
    needed = _needed(schema, wanted, rules)
    logs = BlockReader(needed, rules, history).read(blocks)
    base = _read_base(storage, base_path, needed, history)
    return conform(_merged(logs, base, rules, base_path or "").select(wanted), result)


def _read_logs(
    storage: Storage, paths: Sequence[str], sizes: Sequence[int | None] | None, timeline: Timeline
) -> list[LogBlock]:
    blocks: list[LogBlock] = []
    for path, size in zip(paths, [None] * len(paths) if sizes is None else sizes, strict=True):
        data = storage.read(path)
        found = read_log_blocks(data, path)
        lost = len(data) < (size or 0)
        if not lost and seems_cut(found):
            lost = is_cut(path, len(data), timeline)
        if lost:
            raise CorruptFileError(path, len(data), "the log file is cut off, and blocks of it are lost; restore it")
        blocks += found
    return blocks


def _needed(schema: pa.Schema, wanted: Sequence[str], rules: MergeRules) -> pa.Schema:
    key = [RECORD_KEY] if rules.keys is None else list(rules.keys.spec.record_key_fields)
    names = {*wanted, *key, *merge_columns(schema, rules)}
    return pa.schema([field.with_nullable(nullable=True) for field in schema if field.name in names])


def _read_base(storage: Storage, path: str | None, schema: pa.Schema, history: SchemaHistory | None) -> pa.Table:
    if path is None:
        return schema.empty_table()
    if history is None:
        return read_base_file(storage, path, columns=schema.names, schema=schema)
    name = BaseFileName.parse(path.rpartition("/")[2])
    if name is None:
        raise CorruptFileError(path, 0, "not the name of a base file")
    stored = {name for name in history.physical_names(name.instant, schema.names).values() if name is not None}
    present = [name for name in footer(storage, path).schema.names if name in stored]
    return conform(history.renamed(name.instant, read_base_file(storage, path, columns=present)), schema)


def _merged(logs: LogRows, base: pa.Table, rules: MergeRules, path: str) -> pa.Table:
    if not len(logs.table):
        return base
    distinct = logs.keys.unique()
    log_keys = to_numpy(pc.index_in(logs.keys, value_set=distinct)).astype(np.int64)
    base_rows, base_keys = _matches(record_keys(base, rules.keys, path), distinct)
    whole = pa.concat_tables([logs.table, base]).combine_chunks()
    total, first = len(whole), len(logs.table)
    matched = base_rows + first
    versions = _versions(logs, whole, matched, rules)
    chosen = choose_logs(log_keys, len(distinct), versions, rules)
    choose_with_base(chosen, base_keys, matched, versions, rules)

    # where each base row and each key of logs alone comes from, in the order of the result
    gone = versions.deleted[chosen.head]
    keep = np.ones(len(base), dtype=np.bool_)
    keep[base_rows] = ~gone[base_keys]
    alone = ~gone
    alone[base_keys] = False
    new_keys = np.flatnonzero(alone)

    def taken(source: Positions) -> Any:
        rows = np.arange(first, total, dtype=np.int64)
        rows[base_rows] = source[base_keys]
        return from_numpy(np.concatenate([rows[keep], source[new_keys]]))

    heads = taken(chosen.head)
    own = {name: taken(source) for name, source in chosen.sources.items()}
    arrays = [whole.column(name).take(own.get(name, heads)) for name in whole.column_names]
    return pa.Table.from_arrays(arrays, schema=whole.schema)


def _matches(keys: Any, distinct: Any) -> tuple[Positions, Positions]:
    """Base rows that logs change, and the numbers of their keys; of several rows of one key the first counts."""
    found = pc.index_in(keys, value_set=distinct)
    rows = np.flatnonzero(valid_mask(found)).astype(np.int64)
    numbers = to_numpy(found).astype(np.int64)[rows]
    _, places = np.unique(numbers, return_index=True)
    places = np.sort(places)
    return rows[places], numbers[places]


def _versions(logs: LogRows, whole: pa.Table, matched: Positions, rules: MergeRules) -> Versions:
    total, first = len(whole), len(logs.table)
    order = np.zeros(total, dtype=np.int64)
    if rules.by_ordering:
        compared = np.concatenate([np.arange(first, dtype=np.int64), matched])
        taken = [whole.column(name).take(from_numpy(compared)) for name in rules.ordering_fields]
        order[compared] = ranks(taken, len(compared))

    def extended(mask: Mask) -> Mask:
        return np.concatenate([mask, np.zeros(total - first, dtype=np.bool_)])

    present = {name: ~extended(~mask) for name, mask in logs.held.items()}
    for name in whole.column_names:
        kept = _own_values(whole.column(name), rules)
        if kept is not None:
            present[name] = kept & present.get(name, True)
    return Versions(order, extended(logs.deleted), extended(logs.natural), extended(logs.by_block), present)


def _own_values(column: Any, rules: MergeRules) -> Mask | None:
    """Where a row has a value that counts, under rules by which some values leave the older one as it is."""
    array = column.combine_chunks()
    if rules.nulls_keep:
        return valid_mask(array)
    if rules.unavailable is not None and array.type in (pa.string(), pa.binary()):
        marker = pa.scalar(rules.unavailable, pa.string()).cast(array.type)
        same = pc.fill_null(pc.equal(array, marker), fill_value=False)
        return ~to_numpy(same).astype(np.bool_)
    return None
