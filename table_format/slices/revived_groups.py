"""File groups that were written to again after they had been replaced.

Once a replacecommit is archived, Apache's readers and writers no longer know of it. Where files that it replaced are
still there, because a savepoint keeps them (`hoodie.archive.beyond.savepoint`), they update and fill up these file
groups as any others. From such a write on the file group counts again: its rows are nowhere else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from table_format.log.reader import read_log_blocks
from table_format.slices.log_slices import group_keys
from table_format.timeline.timeline import Timeline

pc: Any = pyarrow.compute  # its stubs know few of the calls below


def keys_still_replaced(gone: pa.Table, newest: pa.Table, logs: pa.Table, timeline: Timeline, as_of: str | None) -> Any:
    """Keys (`log_slices.group_keys`) of the file groups that are out of the table, without those written to again.

    Args:
        gone: replaced file groups, of `file_slices.REPLACED_SCHEMA`.
        newest: the newest base file of each file group, with `key` and `instant`.
        logs: of `log_slices.LOGS_SCHEMA`.
        timeline: the data table's.
        as_of: instant of the query; None for the newest.
    """
    keys = group_keys(gone["partition"], gone["file_id"])
    active = pa.array([instant.time for instant in timeline.writes], pa.string())
    old = gone.append_column("key", keys).filter(pc.invert(pc.is_in(gone["replaced_at"], active)))
    there = (
        pa.concat_arrays([*newest["key"].chunks, *logs["key"].chunks]) if old.num_rows else pa.array([], pa.string())
    )
    old = old.filter(pc.is_in(old["key"], there))
    if not old.num_rows:
        return keys
    completions = {} if timeline.layout == 1 else timeline.archive.writes
    replaced_at: dict[str, str] = {}
    pairs: Any = zip(old["key"].to_pylist(), old["replaced_at"].to_pylist(), strict=True)
    for key, time in pairs:
        replaced_at[key] = max(replaced_at.get(key, ""), completions.get(time, time))
    revived = _by_names(newest, replaced_at) | _by_names(logs, replaced_at)
    if timeline.layout == 1:
        revived |= _by_blocks(logs, replaced_at, timeline, as_of)
    return keys.filter(pc.invert(pc.is_in(keys, pa.array(sorted(revived), pa.string()))))


def _by_names(rows: pa.Table, replaced_at: dict[str, str]) -> set[str]:
    """File groups with a file whose name holds a later write."""
    rows = rows.filter(pc.is_in(rows["key"], pa.array(list(replaced_at), pa.string())))
    pairs: Any = zip(rows["key"].to_pylist(), rows["instant"].to_pylist(), strict=True)
    return {key for key, instant in pairs if instant > replaced_at[key]}


def _by_blocks(logs: pa.Table, replaced_at: dict[str, str], timeline: Timeline, as_of: str | None) -> set[str]:
    """File groups with a later write in their logs, whose names hold the instant of the base file in layout 1."""
    logs = logs.filter(pc.is_in(logs["key"], pa.array(list(replaced_at), pa.string())))
    found = set()
    for row in logs.to_pylist():
        path = f"{row['partition']}/{row['file_name']}".lstrip("/")
        times = {block.instant or "" for block in read_log_blocks(timeline.storage.read(path), path)}
        later = (time for time in times if time > replaced_at[row["key"]] and (as_of is None or time <= as_of))
        if any(timeline.is_committed(time) for time in later):
            found.add(row["key"])
    return found
