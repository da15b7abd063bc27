"""Compaction of the record index: base file and log blocks of a file group become one base file without tombstones."""

from __future__ import annotations

import functools
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.commit import WriteStat
from table_format.codecs.arrow_numpy import from_numpy, one_chunk, to_numpy
from table_format.codecs.avro_schema_tree import Node, parse
from table_format.errors import CorruptFileError
from table_format.keys.key_order import sorted_order
from table_format.metadata_table import layout as names
from table_format.metadata_table.record_index_entries import decode_values
from table_format.metadata_table.records import SourceRecords, newest_versions
from table_format.metadata_table.slices import MetadataSlice, ValidInstants
from table_format.metadata_table.sources import PartitionSources, Source
from table_format.storage import Storage
from table_format.threads import in_threads
from table_writer.encoding.metadata_records import SCHEMA
from table_writer.encoding.record_index_entries import encode_places
from table_writer.execution.executor import Mapper
from table_writer.metadata import instants
from table_writer.metadata.index_options import IndexFileOptions, IndexOptions
from table_writer.timeline.markers import scratch_folder

_LOG = logging.getLogger(__name__)

_NODE = parse(SCHEMA)

_FEW_BYTES = 64 * 1024 * 1024

"""Smaller indexes are compacted in threads, which start faster than tasks."""

_LARGE = 100_000

_FULL = 2_000_000

"""Entries of a file group from which on a warning asks for more file groups."""

_LOG_SHARE = 8

_MOST_LOGS = 30

"""A file group of at least 100,000 entries is compacted once its logs have an eighth as many, or are 30 files: readers
read logs whole, but rewriting a large base file for a few new keys costs more."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One file group to be compacted.

    Attributes:
        target: path of the base file; None to write it into the compaction's scratch folder.
        stale: see `compact_record_index`.
    """

    storage: Storage
    group: names.FileGroup
    time: str
    valid: ValidInstants
    options: IndexFileOptions
    target: str | None
    stale: str


@dataclass(frozen=True, slots=True)
class _Compacted:
    """A new base file, and how many log blocks it merged; without path where no entries were left."""

    path: str
    size: int
    count: int
    blocks: int


def compact_record_index(
    storage: Storage,
    time: str,
    valid: ValidInstants,
    options: Mapping[str, str],
    mapper: Mapper = in_threads,
    *,
    stale: str = "",
    emptied: set[str] | None = None,
) -> list[WriteStat]:
    """Compact the file groups whose logs are large enough. Callers hold the table's lock and have begun the compaction.

    Args:
        storage: of the data table.
        time: the compaction's instant in the metadata table.
        valid: which blocks count.
        options: of the base files; see `IndexFileOptions`.
        mapper: runs the compaction of large indexes, one file group a task.
        stale: file groups with log blocks of instants before this one are compacted in any case: such blocks keep
            the instants since then from being archived.
        emptied: takes the ids of file groups that were merged and have no entries left; they get no base file.

    Returns:
        The write stats of the new base files.
    """
    groups = names.list_file_groups(storage, names.RECORD_INDEX)
    local = mapper is in_threads or sum(_bytes(group) for group in groups) < _FEW_BYTES
    file_options = IndexOptions.parse(options).files
    targets = [names.base_file_path(names.RECORD_INDEX, group.file_id, time) for group in groups]
    for target in targets:
        instants.mark(storage, time, names.RECORD_INDEX, target.rsplit("/", 1)[-1], "CREATE")
    tasks = [
        _Task(storage, group, time, valid, file_options, target if local else None, stale)
        for group, target in zip(groups, targets, strict=True)
    ]
    made = (in_threads if local else mapper)(_compact_group, tasks)
    stats = []
    for group, target, compacted in zip(groups, targets, made, strict=True):
        if compacted is None:
            continue
        if not compacted.path:
            if emptied is not None:
                emptied.add(group.file_id)
            continue
        if compacted.path != target:
            storage.move(compacted.path, target)
        base = valid.latest_base_file(group)
        previous = base.instant if base else None
        stat = instants.base_file_stat(names.RECORD_INDEX, target, compacted.size, compacted.count, previous=previous)
        stat.total_log_blocks = compacted.blocks
        stats.append(stat)
    storage.delete_dir(scratch_folder(time))
    fullest = max((stat.num_writes for stat in stats), default=0)
    if fullest >= _FULL:
        _LOG.warning(
            "%s: a file group of the record index has %d entries, about a million is best: spread the index over more "
            "than its %d file groups by `hudi-catalog index resize`",
            storage.uri,
            fullest,
            len(groups),
        )
    return stats


def _bytes(group: names.FileGroup) -> int:
    return max((base.size for base in group.base_files), default=0) + sum(log.size for log in group.log_files)


