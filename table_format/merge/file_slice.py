"""Reading a merge-on-read file slice: merges a base file and its log files into one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from table_format.codecs.arrow_numpy import Mask, Positions, from_numpy, one_chunk, to_numpy, valid_mask
from table_format.errors import CorruptFileError, UnsupportedTableError
from table_format.keys.key_text import raw_column
from table_format.log.blocks import LogBlock, read_log_blocks, surviving_blocks
from table_format.log.positions import record_positions
from table_format.merge.log_rows import OPERATION, BlockReader, LogRows, has_operations, merge_columns, record_keys
from table_format.merge.rules import MergeRules
from table_format.meta_columns import RECORD_KEY
from table_format.slices.file_names import BaseFileName
from table_format.slices.log_slices import is_cut, seems_cut
from table_format.storage import Storage
from table_format.table.schema_history import SchemaHistory, read_columns
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline

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
    """Read the merged rows of a file slice (Hudi format, merging).

    Base rows keep their order; records that are only in logs follow.

    Args:
        storage: rooted at the table's base folder.
        base_path: the base file, or None for a slice of logs only.
        log_paths: log files in merge order.
        schema: the table's columns, meta columns included if its files have them.
        columns: names to read, in this order; None for all.
        rules: the table's merge rules.
        timeline: the table's; decides which blocks apply.
        as_of: instant of the query, or None for the newest.
        history: the table's schema history, if any.
        log_sizes: size of each log file by a listing; a log file may have grown since.

    Raises:
        CorruptFileError: a file is malformed or cut off, or a completed instant's log block is lost.
        MissingFileError: a file does not exist.
        UnsupportedTableError: unknown blocks or merge rules.
    """
    wanted = schema.names if columns is None else list(columns)
    result = pa.schema([schema.field(name) for name in wanted])
    blocks = _read_logs(storage, log_paths, log_sizes, timeline)

    def counts(instant: str) -> bool:
        # from layout 2 on, files of other instants were left out before
        done = timeline.layout != _UNMERGED_LAYOUT or timeline.is_committed(instant)
        return done and (as_of is None or instant <= as_of)

    blocks = surviving_blocks(blocks, counts)
    if has_operations(blocks) and OPERATION not in schema.names:
        schema = schema.append(pa.field(OPERATION, pa.string()))
    needed = _needed(schema, wanted, rules)
    logs = BlockReader(needed, rules, history).read(blocks)
    base = needed.empty_table() if base_path is None else read_columns(storage, base_path, needed, history)
    merged = _merged(logs, base, rules, base_path or "", blocks)
    # nulls of required columns were refused in each file that has the column; where a file lacks it, its rows are null
    return pa.Table.from_arrays([merged.column(name) for name in wanted], schema=result)


def _read_logs(
    storage: Storage, paths: Sequence[str], sizes: Sequence[int | None] | None, timeline: Timeline
) -> list[LogBlock]:
    blocks: list[LogBlock] = []
    # the blocks are held together in any case, so that fetching side by side takes no more memory
    contents = map(storage.read, paths) if storage.is_local else in_threads(storage.read, paths)
    for path, data, size in zip(paths, contents, [None] * len(paths) if sizes is None else sizes, strict=True):
        blocks_of_file = read_log_blocks(data, path)
        lost = len(data) < (size or 0)
        if not lost and seems_cut(blocks_of_file):
            lost = is_cut(path, len(data), timeline)
        if lost:
            raise CorruptFileError(path, len(data), "the log file is cut off, and blocks of it are lost; restore it")
        blocks += blocks_of_file
    return blocks


def _needed(schema: pa.Schema, wanted: Sequence[str], rules: MergeRules) -> pa.Schema:
    key = (RECORD_KEY,) if rules.keys is None else rules.keys.spec.key_columns
    names = {*wanted, *key, *merge_columns(schema, rules)}
    return pa.schema([field for field in schema if field.name in names])


def _merged(logs: LogRows, base: pa.Table, rules: MergeRules, path: str, blocks: Sequence[LogBlock]) -> pa.Table:
    if not len(logs.table):
        return base
    matches = _matches(logs, record_keys(base, rules.keys, path), path, blocks)
    base_rows, base_records = matches.base_rows, matches.base_records
    whole = pa.concat_tables([logs.table, base]).combine_chunks()
    total, first = len(whole), len(logs.table)
    matched = base_rows + first
    versions = _versions(logs, whole, matched, rules)
    chosen = choose_logs(matches.records, matches.count, versions, rules)
    choose_with_base(chosen, base_records, matched, versions, rules)

    # source row of each base row, and of each record that is only in logs, in the order of the result
    gone = versions.deleted[chosen.head]
    keep = np.ones(len(base), dtype=np.bool_)
    keep[base_rows] = ~gone[base_records]
    alone = ~gone
    alone[base_records] = False
    new_records = np.flatnonzero(alone)

    def taken(source: Positions) -> Any:
        rows = np.arange(first, total, dtype=np.int64)
        rows[base_rows] = source[base_records]
        return from_numpy(np.concatenate([rows[keep], source[new_records]]))

    heads = taken(chosen.head)
    own = {name: taken(source) for name, source in chosen.sources.items()}
    arrays = [whole.column(name).take(own.get(name, heads)) for name in whole.column_names]
    return pa.Table.from_arrays(arrays, schema=whole.schema)


@dataclass(frozen=True, slots=True)
class _Matches:
    """Which log rows are versions of one record, and which base rows are older versions of these records.

    Attributes:
        records: number of the record of each log row.
        count: number of records.
        base_rows: rows of the base file that logs change.
        base_records: their records, each at most once.
    """

    records: Positions
    count: int
    base_rows: Positions
    base_records: Positions


def _matches(logs: LogRows, base_keys: Any, path: str, blocks: Sequence[LogBlock]) -> _Matches:
    """Match log rows with base rows by key.

    A base file may have several rows of one key, since inserts of Hudi 1.x let duplicates in. If the log blocks have
    the positions of their rows, they are matched by these, as Hudi's readers and compactions do by default, so that
    an update or delete concerns all rows that its writer found. Else the first row of a key counts.
    """
    distinct = logs.keys.unique()
    places = pc.index_in(base_keys, value_set=distinct)
    rows = np.flatnonzero(valid_mask(places)).astype(np.int64)
    numbers = to_numpy(places).astype(np.int64)[rows]
    _, firsts = np.unique(numbers, return_index=True)
    if len(firsts) < len(numbers):
        by_position = _matches_by_position(logs, base_keys, path, blocks)
        if by_position is not None:
            return by_position
    firsts = np.sort(firsts)
    records = to_numpy(pc.index_in(logs.keys, value_set=distinct)).astype(np.int64)
    return _Matches(records, len(distinct), rows[firsts], numbers[firsts])


def _matches_by_position(logs: LogRows, base_keys: Any, path: str, blocks: Sequence[LogBlock]) -> _Matches | None:
    name = BaseFileName.parse(path.rpartition("/")[2])
    positions = None if name is None else record_positions(blocks, logs.counts, name.instant)
    if positions is None:
        return None
    base_rows, records = np.unique(positions, return_inverse=True)
    if base_rows[-1] >= len(base_keys) or base_keys.take(from_numpy(positions)) != logs.keys:
        reason = f"log records have positions of rows with other keys, as in {blocks[0].path}; restore these files"
        raise CorruptFileError(path, 0, reason)
    return _Matches(records.astype(np.int64), len(base_rows), base_rows, np.arange(len(base_rows), dtype=np.int64))


def _versions(logs: LogRows, whole: pa.Table, matched: Positions, rules: MergeRules) -> Versions:
    total, first = len(whole), len(logs.table)
    order = np.zeros(total, dtype=np.int64)
    if rules.by_ordering:
        compared = np.concatenate([np.arange(first, dtype=np.int64), matched])
        taken = [raw_column(whole, name).take(from_numpy(compared)) for name in rules.ordering_fields]
        order[compared] = ranks(taken, len(compared))

    def extended(mask: Mask) -> Mask:
        return np.concatenate([mask, np.zeros(total - first, dtype=np.bool_)])

    present = {name: ~extended(~mask) for name, mask in logs.held.items()}
    for name in whole.column_names:
        values = _own_values(whole.column(name), rules)
        if values is not None:
            present[name] = values & present.get(name, True)
    return Versions(order, extended(logs.deleted), extended(logs.natural), extended(logs.by_block), present)


def _own_values(column: Any, rules: MergeRules) -> Mask | None:
    """Mask of values that replace the older one, under rules by which some values keep it."""
    array = one_chunk(column)
    if rules.nulls_keep:
        return valid_mask(array)
    if rules.unavailable is not None and array.type in (pa.string(), pa.binary()):
        marker = pa.scalar(rules.unavailable, pa.string()).cast(array.type)
        same = pc.fill_null(pc.equal(array, marker), fill_value=False)
        return ~to_numpy(same).astype(np.bool_)
    return None


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of records, one per row: those of the logs in merge order, then the base file's.

    Attributes:
        ranks: rank by ordering value.
        deleted: the version deletes its key.
        natural: it does so regardless of ordering values.
        by_block: it is from a delete block rather than a record that is marked as deleted.
        present: for columns that a version may keep as they were: mask of its own values.
    """

    ranks: Positions
    deleted: Mask
    natural: Mask
    by_block: Mask
    present: Mapping[str, Mask]


