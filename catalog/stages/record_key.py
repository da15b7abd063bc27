"""The stages of record keys: the record index gives the file group of a key, bloom filters rule out files without it.

A key that a complete index lacks has no row. The index describes the newest state, so it is not used for past states,
nor when it names a file group that the snapshot does not have. It has one location a key: where rows were inserted
without a look-up, or by a writer whose index covers one partition only, a key may have another row elsewhere. If the
table has as many rows as the index has keys, no key has two.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from catalog.concurrency.caches import memoize
from catalog.snapshots.footers import read_key_filters
from catalog.snapshots.scan_options import UNIQUE_KEYS
from catalog.snapshots.snapshot import Snapshot
from catalog.stages.named_keys import NamedKeys, named_keys
from catalog.stages.stage import StageInput
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.actions.commit import read_operation_type
from table_format.base_file.bloom import BloomFilter, parse_bloom
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.errors import CorruptFileError, MissingFileError, RecordIndexError
from table_format.meta_columns import RECORD_KEY
from table_format.metadata_table.reader import MetadataTable

_MOST_KEYS = 100_000
_MOST_BLOOM_KEYS = 1_000
_MOST_BLOOM_FILES = 1_000
_BLOOM_FILES_AT_ONCE = 64
# Footers that are read for their bloom filter. Apache's filters have 430 kB by default.
_MOST_FOOTERS = 128

# Counting the keys of an index of this size takes about two seconds, once for each state of a table.
_MOST_COUNTED = 2_000_000

# Operations after which a key still has one row; inserts of all kinds are not among them.
_KEEP_KEYS_UNIQUE = frozenset(
    {
        *("UPSERT", "UPSERT_PREPPED", "DELETE", "DELETE_PREPPED", "DELETE_PARTITION"),
        *("CLUSTER", "COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA"),
    }
)


def prune_by_record_key(stage_input: StageInput) -> Verdict:
    """Keep the file groups in which the record index finds the keys that the filter names.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, or why the index is not there, or cannot help.
    """
    snapshot = stage_input.snapshot
    table = snapshot.metadata_table
    if table is None or "record_index" not in table.partitions:
        return CannotPrune("the table has no record index")
    if not snapshot.is_latest:
        return CannotPrune("the record index locates records in the newest state only")
    keys = named_keys(stage_input, _MOST_KEYS)
    if isinstance(keys, CannotPrune):
        return keys
    if not stage_input.options.unique_keys:
        doubt = memoize(snapshot, "keys may repeat", lambda: _repetition(snapshot, table))
        if doubt is not None:
            return CannotPrune(doubt)
    located = _located(snapshot, table, keys)
    if isinstance(located, CannotPrune):
        return located
    keep = _in_groups(snapshot, stage_input.rows, located)
    key_count = len(one_chunk(located.column("key")).unique())
    return Candidates(keep, f"the record index has {key_count:,} of the keys named by {keys.named_by}")


def _repetition(snapshot: Snapshot, table: MetadataTable) -> str | None:
    """Why a key may have more rows than the index has locations; None if that is ruled out."""
    try:
        rows = _row_count(snapshot)
        keys = None if rows is None else table.count_record_keys(_MOST_COUNTED)
    except (CorruptFileError, MissingFileError, RecordIndexError) as error:
        return f"the record index cannot be read: {error}"
    if rows is not None and keys is not None:
        if rows == keys:
            return None
        return (
            f"the table has {rows:,} rows and the record index {keys:,} keys, so that a key may have several rows; "
            f"{UNIQUE_KEYS}=true says that none has"
        )
    if snapshot.config.partition_fields:
        return f"whether a key has rows in several partitions is not known; {UNIQUE_KEYS}=true says that none has"
    return _repeating_write(snapshot)


def _row_count(snapshot: Snapshot) -> int | None:
    """Rows of the table by the statistics of its record keys; None if not known, as with log files."""
    live = snapshot.live_rows
    column = snapshot.indexed_column(RECORD_KEY, pa.string())
    if isinstance(column, CannotPrune) or not column.present[live].all():
        return None
    counts = column.row_count.take(from_numpy(live))
    return None if counts.null_count else int(pc.sum(counts, min_count=0).as_py())


def _repeating_write(snapshot: Snapshot) -> str | None:
    """The write that may have repeated keys, as far as the active timeline shows; None if there is none."""
    timeline = snapshot.timeline
    for write in timeline.writes[1:]:
        try:
            operation = read_operation_type(timeline.read(write), timeline.path(write))
        except (CorruptFileError, MissingFileError) as error:
            return f"whether keys have one row each is not known: {error}"
        if operation not in _KEEP_KEYS_UNIQUE:
            return (
                f"{operation} at {write.time} may have added a second row of a key, and the record index knows one; "
                f"{UNIQUE_KEYS}=true says that there is none"
            )
    return None


def _located(snapshot: Snapshot, table: MetadataTable, keys: NamedKeys) -> pa.Table | CannotPrune:
    try:
        located = table.record_locations(pa.array(keys.texts, pa.string()))
    except (CorruptFileError, MissingFileError, RecordIndexError) as error:
        return CannotPrune(f"the record index cannot be read: {error}")
    if located is None:
        return CannotPrune("the table has no record index")
    if not _has_all_groups(snapshot, located):
        return CannotPrune("the record index names a file group that is not among the table's")
    return located


def _has_all_groups(snapshot: Snapshot, located: pa.Table) -> bool:
    groups = one_chunk(located.column("file_id")).unique()
    there = pc.is_in(groups, one_chunk(snapshot.slices.listed.column("file_id")))
    return bool(pc.all(there, min_count=0).as_py())


def _in_groups(snapshot: Snapshot, rows: NDArray[np.int64], located: pa.Table) -> NDArray[np.bool_]:
    """For each file, whether its group is among those located; only ids are compared for all of them."""
    at = from_numpy(rows)
    file_ids = one_chunk(snapshot.slices.listed.column("file_id")).take(at)
    keep: NDArray[np.bool_] = to_numpy(pc.is_in(file_ids, one_chunk(located.column("file_id")))).astype(np.bool_)
    # File ids are nearly unique in a table; for the few files left the partition is compared too.
    groups = {*zip(located.column("partition").to_pylist(), located.column("file_id").to_pylist(), strict=True)}
    for position in np.flatnonzero(keep):
        partition = snapshot.partitions[snapshot.partition_index[rows[position]]]
        keep[position] = (partition, file_ids[int(position)].as_py()) in groups
    return keep


def prune_by_bloom_filter(stage_input: StageInput) -> Verdict:
    """Keep the files whose bloom filter may have one of the keys that the filter names.

    Bloom filters stand in the metadata table, where it has that index, and in the files' own footers.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, or why filters are not there, or cannot help.
    """
    keys = named_keys(stage_input, _MOST_BLOOM_KEYS)
    if isinstance(keys, CannotPrune):
        return keys
    texts = pa.array(keys.texts, pa.string())
    rows = stage_input.rows
    positions = np.flatnonzero(~stage_input.snapshot.has_logs[rows])
    indexed, reason = _by_index(stage_input, positions, texts)
    footers, why_no_footers = _by_footers(stage_input, positions, indexed, texts)
    may_hold = {**indexed, **footers}
    if not may_hold:
        return CannotPrune("; ".join(filter(None, (reason, why_no_footers))))
    keep = np.ones(len(rows), np.bool_)
    keep[list(may_hold)] = list(may_hold.values())
    place = f" ({len(footers):,} in footers)" if footers else ""
    reason = f"bloom filters of {len(may_hold):,} files{place} were checked for keys named by {keys.named_by}"
    return Candidates(keep, reason)


def _by_index(
    stage_input: StageInput, positions: NDArray[np.int64], texts: pa.Array[Any]
) -> tuple[dict[int, bool], str]:
    """Whether files may hold one of some keys, by the metadata table's filters; and why it tells of none."""
    snapshot = stage_input.snapshot
    table = snapshot.metadata_table
    if table is None or "bloom_filters" not in table.partitions:
        return {}, "the metadata table has no bloom filters"
    if len(positions) > _MOST_BLOOM_FILES:
        return {}, f"bloom filters of {len(positions):,} files are too much to read"
    may_hold: dict[int, bool] = {}
    try:
        for start in range(0, len(positions), _BLOOM_FILES_AT_ONCE):
            some = positions[start : start + _BLOOM_FILES_AT_ONCE]
            known = _known_filters(snapshot, table, stage_input.rows[some])
            may_hold.update({int(some[at]): bool(bloom.may_contain(texts).any()) for at, bloom in known})
    except (CorruptFileError, MissingFileError) as error:
        return {}, f"bloom filters cannot be read: {error}"
    return may_hold, "no file that is left has a bloom filter that could help"


