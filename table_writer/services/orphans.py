"""Orphans: data files in a table's folders that none of its instants knows.

They are left by tasks that outlived their write, by crashes of writers without markers, and by deletions that failed.
Nothing reads them; what is not certain to be such a file is none.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from table_format.actions.commit import CommitMetadata
from table_format.actions.table_services import CleanMetadata
from table_format.codecs.arrow_numpy import one_chunk
from table_format.config import properties
from table_format.instant import WRITE_ACTIONS, Action, State
from table_format.metadata_table.reader import MetadataTable
from table_format.slices.file_names import parse_base_file_names
from table_format.storage import FileEntry, Storage
from table_format.table.client import TableClient
from table_format.timeline.timeline import Timeline
from table_format.timeline.whole import with_archive
from table_writer.services.clean_plan import savepointed_files

_THREADS: Final = 16
_HOODIE: Final = ".hoodie"
_INSIDE: Final = f"/{_HOODIE}/"
_INSTANT: Final = r"^([0-9]{14}|[0-9]{17})\z"


class Reason(Enum):
    """Why a file belongs to nothing."""

    DEAD = "its writer died"
    UNDONE = "its write was rolled back"
    UNCOMMITTED = "the commit of its write does not name it"
    UNKNOWN = "the table has no instant of its time"
    CLEANED = "a clean has deleted it before"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A data file that belongs to nothing.

    Attributes:
        path: relative to the table's base folder.
        size: bytes.
        instant: time of the write that made it.
        reason: see `Reason`.
    """

    path: str
    size: int
    instant: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Search:
    """What a look through a table's folders finds.

    Attributes:
        orphans: by path.
        young: number of files that would be orphans if they were older.
        unclear: number of files of which neither the timeline nor the archive can tell; they stay.
        unlisted: paths of files that a commit names and the metadata table lacks; readers miss their rows.
    """

    orphans: tuple[Orphan, ...] = ()
    young: int = 0
    unclear: int = 0
    unlisted: tuple[str, ...] = ()


def all_base_files(storage: Storage) -> pa.Table:
    """All base files below a table's folder, whatever they belong to; tables inside the table are left out.

    Returns:
        Columns `partition`, `file_name`, `size` (bytes), `changed` (epoch milliseconds), `instant`, and `listed`:
        whether the folder has a partition metadata file, without which no reader looks into it.
    """
    entries = _below(storage)
    inside = [f"{entry.path}/".partition(_INSIDE) for entry in entries]
    own = {f"{folder}/" for folder, mark, _ in inside if mark}
    files = [entry for entry in entries if not entry.is_dir and not (own and entry.path.startswith(tuple(own)))]
    folders = {posixpath.dirname(entry.path) for entry in files if entry.name in properties.PARTITION_METAFILES}
    paths = [posixpath.split(entry.path) for entry in files]
    table = pa.table(
        {
            "partition": pa.array([folder for folder, _ in paths], pa.string()),
            "file_name": pa.array([name for _, name in paths], pa.string()),
            "size": pa.array([entry.size for entry in files], pa.int64()),
            "changed": pa.array([entry.mtime_ms for entry in files], pa.int64()),
            "listed": pa.array([folder in folders for folder, _ in paths], pa.bool_()),
        }
    )
    parts = parse_base_file_names(table["file_name"], ("instant", "extension"))
    table = table.append_column("instant", one_chunk(parts["instant"]))
    is_base_file: Any = pc.and_(
        pc.equal(parts["extension"], "parquet"), pc.match_substring_regex(parts["instant"], _INSTANT)
    )
    return table.filter(pc.fill_null(is_base_file, False))


def find_orphans(
    client: TableClient,
    files: pa.Table,
    *,
    before_ms: float,
    alive: Iterable[str] = (),
    timeline: Timeline | None = None,
) -> Search:
    """Which of some files belong to nothing.

    A file is kept where anything may still need it: its instant is pending, a commit names it (an archived one too), a
    savepoint keeps it, the metadata table lists it, or its instant is older than all that is known.

    Args:
        client: the table.
        files: as `all_base_files` gives them; listed before the timeline is loaded, so that the instants of all are on
            it.
        before_ms: files that changed later, in epoch milliseconds, are too young.
        alive: times of writes whose writers show that they are alive.
        timeline: of the table; None loads it.

    Raises:
        CorruptFileError: a commit, or the archive, is damaged.
    """
    timeline = timeline or client.timeline()
    listing = MetadataTable.open(client, timeline)
    saved = pa.array(sorted(savepointed_files(timeline)), pa.string())
    files = files.filter(pc.invert(pc.is_in(files["file_name"], saved)))
    if listing is not None:
        files = files.filter(pc.invert(pc.is_in(files["file_name"], one_chunk(listing.files()["file_name"]))))
    instants = _Instants(timeline, frozenset(alive), has_listing=listing is not None)
    orphans: list[Orphan] = []
    young = unclear = 0
    unlisted: list[str] = []
    for row, reason in instants.judge(files):
        path = posixpath.join(row["partition"], row["file_name"])
        if reason is _KEPT:
            continue
        if reason is _UNCLEAR:
            unclear += 1
        elif reason is _UNLISTED:
            unlisted.append(path)
        elif row["changed"] > before_ms:
            young += 1
        else:
            orphans.append(Orphan(path, row["size"], row["instant"], Reason(reason)))
    return Search(tuple(sorted(orphans, key=lambda each: each.path)), young, unclear, tuple(sorted(unlisted)))


