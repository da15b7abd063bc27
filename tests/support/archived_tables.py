"""What must hold of a table whose timeline was archived."""

from __future__ import annotations

from collections import Counter

from catalog import Table
from table_format.metadata_table import layout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.timeline.archive_log import archive_files, read_states
from table_format.timeline.timeline import Timeline
from table_writer.metadata.instants import load_metadata_timeline

SHORT = {
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
METADATA_ARCHIVE = f"{layout.TIMELINE_FOLDER}/archived"


def archived_times(storage: Storage, folder: str = ".hoodie/archived") -> Counter[tuple[str, str]]:
    """Time and action of completed instants in the archive, with how often they are in it."""
    states = [state for file in archive_files(storage, folder) for state in read_states(storage, file.path)]
    return Counter((time, action) for time, action, state in states if state == "COMPLETED")


def check_archive(location: str, commits: list[str]) -> None:
    """All commits are known, each once; the archive holds the oldest; nothing of an archived instant is left over."""
    client = TableClient.open(Storage(location))
    timeline = client.timeline()
    history = [entry.instant for entry in Table.open(location).history() if entry.action.endswith("commit")]
    assert history == commits
    for own, folder in (
        (timeline, ".hoodie/archived"),
        (load_metadata_timeline(client.storage), METADATA_ARCHIVE),
    ):
        old = {time for time, _ in archived_times(client.storage, folder)}
        assert max(old, default="") < (own.start or "~")
        assert not own.pending


def timeline_files(timeline: Timeline) -> int:
    """How many files the folder of a timeline has."""
    return sum(1 for entry in timeline.storage.list(timeline.folder) if not entry.is_dir)
