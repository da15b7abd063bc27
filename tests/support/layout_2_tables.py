"""Tables of ours turned into ones of timeline layout 2, which Apache's releases from 1.0 on write."""

from __future__ import annotations

import shutil
from pathlib import Path

from table_format.instant import WRITE_ACTIONS, Instant, State
from table_format.storage import Storage
from table_format.table.client import TableClient
from tests.support.history_files import write_history

_FOLDER, _HISTORY = ".hoodie/timeline", ".hoodie/timeline/history"


def to_layout_2(source: Path | str, target: Path, slow: str | None = None) -> dict[str, str]:
    """Copy a table without its metadata table; each instant completes a millisecond after it began.

    Args:
        source: the table, of layout 1.
        target: of the copy.
        slow: an instant that completes after all others instead.

    Returns:
        Completion times of writes by instant.
    """
    shutil.copytree(source, target)
    storage, timeline = Storage(target), TableClient.open(str(source)).timeline()
    archived = {i: content for i, content in timeline.archive.files() if i.state is State.COMPLETED}
    times = [instant.time for instant in (*archived, *timeline.completed)]
    done = {time: str(int(time) + 1) for time in times}
    if slow is not None:
        done[slow] = str(int(max(times)) + 2)
    for instant in timeline.instants:
        data = timeline.read(instant)
        finished = Instant(instant.time, instant.action, instant.state, done[instant.time])
        storage.overwrite(f"{_FOLDER}/{finished.file_name}", data)
    for entry in storage.list(".hoodie"):
        if not entry.is_dir and entry.name != "hoodie.properties":
            storage.delete(entry.path)
    storage.delete_dir(".hoodie/metadata")
    storage.delete_dir(".hoodie/archived")
    if archived:
        contents = {instant.time: (instant.action, content()) for instant, content in archived.items()}
        pairs = [(time, done[time]) for time in sorted(contents)]
        write_history(storage, _HISTORY, pairs, contents=contents)
    properties = target / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith(_DROPPED)]
    properties.write_text("\n".join([*lines, "hoodie.table.version=8", "hoodie.timeline.layout.version=2", ""]))
    writes = {i.time for i in (*archived, *timeline.completed) if i.action in WRITE_ACTIONS}
    return {time: done[time] for time in sorted(writes)}


_DROPPED = (
    "hoodie.table.version",
    "hoodie.timeline.layout.version",
    "hoodie.table.metadata.partitions",
    "hoodie.table.checksum",
    "hoodie.archivelog.folder",
)