_KEPT: Final = "kept"
_UNCLEAR: Final = "unclear"
_UNLISTED: Final = "unlisted"


class _Instants:
    """Judges files by the instants of a table.

    Args:
        timeline: of the table.
        alive: times of writes with a live writer.
        has_listing: whether the files to judge are those that the metadata table lacks.
    """

    def __init__(self, timeline: Timeline, alive: frozenset[str], *, has_listing: bool) -> None:
        self._timeline = timeline
        self._has_listing = has_listing
        self._living = alive | {instant.time for instant in timeline.pending}
        self._active = {write.time: write for write in timeline.writes}

    def judge(self, files: pa.Table) -> Iterator[tuple[dict[str, Any], Reason | str]]:
        """Each file with the reason for which it belongs to nothing, or for which it stays."""
        rows = sorted(files.to_pylist(), key=itemgetter("instant"))
        for time, of_instant in itertools.groupby(rows, key=itemgetter("instant")):
            verdict = self._verdict(time)
            names = self._names(time) if verdict is Reason.UNCOMMITTED else None
            for row in of_instant:
                yield row, self._reason(verdict, names, row)

    def _reason(self, verdict: Reason | str, names: frozenset[str] | None, row: dict[str, Any]) -> Reason | str:
        if not row["listed"]:
            # without a partition's metadata file only what surely was a write of this table is its business
            return verdict if verdict is Reason.UNDONE else _KEPT
        if verdict is not Reason.UNCOMMITTED:
            return verdict
        if names is None:
            return _UNCLEAR
        if row["file_name"] not in names:
            return verdict
        if not self._has_listing:
            return _KEPT
        return Reason.CLEANED if row["file_name"] in self._cleaned else _UNLISTED

    def _verdict(self, time: str) -> Reason | str:
        """What holds for all files of an instant; `UNCOMMITTED` for those that its commit does not name."""
        if time in self._living:
            return _KEPT
        # a clustering that was rolled back may have completed later under the same time
        if time in self._active or time in self._archived:
            return Reason.UNCOMMITTED
        if self._whole.is_undone(time):
            return Reason.UNDONE
        if self._oldest is None or time < self._oldest:
            return _UNCLEAR
        if time < (self._timeline.start or "") and not self._has_listing:
            return _UNCLEAR  # readers that list the storage take it for archived
        return Reason.UNKNOWN

    @functools.cached_property
    def _whole(self) -> Timeline:
        return with_archive(self._timeline)

    @functools.cached_property
    def _archived(self) -> dict[str, Any]:
        """Functions that give the metadata of archived commits, by time."""
        return {
            instant.time: content
            for instant, content in self._timeline.archive.files()
            if instant.state is State.COMPLETED and instant.comparable_action in WRITE_ACTIONS
        }

    @functools.cached_property
    def _oldest(self) -> str | None:
        """The oldest write that is known; anything before may have been forgotten."""
        return min([*self._active, *self._archived], default=None)

    def _names(self, time: str) -> frozenset[str] | None:
        """Names of the files of a completed write; None where nothing is kept of it."""
        if time in self._active:
            metadata = self._timeline.commit_metadata(self._active[time])
        else:
            metadata = CommitMetadata.parse(self._archived[time](), f"{self._timeline.history_folder}/{time}")
        names = frozenset(stat.file_name for stat in metadata.stats())
        return names if names or metadata.extra_metadata else None

    @functools.cached_property
    def _cleaned(self) -> frozenset[str]:
        """Names of files that completed cleans have deleted."""
        cleans = [
            CleanMetadata.from_avro(self._timeline.read(instant), self._timeline.path(instant))
            for instant in self._timeline.completed
            if instant.action == Action.CLEAN
        ]
        cleans += [metadata for _, metadata in self._timeline.archive.cleans()]
        return frozenset(
            posixpath.basename(name) for each in cleans for part in each.partitions.values() for name in part.patterns
        )


def _below(storage: Storage) -> list[FileEntry]:
    """Entries below a table's folder, without its `.hoodie`; folders at the top are listed side by side."""
    top = [entry for entry in storage.list() if entry.name != _HOODIE]

    def entries(folder: FileEntry) -> Sequence[FileEntry]:
        return storage.list(folder.path, recursive=True)

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        deeper: Iterable[Sequence[FileEntry]] = pool.map(entries, [entry for entry in top if entry.is_dir])
        return [*top, *(entry for each in deeper for entry in each)]
