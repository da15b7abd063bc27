"""The bloom filter stage: drops files whose bloom filter rules out all record keys that the filter names.

The bloom filters are those of the metadata table. They are large, by default 430 kB for each file, so this stage comes
last and reads few of them. A file without a bloom filter is kept, and so is one with log files, which have none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catalog.snapshots.snapshot import Snapshot
from catalog.stages.named_keys import named_keys
from catalog.stages.stage import StageInput
from pushdown.verdict import Candidates, CannotPrune, Verdict
from table_format.base_file.bloom import parse_bloom
from table_format.errors import CorruptFileError, MissingFileError
from table_format.metadata_table.reader import MetadataTable

_MOST_KEYS = 1_000
_MOST_FILES = 1_000
_FILES_AT_ONCE = 64


def prune_by_bloom_filter(stage_input: StageInput) -> Verdict:
    """Keep the files whose bloom filter may have one of the keys that the filter names.

    Args:
        stage_input: the snapshot, the bound filter, the files left by earlier stages, and the options.

    Returns:
        The files kept, or why filters are not there, or cannot help.
    """
    snapshot = stage_input.snapshot
    table = snapshot.metadata_table
    if table is None or "bloom_filters" not in table.partitions:
        return CannotPrune("the metadata table has no bloom filters")
    keys = named_keys(stage_input, _MOST_KEYS)
    if isinstance(keys, CannotPrune):
        return keys
    without_logs = np.flatnonzero(~snapshot.has_logs[stage_input.rows])
    if len(without_logs) > _MOST_FILES:
        return CannotPrune(f"bloom filters of {len(without_logs):,} files are too much to read")
    texts = pa.array(keys.texts, pa.string())
    keep = np.ones(len(stage_input.rows), np.bool_)
    filter_count = 0
    try:
        for start in range(0, len(without_logs), _FILES_AT_ONCE):
            some = without_logs[start : start + _FILES_AT_ONCE]
            ruled_out, have = _ruled_out(snapshot, table, stage_input.rows[some], texts)
            keep[some] = ~ruled_out
            filter_count += have
    except (CorruptFileError, MissingFileError) as error:
        return CannotPrune(f"bloom filters cannot be read: {error}")
    if not filter_count:
        return CannotPrune("no file that is left has a bloom filter that could help")
    return Candidates(keep, f"bloom filters of {filter_count:,} files were asked for the keys named by {keys.named_by}")


def _ruled_out(
    snapshot: Snapshot, table: MetadataTable, rows: NDArray[np.int64], texts: pa.Array[Any]
) -> tuple[NDArray[np.bool_], int]:
    """Which of some files certainly hold none of the keys, and how many of them have a bloom filter."""
    files = snapshot.take_files(rows).select(["partition", "file_name"])
    result = np.zeros(len(rows), np.bool_)
    filters = table.bloom_filters(files)
    if filters is None:
        return result, 0
    at = {pair: i for i, pair in enumerate(zip(*(files.column(i).to_pylist() for i in range(2)), strict=True))}
    names = [filters.column(name).to_pylist() for name in ("partition", "file_name", "type", "bloom")]
    have = 0
    for partition, name, kind, text in zip(*names, strict=True):
        try:
            bloom = parse_bloom(text, kind, f"the bloom filter of {partition}/{name}")
        except CorruptFileError:  # of a type that is not known: the file stays
            continue
        have += 1
        result[at[partition, name]] = not bloom.may_contain(texts).any()
    return result, have