@dataclass(slots=True)
class Chosen:
    """Winning versions by key.

    Attributes:
        head: row of the winning version; -1 if there is none yet.
        sources: by column, source rows of columns that may be from another version than the winning one.
    """

    head: Positions
    sources: dict[str, Positions]


def choose_logs(keys: Positions, count: int, versions: Versions, rules: MergeRules) -> Chosen:
    """Merge the log records of each key.

    Args:
        keys: index of the key of each log row, in merge order.
        count: number of keys.
        versions: log rows first.
        rules: the table's merge rules.
    """
    chosen = Chosen(np.full(count, -1, np.int64), {name: np.full(count, -1, np.int64) for name in versions.present})
    order = np.argsort(keys, kind="stable")
    first = np.searchsorted(keys[order], np.arange(count))
    rounds = np.arange(len(keys)) - first[keys[order]]
    by_round = np.argsort(rounds, kind="stable")
    ends = np.cumsum(np.bincount(rounds)) if len(keys) else np.empty(0, np.int64)
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False):
        rows = order[by_round[start:end]]
        _apply(chosen, keys[rows], rows, versions, rules)
    return chosen


def _apply(chosen: Chosen, keys: Positions, rows: Positions, versions: Versions, rules: MergeRules) -> None:
    held = chosen.head[keys]
    if held.size and held[0] < 0:  # first round: every key gets its first version
        chosen.head[keys] = rows
        for source in chosen.sources.values():
            source[keys] = rows
        return
    wins = np.ones(len(rows), dtype=np.bool_)
    if rules.logs_by_ordering:
        wins = (versions.ranks[rows] >= versions.ranks[held]) | versions.natural[rows]
        wins |= versions.natural[held]
        if rules.deletes_forget:
            wins |= versions.by_block[held]
        else:
            # a natural delete stays natural if a delete with an ordering value follows
            wins &= ~(versions.natural[held] & versions.by_block[rows])
    _merge(chosen, keys, rows, wins, versions)