def _compact_group(task: _Task) -> _Compacted | None:
    """Write the base file of a file group, if its logs are large enough and it has entries."""
    opened = PartitionSources(task.storage, names.RECORD_INDEX, task.valid, before=task.time, groups=(task.group,))
    [file_slice] = opened.slices
    [sources] = opened.open([0]).shards
    if not is_due(file_slice, sources, task.stale):
        return None
    keys, values = merged_entries(opened.everything()[0])
    if not len(keys):
        return _Compacted("", 0, 0, len(file_slice.blocks))  # Hudi's readers fail on an empty base file
    data = task.options.base_file(keys, values)
    path = task.target or f"{scratch_folder(task.time)}/{task.group.file_id}-{uuid.uuid4().hex}"
    task.storage.create(path, data)
    return _Compacted(path, len(data), len(keys), len(file_slice.blocks))


def is_due(file_slice: MetadataSlice, sources: Sequence[Source], stale: str, large: int | None = None) -> bool:
    """Whether a file group is to be compacted now: its logs are large enough, or have a block that must not stay.

    Args:
        file_slice: the newest one.
        sources: of it.
        stale: see `compact_record_index`.
        large: entries from which on the file group is large; None for those of the record index.
    """
    times = [block.instant for block in file_slice.blocks if block.instant is not None]
    old = any(time < stale and not names.builds_partition(time) for time in times)
    return old or _pays(sources, _LARGE if large is None else large, has_base=file_slice.base is not None)


def _pays(sources: Sequence[Source], large: int, *, has_base: bool) -> bool:
    logs = [len(source.deleted_keys) if source.reader is None else source.reader.entry_count for source in sources]
    in_base = logs.pop(0) if has_base else 0
    files = sum(1 for count in logs if count)
    if in_base < large:
        return files > 0
    return sum(logs) * _LOG_SHARE >= in_base or files >= _MOST_LOGS


def merged_entries(pieces: Sequence[SourceRecords]) -> tuple[Any, pa.BinaryArray]:
    """The keys of a file group after merging, sorted and distinct, and their values in this project's schema.

    Args:
        pieces: of the file group, in the order in which they apply.
    """
    keys: Any = pa.array([], pa.binary())
    values: Any = keys
    if not pieces:
        return keys, values
    first, later = (pieces[0], pieces[1:]) if pieces[0].schema is not None else (None, pieces)
    newer: Any = pa.chunked_array([piece.keys() for piece in later], pa.binary())
    if first is not None:
        base = first.entries
        if later:
            again = to_numpy(pc.is_in(base.keys(), value_set=pc.unique(newer))).astype(np.bool_)
            base = base.take(~again)
        keys, values = base.keys(), _values(first, base.values())
    if not later:
        return keys, values
    gone = np.concatenate([np.full(len(piece.keys()), piece.schema is None) for piece in later])
    rows = from_numpy(newest_versions(newer, gone).newest())
    stored = [
        _values(piece, piece.entries.values()) if piece.schema is not None else pa.nulls(len(piece.keys()), pa.binary())
        for piece in later
    ]
    keys = pa.concat_arrays([keys, one_chunk(newer).take(rows)])
    values = pa.concat_arrays([values, one_chunk(pa.chunked_array(stored, pa.binary())).take(rows)])
    order = from_numpy(sorted_order(keys))
    return keys.take(order), values.take(order)


def _values(piece: SourceRecords, values: Any) -> Any:
    """Values in this project's schema; each distinct one is encoded again where its own schema has another shape."""
    if _is_ours(piece.schema) or not len(values):
        return values
    encoded = values.dictionary_encode()
    if piece.schema is None:
        raise CorruptFileError(piece.name, 0, "entries of the record index without a schema; rebuild the index")
    places = decode_values(encoded.dictionary, piece.schema, piece.name)
    columns: list[Any] = [places[name].to_pylist() for name in ("partition", "file_id", "instant_ms")]
    return encode_places(*columns).take(encoded.indices)


@functools.lru_cache(maxsize=16)
def _is_ours(schema: Node | None) -> bool:
    return schema is not None and _same(schema, _NODE)


def _same(one: Node, other: Node) -> bool:
    """Whether records of two schemas, neither of which is recursive, have the same bytes."""
    if (one.kind, one.size, len(one.branches)) != (other.kind, other.size, len(other.branches)):
        return False
    if [name for name, _ in one.fields] != [name for name, _ in other.fields]:
        return False
    if (one.item is None) != (other.item is None):
        return False
    inner = [(child, partner) for (_, child), (_, partner) in zip(one.fields, other.fields, strict=True)]
    inner += zip(one.branches, other.branches, strict=True)
    if one.item is not None and other.item is not None:
        inner.append((one.item, other.item))
    return all(_same(child, partner) for child, partner in inner)