def _known_filters(
    snapshot: Snapshot, table: MetadataTable, rows: NDArray[np.int64]
) -> Iterator[tuple[int, BloomFilter]]:
    """The filters that the metadata table has of some files, each with the place of its file among them."""
    files = snapshot.take_files(rows).select(["partition", "file_name"])
    filters = table.bloom_filters(files)
    if filters is None:
        return
    at = {pair: i for i, pair in enumerate(zip(*(files.column(i).to_pylist() for i in range(2)), strict=True))}
    names = [filters.column(name).to_pylist() for name in ("partition", "file_name", "type", "bloom")]
    for partition, name, kind, text in zip(*names, strict=True):
        with contextlib.suppress(CorruptFileError):  # of an unknown type: the file is kept
            yield at[partition, name], parse_bloom(text, kind, f"the bloom filter of {partition}/{name}")


def _by_footers(
    stage_input: StageInput, positions: NDArray[np.int64], indexed: Mapping[int, bool], texts: pa.Array[Any]
) -> tuple[dict[int, bool], str]:
    """The same by footers, of the files that the metadata table does not tell of.

    The footer of the only file left is not read, since whoever opens the file reads it anyway; nor are those of many.
    """
    rows, options = stage_input.rows, stage_input.options
    if len(rows) - list(indexed.values()).count(False) <= 1:
        return {}, ""
    unknown = {int(rows[position]): int(position) for position in positions if int(position) not in indexed}
    if len(unknown) > min(_MOST_FOOTERS, options.footer_limit):
        return {}, f"footers of {len(unknown):,} files are not read for theirs"
    filters = read_key_filters(stage_input.snapshot, unknown, options.threads)
    may_hold = {unknown[row]: bool(bloom.may_contain(texts).any()) for row, bloom in filters.items()}
    return may_hold, "footers of the files that are left have none"