def choose_with_base(chosen: Chosen, keys: Positions, rows: Positions, versions: Versions, rules: MergeRules) -> None:
    """Merge the logs' result over the base file's rows, in place.

    Args:
        chosen: result of `choose_logs`.
        keys: keys that are in the base file.
        rows: their rows among the versions.
        versions: versions of logs and base file.
        rules: the table's merge rules.
    """
    held = chosen.head[keys]
    stays = np.zeros(len(rows), dtype=np.bool_)
    if rules.base_by_ordering:
        stays = (versions.ranks[rows] > versions.ranks[held]) & ~versions.natural[held]
        if rules.deletes_forget:
            stays &= ~versions.by_block[held]
    _merge(chosen, keys, rows, stays, versions)


def _merge(chosen: Chosen, keys: Positions, rows: Positions, wins: Mask, versions: Versions) -> None:
    """Replace the chosen rows where the new ones win, and fill the winner's missing columns from the loser."""
    held = chosen.head[keys]
    chosen.head[keys] = np.where(wins, rows, held)
    whole = versions.deleted[rows] | versions.deleted[held]
    for name, source in chosen.sources.items():
        present = versions.present[name]
        before = source[keys]
        high, low = np.where(wins, rows, before), np.where(wins, before, rows)
        source[keys] = np.where(present[high] | whole, high, low)


types = pa.types


def ranks(columns: Sequence[Any], count: int) -> Positions:
    """Rank of each row, by the first column, then by the next ones.

    Values compare as in Java: a null counts as 0, which of dates is 1970-01-01, where the type is of numbers or
    dates, and is first where Hudi fails to compare its 0; NaN is the greatest, and -0.0 is less than 0.0. Text
    compares by its UTF-8 bytes.

    Args:
        columns: arrays of equal length.
        count: the length.

    Raises:
        UnsupportedTableError: a column's type has no order.
    """
    result = np.zeros(count, dtype=np.int64)
    for column in columns:
        single = _dense(column)
        result = result * (int(single.max(initial=0)) + 1) + single
        result = np.unique(result, return_inverse=True)[1].astype(np.int64)
    return result


def _dense(column: Any) -> Positions:
    array = one_chunk(column)
    kind = array.type
    if types.is_date32(kind):
        return _numbers(array.view(pa.int32()))
    if types.is_floating(kind) or types.is_integer(kind):
        return _numbers(array)
    if types.is_nested(kind) or types.is_null(kind):
        raise UnsupportedTableError(f"records cannot be ordered by a column of type {kind}")
    ranked: Any = pc.rank(array, sort_keys="ascending", tiebreaker="dense")  # ranks from 1 on, nulls last
    numbers: Positions = np.where(valid_mask(array), to_numpy(ranked).astype(np.int64), 0)
    return numbers


def _numbers(array: Any) -> Positions:
    values: NDArray[Any] = np.where(valid_mask(array), to_numpy(array), 0)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        wide[np.isnan(wide)] = np.nan  # one NaN, above infinity
        bits = wide.view(np.int64)
        values = np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)
    ranked: Positions = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return ranked
