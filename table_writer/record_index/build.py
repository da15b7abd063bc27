"""Building the base files of a record index from the table's data, resumable after a crash.

Finished work lies below `.hoodie/.catalog/record_index_build`, in a folder for each layout: runs of keys, and the base
files for each state of the table that was tried. Runs of slices that are still current are used again, whichever
process wrote them, so a restart or a concurrent commit costs only the keys that are new.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from table_format.errors import RecordIndexError
from table_format.instant import instant_epoch_ms
from table_format.metadata_table.record_index_layout import GLOBAL, PARTITION, IndexLayout
from table_format.storage import Storage
from table_format.table.client import TableClient
from table_format.threads import in_threads
from table_format.timeline.timeline import Timeline
from table_writer.execution.executor import Mapper
from table_writer.metadata.index_options import IndexOptions, with_partitions
from table_writer.metadata.key_source import KeyReader, KeySource, portions_by_bytes
from table_writer.plan.path_limits import PathLimits
from table_writer.record_index.group_file import GroupFile, GroupFileWriter, SliceLocations, finished_files
from table_writer.record_index.runs import RunSet, finished_runs, write_run

FOLDER: Final = ".hoodie/.catalog/record_index_build"
_LAYOUT: Final = "layout.json"
_RUNS: Final = "runs"
_COUNTED_AT_ONCE: Final = 64
_FEW_SOURCES: Final = 1000

Progress = Callable[[str], None]
"""Called with each step of a long job, as a few words."""


@dataclass(frozen=True)
class Built:
    """The base files of an index for one state of the table.

    Attributes:
        layout: their file groups.
        files: one for each file group, those without keys included.
        sources: the slices whose keys they hold.
        keys_read: keys that were read from data files for it; the others were found in runs of an earlier attempt.
    """

    layout: IndexLayout
    files: tuple[GroupFile, ...]
    sources: frozenset[str]
    keys_read: int

    @property
    def keys(self) -> int:
        """Keys in the index."""
        return sum(file.rows for file in self.files)

    @property
    def duplicates(self) -> int:
        """Rows of the data whose key another row has, too."""
        return sum(file.duplicates for file in self.files)


class IndexBuild:
    """Builds the base files of a record index of one layout.

    Args:
        client: the table.
        layout: of the new index.
        mapper: runs the tasks.
        progress: called with each step, as a few words.
        options: of the base files; see `IndexFileOptions`.
    """

    def __init__(
        self,
        client: TableClient,
        layout: IndexLayout,
        mapper: Mapper,
        progress: Progress,
        *,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.layout = layout
        self._options = options
        self._client = client
        self._storage = client.storage
        self._mapper = mapper
        self._progress = progress
        self._file_options = IndexOptions.parse(options).files
        self._folder = f"{FOLDER}/{_name(layout)}"

    def start(self) -> None:
        """Store the layout, so that a restart uses the same one.

        Raises:
            RecordError: the file system refuses the file names that a partition's file groups would have.
        """
        limits = PathLimits.of(self._storage)
        if limits is not None and self.layout.scope == PARTITION:
            limits.refuse_long_families(prefix for prefix, _ in self.layout.families)
        self._storage.overwrite(f"{self._folder}/{_LAYOUT}", self.layout.to_json("").encode())

    def run(self, timeline: Timeline, sources: Sequence[KeySource]) -> Built:
        """Build the base files for a state of the table that are not there yet.

        Args:
            timeline: of that state.
            sources: its file slices.

        Raises:
            CorruptFileError: a data file cannot be read.
        """
        self._extend(sources)
        runs, keys_read = self._runs(timeline, sources)
        folder = f"{self._folder}/{_digest(*sorted(source.identity for source in sources))}"
        done = finished_files(self._storage, folder)
        todo = [group for group in range(self.layout.count) if group not in done]
        if todo:
            self._progress(f"sorting {runs.rows:,} keys into {self.layout.count:,} file groups")
            zone = self._client.config.timeline_timezone
            places = SliceLocations.of(sources, [instant_epoch_ms(source.instant, zone) for source in sources])
            writer = GroupFileWriter(self._storage, folder, runs, places, self._file_options)
            done |= {file.group: file for file in self._mapper(writer, todo)}
        files = tuple(done[group] for group in range(self.layout.count))
        return Built(self.layout, files, frozenset(source.identity for source in sources), keys_read)

    def _extend(self, sources: Sequence[KeySource]) -> None:
        """Add file groups for partitions that are new since the build began, after the others."""
        partitions = sorted({source.partition for source in sources})
        extended = with_partitions(self.layout, partitions, self._options)
        if extended != self.layout:
            self.layout = extended
            self.start()

    def _runs(self, timeline: Timeline, sources: Sequence[KeySource]) -> tuple[RunSet, int]:
        """The keys of the slices, read for those that no run holds, and how many were read."""
        folder = f"{self._folder}/{_RUNS}"
        runs = finished_runs(self._storage, folder)
        finished, missing = RunSet.of(runs, sources)
        if not missing:
            return finished, 0
        self._progress(f"reading the keys of {len(missing):,} of {len(sources):,} file slices")
        job = functools.partial(write_run, KeyReader(self._client, timeline), self.layout, self._storage, folder)
        made = self._mapper(job, portions_by_bytes(missing))
        complete, unread = RunSet.of([*runs, *made], sources)
        if unread:
            raise RecordIndexError(f"{unread[0].base or unread[0].file_id}: its keys were not read; run it again")
        return complete, sum(sum(run.rows) for run in made)


def count_keys(client: TableClient, timeline: Timeline, sources: Sequence[KeySource], mapper: Mapper) -> int:
    """Estimate how many keys some slices have, from the row counts of their base files."""
    if len(sources) <= _FEW_SOURCES:
        mapper = in_threads  # faster than starting workers
    parts = [sources[at : at + _COUNTED_AT_ONCE] for at in range(0, len(sources), _COUNTED_AT_ONCE)]
    return sum(mapper(functools.partial(_count, KeyReader(client, timeline)), parts))


def begun_layouts(storage: Storage) -> list[IndexLayout]:
    """Layouts of unfinished builds, newest first."""
    layouts: list[tuple[int, IndexLayout]] = []
    for folder in storage.list(FOLDER):
        entry = storage.entry(posixpath.join(folder.path, _LAYOUT)) if folder.is_dir else None
        if entry is not None:
            with contextlib.suppress(RecordIndexError):  # of another release
                layouts.append((entry.mtime_ms, IndexLayout.from_json(storage.read(entry.path).decode())[0]))
    return [layout for _, layout in sorted(layouts, key=lambda pair: pair[0], reverse=True)]


def clear_builds(storage: Storage) -> None:
    """Delete the files of all builds."""
    storage.delete_dir(FOLDER)


def _count(reader: KeyReader, sources: Sequence[KeySource]) -> int:
    return sum(map(reader.count, sources))


def _name(layout: IndexLayout) -> str:
    """Name of a build's folder; an index by partition keeps it while it gets file groups for more partitions."""
    families = layout.families if layout.scope == GLOBAL else layout.families[:1]
    return _digest(layout.scope, layout.hash_name, *(f"{prefix} {count}" for prefix, count in families))


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:20]
